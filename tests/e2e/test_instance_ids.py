"""An instance ID that a person chose: stamped by admission, served by a real controller, not lost with its row."""

from collections.abc import Iterator

import pytest

from tests.e2e import workflows
from tests.e2e.local import CHECKOUT, INSTANCE_ID, Api, Kubectl, Object, eventually
from tests.e2e.namespaces import CHILD, Namespaces

SPACE = "e2e-pinned"
ID = "e2e-blue"
COMPONENT = CHECKOUT / "manifests" / "components" / "instance-id-pinned"
ROW: Object = {
    "apiVersion": "metaoperator.dev/v1alpha1",
    "kind": "WorkflowController",
    "metadata": {"name": CHILD, "namespace": SPACE},
    "spec": {"instanceID": ID},
}


@pytest.fixture
def pinned(namespaces: Namespaces, kubectl: Kubectl) -> Iterator[None]:
    """Install the policy that reads `spec.instanceID`, and opt a namespace in that has one."""
    files = [flag for name in ("policy.yaml", "policybinding.yaml") for flag in ("-f", str(COMPONENT / name))]
    kubectl("apply", "--server-side", *files)
    try:
        namespaces.make(SPACE)
        kubectl("create", "-f", "-", stdin=ROW)
        namespaces.label(SPACE, "enabled")
        yield
    finally:
        namespaces.remove(SPACE, wait=True)
        kubectl("delete", "--ignore-not-found", *files)


def _stamped(kubectl: Kubectl) -> None:
    """Check what admission puts on a Workflow: the API server takes a moment to load a policy."""
    asked = kubectl.json(
        "create", "--dry-run=server", "-n", SPACE, "-f", "-", stdin=workflows.one_step("asked", suspended=True)
    )
    assert asked["metadata"]["labels"][INSTANCE_ID] == ID


def test_a_pinned_id_is_stamped_served_and_survives_the_loss_of_its_row(
    pinned: None, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """The Lease has its name, a Workflow without any label runs, and a row that is deleted comes back with it."""
    del pinned
    row = namespaces.ready(SPACE)
    assert row["status"]["instanceID"] == ID
    assert api.object("coordination.k8s.io/v1/leases", SPACE, f"{CHILD}-{ID}") is not None
    eventually(lambda: _stamped(kubectl))
    first = workflows.submit(kubectl, SPACE, workflows.one_step("first"))
    assert first["metadata"]["labels"][INSTANCE_ID] == ID
    workflows.succeeded(api, first)

    child = api.object("apps/v1/deployments", SPACE, CHILD)
    kubectl("delete", "workflowcontroller", CHILD, "-n", SPACE)

    def back() -> None:
        live = namespaces.row(SPACE)
        assert live is not None
        assert live["metadata"]["uid"] != row["metadata"]["uid"]
        assert live["spec"]["instanceID"] == ID

    eventually(back)
    namespaces.ready(SPACE)
    now = api.object("apps/v1/deployments", SPACE, CHILD)
    assert child is not None
    assert now is not None
    assert now["spec"] == child["spec"]
    workflows.succeeded(api, workflows.submit(kubectl, SPACE, workflows.one_step("second")))
