"""The worker: one namespace's failure, slowness or bad values stay its own, and no name is lost."""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry

from metaoperator.core.errors import ConfigError, NotLeading, Rejected, RetryableError, Throttled
from metaoperator.worker import TERMINAL_SECONDS, Worker

from .world import end


class Bench:
    """A worker and a record of what it ran, when."""

    def __init__(self, *, width: int = 4) -> None:
        """Runs succeed unless `does` says otherwise."""
        self.ran: list[tuple[str, float]] = []
        self.does: dict[str, Callable[[], Awaitable[float | None]]] = {}
        self.may = True
        self.registry = CollectorRegistry()
        self.worker = Worker(self._run, may_run=lambda: self.may, width=width, registry=self.registry)

    async def _run(self, name: str) -> float | None:
        self.ran.append((name, asyncio.get_running_loop().time()))
        return await self.does[name]() if name in self.does else None

    def times(self, name: str) -> list[float]:
        """Say when a name was run."""
        return [moment for each, moment in self.ran if each == name]

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Let the worker work."""
        task = asyncio.create_task(self.worker.run())
        try:
            yield
            assert not task.done()
        finally:
            await end(task)


def fails(error: BaseException) -> Callable[[], Awaitable[None]]:
    """Make a run that raises."""

    async def run() -> None:
        raise error

    return run


async def test_one_that_hangs_fails_or_has_a_bug_delays_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Three bad names among a hundred: the others are all run at once, and again on each wish."""
    bench = Bench()
    bench.does["hangs"] = asyncio.Event().wait  # type: ignore[assignment]
    bench.does["fails"] = fails(RetryableError("later"))
    bench.does["buggy"] = fails(KeyError("a bug"))
    others = [f"team-{i}" for i in range(97)]
    async with bench.working():
        for name in ["hangs", "fails", "buggy", *others]:
            bench.worker.ask(name)
        await asyncio.sleep(0.1)
        assert all(len(bench.times(name)) == 1 for name in others)
        for name in others:
            bench.worker.ask(name)
        await asyncio.sleep(0.1)
        assert all(len(bench.times(name)) == 2 for name in others)
    assert "a bug: please report it" in caplog.text


async def test_a_name_is_run_once_at_a_time_and_once_more_if_asked_meanwhile() -> None:
    """Fifty wishes during a run are one run after it."""
    bench = Bench()
    running = Counter[str]()

    async def slow() -> None:
        running["now"] += 1
        assert running["now"] == 1
        await asyncio.sleep(5)
        running["now"] -= 1

    bench.does["team-a"] = slow  # type: ignore[assignment]
    async with bench.working():
        for _ in range(50):
            bench.worker.ask("team-a")
            await asyncio.sleep(0.05)
        await asyncio.sleep(60)
    assert len(bench.ran) == 2


async def test_at_most_so_many_are_run_at_a_time() -> None:
    """The width bounds what is under way; everything is run in the end."""
    bench = Bench(width=3)
    now, most = 0, 0

    async def slow() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(1)
        now -= 1

    for i in range(20):
        bench.does[str(i)] = slow  # type: ignore[assignment]
        bench.worker.ask(str(i))
    async with bench.working():
        await asyncio.sleep(10)
    assert most == 3
    assert len(bench.ran) == 20


async def test_the_api_servers_wish_to_wait_is_respected() -> None:
    """R49: after `Retry-After: 30` the name is not run for 30 seconds."""
    bench = Bench()
    bench.does["team-a"] = fails(Throttled("slow down", after=30.0))
    async with bench.working():
        bench.worker.ask("team-a")
        await asyncio.sleep(29.9)
        assert len(bench.ran) == 1
        await asyncio.sleep(1.5)
        assert len(bench.ran) == 2


async def test_events_do_not_shorten_the_api_servers_wish_to_wait() -> None:
    """Before and after the answer, and also for a wish that says when; another name goes on. No wish is lost."""
    bench = Bench()
    answered = fails(Throttled("slow down", after=30.0))

    async def throttled() -> None:
        bench.worker.ask("team-a")  # an event while the request is on its way
        await answered()

    bench.does["team-a"] = throttled
    async with bench.working():
        bench.worker.ask("team-a")
        for second in range(100):
            await asyncio.sleep(1)
            bench.worker.ask("team-a", 0.5 if second % 3 == 0 else 0)
            bench.worker.ask("team-b")
        pauses = [after - before for before, after in itertools.pairwise(bench.times("team-a"))]
        assert len(pauses) == 3
        assert all(30 <= pause <= 32 for pause in pauses)
        assert len(bench.times("team-b")) >= 99
        del bench.does["team-a"]
        await asyncio.sleep(32)
        done = len(bench.times("team-a"))
        await asyncio.sleep(60)
        assert len(bench.times("team-a")) == done == 5


@pytest.mark.parametrize("after", [86_400.0, 1e12])
async def test_a_wish_to_wait_for_a_day_is_not_fulfilled(after: float) -> None:
    """Not every answer is the API server's: a proxy in between would have kept a namespace from its repair for ever."""
    bench = Bench()
    bench.does["team-a"] = fails(Throttled("come back tomorrow", after=after))
    async with bench.working():
        bench.worker.ask("team-a")
        await asyncio.sleep(250)
        assert len(bench.ran) == 2


async def test_failures_back_off_to_five_minutes() -> None:
    """The pauses between tries grow to between 150 and 300 seconds, and no further."""
    bench = Bench()
    bench.does["team-a"] = fails(RetryableError("later"))
    async with bench.working():
        bench.worker.ask("team-a")
        await asyncio.sleep(2400)
    times = bench.times("team-a")
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[0] < 1.1
    assert all(150 <= pause <= 302 for pause in pauses[11:])


async def test_a_terminal_error_waits_for_new_input_or_five_minutes() -> None:
    """What a person has to mend is tried again every five minutes, or at once when something changes."""
    bench = Bench()
    bench.does["team-a"] = fails(ConfigError("mend me"))
    async with bench.working():
        bench.worker.ask("team-a")
        await asyncio.sleep(TERMINAL_SECONDS - 1)
        assert len(bench.ran) == 1
        bench.worker.ask("team-a")
        await asyncio.sleep(0.1)
        assert len(bench.ran) == 2
        await asyncio.sleep(TERMINAL_SECONDS + 2)
        assert len(bench.ran) == 3


async def test_what_the_api_server_refuses_is_tried_again_within_seconds() -> None:
    """A quota, a webhook or a role may be put right in a moment, and no event would tell: seconds first."""
    bench = Bench()
    bench.does["team-a"] = fails(Rejected("quota"))
    async with bench.working():
        bench.worker.ask("team-a")
        await asyncio.sleep(1800)
    pauses = [after - before for before, after in itertools.pairwise(bench.times("team-a"))]
    assert pauses[0] < 1.1
    assert max(pauses) >= 100


async def test_a_cancelled_run_is_not_lost() -> None:
    """Something cancels a run from outside (kopf does, when it ends): the name is run again."""
    bench = Bench()
    tasks: list[asyncio.Task[None]] = []

    async def first_time() -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        if len(tasks) == 1:
            await asyncio.Event().wait()

    bench.does["team-a"] = first_time  # type: ignore[assignment]
    async with bench.working():
        bench.worker.ask("team-a")
        await asyncio.sleep(0.1)
        tasks[0].cancel()
        await asyncio.sleep(5)
        bench.worker.ask("team-b")
        await asyncio.sleep(1)
    assert len(bench.times("team-a")) == 2
    assert len(bench.times("team-b")) == 1


async def test_nothing_is_run_while_it_may_not_and_nothing_is_forgotten() -> None:
    """Not leading: names gather; leading again: each is run once."""
    bench = Bench()
    bench.may = False
    async with bench.working():
        for name in ("team-a", "team-b", "team-a"):
            bench.worker.ask(name)
        await asyncio.sleep(600)
        assert bench.ran == []
        bench.may = True
        bench.worker.wake()
        await asyncio.sleep(0.1)
    assert sorted(name for name, _ in bench.ran) == ["team-a", "team-b"]


async def test_not_leading_is_no_failure_that_anybody_reads(caplog: pytest.LogCaptureFixture) -> None:
    """A closed gate in the middle of a run says nothing in the log, and the name waits."""
    bench = Bench()
    bench.does["team-a"] = fails(NotLeading("closed"))
    async with bench.working():
        bench.worker.ask("team-a")
        await asyncio.sleep(10)
    assert len(bench.ran) > 1
    assert caplog.records == []


async def test_a_run_says_when_it_wants_to_be_run_again() -> None:
    """The seconds that a run returns are kept to within one turn; None means never by itself."""
    bench = Bench()

    async def again() -> float:
        return 40.0

    bench.does["team-a"] = again
    async with bench.working():
        bench.worker.ask("team-a")
        bench.worker.ask("team-b")
        await asyncio.sleep(85)
    assert len(bench.times("team-a")) == 3
    assert len(bench.times("team-b")) == 1


async def test_results_are_counted() -> None:
    """Each way to end is one sample of metaoperator_reconciles_total."""
    bench = Bench()
    bench.does["late"] = fails(RetryableError("later"))
    bench.does["bad"] = fails(ConfigError("no"))
    bench.does["no"] = fails(Rejected("no"))
    async with bench.working():
        for name in ("fine", "late", "bad", "no"):
            bench.worker.ask(name)
        await asyncio.sleep(0.1)
    counted = {
        result: bench.registry.get_sample_value("metaoperator_reconciles_total", {"result": result})
        for result in ("ok", "retry", "terminal", "rejected")
    }
    assert counted == {"ok": 1.0, "retry": 1.0, "terminal": 1.0, "rejected": 1.0}


@pytest.mark.parametrize("why", ["not leading", "full"])
async def test_waiting_to_be_allowed_costs_nothing(why: str) -> None:
    """A follower, and a worker with all hands full, look about once a second whether that has changed."""
    bench = Bench(width=1)
    asked = 0

    def may() -> bool:
        nonlocal asked
        asked += 1
        return bench.may

    bench.worker = Worker(bench._run, may_run=may, width=2, registry=CollectorRegistry())
    turns: set[float] = set()
    if why == "full":
        bench.does |= dict.fromkeys(("a", "b"), asyncio.Event().wait)  # type: ignore[arg-type]
        bench.worker.ask("a")
        bench.worker.ask("b")
    else:
        bench.may = False
    async with bench.working():
        bench.worker.ask("team-a", 1.0)
        for _ in range(600):
            await asyncio.sleep(0.1)
            turns.add(bench.worker.turned_at)
        # What turns every hundredth of a second is seen at another moment each time.
        assert len(turns) <= 70
