"""What the operator hands back and deletes passes its fence on a real API server, and nothing beside it does."""

import asyncio
from typing import Any

import pytest

from metaoperator.cluster import Cluster
from metaoperator.core import names
from metaoperator.core.errors import Conflict
from metaoperator.core.model import CRON_WORKFLOW, WORKFLOW, Ref
from metaoperator.gate import Gate
from tests.cluster.alone import ApiServer
from tests.e2e.local import INSTANCE_ID, Object
from tests.e2e.workflows import one_step

from .test_components import OPERATOR
from .test_stamping import MERGE
from .world import World, id_of

LEFT = "left"
OFF: Object = {"metadata": {"labels": {INSTANCE_ID: None}}}


@pytest.fixture(scope="module")
def left(world: World) -> World:
    """Have a namespace that has opted out, with everything in it, and an operator that holds every right."""
    world.have()
    world.namespace(LEFT, None)
    role = ["create", "clusterrolebinding", "operator-drains", "--clusterrole=cluster-admin"]
    world.kubectl(*role, "--serviceaccount=metaoperator:metaoperator")
    for name, labels in {
        "unfinished": {INSTANCE_ID: LEFT},
        "finished": {INSTANCE_ID: LEFT, names.COMPLETED_LABEL: "true"},
        "fleets": {INSTANCE_ID: names.FLEET_INSTANCE_ID},
        "others": {INSTANCE_ID: "other"},
        "bare": {},
    }.items():
        world.create(LEFT, one_step(name, labels=labels))
    world.create(LEFT, one_step("schedule", kind="CronWorkflow", labels={INSTANCE_ID: LEFT}))
    return world


ACTS: dict[str, tuple[str, str, str, Any, bool]] = {
    "it takes our label off an unfinished one": ("PATCH", "Workflow", "unfinished", OFF, True),
    "off a finished one": ("PATCH", "Workflow", "finished", OFF, True),
    "off one with the fleet's": ("PATCH", "Workflow", "fleets", OFF, True),
    "off a schedule": ("PATCH", "CronWorkflow", "schedule", OFF, True),
    "not off one of another controller": ("PATCH", "Workflow", "others", OFF, False),
    "and suspends nothing with it": ("PATCH", "CronWorkflow", "schedule", OFF | {"spec": {"suspend": False}}, False),
    "it puts none on": ("PATCH", "Workflow", "bare", {"metadata": {"labels": {INSTANCE_ID: LEFT}}}, False),
    "it deletes an unfinished one": ("DELETE", "Workflow", "unfinished", None, True),
    "also with the fleet's": ("DELETE", "Workflow", "fleets", None, True),
    "but no finished one": ("DELETE", "Workflow", "finished", None, False),
    "nor one of another controller": ("DELETE", "Workflow", "others", None, False),
    "nor one without a label": ("DELETE", "Workflow", "bare", None, False),
    "nor all at once": ("DELETE", "Workflow", "", None, False),
    "nor a schedule": ("DELETE", "CronWorkflow", "schedule", None, False),
}


@pytest.mark.parametrize("what", ACTS)
def test_the_fence_lets_the_drain_pass_and_nothing_else(what: str, left: World) -> None:
    """Tried as the operator's account, which holds every right, as dry-runs."""
    method, kind, name, body, passes = ACTS[what]
    code, answer = left.send(method, left.path(kind, LEFT, name) + "?dryRun=All", body, who=OPERATOR, kind=MERGE)
    assert code == (200 if passes else 403), answer
    if not passes:
        assert "ValidatingAdmissionPolicy 'metaoperator-operator-workflows'" in answer["message"]
        assert "resulted in error" not in answer["message"]


def test_a_pinned_id_may_be_taken_off_and_its_work_deleted_with_the_component(shipped: World) -> None:
    """It might be any: the component opens the fence for all of them, and for nothing that carries none."""
    shipped.namespace(LEFT, None)
    shipped.have("instance-id-pinned")
    for method, name, body, wanted in (
        ("PATCH", "others", OFF, 200),
        ("DELETE", "others", None, 200),
        ("DELETE", "bare", None, 403),
    ):
        path = f"{shipped.path('Workflow', LEFT, name)}?dryRun=All"
        code, answer = shipped.send(method, path, body, who=OPERATOR, kind=MERGE)
        assert code == wanted, answer


async def test_hands_back_by_metadata_alone_and_only_the_version_that_was_seen(
    left: World, api_server: ApiServer
) -> None:
    """The API server answers a patch with metadata only, and refuses one of an older version, or of another object."""
    del left
    cluster = Cluster(kubeconfig=str(api_server.kubeconfig), gate=Gate())
    await cluster.connect()
    cluster.gate.open_until(asyncio.get_running_loop().time() + 60)
    try:
        for kind, name in ((WORKFLOW, "finished"), (CRON_WORKFLOW, "schedule")):
            ref = Ref(kind, LEFT, name)
            live = await cluster.get(ref)
            assert live is not None
            guard = {key: live["metadata"][key] for key in ("uid", "resourceVersion")}
            for wrong in ({"resourceVersion": "1"}, {"resourceVersion": "1", "uid": "another"}):
                with pytest.raises(Conflict):
                    await cluster.merge(ref, {"metadata": guard | wrong | OFF["metadata"]}, metadata_only=True)
            answer = await cluster.merge(ref, {"metadata": guard | OFF["metadata"]}, metadata_only=True)
            assert (answer["kind"], id_of(dict(answer)), "spec" in answer) == ("PartialObjectMetadata", None, False)
    finally:
        await cluster.close()


def test_a_timeout_is_a_duration_and_nothing_else(left: World) -> None:
    """The CRD takes what Terms read, and refuses the rest."""
    path = f"/apis/{names.API_VERSION}/namespaces/{LEFT}/workflowcontrollers?dryRun=All"
    for drain, wanted in (
        ({"timeout": "30m"}, 201),
        ({"timeout": "1h30m5s", "then": "Delete", "stopSchedules": True}, 201),
        ({}, 201),
        ({"timeout": ""}, 422),
        ({"timeout": "30"}, 422),
        ({"timeout": "30m1h"}, 422),
        ({"timeout": "half an hour"}, 422),
        ({"then": "Forget"}, 422),
        ({"stopSchedules": "yes"}, 422),
    ):
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "WorkflowController",
            "metadata": {"name": names.WORKFLOW_CONTROLLER},
            "spec": {"drain": drain},
        }
        code, answer = left.send("POST", path, body)
        assert code == wanted, (drain, answer.get("message"))


def test_how_a_namespace_leaves_is_the_platforms_to_say(left: World) -> None:
    """Whoever may set values does not get Workflows deleted by it, nor schedules stopped."""
    name = names.WORKFLOW_CONTROLLER
    rows = f"/apis/{names.API_VERSION}/namespaces/{LEFT}/workflowcontrollers"
    body = {"apiVersion": names.API_VERSION, "kind": "WorkflowController", "metadata": {"name": name}}
    assert left.send("POST", rows, body)[0] == 201
    left.kubectl("create", "rolebinding", "values", "-n", LEFT, "--clusterrole=metaoperator-values", "--user=values")
    for spec, wanted in (
        ({"values": {"parallelism": 3}}, 200),
        ({"drain": {"timeout": "0s", "then": "Delete"}}, 403),
        ({"drain": {"stopSchedules": True}}, 403),
    ):
        code, answer = left.send("PATCH", f"{rows}/{name}?dryRun=All", {"spec": spec}, who="values", kind=MERGE)
        assert code == wanted, answer
        assert code == 200 or "spec.drain: belongs to the platform" in answer["message"]
