"""One template, rendered and read: an object that Kubernetes takes, or all faults with their lines in the template."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import jinja2

from metaoperator.core import causes, elected, kubernetes, metadata, meter, origin, strictyaml
from metaoperator.core.errors import Problem, TemplateError
from metaoperator.core.kubernetes import Fault, Path
from metaoperator.core.model import Kind, Manifest, Namespace, TemplateSet

MAX_DOCUMENT_BYTES: Final = 900_000
MAX_ROW: Final = 120
"""Characters that are shown of a line at fault."""
MAX_FAULTS: Final = 50
"""Of one document: nobody reads more at once, and a status has to hold them."""


def document(
    file: str, template: jinja2.Template, context: Mapping[str, Any], namespace: Namespace, template_set: TemplateSet
) -> Manifest | None:
    """Render one template for one namespace; `None` where it renders nothing. No mapping in it holds a null.

    `TemplateError` tells every fault at once.
    """
    text = _rendered(file, template, context)
    read = _read(file, text, template, context)
    if read is None:
        return None
    faults = _faults(read, namespace, template_set)
    if meter.current().nulls:
        faults = itertools.chain(_lost(read, origin.trace(template, context), strictyaml.locator(text)), faults)
    if found := list(itertools.islice(faults, MAX_FAULTS)):
        written, line_of = origin.trace(template, context), strictyaml.locator(text)
        problems = []
        for fault in found:
            where, line = written.of(line_of(fault.path), file)
            path = kubernetes.shown(fault.path)
            problems.append(Problem(where=where, line=line, path=path, what=fault.what, cure=fault.cure))
        if next(faults, None) is not None:
            problems.append(Problem(where=file, what=f"has more than these {MAX_FAULTS} faults"))
        raise TemplateError(problems)
    return without_nulls(read)  # type: ignore[no-any-return]


def _rendered(file: str, template: jinja2.Template, context: Mapping[str, Any]) -> str:
    try:
        text = str(template.render(context))  # libyaml reads nothing but plain texts
    except Exception as exc:  # whatever a template manages to raise is the template's fault
        raise TemplateError([causes.problem(exc, file)]) from exc
    size = len(text.encode(errors="replace"))  # YAML refuses a lone surrogate with a better message than the codec
    if size > MAX_DOCUMENT_BYTES:
        what = f"renders to {size} bytes, over the limit of {MAX_DOCUMENT_BYTES}"
        raise TemplateError([Problem(where=file, what=what, cure="split the object")])
    return text


def _read(file: str, text: str, template: jinja2.Template, context: Mapping[str, Any]) -> Any:
    if not text.strip():
        return None
    try:
        return strictyaml.load(text)
    except strictyaml.StrictYamlError as exc:
        where, line = file, None
        if exc.line is not None:
            where, line = origin.trace(template, context).of(exc.line, file)
        what = f"rendered YAML: {exc.what}{_excerpt(text, exc.line)}"
        raise TemplateError([Problem(where=where, line=line, what=what, cure=_yaml_cure(exc.what))]) from exc


def without_nulls(value: Any) -> Any:
    """Leave out what is null: the API server drops it, so it would differ from the live object for ever."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def _faults(read: Any, namespace: Namespace, template_set: TemplateSet) -> Iterator[Fault]:
    if not isinstance(read, dict):
        yield Fault(path=(), what="renders to something that is not an object", cure="one Kubernetes object per file")
        return
    meta = read.get("metadata")
    name = meta.get("name") if isinstance(meta, Mapping) else None
    if not all(isinstance(text, str) and text for text in (read.get("apiVersion"), read.get("kind"), name)):
        cure = "write scalars with the filter q, for example name: {{ shard.name | q }}"
        yield Fault(path=(), what="apiVersion, kind and metadata.name must be text", cure=cure)
        return
    kind = Kind(read["apiVersion"], read["kind"])
    if kind not in template_set.kinds:
        what = f"{kind} is not among the kinds that the set declares"
        yield Fault(path=("kind",), what=what, cure="add it to kinds in template.yaml")
    told = set()
    for fault in metadata.faults(read, namespace.name):
        told.add(fault.path)
        yield fault
    yield from elected.faults(read)
    schema = kubernetes.schema_of(kind, template_set.definitions.get("kinds", {}))
    if schema:
        for fault in kubernetes.faults(read, schema, template_set.definitions):
            if fault.path not in told:
                yield fault


def _lost(read: Any, written: origin.Origin, line_of: Callable[[Path], int], path: Path = ()) -> Iterator[Fault]:
    """Name what is null because a value that was printed bare is empty, or is the text null: it would vanish."""
    for key, item in read.items() if isinstance(read, dict) else enumerate(read) if isinstance(read, list) else ():
        if item is not None:
            yield from _lost(item, written, line_of, (*path, key))
        elif line_of((*path, key)) in written.nulls:
            what = "is null: the value printed here is empty, or YAML's word for nothing"
            yield Fault(path=(*path, key), what=what, cure="write it with the filter q")


def _yaml_cure(what: str) -> str:
    if "another document" in what:
        return "one object per file; a value with line breaks is written with the filter q"
    if "duplicate key" in what:
        return "take one of them out"
    return "write values with the filter q"


def _excerpt(text: str, line: int | None, around: int = 1) -> str:
    if line is None:
        return ""
    rows = [row if len(row) <= MAX_ROW else f"{row[:MAX_ROW]}…" for row in text.splitlines()]
    shown = range(max(1, line - around), min(len(rows), line + around) + 1)
    return "\n" + "\n".join(f"  {'>' if n == line else ' '} {n:4} | {rows[n - 1]}" for n in shown)
