"""Rollouts in worlds that go on meanwhile: whatever comes between, nobody is moved too early, and each of them ends.

The world is simulated and simple: children that start and fail, an operator that dies between any two writes, people
and sources that change their minds, clocks that are wrong after a restart. What is under test is the real engine; the
laws are written down here a second time, from what the world knows and the engine has to infer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from metaoperator.core import rollout, standing, target
from metaoperator.core.names import Reason
from metaoperator.core.policy import Approval, OnFailure, Policy
from metaoperator.core.revision import NEW, OWN, READY, Head, SetHead
from metaoperator.core.rollout import Decision, Phase
from metaoperator.core.standing import Child, Member
from metaoperator.core.stops import Check
from metaoperator.core.target import Target, Why
from metaoperator.core.waves import Selector, Share, Wave
from metaoperator.core.windows import Window
from tests.unit.fleets import NOW, head, set_head

CANARY = Wave(name="canary", selector=Selector(labels={"tier": "canary"}))
EARLY = Wave(name="early", percent=30)
PACES = (
    Policy(max_unavailable=Share(amount=1)),
    Policy(max_unavailable=Share(amount=2), waves=(CANARY,)),
    Policy(max_unavailable=Share(amount=50, percent=True), waves=(CANARY, EARLY)),
    Policy(max_unavailable=Share(amount=2), waves=(replace(CANARY, approval=True), EARLY)),
    Policy(max_unavailable=Share(amount=1), waves=(EARLY,), failure_threshold=Share(amount=1)),
    Policy(waves=(CANARY,), windows=(Window(cron="0 */2 * * *", duration=timedelta(hours=1)),)),
)
START_SECONDS = 5
LULLS = st.sampled_from([0, 1, 6, 21, 31, 61, 61, 70, 130, 610])
"""How long the operator goes on before the next thing happens; not at all, for two that happen at once."""


class Fate(StrEnum):
    """What becomes of a child with certain bytes."""

    WORKS = "works"
    CRASHES = "crashes"
    HANGS = "hangs"
    FLAPS = "flaps"
    CRASHES_LATE = "crashes late"


FATES = st.sampled_from(
    [
        {},
        {},
        *({part: fate} for part in (1, 2) for fate in Fate),
        *(dict.fromkeys(range(4), fate) for fate in Fate),
    ]
)
"""Those of a set, by a part of the namespace's UID: whoever is not among them works."""


@dataclass(kw_only=True)
class Space:
    """A namespace as the world knows it, and what is recorded of it."""

    name: str
    uid: str
    labels: dict[str, str]
    heads: list[Head] = field(default_factory=list)
    running: str = ""
    started: float = 0
    ill: bool = False
    ready: bool = False
    failed: bool = False
    since: float = 0
    apart: bool = False
    healthy_when_moved: bool = False

    @property
    def head(self) -> Head | None:
        """The current record."""
        return self.heads[-1] if self.heads else None


@dataclass(kw_only=True)
class Edition:
    """A set: whom it changes and what becomes of each; its bytes are those of an older one for all others."""

    name: str
    fates: dict[int, Fate]
    changes: int
    below: "Edition | None" = None

    def bytes_for(self, space: Space) -> str:
        """Render."""
        if self.below is not None and int(space.uid) % 3 >= self.changes:
            return self.below.bytes_for(space)
        return f"{self.name}-{self.fates.get(int(space.uid) % 4, Fate.WORKS)}"


class World(RuleBasedStateMachine):
    """A fleet, its operator, and everything that happens to them."""

    def __init__(self) -> None:
        """Begin with nobody."""
        super().__init__()
        self.time = 0.0
        self.offset = 0.0
        self.spaces: dict[str, Space] = {}
        self.born = 0
        self.editions: list[Edition] = [Edition(name="aaaaaaaaa0", fates={}, changes=3)]
        self.sets: dict[str, SetHead] = {}
        self.source: str | None = "aaaaaaaaa0"
        self.policy = Policy()
        self.checked = Check()
        self.began = self.now
        self.claims: set[str] = set()
        self.failing: dict[str, float] = {}
        self.applied: set[str] = set()
        self.seen: set[str] = set()
        self.decision: Decision | None = None
        self.goal: Target | None = None

    # ---- time

    @property
    def now(self) -> datetime:
        """What the operator's clock says."""
        return NOW + timedelta(seconds=self.time + self.offset)

    def at(self, time: float) -> datetime:
        """Write down a moment by the clock of now; the API server's stamps are as true as the operator's."""
        return NOW + timedelta(seconds=time + self.offset)

    # ---- the world

    def edition(self, name: str) -> Edition:
        """Find a set."""
        return next(each for each in self.editions if each.name == name)

    def live(self) -> None:
        """Let every child become what its bytes, and its namespace, make of it."""
        for space in self.spaces.values():
            age = self.time - space.started
            fate = Fate(space.running.rpartition("-")[2]) if space.running else Fate.HANGS
            if space.ill:
                fate = Fate.CRASHES
            ready = age >= START_SECONDS and fate not in {Fate.CRASHES, Fate.HANGS}
            if fate is Fate.FLAPS:
                ready = ready and int(age // 25) % 2 == 0
            if fate is Fate.CRASHES_LATE:
                ready = ready and age < 200
            failed = not ready and age >= START_SECONDS and fate in {Fate.CRASHES, Fate.CRASHES_LATE}
            if ready != space.ready:
                space.ready, space.since = ready, self.time
            space.failed = failed
            if failed and space.name in self.seen:
                self.failing.setdefault(space.name, self.time)
            else:
                self.failing.pop(space.name, None)

    # ---- the operator

    def members(self) -> list[Member]:
        """Gather, as the operator does: what it has not judged itself since it began is not Ready."""
        goal = self.goal
        found = []
        for space in self.spaces.values():
            current = space.head
            ready = space.ready and space.name in self.applied and space.name in self.seen
            reason = "Leading" if ready else "PodFailing" if space.failed else "DeploymentProgressing"
            child = Child(
                ready=ready,
                failed=space.failed and space.name in self.applied and space.name in self.seen,
                since=self.at(space.since),
                reason=reason,
            )
            wanted = None
            if goal is not None and goal.set_revision is not None:
                wanted = self.edition(goal.set_revision).bytes_for(space)
            found.append(
                Member(
                    namespace=space.name,
                    uid=space.uid,
                    labels=space.labels,
                    head=current,
                    wanted=wanted,
                    child=child,
                    failing_seconds=self.time - self.failing.get(space.name, self.time),
                    apart="paused" if space.apart else "",
                    claimed=space.name in self.claims,
                )
            )
        return found

    def choose(self) -> Target:
        """Record the source's set, and choose the target."""
        if self.source is not None and self.source not in self.sets:
            self.sets[self.source] = set_head(self.source, len(self.sets) + 1, since=self.now)
        newest = sorted(self.sets.values(), key=lambda each: -each.number)
        return target.choose(self.source, newest, self.policy, now=self.now)

    def decide(self, *, later: float = 0, members: Sequence[Member] | None = None) -> Decision:
        """Ask the engine."""
        assert self.goal is not None
        now = self.now + timedelta(seconds=later)
        return rollout.decide(
            self.members() if members is None else members,
            self.policy,
            target=self.goal,
            checked=self.checked,
            now=now,
            began=self.began,
        )

    def look(self) -> Decision:
        """Decide, write down the marks, and claim whom it admits: nothing is moved yet."""
        self.goal = self.choose()
        before = self.members()
        found = self.decide()
        self.hold_to_the_laws(before, found)
        for name in found.proven:
            space = self.spaces[name]
            assert space.head is not None
            space.heads[-1] = replace(space.head, proven=self.now)
        revision = self.goal.set_revision
        if revision is not None and found.failed is not None:
            self.sets[revision] = replace(self.sets[revision], failed=self.now, why=found.failed.message)
        if revision is not None and found.stable:
            self.sets[revision] = replace(self.sets[revision], stable=self.now)
        self.claims = {name for name in self.claims if name not in found.waits and name in self.spaces}
        self.claims |= set(found.admitted)
        self.decision = found
        return found

    def record(self) -> None:
        """Write the records of those who are claimed, and of the new ones who are not."""
        if self.goal is None or self.goal.set_revision is None:
            return
        for space in self.spaces.values():
            if space.name in self.claims:
                self.move(space, self.goal.set_revision)
            elif space.head is None and self.goal.last_stable is not None and space.name in self.known():
                self.move(space, self.goal.last_stable)

    def known(self) -> set[str]:
        """Name those whom the last decision was about."""
        return set() if self.decision is None else {*self.decision.waits, *self.decision.admitted}

    def move(self, space: Space, revision: str, before: str = "") -> None:
        """Write one record."""
        wanted = self.edition(revision).bytes_for(space)
        if space.head is not None and space.head.revision == wanted and not before:
            return
        child = next(each.child for each in self.members() if each.namespace == space.name)
        space.healthy_when_moved = space.ready and space.name in self.applied
        space.heads.append(
            head(
                revision,
                name=f"{space.uid}-{len(space.heads)}",
                namespace=space.name,
                namespace_uid=space.uid,
                revision=wanted,
                before=before or standing.before(space.head, child),
                since=self.now,
            )
        )
        self.applied.discard(space.name)

    def apply(self) -> None:
        """Repair everybody with what is recorded: those who wait too, and whoever was moved."""
        for space in self.spaces.values():
            if space.head is None or space.apart:
                continue
            if space.running != space.head.revision:
                space.running, space.started = space.head.revision, self.time
                space.ready, space.failed, space.since = False, False, self.time
            if space.name not in self.seen:
                self.seen.add(space.name)
                space.since = self.time if not space.ready else space.since
            self.applied.add(space.name)
            self.claims.discard(space.name)

    # ---- laws

    def hold_to_the_laws(self, members: Sequence[Member], found: Decision) -> None:
        """Hold one decision to what it may say."""
        assert self.goal is not None
        goal, by_name = self.goal, {each.namespace: each for each in members}
        away = {name for name, each in by_name.items() if not each.there and not each.apart}
        if goal.set_revision is None:
            assert not found.admitted
            assert not found.waits
            return
        # Each that has to move is told one thing, and none that has not.
        assert set(found.admitted) | set(found.waits) == away
        assert len(found.admitted) + len(found.waits) == len(away)
        # Nobody is left without a revision that it could be given and repaired at.
        for name in away:
            assert by_name[name].head is not None or name in found.admitted or goal.last_stable is not None
        forward = [
            by_name[name]
            for name in found.admitted
            if by_name[name].head is not None and not goal.going_back(by_name[name].head)  # type: ignore[arg-type]
        ]
        if self.policy.paused or goal.failed is not None or not self.checked.done:
            assert not forward or goal.why is Why.ROLLBACK
        if self.policy.paused:
            assert all(by_name[name].head is None for name in found.admitted)
        if found.failed is not None:
            assert goal.why is not Why.ROLLBACK
            assert not forward
        self.hold_to_the_budget(members, forward)
        if forward and not goal.proved:
            self.hold_to_the_order(members, forward)

    def hold_to_the_budget(self, members: Sequence[Member], forward: Sequence[Member]) -> None:
        """Whenever somebody healthy is admitted, no more are down for this rollout than the policy says."""
        assert self.goal is not None
        fresh = [each for each in forward if each.child.ready and not each.claimed]
        if not fresh:
            return
        down = sum(self.takes_from_the_budget(each) for each in members)
        allowed = self.policy.max_unavailable.of(len(members), least=1)
        tolerated = self.policy.failure_threshold.of(len(members))
        assert down + len(fresh) <= allowed + tolerated

    def takes_from_the_budget(self, member: Member) -> bool:
        """Tell whether a namespace is down, or about to be, because this rollout moves it."""
        assert self.goal is not None
        space, record = self.spaces[member.namespace], member.head
        if record is None:
            return False
        if member.claimed:
            return space.healthy_when_moved if member.there else member.child.ready
        moved = member.there and record.set_revision == self.goal.set_revision and not self.settled(record)
        well = space.ready and member.namespace in self.applied
        well_before = record.before == READY and space.healthy_when_moved
        return moved and well_before and not well and not member.apart and not self.forgiven(space)

    def settled(self, record: Head) -> bool:
        """Tell whether a rollout is over that moved somebody."""
        kept = self.sets[record.set_revision].stable
        return kept is not None and record.since <= kept

    def forgiven(self, space: Space) -> bool:
        """Tell whether a person said not to mind."""
        resumed = self.policy.resumed(self.now)
        return resumed is not None and self.at(space.since) <= resumed

    def hold_to_the_order(self, members: Sequence[Member], forward: Sequence[Member]) -> None:
        """Nobody of a later wave moves before the earlier ones are complete."""
        waves = [wave.name for wave in self.policy.waves]

        def place(member: Member) -> int:
            if "canary" in waves and member.labels.get("tier") == "canary":
                return 0
            return 1  # which of the others the percentage claims, is not known here

        first = max(place(each) for each in forward)
        if first == 0 or "canary" not in waves:
            return
        canaries = [each for each in members if place(each) == 0]
        for each in canaries:
            assert each.there or each.apart
            if each.apart or each.head is None or each.head.before in {NEW, OWN} or self.settled(each.head):
                continue
            space = self.spaces[each.namespace]
            late = (self.now - each.head.since).total_seconds() >= self.policy.progress_deadline_seconds
            # A stamp may lie in the future: then it has waited for as long since the operator began.
            late |= each.head.since > self.now
            if each.head.proven is None and each.head.before == READY and not self.forgiven(space):
                assert self.policy.failure_threshold.amount > 0
            elif each.head.proven is None:
                assert late

    @invariant()
    def everybody_has_the_bytes_of_its_record(self) -> None:
        """Also who waits, for as long as it waits: whoever was repaired since has them."""
        for space in self.spaces.values():
            if space.name in self.applied and not space.apart:
                assert space.head is not None
                assert space.running == space.head.revision

    @invariant()
    def the_order_of_members_changes_nothing(self) -> None:
        """It is decided, not found."""
        if self.goal is not None and self.spaces:
            members = self.members()
            assert self.decide(members=members) == self.decide(members=members[::-1])

    @invariant()
    def time_alone_changes_nothing_before_it_is_said(self) -> None:
        """Who looks again when told to misses nothing."""
        if self.goal is None or not self.spaces:
            return
        found = self.decide()
        early = 7 * 86_400 if found.again is None else found.again * 0.9
        ill = {name for name in self.failing if name in self.spaces}
        later = [
            replace(each, failing_seconds=each.failing_seconds + early) if each.namespace in ill else each
            for each in self.members()
        ]
        # A stamp that is yet to come stops being so by time alone.
        stamps = [each.head.since for each in later if each.head is not None] + [each.child.since for each in later]
        if any(self.now < stamp <= self.now + timedelta(seconds=early) for stamp in stamps):
            return
        then = self.decide(later=early, members=later)
        assert replace(then, again=None) == replace(found, again=None)

    # ---- what happens

    @initialize(
        pace=st.sampled_from(PACES), failure=st.sampled_from(OnFailure), count=st.integers(1, 7), data=st.data()
    )
    def begin(self, pace: Policy, failure: OnFailure, count: int, data: st.DataObject) -> None:
        """Begin with a fleet that has the first set, most of it well."""
        self.policy = replace(pace, on_failure=failure)
        for at in range(count):
            self.add(canary=at == 0, ill=data.draw(st.integers(0, 9)) == 0, lull=0)
        for _ in range(3):
            self.pass_by(70)
        self.publish(data.draw(FATES), data.draw(st.integers(1, 3)), 1)

    def pass_by(self, seconds: float) -> None:
        """Let time pass, with an operator that works."""
        if not seconds:
            return
        self.time += seconds
        self.live()
        self.look()
        self.record()
        self.apply()
        self.live()

    @rule(seconds=st.sampled_from([1, 6, 20, 30, 61, 61, 300, 601, 4000]))
    def time_passes(self, seconds: float) -> None:
        """The operator works."""
        self.pass_by(seconds)

    @rule(steps=st.integers(1, 6))
    def a_while_passes(self, steps: int) -> None:
        """It works for some minutes."""
        for _ in range(steps):
            self.pass_by(31)

    @rule()
    def it_only_claims(self) -> None:
        """It is slow: whom it admits is not moved yet."""
        self.live()
        self.look()

    @rule()
    def it_only_records(self) -> None:
        """It is slow: who is moved has its old bytes yet."""
        self.live()
        self.look()
        self.record()

    @rule(shift=st.sampled_from([0, 0, 0, 1, -1, 3, -3, 700, -700, 100_000, -100_000]), lull=LULLS)
    def it_dies(self, shift: float, lull: float) -> None:
        """Another one takes over; it remembers nothing, and its clock may be wrong."""
        self.offset += shift
        self.began = self.now
        self.claims.clear()
        self.failing.clear()
        self.applied.clear()
        self.seen.clear()
        self.pass_by(lull)

    @rule(canary=st.booleans(), ill=st.sampled_from([False, False, False, True]), lull=LULLS)
    def add(self, canary: bool, ill: bool, lull: float) -> None:  # noqa: FBT001
        """A namespace opts in."""
        if len(self.spaces) < 9:
            self.born += 1
            name = f"n{self.born}"
            labels = {"tier": "canary"} if canary else {}
            self.spaces[name] = Space(name=name, uid=str(self.born), labels=labels, ill=ill, since=self.time)
        self.pass_by(lull)

    def one(self, data: st.DataObject) -> Space:
        """Choose a namespace."""
        return self.spaces[data.draw(st.sampled_from(sorted(self.spaces)))]

    @precondition(lambda self: self.spaces)
    @rule(data=st.data(), lull=LULLS)
    def leave(self, data: st.DataObject, lull: float) -> None:
        """A namespace is deleted, or opts out."""
        name = self.one(data).name
        del self.spaces[name]
        self.claims.discard(name)
        self.failing.pop(name, None)
        self.applied.discard(name)
        self.pass_by(lull)

    @precondition(lambda self: self.spaces)
    @rule(data=st.data(), lull=LULLS)
    def relabel(self, data: st.DataObject, lull: float) -> None:
        """A namespace changes its wave."""
        space = self.one(data)
        space.labels = {} if space.labels else {"tier": "canary"}
        self.pass_by(lull)

    @precondition(lambda self: self.spaces)
    @rule(data=st.data(), lull=LULLS)
    def fall_ill_or_get_well(self, data: st.DataObject, lull: float) -> None:
        """Something happens in a namespace that has nothing to do with its revision."""
        space = self.one(data)
        space.ill = not space.ill
        self.pass_by(lull)

    @precondition(lambda self: self.spaces)
    @rule(data=st.data(), lull=LULLS)
    def set_apart_or_not(self, data: st.DataObject, lull: float) -> None:
        """Its row is paused, or not any more."""
        space = self.one(data)
        space.apart = not space.apart
        self.claims.discard(space.name)
        self.pass_by(lull)

    @precondition(lambda self: self.spaces)
    @rule(data=st.data(), lull=LULLS)
    def change_own_values(self, data: st.DataObject, lull: float) -> None:
        """Its owner changes its values; it stays at its set revision."""
        space = self.one(data)
        if space.head is not None and not space.apart:
            self.move(space, space.head.set_revision, before=OWN)
            self.apply()
        self.pass_by(lull)

    @precondition(lambda self: self.spaces)
    @rule(data=st.data(), lull=LULLS)
    def drift(self, data: st.DataObject, lull: float) -> None:
        """Somebody changes what is in the cluster."""
        space = self.one(data)
        space.running = f"drifted-{Fate.HANGS}"
        self.applied.discard(space.name)
        self.pass_by(lull)

    @rule(fates=FATES, changes=st.integers(1, 3), lull=LULLS)
    def publish(self, fates: dict[int, Fate], changes: int, lull: float) -> None:
        """The source gives another set."""
        below = self.editions[-1]
        name = f"bbbbbbbb{len(self.editions):02d}"
        self.editions.append(Edition(name=name, fates=fates, changes=changes, below=below))
        self.source = name
        self.pass_by(lull)

    @rule(data=st.data(), lull=LULLS)
    def go_back(self, data: st.DataObject, lull: float) -> None:
        """The source gives an older one again, or cannot be read."""
        self.source = data.draw(st.sampled_from([*(each.name for each in self.editions[-3:]), None]))
        self.pass_by(lull)

    @rule(lull=LULLS)
    def check(self, lull: float) -> None:
        """The target is being checked for a while."""
        self.checked = Check(done=False)
        self.pass_by(lull)
        self.checked = Check()

    @rule(lull=LULLS)
    def pause(self, lull: float) -> None:
        """A person pauses it, and mostly lets it go on afterwards."""
        self.policy = replace(self.policy, paused=True)
        self.pass_by(lull)
        self.policy = replace(self.policy, paused=lull == 1)

    @rule(lull=LULLS)
    def resume(self, lull: float) -> None:
        """A person does not mind what failed."""
        self.policy = replace(self.policy, paused=False, resumed_at=self.now)
        self.pass_by(lull)

    @precondition(lambda self: self.sets)
    @rule(data=st.data(), lull=LULLS)
    def pin(self, data: st.DataObject, lull: float) -> None:
        """A person pins a recorded set, or lets go."""
        self.policy = replace(self.policy, revision=data.draw(st.sampled_from(["", "", "", *sorted(self.sets)])))
        self.pass_by(lull)

    @rule(wave=st.sampled_from(["canary", "early", "rest"]), lull=LULLS)
    def approve(self, wave: str, lull: float) -> None:
        """A person approves a wave of what is the source."""
        if self.source is not None:
            approval = Approval(revision=self.source, wave=wave)
            self.policy = replace(self.policy, approvals=(*self.policy.approvals, approval))
        self.pass_by(lull)

    # ---- and the end

    def teardown(self) -> None:
        """Left alone, every rollout ends."""
        self.checked = Check()
        for space in self.spaces.values():
            if not space.apart:
                space.heads = [each for each in space.heads if each.since <= self.now] or space.heads
        found: Any = None
        for _ in range(400):
            self.pass_by(19)
            found = self.decision
            if found is not None and self.ended(found):
                break
        assert found is None or not self.spaces or self.ended(found), (found.phase, found.note, found.waits)

    def ended(self, found: Decision) -> bool:
        """Tell whether nothing goes on that would go on by itself."""
        if found.admitted or self.claims:
            return False
        if found.phase in {Phase.DONE, Phase.ROLLED_BACK, Phase.FAILED, Phase.PAUSED, Phase.IDLE}:
            return True
        persons = {Reason.WAITS_FOR_APPROVAL, Reason.WAVE_EMPTY}
        return found.phase is Phase.WAITING and found.note.reason in persons


TestWorlds = World.TestCase
TestWorlds.settings = settings(stateful_step_count=40)


@given(
    pace=st.sampled_from(PACES[:3]),
    failure=st.sampled_from(OnFailure),
    fates=FATES,
    ill=st.integers(0, 9),
    deaths=st.dictionaries(st.integers(0, 60), st.sampled_from([0, 3, -3, 90_000, -90_000]), max_size=3),
    ahead=st.booleans(),
)
def test_a_revision_ends_as_it_deserves(
    pace: Policy,
    failure: OnFailure,
    fates: dict[int, Fate],
    ill: int,
    deaths: dict[int, float],
    ahead: bool,  # noqa: FBT001
) -> None:
    """Left alone but for deaths: what works everywhere is everywhere; what fails is stopped, with most untouched."""
    world = World()
    world.policy = replace(pace, on_failure=failure)
    for at in range(1, 9):
        world.add(canary=at <= 2, ill=at == ill, lull=0)
    for _ in range(4):
        world.pass_by(70)
    assert world.sets["aaaaaaaaa0"].stable
    world.publish(fates, 3, 0)
    for at in range(100):
        if at in deaths:
            if ahead:
                world.it_only_records()
            world.it_dies(deaths[at], 0)
        world.pass_by(17)
        world.the_order_of_members_changes_nothing()
        world.time_alone_changes_nothing_before_it_is_said()
    world.teardown()
    found, new = world.decision, world.edition("bbbbbbbb01")
    assert found is not None
    moved = [each for each in world.spaces.values() if each.running.startswith(new.name)]
    bad = {part for part, fate in fates.items() if fate is not Fate.WORKS}
    if not bad:
        assert (found.phase, len(moved)) == (Phase.DONE, 8)
    elif failure is OnFailure.ROLLBACK and new.name in world.sets and world.sets[new.name].failed:
        assert found.phase in {Phase.ROLLED_BACK, Phase.FAILED}
        assert found.phase is Phase.FAILED or not moved
    elif set(fates.values()) <= {Fate.CRASHES, Fate.HANGS} and len(bad) == 4:
        assert found.phase in {Phase.FAILED, Phase.WAITING}
        # Who was ill before is moved beside the first, from a budget of its own.
        assert len(moved) <= pace.max_unavailable.of(8) + (ill > 0)
