"""`metaoperator rollout` beside a running operator: what a person says is followed, and other writers keep theirs."""

from datetime import UTC, datetime
from typing import Any

import pytest

from metaoperator.cluster import Cluster
from metaoperator.commands.rollout import facts, history, status, steering, view
from metaoperator.commands.rollout.facts import Books, Refused
from metaoperator.core import names
from metaoperator.core.model import CONTROLLER_TEMPLATE, Ref
from tests.fake import FakeApiServer

from .world import Manifest, World

TEAMS = ("team-a", "team-b", "team-c")
WAVES = {
    "soakSeconds": 0,
    "maxUnavailable": 1,
    "waves": [{"name": "canary", "selector": {"matchLabels": {"tier": "canary"}}}],
}


def template(server: FakeApiServer) -> Manifest:
    """Read the ControllerTemplate."""
    found = server.get("ControllerTemplate", None, "default")
    assert found is not None
    return found


def change(world: World, level: str) -> None:
    """Change what is rendered for every namespace, as git does."""
    values = {"podLabels": {"level": level}}
    world.server.patch("ControllerTemplate", None, "default", {"spec": {"values": values}}, manager="git")


def has(world: World, level: str, *teams: str) -> bool:
    """Tell whether these namespaces, and no others, have what was changed."""
    pods = {
        each: world.server.get("Deployment", each, "workflow-controller")["spec"]["template"]["metadata"]["labels"]  # type: ignore[index]
        for each in TEAMS
    }
    return tuple(each for each in TEAMS if pods[each].get("level") == level) == teams


async def fleet(world: World, **rollout: Any) -> str:
    """Opt three namespaces in, one of them the canary, and wait until all are proven; tells their revision."""
    spec = {"rollout": {**WAVES, **rollout}}
    world.server.patch("ControllerTemplate", None, "default", {"spec": spec}, manager="git")
    for each in TEAMS:
        world.opt_in(each)
    world.server.patch("Namespace", None, "team-a", {"metadata": {"labels": {"tier": "canary"}}})
    await world.until(lambda: world.ready(*TEAMS), 300)
    await world.until(lambda: world.rollout().get("phase") == "Done" and world.rollout().get("stable"), 300)
    return str(world.rollout()["target"])


async def books(cluster: Cluster) -> Books:
    """Read what is recorded."""
    return await facts.books(cluster, names.OPERATOR_NAMESPACE, "default")


def now() -> datetime:
    """Tell the time, as a command does."""
    return datetime.now(UTC)


async def test_pause_holds_and_resume_goes_on(world: World, server: FakeApiServer) -> None:
    """In the middle of a rollout; of what others wrote nothing is touched."""
    async with world.operator(), world.cluster() as cluster:
        await fleet(world, waves=[{**WAVES["waves"][0], "soakSeconds": 60}])  # type: ignore[index]
        before = template(server)
        change(world, "two")
        await world.until(lambda: has(world, "two", "team-a"), 300)
        assert "is paused" in await steering.pause(cluster, "default")
        with pytest.raises(Refused, match="is paused already"):
            await steering.pause(cluster, "default")
        await world.until(lambda: world.rollout().get("phase") == "Paused", 300)
        await world.until(lambda: world.condition("team-b", "Reconciling") == ("True", "RolloutPaused"), 300)
        with pytest.raises(AssertionError, match="still not true"):
            await world.until(lambda: not has(world, "two", "team-a"), 600)
        live = server.select("WorkflowController")
        seen = view.of(template(server), live)
        assert (seen["phase"], seen["updated"], seen["paused"]) == ("Paused", "1/3", True)
        assert seen["waits"][0]["reason"] == "RolloutPaused"
        assert seen["waits"][0]["namespaces"] == ["team-b", "team-c"]
        done = await steering.resume(cluster, "default", await books(cluster), unpin=False, now=now())
        assert "no longer paused" in done
        await world.until(lambda: has(world, "two", *TEAMS), 300)
        await world.until(lambda: world.rollout().get("phase") == "Done", 300)
        seen, over = await status.follow(cluster, "default", None, None)
        assert (seen["phase"], seen["updated"], over) == ("Done", "3/3", False)
        with pytest.raises(Refused, match="nothing to resume"):
            await steering.resume(cluster, "default", await books(cluster), unpin=False, now=now())
        after = template(server)
        assert after["spec"]["rollout"] == before["spec"]["rollout"]
        assert {each["manager"] for each in after["metadata"]["managedFields"]} >= {"git", "kubectl"}


async def test_an_approval_lets_its_wave_go(world: World, server: FakeApiServer) -> None:
    """The one that waits; approvals of revisions that are gone are taken out, those of others stay."""
    waves = [*WAVES["waves"], {"name": "early", "percent": 100, "approval": True}]  # type: ignore[misc]
    async with world.operator(), world.cluster() as cluster:
        await fleet(world, waves=waves)
        with pytest.raises(Refused, match="waits for an approval now"):
            await steering.approve(cluster, "default", await books(cluster), wave=None, revision=None, now=now())
        change(world, "two")
        await world.until(lambda: world.condition("team-b", "Reconciling") == ("True", "WaitsForApproval"), 300)
        await world.until(lambda: world.rollout().get("phase") == "Waiting", 300)
        known = await books(cluster)
        for given, said in (
            ({"wave": "nobody", "revision": None}, "there are: canary, early, rest"),
            ({"wave": None, "revision": "0123456789"}, f"there are: {', '.join(known.sets)}"),
        ):
            with pytest.raises(Refused, match=said):
                await steering.approve(cluster, "default", known, now=now(), **given)  # type: ignore[arg-type]
        with pytest.raises(Refused, match="waits for an approval"):
            await steering.resume(cluster, "default", known, unpin=False, now=now())
        assert has(world, "two", "team-a")
        target = world.rollout()["target"]
        old = {"revision": "0123456789", "wave": "early"}
        body = {key: template(server)[key] for key in ("apiVersion", "kind")} | {"metadata": {"name": "default"}}
        await cluster.apply_for_person({**body, "spec": {"rollout": {"approvals": [old]}}})
        await world.until(lambda: world.rollout().get("phase") == "Waiting" and not facts.stale(template(server)), 300)
        done = await steering.approve(cluster, "default", known, wave=None, revision=None, now=now())
        assert done == f"wave early of ControllerTemplate/default is approved for {target}"
        given = template(server)["spec"]["rollout"]["approvals"]
        assert [(each["revision"], each["wave"]) for each in given] == [(target, "early")]
        await world.until(lambda: has(world, "two", *TEAMS), 300)
        with pytest.raises(Refused, match=r"approved for|nothing waits|waits for an approval now"):
            await steering.approve(cluster, "default", known, wave="early", revision=None, now=now())


async def test_undo_goes_back_and_unpin_goes_to_the_source(world: World, server: FakeApiServer) -> None:
    """To the last revision that all had; the source is followed again when a person says so."""
    async with world.operator(), world.cluster() as cluster:
        first = await fleet(world)
        with pytest.raises(Refused, match="no revision before"):
            await steering.undo(cluster, "default", await books(cluster), to=None, now=now())
        change(world, "two")
        await world.until(lambda: has(world, "two", *TEAMS), 600)
        await world.until(lambda: world.rollout().get("phase") == "Done", 300)
        second = world.rollout()["target"]
        known = await books(cluster)
        assert [(row["revision"], row["namespaces"]) for row in history.rows(known)] == [(second, 3), (first, 0)]
        done = await steering.undo(cluster, "default", known, to=None, now=now())
        assert f"pinned to {first}" in done
        assert "resume default --unpin" in done
        await world.until(lambda: has(world, "two"), 600)
        await world.until(lambda: (world.rollout()["phase"], world.rollout()["target"]) == ("Done", first), 300)
        with pytest.raises(Refused, match="--unpin goes back"):
            await steering.resume(cluster, "default", known, unpin=False, now=now())
        await steering.resume(cluster, "default", await books(cluster), unpin=True, now=now())
        assert "revision" not in template(server)["spec"]["rollout"]
        await world.until(lambda: has(world, "two", *TEAMS), 600)


async def test_a_failed_rollout_is_resumed(world: World, server: FakeApiServer) -> None:
    """The failure on record is forgiven, from the moment after it."""
    async with world.operator(), world.cluster() as cluster:
        await fleet(world, progressDeadlineSeconds=30, onFailure="Rollback")
        world.controller.broken.add("team-a/workflow-controller")
        change(world, "two")
        await world.until(lambda: world.rollout().get("failed"), 600)
        await world.until(lambda: world.rollout().get("phase") in {"RolledBack", "RollingBack"}, 300)
        known = await books(cluster)
        failed = next(each.failed for each in known.sets.values() if each.failed)
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)
        assert "forgiven" in await steering.resume(cluster, "default", known, unpin=False, now=long_ago)
        resumed = datetime.fromisoformat(template(server)["spec"]["rollout"]["resumedAt"])
        assert (resumed - failed).total_seconds() == 1


async def test_what_git_says_is_left_to_git(world: World, server: FakeApiServer) -> None:
    """Its name is told, nothing is forced, and nothing is written by halves."""
    async with world.cluster() as cluster:
        body = {key: template(server)[key] for key in ("apiVersion", "kind")} | {"metadata": {"name": "default"}}
        path = await cluster._path(Ref(CONTROLLER_TEMPLATE, "", "default"))
        query = {"fieldManager": "argocd-controller", "force": "true"}
        pin = "0123456789"

        async def git(**rollout: Any) -> None:
            said = {**body, "spec": {"rollout": rollout}}
            await cluster._write("PATCH", path, query, said, "application/apply-patch+yaml")

        await git(paused=False)
        with pytest.raises(Refused, match=r"spec\.rollout\.paused of .* belongs to argocd-controller"):
            await steering.pause(cluster, "default")
        await git(paused=True, revision=pin)
        before = template(server)
        for unpin in (False, True):
            with pytest.raises(Refused, match="belongs to argocd-controller"):
                await steering.resume(cluster, "default", Books(), unpin=unpin, now=now())
        with pytest.raises(Refused, match="is not recorded; there are: none"):
            await steering.undo(cluster, "default", Books(), to=pin, now=now())
        assert template(server) == before


async def test_two_people_lose_nothing(world: World, server: FakeApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was overtaken looks again: an apply says all that is ours, and would take the other's word out."""
    async with world.cluster() as cluster:
        send, seen = cluster.apply_for_person, 0

        async def overtaken(manifest: Manifest) -> Manifest:
            nonlocal seen
            seen += 1
            if seen == 1:
                live = template(server)
                await send(
                    {
                        "apiVersion": live["apiVersion"],
                        "kind": live["kind"],
                        "metadata": {"name": "default"},
                        "spec": {"rollout": {"revision": "0123456789"}},
                    }
                )
            return dict(await send(manifest))

        monkeypatch.setattr(cluster, "apply_for_person", overtaken)
        await steering.pause(cluster, "default")
        assert seen == 2
        said = template(server)["spec"]["rollout"]
        assert (said["paused"], said["revision"]) == (True, "0123456789")
        server.delete("ControllerTemplate", None, "default")
        with pytest.raises(Refused, match="is not there"):
            await steering.pause(cluster, "default")
