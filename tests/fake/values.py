"""Small operations on JSON values that every part needs."""

from datetime import UTC, datetime
from typing import Any, TypeVar, cast

Value = TypeVar("Value")


def clone(value: Value) -> Value:
    """Copy a JSON value; several times faster than `copy.deepcopy`."""
    return cast("Value", _clone(value))


def _clone(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _clone(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_clone(inner) for inner in value]
    return value


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return clone(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def without_nulls(value: Any) -> Any:
    """Drop null fields, as decoding into a Go struct does; custom resources keep them."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value


def utc_now() -> datetime:
    """Return the time of day."""
    return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """Write a moment as Kubernetes does, to the second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def micro(moment: datetime) -> str:
    """Write a moment as Leases do, to the microsecond."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
