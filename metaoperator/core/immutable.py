"""Fields that no update may change: where rendered bytes want another value, only another object can hold it."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from metaoperator.core import names, ownership
from metaoperator.core.drift import differences
from metaoperator.core.model import Manifest

_Found = Iterator[tuple[str, Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One immutable field that is wanted otherwise."""

    field: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.field} cannot be changed from {_shown(self.before)} to {_shown(self.after)}"


def change(manifest: Manifest, live: Manifest) -> Change | None:
    """Find the first immutable field that is rendered otherwise than it is."""
    rule = _RULES.get(_kind(manifest))
    found = next(rule(manifest, live), None) if rule is not None else None
    return None if found is None else Change(field=found[0], before=found[1], after=found[2])


def holds_data(live: Manifest) -> str | None:
    """Say what a deletion would destroy, or `None` where an object can be made anew from what is rendered."""
    if _kind(live) == ("", "PersistentVolumeClaim"):
        return "its volume may go with it"
    policy = (live.get("spec") or {}).get("persistentVolumeClaimRetentionPolicy") or {}
    if _kind(live) == ("apps", "StatefulSet") and policy.get("whenDeleted") == "Delete":
        return "its PersistentVolumeClaims go with it (spec.persistentVolumeClaimRetentionPolicy.whenDeleted is Delete)"
    return None


def runs_pods(manifest: Manifest) -> bool:
    """Tell whether pods have to be gone before a successor of this object may be made."""
    return _kind(manifest) in _WORKLOADS


def successor(manifest: Manifest) -> Manifest:
    """Write what replaces an object so that the API server can be asked about it: the name itself is still taken.

    The resource version is one that no object has, so that nothing else of that name answers.
    """
    meta = manifest["metadata"]
    return {**manifest, "metadata": {**meta, "name": f"{meta['name'][:50]}-next", "resourceVersion": "1"}}


def ours_to_replace(live: Manifest, found: Change) -> bool:
    """Tell whether we wrote what is in the way, and not somebody who re-created the object or froze it.

    What nobody owns the API server filled in, as it does with addresses. `live` carries its managedFields whole.
    """
    frozen = _kind(live) in _FROZEN and live.get("immutable") is True
    field = "immutable" if frozen and found.field != "type" else found.field
    owners = [manager for manager in _managers(live) if ownership.owns(live, manager, tuple(field.split(".")))]
    return not owners or names.FIELD_MANAGER in owners


def _kind(manifest: Manifest) -> tuple[str, str]:
    return manifest["apiVersion"].rpartition("/")[0], manifest["kind"]


def _exact(*fields: str) -> Callable[[Manifest, Manifest], _Found]:
    """Compare fields that the API server fills nothing into: one that is no longer rendered is a change as well."""

    def rule(manifest: Manifest, live: Manifest) -> _Found:
        for field in fields:
            wanted, found = _at(manifest, field), _at(live, field)
            if any(differences(wanted, found)) or any(differences(found, wanted)):
                yield field, found, wanted

    return rule


def _rendered(*fields: str) -> Callable[[Manifest, Manifest], _Found]:
    """Compare fields that the API server completes: only what is rendered counts."""

    def rule(manifest: Manifest, live: Manifest) -> _Found:
        for field in fields:
            wanted, found = _at(manifest, field), _at(live, field)
            if wanted is not None and any(differences(wanted, found)):
                yield field, found, wanted

    return rule


def _all(*rules: Callable[[Manifest, Manifest], _Found]) -> Callable[[Manifest, Manifest], _Found]:
    def rule(manifest: Manifest, live: Manifest) -> _Found:
        for each in rules:
            yield from each(manifest, live)

    return rule


def _service(manifest: Manifest, live: Manifest) -> _Found:
    wanted, found = manifest.get("spec") or {}, live.get("spec") or {}
    if "ExternalName" in (wanted.get("type"), found.get("type")):
        return
    ip, has = wanted.get("clusterIP") or "", found.get("clusterIP") or ""
    # An address that is no longer rendered is kept by the API server, and is fine; `None` is no address, and it never
    # gives one to a Service that had none.
    if has and ((ip and ip != has) or (not ip and has == "None")):
        yield "spec.clusterIP", has, ip or "an address"
    families, first = wanted.get("ipFamilies") or (), found.get("ipFamilies") or ()
    if families and first and families[0] != first[0]:
        yield "spec.ipFamilies", list(first), list(families)


def _frozen(manifest: Manifest, live: Manifest) -> _Found:
    if live.get("immutable") is not True:
        return
    if manifest.get("immutable") is not True:
        yield "immutable", True, manifest.get("immutable", False)
    for field in ("data", "binaryData"):
        wanted, found = manifest.get(field) or {}, live.get(field) or {}
        gone = [key for key in found if key not in wanted and not _is_anothers(live, field, key)]
        apart = sorted({*gone, *(key for key, value in wanted.items() if found.get(key) != value)})
        if apart:
            yield f"{field}.{apart[0]}", found.get(apart[0]), wanted.get(apart[0])


def _is_anothers(live: Manifest, field: str, key: str) -> bool:
    others = _managers(live) - {names.FIELD_MANAGER}
    return any(ownership.owns(live, manager, (field, key)) for manager in others)


def _managers(live: Manifest) -> set[str]:
    return {entry.get("manager", "") for entry in live["metadata"].get("managedFields") or ()}


def _at(manifest: Manifest, field: str) -> Any:
    below: Any = manifest
    for key in field.split("."):
        below = below.get(key) if isinstance(below, Mapping) else None
    return below


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}…"


_FROZEN: Final = frozenset({("", "ConfigMap"), ("", "Secret")})
_WORKLOADS: Final = frozenset(
    {("apps", "DaemonSet"), ("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("batch", "Job")}
)
_RULES: Final[Mapping[tuple[str, str], Callable[[Manifest, Manifest], _Found]]] = {
    # PodDisruptionBudgets, NetworkPolicies, HorizontalPodAutoscalers and ServiceAccounts have no such field.
    ("", "ConfigMap"): _frozen,
    ("", "PersistentVolumeClaim"): _rendered(
        "spec.accessModes", "spec.dataSource", "spec.selector", "spec.storageClassName", "spec.volumeMode",
        "spec.volumeName",
    ),
    ("", "Secret"): _all(_rendered("type"), _frozen),
    ("", "Service"): _service,
    ("apps", "ControllerRevision"): _exact("data"),
    ("apps", "DaemonSet"): _exact("spec.selector"),
    ("apps", "Deployment"): _exact("spec.selector"),
    ("apps", "ReplicaSet"): _exact("spec.selector"),
    ("apps", "StatefulSet"): _all(
        _exact("spec.selector"), _rendered("spec.podManagementPolicy", "spec.serviceName", "spec.volumeClaimTemplates")
    ),
    ("batch", "Job"): _rendered("spec.completionMode", "spec.selector", "spec.template"),
    ("rbac.authorization.k8s.io", "RoleBinding"): _rendered("roleRef"),
}  # fmt: skip
