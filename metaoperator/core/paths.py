"""How fields are named in messages and settings, and which lists are merged item by item.

`spec.template.spec.containers[workflow-controller].resources`: keys joined by dots, an item of a merged list by its
key in brackets. A key that holds dots itself is written as it is: `metadata.annotations.example.com/role`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from metaoperator.core.model import Manifest

Keys = tuple[str, ...]
"""The way to a field; the step to an item of a merged list is its key in brackets, `[workflow-controller]`."""

_LIST_KEYS: Final = ("name", "mountPath", "devicePath", "containerPort", "port")
_MERGED_LISTS: Final = frozenset(
    # Of these the API server lets several managers own an item each. Any other list is one manager's as a whole: a
    # subject that somebody adds to our RoleBinding is drift.
    {
        "containers", "ephemeralContainers", "env", "imagePullSecrets", "initContainers", "ports", "volumeDevices",
        "volumeMounts", "volumes",
    }
)  # fmt: skip


def mapping(manifest: Manifest, *steps: str) -> Mapping[str, Any]:
    """Find the mapping at a path; empty where something else stands on the way. Of a stranger's kind anything may."""
    found: Any = manifest
    for step in steps:
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def merge_key(field: str, items: Sequence[Any]) -> str | None:
    """Name the key that tells the items of a list apart, or `None` where the list is one value."""
    if field not in _MERGED_LISTS:
        return None
    for key in _LIST_KEYS:
        found = [item.get(key) if isinstance(item, Mapping) else None for item in items]
        if found and all(isinstance(each, str | int) for each in found) and len(set(found)) == len(found):
            return key
    return None


def children(value: Any, field: str = "") -> Iterator[tuple[str, Any]]:
    """Step into a mapping, or into a list that is merged item by item; anything else has no fields of its own."""
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list) and (key := merge_key(field, value)) is not None:
        for item in value:
            yield f"[{item[key]}]", item


def locate(manifest: Manifest, path: str) -> Keys | None:
    """Find the field that a path names, or `None` where nothing of that name is rendered."""
    return _locate(manifest, "", path)


def nearest(manifest: Manifest, path: str) -> Keys:
    """Find the field of a path, or else the closest one around it: an item of a list that is one value."""
    while path:
        if (found := locate(manifest, path)) is not None:
            return found
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return ()


def _locate(value: Any, field: str, path: str) -> Keys | None:
    for step, inner in children(value, field):
        # A key may also stand in brackets: annotations[example.com/role].
        for written in {step, f"[{step}]"} if not step.startswith("[") else {step}:
            if not path.startswith(written):
                continue
            rest = path[len(written) :]
            if not rest:
                return (step,)
            if rest[0] in ".[":
                below = _locate(inner, step, rest.removeprefix("."))
                if below is not None:
                    return (step, *below)
    return None
