"""kopf against the fake API server: our answers to the ways in which it misleads, writes or ends (facts/kopf.md)."""

import asyncio
import contextlib
import itertools
import logging
import traceback
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import kopf
import pytest

from metaoperator import handlers, unheard
from metaoperator.cluster import Cluster
from metaoperator.core import names
from metaoperator.core.model import NAMESPACE, Ref
from metaoperator.mirror import Mirror
from metaoperator.operator import KOPF_RESTARTS
from metaoperator.templates import ROLL_UP_SECONDS
from tests.fake import FakeApiServer

from . import processes
from .world import OTHER_TOKEN, TOKEN, World, write_kubeconfig


class Ears:
    """kopf with our handlers, and the names that they ask for."""

    def __init__(self, cluster: Cluster) -> None:
        """Nothing is asked yet."""
        self.asked: list[tuple[str, float]] = []
        self.mirror = Mirror(cluster, lambda _: None)
        self.ready = asyncio.Event()
        self.stop = asyncio.Event()

    def ask(self, name: str, delay: float) -> None:
        """Note a name."""
        self.asked.append((name, delay))

    def names(self) -> list[str]:
        """Name what was asked for at once."""
        return [name for name, delay in self.asked if delay == 0]

    async def listen(self, url: str) -> None:
        """Run kopf."""

        async def login(**_: Any) -> kopf.ConnectionInfo:
            return kopf.ConnectionInfo(server=url, token=TOKEN)

        await kopf.operator(
            registry=handlers.registry(self.mirror, self.ask, login),
            settings=handlers.settings(),
            clusterwide=True,
            identity="test",  # type: ignore[arg-type]
            ready_flag=self.ready,
            stop_flag=self.stop,
        )


@contextlib.asynccontextmanager
async def listening(world: World) -> AsyncIterator[Ears]:
    """Let kopf listen alone: nothing of ours acts on what it hears."""
    async with world.cluster() as cluster:
        ears = Ears(cluster)
        task = processes.start("kopf", ears.listen(world.server.url))
        await world.until(lambda: len(world.server.audit.select(verb="watch")) >= 3, what="kopf watches")
        try:
            yield ears
        finally:
            ears.stop.set()
            await asyncio.wait({task}, timeout=60)
            await processes.end("kopf")


async def test_the_label_selector_goes_over_the_wire(world: World, server: FakeApiServer) -> None:
    """K7: kopf lists and watches labelled Namespaces only; the other kinds whole."""
    async with listening(world):
        asked = server.audit.select(verb=("list", "watch"), resource="namespaces")
        assert {entry.verb for entry in asked} == {"list", "watch"}
        assert {entry.query.get("labelSelector") for entry in asked} == {names.OPT_IN_LABEL}
        watched = {entry.resource for entry in server.audit.select(verb="watch")}
        assert watched == {"namespaces", "workflowcontrollers", "controllertemplates"}
        assert all("labelSelector" not in entry.query for entry in server.audit if entry.resource != "namespaces")
        streams = server.audit.select(verb="watch")
        assert all(290 <= int(entry.query["timeoutSeconds"]) <= 350 for entry in streams)
        assert all("sendInitialEvents" not in entry.query for entry in streams)  # K2


async def test_kopf_writes_nothing(world: World, server: FakeApiServer) -> None:
    """Every kind of event on every kind that it watches: no annotation, no finalizer, no patch, no Event."""
    world.opt_in("team-a")
    spec: dict[str, Any] = {"values": {}}
    async with listening(world):
        made = world.make("WorkflowController", "team-a", "workflow-controller", api=names.API_VERSION, spec=spec)
        for i in range(5):
            world.label("team-a", f"v{i}")
            world.spec("team-a", values={"workers": {"workflow": i}})
            server.patch("ControllerTemplate", None, "default", {"spec": {"values": {"i": i}}})
            await asyncio.sleep(1)
        for kind, space, name in (
            ("WorkflowController", "team-a", "workflow-controller"),
            ("ControllerTemplate", None, "default"),
            ("Namespace", None, "team-a"),
        ):
            live = server.get(kind, space, name)
            assert live is not None
            assert "annotations" not in live["metadata"]
            assert "finalizers" not in live["metadata"]
            server.delete(kind, space, name)
        await asyncio.sleep(60)
    assert made
    assert server.audit.writes() == []


@pytest.mark.parametrize("finalizer", ["kopf.zalando.org/KopfFinalizerMarker", "someone.example/keep"])
async def test_a_foreign_finalizer_is_left_alone(world: World, server: FakeApiServer, finalizer: str) -> None:
    """K8, R48: another kopf operator's finalizer carries kopf's default name; ours does not take it away."""
    world.opt_in("team-a")
    server.patch("Namespace", None, "team-a", {"metadata": {"finalizers": [finalizer]}})
    async with listening(world):
        world.label("team-a", "other")
        await asyncio.sleep(5)
        server.delete("Namespace", None, "team-a")
        await asyncio.sleep(60)
        live = server.get("Namespace", None, "team-a")
    assert live is not None
    assert live["metadata"]["finalizers"] == [finalizer]
    assert server.audit.writes() == []


async def test_each_event_is_a_name_and_nothing_else(world: World, server: FakeApiServer) -> None:
    """Namespaces and WorkflowControllers ask for their namespace, templates for themselves and for those at hand."""
    async with listening(world) as ears:
        world.opt_in("team-a")
        await world.until(lambda: ears.names() == ["template/default", "team-a"])
        world.make("WorkflowController", "team-a", "workflow-controller", api=names.API_VERSION, spec={})
        await world.until(lambda: len(ears.names()) == 3)
        status = {"status": {"template": "default"}}
        server.patch("WorkflowController", "team-a", "workflow-controller", status, sub="status")
        await world.until(lambda: ("template/default", ROLL_UP_SECONDS) in ears.asked)
        world.template("gpu")
        await world.until(lambda: ears.names()[-1] == "template/gpu")
        await ears.mirror.get(_namespace("team-a"))
        server.patch("ControllerTemplate", None, "gpu", {"spec": {"values": {"a": 1}}})
        await world.until(lambda: ears.names()[-2:] == ["template/gpu", "team-a"])


async def test_a_label_that_goes_is_a_deletion_that_asks_for_a_look(world: World, server: FakeApiServer) -> None:
    """What leaves the selector comes as DELETED with its old body: the name is asked for, the body not believed."""
    world.opt_in("team-a")
    async with listening(world) as ears:
        await ears.mirror.get(_namespace("team-a"))
        await asyncio.sleep(1)
        ears.asked.clear()
        world.opt_out("team-a")
        await world.until(lambda: ears.names() == ["team-a"])
        live = await ears.mirror.get(_namespace("team-a"))
        assert live == server.get("Namespace", None, "team-a")


async def test_what_our_own_writes_cause_is_no_news(world: World, server: FakeApiServer) -> None:
    """The event of a write whose answer we know asks for nothing."""
    world.opt_in("team-a")
    made = world.make("WorkflowController", "team-a", "workflow-controller", api=names.API_VERSION, spec={})
    async with listening(world) as ears:
        await asyncio.sleep(1)
        ears.asked.clear()
        live = server.patch("WorkflowController", "team-a", "workflow-controller", {"spec": {"instanceID": "team-a"}})
        ears.mirror.learn(live)
        await asyncio.sleep(5)
        assert made["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]
        assert ears.names() == []


async def test_the_whole_operator_finds_what_kopf_loses_in_a_gap(world: World, server: FakeApiServer) -> None:
    """K1: a Namespace loses its label while kopf's watch is dead and its history gone: found by the next compare."""
    async with world.operator():
        world.opt_in("team-a")
        world.opt_in("team-b")
        await world.until(lambda: world.ready("team-a", "team-b"))
        server.faults.drop_events(resource="namespaces", times=2)
        world.opt_out("team-a")
        server.compact()
        server.fail_watches(410, kind="Namespace")
        await world.until(lambda: world.empty("team-a") and world.wfc("team-a") is None, 1400)
        assert world.ready("team-b")


async def test_an_error_event_ends_kopf_and_not_the_operator(
    world: World, server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    """K4: `etcdserver: leader changed` on the stream ends kopf; it is started anew, and what was missed is found."""
    async with world.operator() as one:
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        server.fail_watches(500, kind="Namespace")
        await asyncio.sleep(0.2)
        world.opt_in("team-b")
        world.opt_out("team-a")
        await world.until(lambda: world.ready("team-b") and world.wfc("team-a") is None, 40)
        assert "kopf ended; it is started again" in caplog.text
        assert one.leading
        world.opt_in("team-c")
        await world.until(lambda: world.ready("team-c"), 10)


async def test_a_kopf_that_keeps_ending_ends_the_operator(
    world: World, server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    """More than five ends in ten minutes: the process ends with an error, to be started anew by its Deployment."""
    caplog.set_level(logging.CRITICAL, "kopf")
    async with world.nature():
        one = world.start()
        for _ in range(KOPF_RESTARTS + 1):
            await world.until(lambda: server.history.watchers(("", "namespaces")) or one.task.done(), 60)
            server.fail_watches(500, kind="Namespace")
            await asyncio.sleep(20)
        await world.until(one.task.done, 60)
        assert "giving up" in str(one.task.exception())


@pytest.mark.parametrize("code", [403, 429, 503])
@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_refusals_for_minutes_do_not_end_it(
    world: World, server: FakeApiServer, caplog: pytest.LogCaptureFixture, code: int, verb: str
) -> None:
    """K5: lists or watches of Namespaces are refused for four minutes; afterwards events come as before."""
    async with world.operator() as one:
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        fault = server.faults.answer(code, verb=verb, resource="namespaces", times=10**6)
        server.fail_watches(410, kind="Namespace")
        await asyncio.sleep(240)
        fault.release()
        world.opt_in("team-b")
        await world.until(lambda: world.ready("team-b"), 100)
        assert not one.task.done()


async def test_a_refused_start_is_waited_out(world: World, server: FakeApiServer) -> None:
    """The API server refuses everything at first: the operator waits, and serves once it is answered."""
    world.opt_in("team-a")
    fault = server.faults.answer(503, times=10**6)
    async with world.operator():
        await asyncio.sleep(120)
        fault.release()
        await world.until(lambda: world.ready("team-a"), 120)


async def test_our_crds_are_waited_for(world: World, server: FakeApiServer, caplog: pytest.LogCaptureFixture) -> None:
    """Started before `manifests/fleet`: it says what to apply, and goes on by itself when that is done."""
    definition = server.withdraw("WorkflowController")
    world.opt_in("team-a")
    async with world.operator():
        await asyncio.sleep(30)
        assert "our CRDs are missing" in caplog.text
        server.define(definition)
        await world.until(lambda: world.ready("team-a"), 60)


async def test_a_peering_object_does_not_pause_us(world: World, server: FakeApiServer) -> None:
    """R46: somebody's kopf peering named `default` is neither read nor written."""
    async with listening(world):
        await asyncio.sleep(5)
    assert not [entry for entry in server.audit if "peering" in entry.resource]


async def test_a_token_that_expires_is_asked_for_again(
    world: World, server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Kopf's 401 leads to our credentials, read anew; nothing is missed, and no log line holds a token."""
    caplog.set_level(logging.DEBUG)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(10)
        write_kubeconfig(world.kubeconfig, server.url, OTHER_TOKEN)
        server.tokens = {OTHER_TOKEN}
        server.cut_watches()
        world.opt_in("team-b")
        await world.until(lambda: world.ready("team-b"), 60)
    assert TOKEN not in caplog.text
    assert OTHER_TOKEN not in caplog.text


class _Refused(set[str]):
    """Tokens of which none is accepted; after 200 tries anybody is, for a flood would never end."""

    def __init__(self) -> None:
        super().__init__()
        self.tries = 0

    def __contains__(self, token: object) -> bool:
        self.tries += 1
        return self.tries > 200


async def test_refused_credentials_are_no_flood(world: World, server: FakeApiServer) -> None:
    """A token is refused for half a minute: kopf and informers ask a few times each, with pauses that grow."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(10)
        server.tokens = refused = _Refused()
        server.cut_watches()
        await asyncio.sleep(30)
        tries = refused.tries
        server.tokens = None
        world.opt_in("team-b")
        await world.until(lambda: world.ready("team-b"), 60)
    assert tries <= 200


def test_the_series_of_pauses_never_ends() -> None:
    """K5: kopf gives up when its pauses run out: ours do not, grow to the longest, and are spread."""
    pauses = list(itertools.islice(handlers.JitteredForever(1, 30), 10_000))
    assert all(0.5 <= pause <= 30 for pause in pauses)
    assert all(pause >= 15 for pause in pauses[5:])
    assert len({round(pause, 6) for pause in pauses}) > 9_000
    again = handlers.JitteredForever(1, 30)
    assert next(iter(again)) <= 1
    assert next(iter(again)) <= 1


def test_settings_answer_each_fault() -> None:
    """The lines of §5 that no request shows: own finalizer, no storage, no posting, no peering, no early stream."""
    made = handlers.settings()
    assert made.persistence.finalizer == "metaoperator.dev/never-used"
    assert made.persistence.diffbase_storage.fetch(body=kopf.Body({})) is None
    assert not made.posting.enabled
    assert made.peering.standalone
    assert not made.watching.initial_streaming
    assert made.watching.inactivity_timeout == 75
    assert [str(key.any_name) for key in made.watching.label_selectors] == ["namespaces"]
    assert made.queueing.worker_limit is None  # K6


def _namespace(name: str) -> Ref:
    return Ref(NAMESPACE, "", name)


async def test_a_session_that_kopfs_login_closes_is_no_fault(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Streams that are about to read then raise RuntimeError, which ends kopf: it is begun again, and that is no error.

    Found by random worlds; aiohttp's `StreamReader._wait` is where it comes from, so it is raised there here.
    """
    wait = aiohttp.StreamReader._wait
    closed: list[str] = []

    async def wait_or_end(reader: aiohttp.StreamReader, name: str) -> None:
        if closed and name == "read" and "kopf" in "".join(traceback.format_stack()):
            closed.clear()
            raise RuntimeError("Connection closed.")
        await wait(reader, name)

    monkeypatch.setattr(aiohttp.StreamReader, "_wait", wait_or_end)
    async with world.operator() as one:
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        closed.append("now")
        world.opt_in("team-b")
        world.opt_in("team-c")
        await world.until(lambda: world.ready("team-b", "team-c"), 60)
        await world.until(lambda: "kopf's connections were closed under it" in caplog.text)
        world.opt_in("team-d")
        await world.until(lambda: world.ready("team-d"))
        assert one.leading
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR" and "kopf" not in each.name] == []


def test_a_watch_that_the_end_of_the_loop_cuts_off_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """A watch raises when it is closed while it waits, after the operator has ended well. Other faults are told."""

    async def watch() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise RuntimeError("generator didn't stop after athrow()")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(unheard.answer)
        cut.append(watch())
        await anext(cut[0])
        loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(0)

    cut: list[AsyncIterator[int]] = []
    with asyncio.Runner() as runner:
        runner.run(main())
    assert [record.levelname for record in caplog.records if "generator" in record.getMessage()] == []
    assert "division" in caplog.text
