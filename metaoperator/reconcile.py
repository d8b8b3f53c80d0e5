"""Gather, decide, act for one name. Level-triggered: what changed is unknown here, only what is."""

import asyncio
import functools
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from prometheus_client import CollectorRegistry

from metaoperator import cluster as kube
from metaoperator import drain, publish
from metaoperator.act import Actor
from metaoperator.adopt import Adopter
from metaoperator.brake import Brake
from metaoperator.core import health, names, optin, plan, shard
from metaoperator.core.errors import Conflict, Fenced, NotLeading, Stalled
from metaoperator.core.ignore import Ignored
from metaoperator.core.model import (
    NAMESPACE,
    Desired,
    Manifest,
    Namespace,
    Ref,
)
from metaoperator.core.names import Reason
from metaoperator.core.outcome import Outcome
from metaoperator.core.plan import Step, Verb
from metaoperator.core.status import Note
from metaoperator.fleet import Fleet, Observed
from metaoperator.leave import Leaver
from metaoperator.mirror import Mirror
from metaoperator.recorder import Recorder
from metaoperator.rolling import Rolling
from metaoperator.row import Row
from metaoperator.settings import Settings
from metaoperator.strays import Strays
from metaoperator.sweep import Sweep
from metaoperator.templates import Templates
from metaoperator.wanted import Want, Wanted

log = logging.getLogger(__name__)

RESYNC_SECONDS: Final = 3600.0
HELD_SECONDS: Final = 60.0
_HELD: Final = frozenset({"NamespaceContentRemaining", "NamespaceFinalizersRemaining"})


class Reconciler:
    """Brings one namespace from what it is to what it should be, as far as that goes now."""

    def __init__(
        self,
        cluster: kube.Cluster,
        mirror: Mirror,
        fleet: Fleet,
        recorder: Recorder,
        templates: Templates,
        settings: Settings,
        *,
        sweep: Sweep | None = None,
        brake: Brake | None = None,
        actor: Actor | None = None,
        rolling: Rolling | None = None,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Nothing is read before the first name comes; without a `sweep`, what it would do is only told.

        Without `rolling`, everybody's turn is now, and nothing is recorded: that is how a preview looks.
        """
        self._cluster = cluster
        self._mirror = mirror
        self._fleet = fleet
        self._recorder = recorder
        self._settings = settings
        self._wall_clock = wall_clock
        self._actor = actor or Actor(cluster, fleet)
        self._sweep = sweep or Sweep(cluster, mirror, fleet, recorder, lambda *_: None, registry=CollectorRegistry())
        self._templates = templates
        self._rolling = rolling
        self._brake = brake or Brake(mirror, fleet, namespace=settings.namespace, deny=settings.deny)
        self._publisher = publish.Publisher(cluster, mirror, recorder, wall_clock=wall_clock)
        holder = None if rolling is None else rolling.holder
        self._row = Row(cluster, mirror, fleet, recorded=None if holder is None else holder.spec)
        self._adopter = Adopter(cluster, mirror, fleet)
        self._wanted = Wanted(fleet, recorder, row=self._row, adopter=self._adopter, templates=templates, holder=holder)
        self.strays = Strays(fleet, recorder, patience=settings.pending_seconds, wall_clock=wall_clock)
        self._leaver = Leaver(
            cluster,
            mirror,
            fleet,
            recorder,
            actor=self._actor,
            publisher=self._publisher,
            brake=self._brake,
            wall_clock=wall_clock,
        )

    async def namespace(self, name: str) -> float | None:
        """Reconcile one namespace; returns the seconds after which to look again, `None` for never by itself."""
        raw = await self._mirror.get(Ref(NAMESPACE, "", name))
        found = None if raw is None else Namespace.of(raw)
        match optin.stage(found, own_namespace=self._settings.namespace, denied=self._settings.deny):
            case optin.Absent():
                if held := _held_by(raw):
                    log.warning("namespace is being deleted, and held", extra={"namespace": name, "by": held})
                self._forget(name)
                if self._rolling is not None:
                    await self._rolling.forget(name)
                return None
            case optin.Refused(message=message):
                return await self._refuse(name, raw, message)
            case optin.OptedOut():
                assert found is not None
                self.strays.forget(name)
                self._sweep.forget(name)
                again = await self._leaver.leave(found)
                if again is None and self._rolling is not None and not self._fleet.observe(name, None).ours(found.uid):
                    await self._rolling.forget(name)
                return again
            case optin.Served(template=template):
                assert found is not None
                self._leaver.forget(name)
                return await self._serve(found, template)

    def _forget(self, name: str) -> None:
        self._mirror.forget(Ref(NAMESPACE, "", name))
        self._mirror.forget(publish.wfc_ref(name))
        self._publisher.forget(name)
        self._actor.forget(name)
        self._leaver.forget(name)
        self._brake.forget(name)
        self._row.forget(name)
        self.strays.forget(name)
        self._sweep.forget(name)

    async def _refuse(self, name: str, raw: Manifest | None, message: str) -> float | None:
        self._sweep.forget(name)
        log.warning("namespace refused", extra={"namespace": name, "message_": message})
        if raw is not None:
            await self._recorder.tell(
                {**raw, "apiVersion": "v1", "kind": "Namespace"}, Reason.NAMESPACE_REFUSED, message, warning=True
            )
        wfc = await self._mirror.get(publish.wfc_ref(name))
        if wfc is not None:
            note = Note(reason=Reason.NAMESPACE_REFUSED, message=message)
            await self._publisher.publish(wfc, publish.view(wfc, publish.nothing(note), stalled=note))
        return None

    # ---- opted in

    async def _serve(self, namespace: Namespace, template: str) -> float | None:
        found = await self._templates.find(template)
        wfc, instance, refused = await self._wanted.ensure(namespace, None if found is None else shard.policy(found))
        known: dict[str, Any] = {"template": template, "instance_id": instance or ""}
        outcome = Outcome()
        paused = bool((wfc.get("spec") or {}).get("paused"))
        try:
            if refused is not None:
                raise refused
            want = await self._wanted.of(namespace, template, found, wfc, instance)
        except Stalled as exc:
            want = Want(fault=Note(reason=exc.reason, message=exc.message))
        desired, stalled = want.desired, want.fault
        unseen: Note | None = None
        if desired is not None:
            desired, unseen = self._seen_kinds(desired)
        seen = self._fleet.observe(namespace.name, instance)
        if desired is not None and instance is not None and not paused:
            outcome = await self._install(namespace, wfc, instance, desired, want.ignored, seen, template=template)
            if outcome.wrote:
                seen = self._fleet.observe(namespace.name, instance)
            await self._tell(wfc, outcome, desired)
            stalled = stalled or outcome.stalled
        else:
            self._brake.forget(namespace.name)
        stalled = stalled or unseen
        if stalled is None and seen.work is None:
            stalled = Note(
                reason=Reason.ARGO_CRDS_MISSING,
                message="the cluster has no Workflows: install Argo's CRDs (README, Install on your own cluster)",
            )
        serves, seen = self._child(namespace, instance, seen)
        verdict = health.assess(seen.deployment(namespace.uid), seen.pods, seen.lease, now=self._wall_clock())
        ready = verdict.health is names.Health.CURRENT
        alive = serves is not None and (stalled is None or verdict.health is not names.Health.NOT_FOUND)
        standing = self._sweep.stand(
            namespace, serves or "", seen, alive=alive and not paused, ready=ready, published=wfc.get("status") or {}
        )
        strays = await self.strays.look(namespace, serves or "", seen, ready=ready, alive=alive, standing=standing)
        view = publish.view(
            wfc,
            verdict,
            stalled=stalled,
            reconciling=_under_way(outcome, None if paused else want.waits),
            remark=publish.PAUSED if paused else self._beside(namespace, seen, want.remark),
            strays=strays,
            standing=standing,
            # What is not in place yet has not been proved by a child that works on as before.
            revision=desired.revision if desired is not None and outcome.whole and not paused else "",
            version=desired.version if desired else "",
            seen=seen,
            namespace=namespace,
            **known,
        )
        again = await self._publisher.publish(wfc, view)
        if self._rolling is not None:
            self._rolling.judged(template)
        if outcome.failed is not None:
            raise outcome.failed
        slow = (
            HELD_SECONDS * (1 + random.random())
            if stalled or outcome.held
            else RESYNC_SECONDS * (0.5 + random.random())
        )
        due = self._actor.refusals.due(namespace.name, asyncio.get_running_loop().time())
        return min(each for each in (again, verdict.again, strays.again, due, slow) if each is not None)

    def _child(self, namespace: Namespace, instance: str | None, seen: Observed) -> tuple[str | None, Observed]:
        """Tell the ID that is served here: whatever the row says by now, the child that is there has its own."""
        serves = seen.rendered_for(namespace)
        if serves in {None, instance}:
            return instance, seen
        return serves, self._fleet.observe(namespace.name, serves)

    def _beside(self, namespace: Namespace, seen: Observed, remark: Note | None) -> Note | None:
        """Tell of what stands beside the child and fails, before what else there is to remark; it changes no READY."""
        found = health.companions(seen.companions(namespace.uid), seen.beside, now=self._wall_clock())
        if found is None:
            return remark
        more = "" if remark is None else f"; {remark.message}"
        return Note(reason=found.reason, message=f"{found.message}{more}")

    def _seen_kinds(self, desired: Desired) -> tuple[Desired, Note | None]:
        """Leave out documents of kinds that cannot be watched, and say so: what is not seen cannot be kept.

        The rest is kept as always. A kind that a set declares, and of which nothing is rendered here, is nobody's
        trouble: most clusters have no PodMonitor.
        """
        told = self._fleet.unseen({Ref.of(each).kind for each in desired.documents})
        if not told:
            return desired, None
        seen = tuple(each for each in desired.documents if Ref.of(each).kind not in told)
        return replace(desired, documents=seen), Note(reason=Reason.KIND_UNSEEN, message="; ".join(told.values()))

    async def _install(
        self,
        namespace: Namespace,
        wfc: Manifest,
        instance: str,
        desired: Desired,
        ignored: Sequence[Ignored],
        seen: Observed,
        *,
        template: str,
    ) -> Outcome:
        try:
            adoptions = await self._adopter.steps(namespace, wfc, desired, seen)
        except Stalled as exc:
            return Outcome(refused=[Note(reason=exc.reason, message=exc.message)])
        plan_now = functools.partial(self._plan, namespace, instance, desired, ignored, adoptions)
        steps = plan_now(seen=seen)
        if any(step.verb is Verb.PRUNE and plan.is_child(step.ref) for step in steps):
            # A child goes like a child at an opt-out: not before the API server itself confirms that it is idle.
            busy = (await drain.counted(self._cluster, namespace, instance, seen)).unfinished > 0
            if (held := await self._brake.pruning(namespace, template, begin=not busy)) is not None:
                return Outcome(refused=[] if held.note is None else [held.note], settling=held.note is None)
            plan_now = functools.partial(plan_now, busy=busy)
            steps = plan_now()
        else:
            self._brake.forget(namespace.name)
        outcome = await self._actor.install(steps, plan_now)
        if isinstance(outcome.later, Fenced):
            # The label may have gone while we wrote: then the fence is right, and there is nothing to tell here.
            await self._row.confirm(namespace)
        return outcome

    def _plan(
        self,
        namespace: Namespace,
        instance: str,
        desired: Desired,
        ignored: Sequence[Ignored],
        adoptions: Mapping[Ref, Step],
        *,
        seen: Observed | None = None,
        busy: bool = False,
    ) -> tuple[Step, ...]:
        seen = seen or self._fleet.observe(namespace.name, instance)
        return plan.build(
            desired.documents,
            seen.objects,
            namespace_uid=namespace.uid,
            answers=self._actor.answers,
            ignored=ignored,
            pods=seen.pods,
            work=busy or seen.work is None or seen.work.unfinished > 0,
            adoptions=adoptions,
        )

    async def _tell(self, wfc: Manifest, outcome: Outcome, desired: Desired) -> None:
        """One Event and one log line for each kind of thing that was done."""
        by_reason: dict[Reason, list[str]] = {}
        for step in outcome.done:
            if step.verb is not Verb.KEEP:
                by_reason.setdefault(step.reason, []).append(step.message or str(step.ref))
        for reason, told in sorted(by_reason.items()):
            where = wfc["metadata"]["namespace"]
            log.info("child written", extra={"namespace": where, "reason": str(reason), "objects": sorted(told)})
            await self._recorder.tell(wfc, reason, f"revision {desired.revision}: {', '.join(sorted(told))}")


def _under_way(outcome: Outcome, waits: Note | None) -> Note | None:
    """Say what goes on by itself: a retry, a drain, or the wait for a turn."""
    if outcome.later is not None and not isinstance(outcome.later, Conflict | NotLeading):
        return Note(reason=Reason.RETRYING, message=f"tried again by itself: {outcome.later}")
    if draining := [step.message for step in outcome.held if step.reason is Reason.DRAINING]:
        return Note(reason=Reason.DRAINING, message="; ".join(draining))
    return waits


def _held_by(namespace: Manifest | None) -> list[str]:
    """Tell what keeps a namespace that is being deleted: kinds, counts and finalizers, in Kubernetes' own words."""
    conditions = ((namespace or {}).get("status") or {}).get("conditions") or ()
    return [each["message"] for each in conditions if each["type"] in _HELD and each["status"] == "True"]
