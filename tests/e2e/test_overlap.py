"""A namespace opts in beside a cluster-wide workflow-controller without an ID that lives: two real controllers."""

import time
from collections.abc import Iterator

import pytest

from tests.e2e import beside, workflows
from tests.e2e.beside import ARGO, WHO, leads
from tests.e2e.local import INSTANCE_ID, Api, Kubectl, Object, condition, eventually, metaoperator
from tests.e2e.namespaces import CHILD, Namespaces

BESIDE = "e2e-beside"
REFUSED = "e2e-unstamped"
SAME = "e2e-same"
SCHEDULED = "e2e-scheduled"
POLICY = "manifests/fleet/instance-id-policy.yaml"


@pytest.fixture(scope="module")
def foreign(namespaces: Namespaces, kubectl: Kubectl, api: Api) -> Iterator[None]:
    """Run a cluster-wide controller without an ID, and give the pods of BESIDE what its own executors need."""
    namespaces.make(BESIDE, REFUSED, SAME)
    beside.lets_executors_report(kubectl, BESIDE)
    beside.install(namespaces, kubectl, api)
    yield
    kubectl("apply", "--server-side", "-f", POLICY)
    beside.remove(namespaces, kubectl, BESIDE, REFUSED, SAME, SCHEDULED)
    stamped(kubectl, "e2e-main")


def stamped(kubectl: Kubectl, namespace: str) -> None:
    """Wait until the API server stamps: it takes a moment to load a policy."""

    def check() -> None:
        manifest = workflows.one_step("probe")
        made = kubectl.json("create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=manifest)
        assert made["metadata"].get("labels", {}).get(INSTANCE_ID) == namespace

    eventually(check, seconds=60)


def told(namespaces: Namespaces, name: str, ready: str, reason: str) -> str:
    """Wait until a namespace tells this, and return its message."""

    def check() -> str:
        row = namespaces.row(name)
        assert row is not None, f"{name} has no WorkflowController"
        found = condition(row, "Ready")
        assert (found.get("status"), found.get("reason")) == (ready, reason), dict(found)
        return str(found["message"])

    return eventually(check, seconds=90)


def ran_once(api: Api, workflow: Object, owner: str | None) -> None:
    """Hold that it did, and that the controller with this ID made its pods."""
    pods = workflows.ran_once(api, workflow)
    assert {pod["metadata"]["labels"].get(INSTANCE_ID) for pod in pods} == {owner}


def test_what_was_there_stays_with_the_other_controller_and_what_is_new_goes_to_the_child(
    foreign: None, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """Each ran once, under the controller that status and `explain` name; nothing was handed over."""
    del foreign
    done = workflows.succeeded(api, workflows.submit(kubectl, BESIDE, workflows.one_step("before")))
    held = workflows.submit(kubectl, BESIDE, workflows.one_step("held", suspended=True))

    def taken_up() -> None:
        live = api.object(workflows.WORKFLOWS, BESIDE, "held")
        assert live is not None
        assert (live.get("status") or {}).get("phase"), "the cluster-wide controller has not seen it"

    eventually(taken_up)
    namespaces.label(BESIDE, "enabled")
    namespaces.ready(BESIDE)

    def counted() -> None:
        row = namespaces.row(BESIDE)
        assert row is not None
        assert row["status"]["workflows"].get("unlabelled") == 1
        assert WHO in condition(row, "Ready")["message"]

    new = workflows.submit(kubectl, BESIDE, workflows.one_step("after"))
    eventually(counted)
    after = workflows.succeeded(api, new)
    assert after["metadata"]["labels"][INSTANCE_ID] == BESIDE
    explained = metaoperator("explain", "workflow", f"{BESIDE}/held")
    assert explained.returncode == 1, explained.stderr
    assert WHO in explained.stdout
    assert "Suspended:" in explained.stdout

    kubectl("patch", "workflow", "held", "-n", BESIDE, "--type=merge", "-p", '{"spec":{"suspend":null}}')
    resumed = workflows.succeeded(api, held)
    ran_once(api, done, None)
    ran_once(api, resumed, None)
    ran_once(api, after, BESIDE)

    def gone() -> None:
        row = namespaces.row(BESIDE)
        assert row is not None
        assert "unlabelled" not in row["status"]["workflows"]
        assert WHO not in condition(row, "Ready")["message"]

    eventually(gone)


def test_a_schedule_that_stays_with_the_other_controller_keeps_what_it_fires(
    foreign: None, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """What it fires carries no ID either: its controller would forget it, and `Forbid` would forbid nothing."""
    del foreign
    namespaces.make(SCHEDULED)
    cron = workflows.one_step("theirs", kind="CronWorkflow")
    cron["spec"] |= {"schedules": ["@every 5s"], "concurrencyPolicy": "Forbid"}
    cron["spec"]["workflowSpec"]["suspend"] = True  # what is fired does not end
    workflows.submit(kubectl, SCHEDULED, cron)
    namespaces.label(SCHEDULED, "enabled")
    namespaces.ready(SCHEDULED)
    kubectl("patch", "cronworkflow", "theirs", "-n", SCHEDULED, "--type=merge", "-p", '{"spec":{"suspend":false}}')

    def fired() -> list[Object]:
        return api.objects(workflows.WORKFLOWS, SCHEDULED)

    def first() -> None:
        assert fired(), "nothing was fired"

    eventually(first)
    # Long enough for several schedules, and for the controller to compare what it holds, which it does every 10 s.
    until = time.monotonic() + 20
    while time.monotonic() < until:
        (only,) = fired()
        time.sleep(1)

    live = api.object("argoproj.io/v1alpha1/cronworkflows", SCHEDULED, "theirs")
    assert live is not None
    assert INSTANCE_ID not in (live["metadata"].get("labels") or {})
    assert INSTANCE_ID not in only["metadata"]["labels"]
    assert [each["name"] for each in live["status"]["active"]] == [only["metadata"]["name"]]
    kubectl("delete", "cronworkflows,workflows", "--all", "-n", SCHEDULED)


def test_without_the_policy_nothing_is_installed_beside_it(
    foreign: None, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """A child that is there stays as it is; with the policy back, all goes on by itself."""
    del foreign
    before = api.object("apps/v1/deployments", BESIDE, CHILD)
    assert before is not None
    kubectl("delete", "-f", POLICY)
    namespaces.label(REFUSED, "enabled")
    message = told(namespaces, REFUSED, "False", "Overlap")
    assert "MutatingAdmissionPolicy metaoperator-instance-id not there" in message
    assert WHO in message
    told(namespaces, BESIDE, "False", "Overlap")
    assert not any(namespaces.objects(REFUSED).values())
    after = api.object("apps/v1/deployments", BESIDE, CHILD)
    assert after is not None
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    kubectl("apply", "--server-side", "-f", POLICY)
    namespaces.ready(REFUSED)
    namespaces.ready(BESIDE)


def test_a_controller_with_the_namespaces_own_id_keeps_its_child_away(
    foreign: None, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """The ID is read from the ConfigMap when the controller restarts; without that controller the child comes."""
    del foreign
    patch = f'{{"data":{{"instanceID":"{SAME}"}}}}'
    kubectl("patch", "configmap", "workflow-controller-configmap", "-n", ARGO, "--type=merge", "-p", patch)
    kubectl("rollout", "restart", "deployment/workflow-controller", "-n", ARGO)
    leads(api, f"workflow-controller-{SAME}")
    namespaces.label(SAME, "enabled")
    message = told(namespaces, SAME, "False", "Overlap")
    assert f"instance ID {SAME}" in message
    assert WHO in message
    assert not any(namespaces.objects(SAME).values())
    kubectl("delete", "deployment", "workflow-controller", "-n", ARGO, "--wait=true")
    namespaces.ready(SAME)
