"""Whose an object is, and whose a field of it is.

Ours = our label, our field manager and the annotation with the namespace's UID. A copy of one of our objects in
another namespace, or one that survived in a re-created namespace's name, carries another UID and is not ours.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from metaoperator.core import names, paths
from metaoperator.core.model import Manifest
from metaoperator.core.paths import Keys

_AUTOSCALER: Final = "kube-controller-manager"
"""As which the HorizontalPodAutoscaler writes, and only it through the subresource `scale`."""
_REPLICAS: Final = ("spec", "replicas")
_ITEM_DEFAULTS: Final = {"protocol": "TCP"}
_ITEM_KEYS: Final = ("name", "mountPath", "devicePath", "containerPort", "port", "protocol")

Tree = Mapping[str, Any]
"""What one manager owns, as `fieldsV1` writes it."""


def is_ours(live: Manifest, namespace_uid: str) -> bool:
    """Tell whether a live object is ours in this incarnation of the namespace."""
    meta = live["metadata"]
    return (
        (meta.get("labels") or {}).get(names.MANAGED_BY_LABEL) == names.MANAGED_BY
        and (meta.get("annotations") or {}).get(names.NAMESPACE_UID_ANNOTATION) == namespace_uid
        and any(entry.get("manager") == names.FIELD_MANAGER for entry in meta.get("managedFields") or ())
    )


def rendered_digest(manifest: Manifest) -> str:
    """Read the digest that marks which rendered bytes an object was applied from."""
    return str((manifest["metadata"].get("annotations") or {}).get(names.RENDERED_ANNOTATION, ""))


def inputs(manifest: Manifest) -> str:
    """Name all that an object is applied from: the rendered bytes, and the ServiceAccount that its pods are tied to.

    An account that is made anew changes a Deployment as other values do: that is our own doing, and nobody's edit.
    """
    annotations = paths.mapping(manifest, "spec", "template", "metadata", "annotations")
    return f"{rendered_digest(manifest)} {annotations.get(names.ACCOUNT_ANNOTATION, '')}"


def held(live: Manifest) -> str:
    """Say which finalizers keep an object that is being deleted; those of the garbage collector go by themselves."""
    meta = live["metadata"]
    found = sorted(set(meta.get("finalizers") or ()) - {"foregroundDeletion", "orphan"})
    return f" (held by its finalizers {', '.join(found)})" if "deletionTimestamp" in meta and found else ""


def owns(live: Manifest, manager: str, keys: Keys) -> bool:
    """Tell whether a manager owns a field, or anything in it."""
    entries = live["metadata"].get("managedFields") or ()
    mine = [entry.get("fieldsV1") or {} for entry in entries if entry.get("manager") == manager]
    return any(_descend(tree, live, keys) is not None for tree in mine)


def writers(manifest: Manifest, live: Manifest, differing: Collection[str]) -> tuple[str, ...]:
    """Name the other managers that own any of these fields now: who wrote them last."""
    ways = [paths.nearest(manifest, path) for path in differing]
    found = {
        entry["manager"] + (f" through {entry['subresource']}" if entry.get("subresource") else "")
        for entry in _others(live)
        if any(_descend(entry["fieldsV1"], manifest, way) is not None for way in ways)
    }
    return tuple(sorted(found))


def left_to_others(manifest: Manifest, live: Manifest, listed: Collection[Keys]) -> Manifest:
    """Leave out of what is rendered every listed field that another manager owns, and what an autoscaler scales.

    A listed field stands for all that is in it, and each field in it is judged by itself: what nobody else owns stays
    as rendered, for an apply without it would take it away.
    """
    others = list(_others(live))
    left = dict(manifest)
    if listed and others:
        left = _left(left, [entry["fieldsV1"] for entry in others], list(listed), "")
    scaled = (
        entry["fieldsV1"] for entry in others if (entry["manager"], entry.get("subresource")) == (_AUTOSCALER, "scale")
    )
    if any(_descend(tree, manifest, _REPLICAS) is not None for tree in scaled):
        left = {**left, "spec": {key: value for key, value in left["spec"].items() if key != "replicas"}}
    return left


def _others(live: Manifest) -> Iterator[Mapping[str, Any]]:
    for entry in live["metadata"].get("managedFields") or ():
        # An entry without fields is one of whom only the name is known: it writes the status.
        if entry.get("manager") != names.FIELD_MANAGER and entry.get("subresource") != "status" and "fieldsV1" in entry:
            yield entry


_NOTHING: Final = object()


def _left(value: Any, trees: Sequence[Tree], listed: Sequence[Keys], field: str) -> Any:
    """Copy a value without what is listed and owned; `_NOTHING` when that is all of it."""
    if not listed or not trees:
        return value
    inside = list(paths.children(value, field))
    # An empty tree owns its field as a whole: a scalar, or a list or mapping that is one value to the API server.
    if () in listed and (not inside or any(not tree for tree in trees)):
        return _NOTHING
    kept: dict[str, Any] = {}
    for step, inner in inside:
        below = [found for tree in trees if (found := _step(tree, step, inner)) is not None]
        deeper = [way[1:] for way in listed if way and way[0] == step] + [()] * (() in listed)
        kept[step] = _left(inner, below, deeper, step)
    if all(each is _NOTHING for each in kept.values()):
        return _NOTHING if () in listed else type(value)()
    if isinstance(value, list):
        whole = dict(inside)
        return [_with_keys(each, whole[step]) for step, each in kept.items() if each is not _NOTHING]
    return {step: each for step, each in kept.items() if each is not _NOTHING}


def _with_keys(left: Any, whole: Any) -> Any:
    # An item that is applied in part still has to say which it is.
    return {key: whole[key] for key in _ITEM_KEYS if key in whole} | left


def _descend(tree: Tree, value: Any, keys: Keys) -> Tree | None:
    field = ""
    for step in keys:
        if not tree and field:
            return tree  # owned as one value, with all that is in it
        value = dict(paths.children(value, field)).get(step)
        found = _step(tree, step, value)
        if found is None:
            return None
        tree, field = found, step
    return tree


def _step(tree: Tree, step: str, inner: Any) -> Tree | None:
    if not step.startswith("["):
        return tree.get(f"f:{step}")
    for key, below in tree.items():
        if key.startswith("k:") and isinstance(inner, Mapping):
            wanted = json.loads(key[2:])
            if all(inner.get(name, _ITEM_DEFAULTS.get(name)) == value for name, value in wanted.items()):
                return below  # type: ignore[no-any-return]
    return None
