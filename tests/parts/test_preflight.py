"""What a cluster lacks before the first label: each lack alone, beside a cluster that has everything."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from metaoperator import bundle, sources
from metaoperator.commands import preflight
from metaoperator.core import names
from metaoperator.core.definitions import ARGO
from metaoperator.core.errors import RetryableError
from metaoperator.core.model import NAMESPACE, Ref
from metaoperator.preflight.rows import Result, Row, worst_first
from metaoperator.pretence import Assumed
from metaoperator.rehearsal import Rehearsal
from metaoperator.settings import Settings
from tests.fake import FakeApiServer

from .test_overlap import may_list
from .world import TOKEN, World

APPS = "apps/v1"
KINDS = {
    "workflows": "Workflow",
    "cronworkflows": "CronWorkflow",
    "workflowtemplates": "WorkflowTemplate",
    "clusterworkflowtemplates": "ClusterWorkflowTemplate",
}


async def look(world: World, *namespaces: str, home: str = names.OPERATOR_NAMESPACE, **assumed: Any) -> list[Row]:
    """Run every check, and hold it to writing nothing."""
    before = world.server.history.version
    cluster = Rehearsal(kubeconfig=str(world.kubeconfig))
    await cluster.connect()
    try:
        programs = sources.programs((sources.shipped(),))
        settings = Settings(namespace=home)
        found = await preflight.checked(cluster, namespaces, Assumed(programs=programs, **assumed), settings)
    finally:
        await cluster.close()
    assert world.server.history.version == before
    return worst_first(found)


def told(rows: list[Row], result: Result = Result.MISSING) -> list[tuple[str, str]]:
    """Tell check and finding of the rows of one result."""
    return [(row.check, row.what) for row in rows if row.result is result]


def definition(plural: str, *, full: bool = True) -> dict[str, Any]:
    """Write a definition as Argo ships it, established."""
    spec: dict[str, Any] = {"type": "object"}
    spec |= (
        {"properties": {"entrypoint": {"type": "string"}}} if full else {"x-kubernetes-preserve-unknown-fields": True}
    )
    kind = KINDS.get(plural, plural.title())
    scope = "Cluster" if plural.startswith("cluster") else "Namespaced"
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
    named = {"kind": kind, "plural": plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.argoproj.io"},
        "spec": {"group": "argoproj.io", "scope": scope, "names": named, "versions": [version]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }


def install(world: World, *names_of_bundles: str) -> None:
    """Apply bundles as kubectl would; what is there already stays."""
    for name in names_of_bundles:
        for manifest in bundle.objects(name):
            ref = Ref.of(manifest)
            if world.server.get(ref.kind.kind, ref.namespace or None, ref.name) is None:
                world.server.create(dict(manifest), manager="kubectl")
            elif ref.kind == NAMESPACE:
                world.server.patch("Namespace", None, ref.name, {"metadata": manifest["metadata"]}, manager="kubectl")


@pytest.fixture
def whole(world: World) -> World:
    """Make a cluster that lacks nothing, with two nodes, one of which has the controller's image."""
    for each in ARGO:
        world.server.define(definition(each))
        name = f"{each}.argoproj.io"
        conditions = {"conditions": [{"type": "Established", "status": "True"}]}
        world.server.patch("CustomResourceDefinition", None, name, {"status": conditions}, sub="status")
    install(world, bundle.FLEET, bundle.OPERATOR)
    image = {"names": ["quay.io/argoproj/workflow-controller:v4.1.2"]}
    for name, images in (("n1", [image]), ("n2", [])):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        world.server.create(node)
        world.server.patch("Node", None, name, {"status": {"images": images}}, sub="status")
    world.namespace("team-a")
    return world


async def test_a_cluster_that_has_everything_lacks_nothing(whole: World) -> None:
    """Every check has a row, each of them is fine, and what will be pulled is told."""
    rows = await look(whole, "team-a")
    assert {row.result for row in rows} == {Result.OK}
    checks = [row.check for row in rows]
    assert list(dict.fromkeys(checks)) == [
        "API server",
        "admission policies",
        "Argo CRDs",
        "fleet bundle",
        "operator bundle",
        "operator's permissions",
        "ControllerTemplates",
        "instance IDs",
        "other controllers",
        "instance IDs in templates",
        "images",
        "namespace team-a",
    ]
    what = {row.what for row in rows}
    assert "Kubernetes v1.36.3" in what
    assert "all 8 there, full (workflows), serving v1alpha1" in what
    assert "quay.io/argoproj/workflow-controller:v4.1.2 on 1 of 2 nodes: pulled on the others when needed" in what


async def test_an_empty_cluster_is_told_what_to_install_in_order(world: World, server: FakeApiServer) -> None:
    """Before anything is installed, which is when it is asked for: each lack with the command that mends it."""
    for kind in ("WorkflowController", "ControllerTemplate", "Workflow", "CronWorkflow"):
        server.withdraw(kind)
    world.namespace("team-a")
    rows = await look(world, "team-a")
    missing = [(row.check, row.cure) for row in rows if row.result is Result.MISSING]
    assert [check for check, _ in missing] == [
        "Argo CRDs",
        "fleet bundle",
        "operator bundle",
        "operator's permissions",
        "ControllerTemplates",
    ]
    cures = dict(missing)
    assert cures["Argo CRDs"] == (
        'kubectl apply --server-side -k "https://github.com/argoproj/argo-workflows/manifests/base/crds/full?ref=v4.1.2"'
    )
    assert cures["fleet bundle"].startswith("kubectl apply --server-side -k manifests/fleet/crds")
    assert cures["operator bundle"] == "kubectl apply --server-side -k manifests/operator"
    assert ("namespace team-a", "6 objects would be made, and the controller's pod admitted") in told(rows, Result.OK)


def _component(world: World, name: str) -> None:
    """Apply the bundle again, as a component leaves it."""
    for manifest in bundle.objects(bundle.FLEET):
        for way in bundle.ways(manifest):
            if way.components == (name,) and way.manifest is not None:
                ref = Ref.of(way.manifest)
                world.server.patch(
                    ref.kind.kind, None, ref.name, {key: way.manifest[key] for key in ("metadata", "spec")}
                )


def _pinned(world: World) -> None:
    """Apply what the component adds."""
    meta = {"name": names.STAMPING_PINNED}
    for kind in ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"):
        world.server.create(
            {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": meta, "spec": {}}
        )


# Each lack alone


@dataclass(frozen=True)
class Lack:
    """What is done to a whole cluster, and how it is told."""

    do: Callable[[World], Any]
    check: str
    what: str
    result: Result = Result.MISSING


def _drop(kind: str, name: str, namespace: str | None = None) -> Callable[[World], None]:
    return lambda world: world.server.delete(kind, namespace, name)


def _unserve(kind: str) -> Callable[[World], None]:
    return lambda world: world.server.registry.remove(world.server.registry.named(kind))


def _crd(plural: str, **patch: Any) -> Callable[[World], None]:
    def do(world: World) -> None:
        sub = "status" if "status" in patch else ""
        world.server.patch("CustomResourceDefinition", None, f"{plural}.argoproj.io", patch, sub=sub)

    return do


def _rules(world: World) -> None:
    role = world.server.get("ClusterRole", None, "metaoperator")
    assert role is not None
    rules = [rule for rule in role["rules"] if "deployments" not in rule["resources"]]
    world.server.patch("ClusterRole", None, "metaoperator", {"rules": rules})


def _controller(
    namespace: str, *args: str, config: dict[str, str] | None = None, replicas: int = 1, name: str = "argo"
) -> Callable[[World], None]:
    def do(world: World) -> None:
        if world.server.get("Namespace", None, namespace) is None:
            world.namespace(namespace)
        if config is not None:
            world.make("ConfigMap", namespace, "argo-config", data=config)
        may_list(world, namespace, "default")
        labels = {"app": "argo"}
        container = {
            "name": "c",
            "image": "quay.io/argoproj/workflow-controller:v3.7.0",
            "args": ["--configmap", "argo-config", *args],
        }
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod}
        world.make("Deployment", namespace, name, api=APPS, spec=spec)

    return do


def _template(spec: dict[str, Any]) -> Callable[[World], Any]:
    return lambda world: world.server.patch("ControllerTemplate", None, "default", {"spec": spec})


def _taken(world: World) -> None:
    world.make("ConfigMap", "team-a", "workflow-controller-configmap", data={})


def _restricted(world: World) -> None:
    hard = {"hard": {"requests.cpu": "10m"}}
    world.make("ResourceQuota", "team-a", "small", spec=hard)


def _services(world: World) -> None:
    world.make("ResourceQuota", "team-a", "none", spec={"hard": {"count/services": "0"}})


def _terminating(world: World) -> None:
    world.server.patch("Namespace", None, "team-a", {"metadata": {"finalizers": ["example.com/slow"]}})
    world.server.delete("Namespace", None, "team-a")


LACKS: dict[str, Lack] = {
    "no policy API": Lack(
        _unserve("MutatingAdmissionPolicy"), "admission policies", "MutatingAdmissionPolicy v1 is not served"
    ),
    "a CRD": Lack(
        _drop("CustomResourceDefinition", "workflowtasksets.argoproj.io"), "Argo CRDs", "not there: workflowtas"
    ),
    "a CRD not established": Lack(
        _crd("workflows", status={"conditions": [{"type": "Established", "status": "False"}]}),
        "Argo CRDs",
        "not established: workflows",
    ),
    "minimal CRDs": Lack(
        lambda world: world.server.define(definition("workflows", full=False)),
        "Argo CRDs",
        "all 8 there, minimal (workflows)",
        Result.OK,
    ),
    "a ClusterRole": Lack(
        _drop("ClusterRole", "metaoperator-workflow-executor-v1"),
        "fleet bundle",
        "not there: ClusterRole/metaoperator-workflow-executor-v1",
    ),
    "the stamping policy": Lack(
        _drop("MutatingAdmissionPolicy", "metaoperator-instance-id"),
        "fleet bundle",
        "not there: MutatingAdmissionPolicy/metaoperator-instance-id (as with component instance-id-none)",
    ),
    "the stamping policy of the fleet's ID": Lack(
        lambda world: _component(world, "instance-id-fleet"),
        "fleet bundle",
        f"all {len(bundle.objects(bundle.FLEET))} objects are there, as shipped, with instance-id-fleet",
        Result.OK,
    ),
    "the fence of chosen IDs": Lack(
        lambda world: _component(world, "instance-id-pinned"),
        "fleet bundle",
        f"all {len(bundle.objects(bundle.FLEET))} objects are there, as shipped, with instance-id-pinned",
        Result.OK,
    ),
    "a policy of the fleet's ID that somebody changed": Lack(
        lambda world: (
            _component(world, "instance-id-fleet"),
            world.server.patch(
                "MutatingAdmissionPolicy", None, names.STAMPING_POLICY, {"spec": {"failurePolicy": "Ignore"}}
            ),
        ),
        "fleet bundle",
        "not as this version ships it: MutatingAdmissionPolicy/metaoperator-instance-id (spec.failurePolicy)",
        Result.WARNING,
    ),
    "an older policy": Lack(
        lambda world: world.server.patch(
            "MutatingAdmissionPolicy", None, "metaoperator-instance-id", {"spec": {"failurePolicy": "Ignore"}}
        ),
        "fleet bundle",
        "not as this version ships it: MutatingAdmissionPolicy/metaoperator-instance-id (spec.failurePolicy)",
        Result.WARNING,
    ),
    "an older policy that says true": Lack(
        lambda world: world.server.patch(
            "PriorityClass", None, "metaoperator-workflow-controller", {"globalDefault": True}
        ),
        "fleet bundle",
        "not as this version ships it: PriorityClass/metaoperator-workflow-controller (globalDefault)",
        Result.WARNING,
    ),
    "what the API server leaves out": Lack(
        lambda world: world.server.patch(
            "PriorityClass", None, "metaoperator-workflow-controller", {"globalDefault": None}
        ),
        "fleet bundle",
        "all ",
        Result.OK,
    ),
    "a right": Lack(
        _rules,
        "operator's permissions",
        "missing: get,list,watch,create,patch,delete deployments.apps",
    ),
    "the binding": Lack(
        _drop("ClusterRoleBinding", "metaoperator"),
        "operator's permissions",
        "missing: ",
    ),
    "values at fault": Lack(
        _template({"values": {"log": {"level": "loud"}}}),
        "ControllerTemplates",
        'default: values.log.level: "loud" is not one of',
    ),
    "IDs of the fleet, and a policy that stamps namespaces": Lack(
        _template({"instanceIDPolicy": "Fleet"}),
        "instance IDs",
        "default: instanceIDPolicy is Fleet, but metaoperator-instance-id stamps as for PerNamespace: no",
    ),
    "IDs of namespaces, and a policy that stamps the fleet's": Lack(
        lambda world: _component(world, "instance-id-fleet"),
        "instance IDs",
        "default: instanceIDPolicy is PerNamespace, but metaoperator-instance-id stamps as for Fleet: no",
    ),
    "no IDs, and a policy that stamps": Lack(
        _template({"instanceIDPolicy": "None"}),
        "instance IDs",
        "default: instanceIDPolicy is None, but metaoperator-instance-id stamps as for PerNamespace: no",
    ),
    "IDs that nothing stamps": Lack(
        _drop("MutatingAdmissionPolicy", "metaoperator-instance-id"),
        "instance IDs",
        "default: instanceIDPolicy is PerNamespace, and MutatingAdmissionPolicy metaoperator-instance-id not there",
    ),
    "IDs of their own": Lack(
        lambda world: (_template({"instanceIDPolicy": "Fleet"})(world), _pinned(world)),
        "instance IDs",
        "default: instanceIDPolicy Fleet, and Workflows are stamped as its WorkflowController says",
        Result.OK,
    ),
    "no IDs, and nothing that stamps": Lack(
        lambda world: (
            _template({"instanceIDPolicy": "None"})(world),
            _drop("MutatingAdmissionPolicy", "metaoperator-instance-id")(world),
        ),
        "instance IDs",
        "default: instanceIDPolicy None, and Workflows are stamped with none",
        Result.OK,
    ),
    "a set that is not there": Lack(
        _template({"source": {"directory": "gold"}}),
        "ControllerTemplates",
        "default: ControllerTemplate/default: no template set gold at hand (there: workflow-controller)",
    ),
    "a set in a ConfigMap that is not there": Lack(
        _template({"source": {"directory": None, "configMap": {"names": ["mine"]}}}),
        "ControllerTemplates",
        "default: ConfigMap/metaoperator/mine: is not there (create it",
    ),
    "a controller in the namespace": Lack(
        _controller("team-a", "--namespaced", config={"config": "instanceID: mine\n"}),
        "other controllers",
        "Deployment/team-a/argo serves namespace team-a with instance ID mine",
        Result.WARNING,
    ),
    "a controller in the namespace with its ID": Lack(
        _controller("team-a", "--namespaced", config={"config": "instanceID: team-a\n"}),
        "other controllers",
        "Deployment/team-a/argo serves namespace team-a with instance ID team-a, which is a child's",
    ),
    "a controller under the name of a child": Lack(
        _controller("team-a", "--namespaced", config={"config": "instanceID: team-a\n"}, name="workflow-controller"),
        "other controllers",
        "Deployment/team-a/workflow-controller serves namespace team-a with instance ID team-a, under the name that",
        Result.WARNING,
    ),
    "a controller in the namespace, scaled to 0": Lack(
        _controller("team-a", "--namespaced", config={"config": "instanceID: team-a\n"}, replicas=0),
        "other controllers",
        "Deployment/team-a/argo is scaled to 0",
        Result.OK,
    ),
    "a controller that manages it from elsewhere": Lack(
        _controller("argo", "--namespaced", "--managed-namespace", "team-a", config={}),
        "other controllers",
        "Deployment/argo/argo serves namespace team-a with instance ID (none)",
        Result.WARNING,
    ),
    "a cluster-wide one with the namespace's name": Lack(
        _controller("argo", config={"instanceID": "team-a"}),
        "other controllers",
        "Deployment/argo/argo is cluster-wide with instance ID team-a, which is a child's",
    ),
    "a cluster-wide one without an ID": Lack(
        _controller("argo", config={}),
        "other controllers",
        "Deployment/argo/argo is cluster-wide without an instance ID",
        Result.WARNING,
    ),
    "a cluster-wide one with an ID of its own": Lack(
        _controller("argo", config={"config": "instanceID: central\n"}),
        "other controllers",
        "Deployment/argo/argo is cluster-wide with its own instance ID central",
        Result.OK,
    ),
    "a configuration that cannot be read": Lack(
        _controller("argo", config={"config": ": ["}),
        "other controllers",
        "Deployment/argo/argo is cluster-wide; its instance ID cannot be read",
        Result.UNKNOWN,
    ),
    "a name that is taken": Lack(
        _taken, "namespace team-a", "ConfigMap/team-a/workflow-controller-configmap exists and does not carry our mark"
    ),
    "a quota on objects": Lack(_services, "namespace team-a", "Service/team-a/workflow-controller-metrics: "),
    "a quota on pods": Lack(_restricted, "namespace team-a", "the controller's pod would be refused: "),
    "a namespace that ends": Lack(
        _terminating, "namespace team-a", "Terminating: namespace team-a is being deleted, and nothing is written to it"
    ),
}


@pytest.mark.parametrize("case", LACKS)
async def test_a_lack_is_told_with_its_cure(whole: World, case: str) -> None:
    """Its row, with the result it deserves; what is missing is accompanied by what to do."""
    lack = LACKS[case]
    lack.do(whole)
    rows = await look(whole, "team-a")
    found = [row for row in rows if row.check == lack.check and row.what.startswith(lack.what)]
    assert [row.result for row in found] == [lack.result], "\n".join(map(str, rows))
    others = {row.check for row in rows if row.result is Result.MISSING} - {lack.check}
    # What rests on it may be missing too; nothing that has nothing to do with it is.
    assert others <= {"namespace team-a", "instance IDs", "fleet bundle", "operator bundle", "operator's permissions"}
    if lack.result is Result.MISSING and "Terminating" not in lack.what:
        assert all(row.cure for row in found) or lack.check == "ControllerTemplates"


async def test_namespaces_that_are_never_served_and_such_that_are_not_there(whole: World) -> None:
    """Each has a row that says so; one bad name keeps nothing else from being looked at."""
    whole.namespace("kube-x")
    rows = await look(whole, "kube-x", "nowhere", "team-a")
    assert told(rows) == [
        ("namespace kube-x", "NamespaceRefused: namespace kube-x belongs to the system, and is never served"),
        ("namespace nowhere", "there is no namespace nowhere: kubectl create namespace nowhere"),
    ]
    assert ("namespace team-a", "7 objects would be made, and the controller's pod admitted") in told(rows, Result.OK)


async def test_pull_secrets_that_are_named_have_to_be_there(whole: World) -> None:
    """By the values at hand; one that is there is no row."""
    whole.make("Secret", "team-a", "there")
    rows = await look(whole, "team-a", fleet_values={"images": {"pullSecrets": ["gone", "there"]}})
    assert told(rows) == [("namespace team-a", "pull secret gone is not there")]


@pytest.mark.parametrize("policy", ["PerNamespace", "None"])
async def test_a_version_that_is_known_to_hang_http_templates_is_warned_of(whole: World, policy: str) -> None:
    """Where it is asked for, with the releases that do it right; without an instance ID nothing hangs."""
    spec = {"source": {"directory": "workflow-controller"}, "instanceIDPolicy": policy, "values": {"version": "v4.0.0"}}
    template = {"apiVersion": names.API_VERSION, "kind": "ControllerTemplate", "metadata": {"name": "older"}}
    whole.server.create(template | {"spec": spec})
    rows = [each for each in await look(whole, fleet_values={"version": "v3.6.18"}) if each.check == "Argo version"]
    assert {each.result for each in rows} == {Result.WARNING}
    asked = [each.what.partition(": steps with HTTP templates or plugins wait for ever")[0] for each in rows]
    assert asked == [
        "the values at hand: v3.6.18",
        *(["ControllerTemplate/older: v4.0.0"] if policy == "PerNamespace" else []),
    ]
    assert {each.cure for each in rows} == {
        "choose a version that does: v3.6.19, v3.7.10, v4.0.1 or newer on its branch"
    }


async def test_a_namespace_that_is_served_already_is_fine(whole: World) -> None:
    """It may be run at any time."""
    async with whole.operator():
        whole.opt_in("team-a")
        await whole.until(lambda: whole.ready("team-a"))
    assert told(await look(whole, "team-a"), Result.OK)[-1] == ("namespace team-a", "opted in already")


async def test_who_may_do_nothing_is_told_what_is_not_known(whole: World, server: FakeApiServer) -> None:
    """No traceback and no false alarm: each question that may not be asked is one that is not answered."""
    server.users[TOKEN] = "eve"
    rows = await look(whole, "team-a")
    assert told(rows) == []
    unknown = dict(told(rows, Result.UNKNOWN))
    assert set(unknown) == {
        "Argo CRDs",
        "fleet bundle",
        "operator bundle",
        "operator's namespace",
        "operator's permissions",
        "ControllerTemplates",
        "instance IDs",
        "other controllers",
        "instance IDs in templates",
        "images",
        "namespace team-a",
    }
    assert all('User "eve" cannot' in what or "served" in what for what in unknown.values())
    assert {row.result for row in rows if row.check in {"API server", "admission policies"}} == {Result.OK}


async def test_a_server_that_is_not_there_is_no_row(world: World, server: FakeApiServer) -> None:
    """The command ends with exit code 3 then: there is nothing to say of any check."""
    server.faults.answer(500, times=99)
    with pytest.raises(RetryableError):
        await look(world)


def test_worst_comes_first_and_the_rest_in_order() -> None:
    """What is missing, then what is not known, then warnings; an installation's order within."""
    rows = [
        Row(check=str(n), result=result, what="") for n, result in enumerate([*reversed(Result), *reversed(Result)])
    ]
    assert [row.check for row in worst_first(rows)] == ["3", "7", "2", "6", "1", "5", "0", "4"]


def test_the_bundles_are_what_kustomize_builds() -> None:
    """Every file of a bundle is an object of it, and the operator's live in its namespace."""
    for name in (bundle.FLEET, bundle.OPERATOR):
        files = [path for path in bundle.folder(name).rglob("*.yaml") if path.name != "kustomization.yaml"]
        assert len(bundle.objects(name)) >= len(files)
    homes = {each["metadata"].get("namespace") for each in bundle.objects(bundle.OPERATOR)}
    assert homes == {None, names.OPERATOR_NAMESPACE}


def carrying(kind: str, namespace: str | None, name: str, **spec: Any) -> dict[str, Any]:
    """Build a template or schedule with this spec."""
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}


async def test_templates_that_would_give_another_id_are_told(whole: World) -> None:
    """R01, R05: of all namespaces, and of those that opted in or are asked for; admission saw none of them come."""
    for plural in KINDS:
        whole.server.define(definition(plural, full=False))
    labels = {"workflowMetadata": {"labels": {names.INSTANCE_ID_LABEL: "blue"}}}
    moving = {"workflowMetadata": {"labelsFrom": {names.INSTANCE_ID_LABEL: {"expression": "'x'"}}}}
    whole.namespace("team-b", {names.OPT_IN_LABEL: "enabled"})
    whole.namespace("team-c")
    for each in (
        carrying("ClusterWorkflowTemplate", None, "of-all", **labels),
        carrying("ClusterWorkflowTemplate", None, "tame", workflowMetadata={"labels": {"a": "b"}}),
        carrying("WorkflowTemplate", "team-a", "asked", **moving),
        carrying("CronWorkflow", "team-b", "nightly", workflowSpec=labels, **labels),
        carrying("WorkflowTemplate", "team-c", "not-asked", **labels),
        carrying("CronWorkflow", "team-b", "odd", workflowSpec=None, workflowMetadata=[]),
    ):
        whole.server.create(each)
    twice = ("spec.workflowMetadata.labels", "spec.workflowSpec.workflowMetadata.labels")
    rows = [row for row in await look(whole, "team-a") if row.check == "instance IDs in templates"]
    assert {row.result for row in rows} == {Result.WARNING}
    assert [row.what.partition(":")[0] for row in rows] == [
        f"ClusterWorkflowTemplate/of-all has {names.INSTANCE_ID_LABEL} in spec.workflowMetadata.labels",
        f"WorkflowTemplate/team-a/asked has {names.INSTANCE_ID_LABEL} in spec.workflowMetadata.labelsFrom",
        f"CronWorkflow/team-b/nightly has {names.INSTANCE_ID_LABEL} in {', '.join(twice)}",
    ]


async def test_a_move_to_another_version_is_held_to_the_table(whole: World) -> None:
    """From what each child is, to what its ControllerTemplate asks for: what refuses it is missing."""
    whole.make("WorkflowController", "team-a", "workflow-controller", api=names.API_VERSION, spec={})
    where = ("WorkflowController", "team-a", "workflow-controller")
    for version, expected in (
        ("v4.1.2", {}),
        ("v4.1.1", {}),
        ("v3.7.1", {Result.MISSING: "refuse: the cluster has full definitions", Result.OK: "remark: v3.7.1 to v4.1.2"}),
    ):
        whole.server.patch(*where, {"status": {"template": "default", "version": version}}, sub="status")
        rows = [row for row in await look(whole) if row.check == "Argo version"]
        assert {row.result for row in rows} == set(expected)
        for result, start in expected.items():
            first = next(row for row in rows if row.result is result)
            assert first.what.startswith(start)
            assert first.what.endswith(" [1 namespace: team-a]")
            assert first.cure
