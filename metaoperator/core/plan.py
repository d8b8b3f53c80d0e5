"""Desired against observed → steps, each with a reason. What is not ours is held, never touched.

Ours = our label, our field manager and the annotation with the namespace's UID. A copy of one of our objects in
another namespace, or one that survived in a re-created namespace's name, carries another UID and is not ours.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from metaoperator.core import names
from metaoperator.core.model import DEPLOYMENT, SERVICE_ACCOUNT, Manifest, Ref
from metaoperator.core.names import Reason


class Verb(StrEnum):
    """What to do with one object."""

    CREATE = "create"
    APPLY = "apply"
    KEEP = "keep"
    PRUNE = "prune"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One object and what to do with it. `manifest` is there for create and apply, `uid` for apply and prune."""

    verb: Verb
    ref: Ref
    reason: Reason
    message: str = ""
    manifest: Manifest | None = None
    uid: str = ""


Answers = Mapping[Ref, tuple[str, str]]
"""What applies and dry-runs told: the differences (second) with which a rendered digest (first) is in sync."""

_LIST_KEYS: Final = ("name", "mountPath", "devicePath", "containerPort", "port")
_MERGED_LISTS: Final = frozenset(
    # Of these the API server lets several managers own an item each. Any other list is one manager's as a whole: a
    # subject that somebody adds to our RoleBinding is drift.
    {
        "containers", "ephemeralContainers", "env", "imagePullSecrets", "initContainers", "ports", "volumeDevices",
        "volumeMounts", "volumes",
    }
)  # fmt: skip

_CONTAINERS: Final = frozenset({"containers", "ephemeralContainers", "initContainers"})


def is_ours(live: Manifest, namespace_uid: str) -> bool:
    """Tell whether a live object is ours in this incarnation of the namespace."""
    meta = live["metadata"]
    return (
        (meta.get("labels") or {}).get(names.MANAGED_BY_LABEL) == names.MANAGED_BY
        and (meta.get("annotations") or {}).get(names.NAMESPACE_UID_ANNOTATION) == namespace_uid
        and any(entry.get("manager") == names.FIELD_MANAGER for entry in meta.get("managedFields") or ())
    )


def differences(rendered: Any, live: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Name every rendered leaf that the live object does not hold, with what it holds instead.

    Lists that the API server merges are compared by their items' key, so that another manager's sidecar is no
    drift; other lists are compared whole. Empty mappings and lists equal absent ones: the API server drops them.
    """
    if isinstance(rendered, Mapping):
        below = live if isinstance(live, Mapping) else {}
        for key, value in rendered.items():
            yield from differences(value, below.get(key), f"{path}.{key}" if path else key)
    elif isinstance(rendered, list):
        yield from _list_differences(rendered, live if isinstance(live, list) else [], path)
    elif rendered != live or isinstance(rendered, bool) != isinstance(live, bool):
        yield path, live


def _list_differences(rendered: Sequence[Any], live: Sequence[Any], path: str) -> Iterator[tuple[str, Any]]:
    key = _list_key(rendered) if path.rpartition(".")[2] in _MERGED_LISTS else None
    if key is not None:
        by_key = {str(item.get(key)): item for item in live if isinstance(item, Mapping)}
        for item in rendered:
            yield from differences(item, by_key.get(str(item[key])), f"{path}[{item[key]}]")
    elif len(rendered) != len(live):
        yield path, live
    else:
        for index, (item, found) in enumerate(zip(rendered, live, strict=True)):
            yield from differences(item, found, f"{path}[{index}]")


def _list_key(rendered: Sequence[Any]) -> str | None:
    for key in _LIST_KEYS:
        found = [item.get(key) if isinstance(item, Mapping) else None for item in rendered]
        if found and all(isinstance(each, str | int) for each in found) and len(set(found)) == len(found):
            return key
    return None


def lists_at_odds(rendered: Manifest, live: Manifest) -> dict[str, Any]:
    """Compose the merge patch that puts our items of every list that differs in place; others' items stay.

    Server-side apply merges some lists by keys that an edit may have moved: a port edited under its name is another
    port to it, the apply would add ours beside it, and two ports of one name are invalid.
    """
    patch: dict[str, Any] = {}
    for key, value in rendered.items():
        found = live.get(key)
        if isinstance(value, list) and any(differences(value, found, key)):
            patch[key] = _put_right(value, found if isinstance(found, list) else [], key)
        elif isinstance(value, Mapping):
            below = lists_at_odds(value, found if isinstance(found, Mapping) else {})
            patch |= {key: below} if below else {}
    return patch


def _put_right(rendered: Sequence[Any], live: Sequence[Any], path: str) -> list[Any]:
    key = _list_key(rendered) if path in _MERGED_LISTS else None
    if key is None:
        return list(rendered)
    ours = {item[key] for item in rendered}
    by_key = {item.get(key): item for item in live if isinstance(item, Mapping)}
    kept = [item for item in live if not isinstance(item, Mapping) or item.get(key) not in ours]
    if path not in _CONTAINERS:
        # Whole: a variable or volume that was edited into another kind, and ours merged into it, are nothing valid.
        return [*rendered, *kept]
    return [_container_put_right(item, by_key.get(item[key], {})) for item in rendered] + kept


def _container_put_right(rendered: Manifest, live: Manifest) -> dict[str, Any]:
    lists = {
        key: _put_right(value, live[key], key)
        for key, value in rendered.items()
        if isinstance(value, list) and isinstance(live.get(key), list)
    }
    return {**live, **rendered, **lists}


def build(
    desired: Sequence[Manifest],
    observed: Mapping[Ref, Manifest],
    *,
    namespace_uid: str,
    answers: Answers,
    work: bool = False,
) -> tuple[Step, ...]:
    """Plan one namespace: the desired documents in their order, then what to prune, sorted.

    `observed` holds the live objects that carry our label. Planning what was just applied keeps everything. Workloads
    are tied to the ServiceAccount that is observed, so that one that is made anew replaces their pods. While there is
    unfinished `work`, no workload is pruned, nor anything else with it: a set without one would stop production. What
    a workload rests on is pruned after it.
    """
    accounts = {ref.name: live["metadata"]["uid"] for ref, live in observed.items() if ref.kind == SERVICE_ACCOUNT}
    steps = [
        _step(_tied(manifest, accounts), observed.get(Ref.of(manifest)), namespace_uid, answers) for manifest in desired
    ]
    wanted = {step.ref for step in steps}
    gone = [(ref, live) for ref, live in sorted(observed.items()) if ref not in wanted and is_ours(live, namespace_uid)]
    workloads = [str(ref) for ref, _ in gone if ref.kind == DEPLOYMENT]
    for ref, live in gone:
        if "deletionTimestamp" in live["metadata"]:
            continue
        if workloads and work:
            waiting = f"{ref}: no longer rendered, and kept until the unfinished Workflows have ended"
            steps.append(Step(verb=Verb.HOLD, ref=ref, reason=Reason.DRAINING, message=waiting))
        elif workloads and ref.kind != DEPLOYMENT:
            # Losing its ConfigMap or its permissions is fatal for a child: they outlive its pods.
            waiting = f"{ref}: no longer rendered, and kept until {', '.join(workloads)} is gone"
            steps.append(Step(verb=Verb.HOLD, ref=ref, reason=Reason.REMOVING, message=waiting))
        else:
            uid = live["metadata"]["uid"]
            steps.append(Step(verb=Verb.PRUNE, ref=ref, reason=Reason.PRUNED, message="no longer rendered", uid=uid))
    return tuple(steps)


def _tied(manifest: Manifest, accounts: Mapping[str, str]) -> Manifest:
    if Ref.of(manifest).kind != DEPLOYMENT:
        return manifest
    spec: Mapping[str, Any] = manifest.get("spec") or {}
    template: Mapping[str, Any] = spec.get("template") or {}
    uid = accounts.get((template.get("spec") or {}).get("serviceAccountName", "default"))
    if uid is None:
        return manifest
    meta: Mapping[str, Any] = template.get("metadata") or {}
    annotations = {**(meta.get("annotations") or {}), names.ACCOUNT_ANNOTATION: uid}
    return {
        **manifest,
        "spec": {**spec, "template": {**template, "metadata": {**meta, "annotations": annotations}}},
    }


def _step(manifest: Manifest, live: Manifest | None, namespace_uid: str, answers: Answers) -> Step:
    ref = Ref.of(manifest)
    if live is None:
        return Step(verb=Verb.CREATE, ref=ref, reason=Reason.CREATED, manifest=manifest)
    if not is_ours(live, namespace_uid):
        return conflict(ref, live)
    uid = live["metadata"]["uid"]
    if "deletionTimestamp" in live["metadata"]:
        return Step(verb=Verb.HOLD, ref=ref, reason=Reason.REMOVING, message=f"{ref} is being deleted; made anew after")
    apart = sorted(differences(manifest, live), key=lambda item: item[0])
    if not apart or answers.get(ref) == (rendered_digest(manifest), repr(apart)):
        return Step(verb=Verb.KEEP, ref=ref, reason=Reason.SETTLED, uid=uid)
    changed = rendered_digest(manifest) != rendered_digest(live)
    paths = [path for path, _ in apart if not path.endswith(names.RENDERED_ANNOTATION)]
    return Step(
        verb=Verb.APPLY,
        ref=ref,
        reason=Reason.CHANGED if changed else Reason.DRIFT,
        message=f"{ref}: {', '.join(paths[:5]) or 'fields no longer rendered'}{' …' if len(paths) > 5 else ''}",
        manifest=manifest,
        uid=uid,
    )


def answer(manifest: Manifest, live: Manifest) -> tuple[str, str]:
    """Describe how `live` differs from `manifest`, in the form that `build` looks up in `answers`."""
    return rendered_digest(manifest), repr(sorted(differences(manifest, live), key=lambda item: item[0]))


def conflict(ref: Ref, live: Manifest) -> Step:
    """Hold an object of a name that we need, but that somebody else made."""
    managers = sorted({entry.get("manager", "?") for entry in live["metadata"].get("managedFields") or ()})
    return Step(
        verb=Verb.HOLD,
        ref=ref,
        reason=Reason.CONFLICT,
        message=f"{ref} exists and does not carry our mark (written by {', '.join(managers) or 'somebody else'}): "
        "it is left as it is; rename or delete it, and ours is installed within two minutes",
    )


def rendered_digest(manifest: Manifest) -> str:
    """Read the digest that marks which rendered bytes an object was applied from."""
    return str((manifest["metadata"].get("annotations") or {}).get(names.RENDERED_ANNOTATION, ""))


def removal(
    observed: Mapping[Ref, Manifest],
    *,
    namespace_uid: str,
    lease: tuple[Ref, str] | None,
    pods: Collection[str],
) -> tuple[Step, ...]:
    """Plan the way out of a namespace that has drained; empty when nothing of ours is left.

    `lease` is the Lease that our child left behind, with its UID.

    The child goes first, and everything that it needs or makes while it lives (its ConfigMap: losing it is fatal;
    its Lease: it would make it anew) only when its last pod is gone.
    """
    ours = {ref: live for ref, live in sorted(observed.items()) if is_ours(live, namespace_uid)}
    workloads = {ref: live for ref, live in ours.items() if ref.kind == DEPLOYMENT}
    if workloads or pods:
        waiting = f"waits for {', '.join([*map(str, workloads), *sorted(pods)])} to be gone"
        return tuple(
            Step(verb=Verb.HOLD, ref=ref, reason=Reason.REMOVING, message=waiting)
            if "deletionTimestamp" in live["metadata"] or ref not in workloads
            else _prune(ref, live)
            for ref, live in ours.items()
        ) or ((Step(verb=Verb.HOLD, ref=lease[0], reason=Reason.REMOVING, message=waiting),) if lease else ())
    steps = [_prune(ref, live) for ref, live in ours.items() if "deletionTimestamp" not in live["metadata"]]
    steps += [
        Step(verb=Verb.HOLD, ref=ref, reason=Reason.REMOVING, message=f"{ref} is being deleted")
        for ref, live in ours.items()
        if "deletionTimestamp" in live["metadata"]
    ]
    if lease is not None:
        # First: the Lease carries no mark, and what stays behind is the proof that it was our child's.
        told = Step(verb=Verb.PRUNE, ref=lease[0], uid=lease[1], reason=Reason.PRUNED, message="the child's Lease")
        steps.insert(0, told)
    return tuple(steps)


def _prune(ref: Ref, live: Manifest) -> Step:
    return Step(verb=Verb.PRUNE, ref=ref, reason=Reason.PRUNED, message="opted out", uid=live["metadata"]["uid"])
