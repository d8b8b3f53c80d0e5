"""What the API server refuses of WorkflowControllers by their definition, whoever asks."""

from typing import Any

import pytest

from metaoperator.core import names
from tests.e2e.local import Object

from .world import World

HERE = "team-rows"
MERGE = "application/merge-patch+json"
PATH = f"/apis/{names.API_VERSION}/namespaces/{HERE}/workflowcontrollers"


@pytest.fixture
def row(world: World) -> Object:
    """Have one with a chosen instance ID, as it is while Workflows run that carry it."""
    world.namespace(HERE)
    world.pin(HERE, "theirs")
    code, found = world.send("GET", f"{PATH}/{names.WORKFLOW_CONTROLLER}")
    assert code == 200
    return found


@pytest.mark.parametrize(
    "spec",
    [{"instanceID": "other"}, {"instanceID": None}, None, {"instanceID": "other", "paused": True}],
    ids=["another", "none", "no spec", "another beside something else"],
)
def test_an_instance_id_is_never_changed(spec: Any, row: Object, world: World) -> None:
    """Started Workflows carry it; the cluster's administrator is told so, like everybody."""
    path = f"{PATH}/{names.WORKFLOW_CONTROLLER}"
    for who in ("", f"system:serviceaccount:{names.OPERATOR_NAMESPACE}:{names.OPERATOR_ACCOUNT}"):
        if who:
            world.kubectl("create", "clusterrolebinding", "rows", "--clusterrole=cluster-admin", f"--user={who}")
        try:
            code, answer = world.send("PATCH", f"{path}?dryRun=All", {"spec": spec}, kind=MERGE, who=who)
        finally:
            if who:
                world.kubectl("delete", "clusterrolebinding", "rows")
        assert code == 422, answer
        assert "spec.instanceID: Forbidden: instanceID may be set once" in answer["message"]
        assert "because started Workflows carry it" in answer["message"]
    replaced = {key: row[key] for key in ("apiVersion", "kind", "metadata")} | ({"spec": spec} if spec else {})
    code, answer = world.send("PUT", f"{path}?dryRun=All", replaced)
    assert code == 422, answer


def test_everything_beside_it_may_be(row: Object, world: World) -> None:
    """The ID stays, and so may it be set where there was none."""
    path = f"{PATH}/{names.WORKFLOW_CONTROLLER}?dryRun=All"
    code, answer = world.send("PATCH", path, {"spec": {"paused": True, "instanceID": "theirs"}}, kind=MERGE)
    assert (code, answer["spec"]["paused"]) == (200, True), answer
    assert row["spec"]["instanceID"] == "theirs"
    world.pin(HERE, "")
    code, answer = world.send("PATCH", path, {"spec": {"instanceID": "first"}}, kind=MERGE)
    assert (code, answer["spec"]["instanceID"]) == (200, "first"), answer
