"""A drain: what is handed back when, what is waited for, and that it ends; in tables and in worlds that evolve."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metaoperator.core import drain, serving
from metaoperator.core.drain import Schedule, Seen, Step, Terms, Then
from metaoperator.core.foreign import Foreign
from metaoperator.core.model import DEPLOYMENT, Ref
from metaoperator.core.names import Reason
from metaoperator.core.status import Drain
from metaoperator.core.strays import Work

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
WHO = "Deployment/argo/wc (no instance ID, all namespaces)"
MINUTES = timedelta(minutes=30)


def schedule(name: str = "c", **more: bool | None) -> Schedule:
    """Build one that nothing of runs."""
    return Schedule(name=name, uid=f"uid-{name}", version="1", **more)  # type: ignore[arg-type]


def decide(seen: Seen, terms: Terms | None = None, *, waited: timedelta | None = None) -> Step:
    """Decide for a child with the ID of its namespace."""
    since = None if waited is None else NOW - waited
    return drain.decide(seen, terms or Terms(), instance_id="team-a", since=since, now=NOW)


def reason(step: Step) -> str:
    """Read the reason; empty where the child may stop."""
    return "" if step.note is None else str(step.note.reason)


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        (Seen(), ""),
        (Seen(successor=WHO), ""),
        (Seen(finished=1), ""),
        (Seen(successor=WHO, finished=1), "finished"),
        (Seen(unfinished=1), "waits"),
        (Seen(successor=WHO, unfinished=1, finished=1), "waits"),
        (Seen(held=["w"]), "waits"),
        (Seen(schedules=[schedule(suspended=False)]), "stop"),
        (Seen(schedules=[schedule(suspended=False)], unfinished=1), "stop"),
        (Seen(schedules=[schedule(suspended=True)]), ""),
        (Seen(schedules=[schedule(suspended=True)], unfinished=1), "waits"),
        (Seen(schedules=[schedule("a", suspended=True), schedule("b", suspended=False)]), "stop"),
        (Seen(successor=WHO, schedules=[schedule()]), "c"),
        (Seen(successor=WHO, schedules=[schedule(busy=True, together=False)], unfinished=1), "waits"),
        (Seen(successor=WHO, schedules=[schedule(busy=True, together=False)]), "waits"),
        (Seen(successor=WHO, schedules=[schedule(busy=True)], unfinished=1), "waits"),
        (Seen(successor=WHO, schedules=[schedule(busy=True, together=True)], unfinished=1), "c"),
        (Seen(successor=WHO, schedules=[schedule("a"), schedule("b", busy=True, together=False)], unfinished=1), "a"),
    ],
)
def test_one_step_at_a_time_in_order(seen: Seen, wanted: str) -> None:
    """Schedules that would stop, then CronWorkflows, the unfinished, the finished, what only the child cleans up."""
    step = decide(seen)
    what = ",".join(each.name for each in step.schedules)
    if not what and step.note is not None:
        would_stop = step.note.reason is Reason.SCHEDULES_WOULD_STOP
        what = "stop" if would_stop else "finished" if step.finished else "waits"
    assert what == wanted
    assert not step.delete


def test_who_agreed_that_schedules_stop_is_not_asked() -> None:
    """The rest of the drain is as ever, and nothing is handed back to nobody."""
    terms = Terms(stop_schedules=True)
    lost = [schedule(suspended=False)]
    assert decide(Seen(schedules=lost), terms).note is None
    assert decide(Seen(schedules=lost), terms).schedules == ()
    assert reason(decide(Seen(schedules=lost, unfinished=1), terms)) == "Draining"


@pytest.mark.parametrize(
    ("terms", "waited", "wanted", "deletes"),
    [
        (Terms(), timedelta(days=9), "Draining", False),
        (Terms(timeout=MINUTES), MINUTES - timedelta(seconds=1), "Draining", False),
        (Terms(timeout=MINUTES), MINUTES, "DrainTimeout", False),
        (Terms(timeout=MINUTES, then=Then.DELETE), MINUTES - timedelta(seconds=1), "Draining", False),
        (Terms(timeout=MINUTES, then=Then.DELETE), MINUTES, "Draining", True),
        (Terms(then=Then.DELETE), timedelta(days=9), "Draining", False),
    ],
)
def test_the_time_that_is_given_counts_from_when_the_waiting_began(
    terms: Terms, waited: timedelta, wanted: str, *, deletes: bool
) -> None:
    """Without a timeout nothing is ever deleted; without the status it counts anew."""
    step = decide(Seen(unfinished=1), terms, waited=waited)
    assert (reason(step), step.delete) == (wanted, deletes)
    anew = decide(Seen(unfinished=1), terms)
    assert (anew.since, anew.delete) == (NOW, False)
    assert anew.due == terms.timeout


def test_the_time_does_not_run_while_schedules_would_stop() -> None:
    """Who agrees after three days does not lose in the same moment what the schedules have just started."""
    seen = Seen(schedules=[schedule(suspended=False)], unfinished=1)
    terms = Terms(timeout=MINUTES, then=Then.DELETE)
    held = decide(seen, terms, waited=timedelta(days=3))
    assert (held.since, held.delete) == (None, False)
    agreed = drain.decide(seen, replace(terms, stop_schedules=True), instance_id="team-a", since=held.since, now=NOW)
    assert (agreed.since, agreed.delete) == (NOW, False)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ({}, Terms()),
        (None, Terms()),
        ({"timeout": "30m"}, Terms(timeout=MINUTES)),
        ({"timeout": "1h30m5s"}, Terms(timeout=timedelta(hours=1, minutes=30, seconds=5))),
        ({"timeout": "0s"}, Terms(timeout=timedelta())),
        ({"timeout": "", "then": "Delete"}, Terms(then=Then.DELETE)),
        ({"timeout": "half an hour"}, Terms()),
        ({"timeout": "30m", "stopSchedules": True}, Terms(timeout=MINUTES, stop_schedules=True)),
    ],
)  # fmt: skip
def test_terms_are_read_as_they_are_written(written: object, wanted: Terms) -> None:
    """What says no time gives none: nothing is deleted for a word that nobody understands."""
    assert Terms.of({"spec": {"drain": written}}) == wanted
    assert Terms.of(None) == Terms()


@pytest.mark.parametrize(
    ("spec", "status", "together", "suspended"),
    [
        ({}, {}, True, False),
        ({"concurrencyPolicy": "Allow"}, {}, True, False),
        ({"concurrencyPolicy": ""}, {}, True, False),
        ({"concurrencyPolicy": "Forbid"}, {}, False, False),
        ({"concurrencyPolicy": "Replace", "suspend": True}, {}, False, True),
        ({}, {"phase": "Stopped"}, True, True),
        ({}, {"phase": "Active"}, True, False),
    ],
)
def test_a_schedule_says_what_its_spec_says(
    spec: dict[str, object], status: dict[str, object], *, together: bool, suspended: bool
) -> None:
    """As Argo reads it: no policy is `Allow`, and one whose stop strategy was met starts nothing."""
    live = {"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": spec, "status": status}
    found = schedule().learned(live, busy=True)
    assert (found.together, found.suspended, found.busy, found.version) == (together, suspended, True, "7")


def test_a_doubtful_controller_is_no_successor() -> None:
    """It stops an opt-in, but nothing is handed to it: what cannot be told may serve nothing."""
    there = Foreign(ref=Ref(DEPLOYMENT, "argo", "wc"), instance_id="", sees="", replicas=1)
    for found, wanted in (
        (there, str(there)),
        (replace(there, unsure="its ConfigMap is not there"), ""),
        (replace(there, replicas=0), ""),
        (replace(there, sees="team-b"), ""),
        (replace(there, instance_id="team-a"), ""),
    ):
        assert drain.successor("team-a", [serving.foreign(found)]) == wanted


def test_new_ones_are_those_without_an_id_since_the_opt_out() -> None:
    """Oldest first; what came earlier, or has an ID, is not new."""

    def work(name: str, label: str | None, minutes: int) -> Work:
        return Work(name=name, uid=name, label=label, started=False, created=NOW + timedelta(minutes=minutes))

    there = [work("b", None, 2), work("a", None, 1), work("old", None, -1), work("ours", "team-a", 1)]
    assert [each.name for each in drain.newcomers(there, since=NOW)] == ["a", "b"]
    assert "waits for ever" in drain.fate([])


def test_progress_survives_in_the_status_and_nowhere_else() -> None:
    """What is told is read back; what was lost, or is nonsense, counts anew."""
    told = Drain(since=NOW, waiting=3, handed_back=4).told()
    assert Drain.of({"drain": told}) == Drain(since=NOW, handed_back=4)
    assert Drain.of({}) == Drain()
    assert Drain.of({"drain": {"since": "soon"}}) == Drain()


# ---- worlds


@dataclass
class Cron:
    """A CronWorkflow as it is, whoever knows it."""

    name: str
    together: bool
    suspended: bool = False
    ours: bool = True


@dataclass
class Run:
    """A Workflow."""

    cron: str = ""
    done: bool = False
    ours: bool = True


@dataclass
class Place:
    """A namespace that has opted out, and everybody's hands in it."""

    crons: list[Cron] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    successor: bool = True
    terms: Terms = field(default_factory=Terms)
    since: datetime | None = None
    now: datetime = NOW
    stopped: bool = False

    def busy(self, cron: Cron) -> bool:
        """Tell whether an unfinished Workflow of it carries our ID."""
        return any(run.cron == cron.name and run.ours and not run.done for run in self.runs)

    def seen(self) -> Seen:
        """Look, as the operator does."""
        return Seen(
            successor=WHO if self.successor else "",
            schedules=[
                Schedule(
                    name=each.name,
                    uid=each.name,
                    version="1",
                    busy=self.busy(each),
                    together=each.together if self.busy(each) else None,
                    suspended=None if self.successor else each.suspended,
                )
                for each in self.crons
                if each.ours
            ],
            unfinished=sum(run.ours and not run.done for run in self.runs),
            finished=int(any(run.ours and run.done for run in self.runs)),
        )

    def step(self) -> Step:
        """Decide and act, holding the laws to each act."""
        step = drain.decide(self.seen(), self.terms, instance_id="team-a", since=self.since, now=self.now)
        self.since = step.since
        for each in step.schedules:
            cron = next(one for one in self.crons if one.name == each.name)
            assert self.successor, "handed to nobody"
            assert cron.together or not self.busy(cron), "taken from its children"
            cron.ours = False
        if step.finished:
            assert self.successor, "handed to nobody"
            assert not any(run.ours and not run.done for run in self.runs)
            for run in self.runs:
                run.ours = run.ours and not run.done
        if step.delete:
            assert self.terms.then is Then.DELETE
            assert self.terms.timeout is not None
            self.runs = [run for run in self.runs if run.done or not run.ours]
        if step.note is None:
            assert not any(run.ours and not run.done for run in self.runs), "stopped under its work"
            going = [each for each in self.crons if each.ours and not each.suspended]
            assert not going or (self.terms.stop_schedules and not self.successor), "a schedule was lost"
        self.stopped = step.note is None
        return step

    def fire(self, cron: Cron) -> None:
        """Start a Workflow, where its policy lets whoever serves it."""
        mine = [run for run in self.runs if run.cron == cron.name and run.ours == cron.ours and not run.done]
        if not cron.suspended and (cron.together or not mine) and (self.successor or cron.ours):
            self.runs.append(Run(cron=cron.name, ours=cron.ours))

    def finish(self, which: int) -> None:
        """Let a Workflow end."""
        if self.runs:
            self.runs[which % len(self.runs)].done = True

    def of(self, which: int) -> Iterator[Cron]:
        """Pick a CronWorkflow, if there is any."""
        if self.crons:
            yield self.crons[which % len(self.crons)]

    def suspend(self, which: int) -> None:
        """Let a person suspend one."""
        for each in self.of(which):
            each.suspended = True

    def begin(self, which: int) -> None:
        """Let the time of one come."""
        for each in self.of(which):
            self.fire(each)


HAPPENS: dict[str, Callable[[Place, int], object]] = {
    "step": lambda place, _: place.step(),
    "step again": lambda place, _: place.step(),
    "fire": Place.begin,
    "finish": Place.finish,
    "suspend": Place.suspend,
    "submit": lambda place, _: place.runs.append(Run()),
    "leave": lambda place, _: setattr(place, "successor", False),
    "come": lambda place, _: setattr(place, "successor", True),
    "wait": lambda place, minutes: setattr(place, "now", place.now + timedelta(minutes=minutes)),
    "agree": lambda place, _: setattr(place, "terms", replace(place.terms, stop_schedules=True)),
    "lose status": lambda place, _: setattr(place, "since", None),
}
ACTS = st.lists(st.tuples(st.sampled_from(list(HAPPENS)), st.integers(0, 3)), min_size=8, max_size=40)


@settings(max_examples=400, deadline=None)
@given(
    crons=st.lists(st.booleans(), max_size=3),
    acts=ACTS,
    then=st.sampled_from(Then),
    timeout=st.sampled_from([None, timedelta(), MINUTES]),
    successor=st.booleans(),
)
def test_whatever_happens_meanwhile_nothing_is_lost_and_it_ends(
    crons: list[bool], acts: list[tuple[str, int]], then: Then, timeout: timedelta | None, *, successor: bool
) -> None:
    """No child of a `Forbid` is left alone, no label goes to nobody, no schedule ends unasked; and it ends."""
    place = Place(
        crons=[Cron(f"c{index}", together) for index, together in enumerate(crons)],
        runs=[Run(), Run(done=True)],
        successor=successor,
        terms=Terms(timeout=timeout, then=then),
    )
    for act, which in acts:
        HAPPENS[act](place, which)
    # From here on nothing new begins: whoever was asked has answered, and all that runs ends.
    place.terms = replace(place.terms, stop_schedules=True)
    for run in place.runs:
        run.done = True
    for _ in range(4):
        place.step()
    assert place.stopped
    if place.successor:
        assert not any(each.ours for each in place.crons)
        assert not any(each.ours for each in place.runs)


@settings(max_examples=200, deadline=None)
@given(acts=ACTS)
def test_a_drain_that_is_called_off_has_lost_nothing(acts: list[tuple[str, int]]) -> None:
    """At any point a schedule and what runs of it are served by the same controller, and `Forbid` lets one run."""
    place = Place(crons=[Cron("c", together=False)], runs=[Run(cron="c"), Run(done=True)])
    for act, which in acts:
        if act not in {"leave", "agree"}:
            HAPPENS[act](place, which)
        running = [run for run in place.runs if run.cron == "c" and not run.done]
        assert len(running) <= 1, "Forbid let two run"
        assert all(run.ours == place.crons[0].ours for run in running)
