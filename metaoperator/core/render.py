"""Template set + values + namespace → the documents that the namespace should hold. The same bytes every time.

Only administrators' templates are templates. Values, labels and annotations are data and never rendered again;
the sandbox is the second line of defence, not the wall.
"""

import functools
from collections.abc import Callable, Mapping, MutableMapping
from types import CodeType
from typing import Any, Final

import jinja2
import jsonschema_rs

from metaoperator.core import causes, kubernetes, meter, names, relations, sandbox, values
from metaoperator.core.document import document, without_nulls
from metaoperator.core.errors import Problem, TemplateError, ValuesError
from metaoperator.core.model import Desired, Kind, Manifest, Namespace, Ref, Shard, TemplateSet
from metaoperator.core.writing import digest, q

TEMPLATE_SUFFIX: Final = ".yaml.j2"
MAX_SET: Final = 2 * 2**20
"""Characters of all templates of a set: compiling so many takes seconds, and it is a hundred times the shipped set."""
_UNCOMPILABLE: Final = (jinja2.TemplateSyntaxError, RecursionError, SyntaxError, ValueError, MemoryError)
"""What templates are refused for: their own syntax, or Python's limits of nesting, blocks and digits."""
_APPLY_LAST: Final = frozenset({"Deployment", "StatefulSet", "DaemonSet", "Job"})


class Program:
    """A template set, compiled once. `desired` is a pure function of its arguments."""

    def __init__(
        self,
        template_set: TemplateSet,
        *,
        check: jsonschema_rs.Validator | None = None,
        codes: MutableMapping[str, CodeType] | None = None,
        identity: Callable[[], str] = str,
    ) -> None:
        """Compile every template, or raise `TemplateError` with every syntax error found.

        `check` is the set's schema, compiled, if whoever read the set has it at hand; `codes` are templates of the very
        same set, compiled by the very same code, to which what is missing is added. `identity` names the code that
        renders, for whoever asks for the revision.
        """
        self.template_set = template_set
        self._identity = identity
        self._given_check = check
        codes = {} if codes is None else codes
        self._env = sandbox.environment(template_set, codes)
        self._templates: dict[str, jinja2.Template] = {}
        problems: list[Problem] = []
        if (size := sum(map(len, template_set.files.values()))) > MAX_SET:
            what = f"its templates are {size} characters long, over the limit of {MAX_SET}"
            raise TemplateError([Problem(where=template_set.name, what=what, cure="make two sets of it")])
        try:
            self._relations = relations.Relations(self._env, template_set.relations, codes)
        except _UNCOMPILABLE as exc:
            problems.append(Problem(where="template.yaml", what=f"relations: {_fault(exc, 'template.yaml').what}"))
        for name in sorted(template_set.files):
            try:
                compiled = self._env.get_template(name)
            except _UNCOMPILABLE as exc:
                problems.append(_fault(exc, name))
            else:
                if name.endswith(TEMPLATE_SUFFIX) and not name.startswith("_"):
                    self._templates[name] = compiled
        if problems:
            raise TemplateError(problems)

    @property
    def unchecked(self) -> tuple[Kind, ...]:
        """Declared kinds of which no schema is at hand: nothing but their metadata is checked."""
        known = self.template_set.definitions.get("kinds", {})
        return tuple(kind for kind in sorted(self.template_set.kinds) if not kubernetes.schema_of(kind, known))

    @functools.cached_property
    def _check(self) -> jsonschema_rs.Validator:
        # Once for the set: compiling the schema costs as much as rendering a namespace.
        return self._given_check or values.validator(self.template_set.schema)

    def effective(self, *, fleet: values.Values, namespace: values.Values) -> dict[str, Any]:
        """Merge the three layers of values; `ValuesError` tells every fault at once."""
        merged = values.effective(self.template_set, fleet=fleet, namespace=namespace, check=self._check)
        if at_odds := self._relations.problems(merged):
            raise ValuesError(at_odds)
        return merged

    def revision(self, fleet_values: values.Values) -> str:
        """Digest what all namespaces have in common: the set's name and bytes, the fleet's values, and what renders."""
        return digest(q([self.template_set.name, self.template_set.digest, fleet_values, self._identity()]))[:10]

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
        context: dict[str, Any] = {
            "namespace": {
                "name": namespace.name,
                "uid": namespace.uid,
                "labels": dict(sorted(namespace.labels.items())),
                "annotations": dict(sorted(namespace.annotations.items())),
            },
            "shard": {"index": shard.index, "name": shard.name, "instance_id": shard.instance_id},
            "values": _ordered(merged),
            "template": {"name": template_name, "set": self.template_set.name},
        }
        problems: list[Problem] = []
        found: dict[Ref, Manifest] = {}
        with meter.metered(context) as budget:
            for file, template in self._templates.items():
                budget.depth, budget.nulls = 0, False
                try:
                    rendered = document(file, template, context, namespace, self.template_set)
                except TemplateError as exc:
                    problems += exc.problems
                    if budget.left < 0:  # one budget for the whole set: nothing is left for the others
                        break
                    continue
                if rendered is None:
                    continue
                marked = mark(rendered, namespace, shard)
                if (ref := Ref.of(marked)) in found:
                    what = f"{ref} is rendered twice"
                    problems.append(Problem(where=file, what=what, cure="give one of them a new name"))
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


def _fault(exc: BaseException, name: str) -> Problem:
    if isinstance(exc, jinja2.TemplateSyntaxError):
        return causes.problem(exc, name)
    if isinstance(exc, RecursionError):
        return Problem(where=name, what="is nested too deeply")
    return Problem(where=name, what=f"cannot be compiled: {exc}", cure="make it simpler")


def mark(manifest: Manifest, namespace: Namespace, shard: Shard) -> Manifest:
    """Put namespace and our mark on a document, and which instance ID it was rendered for.

    The digest of the rendered bytes is part of the mark: a field that a newer template no longer renders differs
    in nothing that we could compare, and only an apply takes it away.
    """
    meta = dict(manifest["metadata"])
    meta["namespace"] = namespace.name
    meta["labels"] = dict(meta.get("labels") or {}) | {names.MANAGED_BY_LABEL: names.MANAGED_BY}
    meta["annotations"] = dict(meta.get("annotations") or {}) | {
        names.NAMESPACE_UID_ANNOTATION: namespace.uid,
        names.INSTANCE_ID_ANNOTATION: shard.instance_id,
    }
    marked = without_nulls({**manifest, "metadata": meta})
    marked["metadata"]["annotations"][names.RENDERED_ANNOTATION] = digest(q(marked))
    return marked  # type: ignore[no-any-return]


def _ordered(value: Any) -> Any:
    # A loop over a mapping goes by its order, and that must not depend on how somebody wrote the values down.
    if isinstance(value, Mapping):
        return {key: _ordered(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_ordered(item) for item in value]
    return value
