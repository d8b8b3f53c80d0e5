"""Carry out a plan, step by step, and tell what came of it. The only place where a child's objects are written."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from metaoperator.cluster import Cluster
from metaoperator.core import names, plan
from metaoperator.core.errors import Conflict, Gone, Invalid, Rejected, RetryableError
from metaoperator.core.model import DEPLOYMENT, Manifest, Ref
from metaoperator.core.names import Reason
from metaoperator.core.plan import Step, Verb
from metaoperator.core.status import Note
from metaoperator.fleet import Fleet


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of the steps of one pass."""

    done: list[Step] = field(default_factory=list)
    held: list[Step] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
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


class Actor:
    """Writes what plans say."""

    def __init__(self, cluster: Cluster, fleet: Fleet) -> None:
        """Remember nothing but what applies answered: a cache, whose loss costs a dry-run."""
        self._cluster = cluster
        self._fleet = fleet
        self.answers: dict[Ref, tuple[str, str]] = {}

    def forget(self, namespace: str) -> None:
        """Drop what is remembered of one namespace."""
        for ref in [ref for ref in self.answers if ref.namespace == namespace]:
            del self.answers[ref]

    async def install(self, plan_now: Callable[[], Sequence[Step]]) -> Outcome:
        """Carry out a plan: all that pods rest on at once, then, planned anew on top of it, the workloads.

        One refusal keeps nothing else back, with one exception: a workload that is not there yet is not begun on
        somebody else's ServiceAccount or ConfigMap.
        """
        outcome = Outcome()
        await asyncio.gather(*(self.step(step, outcome) for step in plan_now() if step.ref.kind != DEPLOYMENT))
        amiss = sorted({str(step.ref) for step in outcome.held} | set(outcome.missing))
        for step in plan_now():
            if step.ref.kind != DEPLOYMENT:
                continue
            if step.verb is Verb.CREATE and amiss:
                message = f"{step.ref} is not begun before there is {', '.join(amiss)}"
                step = replace(step, verb=Verb.HOLD, reason=Reason.WAITING, message=message)  # noqa: PLW2901
            await self.step(step, outcome)
        return outcome

    async def step(self, step: Step, outcome: Outcome) -> None:
        """Carry out one step. A refusal or a failure is noted in the outcome, and keeps nothing else back."""
        try:
            done = await self._perform(step)
        except (Rejected, Gone) as exc:
            outcome.refused.append(f"{step.ref}: {exc}")
            outcome.missing.append(str(step.ref))
        except RetryableError as exc:
            outcome.later = exc
            outcome.missing.append(str(step.ref))
        else:
            (outcome.held if done.verb is Verb.HOLD else outcome.done).append(done)

    async def _perform(self, step: Step) -> Step:
        match step.verb:
            case Verb.CREATE:
                return await self._create(step)
            case Verb.APPLY:
                return await self._apply(step)
            case Verb.PRUNE:
                await self._cluster.delete(step.ref, uid=step.uid, foreground=step.ref.kind == DEPLOYMENT)
                self.answers.pop(step.ref, None)
        return step

    async def _create(self, step: Step) -> Step:
        """Create an object of a name that nobody has; what somebody else made is invisible to our informers.

        An apply that carries a resource version no object ever has creates what is absent and is a 409 for all that
        is there, without touching it (tests/contract/test_create_only_apply.py).
        """
        assert step.manifest is not None
        meta = {**step.manifest["metadata"], "resourceVersion": "1"}
        try:
            await self._applied({**step.manifest, "metadata": meta}, force=False)
        except Conflict:
            live = await self._cluster.get(step.ref)
            if live is not None and not plan.is_ours(live, meta["annotations"][names.NAMESPACE_UID_ANNOTATION]):
                return plan.conflict(step.ref, live)
            if live is not None:
                self._fleet.learn(live)
            raise
        return step

    async def _apply(self, step: Step) -> Step:
        try:
            return await self._force(step)
        except Invalid:
            # Only what was edited is put right so: a revision that is refused is not applied in part.
            if step.reason is not Reason.DRIFT or not await self._overrule(step):
                raise
        await self._force(step)
        return step

    async def _force(self, step: Step) -> Step:
        assert step.manifest is not None
        # The UID keeps a forced apply from hitting an object that took the name since we looked: it is Invalid then.
        body = {**step.manifest, "metadata": {**step.manifest["metadata"], "uid": step.uid}}
        if step.reason is Reason.DRIFT:
            would, _ = await self._cluster.apply(body, force=True, dry_run=True)
            live = await self._cluster.get(step.ref)
            if live is not None and plan.answer(step.manifest, would) == plan.answer(step.manifest, live):
                self._remember(step.manifest, live)
                return replace(step, verb=Verb.KEEP, reason=Reason.SETTLED)
        await self._applied(body, force=True)
        return step

    async def _overrule(self, step: Step) -> bool:
        """Put our lists in place whole, where merging them with the live ones gives nothing valid."""
        assert step.manifest is not None
        live = await self._cluster.get(step.ref)
        if live is None or live["metadata"]["uid"] != step.uid:
            raise Conflict(f"{step.ref} was replaced while we looked")
        patch = plan.lists_at_odds(step.manifest, live)
        if patch:
            meta = {key: live["metadata"][key] for key in ("uid", "resourceVersion")}
            await self._cluster.merge(step.ref, {**patch, "metadata": {**patch.get("metadata", {}), **meta}})
        return bool(patch)

    async def _applied(self, body: Manifest, *, force: bool) -> None:
        live, _ = await self._cluster.apply(body, force=force)
        sent = {**body["metadata"], "resourceVersion": live["metadata"]["resourceVersion"]}
        self._remember({**body, "metadata": sent}, live)
        self._fleet.learn(live)

    def _remember(self, manifest: Manifest, live: Manifest) -> None:
        """Defaulting or a mutating policy may say a field in other words (0.5 = 500m): that is no drift."""
        if any(plan.differences(manifest, live)):
            self.answers[Ref.of(live)] = plan.answer(manifest, live)
        else:
            self.answers.pop(Ref.of(live), None)
