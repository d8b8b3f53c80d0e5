"""How often a JSON Schema looks at one value: a bound that is found before anything is validated.

A validator has no budget of its own. Thirty definitions that each name the next one twice are looked at a billion
times, and so is a value nested thirty deep under a schema that names itself in two branches.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urljoin

MAX_LOOKS: Final = 1_000
"""Schemas that one value is held to. The shipped set has fewer than twenty."""
MAX_PLACES: Final = 20_000
"""Sets of schemas that some value is held to."""
DEPTH: Final = 50
"""Of values, as their layers are held to."""
_SAME: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_ITEMS: Final = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
_KEYS: Final = ("patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames")
_BY_NAME: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
_FLOATING: Final = ("$dynamicRef", "$recursiveRef")

_Node = Mapping[str, Any]
_Looks = Counter[int]
"""Which schemas look at a value, by identity, and how often each."""


def check(schema: _Node) -> None:
    """Raise a `ValueError` for a schema that may look at a value too often, or without end."""
    _Schema(schema).check()


class _Schema:
    def __init__(self, schema: _Node) -> None:
        self._whole = schema
        self._named: dict[str, _Node] = {}
        self._anchors: dict[str, _Node] = {}
        self._known: dict[int, tuple[_Node, _Node]] = {}
        """Each schema that was met, and the one that `#` stands for in it."""
        self._at_once: dict[int, _Looks] = {}
        self._under_way: set[int] = set()
        waiting: list[Any] = [schema]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Mapping):
                for key, known in (("$id", self._named), ("$anchor", self._anchors)):
                    if isinstance(node.get(key), str):
                        known[node[key].removesuffix("#")] = node
                waiting += node.values()
            elif isinstance(node, list):
                waiting += node

    def check(self) -> None:
        """Follow all ways down into values, each as long as it leads to more looks than any other way there did."""
        seen: dict[frozenset[int], int] = {}
        level = [self._looks(self._whole, self._whole)]
        for _ in range(DEPTH):
            below: list[_Looks] = []
            for looks in (each for above in level for each in self._below(above)):
                place, total = frozenset(looks), looks.total()
                if seen.get(place, 0) < total:
                    seen[place] = total
                    below.append(looks)
            if len(seen) > MAX_PLACES:
                raise ValueError("it is too large: its definitions meet in too many ways")
            level = below

    def _below(self, above: _Looks) -> Iterator[_Looks]:
        """Say what looks at an item, and at the value of each key."""
        nodes = [(*self._known[each], count) for each, count in above.items()]
        keys: set[str] = {key for node, _, _ in nodes for key in _mapping(node.get("properties"))}
        for label in (None, "", *sorted(keys)):
            looks: _Looks = Counter()
            for node, root, count in nodes:
                for schema in _at(node, label):
                    self._add(looks, self._looks(schema, root), count)
            if looks:
                yield looks

    def _looks(self, node: _Node, root: _Node) -> _Looks:
        """Say which schemas look at a value together with this one."""
        if (found := self._at_once.get(id(node))) is not None:
            return found
        if id(node) in self._under_way:
            raise ValueError("a $ref leads back to itself: no value could ever be judged by it")
        self._under_way.add(id(node))
        root = node if isinstance(node.get("$id"), str) else root
        self._known[id(node)] = node, root
        found = Counter({id(node): 1})
        for schema, whose in self._same(node, root):
            self._add(found, self._looks(schema, whose), 1)
        self._under_way.remove(id(node))
        self._at_once[id(node)] = found
        return found

    @staticmethod
    def _add(looks: _Looks, more: _Looks, times: int) -> None:
        for each, count in more.items():
            looks[each] += count * times
        if looks.total() > MAX_LOOKS:
            raise ValueError(f"it looks at one value more than {MAX_LOOKS} times: its definitions multiply each other")

    def _same(self, node: _Node, root: _Node) -> Iterator[tuple[_Node, _Node]]:
        again = 2 if "unevaluatedProperties" in node or "unevaluatedItems" in node else 1  # they ask the others anew
        for key in _SAME * again:
            yield from ((schema, root) for schema in _schemas(node, key))
        if any(key in node for key in _FLOATING):
            raise ValueError("$dynamicRef and $recursiveRef are not known here: use $ref")
        if isinstance(node.get("$ref"), str):
            yield from [self._found(node["$ref"], root)] * again

    def _found(self, ref: str, root: _Node) -> tuple[_Node, _Node]:
        where, _, fragment = ref.partition("#")
        absolute = urljoin(str(root.get("$id", "")), where)
        base = self._named.get(where, self._named.get(absolute)) if where else root
        found: Any = self._anchors.get(fragment) if fragment and not fragment.startswith("/") else base
        for step in unquote(fragment).split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                found = found[int(key)] if key.isdecimal() and int(key) < len(found) else None
            else:
                found = _mapping(found).get(key)
        if isinstance(found, bool):
            found = {}
        if base is None or not isinstance(found, Mapping):
            raise ValueError(f"$ref {ref!r} is outside of the schema: write #/… or the $id of one that is in it")
        return found, base


def _at(node: _Node, label: str | None) -> Iterator[_Node]:
    """Name the schemas for one key, or for items; the empty key stands for all that are not named."""
    if label is None:
        for key in _ITEMS:
            yield from _schemas(node, key)
        return
    known = _mapping(node.get("properties")).get(label)
    if isinstance(known, Mapping):
        yield known
    for key in _KEYS:
        if known is None or key in {"patternProperties", "propertyNames"}:
            yield from _schemas(node, key)


def _schemas(node: _Node, key: str) -> list[_Node]:
    """List the schemas that a keyword holds: one, several, or several by name."""
    value = node.get(key)
    several = list(value.values()) if key in _BY_NAME and isinstance(value, Mapping) else value
    return [each for each in (several if isinstance(several, list) else [several]) if isinstance(each, Mapping)]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
