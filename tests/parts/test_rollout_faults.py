"""What goes wrong outside of the operator while it moves a fleet: it is told, and once mended all goes on by itself."""

import asyncio

from tests.fake.server import FakeApiServer

from .fleets import BY_LABEL, fleet, phase, policy, source, turns, upgraded
from .world import World

FOUR = {"canary": ["a-0", "a-1"], "": ["d-0", "d-1"]}
ALL = ["a-0", "a-1", "d-0", "d-1"]


async def test_a_set_that_a_policy_refuses_starts_nowhere_and_goes_on_when_that_is_mended(
    world: World, server: FakeApiServer
) -> None:
    """No event tells that a policy was changed: the check is made again each minute."""
    policy(world, waves=BY_LABEL[:1], maxUnavailable=1, soakSeconds=5)
    async with world.operator():
        await fleet(world, FOUR)
        before = {each: turns(world, each) for each in ALL}
        server.faults.answer(403, message="denied by theirs", verb="apply", resource="deployments", times=10**6)
        source(world, "2")
        await world.until(lambda: "denied by theirs" in world.rollout().get("message", ""))
        assert phase(world) == "Failed"
        assert {each: turns(world, each) for each in ALL} == before
        server.faults.clear()
        await world.until(upgraded(world, "2"), 180)


async def test_a_check_that_gets_no_answer_is_never_told_as_done(world: World, server: FakeApiServer) -> None:
    """Nobody moves, nobody is told to have it, and it is asked again until it is answered."""
    policy(world, waves=BY_LABEL[:1], maxUnavailable=1, soakSeconds=5)
    async with world.operator():
        await fleet(world, FOUR)
        before = {each: turns(world, each) for each in ALL}
        server.faults.answer(500, message="boom", verb="apply", resource="deployments", times=10**6)
        source(world, "2")
        await asyncio.sleep(90)
        assert phase(world) == "Checking"
        assert {each: turns(world, each) for each in ALL} == before
        server.faults.clear()
        await world.until(upgraded(world, "2"), 180)
