"""Other workflow-controllers come, go and change, and so does the stamping policy: each is seen by itself."""

import asyncio

import pytest

from metaoperator.core import names
from metaoperator.surroundings import SPREAD, Surroundings
from tests.fake import FakeApiServer
from tests.fake.kinds import Kind

from .world import World, bundled

IMAGE = "quay.io/argoproj/workflow-controller:v4.0.5"
POLICY = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
LEADING = ("True", "Leading")
OVERLAP = ("False", "Overlap")


def install(world: World, namespace: str = "argo", *args: str, config: dict[str, str] | None = None) -> None:
    """Install a workflow-controller by hand, with the rights that Argo's own manifests give it."""
    if world.server.get("Namespace", None, namespace) is None:
        world.namespace(namespace)
    may_list(world, namespace, "argo")
    world.make("ServiceAccount", namespace, "argo")
    if config is not None:
        world.make("ConfigMap", namespace, "workflow-controller-configmap", data=config)
    deploy(world, namespace, *args)


def may_list(world: World, namespace: str, account: str) -> None:
    """Give a ServiceAccount what a cluster-wide controller cannot do without."""
    rules = [{"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["list", "watch"]}]
    api = "rbac.authorization.k8s.io/v1"
    role = {"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": f"argo-{namespace}"}, "rules": rules}
    binding = {
        "apiVersion": api,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"argo-{namespace}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"argo-{namespace}"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    for each in (role, binding):
        world.server.create(each, manager="kubectl")


def deploy(world: World, namespace: str, *args: str) -> None:
    """Create the Deployment alone."""
    labels = {"app": "argo"}
    container = {"name": "c", "image": IMAGE, "command": ["workflow-controller"], "args": list(args)}
    pod = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": "argo", "containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    world.make("Deployment", namespace, "argo", api="apps/v1", spec=spec)


def scale(world: World, namespace: str, replicas: int) -> None:
    """Scale the foreign Deployment."""
    world.server.patch("Deployment", namespace, "argo", {"spec": {"replicas": replicas}}, manager="kubectl")


def unstamp(world: World, kind: str = POLICY[0]) -> None:
    """Delete the stamping policy."""
    world.server.delete(kind, None, names.STAMPING_POLICY)


async def seen(world: World, namespace: str, condition: tuple[str, str]) -> None:
    """Wait until a namespace tells this READY."""
    await world.until(lambda: world.condition(namespace) == condition, what=f"{namespace} {condition}")


# The same ID


async def test_a_second_controller_with_the_same_id_keeps_a_child_away_until_it_is_gone(world: World) -> None:
    """Nothing is installed; the message names the other one; its deletion is all that is needed."""
    install(world, config={"config": "instanceID: team-a\n"})
    async with world.operator():
        world.opt_in("team-a")
        await seen(world, "team-a", OVERLAP)
        assert world.condition("team-a", "Stalled") == ("True", "Overlap")
        assert "Deployment/argo/argo (instance ID team-a, all namespaces)" in world.message("team-a")
        world.opt_in("team-b")
        await seen(world, "team-b", LEADING)
        await asyncio.sleep(120)
        assert world.child("team-a") == []
        world.server.delete("Deployment", "argo", "argo")
        await seen(world, "team-a", LEADING)


async def test_a_child_that_is_there_is_left_as_it_is_when_a_second_controller_appears(world: World) -> None:
    """Nothing of it is removed or repaired, and it is said; scaled to 0, the other one is no longer in the way."""
    world.namespace("argo")
    async with world.operator():
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        install(world, config={"instanceID": "team-a"})
        await seen(world, "team-a", OVERLAP)
        world.server.patch("Deployment", "team-a", "workflow-controller", {"spec": {"replicas": 3}})
        await asyncio.sleep(90)
        assert world.whole("team-a")
        live = world.server.get("Deployment", "team-a", "workflow-controller")
        assert live is not None
        assert live["spec"]["replicas"] == 3
        scale(world, "argo", 0)
        await seen(world, "team-a", LEADING)
        await world.until(
            lambda: (world.server.get("Deployment", "team-a", "workflow-controller") or {})["spec"]["replicas"] == 1
        )
        scale(world, "argo", 1)
        await seen(world, "team-a", OVERLAP)


async def test_a_pod_that_still_leads_counts_although_none_is_wanted(world: World, server: FakeApiServer) -> None:
    """A controller goes on to its last moment: its Lease tells, and that it ceases to move is the end."""
    install(world, config={"instanceID": "team-a"})
    scale(world, "argo", 0)
    spec = {"holderIdentity": "argo-old", "leaseDurationSeconds": 15, "renewTime": _now(server)}
    world.make("Lease", "argo", "workflow-controller-team-a", api="coordination.k8s.io/v1", spec=spec)
    async with world.operator():
        world.opt_in("team-a")
        for _ in range(4):
            await asyncio.sleep(5)
            server.patch("Lease", "argo", "workflow-controller-team-a", {"spec": {"renewTime": _now(server)}})
            assert world.child("team-a") == []
        assert world.condition("team-a") == OVERLAP
        await seen(world, "team-a", LEADING)


def _now(server: FakeApiServer) -> str:
    return server.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def test_a_changed_configmap_counts_when_the_pods_are_replaced_and_at_the_latest_at_the_next_look(
    world: World, server: FakeApiServer
) -> None:
    """The ConfigMap itself is not watched: a restart of the controller tells, and so does time."""
    install(world, config={"instanceID": "team-a"})
    async with world.operator():
        world.opt_in("team-a")
        await seen(world, "team-a", OVERLAP)
        server.patch("ConfigMap", "argo", "workflow-controller-configmap", {"data": {"instanceID": "other"}})
        restarted = {"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}}
        server.patch("Deployment", "argo", "argo", restarted)
        await seen(world, "team-a", LEADING)
        server.patch("ConfigMap", "argo", "workflow-controller-configmap", {"data": {"instanceID": "team-a"}})
        await asyncio.sleep(700)
        await seen(world, "team-a", OVERLAP)


async def test_whoever_may_not_list_workflows_stands_in_nobodys_way(world: World, server: FakeApiServer) -> None:
    """A tenant's Deployment that only looks like a cluster-wide controller keeps no other namespace from its child."""
    world.namespace("evil")
    world.make("ConfigMap", "evil", "workflow-controller-configmap", data={"instanceID": "team-a"})
    deploy(world, "evil")
    async with world.operator():
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        await asyncio.sleep(700)
        assert world.ready("team-a")


# No ID


async def test_a_cluster_wide_controller_is_lived_beside_as_long_as_new_workflows_are_stamped(world: World) -> None:
    """With the policy an opt-in is nothing special; without, nothing is installed; both are seen as they change."""
    install(world, config={})
    async with world.operator():
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        unstamp(world)
        await seen(world, "team-a", OVERLAP)
        world.opt_in("team-b")
        await seen(world, "team-b", OVERLAP)
        assert "MutatingAdmissionPolicy metaoperator-instance-id not there" in world.message("team-b")
        assert "Deployment/argo/argo (no instance ID, all namespaces)" in world.message("team-b")
        await asyncio.sleep(90)
        assert world.whole("team-a")
        assert world.child("team-b") == []
        world.server.create(bundled("fleet/instance-id-policy"))
        await seen(world, "team-a", LEADING)
        await seen(world, "team-b", LEADING)


@pytest.mark.parametrize("kind", POLICY)
async def test_without_the_policy_and_without_others_a_child_works_and_the_lack_is_told(
    world: World, kind: str
) -> None:
    """READY stays; the reason says what is missing, and the message the cure."""
    async with world.operator():
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        unstamp(world, kind)
        await seen(world, "team-a", ("True", "StampingMissing"))
        assert f"{kind} metaoperator-instance-id not there" in world.message("team-a")
        assert "apply manifests/fleet" in world.message("team-a")
        assert world.condition("team-a", "Stalled")[0] == "False"
        install(world, config={})
        await seen(world, "team-a", OVERLAP)
        world.server.delete("Deployment", "argo", "argo")
        await seen(world, "team-a", ("True", "StampingMissing"))


async def test_a_controller_of_no_deployment_is_found_by_its_lease(world: World, server: FakeApiServer) -> None:
    """A bare pod, or one of a StatefulSet, that holds the Lease of a controller without an ID, while that moves."""
    world.namespace("argo")
    may_list(world, "argo", "default")
    world.make("ConfigMap", "argo", "workflow-controller-configmap", data={})
    container = {"name": "c", "image": IMAGE, "command": ["workflow-controller"]}
    world.make("Pod", "argo", "by-hand", spec={"containers": [container]})
    spec = {"holderIdentity": "by-hand", "leaseDurationSeconds": 15, "renewTime": _now(server)}
    unstamp(world)
    async with world.operator():
        world.opt_in("team-a")
        await seen(world, "team-a", ("True", "StampingMissing"))
        world.make("Lease", "argo", "workflow-controller", api="coordination.k8s.io/v1", spec=spec)
        await seen(world, "team-a", OVERLAP)
        assert "Pod/argo/by-hand (no instance ID, all namespaces)" in world.message("team-a")
        await asyncio.sleep(60)
        assert world.condition("team-a") == OVERLAP
        server.delete("Pod", "argo", "by-hand")
        await seen(world, "team-a", ("True", "StampingMissing"))


async def test_a_lease_that_nobody_holds_or_a_deployment_explains_adds_nothing(
    world: World, server: FakeApiServer
) -> None:
    """A Lease can be made by anybody who may write one; a controller is not counted twice."""
    install(world, config={"instanceID": "other"})
    unstamp(world)
    async with world.operator() as one:
        world.opt_in("team-a")
        await seen(world, "team-a", ("True", "StampingMissing"))
        (pod,) = [each["metadata"]["name"] for each in server.select("Pod", "argo")]
        for namespace, holder in (("argo", pod), ("evil", "nobody")):
            if namespace == "evil":
                world.namespace(namespace)
            spec = {"holderIdentity": holder, "leaseDurationSeconds": 10**6, "renewTime": _now(server)}
            world.make("Lease", namespace, "workflow-controller", api="coordination.k8s.io/v1", spec=spec)
        await asyncio.sleep(60)
        assert world.condition("team-a") == ("True", "StampingMissing")
        found = one.operator._fleet.around.foreigners._found
        assert [ref.kind.kind for ref in found] == ["Deployment"]


async def test_a_tenants_deployments_hold_nobody_up(world: World, server: FakeApiServer) -> None:
    """Reading one may take its time; the others are served meanwhile."""
    async with world.operator():
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        hung = server.faults.hang(resource="subjectaccessreviews")
        world.namespace("evil")
        deploy(world, "evil")
        await hung.entered()
        world.opt_in("team-b")
        await world.until(lambda: world.condition("team-b") == LEADING, 10)
        hung.release()


async def test_an_unreadable_configmap_counts_as_no_id(world: World, server: FakeApiServer) -> None:
    """What cannot be told may serve everything without an ID: it stops where nothing stamps, and says why."""
    server.faults.answer(403, verb="get", resource="configmaps", namespace="argo", times=10**6)
    unstamp(world)
    install(world, config={"instanceID": "own"})
    async with world.operator():
        world.opt_in("team-a")
        await seen(world, "team-a", OVERLAP)
        assert "ConfigMap/argo/workflow-controller-configmap cannot be read" in world.message("team-a")
        assert world.child("team-a") == []


async def test_a_configmap_that_nobody_answers_for_holds_nobody_up(world: World, server: FakeApiServer) -> None:
    """A server error at the first read: others are served meanwhile, and it is read again by itself."""
    fault = server.faults.answer(500, verb="get", resource="configmaps", namespace="argo", times=10**6)
    install(world, config={"instanceID": "team-a"})
    async with world.operator():
        world.opt_in("team-b")
        await seen(world, "team-b", LEADING)
        fault.release()
        world.opt_in("team-a")
        await seen(world, "team-a", OVERLAP)


async def test_a_controller_in_the_namespace_itself_is_told_and_lived_beside(world: World) -> None:
    """It serves what has no ID, ours what has one: a remark, until it is gone."""
    install(world, "team-a", "--namespaced", "--configmap=theirs")
    world.make("ConfigMap", "team-a", "theirs", data={})
    async with world.operator():
        world.opt_in("team-a")
        await seen(world, "team-a", ("True", "Neighbour"))
        assert "Deployment/team-a/argo" in world.message("team-a")
        world.server.delete("Deployment", "team-a", "argo")
        await seen(world, "team-a", LEADING)


# The API


def older(world: World, name: str) -> None:
    """Serve the policy API in its older version alone, with the object of this kind in it."""
    unstamp(world, name)
    newer = world.server.registry.named(name)
    world.server.registry.remove(newer)
    beta = Kind(group=newer.group, version="v1beta1", kind=name, plural=newer.plural, namespaced=False)
    world.server.registry.add(beta)
    meta = {"name": names.STAMPING_POLICY}
    world.server.create({"apiVersion": beta.api_version, "kind": name, "metadata": meta, "spec": {}})


async def test_the_older_version_of_the_policy_counts_where_the_newer_is_not_served(
    world: World, server: FakeApiServer
) -> None:
    """Kubernetes 1.34 and 1.35 serve v1beta1 alone; an upgrade to v1 is found without a restart."""
    for kind in POLICY:
        older(world, kind)
    async with world.operator():
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        unstamp(world)
        await seen(world, "team-a", ("True", "StampingMissing"))


async def test_nothing_is_judged_before_the_policy_could_be_seen(world: World, server: FakeApiServer) -> None:
    """An operator that starts beside a cluster-wide controller waits for the answer, and stops nobody meanwhile."""
    install(world, config={})
    for kind in POLICY:
        older(world, kind)
    slow = server.faults.slow(30.0, verb="list", resource="mutatingadmissionpolicybindings", times=1)
    async with world.operator():
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
    assert slow.hits == 1
    assert world.events("Overlap") == []


async def test_a_cluster_without_the_policy_api_is_told_so(world: World, server: FakeApiServer) -> None:
    """The child works; what is missing is the cluster's."""
    for kind in POLICY:
        unstamp(world, kind)
        server.registry.remove(server.registry.named(kind))
    async with world.operator():
        world.opt_in("team-a")
        await seen(world, "team-a", ("True", "StampingMissing"))
        assert "the cluster serves no MutatingAdmissionPolicy" in world.message("team-a")


async def test_an_operator_that_may_not_see_the_policy_says_so(world: World, server: FakeApiServer) -> None:
    """Roles of an older bundle: the child works, the lack is told, nothing waits for it."""
    server.faults.answer(403, resource="mutatingadmissionpolicies", times=10**6)
    async with world.operator():
        world.opt_in("team-a")
        await seen(world, "team-a", ("True", "StampingMissing"))
        assert "cannot be seen" in world.message("team-a")


# Cost


async def test_other_deployments_leave_nothing_in_memory_and_ask_for_nothing(
    world: World, server: FakeApiServer
) -> None:
    """Only controllers are kept of all the Deployments of a cluster, and nobody is looked at for the others."""
    async with world.operator() as one:
        world.opt_in("team-a")
        await seen(world, "team-a", LEADING)
        await asyncio.sleep(60)
        server.audit.clear()
        world.namespace("shop")
        pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "shop"}]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": pod}
        for number in range(50):
            world.make("Deployment", "shop", f"d-{number}", api="apps/v1", spec=spec)
        install(world, config={})
        await asyncio.sleep(60)
        store = one.operator._fleet.around.foreigners.deployments
        assert store.namespaces() == {"argo"}
        asked = [entry for entry in world.ours() if entry.verb in ("get", "list")]
        assert {entry.resource for entry in asked} == {"configmaps"}
        assert world.writes() == []
        world.server.delete("Deployment", "argo", "argo")
        await asyncio.sleep(60)
        assert store.namespaces() == frozenset()
        assert one.operator._fleet.around.foreigners._found == {}


async def test_a_change_around_all_is_told_of_each_once(world: World, server: FakeApiServer) -> None:
    """A policy that goes concerns every namespace: each writes its status once."""
    async with world.operator():
        spaces = [f"team-{number:02}" for number in range(30)]
        for each in spaces:
            world.opt_in(each)
        await world.until(lambda: world.ready(*spaces), 120)
        await asyncio.sleep(60)
        server.audit.clear()
        unstamp(world)
        await world.until(lambda: all(world.condition(each)[1] == "StampingMissing" for each in spaces))
        told = [entry for entry in world.writes() if entry.resource == "workflowcontrollers"]
        assert len(told) == len(spaces)
        await asyncio.sleep(300)
        assert len([entry for entry in world.writes() if entry.resource == "workflowcontrollers"]) == len(spaces)


async def test_looks_that_one_change_asks_for_are_spread(world: World) -> None:
    """Not all in one moment, and only those that the change concerns."""
    asked: dict[str, float] = {}
    spaces = [f"team-{number:03}" for number in range(100)]
    async with world.cluster() as cluster:
        around = Surroundings(
            cluster, asked.__setitem__, leads=lambda _: False, holder=lambda _: "", everyone=lambda: spaces
        )
        around._moved({""})
        assert sorted(asked) == spaces
        assert len(set(asked.values())) > 90
        assert max(asked.values()) <= SPREAD * len(spaces)
        asked.clear()
        around._moved({"team-007", "elsewhere"})
        assert list(asked) == ["team-007"]


async def test_who_may_not_ask_for_rights_takes_a_controller_for_one_that_has_them(
    world: World, server: FakeApiServer
) -> None:
    """Roles of an older bundle: better an opt-in that waits for a person than two controllers."""
    server.faults.answer(403, resource="subjectaccessreviews", times=10**6)
    world.namespace("argo")
    world.make("ConfigMap", "argo", "workflow-controller-configmap", data={"instanceID": "team-a"})
    deploy(world, "argo")
    async with world.operator():
        world.opt_in("team-a")
        await seen(world, "team-a", OVERLAP)
