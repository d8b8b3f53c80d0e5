"""The whole operator against a bad day: errors, cuts, kills, and two replicas that must never both write."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from aiohttp import web

from metaoperator.core.names import RENDERED_ANNOTATION as RENDERED
from tests.fake import FakeApiServer

from .proxy import Proxy
from .world import SIX, World, write_kubeconfig

WRITES = ("apply", "create", "update", "patch", "delete")


def births(server: FakeApiServer) -> Counter[tuple[str, str, str]]:
    """Count how often each object of a child comes into being from now on, told of or not."""
    counted: Counter[tuple[str, str, str]] = Counter()

    def notice(kind: Any, event: Any) -> None:
        meta = event.obj["metadata"]
        managers = {each["manager"] for each in meta.get("managedFields", ())}
        if (
            event.type == "ADDED"
            and "metaoperator" in managers
            and kind.kind not in ("Event", "Lease", "ControllerRevision")
        ):
            counted[meta["namespace"], kind.plural, meta["name"]] += 1

    server.store.listeners.append(notice)
    return counted


def once_each(spaces: list[str]) -> dict[tuple[str, str, str], int]:
    """Say what `births` should be for fresh namespaces."""
    wanted = {(space, f"{kind.lower()}s", name): 1 for space in spaces for kind, name in SIX}
    return wanted | {(space, "workflowcontrollers", "workflow-controller"): 1 for space in spaces}


def settled(world: World, server: FakeApiServer, spaces: list[str]) -> bool:
    """Tell whether all children are whole and ready."""
    return world.ready(*spaces) and world.whole(*spaces)


async def storm(server: FakeApiServer, rng: random.Random, seconds: float) -> None:
    """Let every third request or so go wrong."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + seconds
    while loop.time() < ends:
        resource = rng.choice(
            [None, None, *(f"{kind.lower()}s" for kind, _ in SIX), "workflowcontrollers", "namespaces"]
        )
        verb = rng.choice([None, WRITES, "get", ("list", "watch")])
        times = rng.randrange(1, 5)
        match rng.randrange(6):
            case 0:
                server.faults.answer(
                    429, retry_after=rng.choice([None, 1, 3]), verb=verb, resource=resource, times=times
                )
            case 1:
                server.faults.answer(rng.choice([500, 503, 504]), verb=verb, resource=resource, times=times)
            case 2:
                server.faults.cut(verb=verb, resource=resource, times=times)
            case 3:
                server.faults.cut(after_effect=True, verb=verb, resource=resource, times=times)
            case 4:
                server.faults.slow(rng.uniform(0.1, 4), verb=verb, resource=resource, times=times)
            case _:
                server.cut_watches(rng.choice([None, "Deployment", "ConfigMap", "Namespace"]))
        await asyncio.sleep(rng.uniform(0.05, 0.6))
    server.faults.clear()


@pytest.mark.parametrize("seed", range(2))
async def test_twenty_opt_ins_in_a_storm_end_well(world: World, server: FakeApiServer, seed: int) -> None:
    """429, 500, cuts before and after the effect, slow answers: all is right in the end, and made exactly once."""
    rng = random.Random(seed)
    spaces = [f"team-{i}" for i in range(20)]
    born = births(server)
    async with world.operator():
        weather = asyncio.create_task(storm(server, rng, 40))
        for each in spaces:
            world.opt_in(each)
            await asyncio.sleep(rng.uniform(0, 1.5))
        await weather
        await world.until(lambda: settled(world, server, spaces), 340)
    assert born == once_each(spaces)


@pytest.mark.parametrize("seed", range(2))
async def test_killed_at_random_points_and_started_anew(world: World, server: FakeApiServer, seed: int) -> None:
    """SIGKILL in the middle of whatever it does: the next one ends it, and nothing is made twice."""
    rng = random.Random(seed)
    spaces = [f"team-{i}" for i in range(8)]
    born = births(server)
    async with world.nature():
        for life in range(5):
            replica = world.start(f"life-{life}")
            await world.until(lambda replica=replica: replica.leading, 40)  # type: ignore[misc]
            for each in spaces[2 * life : 2 * life + 2]:
                world.opt_in(each)
            reached = len(server.audit) + rng.randrange(1, 40)
            for _ in range(3000):
                if len(server.audit) >= reached:
                    break
                await asyncio.sleep(0)
            await asyncio.sleep(rng.choice([0, 0.0005, 0.1]))
            await replica.kill()
        last = world.start("last")
        await world.until(lambda: last.leading and settled(world, server, spaces), 60)
        assert born == once_each(spaces)
        await asyncio.sleep(60)
        server.audit.clear()
        await asyncio.sleep(120)
        assert world.writes() == []


@pytest.mark.parametrize("seed", range(2))
async def test_killed_during_opt_outs(world: World, server: FakeApiServer, seed: int) -> None:
    """The way out is as safe to break off as the way in: the next one finds what is left by its mark."""
    rng = random.Random(seed)
    spaces = [f"team-{i}" for i in range(6)]
    async with world.nature():
        replica = world.start("first")
        for each in spaces:
            world.opt_in(each)
        await world.until(lambda: settled(world, server, spaces))
        for life in range(4):
            for each in spaces[life : life + 1]:
                world.opt_out(each)
            reached = len(server.audit) + rng.randrange(2, 14)
            for _ in range(3000):
                if len(server.audit) >= reached:
                    break
                await asyncio.sleep(0.001)
            await replica.kill()
            replica = world.start(f"life-{life}")
            await world.until(lambda replica=replica: replica.leading, 40)  # type: ignore[misc]
        gone, stay = spaces[:4], spaces[4:]
        await world.until(lambda: all(world.empty(each) and world.wfc(each) is None for each in gone), 120)
        assert settled(world, server, stay)


async def test_of_two_replicas_one_writes_and_the_other_takes_over(world: World, server: FakeApiServer) -> None:
    """The leader is killed: the other goes on after the Lease, finds what was missed, and the dead one is silent."""
    born = births(server)
    async with world.nature():
        first = world.start("first")
        await world.until(lambda: first.leading)
        second = world.start("second")
        world.opt_in("team-a")
        await world.until(lambda: settled(world, server, ["team-a"]))
        await asyncio.sleep(30)
        assert not second.leading
        await first.kill()
        world.opt_in("team-b")
        world.opt_out("team-a")
        await world.until(lambda: second.leading, 20)
        await world.until(lambda: settled(world, server, ["team-b"]) and world.wfc("team-a") is None)
        assert not first.leading
    assert born == once_each(["team-a", "team-b"])


async def test_a_stopped_leader_hands_over_in_seconds_and_without_a_write(world: World, server: FakeApiServer) -> None:
    """A rolling update of the operator: the next one leads within a retry."""
    async with world.nature():
        first = world.start("first")
        world.opt_in("team-a")
        await world.until(lambda: settled(world, server, ["team-a"]))
        second = world.start("second")
        await asyncio.sleep(30)
        began = asyncio.get_running_loop().time()
        await first.stop()
        await world.until(lambda: second.leading, 10)
        assert asyncio.get_running_loop().time() - began < 10
        world.opt_in("team-b")
        await world.until(lambda: settled(world, server, ["team-b"]), 10)


async def test_a_leader_that_is_cut_off_never_writes_again(world: World, server: FakeApiServer) -> None:
    """Its network freezes in the middle of work and comes back when another leads: none of its writes arrives late."""
    async with Proxy(server.url).serve() as proxy, world.nature():
        ours = world.kubeconfig
        world.kubeconfig = write_kubeconfig(world.folder / "proxied", proxy.url)
        first = world.start("first")
        world.kubeconfig = ours
        await world.until(lambda: first.leading)
        second = world.start("second")
        world.opt_in("team-a")
        await world.until(lambda: settled(world, server, ["team-a"]))
        await asyncio.sleep(20)
        proxy.freeze()
        world.opt_in("team-b")
        server.delete("ConfigMap", "team-a", "workflow-controller-configmap")
        await world.until(lambda: second.leading, 30)
        assert not first.leading
        await world.until(lambda: settled(world, server, ["team-a", "team-b"]), 30)
        await asyncio.sleep(30)
        server.audit.clear()
        proxy.heal()
        await asyncio.sleep(300)
        assert second.leading
        assert not first.leading
        assert world.writes() == []


@pytest.mark.parametrize("trouble", ["freeze", "refuse", "reset"])
async def test_half_open_and_broken_connections_heal(world: World, server: FakeApiServer, trouble: str) -> None:
    """R44: five minutes of silence, refusals or resets; what happened meanwhile is done within two minutes after."""
    async with Proxy(server.url).serve() as proxy, world.nature():
        world.kubeconfig = write_kubeconfig(world.folder / "proxied", proxy.url)
        replica = world.start("one")
        world.opt_in("team-a")
        await world.until(lambda: settled(world, server, ["team-a"]))
        if trouble == "reset":
            for _ in range(20):
                proxy.reset()
                await asyncio.sleep(3)
        else:
            getattr(proxy, trouble)()
            await asyncio.sleep(150)
        world.opt_in("team-b")
        world.opt_in("team-c")
        server.delete("Deployment", "team-a", "workflow-controller")
        if trouble != "reset":
            await asyncio.sleep(150)
            assert replica.operator._unhealthy()
        proxy.heal()
        await world.until(lambda: settled(world, server, ["team-a", "team-b", "team-c"]), 120)
        await world.until(lambda: not replica.operator._unhealthy(), 120)


async def test_throttling_for_minutes_is_respected_and_outlived(world: World, server: FakeApiServer) -> None:
    """R49: every write is answered 429 with Retry-After: 5: few requests, and an end as soon as it is over."""
    spaces = [f"team-{i}" for i in range(10)]
    born = births(server)
    async with world.operator() as one:
        await world.until(lambda: one.leading)
        fault = server.faults.answer(429, retry_after=5, verb=("apply", "create"), times=10**6)
        for each in spaces:
            world.opt_in(each)
        await asyncio.sleep(120)
        refused = [entry for entry in server.audit if entry.code == 429]
        assert len(refused) <= len(spaces) * 120 / 5
        fault.release()
        await world.until(lambda: settled(world, server, spaces), 330)
    assert born == once_each(spaces)


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize(
    ("verb", "resource"),
    [("get", "namespaces"), ("get", "workflowcontrollers"), ("apply", "workflowcontrollers"), ("apply", "services")],
    ids=["namespace", "row", "status", "child"],
)
async def test_a_busy_namespace_keeps_to_what_the_api_server_asks_for(
    world: World, server: FakeApiServer, code: int, verb: str, resource: str
) -> None:
    """Retry-After: 30, and an event every two seconds: nothing that was refused is sent again before, read or write."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: settled(world, server, ["team-a"]))
        await asyncio.sleep(20)
        place = {"name": "team-a"} if resource == "namespaces" else {"namespace": "team-a"}
        fault = server.faults.answer(code, retry_after=30, verb=verb, resource=resource, times=10**6, **place)
        server.delete("Service", "team-a", "workflow-controller-metrics")
        refused: list[float] = []
        for turn in range(60):
            server.patch("Namespace", None, "team-a", {"metadata": {"annotations": {"example.com/turn": str(turn)}}})
            world.spec("team-a", values={"config": {"parallelism": 1 + turn}})
            await asyncio.sleep(2)
            refused += [asyncio.get_running_loop().time()] * (fault.hits - len(refused))
        assert 1 <= len(refused) <= 4, refused
        fault.release()
        world.opt_in("team-b")
        await world.until(lambda: settled(world, server, ["team-a", "team-b"]), 90)


@pytest.mark.parametrize("verb", ["apply", "delete"])
async def test_server_errors_on_one_object_for_long_are_told_and_do_not_churn(
    world: World, server: FakeApiServer, verb: str
) -> None:
    """500 for an hour on one object: Reconciling says Retrying in the API server's words, written once, READY stays."""
    async with world.operator():
        world.opt_in("team-a")
        world.opt_in("team-b")
        await world.until(lambda: settled(world, server, ["team-a", "team-b"]))
        await asyncio.sleep(20)
        fault = server.faults.answer(500, message="etcd is full", verb="apply", resource="services", times=10**6)
        if verb == "apply":
            drift = {"metadata": {"annotations": {RENDERED: "0"}}}
            server.patch("Service", "team-a", "workflow-controller-metrics", drift)
        else:
            server.delete("Service", "team-a", "workflow-controller-metrics")
        await world.until(lambda: world.condition("team-a", "Reconciling") == ("True", "Retrying"), 10)
        assert "etcd is full" in world.message("team-a", "Reconciling")
        assert world.condition("team-a")[0] == "True"
        await asyncio.sleep(10)
        server.audit.clear()
        await asyncio.sleep(3600)
        assert [entry for entry in world.writes() if entry.subresource == "status"] == []
        assert world.condition("team-a", "Reconciling") == ("True", "Retrying")
        assert world.ready("team-b")
        fault.release()
        await world.until(lambda: settled(world, server, ["team-a", "team-b"]), 310)
        await world.until(lambda: world.condition("team-a", "Reconciling")[0] == "False", 10)


async def test_errors_that_alternate_do_not_churn_either(world: World, server: FakeApiServer) -> None:
    """Three objects fail in turn, each in its own words: a few writes of the status in an hour, not one a try."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: settled(world, server, ["team-a"]))
        await asyncio.sleep(20)
        for resource, code in (("services", 500), ("configmaps", 503), ("serviceaccounts", 504)):
            told = f"{resource} are slow"
            server.faults.answer(code, message=told, verb="apply", resource=resource, times=10**6)
        for kind, name in SIX:
            if kind in ("Service", "ConfigMap", "ServiceAccount"):
                server.patch(kind, "team-a", name, {"metadata": {"annotations": {RENDERED: "0"}}})
        await world.until(lambda: world.condition("team-a", "Reconciling") == ("True", "Retrying"), 10)
        await asyncio.sleep(10)
        server.audit.clear()
        await asyncio.sleep(3600)
        assert len([entry for entry in world.writes() if entry.subresource == "status"]) <= 3


@pytest.mark.parametrize("trouble", ["freeze", "refuse"])
@pytest.mark.parametrize("seconds", [35, 60, 90])
async def test_children_that_renew_while_we_are_cut_off_never_turn_stale(
    world: World, server: FakeApiServer, trouble: str, seconds: int
) -> None:
    """What we could not see is no silence of theirs: not one status says LeaseStale, during the cut or after it."""
    spaces = [f"team-{i:02}" for i in range(25)]
    async with Proxy(server.url).serve() as proxy, world.nature():
        world.kubeconfig = write_kubeconfig(world.folder / "proxied", proxy.url)
        world.start("one")
        for each in spaces:
            world.opt_in(each)
        await world.until(lambda: settled(world, server, spaces))
        await asyncio.sleep(30)
        server.audit.clear()
        getattr(proxy, trouble)()
        await asyncio.sleep(seconds)
        proxy.heal()
        await asyncio.sleep(120)
        assert settled(world, server, spaces)
    assert reasons(server) & {"LeaseStale", "LeaseMissing", "LeaseForeign"} == set()


async def test_events_that_come_bit_by_bit_after_a_cut_make_no_child_stale(world: World, server: FakeApiServer) -> None:
    """Of many Leases that moved meanwhile some are told seconds before others: the others are not stale for that."""
    spaces = [f"team-{i:02}" for i in range(6)]
    async with world.operator():
        for each in spaces:
            world.opt_in(each)
        await world.until(lambda: settled(world, server, spaces))
        await asyncio.sleep(30)
        server.audit.clear()
        cut = server.faults.answer(503, verb=("watch", "list"), resource="leases", times=10**6)
        server.cut_watches("Lease")
        await asyncio.sleep(60)
        told, loop = 0, asyncio.get_running_loop()
        until = loop.time() + 60
        write = web.StreamResponse.write

        async def late(self: web.StreamResponse, data: Any) -> None:
            nonlocal told
            if b'"kind":"Lease"' in bytes(data) and loop.time() < until:
                told += 1
                await asyncio.sleep(0.5)
            await write(self, data)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(web.StreamResponse, "write", late)
            cut.release()
            await asyncio.sleep(100)
        assert told
        await asyncio.sleep(60)
        assert settled(world, server, spaces)
    assert reasons(server) & {"LeaseStale", "LeaseMissing", "LeaseForeign"} == set()


async def test_events_that_hang_do_not_delay_ready(world: World, server: FakeApiServer) -> None:
    """Nobody answers for Events: thirty children are READY within a quarter of a minute, and stay served."""
    spaces = [f"team-{i:02}" for i in range(30)]
    server.faults.hang(resource="events", times=10**6)
    async with world.operator() as one:
        await world.until(lambda: one.leading)
        for each in spaces:
            world.opt_in(each)
        await world.until(lambda: settled(world, server, spaces), 15)
        server.delete("Service", "team-00", "workflow-controller-metrics")
        await world.until(lambda: settled(world, server, spaces), 5)
        server.faults.clear()


def reasons(server: FakeApiServer) -> set[str]:
    """Name every reason that READY was written with."""
    return {
        condition["reason"]
        for entry in server.audit.writes()
        if entry.resource == "workflowcontrollers" and entry.subresource == "status" and entry.body
        for condition in entry.body["status"]["conditions"]
        if condition["type"] == "Ready"
    }
