"""What the paths given to `validate` are: template sets, values, or manifests. Nothing is judged here but that.

A folder with `template.yaml` or a `*.j2` is a set, and so is each folder beside one; a file of a set stands for its
set, as a commit hook names it. A YAML file whose documents have `apiVersion` and `kind` holds manifests; one with
neither holds values, as in a ControllerTemplate's `spec.values`. Other folders are looked through, hidden ones and
links to folders left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from metaoperator import sources
from metaoperator.core import strictyaml
from metaoperator.core.errors import TemplateError
from metaoperator.core.finding import Finding

_YAML: Final = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a value stands: a file, its text, which document of it, and the steps that lead to the value."""

    file: Path
    text: str
    index: int = 0
    steps: tuple[str, ...] = ()

    def below(self, *steps: str) -> "Place":
        """Go down."""
        return Place(file=self.file, text=self.text, index=self.index, steps=(*self.steps, *steps))

    @property
    def line(self) -> int | None:
        """Find the line; where the value is not there, that of what it would be in."""
        return strictyaml.line_of(self.text, self.steps, self.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One manifest, and its place."""

    body: Mapping[str, Any]
    place: Place


@dataclass(slots=True)
class Inputs:
    """All that was found, in order, each once."""

    sets: list[Path] = field(default_factory=list)
    values: list[Document] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def read(paths: Sequence[Path]) -> Inputs:
    """Look at every path; what is nothing of ours is a finding where it was named, and passed by where it was found."""
    found = Inputs()
    for path in paths:
        before = len(found.sets) + len(found.values) + len(found.documents) + len(found.findings)
        known = set(found.sets)
        for file in _files(path, found):
            _read_file(file, found, named=file == path)
        after = len(found.sets) + len(found.values) + len(found.documents) + len(found.findings)
        if before == after and not (known and path.is_dir() and any(path in (each, *each.parents) for each in known)):
            what = "holds neither template sets nor manifests"
            found.findings.append(Finding(file=str(path), what=what, cure="name a set, a folder of sets or manifests"))
    found.sets = list(dict.fromkeys(found.sets))
    return found


def _files(path: Path, found: Inputs) -> Iterator[Path]:
    """Walk a path; sets are noted on the way, and not entered."""
    if not path.is_dir():
        if (home := _home(path)) is not None:
            found.sets.append(home)
        else:
            yield path
        return
    if is_set(path):
        found.sets.append(path)
        return
    try:
        below = sorted(each for each in path.iterdir() if not each.name.startswith("."))
    except OSError as exc:
        found.findings.append(Finding(file=str(path), what=f"cannot be read: {exc.strerror}"))
        return
    folders = [each for each in below if each.is_dir()]
    if any(map(is_set, folders)):
        found.sets += folders
    else:
        for folder in folders:
            if not folder.is_symlink():
                yield from _files(folder, found)
    yield from (each for each in below if each.suffix in _YAML and each.is_file())


def is_set(folder: Path) -> bool:
    """Tell whether a folder is, or is meant to be, a template set."""
    try:
        return any(each.name == sources.ABOUT or each.name.endswith(".j2") for each in folder.iterdir())
    except OSError:
        return False


def _home(file: Path) -> Path | None:
    """Find the set that a file is part of."""
    return file.parent if sources.is_part(file.name) and is_set(file.parent) else None


def _read_file(file: Path, found: Inputs, *, named: bool) -> None:
    try:
        text = sources.text_of(file)
        bodies = strictyaml.documents(text)
    except TemplateError as exc:
        found.findings += [Finding(file=each.where, what=each.what, cure=each.cure) for each in exc.problems]
        return
    except strictyaml.StrictYamlError as exc:
        # Somebody else's YAML, found on the way, may have anchors and tags: it is none of ours.
        if named or "metaoperator" in text:
            found.findings.append(Finding(file=str(file), line=exc.line, what=exc.what))
        return
    manifests = [each for each in bodies if isinstance(each, dict) and "apiVersion" in each and "kind" in each]
    for index, body in enumerate(bodies):
        if body in manifests:
            found.documents += _documents(body, Place(file=file, text=text, index=index))
    if named and not manifests:
        if len(bodies) == 1 and isinstance(bodies[0], dict):
            found.values.append(Document(body=bodies[0], place=Place(file=file, text=text)))
        else:
            found.findings.append(Finding(file=str(file), what="holds neither manifests nor one mapping of values"))


def _documents(body: Mapping[str, Any], place: Place) -> Iterator[Document]:
    items = body.get("items")
    if str(body["kind"]).endswith("List") and isinstance(items, list):
        for number, item in enumerate(items):
            if isinstance(item, dict):
                yield Document(body=item, place=place.below("items", str(number)))
    else:
        yield Document(body=body, place=place)
