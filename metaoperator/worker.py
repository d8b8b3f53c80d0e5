"""Drains the queue. One namespace's failure, slowness or bad values stay its own."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from metaoperator.core.backoff import Queue
from metaoperator.core.errors import Gone, NotLeading, Rejected, RetryableError, TerminalError, Throttled

log = logging.getLogger(__name__)

TERMINAL_SECONDS: Final = 300.0
"""A terminal error waits for new input; what the cluster allows may change without an event, so it is tried again."""

THROTTLED_SECONDS: Final = 240.0
"""So long at most is a namespace left alone because the API server asks for it."""

Run = Callable[[str], Awaitable[float | None]]


class Worker:
    """Runs names from the queue while `may_run` says so, at most `width` at a time and each only once at a time."""

    def __init__(
        self, run: Run, *, may_run: Callable[[], bool], width: int, registry: CollectorRegistry = REGISTRY
    ) -> None:
        """`run` reconciles one name and returns the seconds after which to do it again, or `None`."""
        self._queue = Queue()
        self._run = run
        self._may_run = may_run
        self._width = width
        self._wake = asyncio.Event()
        self.turned_at = 0.0
        self._runs = Counter(
            "metaoperator_reconciles_total", "Looks at one name, by what came of them.", ["result"], registry=registry
        )
        self._seconds = Histogram("metaoperator_reconcile_seconds", "Seconds that one look took.", registry=registry)
        self._waits = Histogram("metaoperator_queue_wait_seconds", "Seconds that a name waited.", registry=registry)
        depth = Gauge("metaoperator_queue_depth", "Names that wait to be looked at.", registry=registry)
        depth.set_function(lambda: len(self._queue))

    def ask(self, name: str, delay: float = 0.0) -> None:
        """Ask for a look at a name, now or after some seconds. Never waits, never fails."""
        now = asyncio.get_running_loop().time()
        if delay > 0:
            self._queue.add_at(name, now + delay)
        else:
            self._queue.add(name, now)
        self._wake.set()

    def wake(self) -> None:
        """Look at the queue again: `may_run` may have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled; what is under way is then given up."""
        async with asyncio.TaskGroup() as group:
            running: set[asyncio.Task[None]] = set()
            while True:
                loop = asyncio.get_running_loop()
                self.turned_at = loop.time()
                self._wake.clear()
                while len(running) < self._width and self._may_run():
                    taken = self._queue.pop(loop.time())
                    if taken is None:
                        break
                    self._waits.observe(taken[1])
                    task = group.create_task(self._one(taken[0]))
                    running.add(task)
                    task.add_done_callback(running.discard)
                    task.add_done_callback(lambda _: self._wake.set())
                # A delayed name that may not be run now is no reason to wake.
                may_run = len(running) < self._width and self._may_run()
                await self._sleep(loop, self._queue.next_due() if may_run else None)

    async def _sleep(self, loop: asyncio.AbstractEventLoop, due: float | None) -> None:
        pause = 1.0 if due is None else min(1.0, max(0.0, due - loop.time()))
        try:
            async with asyncio.timeout(max(pause, 0.01)):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _one(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        # What stands when nothing else is said: the run was cancelled from outside, and its name must not be lost.
        result, at_least, hold = "cancelled", 0.0, False
        try:
            again = await self._run(name)
            result = "ok"
        except NotLeading:
            result = "not_leading"
        except Throttled as exc:
            # Whatever the events say: a read would be repeated at their rate. Spread, because it says the same to every
            # namespace; bounded, because not every answer is the API server's.
            at_least = min(exc.after, THROTTLED_SECONDS) + random.random()
            result, hold = "throttled", True
            log.warning("asked to wait", extra={"key": name, "error": str(exc), "after": exc.after})
        except (RetryableError, Gone) as exc:  # gone: a kind that we need is not served now
            result = "retry"
            level = logging.INFO if self._queue.failures(name) < 3 else logging.WARNING
            log.log(level, "tried again later", extra={"key": name, "error": str(exc)})
        except Rejected as exc:
            # A quota, a webhook or a role may be put right in a moment, and nothing would tell.
            result = "rejected"
            log.error("refused by the API server", extra={"key": name, "error": str(exc)})  # noqa: TRY400
        except TerminalError as exc:
            result, at_least = "terminal", TERMINAL_SECONDS
            log.error("waits for new input", extra={"key": name, "error": str(exc)})  # noqa: TRY400
        except Exception:
            result, at_least = "bug", 5.0
            log.exception("a bug: please report it", extra={"key": name})
        finally:
            self._runs.labels(result).inc()
            self._seconds.observe(loop.time() - started)
            if result == "ok":
                self._queue.succeeded(name, loop.time(), again_after=again)
            else:
                self._queue.failed(name, loop.time(), jitter=random.random(), at_least=at_least, hold=hold)
