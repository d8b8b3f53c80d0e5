"""What one namespace holds now: the revision that is recorded for it, or the next one, once its turn has come.

A move writes the record first and the documents after it. Whatever happens between the two, the namespace has a
revision, and drift repair applies its bytes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from metaoperator import members
from metaoperator.core import health, names, ownership, revision, standing
from metaoperator.core.errors import Stalled
from metaoperator.core.model import Desired, Manifest, Namespace, Ref
from metaoperator.core.names import Health, Reason
from metaoperator.core.revision import Head, Inputs, Record
from metaoperator.core.standing import Child
from metaoperator.core.status import Note
from metaoperator.fleet import Fleet
from metaoperator.goals import Goal, Goals, inputs, plain
from metaoperator.revisions import Revisions
from metaoperator.rollout import Rollouts

_UNREADABLE: Final = "; nobody knows by now what was rendered for it, so until then the child is left as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What is to be in place now: `None` where nothing may be written.

    `waits` says what the next revision waits for, `fault` what a person has to mend here, `remark` what is amiss
    elsewhere: the child keeps what it has.
    """

    desired: Desired | None
    waits: Note | None = None
    fault: Stalled | None = None
    remark: Note | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One namespace in one look: what it is rendered from, its row, and what is recorded of it."""

    namespace: Namespace
    inputs: Inputs
    spec: Mapping[str, Any]
    head: Head | None

    @property
    def paused(self) -> bool:
        """Tell whether its row says to write nothing."""
        return bool(self.spec.get("paused"))


class Holder:
    """Decides for one namespace at a time; who may move is decided by `Rollouts`, for all of them together."""

    def __init__(
        self,
        fleet: Fleet,
        goals: Goals,
        revisions: Revisions,
        rollouts: Rollouts,
        *,
        wall_clock: Callable[[], datetime],
    ) -> None:
        """Remember nothing of a look."""
        self._fleet = fleet
        self._goals = goals
        self._revisions = revisions
        self._rollouts = rollouts
        self._wall_clock = wall_clock

    async def hold(self, namespace: Namespace, template: Manifest, wfc: Manifest, instance: str) -> Holding:
        """Say what the namespace is to hold, and move it if its turn has come. While its row is paused, nothing moves.

        `Stalled` when a person has to mend something before there can be a first revision.
        """
        case = Case(
            namespace=namespace,
            inputs=inputs(namespace, template["metadata"]["name"], wfc, instance),
            spec=wfc.get("spec") or {},
            head=self._revisions.current(namespace.uid),
        )
        try:
            goal = await self._goals.of(template)
        except Stalled as exc:
            if case.head is None:
                raise
            # It is the ControllerTemplate that is Stalled: nothing of this namespace is, and its child works on.
            remark = Note(reason=exc.reason, message=f"kept at revision {case.head.revision}: {exc.message}")
            return Holding(desired=await self.recorded(case.head), remark=remark)
        try:
            wanted = await self._goals.wanted(goal, namespace, case.inputs)
        except Stalled as exc:
            if case.head is None:
                raise
            kept = await self.recorded(case.head)
            if await self._goals.fails_anyway(goal, case.head, namespace, case.inputs):
                return Holding(desired=kept, fault=exc)
            return Holding(desired=kept, waits=Note(reason=Reason.CHECK_FAILED, message=exc.message))
        self._rollouts.wants(namespace, goal, wanted)
        if names.SPEC_LOST_ANNOTATION in (wfc["metadata"].get("annotations") or {}):
            # The row is held, or was held for nothing, before anything of it is recorded.
            return Holding(desired=wanted)
        if case.head is None:
            return await self._first(case, goal, wanted)
        return await self._next(case, case.head, goal, wanted)

    async def _next(self, case: Case, head: Head, goal: Goal, wanted: Desired) -> Holding:
        """Go on from what is recorded."""
        if head.revision == wanted.revision and head.template == goal.template:
            if not case.paused and head.spec != revision.spec_digest(case.spec):
                # The row says other things, of which nothing is rendered, such as how to drain.
                await self._move(case, goal, wanted, before=head.before, said=head)
            return Holding(desired=wanted)
        record = await self._revisions.record(head)
        if record is not None and not case.paused and (own := await self._own(case, record, goal)) is not None:
            await self._move(case, *own, before=revision.OWN)
            return Holding(desired=own[1])
        return await self._in_turn(case, goal, wanted, None if record is None else record.desired)

    async def recorded(self, head: Head) -> Desired | None:
        """Read what a head stands for; `None` where its record is gone or garbled."""
        record = await self._revisions.record(head)
        return None if record is None else record.desired

    async def spec(self, namespace: Namespace) -> Mapping[str, Any] | None:
        """Read what the row said when it was last seen; `None` where nothing is recorded of it."""
        head = self._revisions.current(namespace.uid)
        record = None if head is None else await self._revisions.record(head)
        return None if record is None else record.spec

    async def _first(self, case: Case, goal: Goal, wanted: Desired) -> Holding:
        """Give a namespace its first record: for a new child, or for one that was there before there were records."""
        seen = self._fleet.observe(case.namespace.name, None)
        rendered = {Ref.of(each): ownership.rendered_digest(each) for each in wanted.documents}
        if case.paused:
            return Holding(desired=wanted)
        if seen.deployment(case.namespace.uid) is None:
            at = await self._rollouts.start(case.namespace, goal)
            desired = wanted if at is goal else self._goals.render(at, case.namespace, case.inputs)
            await self._move(case, at, desired, before=revision.NEW)
            return Holding(desired=desired)
        ours = seen.ours(case.namespace.uid)
        if all(rendered.get(ref) == ownership.rendered_digest(live) for ref, live in ours.items()):
            await self._move(case, goal, wanted, before=revision.NEW)
            return Holding(desired=wanted)
        return await self._in_turn(case, goal, wanted, None)

    async def _in_turn(self, case: Case, goal: Goal, wanted: Desired, kept: Desired | None) -> Holding:
        """Move if the turn has come, else keep what is recorded; without a record of its bytes, the child is left."""
        if case.paused:
            return Holding(desired=kept)
        waits = self._rollouts.claim(case.namespace, goal)
        if waits is not None:
            return Holding(
                desired=kept, waits=waits if kept else replace(waits, message=f"{waits.message}{_UNREADABLE}")
            )
        try:
            await self._move(case, goal, wanted, before=self._before(case))
        finally:
            self._rollouts.claimed(case.namespace, goal)
        return Holding(desired=wanted)

    async def _own(self, case: Case, record: Record, goal: Goal) -> tuple[Goal, Desired] | None:
        """Find what the namespace's own change asks for, at the set revision that it stands at.

        Both sides are rendered now, by this operator: what a new operator renders differently is nobody's own change.
        """
        if plain(record.inputs) == plain(case.inputs):
            return None
        if record.head.template != goal.template:
            at: Goal | None = await self._rollouts.start(case.namespace, goal)
            assert at is not None
            return at, self._goals.render(at, case.namespace, case.inputs)
        at = await self._goals.recorded(goal, record.head.set_revision)
        if at is None:
            return None
        try:
            now, then = (self._goals.render(at, case.namespace, each) for each in (case.inputs, record.inputs))
        except Stalled:
            return None
        return None if now.revision == then.revision else (at, now)

    async def _move(self, case: Case, goal: Goal, desired: Desired, *, before: str, said: Head | None = None) -> None:
        await self._revisions.move(
            case.namespace,
            desired=desired,
            set_revision=goal.set_revision,
            inputs=case.inputs,
            spec=case.spec,
            template=goal.template,
            before=before,
            said=said,
        )

    def _before(self, case: Case) -> str:
        """Say how the child is, just before it moves."""
        namespace, now = case.namespace, self._wall_clock()
        seen = self._fleet.observe(namespace.name, case.inputs.instance_id)
        verdict = health.assess(seen.deployment(namespace.uid), seen.pods, seen.lease, now=now)
        child = Child(ready=verdict.health is Health.CURRENT, since=now, reason=str(verdict.reason))
        return standing.before(case.head or members.unrecorded(namespace), child)
