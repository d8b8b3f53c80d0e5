"""Reading what somebody may have edited: a `ValueError` says which part has not the shape that it was written in."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

_STAMP: Final = "%Y-%m-%dT%H:%M:%SZ"
_DIGITS: Final = 18
"""Of a number that is an int64 in any case."""


def text(found: Mapping[str, Any], key: str) -> str:
    """Read a text."""
    value = found.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key} is missing" if value is None else f"{key} is no text")  # noqa: TRY004 - told alike
    return value


def mapping(found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Read a mapping."""
    value = found.get(key)
    if not isinstance(value, Mapping):
        raise ValueError(f"{key} is no mapping")  # noqa: TRY004
    return value


def texts(found: Mapping[str, Any], key: str) -> Mapping[str, str]:
    """Read a mapping of texts."""
    value = mapping(found, key)
    for each in value:
        text(value, each)
    return value


def number(found: Mapping[str, Any], key: str) -> int:
    """Read a count that was written as text."""
    value = text(found, key)
    if not (value.isascii() and value.isdecimal() and len(value) <= _DIGITS):
        raise ValueError(f"{key} is {value!r}, which is no number")
    return int(value)


def time(found: Mapping[str, Any], key: str) -> datetime:
    """Read a time, in whole seconds and UTC."""
    value = text(found, key)
    try:
        return datetime.strptime(value, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        raise ValueError(f"{key} is {value!r}, which is no time like 2026-01-31T12:00:00Z") from None


def stamp(moment: datetime) -> str:
    """Write a time as `time` reads it, and as Kubernetes does."""
    return moment.astimezone(UTC).strftime(_STAMP)
