"""The whole operator against the fake API server: what it hands back at an opt-out, and what it waits for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from metaoperator.core import names
from tests.fake import FakeApiServer

from .test_overlap import install
from .test_strays import operator as one_operator
from .world import ALONE, ARGO, Replica, World

CRON = "CronWorkflow"
LATE = ("True", "DrainTimeout")
DRAINING = ("True", "Draining")
WOULD_STOP = ("True", "SchedulesWouldStop")


@contextlib.asynccontextmanager
async def operator(world: World) -> AsyncIterator[Replica]:
    """Run one operator whose drains are timed by the loop's clock."""
    async with one_operator(world) as one:
        reconciler = one.operator._reconciler
        clock = reconciler.strays._wall_clock
        reconciler._publisher._wall_clock = reconciler._leaver._drainer._wall_clock = clock
        yield one


async def served(world: World, *, beside: bool = True) -> None:
    """Opt team-a in, beside a cluster-wide controller without an ID unless told otherwise."""
    if beside:
        install(world, config={})
    world.opt_in("team-a")
    await world.until(lambda: world.ready("team-a"))


def cron(world: World, name: str, policy: str = "Forbid", **spec: Any) -> None:
    """Create a CronWorkflow that the child serves."""
    meta = {"name": name, "namespace": "team-a", "labels": {names.INSTANCE_ID_LABEL: "team-a", "theirs": "yes"}}
    spec = {"schedules": ["* * * * *"], "concurrencyPolicy": policy, "workflowSpec": {}, **spec}
    world.server.create({"apiVersion": ARGO, "kind": CRON, "metadata": meta, "spec": spec})


def fired(world: World, name: str, by: str) -> None:
    """Let the child start a Workflow of a CronWorkflow."""
    world.workflow("team-a", name, **{names.CRON_WORKFLOW_LABEL: by, names.PHASE_LABEL: "Running"})


def finished(world: World, name: str) -> None:
    """Have a Workflow that has ended."""
    world.workflow("team-a", name, **{names.COMPLETED_LABEL: "true", names.PHASE_LABEL: "Succeeded"})


def end(world: World, name: str) -> None:
    """Let a Workflow end."""
    world.phase("team-a", name, "Succeeded", completed=True)


def label(world: World, kind: str, name: str) -> str | None:
    """Read the instance ID of an object."""
    live = world.server.get(kind, "team-a", name)
    assert live is not None
    return (live["metadata"].get("labels") or {}).get(names.INSTANCE_ID_LABEL)


def told(world: World) -> tuple[str, str]:
    """Read what is under way."""
    return world.condition("team-a", "Reconciling")


def gone(world: World) -> bool:
    """Tell whether nothing of ours is left."""
    return world.empty("team-a") and world.wfc("team-a") is None


def off(world: World) -> list[tuple[str, str | None]]:
    """List the writes to Argo's objects, in order."""
    written = [entry for entry in world.writes() if entry.resource in {"workflows", "cronworkflows"}]
    return [(entry.resource, entry.name) for entry in written if entry.code == 200]


async def test_all_that_carried_our_id_is_handed_back_in_order(world: World, server: FakeApiServer) -> None:
    """First the schedules, then, when the running one has ended, the finished ones; then the child stops and goes."""
    async with operator(world):
        await served(world)
        for name in ("a", "b"):
            cron(world, name)
        finished(world, "old")
        world.workflow("team-a", "running")
        foreign = world.server.create(
            {"apiVersion": ARGO, "kind": CRON, "metadata": {"name": "x", "namespace": "team-a",
             "labels": {names.INSTANCE_ID_LABEL: "theirs"}}, "spec": {}}
        )  # fmt: skip
        world.opt_out("team-a")
        await world.until(lambda: told(world) == DRAINING)
        await world.until(lambda: {label(world, CRON, name) for name in ("a", "b")} == {None})
        await asyncio.sleep(100)
        assert label(world, "Workflow", "old") == "team-a"
        assert world.whole("team-a")
        drain = world.status("team-a")["drain"]
        assert {key: drain[key] for key in ("waiting", "handedBack")} == {"waiting": 1, "handedBack": 2}
        end(world, "running")
        await world.until(lambda: gone(world))
        assert {label(world, "Workflow", name) for name in ("old", "running")} == {None}
        kept = server.get(CRON, "team-a", "a")
        assert kept is not None
        assert (kept["metadata"]["labels"], kept["spec"]["schedules"]) == ({"theirs": "yes"}, ["* * * * *"])
        assert server.get(CRON, "team-a", "x") == foreign
        assert off(world)[:2] == [("cronworkflows", "a"), ("cronworkflows", "b")]
        assert sorted(off(world)[2:]) == [("workflows", "old"), ("workflows", "running")]


async def test_the_child_is_stopped_before_it_is_removed(world: World, server: FakeApiServer) -> None:
    """At zero replicas everything else is still there, until the last pod is gone."""
    async with operator(world):
        await served(world)
        hold = {"metadata": {"finalizers": ["example.org/hold"]}}
        (pod,) = server.select("Pod", "team-a", f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY}")
        server.patch("Pod", "team-a", pod["metadata"]["name"], hold)
        world.opt_out("team-a")
        await world.until(lambda: told(world) == ("True", "Removing"))
        await asyncio.sleep(200)
        assert world.whole("team-a")
        deployment = server.get("Deployment", "team-a", "workflow-controller")
        assert deployment is not None
        assert deployment["spec"]["replicas"] == 0
        assert "example.org/hold" in world.message("team-a", "Reconciling")
        # What comes now still finds all that it needs.
        world.workflow("team-a", "late")
        server.patch("Pod", "team-a", pod["metadata"]["name"], {"metadata": {"finalizers": None}})
        await world.until(lambda: told(world) == DRAINING)
        await world.until(lambda: len(server.select("Pod", "team-a")) == 1)
        end(world, "late")
        await world.until(lambda: gone(world))


@pytest.mark.parametrize("policy", ["Forbid", "Replace", "Allow", ""])
async def test_a_cron_is_handed_back_only_with_none_of_its_children_running(world: World, policy: str) -> None:
    """Who lets several run at a time is free at once; the others when their last one has ended."""
    together = policy in {"Allow", ""}
    async with operator(world):
        await served(world)
        cron(world, "a", policy)
        cron(world, "idle", "Forbid")
        fired(world, "a-1", "a")
        world.opt_out("team-a")
        await world.until(lambda: label(world, CRON, "idle") is None)
        await asyncio.sleep(200)
        assert label(world, CRON, "a") == (None if together else "team-a")
        assert ("CronWorkflow a is handed back when" in world.message("team-a", "Reconciling")) is not together
        end(world, "a-1")
        await world.until(lambda: label(world, CRON, "a") is None, 10)
        await world.until(lambda: gone(world))


async def test_a_cron_that_fires_while_it_is_handed_back_keeps_its_child(world: World, server: FakeApiServer) -> None:
    """Between the look and the write it moved on: the write is refused, and the next look sees the child."""
    async with operator(world):
        await served(world)
        cron(world, "a")
        held = server.faults.hang(verb="patch", resource="cronworkflows")
        world.opt_out("team-a")
        await held.entered()
        fired(world, "a-1", "a")
        server.patch(CRON, "team-a", "a", {"metadata": {"annotations": {"fired": "yes"}}})
        held.release()
        await world.until(lambda: "CronWorkflow a is handed back when" in world.message("team-a", "Reconciling"))
        assert label(world, CRON, "a") == "team-a"
        end(world, "a-1")
        await world.until(lambda: gone(world))
        assert label(world, CRON, "a") is None


@pytest.mark.parametrize("how", ["suspended", "deleted", "agreed", "a successor", "stopped"])
async def test_schedules_that_would_stop_keep_the_child(world: World, how: str) -> None:
    """It is told, and waited for, until they are suspended, deleted or given up, or somebody else serves them."""
    async with operator(world):
        await served(world, beside=False)
        cron(world, "a", suspend=True)
        cron(world, "b")
        finished(world, "old")
        world.opt_out("team-a")
        await world.until(lambda: told(world) == WOULD_STOP)
        assert world.condition("team-a") == WOULD_STOP
        assert "CronWorkflow b" in world.message("team-a")
        assert world.events("SchedulesWouldStop")
        assert "since" not in world.status("team-a")["drain"]
        await asyncio.sleep(30)
        before = len(world.writes())
        await asyncio.sleep(4000)
        assert len(world.writes()) == before
        match how:
            case "suspended":
                world.server.patch(CRON, "team-a", "b", {"spec": {"suspend": True}})
            case "stopped":
                world.server.patch(CRON, "team-a", "b", {"status": {"phase": "Stopped"}})
            case "deleted":
                world.server.delete(CRON, "team-a", "b")
            case "agreed":
                world.spec("team-a", drain={"stopSchedules": True})
            case _:
                install(world, config={})
        await world.until(lambda: gone(world), 130)
        left = None if how == "a successor" else "team-a"
        assert label(world, CRON, "a") == left
        assert label(world, "Workflow", "old") == left


async def test_a_controller_that_cannot_be_understood_is_no_successor(world: World) -> None:
    """Its ConfigMap is not there: nothing is handed to what may serve nothing."""
    install(world)
    async with operator(world):
        await served(world, beside=False)
        cron(world, "a")
        world.opt_out("team-a")
        await world.until(lambda: told(world) == WOULD_STOP)
        assert label(world, CRON, "a") == "team-a"


async def test_a_successor_that_disappears_in_the_middle_gets_nothing_more(world: World, server: FakeApiServer) -> None:
    """What is not handed back yet stays with the child, which goes on; with one that comes, the rest goes too."""
    async with operator(world):
        await served(world)
        cron(world, "a")
        cron(world, "busy")
        fired(world, "busy-1", "busy")
        world.opt_out("team-a")
        await world.until(lambda: label(world, CRON, "a") is None)
        server.delete("Deployment", "argo", "argo")
        await asyncio.sleep(1)
        end(world, "busy-1")
        await world.until(lambda: told(world) == WOULD_STOP, 90)
        await asyncio.sleep(200)
        assert label(world, CRON, "busy") == label(world, "Workflow", "busy-1") == "team-a"
        assert world.whole("team-a")
        server.delete("ClusterRoleBinding", None, "argo-argo")
        server.delete("ClusterRole", None, "argo-argo")
        install(world, "argo2", config={})
        await world.until(lambda: gone(world), 130)
        assert label(world, CRON, "busy") is None


@pytest.mark.parametrize("then", ["Keep", "Delete"])
async def test_when_the_time_is_up_it_is_said_or_the_unfinished_are_deleted(
    world: World, server: FakeApiServer, then: str
) -> None:
    """Counted from the status; one that is held by its finalizer is waited for, the child being there."""
    async with operator(world):
        await served(world)
        world.spec("team-a", drain={"timeout": "30m", "then": then})
        for index in range(25):
            world.workflow("team-a", f"w-{index}")
        server.patch("Workflow", "team-a", "w-0", {"metadata": {"finalizers": ["workflows.argoproj.io/artifact-gc"]}})
        finished(world, "old")
        world.opt_out("team-a")
        await world.until(lambda: told(world) == DRAINING)
        await asyncio.sleep(1700)
        assert told(world) == DRAINING
        assert len(server.select("Workflow", "team-a")) == 26
        if then == "Keep":
            await world.until(lambda: told(world) == LATE, 110)
            await asyncio.sleep(4000)
            assert len(server.select("Workflow", "team-a")) == 26
            world.spec("team-a", drain={"then": "Delete"})
        await world.until(lambda: len(server.select("Workflow", "team-a")) == 2, 170)
        await asyncio.sleep(300)
        assert world.whole("team-a")
        deleted = server.audit.select(verb="delete", resource="workflows")
        assert len(deleted) == 25
        assert all((entry.body or {})["preconditions"]["uid"] for entry in deleted)
        server.patch("Workflow", "team-a", "w-0", {"metadata": {"finalizers": None}})
        await world.until(lambda: gone(world), 130)
        assert label(world, "Workflow", "old") is None


async def test_a_status_that_is_lost_counts_the_time_anew(world: World, server: FakeApiServer) -> None:
    """Deleted by hand in the middle: nothing is deleted early, and the drain goes on."""
    async with operator(world):
        await served(world)
        world.spec("team-a", drain={"timeout": "30m", "then": "Delete"})
        world.workflow("team-a", "running")
        world.opt_out("team-a")
        await world.until(lambda: told(world) == DRAINING)
        await asyncio.sleep(1500)
        server.patch(
            "WorkflowController", "team-a", "workflow-controller", {"status": None}, sub="status", manager="kubectl"
        )
        await world.until(lambda: told(world) == DRAINING)
        await asyncio.sleep(1500)
        assert label(world, "Workflow", "running") == "team-a"
        await world.until(lambda: gone(world), 500)
        assert server.get("Workflow", "team-a", "running") is None


async def test_opting_in_again_resumes_with_the_same_id_at_any_point(world: World, server: FakeApiServer) -> None:
    """The child is the same one, what it still serves goes on, and the status no longer speaks of a drain."""
    async with operator(world):
        await served(world)
        deployment = server.get("Deployment", "team-a", "workflow-controller")
        cron(world, "a")
        fired(world, "a-1", "a")
        finished(world, "old")
        world.opt_out("team-a")
        await world.until(lambda: told(world) == DRAINING)
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a") and "drain" not in world.status("team-a"))
        after = server.get("Deployment", "team-a", "workflow-controller")
        assert deployment is not None
        assert after is not None
        assert after["metadata"]["uid"] == deployment["metadata"]["uid"]
        assert label(world, CRON, "a") == label(world, "Workflow", "old") == "team-a"
        world.opt_out("team-a")
        end(world, "a-1")
        await world.until(lambda: server.get("Deployment", "team-a", "workflow-controller") is None or (
            server.get("Deployment", "team-a", "workflow-controller") or {})["spec"]["replicas"] == 0)  # fmt: skip
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a") and world.whole("team-a"), 130)
        assert world.status("team-a")["instanceID"] == "team-a"


@pytest.mark.parametrize("killed_after", range(12))
async def test_an_operator_that_is_killed_between_any_two_writes_goes_on(
    world: World, server: FakeApiServer, killed_after: int
) -> None:
    """The next one finds by itself how far it is, and nothing is written twice."""
    async with world.nature():
        first = world.start(timing=ALONE)
        await served(world)
        cron(world, "a")
        cron(world, "b")
        for index in range(3):
            finished(world, f"old-{index}")
        server.audit.clear()
        world.opt_out("team-a")
        await world.until(lambda: len(world.writes()) > killed_after or gone(world))
        await first.kill()
        world.start(timing=ALONE)
        await world.until(lambda: gone(world), 200)
        assert {label(world, CRON, each) for each in ("a", "b")} == {None}
        assert {label(world, "Workflow", f"old-{index}") for index in range(3)} == {None}
        assert len(off(world)) == len(set(off(world))) == 5


@pytest.mark.parametrize("code", [409, 429, 500])
@pytest.mark.parametrize("resource", ["workflows", "cronworkflows"])
async def test_errors_in_the_middle_are_tried_again(
    world: World, server: FakeApiServer, code: int, resource: str
) -> None:
    """Whatever the API server answers now and then, all is handed back in the end."""
    async with operator(world):
        await served(world)
        for index in range(30):
            cron(world, f"c-{index}")
            finished(world, f"w-{index}")
        for verb in ("patch", "list"):
            server.faults.answer(code, verb=verb, resource=resource, namespace="team-a", times=7)
        world.opt_out("team-a")
        await world.until(lambda: gone(world), 900)
        assert not server.select("Workflow", "team-a", names.INSTANCE_ID_LABEL)
        assert not server.select(CRON, "team-a", names.INSTANCE_ID_LABEL)


async def test_an_overloaded_api_server_is_not_asked_by_all_the_rest(world: World, server: FakeApiServer) -> None:
    """Ten writes at a time, and of a batch no more is sent after the first "too many requests"."""
    async with operator(world):
        await served(world)
        for index in range(200):
            finished(world, f"w-{index}")
        held = server.faults.hang(verb="patch", resource="workflows", times=10**6)
        world.opt_out("team-a")
        await asyncio.sleep(5)
        assert held.hits == 10
        held.release()
        server.faults.answer(429, retry_after=60, verb="patch", resource="workflows", seconds=20)
        await asyncio.sleep(25)
        assert 1 <= len([each for each in world.ours() if each.code == 429]) <= 10
        await world.until(lambda: gone(world), 300)


async def test_what_refuses_a_hand_back_is_told(world: World, server: FakeApiServer) -> None:
    """A policy says no: the sentence stands in the status, the child stays, and it is tried again."""
    async with operator(world):
        await served(world)
        finished(world, "old")
        fault = server.faults.answer(
            403, verb="patch", resource="workflows", times=10**6, message="admission webhook says no"
        )
        world.opt_out("team-a")
        await world.until(lambda: world.condition("team-a", "Stalled")[0] == "True")
        assert "admission webhook says no" in world.message("team-a", "Stalled")
        await asyncio.sleep(200)
        assert world.whole("team-a")
        fault.release()
        await world.until(lambda: gone(world), 130)


async def test_a_label_that_admission_puts_on_again_is_taken_off_again(world: World, server: FakeApiServer) -> None:
    """A moment after the opt-out the API server may still stamp updates of CronWorkflows."""
    async with operator(world):
        await served(world)
        cron(world, "a")
        back = 2

        def stamp(kind: Any, event: Any) -> None:
            nonlocal back
            mine = event.obj["metadata"].get("labels", {}).get(names.INSTANCE_ID_LABEL)
            if kind.kind == CRON and event.type == "MODIFIED" and mine is None and back:
                back -= 1
                server.patch(CRON, "team-a", "a", {"metadata": {"labels": {names.INSTANCE_ID_LABEL: "team-a"}}})

        server.store.listeners.append(stamp)
        world.opt_out("team-a")
        await world.until(lambda: gone(world), 200)
        assert back == 0
        assert label(world, CRON, "a") is None


async def test_ten_thousand_finished_workflows_are_handed_back_in_batches(world: World, server: FakeApiServer) -> None:
    """Each once, ten writes at a time, a page of 500 in memory; the status tells how far it is, seldom."""
    count = 10_000
    async with operator(world):
        await served(world)
        for index in range(count):
            finished(world, f"w-{index:05}")
        await asyncio.sleep(10)
        server.audit.clear()
        world.opt_out("team-a")
        await world.until(lambda: gone(world), 900)
        assert not server.select("Workflow", "team-a", names.INSTANCE_ID_LABEL)
        patched = [each for each in world.writes() if each.resource == "workflows"]
        assert len(patched) == count
        listed = server.audit.select(verb="list", resource="workflows", namespace="team-a")
        assert {each.query["limit"] for each in listed} == {"1", "500"}
        assert len(listed) < 200
        # Not even the answers hold a Workflow, which may be as large as a request.
        assert all("PartialObjectMetadata" in each.accept for each in (*patched, *listed))
        assert len([each for each in world.writes() if each.subresource == "status"]) < 30


async def test_new_workflows_are_told_who_runs_them(world: World, server: FakeApiServer) -> None:
    """One Event each, at the Workflow; those from before the opt-out, and those with our ID, get none."""
    async with operator(world):
        await served(world)
        world.workflow("team-a", "running")
        world.opt_out("team-a")
        await world.until(lambda: told(world) == DRAINING)
        await asyncio.sleep(5)
        for index in range(30):
            world.make("Workflow", "team-a", f"new-{index}", api=ARGO, spec={})
        world.workflow("team-a", "ours")

        def events() -> list[dict[str, Any]]:
            return [each for each in world.events("Draining") if each["regarding"]["kind"] == "Workflow"]

        await world.until(lambda: len(events()) == 30)
        assert "Deployment/argo/argo" in events()[0]["note"]
        server.delete("Deployment", "argo", "argo")
        await asyncio.sleep(120)
        world.make("Workflow", "team-a", "nobody", api=ARGO, spec={})
        await world.until(lambda: len(events()) == 31)
        (last,) = [each for each in events() if each["regarding"]["name"] == "nobody"]
        assert (last["type"], "waits for ever" in last["note"]) == ("Warning", True)
        await asyncio.sleep(300)
        assert len(events()) == 31
        assert all("series" not in each for each in events())


async def test_a_child_whose_label_and_row_vanished_while_the_operator_was_down_is_drained(
    world: World, server: FakeApiServer
) -> None:
    """With the terms of a row that nobody changed: schedules and finished Workflows are handed back."""
    async with world.nature():
        first = world.start()
        await served(world)
        await first.stop()
        cron(world, "a")
        fired(world, "a-1", "a")
        finished(world, "old")
        world.opt_out("team-a")
        server.delete("WorkflowController", "team-a", "workflow-controller")
        world.start()
        await asyncio.sleep(200)
        assert label(world, CRON, "a") == "team-a"
        assert world.whole("team-a")
        end(world, "a-1")
        await world.until(lambda: gone(world), 130)
        assert label(world, CRON, "a") is label(world, "Workflow", "old") is None


async def test_without_cronworkflows_an_opt_out_ends(world: World, server: FakeApiServer) -> None:
    """No such kind, no schedule; but a kind whose CRD is there is not taken for absent."""
    async with operator(world):
        await served(world)
        server.withdraw(CRON)
        world.opt_out("team-a")
        await world.until(lambda: gone(world), 200)


async def test_a_settled_fleet_lists_and_writes_nothing_of_argos(world: World) -> None:
    """CronWorkflows are watched as a whole, by their metadata; of single namespaces only who leaves is looked at."""
    async with operator(world):
        await served(world)
        cron(world, "a")
        await asyncio.sleep(4000)
        crons = [each for each in world.ours() if each.resource == "cronworkflows"]
        assert [each.verb for each in crons if each.verb != "watch"] == ["list"]
        assert {each.namespace for each in crons} == {None}
