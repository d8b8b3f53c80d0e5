"""The whole operator against somebody who takes its fields back: it stops, says who it is, and goes on elsewhere."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from metaoperator.core import names
from tests.fake import FakeApiServer

from .world import World

RIVALS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "replicas": ("Deployment", "workflow-controller", {"spec": {"replicas": 3}}, "spec.replicas"),
    "a ConfigMap": ("ConfigMap", "workflow-controller-configmap", {"data": {"config": "x: 1\n"}}, "data.config"),
    "an account": (
        "ServiceAccount",
        "workflow-controller",
        {"automountServiceAccountToken": True},
        "automountServiceAccountToken",
    ),
}


@contextlib.asynccontextmanager
async def rival(world: World, case: str, *, pause: float = 0.05) -> AsyncIterator[list[bool]]:
    """Let another controller take a field back, some time after each change; `[False]` when it is to rest."""
    kind, name, patch, _ = RIVALS[case]
    active = [True]

    def take() -> None:
        if active[0] and world.server.get(kind, "team-a", name) is not None:
            world.server.patch(kind, "team-a", name, patch, manager="other-controller")

    def notice(changed: Any, event: Any) -> None:
        if changed.kind == kind and event.obj["metadata"]["name"] == name and active[0]:
            asyncio.get_running_loop().call_later(pause, take)

    world.server.store.listeners.append(notice)
    take()
    try:
        yield active
    finally:
        active[0] = False
        world.server.store.listeners.remove(notice)


def repairs(world: World, case: str) -> int:
    """Count the applies that changed the object."""
    kind, name, _, _ = RIVALS[case]
    changed = world.server.audit.select(verb="apply", resource=f"{kind.lower()}s", name=name, namespace="team-a")
    return len([entry for entry in changed if entry.changed and not entry.dry_run])


async def served(world: World, *spaces: str) -> None:
    """Bring children up."""
    for each in spaces:
        world.opt_in(each)
    await world.until(lambda: world.ready(*spaces))
    await asyncio.sleep(30)
    world.server.audit.clear()


@pytest.mark.parametrize("case", RIVALS)
async def test_a_field_that_is_taken_back_at_once_is_put_right_three_times(
    world: World, server: FakeApiServer, case: str
) -> None:
    """Then READY, Stalled and a Warning name object, field and the other writer, and no more is written for an hour."""
    async with world.operator(), fought(world, case):
        assert repairs(world, case) == 3
        kind, name, _, field = RIVALS[case]
        message = world.message("team-a")
        assert f"{kind}/team-a/{name}: {field}" in message
        assert "other-controller" in message
        assert world.condition("team-a", "Stalled") == ("True", "DriftFight")
        assert [event["type"] for event in world.events("DriftFight")] == ["Warning"]
        await asyncio.sleep(5)
        server.audit.clear()
        await asyncio.sleep(3000)
        assert world.writes() == []
        assert not [entry for entry in world.ours() if entry.dry_run]
        assert len([entry for entry in world.ours() if entry.verb == "get"]) == 0
        await world.until(lambda: repairs(world, case) == 1, 900)
        await asyncio.sleep(1800)
        assert repairs(world, case) == 1
        assert {entry.resource for entry in world.writes()} <= {f"{kind.lower()}s", "events", "workflowcontrollers"}


@contextlib.asynccontextmanager
async def fought(world: World, case: str) -> AsyncIterator[list[bool]]:
    """Bring a child up, and wait until the operator gave way to a rival."""
    await served(world, "team-a")
    async with rival(world, case) as active:
        await world.until(lambda: world.condition("team-a") == ("False", "DriftFight"), 90, what=case)
        await asyncio.sleep(5)
        yield active


async def test_everything_else_of_the_namespace_goes_on(world: World, server: FakeApiServer) -> None:
    """While one object is fought over, another one's drift is repaired, values are applied, neighbours are served."""
    async with world.operator():
        await served(world, "team-a", "team-b")
        async with rival(world, "an account"):
            await world.until(lambda: world.condition("team-a") == ("False", "DriftFight"))
            server.patch("Deployment", "team-a", "workflow-controller", {"spec": {"replicas": 0}}, manager="kubectl")
            await world.until(lambda: _deployment(server)["spec"]["replicas"] == 1, 5)
            server.delete("Service", "team-a", "workflow-controller-metrics")
            await world.until(lambda: server.get("Service", "team-a", "workflow-controller-metrics"), 5)
            world.spec("team-a", values={"workers": {"workflow": 7}})
            await world.until(lambda: "--workflow-workers=7" in _arguments(server), 5)
            assert world.ready("team-b")
            assert world.condition("team-a") == ("False", "DriftFight")


async def test_a_fight_ends_when_the_other_gives_up(world: World, server: FakeApiServer) -> None:
    """What is rendered is written by the other itself: READY within two minutes, and the next edit is repaired."""
    async with world.operator():
        await served(world, "team-a")
        async with rival(world, "replicas") as active:
            await world.until(lambda: world.condition("team-a") == ("False", "DriftFight"))
            active[0] = False
            server.patch("Deployment", "team-a", "workflow-controller", {"spec": {"replicas": 1}}, manager="kubectl")
            await world.until(lambda: world.ready("team-a"), 5)
        server.audit.clear()
        server.patch("Deployment", "team-a", "workflow-controller", {"spec": {"replicas": 3}}, manager="kubectl")
        await world.until(lambda: world.ready("team-a") and repairs(world, "replicas") == 1, 5)


async def test_what_is_rendered_anew_is_applied_at_once(world: World, server: FakeApiServer) -> None:
    """Other bytes are no drift: values that the template changes reach the object in the middle of a fight."""
    async with world.operator():
        await served(world, "team-a")
        async with rival(world, "replicas"):
            await world.until(lambda: world.condition("team-a") == ("False", "DriftFight"))
            world.spec("team-a", values={"workers": {"workflow": 7}})
            await world.until(lambda: "--workflow-workers=7" in _arguments(server), 5)
            await world.until(lambda: world.condition("team-a") == ("False", "DriftFight"), 120)


async def test_after_the_other_was_stopped_the_hourly_try_ends_the_fight(world: World, server: FakeApiServer) -> None:
    """Nobody has to do anything: within an hour the field is back, ten minutes later READY says so."""
    async with world.operator():
        await served(world, "team-a")
        async with rival(world, "replicas"):
            await world.until(lambda: world.condition("team-a") == ("False", "DriftFight"))
        await world.until(lambda: _deployment(server)["spec"]["replicas"] == 1, 3800)
        assert world.condition("team-a") == ("False", "DriftFight")
        await asyncio.sleep(300)
        assert world.condition("team-a") == ("False", "DriftFight")
        await world.until(lambda: world.ready("team-a"), 500)
    assert repairs(world, "replicas") == 4


async def test_a_slow_rival_is_one_as_well(world: World) -> None:
    """Every four minutes: the fourth time it is left."""
    async with world.operator():
        await served(world, "team-a")
        async with rival(world, "replicas", pause=240):
            await world.until(lambda: world.condition("team-a") == ("False", "DriftFight"), 1500)
            assert repairs(world, "replicas") == 3


async def test_a_restart_costs_three_more_writes_at_most(world: World) -> None:
    """What is remembered of a fight is a cache."""
    async with world.operator() as one, fought(world, "replicas"):
        before = repairs(world, "replicas")
        await one.kill()
        world.start()
        await asyncio.sleep(300)
        assert world.condition("team-a") == ("False", "DriftFight")
        assert before < repairs(world, "replicas") <= before + 3


async def test_an_opt_out_ends_a_fight(world: World) -> None:
    """What is fought over leaves with the rest, and comes back as ever."""
    async with world.operator() as one:
        await served(world, "team-a")
        async with rival(world, "an account") as active:
            await world.until(lambda: world.condition("team-a") == ("False", "DriftFight"))
            active[0] = False
            world.opt_out("team-a")
            await world.until(lambda: world.empty("team-a") and world.wfc("team-a") is None, 90)
            assert len(one.operator._reconciler._actor._fights) == 0
            world.opt_in("team-a")
            await world.until(lambda: world.ready("team-a"))


@pytest.mark.parametrize(
    ("kind", "name"), [("Deployment", "workflow-controller"), ("ServiceAccount", "workflow-controller")]
)
async def test_an_object_that_is_deleted_each_time_is_made_every_minute_or_two(
    world: World, server: FakeApiServer, kind: str, name: str
) -> None:
    """Deleted at once by somebody's clean-up job: no storm, and told; when they stop, READY within ten minutes."""
    async with world.operator():
        await served(world, "team-a")
        births = _births(server, kind, name)
        active = _deletes(server, kind, name)
        await world.until(lambda: world.condition("team-a") == ("False", "DriftFight"), 10)
        assert f"{kind}/team-a/{name}: is gone again" in world.message("team-a")
        await asyncio.sleep(600)
        assert 5 <= len(births) <= 14
        active[0] = False
        await world.until(lambda: server.get(kind, "team-a", name) is not None, 250)
        await world.until(lambda: world.ready("team-a") and world.whole("team-a"), 800)


async def test_an_object_that_a_person_deletes_now_and_then_is_made_at_once(
    world: World, server: FakeApiServer
) -> None:
    """Every six minutes, the way some people restart things."""
    async with world.operator():
        await served(world, "team-a")
        for _ in range(5):
            server.delete("Deployment", "team-a", "workflow-controller")
            await world.until(lambda: world.ready("team-a"), 20)
            await asyncio.sleep(360)


async def test_an_account_that_is_made_anew_is_no_fight_over_the_child_that_runs_under_it(
    world: World, server: FakeApiServer
) -> None:
    """Each account has another UID, and pods that know it: the child follows as often as that, and nobody is blamed."""
    async with world.operator():
        await served(world, "team-a")
        await asyncio.sleep(1000)
        for _ in range(4):
            server.delete("ServiceAccount", "team-a", "workflow-controller")
            await world.until(lambda: server.get("ServiceAccount", "team-a", "workflow-controller"), 5)
            await world.until(lambda: world.ready("team-a") and _account(server) == _deployed_account(server), 20)
            await asyncio.sleep(100)
        assert world.events("DriftFight") == []


def _births(server: FakeApiServer, kind: str, name: str) -> list[str]:
    found: list[str] = []

    def notice(changed: Any, event: Any) -> None:
        if (changed.kind, event.type, event.obj["metadata"]["name"]) == (kind, "ADDED", name):
            found.append(event.obj["metadata"]["uid"])

    server.store.listeners.append(notice)
    return found


def _deletes(server: FakeApiServer, kind: str, name: str) -> list[bool]:
    """Delete an object now, and each time that it is made, while it says so."""
    active = [True]

    def delete() -> None:
        if active[0] and server.get(kind, "team-a", name) is not None:
            server.delete(kind, "team-a", name)

    def notice(changed: Any, event: Any) -> None:
        if (changed.kind, event.type, event.obj["metadata"]["name"]) == (kind, "ADDED", name):
            asyncio.get_running_loop().call_later(0.1, delete)

    server.store.listeners.append(notice)
    delete()
    return active


def _deployment(server: FakeApiServer) -> dict[str, Any]:
    found = server.get("Deployment", "team-a", "workflow-controller")
    assert found is not None
    return found


def _account(server: FakeApiServer) -> str:
    found = server.get("ServiceAccount", "team-a", "workflow-controller")
    assert found is not None
    return str(found["metadata"]["uid"])


def _deployed_account(server: FakeApiServer) -> str:
    annotations = _deployment(server)["spec"]["template"]["metadata"]["annotations"]
    return str(annotations[names.ACCOUNT_ANNOTATION])


def _arguments(server: FakeApiServer) -> list[str]:
    return _deployment(server)["spec"]["template"]["spec"]["containers"][0]["args"]  # type: ignore[no-any-return]
