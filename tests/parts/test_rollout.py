"""Whole operators move a fleet in waves: what stops them, what they survive, and what is never written (R42)."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from .fleets import BY_LABEL, NOWHERE, Journal, fleet, of, phase, policy, source, turns, upgraded, waits
from .world import World

CANARY = ["a-canary-0", "a-canary-1"]
ONE = [f"b-one-{at:02}" for at in range(15)]
TWO = [f"c-two-{at:02}" for at in range(20)]
REST = [f"d-none-{at}" for at in range(3)]
WAVES = {"canary": CANARY, "1": ONE, "2": TWO, "": REST}
FORTY = [*CANARY, *ONE, *TWO, *REST]
BUDGET = 4
SMALL = {"canary": ["a-0", "a-1"], "1": ["b-0", "b-1", "b-2"], "2": ["c-0", "c-1"], "": ["d-0"]}
EIGHT = [name for members in SMALL.values() for name in members]


def waved(world: World, **rollout: Any) -> None:
    """Let pods take three seconds, and namespaces go by their labels."""
    world.controller.startup = 3.0
    usual: dict[str, Any] = {
        "waves": BY_LABEL,
        "maxUnavailable": "10%",
        "soakSeconds": 20,
        "progressDeadlineSeconds": 120,
    }
    policy(world, **(usual | rollout))


async def test_a_fleet_of_forty_goes_in_its_waves_within_its_budget(world: World) -> None:
    """The unlabelled go last, nobody twice, no more than the budget at once, and the end is told."""
    waved(world)
    async with world.operator():
        await fleet(world, WAVES)
        journal = Journal(world, unavailable=BUDGET)
        source(world, "2")
        await world.until(upgraded(world, "2"), 1800)
        await asyncio.sleep(120)
    assert journal.mistakes == []
    assert journal.most == BUDGET
    assert sorted(journal.moved("2")) == FORTY
    journal.in_order("2", WAVES.values(), soak=20)
    assert [(each["name"], each["updated"]) for each in world.rollout()["waves"]] == [
        ("canary", 2),
        ("1", 15),
        ("2", 20),
        ("rest", 3),
    ]


async def test_a_a_canary_that_was_ill_before_is_told_apart_and_blocks_nobody(world: World) -> None:
    """R42 a: it is no failure of the upgrade, it is moved as well, and what ails it is still to be seen."""
    waved(world)
    world.controller.broken.add("a-0/workflow-controller")
    async with world.operator():
        await fleet(world, SMALL)
        journal = Journal(world, unavailable=1)
        source(world, "2")
        await world.until(upgraded(world, "2"), 1800)
    assert journal.mistakes == []
    assert Counter(journal.moved("2")) == Counter(EIGHT)
    assert world.condition("a-0") == ("False", "PodFailing")
    canary = world.rollout()["waves"][0]
    assert (canary["updated"], canary["ready"]) == (2, 1)
    assert "failed" not in world.rollout()


async def test_b_an_image_that_does_not_exist_stops_at_the_canary(world: World) -> None:
    """R42 b: one canary fails, nobody else is written, each is told why, and so is whoever reads the template."""
    waved(world, maxUnavailable=1)
    world.controller.broken.add(NOWHERE)
    async with world.operator():
        await fleet(world, SMALL)
        world.server.audit.clear()
        source(world, "2", registry=NOWHERE)
        await world.until(lambda: phase(world) == "Failed", 300)
        others = [each for each in EIGHT if turns(world, each) != {"2"}]
        await world.until(lambda: waits(world, *others) == {("True", "RolloutFailed")})
        await asyncio.sleep(3600)
        assert len(others) == len(EIGHT) - 1
        assert of(world, *others) == []
        assert waits(world, *others) == {("True", "RolloutFailed")}
        failed = world.rollout()["failed"]
        assert failed["members"] == [each for each in EIGHT if each not in others]
        assert "ImagePullBackOff" in failed["reason"]
        world.controller.broken.clear()
        source(world, "3")
        await world.until(upgraded(world, "3"), 1800)


@pytest.mark.parametrize("moved", [3, 5, 9])
async def test_c_an_operator_that_dies_within_a_wave_goes_on_in_it(world: World, moved: int) -> None:
    """R42 c: the next one goes on where it was, begins no later wave early, and does nothing again."""
    waved(world)
    async with world.nature():
        first = world.start()
        await fleet(world, {"canary": CANARY, "1": ONE[:8], "2": TWO[:4], "": REST})
        journal = Journal(world, unavailable=1)
        source(world, "2")
        await world.until(lambda: len(journal.moved("2")) >= moved, 1800)
        await first.kill()
        world.start()
        await world.until(upgraded(world, "2"), 3600)
        await asyncio.sleep(60)
    assert journal.mistakes == []
    assert Counter(journal.moved("2")) == Counter([*CANARY, *ONE[:8], *TWO[:4], *REST])
    journal.in_order("2", [CANARY, ONE[:8], TWO[:4], REST], soak=20)


async def test_d_another_revision_in_the_middle_begins_at_the_canary(world: World) -> None:
    """R42 d: whoever has not been moved waits on, the newest one goes through the waves, and skips the one between."""
    waved(world)
    async with world.operator():
        await fleet(world, SMALL)
        journal = Journal(world, unavailable=1)
        source(world, "2")
        await world.until(lambda: "b-0" in journal.moved("2"), 900)
        source(world, "3")
        await world.until(upgraded(world, "3"), 1800)
    assert journal.mistakes == []
    assert journal.moved("2") == [*SMALL["canary"], "b-0"]
    assert Counter(journal.moved("3")) == Counter(EIGHT)
    journal.in_order("3", SMALL.values(), soak=20)


@pytest.mark.parametrize("leaves", ["deleted", "opted out"])
async def test_e_a_namespace_that_leaves_while_it_is_moved_holds_up_nobody(world: World, leaves: str) -> None:
    """R42 e: the wave is complete without it."""
    waved(world)
    async with world.operator():
        await fleet(world, SMALL)
        journal = Journal(world)
        world.controller.leaderless.add("b-0/workflow-controller")
        source(world, "2")
        await world.until(lambda: "b-0" in journal.moved("2"), 900)
        await asyncio.sleep(5)
        if leaves == "deleted":
            world.server.delete("Namespace", None, "b-0")
        else:
            world.opt_out("b-0")
        await world.until(upgraded(world, "2"), 1800)
    assert journal.mistakes == []
    assert sum(each["total"] for each in world.rollout()["waves"]) == len(EIGHT) - 1


async def test_f_who_opts_in_meanwhile_gets_what_its_wave_has(world: World) -> None:
    """R42 f: the target where its wave is open, what all had where it is not; that one then goes in its turn."""
    waved(world)
    async with world.operator():
        await fleet(world, SMALL)
        journal = Journal(world)
        source(world, "2")
        await world.until(lambda: "b-0" in journal.moved("2"), 900)
        for name, wave in (("new-canary", "canary"), ("new-two", "2")):
            world.namespace(name, {"wave": wave})
            world.opt_in(name)
        await world.until(lambda: {world.condition(each)[0] for each in ("new-canary", "new-two")} == {"True"})
        assert turns(world, "new-canary") == {"2"}
        assert turns(world, "new-two") == {""}
        await world.until(upgraded(world, "2"), 1800)
    assert journal.mistakes == []
    assert [move for move in journal.moves if move[0].startswith("new")] == [
        ("new-canary", "2"),
        ("new-two", ""),
        ("new-two", "2"),
    ]
    journal.in_order("2", [SMALL["canary"], SMALL["1"], [*SMALL["2"], "new-two"]], soak=20)


async def test_g_a_child_that_crashes_while_it_soaks_stops_the_rollout(world: World) -> None:
    """R42 g: it was Available, and that proves nothing yet."""
    waved(world, soakSeconds=180)
    async with world.operator():
        await fleet(world, SMALL, 1200)
        world.server.audit.clear()
        source(world, "2", registry="late.example")
        await world.until(lambda: turns(world, "a-0") == {"2"} and world.ready("a-0"), 600)
        await asyncio.sleep(120)
        assert phase(world) == "Progressing"
        world.controller.crash("late.example")
        await world.until(lambda: phase(world) == "Failed", 300)
        await asyncio.sleep(600)
    assert of(world, *(each for each in EIGHT if each not in SMALL["canary"])) == []
    assert "CrashLoopBackOff" in world.rollout()["failed"]["reason"]


async def test_g_a_child_that_never_leads_fails_at_the_deadline(world: World) -> None:
    """R42 g: its Deployment is Available, and it never takes its Lease."""
    waved(world)
    world.controller.leaderless.add("led.example")
    async with world.operator():
        await fleet(world, SMALL)
        world.server.audit.clear()
        source(world, "2", registry="led.example")
        await world.until(lambda: phase(world) == "Failed", 400)
        await asyncio.sleep(600)
    assert of(world, *(each for each in EIGHT if each not in SMALL["canary"])) == []
    assert "not healthy in time" in world.rollout()["failed"]["reason"]


async def test_h_another_operator_that_renders_the_same_writes_no_child(world: World) -> None:
    """R42 h: not one write to a child, and none to the record of a namespace."""
    waved(world)
    async with world.nature():
        first = world.start()
        await fleet(world, SMALL)
        await asyncio.sleep(60)
        world.server.audit.clear()
        await first.stop()
        world.start()
        await asyncio.sleep(600)
        assert of(world, *EIGHT) == []
        assert phase(world) == "Done"


async def test_i_a_fleet_goes_back_by_itself(world: World) -> None:
    """R42 i: what failed is taken back, over restarts too, until the source changes; the others see no write at all."""
    waved(world, onFailure="Rollback", maxUnavailable=1)
    world.controller.broken.add(NOWHERE)
    async with world.nature():
        operator = world.start()
        await fleet(world, SMALL)
        journal = Journal(world, unavailable=1)
        world.server.audit.clear()
        source(world, "2", registry=NOWHERE)
        await world.until(lambda: phase(world) == "RolledBack", 600)
        assert len(journal.moved("2")) == 1
        victim = journal.moved("2")[0]
        others = [each for each in EIGHT if each != victim]
        assert turns(world, *EIGHT) == {""}
        await world.until(lambda: world.ready(*EIGHT))
        for _ in range(2):
            await operator.kill()
            operator = world.start()
            await asyncio.sleep(600)
        assert phase(world) == "RolledBack"
        assert of(world, *others) == []
        assert journal.moves == [(victim, "2"), (victim, "")]
        source(world, "3")
        await world.until(upgraded(world, "3"), 1800)
    assert journal.mistakes == []
    assert Counter(journal.moved("3")) == Counter(EIGHT)
    journal.in_order("3", SMALL.values(), soak=20)


async def test_i_a_person_goes_back_in_the_middle(world: World) -> None:
    """R42 i: the source as it was: who had been moved goes back to the recorded bytes, the others are not touched."""
    waved(world)
    async with world.operator():
        await fleet(world, SMALL)
        journal = Journal(world, unavailable=1)
        source(world, "2")
        await world.until(lambda: "b-0" in journal.moved("2"), 900)
        moved = journal.moved("2")
        others = [each for each in EIGHT if each not in moved]
        world.server.audit.clear()
        spec = {"spec": {"values": None}}
        world.server.patch("ControllerTemplate", None, "default", spec, manager="kubectl")
        await world.until(lambda: turns(world, *EIGHT) == {""} and phase(world) in {"Done", "RolledBack"}, 900)
        assert of(world, *others) == []
    assert journal.mistakes == []
    assert Counter(journal.moved("")) == Counter(moved)
