"""Records of revisions: what is there after each write, whichever of them fails; what memory and wire are spared."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from metaoperator import sources
from metaoperator.cluster import Cluster
from metaoperator.core import names, packing, render
from metaoperator.core.errors import Conflict, MetaoperatorError, RetryableError, TemplateError
from metaoperator.core.model import Desired, Namespace
from metaoperator.core.revision import NEW, OWN, READY, Head, Inputs, SetHead
from metaoperator.revisions import PROGRAMS, Revisions
from tests.fake import FakeApiServer

from .world import World, end

HOME = names.OPERATOR_NAMESPACE
START = datetime(2026, 11, 30, 10, tzinfo=UTC)
TEAM = Namespace(name="team-a", uid="uid-a")


class Kept:
    """Revisions that run, and the clock they go by."""

    def __init__(self, cluster: Cluster) -> None:
        self.time = START
        self.told: list[Head | SetHead] = []
        self.revisions = Revisions(cluster, namespace=HOME, wall_clock=lambda: self.time, changed=self.told.append)
        (self.task,) = map(asyncio.ensure_future, self.revisions.runs())

    async def move(self, content: str, set_revision: str = "set-1", before: str = READY, **more: Any) -> Head:
        """Move team-a to what some content renders to, a minute later."""
        self.time += timedelta(minutes=1)
        return await self.revisions.move(
            more.pop("namespace", TEAM),
            desired=desired(content),
            set_revision=set_revision,
            inputs=Inputs(labels={"a": "b"}, values={"x": content}, instance_id="team-a", template="default"),
            spec={"paused": False, "values": {"x": content}},
            template=more.pop("template", "default"),
            before=before,
        )

    def kept(self, uid: str = TEAM.uid) -> list[str]:
        """List the revisions of a namespace's records, the newest first."""
        return [head.revision for head in self.revisions._records.of_namespace(uid)]


def desired(content: str) -> Desired:
    """Render one ConfigMap."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": TEAM.name}}
    return Desired(documents=({**body, "data": {"a": content}},), revision=f"rev-{content[:10]}", version="4.0.5")


@contextlib.asynccontextmanager
async def keeping(world: World) -> AsyncIterator[Kept]:
    """Run one replica's revisions until they are synced, and end them afterwards: what is in memory is gone then."""
    async with world.cluster() as cluster:
        kept = Kept(cluster)
        try:
            await world.until(lambda: kept.revisions.synced)
            yield kept
        finally:
            await end(kept.task)


def stored(server: FakeApiServer) -> dict[str, dict[str, Any]]:
    """Read all records, by name."""
    return {each["metadata"]["name"]: each for each in server.select("ControllerRevision", HOME)}


def garble(server: FakeApiServer, name: str, data: Any = None, **metadata: Any) -> None:
    """Put another object in the place of a record, as a wrong restore of a backup does."""
    live = stored(server)[name]
    server.delete("ControllerRevision", HOME, name)
    meta = {key: live["metadata"][key] for key in ("name", "namespace", "labels", "annotations")} | metadata
    server.create({**live, "metadata": meta, "data": {"gzip": "H4sI"} if data is None else data})


def program(text: str, name: str = "mine") -> render.Program:
    """Compile a small set."""
    return sources.from_texts(
        name,
        {
            "template.yaml": "kinds:\n  - apiVersion: v1\n    kind: ConfigMap\n",
            "values.yaml": "a: 1\n",
            "values.schema.json": "{}",
            "one.yaml.j2": f"# {text}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\n",
        },
    )


# ---- namespaces


async def test_what_a_namespace_was_given_is_read_back_by_the_next_process(world: World) -> None:
    """Heads from metadata, inputs, spec and documents from the content: all of it, and by any replica."""
    async with keeping(world) as first, keeping(world) as other:
        assert first.revisions.current(TEAM.uid) is None
        made = await first.move("one", before=NEW)
        assert first.revisions.current(TEAM.uid) == made, "before any event came"
        await world.until(lambda: other.revisions.current(TEAM.uid) == made)
    async with keeping(world) as second:
        head = second.revisions.current(TEAM.uid)
        assert head == made
        assert (head.number, head.before, head.since, head.proven) == (1, NEW, START + timedelta(minutes=1), None)
        assert (head.namespace, head.template, head.set_revision, head.version) == (
            "team-a", "default", "set-1", "4.0.5",
        )  # fmt: skip
        record = await second.revisions.record(head)
        assert record is not None
        assert record.desired == desired("one")
        assert record.inputs == Inputs(labels={"a": "b"}, values={"x": "one"}, instance_id="team-a", template="default")
        assert record.spec == {"paused": False, "values": {"x": "one"}}
        assert second.revisions.heads("default") == [head]
        assert second.revisions.heads("other") == []
        assert second.revisions.namespaces() == {TEAM.uid: "team-a"}


async def test_the_current_one_and_the_one_before_are_kept(world: World, server: FakeApiServer) -> None:
    """Older ones go when a newer one is there, never before; the last that was proven stays too."""
    async with keeping(world) as kept:
        for content in ("one", "two", "three"):
            await kept.move(content, content)
        assert kept.kept() == ["rev-three", "rev-two"]
        assert kept.revisions.at(TEAM.uid, "two") == kept.revisions._records.of_namespace(TEAM.uid)[1]
        assert kept.revisions.at(TEAM.uid, "one") is None
        await kept.revisions.prove(kept.revisions.current(TEAM.uid))  # type: ignore[arg-type]
        for content in ("four", "five", "six"):
            await kept.move(content, content)
        assert kept.kept() == ["rev-six", "rev-five", "rev-three"]
        assert len(stored(server)) == 3
        written = [(each.verb, each.name) for each in world.books()]
        last_made = max(i for i, (verb, _) in enumerate(written) if verb == "apply")
        assert [verb for verb, _ in written[last_made:]] == ["apply", "delete"], "the new one first"


async def test_going_back_renumbers_what_is_there(world: World, server: FakeApiServer) -> None:
    """Equal content is written once: the record is the newest again, anew since now, and unproven."""
    async with keeping(world) as kept:
        one = await kept.revisions.prove(await kept.move("one", "set-1"))
        assert one.proven == kept.time
        await kept.move("two", "set-2")
        uid = stored(server)[one.name]["metadata"]["uid"]
        back = await kept.move("one", "set-3", before="PodFailing")
        assert back == replace(
            one, number=3, before="PodFailing", since=kept.time, proven=None, set_revision="set-3", earlier=("set-1",)
        )
        live = stored(server)[one.name]
        assert (live["metadata"]["uid"], live["revision"]) == (uid, 3)
        assert names.PROVEN_ANNOTATION not in live["metadata"]["annotations"]
        assert kept.kept() == ["rev-one", "rev-two"]
        assert kept.revisions.at(TEAM.uid, "set-1") == kept.revisions.at(TEAM.uid, "set-3") == back
        assert await kept.revisions.record(back) is not None
    async with keeping(world) as later:
        assert later.revisions.current(TEAM.uid) == back


async def test_the_same_bytes_from_other_inputs_are_another_record(world: World, server: FakeApiServer) -> None:
    """The spec of a row may change what is to be restored without changing what is rendered."""
    async with keeping(world) as kept:
        one = await kept.move("one")
        two = await kept.revisions.move(
            TEAM, desired=desired("one"), set_revision="set-1", inputs=Inputs(), spec={}, template="default", before=OWN
        )
        assert (one.revision, one.number, two.number) == (two.revision, 1, 2)
        assert one.name != two.name
        record = await kept.revisions.record(two)
        assert record is not None
        assert record.spec == {}


WRITES: list[Any] = [
    pytest.param(verb, target, after, id=f"{what}, {'done' if after else 'not done'}")
    for verb, target, what in (
        ("apply", "three", "the new record"),
        ("patch", "one", "the old record, renumbered"),
        ("delete", "three", "the oldest, deleted"),
    )
    for after in (False, True)
]


@pytest.mark.parametrize(("verb", "target", "after"), WRITES)
async def test_a_crash_in_any_write_leaves_a_current_record(
    world: World, server: FakeApiServer, verb: str, target: str, *, after: bool
) -> None:
    """Killed before or after its effect: the old one is current or the new one, and the next move comes to its end."""
    async with keeping(world) as kept:
        await kept.move("one", "set-1")
        await kept.move("two", "set-2")
        fault = server.faults.cut(after_effect=after, verb=verb, resource="controllerrevisions")
        with contextlib.suppress(MetaoperatorError):
            await kept.move(target, "set-3")
        assert fault.hits == 1
    async with keeping(world) as kept:
        current = kept.revisions.current(TEAM.uid)
        assert current is not None
        assert current.revision in {"rev-two", f"rev-{target}"}
        record = await kept.revisions.record(current)
        assert record is not None
        assert record.desired == desired(current.revision.removeprefix("rev-"))
        await kept.move(target, "set-3")
        assert kept.kept() == [f"rev-{target}", "rev-two"]
        assert {each["metadata"]["labels"][names.REVISION_LABEL] for each in stored(server).values()} == set(
            kept.kept()
        )


@pytest.mark.parametrize("verb", ["apply", "patch"])
async def test_a_lost_answer_is_made_up_for_without_a_second_record(
    world: World, server: FakeApiServer, verb: str
) -> None:
    """The write came through, nobody was told, and no event came either: trying again finds it."""
    async with keeping(world) as kept:
        await kept.move("one", "set-1")
        await kept.move("two", "set-2")
        target = "three" if verb == "apply" else "one"
        server.faults.drop_events(times=None, seconds=1e6)
        server.faults.cut(after_effect=True, verb=verb, resource="controllerrevisions")
        with pytest.raises(RetryableError):
            await kept.move(target, "set-3")
        server.faults.clear()
        if verb == "patch":  # by now it has another version than the one that was seen
            with pytest.raises(Conflict):
                await kept.move(target, "set-3")
            server.cut_watches("ControllerRevision")
            server.compact()
            await world.until(lambda: kept.kept()[0] == f"rev-{target}", 120)
        moved = await kept.move(target, "set-3")
        assert kept.revisions.current(TEAM.uid) == moved
        assert moved.since == kept.time
        assert sorted(stored(server)) == sorted(each.name for each in kept.revisions._records.of_namespace(TEAM.uid))


async def test_an_old_record_that_cannot_be_deleted_stops_nothing(world: World, server: FakeApiServer) -> None:
    """The move is done, and the next one deletes it."""
    async with keeping(world) as kept:
        for content in ("one", "two"):
            await kept.move(content)
        server.faults.answer(500, verb="delete", resource="controllerrevisions")
        assert (await kept.move("three")).revision == "rev-three"
        assert kept.kept() == ["rev-three", "rev-two", "rev-one"]
        await kept.move("four")
        assert kept.kept() == ["rev-four", "rev-three"]


async def test_nothing_is_written_before_everything_was_seen(world: World, server: FakeApiServer) -> None:
    """A replica that does not know the records would number them from one."""
    async with world.cluster() as cluster:
        kept = Kept(cluster)
        with pytest.raises(RetryableError, match="have not been read yet"):
            await kept.move("one")
        await end(kept.task)
    assert stored(server) == {}


async def test_a_head_that_says_something_else_by_now_is_not_proven(world: World) -> None:
    """It was moved, or somebody wrote to it: `Conflict`, and nothing is noted on what was not looked at."""
    async with keeping(world) as kept, keeping(world) as other:
        one = await kept.move("one")
        await kept.move("two")
        again = await kept.move("one")
        with pytest.raises(Conflict):
            await kept.revisions.prove(one)
        await world.until(lambda: other.revisions.current(TEAM.uid) == again)
        proven = await other.revisions.prove(again)
        assert await other.revisions.prove(proven) is proven
        with pytest.raises(Conflict):  # by its version: the event is not here yet
            await kept.revisions.prove(again)
        await world.until(lambda: kept.revisions.current(TEAM.uid) == proven)


async def test_a_namespace_that_has_left_is_forgotten_the_current_record_last(
    world: World, server: FakeApiServer
) -> None:
    """Killed in between, what is left is what it was given last; others are untouched."""
    async with keeping(world) as kept:
        for content in ("one", "two"):
            await kept.move(content)
        other = await kept.move("one", namespace=Namespace(name="team-b", uid="uid-b"))
        server.faults.answer(500, verb="delete", name=kept.revisions.current(TEAM.uid).name)  # type: ignore[union-attr]
        with pytest.raises(MetaoperatorError):
            await kept.revisions.forget(TEAM.uid)
        assert kept.kept() == ["rev-two"]
        await kept.revisions.forget(TEAM.uid)
        assert kept.revisions.current(TEAM.uid) is None
        assert list(stored(server)) == [other.name]
        assert kept.revisions.namespaces() == {"uid-b": "team-b"}


async def test_a_record_of_a_namespace_that_was_made_anew_is_another(world: World) -> None:
    """By its UID: nothing of the one before is taken for it."""
    async with keeping(world) as kept:
        await kept.move("one")
        again = await kept.move("one", namespace=Namespace(name="team-a", uid="uid-2"))
        assert again.number == 1
        assert kept.kept() == ["rev-one"]


async def test_what_is_too_large_is_not_recorded(world: World, server: FakeApiServer) -> None:
    """Told with size, limit and cure, before anything is sent; what there was stays."""
    async with keeping(world) as kept:
        one = await kept.move("one")
        noise = "".join(chr(0x4E00 + (i * i * 31 + i * 7919) % 20000) for i in range(1_000_000))
        with pytest.raises(
            TemplateError, match=r"namespace team-a: its record would be \d+ bytes long, compressed, over"
        ):
            await kept.move(noise)
        assert kept.revisions.current(TEAM.uid) == one
        assert list(stored(server)) == [one.name]


# ---- garbled


async def test_a_record_whose_content_is_garbled_is_told_and_written_beside(
    world: World, server: FakeApiServer
) -> None:
    """`None` and a sentence for whoever asks; the next move writes the same under another name, and this one goes."""
    async with keeping(world) as kept:
        one = await kept.move("one")
        garble(server, one.name)
        await world.until(lambda: kept.revisions.current(TEAM.uid) != one)
        garbled = kept.revisions.current(TEAM.uid)
        assert garbled is not None
        assert await kept.revisions.record(garbled) is None
        assert "its data is damaged" in kept.revisions.faults[one.name]
        again = await kept.move("one")
        assert again.name == f"{one.name}-2"
        assert await kept.revisions.record(again) is not None
        await kept.move("two")
        assert kept.kept() == ["rev-two", "rev-one"]
        assert one.name not in stored(server)
        assert kept.revisions.faults == {}


async def test_a_record_whose_metadata_is_garbled_is_told_and_mended_by_the_next_move(
    world: World, server: FakeApiServer
) -> None:
    """It is no head, and it does no harm to others; written once more it says what it should."""
    async with keeping(world) as kept:
        one = await kept.move("one")
        kept.told.clear()
        patch = {"metadata": {"annotations": {names.SINCE_ANNOTATION: "yesterday"}}}
        server.patch("ControllerRevision", HOME, one.name, patch)
        await world.until(lambda: one.name in kept.revisions.faults)
        assert kept.revisions.current(TEAM.uid) is None
        assert kept.told == [one], "whose record it was is looked at"
        assert "since is 'yesterday', which is no time" in kept.revisions.faults[one.name]
        again = await kept.move("one")
        assert again.name == one.name
        assert kept.revisions.current(TEAM.uid) == again
        assert kept.revisions.faults == {}


async def test_a_record_that_is_gone_is_none(world: World, server: FakeApiServer) -> None:
    """Deleted by a person: whoever still holds its head is told so by `None`, and the next look finds no head."""
    async with keeping(world) as first:
        one = await first.move("one")
    async with keeping(world) as kept:
        kept.told.clear()
        server.delete("ControllerRevision", HOME, one.name)
        assert await kept.revisions.record(one) is None
        await world.until(lambda: kept.revisions.current(TEAM.uid) is None)
        assert kept.told == [one]
        await kept.move("one")
        assert await kept.revisions.record(one) is None, "another object of that name says nothing of it"


async def test_a_record_that_goes_while_it_is_written_is_written_anew(world: World, server: FakeApiServer) -> None:
    """No event came of it yet: `Conflict`, which is tried again, and then it is there."""
    async with keeping(world) as kept:
        one = await kept.move("one")
        await kept.move("two")
        server.faults.drop_events(times=None, seconds=1e6)
        server.delete("ControllerRevision", HOME, one.name)
        with pytest.raises(Conflict, match="was deleted while we looked"):
            await kept.move("one")
        again = await kept.move("one")
        assert (again.name, again.number) == (one.name, 3)
        assert again.uid != one.uid
        assert kept.revisions.current(TEAM.uid) == again
        assert await kept.revisions.record(again) is not None


async def test_what_others_made_is_never_touched(world: World, server: FakeApiServer) -> None:
    """An object of another's that has the name stays as it is, and the record gets the next name."""
    async with keeping(world) as kept:
        name = (await kept.move("one")).name
        await kept.revisions.forget(TEAM.uid)
        theirs = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 7, "data": {"a": "b"}}
        before = server.create({**theirs, "metadata": {"name": name, "namespace": HOME}})
        moved = await kept.move("one")
        assert moved.name == f"{name}-2"
        assert stored(server)[name] == before


# ---- memory and wire


async def test_contents_are_neither_watched_nor_kept(world: World, server: FakeApiServer) -> None:
    """Metadata alone is listed and watched, only what heads need of it is stored, and content is read once."""
    async with keeping(world) as first:
        head = await first.move("one" * 10_000)
        data = stored(server)[head.name]["data"]["gzip"]
        texts = json.dumps(first.revisions.informers[0]._texts)
        assert data[:50] not in texts
        assert "managedFields" not in texts
        await first.revisions.record(head)
        assert not server.audit.select(verb="get", resource="controllerrevisions"), "it was written by this process"
    async with keeping(world) as kept:
        for _ in range(3):
            assert await kept.revisions.record(head) is not None
        assert len(server.audit.select(verb="get", resource="controllerrevisions")) == 1
        assert len(kept.revisions.informers[0]._texts[HOME][head.name][1]) < 1200
    asked = [each for each in server.audit.select(resource="controllerrevisions") if each.verb in ("list", "watch")]
    assert {each.namespace for each in asked} == {HOME}
    assert all("PartialObjectMetadata" in each.accept for each in asked)


async def test_cached_contents_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By bytes; what was used longest ago is read again when it is needed."""
    monkeypatch.setattr("metaoperator.records.CACHED_BYTES", 2000)
    async with keeping(world) as kept:
        heads = [await kept.move("x", namespace=Namespace(name=f"n-{i}", uid=f"uid-{i}")) for i in range(20)]
        contents = kept.revisions._records._contents
        assert 0 < sum(len(each["gzip"]) for each in contents._found.values()) == contents._bytes <= 2000
        for head in heads:
            assert await kept.revisions.record(head) is not None


# ---- sets


async def test_a_set_is_compiled_again_from_its_record(world: World, server: FakeApiServer) -> None:
    """Files and fleet's values come back whole, by another process, and render the same."""
    made, values = program("one"), {"a": 2, "b": [1.5, None, "ü"]}
    async with keeping(world) as first:
        head = await first.revisions.keep_set("default", made, values, "set-1")
        assert await first.revisions.keep_set("default", made, values, "set-1") == head
        assert [each.verb for each in server.audit.writes() if each.resource == "controllerrevisions"] == ["apply"]
    async with keeping(world) as kept:
        assert kept.revisions.sets("default") == [head]
        loaded = await kept.revisions.loaded("default", "set-1")
        assert loaded is not None
        assert loaded[0].template_set == made.template_set
        assert loaded[0].revision(loaded[1]) == made.revision(values)
        assert loaded[1] == values
        again = await kept.revisions.loaded("default", "set-1")
        assert again is not None
        assert again[0] is loaded[0], "compiled once"
        assert await kept.revisions.loaded("default", "set-2") is None
        assert await kept.revisions.loaded("other", "set-1") is None


async def test_the_set_of_the_source_is_the_newest(world: World) -> None:
    """One that comes back is renumbered, stays stable, and has another attempt if it had failed."""
    async with keeping(world) as kept:
        revisions = kept.revisions

        async def keep(text: str) -> SetHead:
            kept.time += timedelta(minutes=1)
            return await revisions.keep_set("default", program(text), {}, text)

        one = await revisions.mark(await keep("one"), stable=True)
        assert one.stable == kept.time
        two = await revisions.mark(await keep("two"), failed="PodFailing in team-a")
        assert (two.failed, two.why, two.stable) == (kept.time, "PodFailing in team-a", None)
        assert [each.set_revision for each in revisions.sets("default")] == ["two", "one"]
        back = await keep("one")
        assert (back.number, back.stable, back.since) == (3, one.stable, kept.time)
        again = await keep("two")
        assert (again.number, again.failed, again.why) == (4, None, "")
        failed = await revisions.mark(again, failed="x" * 10_000)
        assert len(failed.why) == 4096
        assert revisions.sets("default")[0] == failed
        stable = await revisions.mark(failed, stable=True)
        assert (stable.failed, stable.why) == (None, "")
        with pytest.raises(Conflict):
            await revisions.mark(failed, stable=True)
        assert revisions.sets("other") == []


async def test_a_garbled_set_is_told_and_recorded_anew(world: World, server: FakeApiServer) -> None:
    """`None` for whoever would roll back to it; while the source still gives it, it is written beside."""
    async with keeping(world) as kept:
        head = await kept.revisions.keep_set("default", program("one"), {}, "set-1")
        garble(server, head.name, {"gzip": 7})
        await world.until(lambda: kept.revisions.sets("default")[0].uid != head.uid)
        assert await kept.revisions.loaded("default", "set-1") is None
        assert f"ControllerRevision {head.name} is no record that can be used" in kept.revisions.faults[head.name]
        again = await kept.revisions.keep_set("default", program("one"), {}, "set-1")
        assert again.name == f"{head.name}-2"
        assert await kept.revisions.loaded("default", "set-1") is not None


async def test_compiled_sets_are_bounded(world: World) -> None:
    """Those that were asked for last stay compiled."""
    async with keeping(world) as kept:
        for i in range(PROGRAMS + 2):
            await kept.revisions.keep_set("default", program(str(i)), {}, f"set-{i}")
        first = await kept.revisions.loaded("default", "set-0")
        for i in range(PROGRAMS + 2):
            assert await kept.revisions.loaded("default", f"set-{i}") is not None
        assert len(kept.revisions._programs) == PROGRAMS
        again = await kept.revisions.loaded("default", "set-0")
        assert first is not None
        assert again is not None
        assert first[0] is not again[0]


async def test_tidying_keeps_what_is_needed(world: World, server: FakeApiServer) -> None:
    """Beyond the limit go those that nobody names: not the caller, no head, not the last stable one."""
    async with keeping(world) as kept:
        revisions = kept.revisions
        for i in range(9):
            head = await revisions.keep_set("default", program(str(i)), {}, f"set-{i}")
            if i in (1, 2):
                kept.time += timedelta(minutes=1)
                await revisions.mark(head, stable=True)
        await revisions.keep_set("other", program("0"), {}, "set-0")
        await kept.move("one", "set-3")
        await kept.move("two", "set-8")
        await revisions.tidy("default", 2, {"set-4"})
        there = [each.set_revision for each in revisions.sets("default")]
        assert there == ["set-8", "set-7", "set-4", "set-3", "set-2"]
        assert [each.set_revision for each in revisions.sets("other")] == ["set-0"]
        await revisions.tidy("default", 0, ())
        await revisions.tidy("other", 0, ())
        assert [each.set_revision for each in revisions.sets("default")] == ["set-8", "set-3", "set-2"]
        assert len([each for each in stored(server) if each.startswith("set-")]) == 4


async def test_a_set_that_is_too_large_is_not_recorded(world: World, server: FakeApiServer) -> None:
    """Told with size, limit and cure."""
    made = program("one")
    noise = {"noise": "".join(chr(0x4E00 + (i * i * 31 + i * 7919) % 20000) for i in range(1_000_000))}
    async with keeping(world) as kept:
        with pytest.raises(TemplateError) as caught:
            await kept.revisions.keep_set("default", made, noise, "set-1")
        for part in ("mine: its record would be", f"over the limit of {packing.MAX_COMPRESSED}", "make two sets of it"):
            assert part in str(caught.value)
        assert stored(server) == {}
