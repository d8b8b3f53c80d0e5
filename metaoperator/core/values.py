"""Values in layers: set defaults < fleet (ControllerTemplate) < namespace (WorkflowController).

Mappings merge key by key; anything else is replaced whole. Values are data: nothing here or later renders them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import jsonschema_rs

from metaoperator.core import versions
from metaoperator.core.errors import Problem, ValuesError
from metaoperator.core.model import TemplateSet

Values = Mapping[str, Any]


MAX_DEPTH: Final = 50


def depth(value: Any) -> int:
    """Count how deep mappings and lists are nested, without recursion: the value may be anybody's."""
    deepest, waiting = 0, [(value, 0)]
    while waiting:
        item, level = waiting.pop()
        deepest = max(deepest, level)
        if level > MAX_DEPTH:
            return level
        below = item.values() if isinstance(item, Mapping) else item if isinstance(item, list) else ()
        waiting += [(each, level + 1) for each in below]
    return deepest


def merge(base: Values, over: Values) -> dict[str, Any]:
    """Lay `over` on `base`; neither is changed. A `null` in `over` removes the key, as in Helm."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            merged[key] = merge(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def leaves(values: Values, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Name every leaf by its path; an empty mapping and a list are leaves."""
    for key, value in values.items():
        here = (*path, str(key))
        if isinstance(value, Mapping) and value:
            yield from leaves(value, here)
        else:
            yield here


def forbidden(values: Values, allowed: frozenset[str]) -> tuple[str, ...]:
    """List the leaves that lie neither at nor below an allowed dotted path, sorted."""
    # By steps, not by text: a key may hold dots itself.
    steps = [tuple(path.split(".")) for path in allowed]
    return tuple(
        sorted(".".join(leaf) for leaf in leaves(values) if not any(leaf[: len(path)] == path for path in steps))
    )


def effective(
    template_set: TemplateSet, *, fleet: Values, namespace: Values, check: jsonschema_rs.Validator | None = None
) -> dict[str, Any]:
    """Merge the three layers and hold the result to the set's JSON Schema, compiled (`check`) if it is at hand.

    `ValuesError` names every path at fault at once, and what to do.
    """
    for layer, where in ((fleet, "ControllerTemplate spec.values"), (namespace, "spec.values")):
        if depth(layer) > MAX_DEPTH:
            raise ValuesError(
                [Problem(where=where, what=f"is nested more than {MAX_DEPTH} levels deep", cure="flatten it")]
            )
    problems = [
        Problem(
            where="spec.values",
            what=f"{path} is not a namespace's to set",
            cure="ask the platform team to set it in the ControllerTemplate, or to list it in "
            f"namespaceValues of template set {template_set.name}",
        )
        for path in forbidden(namespace, template_set.namespace_values)
    ]
    merged = merge(merge(template_set.defaults, fleet), namespace)
    problems += [
        Problem(where=_dotted(error.instance_path), what=error.message, cure=f"see values.yaml of {template_set.name}")
        for error in (check or validator(template_set.schema)).iter_errors(merged)
    ]
    if template_set.argo_versions is not None:
        problems += versions.problems(template_set.argo_versions, merged, template_set.defaults)
    if problems:
        raise ValuesError(sorted(problems, key=str))
    return merged


def validator(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Compile a JSON Schema; a `ValueError` tells what is wrong with it.

    A `$ref` leads nowhere but into the schema itself: left alone, the library fetches URLs and opens files.
    """
    return jsonschema_rs.validator_for(dict(schema), retriever=_nowhere)


def _nowhere(uri: str) -> Any:
    raise ValueError(f"{uri} is outside of the schema")


def _dotted(path: Any) -> str:
    return ".".join(["values", *map(str, path)])
