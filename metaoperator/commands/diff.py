"""`metaoperator diff`: what would change in the cluster if the operator applied these sets and values now."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from metaoperator import preview, sources
from metaoperator.commands import asking, options, tables, telling
from metaoperator.core import unified
from metaoperator.core.errors import ConfigError, MetaoperatorError
from metaoperator.pretence import Assumed
from metaoperator.preview import Change, Preview
from metaoperator.rehearsal import Rehearsal
from metaoperator.settings import Settings


@click.command("diff")
@click.argument("namespaces", nargs=-1, metavar="[NAMESPACE]...", type=options.NAMESPACE)
@click.option("--all", "everywhere", is_flag=True, help="Every namespace that is opted in.")
@options.kubeconfig
@options.templates
@click.option("--fleet-values", type=options.FILE, help="Take these for the ControllerTemplate's spec.values.")
@click.option("--values", type=options.FILE, help="Take these for the WorkflowController's spec.values.")
@click.option("--adopt", is_flag=True, help="Show what taking over a hand-made install (spec.adopt) would change.")
@options.operator_namespace
@options.deny
@click.option("-o", "--output", type=click.Choice(["diff", "json"]), default="diff", show_default=True)
def command(
    *,
    namespaces: Sequence[str],
    everywhere: bool,
    kubeconfig: str | None,
    templates: Sequence[Path],
    fleet_values: Path | None,
    values: Path | None,
    adopt: bool,
    operator_namespace: str,
    deny: Sequence[str],
    output: str,
) -> int:
    """Show what would change if the operator applied the sets at hand and the cluster's values now.

    Nothing is written: the API server is asked by dry-run. Whoever lacks the right to that gets the comparison of
    values, and is told. For a NAMESPACE that is not opted in: what opting in would create.

    Exit code 0 if nothing differs, 1 if anything does, is in conflict or waits for a person.
    """
    if everywhere == bool(namespaces):
        raise ConfigError("name the namespaces to look at, or give --all, not both")
    assumed = Assumed(
        programs=sources.programs((sources.shipped(), *templates)),
        fleet_values=sources.values_file(fleet_values) if fleet_values else None,
        values=sources.values_file(values) if values else None,
        adopt=adopt,
    )
    settings = Settings(kubeconfig=kubeconfig, namespace=operator_namespace, deny=frozenset(deny))

    async def ask(cluster: Rehearsal) -> list[Preview | MetaoperatorError]:
        wanted = await preview.served(cluster) if everywhere else sorted(set(namespaces))
        return await preview.each(cluster, wanted, assumed, settings)

    answers = asking.run(lambda: Rehearsal(kubeconfig=kubeconfig), ask)
    found = [each for each in answers if isinstance(each, Preview)]
    failed = [each for each in answers if isinstance(each, MetaoperatorError)]
    if failed and not found:
        raise _together(failed)
    if output == "json":
        tables.show_json([as_json(each) for each in found])
    else:
        click.echo("".join(text(each) for each in found) or "# no namespace is opted in\n", nl=False)
    if failed:
        raise _together(failed)
    return 0 if all(each.settled for each in found) else telling.NO


def _together(failed: Sequence[MetaoperatorError]) -> MetaoperatorError:
    """Tell of each namespace that could not be looked at; the last word, and the exit code, are the first one's."""
    told = list(dict.fromkeys(telling.printable(str(each)) for each in failed))
    for each in told[1:]:
        click.echo(f"error: {each}", err=True)
    return failed[0]


def text(found: Preview) -> str:
    """Write one namespace: the diffs of its objects, then what was found out, in comments and in one line."""
    lines = [_diff(change) for change in found.changes]
    lines += [f"# {found.namespace}: {telling.printable(note)}\n" for note in (*found.notes, found.stalled) if note]
    for change in found.changes:
        if change.what not in {"created", "unchanged"} and change.why:
            lines.append(f"# {change.ref}: {change.what}: {telling.printable(change.why)}\n")
        if change.write is not None and not change.write.asked:
            lines.append(f"# {change.ref}: compared by value only, for you may not write it\n")
    counts = Counter(change.what for change in found.changes)
    return "".join([*lines, f"# {found.namespace}: {', '.join(f'{n} {what}' for what, n in counts.items()) or '-'}\n"])


def _diff(change: Change) -> str:
    return "" if change.write is None else unified.diff(change.ref, change.write.before, change.write.after)


def as_json(found: Preview) -> dict[str, Any]:
    """Tell one namespace to a program."""
    return {
        "namespace": found.namespace,
        "settled": found.settled,
        "stalled": found.stalled,
        "notes": list(found.notes),
        "objects": [
            {
                "apiVersion": change.ref.kind.api_version,
                "kind": change.ref.kind.kind,
                "name": change.ref.name,
                "change": change.what,
                "why": change.why,
                "asked": change.write is None or change.write.asked,
                "diff": _diff(change),
            }
            for change in found.changes
        ],
    }
