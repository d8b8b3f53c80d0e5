"""Objects of Kubernetes' own kinds against the API server's own schema, strictly, and every fault at once.

Strict means as server-side apply is: an unknown field, a wrong type, an item whose key stands twice. What the server
checks beyond its schema (that a selector matches, that a port's name is short) only the server knows. The data is made
by `tests/schemas`. Why no JSON Schema: docs/decisions/0009.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from metaoperator.core.model import Kind, Manifest

Path = tuple[str | int, ...]
Definitions = Mapping[str, Any]

_QUANTITY: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_BITS: Final = {"int32": 31, "int64": 63}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of one object: where in it, what, and what to do."""

    path: Path
    what: str
    cure: str = ""


def shown(path: Path) -> str:
    """Write a path as people do: `spec.containers[0].image`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if re.fullmatch(r"[\w-]+", step) else f"[{step!r}]"
    return text.removeprefix(".")


def schema_of(kind: Kind, kinds: Definitions) -> str:
    """Name the definition of a kind; empty where there is none here."""
    return str(kinds.get(kind.api_version, {}).get("namespaced", {}).get(kind.kind, ""))


def faults(manifest: Manifest, name: str, definitions: Definitions) -> Iterator[Fault]:
    """Hold an object to the definition of that name."""
    yield from _Check(definitions).value(manifest, {"$ref": name}, ())


class _Check:
    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions

    def value(self, value: Any, schema: Mapping[str, Any], path: Path) -> Iterator[Fault]:
        """Hold one value to one schema."""
        if (reference := schema.get("$ref")) is not None:
            schema = self._definitions[reference]
        kind = schema.get("type")
        if kind == "object":
            if isinstance(value, dict):
                yield from self._object(value, schema, path)
                return
        elif kind == "array":
            if isinstance(value, list):
                yield from self._array(value, schema, path)
                return
        elif kind is None:
            return
        elif _TYPES[kind](value):
            yield from _scalar(value, schema, path)
            return
        yield Fault(path=path, what=f"must be {_NAMES[kind]}, not {_told(value)}", cure=_cure(kind, value))

    def _object(self, value: dict[str, Any], schema: Mapping[str, Any], path: Path) -> Iterator[Fault]:
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        for key in schema.get("required", ()):
            if key not in value:
                yield Fault(path=(*path, key), what="is missing", cure="Kubernetes requires this field")
        for key, item in value.items():
            below = None if properties is None else properties.get(key)
            if below is None and others is None:
                if properties is not None:
                    yield _unknown(key, properties, (*path, key))
                continue
            if item is not None:  # the server drops nulls
                yield from self.value(item, below or others or {}, (*path, key))

    def _array(self, value: list[Any], schema: Mapping[str, Any], path: Path) -> Iterator[Fault]:
        items, keys = schema["items"], schema.get("keys")
        first: dict[Any, int] = {}
        for at, item in enumerate(value):
            yield from self.value(item, items, (*path, at))
            if keys is None:
                continue
            key = _key(item, keys)
            if key is not None and key in first:
                named = ", ".join(map(str, key))
                what = f"stands twice: {named} is at {shown((*path, first[key]))} already"
                yield Fault(path=(*path, at), what=what, cure="server-side apply refuses a list with two of a key")
            elif key is not None:
                first[key] = at


def _key(item: Any, keys: Mapping[str, Any]) -> tuple[Any, ...] | None:
    if not keys:
        found: tuple[Any, ...] = (item,)
    elif isinstance(item, dict):
        found = tuple(item.get(key, default) for key, default in keys.items())
    else:
        return None
    return found if all(isinstance(each, str | int) for each in found) else None


def _scalar(value: Any, schema: Mapping[str, Any], path: Path) -> Iterator[Fault]:
    allowed, form = schema.get("enum"), schema.get("format")
    if allowed is not None and value not in allowed:
        near = nearest(str(value), allowed)
        yield Fault(
            path=path,
            what=f"{_told(value)} is not among the values that Kubernetes knows",
            cure=(f"did you mean {near}? " if near else "") + f"one of {', '.join(filter(None, allowed))}",
        )
    elif form in _BITS and not -(2 ** _BITS[form]) <= value < 2 ** _BITS[form]:
        yield Fault(path=path, what=f"{value} does not fit in {form}")
    elif form == "date-time" and not _DATE_TIME.fullmatch(value):
        yield Fault(path=path, what=f"{_told(value)} is no time", cure="write it like 2026-01-31T12:00:00Z")
    elif form == "byte":
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            yield Fault(path=path, what="is not base64", cure="text goes under data, not under binaryData")


def _unknown(key: str, properties: Mapping[str, Any], path: Path) -> Fault:
    near = nearest(key, properties)
    return Fault(path=path, what="is no field that Kubernetes knows", cure=f"did you mean {near}?" if near else "")


def nearest(name: str, known: Any) -> str:
    """Find the known name that a typo most likely stands for; empty where none is near."""
    import difflib  # noqa: PLC0415 - only where something is wrong

    folded = {each.lower(): each for each in sorted(known) if each}
    found = difflib.get_close_matches(name.lower(), folded, n=1)
    return folded[found[0]] if found else ""


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value) if isinstance(value, str) else f"the number {value}"
    return text if len(text) <= 60 else text[:57] + "…"


def _cure(kind: str, value: Any) -> str:
    if kind == "string" and not isinstance(value, dict | list):
        return "put it in quotes, or write it with the filter q" + (" after string" if value is not None else "")
    if kind in {"integer", "boolean", "number"} and isinstance(value, str):
        return "write it without quotes; a value, as a number or true and false in values.yaml"
    if kind == "quantity" and isinstance(value, str):
        return "write it like 500m, 2, 128Mi or 1Gi"
    return ""


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _quantity(value: Any) -> bool:
    if isinstance(value, str):
        return _QUANTITY.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": _integer,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "int-or-string": lambda value: isinstance(value, str) or _integer(value),
    "quantity": _quantity,
}
_NAMES: Final = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "int-or-string": "a whole number or text",
    "quantity": "a quantity",
}
