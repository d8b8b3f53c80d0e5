"""The row of a namespace: a WorkflowController that is lost, comes back, or is made by a person in between."""

import asyncio
from typing import Any

import pytest

from metaoperator.core import names
from tests.fake import FakeApiServer

from .world import KINDS, MARK, SIX, World

PLURALS = ("configmaps", "deployments", "rolebindings", "services", "serviceaccounts", "pods", "leases")
TUNED = {"workers": {"workflow": 7}}


def child(server: FakeApiServer, namespace: str = "team-a") -> list[Any]:
    """Take the whole child, for comparing: an object that was applied anew has another version."""
    return [server.get(kind, namespace, name) for kind, name in SIX]


def arguments(server: FakeApiServer, namespace: str = "team-a") -> list[str]:
    """Read the arguments of the child."""
    live = server.get("Deployment", namespace, "workflow-controller")
    return [] if live is None else live["spec"]["template"]["spec"]["containers"][0]["args"]


def is_lost(world: World, namespace: str = "team-a") -> bool:
    """Tell whether the row carries the annotation."""
    wfc = world.wfc(namespace)
    return wfc is not None and names.SPEC_LOST_ANNOTATION in (wfc["metadata"].get("annotations") or {})


async def tuned(world: World, values: dict[str, Any] | None = None) -> list[Any]:
    """Bring up a child with values of its own, and take it."""
    world.opt_in("team-a")
    await world.until(lambda: world.ready("team-a"))
    if values is not None:
        world.spec("team-a", values=values)
        await asyncio.sleep(20)
        await world.until(lambda: world.ready("team-a"))
    await asyncio.sleep(20)
    world.server.audit.clear()
    return child(world.server)


def touched(world: World) -> list[str]:
    """List the writes to anything but rows, templates and Events."""
    beside = ("workflowcontrollers", "controllertemplates", "events")
    return [str(entry) for entry in world.writes() if entry.resource not in beside]


LOST = pytest.mark.parametrize("how", ["row deleted", "kind made anew", "while the operator was down"])
LOST_FOR_GOOD = pytest.mark.parametrize("how", ["row deleted", "while the operator was down"])
"""With its record as well. While there is no kind, what the operator knows of a row is recorded anew."""


async def lose(world: World, how: str) -> None:
    """Lose the row in one of three ways, and with it what is recorded of it."""
    await lose_row(world, how, unrecorded=True)


async def lose_row(world: World, how: str, *, unrecorded: bool = False) -> None:
    """Lose the row in one of three ways."""
    if how == "kind made anew":
        definition = world.server.withdraw("WorkflowController")
        await asyncio.sleep(45)
        world.server.define(definition)
        return
    if unrecorded and how == "row deleted":
        world.unrecord("team-a")
    if how == "while the operator was down":
        await world._replicas[-1].stop()
        if unrecorded:
            world.unrecord("team-a")
    world.server.delete("WorkflowController", "team-a", "workflow-controller")
    if how == "while the operator was down":
        world.start()


@LOST_FOR_GOOD
@pytest.mark.parametrize("values", [TUNED, {"config": {"parallelism": 5}}, {"log": {"level": "debug"}}], ids=str)
async def test_a_lost_spec_holds_the_child_until_it_is_written_again(
    world: World, server: FakeApiServer, how: str, values: dict[str, Any]
) -> None:
    """Stalled with SpecLost, not one write to the child; the same values again serve it without a write as well."""
    async with world.operator():
        before = await tuned(world, values)
        await lose(world, how)
        await world.until(lambda: world.condition("team-a", "Stalled") == ("True", "SpecLost"), 120)
        assert world.condition("team-a") == ("False", "SpecLost")
        assert names.SPEC_LOST_ANNOTATION in world.message("team-a")
        await asyncio.sleep(300)
        assert child(server) == before
        world.spec("team-a", values=values)
        await world.until(lambda: world.ready("team-a"), 10)
        await asyncio.sleep(120)
        assert not is_lost(world)
        assert world.ready("team-a")
        assert child(server) == before
        assert touched(world) == []
        world.spec("team-a", values={"workers": {"workflow": 9}})
        await world.until(lambda: "--workflow-workers=9" in arguments(server), 10)


TUNABLE = {
    "template.yaml": """
description: x
kinds: [{apiVersion: apps/v1, kind: Deployment}, {apiVersion: v1, kind: ConfigMap}]
namespaceValues: [text, more]
""",
    "values.yaml": "text: plain\nmore: false\n",
    "values.schema.json": '{"type": "object"}\n',
    "map.yaml.j2": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: text}\ndata: {text: {{ values.text | q }}}\n",
    "more.yaml.j2": "{% if values.more %}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n{% endif %}\n",
    "deployment.yaml.j2": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: workflow-controller}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: "i:1"}]}
""",
}
"""A set whose values reach a ConfigMap and an object of their own, and not the Deployment."""


@pytest.mark.parametrize("values", [{"text": "tuned"}, {"more": True}], ids=["another text", "another object"])
async def test_a_lost_spec_that_does_not_show_in_the_deployment_holds_the_child_too(
    world: World, server: FakeApiServer, values: dict[str, Any]
) -> None:
    """What the values decided may stand in any object of the child: none of them is changed or pruned."""
    home = world.folder / "sets" / "tunable"
    home.mkdir(parents=True)
    for name, text in TUNABLE.items():
        (home / name).write_text(text.lstrip())
    world.template("tunable", directory="tunable")

    def maps() -> list[Any]:
        return server.select("ConfigMap", "team-a")

    async with world.operator(templates=(world.folder / "sets",)):
        world.opt_in("team-a", "tunable")
        await world.until(maps)
        plain = maps()
        await asyncio.sleep(20)
        world.spec("team-a", values=values)
        await world.until(lambda: maps() != plain, 20)
        await asyncio.sleep(20)
        before = maps()
        await lose(world, "row deleted")
        await world.until(lambda: world.condition("team-a") == ("False", "SpecLost"), 20)
        await asyncio.sleep(300)
        assert maps() == before
        world.spec("team-a", values=values)
        await world.until(lambda: not is_lost(world), 20)
        await asyncio.sleep(60)
        assert maps() == before


@LOST
async def test_a_lost_row_comes_back_as_it_was_recorded(world: World, server: FakeApiServer, how: str) -> None:
    """With its values and all else that it said, and not one write to the child; later edits work as before."""
    async with world.operator():
        await tuned(world, TUNED)
        world.spec("team-a", drain={"timeout": "30m"})
        await asyncio.sleep(20)
        wfc = world.wfc("team-a")
        assert wfc is not None
        server.audit.clear()
        before = child(server)
        await lose_row(world, how)
        await world.until(lambda: world.wfc("team-a") is not None and world.ready("team-a"), 120)
        await asyncio.sleep(120)
        after = world.wfc("team-a")
        assert after is not None
        assert after["spec"] == wfc["spec"]
        assert not is_lost(world)
        assert child(server) == before
        assert touched(world) == []
        world.spec("team-a", values={"workers": {"workflow": 9}})
        await world.until(lambda: "--workflow-workers=9" in arguments(server), 10)


@LOST_FOR_GOOD
async def test_a_person_may_accept_that_a_spec_is_lost(world: World, server: FakeApiServer, how: str) -> None:
    """The annotation taken away by hand: the child is served with what is there now."""
    async with world.operator():
        await tuned(world, TUNED)
        assert "--workflow-workers=7" in arguments(server)
        await lose(world, how)
        await world.until(lambda: world.condition("team-a") == ("False", "SpecLost"), 120)
        await asyncio.sleep(10)
        patch = {"metadata": {"annotations": {names.SPEC_LOST_ANNOTATION: None}}}
        server.patch("WorkflowController", "team-a", "workflow-controller", patch, manager="kubectl-annotate")
        await world.until(lambda: "--workflow-workers=32" in arguments(server) and world.ready("team-a"), 30)
        await asyncio.sleep(120)
        assert world.ready("team-a")
        assert not is_lost(world)


@LOST
async def test_a_lost_row_without_values_is_simply_made_anew(world: World, server: FakeApiServer, how: str) -> None:
    """Nothing was in it but what we wrote: READY again, no annotation left, ours to remove at the opt-out."""
    async with world.operator():
        before = await tuned(world)
        await lose(world, how)
        await world.until(lambda: world.wfc("team-a") is not None and world.ready("team-a"), 120)
        await asyncio.sleep(60)
        assert not is_lost(world)
        assert child(server) == before
        assert touched(world) == []
        world.opt_out("team-a")
        await world.until(lambda: world.empty("team-a") and world.wfc("team-a") is None)


async def test_a_lost_spec_does_not_keep_a_namespace_from_leaving(world: World) -> None:
    """Opted out while it says SpecLost: the child leaves, and the row with it."""
    async with world.operator():
        await tuned(world, TUNED)
        await lose(world, "row deleted")
        await world.until(lambda: world.condition("team-a") == ("False", "SpecLost"), 120)
        world.opt_out("team-a")
        await world.until(lambda: world.empty("team-a") and world.wfc("team-a") is None)


@pytest.mark.parametrize("seconds", [0, 3, 90])
async def test_a_kind_that_comes_back_is_watched_again(world: World, server: FakeApiServer, seconds: int) -> None:
    """The CRD withdrawn and made anew: no child is touched, and an edit of values is seen at once afterwards."""
    spaces = [f"team-{i}" for i in range(3)]
    async with world.operator() as one:
        for each in spaces:
            world.opt_in(each)
        await world.until(lambda: world.ready(*spaces))
        await asyncio.sleep(20)
        server.audit.clear()
        before = [child(server, each) for each in spaces]
        definition = server.withdraw("WorkflowController")
        await asyncio.sleep(seconds)
        assert [child(server, each) for each in spaces] == before
        server.define(definition)
        await world.until(lambda: world.ready(*spaces), 400)
        await asyncio.sleep(60)
        assert [child(server, each) for each in spaces] == before
        assert touched(world) == []
        world.spec("team-1", values=TUNED)
        await world.until(lambda: "--workflow-workers=7" in arguments(server, "team-1"), 5)
        assert one.leading


@pytest.mark.parametrize("seconds", [0, 3, 90])
async def test_the_kind_of_templates_that_comes_back_is_watched_again(
    world: World, server: FakeApiServer, seconds: int
) -> None:
    """The other CRD withdrawn and made anew: children stand as they are, and a new template is seen at once."""
    spaces = [f"team-{i}" for i in range(3)]
    async with world.operator() as one:
        for each in spaces:
            world.opt_in(each)
        await world.until(lambda: world.ready(*spaces))
        await asyncio.sleep(20)
        server.audit.clear()
        before = [child(server, each) for each in spaces]
        definition = server.withdraw("ControllerTemplate")
        await asyncio.sleep(seconds)
        server.define(definition)
        await asyncio.sleep(120)
        assert [child(server, each) for each in spaces] == before
        world.template("default")
        await world.until(lambda: world.ready(*spaces), 10)
        await asyncio.sleep(60)
        assert touched(world) == []
        server.patch("ControllerTemplate", None, "default", {"spec": {"values": TUNED}})
        await world.until(lambda: all("--workflow-workers=7" in arguments(server, each) for each in spaces), 10)
        assert one.leading


async def test_a_row_that_a_person_makes_between_our_look_and_our_write_is_theirs(
    world: World, server: FakeApiServer
) -> None:
    """Ours conflicts instead of merging into theirs: no mark, and it survives the opt-out with its values."""
    async with world.operator() as one:
        await world.until(lambda: one.leading)
        held = server.faults.hang(verb="apply", resource="workflowcontrollers")
        world.opt_in("team-a")
        await held.entered()
        spec = {"values": TUNED}
        world.make("WorkflowController", "team-a", "workflow-controller", api=names.API_VERSION, spec=spec)
        held.release()
        await world.until(lambda: world.ready("team-a"), 30)
        assert "--workflow-workers=7" in arguments(server)
        wfc = world.wfc("team-a")
        assert wfc is not None
        assert names.MANAGED_BY_LABEL not in (wfc["metadata"].get("labels") or {})
        assert not wfc["metadata"].get("annotations")
        world.opt_out("team-a")
        await world.until(lambda: world.empty("team-a"))
        await world.until(lambda: world.condition("team-a") == ("False", "NotOptedIn"))
        wfc = world.wfc("team-a")
        assert wfc is not None
        assert wfc["spec"]["values"] == TUNED


@pytest.mark.parametrize("cut", [("namespaces",), ("namespaces", "workflowcontrollers")], ids="+".join)
async def test_a_namespace_made_anew_while_kopf_was_cut_off_gets_nothing_of_the_old_uid(
    world: World, server: FakeApiServer, cut: tuple[str, ...]
) -> None:
    """Our copies are of its predecessor: nothing is made with that UID, and in the end it is READY with the new one."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(20)
        old = uid(server)
        made: list[tuple[str, str]] = []
        server.store.listeners.append(lambda kind, event: made.append(born(kind, event)))
        faults = [server.faults.answer(503, verb=("watch", "list"), resource=each, times=10**6) for each in cut]
        for kind in ("Namespace", "WorkflowController")[: len(cut)]:
            server.cut_watches(kind)
        server.delete("Namespace", None, "team-a")
        await world.until(lambda: server.get("Namespace", None, "team-a") is None)
        world.opt_in("team-a")
        await asyncio.sleep(200)
        for each in faults:
            each.release()
        await world.until(lambda: world.ready("team-a") and world.whole("team-a"), 1400)
        assert ("ADDED", old) not in made
        assert {each["metadata"]["annotations"][names.NAMESPACE_UID_ANNOTATION] for each in marked(server)} == {
            uid(server)
        }


@pytest.mark.parametrize("first", PLURALS)
async def test_a_namespace_made_anew_while_everything_was_cut_off_gets_nothing_of_the_old_uid(
    world: World, server: FakeApiServer, first: str
) -> None:
    """One informer hears again before all else: it tells of objects that are gone, and our other copies are old."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(20)
        old = uid(server)
        made: list[tuple[str, str]] = []
        server.store.listeners.append(lambda kind, event: made.append(born(kind, event)))
        all_cut = server.faults.answer(503, verb=("watch", "list"), times=10**6)
        server.cut_watches()
        server.delete("Namespace", None, "team-a")
        await world.until(lambda: server.get("Namespace", None, "team-a") is None)
        world.opt_in("team-a")
        await asyncio.sleep(10)
        late = [
            server.faults.answer(503, verb=("watch", "list"), resource=each, times=10**6)
            for each in ("namespaces", "workflowcontrollers", *(each for each in PLURALS if each != first))
        ]
        all_cut.release()
        await asyncio.sleep(100)
        for each in late:
            each.release()
        await world.until(lambda: world.ready("team-a") and world.whole("team-a"), 1400)
        assert ("ADDED", old) not in made


def uid(server: FakeApiServer) -> str:
    """Read the UID of the namespace."""
    live = server.get("Namespace", None, "team-a")
    assert live is not None
    return live["metadata"]["uid"]  # type: ignore[no-any-return]


def born(_kind: Any, event: Any) -> tuple[str, str]:
    """Tell what happened to an object of which incarnation."""
    annotations = event.obj["metadata"].get("annotations") or {}
    return event.type, annotations.get(names.NAMESPACE_UID_ANNOTATION, "")


def marked(server: FakeApiServer) -> list[Any]:
    """List what carries our mark in the namespace, the row included."""
    return [live for kind in (*KINDS, "WorkflowController") for live in server.select(kind, "team-a", MARK)]


async def test_a_paused_row_that_is_deleted_comes_back_paused(world: World, server: FakeApiServer) -> None:
    """Somebody works on the child by hand: their edit stays until they end the pause, and then drift is repaired."""
    async with world.operator():
        await tuned(world)
        world.spec("team-a", paused=True)
        await world.until(lambda: world.condition("team-a")[1] == "Paused")
        server.patch("Deployment", "team-a", "workflow-controller", {"spec": {"replicas": 0}}, manager="kubectl")
        await asyncio.sleep(30)
        server.delete("WorkflowController", "team-a", "workflow-controller")
        await world.until(lambda: (world.wfc("team-a") or {}).get("spec", {}).get("paused") is True, 5)
        await asyncio.sleep(300)
        assert touched(world) == []
        world.spec("team-a", paused=False)
        await world.until(lambda: world.ready("team-a"), 20)
        assert (world.wfc("team-a") or {})["spec"]["paused"] is False


async def test_a_row_that_is_no_longer_paused_comes_back_unpaused(world: World, server: FakeApiServer) -> None:
    """A pause that ended is no pause."""
    async with world.operator():
        await tuned(world)
        for paused in (True, False):
            world.spec("team-a", paused=paused)
            await asyncio.sleep(20)
        server.delete("WorkflowController", "team-a", "workflow-controller")
        await world.until(lambda: world.ready("team-a"), 20)
        assert not (world.wfc("team-a") or {})["spec"].get("paused")
