"""What existed before anything stamped it runs once, under the child; what somebody serves stays where it is."""

from collections.abc import Iterator

import pytest

from tests.e2e import beside, workflows
from tests.e2e.local import INSTANCE_ID, Api, Kubectl, Object, eventually
from tests.e2e.namespaces import Namespaces
from tests.e2e.test_drain import CRONS, cron

SWEPT = "e2e-swept"
BESIDE = "e2e-not-swept"
BINDING = "manifests/fleet/instance-id-policybinding.yaml"


@pytest.fixture(scope="module")
def served(namespaces: Namespaces, kubectl: Kubectl) -> Iterator[None]:
    """Have two namespaces that nobody serves yet, and take away what was made."""
    namespaces.make(SWEPT, BESIDE)
    yield
    kubectl("apply", "--server-side", "-f", BINDING)
    beside.remove(namespaces, kubectl, SWEPT, BESIDE)


def owner(api: Api, namespace: str, name: str, resource: str = workflows.WORKFLOWS) -> str | None:
    """Read the instance ID of an object."""
    live = api.object(resource, namespace, name)
    assert live is not None, f"{name} is gone"
    return workflows.instance_id(live)


def counts(namespaces: Namespaces, namespace: str) -> dict[str, int]:
    """Read the counts of a row."""
    row = namespaces.row(namespace)
    assert row is not None
    found: dict[str, int] = row["status"].get("workflows", {})
    return found


def test_what_was_there_before_the_opt_in_runs_once(
    served: None, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """A Workflow and a schedule, with no label at all: nobody would ever have run them."""
    del served
    first = workflows.submit(kubectl, SWEPT, workflows.one_step("first"))
    schedule = cron("schedule")
    schedule["spec"] |= {"schedules": ["@every 5s"]}
    workflows.submit(kubectl, SWEPT, schedule)
    assert owner(api, SWEPT, "first") is None
    namespaces.label(SWEPT, "enabled")
    namespaces.ready(SWEPT)
    workflows.ran_once(api, workflows.succeeded(api, first))
    assert owner(api, SWEPT, "first") == owner(api, SWEPT, "schedule", CRONS) == SWEPT

    def fired() -> Object:
        query = "labelSelector=workflows.argoproj.io%2Fcron-workflow%3Dschedule"
        found = api.objects(workflows.WORKFLOWS, SWEPT, query=query)
        assert found, "nothing was fired"
        return found[0]

    eventually(fired, seconds=60)
    kubectl("delete", "cronworkflow", "schedule", "-n", SWEPT)
    eventually(lambda: _has(namespaces, SWEPT, swept=2))


def test_what_came_while_nothing_stamped_runs_once(
    served: None, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """The policy's binding was deleted: the operator puts the ID on what gets none."""
    del served
    namespaces.ready(SWEPT)
    kubectl("delete", "mutatingadmissionpolicybinding", "metaoperator-instance-id")

    def unstamped() -> Object:
        kubectl("delete", "workflow", "--ignore-not-found", "bare", "-n", SWEPT)
        made = workflows.submit(kubectl, SWEPT, workflows.one_step("bare"))
        assert INSTANCE_ID not in (made["metadata"].get("labels") or {}), "admission has not noticed yet"
        return made

    bare = eventually(unstamped, seconds=60)
    kubectl("apply", "--server-side", "-f", BINDING)
    workflows.ran_once(api, workflows.succeeded(api, bare))
    assert owner(api, SWEPT, "bare") == SWEPT


def test_what_a_living_controller_serves_stays_with_it(
    served: None, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """Beside a cluster-wide one without an ID nothing is taken, started or not; its Workflows run once, under it."""
    del served
    beside.install(namespaces, kubectl, api)
    beside.lets_executors_report(kubectl, BESIDE)
    held = workflows.submit(kubectl, BESIDE, workflows.one_step("held", suspended=True))
    workflows.submit(kubectl, BESIDE, workflows.one_step("theirs", kind="CronWorkflow"))
    namespaces.label(BESIDE, "enabled")
    namespaces.ready(BESIDE)
    new = workflows.submit(kubectl, BESIDE, workflows.one_step("new"))
    workflows.succeeded(api, new)
    eventually(lambda: _has(namespaces, BESIDE, unlabelled=1))
    kubectl("patch", "workflow", "held", "-n", BESIDE, "--type=merge", "-p", '{"spec":{"suspend":null}}')
    workflows.ran_once(api, workflows.succeeded(api, held))
    assert owner(api, BESIDE, "new") == BESIDE
    assert owner(api, BESIDE, "held") is owner(api, BESIDE, "theirs", CRONS) is None
    # With the other one gone, the schedule and what has ended are nobody's: they come too.
    kubectl("delete", "deployment", "workflow-controller", "-n", beside.ARGO)

    def home() -> None:
        assert owner(api, BESIDE, "theirs", CRONS) == owner(api, BESIDE, "held") == BESIDE

    eventually(home, seconds=90)


def _has(namespaces: Namespaces, namespace: str, **wanted: int) -> None:
    found = counts(namespaces, namespace)
    assert found.items() >= wanted.items(), found
