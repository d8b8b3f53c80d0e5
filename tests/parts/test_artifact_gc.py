"""Pods that delete artifacts get the label without which their Workflows keep a finalizer for ever."""

import asyncio
from typing import Any

import pytest

from metaoperator.core import names
from tests.fake import FakeApiServer

from .world import World

MADE = {
    names.COMPONENT_LABEL: names.ARTIFACT_GC,
    names.WORKFLOW_LABEL: "w",
    names.COMPLETED_LABEL: "false",
    names.MISPLACED_INSTANCE_ID_LABEL: "team-a",
}
"""As a controller with an instance ID labels them."""


def gc_pod(world: World, name: str, namespace: str = "team-a", *, without: str = "", **labels: str) -> None:
    """Have one that has deleted the artifacts of a Workflow."""
    kept = {key: value for key, value in {**MADE, **labels}.items() if key != without}
    meta = {"name": name, "namespace": namespace, "labels": kept, "annotations": {"theirs": "yes"}}
    spec = {"containers": [{"name": "main", "image": "argoexec"}]}
    world.server.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, manager="argo")


def label(world: World, name: str, namespace: str = "team-a") -> str | None:
    """Read the instance ID that Argo looks for."""
    live = world.server.get("Pod", namespace, name)
    assert live is not None
    found: str | None = live["metadata"]["labels"].get(names.INSTANCE_ID_LABEL)
    return found


def patched(world: World) -> list[Any]:
    """List the writes to pods."""
    return [entry for entry in world.writes() if entry.resource == "pods"]


async def served(world: World) -> None:
    """Opt team-a in."""
    world.opt_in("team-a")
    await world.until(lambda: world.ready("team-a"))


@pytest.mark.parametrize("when", ["before the operator runs", "while it runs"])
async def test_a_pod_that_lacks_the_label_gets_it_and_nothing_else(
    world: World, server: FakeApiServer, when: str
) -> None:
    """One write each, also for those that ended long ago; afterwards nothing is left to do."""
    async with world.operator() as one:
        await served(world)
        if when == "before the operator runs":
            await one.stop()
        gc_pod(world, "gc")
        if when == "before the operator runs":
            world.start()
        await world.until(lambda: label(world, "gc") == "team-a", 10)
    live = server.get("Pod", "team-a", "gc")
    assert live is not None
    assert live["metadata"]["labels"] == MADE | {names.INSTANCE_ID_LABEL: "team-a"}
    assert live["metadata"]["annotations"] == {"theirs": "yes"}
    assert len(patched(world)) == 1


async def test_only_pods_of_the_child_that_delete_artifacts_are_touched(world: World) -> None:
    """Not those of another controller, not those without an ID, not Workflows' own, and none where nobody opted in."""
    world.namespace("team-b")
    async with world.operator():
        await served(world)
        gc_pod(world, "others", **{names.MISPLACED_INSTANCE_ID_LABEL: "elsewhere"})
        gc_pod(world, "bare", without=names.MISPLACED_INSTANCE_ID_LABEL)
        gc_pod(world, "step", without=names.COMPONENT_LABEL)
        gc_pod(world, "theirs", "team-b")
        gc_pod(world, "last")
        await world.until(lambda: label(world, "last") == "team-a", 5)
        await asyncio.sleep(700)
        assert [label(world, each) for each in ("others", "bare", "step")] == [None, None, None]
        assert label(world, "theirs", "team-b") is None
        assert len(patched(world)) == 1


async def test_a_namespace_that_drains_is_helped_to_its_end(world: World) -> None:
    """A Workflow that is being deleted and waits for its pod would keep the child for ever."""
    async with world.operator():
        await served(world)
        world.workflow("team-a", "running")
        world.opt_out("team-a")
        await world.until(lambda: world.condition("team-a", "Reconciling") == ("True", "Draining"))
        gc_pod(world, "gc")
        await world.until(lambda: label(world, "gc") == "team-a", 5)


async def test_a_refusal_is_told_once_at_the_pod_and_tried_again_seldom(world: World, server: FakeApiServer) -> None:
    """Whatever refuses it may be put right: the others get their label meanwhile."""
    async with world.operator():
        await served(world)
        server.faults.answer(403, verb="patch", resource="pods", name="gc", times=3)
        gc_pod(world, "gc")
        gc_pod(world, "other")
        await world.until(lambda: label(world, "other") == "team-a", 5)
        await world.until(lambda: label(world, "gc") == "team-a", 1200)
        (event,) = [each for each in world.events() if each["regarding"]["kind"] == "Pod"]
        assert event["regarding"]["name"] == "gc"
        assert "keeps the finalizer workflows.argoproj.io/artifact-gc" in event["note"]
        assert len(patched(world)) == 5
