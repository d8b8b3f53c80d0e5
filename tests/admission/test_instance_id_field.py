"""`spec.instanceID` of a WorkflowController, as the API server itself lets it be written."""

import pytest

from metaoperator.core import names
from tests.e2e.local import Object

from .test_stamping import MERGE
from .world import World

NS = "its-field"
PATH = f"/apis/{names.API_VERSION}/namespaces/{NS}/workflowcontrollers"
ROW = f"{PATH}/{names.WORKFLOW_CONTROLLER}"
ONCE = "may be set once and then neither changed nor removed"


def made(world: World, spec: Object | None) -> tuple[int, Object]:
    """Create the row anew."""
    world.namespace(NS)
    world.send("DELETE", ROW)
    body: Object = {
        "apiVersion": names.API_VERSION,
        "kind": "WorkflowController",
        "metadata": {"name": names.WORKFLOW_CONTROLLER},
    }
    return world.send("POST", PATH, body if spec is None else body | {"spec": spec})


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


@pytest.mark.parametrize(
    "patch",
    [{"spec": {"instanceID": "another"}}, {"spec": {"instanceID": None}}, {"spec": None}, {"spec": {"instanceID": ""}}],
    ids=["changed", "removed", "with all of spec", "emptied"],
)
def test_once_written_it_stays(world: World, patch: Object) -> None:
    """R14: running work carries it. The answer says why, and other fields go on being written."""
    code, answer = made(world, {"instanceID": "first"})
    assert code == 201, answer
    code, answer = world.send("PATCH", ROW, patch, kind=MERGE)
    assert code in {403, 422}, answer
    assert ONCE in answer["message"] or "spec.instanceID" in answer["message"]
    code, answer = world.send("PATCH", ROW, {"spec": {"paused": True}}, kind=MERGE)
    assert code == 200, answer
    assert answer["spec"] == {"instanceID": "first", "paused": True}


@pytest.mark.parametrize("spec", [None, {}, {"paused": False}])
def test_it_may_be_written_later(world: World, spec: Object | None) -> None:
    """As the operator does, in an object that somebody made before."""
    code, answer = made(world, spec)
    assert code == 201, answer
    code, answer = world.send("PATCH", ROW, {"spec": {"instanceID": "later"}}, kind=MERGE)
    assert code == 200, answer
