"""The Lease: one leads, nobody else before the leader's own term is over, whatever the network does."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from metaoperator.cluster import Cluster
from metaoperator.core.model import LEASE, Manifest, Ref
from metaoperator.election import Elector, Timing
from metaoperator.gate import Gate
from tests.fake import FakeApiServer

from .proxy import Proxy
from .world import World, end, write_kubeconfig

REF = Ref(LEASE, "metaoperator", "metaoperator")
TIMING = Timing()


class Candidate:
    """An elector with a network of its own."""

    def __init__(self, name: str, proxy: Proxy, cluster: Cluster, *, skew: timedelta) -> None:
        """Prepare; `run` makes it a candidate."""
        self.name = name
        self.proxy = proxy
        self.gate = cluster.gate
        self.terms = 0
        self.elector = Elector(
            cluster,
            REF,
            identity=name,
            timing=TIMING,
            on_start=self._began,
            wall_clock=lambda: datetime.now(UTC) + skew,
        )
        self.task: asyncio.Task[None] | None = None

    def _began(self) -> None:
        self.terms += 1

    def run(self) -> None:
        """Begin to try."""
        self.task = asyncio.create_task(self.elector.run())

    async def stop(self) -> None:
        """Stop as an operator does."""
        assert self.task is not None
        await end(self.task)

    @property
    def open(self) -> bool:
        """Tell whether its writes pass."""
        return self.gate.remaining() > 0


@contextlib.asynccontextmanager
async def candidates(world: World, *names: str, skews: tuple[int, ...] = ()) -> AsyncIterator[list[Candidate]]:
    """Make candidates, each behind a proxy of its own."""
    async with contextlib.AsyncExitStack() as stack:
        made = []
        for index, name in enumerate(names):
            proxy = await stack.enter_async_context(Proxy(world.server.url).serve())
            path = write_kubeconfig(world.folder / name, proxy.url)
            cluster = Cluster(kubeconfig=str(path), gate=Gate())
            await cluster.connect()
            stack.push_async_callback(cluster.close)
            skew = timedelta(seconds=skews[index]) if skews else timedelta()
            made.append(Candidate(name, proxy, cluster, skew=skew))
        try:
            yield made
        finally:
            for each in made:
                each.proxy.heal()
                if each.task is not None:
                    await end(each.task)


def lease(server: FakeApiServer) -> Manifest:
    """Get the spec of the Lease."""
    found = server.get("Lease", "metaoperator", "metaoperator")
    assert found is not None
    return found["spec"]


def now() -> float:
    """Tell the time of the loop."""
    return asyncio.get_running_loop().time()


async def test_one_of_three_leads_and_the_others_wait(world: World, server: FakeApiServer) -> None:
    """The Lease names the leader, is renewed every two seconds, and nobody else's gate opens."""
    async with candidates(world, "a", "b", "c") as three:
        for each in three:
            each.run()
        await world.until(lambda: any(each.open for each in three))
        leader = next(each for each in three if each.open)
        for _ in range(120):
            await asyncio.sleep(0.5)
            assert [each.open for each in three].count(True) == 1
            assert leader.open
        assert lease(server)["holderIdentity"] == leader.name
        assert lease(server)["leaseDurationSeconds"] == 15
        assert lease(server)["leaseTransitions"] == 0
        assert [each.terms for each in three].count(1) == 1
        renewed = [entry for entry in server.audit.select(verb="update", resource="leases") if entry.code == 200]
        assert 25 <= len(renewed) <= 35


@pytest.mark.parametrize("trouble", ["freeze", "refuse"])
async def test_a_leader_that_is_cut_off_ends_its_own_term_before_anybody_takes_over(
    world: World, server: FakeApiServer, trouble: str
) -> None:
    """Its gate closes ten seconds after its last renewal was sent; the other leads after fifteen without movement."""
    async with candidates(world, "a", "b") as (a, b):
        a.run()
        await world.until(lambda: a.open)
        b.run()
        await asyncio.sleep(5)
        getattr(a.proxy, trouble)()
        cut = now()
        await world.until(lambda: not a.open, 11)
        closed = now() - cut
        assert closed <= TIMING.renew + 0.1
        await world.until(lambda: b.open, 20)
        assert TIMING.duration - TIMING.retry <= now() - cut <= TIMING.duration + 2 * TIMING.retry * 1.2
        assert lease(server)["holderIdentity"] == "b"
        assert lease(server)["leaseTransitions"] == 1
        a.proxy.heal()
        await asyncio.sleep(60)
        assert (a.open, b.open) == (False, True)


async def test_a_slow_read_does_not_shorten_the_wait(world: World, server: FakeApiServer) -> None:
    """What was read late counts from when it was seen: a follower's slow network is nobody's early take-over."""
    async with candidates(world, "a", "b") as (a, b):
        a.run()
        await world.until(lambda: a.open)
        b.proxy.freeze()
        b.run()
        await asyncio.sleep(8)
        b.proxy.heal()  # its read of eight seconds ago is answered now
        await asyncio.sleep(0.05)
        a.proxy.freeze()
        cut = now()
        while now() < cut + 30:
            assert not (a.open and b.open)
            await asyncio.sleep(0.05)
        assert b.open


async def test_a_leader_whose_api_answers_errors_closes_in_time(world: World, server: FakeApiServer) -> None:
    """Server errors, conflicts and throttling alike: a term that is not renewed ends."""
    async with candidates(world, "a") as (a,):
        a.run()
        await world.until(lambda: a.open)
        for code in (500, 429, 403):
            fault = server.faults.answer(code, resource="leases", times=10**6)
            began = now()
            await world.until(lambda: not a.open, 11)
            assert now() - began <= TIMING.renew + 0.1
            fault.release()
            await world.until(lambda: a.open, 5)


async def test_short_trouble_costs_no_term(world: World, server: FakeApiServer) -> None:
    """Five seconds of errors or silence are waited out: leading goes on, and nothing is begun anew."""
    async with candidates(world, "a", "b") as (a, b):
        a.run()
        await world.until(lambda: a.open)
        b.run()
        for trouble in ("freeze", "refuse"):
            getattr(a.proxy, trouble)()
            for _ in range(50):
                await asyncio.sleep(0.1)
                assert a.open
            a.proxy.heal()
            await asyncio.sleep(10)
            assert (a.open, b.open) == (True, False)
        assert a.terms == 1


async def test_a_stopping_leader_hands_over_within_a_retry(world: World, server: FakeApiServer) -> None:
    """The gate closes first, then the Lease is given back, and the next one does not wait for it to expire."""
    async with candidates(world, "a", "b") as (a, b):
        a.run()
        await world.until(lambda: a.open)
        b.run()
        await asyncio.sleep(5)
        await a.stop()
        assert not a.open
        assert lease(server)["holderIdentity"] == ""
        stopped = now()
        await world.until(lambda: b.open, 5)
        assert now() - stopped <= TIMING.retry * 1.2 + 0.1


async def test_a_stopping_follower_leaves_the_lease_alone(world: World, server: FakeApiServer) -> None:
    """Only the holder gives it back."""
    async with candidates(world, "a", "b") as (a, b):
        a.run()
        await world.until(lambda: a.open)
        b.run()
        await asyncio.sleep(5)
        await b.stop()
        assert lease(server)["holderIdentity"] == "a"
        assert a.open


async def test_a_stop_without_a_network_is_not_held_up(world: World) -> None:
    """Giving the Lease back is tried for a retry's time, no longer."""
    async with candidates(world, "a") as (a,):
        a.run()
        await world.until(lambda: a.open)
        a.proxy.freeze()
        began = now()
        await a.stop()
        assert not a.open
        assert now() - began <= TIMING.retry + 0.1


async def test_a_conflict_is_a_lost_race_and_no_term(world: World, server: FakeApiServer) -> None:
    """Somebody wrote the Lease between our read and our write: the gate stays closed until the next try."""
    async with candidates(world, "a") as (a,):
        server.faults.answer(409, verb="create", resource="leases")
        a.run()
        await asyncio.sleep(0.5)
        assert not a.open
        await world.until(lambda: a.open, 5)


async def test_a_lease_taken_away_closes_the_gate_at_the_next_try(world: World, server: FakeApiServer) -> None:
    """A person or a stray process writes another holder: within a retry we no longer write."""
    async with candidates(world, "a") as (a,):
        a.run()
        await world.until(lambda: a.open)
        server.patch("Lease", "metaoperator", "metaoperator", {"spec": {"holderIdentity": "somebody"}})
        await world.until(lambda: not a.open, TIMING.retry + 0.2)
        await asyncio.sleep(TIMING.duration - 1)
        assert not a.open
        await world.until(lambda: a.open, 6)
        assert a.terms == 2


async def test_a_deleted_lease_is_no_early_take_over(world: World, server: FakeApiServer) -> None:
    """Somebody deletes the Lease: those who saw another lead a moment ago wait as if it were there."""
    async with candidates(world, "a", "b") as (a, b):
        a.run()
        await world.until(lambda: a.open)
        b.run()
        await asyncio.sleep(5)
        a.proxy.freeze()
        server.delete("Lease", "metaoperator", "metaoperator")
        ends = now() + 40
        while now() < ends:
            assert not (a.open and b.open)
            await asyncio.sleep(0.05)
        assert b.open


@pytest.mark.parametrize("skews", [(0, 3600), (3600, 0), (-86400, 86400)], ids=str)
async def test_wall_clocks_may_differ(world: World, skews: tuple[int, int]) -> None:
    """A follower an hour ahead or behind takes over neither earlier nor later: only what it sees move counts."""
    async with candidates(world, "a", "b", skews=skews) as (a, b):
        a.run()
        await world.until(lambda: a.open)
        b.run()
        await asyncio.sleep(60)
        assert (a.open, b.open) == (True, False)
        a.proxy.freeze()
        cut = now()
        await world.until(lambda: b.open, 20)
        assert now() - cut >= TIMING.duration - TIMING.retry


async def test_a_restart_under_the_same_name_goes_on_at_once(world: World, server: FakeApiServer) -> None:
    """A container that is restarted in its pod keeps its name, and need not wait for its own Lease."""
    async with candidates(world, "a") as (a,):
        a.run()
        await world.until(lambda: a.open)
    async with candidates(world, "a") as (again,):
        again.run()
        await world.until(lambda: again.open, 1)
    assert lease(server)["leaseTransitions"] <= 1


@pytest.mark.parametrize("seed", range(5))
async def test_never_two_gates_are_open(world: World, server: FakeApiServer, seed: int) -> None:
    """Three candidates and a network that freezes, breaks, lies and heals at random: at most one writes at a time."""
    rng = random.Random(seed)
    async with candidates(world, "a", "b", "c", skews=(0, 40, -40)) as three:
        for each in three:
            each.run()
        led: set[str] = set()
        ends = now() + 180
        while now() < ends:
            victim = rng.choice(three)
            match rng.randrange(9):
                case 0 | 1:
                    victim.proxy.freeze()
                case 2:
                    victim.proxy.refuse()
                case 3:
                    victim.proxy.reset()
                case 4:
                    server.faults.answer(rng.choice([409, 429, 500]), resource="leases", times=rng.randrange(1, 6))
                case 5:
                    server.faults.slow(rng.uniform(1, 12), resource="leases", times=rng.randrange(1, 4))
                case 6:
                    server.faults.cut(after_effect=rng.random() < 0.5, resource="leases", times=rng.randrange(1, 4))
                case _:
                    for each in three:
                        each.proxy.heal()
            pause = now() + rng.choice([0.3, 2.0, 6.0, 11.0, 17.0])
            while now() < pause:
                open_now = [each.name for each in three if each.open]
                assert len(open_now) <= 1, (seed, now(), open_now)
                led |= set(open_now)
                await asyncio.sleep(0.1)
        for each in three:
            each.proxy.heal()
        server.faults.clear()
        await world.until(lambda: any(each.open for each in three), 40)
        assert led
