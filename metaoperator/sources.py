"""Template sets read from directories, or from the texts of their files: the only place where these are opened."""

import functools
import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

from metaoperator import kept, renderer
from metaoperator.core import breadth, kubernetes, packing, strictyaml, values, versions
from metaoperator.core.errors import Problem, TemplateError
from metaoperator.core.model import SECRET, Kind, Relation, TemplateSet
from metaoperator.core.render import Program

DEFAULT_SET: Final = "workflow-controller"
ABOUT: Final = "template.yaml"
_ABOUT_KEYS: Final = frozenset({"description", "kinds", "namespaceValues", "argoVersions", "relations"})
DATA_FILES: Final = (ABOUT, "values.yaml", "values.schema.json")
_SCHEMA_SUFFIX: Final = ".schema.json"
"""Of further schemas, which values.schema.json may point into by their `$id`."""
MAX_RELATIONS: Final = 100
MAX_FILE_BYTES: Final = 1_500_000
"""What etcd takes of one object: a file that is longer is no template and no values."""


NOTHING: Final = "until then nothing is created, changed or removed"
"""What a source that cannot be used means to the children that came of it."""
_KUBERNETES: Final = Path(__file__).parent / "kubernetes"
"""What Kubernetes says of its own kinds: written by `tests/schemas`, held to a real API server by contract tests."""


def shipped() -> Path:
    """Find the sets that travel with the package: inside the wheel, or beside the package in a checkout."""
    here = Path(__file__).parent
    wheel = here / "shipped" / "templates"
    return wheel if wheel.is_dir() else here.parent / "templates"


def programs(directories: Iterable[Path], *, keep: bool = False) -> dict[str, Program | TemplateError]:
    """Load every set below the directories; a later directory's set replaces an earlier one's of that name.

    With `keep`, what the shipped ones are compiled to is kept from one process to the next.

    A set at fault stands as its error, and so does a folder that is no set: one bad set keeps no other from being
    used, and nothing that somebody put there is passed by in silence.
    """
    found: dict[str, Program | TemplateError] = {}
    for directory in directories:
        try:
            found |= {
                folder.name: program(folder, keep=keep and directory == shipped()) for folder in folders(directory)
            }
        except TemplateError as exc:
            found[directory.name] = exc
    return found


def program(folder: Path, *, keep: bool = False) -> Program | TemplateError:
    """Load and compile one set."""
    try:
        return compiled(folder, keep=keep)
    except TemplateError as exc:
        return exc


def compiled(folder: Path, *, keep: bool = False) -> Program:
    """Load and compile one set; `TemplateError` tells what is wrong with its data files, or else with its templates."""
    whole, check = _read(folder)
    if not keep:
        return Program(whole, check=check, identity=renderer.identity)
    with kept.codes(whole) as codes:
        return Program(whole, check=check, codes=codes, identity=renderer.identity)


def from_texts(name: str, texts: Mapping[str, str], *, trusted: bool = False) -> Program:
    """Compile the set that these files are, by their names; any that is no part of a set is passed by.

    `TemplateError` tells everything that is wrong with its data files at once, or else with its templates. Of a set
    that is `trusted` it is known that its schema takes no longer to check than it should.
    """
    parts = {file: text for file, text in sorted(texts.items()) if is_part(file)}
    whole, check = _understood(name, parts, trusted=trusted)
    return Program(whole, check=check, identity=renderer.identity)


def folders(directory: Path) -> list[Path]:
    """List the folders of a directory of sets, hidden ones left out; `TemplateError` for one that can hold none."""
    try:
        below = sorted(path for path in directory.iterdir() if not path.name.startswith(".") and _is_folder(path))
    except OSError as exc:
        raise TemplateError([Problem(where=str(directory), what=f"cannot be read: {exc.strerror}")]) from exc
    if (directory / ABOUT).is_file():
        cure = f"give the directory above: {directory.absolute().parent}"
        raise TemplateError(
            [Problem(where=str(directory), what="is a template set, not a directory of sets", cure=cure)]
        )
    return below


def _is_folder(path: Path) -> bool:
    """Tell whether it is a folder, or a link of a set's name that leads nowhere: nothing is passed by in silence."""
    return path.is_dir() or (path.is_symlink() and not path.exists() and "." not in path.name)


def text_of(path: Path, *, shown: Path | None = None) -> str:
    """Read a file of people's; `TemplateError` for one that is no text, cannot be read, or is far too long.

    `shown` is how the person calls it, if otherwise.
    """
    where = str(shown or path)
    try:
        if shown is not None and not path.is_file():  # a pipe would be waited for
            what = "cannot be read: it is no file, or a link that leads to none"
            raise TemplateError([Problem(where=where, what=what)])
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            what = f"is longer than {MAX_FILE_BYTES} bytes"
            raise TemplateError([Problem(where=where, what=what, cure="no object in a cluster can be as long")])
        return content.decode()
    except UnicodeDecodeError as exc:
        what = f"cannot be read: byte {exc.start + 1} is not UTF-8"
        raise TemplateError([Problem(where=where, what=what, cure="save it as UTF-8")]) from exc
    except OSError as exc:
        raise TemplateError([Problem(where=where, what=f"cannot be read: {exc.strerror}")]) from exc


def is_part(name: str) -> bool:
    """Tell whether a file of this name is read as part of a set."""
    return name in DATA_FILES or name.endswith((".j2", _SCHEMA_SUFFIX))


def home(folder: Path) -> Path:
    """Find where the files of a set really are, links followed once for all of them; `OSError` where that is nowhere.

    A kubelet and git-sync exchange a whole set by one link: whoever follows it file by file may read two versions.
    """
    found = Path(os.path.realpath(folder, strict=True))
    data = found / "..data"  # the kubelet's own, where a ConfigMap is mounted
    return Path(os.path.realpath(data, strict=True)) if data.is_symlink() else found


def parts(folder: Path) -> list[Path]:
    """List the files that are part of a set, sorted; `OSError` for a folder that cannot be read."""
    return sorted(path for path in folder.iterdir() if is_part(path.name))


def texts(folder: Path) -> dict[str, str]:
    """Read every file of a set, or raise all that cannot be read."""
    found: dict[str, str] = {}
    problems: list[Problem] = []
    try:
        paths = parts(home(folder))
    except OSError as exc:
        raise TemplateError([Problem(where=str(folder), what=f"cannot be read: {exc.strerror}")]) from exc
    if not any(path.name == ABOUT for path in paths):
        cure = f"each folder is a set, with {', '.join(DATA_FILES)} and one *.yaml.j2 per object; put others elsewhere"
        raise TemplateError([Problem(where=f"{folder.name}/{ABOUT}", what="is missing", cure=cure)])
    for path in paths:
        try:
            found[path.name] = text_of(path, shown=folder / path.name)
        except TemplateError as exc:
            problems += exc.problems
    if problems:
        raise TemplateError(problems)
    return found


def template_set(folder: Path) -> TemplateSet:
    """Read one set; `TemplateError` tells everything that is wrong with its data files at once."""
    return _read(folder)[0]


def _read(folder: Path) -> tuple[TemplateSet, jsonschema_rs.Validator]:
    # As long as compiling it: of ours, a test knows the answer.
    trusted = folder.parent.resolve() == shipped().resolve()
    return _understood(folder.name, texts(folder), trusted=trusted)


def _understood(
    set_name: str, texts: Mapping[str, str], *, trusted: bool
) -> tuple[TemplateSet, jsonschema_rs.Validator]:
    problems = list(_size_faults(set_name, texts))
    data = {name: _data(set_name, name, texts, problems) for name in DATA_FILES}
    about, schema = data["template.yaml"], data["values.schema.json"]
    further = [name for name in texts if name.endswith(_SCHEMA_SUFFIX) and name not in DATA_FILES]
    if further:
        parts = {name.removesuffix(_SCHEMA_SUFFIX): _data(set_name, name, texts, problems) for name in further}
        known = schema.get("$defs")
        schema = {**schema, "$defs": {**(known if isinstance(known, dict) else {}), **parts}}
    problems += _about_faults(set_name, about)
    check = None
    try:
        if not trusted:
            breadth.check(schema)
        check = values.validator(schema)
    except (ValueError, RecursionError) as exc:
        problems.append(Problem(where=f"{set_name}/values.schema.json", what=f"not a JSON Schema: {exc}"))
    if problems or check is None:
        raise TemplateError(problems)
    declared = frozenset(Kind(each["apiVersion"], each["kind"]) for each in about["kinds"])
    whole = TemplateSet(
        name=set_name,
        description=str(about.get("description", "")),
        kinds=declared,
        namespace_values=frozenset(about.get("namespaceValues") or ()),
        defaults=data["values.yaml"],
        schema=schema,
        files={name: text for name, text in texts.items() if name.endswith(".j2")},
        digest=hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:16],
        argo_versions=versions.read(about["argoVersions"]) if "argoVersions" in about else None,
        relations=tuple(Relation(**each) for each in about.get("relations") or ()),
        definitions=definitions(declared),
        texts=texts,
    )
    return whole, check


def _size_faults(set_name: str, texts: Mapping[str, str]) -> Iterable[Problem]:
    """Refuse what could not be recorded, before anything comes of it."""
    whole = json.dumps(texts).encode()
    if len(whole) > packing.MAX_COMPRESSED and (size := len(gzip.compress(whole))) > packing.MAX_COMPRESSED:
        what = f"its files are {size} bytes compressed, over the limit of {packing.MAX_COMPRESSED}"
        yield Problem(where=set_name, what=what, cure="make two sets of it")


def definitions(kinds: Iterable[Kind]) -> dict[str, Any]:
    """Read what Kubernetes says of the kinds, and of whatever these hold; `kinds` lists all that it serves itself."""
    known = _kubernetes("kinds")
    found: dict[str, Any] = {"kinds": known}
    waiting = {kubernetes.schema_of(kind, known).rpartition(".")[0] for kind in kinds} - {""}
    done: set[str] = set()
    while waiting:
        done.add(name := min(waiting))
        file = _kubernetes(name)
        found |= file["definitions"]
        waiting = (waiting | set(file["needs"])) - done
    return found


@functools.cache
def _kubernetes(name: str) -> dict[str, Any]:
    return json.loads((_KUBERNETES / f"{name}.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def _data(set_name: str, name: str, texts: Mapping[str, str], problems: list[Problem]) -> dict[str, Any]:
    where = f"{set_name}/{name}"
    if name not in texts:
        problems.append(Problem(where=where, what="is missing"))
        return {}
    try:
        value = (
            json.loads(texts[name], object_pairs_hook=_unique)
            if name.endswith(".json")
            else strictyaml.load(texts[name])
        )
    except strictyaml.StrictYamlError as exc:
        problems.append(Problem(where=where, line=exc.line, what=exc.what))
        return {}
    except json.JSONDecodeError as exc:
        problems.append(Problem(where=where, line=exc.lineno, what=exc.msg))
        return {}
    except (ValueError, RecursionError) as exc:  # numbers and nesting beyond what Python reads; a key that stands twice
        problems.append(Problem(where=where, what=str(exc)))
        return {}
    if not isinstance(value, dict):
        problems.append(Problem(where=where, what="must hold a mapping"))
        return {}
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; of two equal keys the last would win in silence."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"duplicate key {next(key for key in found if keys.count(key) > 1)!r}")
    return found


def _about_faults(set_name: str, about: Mapping[str, Any]) -> Iterable[Problem]:
    where = f"{set_name}/template.yaml"
    kinds = about.get("kinds")
    whole = isinstance(kinds, list) and all(
        isinstance(each, dict) and all(isinstance(each.get(key), str) for key in ("apiVersion", "kind"))
        for each in kinds
    )
    if not kinds or not whole:
        yield Problem(where=where, what="kinds must list what the set renders, each with apiVersion and kind as text")
    else:
        yield from _kind_faults(where, {Kind(each["apiVersion"], each["kind"]) for each in kinds})
    paths = about.get("namespaceValues") or []
    if not isinstance(paths, list) or not all(isinstance(each, str) for each in paths):
        yield Problem(where=where, what="namespaceValues must list dotted paths")
    if "argoVersions" in about:
        yield from versions.faults(about["argoVersions"], where)
    relations = about.get("relations") or []
    if isinstance(relations, list) and len(relations) > MAX_RELATIONS:
        yield Problem(where=where, what=f"has {len(relations)} relations, over the limit of {MAX_RELATIONS}")
    if not isinstance(relations, list) or not all(map(_is_relation, relations)):
        yield Problem(
            where=where, what="relations must list what holds, at which path, otherwise and cure, each as text"
        )
    if unknown := sorted(set(map(str, about)) - _ABOUT_KEYS):
        cure = f"what it may hold: {', '.join(sorted(_ABOUT_KEYS))}"
        yield Problem(where=where, what=f"{', '.join(unknown)} is not known", cure=cure)


def _is_relation(each: Any) -> bool:
    return (
        isinstance(each, dict)
        and {"holds", "at", "otherwise"} <= set(each) <= {"holds", "at", "otherwise", "cure"}
        and all(isinstance(text, str) for text in each.values())
    )


def _kind_faults(where: str, kinds: Iterable[Kind]) -> Iterable[Problem]:
    known = _kubernetes("kinds")
    wide = {(version.rpartition("/")[0], kind) for version, served in known.items() for kind in served["cluster"]}
    for kind in sorted(kinds):
        group = kind.api_version.rpartition("/")[0]
        served = known.get(kind.api_version)
        if (group, kind.kind) in wide:
            cure = "what belongs to the whole cluster is an administrator's to install"
            yield Problem(where=where, what=f"{kind} cannot be rendered: a set stays in its namespace", cure=cure)
        elif kind == SECRET:
            cure = "name a Secret that is there, and let its owner make it"
            what = f"{kind} cannot be rendered: rendered objects are kept where others can read them"
            yield Problem(where=where, what=what, cure=cure)
        elif served is not None and kind.kind not in served["namespaced"]:
            near = kubernetes.nearest(kind.kind, served["namespaced"])
            cure = f"did you mean {near}?" if near else "see kubectl api-resources"
            yield Problem(where=where, what=f"Kubernetes has no kind {kind}", cure=cure)


def values_file(path: Path) -> dict[str, Any]:
    """Read a file of values for the command line."""
    try:
        value = strictyaml.load(text_of(path))
    except strictyaml.StrictYamlError as exc:
        raise TemplateError([Problem(where=str(path), line=exc.line, what=exc.what)]) from exc
    if value is not None and not isinstance(value, dict):
        raise TemplateError([Problem(where=str(path), what="must hold a mapping")])
    return value or {}
