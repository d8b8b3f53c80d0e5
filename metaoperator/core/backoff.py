"""A queue of names that is told the time: deduplicating, one run per name, backoff, delayed re-queue.

A name that is added while its run goes on is run once more afterwards; no name is lost. The queue neither sleeps
nor reads a clock: seconds come in, and `next_due` says when to look again.
"""

import heapq
from collections import OrderedDict


class Queue:
    """Names that wait, names that are being run, and names that are due later."""

    def __init__(self, *, first: float = 0.5, longest: float = 300.0) -> None:
        """Back off from `first` seconds, doubling, to at most `longest`."""
        self._first = first
        self._longest = longest
        self._waiting: OrderedDict[str, float] = OrderedDict()
        self._running: set[str] = set()
        self._again: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._failures: dict[str, int] = {}
        self._held: dict[str, float] = {}

    def __len__(self) -> int:
        """Count the names that wait to be run now."""
        return len(self._waiting)

    def add(self, name: str, now: float) -> None:
        """Ask for a run as soon as possible; a name that waits already keeps its place, one that is held its time."""
        if (until := self._held.get(name, now)) > now:
            self.add_at(name, until)
            return
        self._due.pop(name, None)
        if name in self._running:
            self._again.setdefault(name, now)
        else:
            self._waiting.setdefault(name, now)

    def add_at(self, name: str, due: float) -> None:
        """Ask for a run at `due`; of several such wishes the earliest stands."""
        if name in self._waiting or name in self._again or self._due.get(name, due + 1) <= due:
            return
        self._due[name] = due
        heapq.heappush(self._heap, (due, name))
        if len(self._heap) > 2 * len(self._due) + 64:
            # A name that is added before it was due leaves its entry behind, for an hour where that is its resync.
            self._heap = [(when, each) for each, when in self._due.items()]
            heapq.heapify(self._heap)

    def pop(self, now: float) -> tuple[str, float] | None:
        """Take the next name to run and the seconds that it waited; `None` if there is none yet."""
        while self._heap and self._heap[0][0] <= now:
            due, name = heapq.heappop(self._heap)
            if self._due.get(name) == due:
                del self._due[name]
                self.add(name, due)
        if not self._waiting:
            return None
        name, since = self._waiting.popitem(last=False)
        self._running.add(name)
        self._held.pop(name, None)
        return name, max(0.0, now - since)

    def next_due(self) -> float | None:
        """Say when the next delayed name is due; `None` when nothing is delayed."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def succeeded(self, name: str, now: float, *, again_after: float | None = None) -> None:
        """End a run; forget earlier failures; run again later, if asked to."""
        self._failures.pop(name, None)
        self._finish(name, None if again_after is None else now + again_after)

    def failed(self, name: str, now: float, *, jitter: float, at_least: float = 0.0, hold: bool = False) -> float:
        """End a run that has to be tried again; `jitter` in [0, 1) spreads it. Returns the delay in seconds.

        An event for the same name may bring it back sooner: new input deserves a new try. Not so with `hold`: then
        nothing brings it back before `at_least`.
        """
        count = self._failures.get(name, 0)
        self._failures[name] = count + 1
        delay: float = max(at_least, min(self._longest, self._first * 2.0 ** min(count, 20)) * (0.5 + jitter / 2))
        if hold:
            self._held[name] = now + at_least
            if self._again.pop(name, None) is not None:
                self.add_at(name, now + at_least)
        self._finish(name, now + delay)
        return delay

    def failures(self, name: str) -> int:
        """Count the failures in a row of one name."""
        return self._failures.get(name, 0)

    def _finish(self, name: str, due: float | None) -> None:
        self._running.discard(name)
        if (since := self._again.pop(name, None)) is not None:
            self._waiting.setdefault(name, since)
        elif due is not None:
            self.add_at(name, due)
