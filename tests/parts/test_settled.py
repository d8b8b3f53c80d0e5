"""The whole operator against the fake API server: what it costs when nothing changes, and when little does."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from metaoperator.core import plan
from metaoperator.mirror import COMPARE_SECONDS
from tests.fake import FakeApiServer

from .test_brake import confirm, held
from .world import World

SPACES = [f"team-{i}" for i in range(5)]


async def test_a_settled_fleet_is_neither_written_nor_read(world: World, server: FakeApiServer) -> None:
    """In more than an hour: no write, and no read but the compares, of names and versions, every ten minutes."""
    async with world.operator():
        for each in SPACES:
            world.opt_in(each)
        await world.until(lambda: world.ready(*SPACES))
        await world.proven()
        server.audit.clear()
        seconds = 4000
        await asyncio.sleep(seconds)
        assert world.ready(*SPACES)
    assert world.writes() == []
    reads = [entry for entry in world.ours() if entry.verb != "watch"]
    compared = {("list", each) for each in ("namespaces", "workflowcontrollers", "controllertemplates")}
    assert {(entry.verb, entry.resource) for entry in reads} == compared
    assert all("as=PartialObjectMetadata" in entry.accept for entry in reads)
    assert len(reads) <= 3 * (seconds // (COMPARE_SECONDS * 0.9) + 1)


async def test_a_follower_watches_and_does_nothing_else(world: World, server: FakeApiServer) -> None:
    """While the leader works, the other replica neither reads nor writes: it looks at the Lease."""
    async with world.nature():
        first = world.start("first")
        await world.until(lambda: first.leading)
        second = world.start("second")
        await world.until(second.operator._kopf_ready.is_set)
        await asyncio.sleep(5)
        second.operator._cluster._send = _counted(second.operator._cluster._send)  # type: ignore[method-assign]
        for each in SPACES:
            world.opt_in(each)
        await world.until(lambda: world.ready(*SPACES))
        await world.proven()
        sent = second.operator._cluster._send.sent  # type: ignore[attr-defined]
    # Whether the cluster has PodMonitors by now is asked every two minutes.
    rest = {path for path in sent if "/leases/metaoperator" not in path and "watch" not in path}
    assert rest <= {"GET /apis/monitoring.coreos.com/v1"}


async def test_a_restart_on_a_settled_fleet_writes_nothing(world: World, server: FakeApiServer) -> None:
    """A new process finds everything as it should be, and says nothing."""
    async with world.nature():
        first = world.start()
        for each in SPACES:
            world.opt_in(each)
        await world.until(lambda: world.ready(*SPACES))
        await world.proven()
        await first.stop()
        server.audit.clear()
        second = world.start()
        await world.until(lambda: second.leading)
        await asyncio.sleep(120)
        assert world.writes() == []
        gets = Counter(entry.resource for entry in world.ours() if entry.verb == "get")
    assert (gets["namespaces"], gets["workflowcontrollers"]) == (5, 5)
    assert set(gets) == {"namespaces", "workflowcontrollers", "controllertemplates"}


async def test_a_killed_operator_is_followed_without_a_write(world: World, server: FakeApiServer) -> None:
    """After SIGKILL the next one waits for the Lease, and then finds nothing to do."""
    async with world.nature():
        first = world.start()
        for each in SPACES[:3]:
            world.opt_in(each)
        await world.until(lambda: world.ready(*SPACES[:3]))
        await world.proven()
        await first.kill()
        server.audit.clear()
        second = world.start()
        await world.until(lambda: second.leading, 20)
        await asyncio.sleep(120)
        assert world.writes() == []


async def test_status_is_written_once_per_change(world: World, server: FakeApiServer) -> None:
    """From the label to READY a status is written for each thing that a person would see, and no more."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(120)
    told = [
        e.body["status"]["conditions"]
        for e in server.audit.writes()
        if e.resource == "workflowcontrollers" and e.subresource and e.body
    ]
    ready = [[(c["type"], c["status"], c["reason"]) for c in conditions] for conditions in told]
    assert len(ready) == len({tuple(each) for each in ready})
    assert len(ready) <= 4


async def test_counts_of_workflows_are_coalesced(world: World, server: FakeApiServer) -> None:
    """A hundred Workflows in a minute are told by at most one status write in 15 s, and the last count is right."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await world.proven()
        server.audit.clear()
        for i in range(100):
            world.workflow("team-a", f"w-{i}")
            await asyncio.sleep(0.3)
            world.phase("team-a", f"w-{i}", "Running")
            await asyncio.sleep(0.3)
            if i % 2:
                world.phase("team-a", f"w-{i}", "Succeeded", completed=True)
        await world.until(lambda: world.status("team-a").get("workflows") == {"running": 50, "pending": 0}, 20)
        await asyncio.sleep(60)
    written = [entry for entry in world.writes() if entry.resource == "workflowcontrollers"]
    assert 3 <= len(written) <= 1 + 80 // 15
    assert len(world.writes()) == len(written)


async def test_moving_workflows_cost_no_reads(world: World, server: FakeApiServer) -> None:
    """Metadata of unfinished Workflows is watched; none is ever read by itself."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await world.proven()
        server.audit.clear()
        for i in range(20):
            world.workflow("team-a", f"w-{i}")
            await asyncio.sleep(1)
    assert {entry.verb for entry in world.ours() if entry.resource != "workflowcontrollers"} <= {"watch"}


async def test_a_look_at_a_settled_namespace_plans_once(
    world: World, server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparing is what a look costs: each of 20 changes of Workflows is answered by one plan at most."""
    plans: list[str] = []
    build = plan.build

    def counted(*args: Any, **more: Any) -> Any:
        plans.append(more["namespace_uid"])
        return build(*args, **more)

    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await world.proven()
        monkeypatch.setattr(plan, "build", counted)
        for i in range(20):
            world.workflow("team-a", f"w-{i}")
            await asyncio.sleep(5)
    # Besides, each of the status writes with new counts is heard of and answered by a look.
    statuses = [entry for entry in world.writes() if entry.subresource == "status"]
    assert 20 <= len(plans) <= 20 + len(statuses)


async def test_a_stale_lease_is_told_without_any_event(world: World) -> None:
    """A child that stops renewing sends nothing: its silence alone turns READY, within the lease and seconds."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(30)
        world.controller.renew = lambda: None  # type: ignore[method-assign]
        await world.until(lambda: world.condition("team-a") == ("False", "LeaseStale"), 25)
        del world.controller.renew  # type: ignore[method-assign]
        await world.until(lambda: world.ready("team-a"), 10)


async def test_foreign_workflows_and_leases_leave_nothing_in_memory_and_cost_no_reads(
    world: World, server: FakeApiServer
) -> None:
    """200 namespaces that are none of ours, with Workflows and Leases like ours: made, moved and deleted unnoticed."""
    async with world.operator() as one:
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await world.proven()
        before = _remembered(one.operator)
        server.audit.clear()
        for i in range(200):
            space = f"foreign-{i:03}"
            world.namespace(space)
            world.workflow(space, "w")
            lease = {"holderIdentity": "somebody", "leaseDurationSeconds": 15}
            api = "coordination.k8s.io/v1"
            world.make("Lease", space, f"workflow-controller-{space}", api=api, spec=lease)
        await asyncio.sleep(10)
        for i in range(200):
            world.phase(f"foreign-{i:03}", "w", "Running")
            moved = {"spec": {"holderIdentity": "another"}}
            server.patch("Lease", f"foreign-{i:03}", f"workflow-controller-foreign-{i:03}", moved)
        await asyncio.sleep(60)
        assert [entry for entry in world.ours() if entry.verb in ("get", "list")] == []
        for i in range(200):
            server.delete("Namespace", None, f"foreign-{i:03}")
        await world.until(lambda: len(server.select("Namespace")) == 3)
        await asyncio.sleep(60)
        assert [entry for entry in world.ours() if entry.verb == "get"] == []
        assert _remembered(one.operator) == before
    assert world.writes() == []


async def test_namespaces_that_came_and_went_leave_nothing_in_memory(world: World, server: FakeApiServer) -> None:
    """Forty namespaces in and out again, half of them deleted: what is remembered is what it was before."""
    async with world.operator() as one:
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await world.proven()
        before = _remembered(one.operator)
        spaces = [f"brief-{i:02}" for i in range(40)]
        for each in spaces:
            world.opt_in(each)
        await world.until(lambda: world.ready(*spaces))
        for each in spaces[:20]:
            world.opt_out(each)
        for each in spaces[20:]:
            server.delete("Namespace", None, each)
        await world.until(lambda: "confirm these 20" in held(world), 30)
        confirm(world, held(world))
        await world.until(lambda: all(world.wfc(each) is None and not world.child(each) for each in spaces), 130)
        await asyncio.sleep(400)
        assert _remembered(one.operator) == before


def _remembered(operator: Any) -> dict[str, int]:
    """Count what is kept for each namespace, wherever that is."""
    mirror, fleet, queue = operator._mirror, operator._fleet, operator._worker._queue
    reconciler = operator._reconciler
    kept = {
        "copies": mirror._copies,
        "heard": mirror._heard,
        "told": mirror._told_at,
        "locks": mirror._reading,
        "moved": fleet._moved,
        "stale": fleet._stale,
        "work": fleet._work,
        "failures": queue._failures,
        "due": queue._due,
        "answers": reconciler._actor._answers,
        "fights": reconciler._actor._fights,
        "births": reconciler._actor._births,
        "orphans": reconciler._leaver._told,
        "paused": reconciler._row._paused,
        "strangers": fleet._strangers,
        "published": reconciler._publisher._published_at,
        "leaving": reconciler._brake._since,
        "going": reconciler._brake._going,
        "confirmed": reconciler._brake._confirmed,
        "held": frozenset[Any]().union(*reconciler._brake._held.values()),
        **{str(each.selection): each._texts for each in fleet.informers},
    }
    return {name: len(each) for name, each in kept.items()}


def _counted(send: Any) -> Any:
    async def counted(method: str, path: str, query: dict[str, str], *more: Any) -> Any:
        if "watch" not in query:
            sent.append(f"{method} {path}")
        return await send(method, path, query, *more)

    counted.sent = sent = []  # type: ignore[attr-defined]
    return counted
