"""What people and clusters do to an adoption: an install that works goes on working, whoever gives up in the middle."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from metaoperator.core import names
from tests.fake import FakeApiServer

from .test_adopt import CONFIG, NAME, get, pinned, row, stock, the_same
from .test_drain import operator, told
from .test_overlap import may_list
from .test_strays import submit
from .test_sweep import CRON, cron, label, swept
from .world import World


@pytest.mark.parametrize("install", [the_same, stock])
@pytest.mark.parametrize("then", ["again", "gone"])
async def test_who_gives_up_in_the_middle_does_not_take_the_ground_from_a_controller_that_works(
    world: World, server: FakeApiServer, then: str, install: Callable[[World, str], None]
) -> None:
    """All is ours but the Deployment, which a policy keeps: opting out leaves what it runs on, and says so."""
    install(world, "blue")
    pinned(world)
    row(world)
    no = server.faults.answer(
        403,
        message="images of another registry",
        verb={"patch", "apply", "create"},
        resource="deployments",
        times=10**6,
    )
    async with operator(world):
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a", "Stalled")[0] == "True")
        assert get(server, "ConfigMap", CONFIG)["metadata"]["labels"][names.MANAGED_BY_LABEL] == names.MANAGED_BY
        world.opt_out("team-a")
        await world.until(lambda: "opt in again" in world.message("team-a", "Reconciling"), 120)
        await asyncio.sleep(300)
        for kind, name in (("ConfigMap", CONFIG), ("ServiceAccount", NAME), ("RoleBinding", NAME)):
            assert server.get(kind, "team-a", name) is not None
        if then == "again":
            no.release()
            world.opt_in("team-a")
            await world.until(lambda: world.ready("team-a"), 200)
        else:
            server.delete("Deployment", "team-a", NAME)
            await world.until(lambda: not world.child("team-a"), 200)


async def test_while_an_install_is_replaced_nothing_is_swept_and_nothing_is_refused(
    world: World, server: FakeApiServer
) -> None:
    """Its pod takes a minute to end: it goes on with what it has; then the child has it."""
    stock(world, "team-a")
    row(world)
    cron(world, "mine", instance="team-a")
    submit(world, "team-a", "none", None)
    async with operator(world):
        await world.until(lambda: server.select("Pod", "team-a"))
        (pod,) = server.select("Pod", "team-a")
        server.patch("Pod", "team-a", pod["metadata"]["name"], {"metadata": {"finalizers": ["example.org/hold"]}})
        world.opt_in("team-a")
        await asyncio.sleep(60)
        assert swept(world) == []
        assert world.events("AdoptionRefused") == []
        server.patch("Pod", "team-a", pod["metadata"]["name"], {"metadata": {"finalizers": None}})
        await world.until(lambda: world.ready("team-a"), 120)
        await world.until(lambda: label(world, "none") == "team-a", 60)
        assert label(world, "mine", CRON) == "team-a"
        await asyncio.sleep(60)
        server.audit.clear()
        await asyncio.sleep(300)
        assert not [each for each in world.ours() if each.resource == "pods" and each.verb == "list"]


def the_same_with_rights(world: World, instance: str) -> None:
    """Install what the operator would render; its account may list Workflows, as the ClusterRole says."""
    the_same(world, instance)
    may_list(world, "team-a", NAME)


@pytest.mark.parametrize("install", [the_same_with_rights, stock])
async def test_where_an_install_was_taken_over_the_sweep_works_as_everywhere(
    world: World, server: FakeApiServer, install: Callable[[World, str], None]
) -> None:
    """The pods under its name are ours by then: they are no sign that the controller of before still works."""
    install(world, "team-a")
    row(world)
    async with operator(world):
        await world.until(lambda: server.select("Pod", "team-a"))
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(60)
        submit(world, "team-a", "none", None)
        await world.until(lambda: label(world, "none") == "team-a", 60)
        await asyncio.sleep(60)
        server.audit.clear()
        await asyncio.sleep(300)
        assert not [each for each in world.ours() if each.resource == "pods" and each.verb == "list"]


async def test_an_install_without_an_id_that_is_replaced_is_not_said_to_be_refused(
    world: World, server: FakeApiServer
) -> None:
    """Policy None: while ours waits for the old pods there is nothing that a person has to mend."""
    stock(world, "")
    server.patch("ControllerTemplate", None, "default", {"spec": {"instanceIDPolicy": "None"}}, manager="kubectl")
    server.delete("MutatingAdmissionPolicy", None, names.STAMPING_POLICY)
    row(world)
    async with operator(world):
        await world.until(lambda: server.select("Pod", "team-a"))
        (pod,) = server.select("Pod", "team-a")
        server.patch("Pod", "team-a", pod["metadata"]["name"], {"metadata": {"finalizers": ["example.org/hold"]}})
        world.opt_in("team-a")
        await asyncio.sleep(60)
        assert world.events("AdoptionRefused") == []
        server.patch("Pod", "team-a", pod["metadata"]["name"], {"metadata": {"finalizers": None}})
        await world.until(lambda: world.ready("team-a"), 120)


async def test_a_row_that_is_deleted_while_an_install_is_replaced_changes_no_id(
    world: World, server: FakeApiServer
) -> None:
    """What is ours by then says which one it is; without `adopt` nothing more is taken."""
    stock(world, "blue")
    pinned(world)
    row(world)
    async with operator(world):
        await world.until(lambda: server.select("Pod", "team-a"))
        (pod,) = server.select("Pod", "team-a")
        server.patch("Pod", "team-a", pod["metadata"]["name"], {"metadata": {"finalizers": ["example.org/hold"]}})
        world.opt_in("team-a")
        await asyncio.sleep(30)
        server.delete("WorkflowController", "team-a", NAME)
        await asyncio.sleep(60)
        server.patch("Pod", "team-a", pod["metadata"]["name"], {"metadata": {"finalizers": None}})
        await world.until(lambda: world.ready("team-a"), 200)
        assert get(server, "WorkflowController", NAME)["spec"]["instanceID"] == "blue"


async def test_a_label_that_flaps_over_an_install_leaves_it_whole(
    world: World, server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    """In and out ten times a second while it is taken over: at the end it is ours, or it is as it was."""
    caplog.set_level(logging.WARNING)
    the_same(world, "blue")
    pinned(world)
    row(world)
    async with operator(world):
        cron(world, "nightly", instance="blue")
        for number in range(100):
            world.opt_in("team-a") if number % 2 == 0 else world.opt_out("team-a")
            await asyncio.sleep(0.1)
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"), 200)
        assert label(world, "nightly", CRON) == "blue"
        world.opt_out("team-a")
        await world.until(lambda: told(world) == ("True", "SchedulesWouldStop"), 60)
    assert not [each for each in caplog.records if each.exc_info]
