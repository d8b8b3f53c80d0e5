"""Template set + values + namespace → the documents that the namespace should hold. The same bytes every time.

Only administrators' templates are templates. Values, labels and annotations are data and never rendered again;
the sandbox is the second line of defence, not the wall.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final

import jinja2
import jsonschema_rs

from metaoperator.core import names, relations, sandbox, strictyaml, values
from metaoperator.core.errors import Problem, TemplateError, ValuesError
from metaoperator.core.model import Desired, Kind, Manifest, Namespace, Ref, Shard, TemplateSet
from metaoperator.core.sandbox import digest, q

TEMPLATE_SUFFIX: Final = ".yaml.j2"
MAX_DOCUMENT_BYTES: Final = 900_000
_APPLY_LAST: Final = frozenset({"Deployment", "StatefulSet", "DaemonSet", "Job"})


class Program:
    """A template set, compiled once. `desired` is a pure function of its arguments."""

    def __init__(self, template_set: TemplateSet) -> None:
        """Compile every template, or raise `TemplateError` with every syntax error found."""
        self.template_set = template_set
        self._env = sandbox.environment(template_set)
        self._templates: dict[str, jinja2.Template] = {}
        problems: list[Problem] = []
        try:
            self._relations = relations.Relations(self._env, template_set.relations)
        except jinja2.TemplateSyntaxError as exc:
            problems.append(Problem(where="template.yaml", what=f"relations: {exc.message}"))
        for name in sorted(template_set.files):
            try:
                compiled = self._env.get_template(name)
            except jinja2.TemplateSyntaxError as exc:
                problems.append(sandbox.problem(exc, name))
            except RecursionError:
                problems.append(Problem(where=name, what="is nested too deeply"))
            else:
                if name.endswith(TEMPLATE_SUFFIX) and not name.startswith("_"):
                    self._templates[name] = compiled
        if problems:
            raise TemplateError(problems)

    @functools.cached_property
    def _check(self) -> jsonschema_rs.Validator:
        # Once for the set: compiling the schema is a third of what rendering a namespace costs.
        return values.validator(self.template_set.schema)

    def effective(self, *, fleet: values.Values, namespace: values.Values) -> dict[str, Any]:
        """Merge the three layers of values; `ValuesError` tells every fault at once."""
        merged = values.effective(self.template_set, fleet=fleet, namespace=namespace, check=self._check)
        if at_odds := list(self._relations.problems(merged)):
            raise ValuesError(at_odds)
        return merged

    def revision(self, fleet_values: values.Values) -> str:
        """Digest what all namespaces have in common: the set's bytes and the fleet's values."""
        return digest(q([self.template_set.digest, fleet_values]))[:10]

    def desired(
        self,
        namespace: Namespace,
        shard: Shard,
        *,
        template_name: str,
        fleet_values: values.Values,
        namespace_values: values.Values,
    ) -> Desired:
        """Render the set for one namespace.

        `ValuesError` and `TemplateError` carry every problem at once. Documents carry our mark, stand in the
        order in which they are applied, and no mapping in them holds a null.
        """
        merged = self.effective(fleet=fleet_values, namespace=namespace_values)
        context = {
            "namespace": {
                "name": namespace.name,
                "uid": namespace.uid,
                "labels": dict(namespace.labels),
                "annotations": dict(namespace.annotations),
            },
            "shard": {"index": shard.index, "name": shard.name, "instance_id": shard.instance_id},
            "values": merged,
            "template": {"name": template_name, "set": self.template_set.name},
        }
        problems: list[Problem] = []
        found: dict[Ref, Manifest] = {}
        for file, template in self._templates.items():
            try:
                document = _document(file, template, context)
                if document is None:
                    continue
                _check(file, document, namespace, self.template_set.kinds)
            except TemplateError as exc:
                problems += exc.problems
                continue
            marked = mark(document, namespace)
            if (ref := Ref.of(marked)) in found:
                problems.append(
                    Problem(where=file, what=f"{ref} is rendered twice", cure="give one of them a new name")
                )
            found[ref] = marked
        if problems:
            raise TemplateError(problems)
        ordered = sorted(found, key=lambda ref: (ref.kind.kind in _APPLY_LAST, ref))
        documents = tuple(found[ref] for ref in ordered)
        return Desired(
            documents=documents,
            revision=digest("\n".join(map(q, documents)))[:10],
            version=str(merged.get("version", "")),
        )


def mark(document: Manifest, namespace: Namespace) -> Manifest:
    """Put namespace and our mark on a document.

    The digest of the rendered bytes is part of the mark: a field that a newer template no longer renders differs
    in nothing that we could compare, and only an apply takes it away.
    """
    meta = dict(document["metadata"])
    meta["namespace"] = namespace.name
    meta["labels"] = dict(meta.get("labels") or {}) | {names.MANAGED_BY_LABEL: names.MANAGED_BY}
    meta["annotations"] = dict(meta.get("annotations") or {}) | {names.NAMESPACE_UID_ANNOTATION: namespace.uid}
    marked = _without_nulls({**document, "metadata": meta})
    marked["metadata"]["annotations"][names.RENDERED_ANNOTATION] = digest(q(marked))
    return marked  # type: ignore[no-any-return]


def _without_nulls(value: Any) -> Any:
    # The API server drops nulls, so a rendered null would differ from the live object for ever.
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _document(file: str, template: jinja2.Template, context: Mapping[str, Any]) -> Manifest | None:
    try:
        text = template.render(context)
    except Exception as exc:  # whatever a template manages to raise is the template's fault
        raise TemplateError([sandbox.problem(exc, file)]) from exc
    size = len(text.encode(errors="replace"))  # YAML refuses a lone surrogate with a better message than the codec
    if size > MAX_DOCUMENT_BYTES:
        raise TemplateError(
            [
                Problem(
                    where=file,
                    what=f"renders to {size} bytes, over the limit of {MAX_DOCUMENT_BYTES}",
                    cure="split the object",
                )
            ]
        )
    if not text.strip():
        return None
    try:
        document = strictyaml.load(text)
    except strictyaml.StrictYamlError as exc:
        raise TemplateError([Problem(where=file, what=f"rendered YAML: {exc.what}{_excerpt(text, exc.line)}")]) from exc
    if document is None:
        return None
    if not isinstance(document, dict):
        raise TemplateError(
            [
                Problem(
                    where=file, what="renders to something that is not an object", cure="one Kubernetes object per file"
                )
            ]
        )
    return document


def _check(file: str, document: Manifest, namespace: Namespace, kinds: frozenset[Kind]) -> None:
    meta = document.get("metadata")
    name = meta.get("name") if isinstance(meta, Mapping) else None
    fields = (document.get("apiVersion"), document.get("kind"), name)
    if not all(isinstance(text, str) and text for text in fields):
        raise TemplateError(
            [
                Problem(
                    where=file,
                    what="apiVersion, kind and metadata.name must be text",
                    cure="write scalars with the filter q, for example name: {{ shard.name | q }}",
                )
            ]
        )
    problems = list(_faults(file, document, namespace, kinds))
    if problems:
        raise TemplateError(problems)


def _faults(file: str, document: Manifest, namespace: Namespace, kinds: frozenset[Kind]) -> Iterator[Problem]:
    kind = Kind(document["apiVersion"], document["kind"])
    if kind not in kinds:
        yield Problem(
            where=file,
            what=f"{kind} is not among the kinds that the set declares",
            cure="add it to kinds in template.yaml",
        )
    target = document["metadata"].get("namespace", namespace.name)
    if target != namespace.name:
        yield Problem(
            where=file,
            what=f"the object is for namespace {target!r}, not for {namespace.name!r}",
            cure="leave metadata.namespace out: it is filled in",
        )
    for field in ("labels", "annotations"):
        texts = document["metadata"].get(field) or {}
        if not isinstance(texts, Mapping):
            yield Problem(where=file, what=f"metadata.{field} is not a mapping")
            continue
        for key, value in texts.items():
            if value is not None and not isinstance(value, str):
                cure = "write the value with the filter q, or in quotes"
                yield Problem(where=file, what=f"metadata.{field}: {key} is not text but {q(value)}", cure=cure)
    if "status" in document:
        yield Problem(where=file, what="renders a status", cure="leave it out: status belongs to the API server")


def _excerpt(text: str, line: int | None, around: int = 1) -> str:
    if line is None:
        return ""
    rows = text.splitlines()
    shown = range(max(1, line - around), min(len(rows), line + around) + 1)
    return "\n" + "\n".join(f"  {'>' if n == line else ' '} {n:4} | {rows[n - 1]}" for n in shown)
