"""Which instance IDs the API server lets be written; that one stays once it is there: test_rows."""

import pytest

from metaoperator.core import names
from tests.e2e.local import Object

from .world import World

NS = "its-field"
PATH = f"/apis/{names.API_VERSION}/namespaces/{NS}/workflowcontrollers"
ROW = f"{PATH}/{names.WORKFLOW_CONTROLLER}"


def made(world: World, spec: Object) -> tuple[int, Object]:
    """Create the row anew."""
    world.namespace(NS)
    world.send("DELETE", ROW)
    body: Object = {
        "apiVersion": names.API_VERSION,
        "kind": "WorkflowController",
        "metadata": {"name": names.WORKFLOW_CONTROLLER},
        "spec": spec,
    }
    return world.send("POST", PATH, body)


@pytest.mark.parametrize("instance", ["Team-A", "team_a", "team.a", "a-", "-a", "", "a" * 64, "ä"])
def test_what_names_no_object_is_refused(world: World, instance: str) -> None:
    """It may be a legal label, but the child's Lease has it in its name."""
    code, answer = made(world, {"instanceID": instance})
    assert code == 422
    assert "spec.instanceID" in answer["message"]


@pytest.mark.parametrize("instance", ["a", "0123", "null", "a" * 63])
def test_what_names_one_is_taken(world: World, instance: str) -> None:
    """Up to 63 characters, which is what a label holds."""
    code, answer = made(world, {"instanceID": instance})
    assert code == 201, answer
