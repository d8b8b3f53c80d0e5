"""What is published: conditions by kstatus' rules, and the fields beside them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from metaoperator.core import status
from metaoperator.core.health import Verdict
from metaoperator.core.model import WorkCount
from metaoperator.core.names import Condition, Health, Reason
from metaoperator.core.status import Note, View

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
LEADS = Verdict(health=Health.CURRENT, reason=Reason.LEADING, message="p1 leads")
STARTS = Verdict(health=Health.IN_PROGRESS, reason=Reason.DEPLOYMENT_PROGRESSING, message="0 of 1")
FAILS = Verdict(health=Health.FAILED, reason=Reason.POD_FAILING, message="crash")
MISSING = Verdict(health=Health.NOT_FOUND, reason=Reason.INSTALLING, message="not there")
UNKNOWN = Verdict(health=Health.UNKNOWN, reason=Reason.INSTALLING, message="?")
TYPO = Note(reason=Reason.TEMPLATE_NOT_FOUND, message="no such template")
DRAIN = Note(reason=Reason.DRAINING, message="3 left")
PAUSE = Note(reason=Reason.PAUSED, message="nothing is written")


def view(verdict: Verdict = LEADS, **fields: Any) -> View:
    """Build what one look found."""
    return View(**{"generation": 3, "verdict": verdict, **fields})


def publish(look: View, previous: dict[str, Any] | None = None, now: datetime = NOW) -> dict[str, Any]:
    """Compose the status of a WorkflowController."""
    return status.workflow_controller(look, previous or {}, now=now)


def shown(published: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Shorten conditions to status and reason."""
    return {each["type"]: (each["status"], each["reason"]) for each in published["conditions"]}


@pytest.mark.parametrize(
    ("look", "ready", "reconciling", "stalled"),
    [
        pytest.param(view(), ("True", "Leading"), ("False", "Settled"), ("False", "Settled"), id="leads"),
        pytest.param(
            view(STARTS),
            ("False", "DeploymentProgressing"),
            ("True", "DeploymentProgressing"),
            ("False", "Settled"),
            id="starts",
        ),
        pytest.param(
            view(MISSING), ("False", "Installing"), ("True", "Installing"), ("False", "Settled"), id="not there"
        ),
        pytest.param(view(FAILS), ("False", "PodFailing"), ("False", "Settled"), ("False", "Settled"), id="fails"),
        pytest.param(
            view(UNKNOWN), ("Unknown", "Installing"), ("False", "Settled"), ("False", "Settled"), id="cannot be seen"
        ),
        *[
            pytest.param(
                view(verdict, stalled=TYPO, reconciling=busy, remark=remark),
                ("False", "TemplateNotFound"),
                ("False", "Settled"),
                ("True", "TemplateNotFound"),
                id=f"stalled while {verdict.health} {busy and busy.reason} {remark and remark.reason}",
            )
            for verdict in (LEADS, STARTS, FAILS, UNKNOWN)
            for busy in (None, DRAIN)
            for remark in (None, PAUSE)
        ],
        pytest.param(
            view(reconciling=DRAIN),
            ("True", "Draining"),
            ("True", "Draining"),
            ("False", "Settled"),
            id="drains and works",
        ),
        pytest.param(
            view(FAILS, reconciling=DRAIN),
            ("False", "PodFailing"),
            ("True", "Draining"),
            ("False", "Settled"),
            id="drains and fails",
        ),
        pytest.param(
            view(remark=PAUSE), ("True", "Paused"), ("False", "Settled"), ("False", "Settled"), id="paused and works"
        ),
        pytest.param(
            view(FAILS, remark=PAUSE),
            ("False", "PodFailing"),
            ("False", "Settled"),
            ("False", "Settled"),
            id="paused and fails",
        ),
    ],
)
def test_conditions_tell_what_a_person_looks_for(
    look: View, ready: tuple[str, str], reconciling: tuple[str, str], stalled: tuple[str, str]
) -> None:
    """Stalled wins over all; a drain or a pause is told of a child that works; never both abnormal at once."""
    assert shown(publish(look)) == {"Ready": ready, "Reconciling": reconciling, "Stalled": stalled}


def test_a_condition_is_written_in_full() -> None:
    """Every field that Kubernetes' conventions ask for."""
    ready = publish(view())["conditions"][0]
    assert ready == {
        "type": "Ready",
        "status": "True",
        "reason": "Leading",
        "message": "p1 leads",
        "observedGeneration": 3,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }


def test_the_transition_time_moves_with_the_status_and_nothing_else() -> None:
    """A new reason, message or generation is no transition; there and back is two."""
    first = publish(view(STARTS))
    later = publish(view(FAILS, generation=4), first, NOW + timedelta(seconds=5))
    assert times(later) == {"Ready": "03:04:05", "Reconciling": "03:04:10", "Stalled": "03:04:05"}
    leads = publish(view(LEADS), later, NOW + timedelta(seconds=10))
    assert times(leads) == {"Ready": "03:04:15", "Reconciling": "03:04:10", "Stalled": "03:04:05"}


def times(published: dict[str, Any]) -> dict[str, str]:
    """Read the time of day of each condition's last transition."""
    return {each["type"]: each["lastTransitionTime"][11:19] for each in published["conditions"]}


def test_looking_again_publishes_the_same() -> None:
    """A settled child's status is equal at every look: nothing is written."""
    first = publish(view(work=WorkCount(running=1), template="default", inventory=["b", "a"]))
    again = publish(
        view(work=WorkCount(running=1), template="default", inventory=["a", "b"]), first, NOW.replace(day=9)
    )
    assert again == first


def test_a_condition_that_somebody_else_broke_is_written_anew() -> None:
    """Previous conditions without time or type are no obstacle."""
    broken = {"conditions": [{"type": "Ready", "status": "True"}, {"status": "x"}]}
    assert times(publish(view(), broken))["Ready"] == "03:04:05"


def test_empty_fields_are_left_out_and_zero_counts_are_not() -> None:
    """What is not known does not show; no running Workflow is something known."""
    assert set(publish(view())) == {"observedGeneration", "conditions"}
    assert publish(view(work=WorkCount()))["workflows"] == {"running": 0, "pending": 0}
    assert publish(view(inventory=["b", "a"]))["inventory"] == ["a", "b"]


def test_a_message_fits_into_a_condition() -> None:
    """The API server refuses messages over 32768 characters: a long one is cut, the status is still written."""
    long = Verdict(health=Health.FAILED, reason=Reason.POD_FAILING, message="x" * 40000)
    assert len(publish(view(long))["conditions"][0]["message"]) == 32000


@pytest.mark.parametrize(
    ("change", "only_counts"),
    [
        ({}, True),
        ({"work": WorkCount(running=2)}, True),
        ({"work": None}, True),
        ({"template": "other"}, False),
        ({"verdict": FAILS}, False),
        ({"generation": 4}, False),
        ({"work": WorkCount(running=2), "revision": "r"}, False),
    ],
    ids=str,
)
def test_only_counts_may_wait(change: dict[str, Any], *, only_counts: bool) -> None:
    """A write that tells nothing but new counts is merged with the next."""
    before = publish(view(work=WorkCount(running=1)))
    after = publish(view(**{"work": WorkCount(running=1)} | change), before)
    assert status.only_counts_differ(after, before) is only_counts


@pytest.mark.parametrize("fault", [None, TYPO], ids=["usable", "at fault"])
def test_a_controller_template_tells_whether_its_set_can_be_used(fault: Note | None) -> None:
    """Ready and Stalled are each other's opposite, and counts of namespaces stand beside them."""
    found = status.controller_template(
        generation=1, fault=fault, revision="" if fault else "r", total=3, ready=2, previous={}, now=NOW
    )
    reason = "TemplateNotFound" if fault else "Loaded"
    assert shown(found) == {
        "Ready": ("False" if fault else "True", reason),
        "Reconciling": ("False", "Settled"),
        "Stalled": ("True", reason) if fault else ("False", "Settled"),
    }
    assert found["namespaces"] == {"total": 3, "ready": 2}
    assert found.get("revision") == (None if fault else "r")


def test_a_controller_template_tells_of_its_rollout() -> None:
    """On its way it is Reconciling, halted it is Stalled, and what cannot be told now stands as it did."""
    note = Note(reason=Reason.ROLLING_OUT, message="wave canary")
    told = status.Rollout(told={"phase": "Progressing"}, moving=note)
    plain: dict[str, Any] = {"generation": 1, "fault": None, "revision": "r", "total": 3, "ready": 2, "now": NOW}
    moving = status.controller_template(**plain, previous={}, rollout=told)
    assert shown(moving)["Reconciling"] == ("True", "RollingOut")
    assert moving["rollout"] == {"phase": "Progressing"}
    kept = status.controller_template(**plain, previous=moving)
    assert kept["rollout"] == {"phase": "Progressing"}
    failed = status.Rollout(told={"phase": "Failed"}, halted=Note(reason=Reason.ROLLOUT_FAILED, message="team-a"))
    halted = status.controller_template(**plain, previous=moving, rollout=failed)
    assert shown(halted)["Stalled"] == ("True", "RolloutFailed")
    assert shown(halted)["Reconciling"] == ("False", "Settled")
    assert shown(halted)["Ready"] == ("True", "Loaded")


def test_a_condition_is_found_by_its_type() -> None:
    """And is empty where nothing is published."""
    published = publish(view())
    assert status.condition(published, Condition.STALLED)["status"] == "False"
    assert status.condition({}, Condition.READY) == {}


def test_what_somebody_else_added_to_a_status_is_no_difference() -> None:
    """A condition of a type that we do not write stays where it is, and is left out of every comparison."""
    written = status.workflow_controller(view(), {}, now=NOW)
    foreign = {**written["conditions"][0], "type": "Foreign"}
    live = {**written, "conditions": [foreign, *written["conditions"]]}
    assert status.ours(live) == written
    assert status.ours({}) == {}
    assert status.ours({"conditions": None, "revision": "x"}) == {"conditions": [], "revision": "x"}
