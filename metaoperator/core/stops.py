"""What stops a rollout: children that fail, a failure on record, a person, a check."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from metaoperator.core.names import Reason
from metaoperator.core.standing import Ground, Standing
from metaoperator.core.status import Note
from metaoperator.core.target import Why

_MAX_NAMES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Whether the target was tried for all namespaces before anybody gets it, and what was found wrong."""

    done: bool = True
    fault: Note | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stops:
    """What keeps everybody where he is (`stop`), or whoever would go on (`unchecked`, `holding`).

    `failing` names who does it by being ill; `failed` is what is to be written on the set record.
    """

    stop: Note | None = None
    unchecked: Note | None = None
    holding: Note | None = None
    failed: Note | None = None
    failing: tuple[str, ...] = ()

    @property
    def hinders(self) -> Note | None:
        """What keeps anybody from going on, whatever his wave."""
        return self.stop or self.unchecked or self.holding

    @property
    def lasting(self) -> Note | None:
        """What of it lasts until a person does something: everybody is told that, the others only whose turn it is."""
        return self.stop or (
            self.unchecked if self.unchecked and self.unchecked.reason is Reason.CHECK_FAILED else None
        )


def find(ground: Ground, standings: Sequence[Standing], checked: Check) -> Stops:
    """Find all of it. As many failures as the policy allows are written off in `standings`."""
    failed, lost = _beyond_threshold(ground, standings)
    held = [each for each in standings if each.holding]
    holding = _named(Reason.ROLLOUT_HOLDING, "nobody is moved while updated children fail", held) if held else None
    stop, to_mark = _stop(ground, failed, lost)
    unchecked = None
    if checked.fault is not None:
        unchecked = Note(reason=Reason.CHECK_FAILED, message=checked.fault.message)
    elif not checked.done:
        message = f"{ground.target.set_revision} is being checked for all namespaces before any gets it"
        unchecked = Note(reason=Reason.ROLLOUT_CHECKING, message=message)
    return Stops(
        stop=stop,
        unchecked=unchecked,
        holding=holding,
        failed=to_mark,
        failing=tuple(sorted(each.member.namespace for each in failed or lost)),
    )


def _beyond_threshold(ground: Ground, standings: Sequence[Standing]) -> tuple[list[Standing], list[Standing]]:
    """List who failed, and who was lost after it had been proven; nobody where the policy allows so many."""
    failed = [each for each in standings if each.failed]
    lost = [each for each in standings if each.lost]
    allowed = ground.policy.failure_threshold.of(len(standings))
    if len(failed) > allowed:
        return failed, lost
    all_of_them = len(failed) + len(lost) <= allowed
    for each in (*failed, *(lost if all_of_them else ())):
        each.write_off()
    return [], [] if all_of_them else lost


def _stop(ground: Ground, failed: Sequence[Standing], lost: Sequence[Standing]) -> tuple[Note | None, Note | None]:
    target = ground.target
    if failed:
        note = _named(Reason.ROLLOUT_FAILED, f"{target.set_revision} fails", failed)
        # The set that the whole fleet has is not to blame for a straggler, and there is one rollback, not two.
        blamed = not target.proved
        return note, note if blamed and target.failed is None else None
    if target.failed is not None and target.why is not Why.ROLLBACK:
        return target.failed, None
    if ground.policy.paused:
        return Note(reason=Reason.ROLLOUT_PAUSED, message="spec.rollout.paused is set"), None
    if lost:
        return _named(Reason.PROVEN_FAILING, "children fail that had proved themselves", lost), None
    return None, None


def _named(reason: Reason, what: str, those: Sequence[Standing]) -> Note:
    """Name those who are ill, and how."""
    some = [f"{each.member.namespace} ({_how(each)})" for each in those[:_MAX_NAMES]]
    more = [f"and {len(those) - _MAX_NAMES} more"] if len(those) > _MAX_NAMES else []
    return Note(reason=reason, message=f"{what}: {', '.join([*some, *more])}")


def _how(each: Standing) -> str:
    child = each.member.child
    if child.ready:
        return "does not stay healthy"
    if child.failed or each.lost:
        return f"{child.reason}: {child.message}"
    return f"not healthy in time, {child.reason}: {child.message}"
