"""Hand-made installs that run Workflows are taken over: one goes on with its pod, one is replaced under its work."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from metaoperator import sources
from metaoperator.core import shard
from metaoperator.core.model import Namespace
from metaoperator.core.render import Program
from tests.e2e import handmade, workflows
from tests.e2e.local import INSTANCE_ID, NAMESPACE_UID, Api, Kubectl, Object, eventually, metaoperator
from tests.e2e.namespaces import CHILD, Namespaces
from tests.e2e.test_overlap import ran_once

SAME, STOCK = "e2e-adopt-same", "e2e-adopt-stock"
LEASES = "coordination.k8s.io/v1/leases"
MARKS = ("metaoperator.dev/", "app.kubernetes.io/managed-by")


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """An install before it is taken over: its pod, its Lease, and what `diff` says will become of it."""

    pod: Object
    lease: Object
    foretold: str


@pytest.fixture(scope="module")
def installs(namespaces: Namespaces, kubectl: Kubectl, api: Api) -> Iterator[dict[str, Before]]:
    """Have both, each leading and with a Workflow that runs, and opt both in at once: one takes its time."""
    namespaces.ready("e2e-main")
    namespaces.make(SAME, STOCK)
    child = api.object("apps/v1/deployments", "e2e-main", CHILD)
    assert child is not None
    image = child["spec"]["template"]["spec"]["containers"][0]["image"]
    executor = image.replace("workflow-controller", "argoexec")
    for each in like_ours(api, namespaces):
        kubectl("apply", "-f", "-", stdin=each)
    for each in handmade.stock(STOCK, image=image, executor=executor, instance_id=STOCK):
        kubectl("apply", "-f", "-", stdin=each)
    kubectl(
        "create", "rolebinding", "by-hand", "-n", STOCK, "--clusterrole=metaoperator-workflow-executor-v1",
        f"--serviceaccount={STOCK}:default",
    )  # fmt: skip
    pods = {name: leader(api, name) for name in (SAME, STOCK)}
    for name in (SAME, STOCK):
        workflows.submit(kubectl, name, sleeping(name))
        workflows.submit(kubectl, name, workflows.one_step("held", suspended=True, labels={INSTANCE_ID: name}))
        eventually(lambda: taken_up(api, name, "running", "held"), seconds=90)  # noqa: B023 - called at once
        row = {"apiVersion": "metaoperator.dev/v1alpha1", "kind": "WorkflowController", "spec": {"adopt": "Adopt"}}
        kubectl("apply", "-f", "-", stdin={**row, "metadata": {"name": CHILD, "namespace": name}})
    found = {}
    for name in (STOCK, SAME):
        lease = api.object(LEASES, name, f"workflow-controller-{name}")
        assert lease is not None
        found[name] = Before(pod=pods[name], lease=lease, foretold=diff(name))
        namespaces.label(name, "enabled")
    yield found
    namespaces.remove(SAME, STOCK)


def like_ours(api: Api, namespaces: Namespaces) -> list[Object]:
    """Write what the operator would render for SAME, without any mark of an object."""
    program = sources.programs((sources.shipped(),))["workflow-controller"]
    template = api.get("/apis/metaoperator.dev/v1alpha1/controllertemplates/default")
    assert isinstance(program, Program)
    assert template is not None
    desired = program.desired(
        Namespace(name=SAME, uid=namespaces.uid(SAME)),
        shard.only_shard(SAME),
        template_name="default",
        fleet_values=template["spec"].get("values") or {},
        namespace_values={},
    )
    documents: list[Object] = json.loads(json.dumps(desired.documents))
    for each in documents:
        for key in ("labels", "annotations"):
            notes = each["metadata"].get(key) or {}
            each["metadata"][key] = {name: value for name, value in notes.items() if not name.startswith(MARKS)}
    return documents


def leader(api: Api, name: str) -> Object:
    """Wait until a pod holds the Lease of an install, and return it."""

    def check() -> Object:
        live = api.object(LEASES, name, f"workflow-controller-{name}")
        assert live is not None, f"no Lease in {name}"
        pods = {pod["metadata"]["name"]: pod for pod in api.objects("v1/pods", name)}
        assert live["spec"].get("holderIdentity") in pods
        return pods[live["spec"]["holderIdentity"]]

    return eventually(check, seconds=120)


def sleeping(name: str) -> Object:
    """Build a Workflow that runs longer than it takes to take over."""
    manifest = workflows.one_step("running", labels={INSTANCE_ID: name})
    manifest["spec"]["templates"][0]["container"]["command"] = ["sleep", "25"]
    return manifest


def taken_up(api: Api, namespace: str, *names: str) -> None:
    """Hold that the controller has begun these Workflows."""
    for name in names:
        live = api.object(workflows.WORKFLOWS, namespace, name)
        assert live is not None
        assert (live.get("status") or {}).get("phase"), f"{namespace}/{name} was not taken up"


def diff(namespace: str) -> str:
    """Ask what taking over would change; nothing is amiss, so the answer is a plain no."""
    done = metaoperator("diff", namespace, timeout=120)
    assert done.returncode == 1, done.stderr
    return done.stdout


def finished(api: Api, kubectl: Kubectl, namespace: str) -> None:
    """Hold that what ran, what was held and what is new Succeeded, each once, under the one ID."""
    kubectl("patch", "workflow", "held", "-n", namespace, "--type=merge", "-p", '{"spec":{"suspend":null}}')
    workflows.submit(kubectl, namespace, workflows.one_step("new"))
    for name in ("running", "held", "new"):
        ran_once(api, workflows.succeeded(api, {"metadata": {"namespace": namespace, "name": name}}), namespace)


def test_an_install_like_ours_goes_on_with_its_pod(
    installs: dict[str, Before], namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """Nothing differs in the pod template: the same pod, not restarted, leads as before; Workflows do not notice."""
    before = installs[SAME]
    assert f"# Deployment/{SAME}/{CHILD}: adopted: taken over from kubectl-client-side-apply" in before.foretold
    namespaces.ready(SAME)

    assert {uid for uid, _ in controllers(api, SAME)} == {before.pod["metadata"]["uid"]}
    assert [restarts for _, restarts in controllers(api, SAME)] == [0]
    after = api.object(LEASES, SAME, f"workflow-controller-{SAME}")
    assert after is not None
    assert after["spec"]["holderIdentity"] == before.lease["spec"]["holderIdentity"]
    assert len(namespaces.marked(SAME)) > len(namespaces.objects(SAME)), "the six objects, and the row"
    finished(api, kubectl, SAME)
    assert namespaces.events("Adopted", CHILD)


def controllers(api: Api, namespace: str) -> list[tuple[str, int]]:
    """Tell UID and restarts of each pod of the child."""
    return [
        (pod["metadata"]["uid"], sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ())))
        for pod in api.objects("v1/pods", namespace)
        if pod["metadata"]["name"].startswith(f"{CHILD}-")
    ]


def test_argos_own_install_is_replaced_and_its_workflows_go_on(
    installs: dict[str, Before], namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """Another selector: the Deployment is made anew; the Lease passes once, to the new pod; ID and work stay."""
    before = installs[STOCK]
    assert f"# Deployment/{STOCK}/{CHILD}: replaced: spec.selector cannot be changed from" in before.foretold
    row = namespaces.ready(STOCK, seconds=180)

    assert row["spec"]["instanceID"] == STOCK
    ((uid, _),) = controllers(api, STOCK)
    assert uid != before.pod["metadata"]["uid"]
    after = api.object(LEASES, STOCK, f"workflow-controller-{STOCK}")
    assert after is not None
    assert after["spec"]["leaseTransitions"] == before.lease["spec"].get("leaseTransitions", 0) + 1
    finished(api, kubectl, STOCK)
    config = api.object("v1/configmaps", STOCK, handmade.CONFIG)
    assert config is not None
    assert list(config["data"]) == ["config"]
    assert config["metadata"]["annotations"][NAMESPACE_UID] == namespaces.uid(STOCK)
    notes = " ".join(each["note"] for each in namespaces.events("Adopted", CHILD))
    assert f"RoleBinding/argo-binding (to ClusterRole {handmade.RULES}), ServiceAccount/{handmade.ACCOUNT}" in notes
    assert api.object("v1/serviceaccounts", STOCK, handmade.ACCOUNT) is not None
