"""A namespace opts out beside a cluster-wide workflow-controller without an ID: two real controllers, nothing lost."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from tests.e2e import beside, workflows
from tests.e2e.local import INSTANCE_ID, Api, Kubectl, Object, condition, eventually
from tests.e2e.namespaces import CHILD, Namespaces

LEAVING = "e2e-handed-back"
ALONE = "e2e-would-stop"
CRONS = "argoproj.io/v1alpha1/cronworkflows"
EVERY_MINUTE = "every-minute"
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


def owner(api: Api, resource: str, name: str) -> str | None:
    """Read the instance ID of an object."""
    live = api.object(resource, LEAVING, name)
    assert live is not None, f"{name} is gone"
    return workflows.instance_id(live)


def fired(api: Api) -> dict[datetime, Object]:
    """List what the schedule started, by the minute that it was for."""
    query = f"labelSelector=workflows.argoproj.io/cron-workflow={EVERY_MINUTE}"
    found = api.objects(workflows.WORKFLOWS, LEAVING, query=query)
    return {datetime.fromisoformat(each["metadata"]["annotations"][SCHEDULED]): each for each in found}


def fires(api: Api, label: str | None) -> None:
    """Wait until the schedule has started another Workflow, with this label, and it has Succeeded."""
    before = set(fired(api))

    def another() -> Object:
        new = [each for minute, each in fired(api).items() if minute not in before]
        assert new, "nothing new"
        assert [(each["metadata"].get("labels") or {}).get(INSTANCE_ID) for each in new] == [label] * len(new)
        return new[0]

    workflows.succeeded(api, eventually(another, seconds=150))


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
    lasting = workflows.one_step("lasting")
    lasting["spec"]["ttlStrategy"] = {"secondsAfterCompletion": 3600}
    done = workflows.succeeded(api, workflows.submit(kubectl, LEAVING, lasting))
    held = workflows.submit(kubectl, LEAVING, workflows.one_step("held", suspended=True))
    workflows.submit(kubectl, LEAVING, cron(EVERY_MINUTE))
    assert owner(api, CRONS, EVERY_MINUTE) == LEAVING
    fires(api, LEAVING)

    namespaces.label(LEAVING, None)
    eventually(lambda: draining(namespaces, 1), seconds=60)

    def handed_back() -> None:
        assert owner(api, CRONS, EVERY_MINUTE) is None

    eventually(handed_back, seconds=60)
    assert owner(api, workflows.WORKFLOWS, "held") == LEAVING
    fires(api, None)

    # Back in the middle: the same child, with the same ID, and the schedule stays where it is.
    namespaces.label(LEAVING, "enabled")
    row = namespaces.ready(LEAVING)
    assert row["status"]["instanceID"] == LEAVING
    fires(api, None)
    namespaces.label(LEAVING, None)
    eventually(lambda: draining(namespaces, 1), seconds=60)

    new = workflows.submit(kubectl, LEAVING, workflows.one_step("new"))
    assert INSTANCE_ID not in (new["metadata"].get("labels") or {})
    workflows.succeeded(api, new)
    kubectl("patch", "workflow", "held", "-n", LEAVING, "--type=merge", "-p", '{"spec":{"suspend":null}}')
    held = workflows.succeeded(api, held)
    namespaces.gone(LEAVING)
    assert {owner(api, workflows.WORKFLOWS, each) for each in ("held", "lasting")} == {None}
    fires(api, None)
    for each in (done, held, *fired(api).values()):
        if each["metadata"]["name"] in {"held", "lasting"} or (each.get("status") or {}).get("phase") == "Succeeded":
            workflows.ran_once(api, each)
    minutes = sorted(fired(api))
    assert minutes == [minutes[0] + timedelta(minutes=index) for index in range(len(minutes))]

    # Its time to live is the other controller's to keep now.
    patch = '{"spec":{"ttlStrategy":{"secondsAfterCompletion":1}}}'
    kubectl("patch", "workflow", "lasting", "-n", LEAVING, "--type=merge", "-p", patch)
    eventually(lambda: _gone(api, "lasting"), seconds=90)


def _gone(api: Api, name: str) -> None:
    assert api.object(workflows.WORKFLOWS, LEAVING, name) is None
