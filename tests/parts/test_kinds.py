"""Template sets of one's own: kinds that may not be watched, and sets without a workload."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.fake import FakeApiServer

from .world import KINDS, World

ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: extra
rules: []
"""
MAP = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: only
data:
  a: b
"""


def sets(folder: Path) -> tuple[Path, ...]:
    """Write two sets: one that renders a kind which nothing else renders, and one without a Deployment."""
    rbac = "rbac.authorization.k8s.io/v1"
    for name, api, kind, text in (("roles", rbac, "Role", ROLE), ("bare", "v1", "ConfigMap", MAP)):
        home = folder / "sets" / name
        home.mkdir(parents=True)
        (home / "template.yaml").write_text(f"description: x\nkinds:\n  - {{apiVersion: {api}, kind: {kind}}}\n")
        (home / "values.yaml").write_text("{}\n")
        (home / "values.schema.json").write_text('{"type": "object"}\n')
        (home / "it.yaml.j2").write_text(text.lstrip())
    return (folder / "sets",)


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[str]:
    """List what was logged with a traceback."""
    return [each.getMessage() for each in caplog.records if each.exc_info]


def deletions(world: World) -> list[str]:
    """List what the operator deleted."""
    return [str(entry) for entry in world.writes() if entry.verb == "delete"]


@pytest.mark.parametrize("verb", ["list", ("list", "watch")], ids=str)
async def test_a_kind_that_may_not_be_listed_concerns_the_namespaces_of_its_set_only(
    world: World, server: FakeApiServer, caplog: pytest.LogCaptureFixture, verb: Any
) -> None:
    """403 for ever: KindUnseen with the API server's words for those who chose the set; served once it is granted."""
    caplog.set_level(logging.INFO)
    refused = server.faults.answer(403, message="roles is forbidden", verb=verb, resource="roles", times=10**6)
    world.template("roles", directory="roles")
    async with world.operator(templates=sets(world.folder)) as one:
        world.opt_in("team-a")
        world.opt_in("team-b", "roles")
        await world.until(lambda: world.ready("team-a"), 10)
        await world.until(lambda: world.condition("team-b") == ("False", "KindUnseen"), 10)
        await asyncio.sleep(300)
        assert world.condition("team-b", "Stalled") == ("True", "KindUnseen")
        assert "Role" in world.message("team-b")
        assert "roles is forbidden" in world.message("team-b")
        assert world.ready("team-a")
        assert not one.operator._unready()
        assert "may not watch" in caplog.text
        assert not tracebacks(caplog)
        assert server.select("Role", "team-b") == []
        world.opt_in("team-c")
        await world.until(lambda: world.ready("team-c"), 10)
        refused.release()
        await world.until(lambda: server.select("Role", "team-b"), 180)


async def test_a_namespace_that_says_kind_unseen_can_leave(world: World, server: FakeApiServer) -> None:
    """Nothing was begun in it: the row goes at the opt-out."""
    server.faults.answer(403, verb="list", resource="roles", times=10**6)
    world.template("roles", directory="roles")
    async with world.operator(templates=sets(world.folder)):
        world.opt_in("team-b", "roles")
        await world.until(lambda: world.condition("team-b") == ("False", "KindUnseen"), 20)
        world.opt_out("team-b")
        await world.until(lambda: world.wfc("team-b") is None, 30)


@pytest.mark.parametrize("resource", ["configmaps", "pods", "leases", "workflows"])
async def test_while_a_base_kind_may_not_be_listed_nothing_is_written(
    world: World, server: FakeApiServer, caplog: pytest.LogCaptureFixture, resource: str
) -> None:
    """What every namespace rests on cannot be seen: not one write, readiness names it, and a grant ends it."""
    caplog.set_level(logging.INFO)
    refused = server.faults.answer(403, message="forbidden", verb="list", resource=resource, times=10**6)
    async with world.operator() as one:
        world.opt_in("team-a")
        await asyncio.sleep(300)
        assert world.writes() == []
        (fault,) = one.operator._unready()
        assert resource.rstrip("s") in fault.lower()
        assert not tracebacks(caplog)
        refused.release()
        await world.until(lambda: world.ready("team-a"), 60)
        assert not one.operator._unready()


async def test_a_set_without_a_workload_waits_for_the_unfinished_workflows(world: World, server: FakeApiServer) -> None:
    """The label moved by mistake: the child is kept and says Draining until its last Workflow ended; then it goes."""
    world.template("bare", directory="bare")
    async with world.operator(templates=sets(world.folder)):
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        world.workflow("team-a", "running")
        await asyncio.sleep(20)
        server.audit.clear()
        world.label("team-a", "bare")
        await world.until(lambda: world.condition("team-a", "Reconciling") == ("True", "Draining"), 10)
        await asyncio.sleep(600)
        assert world.condition("team-a", "Reconciling") == ("True", "Draining")
        assert "Deployment/team-a/workflow-controller" in world.message("team-a", "Reconciling")
        assert deletions(world) == []
        assert server.get("ConfigMap", "team-a", "only") is not None
        world.phase("team-a", "running", "Succeeded", completed=True)
        await world.until(lambda: world.child("team-a") == [("ConfigMap", "only")], 130)
        await asyncio.sleep(130)
        assert world.condition("team-a", "Reconciling")[1] != "Draining"


async def test_moved_to_a_set_without_a_workload_and_back_keeps_the_child(world: World, server: FakeApiServer) -> None:
    """Put right while work runs: the child was never gone."""
    world.template("bare", directory="bare")
    async with world.operator(templates=sets(world.folder)):
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        world.workflow("team-a", "running")
        await asyncio.sleep(20)
        before = [live["metadata"]["uid"] for kind in KINDS for live in server.select(kind, "team-a")]
        world.label("team-a", "bare")
        await asyncio.sleep(60)
        world.label("team-a", "enabled")
        await world.until(lambda: world.whole("team-a") and world.ready("team-a"), 60)
        await asyncio.sleep(60)
        assert world.condition("team-a", "Reconciling")[0] == "False"
        after = [live["metadata"]["uid"] for kind in KINDS for live in server.select(kind, "team-a")]
        assert after == before


async def test_a_workflow_that_no_event_told_of_keeps_the_child_too(world: World, server: FakeApiServer) -> None:
    """Before a workload is pruned, zero unfinished Workflows is confirmed as it is at an opt-out."""
    world.template("bare", directory="bare")
    async with world.operator(templates=sets(world.folder)):
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(20)
        late = server.faults.drop_events(resource="workflows", times=10**6)
        world.workflow("team-a", "unseen")
        server.audit.clear()
        world.label("team-a", "bare")
        await world.until(lambda: server.get("ConfigMap", "team-a", "only") is not None)
        await asyncio.sleep(60)
        assert deletions(world) == []
        late.release()
        world.phase("team-a", "unseen", "Failed", completed=True)
        await world.until(lambda: world.child("team-a") == [("ConfigMap", "only")], 200)


async def test_a_workload_is_pruned_before_what_its_pods_rest_on(world: World, server: FakeApiServer) -> None:
    """A child that loses its ConfigMap or permissions dies in the middle of its work: they go after its last pod."""
    world.template("bare", directory="bare")
    async with world.operator(templates=sets(world.folder)):
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        pod = server.select("Pod", "team-a")[0]["metadata"]["name"]
        server.patch("Pod", "team-a", pod, {"metadata": {"finalizers": ["example.com/slow-kubelet"]}})
        world.label("team-a", "bare")
        await asyncio.sleep(60)
        assert {kind for kind, _ in world.child("team-a")} >= {"ConfigMap", "RoleBinding", "ServiceAccount"}
        assert server.get("ServiceAccount", "team-a", "workflow-controller") is not None
        server.patch("Pod", "team-a", pod, {"metadata": {"finalizers": None}})
        await world.until(lambda: world.child("team-a") == [("ConfigMap", "only")], 200)
