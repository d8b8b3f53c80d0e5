"""Gather, decide, act for one name. Level-triggered: what changed is unknown here, only what is."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from metaoperator import cluster as kube
from metaoperator.core import health, names, optin, plan, shard, status
from metaoperator.core.errors import (
    Gone,
    Rejected,
    RetryableError,
    TemplateError,
    TerminalError,
    ValuesError,
)
from metaoperator.core.model import (
    CONTROLLER_TEMPLATE,
    DEPLOYMENT,
    LEASE,
    NAMESPACE,
    WORKFLOW_CONTROLLER,
    Desired,
    Manifest,
    Namespace,
    Ref,
    WorkCount,
)
from metaoperator.core.names import Reason
from metaoperator.core.plan import Step, Verb
from metaoperator.core.render import Program
from metaoperator.core.status import Note, View
from metaoperator.fleet import Fleet, Observed, unfinished
from metaoperator.mirror import Mirror
from metaoperator.recorder import Recorder
from metaoperator.settings import Settings

log = logging.getLogger(__name__)

RESYNC_SECONDS: Final = 3600.0
HELD_SECONDS: Final = 60.0
COUNTS_SECONDS: Final = 15.0
WORKFLOW_CRD: Final = "workflows.argoproj.io"


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of the steps of one pass."""

    done: dict[Verb, list[Step]] = field(default_factory=dict)
    held: list[Step] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    later: RetryableError | None = None

    @property
    def stalled(self) -> Note | None:
        """Say what a person has to mend, if anything."""
        conflicts = [step.message for step in self.held if step.reason is Reason.CONFLICT]
        if conflicts:
            return Note(reason=Reason.CONFLICT, message="; ".join(conflicts))
        if self.refused:
            return Note(reason=Reason.REJECTED, message="; ".join(self.refused))
        return None


class Reconciler:
    """Brings one namespace from what it is to what it should be, as far as that goes now."""

    def __init__(
        self,
        cluster: kube.Cluster,
        mirror: Mirror,
        fleet: Fleet,
        recorder: Recorder,
        programs: Mapping[str, Program | TemplateError],
        settings: Settings,
        *,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Nothing is read before the first name comes."""
        self._cluster = cluster
        self._mirror = mirror
        self._fleet = fleet
        self._recorder = recorder
        self._programs = programs
        self._settings = settings
        self._wall_clock = wall_clock
        # Caches: losing them costs a dry-run or a status write, never safety.
        self._answers: dict[Ref, tuple[str, str]] = {}
        self._published_at: dict[str, float] = {}

    async def namespace(self, name: str) -> float | None:
        """Reconcile one namespace; returns the seconds after which to look again, `None` for never by itself."""
        raw = await self._mirror.get(Ref(NAMESPACE, "", name))
        found = None if raw is None else Namespace.of(raw)
        match optin.stage(found, own_namespace=self._settings.namespace, denied=self._settings.deny):
            case optin.Absent():
                self._forget(name)
                return None
            case optin.Refused(message=message):
                return await self._refuse(name, raw, message)
            case optin.OptedOut():
                assert found is not None
                return await self._leave(found)
            case optin.Served(template=template):
                assert found is not None
                return await self._serve(found, template)

    def _forget(self, name: str) -> None:
        self._mirror.forget(Ref(NAMESPACE, "", name))
        self._mirror.forget(_wfc_ref(name))
        self._published_at.pop(name, None)
        for ref in [ref for ref in self._answers if ref.namespace == name]:
            del self._answers[ref]

    async def _refuse(self, name: str, raw: Manifest | None, message: str) -> float | None:
        log.warning("namespace refused", extra={"namespace": name, "message_": message})
        if raw is not None:
            await self._recorder.tell(
                {**raw, "apiVersion": "v1", "kind": "Namespace"}, Reason.NAMESPACE_REFUSED, message, warning=True
            )
        wfc = await self._mirror.get(_wfc_ref(name))
        if wfc is not None:
            note = Note(reason=Reason.NAMESPACE_REFUSED, message=message)
            await self._publish(wfc, _view(wfc, _nothing(note), stalled=note))
        return None

    # ---- opted in

    async def _serve(self, namespace: Namespace, template: str) -> float | None:
        wfc = await self._ensure_wfc(namespace)
        instance = wfc["spec"]["instanceID"]
        known: dict[str, Any] = {"template": template, "instance_id": instance}
        outcome = Outcome()
        desired: Desired | None = None
        stalled: Note | None = None
        paused = bool(wfc["spec"].get("paused"))
        try:
            if instance != shard.instance_id(namespace):
                raise _Stall(
                    Reason.INSTANCE_ID_UNSUPPORTED,
                    f"spec.instanceID is {instance}, but Workflows here are stamped "
                    f"with {shard.instance_id(namespace)}: delete this object, and it is made anew with that ID",
                )
            desired = await self._desired(namespace, template, wfc)
        except _Stall as stall:
            stalled = stall.note
        if desired is not None and not paused:
            seen = self._fleet.observe(namespace.name, instance)
            steps = plan.build(desired.documents, seen.objects, namespace_uid=namespace.uid, answers=self._answers)
            outcome = await self._act(steps)
            await self._tell(wfc, outcome, desired)
            stalled = outcome.stalled
        seen = self._fleet.observe(namespace.name, instance)
        if stalled is None and seen.work is None:
            stalled = Note(
                reason=Reason.ARGO_CRDS_MISSING,
                message="the cluster has no Workflows: install Argo's CRDs (README, Install on your own cluster)",
            )
        verdict = health.assess(seen.deployment(namespace.uid), seen.pods, seen.lease)
        paused_note = Note(reason=Reason.PAUSED, message="spec.paused is set: nothing is written") if paused else None
        view = _view(
            wfc,
            verdict,
            stalled=stalled,
            reconciling=paused_note,
            revision=desired.revision if desired else _published(wfc, "revision"),
            version=desired.version if desired else _published(wfc, "version"),
            seen=seen,
            namespace=namespace,
            **known,
        )
        again = await self._publish(wfc, view)
        if outcome.later is not None:
            raise outcome.later
        slow = (
            HELD_SECONDS * (1 + random.random())
            if stalled or outcome.held
            else RESYNC_SECONDS * (0.5 + random.random())
        )
        return slow if again is None else min(again, slow)

    async def _ensure_wfc(self, namespace: Namespace) -> Manifest:
        """Make the WorkflowController, or fill in its instance ID; one that a person made does not get our mark."""
        ref = _wfc_ref(namespace.name)
        live = await self._mirror.get(ref)
        if live is not None and (live.get("spec") or {}).get("instanceID"):
            return live
        meta: dict[str, Any] = {"name": ref.name, "namespace": ref.namespace}
        if live is None:
            meta["labels"] = {names.MANAGED_BY_LABEL: names.MANAGED_BY}
            meta["annotations"] = {names.NAMESPACE_UID_ANNOTATION: namespace.uid}
        else:
            meta["uid"] = live["metadata"]["uid"]
        body = {
            "apiVersion": ref.kind.api_version,
            "kind": ref.kind.kind,
            "metadata": meta,
            "spec": {"instanceID": shard.instance_id(namespace)},
        }
        made, _ = await self._cluster.apply(body, force=False)
        self._mirror.learn(made)
        return made

    async def _desired(self, namespace: Namespace, template: str, wfc: Manifest) -> Desired:
        """Render what the namespace should hold; `_Stall` when a person has to mend something first."""
        found = await self._mirror.get(Ref(CONTROLLER_TEMPLATE, "", template))
        if found is None:
            raise _Stall(
                Reason.TEMPLATE_NOT_FOUND,
                f"no ControllerTemplate is named {template}: nothing is created, changed "
                f"or removed; correct the label {names.OPT_IN_LABEL} or create the ControllerTemplate",
            )
        program = self.program(found)
        try:
            return program.desired(
                namespace,
                shard.only_shard(namespace),
                template_name=template,
                fleet_values=found["spec"].get("values") or {},
                namespace_values=wfc["spec"].get("values") or {},
            )
        except ValuesError as exc:
            raise _Stall(Reason.VALUES_INVALID, str(exc)) from exc
        except TemplateError as exc:
            raise _Stall(Reason.TEMPLATE_INVALID, str(exc)) from exc

    def program(self, template: Manifest) -> Program:
        """Find the compiled set that a ControllerTemplate names; `_Stall` when it cannot be used."""
        directory = template["spec"]["source"]["directory"]
        program = self._programs.get(directory)
        if program is None:
            there = ", ".join(sorted(self._programs)) or "none"
            raise _Stall(
                Reason.TEMPLATE_INVALID, f"no template set {directory} in the operator's directories (there: {there})"
            )
        if isinstance(program, TemplateError):
            raise _Stall(Reason.TEMPLATE_INVALID, str(program))
        return program

    # ---- acting

    async def _act(self, steps: Sequence[Step]) -> Outcome:
        """Carry out a plan: all that pods rest on at once, then the workloads. One refusal keeps nothing else back."""
        outcome = Outcome()
        await asyncio.gather(*(self._step(step, outcome) for step in steps if step.ref.kind != DEPLOYMENT))
        for step in steps:
            if step.ref.kind == DEPLOYMENT:
                await self._step(step, outcome)
        return outcome

    async def _step(self, step: Step, outcome: Outcome) -> None:
        try:
            match step.verb:
                case Verb.HOLD:
                    outcome.held.append(step)
                    return
                case Verb.CREATE:
                    step = await self._create(step)
                case Verb.APPLY:
                    step = await self._apply(step)
                case Verb.PRUNE:
                    await self._cluster.delete(step.ref, uid=step.uid, foreground=step.ref.kind == DEPLOYMENT)
                    self._answers.pop(step.ref, None)
                case Verb.KEEP:
                    pass
        except Rejected as exc:
            outcome.refused.append(f"{step.ref}: {exc}")
        except Gone as exc:
            outcome.refused.append(f"{step.ref}: {exc}")
        except RetryableError as exc:
            outcome.later = exc
        else:
            (outcome.held if step.verb is Verb.HOLD else outcome.done.setdefault(step.verb, [])).append(step)

    async def _create(self, step: Step) -> Step:
        """Create an object of a name that nobody has; what somebody else made is invisible to our informers."""
        assert step.manifest is not None
        live = await self._cluster.get(step.ref)
        if live is not None:
            self._fleet.learn(live)
            if (step.manifest["metadata"]["annotations"][names.NAMESPACE_UID_ANNOTATION]) != (
                live["metadata"].get("annotations") or {}
            ).get(names.NAMESPACE_UID_ANNOTATION):
                return plan.conflict(step.ref, live)
            raise kube.Conflict(f"{step.ref} is there already: the watch is late")
        await self._applied(step.manifest, force=False)
        return step

    async def _apply(self, step: Step) -> Step:
        assert step.manifest is not None
        meta = {**step.manifest["metadata"], "uid": step.uid}
        # The UID keeps a forced apply from hitting an object that took the name since we looked.
        body = {**step.manifest, "metadata": meta}
        if step.reason is Reason.DRIFT:
            would, _ = await self._cluster.apply(body, force=True, dry_run=True)
            live = await self._cluster.get(step.ref)
            if live is not None and plan.answer(step.manifest, would) == plan.answer(step.manifest, live):
                # Defaulting or a mutating policy says it in other words (0.5 = 500m): remember, and write nothing.
                self._answers[step.ref] = plan.answer(step.manifest, live)
                return Step(verb=Verb.KEEP, ref=step.ref, reason=Reason.SETTLED, uid=step.uid)
        await self._applied(body, force=True)
        return step

    async def _applied(self, body: Manifest, *, force: bool) -> None:
        live, _ = await self._cluster.apply(body, force=force)
        self._answers[Ref.of(live)] = plan.answer(body, live)
        self._fleet.learn(live)

    async def _tell(self, wfc: Manifest, outcome: Outcome, desired: Desired) -> None:
        """One Event and one log line for each kind of thing that was done."""
        for verb, steps in outcome.done.items():
            for reason in sorted({step.reason for step in steps if verb is not Verb.KEEP}):
                told = sorted(step.message or str(step.ref) for step in steps if step.reason is reason)
                message = f"revision {desired.revision}: {', '.join(told)}"
                log.info(
                    "child written",
                    extra={
                        "namespace": wfc["metadata"]["namespace"],
                        "verb": str(verb),
                        "reason": str(reason),
                        "objects": told,
                    },
                )
                await self._recorder.tell(wfc, reason, message)

    # ---- leaving

    async def _leave(self, namespace: Namespace) -> float | None:
        """Drain and remove what is ours. Its being here is the only memory of an opt-out that is needed."""
        wfc = await self._mirror.get(_wfc_ref(namespace.name))
        made_by_us = wfc is not None and plan.is_ours(wfc, namespace.uid)
        instance = ((wfc or {}).get("spec") or {}).get("instanceID") or shard.instance_id(namespace)
        seen = self._fleet.observe(namespace.name, instance)
        ours = [ref for ref, live in seen.objects.items() if plan.is_ours(live, namespace.uid)]
        if not ours and not seen.pods:
            return await self._gone(namespace, wfc, made_by_us=made_by_us)
        unfinished_work = await self._unfinished(namespace, instance, seen)
        if unfinished_work.unfinished:
            note = Note(
                reason=Reason.DRAINING,
                message=f"opted out; unfinished Workflows with ID {instance}: {unfinished_work.unfinished}",
            )
            verdict = health.assess(seen.deployment(namespace.uid), seen.pods, seen.lease)
        else:
            lease = Ref(LEASE, namespace.name, shard.lease_name(instance))
            steps = plan.removal(
                seen.objects,
                namespace_uid=namespace.uid,
                lease=lease,
                lease_exists=self._fleet.leases.get(lease.namespace, lease.name) is not None,
                pods=[f"Pod/{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in seen.pods],
            )
            outcome = Outcome()
            for step in steps:  # in order: what stays is the proof that the rest is still ours to remove
                await self._step(step, outcome)
                if outcome.later is not None:
                    raise outcome.later
            waits = next((step.message for step in outcome.held), "removing the child")
            note = Note(reason=Reason.REMOVING, message=f"opted out; {waits}")
            verdict = _nothing(note)
        if wfc is not None:
            await self._publish(
                wfc, _view(wfc, verdict, reconciling=note, seen=seen, namespace=namespace, instance_id=instance)
            )
        return HELD_SECONDS

    async def _unfinished(self, namespace: Namespace, instance: str, seen: Observed) -> WorkCount:
        """Count what an opt-out waits for; zero is confirmed by the API server before anything is removed."""
        if seen.work is not None and seen.work.unfinished:
            return seen.work
        try:
            async for page in self._cluster.list_pages(unfinished(namespace.name, instance), limit=1):
                more = page["metadata"].get("remainingItemCount") or 0
                return WorkCount(pending=len(page["items"]) + more)
        except Gone as exc:
            # No CRD, no Workflow. But a CRD that is being served again in a moment is there already.
            if await kube.crd_exists(self._cluster, WORKFLOW_CRD):
                raise RetryableError(f"Workflows cannot be seen: {exc}") from exc
        return WorkCount()

    async def _gone(self, namespace: Namespace, wfc: Manifest | None, *, made_by_us: bool) -> float | None:
        """Nothing of ours is left: take the row away that we made, or say in a person's own that it rests."""
        if wfc is None:
            self._published_at.pop(namespace.name, None)
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
        await self._publish(wfc, _view(wfc, _nothing(note)))
        return None

    # ---- telling

    async def _publish(self, wfc: Manifest, view: View) -> float | None:
        """Write the status if it differs; returns the seconds after which counts that had to wait are due."""
        name = wfc["metadata"]["namespace"]
        published = wfc.get("status") or {}
        wanted = status.workflow_controller(view, published, now=self._wall_clock())
        if wanted == published:
            return None
        now = asyncio.get_running_loop().time()
        since = now - self._published_at.get(name, now - COUNTS_SECONDS)
        if since < COUNTS_SECONDS and status.only_counts_differ(wanted, published):
            return COUNTS_SECONDS - since
        ref = Ref.of(wfc)
        meta = {"name": ref.name, "namespace": ref.namespace, "uid": wfc["metadata"]["uid"]}
        body = {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, "metadata": meta, "status": wanted}
        try:
            live, _ = await self._cluster.apply(body, force=True, subresource="status")
        except (Gone, kube.Conflict):
            self._mirror.saw(ref, "")
            return 1.0
        self._mirror.learn(live)
        self._published_at[name] = now
        before, after = (status.condition(each, names.Condition.READY) for each in (published, wanted))
        if (before.get("status"), before.get("reason")) != (after["status"], after["reason"]):
            bad = after["status"] == "False" and (
                view.stalled is not None or view.verdict.health is names.Health.FAILED
            )
            log.info("child judged", extra={"namespace": name, "ready": after["status"], "reason": after["reason"]})
            await self._recorder.tell(wfc, Reason(after["reason"]), after["message"], warning=bad)
        return None

    async def template(self, name: str) -> float | None:
        """Reconcile the status of one ControllerTemplate."""
        ref = Ref(CONTROLLER_TEMPLATE, "", name)
        live = await self._mirror.get(ref)
        if live is None or "deletionTimestamp" in live["metadata"]:
            return None
        fault: Note | None = None
        revision = ""
        try:
            revision = self.program(live).revision(live["spec"].get("values") or {})
        except _Stall as stall:
            fault = stall.note
        users = [
            wfc for wfc in self._mirror.copies(WORKFLOW_CONTROLLER) if (wfc.get("status") or {}).get("template") == name
        ]
        ready = [wfc for wfc in users if status.condition(wfc["status"], names.Condition.READY).get("status") == "True"]
        published = live.get("status") or {}
        wanted = status.controller_template(
            generation=live["metadata"]["generation"],
            fault=fault,
            revision=revision,
            total=len(users),
            ready=len(ready),
            previous=published,
            now=self._wall_clock(),
        )
        if wanted != published:
            meta = {"name": name, "uid": live["metadata"]["uid"]}
            body = {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, "metadata": meta, "status": wanted}
            made, _ = await self._cluster.apply(body, force=True, subresource="status")
            self._mirror.learn(made)
        return None


class _Stall(TerminalError):
    """A reason and a message for the condition Stalled."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.note = Note(reason=reason, message=message)


def _wfc_ref(namespace: str) -> Ref:
    return Ref(WORKFLOW_CONTROLLER, namespace, names.WORKFLOW_CONTROLLER)


def _nothing(note: Note) -> health.Verdict:
    return health.Verdict(health=names.Health.TERMINATING, reason=note.reason, message=note.message)


def _published(wfc: Manifest, key: str) -> str:
    return str((wfc.get("status") or {}).get(key, ""))


def _view(
    wfc: Manifest,
    verdict: health.Verdict,
    *,
    stalled: Note | None = None,
    reconciling: Note | None = None,
    template: str = "",
    revision: str = "",
    version: str = "",
    instance_id: str = "",
    seen: Observed | None = None,
    namespace: Namespace | None = None,
) -> View:
    ours = {} if seen is None or namespace is None else seen.objects
    return View(
        generation=wfc["metadata"]["generation"],
        verdict=verdict,
        stalled=stalled,
        reconciling=reconciling,
        template=template or _published(wfc, "template"),
        revision=revision or _published(wfc, "revision"),
        version=version or _published(wfc, "version"),
        instance_id=instance_id,
        leader=seen.lease.holder if seen is not None and seen.lease is not None else "",
        work=None if seen is None else seen.work,
        inventory=[
            f"{ref.kind.kind}/{ref.name}"
            for ref, live in ours.items()
            if namespace is not None and plan.is_ours(live, namespace.uid)
        ],
    )
