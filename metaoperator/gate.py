"""The write gate: what keeps a replica that no longer leads from writing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

from metaoperator.core.errors import NotLeading, RetryableError


class Gate:
    """Lets writes through until a moment of the event loop's clock that the elector moves forward.

    It is asked when a write begins and once more when its first byte is about to leave (`shut`), and a write that is
    under way when the gate closes is given up: a replica that was frozen for longer than its term wakes into a closed
    gate, wherever in a write it was.
    """

    def __init__(self) -> None:
        """Start closed."""
        self._until = 0.0
        self._under_way: set[asyncio.Timeout] = set()

    def open_until(self, moment: float) -> None:
        """Let writes through until `moment`; an earlier one than before, or one in the past, cuts what is under way."""
        self._until = moment
        for each in self._under_way:
            if not each.expired() and (each.when() or moment) > moment:
                each.reschedule(moment)

    def remaining(self) -> float:
        """Seconds for which writes may still be sent; 0 or less when closed."""
        return self._until - asyncio.get_running_loop().time()

    @asynccontextmanager
    async def writing(self, what: str, *, limit: float) -> AsyncIterator[None]:
        """Surround one write of at most `limit` seconds. `NotLeading` when the gate is closed, or closes meanwhile."""
        remaining = self.remaining()
        if remaining <= 0:
            raise NotLeading(f"{what}: this replica does not lead, nothing is written")
        try:
            async with asyncio.timeout(min(limit, remaining)) as until:
                self._under_way.add(until)
                token = _PASSED.set(self)
                try:
                    yield
                finally:
                    _PASSED.reset(token)
                    self._under_way.discard(until)
        except (TimeoutError, RetryableError) as exc:
            if self.remaining() <= 0:
                raise NotLeading(f"{what}: given up, this replica leads no longer") from exc
            if isinstance(exc, RetryableError):
                raise
            raise RetryableError(f"{what}: no answer within {limit:.0f} s") from exc


_PASSED: Final[ContextVar[Gate | None]] = ContextVar("passed", default=None)
"""The gate that the write of this context passed when it began."""


def shut() -> bool:
    """Tell whether the write of this context has to stay unsent: its gate closed after it had passed."""
    gate = _PASSED.get()
    return gate is not None and gate.remaining() <= 0
