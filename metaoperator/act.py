"""Carry out a plan, step by step, and tell what came of it. The only place where a child's objects are written."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from metaoperator.cluster import Cluster
from metaoperator.core import drift, immutable, names, ownership, plan, ties
from metaoperator.core.drift import Answers
from metaoperator.core.errors import Conflict, Gone, Invalid, Rejected, RetryableError
from metaoperator.core.fights import REBIRTH_SECONDS, WRITES, Fights
from metaoperator.core.model import CONFIG_MAP, DEPLOYMENT, SERVICE_ACCOUNT, Manifest, Ref
from metaoperator.core.names import Reason
from metaoperator.core.outcome import Outcome, deleted_again, fought, refused
from metaoperator.core.plan import Step, Verb
from metaoperator.core.refusals import Refusals
from metaoperator.fleet import Fleet

ANSWER_SECONDS: Final = 1700.0
"""Seconds for which an answer of the API server is relied on: each resync, half an hour apart at least, asks again."""
_OTHERS: Final = frozenset({Reason.CONFLICT, Reason.IMMUTABLE, Reason.DRIFT_FIGHT})
_IMMUTABLE_WORDS: Final = ("immutable", "cannot change", "may not change", "updates to")


class Actor:
    """Writes what plans say."""

    def __init__(self, cluster: Cluster, fleet: Fleet) -> None:
        """Remember only caches: what applies answered, whose loss costs a dry-run, and what was put right of late."""
        self._cluster = cluster
        self._fleet = fleet
        self._answers: dict[Ref, tuple[tuple[str, str], float]] = {}
        self._fights = Fights()
        self._births = Fights(writes=1 + WRITES, retry=REBIRTH_SECONDS)  # the first birth is nobody's fault
        self.refusals = Refusals()

    @property
    def answers(self) -> Answers:
        """Hand out what applies and dry-runs answered, as long as it is to be relied on."""
        now = _now()
        return {ref: answer for ref, (answer, until) in self._answers.items() if now < until}

    def forget(self, namespace: str) -> None:
        """Drop what is remembered of one namespace."""
        for ref in [ref for ref in self._answers if ref.namespace == namespace]:
            del self._answers[ref]
        self._fights.forget_namespace(namespace)
        self._births.forget_namespace(namespace)
        self.refusals.forget(namespace)

    def _ended(self, ref: Ref) -> None:
        """Drop what is remembered of an object that we delete."""
        self._answers.pop(ref, None)
        self._fights.forget(ref)
        self._births.forget(ref)

    async def install(self, steps: Sequence[Step], plan_now: Callable[[], Sequence[Step]]) -> Outcome:
        """Carry out a plan: all that pods rest on at once, then, planned anew if anything was done, the workloads.

        One refusal keeps nothing else back, with three exceptions: a workload that is not there yet is not begun on
        somebody else's ServiceAccount or ConfigMap, nor is one taken down to be replaced; one that is there is not
        restarted onto a configuration that could not be put in place, which may be one without its instance ID; and no
        rights are given to a ServiceAccount that somebody else made.
        """
        outcome = Outcome()
        # An account that is there is known to be ours, or not. Only what hands rights to a new one has to wait for it.
        new = {step.ref.name for step in steps if step.ref.kind == SERVICE_ACCOUNT and step.verb is not Verb.KEEP}
        rest = [step for step in steps if step.ref.kind != DEPLOYMENT]
        later = [step for step in rest if plan.accounts(step) & new]
        await asyncio.gather(*(self.step(step, outcome) for step in rest if step not in later))
        amiss = _amiss(outcome)
        for step in later:
            accounts = {str(Ref(SERVICE_ACCOUNT, step.ref.namespace, name)) for name in plan.accounts(step)}
            if strange := sorted(accounts.intersection(amiss)):
                step = _waits(step, strange)  # noqa: PLW2901
            await self.step(step, outcome)
        amiss = _amiss(outcome)
        for step in plan_now() if outcome.wrote else steps:
            if step.ref.kind != DEPLOYMENT:
                continue
            if step.verb in {Verb.CREATE, Verb.REPLACE, Verb.ADOPT} and amiss:
                step = _waits(step, amiss)  # noqa: PLW2901
            elif step.verb is Verb.APPLY and step.reason is not Reason.DRIFT and (other := _misconfigured(outcome)):
                step = _waits(step, other, "changed")  # noqa: PLW2901
            await self.step(step, outcome)
        return outcome

    async def step(self, step: Step, outcome: Outcome) -> None:
        """Carry out one step. A refusal or a failure is noted in the outcome, and keeps nothing else back."""
        error = self.refusals.standing(step, _now())
        if error is None:
            try:
                done = await self._perform(step)
            except (Rejected, Gone, RetryableError) as exc:
                self.refusals.failed(step, exc, _now())
                outcome.failed = error = exc
            else:
                self.refusals.passed(step.ref)
                (outcome.held if done.verb is Verb.HOLD else outcome.done).append(done)
                return
        outcome.missing.append(str(step.ref))
        if isinstance(error, RetryableError):
            outcome.later = error
        else:
            outcome.refused.append(refused(step.ref, error))

    async def _perform(self, step: Step) -> Step:
        match step.verb:
            case Verb.KEEP:
                if not self._fights.agrees(step.ref, step.uid, _now()):
                    return fought(step, "put right once more, and watched for ten minutes")
            case Verb.CREATE:
                return await self._create(step)
            case Verb.APPLY:
                return await self._apply(step)
            case Verb.REPLACE:
                return await self._replace(step)
            case Verb.ADOPT:
                return await self._adopt(step)
            case Verb.PRUNE:
                await self._cluster.delete(step.ref, uid=step.uid, foreground=step.ref.kind == DEPLOYMENT)
                self._ended(step.ref)
        return step

    async def _create(self, step: Step) -> Step:
        """Create an object of a name that nobody has; what somebody else made is invisible to our informers.

        An apply that carries a resource version no object ever has creates what is absent and is a 409 for all that
        is there, without touching it (tests/contract/test_create_only_apply.py).
        """
        assert step.manifest is not None
        meta = {**step.manifest["metadata"], "resourceVersion": "1"}
        home = meta["annotations"][names.NAMESPACE_UID_ANNOTATION]
        if not self._births.may_write(step.ref, "", home, _now()):
            return deleted_again(step, "is gone again")
        try:
            await self._applied({**step.manifest, "metadata": meta}, force=False)
        except Conflict:
            live = await self._cluster.get(step.ref)
            if live is not None and not ownership.is_ours(live, home):
                return plan.conflict(step.ref, live)
            if live is not None:
                self._fleet.learn(live)
            raise
        self._births.wrote(step.ref, "", home, _now())
        return step

    async def _apply(self, step: Step) -> Step:
        assert step.manifest is not None
        if step.reason is not Reason.DRIFT:
            # Only what was edited is put right as far as it goes: a revision that is refused is not applied in part.
            try:
                await self._force(await self._left_running(step))
            except Invalid as exc:
                return _unchangeable(step, exc)
            self._fights.forget(step.ref)
            return step
        inputs = ownership.inputs(step.manifest)
        if not self._fights.may_write(step.ref, step.uid, inputs, _now()):
            return fought(step, f"changed again by {_named(step.writers)}")
        try:
            if await self._settled(step):
                return replace(step, verb=Verb.KEEP, reason=Reason.SETTLED)
            await self._force(step)
        except Invalid as exc:
            if not await self._overrule(step):
                return _unchangeable(step, exc)
            await self._force(step)
        self._fights.wrote(step.ref, step.uid, inputs, _now())
        return step

    async def _adopt(self, step: Step) -> Step:
        """Take an object over as it stands, then apply what is rendered; whoever begins here goes on by the second."""
        assert step.taking is not None
        self._fleet.learn(await self._cluster.merge(step.ref, step.taking))
        return await self._apply(step)

    async def _left_running(self, step: Step) -> Step:
        """Leave the pods of a Deployment that was taken over, where the tie to its account is all that is new in them.

        What is defaulted and what is no longer rendered only the API server knows, so it is asked. The fence that knows
        pods by their tie is told which ReplicaSet makes them without.
        """
        if step.untied is None or step.ref.kind != DEPLOYMENT:
            return step
        sets = ties.replica_sets(step.untied, self._fleet.observe(step.ref.namespace, None).pods)
        untied = replace(step, manifest=step.untied)
        would, _ = await self._cluster.apply(_guarded(untied), force=True, dry_run=True)
        live, account = await self._cluster.get(step.ref), await self._cluster.get(ties.account_of(step.untied))
        if live is None or account is None or len(sets) != 1 or would["spec"]["template"] != live["spec"]["template"]:
            return step
        meta = {"uid": account["metadata"]["uid"], "annotations": {names.ADOPTED_ANNOTATION: min(sets)}}
        self._fleet.learn(await self._cluster.merge(Ref.of(account), {"metadata": meta}))
        return untied

    async def _settled(self, step: Step) -> bool:
        """Ask the API server whether an apply would change anything: it may say a field in other words."""
        assert step.manifest is not None
        would, _ = await self._cluster.apply(_guarded(step), force=True, dry_run=True)
        live = await self._cluster.get(step.ref)
        if live is None or drift.answer(step.manifest, would) != drift.answer(step.manifest, live):
            return False
        self._remember(step.manifest, live)
        return True

    async def _force(self, step: Step) -> None:
        await self._applied(_guarded(step), force=True)

    async def _replace(self, step: Step) -> Step:
        """Delete and create what cannot be changed. Nothing of it is remembered: what is gone is created.

        Before anything is deleted, the API server is asked whether it would take the successor at all.
        """
        assert step.manifest is not None
        live = await self._cluster.get(step.ref)
        if live is None or live["metadata"]["uid"] != step.uid:
            raise Conflict(f"{step.ref} was replaced while we looked")
        found = immutable.change(step.manifest, live)
        if found is None:
            raise Conflict(f"{step.ref} was changed while we looked")
        if step.reason is not Reason.ADOPTED and not immutable.ours_to_replace(live, found):
            return plan.frozen(step.ref, step.uid, f"{found}, and somebody else made it what it is")
        await self._cluster.apply(immutable.successor(step.manifest), force=False, dry_run=True)
        runs_pods = immutable.runs_pods(step.manifest)
        await self._cluster.delete(step.ref, uid=step.uid, foreground=runs_pods)
        self._ended(step.ref)
        if runs_pods:
            return step  # its pods have to be gone: once it is seen to be, it is created
        done = await self._create(step)
        return step if done.verb is Verb.REPLACE else done

    async def _overrule(self, step: Step) -> bool:
        """Put our lists in place whole, where merging them with the live ones gives nothing valid."""
        assert step.manifest is not None
        live = await self._cluster.get(step.ref)
        if live is None or live["metadata"]["uid"] != step.uid:
            raise Conflict(f"{step.ref} was replaced while we looked")
        patch = drift.lists_at_odds(step.manifest, live)
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
        """Defaulting or a mutating policy may say a field in other words (0.5 = 500m): that is no drift.

        A policy may also be taken away, which nothing tells of: at the next resync the API server is asked again.
        """
        if any(drift.differences(manifest, live)):
            self._answers[Ref.of(live)] = drift.answer(manifest, live), _now() + ANSWER_SECONDS
        else:
            self._answers.pop(Ref.of(live), None)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _amiss(outcome: Outcome) -> list[str]:
    """Name what is not there, or not ours."""
    return sorted({*(str(step.ref) for step in outcome.held if not step.uid), *outcome.missing})


def _misconfigured(outcome: Outcome) -> list[str]:
    """Name the ConfigMaps that are not what was rendered: a pod reads them when it starts, and never again."""
    named = {*(str(step.ref) for step in outcome.held if step.reason in _OTHERS), *outcome.missing}
    return sorted(each for each in named if each.startswith(f"{CONFIG_MAP.kind}/"))


def _waits(step: Step, amiss: Sequence[str], what: str = "begun") -> Step:
    message = f"{step.ref} is not {what} before there is {', '.join(amiss)}{' as rendered' * (what != 'begun')}"
    return replace(step, verb=Verb.HOLD, reason=Reason.WAITING, message=message)


def _guarded(step: Step) -> Manifest:
    """Put the UID into what is applied: it keeps a forced apply from an object that took the name since we looked."""
    assert step.manifest is not None
    return {**step.manifest, "metadata": {**step.manifest["metadata"], "uid": step.uid}}


def _named(writers: Sequence[str]) -> str:
    return ", ".join(writers) or "nobody who is named in managedFields (an admission webhook or policy?)"


def _unchangeable(step: Step, exc: Invalid) -> Step:
    """Tell of a field that only the API server knows to be immutable; any other refusal stays one."""
    if any(words in str(exc) for words in _IMMUTABLE_WORDS) and "metadata.uid" not in str(exc):
        return plan.frozen(step.ref, step.uid, str(exc))
    raise exc
