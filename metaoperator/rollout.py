"""Rollouts: whose turn it is, decided anew from the fleet of each ControllerTemplate; what was decided is marked.

No step is stored. What was decided a moment ago is kept only to answer the many namespaces that ask at the same time.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from metaoperator import brake
from metaoperator.check import Candidate, Checked, Checker
from metaoperator.core import names, rollout, status
from metaoperator.core.errors import MetaoperatorError
from metaoperator.core.model import Desired, Manifest, Namespace
from metaoperator.core.names import Condition, Reason
from metaoperator.core.policy import Workflows
from metaoperator.core.rollout import Decision, Phase
from metaoperator.core.standing import Member
from metaoperator.core.status import Note
from metaoperator.core.stops import Check
from metaoperator.goals import Goal, Goals, inputs
from metaoperator.members import Found, Members
from metaoperator.revisions import Revisions

log = logging.getLogger(__name__)

RECHECK_SECONDS: Final = 60.0
"""What refused a revision may be mended without an event: so often it is asked again."""
FRESH_SECONDS: Final = 1.0
"""For so long a decision answers those who ask for their turn."""
SOON: Final = 0.3
"""Seconds that what happens to members of a rollout is gathered for before it is decided anew."""
_NAMED: Final = 3
_CHECKING: Final = Note(
    reason=Reason.ROLLOUT_CHECKING,
    message="the next revision is rendered and tried for every namespace before the first one gets it",
)


@dataclass(slots=True, kw_only=True)
class _State:
    """What is remembered of one ControllerTemplate: all of it can be lost, and is found again."""

    goal: Goal
    checked: Checked
    checking: asyncio.Task[None] | None = None
    checked_at: float = 0.0
    wanted: dict[str, tuple[str, str]] = field(default_factory=dict)
    claims: set[str] = field(default_factory=set)
    failing: dict[tuple[str, str], float] = field(default_factory=dict)
    decision: Decision | None = None
    decided_at: float = 0.0


class Rollouts:
    """Says who may move to the goal of its ControllerTemplate."""

    def __init__(
        self,
        members: Members,
        revisions: Revisions,
        goals: Goals,
        checker: Checker,
        *,
        ask: Callable[[str, float], None],
        ask_template: Callable[[str, float], None],
        wall_clock: Callable[[], datetime],
    ) -> None:
        """`ask` wants a look at a namespace, `ask_template` one at a ControllerTemplate."""
        self._members = members
        self._revisions = revisions
        self._goals = goals
        self._checker = checker
        self._ask = ask
        self._ask_template = ask_template
        self._wall_clock = wall_clock
        self._began: datetime | None = None
        self._states: dict[str, _State] = {}

    def anew(self) -> None:
        """Begin a term: what was remembered of an earlier one is old."""
        for template in list(self._states):
            self.forget(template)
        self._began = self._wall_clock()

    def forget(self, template: str) -> None:
        """Drop what is remembered of a ControllerTemplate."""
        state = self._states.pop(template, None)
        if state is not None and state.checking is not None:
            state.checking.cancel()

    # ---- asked by one namespace

    def wants(self, namespace: Namespace, goal: Goal, wanted: Desired) -> None:
        """Take note of what a namespace would get: its labels and values may be newer than the check."""
        if (state := self._states.get(goal.template)) is not None:
            state.wanted[namespace.name] = goal.set_revision, wanted.revision

    def claim(self, namespace: Namespace, goal: Goal) -> Note | None:
        """Give a namespace its turn, or say what it waits for. Who gets it says `claimed` when it has moved."""
        state = self._states.get(goal.template)
        if state is None or state.goal.set_revision != goal.set_revision or state.decision is None:
            self._ask_template(goal.template, 0.0)
            return _CHECKING
        decision, name = state.decision, namespace.name
        if name in decision.admitted and _now() - state.decided_at > FRESH_SECONDS:
            decision = self._decide(state)
        if name in decision.admitted and name not in state.claims:
            state.claims.add(name)
            return None
        return decision.waits.get(name, _CHECKING)

    def claimed(self, namespace: Namespace, goal: Goal) -> None:
        """Take note that the move is over, come of it what may: the record tells."""
        if (state := self._states.get(goal.template)) is not None:
            state.claims.discard(namespace.name)
        self._ask_template(goal.template, SOON)

    def judged(self, template: str) -> None:
        """Take note that the status of a member was written anew: while a rollout is on, that decides who is next."""
        state = self._states.get(template)
        if state is not None and state.decision is not None and state.decision.phase not in {Phase.IDLE, Phase.DONE}:
            self._ask_template(template, SOON)

    async def start(self, namespace: Namespace, goal: Goal) -> Goal:
        """Say where a newcomer starts: at the goal if its wave is open already, else at what the whole fleet had."""
        stable = goal.target.last_stable
        if stable is None or stable == goal.set_revision:
            return goal
        state = self._states.get(goal.template)
        if state is not None and state.goal.set_revision == goal.set_revision and state.decision is not None:
            self._decide(state)  # the one at hand was made before it came, or before it was known what it would get
        if self.claim(namespace, goal) is None:
            self.claimed(namespace, goal)
            return goal
        return await self._goals.recorded(goal, stable) or goal

    # ---- the look at one ControllerTemplate

    async def look(self, goal: Goal, *, told: str) -> Decision | None:
        """Decide anew, carry the marks that follow, and wake whoever has another turn than its status says.

        `None` where it has to be looked at once more before anything is told: as long as not all of the fleet is known,
        while whoever begins to lead checks a revision that was `told` of already, and when marks were written.
        """
        if not self._members.known:
            return None
        state = self._states.get(goal.template)
        if state is None:
            state = self._states[goal.template] = _State(goal=goal, checked=Checked(set_revision=""))
        state.goal = goal
        old = state.checking is None and state.checked.amiss and _now() - state.checked_at >= RECHECK_SECONDS
        answered = state.checked.refused is not None and state.checked.said != brake.said(goal.manifest)
        if state.checked.set_revision != goal.set_revision or old or answered:
            self._begin_check(state)
        checked = state.checked.done or state.checked.faults
        if not checked and told == goal.set_revision:
            return None
        decision = self._decide(state)
        if await self._marked(goal, decision):
            return None
        if checked:
            self._wake(goal, decision)
        if state.checked.amiss:
            # What refuses it may be mended without an event: nothing else would ask for the next look.
            due = RECHECK_SECONDS if decision.again is None else min(RECHECK_SECONDS, decision.again)
            return replace(decision, again=due)
        return decision

    def _begin_check(self, state: _State) -> None:
        if state.checking is not None:
            state.checking.cancel()
        state.checked = Checked(set_revision=state.goal.set_revision)
        state.checking = asyncio.create_task(self._check(state, state.goal, state.checked))

    async def _check(self, state: _State, goal: Goal, found: Checked) -> None:
        members = self._members.of(goal.template)
        candidates = [_candidate(each, each.row, goal) for each in members if each.row is not None]
        try:
            await self._checker.check(goal, candidates, found)
        except MetaoperatorError as exc:
            found.later = str(exc)
        except Exception as exc:
            log.exception("a bug: please report it", extra={"template": goal.template})
            found.later = f"{type(exc).__name__}: {exc}"
        state.checked_at, state.checking = _now(), None
        state.wanted.update({name: (goal.set_revision, wanted) for name, wanted in found.wanted.items()})
        self._ask_template(goal.template, 0.0)

    def _decide(self, state: _State) -> Decision:
        now = self._wall_clock()
        found = list(self._members.of(state.goal.template))
        members = [self._member(state, each, now) for each in found]
        here = {each.uid for each in members}
        state.failing = {key: since for key, since in state.failing.items() if key[0] in here}
        state.decision = rollout.decide(
            members,
            replace(state.goal.policy, workflows=Workflows.WAIT) if state.checked.patient else state.goal.policy,
            target=state.goal.target,
            checked=_verdict(state.checked, state.goal),
            now=now,
            began=self._began or now,
        )
        state.decided_at = _now()
        return state.decision

    def _member(self, state: _State, found: Found, now: datetime) -> Member:
        name, head, child = found.namespace.name, found.head, found.child(now)
        key = found.namespace.uid, "" if head is None else head.revision
        if child.failed:
            since = state.failing.setdefault(key, _now())
        elif child.ready:
            state.failing.pop(key, None)
            since = _now()
        else:
            # One that crashes at each start is Failed only in between, and is not well before it is ready.
            since = state.failing.get(key, _now())
        at, wanted = state.wanted.get(name, ("", ""))
        return Member(
            namespace=name,
            uid=found.namespace.uid,
            child=child,
            labels=found.namespace.labels,
            head=head,
            wanted=wanted if at == state.goal.set_revision else None,
            failing_seconds=_now() - since,
            apart=found.apart,
            work=found.work,
            claimed=name in state.claims,
        )

    async def _marked(self, goal: Goal, decision: Decision) -> bool:
        """Write down what is a fact from now on: who is proven, and that a set is stable or has failed."""
        heads = {each.namespace: each for each in self._revisions.heads(goal.template)}
        proven = [head for name in decision.proven if (head := heads.get(name)) is not None and head.proven is None]
        for head in proven:
            await self._revisions.prove(head)
        sets = self._revisions.sets(goal.template)
        mark = next((each for each in sets if each.set_revision == goal.set_revision), None)
        if mark is None or not (decision.failed or decision.stable):
            return bool(proven)
        if decision.failed is not None:
            log.warning("rollout failed", extra={"template": goal.template, "why": decision.failed.message})
            await self._revisions.mark(mark, failed=decision.failed.message)
        else:
            log.info("rollout done", extra={"template": goal.template, "revision": goal.set_revision})
            await self._revisions.mark(mark, stable=True)
            await self._revisions.tidy(goal.template, goal.policy.history_limit, {goal.set_revision, goal.source or ""})
        return True

    def _wake(self, goal: Goal, decision: Decision) -> None:
        """Ask for a look at those who may move now, and at those whose status gives another reason to wait."""
        for found in self._members.of(goal.template):
            name, told = found.namespace.name, status.condition(found.status, Condition.RECONCILING)
            waits = decision.waits.get(name)
            said = told.get("reason") if told.get("status") == "True" else ""
            if name in decision.admitted or (waits.reason if waits else "") != (said if said in names.TURNS else ""):
                self._ask(name, 0.0)


def _candidate(found: Found, row: Manifest, goal: Goal) -> Candidate:
    instance = found.spec.get("instanceID") or found.status.get("instanceID") or ""
    given = inputs(found.namespace, goal.template, row, instance)
    return Candidate(namespace=found.namespace, inputs=given, head=found.head)


def _verdict(found: Checked, goal: Goal) -> Check:
    """Say what the check found, for the engine: one sentence that names the first namespaces."""
    if found.set_revision != goal.set_revision or not (found.done or found.faults):
        return Check(done=False)
    if found.refused is not None:
        return Check(fault=found.refused)
    if not found.faults:
        return Check()
    first = sorted(found.faults)[:_NAMED]
    more = f"; and {len(found.faults) - _NAMED} more namespaces" if len(found.faults) > _NAMED else ""
    told = "; ".join(f"namespace {name}: {found.faults[name]}" for name in first)
    return Check(fault=Note(reason=Reason.CHECK_FAILED, message=f"{goal.set_revision} starts nowhere: {told}{more}"))


def _now() -> float:
    return asyncio.get_running_loop().time()
