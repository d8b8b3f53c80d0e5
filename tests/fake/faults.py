"""What a test lets go wrong: for which requests, how often or how long, and in which way."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import problems
from .audit import Entry
from .history import Event

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def _now() -> float:
    # The loop's clock, so that faults last as long as virtual time says.
    return asyncio.get_running_loop().time()


@dataclass(slots=True, kw_only=True, eq=False)
class Fault:
    """One thing that goes wrong, for the requests it matches; what is `None` matches everything."""

    verb: frozenset[str] | None = None
    resource: str | None = None
    namespace: str | None = None
    name: str | None = None
    times: int | None = None
    until: float | None = None
    answer: problems.ApiError | None = None
    delay: float = 0.0
    hold: bool = False  # wait for `release`
    cut: str = ""  # "before" or "after" the effect
    drop: bool = False  # of events, on their way to the watchers
    hits: int = 0
    _released: asyncio.Event = field(default_factory=asyncio.Event)
    _entered: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Let the held requests go on, and the fault end."""
        self._released.set()
        self.times = self.hits

    async def entered(self) -> None:
        """Wait until a request has met the fault."""
        await self._entered.wait()

    def over(self) -> bool:
        """Tell whether the fault has run its course."""
        used = self.times is not None and self.hits >= self.times
        return used or (self.until is not None and _now() >= self.until)

    def take(self, verb: str, resource: str, namespace: str | None, name: str | None) -> bool:
        """Match a request and count it."""
        if self.over() or (self.verb is not None and verb not in self.verb):
            return False
        if (
            self.resource not in (None, resource)
            or self.namespace not in (None, namespace)
            or self.name not in (None, name)
        ):
            return False
        self.hits += 1
        self._entered.set()
        return True

    async def play(self) -> None:
        """Wait, hold or answer as planned; a cut is the server's business."""
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.hold:
            await self._released.wait()
        if self.answer:
            raise self.answer


class Faults:
    """The plan. Every method adds one fault; `verb`, `resource`, `namespace` and `name` narrow it,
    `times` (default 1) or `seconds` end it.
    """  # noqa: D205

    def __init__(self) -> None:
        self._plan: list[Fault] = []

    def _add(
        self,
        fault: Fault,
        *,
        verb: str | Iterable[str] | None = None,
        resource: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        times: int | None = None,
        seconds: float | None = None,
    ) -> Fault:
        fault.verb = None if verb is None else frozenset({verb} if isinstance(verb, str) else verb)
        fault.resource, fault.namespace, fault.name = resource, namespace, name
        fault.times = times if seconds is not None or times is not None else 1
        fault.until = None if seconds is None else _now() + seconds
        self._plan.append(fault)
        return fault

    def answer(self, code: int, *, message: str = "", retry_after: int | None = None, **match: object) -> Fault:
        """Answer with an error instead of doing anything."""
        reason = _REASONS.get(code, "InternalError")
        text = message or f"the fault plan says {code}"
        return self._add(Fault(answer=problems.ApiError(code, reason, text, retry_after=retry_after)), **match)  # type: ignore[arg-type]

    def hang(self, **match: object) -> Fault:
        """Hold requests, before their effect, until the fault is released."""
        return self._add(Fault(hold=True), **match)  # type: ignore[arg-type]

    def slow(self, delay: float, **match: object) -> Fault:
        """Answer late."""
        return self._add(Fault(delay=delay), **match)  # type: ignore[arg-type]

    def cut(self, *, after_effect: bool = False, **match: object) -> Fault:
        """Break the connection: nothing was done, or it was done and nobody was told."""
        return self._add(Fault(cut="after" if after_effect else "before"), **match)  # type: ignore[arg-type]

    def drop_events(self, **match: object) -> Fault:
        """Keep events from the watchers, silently; `verb` is the event's type."""
        return self._add(Fault(drop=True), **match)  # type: ignore[arg-type]

    def clear(self) -> None:
        """Let everything go right again."""
        for fault in self._plan:
            fault.release()
        self._plan.clear()

    def take(self, entry: Entry) -> list[Fault]:
        """Return the faults that this request meets."""
        where = entry.verb, entry.resource, entry.namespace, entry.name
        return [fault for fault in self._plan if not fault.drop and fault.take(*where)]

    def drops(self, event: Event) -> bool:
        """Tell whether an event gets lost."""
        metadata = event.obj["metadata"]
        where = event.type, event.place[1], metadata.get("namespace"), metadata["name"]
        return any(fault.drop and fault.take(*where) for fault in self._plan)
