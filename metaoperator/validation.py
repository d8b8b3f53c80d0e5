"""Template sets, judged without a cluster: all that is wrong with their files, and with what they render."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metaoperator import bundle, sources
from metaoperator.core import grants, lint, names, trial
from metaoperator.core.errors import Problem, TemplateError
from metaoperator.core.finding import Finding, Severity
from metaoperator.core.model import Namespace
from metaoperator.core.render import Program
from metaoperator.core.trial import Layers
from metaoperator.inputs import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Values and namespaces to render with, and where these values stand; `object` is whose they are."""

    layers: Layers = field(default_factory=Layers)
    namespaces: Sequence[Namespace] = trial.SAMPLES
    fleet: Place | None = None
    own: Place | None = None
    object: str = ""


@dataclass(slots=True)
class Judge:
    """Knows every set at hand by its name, and tells each fault of one once."""

    programs: dict[str, tuple[Path, Program]] = field(default_factory=dict)
    broken: dict[str, Path] = field(default_factory=dict)
    _told: dict[str, set[tuple[Any, ...]]] = field(default_factory=dict)

    def load(self, folder: Path) -> Iterator[Finding]:
        """Load one set: all that is wrong with its files."""
        name = folder.resolve().name
        there = self.programs[name][0] if name in self.programs else self.broken.get(name)
        if there is not None and there.resolve() != folder.resolve():
            what = f"is used in place of {there}, which has the same name"
            yield Finding(file=str(folder), what=what, cure="or give one a new name", severity=Severity.WARNING)
        try:
            program = sources.compiled(folder.resolve())
        except TemplateError as exc:
            self.programs.pop(name, None)
            self.broken[name] = folder
            yield from (_finding(problem, folder) for problem in exc.problems)
            return
        self.broken.pop(name, None)
        self.programs[name] = folder, program

    def promises(self, name: str) -> Iterator[Finding]:
        """Hold what a set says of itself against its own files."""
        folder, program = self.programs[name]
        yield from (_finding(problem, folder) for problem in trial.promises(program.template_set))
        for problem in (*trial.idle_kinds(program.template_set), *lint.lint(program.template_set)):
            yield dataclasses.replace(_finding(problem, folder), severity=Severity.WARNING)
        for kind in program.unchecked:
            yield Finding(
                file=str(folder / sources.ABOUT),
                what=f"not checked against a schema: {kind}",
                cure="its fields are known to the cluster alone: metaoperator diff asks it",
                severity=Severity.NOTE,
            )

    def rights(self, name: str) -> Iterator[Finding]:
        """Note what an administrator has to grant the operator before it can keep what a set renders."""
        folder, program = self.programs[name]
        desired, _ = trial.run(program, trial.ORDINARY, Layers())
        documents = () if desired is None else desired.documents
        if missing := grants.lacking(program.template_set.kinds, documents, bundle.operators_rights()):
            who = f"ServiceAccount {names.OPERATOR_NAMESPACE}/{names.OPERATOR_NAMESPACE}"
            yield Finding(
                file=str(folder / sources.ABOUT),
                what=f"the operator is not installed with the rights that this set needs: {grants.as_rules(missing)}",
                cure=f"an administrator binds a ClusterRole with these rules to {who}",
                severity=Severity.NOTE,
            )

    def try_out(self, name: str, cases: Iterable[Case]) -> Iterator[Finding]:
        """Render a set for the namespaces of each case; the same fault is told for the first of them only."""
        folder, program = self.programs[name]
        told = self._told.setdefault(name, set())
        for case in cases:
            for namespace in case.namespaces:
                _, problems = trial.run(program, namespace, case.layers)
                found = [_placed(problem, namespace, case, folder) for problem in problems]
                yield from (each for each in found if each.place not in told)
                told |= {each.place for each in found}


def _finding(problem: Problem, folder: Path) -> Finding:
    """Tell the file as the set was named: the problem's own is relative to it, or to where the set stands."""
    whole, where = folder.resolve(), Path(problem.where)
    for above in (whole, Path(whole.name)):
        if where.is_relative_to(above):
            where = where.relative_to(above)
    return Finding(
        file=str(folder / where),
        line=problem.line,
        path=getattr(problem, "path", ""),
        what=problem.what,
        cure=problem.cure,
    )


def _placed(problem: Problem, namespace: Namespace, case: Case, folder: Path) -> Finding:
    """Say for whom it went wrong; a fault of values is one of the file in which they stand."""
    about = case.object or ("" if namespace == trial.ORDINARY else f"namespace {namespace.name}")
    finding = dataclasses.replace(_finding(problem, folder), object=about)
    if problem.where.endswith(".j2") or "/" in problem.where:
        return finding
    file, line = _of_values(problem, case, folder)
    return dataclasses.replace(finding, file=file, line=line, path=finding.path or problem.where)


def _of_values(problem: Problem, case: Case, folder: Path) -> tuple[str, int | None]:
    """Find the uppermost layer that sets a value, and the line there."""
    steps = problem.where.split(".")[1:] if problem.where.startswith("values.") else []
    layers = [(case.own, case.layers.own), (case.fleet, case.layers.fleet)]
    if problem.where.startswith("ControllerTemplate"):
        layers.reverse()
    for place, values in layers:
        if place is not None and (not steps or _sets(values, steps)):
            return str(place.file), place.below(*steps).line
    defaults = folder / "values.yaml"
    return str(defaults), Place(file=defaults, text=sources.text_of(defaults), steps=tuple(steps)).line


def _sets(values: Mapping[str, Any], steps: Sequence[str]) -> bool:
    """Tell whether a layer says anything about a value: sets it, or all that it is in."""
    below: Any = values
    for step in steps:
        if not isinstance(below, Mapping):
            return True
        if step not in below:
            return False
        below = below[step]
    return True
