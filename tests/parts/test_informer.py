"""The informer against the fake API server: its store stays true across every kind of cut."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from metaoperator import informer
from metaoperator.cluster import Selection
from metaoperator.core import names
from metaoperator.core.model import CONFIG_MAP, POD, WORKFLOW, Manifest, Ref
from metaoperator.informer import Informer
from tests.fake import FakeApiServer
from tests.fake.history import Event

from .world import MARK, World, end

MAPS = Selection(kind=CONFIG_MAP, label_selector=MARK)
FOREVER = 10**6


@dataclasses.dataclass
class Watched:
    """An informer that runs, and what it told."""

    informer: Informer
    told: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    changes: list[tuple[Manifest | None, Manifest | None]] = dataclasses.field(default_factory=list)

    def changed(self, ref: Ref, before: Manifest | None, after: Manifest | None) -> None:
        """Note a change in one word."""
        word = "made" if before is None else "gone" if after is None else "changed"
        self.told.append((word, ref.name))
        self.changes.append((before, after))

    def names(self) -> list[str]:
        """Name what the store holds in team-a."""
        return [each["metadata"]["name"] for each in self.informer.within("team-a")]


@contextlib.asynccontextmanager
async def watching(
    world: World, selection: Selection = MAPS, project: Any = informer.without_noise, **more: Any
) -> AsyncIterator[Watched]:
    """Run an informer until it is synced, and end it afterwards."""
    async with world.cluster() as cluster:
        watched = Watched(None)  # type: ignore[arg-type]
        watched.informer = Informer(cluster, selection, project=project, changed=watched.changed, **more)
        task = asyncio.create_task(watched.informer.run())
        try:
            async with asyncio.timeout(60):
                await watched.informer.wait_synced()
            yield watched
        finally:
            await end(task)


@pytest.fixture
def maps(world: World) -> World:
    """A namespace with two marked ConfigMaps and one that is not."""
    world.namespace("team-a")
    for name in ("a", "b"):
        make(world, name)
    make(world, "unmarked", mark=False)
    return world


def make(world: World, name: str, *, mark: bool = True, **data: str) -> Manifest:
    """Create a ConfigMap."""
    labels = {names.MANAGED_BY_LABEL: names.MANAGED_BY} if mark else {}
    meta = {"name": name, "namespace": "team-a", "labels": labels}
    return world.make("ConfigMap", "team-a", name, metadata=meta, data={"key": "value", **data})


def change(world: World, name: str, value: str) -> None:
    """Change a ConfigMap."""
    world.server.patch("ConfigMap", "team-a", name, {"data": {"key": value}})


def lists(server: FakeApiServer, resource: str = "configmaps") -> int:
    """Count the lists so far."""
    return len(server.audit.select(verb="list", resource=resource))


async def test_what_is_there_and_what_changes_is_told_once(maps: World) -> None:
    """List first, then events; a change is told with before and after, and the store holds the last state."""
    async with watching(maps) as watched:
        assert watched.told == [("made", "a"), ("made", "b")]
        change(maps, "a", "other")
        make(maps, "c")
        maps.server.delete("ConfigMap", "team-a", "b")
        await maps.until(lambda: watched.names() == ["a", "c"])
        assert watched.told[2:] == [("changed", "a"), ("made", "c"), ("gone", "b")]
        before, after = watched.changes[2]
        assert before is not None
        assert after is not None
        assert (before["data"]["key"], after["data"]["key"]) == ("value", "other")
        assert watched.informer.namespaces() == {"team-a"}
        assert watched.informer.get("team-a", "b") is None


async def test_the_questions_on_the_wire(maps: World, server: FakeApiServer) -> None:
    """Pages of 500 by selector; one watch from the list's version, with bookmarks and an end after 5 to 10 minutes."""
    async with watching(maps):
        await maps.until(lambda: server.audit.select(verb="watch", resource="configmaps"))
    listed, watched = server.audit.select(resource="configmaps")
    assert listed.query == {"labelSelector": MARK, "limit": "500"}
    assert watched.query["labelSelector"] == MARK
    assert watched.query["allowWatchBookmarks"] == "true"
    assert watched.query["resourceVersion"] == str(server.history.version)
    assert 300 <= int(watched.query["timeoutSeconds"]) <= 600


async def test_long_lists_come_in_pages(maps: World, server: FakeApiServer) -> None:
    """1,100 objects are three requests, and each object is told once."""
    for i in range(1098):
        make(maps, f"x-{i}")
    async with watching(maps) as watched:
        assert len(watched.told) == len(set(watched.told)) == 1100
    assert lists(server) == 3


async def test_a_list_whose_pages_expire_begins_anew(maps: World, server: FakeApiServer) -> None:
    """410 for a continue token: the list is taken again from the start, and nothing is told twice."""
    for i in range(600):
        make(maps, f"x-{i}")
    seen = 0

    def project(live: Manifest) -> Manifest:
        nonlocal seen
        seen += 1
        if seen == 500:
            make(maps, "late")
            server.compact()
        return informer.without_noise(live)

    async with watching(maps, project=project) as watched:
        assert len(watched.told) == len(set(watched.told)) == 603
    assert lists(server) == 4


async def test_deletions_in_a_gap_are_told_after_a_410_event(maps: World, server: FakeApiServer) -> None:
    """K1: what was deleted, made and changed while nobody watched is told when the history is gone."""
    async with watching(maps) as watched:
        await maps.until(lambda: server.audit.select(verb="watch", resource="configmaps"))
        server.faults.drop_events(resource="configmaps", times=3)
        server.delete("ConfigMap", "team-a", "a")
        change(maps, "b", "other")
        make(maps, "c")
        server.compact()
        server.fail_watches(410, kind="ConfigMap")
        await maps.until(lambda: watched.names() == ["b", "c"], 10)
        assert sorted(watched.told[2:]) == [("changed", "b"), ("gone", "a"), ("made", "c")]
    assert lists(server) == 2


async def test_deletions_in_a_gap_are_told_after_a_410_answer(maps: World, server: FakeApiServer) -> None:
    """A watch that is refused with HTTP status 410 leads to a new list, as the ERROR event does."""
    async with watching(maps) as watched:
        await maps.until(lambda: server.audit.select(verb="watch", resource="configmaps"))
        server.faults.answer(410, verb="watch", resource="configmaps")
        server.faults.drop_events(resource="configmaps", times=1)
        server.delete("ConfigMap", "team-a", "a")
        server.cut_watches("ConfigMap")
        await maps.until(lambda: watched.names() == ["b"], 10)
    assert lists(server) == 2


async def test_deletions_in_a_gap_are_told_after_compaction_and_a_cut(maps: World, server: FakeApiServer) -> None:
    """The stream is cut, the history is compacted before the next watch: compare with a new list."""
    async with watching(maps) as watched:
        await maps.until(lambda: server.audit.select(verb="watch", resource="configmaps"))
        server.cut_watches("ConfigMap")
        server.delete("ConfigMap", "team-a", "a")
        make(maps, "unrelated", mark=False)
        server.compact()
        await maps.until(lambda: watched.names() == ["b"], 10)
        assert watched.told[2:] == [("gone", "a")]


async def test_a_cut_stream_goes_on_where_it_was(maps: World, server: FakeApiServer) -> None:
    """Within the history no new list is needed: the missed events are replayed, in order."""
    async with watching(maps) as watched:
        await maps.until(lambda: server.audit.select(verb="watch", resource="configmaps"))
        server.cut_watches("ConfigMap")
        server.delete("ConfigMap", "team-a", "a")
        make(maps, "a")
        change(maps, "b", "other")
        await maps.until(lambda: len(watched.told) == 5, 10)
        assert watched.told[2:] == [("gone", "a"), ("made", "a"), ("changed", "b")]
    assert lists(server) == 1


@pytest.mark.parametrize("code", [500, 503, 504])
async def test_other_error_events_resume_from_the_last_version(maps: World, server: FakeApiServer, code: int) -> None:
    """K4: `etcdserver: leader changed` and its like end a stream, not the informer; nothing is listed anew."""
    async with watching(maps) as watched:
        await maps.until(lambda: server.audit.select(verb="watch", resource="configmaps"))
        assert server.fail_watches(code, kind="ConfigMap") == 1
        make(maps, "c")
        await maps.until(lambda: watched.names() == ["a", "b", "c"], 10)
    assert lists(server) == 1


@pytest.mark.parametrize("code", [401, 403, 429, 503])
@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_refused_requests_are_tried_again_until_they_pass(
    maps: World, server: FakeApiServer, verb: str, code: int
) -> None:
    """K5: no answer ends the informer, however often it comes."""
    server.faults.answer(code, verb=verb, resource="configmaps", times=8)
    async with maps.cluster() as cluster:
        watched = Watched(None)  # type: ignore[arg-type]
        watched.informer = Informer(cluster, MAPS, project=informer.without_noise, changed=watched.changed)
        task = asyncio.create_task(watched.informer.run())
        await asyncio.sleep(60)
        make(maps, "c")
        await maps.until(lambda: watched.names() == ["a", "b", "c"], 600)
        await end(task)


async def test_a_throttled_list_waits_as_long_as_it_is_told(maps: World, server: FakeApiServer) -> None:
    """R49: with Retry-After: 40 no second request is sent before that, jitter included."""
    server.faults.answer(429, verb="list", resource="configmaps", retry_after=40)
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with watching(maps):
        assert loop.time() - started >= 40


async def test_a_list_that_fails_half_way_drops_nothing(maps: World, server: FakeApiServer) -> None:
    """Only a whole list proves that an object is gone."""
    for i in range(600):
        make(maps, f"x-{i}")
    faults = []

    def project(live: Manifest) -> Manifest:
        if relisting and not faults:  # the first page is here: the second one fails
            faults.append(server.faults.answer(500, verb="list", resource="configmaps", times=3))
        return informer.without_noise(live)

    relisting = False
    async with watching(maps, project=project) as watched:
        await maps.until(lambda: server.audit.select(verb="watch", resource="configmaps"))
        server.faults.drop_events(resource="configmaps", times=10)
        server.delete("ConfigMap", "team-a", "x-599")
        change(maps, "a", "changed")
        server.compact()
        relisting = True
        server.fail_watches(410, kind="ConfigMap")
        await maps.until(lambda: faults and faults[0].hits, 10)
        await asyncio.sleep(0.1)
        assert len(watched.names()) == 602
        await maps.until(lambda: len(watched.names()) == 601, 120)
        assert watched.told[602:] == [("changed", "a"), ("gone", "x-599")]


async def test_a_silent_stream_is_cut_by_the_read_timeout(maps: World, server: FakeApiServer) -> None:
    """R44: a stream that neither speaks nor ends is given up, and the missed events are read from the history."""
    server.bookmark_every = 1e9
    async with watching(maps, read_timeout=5.0) as watched:
        await maps.until(lambda: server.audit.select(verb="watch", resource="configmaps"))
        server.faults.drop_events(resource="configmaps", times=1)
        server.delete("ConfigMap", "team-a", "a")
        await maps.until(lambda: watched.names() == ["b"], 10)
    assert lists(server) == 1


async def test_bookmarks_keep_a_quiet_stream_alive(maps: World, server: FakeApiServer) -> None:
    """A bookmark a minute is a sign of life: within five minutes the stream is neither cut nor opened anew."""
    async with watching(maps) as watched:
        await asyncio.sleep(290)
        assert asyncio.get_running_loop().time() - watched.informer.heard_at <= 60
    assert len(server.audit.select(verb="watch", resource="configmaps")) == 1


async def test_bookmarks_move_the_version_on(maps: World, server: FakeApiServer) -> None:
    """After a bookmark a compaction of what was before costs no new list."""
    async with watching(maps) as watched:
        await maps.until(lambda: server.audit.select(verb="watch", resource="configmaps"))
        for i in range(10):
            world_event = maps.make("Service", "team-a", f"s-{i}", spec={"ports": [{"port": 1}]})
        assert world_event
        await asyncio.sleep(61)
        server.compact()
        server.cut_watches("ConfigMap")
        make(maps, "c")
        await maps.until(lambda: "c" in watched.names(), 10)
    assert lists(server) == 1


async def test_an_object_that_leaves_the_selector_is_dropped(maps: World, server: FakeApiServer) -> None:
    """Its label is taken off: gone for us, though it lives."""
    async with watching(maps) as watched:
        server.patch("ConfigMap", "team-a", "a", {"metadata": {"labels": {names.MANAGED_BY_LABEL: None}}})
        await maps.until(lambda: watched.names() == ["b"])
        assert watched.told[-1] == ("gone", "a")
        server.patch("ConfigMap", "team-a", "a", {"metadata": {"labels": {names.MANAGED_BY_LABEL: names.MANAGED_BY}}})
        await maps.until(lambda: watched.names() == ["a", "b"])


async def test_a_kind_that_is_missing_is_absent_and_comes_by_itself(world: World, server: FakeApiServer) -> None:
    """No CRD: synced, empty and `kind_missing`; within a minute of its installation the objects are there."""
    definition = server.withdraw("Workflow")
    world.namespace("team-a")
    selection = Selection(kind=WORKFLOW, metadata_only=True)
    async with watching(world, selection, informer.labels_only) as watched:
        assert watched.informer.kind_missing
        server.define(definition)
        world.workflow("team-a", "w")
        await world.until(lambda: watched.names() == ["w"])
        assert not watched.informer.kind_missing


async def test_a_kind_that_is_withdrawn_takes_its_objects_along(world: World, server: FakeApiServer) -> None:
    """The CRD is deleted while we watch: its objects are told as gone, and it may come back."""
    world.namespace("team-a")
    world.workflow("team-a", "w")
    async with watching(world, Selection(kind=WORKFLOW, metadata_only=True), informer.labels_only) as watched:
        assert watched.names() == ["w"]
        definition = server.withdraw("Workflow")
        await world.until(lambda: watched.informer.kind_missing, 40)
        assert watched.told == [("made", "w"), ("gone", "w")]
        server.define(definition)
        world.workflow("team-a", "w2")
        await world.until(lambda: watched.names() == ["w2"])


async def test_what_a_write_answered_is_seen_at_once_and_older_events_change_nothing(
    maps: World, server: FakeApiServer
) -> None:
    """Read your writes: the answer counts before its event, and the events before it are no step back."""
    async with watching(maps) as watched:
        await maps.until(lambda: server.audit.select(verb="watch", resource="configmaps"))
        change(maps, "a", "first")
        change(maps, "a", "second")
        live = server.get("ConfigMap", "team-a", "a")
        assert live is not None
        watched.informer.learn(live)
        found = watched.informer.get("team-a", "a")
        assert found is not None
        assert found["data"]["key"] == "second"
        await asyncio.sleep(5)
        assert watched.told[2:] == [("changed", "a")]


async def test_a_deletion_older_than_a_learned_recreation_is_ignored(maps: World, server: FakeApiServer) -> None:
    """Deleted by somebody, made anew by us: the late DELETED event speaks of the predecessor."""
    async with watching(maps) as watched:
        await maps.until(lambda: server.audit.select(verb="watch", resource="configmaps"))
        server.delete("ConfigMap", "team-a", "a")
        make(maps, "a", fresh="yes")
        live = server.get("ConfigMap", "team-a", "a")
        assert live is not None
        watched.informer.learn(live)
        await asyncio.sleep(5)
        assert watched.told[2:] == [("changed", "a")]
        assert "a" in watched.names()


async def test_a_learned_object_survives_a_list_from_before_it(maps: World, server: FakeApiServer) -> None:
    """A list that was under way when we created an object does not prove that it is gone."""
    for i in range(600):
        make(maps, f"x-{i}")
    faults = []

    def project(live: Manifest) -> Manifest:
        if relisting and not faults:  # the first page is here: the second one is held
            faults.append(server.faults.hang(verb="list", resource="configmaps"))
        return informer.without_noise(live)

    relisting = False
    async with watching(maps, project=project) as watched:
        await maps.until(lambda: server.audit.select(verb="watch", resource="configmaps"))
        relisting = True
        server.fail_watches(410, kind="ConfigMap")
        change(maps, "a", "changed")
        await maps.until(lambda: faults and faults[0].hits, 10)
        watched.informer.learn(make(maps, "new"))
        faults[0].release()
        await asyncio.sleep(10)
        assert "new" in watched.names()
        assert ("gone", "new") not in watched.told


async def test_metadata_only_asks_for_and_keeps_names_and_labels(world: World, server: FakeApiServer) -> None:
    """Workflows of any size cost their metadata: that is what is asked for, and less of it is kept."""
    world.namespace("team-a")
    world.workflow("team-a", "w", team="x")
    async with watching(world, Selection(kind=WORKFLOW, metadata_only=True), informer.labels_only) as watched:
        assert watched.informer.get("team-a", "w") == {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {
                "name": "w",
                "namespace": "team-a",
                "labels": {names.INSTANCE_ID_LABEL: "team-a", "team": "x"},
            },
        }
        server.patch("Workflow", "team-a", "w", {"spec": {"templates": []}})
        await asyncio.sleep(1)
        assert len(watched.told) == 1
    asked = server.audit.select(resource="workflows")
    assert all("as=PartialObjectMetadata" in entry.accept for entry in asked)


async def test_the_projection_of_pods_keeps_what_health_needs(world: World) -> None:
    """Owner, labels and statuses stay; the spec does not."""
    world.namespace("team-a")
    meta = {"name": "p", "namespace": "team-a", "labels": {"a": "b"}}
    world.make("Pod", "team-a", "p", metadata=meta, spec={"containers": [{"name": "c", "image": "i:1"}]})
    world.server.patch("Pod", "team-a", "p", {"status": {"phase": "Running", "podIP": "10.0.0.1"}}, sub="status")
    async with watching(world, Selection(kind=POD), informer.pod) as watched:
        found = watched.informer.get("team-a", "p")
    assert found is not None
    assert found["status"] == {"phase": "Running"}
    assert found["metadata"]["labels"] == {"a": "b"}
    assert "spec" not in found


async def test_a_change_that_the_projection_hides_is_not_told(maps: World, server: FakeApiServer) -> None:
    """Managed fields and versions move without anything of interest: nobody is woken."""
    async with watching(maps) as watched:
        server.patch("ConfigMap", "team-a", "a", {"metadata": {"annotations": {"x": "1"}}}, manager="other")
        await maps.until(lambda: len(watched.told) == 3)
        found = watched.informer.get("team-a", "a")
        assert found is not None
        entries = {entry["manager"]: entry for entry in found["metadata"]["managedFields"]}
        assert set(entries) == {"other", "tenant"}
        assert entries["other"] == {
            "manager": "other",
            "fieldsV1": {"f:metadata": {"f:annotations": {".": {}, "f:x": {}}}},
        }
        assert "resourceVersion" not in found["metadata"]


async def test_a_projection_of_none_leaves_the_object_out(maps: World) -> None:
    """What a projection refuses is never in the store and never told."""

    def project(live: Manifest) -> Manifest | None:
        return live if live["data"]["key"] == "wanted" else None

    async with watching(maps, project=project) as watched:
        assert watched.told == []
        change(maps, "a", "wanted")
        await maps.until(lambda: watched.told == [("made", "a")])
        change(maps, "a", "unwanted")
        await maps.until(lambda: watched.told == [("made", "a"), ("gone", "a")])


async def test_a_projection_that_fails_does_not_end_the_informer(maps: World, caplog: pytest.LogCaptureFixture) -> None:
    """A bug is logged with its traceback, and the store is right once it no longer strikes."""
    broken = True

    def project(live: Manifest) -> Manifest:
        if broken:
            raise KeyError("a bug")
        return informer.without_noise(live)

    async with maps.cluster() as cluster:
        watched = Watched(None)  # type: ignore[arg-type]
        watched.informer = Informer(cluster, MAPS, project=project, changed=watched.changed)
        task = asyncio.create_task(watched.informer.run())
        await asyncio.sleep(5)
        assert not watched.informer.synced
        broken = False
        await maps.until(lambda: watched.names() == ["a", "b"])
        await end(task)
    assert "watch failed" in caplog.text


async def restored(world: World, server: FakeApiServer, *, back: int = 1000) -> None:
    """Restore etcd as it was before: `a` as it was then, `b` not there yet, `c` still there, and lower versions."""
    server.history.version += back
    await asyncio.sleep(1)
    change(world, "a", "of the time that is lost")
    await asyncio.sleep(1)
    with server_is_deaf(server):
        server.history.version = before = server.history.version - back
        server.history._events.clear()
        server.history._floor = 0
        change(world, "a", "restored")
        server.delete("ConfigMap", "team-a", "b")
        make(world, "c")
    assert server.history.version < before + back


@contextlib.contextmanager
def server_is_deaf(server: FakeApiServer) -> Iterator[None]:
    """Tell nobody of what happens, and keep no record of it: it is how things are after a restore."""
    publish = server.history.publish
    server.history.publish = lambda event: None  # type: ignore[method-assign]  # noqa: ARG005
    try:
        yield
    finally:
        server.history.publish = publish  # type: ignore[method-assign]


def truth(server: FakeApiServer) -> list[tuple[str, str]]:
    """Tell names and values as the API server has them."""
    return [(each["metadata"]["name"], each["data"]["key"]) for each in server.select("ConfigMap", "team-a", MARK)]


def held(watched: Watched) -> list[tuple[str, str]]:
    """Tell names and values as the store has them."""
    return [(each["metadata"]["name"], each["data"]["key"]) for each in watched.informer.within("team-a")]


@pytest.mark.parametrize("ending", ["410 event", "cut", "silence", "still open"])
async def test_a_restored_etcd_is_followed_back(maps: World, server: FakeApiServer, ending: str) -> None:
    """Versions begin again from below: the store follows at the latest when the next event or bookmark tells of it."""
    async with watching(maps) as watched:
        await restored(maps, server)
        if ending == "410 event":
            server.fail_watches(410, kind="ConfigMap")
        elif ending == "cut":
            server.cut_watches("ConfigMap")
        elif ending == "still open":
            change(maps, "a", "after the restore")
        await maps.until(lambda: held(watched) == truth(server), 150, what=f"{held(watched)} {truth(server)}")
        change(maps, "a", "later")
        make(maps, "d")
        server.delete("ConfigMap", "team-a", "c")
        await maps.until(lambda: held(watched) == truth(server), 10)
        assert held(watched) == [("a", "later"), ("d", "value")]


async def test_a_watch_from_a_version_that_is_yet_to_come_is_given_up(
    maps: World, server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server may hold back all that is older than what was asked for: silence leads to a list."""
    async with watching(maps) as watched:
        await restored(maps, server)
        seen = Event.seen
        monkeypatch.setattr(Event, "seen", lambda *_: None)
        server.bookmark_every = 1e9
        server.cut_watches("ConfigMap")
        await asyncio.sleep(400)
        monkeypatch.setattr(Event, "seen", seen)
        assert held(watched) == truth(server)
