"""The log of what happened: one counter, a bounded window, and what a watcher may see of each event."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from . import problems
from .kinds import Kind, Manifest
from .selectors import Predicate

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
Place = tuple[str, str]  # group and plural: a watch outlives a new version of its kind


def place(kind: Kind) -> Place:
    """Return where objects of a kind live."""
    return kind.group, kind.plural


@dataclass(frozen=True, slots=True)
class Event:
    """One change; `before` is the object as it was, which selectors need."""

    version: int
    place: Place
    type: str
    obj: Manifest
    before: Manifest | None

    def seen(self, namespace: str | None, predicate: Predicate | None) -> tuple[str, Manifest] | None:
        """Tell what a watcher with this selector sees.

        An object that leaves the selector is DELETED, with its old body and the new resourceVersion.
        """
        if namespace is not None and self.obj["metadata"].get("namespace") != namespace:
            return None
        if predicate is None:
            return self.type, self.obj
        is_in = self.type != DELETED and predicate(self.obj)
        was_in = self.before is not None and predicate(self.before)
        if is_in:
            return (MODIFIED if was_in else ADDED), self.obj
        if was_in and self.before is not None:
            metadata = {**self.before["metadata"], "resourceVersion": str(self.version)}
            return DELETED, {**self.before, "metadata": metadata}
        return None


class Subscription:
    """The events of one kind that a watcher has not read yet."""

    def __init__(self, where: Place, backlog: list[Event]) -> None:
        self.place = where
        self._waiting = deque(backlog)
        self._news = asyncio.Event()
        if backlog:
            self._news.set()
        self.error: Manifest | None = None  # a Status to end the stream with
        self.cut = False

    def offer(self, event: Event) -> None:
        """Add an event and wake the reader."""
        self._waiting.append(event)
        self._news.set()

    def behind(self) -> bool:
        """Tell whether events are waiting."""
        return bool(self._waiting)

    def fail(self, status: Manifest) -> None:
        """End the stream with an ERROR event once the reader has caught up."""
        self.error = status
        self._news.set()

    def end(self) -> None:
        """Break the connection at once, whatever is waiting."""
        self.cut = True
        self._news.set()

    async def wait(self, seconds: float) -> list[Event]:
        """Return what is new, or nothing when the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return []
        self._news.clear()
        events = list(self._waiting)
        self._waiting.clear()
        return events


class History:
    """The global version counter and the events that can still be replayed."""

    def __init__(self, window: int) -> None:
        self.version = 1
        self._floor = 0
        self._events: deque[Event] = deque(maxlen=window)
        self._subscriptions: set[Subscription] = set()
        self.drops: Callable[[Event], bool] = lambda _event: False  # the fault plan's say

    def tick(self) -> int:
        """Take the next version."""
        self.version += 1
        return self.version

    def compact(self) -> None:
        """Forget the past: everybody who is behind has to list again."""
        self._events.clear()
        self._floor = self.version

    def too_old(self, version: int) -> bool:
        """Tell whether a version is from before the window."""
        return version < self._floor

    def publish(self, event: Event) -> None:
        """Record an event and tell the watchers."""
        if len(self._events) == self._events.maxlen:
            self._floor = self._events[0].version
        self._events.append(event)
        if self.drops(event):
            return
        for each in self._subscriptions:
            if each.place == event.place:
                each.offer(event)

    def subscribe(self, kind: Kind, since: int | None) -> Subscription:
        """Start a watch after a version, or from now."""
        if since is not None and self.too_old(since):
            raise problems.expired(f"too old resource version: {since} ({self._floor})")
        where = place(kind)
        backlog = [e for e in self._events if e.place == where and e.version > since] if since is not None else []
        each = Subscription(where, backlog)
        self._subscriptions.add(each)
        return each

    def unsubscribe(self, each: Subscription) -> None:
        """Forget a watcher."""
        self._subscriptions.discard(each)

    def watchers(self, where: Place | None = None) -> list[Subscription]:
        """List the open watches, of one kind or of all."""
        return [each for each in self._subscriptions if where in (None, each.place)]
