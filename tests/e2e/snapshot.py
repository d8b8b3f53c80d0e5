"""Everything that can be listed in the cluster, with UID and content."""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .local import Api, Object

Key = tuple[str, str, str]
"""Resource with its group, namespace, name."""
Snapshot = dict[Key, Object]

# Events record that something happened, and every opt-in happens. Both groups show the same objects.
_RECORDS = frozenset({"v1/events", "events.k8s.io/v1/events"})


def take(api: Api, *, touched: Iterable[str] = ()) -> Snapshot:
    """List every kind that has the verb `list`, each in its preferred version.

    `touched` names namespaces whose label the test itself changes: of their Namespace objects all counts but the
    trace of those writes (resourceVersion and managedFields).
    """
    trails = {("v1/namespaces", "", name) for name in touched}
    found: Snapshot = {}
    for resource in resources(api):
        if resource in _RECORDS:
            continue
        for item in api.objects(resource):
            key = (resource, item["metadata"].get("namespace", ""), item["metadata"]["name"])
            found[key] = _still(key, item, written_by_the_test=key in trails)
    return found


def resources(api: Api) -> list[str]:
    """Name every listable resource once, as `group/version/plural`."""
    found: dict[tuple[str, str], str] = {}
    core = api.get("/api/v1")
    groups = api.get("/apis")
    assert core is not None
    assert groups is not None
    versions = [("", "v1", core)]
    for group in groups["groups"]:
        # The preferred version first; a kind that only an older one serves is found there.
        names = [group["preferredVersion"]["groupVersion"], *(each["groupVersion"] for each in group["versions"])]
        versions += [(group["name"], name, api.get(f"/apis/{name}") or {"resources": []}) for name in names]
    for group_name, version, body in versions:
        for each in body["resources"]:
            if "/" not in each["name"] and "list" in each["verbs"]:
                found.setdefault((group_name, each["name"]), f"{version}/{each['name']}")
    return sorted(found.values())


def _still(key: Key, item: Object, *, written_by_the_test: bool) -> Object:
    """Take out of an object what moves while nobody does anything."""
    kept = copy.deepcopy(item)
    meta = kept["metadata"]
    trail = written_by_the_test
    match key[0]:
        case "coordination.k8s.io/v1/leases":
            # A holder renews: every few seconds, for as long as it lives.
            kept["spec"].pop("renewTime", None)
            trail = True
        case "v1/nodes":
            # The kubelet's heartbeat, every few minutes.
            for each in kept["status"].get("conditions", ()):
                each.pop("lastHeartbeatTime", None)
            trail = True
        case "metaoperator.dev/v1alpha1/controllertemplates":
            # Its status counts the namespaces that it serves: up at opt-in, and the same again after.
            trail = True
    if trail:
        meta.pop("resourceVersion", None)
        meta.pop("managedFields", None)
    return kept


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """Name what came, went or changed, one line each, with the paths that changed."""
    told = [f"gone: {'/'.join(key)}" for key in sorted(before.keys() - after.keys())]
    told += [f"left: {'/'.join(key)}" for key in sorted(after.keys() - before.keys())]
    for key in sorted(before.keys() & after.keys()):
        if paths := sorted(_changed(before[key], after[key], "")):
            told.append(f"changed: {'/'.join(key)}: {', '.join(paths)}")
    return told


def _changed(before: Any, after: Any, path: str) -> list[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = before.keys() | after.keys()
        return [each for key in keys for each in _changed(before.get(key), after.get(key), f"{path}.{key}".lstrip("."))]
    return [] if before == after else [f"{path} ({before!r} → {after!r})"]


def part(snapshot: Snapshot, matches: Callable[[Key], bool]) -> Snapshot:
    """Keep what `matches` says yes to."""
    return {key: item for key, item in snapshot.items() if matches(key)}
