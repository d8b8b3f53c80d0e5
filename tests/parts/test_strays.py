"""Workflows of opted-in namespaces that nobody serves, or that nobody takes up: told once, counted, and forgotten."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import REGISTRY, generate_latest

from metaoperator.core import names
from tests.fake import FakeApiServer
from tests.fake.values import timestamp

from .test_overlap import install, seen
from .world import ARGO, Replica, World

LEADING = ("True", "Leading")


@contextlib.asynccontextmanager
async def operator(world: World, **more: Any) -> AsyncIterator[Replica]:
    """Run one operator in a cluster whose clocks go as the loop's does: the age of a Workflow is told by them."""
    loop = asyncio.get_running_loop()
    began, started = datetime.now(UTC), loop.time()

    def now() -> datetime:
        return began + timedelta(seconds=loop.time() - started)

    world.server.now = now
    world.server.store.clock = lambda: timestamp(now())
    async with world.operator(**more) as one:
        one.operator._reconciler.strays._wall_clock = now
        yield one


def submit(world: World, namespace: str, name: str, instance: str | None) -> None:
    """Submit a Workflow with this instance ID, or without any."""
    labels = {} if instance is None else {names.INSTANCE_ID_LABEL: instance}
    meta = {"name": name, "namespace": namespace, "labels": labels}
    world.server.create({"apiVersion": ARGO, "kind": "Workflow", "metadata": meta, "spec": {}})


def counts(world: World, namespace: str) -> dict[str, int]:
    """Read the counts of the status."""
    return world.status(namespace).get("workflows") or {}


def metric(name: str, namespace: str) -> str:
    """Read one line of /metrics; empty where there is none."""
    lines = generate_latest(REGISTRY).decode().splitlines()
    return next((each.split()[-1] for each in lines if each.startswith(f'{name}{{namespace="{namespace}"}}')), "")


async def test_unlabelled_ones_are_counted_and_it_is_told_who_serves_them(world: World) -> None:
    """They stay with the cluster-wide controller to their end; the count goes with the last of them."""
    install(world, config={})
    world.namespace("team-a")
    for name in ("one", "two"):
        submit(world, "team-a", name, None)
    async with operator(world):
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        assert counts(world, "team-a") == {"running": 0, "pending": 0, "unlabelled": 2}
        told = "unfinished Workflows without an instance ID are served by Deployment/argo/argo"
        assert told in world.message("team-a")
        world.phase("team-a", "one", "Running")
        world.phase("team-a", "two", "Succeeded", completed=True)
        await world.until(lambda: counts(world, "team-a").get("unlabelled") == 1)
        world.phase("team-a", "one", "Failed", completed=True)
        await world.until(lambda: counts(world, "team-a") == {"running": 0, "pending": 0})
        assert told not in world.message("team-a")
        assert world.events("WorkflowOrphaned") == []


async def test_ids_that_nobody_serves_are_told_once_for_each_workflow_and_forgotten(world: World) -> None:
    """Condition, Event, count and metric; all but the Event go when the last one is given to the child."""
    async with operator(world):
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        submit(world, "team-a", "lost", "elsewhere")
        submit(world, "team-a", "begun", None)
        world.phase("team-a", "begun", "Running")
        await world.until(lambda: counts(world, "team-a").get("orphaned") == 2, 90)
        assert world.condition("team-a", "OrphanedWorkflows") == ("True", "WorkflowOrphaned")
        assert "such as Workflow" in world.message("team-a", "OrphanedWorkflows")
        assert world.condition("team-a") == LEADING
        assert metric("metaoperator_workflows_orphaned", "team-a") == "2.0"
        events = {each["regarding"]["name"]: each for each in world.events("WorkflowOrphaned")}
        assert sorted(events) == ["begun", "lost"]
        assert events["lost"]["regarding"]["kind"] == "Workflow"
        assert "instance ID 'elsewhere'" in events["lost"]["note"]
        assert "controller-instanceid=team-a" in events["begun"]["note"]
        await world.proven()
        before = len(world.writes())
        await asyncio.sleep(3700)
        assert len(world.writes()) == before
        for name in ("lost", "begun"):
            patch = {"metadata": {"labels": {names.INSTANCE_ID_LABEL: "team-a"}}}
            world.server.patch("Workflow", "team-a", name, patch)
            world.phase("team-a", name, "Running")
        await world.until(lambda: counts(world, "team-a") == {"running": 2, "pending": 0})
        assert world.condition("team-a", "OrphanedWorkflows") == ("", "")
        assert metric("metaoperator_workflows_orphaned", "team-a") == ""


async def test_an_id_that_is_edited_on_a_started_workflow_is_told_and_left_to_people(world: World) -> None:
    """Its child has dropped it, locks and all. The operator tells whom it belonged to, and moves nothing."""
    async with operator(world):
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        submit(world, "team-a", "moved", "team-a")
        world.phase("team-a", "moved", "Running")
        await world.until(lambda: counts(world, "team-a") == {"running": 1, "pending": 0})
        mark = len(world.writes())
        label = {"metadata": {"labels": {names.INSTANCE_ID_LABEL: "shard-1"}}}
        world.server.patch("Workflow", "team-a", "moved", label)
        await world.until(lambda: counts(world, "team-a").get("orphaned") == 1, 90)
        told = world.message("team-a", "OrphanedWorkflows")
        assert "such as Workflow moved" in told
        (event,) = world.events("WorkflowOrphaned")
        assert "instance ID 'shard-1'" in event["note"]
        assert "it was started" in event["note"]
        assert {each.resource for each in world.writes()[mark:]} == {"workflowcontrollers", "events"}
        label["metadata"]["labels"][names.INSTANCE_ID_LABEL] = "team-a"
        world.server.patch("Workflow", "team-a", "moved", label)
        await world.until(lambda: counts(world, "team-a") == {"running": 1, "pending": 0})
        assert world.condition("team-a", "OrphanedWorkflows") == ("", "")


async def test_an_id_that_a_foreign_controller_serves_is_no_orphan_until_that_one_goes(world: World) -> None:
    """Foreign IDs are foreign, as long as anybody lives who serves them."""
    install(world, config={"instanceID": "elsewhere"})
    async with operator(world):
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        submit(world, "team-a", "theirs", "elsewhere")
        await asyncio.sleep(300)
        assert "orphaned" not in counts(world, "team-a")
        world.server.delete("Deployment", "argo", "argo")
        await world.until(lambda: counts(world, "team-a").get("orphaned") == 1, 90)


async def test_what_a_ready_child_does_not_take_up_is_told_after_the_threshold(
    world: World, server: FakeApiServer
) -> None:
    """Not before, not while the child itself is not ready, and no longer once it is taken up."""
    async with operator(world):
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        world.workflow("team-a", "slow")
        await asyncio.sleep(580)
        assert world.condition("team-a", "OrphanedWorkflows") == ("", "")
        await world.until(lambda: counts(world, "team-a").get("overdue") == 1, 60)
        assert world.condition("team-a", "OrphanedWorkflows") == ("True", "WorkflowPending")
        assert metric("metaoperator_workflows_overdue", "team-a") == "1.0"
        assert [each["regarding"]["name"] for each in world.events("WorkflowPending")] == ["slow"]
        world.phase("team-a", "slow", "Running")
        await world.until(lambda: counts(world, "team-a") == {"running": 1, "pending": 0})
        assert world.condition("team-a", "OrphanedWorkflows") == ("", "")
        world.controller.broken.add("team-b/workflow-controller")
        world.opt_in("team-b")
        await world.until(lambda: world.condition("team-b") == ("False", "PodFailing"))
        world.workflow("team-b", "waits")
        await asyncio.sleep(1200)
        assert world.condition("team-b", "OrphanedWorkflows") == ("", "")


async def test_one_that_is_overdue_stays_told_while_others_are_not_yet(world: World) -> None:
    """A look in between, for whatever reason, forgets nothing and tells nothing twice."""
    async with operator(world):
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        world.workflow("team-a", "first")
        await asyncio.sleep(300)
        world.workflow("team-a", "second")
        await world.until(lambda: counts(world, "team-a").get("overdue") == 1, 330)
        for number in range(5):
            world.workflow("team-a", f"quick-{number}", **{names.PHASE_LABEL: "Running"})
            await asyncio.sleep(20)
            assert counts(world, "team-a").get("overdue") == 1
            assert world.condition("team-a", "OrphanedWorkflows") == ("True", "WorkflowPending")
        await world.until(lambda: counts(world, "team-a").get("overdue") == 2, 330)
        told = world.events("WorkflowPending")
        assert sorted(each["regarding"]["name"] for each in told) == ["first", "second"]


async def test_the_threshold_is_a_setting(world: World) -> None:
    """As short as somebody wants it."""
    async with operator(world, pending_seconds=20.0):
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        world.workflow("team-a", "slow")
        await world.until(lambda: counts(world, "team-a").get("overdue") == 1, 60)


async def test_many_orphans_are_told_bit_by_bit(world: World) -> None:
    """A hundred at once are a hundred Events in the end, twenty at most in one look."""
    async with operator(world):
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        for number in range(100):
            submit(world, "team-a", f"w-{number:03}", "elsewhere")
        await world.until(lambda: counts(world, "team-a").get("orphaned") == 100, 120)
        assert len(world.events("WorkflowOrphaned")) <= 60
        await world.until(lambda: len(world.events("WorkflowOrphaned")) == 100, 300)
        before = len(world.writes())
        await asyncio.sleep(600)
        assert len(world.writes()) == before


async def test_an_opt_out_forgets_what_was_found(world: World) -> None:
    """Metrics of a namespace that is no longer ours would never go."""
    async with operator(world):
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        submit(world, "team-a", "lost", "elsewhere")
        await world.until(lambda: metric("metaoperator_workflows_orphaned", "team-a") == "1.0", 120)
        world.opt_out("team-a")
        await world.until(lambda: world.wfc("team-a") is None, 120)
        assert metric("metaoperator_workflows_orphaned", "team-a") == ""
