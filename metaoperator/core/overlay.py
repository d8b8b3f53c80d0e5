"""What an object would be after a write, by value: for whoever may not ask the API server.

Defaulting, admission and what an apply takes away are not known here.
"""

from collections.abc import Mapping
from typing import Any

from metaoperator.core import drift, names, values
from metaoperator.core.model import Manifest

UNKNOWN_UID = "not known before it is made"


def applied(manifest: Manifest, live: Manifest | None) -> dict[str, Any]:
    """Lay rendered fields over a live object, `None` for one that is not there; items that others own in lists stay."""
    base: Manifest = {"metadata": {"uid": UNKNOWN_UID}} if live is None else live
    over = values.merge(_laid(manifest, base), drift.lists_at_odds(manifest, base))
    others = [
        each for each in base["metadata"].get("managedFields") or () if each.get("manager") != names.FIELD_MANAGER
    ]
    kept: dict[str, Any] = {"uid": base["metadata"]["uid"], "resourceVersion": next_version(live)}
    if live is None:
        kept["generation"] = 1
    managers = [*others, {"manager": names.FIELD_MANAGER, "operation": "Apply"}]
    return {**over, "metadata": {**over["metadata"], **kept, "managedFields": managers}}


def merged(patch: Manifest, live: Manifest) -> dict[str, Any]:
    """Lay a merge patch over a live object."""
    over = values.merge(live, patch)
    return {**over, "metadata": {**over["metadata"], "resourceVersion": next_version(live)}}


def became(successor: Manifest, live: Manifest) -> dict[str, Any]:
    """Write what an object that was taken over becomes: its successor, under its own identity.

    Labels and annotations that others put on it stay, and so do those on its pods.
    """
    over: dict[str, Any] = {**successor, "metadata": _with_notes(successor["metadata"], live["metadata"])}
    over["metadata"].get("annotations", {}).pop(names.LAST_APPLIED_ANNOTATION, None)
    over["metadata"] |= {key: live["metadata"][key] for key in ("name", "uid") if key in live["metadata"]}
    over["metadata"]["resourceVersion"] = next_version(live)
    spec, before = over.get("spec") or {}, live.get("spec") or {}
    if isinstance(spec.get("template"), Mapping) and isinstance(before.get("template"), Mapping):
        template, old = spec["template"], before["template"]
        notes = _with_notes(template.get("metadata") or {}, old.get("metadata") or {})
        over["spec"] = {**spec, "template": {**template, "metadata": notes}}
    return over


def _with_notes(meta: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    notes = {key: {**(before.get(key) or {}), **(meta.get(key) or {})} for key in ("labels", "annotations")}
    return {**meta, **{key: value for key, value in notes.items() if value}}


def next_version(live: Manifest | None) -> str:
    """Count up: readers take the higher version for the newer object."""
    return str(int((live or {"metadata": {}})["metadata"].get("resourceVersion") or 0) + 1)


def _laid(manifest: Manifest, base: Manifest) -> dict[str, Any]:
    laid = dict(base)
    for key, value in manifest.items():
        below = base.get(key)
        if isinstance(value, Mapping):
            laid[key] = _laid(value, below if isinstance(below, Mapping) else {})
        elif not (isinstance(value, list) and isinstance(below, list)):
            laid[key] = value
    return laid
