"""Which unfinished Workflows wait in vain, from when on, and what is told of each."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import pytest

from metaoperator.core import serving, strays
from metaoperator.core.model import DEPLOYMENT, Ref
from metaoperator.core.names import Reason
from metaoperator.core.serving import Controller
from metaoperator.core.strays import Found, Work

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PATIENCE = timedelta(minutes=10)
CHILD = serving.child(Ref(DEPLOYMENT, "team-a", "workflow-controller"), "team-a", alive=True)
WIDE = Controller(ref=Ref(DEPLOYMENT, "argo", "wc"), instance_id="", sees="", alive=True)


def work(label: str | None = "team-a", *, name: str = "w", started: bool = False, age: float = 3600) -> Work:
    """Build one that was created so many seconds ago."""
    created = NOW - timedelta(seconds=age)
    return Work(name=name, uid=f"uid-{name}", label=label, started=started, created=created)


def find(*there: Work, others: Collection[Controller] = (), ready: bool = True, instance: str = "team-a") -> Found:
    """Look at a namespace whose child has the ID."""
    child = serving.child(CHILD.ref, instance, alive=True)
    return strays.find(
        there,
        instance_id=instance,
        servers=lambda label: serving.servers("team-a", label, (child, *others)),
        ready=ready,
        now=NOW,
        patience=PATIENCE,
    )


@pytest.mark.parametrize(
    ("one", "others", "ready", "reason"),
    [
        (work(), (), True, Reason.WORKFLOW_PENDING),
        (work(), (), False, None),
        (work(started=True), (), True, None),
        (work(age=599), (), True, None),
        (work(age=600), (), True, Reason.WORKFLOW_PENDING),
        (work("other"), (), True, Reason.WORKFLOW_ORPHANED),
        (work("other"), (), False, Reason.WORKFLOW_ORPHANED),
        (work("other", started=True), (), True, Reason.WORKFLOW_ORPHANED),
        (work("other", age=59), (), True, None),
        (work("other", age=60), (), True, Reason.WORKFLOW_ORPHANED),
        (work(""), (WIDE,), True, Reason.WORKFLOW_ORPHANED),
        (work(None), (), True, Reason.WORKFLOW_ORPHANED),
        (work(None), (WIDE,), True, None),
    ],
)
def test_a_stray_is_served_by_nobody_or_not_taken_up_in_time(
    one: Work,
    others: tuple[Controller, ...],
    *,
    ready: bool,
    reason: Reason | None,
) -> None:
    """Each reason with its patience; another controller's backlog is not ours to judge."""
    found = find(one, others=others, ready=ready)
    assert [each.reason for each in found.strays] == ([] if reason is None else [reason])
    assert (found.due is not None) == (NOW - one.created < PATIENCE and reason is None)


def test_time_alone_makes_the_next_one() -> None:
    """The first that comes due, whichever limit is its own."""
    assert find(work(age=10), work("x", name="y", age=10)).due == NOW + timedelta(seconds=50)
    assert find(work(age=10)).due == NOW + timedelta(seconds=590)
    assert find(work(started=True)).due is None


def test_the_oldest_comes_first_and_each_is_counted_by_its_reason() -> None:
    """So that the one that a condition names stays the same as others come."""
    found = find(
        work("x", name="b", age=100), work("x", name="a", age=100), work("x", name="c", age=200), work(name="d")
    )
    assert [each.name for each in found.strays] == ["d", "c", "a", "b"]
    assert (found.count(Reason.WORKFLOW_ORPHANED), found.count(Reason.WORKFLOW_PENDING)) == (3, 1)


@pytest.mark.parametrize(
    ("one", "instance", "parts"),
    [
        (work("x"), "team-a", ("instance ID 'x'", "controller-instanceid=team-a", "kubectl label workflow w")),
        (work(None), "team-a", ("without an instance ID", "controller-instanceid=team-a")),
        (work("x"), "", ("instance ID 'x'", "controller-instanceid-")),
        (work("x", started=True), "team-a", ("bring its controller back", "it was started")),
        (work(), "team-a", ("within 10 minutes", "kubectl logs deployment/workflow-controller")),
    ],
)
def test_the_message_says_what_and_the_cure(one: Work, instance: str, parts: tuple[str, ...]) -> None:
    """A started one is not to be relabelled lightly: its new controller would fail it."""
    (stray,) = find(one, instance=instance).strays
    for part in parts:
        assert part in stray.message


def test_one_is_read_from_its_metadata_whatever_that_lacks() -> None:
    """A date that cannot be read is an old one: better told too early than never."""
    meta = {"name": "w", "uid": "u", "creationTimestamp": "2026-01-01T11:00:00Z"}
    assert Work.of({"metadata": meta}) == Work(
        name="w", uid="u", label=None, started=False, created=NOW - timedelta(hours=1)
    )
    labels = {
        "workflows.argoproj.io/controller-instanceid": "x",
        "workflows.argoproj.io/phase": "Running",
    }
    read = Work.of({"metadata": {"name": "w", "labels": labels, "creationTimestamp": "?"}})
    assert (read.label, read.started, read.created.year) == ("x", True, 1)
