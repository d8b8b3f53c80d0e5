"""The whole operator and what it leaves to others: listed fields, autoscaled replicas, what policies rewrite."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.fake import FakeApiServer, defaults

from .world import SIX, World

CPU = "spec.template.spec.containers[workflow-controller].resources.limits.cpu"
REPLICAS = {"spec": {"replicas": 3}}


def deployment(server: FakeApiServer, namespace: str = "team-a") -> dict[str, Any]:
    """Get the child's Deployment."""
    found = server.get("Deployment", namespace, "workflow-controller")
    assert found is not None
    return found


def limits(server: FakeApiServer, namespace: str = "team-a") -> dict[str, str]:
    """Read the limits of the child's container."""
    (only,) = deployment(server, namespace)["spec"]["template"]["spec"]["containers"]
    return only["resources"]["limits"]  # type: ignore[no-any-return]


def tune(server: FakeApiServer, cpu: str, namespace: str = "team-a") -> None:
    """Set the CPU limit as another controller does."""
    (only,) = deployment(server, namespace)["spec"]["template"]["spec"]["containers"]
    changed = {**only, "resources": {**only["resources"], "limits": {**only["resources"]["limits"], "cpu": cpu}}}
    patch = {"spec": {"template": {"spec": {"containers": [changed]}}}}
    server.patch("Deployment", namespace, "workflow-controller", patch, manager="vpa")


def leave(server: FakeApiServer, *paths: str, kind: str = "Deployment") -> None:
    """List fields in the ControllerTemplate."""
    listed = [{"kind": kind, "paths": list(paths)}] if paths else None
    server.patch("ControllerTemplate", None, "default", {"spec": {"ignoreFields": listed}}, manager="kubectl")


async def served(world: World, *spaces: str) -> None:
    """Bring children up."""
    for each in spaces:
        world.opt_in(each)
    await world.until(lambda: world.ready(*spaces))
    await world.proven()
    world.server.audit.clear()


async def test_a_listed_field_is_left_to_who_takes_it(world: World, server: FakeApiServer) -> None:
    """Rendered at first, then theirs: not taken back, not by an upgrade either; all else of the object stays ours."""
    leave(server, CPU)
    async with world.operator():
        await served(world, "team-a")
        rendered = limits(server)
        tune(server, "7")
        await asyncio.sleep(120)
        assert limits(server)["cpu"] == "7"
        assert {entry.resource for entry in world.writes()} <= {"workflowcontrollers", "events"}
        world.spec("team-a", values={"workers": {"workflow": 7}})
        await world.until(lambda: "--workflow-workers=7" in str(deployment(server)), 10)
        await asyncio.sleep(60)
        assert limits(server) == rendered | {"cpu": "7"}
        server.patch("Deployment", "team-a", "workflow-controller", {"spec": {"replicas": 0}}, manager="kubectl")
        await world.until(lambda: deployment(server)["spec"]["replicas"] == 1, 5)
        assert limits(server) == rendered | {"cpu": "7"}


async def test_a_change_of_the_list_takes_effect_at_once_and_moves_nobody_else(
    world: World, server: FakeApiServer
) -> None:
    """Listing writes nothing; taken off the list, the field is drift like any other, of that object alone."""
    async with world.operator():
        await served(world, "team-a", "team-b")
        rendered = limits(server)
        leave(server, CPU)
        await asyncio.sleep(60)
        assert {entry.resource for entry in world.writes()} <= {"controllertemplates"}
        tune(server, "7")
        await asyncio.sleep(60)
        server.audit.clear()
        leave(server)
        await world.until(lambda: limits(server) == rendered, 10)
        await asyncio.sleep(60)
        assert {(entry.namespace, entry.resource) for entry in world.writes()} <= {
            ("team-a", each) for each in ("deployments", "events", "workflowcontrollers")
        } | {(None, "controllertemplates")}


async def test_what_is_left_to_nobody_is_refused(world: World, server: FakeApiServer) -> None:
    """Our mark: children stay as they are, template and namespaces say IgnoreFieldsInvalid until it is mended."""
    async with world.operator():
        await served(world, "team-a")
        leave(server, "metadata.labels[app.kubernetes.io/managed-by]")
        await world.until(lambda: world.condition("team-a", "Stalled") == ("True", "IgnoreFieldsInvalid"), 10)
        await world.until(lambda: _of_template(server) == ("False", "IgnoreFieldsInvalid"), 10)
        assert "spec.ignoreFields[0]" in world.message("team-a")
        leave(server, "spec", kind="Deploymnet")
        await world.until(lambda: "Deploymnet" in world.message("team-a"), 10)
        leave(server)
        await world.until(lambda: world.ready("team-a") and _of_template(server)[0] == "True", 10)
    assert "deployments" not in {entry.resource for entry in world.writes()}


async def test_a_typo_is_told_by_the_template_and_stops_nobody(world: World, server: FakeApiServer) -> None:
    """A path that names nothing rendered leaves nothing to anybody: READY of the ControllerTemplate says which."""
    async with world.operator():
        await served(world, "team-a")
        leave(server, CPU.replace("limits", "limit"), CPU)
        await world.until(lambda: _of_template(server) == ("False", "IgnoreFieldsInvalid"), 10)
        assert world.ready("team-a")
        leave(server, CPU)
        await world.until(lambda: _of_template(server)[0] == "True", 10)


async def test_an_autoscaler_is_left_its_replicas_and_a_person_is_not(world: World, server: FakeApiServer) -> None:
    """Through `scale`: the controller manager's number stays and is scaled on; `kubectl scale` is put right."""
    async with world.operator():
        await served(world, "team-a")
        for number in (3, 2):
            scaled = {"spec": {"replicas": number}}
            where = ("Deployment", "team-a", "workflow-controller")
            server.patch(*where, scaled, sub="scale", manager="kube-controller-manager")
            await asyncio.sleep(60)
            assert deployment(server)["spec"]["replicas"] == number
        assert "deployments" not in {entry.resource for entry in world.writes()}
        world.spec("team-a", values={"workers": {"workflow": 7}})
        await world.until(lambda: "--workflow-workers=7" in str(deployment(server)), 10)
        assert deployment(server)["spec"]["replicas"] == 2
        server.patch("Deployment", "team-a", "workflow-controller", REPLICAS, sub="scale", manager="kubectl")
        await world.until(lambda: deployment(server)["spec"]["replicas"] == 1, 5)


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Rewrite Deployments at admission as policies do, while it says so: image, resources, a sidecar, tolerations."""
    on = [True]
    fill = defaults.fill

    def rewritten(kind: Any, obj: Any) -> None:
        fill(kind, obj)
        if not on[0] or kind.kind != "Deployment":
            return
        pod = obj["spec"]["template"]["spec"]
        for each in pod["containers"]:
            if not each["image"].startswith("mirror.example/"):
                each["image"] = f"mirror.example/{each['image']}"
            each["resources"] = {**each.get("resources", {}), "limits": {"cpu": "500m", "memory": "1Gi"}}
        if not any(each["name"] == "mesh" for each in pod["containers"]):
            pod["containers"].append({"name": "mesh", "image": "mirror.example/mesh:1"})
        wanted = {"key": "added", "operator": "Exists"}
        pod["tolerations"] = [*(each for each in pod.get("tolerations", ()) if each != wanted), wanted]

    monkeypatch.setattr(defaults, "fill", rewritten)
    return on


SPACES = [f"team-{i}" for i in range(4)]


async def test_what_a_policy_rewrites_settles_without_a_write(
    world: World, server: FakeApiServer, policy: list[bool]
) -> None:
    """One create each and no repair, in an hour and a half; a dry run is asked for at each resync and no oftener."""
    async with world.operator():
        await served(world, *SPACES)
        await asyncio.sleep(5400)
        assert world.ready(*SPACES)
    assert world.writes() == []
    asked = Counter(entry.namespace for entry in world.ours() if entry.dry_run)
    assert set(asked.values()) <= {1, 2, 3}


async def test_a_restart_asks_once_for_each_object_that_differs(
    world: World, server: FakeApiServer, policy: list[bool]
) -> None:
    """What was answered is a cache: a new process asks again, once, and writes nothing."""
    async with world.operator() as one:
        await served(world, *SPACES)
        await one.stop()
        server.audit.clear()
        two = world.start()
        await world.until(lambda: two.leading)
        await asyncio.sleep(900)
    assert world.writes() == []
    asked = Counter((entry.namespace, entry.resource) for entry in world.ours() if entry.dry_run)
    assert asked == {(each, "deployments"): 1 for each in SPACES}


async def test_a_policy_that_is_taken_away_is_noticed(world: World, server: FakeApiServer, policy: list[bool]) -> None:
    """Nothing tells of it: within the resync the API server is asked again, and what is rendered is applied."""
    async with world.operator():
        await served(world, "team-a")
        policy[0] = False
        await world.until(lambda: "mirror.example" not in _image(server), 5500)
        assert world.condition("team-a")[1] != "DriftFight"


async def test_a_real_edit_beside_a_policy_is_repaired(world: World, server: FakeApiServer, policy: list[bool]) -> None:
    """What was answered holds for that difference only."""
    async with world.operator():
        await served(world, "team-a")
        server.patch("Deployment", "team-a", "workflow-controller", REPLICAS, manager="kubectl")
        await world.until(lambda: deployment(server)["spec"]["replicas"] == 1, 5)
        assert _image(server).startswith("mirror.example/")


async def test_what_others_put_on_our_objects_lives_as_long_as_they_do(world: World, server: FakeApiServer) -> None:
    """A cloud role on the ServiceAccount, labels and annotations everywhere: over upgrades and restarts (R25)."""
    theirs = {"metadata": {"annotations": {"eks.amazonaws.com/role-arn": "arn:x"}, "labels": {"cost-centre": "7"}}}
    async with world.operator() as one:
        await served(world, "team-a")
        for kind, name in SIX:
            server.patch(kind, "team-a", name, theirs, manager="terraform")
        world.spec("team-a", values={"workers": {"workflow": 7}, "log": {"level": "debug"}})
        await world.until(lambda: "--workflow-workers=7" in str(deployment(server)), 10)
        await one.stop()
        world.start()
        world.spec("team-a", values={"workers": {"workflow": 9}})
        await world.until(lambda: "--workflow-workers=9" in str(deployment(server)), 90)
        await asyncio.sleep(60)
        for kind, name in SIX:
            live = server.get(kind, "team-a", name)
            assert live is not None
            assert live["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] == "arn:x"
            assert live["metadata"]["labels"]["cost-centre"] == "7"
    assert world.ready("team-a")


def _image(server: FakeApiServer) -> str:
    return deployment(server)["spec"]["template"]["spec"]["containers"][0]["image"]  # type: ignore[no-any-return]


def _of_template(server: FakeApiServer) -> tuple[str, str]:
    status = (server.get("ControllerTemplate", None, "default") or {}).get("status") or {}
    return next((c["status"], c["reason"]) for c in status["conditions"] if c["type"] == "Ready")
