"""Template sets from directories and ConfigMaps while the operator runs: what is seen, and what is taken for no change.

Bad input changes nothing: what was made stays as it is, the ControllerTemplate says what is wrong, and what is put
right is taken up without a restart.
"""

import asyncio
import base64
import logging
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from metaoperator import preview, sources
from metaoperator.core import names
from metaoperator.core.render import Program
from metaoperator.pretence import Assumed
from metaoperator.preview import Preview
from metaoperator.rehearsal import Rehearsal
from metaoperator.settings import Settings
from tests.fake import FakeApiServer

from .world import Manifest, World

HOME = "metaoperator"
SET = {
    "template.yaml": "description: x\nkinds:\n  - {apiVersion: v1, kind: ConfigMap}\n",
    "values.yaml": "word: good\n",
    "values.schema.json": '{"type": "object", "properties": {"word": {"type": "string"}}}\n',
    "one.yaml.j2": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata:\n  word: {{ values.word | q }}\n"
        "  set: {{ template.set | q }}\n"
    ),
}
ROLES = {
    "template.yaml": "description: x\nkinds:\n  - {apiVersion: rbac.authorization.k8s.io/v1, kind: Role}\n",
    "one.yaml.j2": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: one\nrules: []\n",
}


@pytest.fixture(autouse=True)
def _no_traceback(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Bad input never ends in a traceback, whatever a test is about."""
    yield
    assert [each.getMessage() for each in caplog.records if each.exc_info and each.levelno >= logging.ERROR] == []


def write(folder: Path, **files: str) -> Path:
    """Write a set, `_` standing for `.`; what is given replaces what is usual."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (SET | {key.replace("_", "."): text for key, text in files.items()}).items():
        (folder / name).write_text(text)
    return folder


def pack(world: World, name: str, files: Mapping[str, str], **more: Any) -> Manifest:
    """Create or replace a ConfigMap in the operator's namespace, as an administrator does."""
    world.server.delete("ConfigMap", HOME, name) if world.server.get("ConfigMap", HOME, name) else None
    meta = {"name": name, "namespace": HOME, **more.pop("metadata", {})}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(files), **more}
    return world.server.create(body, manager="kubectl")


def change(world: World, name: str, **patch: Any) -> None:
    """Change a ConfigMap in place."""
    world.server.patch("ConfigMap", HOME, name, patch, manager="kubectl")


def template(world: World, name: str, *configmaps: str) -> None:
    """Create a ControllerTemplate whose set is in ConfigMaps."""
    spec = {"source": {"configMap": {"names": list(configmaps)}}}
    body = {"apiVersion": names.API_VERSION, "kind": "ControllerTemplate", "metadata": {"name": name}, "spec": spec}
    world.server.create(body, manager="kubectl")


def source(world: World, name: str, *configmaps: str) -> None:
    """Let a ControllerTemplate name other ConfigMaps."""
    patch = {"spec": {"source": {"configMap": {"names": list(configmaps)}}}}
    world.server.patch("ControllerTemplate", None, name, patch, manager="kubectl")


def word(world: World, namespace: str = "team-a") -> str:
    """Read what the set's object says in a namespace."""
    return ((world.server.get("ConfigMap", namespace, "one") or {}).get("data") or {}).get("word", "")


def told(world: World, name: str = "mine") -> str:
    """Read what a ControllerTemplate says of its source; empty while it is Ready."""
    live = world.server.get("ControllerTemplate", None, name) or {}
    stalled = [each for each in (live.get("status") or {}).get("conditions", ()) if each["type"] == "Stalled"]
    return stalled[0]["message"] if stalled and stalled[0]["status"] == "True" else ""


async def held(world: World, *parts: str) -> None:
    """The fault is told in these words by the ControllerTemplate, not by a namespace, and no child was touched."""
    await world.until(lambda: all(part in told(world) for part in parts), what=f"told: {parts}; is: {told(world)}")
    await asyncio.sleep(120)
    assert world.condition("team-a", "Stalled")[0] == "False"
    written = {(entry.resource, entry.subresource) for entry in world.writes()}
    assert written <= {("workflowcontrollers", "status"), ("controllertemplates", "status"), ("events", "")}
    assert word(world) == "good"


# ---- a change is seen


async def test_a_change_of_a_configmap_is_seen_at_once(world: World, server: FakeApiServer) -> None:
    """Changed in place, and named anew as kustomize does it; the name of the set stays, so nothing else changes."""
    pack(world, "mine-a", SET)
    template(world, "mine", "mine-a")
    async with world.operator():
        world.opt_in("team-a", "mine")
        await world.until(lambda: word(world) == "good")
        change(world, "mine-a", data={"values.yaml": "word: new\n"})
        await world.until(lambda: word(world) == "new")
        pack(world, "mine-b", SET | {"values.yaml": "word: newer\n"})
        source(world, "mine", "mine-b")
        await world.until(lambda: word(world) == "newer")
        assert server.get("ConfigMap", "team-a", "one")["data"]["set"] == "mine"  # type: ignore[index]
        server.delete("ConfigMap", HOME, "mine-a")
        await asyncio.sleep(5)
        assert told(world) == ""


async def test_a_change_of_a_directory_is_seen_within_a_second(world: World) -> None:
    """By a file, by git-sync's link to another worktree, and by the kubelet's link to another version of a volume."""
    write(world.folder / "v1" / "sets" / "mine")
    write(world.folder / "v2" / "sets" / "mine", values_yaml="word: newer\n")
    current = world.folder / "current"
    current.symlink_to("v1")
    world.template("mine", directory="mine")
    async with world.operator(templates=(current / "sets",)) as one:
        world.opt_in("team-a", "mine")
        await world.until(lambda: word(world) == "good")

        def seen() -> Any:
            found = one.operator._catalogue._shelves.get("mine")
            return found.template_set.defaults["word"] if isinstance(found, Program) else str(found)

        write(world.folder / "v1" / "sets" / "mine", values_yaml="word: new\n")
        await world.until(lambda: seen() == "new", 1)  # nothing but the clock decides
        await world.until(lambda: word(world) == "new")
        (world.folder / "next").symlink_to("v2")
        (world.folder / "next").replace(current)
        await world.until(lambda: seen() == "newer", 1)
        await world.until(lambda: word(world) == "newer")
        mine = world.folder / "v2" / "sets" / "mine"
        for version, text in (("..1", "newer"), ("..2", "newest")):
            write(mine / version, values_yaml=f"word: {text}\n")
        (mine / "..data").symlink_to("..1")
        for name in SET:
            (mine / name).unlink()
            (mine / name).symlink_to(f"..data/{name}")
        (mine / "..next").symlink_to("..2")
        (mine / "..next").replace(mine / "..data")
        await world.until(lambda: seen() == "newest", 1)
        await world.until(lambda: word(world) == "newest")


async def test_a_set_and_a_kind_that_come_later_are_served(world: World, server: FakeApiServer) -> None:
    """A kind that no set declared at the start is watched from then on, and what goes missing of it is made again."""
    (world.folder / "sets").mkdir()
    write(world.folder / "sets" / "other")
    template(world, "mine", "mine-a")
    async with world.operator(templates=(world.folder / "sets",)):
        world.opt_in("team-a", "mine")
        await world.until(lambda: "ConfigMap/metaoperator/mine-a: is not there" in told(world))
        pack(world, "mine-a", SET | ROLES)
        await world.until(lambda: server.get("Role", "team-a", "one") is not None)
        await asyncio.sleep(5)
        server.delete("Role", "team-a", "one")
        await world.until(lambda: server.get("Role", "team-a", "one") is not None)
        write(world.folder / "sets" / "later")
        world.template("later", directory="later")
        world.opt_in("team-b", "later")
        await world.until(lambda: word(world, "team-b") == "good")
        # What the set does not declare any more is still pruned.
        change(world, "mine-a", data=SET)
        await world.until(lambda: server.get("Role", "team-a", "one") is None and word(world) == "good", 60)


async def test_a_kind_that_is_read_late_holds_nobody_longer(world: World, server: FakeApiServer) -> None:
    """Who says KindUnseen meanwhile is looked at again as soon as it is read, not at the next look by itself."""
    pack(world, "mine-a", SET | ROLES)
    template(world, "mine", "mine-a")
    server.faults.slow(5, verb="list", resource="roles")
    async with world.operator():
        world.opt_in("team-a", "mine")
        await world.until(lambda: world.condition("team-a", "Stalled") == ("True", "KindUnseen"))
        await world.until(lambda: server.get("Role", "team-a", "one") is not None, 40)  # by itself after 60 at least


# ---- bad input


async def test_a_configmap_that_is_deleted_emptied_or_another_holds_everything(
    world: World, server: FakeApiServer
) -> None:
    """Each is told with the ConfigMap and the cure; put back, all goes on at once."""
    pack(world, "mine-a", SET)
    template(world, "mine", "mine-a")
    async with world.operator():
        world.opt_in("team-a", "mine")
        await world.until(lambda: word(world) == "good")
        await asyncio.sleep(20)
        server.audit.clear()
        server.delete("ConfigMap", HOME, "mine-a")
        await held(world, "ConfigMap/metaoperator/mine-a: is not there", "nothing is created, changed or removed")
        pack(world, "mine-a", {})
        await held(world, "ConfigMap/metaoperator/mine-a: is empty", "template.yaml")
        pack(world, "mine-a", {"README.md": "no set"})
        await held(world, "ConfigMap/metaoperator/mine-a: holds no file of a template set")
        pack(world, "mine-a", SET | {"README.md": "passed by"})
        await world.until(lambda: told(world) == "")
        await world.until(lambda: world.condition("team-a", "Stalled")[0] == "False")


@pytest.mark.parametrize(
    ("data", "more", "parts"),
    [
        ({"values.yaml": "word: [\n"}, {}, ["ConfigMap/metaoperator/mine-a/values.yaml:2"]),
        ({"one.yaml.j2": "a: {{ values.word"}, {}, ["ConfigMap/metaoperator/mine-a/one.yaml.j2:1"]),
        ({"values.schema.json": None}, {}, ["ConfigMap/metaoperator/mine-a", "values.schema.json is missing"]),
        (
            {"one.yaml.j2": None},
            {"one.yaml.j2": base64.b64encode(b"a: \xff").decode()},
            ["ConfigMap/metaoperator/mine-a/one.yaml.j2", "byte 4 is not UTF-8"],
        ),
        (
            {"one.yaml.j2": None},
            {"one.yaml.j2": base64.b64encode(b"a: b").decode()},
            ["ConfigMap/metaoperator/mine-a/one.yaml.j2: stands in binaryData"],
        ),
    ],
    ids=["yaml", "jinja", "missing", "not-utf-8", "binary"],
)
async def test_a_configmap_at_fault_is_told_with_its_key(
    world: World, data: Mapping[str, Any], more: Mapping[str, str], parts: list[str]
) -> None:
    """And its line, where there is one."""
    pack(world, "mine-a", SET)
    template(world, "mine", "mine-a")
    async with world.operator():
        world.opt_in("team-a", "mine")
        await world.until(lambda: word(world) == "good")
        await asyncio.sleep(20)
        world.server.audit.clear()
        change(world, "mine-a", data=data, **({"binaryData": more} if more else {}))
        await held(world, *parts)


async def test_a_set_in_several_configmaps_is_taken_whole_or_not_at_all(world: World, server: FakeApiServer) -> None:
    """One missing, one of another version, one key in two of them: told, and nothing is rendered of the rest."""
    version = {"annotations": {names.SET_VERSION_ANNOTATION: "1"}}
    data = {name: text for name, text in SET.items() if not name.endswith(".j2")}
    rest = {"one.yaml.j2": SET["one.yaml.j2"]}
    pack(world, "mine-a", data, metadata=version)
    pack(world, "mine-b", rest, metadata=version)
    template(world, "mine", "mine-a", "mine-b")
    async with world.operator():
        world.opt_in("team-a", "mine")
        await world.until(lambda: word(world) == "good")
        await asyncio.sleep(20)
        server.audit.clear()
        server.delete("ConfigMap", HOME, "mine-b")
        await held(world, "ConfigMap/metaoperator/mine-b: is not there")
        pack(world, "mine-b", rest, metadata=version)
        await world.until(lambda: told(world) == "")
        newer = {"annotations": {names.SET_VERSION_ANNOTATION: "2"}}
        change(world, "mine-a", data={"values.yaml": "word: new\n"}, metadata=newer)
        await held(world, names.SET_VERSION_ANNOTATION, "ConfigMap/metaoperator/mine-a 2", "mine-b 1")
        change(world, "mine-b", metadata=newer)
        await world.until(lambda: word(world) == "new")
        change(world, "mine-a", data={"values.yaml": "word: good\n"})
        await world.until(lambda: word(world) == "good")
        await asyncio.sleep(20)
        server.audit.clear()
        change(world, "mine-b", data={"values.yaml": "word: other\n"})
        await held(world, "ConfigMap/metaoperator/mine-b: holds values.yaml, and so does ConfigMap/metaoperator/mine-a")


async def test_configmaps_that_are_written_one_after_the_other_are_one_change(world: World) -> None:
    """As `kubectl apply -k` writes them: what was never there together is never rendered."""
    data = {name: text for name, text in SET.items() if not name.endswith(".j2")}
    pack(world, "mine-a", data)
    pack(world, "mine-b", {"one.yaml.j2": SET["one.yaml.j2"]})
    template(world, "mine", "mine-a", "mine-b")
    async with world.operator():
        world.opt_in("team-a", "mine")
        await world.until(lambda: word(world) == "good")
        world.server.audit.clear()
        change(world, "mine-a", data={"values.yaml": "word: mixed\n"})
        await asyncio.sleep(0.1)
        change(world, "mine-b", data={"one.yaml.j2": SET["one.yaml.j2"].replace("values.word | q", "'new'")})
        await world.until(lambda: word(world) == "new")
        applied = [entry for entry in world.writes() if (entry.resource, entry.namespace) == ("configmaps", "team-a")]
        assert len(applied) == 1


@pytest.mark.parametrize("fault", ["refused", "failing", "hanging"])
async def test_configmaps_that_cannot_be_read_hold_everything(world: World, server: FakeApiServer, fault: str) -> None:
    """A right that is missing is told; server errors are waited for. A restart in the middle of it changes nothing."""
    pack(world, "mine-a", SET)
    template(world, "mine", "mine-a")
    async with world.operator() as one:
        world.opt_in("team-a", "mine")
        world.opt_in("team-b")
        await world.until(lambda: word(world) == "good" and world.ready("team-b"))
        await asyncio.sleep(20)
        await one.stop()
    here: dict[str, Any] = {"resource": "configmaps", "namespace": HOME, "times": 10**6}
    if fault == "hanging":
        refused = server.faults.hang(**here)
    else:
        refused = server.faults.answer(403 if fault == "refused" else 500, message="not for you", **here)
    for number in range(100):
        world.opt_in(f"t{number}", "mine")
    async with world.operator(workers=2):
        world.opt_in("team-c")
        await world.until(lambda: world.ready("team-c"))  # nobody else waits
        await asyncio.sleep(60)
        server.audit.clear()
        if fault == "refused":
            await held(world, "ConfigMap/metaoperator/mine-a: cannot be read", "not for you", "get, list and watch")
        refused.release()
        change(world, "mine-a", data={"values.yaml": "word: new\n"})
        await world.until(lambda: word(world) == "new", 90)


@pytest.mark.parametrize("name", ["team-a/mine-a", "../../team-a/configmaps/mine-a", "mine-a"])
async def test_a_configmap_of_another_namespace_is_never_read(world: World, server: FakeApiServer, name: str) -> None:
    """Whoever may write ConfigMaps elsewhere writes no templates; the API server refuses such names besides."""
    world.namespace("team-a")
    world.make("ConfigMap", "team-a", "mine-a", data=SET)
    template(world, "mine", name)
    async with world.operator():
        world.opt_in("team-a", "mine")
        await world.until(lambda: told(world))
        await asyncio.sleep(60)
        assert f"ConfigMap/metaoperator/{name}" in told(world)
        assert server.get("ConfigMap", "team-a", "one") is None
        assert not [each for each in world.ours() if each.name == "mine-a" and each.namespace == "team-a"]


async def test_a_set_directory_that_vanishes_or_may_not_be_read_holds_everything(
    world: World, server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The set, the whole directory, a link that leads to itself: each is told by its path, and put back it goes on."""
    sets = world.folder / "sets"
    mine = write(sets / "mine")
    write(sets / "other")
    world.template("mine", directory="mine")
    async with world.operator(templates=(sets,)):
        world.opt_in("team-a", "mine")
        await world.until(lambda: word(world) == "good")
        await asyncio.sleep(20)
        server.audit.clear()
        mine.rename(world.folder / "aside")
        await held(world, f"{mine}: is gone", "nothing is created, changed or removed")
        (sets / "mine").symlink_to("mine")
        await held(world, f"{mine}: cannot be read")
        (sets / "mine").unlink()
        (world.folder / "aside").rename(mine)
        await world.until(lambda: told(world) == "")
        (mine / "one.yaml.j2").unlink()
        (mine / "one.yaml.j2").symlink_to("one.yaml.j2")
        await held(world, f"{mine}/one.yaml.j2: cannot be read")
        (mine / "one.yaml.j2").unlink()
        write(mine)
        await world.until(lambda: told(world) == "")
        sets.rename(world.folder / "aside")
        await held(world, f"{sets}: cannot be read")
        (world.folder / "aside").rename(sets)
        await world.until(lambda: told(world) == "")
        real = Path.iterdir

        def refused(path: Path) -> Any:
            if path == mine:
                raise PermissionError(13, "Permission denied")
            return real(path)

        monkeypatch.setattr(Path, "iterdir", refused)  # the tests may run as root, whom no mode keeps out
        await held(world, f"{mine}: cannot be read: Permission denied")
        monkeypatch.undo()


async def test_a_set_that_never_rests_keeps_no_other_from_being_taken(world: World) -> None:
    """It is written to faster than it could be read: what was read of it last goes on, and its neighbour is news."""
    sets = world.folder / "sets"
    mine, busy = write(sets / "mine"), write(sets / "busy")
    world.template("mine", directory="mine")
    world.template("busy", directory="busy")
    async with world.operator(templates=(sets,)):
        world.opt_in("team-a", "mine")
        world.opt_in("team-b", "busy")
        await world.until(lambda: word(world) == word(world, "team-b") == "good")
        write(mine, values_yaml="word: new\n")
        for number in range(1000):
            (busy / "values.yaml").write_text(f"word: n{number}\n{'#' * number}")
            await asyncio.sleep(0.05)
            if word(world) == "new":
                break
        assert (word(world), word(world, "team-b")) == ("new", "good")
        (busy / "values.yaml").write_text("word: rests\n")
        await world.until(lambda: word(world, "team-b") == "rests")


async def test_a_set_of_the_shipped_name_that_vanishes_is_never_replaced_by_the_shipped_one(
    world: World, server: FakeApiServer
) -> None:
    """Neither while the operator runs, nor after a restart with a directory that git-sync has not filled yet."""
    sets = world.folder / "sets"
    write(sets / "workflow-controller")
    async with world.operator(templates=(sets,)) as one:
        world.opt_in("team-a")
        await world.until(lambda: word(world) == "good")
        await asyncio.sleep(20)
        server.audit.clear()
        shutil.rmtree(sets / "workflow-controller")
        await world.until(lambda: "is gone" in told(world, "default"))
        await asyncio.sleep(60)
        assert world.child("team-a") == [("ConfigMap", "one")]
        await one.stop()
    async with world.operator(templates=(sets,)):
        await world.until(lambda: "holds no template set" in told(world, "default"))
        await asyncio.sleep(60)
        assert world.child("team-a") == [("ConfigMap", "one")]
        write(sets / "workflow-controller", values_yaml="word: new\n")
        await world.until(lambda: word(world) == "new")


async def test_a_set_over_the_limit_is_refused_with_its_size(world: World) -> None:
    """Of text, however many ConfigMaps it is spread over, and compressed: what cannot be recorded is not rolled out."""
    pack(world, "mine-a", SET)
    template(world, "mine", "mine-a")
    async with world.operator():
        world.opt_in("team-a", "mine")
        await world.until(lambda: word(world) == "good")
        await asyncio.sleep(20)
        world.server.audit.clear()
        for number in range(3):
            pack(world, f"mine-{number}", {f"_{number}.j2": "x" * 1_000_000})
        source(world, "mine", "mine-a", "mine-0", "mine-1", "mine-2")
        await held(world, "characters long, over the limit of 2097152")


async def test_a_preview_sees_the_sets_that_the_operator_sees(world: World, server: FakeApiServer) -> None:
    """What `diff` foretells is what is written next; one that cannot be used is told in the same words."""
    pack(world, "mine-a", SET)
    template(world, "mine", "mine-a")
    world.opt_in("team-a", "mine")
    found = await preview_of(world)
    assert {(each.ref.kind.kind, each.what) for each in found.changes} >= {("ConfigMap", "created")}
    async with world.operator() as one:
        await world.until(lambda: word(world) == "good")
        await asyncio.sleep(20)
        assert (await preview_of(world)).settled
        await one.stop()
    change(world, "mine-a", data={"values.yaml": "word: new\n"})
    found = await preview_of(world)
    assert [(each.ref.name, each.what) for each in found.changes if each.what != "unchanged"] == [("one", "changed")]
    change(world, "mine-a", data={"values.yaml": "word: [\n"})
    found = await preview_of(world)
    assert "ConfigMap/metaoperator/mine-a/values.yaml:2" in found.stalled
    async with world.operator():
        await world.until(lambda: told(world))
        assert found.stalled.removeprefix("TemplateInvalid: ") == told(world)


async def preview_of(world: World, namespace: str = "team-a") -> Preview:
    """Look ahead."""
    cluster = Rehearsal(kubeconfig=str(world.kubeconfig))
    await cluster.connect()
    try:
        assumed = Assumed(programs=sources.programs((sources.shipped(),)))
        return await preview.of(cluster, namespace, assumed, Settings())
    finally:
        await cluster.close()


# ---- R37


async def test_a_syntax_error_saved_into_a_live_source_is_one_message_and_no_change(
    world: World, server: FakeApiServer
) -> None:
    """R37 with 50 namespaces: none loses its last good render, one message says what is wrong, mended all go on."""
    pack(world, "mine-a", SET)
    template(world, "mine", "mine-a")
    spaces = [f"t{number:02}" for number in range(50)]
    async with world.operator() as one:
        for each in spaces:
            world.opt_in(each, "mine")
        await world.until(lambda: all(word(world, each) == "good" for each in spaces))
        await asyncio.sleep(30)
        server.audit.clear()
        change(world, "mine-a", data={"one.yaml.j2": SET["one.yaml.j2"] + "{% if %}\n"})
        await world.until(lambda: "one.yaml.j2:8" in told(world))
        await asyncio.sleep(120)
        written = {(entry.resource, entry.subresource) for entry in world.writes()}
        assert written <= {("workflowcontrollers", "status"), ("controllertemplates", "status"), ("events", "")}
        assert all(word(world, each) == "good" for each in spaces)
        (fleet,) = [
            event for event in world.events("TemplateInvalid") if event["regarding"]["kind"] == "ControllerTemplate"
        ]
        assert "ConfigMap/metaoperator/mine-a/one.yaml.j2:8" in fleet["note"]
        change(world, "mine-a", data={"one.yaml.j2": SET["one.yaml.j2"], "values.yaml": "word: new\n"})
        await world.until(lambda: all(word(world, each) == "new" for each in spaces))
        assert not one.task.done()
