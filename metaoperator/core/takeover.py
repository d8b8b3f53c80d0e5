"""Objects of a hand-made install become ours as they stand: which may, and what they lose.

Taking over is one patch of an object's metadata: our mark, and what other managers own in it. From then on it is ours,
and becomes what is rendered as any other change does. What no update can change is deleted and made anew.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from metaoperator.core import immutable, names, ownership, paths, trial
from metaoperator.core.keepers import keeper
from metaoperator.core.model import DEPLOYMENT, SERVICE_ACCOUNT, Manifest, Ref
from metaoperator.core.names import Reason
from metaoperator.core.paths import Keys
from metaoperator.core.plan import Step, Verb

_KUBERNETES: Final = frozenset({"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"})
_LAST_APPLIED: Final = f"f:{names.LAST_APPLIED_ANNOTATION}"
_LEFT: Final[tuple[Keys, ...]] = (("f:metadata",), ("f:spec", "f:template", "f:metadata"))
"""What stays its writer's: labels and annotations, of an object and of its pods. They change nothing of what runs."""
_SHOWN: Final = 8


def faults(found: Mapping[Ref, Manifest], namespace_uid: str) -> Iterator[str]:
    """Say of each object that is not taken over why not, and what to do. One of them keeps all others from it."""
    for ref, live in sorted(found.items()):
        meta = live["metadata"]
        if "deletionTimestamp" in meta:
            continue
        marked = (meta.get("annotations") or {}).get(names.NAMESPACE_UID_ANNOTATION, namespace_uid)
        if marked not in {namespace_uid, trial.UID}:  # the UID that `metaoperator render` writes is nobody's
            yield (
                f"{ref} carries the mark of another namespace, with UID {marked}, and may be its copy: if it is yours, "
                f"take annotation {names.NAMESPACE_UID_ANNOTATION} off"
            )
        elif (told := keeper(live)) is not None:
            yield f"{ref} {told}"
        elif not meta.get("managedFields") and live.keys() - {"apiVersion", "kind", "metadata", "status"}:
            cure = "write it once with kubectl apply --server-side --force-conflicts"
            yield f"{ref} tells nothing of who owns its fields: {cure}"


def steps(
    desired: Collection[Manifest], found: Mapping[Ref, Manifest], *, child_is_ours: bool, beside: Sequence[str]
) -> dict[Ref, Step]:
    """Plan what becomes of the objects of an install that are not ours; `beside` names what it leaves untouched.

    A ServiceAccount is taken over only before the child is ours: whoever may make one later could otherwise have it
    given the rights of a controller, while a pod runs under it.
    """
    planned = {}
    for manifest in desired:
        ref = Ref.of(manifest)
        live = found.get(ref)
        if live is None:
            continue
        if ref.kind == SERVICE_ACCOUNT and child_is_ours:
            planned[ref] = _stranger(ref, live)
        else:
            planned[ref] = _step(manifest, live, beside if ref.kind == DEPLOYMENT else ())
    return planned


def _stranger(ref: Ref, live: Manifest) -> Step:
    """Hold an account that came when the child was ours already."""
    message = (
        f"{ref} exists and does not carry our mark (written by {', '.join(_managers(live))}): an account is taken over "
        "only with the workflow-controller that runs under it, and that is ours already; delete it, and ours is made"
    )
    return Step(verb=Verb.HOLD, ref=ref, reason=Reason.CONFLICT, message=message)


def _step(manifest: Manifest, live: Manifest, beside: Sequence[str]) -> Step:
    ref, uid = Ref.of(manifest), live["metadata"]["uid"]
    if "deletionTimestamp" in live["metadata"]:
        message = f"{ref} is being deleted{ownership.held(live)}; made anew after"
        return Step(verb=Verb.HOLD, ref=ref, reason=Reason.REMOVING, message=message, uid=uid)
    left = f"; left as they are: {', '.join(beside)}" if beside else ""
    if (found := immutable.change(manifest, live)) is not None:
        if (why := immutable.holds_data(live)) is not None:
            message = f"{ref}: {found}, and it is not replaced: {why}; save what you need of it and delete it"
            return Step(verb=Verb.HOLD, ref=ref, reason=Reason.IMMUTABLE, message=message, uid=uid)
        cost = (
            "; the controller is away until its pods have ended and its Lease has run out, Workflows wait so long"
            if ref.kind == DEPLOYMENT
            else ""
        )
        message = f"{ref}: {found}{cost}{left}"
        return Step(verb=Verb.REPLACE, ref=ref, reason=Reason.ADOPTED, message=message, manifest=manifest, uid=uid)
    gone = sorted(lost(manifest, live))
    dropped = f"; no longer in it: {', '.join(gone[:_SHOWN])}{' …' * (len(gone) > _SHOWN)}" if gone else ""
    message = f"{ref}: taken over from {', '.join(_managers(live))}{dropped}{left}"
    return Step(
        verb=Verb.ADOPT,
        ref=ref,
        reason=Reason.ADOPTED,
        message=message,
        manifest=ownership.left_to_others(manifest, live, ()),
        uid=uid,
        taking=taking(manifest, live),
    )


def taking(manifest: Manifest, live: Manifest) -> dict[str, Any]:
    """Compose the merge patch by which an object becomes ours as it stands, guarded by what it was judged by.

    What other managers own in it is ours afterwards, as if we had applied it: the next apply takes away what is not
    rendered. Kubernetes' own controllers and subresources (an autoscaler's `scale`) keep what they own. The digest of
    another rendering goes, so that the next look applies ours.
    """
    meta, rendered = live["metadata"], manifest["metadata"]["annotations"]
    mine: dict[str, Any] = {}
    entries = []
    for entry in meta.get("managedFields") or ():
        if entry.get("subresource") or entry.get("manager") in _KUBERNETES:
            entries.append(entry)
            continue
        taken, left = _parted(entry.get("fieldsV1") or {}, ())
        _unite(mine, taken)
        if left and entry.get("manager") != names.FIELD_MANAGER:
            entries.append({**entry, "fieldsV1": left})
    whole = {"manager": names.FIELD_MANAGER, "operation": "Apply", "apiVersion": live["apiVersion"]}
    entries += [{**whole, "fieldsType": "FieldsV1", "fieldsV1": mine}] if mine else []
    return {
        "metadata": {
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
            "labels": {names.MANAGED_BY_LABEL: names.MANAGED_BY},
            "annotations": {
                names.NAMESPACE_UID_ANNOTATION: rendered[names.NAMESPACE_UID_ANNOTATION],
                names.INSTANCE_ID_ANNOTATION: rendered[names.INSTANCE_ID_ANNOTATION],
                names.RENDERED_ANNOTATION: None,
            },
            "managedFields": entries,
        }
    }


def _parted(tree: Mapping[str, Any], at: Keys) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split what a manager owns into what becomes ours and what stays its own."""
    if at in _LEFT:
        notes = tree.get("f:annotations") or {}
        if at == _LEFT[0] and _LAST_APPLIED in notes:
            # It would have a later `kubectl apply` delete what is ours by then.
            kept = {key: value for key, value in notes.items() if key != _LAST_APPLIED}
            return {"f:annotations": {_LAST_APPLIED: {}}}, {**tree, "f:annotations": kept}
        return {}, dict(tree)
    taken: dict[str, Any] = {}
    left: dict[str, Any] = {}
    for key, below in tree.items():
        if not any(way[: len(at) + 1] == (*at, key) for way in _LEFT) or (not below and (*at, key) not in _LEFT):
            taken[key] = below
            continue
        if not below:
            left[key] = below
            continue
        inner, outer = _parted(below, (*at, key))
        taken |= {key: inner} if inner else {}
        left |= {key: outer} if outer else {}
    return taken, left


def _unite(into: dict[str, Any], tree: Mapping[str, Any]) -> None:
    for key, below in tree.items():
        _unite(into.setdefault(key, {}), below)


def _managers(live: Manifest) -> list[str]:
    found = {
        str(entry.get("manager") or "?")
        for entry in live["metadata"].get("managedFields") or ()
        if not entry.get("subresource") and entry.get("manager") not in _KUBERNETES
    }
    return sorted(found) or ["somebody"]


def lost(rendered: Any, live: Any, path: str = "") -> Iterator[str]:
    """Name what an install has that is not rendered and goes: containers, variables, volumes, arguments, data."""
    if isinstance(rendered, Mapping) and isinstance(live, Mapping):
        for key, value in live.items():
            where = f"{path}.{key}" if path else key
            if key in rendered and (path or key not in {"metadata", "status"}) and key != "metadata":
                yield from lost(rendered[key], value, where)
            elif path in {"data", "binaryData"}:
                yield where
            elif key in {"volumes", "initContainers", "env", "envFrom", "volumeMounts", "affinity", "tolerations"}:
                yield from (
                    (f"{where}{step}" for step, _ in paths.children(value, key)) if isinstance(value, list) else [where]
                )
    elif isinstance(rendered, list) and isinstance(live, list):
        field = path.rpartition(".")[2]
        if paths.merge_key(field, live) is not None:
            wanted = dict(paths.children(rendered, field))
            for step, value in paths.children(live, field):
                if step in wanted:
                    yield from lost(wanted[step], value, f"{path}{step}")
                else:
                    yield f"{path}{step}"
        else:
            yield from (f"{path} {item}" for item in live if isinstance(item, str) and item not in rendered)
