"""Events for people: told once and counted up, within a budget, and never at the expense of the work."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from metaoperator.cluster import Cluster
from metaoperator.core.names import Reason
from metaoperator.recorder import BURST, REFILL_SECONDS, REMEMBERED, Recorder
from tests.fake import FakeApiServer

from .world import Manifest, World

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def cluster(world: World) -> AsyncIterator[Cluster]:
    """A client with an open gate."""
    async with world.cluster() as made:
        yield made


@pytest.fixture
def recorder(cluster: Cluster) -> Recorder:
    """A recorder whose clock is that of the loop."""
    return Recorder(cluster, instance="operator-1", wall_clock=clock)


def clock() -> datetime:
    """Tell the wall's time in step with the loop's."""
    return datetime.fromtimestamp(START.timestamp() + asyncio.get_running_loop().time(), UTC)


def thing(name: str = "workflow-controller", uid: str = "u1", namespace: str = "default") -> Manifest:
    """Make something that an Event is about."""
    meta = {"name": name, "uid": uid} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "metaoperator.dev/v1alpha1", "kind": "WorkflowController", "metadata": meta}


async def test_an_event_says_what_about_whom_and_by_whom(recorder: Recorder, world: World) -> None:
    """The fields that kubectl shows, and the reporter that tells replicas apart."""
    await recorder.tell(thing(), Reason.CREATED, "six objects", warning=True)
    (event,) = world.events()
    assert event["regarding"] == {
        "apiVersion": "metaoperator.dev/v1alpha1",
        "kind": "WorkflowController",
        "name": "workflow-controller",
        "namespace": "default",
        "uid": "u1",
    }
    assert (event["type"], event["reason"], event["note"]) == ("Warning", "Created", "six objects")
    assert event["reportingInstance"] == "operator-1"
    assert event["action"]
    assert "series" not in event


async def test_the_same_again_is_counted_up(recorder: Recorder, world: World, server: FakeApiServer) -> None:
    """One object however often it is told; another reason, message or object is another Event."""
    for _ in range(4):
        await recorder.tell(thing(), Reason.DRIFT, "Deployment")
        await asyncio.sleep(10)
    (event,) = world.events()
    assert event["series"]["count"] == 4
    assert event["series"]["lastObservedTime"] > event["eventTime"]
    await recorder.tell(thing(), Reason.DRIFT, "ConfigMap")
    await recorder.tell(thing(), Reason.CREATED, "Deployment")
    await recorder.tell(thing(uid="u2"), Reason.DRIFT, "Deployment")
    assert len(world.events()) == 4
    assert [entry.verb for entry in server.audit.writes()].count("create") == 4


async def test_each_object_has_a_budget_of_its_own(recorder: Recorder, world: World, server: FakeApiServer) -> None:
    """25 in a row, then one in five minutes; a noisy object silences no other."""
    for i in range(100):
        await recorder.tell(thing(), Reason.DRIFT, f"message {i}")
    assert len(world.events()) == BURST
    await recorder.tell(thing(uid="quiet"), Reason.CREATED, "heard")
    assert len(world.events()) == BURST + 1
    for i in range(12):
        await asyncio.sleep(REFILL_SECONDS / 4)
        await recorder.tell(thing(), Reason.DRIFT, f"later {i}")
    assert len(world.events()) == BURST + 1 + 3
    assert server.audit.select(verb="create", resource="events")


async def test_a_clock_that_is_set_back_silences_nobody(cluster: Cluster, world: World) -> None:
    """The budget goes by time that only goes on."""
    wall = START
    recorder = Recorder(cluster, instance="operator-1", wall_clock=lambda: wall)
    await recorder.tell(thing(), Reason.DRIFT, "before")
    wall = START - timedelta(days=1)
    await recorder.tell(thing(), Reason.DRIFT, "after")
    assert len(world.events()) == 2


async def test_a_forgotten_event_begins_anew(recorder: Recorder, world: World) -> None:
    """The API server drops Events after an hour: the next one is a new object, and counts from there."""
    await recorder.tell(thing(), Reason.DRIFT, "Deployment")
    await recorder.tell(thing(), Reason.DRIFT, "Deployment")
    (old,) = world.events()
    kind = world.server.registry.named("Event", "events.k8s.io/v1")
    world.server.store.delete(kind, "default", old["metadata"]["name"])
    await asyncio.sleep(1)
    await recorder.tell(thing(), Reason.DRIFT, "Deployment")
    (new,) = world.events()
    assert new["metadata"]["name"] != old["metadata"]["name"]
    assert "series" not in new
    await recorder.tell(thing(), Reason.DRIFT, "Deployment")
    (new,) = world.events()
    assert new["series"]["count"] == 2


@pytest.mark.parametrize("code", [403, 404, 409, 422, 429, 500, 503])
async def test_a_refused_event_is_no_failure_of_the_work(
    recorder: Recorder, world: World, server: FakeApiServer, code: int
) -> None:
    """Whatever the API server says to an Event, telling it returns, and the next one is told."""
    fault = server.faults.answer(code, resource="events", times=9)
    await recorder.tell(thing(), Reason.CREATED, "lost")
    fault.release()
    await recorder.tell(thing(), Reason.CREATED, "told")
    assert [event["note"] for event in world.events()] == ["told"]


async def test_a_cut_connection_is_no_failure_of_the_work(
    recorder: Recorder, world: World, server: FakeApiServer
) -> None:
    """Sent, and nobody knows whether it arrived: the next of its kind is told all the same."""
    server.faults.cut(after_effect=True, resource="events")
    await recorder.tell(thing(), Reason.CREATED, "first")
    await recorder.tell(thing(), Reason.CREATED, "second")
    assert {event["note"] for event in world.events()} == {"first", "second"}


async def test_events_that_hang_keep_nobody_waiting_for_long(
    recorder: Recorder, world: World, server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Three seconds each at most; what is told afterwards is written."""
    hanging = server.faults.hang(resource="events", times=10**6)
    began = asyncio.get_running_loop().time()
    for _ in range(3):
        await recorder.tell(thing(), Reason.CREATED, "six objects")
    assert asyncio.get_running_loop().time() - began <= 10
    assert "event not recorded" in caplog.text
    hanging.release()
    await recorder.tell(thing(), Reason.DRIFT, "Deployment")
    assert len(world.events("Drift")) == 1


async def test_a_replica_that_does_not_lead_tells_nothing(world: World, server: FakeApiServer) -> None:
    """The gate is closed: nothing is sent, nothing is raised, nothing is logged."""
    async with world.cluster(open_for=-1) as cluster:
        await Recorder(cluster, instance="follower").tell(thing(), Reason.CREATED, "x")
    assert server.audit.writes() == []


async def test_events_about_cluster_scoped_objects_live_in_default(recorder: Recorder, world: World) -> None:
    """Where kubectl looks for them (Kubernetes API conventions)."""
    await recorder.tell(thing(namespace=""), Reason.NAMESPACE_REFUSED, "no")
    (event,) = world.events()
    assert event["metadata"]["namespace"] == "default"


async def test_long_names_and_messages_are_cut_to_what_an_event_may_hold(recorder: Recorder, world: World) -> None:
    """253 characters for the name, 1,024 for the note."""
    await recorder.tell(thing(name="n" * 253), Reason.CREATED, "m" * 5000)
    (event,) = world.events()
    assert len(event["metadata"]["name"]) <= 253
    assert len(event["note"]) <= 1024


async def test_memory_is_bounded(recorder: Recorder) -> None:
    """However many objects and messages there are, only so many are remembered."""
    recorder._cluster.gate.open_until(0.0)
    for i in range(REMEMBERED + 500):
        await recorder.tell(thing(uid=str(i)), Reason.CREATED, "x")
    assert len(recorder._budget) == REMEMBERED
