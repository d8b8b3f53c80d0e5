"""`metaoperator diff`: what would change in the cluster if the operator applied these sets and values now."""

import gc
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from metaoperator import outlook, preview, sources
from metaoperator.commands import asking, forecast, options, tables, telling
from metaoperator.core import unified
from metaoperator.core.errors import ConfigError, MetaoperatorError
from metaoperator.pretence import Assumed
from metaoperator.preview import Change, Preview
from metaoperator.rehearsal import Rehearsal
from metaoperator.settings import Settings


@click.command("diff")
@click.argument("namespaces", nargs=-1, metavar="[NAMESPACE]...", type=options.NAMESPACE)
@click.option("--all", "everywhere", is_flag=True, help="Every namespace that is opted in.")
@click.option("--fleet", is_flag=True, help="Every namespace that is opted in, equal changes told once.")
@options.kubeconfig
@options.templates
@click.option("--fleet-values", type=options.FILE, help="Take these for the ControllerTemplate's spec.values.")
@click.option("--values", type=options.FILE, help="Take these for the WorkflowController's spec.values.")
@click.option(
    "--controller-template",
    "manifests",
    multiple=True,
    type=options.FILE,
    help="Take ControllerTemplates from this manifest, as from git; repeatable.",
)
@click.option(
    "--set",
    "chosen",
    multiple=True,
    metavar="TEMPLATE=SET",
    help="Take this set for a ControllerTemplate, whatever source it names; repeatable.",
)
@click.option("--adopt", is_flag=True, help="Show what taking over a hand-made install (spec.adopt) would change.")
@options.operator_namespace
@options.deny
@click.option("--exit-code", is_flag=True, help="With --fleet: exit code 1 where anything changes or is amiss.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["diff", "text", "json", "markdown"]),
    help="diff (the default) or json; with --fleet text (the default), json or markdown.",
)
def command(
    *,
    namespaces: Sequence[str],
    everywhere: bool,
    fleet: bool,
    kubeconfig: str | None,
    templates: Sequence[Path],
    fleet_values: Path | None,
    values: Path | None,
    manifests: Sequence[Path],
    chosen: Sequence[str],
    adopt: bool,
    operator_namespace: str,
    deny: Sequence[str],
    exit_code: bool,
    output: str | None,
) -> int:
    """Show what would change if the operator applied the sets at hand and the cluster's values now.

    Nothing is written: the API server is asked by dry-run. Whoever lacks the right to that gets the comparison of
    values, and is told. For a NAMESPACE that is not opted in: what opting in would create.

    Exit code 0 if nothing differs, 1 if anything does, is in conflict or waits for a person.

    With --fleet, for a review of a change: how many namespaces change and how, how many controllers restart, what gains
    rights, what is deleted, what Argo's versions need. Exit code 0 unless --exit-code is given.
    """
    if everywhere + fleet + bool(namespaces) != 1:
        raise ConfigError("name the namespaces to look at, or give --all or --fleet: one of the three")
    _fit(fleet=fleet, output=output, exit_code=exit_code, of_one={"--values": values, "--adopt": adopt})
    assumed = Assumed(
        programs=sources.programs((sources.shipped(), *templates)),
        templates=options.controller_templates(manifests),
        sets=options.pairs(chosen, "--set", "TEMPLATE=SET"),
        fleet_values=sources.values_file(fleet_values) if fleet_values else None,
        values=sources.values_file(values) if values else None,
        adopt=adopt,
    )
    settings = Settings(kubeconfig=kubeconfig, namespace=operator_namespace, deny=frozenset(deny))
    if fleet:
        return _of_fleet(assumed, settings, output or "text", exit_code=exit_code)

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


def _fit(*, fleet: bool, output: str | None, exit_code: bool, of_one: Mapping[str, object]) -> None:
    """Refuse options that do not go together."""
    if fleet and (wrong := [name for name, given in of_one.items() if given]):
        raise ConfigError(f"{wrong[0]} is for namespaces that are named, and --fleet looks at all of them")
    if exit_code and not fleet:
        raise ConfigError("--exit-code goes with --fleet: without it diff answers with its exit code in any case")
    if output in ({"diff"} if fleet else {"text", "markdown"}):
        raise ConfigError(f"-o {output} goes {'without' if fleet else 'with'} --fleet")


def _of_fleet(assumed: Assumed, settings: Settings, output: str, *, exit_code: bool) -> int:
    gc.enable()  # other commands end before there is anything to collect; each namespace leaves its round of objects
    found = asking.run(
        lambda: Rehearsal(kubeconfig=settings.kubeconfig), lambda cluster: outlook.of(cluster, assumed, settings)
    )
    failed = list(found.failed.values())
    if failed and not found.groups:
        raise _together(failed)
    match output:
        case "json":
            tables.show_json(forecast.as_json(found))
        case "markdown":
            click.echo(forecast.markdown(found), nl=False)
        case _:
            click.echo(forecast.text(found), nl=False)
    if failed:
        raise _together(failed)
    return telling.NO if exit_code and not found.settled else 0


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
