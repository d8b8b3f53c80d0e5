"""How values become text: bare, or as JSON that every reader of YAML takes for the same value."""

import hashlib
import json
import re
from typing import Any, Final

import jinja2

from metaoperator.core import meter
from metaoperator.core.meter import Refused

_TEXT_OR_EXPONENT: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|(?<![.\d])(-?\d+)(e[-+]\d+)')
_UNREADABLE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_NOT_YAML: Final = re.compile(rf"{_UNREADABLE.pattern}|[0-9]e[-+]")


class Made(str):
    """Text that templates made, from their own words and from values that were written safely."""

    __slots__ = ()


def text(value: Any) -> str:
    """Write a text, a number or a truth value bare; all else is refused, for Python's way of writing it is not YAML."""
    if isinstance(value, str | jinja2.Undefined):
        return value if isinstance(value, str) else str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return q(meter.number(value))
    what = {type(None): "null", dict: "a mapping", list: "a list", tuple: "a list"}.get(type(value), "a function")
    cure = "call it, with ()" if what == "a function" else "write it with the filter q"
    raise Refused(f"prints {what}", cure)


def q(value: Any) -> str:
    """Write any value as JSON, which is YAML too: the one way to put data into a manifest."""
    found = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, default=_unwritable)
    return _TEXT_OR_EXPONENT.sub(_as_yaml, found) if _NOT_YAML.search(found) else found


def _unwritable(value: Any) -> Any:
    if isinstance(value, jinja2.Undefined):
        str(value)  # a sentence about what is missing
    raise Refused("writes down a function", "call it, with ()")


def _as_yaml(found: re.Match[str]) -> str:
    # Where JSON is not YAML: characters that YAML takes for line breaks or refuses, and 1e-05, which is text to it.
    if found[1] is not None:
        return f"{found[1]}.0{found[2]}"
    return _UNREADABLE.sub(lambda char: f"\\u{ord(char[0]):04x}", found[0])


def digest(value: str) -> str:
    """Shorten a text to 16 hex digits that change with it."""
    return hashlib.sha256(value.encode()).hexdigest()[:16]
