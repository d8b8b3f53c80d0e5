"""Another operator, which renders other bytes, and one that dies again and again: what that does to a fleet."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from metaoperator import renderer, sources
from metaoperator.core.render import Program
from metaoperator.election import Timing

from .fleets import BY_LABEL, NOWHERE, Journal, fleet, of, phase, policy, source, turns, upgraded, waits
from .world import World

WAVES = {"canary": ["a-0", "a-1"], "1": ["b-0", "b-1", "b-2"], "2": ["c-0", "c-1"], "": ["d-0"]}
EIGHT = [name for members in WAVES.values() for name in members]
APPROVED: list[dict[str, Any]] = [{**BY_LABEL[0], "approval": True}, *BY_LABEL[1:]]


def waved(world: World, **rollout: Any) -> None:
    """Let pods take three seconds, and namespaces go by their labels."""
    world.controller.startup = 3.0
    usual: dict[str, Any] = {"waves": BY_LABEL, "maxUnavailable": 2, "soakSeconds": 20, "progressDeadlineSeconds": 120}
    policy(world, **(usual | rollout))


def upgrade(monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """Whoever starts from now on is another operator: of the same set and values it makes other pods."""
    genuine = Program.effective

    def effective(self: Program, **values: Any) -> Any:
        return {**genuine(self, **values), "podAnnotations": {"turn": "operator"}, **more}

    def programs(*_: Any, **__: Any) -> dict[str, Program]:
        return {sources.DEFAULT_SET: sources.compiled(sources.shipped() / sources.DEFAULT_SET)}

    monkeypatch.setattr(Program, "effective", effective)
    monkeypatch.setattr(renderer, "identity", lambda: "another")
    monkeypatch.setattr(sources, "programs", programs)


def drift(world: World, namespace: str) -> None:
    """Let a tenant change its Deployment."""
    changed = {
        "spec": {"replicas": 3, "template": {"metadata": {"annotations": {"metaoperator.dev/config-digest": "x"}}}}
    }
    world.server.patch("Deployment", namespace, "workflow-controller", changed, manager="tenant")


def rendered(world: World, namespace: str) -> Any:
    """Read what somebody might have changed."""
    live = world.server.get("Deployment", namespace, "workflow-controller")
    assert live is not None
    return live["spec"]


async def test_a_new_operator_restarts_no_child_before_its_turn(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits is repaired to the bytes that the old operator made, by the next one too; then the waves go on."""
    waved(world, waves=APPROVED)
    async with world.nature():
        old = world.start()
        await fleet(world, WAVES)
        await old.stop()
        upgrade(monkeypatch)
        world.server.audit.clear()
        journal = Journal(world)
        before = {name: rendered(world, name) for name in EIGHT}
        operator = world.start()
        await world.until(
            lambda: {each[1] for each in waits(world, *EIGHT)} == {"WaitsForApproval", "WaitsForWave"}, 120
        )
        assert of(world, *EIGHT) == []
        for _ in range(2):
            for name in ("a-0", "c-1", "d-0"):
                drift(world, name)
                await world.until(lambda: rendered(world, name) == before[name])  # noqa: B023
            await asyncio.sleep(120)
            await operator.kill()
            operator = world.start()
            await asyncio.sleep(120)
        assert {name: rendered(world, name) for name in EIGHT} == before
        assert journal.moved("operator") == []
        policy(world, waves=BY_LABEL)
        await world.until(upgraded(world, "operator"), 1800)
    assert Counter(journal.moved("operator")) == Counter(EIGHT)
    journal.in_order("operator", WAVES.values(), soak=20)


@pytest.mark.parametrize("labelled", [False, True], ids=["as it was", "labelled since"])
async def test_a_new_operator_whose_pods_fail_goes_back_to_the_recorded_bytes(
    world: World, monkeypatch: pytest.MonkeyPatch, *, labelled: bool
) -> None:
    """It cannot render them any more: what is recorded is what comes back, and the others see no write."""
    waved(world, onFailure="Rollback", maxUnavailable=1)
    world.controller.broken.add(NOWHERE)
    async with world.nature():
        old = world.start()
        await fleet(world, WAVES)
        await old.stop()
        before = {name: rendered(world, name) for name in EIGHT}
        upgrade(monkeypatch, images={**_images(), "registry": NOWHERE})
        world.server.audit.clear()
        journal = Journal(world, unavailable=1)
        operator = world.start()
        await world.until(lambda: journal.moved("operator"), 300)
        (victim,) = journal.moved("operator")
        others = [each for each in EIGHT if each != victim]
        if labelled:
            for name in EIGHT:
                world.server.patch("Namespace", None, name, {"metadata": {"labels": {"told": "later"}}})
        await world.until(lambda: phase(world) == "RolledBack", 900)
        await world.until(lambda: world.ready(*EIGHT))
        assert {name: rendered(world, name) for name in EIGHT} == before
        await operator.kill()
        world.start()
        await asyncio.sleep(600)
        assert phase(world) == "RolledBack"
        assert {name: rendered(world, name) for name in EIGHT} == before
        assert [str(each) for each in of(world, *others) if each.resource != "controllerrevisions"] == []
    assert journal.moves == [(victim, "operator"), (victim, "")]
    assert journal.mistakes == []


def _images() -> Any:
    program = sources.compiled(sources.shipped() / sources.DEFAULT_SET)
    return program.effective(fleet={}, namespace={})["images"]


async def test_an_operator_that_dies_twenty_times_changes_nothing_in_order_or_end(world: World) -> None:
    """Waves, soak, budget and records hold at every write, whoever makes it; nobody is moved twice."""
    chance = random.Random(6)
    waved(world)
    timing = Timing(duration=6, renew=4, retry=1)
    async with world.nature():
        operator = world.start(timing=timing)
        await fleet(world, WAVES)
        journal = Journal(world, unavailable=2)
        turn, begun = 1, 0
        for _ in range(20):
            if turn == 1 or upgraded(world, str(turn))():
                turn, begun = turn + 1, begun + 1
                source(world, str(turn))
            await asyncio.sleep(chance.uniform(0, 60))
            await operator.kill()
            operator = world.start(timing=timing)
        await world.until(upgraded(world, str(turn)), 3600)
    assert journal.mistakes == []
    for each in range(2, turn + 1):
        assert Counter(journal.moved(str(each))) == Counter(EIGHT)
        journal.in_order(str(each), WAVES.values(), soak=20)
    assert turns(world, *EIGHT) == {str(turn)}
