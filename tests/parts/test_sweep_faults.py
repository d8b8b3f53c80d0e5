"""What people and clusters do to a sweep: none of it moves what is served, delays others, or goes unsaid."""

import asyncio
import logging

import pytest

from metaoperator.core import names
from tests.fake import FakeApiServer

from .test_artifact_gc import gc_pod
from .test_artifact_gc import label as pod_label
from .test_drain import operator, served
from .test_instance_ids import pinned
from .test_overlap import IMAGE, install, scale
from .test_strays import counts, submit
from .test_sweep import CRON, ID, cron, fired, label, swept
from .world import World


def row(world: World, instance: str) -> None:
    """Write a WorkflowController by hand, with an ID of one's own."""
    meta = {"name": "workflow-controller", "namespace": "team-a"}
    spec = {"instanceID": instance}
    body = {"apiVersion": names.API_VERSION, "kind": "WorkflowController", "metadata": meta, "spec": spec}
    world.server.create(body, manager="kubectl")


async def test_a_row_that_says_another_id_than_the_child_moves_nothing(world: World) -> None:
    """The child that lives serves its own ID, whatever the new row says: nothing is taken from it."""
    pinned(world)
    async with operator(world):
        await served(world, beside=False)
        world.server.delete("WorkflowController", "team-a", "workflow-controller")
        row(world, "mine")
        await world.until(lambda: world.condition("team-a") == ("False", "InstanceIDChanged"))
        cron(world, "nightly", instance="team-a")
        world.workflow("team-a", "mine-already")
        submit(world, "team-a", "none", None)
        # A Lease that somebody made, and that names the child's pod.
        (pod,) = world.server.select("Pod", "team-a")
        world.make(
            "Lease", "team-a", "workflow-controller-mine", api="coordination.k8s.io/v1",
            spec={"holderIdentity": pod["metadata"]["name"], "leaseDurationSeconds": 10**6},
        )  # fmt: skip
        await asyncio.sleep(200)
        assert (label(world, "nightly", CRON), label(world, "mine-already")) == ("team-a", "team-a")
        assert swept(world) == [("workflows", "none", 200)]
        assert label(world, "none") == "team-a"
        told = [each["note"] for each in world.events() if each["reason"].endswith("Orphaned")]
        assert not any("mine-already" in each for each in told), told


@pytest.mark.parametrize("flaps", ["a Deployment", "its account too"])
async def test_a_tenant_whose_controller_comes_and_goes_delays_no_sweep(world: World, flaps: str) -> None:
    """It may not even list Workflows elsewhere: what it does in its own namespace is nobody's news."""
    world.namespace("team-a")
    world.namespace("tenant")
    for number in range(300):
        submit(world, "team-a", f"w-{number:03}", None)
    cron(world, "stays", workflowMetadata={"labels": {ID: "other"}})
    container = {"name": "c", "image": IMAGE, "command": ["workflow-controller"]}
    world.server.faults.slow(0.3, verb="list", resource="pods", namespace="team-a", times=10**6)

    async def flap() -> None:
        for number in range(10**6):
            account = f"sa-{number}" if flaps != "a Deployment" else "sa"
            pod = {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"serviceAccountName": account, "containers": [container]},
            }
            spec = {"replicas": number % 2, "selector": {"matchLabels": {"app": "x"}}, "template": pod}
            if number:
                world.server.patch("Deployment", "tenant", "fake", {"spec": spec}, manager="tenant")
            else:
                world.make("Deployment", "tenant", "fake", api="apps/v1", spec=spec)
            await asyncio.sleep(0.1)

    task = asyncio.create_task(flap())
    try:
        async with operator(world):
            await served(world, beside=False)
            await world.until(lambda: counts(world, "team-a").get("swept") == 300, 60)
            await asyncio.sleep(60)
            before = len([each for each in world.ours() if each.name == "stays"])
            await asyncio.sleep(120)
            assert len([each for each in world.ours() if each.name == "stays"]) == before
    finally:
        task.cancel()


async def test_schedules_as_only_minimal_crds_let_them_through(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """No map where one is expected: one of them keeps nobody back, and none is a traceback."""
    world.namespace("team-a")
    odd = (None, "text", [], 7, {"labels": None}, {"labels": "text"}, {"labels": [ID]}, {"labelsFrom": 7})
    for number, each in enumerate(odd):
        cron(world, f"at-once-{number}", workflowMetadata=each)
        cron(world, f"later-{number}", workflowSpec={"workflowMetadata": each})
    for number, each in enumerate((None, "text", [1])):
        cron(world, f"spec-{number}", workflowSpec=each)
    cron(world, "computed", workflowSpec={"workflowMetadata": {"labelsFrom": {ID: {"expression": "'x'"}}}})
    submit(world, "team-a", "w", None)
    caplog.set_level(logging.WARNING)
    async with operator(world):
        await served(world, beside=False)
        await world.until(lambda: label(world, "w") == "team-a", 30)
        crons = [each["metadata"]["name"] for each in world.server.select(CRON, "team-a")]
        await world.until(lambda: {label(world, each, CRON) for each in crons if each != "computed"} == {"team-a"}, 30)
        await asyncio.sleep(90)
        assert label(world, "computed", CRON) is None
        assert [each["regarding"]["name"] for each in world.events("ScheduleOrphaned")] == ["computed"]
    assert not [each for each in caplog.records if each.exc_info]


async def test_a_controllers_namesake_does_not_keep_it_alive(world: World, server: FakeApiServer) -> None:
    """`argo` was scaled to 0 for good; `argo-green` beside it has another ID, and its pods are not those of `argo`."""
    install(world, config={})
    labels = {"app": "green"}
    container = {"name": "c", "image": IMAGE, "command": ["workflow-controller"], "args": ["--configmap=green"]}
    pod = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": "argo", "containers": [container]}}
    world.make("ConfigMap", "argo", "green", data={"config": "instanceID: green\n"})
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    world.make("Deployment", "argo", "argo-green", api="apps/v1", spec=spec)
    world.namespace("team-a")
    submit(world, "team-a", "w", None)
    async with operator(world):
        await served(world, beside=False)
        await asyncio.sleep(10)
        scale(world, "argo", 0)
        await world.until(lambda: label(world, "w") == "team-a", 120)


async def test_a_controller_that_was_stopped_a_moment_before_the_operator_began_still_works(
    world: World, server: FakeApiServer
) -> None:
    """Without election nothing but its pod tells: the pod goes on to its last moment."""
    install(world, config={})
    world.namespace("team-a")
    submit(world, "team-a", "w", None)
    async with operator(world) as one:
        await served(world, beside=False)
        (pod,) = server.select("Pod", "argo")
        server.patch("Pod", "argo", pod["metadata"]["name"], {"metadata": {"finalizers": ["example.org/hold"]}})
        await one.stop()
        scale(world, "argo", 0)
        await asyncio.sleep(30)
        world.start()
        await asyncio.sleep(120)
        assert label(world, "w") is None
        server.patch("Pod", "argo", pod["metadata"]["name"], {"metadata": {"finalizers": None}})
        await world.until(lambda: label(world, "w") == "team-a", 120)


async def test_pods_that_cannot_be_labelled_keep_no_workflow_back(world: World, server: FakeApiServer) -> None:
    """A webhook for pods that is down answers 500 for as long as it takes: the sweep goes on beside it."""
    down = server.faults.answer(500, message="failed calling webhook", verb="patch", resource="pods", times=10**6)
    async with operator(world):
        await served(world, beside=False)
        gc_pod(world, "gc")
        await asyncio.sleep(60)
        submit(world, "team-a", "w", None)
        await world.until(lambda: label(world, "w") == "team-a", 30)
        down.release()
        await world.until(lambda: pod_label(world, "gc") == "team-a", 400)


async def test_one_object_that_only_ever_fails_keeps_no_other_back_and_is_told(
    world: World, server: FakeApiServer
) -> None:
    """Such as one over which a webhook falls: 500, each time; it comes first in every pass."""
    world.namespace("team-a")
    for number in range(400):
        submit(world, "team-a", f"w-{number:03}", None)
    server.faults.answer(
        500, message="failed calling webhook", verb="patch", resource="workflows", name="w-000", times=10**6
    )
    async with operator(world):
        await served(world, beside=False)
        await world.until(lambda: counts(world, "team-a").get("swept") == 399, 120)
        await world.until(lambda: world.condition("team-a", "OrphanedWorkflows")[0] == "True", 300)
        assert "failed calling webhook" in world.message("team-a", "OrphanedWorkflows")


async def test_a_schedule_whose_workflow_has_somebody_elses_id_waits_for_it(world: World) -> None:
    """The child would drop it from the schedule's status, and start a second one beside it."""
    world.namespace("team-a")
    cron(world, "a")
    fired(world, "a-1", "a", **{ID: "elsewhere", names.PHASE_LABEL: "Running"})
    async with operator(world):
        await served(world, beside=False)
        await asyncio.sleep(120)
        assert label(world, "a", CRON) is None
        assert [each["regarding"]["name"] for each in world.events("ScheduleOrphaned")] == ["a"]
        world.phase("team-a", "a-1", "Succeeded", completed=True)
        await world.until(lambda: label(world, "a", CRON) == "team-a", 60)
