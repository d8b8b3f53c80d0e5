"""YAML as Argo reads it: go-yaml v2, strict, whose scalars are those of YAML 1.1 and a few more; then JSON."""

import math
import re
from typing import Any, Final

import yaml

_WORDS: Final[dict[str, bool | None]] = {
    word: value
    for value, stems in {True: ("y", "yes", "true", "on"), False: ("n", "no", "false", "off"), None: ("null",)}.items()
    for stem in stems
    for word in (stem, stem.capitalize(), stem.upper())
} | {"": None, "~": None}
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTS: Final = ((r"0[xX]([0-9a-fA-F]+)", 16), (r"0[oO]?([0-7]+)", 8), (r"0[bB]([01]+)", 2), (r"(0|[1-9][0-9]*)", 10))


class Unreadable(Exception):
    """The text is no YAML, or has a key twice."""


def load(text: str) -> Any:
    """Read the first document; keys are text."""
    try:
        documents = yaml.compose_all(text, Loader=yaml.SafeLoader)
        node = next(iter(documents), None)
    except yaml.YAMLError as exc:
        raise Unreadable(f"error converting YAML to JSON: yaml: {exc}") from exc
    return None if node is None else _value(node)


def _value(node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return resolve(node.value) if node.style is None else node.value
    if isinstance(node, yaml.SequenceNode):
        return [_value(each) for each in node.value]
    found: dict[str, Any] = {}
    for key, value in node.value:
        name = as_text(_value(key))
        if name is None:
            raise Unreadable("error converting YAML to JSON: unsupported map key")
        if name in found:
            raise Unreadable(f'error converting YAML to JSON: yaml: unmarshal errors: key "{name}" already set in map')
        found[name] = _value(value)
    return found


def resolve(text: str) -> Any:
    """Read a bare scalar: text, a truth, a number or nothing."""
    if text in _WORDS:
        return _WORDS[text]
    if not text[0].isascii() or text[0] not in "0123456789+-." or _DATE.fullmatch(text):
        return text
    plain = text.replace("_", "")
    sign, digits = (-1, plain[1:]) if plain[:1] == "-" else (1, plain.removeprefix("+"))
    for pattern, base in _INTS:
        if found := re.fullmatch(pattern, digits):
            number = sign * int(found[1], base)
            return number if -(2**63) <= number < 2**64 else float(number)
    return float(plain) if _FLOAT.fullmatch(plain) else text


def as_text(value: Any) -> str | None:
    """Write a scalar as Argo does where it wants a text; `None` for what it does not turn into one."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value == int(value) and abs(value) < 1e6 else repr(value)
    return None
