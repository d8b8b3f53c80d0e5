"""What namespaces wait for, as they and their ControllerTemplate tell it, and what begins no rollout at all."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from metaoperator import sources
from metaoperator.core import names
from metaoperator.rollup import Rollup

from .fleets import BY_LABEL, Journal, Statuses, fleet, of, phase, policy, source, turns, upgraded, waits
from .world import World

WAVES = {"canary": ["a-0", "a-1"], "1": ["b-0", "b-1", "b-2"], "2": ["c-0", "c-1"], "": ["d-0"]}
EIGHT = [name for members in WAVES.values() for name in members]
LATER = EIGHT[2:]
NEVER = [{"cron": "0 0 29 2 *", "duration": "1m"}]


def waved(world: World, **rollout: Any) -> None:
    """Let pods take three seconds, and namespaces go by their labels."""
    world.controller.startup = 3.0
    usual: dict[str, Any] = {"waves": BY_LABEL, "maxUnavailable": 1, "soakSeconds": 20, "progressDeadlineSeconds": 120}
    policy(world, **(usual | rollout))


HINDERED: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "paused": ({"paused": True}, {"paused": False}, "RolloutPaused", "RolloutPaused"),
    "a window": ({"windows": NEVER}, {"windows": None}, "WaitsForWindow", "WaitsForWave"),
    "approval": (
        {"waves": [{**BY_LABEL[0], "approval": True}, *BY_LABEL[1:]]},
        {"waves": BY_LABEL},
        "WaitsForApproval",
        "WaitsForWave",
    ),
    "a typo": (
        {"waves": [{"name": "typo", "selector": {"matchLabels": {"wave": "canari"}}}, *BY_LABEL]},
        {"waves": BY_LABEL},
        "WaveEmpty",
        "WaveEmpty",
    ),
}


@pytest.mark.parametrize("case", HINDERED.values(), ids=HINDERED.keys())
async def test_everybody_is_told_what_it_waits_for(
    world: World, case: tuple[dict[str, Any], dict[str, Any], str, str]
) -> None:
    """One reason each, the same sentence for hours, and nothing is written; what is let go goes at once."""
    hinders, lets, first, later = case
    waved(world)
    async with world.operator():
        await fleet(world, WAVES)
        policy(world, **hinders)
        await asyncio.sleep(30)
        world.server.audit.clear()
        statuses = Statuses(world)
        source(world, "2")
        await world.until(lambda: waits(world, *LATER) == {("True", later)})
        await world.until(lambda: waits(world, *WAVES["canary"]) == {("True", first)})
        await asyncio.sleep(3600)
        assert waits(world, *LATER) == {("True", later)}
        assert of(world, *EIGHT) == []
        assert all(statuses.writes[name] <= 2 for name in EIGHT), statuses.writes
        assert all(len(statuses.told[name]) <= 2 for name in EIGHT), statuses.told
        policy(world, **lets)
        await world.until(lambda: turns(world, *WAVES["canary"]) & {"2"}, 30)
        await world.until(upgraded(world, "2"), 1800)


async def test_who_waits_has_its_status_written_twice_at_most(world: World) -> None:
    """Checked or waiting for its wave, then for the budget: after that it is moved."""
    waved(world)
    async with world.operator():
        await fleet(world, WAVES)
        await asyncio.sleep(30)
        statuses = Statuses(world)
        waited: dict[str, int] = {}
        source(world, "2")

        def ended() -> bool:
            for name in EIGHT:
                if turns(world, name) != {"2"}:
                    waited[name] = statuses.writes[name]
            return upgraded(world, "2")()

        await world.until(ended, 1800)
    assert all(count <= 2 for count in waited.values()), (waited, dict(statuses.told))
    told = {each for name in LATER for each in statuses.told[name]}
    assert {reason for reason, _ in told} <= {"RolloutChecking", "WaitsForWave", "WaitsForBudget"}


async def test_who_has_work_waits_for_it_and_the_budget_goes_to_others(world: World) -> None:
    """`workflows: Wait`: a namespace with unfinished Workflows is moved when they have ended, or their time is over."""
    waved(world, workflows="Wait", workflowsTimeoutSeconds=900)
    async with world.operator():
        await fleet(world, WAVES)
        for name in ("b-0", "b-1"):
            world.workflow(name, "long")
            world.phase(name, "long", "Running")
        await world.until(lambda: all(world.status(each)["workflows"]["running"] == 1 for each in ("b-0", "b-1")))
        journal = Journal(world, unavailable=1)
        source(world, "2")
        await world.until(lambda: turns(world, "b-2") == {"2"}, 600)
        await world.until(lambda: waits(world, "b-0", "b-1") == {("True", "WaitsForWorkflows")})
        await asyncio.sleep(300)
        assert phase(world) == "Progressing"
        world.phase("b-0", "long", "Succeeded", completed=True)
        await world.until(lambda: turns(world, "b-0") == {"2"}, 30)
        assert turns(world, "b-1", "c-0") == {""}
        await world.until(lambda: turns(world, "b-1") == {"2"}, 900)
        await world.until(upgraded(world, "2"), 1800)
    assert journal.mistakes == []


async def test_a_default_that_is_written_down_begins_nothing(world: World) -> None:
    """Another set revision of the same bytes: no write to a child, none to the record of a namespace."""
    waved(world)
    async with world.operator():
        await fleet(world, WAVES)
        world.server.audit.clear()
        target = world.rollout()["target"]
        program = sources.compiled(sources.shipped() / sources.DEFAULT_SET)
        default = program.effective(fleet={}, namespace={})["requeueTime"]
        spec = {"spec": {"values": {"requeueTime": default}}}
        world.server.patch("ControllerTemplate", None, "default", spec, manager="kubectl")
        await world.until(lambda: world.rollout()["target"] != target)
        await world.until(lambda: phase(world) == "Done")
        await asyncio.sleep(600)
        assert of(world, *EIGHT) == []
        await world.proven()


async def test_a_comment_and_a_default_that_nobody_sees_begin_nothing(world: World, tmp_path: Path) -> None:
    """A set in a directory, changed where no byte of a child comes of it."""
    folder = tmp_path / "sets" / "workflow-controller"
    folder.mkdir(parents=True)
    for file in (sources.shipped() / "workflow-controller").iterdir():
        (folder / file.name).write_text(file.read_text())
    waved(world)
    async with world.operator(templates=(tmp_path / "sets",)):
        await fleet(world, WAVES)
        world.server.audit.clear()
        target = world.rollout()["target"]
        deployment = folder / "deployment.yaml.j2"
        deployment.write_text("{# nothing to see #}\n" + deployment.read_text())
        await world.until(lambda: world.rollout()["target"] != target, 300)
        await world.until(lambda: phase(world) == "Done")
        await asyncio.sleep(600)
        assert of(world, *EIGHT) == []
        await world.proven()


async def test_a_namespace_of_its_own_values_goes_at_once_where_it_stands(world: World) -> None:
    """It waits for the fleet's revision and gets its own change at the one it has; unused labels change nothing."""
    waved(world, paused=True)
    async with world.operator():
        policy(world, paused=False)
        await fleet(world, WAVES)
        policy(world, paused=True)
        source(world, "2")
        await world.until(lambda: waits(world, *EIGHT) == {("True", "RolloutPaused")})
        world.server.audit.clear()
        patch = {"metadata": {"labels": {"cost": "7"}, "annotations": {"owner": "somebody"}}}
        world.server.patch("Namespace", None, "c-0", patch, manager="kubectl")
        await asyncio.sleep(300)
        assert of(world, *EIGHT) == []
        world.spec("c-1", values={"resources": {"limits": {"memory": "1Gi"}}})
        await world.until(lambda: _memory(world, "c-1") == "1Gi", 30)
        assert turns(world, *EIGHT) == {""}
        await asyncio.sleep(300)
        assert of(world, *(each for each in EIGHT if each != "c-1")) == []
        assert waits(world, *EIGHT) == {("True", "RolloutPaused")}
        policy(world, paused=False)
        await world.until(upgraded(world, "2"), 1800)
        assert _memory(world, "c-1") == "1Gi"


async def test_namespaces_change_their_controller_template_in_a_rollout(world: World) -> None:
    """Whoever goes over holds up neither fleet, gets the other's revision at once, and both rollouts end."""
    waved(world)
    world.template("other", {"podAnnotations": {"turn": "other"}})
    async with world.operator():
        await fleet(world, WAVES)
        source(world, "2")
        await world.until(lambda: turns(world, "b-0") == {"2"}, 600)
        for name in ("b-1", "c-0"):
            world.label(name, "other")
        await world.until(lambda: turns(world, "b-1", "c-0") == {"other"}, 60)
        await world.until(lambda: phase(world) == "Done", 1800)
        await world.until(lambda: phase(world, "other") == "Done", 300)
        assert turns(world, *(each for each in EIGHT if each not in {"b-1", "c-0"})) == {"2"}
        world.label("b-1", "enabled")
        await world.until(lambda: turns(world, "b-1") == {"2"}, 60)
        await world.until(lambda: phase(world) == "Done", 300)


async def test_a_fleet_of_nobody_is_done_and_asks_for_nothing(world: World) -> None:
    """A ControllerTemplate that nobody uses costs nothing, whatever becomes of its source."""
    waved(world)
    async with world.operator():
        await world.until(lambda: phase(world) == "Done")
        source(world, "2")
        await asyncio.sleep(60)
        world.server.audit.clear()
        await asyncio.sleep(600)
        assert phase(world) == "Done"
        assert [str(each) for each in world.writes() + world.books() if each.resource != "leases"] == []


@pytest.mark.parametrize("state", ["waiting", "done", "failed"])
async def test_nothing_polls(world: World, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an hour in which nothing happens, a ControllerTemplate is looked at a few times."""
    looks = 0
    genuine = Rollup.publish

    async def counted(self: Rollup, name: str) -> float | None:
        nonlocal looks
        looks += 1
        return await genuine(self, name)

    monkeypatch.setattr(Rollup, "publish", counted)
    waved(world)
    world.controller.broken.add("nowhere.example")
    async with world.operator():
        await fleet(world, WAVES)
        if state != "done":
            policy(world, paused=state == "waiting")
            source(world, "2", registry="nowhere.example")
            await world.until(lambda: phase(world) == {"waiting": "Paused", "failed": "Failed"}[state], 300)
        await asyncio.sleep(300)
        looks = 0
        await asyncio.sleep(3600)
    assert looks < 60


def _memory(world: World, namespace: str) -> str:
    live = world.server.get("Deployment", namespace, names.WORKFLOW_CONTROLLER)
    assert live is not None
    return str(live["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"])
