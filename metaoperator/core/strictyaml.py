"""YAML as people mean it: YAML 1.2 scalars, no duplicate keys, no aliases, no tags.

PyYAML's own loaders let the last of two equal keys win in silence, read `on`, `no`, `0755` and `12:30` as something
else than text, and follow aliases that unfold to gigabytes. Each of those is an error or plain text here.
"""

import math
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import yaml

MAX_DEPTH: Final = 100
"""Lists and mappings inside one another, whatever Python's own limit is: what reads them recurses."""
_STR: Final = "tag:yaml.org,2002:str"


class StrictYamlError(ValueError):
    """The text is not YAML of the strict kind; `line` counts from 1 where it is known."""

    def __init__(self, what: str, line: int | None) -> None:
        super().__init__(what)
        self.what = what
        self.line = line


class _Loader(yaml.CSafeLoader):
    _depth = 0
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own protocol

    def construct_object(self, node: Any, deep: bool = False) -> Any:  # noqa: ARG002, FBT001, FBT002 - PyYAML's signature
        if node in self.constructed_objects:
            raise yaml.constructor.ConstructorError(None, None, "aliases are not allowed", node.start_mark)
        if self._depth > MAX_DEPTH:
            what = f"lists and mappings stand more than {MAX_DEPTH} deep in one another"
            raise yaml.constructor.ConstructorError(None, None, what, node.start_mark)
        self._depth += 1
        found = super().construct_object(node, deep=True)
        self._depth -= 1
        return found


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    first: dict[str, int] = {}
    for key, _ in node.value:
        if key.tag != _STR:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key.value!r} is not a string: put it in quotes", key.start_mark
            )
        if key.value in first:
            raise yaml.constructor.ConstructorError(
                None, None, f"duplicate key {key.value!r}, first on line {first[key.value] + 1}", key.start_mark
            )
        first[key.value] = key.start_mark.line
    return {loader.construct_object(key): loader.construct_object(value) for key, value in node.value}


def _unknown(_: _Loader, node: yaml.Node) -> Any:
    raise yaml.constructor.ConstructorError(None, None, f"tag {node.tag!r} is not allowed", node.start_mark)


def _scalar(tag: str, pattern: str, read: Callable[[str], Any]) -> Callable[[_Loader, yaml.ScalarNode], Any]:
    written = re.compile(pattern)

    def construct(loader: _Loader, node: yaml.ScalarNode) -> Any:
        # A tag written out reaches us with any text: `!!bool "no"` would be False, `!!float nan` no JSON at all.
        if node.style or not written.match(node.value):
            return _unknown(loader, node)
        try:
            return read(node.value)
        except ValueError as exc:  # more digits than Python converts
            raise yaml.constructor.ConstructorError(None, None, f"not a usable {tag}: {exc}", node.start_mark) from exc

    return construct


_Loader.yaml_constructors = {
    None: _unknown,
    _STR: yaml.constructor.SafeConstructor.construct_yaml_str,
    "tag:yaml.org,2002:map": _mapping,
    "tag:yaml.org,2002:seq": lambda loader, node: [loader.construct_object(child) for child in node.value],
}


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError("too large")
    return value


_SCALARS: Final[tuple[tuple[str, str, Sequence[str], Callable[[str], Any]], ...]] = (
    ("bool", r"^(?:true|false)$", "tf", "true".__eq__),
    ("int", r"^-?(?:0|[1-9][0-9]*)$", "-0123456789", int),
    ("float", r"^-?(?:0|[1-9][0-9]*)\.[0-9]+(?:[eE][-+]?[0-9]+)?$", "-0123456789", _finite),
    ("null", r"^(?:null|~|)$", ["n", "~", ""], lambda _: None),
)
for _tag, _pattern, _starts, _read in _SCALARS:
    _Loader.yaml_constructors[f"tag:yaml.org,2002:{_tag}"] = _scalar(_tag, _pattern, _read)
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_starts))


def load(text: str) -> Any:
    """Read exactly one document; `None` for a text without any. `StrictYamlError` says what is wrong and where."""
    # A SafeLoader subclass: the linter knows only the stock names.
    return _told(lambda: yaml.load(text, Loader=_Loader))  # noqa: S506


def documents(text: str) -> list[Any]:
    """Read every document of a text, as strictly."""
    found: list[Any] = _told(lambda: list(yaml.load_all(text, Loader=_Loader)))
    return found


def line_of(text: str, path: Sequence[str | int], document: int = 0) -> int | None:
    """Find the line of a value in a text that `documents` reads; `None` for a document that holds nothing."""
    root: Any = list(yaml.compose_all(text, Loader=_Loader))[document]
    return None if root is None else _line(root, path)


def _told(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        line = None if mark is None else mark.line + 1
        # libyaml tells some faults in two halves: "expected a single document", "but found another document".
        halves = (exc.context, exc.problem) if (exc.problem or "").startswith("but ") else (exc.problem,)
        raise StrictYamlError(", ".join(filter(None, halves)) or str(exc), line) from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise StrictYamlError(" ".join(str(exc).split()) or type(exc).__name__, None) from exc


class _Dumper(yaml.CSafeDumper):
    """Block YAML in which every string is quoted, so that no reader of any YAML version retypes it."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _unwritable(_: yaml.CSafeDumper, value: Any) -> yaml.Node:
    str(value)  # what a template is missing says so itself
    raise TypeError(f"{type(value).__name__} cannot be written as YAML")


_Dumper.add_representer(None, _unwritable)  # type: ignore[arg-type]  # PyYAML's name for every other type
_Dumper.add_multi_representer(str, lambda dumper, text: dumper.represent_scalar(_STR, str(text), style='"'))
_Dumper.add_representer(str, lambda dumper, text: dumper.represent_scalar(_STR, text, style='"'))


def dump(value: Any) -> str:
    """Write block YAML, keys sorted, strings quoted: what the child's own YAML 1.1 reader cannot misread."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=True, default_flow_style=False, width=10**6)
    return text


_RETYPED: Final = re.compile(r"[-+]?\.?[0-9].*|[-+]?\.(?:inf|nan)|y|n|yes|no|on|off|true|false|null|~", re.IGNORECASE)


class _PlainDumper(yaml.CSafeDumper):
    """YAML for people: texts of several lines as blocks, quotes where any reader might see something else than text."""


def _plain(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    # kubectl reads `08`, `1e3`, `0o17`, `y` and `3240286e-210077` as other things than PyYAML does.
    style = "|" if "\n" in text else "'" if _RETYPED.fullmatch(text) else None
    return dumper.represent_scalar(_STR, text, style=style)


_PlainDumper.add_representer(str, _plain)


def dump_plain(value: Any) -> str:
    """Write YAML for people to read, in the order given."""
    text: str = yaml.dump(value, Dumper=_PlainDumper, sort_keys=False, default_flow_style=False)
    return text


def locator(text: str) -> Callable[[Sequence[str | int]], int]:
    """Tell, for a document that `load` reads, on which line a value stands; the text is read once for all values."""
    root: Any = yaml.compose(text, Loader=_Loader)
    return lambda path: _line(root, path)


def _line(root: yaml.Node, path: Sequence[str | int]) -> int:
    """Find the line, from 1: of the key where a mapping holds the value, of the nearest value above what is missing.

    An item of a list is named by its place, as a number or as its digits.
    """
    node: Any = root
    mark = node.start_mark
    for step in path:
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == step), None)
        elif isinstance(node, yaml.SequenceNode) and str(step).isdecimal() and int(step) < len(node.value):
            found = (node.value[int(step)],) * 2
        else:
            found = None
        if found is None:
            break
        mark, node = found[0].start_mark, found[1]
    return int(mark.line) + 1
