"""`metaoperator validate`: every fault of template sets, values and manifests at once, without a cluster."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from metaoperator import inputs, sources
from metaoperator.commands import options, tables, telling
from metaoperator.core import finding
from metaoperator.core.errors import ConfigError, TemplateError
from metaoperator.core.finding import Finding, Severity
from metaoperator.core.trial import Layers
from metaoperator.declared import Declared
from metaoperator.inputs import Document, Inputs, Place
from metaoperator.validation import Case, Judge

_PATH = click.Path(exists=True, path_type=Path)


@click.command("validate")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=_PATH)
@options.templates
@click.option("--set", "set_name", help="The set that values belong to, where PATH does not say which.")
@click.option("--fleet-values", multiple=True, type=options.FILE, help="Values as in a ControllerTemplate; repeatable.")
@click.option("--values", multiple=True, type=options.FILE, help="Values as in a WorkflowController; repeatable.")
@click.option("--strict", is_flag=True, help="Warnings fail too.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    *,
    paths: Sequence[Path],
    templates: Sequence[Path],
    set_name: str | None,
    fleet_values: Sequence[Path],
    values: Sequence[Path],
    strict: bool,
    output: str,
) -> int:
    """Find every fault of template sets, values and manifests; no cluster is needed.

    A PATH is a template set or a file of one, a folder of sets, a file of values (as in a ControllerTemplate's
    spec.values), or a file or folder of manifests (ControllerTemplate, WorkflowController, Namespace). Without any, the
    shipped sets and those of --templates are looked at.

    With -o json: a list of objects with file, line, object, path, what, cure and severity (error, warning, note).
    """
    judge = Judge()
    given = inputs.read(paths)
    found = finding.ordered(_findings(judge, given, paths, templates, set_name, fleet_values, values))
    if output == "json":
        tables.show_json([finding.as_json(each) for each in found])
    else:
        click.echo("".join(f"{telling.printable(str(each))}\n" for each in found), nl=False)
        counts = Counter(str(each.severity) for each in found)
        told = ", ".join(f"{counts[each]} {each}{'s' if counts[each] > 1 else ''}" for each in Severity if counts[each])
        click.echo(f"{len(judge.programs) + len(judge.broken)} template sets at hand: {told or 'nothing is amiss'}")
    failing = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return telling.NO if any(each.severity in failing for each in found) else 0


def _findings(
    judge: Judge,
    given: Inputs,
    paths: Sequence[Path],
    templates: Sequence[Path],
    set_name: str | None,
    fleet_values: Sequence[Path],
    values: Sequence[Path],
) -> Iterator[Finding]:
    yield from given.findings
    background, wrong = _folders((sources.shipped(), *templates))
    yield from wrong
    judged: list[str] = []
    for folder in (*background, *given.sets):
        loading = list(judge.load(folder))
        if folder in given.sets or not paths:
            yield from loading
            judged.append(folder.resolve().name)
    judged = [name for name in dict.fromkeys(judged) if name in judge.programs]
    for name in judged:
        yield from judge.promises(name)
        yield from judge.rights(name)
        yield from judge.try_out(name, [Case()])
    yield from _of_values(judge, given, judged, set_name, _read(fleet_values), _read(values))
    declared = Declared(judge)
    declared.read(given.documents)
    yield from declared.judged()


def _folders(directories: Sequence[Path]) -> tuple[list[Path], list[Finding]]:
    folders: list[Path] = []
    wrong: list[Finding] = []
    for directory in directories:
        try:
            folders += sources.folders(directory)
        except TemplateError as exc:
            wrong += [Finding(file=each.where, what=each.what, cure=each.cure) for each in exc.problems]
    return folders, wrong


def _read(files: Sequence[Path]) -> list[Document]:
    return [
        Document(body=sources.values_file(file), place=Place(file=file, text=sources.text_of(file))) for file in files
    ]


def _of_values(
    judge: Judge,
    given: Inputs,
    judged: Sequence[str],
    set_name: str | None,
    fleet: Sequence[Document],
    own: Sequence[Document],
) -> Iterator[Finding]:
    """Try every fleet's values alone and with every namespace's."""
    fleets: list[Document | None] = [None, *given.values, *fleet]
    owns: list[Document | None] = [None, *own]
    pairs = [(above, below) for above in fleets for below in owns if above or below]
    if not pairs:
        return
    name = set_name or (judged[0] if len(judged) == 1 else sources.DEFAULT_SET)
    if name not in judge.programs:
        if name in judge.broken:
            return  # why is told already
        raise ConfigError(f"no template set {name}; there are: {', '.join(sorted(judge.programs)) or 'none'}")
    for above, below in pairs:
        layers = Layers(fleet=above.body if above else {}, own=below.body if below else {})
        case = Case(layers=layers, fleet=above.place if above else None, own=below.place if below else None)
        yield from judge.try_out(name, [case])
