"""How a fleet is moved to another revision: who may go now, why the others wait, and what is to be written down.

::

    facts ─► target.choose ─► waves.claim ─► standing.of each ─► admit ─► Decision

No step of a rollout is stored. What is decided follows from the records of namespaces and sets, the children's health,
what people wrote and the time, so that an operator that dies anywhere, or another one, decides the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from metaoperator.core import standing, waves
from metaoperator.core.admit import Look, Row
from metaoperator.core.names import Reason
from metaoperator.core.policy import Policy
from metaoperator.core.standing import Ground, Member
from metaoperator.core.status import Note
from metaoperator.core.stops import Check
from metaoperator.core.target import Target, Why


class Phase(StrEnum):
    """How a rollout stands, in one word: `status.rollout.phase`."""

    IDLE = "Idle"
    CHECKING = "Checking"
    PROGRESSING = "Progressing"
    WAITING = "Waiting"
    HOLDING = "Holding"
    PAUSED = "Paused"
    FAILED = "Failed"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    DONE = "Done"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveState:
    """How far a wave is."""

    name: str
    total: int
    updated: int
    ready: int
    apart: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do now, and what to say.

    `admitted` may move now, in this order; who is claimed already stays among them while nothing stops it. A namespace
    without a record that is not among them gets the last stable revision meanwhile. `waits` has a message for everyone
    else who has to move, the same for as long as the reason is. `proven` are to be marked, the set as `failed` or
    `stable` where that is set; `failing` names whose health stops the rollout. `wave` is the first that is not
    complete. `again` is in how many seconds time alone changes any of it.
    """

    phase: Phase
    note: Note
    wave: str = ""
    waves: tuple[WaveState, ...] = ()
    admitted: tuple[str, ...] = ()
    waits: Mapping[str, Note] = field(default_factory=dict)
    proven: tuple[str, ...] = ()
    failed: Note | None = None
    failing: tuple[str, ...] = ()
    stable: bool = False
    again: float | None = None


def decide(
    members: Sequence[Member], policy: Policy, *, target: Target, checked: Check, now: datetime, began: datetime
) -> Decision:
    """Decide for a whole fleet. `began` is when whoever asks began to lead, and so to watch.

    The order of `members` changes nothing.
    """
    ground = Ground(policy=policy, target=target, now=now, began=min(began, now), resumed=policy.resumed(now))
    ordered = sorted(members, key=lambda each: each.namespace)
    rows = [
        Row(wave=wave, standings=[standing.of(each, wave, ground) for each in claimed])
        for wave, claimed in waves.claim(ordered, policy.waves)
    ]
    look = Look(ground=ground, rows=rows, checked=checked)
    if target.set_revision is not None:
        look.admit()
    stable = _stable(look)
    phase, note = _phase(look, stable=stable)
    return Decision(
        phase=phase,
        note=note,
        wave=look.front,
        waves=tuple(_state(row) for row in rows),
        admitted=tuple(look.admitted),
        waits=look.waits,
        proven=tuple(each.member.namespace for each in look.all if each.prove),
        failed=look.stops.failed,
        failing=look.stops.failing,
        stable=stable,
        again=min((due for due in (*look.due, *(each.due for each in look.all)) if due is not None), default=None),
    )


def _state(row: Row) -> WaveState:
    return WaveState(
        name=row.wave.name,
        total=len(row.standings),
        updated=sum(each.there for each in row.standings),
        ready=sum(each.there and each.member.child.ready for each in row.standings),
        apart=sum(bool(each.member.apart) for each in row.standings),
    )


def _stable(look: Look) -> bool:
    """Tell whether the whole fleet has reached the target, and at least one member has proved that it works."""
    target = look.ground.target
    return (
        target.set_revision is not None
        and not target.proved
        and look.checked.done
        and (look.stops.stop is None or look.stops.stop.reason is Reason.ROLLOUT_PAUSED)
        and all(row.complete for row in look.rows)
        and any(each.there and each.member.head is not None and each.member.head.proven for each in look.all)
    )


def _phase(look: Look, *, stable: bool) -> tuple[Phase, Note]:
    target, to = look.ground.target, look.ground.target.set_revision
    pending = [each for each in look.all if each.pending]
    if to is None:
        message = "there is no revision that could be rolled out: everything stays as it is"
        return Phase.IDLE, target.note or Note(reason=Reason.ROLLOUT_IDLE, message=message)
    if look.stops.stop is not None and look.stops.stop.reason is Reason.ROLLOUT_FAILED:
        return Phase.FAILED, look.stops.stop
    if pending and look.stops.stop is not None:
        return Phase.PAUSED, look.stops.stop
    if target.why is Why.ROLLBACK or any(each.back for each in pending):
        why = "the whole fleet had it" if target.failed is None else target.failed.message
        if pending:
            return Phase.ROLLING_BACK, Note(reason=Reason.ROLLING_BACK, message=f"going back to {to}: {why}")
        return Phase.ROLLED_BACK, Note(reason=Reason.ROLLED_BACK, message=f"gone back to {to}: {why}")
    unknown = look.checked.fault is None and look.stops.unchecked
    if unknown and any(not each.there and not each.member.apart for each in look.all):
        return Phase.CHECKING, unknown  # who has not been asked about may have to move
    if pending:
        return _under_way(look)
    if stable or target.proved:
        return Phase.DONE, Note(reason=Reason.SETTLED, message=f"all namespaces have {to}")
    if all(row.complete for row in look.rows):
        message = f"all namespaces have {to}, and none of them has proved that it works"
        return Phase.DONE, Note(reason=Reason.SETTLED, message=message)
    message = f"all namespaces have {to}, and have yet to prove themselves"
    return Phase.PROGRESSING, Note(reason=Reason.ROLLING_OUT, message=message)


def _under_way(look: Look) -> tuple[Phase, Note]:
    if look.stops.unchecked is not None:
        return (Phase.CHECKING if look.checked.fault is None else Phase.FAILED), look.stops.unchecked
    if look.stops.holding is not None:
        return Phase.HOLDING, look.stops.holding
    if look.gate is not None:
        return Phase.WAITING, look.gate
    message = f"{look.ground.target.set_revision} is rolled out: wave {look.front}"
    return Phase.PROGRESSING, Note(reason=Reason.ROLLING_OUT, message=message)
