"""The way out: drained, stopped, removed. That anything of ours is here is all the memory that an opt-out needs."""

import functools
import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime
from typing import Final

from metaoperator import publish
from metaoperator.act import Actor
from metaoperator.brake import Brake, Held
from metaoperator.cluster import Cluster
from metaoperator.core import health, names, ownership, plan, shard
from metaoperator.core.errors import Fenced, Rejected
from metaoperator.core.model import DEPLOYMENT, LEASE, NAMESPACE, POD, Manifest, Namespace, Ref
from metaoperator.core.names import Reason
from metaoperator.core.outcome import Outcome
from metaoperator.core.status import Drain, Note, View
from metaoperator.drain import Drainer
from metaoperator.fleet import Fleet, Observed
from metaoperator.mirror import Mirror
from metaoperator.recorder import Recorder

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS: Final = 60.0


class Leaver:
    """Takes one namespace from served to untouched."""

    def __init__(
        self,
        cluster: Cluster,
        mirror: Mirror,
        fleet: Fleet,
        recorder: Recorder,
        *,
        actor: Actor,
        publisher: publish.Publisher,
        brake: Brake,
        wall_clock: Callable[[], datetime],
    ) -> None:
        """Remember only of which orphans was told, and what."""
        self._cluster = cluster
        self._mirror = mirror
        self._fleet = fleet
        self._recorder = recorder
        self._told: dict[str, str] = {}
        self._actor = actor
        self._publisher = publisher
        self._brake = brake
        self._wall_clock = wall_clock
        self._drainer = Drainer(cluster, fleet, recorder, wall_clock=wall_clock)

    async def leave(self, namespace: Namespace) -> float | None:
        """Drain and remove what is ours. Its being here is the only memory of an opt-out that is needed."""
        wfc = await self._mirror.get(publish.wfc_ref(namespace.name))
        made_by_us = wfc is not None and ownership.is_ours(wfc, namespace.uid)
        # What is installed runs under its own, whatever a person wrote meanwhile.
        instance = self._fleet.observe(namespace.name, None).rendered_for(namespace)
        if instance is None:
            instance = ((wfc or {}).get("spec") or {}).get("instanceID") or namespace.name
        view = functools.partial(publish.view, namespace=namespace, instance_id=instance)
        seen = self._fleet.observe(namespace.name, instance)
        ours = seen.ours(namespace.uid)
        lease = await self._childs_lease(namespace, instance)
        if not ours and not (made_by_us and (seen.pods or lease)):
            return await self._gone(namespace, wfc, made_by_us=made_by_us)
        if wfc is not None and (wfc.get("spec") or {}).get("paused"):
            verdict = health.assess(seen.deployment(namespace.uid), seen.pods, seen.lease, now=self._wall_clock())
            await self._publisher.publish(
                wfc,
                view(wfc, verdict, remark=publish.PAUSED, seen=seen),
            )
            return None
        if (held := await self._brake.leaving(namespace)) is not None:
            return await self._hold(namespace, wfc, view, instance, seen, held)
        return await self._step(namespace, wfc, view, instance, seen, lease)

    async def _step(
        self,
        namespace: Namespace,
        wfc: Manifest | None,
        view: Callable[..., View],
        instance: str,
        seen: Observed,
        lease: tuple[Ref, str] | None,
    ) -> float | None:
        """Do the next step of the drain, or of the removal that follows it, and say what is waited for."""
        ours = seen.ours(namespace.uid)
        deployment = seen.deployment(namespace.uid)
        lives = deployment is not None and "deletionTimestamp" not in deployment["metadata"]
        drained = await self._drainer.look(namespace, instance, wfc, seen, lives=lives)
        outcome = Outcome()
        if drained.note is None and deployment is None and (theirs := self._ground(namespace, ours)):
            drained = replace(drained, note=Note(reason=Reason.CONFLICT, message=theirs))
        waits = "they are removed" if drained.note is None else drained.note.message
        if wfc is None:
            await self._orphaned(namespace, ours, waits)
        if drained.note is not None:
            if drained.failed is None:
                await self._scale(deployment, wanted=True)
            note = replace(drained.note, message=f"opted out; {waits}")
            verdict = health.assess(deployment, seen.pods, seen.lease, now=self._wall_clock())
        elif (held := await self._brake.leaving(namespace, begin=True)) is not None:
            return await self._hold(namespace, wfc, view, instance, seen, held)
        else:
            outcome, waits = await self._take_down(namespace, seen, lease)
            # A fence is told: no label that comes or goes puts it right here.
            note = Note(reason=Reason.REMOVING, message=f"opted out; {waits}")
            verdict = publish.nothing(note)
        wait: float | None = None
        if wfc is not None:
            stalled = drained.stalled or outcome.stalled
            progress = replace(drained.progress, confirmed=self._brake.confirmed(namespace))
            told = view(wfc, verdict, stalled=stalled, reconciling=note, seen=seen, drain=progress)
            wait = await self._publisher.publish(wfc, told)
        if (later := drained.failed or outcome.later) is not None:
            raise later
        return min(each for each in (wait, drained.again, LOOK_AGAIN_SECONDS) if each is not None)

    async def _hold(
        self,
        namespace: Namespace,
        wfc: Manifest | None,
        view: Callable[..., View],
        instance: str,
        seen: Observed,
        held: Held,
    ) -> float:
        """Leave the child as it is, and say why; one that merely waits for the others says nothing yet."""
        if held.note is None:
            return held.again
        deployment = seen.deployment(namespace.uid)
        await self._scale(deployment, wanted=True)
        if wfc is None:
            await self._orphaned(namespace, seen.ours(namespace.uid), held.note.message)
            return held.again
        published = wfc.get("status") or {}
        more = await self._drainer.newcomers.look(namespace, instance, published, seen)
        note = replace(held.note, message=f"opted out; {held.note.message}")
        verdict = health.assess(deployment, seen.pods, seen.lease, now=self._wall_clock())
        told = view(wfc, verdict, reconciling=note, seen=seen, drain=Drain.of(published))
        wait = await self._publisher.publish(wfc, told)
        return min(each for each in (wait, more, held.again) if each is not None)

    async def _take_down(
        self, namespace: Namespace, seen: Observed, lease: tuple[Ref, str] | None
    ) -> tuple[Outcome, str]:
        """Stop the child, then remove it, and say what is waited for.

        What it starts to its last moment, or what comes meanwhile, is seen by the next look, which starts it again.
        """
        deployment = seen.deployment(namespace.uid)
        stopped = await self._scale(deployment, wanted=False)
        if stopped or (deployment is not None and not _wanted(deployment) and seen.pods):
            pods = ", ".join(sorted(f"{Ref.of(pod)}{ownership.held(pod)}" for pod in seen.pods))
            return Outcome(), f"the child is stopped, and waits for {pods or 'its pods'} to be gone"
        outcome = await self._remove(namespace, seen, lease)
        if outcome.later is not None:
            if not isinstance(outcome.later, Fenced):
                raise outcome.later
            return outcome, f"tried again: {outcome.later}"
        return outcome, next((step.message for step in outcome.held), "removing the child")

    def _ground(self, namespace: Namespace, ours: Collection[Ref]) -> str:
        """Say what a controller that is not ours runs on although it is: an adoption was given up in the middle."""
        theirs = Ref(DEPLOYMENT, namespace.name, names.WORKFLOW_CONTROLLER)
        found = sorted(self._fleet.around.foreigners.ground(theirs).intersection(ours))
        if not found:
            return ""
        return (
            f"{theirs} is not ours, and runs on {', '.join(map(str, found))}, which was taken over: nothing is removed "
            "as long as it is there; delete it, or opt in again to have it taken over as well"
        )

    async def _scale(self, deployment: Manifest | None, *, wanted: bool) -> bool:
        """Stop a child that is no longer needed, or start one that is; tells whether that was done just now."""
        if deployment is None or "deletionTimestamp" in deployment["metadata"] or _wanted(deployment) == wanted:
            return False
        ref = Ref.of(deployment)
        patch = {"metadata": {"uid": deployment["metadata"]["uid"]}, "spec": {"replicas": int(wanted)}}
        try:
            self._fleet.learn(await self._cluster.merge(ref, patch))
        except Rejected as exc:
            # Whatever refuses it may let a deletion pass, which ends the pods first as well.
            log.warning("child not scaled", extra={"deployment": str(ref), "error": str(exc)})
            return False
        return True

    async def _orphaned(self, namespace: Namespace, ours: Collection[Ref], what: str) -> None:
        """Tell of a child without label and without row, where people look for it: at its Namespace, once each time."""
        objects = ", ".join(f"{ref.kind.kind}/{ref.name}" for ref in sorted(ours))
        message = f"a child of nobody is here, for there is neither label nor WorkflowController: {what} ({objects})"
        key = f"{namespace.uid}: {what}"
        if self._told.get(namespace.name) == key:
            return
        self._told[namespace.name] = key
        log.warning("orphaned", extra={"namespace": namespace.name, "message_": message})
        meta = {"name": namespace.name, "uid": namespace.uid}
        about = {"apiVersion": NAMESPACE.api_version, "kind": NAMESPACE.kind, "metadata": meta}
        await self._recorder.tell(about, Reason.ORPHANED, message, warning=True)

    def forget(self, namespace: str) -> None:
        """Drop what is remembered of one namespace."""
        self._told.pop(namespace, None)
        self._drainer.forget(namespace)

    async def _remove(self, namespace: Namespace, seen: Observed, lease: tuple[Ref, str] | None) -> Outcome:
        """Remove in order, up to what goes wrong: what stays is the proof that the rest is still ours to remove."""
        outcome = Outcome()
        for step in plan.removal(
            seen.objects,
            namespace_uid=namespace.uid,
            lease=lease,
            pods=[f"{Ref.of(pod)}{ownership.held(pod)}" for pod in seen.pods],
        ):
            await self._actor.step(step, outcome)
            if outcome.later is not None or outcome.refused:
                break
        return outcome

    async def _childs_lease(self, namespace: Namespace, instance: str) -> tuple[Ref, str] | None:
        """Find the Lease that our child left behind, with its UID; it carries no mark, so its holder has to tell.

        A hand-made controller with the same ID holds a Lease of the same name: one whose holder is a pod that is not
        ours, or no pod of our kind of name while it still moves, is left alone.
        """
        ref = Ref(LEASE, namespace.name, shard.lease_name(instance))
        live = self._fleet.leases.get(ref.namespace, ref.name)
        if live is None:
            return None
        holder = live["spec"].get("holderIdentity") or ""
        pod = await self._cluster.get(Ref(POD, namespace.name, holder)) if holder else None
        if pod is not None:
            labels = pod["metadata"].get("labels") or {}
            foreign = labels.get(names.MANAGED_BY_LABEL) != names.MANAGED_BY
        else:
            view = self._fleet.observe(namespace.name, instance).lease
            moving = view is not None and view.age <= view.duration
            foreign = moving and bool(holder) and not holder.startswith(f"{names.WORKFLOW_CONTROLLER}-")
        return None if foreign else (ref, live["metadata"]["uid"])

    async def _gone(self, namespace: Namespace, wfc: Manifest | None, *, made_by_us: bool) -> float | None:
        """Nothing of ours is left: take the row away that we made, or say in a person's own that it rests."""
        self.forget(namespace.name)
        self._brake.forget(namespace.name)
        self._fleet.nothing_of_ours(namespace.name)
        if wfc is None:
            self._publisher.forget(namespace.name)
            # Nothing watches a namespace without our label: a copy of it would stay for ever.
            self._mirror.forget(Ref(NAMESPACE, "", namespace.name))
            self._mirror.forget(publish.wfc_ref(namespace.name))
            return None
        if made_by_us:
            await self._recorder.tell(wfc, Reason.REMOVED, "opted out: the child is removed")
            await self._cluster.delete(Ref.of(wfc), uid=wfc["metadata"]["uid"])
            self._mirror.forget(Ref.of(wfc))
            log.info("child removed", extra={"namespace": namespace.name})
            return None
        note = Note(
            reason=Reason.NOT_OPTED_IN,
            message=f"the namespace has no label {names.OPT_IN_LABEL}: this object does nothing until it has",
        )
        await self._publisher.publish(wfc, publish.view(wfc, publish.nothing(note)))
        return None


def _wanted(deployment: Manifest) -> bool:
    """Tell whether any pod of the child is wanted."""
    return bool(deployment["spec"].get("replicas", 1))
