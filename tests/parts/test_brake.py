"""The deletion brake in the whole operator: what would remove more children than the limit removes none (R24)."""

import asyncio
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.fake import FakeApiServer
from tests.fake.values import timestamp

from .world import ALONE, ARGO, SIX, Manifest, World

SPACES = [f"team-{number:02}" for number in range(30)]
LIMIT = 5
PROD = Path(__file__).parents[2] / "templates" / "workflow-controller"


async def served(world: World, spaces: Iterable[str] = SPACES) -> None:
    """Bring children up, and let go of the record of how."""
    spaces = list(spaces)
    for each in spaces:
        world.opt_in(each)
    await world.until(lambda: world.ready(*spaces) and world.whole(*spaces), 120)
    await asyncio.sleep(30)
    world.server.audit.clear()


def everything(world: World, spaces: Iterable[str] = SPACES) -> dict[tuple[str, str, str], Manifest]:
    """Read all objects of children, but for their status."""
    return {
        (each, kind, name): {key: value for key, value in live.items() if key != "status"}
        for each in spaces
        for kind, name in SIX
        if (live := world.server.get(kind, each, name)) is not None
    }


def there(world: World, spaces: Iterable[str] = SPACES) -> list[str]:
    """Name the namespaces whose child is whole."""
    return [each for each in spaces if world.whole(each)]


def gone(world: World, *spaces: str) -> bool:
    """Tell whether nothing of ours is left in any of them."""
    return all(world.empty(each) and world.wfc(each) is None for each in spaces)


def held(world: World, template: str = "default") -> str:
    """Read what the ControllerTemplate says of what is held; empty for nothing."""
    status = (world.server.get("ControllerTemplate", None, template) or {}).get("status") or {}
    found = {each["type"]: each for each in status.get("conditions") or ()}.get("DeletionHeld")
    if found is None:
        return ""
    assert (found["status"], found["reason"]) == ("True", "DeletionLimit")
    return str(found["message"])


def confirm(world: World, message: str) -> None:
    """Do what the command in the message does."""
    found = re.search(r"kubectl annotate controllertemplate (\S+) (\S+)=(\S+) --overwrite", message)
    assert found is not None, message
    template, key, word = found.groups()
    patch = {"metadata": {"annotations": {key: word}}}
    world.server.patch("ControllerTemplate", None, template, patch, manager="kubectl")


def child_writes(world: World) -> list[Any]:
    """List the writes to anything but what tells."""
    return [
        each
        for each in world.writes()
        if each.resource != "events" and each.subresource != "status" and each.resource != "leases"
    ]


@pytest.mark.parametrize("pause", [0.0, 0.02, 0.5], ids=["at once", "a burst", "a slow script"])
async def test_labels_removed_in_bulk_remove_no_child_and_the_command_confirms_them(world: World, pause: float) -> None:
    """All thirty keep their child, and each says why; the command in the status lets exactly these go."""
    async with world.operator():
        await served(world)
        before = everything(world)
        for each in SPACES:
            world.opt_out(each)
            await asyncio.sleep(pause)
        await world.until(lambda: "confirm these 30" in held(world), 30)
        await asyncio.sleep(300)
        if pause < 0.2:
            assert everything(world) == before
            assert child_writes(world) == []
            for each in SPACES:
                assert world.condition(each) == ("True", "DeletionLimit")
                assert world.condition(each, "Reconciling") == ("True", "DeletionLimit")
                assert "30 of 30 children" in world.message(each)
        assert len(there(world)) >= 30 - LIMIT
        (told,) = {each["reason"] for each in world.events("DeletionLimit") if "confirm these 30" in each["note"]}
        assert told == "DeletionLimit"
        confirm(world, held(world))
        await world.until(lambda: gone(world, *SPACES), 120)
        await world.until(lambda: held(world) == "", 30)


async def test_who_is_labelled_again_keeps_the_child_and_nothing_is_held_any_more(world: World) -> None:
    """A person saw the message and took the mistake back: not one object was written."""
    async with world.operator() as one:
        await served(world)
        before = everything(world)
        for each in SPACES:
            world.opt_out(each)
        await world.until(lambda: held(world) != "", 30)
        await world.until(lambda: world.condition(SPACES[0]) == ("True", "DeletionLimit"), 30)
        world.server.store.clock = lambda: timestamp(one.operator._rolling.clock())  # it is made after that, not before
        world.make("Workflow", SPACES[0], "unstamped", api=ARGO, spec={})
        await world.until(lambda: [each["regarding"]["name"] for each in world.events("Draining")] == ["unstamped"], 30)
        world.server.delete("Workflow", SPACES[0], "unstamped")
        for each in SPACES:
            world.opt_in(each)
        await world.until(lambda: held(world) == "" and world.ready(*SPACES), 120)
        await asyncio.sleep(60)
        assert everything(world) == before
        assert all(world.condition(each, "Reconciling")[0] == "False" for each in SPACES)


async def test_a_script_that_removes_one_label_a_minute_is_stopped_at_the_limit(world: World) -> None:
    """Five of thirty go within the hour, then none; an hour after the first the sixth may."""
    async with world.operator():
        await served(world)
        for each in SPACES[:10]:
            world.opt_out(each)
            await asyncio.sleep(60)
        assert gone(world, *SPACES[:LIMIT])
        assert there(world) == SPACES[LIMIT:]
        assert "10 of 30 children" in held(world)
        assert "confirm these 5" in held(world)
        await asyncio.sleep(2400)
        assert there(world) == SPACES[LIMIT:]
        await world.until(lambda: gone(world, *SPACES[:10]), 1200)
        assert held(world) == ""


async def test_up_to_the_limit_nobody_is_asked(world: World) -> None:
    """Five of thirty leave at once, and nothing is said."""
    async with world.operator():
        await served(world)
        for each in SPACES[:LIMIT]:
            world.opt_out(each)
        await world.until(lambda: gone(world, *SPACES[:LIMIT]), 30)
        assert held(world) == ""
        assert world.events("DeletionLimit") == []
        assert there(world) == SPACES[LIMIT:]


async def test_a_paused_child_goes_nowhere_and_counts_for_nobody(world: World) -> None:
    """Six are paused and opted out; others may leave, and when the pauses end, the six are one set that is held."""
    async with world.operator():
        await served(world)
        for each in SPACES[:6]:
            world.spec(each, paused=True)
        await asyncio.sleep(5)
        for each in SPACES[:6]:
            world.opt_out(each)
        await asyncio.sleep(60)
        world.opt_out(SPACES[6])
        await world.until(lambda: gone(world, SPACES[6]), 30)
        assert held(world) == ""
        for each in SPACES[:6]:
            world.spec(each, paused=False)
        await world.until(lambda: "confirm these 6" in held(world), 30)
        await asyncio.sleep(60)
        assert there(world) == [*SPACES[:6], *SPACES[7:]]


async def test_a_drain_that_is_under_way_stops_before_anything_is_deleted(world: World) -> None:
    """Three drain; eight more leave. The Workflows end, and none of the eleven goes until all are confirmed."""
    async with world.operator():
        await served(world)
        for each in SPACES[:3]:
            world.workflow(each, "long")
            world.phase(each, "long", "Running")
        await asyncio.sleep(5)
        for each in SPACES[:3]:
            world.opt_out(each)
        await world.until(lambda: all(world.condition(each) == ("True", "Draining") for each in SPACES[:3]), 30)
        for each in SPACES[3:11]:
            world.opt_out(each)
        await world.until(lambda: "confirm these 11" in held(world), 30)
        for each in SPACES[:3]:
            world.phase(each, "long", "Succeeded", completed=True)
        await asyncio.sleep(200)
        assert there(world) == SPACES
        confirm(world, held(world))
        await world.until(lambda: gone(world, *SPACES[:11]), 60)
        assert there(world) == SPACES[11:]


async def test_a_confirmation_is_for_exactly_those_that_were_named(world: World) -> None:
    """One joins before it is given: nobody goes. One joins after: it is counted alone, and goes; six more are held."""
    async with world.operator():
        await served(world)
        for each in SPACES[:10]:
            world.opt_out(each)
        await world.until(lambda: "confirm these 10" in held(world), 30)
        stale = held(world)
        world.opt_out(SPACES[10])
        await world.until(lambda: "confirm these 11" in held(world), 70)
        confirm(world, stale)
        await asyncio.sleep(120)
        assert there(world) == SPACES
        for each in SPACES[:11]:
            world.workflow(each, "long")
        await asyncio.sleep(5)
        confirm(world, held(world))
        await world.until(lambda: all(world.condition(each) == ("True", "Draining") for each in SPACES[:11]), 30)
        world.opt_out(SPACES[11])
        await world.until(lambda: gone(world, SPACES[11]), 30)
        for each in SPACES[12:18]:
            world.opt_out(each)
        await world.until(lambda: "confirm these 6" in held(world), 30)
        for each in SPACES[:11]:
            world.phase(each, "long", "Succeeded", completed=True)
        await world.until(lambda: gone(world, *SPACES[:12]), 60)
        await asyncio.sleep(120)
        assert there(world) == SPACES[12:]


async def test_a_confirmation_outlives_the_operator(world: World) -> None:
    """Confirmed, draining, and the operator is killed: the next one asks nobody again."""
    async with world.nature():
        first = world.start(timing=ALONE)
        await served(world)
        for each in SPACES[:12]:
            world.workflow(each, "long")
        await asyncio.sleep(5)
        for each in SPACES[:12]:
            world.opt_out(each)
        await world.until(lambda: held(world) != "", 30)
        confirm(world, held(world))
        await world.until(
            lambda: all((world.status(each).get("drain") or {}).get("confirmed") for each in SPACES[:12]), 60
        )
        world.phase(SPACES[0], "long", "Succeeded", completed=True)
        await world.until(lambda: gone(world, SPACES[0]), 60)
        await first.kill()
        world.start(timing=ALONE)
        for each in SPACES[1:12]:
            world.phase(each, "long", "Succeeded", completed=True)
        await world.until(lambda: gone(world, *SPACES[:12]), 200)
        assert held(world) == ""
        assert there(world) == SPACES[12:]


async def test_labels_removed_in_bulk_while_the_operator_was_down(world: World) -> None:
    """No event told of it: what is leaving is read from the cluster, so nothing goes; the rows gone as well."""
    async with world.nature():
        first = world.start(timing=ALONE)
        await served(world)
        before = everything(world)
        await first.kill()
        for each in SPACES:
            world.opt_out(each)
        for each in SPACES[:15]:
            world.server.delete("WorkflowController", each, "workflow-controller")
        world.start(timing=ALONE)
        await world.until(lambda: "confirm these 30" in held(world), 120)
        await asyncio.sleep(300)
        assert everything(world) == before
        assert len(world.events("Orphaned")) == 15
        confirm(world, held(world))
        await world.until(lambda: gone(world, *SPACES), 200)


async def test_a_deleted_template_holds_what_leaves_and_any_other_takes_the_word(world: World) -> None:
    """The ControllerTemplate is gone, then the labels: nothing goes; made anew, it names them and takes the command."""
    async with world.operator():
        await served(world)
        before = everything(world)
        world.server.delete("ControllerTemplate", None, "default")
        await asyncio.sleep(30)
        for each in SPACES:
            world.opt_out(each)
        await asyncio.sleep(300)
        assert everything(world) == before
        assert {world.condition(each) for each in SPACES} == {("True", "DeletionLimit")}
        assert "create ControllerTemplate default again" in world.message(SPACES[0])
        world.template("default")
        await world.until(lambda: held(world) != "", 30)
        confirm(world, held(world))
        await world.until(lambda: gone(world, *SPACES), 120)


def childless(folder: Path) -> Path:
    """Write the shipped set without its Deployment."""
    shutil.copytree(PROD, folder / "sets" / "childless")
    (folder / "sets" / "childless" / "deployment.yaml.j2").unlink()
    return folder / "sets"


async def test_a_set_that_renders_no_child_any_more_removes_none_beyond_the_limit(world: World) -> None:
    """The source is changed for thirty: it starts nowhere; confirmed, it stops where a child does not come back."""
    async with world.operator(templates=(childless(world.folder),)):
        await served(world)
        await world.proven()
        source = {"spec": {"source": {"directory": "childless"}}}
        world.server.patch("ControllerTemplate", None, "default", source, manager="kubectl")
        await world.until(lambda: "confirm these 30" in planned(world), 30)
        await asyncio.sleep(300)
        assert there(world) == SPACES
        assert child_writes(world) == []
        assert {world.condition(each) for each in SPACES} == {("True", "CheckFailed")}
        back = {"spec": {"source": {"directory": "workflow-controller"}}}
        world.server.patch("ControllerTemplate", None, "default", back, manager="kubectl")
        await world.until(lambda: world.ready(*SPACES) and "confirm" not in planned(world), 120)
        await world.until(lambda: {world.condition(each) for each in SPACES} == {("True", "Leading")})
        assert there(world) == SPACES
        world.server.patch("ControllerTemplate", None, "default", source, manager="kubectl")
        await world.until(lambda: "confirm these 30" in planned(world), 30)
        confirm(world, planned(world))
        await world.until(lambda: len(there(world)) == 27, 200)
        await world.until(lambda: world.rollout().get("phase") == "Failed", 1200)
        assert len(there(world)) == 27


def planned(world: World) -> str:
    """Read what the rollout waits for."""
    return str(world.rollout().get("message", ""))


async def test_deleting_one_of_thirty_namespaces_writes_to_no_other(world: World, server: FakeApiServer) -> None:
    """The other 29 see not one write (R24)."""
    async with world.operator():
        await served(world)
        server.delete("Namespace", None, SPACES[7])
        await world.until(lambda: server.get("Namespace", None, SPACES[7]) is None)
        await asyncio.sleep(120)
    assert [each for each in world.writes() if each.namespace not in (None, SPACES[7])] == []


@pytest.mark.parametrize("how", ["empty once", "empty", "failing", "refused"])
async def test_a_list_of_namespaces_that_lies_or_fails_removes_no_child(
    world: World, server: FakeApiServer, how: str
) -> None:
    """Empty once, empty for ten minutes, 500 or 403: no child is written to in any of thirty namespaces (R24)."""
    async with world.nature():
        first = world.start(timing=ALONE)
        await served(world)
        before = everything(world)
        await first.kill()
        real, left = server._answer, 1 if how == "empty once" else 10**6

        def answer(asked: Any) -> Any:
            nonlocal left
            if asked.verb == "list" and asked.kind.kind == "Namespace" and left:
                left -= 1
                return 200, asked.view.many([], {"resourceVersion": str(server.history.version)})
            return real(asked)

        if how.startswith("empty"):
            server._answer = answer  # type: ignore[method-assign]
        else:
            server.faults.answer(500 if how == "failing" else 403, verb="list", resource="namespaces", seconds=600.0)
        world.start(timing=ALONE)
        await asyncio.sleep(900)
        assert everything(world) == before
        assert child_writes(world) == []
        server._answer = real  # type: ignore[method-assign]
        await world.until(lambda: world.ready(*SPACES), 120)


async def test_while_namespaces_cannot_be_read_nobody_leaves(world: World, server: FakeApiServer) -> None:
    """Half a fleet is nothing to decide by: one opt-out waits for the answer about the others."""
    async with world.nature():
        first = world.start(timing=ALONE)
        await served(world)
        await first.kill()
        fault = server.faults.answer(500, verb="get", resource="namespaces", name=SPACES[20], times=10**6)
        world.opt_out(SPACES[0])
        world.start(timing=ALONE)
        await asyncio.sleep(300)
        assert there(world) == SPACES
        fault.release()
        await world.until(lambda: gone(world, SPACES[0]), 310)


async def test_our_crds_made_anew_remove_no_child(world: World, server: FakeApiServer) -> None:
    """All rows and templates vanish at once, and come back: no object of a child is written."""
    async with world.operator():
        await served(world)
        before = everything(world)
        definitions = [server.withdraw(each) for each in ("WorkflowController", "ControllerTemplate")]
        await asyncio.sleep(60)
        for each in definitions:
            server.define(each)
        await asyncio.sleep(60)
        world.template("default")
        await world.until(lambda: world.ready(*SPACES), 700)
        assert everything(world) == before
        assert {each.resource for each in child_writes(world)} <= {"workflowcontrollers"}
        assert server.audit.select(verb="delete") == []
