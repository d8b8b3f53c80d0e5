"""The mirror: one GET for each change, none in between, and a compare that finds what events missed."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from metaoperator.cluster import Cluster
from metaoperator.core.errors import Gone, RetryableError
from metaoperator.core.model import CONTROLLER_TEMPLATE, NAMESPACE, WORKFLOW_CONTROLLER, Manifest, Ref
from metaoperator.mirror import COMPARE_SECONDS, Mirror
from tests.fake import FakeApiServer

from .world import World, end

TEAM_A = Ref(NAMESPACE, "", "team-a")


class Glass:
    """A mirror and what it told."""

    def __init__(self, cluster: Cluster, server: FakeApiServer) -> None:
        """Start empty."""
        self.changed: list[Ref] = []
        self.mirror = Mirror(cluster, self.changed.append)
        self.cluster = cluster
        self._server = server

    def gets(self) -> int:
        """Count the GETs so far."""
        return len(self._server.audit.select(verb="get"))


@pytest.fixture
async def glass(world: World) -> AsyncIterator[Glass]:
    """A mirror over a world with one opted-in namespace."""
    world.opt_in("team-a")
    async with world.cluster() as cluster:
        yield Glass(cluster, world.server)


def version(live: Manifest | None) -> str:
    """Read the resource version."""
    return "" if live is None else live["metadata"]["resourceVersion"]


async def test_one_get_for_each_change_and_none_in_between(glass: Glass, world: World) -> None:
    """Asked a hundred times, it reads once; told of news, once more."""
    for _ in range(100):
        assert await glass.mirror.get(TEAM_A) == world.server.get("Namespace", None, "team-a")
    assert glass.gets() == 1
    world.label("team-a", "other")
    now = world.server.get("Namespace", None, "team-a")
    assert glass.mirror.saw(TEAM_A, version(now))
    assert glass.mirror.saw(TEAM_A, version(now))
    for _ in range(10):
        assert await glass.mirror.get(TEAM_A) == now
    assert glass.gets() == 2
    assert not glass.mirror.saw(TEAM_A, version(now))


async def test_many_who_ask_at_once_are_one_get(glass: Glass) -> None:
    """Sixteen namespaces look at the template that has just changed: it is read once."""
    found = await asyncio.gather(*(glass.mirror.get(TEAM_A) for _ in range(16)))
    assert all(each == found[0] for each in found)
    assert glass.gets() == 1


async def test_what_is_not_there_is_remembered_too(glass: Glass, world: World) -> None:
    """Absence is a copy like any other, until something is heard."""
    ref = Ref(WORKFLOW_CONTROLLER, "team-a", "workflow-controller")
    assert [await glass.mirror.get(ref) for _ in range(3)] == [None] * 3
    assert glass.gets() == 1
    made = world.make("WorkflowController", "team-a", "workflow-controller", api="metaoperator.dev/v1alpha1", spec={})
    assert glass.mirror.saw(ref, version(made))
    assert await glass.mirror.get(ref) == made


async def test_our_own_write_is_no_news(glass: Glass, world: World) -> None:
    """What a write answered is the copy, and the event that it causes is silent."""
    await glass.mirror.get(TEAM_A)
    world.label("team-a", "other")
    live = world.server.get("Namespace", None, "team-a")
    assert live is not None
    glass.mirror.learn(live)
    assert not glass.mirror.saw(TEAM_A, version(live))
    assert await glass.mirror.get(TEAM_A) == live
    assert glass.gets() == 1


async def test_a_deletion_is_always_news(glass: Glass) -> None:
    """DELETED may mean that the label went: one live GET tells."""
    await glass.mirror.get(TEAM_A)
    assert glass.mirror.saw(TEAM_A, "")
    assert await glass.mirror.get(TEAM_A) is not None
    assert glass.gets() == 2


async def test_news_during_a_read_is_not_overwritten_by_it(glass: Glass, world: World, server: FakeApiServer) -> None:
    """An event comes while the GET's answer is on its way: the next question is asked anew."""
    held = server.faults.hang(verb="get", resource="namespaces")
    answers = real_answers_first(server)
    asked = asyncio.create_task(glass.mirror.get(TEAM_A))
    await held.entered()
    old = server.get("Namespace", None, "team-a")
    world.label("team-a", "other")
    new = server.get("Namespace", None, "team-a")
    answers.append(old)
    glass.mirror.saw(TEAM_A, version(new))
    held.release()
    assert await asked == old
    assert await glass.mirror.get(TEAM_A) == new


async def test_a_deletion_during_a_read_is_not_overwritten_by_it(
    glass: Glass, world: World, server: FakeApiServer
) -> None:
    """The object goes while it is read: the answer from before is no copy."""
    held = server.faults.hang(verb="get", resource="namespaces")
    answers = real_answers_first(server)
    asked = asyncio.create_task(glass.mirror.get(TEAM_A))
    await held.entered()
    old = server.get("Namespace", None, "team-a")
    server.delete("Namespace", None, "team-a")
    await world.until(lambda: server.get("Namespace", None, "team-a") is None)
    answers.append(old)
    glass.mirror.saw(TEAM_A, "")
    held.release()
    assert await asked == old
    assert await glass.mirror.get(TEAM_A) is None


async def test_an_answer_older_than_what_was_heard_is_no_copy(glass: Glass, world: World) -> None:
    """Our write, then somebody else's, whose event overtakes the answer to ours: the next look reads anew."""
    await glass.mirror.get(TEAM_A)
    world.label("team-a", "ours")
    ours = world.server.get("Namespace", None, "team-a")
    world.label("team-a", "theirs")
    theirs = world.server.get("Namespace", None, "team-a")
    assert ours is not None
    glass.mirror.saw(TEAM_A, version(theirs))
    glass.mirror.learn(ours)
    assert await glass.mirror.get(TEAM_A) == theirs


async def test_two_deletions_during_a_read_are_not_taken_for_none(
    glass: Glass, world: World, server: FakeApiServer
) -> None:
    """Both events carry no version, the first came before the read and the second during it: what was read is old."""
    await glass.mirror.get(TEAM_A)
    glass.mirror.saw(TEAM_A, "")
    held = server.faults.hang(verb="get", resource="namespaces")
    answers = real_answers_first(server)
    asked = asyncio.create_task(glass.mirror.get(TEAM_A))
    await held.entered()
    old = server.get("Namespace", None, "team-a")
    world.label("team-a", "other")
    answers.append(old)
    glass.mirror.saw(TEAM_A, "")
    held.release()
    assert await asked == old
    assert await glass.mirror.get(TEAM_A) == server.get("Namespace", None, "team-a")


@pytest.mark.parametrize("anew", [False, True], ids=["changed", "made anew"])
@pytest.mark.parametrize("read", [False, True], ids=["heard of", "read"])
async def test_a_late_answer_never_takes_the_copy_back(
    glass: Glass, world: World, server: FakeApiServer, *, anew: bool, read: bool
) -> None:
    """The answer to our write comes after what happened next was heard of, or read: it is not learned."""
    name = "default"
    ref = Ref(CONTROLLER_TEMPLATE, "", name)
    await glass.mirror.get(ref)
    ours = server.patch("ControllerTemplate", None, name, {"metadata": {"labels": {"x": "ours"}}})
    if anew:
        server.delete("ControllerTemplate", None, name)
        glass.mirror.saw(ref, "")
        theirs = world.template(name)
    else:
        theirs = server.patch("ControllerTemplate", None, name, {"metadata": {"labels": {"x": "theirs"}}})
    glass.mirror.saw(ref, version(theirs))
    if read:
        assert await glass.mirror.get(ref) == theirs
    glass.mirror.learn(ours)
    assert await glass.mirror.get(ref) == theirs


async def test_a_late_answer_about_what_was_heard_to_be_gone_is_no_copy(glass: Glass, server: FakeApiServer) -> None:
    """DELETED overtook the answer to our write: the next question is asked anew."""
    ref = Ref(CONTROLLER_TEMPLATE, "", "default")
    await glass.mirror.get(ref)
    ours = server.patch("ControllerTemplate", None, "default", {"metadata": {"labels": {"x": "ours"}}})
    server.delete("ControllerTemplate", None, "default")
    glass.mirror.saw(ref, "")
    glass.mirror.learn(ours)
    assert await glass.mirror.get(ref) is None


async def test_a_failed_read_is_no_copy(glass: Glass, server: FakeApiServer) -> None:
    """An error is handed out, and the next question is asked again."""
    server.faults.answer(500, verb="get", resource="namespaces")
    with pytest.raises(RetryableError):
        await glass.mirror.get(TEAM_A)
    assert await glass.mirror.get(TEAM_A) is not None


async def test_a_missing_kind_is_an_error_and_no_absence(glass: Glass, server: FakeApiServer) -> None:
    """A CRD that is gone does not read as `no WorkflowController`."""
    server.withdraw("WorkflowController")
    with pytest.raises(Gone):
        await glass.mirror.get(Ref(WORKFLOW_CONTROLLER, "team-a", "workflow-controller"))


async def test_a_compare_finds_lost_changes_additions_and_deletions(
    glass: Glass, world: World, server: FakeApiServer
) -> None:
    """Nobody told of them: the compare does, and only of them."""
    world.opt_in("team-b")
    world.opt_in("team-c")
    for name in ("team-a", "team-b", "team-c"):
        await glass.mirror.get(Ref(NAMESPACE, "", name))
    template = Ref(CONTROLLER_TEMPLATE, "", "default")
    await glass.mirror.get(template)
    await glass.mirror.compare()
    assert glass.changed == []
    world.label("team-a", "other")
    server.delete("Namespace", None, "team-b")
    await world.until(lambda: server.get("Namespace", None, "team-b") is None)
    world.opt_out("team-c")
    world.opt_in("team-d")
    server.delete("ControllerTemplate", None, "default")
    await glass.mirror.compare()
    assert sorted(glass.changed) == sorted([template, *(Ref(NAMESPACE, "", f"team-{x}") for x in "abcd")])
    assert await glass.mirror.get(Ref(NAMESPACE, "", "team-b")) is None
    assert await glass.mirror.get(template) is None
    left = await glass.mirror.get(Ref(NAMESPACE, "", "team-c"))
    assert left == server.get("Namespace", None, "team-c")


async def test_a_compare_asks_for_metadata_of_labelled_namespaces_only(glass: Glass, server: FakeApiServer) -> None:
    """Three lists by metadata; of Namespaces those with the label."""
    server.audit.clear()
    await glass.mirror.compare()
    assert [entry.resource for entry in server.audit] == ["namespaces", "workflowcontrollers", "controllertemplates"]
    assert server.audit[0].query["labelSelector"] == "metaoperator.dev/workflow-controller"
    assert all("as=PartialObjectMetadata" in entry.accept for entry in server.audit)


async def test_a_compare_that_fails_half_way_drops_nothing(glass: Glass, server: FakeApiServer) -> None:
    """An error or a missing kind is no proof of absence."""
    for ref in (TEAM_A, Ref(CONTROLLER_TEMPLATE, "", "default")):
        await glass.mirror.get(ref)
    server.faults.answer(500, verb="list", resource="namespaces")
    with pytest.raises(RetryableError):
        await glass.mirror.compare()
    definition = server.withdraw("WorkflowController")
    await glass.mirror.compare()
    server.define(definition)
    assert glass.changed == []
    await glass.mirror.get(TEAM_A)
    assert glass.gets() == 2


async def test_it_compares_every_ten_minutes_whatever_fails(glass: Glass, world: World, server: FakeApiServer) -> None:
    """A failed compare is followed by the next; a lost change is found within two of them."""
    task = asyncio.create_task(glass.mirror.run())
    server.faults.answer(503, verb="list", resource="namespaces")
    await glass.mirror.get(TEAM_A)
    world.label("team-a", "other")
    await asyncio.sleep(COMPARE_SECONDS * 2.3)
    await end(task)
    assert glass.changed[:1] == [TEAM_A]
    assert 2 <= len(server.audit.select(verb="list", resource="namespaces")) <= 3


def real_answers_first(server: FakeApiServer) -> list[Manifest | None]:
    """Let the next GET answer what is put into the list: what was true when it was read."""
    answers: list[Manifest | None] = []
    real = server._answer

    def answer(asked: object) -> object:
        if answers and asked.verb == "get":  # type: ignore[attr-defined]
            return 200, answers.pop()
        return real(asked)  # type: ignore[arg-type]

    server._answer = answer  # type: ignore[assignment,method-assign]
    return answers
