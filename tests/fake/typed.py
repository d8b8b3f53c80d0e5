"""What a server-side apply must look like: no unknown fields where a schema is known, no list item twice.

The real server answers 500 to these, and a create by POST just drops the unknown field.
"""

from typing import Any

from . import fieldsets, problems, shapes
from .fieldsets import Path
from .kinds import Kind, Manifest

_ENVELOPE = ("apiVersion", "kind", "metadata")


def check(kind: Kind, config: Manifest) -> None:
    """Refuse a configuration that does not fit its type."""
    why = _duplicate(kind, (), config) or (_undeclared(kind.schema, config, "") if kind.schema else None)
    if why:
        version = kind.api_version if kind.group else f"/{kind.version}"
        what = f"/{config['metadata'].get('name', '')}; {version}, Kind={kind.kind}"
        raise problems.ApiError(500, "", f"failed to create typed patch object ({what}): {why}")


def _duplicate(kind: Kind, path: Path, value: Any) -> str | None:
    if isinstance(value, dict):
        inside = [(f"f:{name}", inner) for name, inner in value.items()]
    elif isinstance(value, list) and path and shapes.list_shape(kind, fieldsets.names(path)) != shapes.ATOMIC:
        inside = [(fieldsets.item_key(kind, path, item) or "", item) for item in value]
        keys = [key for key, _ in inside]
        for key in keys:
            if keys.count(key) > 1:
                return f"{fieldsets.show(path)}: duplicate entries for key {fieldsets.show((key,))}"
    else:
        return None
    return next((why for key, inner in inside if (why := _duplicate(kind, (*path, key), inner))), None)


def _undeclared(schema: Manifest, value: Any, path: str) -> str | None:
    properties, extra = schema.get("properties", {}), schema.get("additionalProperties")
    if isinstance(value, list):
        found = (_undeclared(schema.get("items", {}), item, path) for item in value)
        return next((why for why in found if why), None)
    if not isinstance(value, dict) or (not properties and not extra):
        return None
    for name, inner in value.items():
        if not path and name in _ENVELOPE:
            continue
        if name in properties:
            why = _undeclared(properties[name], inner, f"{path}.{name}")
        elif isinstance(extra, dict):
            why = _undeclared(extra, inner, f"{path}.{name}")
        elif extra or schema.get("x-kubernetes-preserve-unknown-fields"):
            why = None
        else:
            why = f"{path}.{name}: field not declared in schema"
        if why:
            return why
    return None
