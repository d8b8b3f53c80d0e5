"""Two writers that take the same thing back from each other: whoever is us stops. A cache, told the time.

What was put right three times within ten minutes and is amiss again is left as it is. It is put right again when other
bytes are rendered, at once; when it agrees by itself, from then on; and otherwise now and then: once an hour where a
field differs, once a minute where an object is deleted, for without it nothing may work.
"""

from dataclasses import dataclass, replace
from typing import Final

from metaoperator.core.model import Ref

WRITES: Final = 3
WINDOW_SECONDS: Final = 600.0
RETRY_SECONDS: Final = 3600.0
REBIRTH_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fight:
    uid: str
    digest: str
    writes: tuple[float, ...] = ()
    stopped: bool = False
    answered: bool = False
    """Whether the object differed since our last write."""


class Fights:
    """What was put right of late. Losing it costs at most three more writes to an object."""

    def __init__(self, *, writes: int = WRITES, retry: float = RETRY_SECONDS) -> None:
        """Begin with peace; `writes` within the window are allowed, and one in `retry` seconds afterwards."""
        self._writes = writes
        self._retry = retry
        self._fights: dict[Ref, _Fight] = {}

    def __len__(self) -> int:
        return len(self._fights)

    def may_write(self, ref: Ref, uid: str, digest: str, now: float) -> bool:
        """Tell whether an object that differs may be put right now."""
        fight = self._of(ref, uid, digest)
        if fight is None:
            return True
        since = now - fight.writes[-1]
        if not fight.stopped and since > WINDOW_SECONDS:
            del self._fights[ref]
            return True
        if not (fight.stopped or self._fierce(fight)) or since >= self._retry:
            return True
        self._fights[ref] = replace(fight, stopped=True, answered=True)
        return False

    def wrote(self, ref: Ref, uid: str, digest: str, now: float) -> None:
        """Note that an object was put right."""
        fight = self._of(ref, uid, digest) or _Fight(uid=uid, digest=digest)
        self._fights[ref] = replace(fight, writes=(*fight.writes, now)[-self._writes :], answered=False)

    def agrees(self, ref: Ref, uid: str, now: float) -> bool:
        """Note that an object is as it should be; tells whether that counts: after our own write only if it lasts."""
        fight = self._fights.get(ref)
        if fight is None:
            return True
        over = fight.uid != uid or fight.answered or now - fight.writes[-1] >= WINDOW_SECONDS
        if over:
            del self._fights[ref]
        return over or not fight.stopped

    def forget(self, ref: Ref) -> None:
        """Drop what is known of an object: other bytes are rendered, or it is gone."""
        self._fights.pop(ref, None)

    def forget_namespace(self, namespace: str) -> None:
        """Drop what is known of one namespace."""
        for ref in [ref for ref in self._fights if ref.namespace == namespace]:
            del self._fights[ref]

    def _fierce(self, fight: _Fight) -> bool:
        return len(fight.writes) == self._writes and fight.writes[-1] - fight.writes[0] <= WINDOW_SECONDS

    def _of(self, ref: Ref, uid: str, digest: str) -> _Fight | None:
        fight = self._fights.get(ref)
        if fight is None or (fight.uid, fight.digest) != (uid, digest):
            return None
        return fight
