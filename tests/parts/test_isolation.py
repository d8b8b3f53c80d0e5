"""R32, R37, R48: one bad namespace, one bad template, odd names and other tools' book-keeping harm nobody else."""

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kopf
import pytest
import yaml

from metaoperator import handlers
from metaoperator.core import names
from tests.fake import FakeApiServer
from tests.fake.kinds import Manifest

from . import processes
from .world import MARK, SIX, World

PROD = Path(__file__).parents[2] / "templates" / "workflow-controller"
ODD = (
    "123", "0123", "08", "0x1f", "0b11", "0o17", "1e3", "3240286e-210077", "null", "yes", "no", "on", "off", "true",
    "false", "y", "n", "2024-01-01", "nan", "inf", "12345678901234567890", "1-0", "x", "x" * 63,
)  # fmt: skip
"""Legal names of namespaces, all but the last two of which YAML takes for something else than text."""


@pytest.fixture(autouse=True)
def _no_traceback(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Bad input never ends in a traceback, whatever a test is about."""
    yield
    assert [each.getMessage() for each in caplog.records if each.exc_info and each.levelno >= logging.ERROR] == []


def needs_owner(folder: Path, *, broken: bool = False) -> Path:
    """Write the shipped set with one more template, which needs an annotation; or with a syntax error in it."""
    home = folder / "sets" / ("broken" if broken else "owned")
    home.mkdir(parents=True)
    for path in PROD.iterdir():
        if path.is_file():
            (home / path.name).write_text(path.read_text())
    unowned = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: owner\ndata:\n  owner: {{ %s }}\n"
    wanted = 'namespace.annotations["owner"] | q' if not broken else 'namespace.annotations["owner" | q'
    (home / "owner.yaml.j2").write_text(unowned % wanted)
    return folder / "sets"


def everything(server: FakeApiServer, spaces: list[str]) -> dict[tuple[str, str, str], Manifest]:
    """Read all objects of children, whole but for their status."""
    return {
        (each, kind, name): {key: value for key, value in live.items() if key != "status"}
        for each in spaces
        for kind, name in SIX
        if (live := server.get(kind, each, name)) is not None
    }


def annotate(server: FakeApiServer, name: str, **annotations: str | None) -> None:
    """Write annotations of a namespace, as people and tools do."""
    server.patch("Namespace", None, name, {"metadata": {"annotations": annotations}}, manager="kubectl")


# ---- R37


async def test_of_fifty_namespaces_one_is_bad_and_then_the_template_and_then_nothing(
    world: World, server: FakeApiServer
) -> None:
    """One says what it lacks, 49 work; a template with a syntax error changes nothing anywhere; mended, all go on."""
    spaces = [f"t{number:02}" for number in range(50)]
    sets = needs_owner(world.folder)
    needs_owner(world.folder, broken=True)
    world.template("owned", directory="owned")
    for each in spaces:
        world.namespace(each)
        if each != "t25":
            annotate(server, each, owner="platform")
    good = [each for each in spaces if each != "t25"]
    async with world.operator(templates=(sets,)) as one:
        for each in spaces:
            world.opt_in(each, "owned")
        await world.until(lambda: world.ready(*good), 20)
        assert world.condition("t25", "Stalled") == ("True", "TemplateInvalid")
        for part in ("owner.yaml.j2:6", "owner"):
            assert part in world.message("t25")
        assert world.child("t25") == []

        # The template breaks for everybody.
        before = everything(server, good)
        assert len(before) == 6 * 49
        server.audit.clear()
        source = {"spec": {"source": {"directory": "broken"}}}
        server.patch("ControllerTemplate", None, "owned", source, manager="kubectl")
        await world.until(lambda: all(world.condition(each) == ("True", "TemplateInvalid") for each in good), 20)
        assert world.condition("t25", "Stalled") == ("True", "TemplateInvalid")
        await asyncio.sleep(120)
        assert everything(server, good) == before
        written = {(entry.resource, entry.subresource) for entry in world.writes()}
        assert written == {("workflowcontrollers", "status"), ("controllertemplates", "status"), ("events", "")}
        told = world.events("TemplateInvalid")
        (fleet,) = [event for event in told if event["regarding"]["kind"] == "ControllerTemplate"]
        assert fleet["regarding"]["name"] == "owned"
        assert "owner.yaml.j2:6" in fleet["note"]
        assert {e["metadata"]["namespace"] for e in told if e is not fleet} == {"t25"}
        assert not any("series" in event for event in told)

        # And is mended: no restart.
        source = {"spec": {"source": {"directory": "owned"}}}
        server.patch("ControllerTemplate", None, "owned", source, manager="kubectl")
        await world.until(lambda: world.ready(*good), 20)
        annotate(server, "t25", owner="team")
        await world.until(lambda: world.ready(*spaces), 20)
        assert everything(server, good) == before
        assert not one.task.done()


async def test_a_child_that_never_gets_ready_holds_nobody(world: World, server: FakeApiServer) -> None:
    """Its pods fail, and one namespace's requests hang: fifteen others are served at once, with four workers."""
    world.controller.broken.add("slow/workflow-controller")
    server.faults.hang(namespace="hangs", times=10**6)
    spaces = [f"t{number:02}" for number in range(15)]
    async with world.operator(workers=4):
        for each in ("slow", "hangs", *spaces):
            world.opt_in(each)
        await world.until(lambda: world.ready(*spaces), 15)
        assert world.condition("slow") == ("False", "PodFailing")
        server.faults.clear()
        await world.until(lambda: world.ready("hangs"), 120)


HOSTILE = {
    "jinja": "{{ ''.__class__.__mro__[1].__subclasses__() }}{% include '/etc/passwd' %}",
    "yaml": "x\nkind: Secret\nmetadata:\n  namespace: kube-system\n--- !!python/object/apply:os.system ['id']",
    "quotes": '"\'`$(id)\\" }}"; #',
    "controls": "\u2028\u0085\ufeff\u202e\x7f",
    "argo": "{{workflow.name}} {{= sprig.env('HOME') }}",
    "long": "y" * 200_000,
}


async def test_hostile_annotations_are_data_and_harm_nobody(world: World, server: FakeApiServer) -> None:
    """They arrive as they were written, or make their own namespace Stalled; the neighbour never waits."""
    world.template("owned", directory="owned")
    for name, text in HOSTILE.items():
        world.namespace(name)
        annotate(server, name, owner=text)
    world.namespace("team-a")
    annotate(server, "team-a", owner="platform")
    async with world.operator(templates=(needs_owner(world.folder),)):
        for name in (*HOSTILE, "team-a"):
            world.opt_in(name, "owned")
        await world.until(lambda: world.ready("team-a"), 10)
        await world.until(lambda: world.ready(*HOSTILE), 20)
        for name, text in HOSTILE.items():
            made = server.get("ConfigMap", name, "owner")
            assert made is not None
            assert made["data"] == {"owner": text}
    assert server.select("ConfigMap", "kube-system") == []


async def test_thousands_of_labels_and_annotations_are_one_namespaces_own(world: World, server: FakeApiServer) -> None:
    """What is only read costs nobody anything, and is written nowhere."""
    labels = {f"example.com/l{number}": f"v{number}" for number in range(3000)}
    world.namespace("many", labels)
    annotate(server, "many", **{f"example.com/a{number}": "x" * 50 for number in range(3000)})
    async with world.operator():
        world.opt_in("many")
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a", "many"), 10)
        await asyncio.sleep(30)
        server.audit.clear()
        await asyncio.sleep(60)
        assert world.writes() == []


# ---- R32


async def test_names_that_yaml_takes_for_something_else_are_served(world: World, server: FakeApiServer) -> None:
    """R02, R32: the child reads its ID as text, each object is in its namespace, and Workflows are counted there."""
    async with world.operator():
        for each in ODD:
            world.opt_in(each)
        await world.until(lambda: world.ready(*ODD) and world.whole(*ODD), 30)
        for each in ODD:
            configured = server.get("ConfigMap", each, "workflow-controller-configmap")
            assert configured is not None
            # As the child reads it: YAML 1.1, where a bare 0123 is 83.
            assert yaml.safe_load(configured["data"]["config"])["instanceID"] == each
            assert world.status(each)["instanceID"] == each
            world.workflow(each, "one")
        await world.until(lambda: all(world.status(each)["workflows"]["pending"] == 1 for each in ODD), 30)
        assert {live["metadata"]["namespace"] for live in server.select("Deployment", None, MARK)} == set(ODD)


UNQUOTED = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: cm-{{ namespace.name }}
  namespace: {{ namespace.name }}
  labels:
    team: {{ namespace.name }}
    build: {{ namespace.labels.build }}
data:
  who: {{ namespace.name }}
""".lstrip()


async def test_a_template_without_quotes_is_refused_or_right_and_never_something_else(
    world: World, server: FakeApiServer
) -> None:
    """R32's own template: where a scalar is not the text that it was, the namespace says so; nothing is retyped."""
    home = world.folder / "sets" / "unquoted"
    home.mkdir(parents=True)
    (home / "template.yaml").write_text("description: x\nkinds:\n  - {apiVersion: v1, kind: ConfigMap}\n")
    (home / "values.yaml").write_text("{}\n")
    (home / "values.schema.json").write_text('{"type": "object"}\n')
    (home / "it.yaml.j2").write_text(UNQUOTED)
    world.template("unquoted", directory="unquoted")
    builds = {"labelled": "1.10", "flagged": "true", "zeroed": "007", "plain": "b7"}
    for each in (*ODD, *builds):
        world.namespace(each, {"build": builds.get(each, "b7")})
    async with world.operator(templates=(world.folder / "sets",)):
        for each in (*ODD, *builds):
            world.opt_in(each, "unquoted")
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"), 20)
        await world.until(lambda: all(world.status(each) for each in (*ODD, *builds)), 20)
        refused = set()
        for each in (*ODD, *builds):
            made = server.get("ConfigMap", each, f"cm-{each}")
            if made is None:
                assert world.condition(each, "Stalled")[0] == "True", each
                assert "it.yaml.j2" in world.message(each), each
                refused.add(each)
            else:
                assert made["data"]["who"] == each
                assert made["metadata"]["labels"]["team"] == each
                assert made["metadata"]["labels"]["build"] == builds.get(each, "b7")
        assert refused >= {"null", "true", "123", "labelled", "flagged"}
        assert not refused & {"plain", "x"}


# ---- R48


async def test_a_tool_that_strips_annotations_each_minute_is_no_storm(world: World, server: FakeApiServer) -> None:
    """Another tool writes and prunes the Namespace for an hour: one look a write, and not one write of ours."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(30)
        before = everything(server, ["team-a"])
        server.audit.clear()
        for minute in range(30):
            annotate(server, "team-a", **{"argocd.argoproj.io/tracking-id": f"x{minute}"})
            await asyncio.sleep(30)
            annotate(server, "team-a", **{"argocd.argoproj.io/tracking-id": None})
            await asyncio.sleep(30)
        assert world.writes() == []
        reads = [entry for entry in world.ours() if entry.verb in ("get", "list") and entry.namespace != "metaoperator"]
        assert len([entry for entry in reads if entry.resource == "namespaces" and entry.verb == "get"]) <= 60
        assert everything(server, ["team-a"]) == before


async def test_a_copied_namespace_gets_a_child_of_its_own(world: World, server: FakeApiServer) -> None:
    """Labels and annotations come along; what a child is tied to is the UID, and no record is on the Namespace."""
    async with world.operator():
        world.opt_in("a")
        await world.until(lambda: world.ready("a"))
        annotate(server, "a", owner="x")
        source = server.get("Namespace", None, "a")
        assert source is not None
        meta = {
            "name": "b",
            "labels": dict(source["metadata"]["labels"]),
            "annotations": source["metadata"]["annotations"],
        }
        meta["labels"]["kubernetes.io/metadata.name"] = "b"
        copy = server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta}, manager="kubectl")
        await world.until(lambda: world.ready("a", "b") and world.whole("a", "b"), 10)
        live = server.get("Deployment", "b", "workflow-controller")
        assert live is not None
        assert live["metadata"]["annotations"][names.NAMESPACE_UID_ANNOTATION] == copy["metadata"]["uid"]
        assert not [key for key in source["metadata"]["annotations"] if names.GROUP in key or "kopf" in key]


async def test_a_second_kopf_operator_with_default_settings_is_no_ping_pong(
    world: World, server: FakeApiServer
) -> None:
    """It puts its finalizer and annotations on the Namespaces that we watch: they stay, and each of us has peace."""
    theirs = kopf.OperatorRegistry()

    @kopf.on.create("v1", "namespaces", registry=theirs)
    @kopf.on.delete("v1", "namespaces", registry=theirs)
    async def handled(**_: Any) -> None:
        return None

    @kopf.on.login(registry=theirs)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=server.url)

    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.networking.error_backoffs = handlers.JitteredForever(1, 5)
    stop = asyncio.Event()
    async with world.operator():
        other = processes.start(
            "other",
            kopf.operator(registry=theirs, settings=settings, clusterwide=True, stop_flag=stop, memo=kopf.Memo()),
        )
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))

        def finalizers() -> list[str]:
            live = server.get("Namespace", None, "team-a")
            return [] if live is None else live["metadata"].get("finalizers", [])

        await world.until(finalizers)
        await asyncio.sleep(30)
        server.audit.clear()
        await asyncio.sleep(300)
        assert finalizers() == ["kopf.zalando.org/KopfFinalizerMarker"]
        assert [entry for entry in server.audit.writes() if entry.resource == "namespaces"] == []
        assert world.writes() == []
        stop.set()
        # In its own time: one that is cancelled on its way out leaves connections open, and a later test is red for it.
        await asyncio.wait({other}, timeout=60)
        await processes.end("other")


async def test_replica_sets_that_inherit_our_annotations_are_not_taken_for_ours(
    world: World, server: FakeApiServer
) -> None:
    """A set that declares ReplicaSets sees them, with our label and annotations on: none is pruned or touched."""
    home = world.folder / "sets" / "wide"
    home.mkdir(parents=True)
    for path in PROD.iterdir():
        if path.is_file():
            (home / path.name).write_text(path.read_text())
    about = (home / "template.yaml").read_text()
    (home / "template.yaml").write_text(
        about.replace("kinds:\n", "kinds:\n  - apiVersion: apps/v1\n    kind: ReplicaSet\n", 1)
    )
    world.template("wide", directory="wide")
    async with world.operator(templates=(world.folder / "sets",)):
        world.opt_in("team-a", "wide")
        await world.until(lambda: world.ready("team-a"), 20)
        await asyncio.sleep(60)
        (inherited,) = server.select("ReplicaSet", "team-a", MARK)
        assert names.NAMESPACE_UID_ANNOTATION in inherited["metadata"]["annotations"]
        assert names.RENDERED_ANNOTATION in inherited["metadata"]["annotations"]
        assert [entry for entry in world.writes() if entry.resource == "replicasets"] == []
        assert not any(each.startswith("ReplicaSet/") for each in world.status("team-a")["inventory"])


# ---- R38


WIDGET = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
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


async def test_an_object_whose_kind_comes_later_comes_by_itself(world: World, server: FakeApiServer) -> None:
    """No CRD: the namespace names it, its neighbours work; it appears, goes and appears again: so does the object."""
    home = world.folder / "sets" / "widgets"
    home.mkdir(parents=True)
    for path in PROD.iterdir():
        if path.is_file():
            (home / path.name).write_text(path.read_text())
    about = (home / "template.yaml").read_text()
    (home / "template.yaml").write_text(
        about.replace("kinds:\n", "kinds:\n  - apiVersion: example.com/v1\n    kind: Widget\n", 1)
    )
    (home / "a-widget.yaml.j2").write_text("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n")
    world.template("widgets", directory="widgets")

    def widget() -> Manifest | None:
        try:
            return server.get("Widget", "team-a", "w")
        except LookupError:
            return None

    async with world.operator(templates=(world.folder / "sets",)):
        world.opt_in("team-a", "widgets")
        world.opt_in("team-b")
        await world.until(lambda: world.ready("team-b"), 10)
        await world.until(lambda: world.condition("team-a", "Stalled") == ("True", "KindUnseen"), 10)
        assert "example.com/v1 Widget" in world.message("team-a")
        for _ in range(2):
            server.define(json.loads(json.dumps(WIDGET)))
            await world.until(lambda: world.ready("team-a") and widget() is not None, 320)
            server.withdraw("Widget")
            await world.until(lambda: world.condition("team-a", "Stalled") == ("True", "KindUnseen"), 320)
            assert world.whole("team-a", "team-b")
            assert world.ready("team-b")


# ---- our own objects, edited by hand


async def test_a_status_that_people_edit_or_delete_is_written_again(world: World, server: FakeApiServer) -> None:
    """It is a view: whatever is done to it, it tells the truth within seconds, and the child does not notice."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(30)
        before, right = everything(server, ["team-a"]), world.status("team-a")
        for wrong in (
            None,
            {"conditions": []},
            {"conditions": None, "revision": "nonsense", "workflows": {"running": 10**9}},
            {"inventory": ["Deployment/not-there"], "template": "elsewhere", "instanceID": "other"},
            {"conditions": [*right["conditions"], {**right["conditions"][0], "type": "Foreign"}]},
        ):
            patch = {"status": wrong}
            server.patch("WorkflowController", "team-a", "workflow-controller", patch, sub="status", manager="kubectl")
            await world.until(lambda: _timeless(world.status("team-a")) == _timeless(right), 30)
        await asyncio.sleep(30)
        server.audit.clear()
        for number in range(20):
            world.workflow("team-a", f"w{number}")
            world.phase("team-a", f"w{number}", "Succeeded", completed=True)
            await asyncio.sleep(10)
        assert world.writes() == []  # a condition of somebody else's is no reason to write at each look
        assert everything(server, ["team-a"]) == before


def _timeless(status: Manifest) -> Manifest:
    ours = [each for each in status.get("conditions") or () if each["type"] != "Foreign"]
    conditions = [{**each, "lastTransitionTime": ""} for each in ours]
    return {**status, "conditions": conditions}


async def test_unknown_fields_in_a_spec_are_dropped_or_kept_and_never_in_the_way(
    world: World, server: FakeApiServer
) -> None:
    """The API server prunes what the schema does not know; a child is made all the same."""
    world.namespace("team-a")
    spec = {"valuess": {"x": 1}, "paused": False, "shardz": 9, "values": {"workers": {"workflow": 3}}}
    world.make("WorkflowController", "team-a", "workflow-controller", api=names.API_VERSION, spec=spec)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"), 10)
        live = world.wfc("team-a")
        assert live is not None
        assert set(live["spec"]) == {"values", "instanceID", "paused", "adopt"}


async def test_huge_values_in_a_template_are_its_namespaces_own(world: World, server: FakeApiServer) -> None:
    """A megabyte of values that no schema knows: ValuesInvalid in a message of bounded size; neighbours are served."""
    world.template("huge", {"nonsense": {f"k{number}": "x" * 100 for number in range(8000)}})
    async with world.operator():
        world.opt_in("team-b", "huge")
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"), 20)
        await world.until(lambda: world.condition("team-b") == ("False", "ValuesInvalid"), 20)
        assert 0 < len(world.message("team-b")) < 33_000
        server.patch("ControllerTemplate", None, "huge", {"spec": {"values": None}})
        await world.until(lambda: world.ready("team-b"), 20)
