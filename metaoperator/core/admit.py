"""Who of a fleet may move now, and what each of the others waits for. One look, from first wave to last."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from metaoperator.core import stops, windows
from metaoperator.core.names import Reason
from metaoperator.core.policy import Workflows
from metaoperator.core.standing import Ground, Standing
from metaoperator.core.status import Note
from metaoperator.core.stops import Check, Stops
from metaoperator.core.waves import Share, Wave

_CONSTANT: Final = {
    Reason.ROLLOUT_FAILED: "the rollout has failed: the ControllerTemplate says why; this namespace stays as it is",
    Reason.ROLLOUT_PAUSED: "the rollout is paused: spec.rollout.paused of the ControllerTemplate",
    Reason.PROVEN_FAILING: "the rollout stands still, for children that had proved themselves fail since: the "
    "ControllerTemplate names them",
    Reason.ROLLOUT_HOLDING: "nobody is moved while an updated child fails: the ControllerTemplate names it",
    Reason.CHECK_FAILED: "the new revision fails its checks, and starts nowhere: the ControllerTemplate says why",
    Reason.ROLLOUT_CHECKING: "the new revision is being checked for all namespaces before any gets it",
    Reason.WAITS_FOR_WINDOW: "namespaces are moved within spec.rollout.windows of the ControllerTemplate",
    Reason.WAITS_FOR_WORKFLOWS: "it is moved when its Workflows have ended, or spec.rollout.workflowsTimeoutSeconds of "
    "the ControllerTemplate are over",
}
"""What a waiting namespace is told: the same while the reason is, or a thousand statuses would be rewritten."""


@dataclass(slots=True, kw_only=True)
class Row:
    """A wave, and how its members stand."""

    wave: Wave
    standings: list[Standing]

    @property
    def complete(self) -> bool:
        """Tell whether nobody keeps the next wave waiting."""
        return all(each.complete for each in self.standings)


@dataclass(slots=True, kw_only=True)
class Look:
    """One look. `gate` is what keeps the wave `front` from beginning."""

    ground: Ground
    rows: Sequence[Row]
    checked: Check
    all: list[Standing] = field(init=False)
    stops: Stops = field(init=False)
    gate: Note | None = None
    front: str = ""
    admitted: list[str] = field(default_factory=list)
    waits: dict[str, Note] = field(default_factory=dict)
    due: list[float] = field(default_factory=list)
    _said: set[str] = field(default_factory=set)
    _used: int = field(init=False)
    _ailing: int = field(init=False)

    def __post_init__(self) -> None:
        self.all = [each for row in self.rows for each in row.standings]
        self.stops = stops.find(self.ground, self.all, self.checked)
        self._used = sum(each.unavailable for each in self.all)
        self._ailing = sum(each.ailing for each in self.all)

    # ---- who may move

    def admit(self) -> None:
        """Say of everyone who has to move that it may, or why not."""
        target = self.ground.target
        self._begin()
        self._go_back([each for each in self.all if each.pending and each.back])
        for at, row in enumerate(self.rows):
            if target.proved:
                self._enter(at)
                continue
            shut = self._shut(at)
            if shut is None and row.complete:
                continue
            self.front = row.wave.name
            later = [each for below in self.rows[at + 1 :] for each in self._left(below)]
            if shut is None:
                self._enter(at)
            else:
                self.gate = shut if shut.reason is not Reason.WAITS_FOR_WAVE else None
                if shut.reason is Reason.WAVE_EMPTY:
                    self._tell(later, self.stops.lasting or shut)
                self._tell(self._left(row), self.stops.lasting or shut)
            for before, below in zip(self.rows[at:], self.rows[at + 1 :], strict=False):
                self._tell(self._left(below), self.stops.lasting or _after(below.wave, before.wave))
            return

    def _begin(self) -> None:
        """Say what no wave and no budget has a say in."""
        for at, row in enumerate(self.rows):
            self._tell_of_checking(at, row)
        for each in self.all:
            if each.member.namespace in self._said:
                continue
            if not each.there and each.member.wanted is None and not each.member.apart:
                message = "the new revision cannot be rendered for this namespace"
                self.waits[each.member.namespace] = Note(reason=Reason.CHECK_FAILED, message=message)
            elif (
                each.pending
                and each.member.head is None
                and (self.ground.target.proved or self.ground.target.last_stable is None)
            ):
                self._let(each)  # there is nothing else that it could be given

    def _tell_of_checking(self, at: int, row: Row) -> None:
        """Tell those of whom the check does not know yet what they get: no fault, and nothing that changes soon."""
        unchecked = self.stops.unchecked
        if unchecked is None or unchecked.reason is not Reason.ROLLOUT_CHECKING:
            return
        first = not any(above.standings for above in self.rows[:at])
        note = self.stops.lasting or (unchecked if first else _after(row.wave, self.rows[at - 1].wave))
        unknown = (each for each in row.standings if each.member.wanted is None and not each.member.apart)
        self._tell([each for each in unknown if not each.there], note)

    def _go_back(self, pending: Sequence[Standing]) -> None:
        """Let those go back who were on the way to what failed, or to what nobody wants any more.

        Who is ill has nothing to lose. Waves, windows, approvals and soaking guard what is new, and this is not.
        """
        share = self.ground.policy.max_unavailable
        limit = share.of(len(self.all), least=1)
        for each in pending:
            if self.ground.policy.paused:
                self._tell([each], Note(reason=Reason.ROLLOUT_PAUSED, message=""))
            elif not each.member.child.ready or each.member.claimed:
                self._let(each)
            elif (hinders := self.stops.stop or self.stops.holding) is not None:
                self._tell([each], hinders)
            elif self._used < limit:
                self._used += 1
                self._let(each)
            else:
                self._tell([each], _budget(share))

    def _shut(self, at: int) -> Note | None:
        """Say what keeps a wave from beginning once the earlier ones are complete; `None` for nothing."""
        row, target = self.rows[at], self.ground.target
        approved = self.ground.policy.approved(target.set_revision or "", row.wave.name)
        later = [each for below in self.rows[at:] for each in below.standings]
        if approved is not None or not any(map(self._is_left, later)):
            return None
        approve = f"metaoperator rollout approve, with revision {target.set_revision} and wave {row.wave.name}"
        if row.wave.selector is not None and not row.standings:
            if any(each.there and each.changed for each in later):
                return None  # it was passed, and lost its last member since
            message = (
                f"the selector of wave {row.wave.name} selects no namespace: correct it, or pass it by ({approve})"
            )
            return Note(reason=Reason.WAVE_EMPTY, message=message)
        if not any(map(self._is_left, row.standings)):
            return None
        if row.wave.approval:
            message = f"wave {row.wave.name} begins when somebody approves it ({approve})"
            return Note(reason=Reason.WAITS_FOR_APPROVAL, message=message)
        changed = [each for above in self.rows[:at] for each in above.standings if each.changed]
        if not changed or any(each.proof for each in self.all):
            return None
        if any(each.there and each.member.child.ready for each in changed):
            return _after(row.wave, self.rows[at - 1].wave)
        message = (
            f"no earlier wave proved that the revision works, for their namespaces were ill before, or are told apart: "
            f"wave {row.wave.name} begins when one of them gets well, or somebody approves it ({approve})"
        )
        return Note(reason=Reason.WAITS_FOR_APPROVAL, message=message)

    def _enter(self, at: int) -> None:
        """Admit members of the wave that is open."""
        if (hinders := self.stops.hinders) is not None:
            self._tell(self._left(self.rows[at]), hinders)
            return
        for each in self._left(self.rows[at]):
            if each.member.head is None:  # an install is no upgrade: it takes nothing from anybody
                self._let(each)
        if not (left := self._left(self.rows[at])):
            return
        now = self.ground.now
        window = windows.state(self.ground.policy.windows, now)
        if window.changes is not None:
            self.due.append((window.changes - now).total_seconds())
        if window.open:
            self._spend(at, left, self._patience(at, window.since))
            return
        opens = "" if window.changes is None else f"; the next one opens at {window.changes:%Y-%m-%dT%H:%M:%SZ}"
        told = Note(reason=Reason.WAITS_FOR_WINDOW, message=_CONSTANT[Reason.WAITS_FOR_WINDOW])
        self.gate = Note(reason=told.reason, message=f"{told.message}{opens}")
        self._tell(left, told)

    def _spend(self, at: int, left: Sequence[Standing], patience: float) -> None:
        """Admit as many as the budget lets; who is claimed already has its share of it."""
        share, of = self.rows[at].wave.max_unavailable, len(self.rows[at].standings)
        if share is None:
            share, of = self.ground.policy.max_unavailable, len(self.all)
        limit = share.of(of, least=1)
        for each in left:
            if each.member.claimed:
                self._let(each)
            elif (self._ailing if each.ill else self._used - each.unavailable) >= limit:
                self._tell([each], _budget(share))
            elif patience > 0 and each.member.work != 0:
                self._tell([each], Note(reason=Reason.WAITS_FOR_WORKFLOWS, message=""))
                self.due.append(patience)
            else:
                self._ailing += each.ill
                self._used += not (each.ill or each.unavailable)
                self._let(each)

    def _patience(self, at: int, opened: datetime | None) -> float:
        """Count for how long Workflows are still waited for in a wave: from when its turn came."""
        policy, target = self.ground.policy, self.ground.target
        if policy.workflows is Workflows.IGNORE:
            return 0
        approval = policy.approved(target.set_revision or "", self.rows[at].wave.name)
        stamps = [target.since, opened, self.ground.resumed, None if approval is None else approval.at]
        for row in self.rows[:at]:
            heads = (each.member.head for each in row.standings if each.there)
            stamps += [head.proven or head.since for head in heads if head is not None and self.ground.moved(head)]
        turn = max((self.ground.moment(each) for each in stamps if each is not None), default=self.ground.began)
        return (turn + timedelta(seconds=policy.workflows_timeout_seconds) - self.ground.now).total_seconds()

    # ---- what is said

    def _is_left(self, each: Standing) -> bool:
        return each.pending and not each.back and each.member.namespace not in self._said

    def _left(self, row: Row) -> list[Standing]:
        """List those of a wave of whom nothing is said yet."""
        return [each for each in row.standings if self._is_left(each)]

    def _let(self, each: Standing) -> None:
        self._said.add(each.member.namespace)
        self.admitted.append(each.member.namespace)

    def _tell(self, those: Iterable[Standing], note: Note) -> None:
        for each in those:
            self._said.add(each.member.namespace)
            self.waits[each.member.namespace] = Note(
                reason=note.reason, message=_CONSTANT.get(note.reason) or note.message
            )


def _after(wave: Wave, previous: Wave) -> Note:
    return Note(reason=Reason.WAITS_FOR_WAVE, message=f"wave {wave.name} begins when wave {previous.name} is complete")


def _budget(share: Share) -> Note:
    message = f"its wave is open: no more than maxUnavailable ({share}) are moved at a time"
    return Note(reason=Reason.WAITS_FOR_BUDGET, message=message)
