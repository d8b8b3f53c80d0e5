"""What came of the steps of one pass, and the sentences that tell a person what was left undone."""

from dataclasses import dataclass, field, replace
from typing import Final

from metaoperator.core.errors import Gone, Rejected, RetryableError
from metaoperator.core.fights import WINDOW_SECONDS, WRITES
from metaoperator.core.model import Ref
from metaoperator.core.names import Reason
from metaoperator.core.plan import Step, Verb
from metaoperator.core.refusals import Refusal
from metaoperator.core.status import Note

_FOR_PEOPLE: Final = (Reason.CONFLICT, Reason.IMMUTABLE, Reason.DRIFT_FIGHT)
_MENDED_FIRST: Final = (
    Reason.DELETION_LIMIT,
    Reason.ADOPTION_REFUSED,
    Reason.OPERATOR_FORBIDDEN,
    Reason.KIND_UNSEEN,
    Reason.QUOTA_EXCEEDED,
    Reason.REJECTED,
)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of the steps of one pass."""

    done: list[Step] = field(default_factory=list)
    held: list[Step] = field(default_factory=list)
    refused: list[Note] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    later: RetryableError | None = None
    settling: bool = False
    """Nothing was tried yet: whether too much would go with it is about to be seen."""
    failed: Refusal | None = None
    """What an answer of this pass said: `refused` and `later` hold those of earlier ones as well."""

    @property
    def stalled(self) -> Note | None:
        """Say what a person has to mend, if anything."""
        for reason in _FOR_PEOPLE:
            told = [step.message for step in self.held if step.reason is reason]
            if told:
                return Note(reason=reason, message="; ".join(told))
        if self.refused:
            first = min((note.reason for note in self.refused), key=_MENDED_FIRST.index)
            return Note(reason=first, message="; ".join(note.message for note in self.refused))
        return None

    @property
    def whole(self) -> bool:
        """Tell whether all that was planned is in place now."""
        return not (self.held or self.refused or self.missing or self.later or self.settling)

    @property
    def wrote(self) -> bool:
        """Tell whether anything may be other than it was seen."""
        return bool(self.refused or self.later) or any(step.verb is not Verb.KEEP for step in self.done)


def fought(step: Step, what: str) -> Step:
    """Hold an object that another writer takes back each time."""
    message = (
        f"{step.message or step.ref}: {what}; after {WRITES} repairs within {WINDOW_SECONDS / 60:.0f} minutes "
        "it is left as it is and tried once an hour: stop the other writer, or list the field under spec.ignoreFields "
        "of the ControllerTemplate"
    )
    return replace(step, verb=Verb.HOLD, reason=Reason.DRIFT_FIGHT, message=message)


def deleted_again(step: Step, what: str) -> Step:
    """Hold an object that somebody deletes each time."""
    message = (
        f"{step.ref}: {what}; made anew {WRITES} times within {WINDOW_SECONDS / 60:.0f} minutes, somebody deletes it "
        "each time: it is made anew every minute or two until they stop (the API server's audit log says who)"
    )
    return replace(step, verb=Verb.HOLD, reason=Reason.DRIFT_FIGHT, message=message)


def refused(ref: Ref, error: Rejected | Gone) -> Note:
    """Say what the API server would not take, and what to do."""
    if isinstance(error, Rejected):
        return Note(reason=error.reason, message=f"{ref}: {error.told}")
    if error.kind_missing:
        cure = "install its CRD, or switch off the value that asks for one; it is tried again by itself"
        return Note(reason=Reason.KIND_UNSEEN, message=f"{ref}: {error} ({cure})")
    return Note(reason=Reason.REJECTED, message=f"{ref}: {error} (what it rests on is not there)")
