"""Hand-made installs on a real API server, taken over by the operator's own account behind its fences.

Only the API server runs: what its controllers would do (a ReplicaSet, a pod, the end of a deletion) is done by hand.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from metaoperator import preview, sources
from metaoperator.catalogue import Catalogue
from metaoperator.cluster import Cluster
from metaoperator.core import names, ownership, shard, unified
from metaoperator.core.model import DEPLOYMENT, SERVICE_ACCOUNT, Manifest, Namespace, Ref
from metaoperator.core.render import Program
from metaoperator.fleet import Fleet
from metaoperator.gate import Gate
from metaoperator.mirror import Mirror
from metaoperator.pretence import Assumed
from metaoperator.reconcile import Reconciler
from metaoperator.recorder import Recorder
from metaoperator.rehearsal import Rehearsal
from metaoperator.settings import Settings
from metaoperator.shelves import Shelves
from metaoperator.templates import Templates
from tests.e2e import handmade
from tests.e2e.local import Object

from .world import World

NAME, CONFIG = names.WORKFLOW_CONTROLLER, "workflow-controller-configmap"
SET = "workflow-controller"


@pytest.fixture(scope="module")
def operator(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Have the operator's account with its roles, and a kubeconfig with its token."""
    world.kubectl("apply", "--server-side", "-k", "manifests/operator")
    config = yaml.safe_load(world.kubeconfig.read_text())
    token = world.kubectl("create", "token", names.OPERATOR_ACCOUNT, "-n", names.OPERATOR_NAMESPACE).strip()
    config["users"][0]["user"] = {"token": token}
    path = Path(tmp_path_factory.mktemp("operator")) / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def program() -> Program:
    """Compile the shipped set."""
    found = sources.programs((sources.shipped(),))[SET]
    assert isinstance(found, Program)
    return found


def look(operator: Path, name: str) -> None:
    """Look at a namespace once, as an operator does that has just started."""

    async def once() -> None:
        cluster = Cluster(kubeconfig=str(operator), gate=Gate())
        await cluster.connect()
        cluster.gate.open_until(asyncio.get_running_loop().time() + 60)
        try:
            fleet = Fleet(
                cluster, program().template_set.kinds, lambda _name, _delay: None, opted_in=lambda _name: True,
                namespace=name,
            )  # fmt: skip
            await fleet.read_once()
            programs = sources.programs((sources.shipped(),))
            recorder = Recorder(cluster, instance="test")
            catalogue = Catalogue(cluster, Shelves(programs), namespace="metaoperator")
            mirror = Mirror(cluster, lambda _ref: None)
            reconciler = Reconciler(cluster, mirror, fleet, recorder, Templates(mirror, catalogue), Settings())
            await reconciler.namespace(name)
        finally:
            await cluster.close()

    asyncio.run(once())


def foretell(world: World, name: str) -> preview.Preview:
    """Look ahead, as the administrator."""

    async def once() -> preview.Preview:
        cluster = Rehearsal(kubeconfig=str(world.kubeconfig))
        await cluster.connect()
        try:
            assumed = Assumed(programs=sources.programs((sources.shipped(),)), adopt=True)
            return await preview.of(cluster, name, assumed, Settings())
        finally:
            await cluster.close()

    return asyncio.run(once())


def get(world: World, kind: str, namespace: str, name: str) -> Object:
    """Read an object, owners of its fields included."""
    return world.kubectl.json("get", kind, name, "-n", namespace, "--show-managed-fields")  # type: ignore[no-any-return]


def adopt(world: World, namespace: str) -> None:
    """Write the WorkflowController as the platform does."""
    meta = {"name": NAME, "namespace": namespace}
    row = {"apiVersion": names.API_VERSION, "kind": "WorkflowController", "metadata": meta, "spec": {"adopt": "Adopt"}}
    world.kubectl("apply", "-f", "-", stdin=row)


def by_hand(world: World, manifest: Manifest) -> None:
    """Apply on the client's side, as most people do."""
    world.kubectl("apply", "-f", "-", stdin=dict(manifest))


def like_ours(namespace: Namespace) -> list[Object]:
    """Write what the operator would render, without its mark, and with what people add."""
    desired = program().desired(
        namespace,
        shard.only_shard(namespace.name),
        template_name="default",
        fleet_values={},
        namespace_values={},
    )
    documents: list[Object] = json.loads(json.dumps(desired.documents))
    for each in documents:
        each["metadata"].pop("annotations")
        labels = each["metadata"]["labels"] | {"team": "a"}
        each["metadata"]["labels"] = {key: value for key, value in labels.items() if key != names.MANAGED_BY_LABEL}
    return documents


def namespace_of(world: World, name: str) -> Namespace:
    """Have an opted-in namespace."""
    world.namespace(name)
    return Namespace.of(world.kubectl.json("get", "namespace", name))


def running(world: World, deployment: Object) -> str:
    """Play the controllers: a ReplicaSet of the Deployment, and its pod; returns the ReplicaSet's name."""
    space, template = deployment["metadata"]["namespace"], deployment["spec"]["template"]
    name = f"{NAME}-5bcdd64577"
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME, "uid": deployment["metadata"]["uid"]}
    labels = template["metadata"]["labels"] | {"pod-template-hash": "5bcdd64577"}
    template = {**template, "metadata": {**template["metadata"], "labels": labels}}
    meta = {"name": name, "namespace": space, "ownerReferences": [owner | {"controller": True}], "labels": labels}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    world.kubectl(
        "create", "-f", "-", stdin={"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}
    )
    made = get(world, "replicaset", space, name)
    world.kubectl("create", "-f", "-", stdin=pod_of(made, "first"))
    return name


def pod_of(replica_set: Object, suffix: str) -> Object:
    """Build a pod as the ReplicaSet controller does."""
    meta, template = replica_set["metadata"], replica_set["spec"]["template"]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    notes = {key: template["metadata"].get(key, {}) for key in ("labels", "annotations")}
    about = {"name": f"{meta['name']}-{suffix}", "namespace": meta["namespace"], "ownerReferences": [owner], **notes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": template["spec"]}


def left_to_others(live: Object) -> list[Object]:
    """Tell what others than the operator own of a Deployment's spec, but for labels and annotations of its pods."""
    found = [entry["fieldsV1"].get("f:spec", {}) for entry in live["metadata"]["managedFields"] if not _ours(entry)]
    for each in found:
        each.get("f:template", {}).pop("f:metadata", None)
    return [each for each in found if each not in ({}, {"f:template": {}})]


def _ours(entry: Object) -> bool:
    return bool(entry["manager"] == names.FIELD_MANAGER)


def test_an_install_like_ours_becomes_ours_without_a_new_pod_template(world: World, operator: Path) -> None:
    """Client-side applied, edited and scaled by others: every field of it is ours afterwards, and no other is left.

    The template of the Deployment is what it was to the letter, so no pod is replaced; the fence lets a pod of its
    ReplicaSet through all the same, and none of another.
    """
    space = namespace_of(world, "adopt-same")
    for each in like_ours(space):
        by_hand(world, each)
    world.kubectl("annotate", "deployment", NAME, "-n", space.name, "example.com/owner=us")
    before = get(world, "deployment", space.name, NAME)
    replica_set = running(world, before)
    adopt(world, space.name)
    found = foretell(world, space.name)
    whats = {change.what for change in found.changes if change.ref.kind.kind != "WorkflowController"}
    assert (whats, found.stalled) == ({"adopted"}, "")

    look(operator, space.name)

    after = get(world, "deployment", space.name, NAME)
    assert ownership.is_ours(after, space.uid)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"] == before["spec"]
    assert after["metadata"]["annotations"]["example.com/owner"] == "us"
    assert after["metadata"]["labels"]["team"] == "a"
    assert names.LAST_APPLIED_ANNOTATION not in after["metadata"]["annotations"]
    assert left_to_others(after) == []
    account = get(world, "serviceaccount", space.name, NAME)
    assert account["metadata"]["annotations"][names.ADOPTED_ANNOTATION] == replica_set
    for change in found.changes:
        if change.ref.kind != SERVICE_ACCOUNT and change.ref.kind.kind != "WorkflowController":
            assert change.write is not None
            live = get(world, change.ref.kind.kind, space.name, change.ref.name)
            assert unified.diff(change.ref, change.write.after, live) == ""

    versions = {
        kind: get(world, kind, space.name, NAME)["metadata"]["resourceVersion"]
        for kind in ("deployment", "rolebinding")
    }
    look(operator, space.name)
    assert versions == {kind: get(world, kind, space.name, NAME)["metadata"]["resourceVersion"] for kind in versions}

    kubernetes = "system:serviceaccount:kube-system:replicaset-controller"
    made = get(world, "replicaset", space.name, replica_set)
    path = f"/api/v1/namespaces/{space.name}/pods?dryRun=All"
    code, answer = world.send("POST", path, pod_of(made, "second"), who=kubernetes)
    assert code == 201, answer
    other = {**made, "metadata": {**made["metadata"], "name": f"{NAME}-prepared"}}
    code, answer = world.send("POST", path, pod_of(other, "third"), who=kubernetes)
    assert code == 403, answer
    assert "metaoperator-child-pods-marked" in answer["message"]


def test_what_people_had_in_it_goes(world: World, operator: Path) -> None:
    """Fields of any writer that are not rendered: variables, containers, arguments, keys of the configuration."""
    space = namespace_of(world, "adopt-more")
    for each in like_ours(space):
        if each["kind"] == "ConfigMap":
            each["data"] = {"instanceID": space.name, "parallelism": "5"}
        if each["kind"] == "Deployment":
            (container,) = each["spec"]["template"]["spec"]["containers"]
            container["args"].append("--theirs")
            container["env"].append({"name": "LEADER_ELECTION_DISABLE", "value": "true"})
            each["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30
            each["spec"]["template"]["spec"]["containers"].append({"name": "sidecar", "image": "envoy"})
        by_hand(world, each)
    world.kubectl("set", "env", f"deployment/{NAME}", "-n", space.name, "-c", NAME, "LATER=1")
    adopt(world, space.name)

    look(operator, space.name)

    live = get(world, "deployment", space.name, NAME)["spec"]["template"]["spec"]
    (container,) = live["containers"]
    assert "--theirs" not in container["args"]
    assert not {"LEADER_ELECTION_DISABLE", "LATER"} & {each["name"] for each in container["env"]}
    assert live["terminationGracePeriodSeconds"] == 2
    assert list(get(world, "configmap", space.name, CONFIG)["data"]) == ["config"]


def test_argos_own_manifests_are_replaced_where_they_have_to_be(world: World, operator: Path) -> None:
    """A selector and a roleRef that nobody can change: deleted, and made anew once the old ones are gone."""
    space = namespace_of(world, "adopt-stock")
    for each in handmade.stock(space.name, image="argo/workflow-controller", executor="x", instance_id=space.name):
        by_hand(world, each)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "argo-role"}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "roleRef": role}
    subjects = [{"kind": "ServiceAccount", "name": "argo", "namespace": space.name}]
    by_hand(world, {**binding, "metadata": {"name": NAME, "namespace": space.name}, "subjects": subjects})
    before = {kind: get(world, kind, space.name, NAME)["metadata"]["uid"] for kind in ("deployment", "rolebinding")}
    adopt(world, space.name)

    look(operator, space.name)

    old = get(world, "deployment", space.name, NAME)
    assert old["metadata"]["uid"] == before["deployment"]
    assert old["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert get(world, "rolebinding", space.name, NAME)["roleRef"]["kind"] == "ClusterRole"
    look(operator, space.name)  # nothing goes on before its pods are gone
    world.kubectl(
        "patch", "deployment", NAME, "-n", space.name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}'
    )
    look(operator, space.name)
    live = get(world, "deployment", space.name, NAME)
    assert ownership.is_ours(live, space.uid)
    assert live["metadata"]["uid"] != before["deployment"]
    assert "app" not in live["spec"]["selector"]["matchLabels"]
    assert get(world, "serviceaccount", space.name, "argo")
    row = get(world, "workflowcontroller", space.name, NAME)
    assert row["spec"]["instanceID"] == space.name


@pytest.mark.parametrize("opted_in", [True, False], ids=["opted in", "not opted in"])
@pytest.mark.parametrize(
    ("kind", "name", "passes"),
    [("configmaps", CONFIG, True), ("configmaps", "other", False), ("serviceaccounts", NAME, True)],
)
def test_the_operator_takes_over_nothing_else(
    world: World, operator: Path, kind: str, name: str, *, passes: bool, opted_in: bool
) -> None:
    """Names that the shipped set renders, where the label is; and it deletes no ServiceAccount that is not its own."""
    del operator
    space = "adopt-fenced"
    world.namespace(space)
    uid = world.kubectl.json("get", "namespace", space)["metadata"]["uid"]
    body: Any = {"apiVersion": "v1", "kind": {"configmaps": "ConfigMap"}.get(kind, "ServiceAccount")}
    by_hand(world, {**body, "metadata": {"name": name, "namespace": space}})
    world.label(space, "enabled" if opted_in else None)
    who = f"system:serviceaccount:{names.OPERATOR_NAMESPACE}:{names.OPERATOR_ACCOUNT}"
    path = f"/api/v1/namespaces/{space}/{kind}/{name}?dryRun=All"
    marked = {
        "labels": {names.MANAGED_BY_LABEL: names.MANAGED_BY},
        "annotations": {names.NAMESPACE_UID_ANNOTATION: uid},
    }
    merge = "application/merge-patch+json"
    code, answer = world.send("PATCH", path, {"metadata": marked}, who=who, kind=merge)
    assert (code == 200) == (passes and opted_in), answer
    code, answer = world.send("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, who=who, kind=merge)
    assert code == 403, "not without the mark"
    code, answer = world.send("DELETE", path, who=who)
    assert (code == 200) == (passes and opted_in and kind == "configmaps"), answer


def test_only_the_operator_says_which_pods_were_taken_over(world: World) -> None:
    """Whoever may write ServiceAccounts could otherwise run what they prepared under the child's."""
    space = namespace_of(world, "adopt-account")
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "adopt-account"}}
    rule = {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["create", "patch", "get"]}
    world.kubectl("apply", "-f", "-", stdin={**role, "rules": [rule]})
    world.kubectl("create", "rolebinding", "adopt", "-n", space.name, "--clusterrole=adopt-account", "--user=tenant")
    mark = {names.NAMESPACE_UID_ANNOTATION: space.uid}
    labels = {names.MANAGED_BY_LABEL: names.MANAGED_BY}
    meta = {"name": NAME, "namespace": space.name, "labels": labels, "annotations": mark}
    by_hand(world, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    path = f"/api/v1/namespaces/{space.name}/serviceaccounts/{NAME}?dryRun=All"
    operator = f"system:serviceaccount:{names.OPERATOR_NAMESPACE}:{names.OPERATOR_ACCOUNT}"
    for annotation, who, wanted in (
        (names.ADOPTED_ANNOTATION, "tenant", 403),
        ("example.com/x", "tenant", 200),
        (names.ADOPTED_ANNOTATION, operator, 200),
    ):
        patch = {"metadata": {"annotations": {annotation: f"{NAME}-prepared"}}}
        code, answer = world.send("PATCH", path, patch, who=who, kind="application/merge-patch+json")
        assert code == wanted, answer


def test_adopt_is_the_platforms(world: World) -> None:
    """Who may write values alone may not have anything taken over, nor take the field back; the default is nothing."""
    space = world.namespace("adopt-tenant")
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "adopt-tenant"}}
    rule = {"apiGroups": [names.GROUP], "resources": ["workflowcontrollers"], "verbs": ["create", "patch", "get"]}
    world.kubectl("apply", "-f", "-", stdin={**role, "rules": [rule]})
    world.kubectl("create", "rolebinding", "adopt", "-n", space, "--clusterrole=adopt-tenant", "--user=tenant")
    path = f"/apis/{names.API_VERSION}/namespaces/{space}/workflowcontrollers"
    body: Object = {"apiVersion": names.API_VERSION, "kind": "WorkflowController", "metadata": {"name": NAME}}
    for spec, wanted in (({"adopt": "Adopt"}, 403), ({}, 201), ({"adopt": "Never"}, 201)):
        code, answer = world.send("POST", f"{path}?dryRun=All", {**body, "spec": spec}, who="tenant")
        assert code == wanted, answer
    adopt(world, space)
    merge = "application/merge-patch+json"
    for value in ("Never", None):
        code, answer = world.send("PATCH", f"{path}/{NAME}", {"spec": {"adopt": value}}, who="tenant", kind=merge)
        assert code == 403, answer
        assert "spec.adopt: belongs to the platform" in answer["message"]
    code, answer = world.send("PATCH", f"{path}/{NAME}", {"spec": {"values": {}}}, who="tenant", kind=merge)
    assert code == 200, answer


def test_the_reference_of_a_deployment_is_as_the_code_names_it() -> None:
    """What is looked for is what is rendered."""
    space = Namespace(name="team-a", uid="x")
    assert Ref(DEPLOYMENT, "team-a", NAME) in {Ref.of(each) for each in like_ours(space)}
