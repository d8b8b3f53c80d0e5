"""Desired against observed → steps, each with a reason. What is not ours is held, never touched."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from metaoperator.core import health, ignore, immutable, names, ownership, ties
from metaoperator.core.drift import Answers, differences
from metaoperator.core.ignore import Ignored
from metaoperator.core.model import DEPLOYMENT, ROLE_BINDING, Manifest, Ref
from metaoperator.core.names import Reason
from metaoperator.core.ownership import is_ours, rendered_digest

UNRENDERED: Final = "no longer rendered"
_CHILD: Final = re.compile(rf"{names.WORKFLOW_CONTROLLER}(-[0-9]+)?")


class Verb(StrEnum):
    """What to do with one object."""

    CREATE = "create"
    APPLY = "apply"
    REPLACE = "replace"
    ADOPT = "adopt"
    KEEP = "keep"
    PRUNE = "prune"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One object and what to do with it.

    `manifest` is there for create, apply, replace and adopt; `uid` for all that concerns an object which is there;
    `writers` are the other managers that own what differs; `taking` is the patch by which an object becomes ours as it
    stands. `untied` is what is applied instead of `manifest` if that leaves pods which were taken over as they are.
    """

    verb: Verb
    ref: Ref
    reason: Reason
    message: str = ""
    manifest: Manifest | None = None
    uid: str = ""
    writers: tuple[str, ...] = ()
    taking: Manifest | None = None
    untied: Manifest | None = None


def build(
    desired: Sequence[Manifest],
    observed: Mapping[Ref, Manifest],
    *,
    namespace_uid: str,
    answers: Answers,
    ignored: Sequence[Ignored] = (),
    pods: Sequence[Manifest] = (),
    work: bool = False,
    adoptions: Mapping[Ref, Step] = MappingProxyType({}),
) -> tuple[Step, ...]:
    """Plan one namespace: the desired documents in their order, then what to prune, sorted.

    `observed` holds the live objects that carry our label. Planning what was just applied keeps everything. Workloads
    are tied to the ServiceAccount that is observed, so that one that is made anew replaces their pods. While there is
    unfinished `work`, no child is pruned, nor anything else with it: a set without one would stop production. What
    a child rests on is pruned after it; a companion, such as an argo-server, goes at once. A workload is not made
    beside `pods` of its name that it would not select.
    """
    steps = []
    for document in desired:
        manifest, live = ties.tied(document, observed), observed.get(ref := Ref.of(document))
        if live is not None and is_ours(live, namespace_uid):
            if ties.run_on(document, live, observed, pods):
                manifest = document
            step = _step(manifest, live, answers, ignored)
            just_taken = step.verb is Verb.APPLY and not rendered_digest(live)
            steps.append(replace(step, untied=document) if just_taken else step)
        elif ref in adoptions:
            found = adoptions[ref]
            steps.append(found if found.verb is Verb.HOLD else replace(found, manifest=manifest, untied=document))
        else:
            steps.append(_birth(manifest, pods) if live is None else conflict(ref, live))
    wanted = {step.ref for step in steps}
    gone = [(ref, live) for ref, live in sorted(observed.items()) if ref not in wanted and is_ours(live, namespace_uid)]
    workloads = [str(ref) for ref, _ in gone if is_child(ref)]
    for ref, live in gone:
        if "deletionTimestamp" in live["metadata"]:
            continue
        if workloads and work:
            waiting = f"{ref}: {UNRENDERED}, and kept until the unfinished Workflows have ended"
            steps.append(Step(verb=Verb.HOLD, ref=ref, reason=Reason.DRAINING, message=waiting))
        elif workloads and not is_child(ref):
            # Losing its ConfigMap or its permissions is fatal for a child: they outlive its pods.
            waiting = f"{ref}: {UNRENDERED}, and kept until {', '.join(workloads)} is gone"
            steps.append(Step(verb=Verb.HOLD, ref=ref, reason=Reason.REMOVING, message=waiting))
        else:
            uid = live["metadata"]["uid"]
            steps.append(Step(verb=Verb.PRUNE, ref=ref, reason=Reason.PRUNED, message=UNRENDERED, uid=uid))
    return tuple(steps)


def is_child(ref: Ref) -> bool:
    """Tell whether this is a Deployment that serves Workflows: by the names that the fences know."""
    return ref.kind == DEPLOYMENT and _CHILD.fullmatch(ref.name) is not None


def _birth(manifest: Manifest, pods: Sequence[Manifest]) -> Step:
    ref = Ref.of(manifest)
    selector = ((manifest.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    # Those that it selects it takes over; any others are a predecessor's, and would go on beside it.
    left = sorted(
        pod["metadata"]["name"]
        for pod in pods
        if ref.kind == DEPLOYMENT
        and health.belongs(pod, ref.name)
        and not selector.items() <= (pod["metadata"].get("labels") or {}).items()
    )
    if left:
        message = f"{ref} is made once its predecessor's pods are gone: {', '.join(left)}"
        return Step(verb=Verb.HOLD, ref=ref, reason=Reason.REMOVING, message=message)
    return Step(verb=Verb.CREATE, ref=ref, reason=Reason.CREATED, manifest=manifest)


def _step(manifest: Manifest, live: Manifest, answers: Answers, ignored: Sequence[Ignored]) -> Step:
    ref, uid = Ref.of(manifest), live["metadata"]["uid"]
    if "deletionTimestamp" in live["metadata"]:
        message = f"{ref} is being deleted{ownership.held(live)}; made anew after"
        return Step(verb=Verb.HOLD, ref=ref, reason=Reason.REMOVING, message=message)
    changed = rendered_digest(manifest) != rendered_digest(live)
    if (found := immutable.change(manifest, live)) is not None:
        return _replacement(manifest, live, found, changed=changed)
    left = ownership.left_to_others(manifest, live, ignore.ways(ignored, manifest))
    apart = sorted(differences(left, live), key=lambda item: item[0])
    if not apart or answers.get(ref) == (rendered_digest(manifest), repr(apart)):
        return Step(verb=Verb.KEEP, ref=ref, reason=Reason.SETTLED, uid=uid)
    differing = [path for path, _ in apart if not path.endswith(names.RENDERED_ANNOTATION)]
    return Step(
        verb=Verb.APPLY,
        ref=ref,
        reason=Reason.CHANGED if changed else Reason.DRIFT,
        message=f"{ref}: {', '.join(differing[:5]) or 'fields no longer rendered'}{' …' if len(differing) > 5 else ''}",
        manifest=left,
        uid=uid,
        writers=() if changed else ownership.writers(manifest, live, differing),
    )


def _replacement(manifest: Manifest, live: Manifest, found: immutable.Change, *, changed: bool) -> Step:
    """Replace an object only for what is rendered anew: nobody's edit makes us delete anything."""
    ref, uid = Ref.of(manifest), live["metadata"]["uid"]
    if not changed:
        return frozen(ref, uid, f"{found}, and somebody else made it what it is")
    if (why := immutable.holds_data(live)) is not None:
        return frozen(ref, uid, f"{found}, and it is not replaced: {why}")
    return Step(
        verb=Verb.REPLACE, ref=ref, reason=Reason.REPLACED, message=f"{ref}: {found}", manifest=manifest, uid=uid
    )


def frozen(ref: Ref, uid: str, why: str) -> Step:
    """Hold an object that cannot become what is rendered, and that a person has to delete."""
    message = f"{ref}: {why}; render the value that it has, or save what you need of it and delete it: it is made anew"
    return Step(verb=Verb.HOLD, ref=ref, reason=Reason.IMMUTABLE, message=message, uid=uid)


def accounts(step: Step) -> frozenset[str]:
    """Name the ServiceAccounts to which a step would give rights."""
    if step.ref.kind != ROLE_BINDING or step.manifest is None:
        return frozenset()
    subjects = step.manifest.get("subjects") or ()
    return frozenset(each["name"] for each in subjects if each.get("kind") == "ServiceAccount")


def conflict(ref: Ref, live: Manifest) -> Step:
    """Hold an object of a name that we need, but that somebody else made."""
    managers = sorted({entry.get("manager", "?") for entry in live["metadata"].get("managedFields") or ()})
    return Step(
        verb=Verb.HOLD,
        ref=ref,
        reason=Reason.CONFLICT,
        message=f"{ref} exists and does not carry our mark (written by {', '.join(managers) or 'somebody else'}): "
        "it is left as it is; rename or delete it, and ours is installed within two minutes; or, if it is part of a "
        "workflow-controller's hand-made install, have all of that taken over by spec.adopt: Adopt in the "
        f"WorkflowController (metaoperator diff --adopt {ref.namespace} shows what that would change)",
    )


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
        children = [f"{ref}{ownership.held(live)}" for ref, live in workloads.items()]
        waiting = f"waits for {', '.join([*children, *sorted(pods)])} to be gone"
        return tuple(
            Step(verb=Verb.HOLD, ref=ref, reason=Reason.REMOVING, message=waiting)
            if "deletionTimestamp" in live["metadata"] or ref not in workloads
            else _prune(ref, live)
            for ref, live in ours.items()
        ) or ((Step(verb=Verb.HOLD, ref=lease[0], reason=Reason.REMOVING, message=waiting),) if lease else ())
    steps = [_prune(ref, live) for ref, live in ours.items() if "deletionTimestamp" not in live["metadata"]]
    steps += [
        Step(verb=Verb.HOLD, ref=ref, reason=Reason.REMOVING, message=f"{ref} is being deleted{ownership.held(live)}")
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
