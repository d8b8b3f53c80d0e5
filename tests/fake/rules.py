"""The few updates that the real server refuses and that the product plans around: immutable fields."""

from __future__ import annotations

from . import problems
from .kinds import Kind, Manifest


def check_update(kind: Kind, live: Manifest, new: Manifest) -> None:
    """Refuse a change of what cannot change."""
    name = new["metadata"]["name"]
    if kind.kind in ("Deployment", "ReplicaSet") and live["spec"].get("selector") != new["spec"].get("selector"):
        raise problems.invalid(kind, name, "spec.selector", "Invalid value: field is immutable")
    if kind.kind == "RoleBinding" and live.get("roleRef") != new.get("roleRef"):
        raise problems.invalid(kind, name, "roleRef", "Invalid value: cannot change roleRef")
    if kind.kind == "ControllerRevision" and live.get("data") != new.get("data"):
        raise problems.invalid(kind, name, "data", "Invalid value: field is immutable")
    frozen = kind.kind == "ConfigMap" and live.get("immutable")
    if frozen and any(live.get(part) != new.get(part) for part in ("data", "binaryData", "immutable")):
        raise problems.invalid(kind, name, "data", "Forbidden: field is immutable when `immutable` is set")
