"""A namespace opts out beside a cluster-wide workflow-controller without an ID: two real controllers, nothing lost.

Schedules of every minute tell whether one is lost: the hours of others count from when a controller first sees them.
The short form is for every run: two minutes with everything in between, where a schedule of every few seconds tells
that somebody goes on. In full (`make long`) a minute passes in each chapter.
"""

import itertools
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import pytest

from tests.e2e import beside, workflows
from tests.e2e.local import FULL, INSTANCE_ID, Api, Kubectl, Object, condition, eventually
from tests.e2e.namespaces import CHILD, Namespaces
from tests.e2e.test_overlap import ran_once

LEAVING = "e2e-handed-back"
ALONE = "e2e-would-stop"
CRONS = "argoproj.io/v1alpha1/cronworkflows"
EVERY_MINUTE, OFTEN = "every-minute", "often"
CHAPTERS = (OFTEN, EVERY_MINUTE) if FULL else (OFTEN,)
"""Schedules that have to fire before a chapter ends."""
SCHEDULED = "workflows.argoproj.io/scheduled-time"


@pytest.fixture(scope="module")
def successor(namespaces: Namespaces, kubectl: Kubectl, api: Api) -> Iterator[None]:
    """Have an opted-in namespace beside a cluster-wide controller, whose own pods have what they need there."""
    namespaces.make(LEAVING, opt_in="enabled")
    beside.lets_executors_report(kubectl, LEAVING)
    beside.install(namespaces, kubectl, api)
    namespaces.ready(LEAVING)
    yield
    beside.remove(namespaces, kubectl, LEAVING)


def cron(name: str) -> Object:
    """Build one that fires each minute, never two at a time."""
    manifest = workflows.one_step(name, kind="CronWorkflow")
    manifest["spec"] |= {
        "schedules": ["* * * * *"],
        "suspend": False,
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 60,
    }
    return manifest


def often() -> Object:
    """Build one that fires every few seconds and starts no pod, so that it is soon free to be handed over."""
    manifest = cron(OFTEN)
    manifest["spec"]["schedules"] = ["@every 8s"]
    manifest["spec"]["workflowSpec"]["templates"] = [{"name": "main", "suspend": {"duration": "1s"}}]
    return manifest


def owner(api: Api, resource: str, name: str) -> str | None:
    """Read the instance ID of an object."""
    live = api.object(resource, LEAVING, name)
    assert live is not None, f"{name} is gone"
    return workflows.instance_id(live)


def due(live: Object) -> datetime:
    """Tell the time for which a schedule started a Workflow."""
    return datetime.fromisoformat(live["metadata"]["annotations"][SCHEDULED])


def fired(api: Api, schedule: str) -> list[Object]:
    """List what a schedule started, by the time that it was for."""
    query = f"labelSelector=workflows.argoproj.io/cron-workflow={schedule}"
    return sorted(api.objects(workflows.WORKFLOWS, LEAVING, query=query), key=due)


def ended(api: Api, schedule: str) -> list[Object]:
    """List what has Succeeded of it."""
    return [each for each in fired(api, schedule) if (each.get("status") or {}).get("phase") == "Succeeded"]


def known(api: Api, *schedules: str) -> dict[str, set[str]]:
    """Name what each schedule has started so far."""
    return {name: {each["metadata"]["name"] for each in fired(api, name)} for name in schedules}


def fires(api: Api, label: str | None, *schedules: str, after: Mapping[str, set[str]] | None = None) -> None:
    """Wait until each schedule has started one more, since now or `after`, with this label, and it has Succeeded."""
    before = after or known(api, *schedules)

    def another(schedule: str) -> Object:
        new = [each for each in fired(api, schedule) if each["metadata"]["name"] not in before[schedule]]
        assert new, f"nothing new of {schedule}"
        # What was on its way while the schedule was handed over is of the one before: `once` holds the order.
        assert workflows.instance_id(new[-1]) == label
        return new[-1]

    for name in schedules:
        workflows.succeeded(api, eventually(lambda name=name: another(name), seconds=150))  # type: ignore[misc]


def once(api: Api, schedule: str) -> None:
    """Hold that a schedule changed hands once: what it started is of the child, and then of the other one for good."""
    owners = [owner for owner, _ in itertools.groupby(fired(api, schedule), key=workflows.instance_id)]
    assert owners == [LEAVING, None], owners


def draining(namespaces: Namespaces, waiting: int) -> None:
    """Hold that the row tells of a drain that waits for so many Workflows."""
    row = namespaces.row(LEAVING)
    assert row is not None
    found = condition(row, "Reconciling")
    assert (found.get("status"), found.get("reason")) == ("True", "Draining"), dict(found)
    assert row["status"]["drain"]["waiting"] == waiting, row["status"]["drain"]


def test_schedules_that_nobody_would_go_on_with_keep_the_child(
    namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """Without a successor the row asks; with the platform's word the child goes, and the label stays for its return."""
    namespaces.make(ALONE, opt_in="enabled")
    namespaces.ready(ALONE)
    workflows.submit(kubectl, ALONE, cron("would-stop"))
    namespaces.label(ALONE, None)

    def asks() -> None:
        row = namespaces.row(ALONE)
        assert row is not None
        found = condition(row, "Reconciling")
        assert (found.get("status"), found.get("reason")) == ("True", "SchedulesWouldStop"), dict(found)
        assert "CronWorkflow would-stop" in found["message"]

    eventually(asks, seconds=60)
    patch = '{"spec":{"drain":{"stopSchedules":true}}}'
    kubectl("patch", "workflowcontroller", CHILD, "-n", ALONE, "--type=merge", "-p", patch)
    namespaces.gone(ALONE, seconds=200)
    live = api.object(CRONS, ALONE, "would-stop")
    assert live is not None
    assert live["metadata"]["labels"][INSTANCE_ID] == ALONE
    namespaces.remove(ALONE)


def test_what_carried_our_id_goes_on_under_the_other_controller(
    successor: None, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """No minute of the schedule is lost, each Workflow runs once, and opting in again in the middle changes nothing."""
    del successor
    nothing: dict[str, set[str]] = {OFTEN: set(), EVERY_MINUTE: set()}
    for schedule in (cron(EVERY_MINUTE), often()):
        workflows.submit(kubectl, LEAVING, schedule)
        assert owner(api, CRONS, schedule["metadata"]["name"]) == LEAVING
    lasting = workflows.one_step("lasting")
    lasting["spec"]["ttlStrategy"] = {"secondsAfterCompletion": 3600}
    done = workflows.succeeded(api, workflows.submit(kubectl, LEAVING, lasting))
    held = workflows.submit(kubectl, LEAVING, workflows.one_step("held", suspended=True))
    fires(api, LEAVING, OFTEN, EVERY_MINUTE, after=nothing)

    namespaces.label(LEAVING, None)
    eventually(lambda: draining(namespaces, 1), seconds=60)

    def handed_back() -> None:
        assert {owner(api, CRONS, each) for each in (EVERY_MINUTE, OFTEN)} == {None}

    eventually(handed_back, seconds=60)
    ours = {each["metadata"]["name"] for each in fired(api, EVERY_MINUTE) if workflows.instance_id(each) == LEAVING}
    assert owner(api, workflows.WORKFLOWS, "held") == LEAVING
    fires(api, None, *CHAPTERS)

    # Back in the middle: the same child, with the same ID, and the schedules stay where they are.
    namespaces.label(LEAVING, "enabled")
    row = namespaces.ready(LEAVING)
    assert row["status"]["instanceID"] == LEAVING
    fires(api, None, *CHAPTERS)
    once(api, OFTEN)
    namespaces.label(LEAVING, None)
    eventually(lambda: draining(namespaces, 1), seconds=60)

    new = workflows.submit(kubectl, LEAVING, workflows.one_step("new"))
    assert INSTANCE_ID not in (new["metadata"].get("labels") or {})
    workflows.succeeded(api, new)
    kubectl("patch", "workflow", "held", "-n", LEAVING, "--type=merge", "-p", '{"spec":{"suspend":null}}')
    held = workflows.succeeded(api, held)
    namespaces.gone(LEAVING)
    assert {owner(api, workflows.WORKFLOWS, each) for each in ("held", "lasting")} == {None}
    fires(api, None, *CHAPTERS)
    fires(api, None, EVERY_MINUTE, after={EVERY_MINUTE: ours})
    for each in (done, held, *ended(api, OFTEN)):
        workflows.ran_once(api, each)
    for each in ended(api, EVERY_MINUTE):
        ran_once(api, each, LEAVING if each["metadata"]["name"] in ours else None)
    minutes = [due(each) for each in fired(api, EVERY_MINUTE)]
    assert minutes == [minutes[0] + timedelta(minutes=index) for index in range(len(minutes))]
    print(f"{len(minutes)} minutes in a row; the schedule of every few seconds fired {len(fired(api, OFTEN))} times")

    # Its time to live is the other controller's to keep now.
    patch = '{"spec":{"ttlStrategy":{"secondsAfterCompletion":1}}}'
    kubectl("patch", "workflow", "lasting", "-n", LEAVING, "--type=merge", "-p", patch)
    eventually(lambda: _gone(api, "lasting"), seconds=90)


def _gone(api: Api, name: str) -> None:
    assert api.object(workflows.WORKFLOWS, LEAVING, name) is None
