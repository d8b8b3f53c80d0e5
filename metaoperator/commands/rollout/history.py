"""`metaoperator rollout history`: the set revisions that are recorded, and what one of them was made of."""

import difflib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click
import yaml

from metaoperator.cluster import Cluster
from metaoperator.commands import asking, options, tables, telling
from metaoperator.commands.rollout import facts
from metaoperator.commands.rollout.facts import Books, Refused
from metaoperator.core import recorded, shapes
from metaoperator.core.errors import ConfigError
from metaoperator.core.model import CONTROLLER_REVISION, Ref
from metaoperator.core.revision import SetHead

VALUES = "values of the ControllerTemplate"


@click.command("history")
@facts.template_argument
@click.option("--revision", help="Show what this one was made of: the set's files, and the fleet's values.")
@click.option("--diff", "compare", is_flag=True, help="With --revision: only what differs from the one before.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@options.operator_namespace
@options.kubeconfig
def command(
    *,
    template: str,
    revision: str | None,
    compare: bool,
    output: str,
    operator_namespace: str,
    kubeconfig: str | None,
) -> int:
    """Show the set revisions that are recorded, the newest first.

    NAMESPACES counts whom a revision was written to: where a newer one renders the same, nothing is written.
    """
    if compare and revision is None:
        raise ConfigError("--diff belongs to --revision")

    async def ask(cluster: Cluster) -> tuple[list[dict[str, Any]], dict[str, dict[str, str]]]:
        await facts.find(cluster, template)
        books = await facts.books(cluster, operator_namespace, template)
        wanted = [] if revision is None else _pair(books, template, revision, compare=compare)
        contents = {each.set_revision: await _content(cluster, operator_namespace, each) for each in wanted}
        return rows(books), contents

    found, contents = asking.reading(kubeconfig, ask)
    if revision is not None:
        head = next(row for row in found if row["revision"] == revision)
        if output == "json":
            tables.show_json({**head, "files": contents[revision]})
        else:
            click.echo(_shown(revision, contents, compare=compare), nl=False)
    elif output == "json":
        tables.show_json(found)
    elif not found:
        click.echo(f"nothing is recorded of ControllerTemplate/{template} in namespace {operator_namespace}")
    else:
        click.echo(tables.text([_columns(row) for row in found]), nl=False)
    return 0


def rows(books: Books) -> list[dict[str, Any]]:
    """List what is recorded of each set revision, the newest first."""
    return [
        {
            "number": each.number,
            "revision": each.set_revision,
            "since": shapes.stamp(each.since),
            "stable": _stamp(each.stable),
            "failed": _stamp(each.failed),
            "why": each.why,
            "namespaces": sum(head.set_revision == each.set_revision for head in books.heads),
        }
        for each in books.sets.values()
    ]


def _stamp(moment: datetime | None) -> str:
    return "" if moment is None else shapes.stamp(moment)


def _columns(row: Mapping[str, Any]) -> dict[str, str]:
    return {key.upper(): str(row[key]) for key in (*(key for key in row if key != "why"), "why")}


def _pair(books: Books, template: str, revision: str, *, compare: bool) -> list[SetHead]:
    """Find the one that is asked for, and the one before it where they are compared."""
    head = books.recorded(template, revision)
    earlier = [each for each in books.sets.values() if each.number < head.number]
    if compare and not earlier:
        raise Refused(f"no revision before {revision} of ControllerTemplate/{template} is recorded")
    return [head, *earlier[:1]] if compare else [head]


async def _content(cluster: Cluster, home: str, head: SetHead) -> dict[str, str]:
    """Read the files of a set, and the fleet's values as one more."""
    live = await cluster.get(Ref(CONTROLLER_REVISION, home, head.name))
    parts, why = recorded.set_parts(head, (live or {}).get("data"))
    if parts is None:
        raise Refused(why)
    _, files, values = parts
    return {**dict(sorted(files.items())), VALUES: yaml.safe_dump(dict(values), sort_keys=True)}


def _shown(revision: str, contents: Mapping[str, Mapping[str, str]], *, compare: bool) -> str:
    if not compare:
        return "".join(f"# ---- {name}\n{_ended(text)}" for name, text in contents[revision].items())
    newer, (before,) = contents[revision], [each for each in contents if each != revision]
    older = contents[before]
    lines: list[str] = []
    for name in sorted({*older, *newer}):
        was, became = (_ended(side.get(name, "")).splitlines(keepends=True) for side in (older, newer))
        lines += difflib.unified_diff(was, became, f"{before}/{name}", f"{revision}/{name}")
    return "".join(lines) or f"{revision} has the files and values of {before}: another version renders them\n"


def _ended(text: str) -> str:
    text = telling.printable(text)
    return text if not text or text.endswith("\n") else f"{text}\n"
