"""What stands around a child by value alone: budget, network policy, and a monitor whose kind most clusters lack."""

import asyncio
import logging
from typing import Any

import pytest

from tests.fake import FakeApiServer

from .world import SIX, World

MONITORED = {"podMonitor": {"enabled": True}}
GUARDED = {"podDisruptionBudget": {"enabled": True}, "networkPolicy": {"enabled": True}}
MONITOR = ("PodMonitor", "workflow-controller")
AROUND = {("NetworkPolicy", "workflow-controller"), ("PodDisruptionBudget", "workflow-controller")}
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podmonitors.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "scope": "Namespaced",
        "names": {"kind": "PodMonitor", "plural": "podmonitors"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def fleet(world: World, values: dict[str, Any]) -> None:
    """Change the fleet's values."""
    world.server.patch("ControllerTemplate", None, "default", {"spec": {"values": values}}, manager="kubectl")


async def test_a_monitor_without_its_kind_is_told_and_holds_up_nothing_else(
    world: World, server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Its namespace gets its child, all but the monitor, and a cure; others hear nothing; the CRD heals it."""
    caplog.set_level(logging.INFO)
    world.template("monitored", MONITORED)
    async with world.operator() as one:
        world.opt_in("team-a")
        world.opt_in("team-b", "monitored")
        await world.until(lambda: world.ready("team-a"))
        await world.until(lambda: world.condition("team-b", "Stalled") == ("True", "KindUnseen"))
        await world.until(lambda: world.whole("team-b"))
        assert "no monitoring.coreos.com/v1 PodMonitor" in world.message("team-b")
        assert "install its CRD, or switch off the value" in world.message("team-b")
        await asyncio.sleep(60)
        before = len(world.writes())
        await asyncio.sleep(600)
        assert len(world.writes()) == before
        assert world.ready("team-a")
        assert not one.operator._unready()
        assert not one.operator._unhealthy()
        server.define(CRD)
        await world.until(lambda: world.ready("team-b"), 300)
        assert MONITOR in world.child("team-b")
        assert MONITOR not in world.child("team-a")
        assert not [each for each in caplog.records if each.exc_info]


async def test_a_monitor_without_its_kind_does_not_hold_up_an_opt_out(world: World) -> None:
    """The way out is the same as ever."""
    world.template("monitored", MONITORED)
    async with world.operator():
        world.opt_in("team-b", "monitored")
        await world.until(lambda: world.whole("team-b"))
        world.opt_out("team-b")
        await world.until(lambda: world.empty("team-b") and world.wfc("team-b") is None, 120)


async def test_drift_is_repaired_beside_a_monitor_that_waits(world: World, server: FakeApiServer) -> None:
    """Stalled over the monitor alone: everything else is kept."""
    world.template("monitored", MONITORED)
    async with world.operator():
        world.opt_in("team-b", "monitored")
        await world.until(lambda: world.whole("team-b"))
        server.delete("RoleBinding", "team-b", "workflow-executor")
        await world.until(lambda: world.whole("team-b"))


async def test_a_kind_that_goes_and_comes_back_takes_its_monitor_along(world: World, server: FakeApiServer) -> None:
    """Without the CRD there is no monitor, which is told; with it there is one again."""
    world.template("monitored", MONITORED)
    server.define(CRD)
    async with world.operator():
        world.opt_in("team-b", "monitored")
        await world.until(lambda: world.ready("team-b"))
        assert MONITOR in world.child("team-b")
        definition = server.withdraw("PodMonitor")
        await world.until(lambda: world.condition("team-b", "Stalled") == ("True", "KindUnseen"), 300)
        assert world.whole("team-b")
        server.define(definition)
        await world.until(lambda: world.ready("team-b") and MONITOR in world.child("team-b"), 300)


@pytest.mark.parametrize("resource", ["podmonitors", "networkpolicies", "poddisruptionbudgets"])
async def test_rights_of_before_harm_nobody_who_asks_for_nothing_new(
    world: World, server: FakeApiServer, resource: str
) -> None:
    """A new operator under an old ClusterRole: a namespace without the kind is served, and one with it once granted."""
    server.define(CRD)
    refused = server.faults.answer(403, message="forbidden", resource=resource, times=10**6)
    world.template("all", MONITORED | GUARDED)
    async with world.operator() as one:
        world.opt_in("team-a")
        world.opt_in("team-b", "all")
        await world.until(lambda: world.ready("team-a"))
        await world.until(lambda: world.condition("team-b", "Stalled") == ("True", "KindUnseen"))
        assert not one.operator._unready()
        assert "grant it get, list and watch" in world.message("team-b")
        await world.until(lambda: len(world.child("team-b")) == len(SIX) + 2)
        refused.release()
        await world.until(lambda: world.ready("team-b") and len(world.child("team-b")) == len(SIX) + 3, 300)


async def test_what_stands_around_a_child_comes_and_goes_with_its_value(world: World, server: FakeApiServer) -> None:
    """Switched on, edited by a hand, switched off: made, repaired, pruned; and removed at an opt-out."""
    server.define(CRD)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        fleet(world, GUARDED | MONITORED)
        world.spec("team-a", values={"requeueTime": "2s"})
        await world.until(lambda: set(world.child("team-a")) == {*SIX, *AROUND, MONITOR}, 120)
        patch = {"spec": {"maxUnavailable": 0}}
        server.patch("PodDisruptionBudget", "team-a", "workflow-controller", patch, manager="tenant")

        def repaired() -> bool:
            live = server.get("PodDisruptionBudget", "team-a", "workflow-controller")
            return live is not None and live["spec"]["maxUnavailable"] == 1

        await world.until(repaired)
        fleet(world, {"podDisruptionBudget": {"enabled": False}, "podMonitor": {"enabled": False}})
        world.spec("team-a", values={"requeueTime": "3s"})
        await world.until(lambda: set(world.child("team-a")) == {*SIX, ("NetworkPolicy", "workflow-controller")}, 120)
        world.opt_out("team-a")
        await world.until(lambda: world.empty("team-a") and world.wfc("team-a") is None, 120)
