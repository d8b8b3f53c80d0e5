"""The operator before the fences that are around it: what it is told, and what it makes of it."""

from collections.abc import Iterator
from typing import Any

import pytest

from metaoperator.core.names import FENCES_BY_PLACE
from tests.fake import FakeApiServer

from .world import World

DENIED = (
    "configmaps \"workflow-controller-configmap\" is forbidden: ValidatingAdmissionPolicy '{0}' with binding '{0}' "
    "denied request: namespace team-a is not opted in: label the namespace"
)


@pytest.fixture
def told(server: FakeApiServer) -> Iterator[list[str]]:
    """Collect every status that is ever published and every Event that is ever told."""
    texts: list[str] = []

    def notice(_: Any, event: Any) -> None:
        if event.obj["kind"] in ("WorkflowController", "Event"):
            texts.append(str(event.obj))

    server.store.listeners.append(notice)
    yield texts
    server.store.listeners.remove(notice)


@pytest.mark.parametrize("policy", FENCES_BY_PLACE)
async def test_an_api_server_that_does_not_know_of_the_label_yet_is_asked_again(
    world: World, server: FakeApiServer, told: list[str], policy: str
) -> None:
    """Its own copy of the namespace may be a moment older than ours: nothing for a person, nor to wait a minute."""
    fault = server.faults.answer(403, message=DENIED.format(policy), verb="apply", resource="configmaps", times=3)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"), 30)
    assert fault.hits == 3
    assert not [text for text in told if "Rejected" in text]


async def test_a_fence_that_stays_is_told_with_its_name(world: World, server: FakeApiServer) -> None:
    """Whoever looks reads which policy says no, and what to do; once it is put right, all goes on by itself."""
    policy = FENCES_BY_PLACE[0]
    server.faults.answer(403, message=DENIED.format(policy), verb="apply", resource="configmaps", times=1_000_000)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a", "Reconciling") == ("True", "Retrying"))
        assert policy in world.message("team-a", "Reconciling")
        assert "label the namespace" in world.message("team-a", "Reconciling")
        assert world.condition("team-a", "Stalled")[0] != "True"
        server.faults.clear()
        await world.until(lambda: world.ready("team-a"), 400)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ('configmaps is forbidden: User "x" cannot create resource "configmaps"', "OperatorForbidden"),
        (DENIED.format("metaoperator-operator-rolebindings"), "Rejected"),
        (DENIED.format("their-policy"), "Rejected"),
    ],
    ids=["rbac", "a fence that judges the object", "a policy of somebody else"],
)
async def test_all_else_that_says_no_is_for_a_person(
    world: World, server: FakeApiServer, message: str, reason: str
) -> None:
    """What is missing there does not come by asking again: Stalled, in the API server's words."""
    server.faults.answer(403, message=message, verb="apply", resource="configmaps", times=1_000_000)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a", "Stalled") == ("True", reason))
        assert message in world.message("team-a", "Stalled")


async def test_a_label_that_goes_while_we_write_is_nobodys_trouble(
    world: World, server: FakeApiServer, told: list[str]
) -> None:
    """Denied because the namespace left a moment ago, we look anew, leave too, and tell of nothing but that."""
    held = server.faults.hang(verb="apply", resource="configmaps", times=1)
    message = DENIED.format("metaoperator-operator-writes")
    denied = server.faults.answer(403, message=message, verb="apply", resource="configmaps", times=1)
    async with world.operator():
        world.opt_in("team-a")
        await held.entered()
        # The event is late, or lost.
        server.faults.drop_events(verb="MODIFIED", resource="namespaces", times=1)
        world.opt_out("team-a")
        held.release()
        await world.until(lambda: denied.hits == 1 and world.wfc("team-a") is None and world.empty("team-a"))
    assert not [text for text in told if "ValidatingAdmissionPolicy" in text]


async def test_a_fence_that_keeps_a_child_from_leaving_is_told(world: World, server: FakeApiServer) -> None:
    """Nothing is removed past it, the row says why, and the rest follows once it is put right."""
    policy = FENCES_BY_PLACE[-1]
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        server.faults.answer(403, message=DENIED.format(policy), verb="delete", resource="deployments", times=1_000_000)
        world.opt_out("team-a")
        await world.until(lambda: world.condition("team-a", "Reconciling") == ("True", "Removing"))
        await world.until(lambda: policy in world.message("team-a", "Reconciling"))
        assert world.whole("team-a")
        server.faults.clear()
        await world.until(lambda: world.wfc("team-a") is None and world.empty("team-a"), 400)
