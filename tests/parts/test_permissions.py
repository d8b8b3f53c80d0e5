"""R40: the operator is held to the roles that its bundle installs; what they lack is told as its own set-up error."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from metaoperator import bundle
from tests.fake import FakeApiServer
from tests.fake.kinds import Manifest

from .test_refused import HOT, tries
from .world import TOKEN, World, bundled

USER = "system:serviceaccount:metaoperator:metaoperator"
ROLES = "fleet/clusterrole-workflow-controller-v1", "fleet/clusterrole-workflow-executor-v1"


def held_to_its_roles(server: FakeApiServer) -> None:
    """Install roles and bindings as the bundles do, and let them count for the operator's token."""
    for path in ROLES:
        server.create(json.loads(json.dumps(bundled(path))))
    for each in bundle.objects(bundle.OPERATOR):  # as kustomize builds them: bindings leave their namespace to it
        if "rbac" in each["apiVersion"]:
            server.create(json.loads(json.dumps(each)))
    server.users[TOKEN] = USER


def rules(server: FakeApiServer) -> list[Manifest]:
    """Read the rules of the operator's ClusterRole."""
    live = server.get("ClusterRole", None, "metaoperator")
    assert live is not None
    return live["rules"]  # type: ignore[no-any-return]


def grant(server: FakeApiServer, changed: list[Manifest]) -> None:
    """Write the rules of the operator's ClusterRole."""
    server.patch("ClusterRole", None, "metaoperator", {"rules": changed}, manager="kubectl")


async def test_the_shipped_roles_are_enough_for_a_whole_life(world: World, server: FakeApiServer) -> None:
    """Opt-in, repair, opt-out: not one request of the operator is refused."""
    held_to_its_roles(server)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"), 20)
        server.patch("Deployment", "team-a", "workflow-controller", {"spec": {"replicas": 3}})
        server.delete("ConfigMap", "team-a", "workflow-controller-configmap")
        await asyncio.sleep(60)
        assert world.ready("team-a")
        world.opt_out("team-a")
        await world.until(lambda: world.empty("team-a") and world.wfc("team-a") is None, 120)
        assert world.events("Removed")
    assert [str(entry) for entry in world.ours() if entry.code in (401, 403)] == []


async def test_a_binding_that_the_operator_may_not_make_is_its_own_set_up_error(
    world: World, server: FakeApiServer
) -> None:
    """Without `bind`: OperatorForbidden with each missing rule and the cure, no Deployment before, slow, healed."""
    held_to_its_roles(server)
    whole = rules(server)
    grant(server, [rule for rule in whole if "bind" not in rule["verbs"]])
    async with world.operator():
        for each in ("team-a", "team-b"):
            world.opt_in(each)
            await world.until(lambda: world.condition(each) == ("False", "OperatorForbidden"), 20)  # noqa: B023
            message = world.message(each)
            for part in (
                f"RoleBinding/{each}/workflow-controller: ",
                "is attempting to grant RBAC permissions not currently held",
                '{APIGroups:["argoproj.io"], Resources:["workflows"], Verbs:[',
                "the operator's own set-up lacks this permission",
                "apply manifests/fleet and manifests/operator",
            ):
                assert part in message
            assert world.condition(each, "Stalled") == ("True", "OperatorForbidden")
            assert ("Deployment", "workflow-controller") not in world.child(each)
            assert ("ServiceAccount", "workflow-controller") in world.child(each)
        await asyncio.sleep(300)
        assert tries(server, "team-a")["rolebindings"] < 2 * HOT
        assert len(world.events("OperatorForbidden")) == 2
        grant(server, whole)
        await world.until(lambda: world.ready("team-a", "team-b"), 310)


async def test_a_role_that_is_not_installed_is_named(world: World, server: FakeApiServer) -> None:
    """Neither `bind` nor the role: the API server says 404, which is no sign that the object is not there."""
    held_to_its_roles(server)
    whole = rules(server)
    grant(server, [rule for rule in whole if "bind" not in rule["verbs"]])
    server.delete("ClusterRole", None, "metaoperator-workflow-executor-v1")
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a", "Stalled")[0] == "True", 20)
        assert "metaoperator-workflow-executor-v1" in world.message("team-a")
        server.create(json.loads(json.dumps(bundled("fleet/clusterrole-workflow-executor-v1"))))
        grant(server, whole)
        await world.until(lambda: world.ready("team-a"), 310)


LACKING: list[Any] = [
    pytest.param("configmaps", "patch", "OperatorForbidden", id="a child's object"),
    pytest.param("deployments", "create", "OperatorForbidden", id="the workload, to create"),
]


@pytest.mark.parametrize(("resource", "verb", "reason"), LACKING)
async def test_a_verb_that_is_missing_is_named_where_people_look(
    world: World, server: FakeApiServer, resource: str, verb: str, reason: str
) -> None:
    """User, verb and resource stand in the condition; granting it is all that is needed."""
    held_to_its_roles(server)
    whole = rules(server)
    less = [
        {**rule, "verbs": [each for each in rule["verbs"] if each != verb]} if resource in rule["resources"] else rule
        for rule in whole
    ]
    grant(server, less)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a", "Stalled") == ("True", reason), 20)
        assert f'User "{USER}" cannot {verb} resource "{resource}"' in world.message("team-a")
        await asyncio.sleep(300)
        assert tries(server, "team-a")[resource] < HOT
        grant(server, whole)
        await world.until(lambda: world.ready("team-a"), 310)


async def test_a_row_that_may_not_be_made_is_told_on_the_namespace(world: World, server: FakeApiServer) -> None:
    """No permission to create WorkflowControllers: an Event about the Namespace is all that there can be."""
    held_to_its_roles(server)
    whole = rules(server)
    grant(
        server,
        [
            {**rule, "verbs": [each for each in rule["verbs"] if each not in ("create", "patch")]}
            if "workflowcontrollers" in rule["resources"]
            else rule
            for rule in whole
        ],
    )
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.events("OperatorForbidden"), 20)
        (event,) = world.events("OperatorForbidden")
        assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("Namespace", "team-a")
        assert 'cannot patch resource "workflowcontrollers"' in event["note"]
        grant(server, whole)
        await world.until(lambda: world.ready("team-a"), 310)


# ---- what a cluster that has just begun does not have yet


async def test_the_workload_comes_after_all_that_its_pods_rest_on(world: World, server: FakeApiServer) -> None:
    """ServiceAccount, bindings, ConfigMap and Service are there when the Deployment is applied."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"), 20)
    applied = [
        e.resource for e in world.writes() if e.verb == "apply" and e.namespace == "team-a" and not e.subresource
    ]
    first = {resource: applied.index(resource) for resource in applied}
    assert max(first, key=lambda resource: first[resource]) == "deployments"
    assert len(first) == 6


@pytest.mark.parametrize("seconds", [25, 200])
async def test_an_account_that_the_api_server_does_not_see_yet_alarms_nobody_for_a_minute(
    world: World, server: FakeApiServer, seconds: int
) -> None:
    """Pods are refused as `service account not found`: no word of it for a minute, then the sentence; then READY."""
    loop = asyncio.get_running_loop()
    began, started = server.now(), loop.time()

    def now() -> Any:
        return began + timedelta(seconds=loop.time() - started)

    server.now = now
    blind_until = loop.time() + seconds
    check = server.store.admit

    def admit(kind: Any, new: Any) -> None:
        # The API server knows ServiceAccounts from a cache of its own.
        if kind.kind == "Pod" and loop.time() < blind_until:
            hidden = {**new, "spec": {**new["spec"], "serviceAccountName": "workflow-controller-unseen"}}
            check(kind, hidden)
        check(kind, new)

    server.store.admit = admit
    async with world.operator() as one:
        one.operator._reconciler._wall_clock = now
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a") == ("False", "DeploymentProgressing"), 10)
        await world.until(lambda: "waits for its ServiceAccount" in world.message("team-a"), 10)
        if seconds > 60:
            await world.until(lambda: world.condition("team-a") == ("False", "PodRefused"), 70)
            assert loop.time() - started > 55
            assert "error looking up service account team-a/" in world.message("team-a")
        await world.until(lambda: world.ready("team-a"), 2 * seconds)
        alarms = [event for event in world.events() if event["type"] == "Warning"]
        assert len(alarms) == (1 if seconds > 60 else 0)
