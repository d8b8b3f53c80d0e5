"""What was refused is not sent again at the rate of events, and other bytes are tried at once."""

import functools
import itertools
from dataclasses import replace

import pytest

from metaoperator.core.errors import Conflict, Gone, NotLeading, Rejected, RetryableError, Throttled
from metaoperator.core.model import CONFIG_MAP, Ref
from metaoperator.core.names import Reason
from metaoperator.core.plan import Step, Verb
from metaoperator.core.refusals import FIRST, FORGOTTEN, LONGEST, Refusal, Refusals

REF = Ref(CONFIG_MAP, "team-a", "one")
STEP = Step(verb=Verb.CREATE, ref=REF, reason=Reason.CREATED, manifest={"data": {"k": "v"}})


def sent(refusals: Refusals, error: Refusal, seconds: float, *, every: float) -> list[float]:
    """Let events come at a steady rate, each of which would send the step; return when it was sent."""
    times, now = [], 0.0
    while now < seconds:
        if refusals.standing(STEP, now) is None:
            times.append(now)
            refusals.failed(STEP, error, now)
        now += every
    return times


@pytest.mark.parametrize("error", [Rejected("no"), Gone("no kind"), RetryableError("later")], ids=repr)
def test_however_often_events_come_the_pauses_double(error: Refusal) -> None:
    """A busy namespace asks ten times a second for an hour: some thirty requests, and never a pause over 150 s."""
    times = sent(Refusals(), error, 3600, every=0.1)
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert len(times) < 40
    assert pauses[0] == pytest.approx(FIRST, abs=0.11)
    assert max(pauses) == pytest.approx(LONGEST, abs=0.2)


def test_the_answer_stands_until_it_is_due() -> None:
    """Who asks meanwhile is told the same, and in how long it may be sent."""
    refusals, error = Refusals(), Rejected("no")
    refusals.failed(STEP, error, 100.0)
    assert refusals.standing(STEP, 100.0 + FIRST / 2) is error
    assert refusals.due("team-a", 100.0 + FIRST / 2) == pytest.approx(FIRST / 2)
    assert refusals.due("team-b", 100.0) is None
    assert refusals.standing(STEP, 100.0 + FIRST) is None
    assert refusals.due("team-a", 100.0 + FIRST) is None


@pytest.mark.parametrize(
    "other",
    [
        replace(STEP, manifest={"data": {"k": "w"}}),
        replace(STEP, verb=Verb.APPLY, uid="1"),
        replace(STEP, ref=replace(REF, name="two")),
    ],
    ids=["other bytes", "it is there by now", "another object"],
)
def test_another_request_is_tried_at_once_and_counts_anew(other: Step) -> None:
    """New input deserves a new try."""
    refusals = Refusals()
    for now in range(8):
        refusals.failed(STEP, Rejected("no"), float(now))
    assert refusals.standing(STEP, 8.0) is not None
    assert refusals.standing(other, 8.0) is None
    refusals.failed(other, Rejected("no"), 8.0)
    assert refusals.standing(other, 8.0 + FIRST) is None


def test_the_api_servers_wish_to_wait_is_kept() -> None:
    """R49: `Retry-After: 30` holds against events as well."""
    assert sent(Refusals(), Throttled("slow", after=30.0), 100, every=1.0) == [0, 30, 60, 90]


@pytest.mark.parametrize("error", [Conflict("other"), NotLeading("no")], ids=repr)
def test_what_is_not_about_the_request_is_not_remembered(error: Refusal) -> None:
    """After a conflict everything is read and decided anew, at once."""
    refusals = Refusals()
    refusals.failed(STEP, error, 0.0)
    assert refusals.standing(STEP, 0.0) is None


def test_what_passed_or_is_no_longer_asked_for_is_forgotten() -> None:
    """By the object, by the namespace, and by time."""
    refusals = Refusals()
    for forget in (functools.partial(refusals.passed, REF), functools.partial(refusals.forget, "team-a")):
        refusals.failed(STEP, Rejected("no"), 0.0)
        forget()
        assert refusals.standing(STEP, 0.0) is None
    refusals.failed(STEP, Rejected("no"), 0.0)
    assert refusals.due("team-a", FORGOTTEN + FIRST + 1) is None
    assert not refusals._entries
