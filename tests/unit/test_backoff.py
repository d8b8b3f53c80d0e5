"""The queue: no name is lost, none is run twice at once, failures back off; under a clock that is handed in."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from metaoperator.core.backoff import Queue

NAMES = st.sampled_from(["a", "b"])
DELAYS = st.sampled_from([0.0, 10.0])
FIRST, LONGEST = 0.5, 300.0


def drain(queue: Queue, now: float) -> list[str]:
    """Take every name that is to be run now, and end its run."""
    taken = []
    while (found := queue.pop(now)) is not None:
        taken.append(found[0])
        queue.succeeded(found[0], now)
    return taken


class QueueMachine(RuleBasedStateMachine):
    """A queue beside the simplest model of it: for each name the earliest time at which it has to be run."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue(first=FIRST, longest=LONGEST)
        self.now = 100.0
        self.wanted: dict[str, float] = {}
        self.held: dict[str, float] = {}
        self.running: set[str] = set()
        self.failures: dict[str, int] = {}

    def want(self, name: str, when: float) -> None:
        """Note that a run has to begin at this time at the latest, but not while its name is held."""
        when = max(when, self.held.get(name, when))
        self.wanted[name] = min(when, self.wanted.get(name, when))

    @rule(name=NAMES, delay=st.none() | DELAYS)
    def add(self, name: str, delay: float | None) -> None:
        """Tell of an event, or wish for a run later."""
        if delay is None:
            self.queue.add(name, self.now)
        else:
            self.queue.add_at(name, self.now + delay)
        self.want(name, self.now + (delay or 0))

    @rule(seconds=st.none() | DELAYS)
    def pop(self, seconds: float | None) -> None:
        """Let time go by, or exactly as much as the queue asks for, and take what is wanted and not being run."""
        due = self.queue.next_due()
        self.now = self.now + seconds if seconds is not None else max(self.now, due or 0)
        found = self.queue.pop(self.now)
        ripe = {name for name, when in self.wanted.items() if when <= self.now and name not in self.running}
        if found is None:
            assert not ripe
            return
        name, waited = found
        assert name in ripe
        assert waited == pytest.approx(self.now - self.wanted.pop(name))
        self.running.add(name)
        self.held.pop(name, None)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """End a run: well, and its failures are forgotten; or badly, and it is tried again, within bounds."""
        name = data.draw(st.sampled_from(sorted(self.running)))
        self.running.remove(name)
        if data.draw(st.booleans()):
            again = data.draw(st.none() | DELAYS)
            self.queue.succeeded(name, self.now, again_after=again)
            self.failures.pop(name, None)
            if again is not None:
                self.want(name, self.now + again)
        else:
            jitter = data.draw(st.floats(0, 1, exclude_max=True))
            at_least = data.draw(st.sampled_from([0.0, 7.0, 400.0]))
            hold = data.draw(st.booleans())
            delay = self.queue.failed(name, self.now, jitter=jitter, at_least=at_least, hold=hold)
            whole = min(LONGEST, FIRST * 2 ** self.failures.get(name, 0))
            assert max(at_least, whole / 2) <= delay <= max(at_least, whole)
            self.failures[name] = self.failures.get(name, 0) + 1
            if hold:
                self.held[name] = self.now + at_least
                if name in self.wanted:
                    self.wanted[name] = max(self.wanted[name], self.held[name])
            self.want(name, self.now + delay)

    @invariant()
    def failures_are_counted(self) -> None:
        """In a row, by name."""
        assert all(self.queue.failures(name) == self.failures.get(name, 0) for name in "ab")

    @invariant()
    def the_sleeper_is_woken_in_time(self) -> None:
        """Nothing that is delayed comes due unnoticed."""
        due = self.queue.next_due()
        idle = [when for name, when in self.wanted.items() if name not in self.running and when > self.now]
        assert not idle or len(self.queue) or (due is not None and due <= min(idle))

    def teardown(self) -> None:
        """When all runs have ended and all delays are over, every wish has been fulfilled."""
        for name in list(self.running):
            self.queue.succeeded(name, self.now)
        assert set(drain(self.queue, self.now + 10_000)) >= set(self.wanted)
        assert (len(self.queue), self.queue.next_due()) == (0, None)


class TestQueue(QueueMachine.TestCase):  # type: ignore[misc, valid-type]
    """No name is lost and none is run twice at once, whatever happens in whatever order."""

    settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_a_name_that_is_added_many_times_is_run_once() -> None:
    """An event is only a name, and a name that waits keeps its place."""
    queue = Queue()
    for name in "abab":
        queue.add(name, 0.0)
    assert drain(queue, 0.0) == ["a", "b"]


@pytest.mark.parametrize("events", [1, 5])
def test_an_event_during_a_run_leads_to_one_more_run(events: int) -> None:
    """What changed while we looked is looked at again, once, after the run and not beside it."""
    queue = Queue()
    queue.add("a", 0.0)
    assert queue.pop(0.0) == ("a", 0.0)
    for _ in range(events):
        queue.add("a", 1.0)
    assert queue.pop(1.0) is None
    queue.succeeded("a", 2.0)
    assert queue.pop(3.0) == ("a", 2.0)
    queue.succeeded("a", 3.0)
    assert queue.pop(3.0) is None


def test_a_delayed_name_comes_when_it_is_due_and_not_before() -> None:
    """The seconds that it waited count from then."""
    queue = Queue()
    queue.add_at("a", 10.0)
    assert queue.next_due() == 10.0
    assert queue.pop(9.9) is None
    assert queue.pop(12.0) == ("a", 2.0)
    assert queue.next_due() is None


@pytest.mark.parametrize("times", [(10.0, 20.0), (20.0, 10.0)])
def test_of_several_delays_the_earliest_stands(times: tuple[float, float]) -> None:
    """And the later one does not lead to a second run."""
    queue = Queue()
    for due in times:
        queue.add_at("a", due)
    assert queue.next_due() == 10.0
    assert drain(queue, 10.0) == ["a"]
    assert drain(queue, 30.0) == []


def test_an_event_overtakes_a_delay() -> None:
    """New input deserves a new try, and the try that was planned is not made as well."""
    queue = Queue()
    queue.add("a", 0.0)
    queue.pop(0.0)
    queue.failed("a", 0.0, jitter=0.0)
    queue.add("a", 0.1)
    assert drain(queue, 0.1) == ["a"]
    assert drain(queue, 100.0) == []


def test_an_event_overtakes_a_delay_also_during_a_run() -> None:
    """The one more run stands for both."""
    queue = Queue()
    queue.add("a", 0.0)
    queue.pop(0.0)
    queue.add_at("a", 10.0)
    queue.add("a", 1.0)
    queue.succeeded("a", 2.0)
    assert drain(queue, 2.0) == ["a"]
    assert drain(queue, 100.0) == []


def test_failures_back_off_and_are_forgotten_on_success() -> None:
    """Half to all of 0.5 s, 1 s, 2 s … 300 s; then from the start."""
    queue = Queue()
    delays = []
    for _ in range(12):
        queue.add("a", 0.0)
        queue.pop(0.0)
        delays.append(queue.failed("a", 0.0, jitter=0.0))
    assert delays == [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 150, 150]
    queue.add("a", 0.0)
    queue.pop(0.0)
    queue.succeeded("a", 0.0)
    queue.add("a", 0.0)
    queue.pop(0.0)
    assert queue.failed("a", 0.0, jitter=0.0) == 0.25


def test_ten_thousand_failures_are_no_overflow() -> None:
    """A namespace may be broken for weeks."""
    queue = Queue()
    for _ in range(10_000):
        queue.add("a", 0.0)
        queue.pop(0.0)
        delay = queue.failed("a", 0.0, jitter=0.999)
    assert delay <= 300


def test_one_names_failures_do_not_delay_another() -> None:
    """Backoff is by name."""
    queue = Queue()
    for name in "ab":
        queue.add(name, 0.0)
        queue.pop(0.0)
    queue.failed("a", 0.0, jitter=0.5)
    assert queue.failures("b") == 0
    queue.add("b", 0.0)
    queue.succeeded("b", 0.0)
    assert queue.pop(0.0) == ("b", 0.0)


def test_what_a_busy_name_leaves_behind_does_not_grow() -> None:
    """Each event overtakes a resync that was due in an hour: ten thousand of them are not kept until then."""
    queue = Queue()
    for second in range(10_000):
        queue.add("a", float(second))
        queue.pop(float(second))
        queue.succeeded("a", float(second), again_after=3600.0)
    assert len(queue._heap) < 200
    assert queue.next_due() == 9_999 + 3600.0
