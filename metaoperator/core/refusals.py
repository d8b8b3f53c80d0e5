"""What could not be written, and until when it is not sent again. Told the time; no clock of its own.

Events bring a namespace back at any rate: a busy one every two seconds. What was refused or failed is not sent at that
rate again, as long as it is the same request: other bytes are new input, and deserve a new try at once.
"""

from dataclasses import dataclass
from typing import Any, Final

from metaoperator.core.errors import Conflict, Gone, NotLeading, Rejected, RetryableError, Throttled
from metaoperator.core.model import Ref
from metaoperator.core.plan import Step

FIRST: Final = 0.25
LONGEST: Final = 150.0
FORGOTTEN: Final = 600.0

Refusal = Rejected | Gone | RetryableError


@dataclass(frozen=True, slots=True)
class _Entry:
    request: tuple[Any, ...]
    error: Refusal
    count: int
    until: float


class Refusals:
    """By object: the request that did not pass, the answer, and when it may be sent again."""

    def __init__(self) -> None:
        """Start with nothing refused: who begins anew tries everything once."""
        self._entries: dict[Ref, _Entry] = {}

    def standing(self, step: Step, now: float) -> Refusal | None:
        """Find the answer that the same request got, if it is not yet to be sent again."""
        entry = self._entries.get(step.ref)
        return entry.error if entry and entry.request == _request(step) and now < entry.until else None

    def failed(self, step: Step, error: Refusal, now: float) -> None:
        """Note an answer; the pauses double from a quarter of a second to 150 s, or are as long as it says."""
        if isinstance(error, Conflict | NotLeading):
            return  # not about this request: what it was decided from is old
        entry, request = self._entries.get(step.ref), _request(step)
        count = entry.count + 1 if entry and entry.request == request else 0
        pause = min(LONGEST, FIRST * 2.0 ** min(count, 20))
        if isinstance(error, Throttled):
            pause = max(pause, error.after)
        self._entries[step.ref] = _Entry(request, error, count, now + pause)

    def passed(self, ref: Ref) -> None:
        """Forget what was noted of an object: it was written, or is as it should be."""
        self._entries.pop(ref, None)

    def forget(self, namespace: str) -> None:
        """Drop what is noted of one namespace."""
        for ref in [ref for ref in self._entries if ref.namespace == namespace]:
            del self._entries[ref]

    def due(self, namespace: str, now: float) -> float | None:
        """Say in how many seconds something of a namespace may be sent again; `None` where nothing waits."""
        mine = {ref: entry for ref, entry in self._entries.items() if ref.namespace == namespace}
        for ref, entry in mine.items():
            if now > entry.until + FORGOTTEN:
                del self._entries[ref]  # no longer asked for
        waits = [entry.until - now for entry in mine.values() if entry.until > now]
        return min(waits) if waits else None


def _request(step: Step) -> tuple[Any, ...]:
    return step.verb, step.uid, step.manifest
