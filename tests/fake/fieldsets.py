"""Sets of field paths: reading them off values, comparing two values, and the `fieldsV1` wire form.

A path is a tuple of the keys that fieldsV1 uses: `f:name`, `k:{"name":"main"}` for an item of an associative
list, `v:"x"` for one of a set. A field set is a plain set of such paths.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import shapes
from .kinds import Kind, Manifest

Path = tuple[str, ...]
Fields = set[Path]

# The server strips these from every set: nobody owns identity.
_IDENTITY = ("creationTimestamp", "generation", "managedFields", "name", "namespace", "resourceVersion", "uid")
UNOWNED = {("f:apiVersion",), ("f:kind",), ("f:metadata",), *(("f:metadata", f"f:{name}") for name in _IDENTITY)}
# A Go struct has these before anybody sets them, so that an Update does not own the node itself.
_ALWAYS_THERE = {"f:spec", "f:status", "f:template", "f:strategy", "f:containers", "f:metadata"}


def names(path: Path) -> shapes.Names:
    """Return the field names of a path, without the list items."""
    return tuple(key[2:] for key in path if key.startswith("f:"))


def item_key(kind: Kind, path: Path, item: Any) -> str | None:
    """Return what identifies a list item, or `None` when the list is one value."""
    shape = shapes.list_shape(kind, names(path))
    if shape == shapes.ATOMIC:
        return None
    if shape == shapes.SET:
        return "v:" + json.dumps(item, separators=(",", ":"))
    if not isinstance(item, dict):
        return None
    keys = {key: item.get(key, shapes.KEY_DEFAULTS.get(key)) for key in sorted(shape)}
    return "k:" + json.dumps({key: value for key, value in keys.items() if value is not None}, separators=(",", ":"))


def children(kind: Kind, path: Path, value: Any) -> dict[str, Any] | None:
    """Return what is inside a value by its fieldsV1 key, or `None` for a leaf."""
    if isinstance(value, dict):
        if shapes.atomic_map(kind, names(path)):
            return None
        return {f"f:{name}": inner for name, inner in value.items()}
    if isinstance(value, list) and value:
        keys = [item_key(kind, path, item) for item in value]
        if None in keys or len(set(keys)) != len(keys):
            return None
        return dict(zip(keys, value, strict=True))  # type: ignore[arg-type]
    return None


def applied(kind: Kind, obj: Manifest) -> Fields:
    """Return the fields that an apply of this object owns: its leaves and its list items."""
    return {path for path in _leaves(kind, (), obj) if path not in UNOWNED}


def _leaves(kind: Kind, path: Path, value: Any) -> Iterator[Path]:
    inside = children(kind, path, value)
    if not inside:
        # An empty associative list says nothing; an empty map is a statement.
        if not (value == [] and path and shapes.list_shape(kind, names(path)) != shapes.ATOMIC):
            yield path
        return
    if path and not path[-1].startswith("f:"):
        yield path
    for key, inner in inside.items():
        yield from _leaves(kind, (*path, key), inner)


@dataclass(slots=True)
class Comparison:
    """Where two values differ."""

    added: Fields = field(default_factory=set)
    removed: Fields = field(default_factory=set)
    modified: Fields = field(default_factory=set)


def compare(kind: Kind, old: Manifest, new: Manifest) -> Comparison:
    """Compare two objects field by field, inner nodes included, identity left out."""
    result = Comparison()
    _compare(kind, (), old, new, result)
    for paths in (result.added, result.removed, result.modified):
        paths.difference_update(UNOWNED)
        paths.difference_update([path for path in paths if path[:2] == ("f:metadata", "f:managedFields")])
    if not kind.custom:
        inner = {path[:-1] for path in result.added}
        result.added -= {path for path in inner if path and path[-1] in _ALWAYS_THERE}
    return result


def _compare(kind: Kind, path: Path, old: Any, new: Any, result: Comparison) -> None:
    before, after = children(kind, path, old), children(kind, path, new)
    if before is None or after is None:
        if old != new:
            result.modified.add(path)
            # A leaf that became a node, or the other way round, takes what was inside with it.
            result.removed.update(set(_nodes(kind, path, old)) - {path} if before else ())
            result.added.update(set(_nodes(kind, path, new)) - {path} if after else ())
        return
    for key in before.keys() | after.keys():
        here = (*path, key)
        was, now = before.get(key), after.get(key)
        if was is None and now is not None:
            result.added.update(_nodes(kind, here, now))
        elif was is not None and now is None:
            gone = set(_nodes(kind, here, was))
            # An explicit null is an empty container that is still there.
            result.removed |= gone - {here} if key in after and len(gone) > 1 else gone
        elif was is not now:
            _compare(kind, here, was, now, result)


def _nodes(kind: Kind, path: Path, value: Any) -> Iterator[Path]:
    yield path
    for key, inner in (children(kind, path, value) or {}).items():
        yield from _nodes(kind, (*path, key), inner)


def with_parents(fields: Fields) -> Fields:
    """Add the named fields above each path; a list item counts only when it is owned itself."""
    return fields | {path[:end] for path in fields for end in range(1, len(path)) if path[end - 1].startswith("f:")}


def encode(fields: Fields) -> Manifest:
    """Write a field set as fieldsV1."""
    root: Manifest = {}
    for path in sorted(fields):
        at = root
        for key in path:
            at = at.setdefault(key, {})
        at["."] = {}
    return _tidy(root)


def _tidy(node: Manifest) -> Manifest:
    # A node with nothing inside is a member by being there; only one with children needs the dot.
    if set(node) == {"."}:
        return {}
    return {key: _tidy(inner) for key, inner in node.items()}


def decode(wire: Manifest) -> Fields:
    """Read a field set from fieldsV1."""
    found: Fields = set()

    def walk(node: Manifest, path: Path) -> None:
        if not node and path:
            found.add(path)
        for key, inner in node.items():
            if key == ".":
                found.add(path)
            else:
                walk(inner, (*path, key))

    walk(wire, ())
    return found


def show(path: Path) -> str:
    """Write a path as conflicts do: `.spec.template.spec.containers[name="main"].image`."""
    text = ""
    for key in path:
        if key.startswith("f:"):
            text += f".{key[2:]}"
        elif key.startswith("k:"):
            pairs = json.loads(key[2:]).items()
            text += "[" + ",".join(f"{name}={json.dumps(value)}" for name, value in pairs) + "]"
        else:
            text += f"[={key[2:]}]"
    return text
