"""An instance ID that a person chose: stamped by admission, served by a real controller, not lost with its row."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e import workflows
from tests.e2e.argo import ROLE, SERVER, TEMPLATE, Argo, Failed, Files, forwarded, person, plain, with_setting
from tests.e2e.install import cluster_command
from tests.e2e.local import CHECKOUT, INSTANCE_ID, KUBECONFIG, Api, Kubectl, Object, eventually
from tests.e2e.namespaces import CHILD, Namespaces

SPACE = "e2e-pinned"
ANOTHER = "e2e-pinned-as-well"
ID = "e2e-blue"
COMPONENT = CHECKOUT / "manifests" / "components" / "instance-id-pinned"
SERVER_OF_ALL = CHECKOUT / "manifests" / "components" / "argo-server-fleet"


def row(namespace: str) -> Object:
    """Write the row of a namespace with the ID that somebody chose."""
    return {
        "apiVersion": "metaoperator.dev/v1alpha1",
        "kind": "WorkflowController",
        "metadata": {"name": CHILD, "namespace": namespace},
        "spec": {"instanceID": ID},
    }


@pytest.fixture(scope="module")
def pinned(namespaces: Namespaces, kubectl: Kubectl) -> Iterator[None]:
    """Install the policy that reads `spec.instanceID`, and opt a namespace in that has one."""
    files = [flag for name in ("policy.yaml", "policybinding.yaml") for flag in ("-f", str(COMPONENT / name))]
    kubectl("apply", "--server-side", *files)
    try:
        namespaces.make(SPACE)
        kubectl("create", "-f", "-", stdin=row(SPACE))
        namespaces.label(SPACE, "enabled")
        yield
    finally:
        namespaces.remove(SPACE)
        kubectl("delete", "--ignore-not-found", *files)


def _stamped(kubectl: Kubectl) -> None:
    """Check what admission puts on a Workflow: the API server takes a moment to load a policy."""
    asked = kubectl.json(
        "create", "--dry-run=server", "-n", SPACE, "-f", "-", stdin=workflows.one_step("asked", suspended=True)
    )
    assert asked["metadata"]["labels"][INSTANCE_ID] == ID


def test_a_pinned_id_is_stamped_served_and_survives_the_loss_of_its_row(
    pinned: None, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """The Lease has its name, a Workflow without any label runs, and a row that is deleted comes back with it."""
    del pinned
    before = namespaces.ready(SPACE)
    assert before["status"]["instanceID"] == ID
    assert api.object("coordination.k8s.io/v1/leases", SPACE, f"{CHILD}-{ID}") is not None
    eventually(lambda: _stamped(kubectl))
    first = workflows.submit(kubectl, SPACE, workflows.one_step("first"))
    assert first["metadata"]["labels"][INSTANCE_ID] == ID
    workflows.succeeded(api, first)

    child = api.object("apps/v1/deployments", SPACE, CHILD)
    kubectl("delete", "workflowcontroller", CHILD, "-n", SPACE)

    def back() -> None:
        live = namespaces.row(SPACE)
        assert live is not None
        assert live["metadata"]["uid"] != before["metadata"]["uid"]
        assert live["spec"]["instanceID"] == ID

    eventually(back)
    namespaces.ready(SPACE)
    now = api.object("apps/v1/deployments", SPACE, CHILD)
    assert child is not None
    assert now is not None
    assert now["spec"] == child["spec"]
    workflows.succeeded(api, workflows.submit(kubectl, SPACE, workflows.one_step("second")))


@pytest.fixture
def server_of_all(pinned: None, namespaces: Namespaces, kubectl: Kubectl, tmp_path: Path) -> Iterator[str]:
    """Have a server beside one of two children with the same ID that shows both; yields its address."""
    del pinned
    template = yaml.safe_load(TEMPLATE.read_text())
    template["metadata"]["name"] = "server-of-all"
    template["spec"]["values"]["server"]["clusterWide"] = True
    binding = yaml.safe_load((SERVER_OF_ALL / "clusterrolebinding.yaml").read_text())
    binding["subjects"][0]["namespace"] = SPACE
    rights = [flag for each in (SERVER_OF_ALL / "clusterrole-v1.yaml", tmp_path / "binding") for flag in ("-f", each)]
    (tmp_path / "binding").write_text(yaml.safe_dump(binding))
    kubectl("apply", "--server-side", *rights)
    kubectl("apply", "--server-side", "-f", "-", stdin=template)
    kubectl("apply", "--server-side", "-f", "-", stdin=ROLE)
    try:
        namespaces.make(ANOTHER)
        kubectl("create", "-f", "-", stdin=row(ANOTHER))
        namespaces.label(ANOTHER, "enabled")
        namespaces.label(SPACE, "server-of-all")
        namespaces.ready(ANOTHER)
        namespaces.ready(SPACE)
        kubectl("rollout", "status", f"deployment/{SERVER}", "-n", SPACE, "--timeout=120s")
        with forwarded(kubectl, KUBECONFIG, SPACE) as address:
            yield address
    finally:
        namespaces.remove(ANOTHER)
        kubectl("delete", "controllertemplate", "server-of-all")
        kubectl("delete", *rights)
        kubectl("delete", "clusterrole", ROLE["metadata"]["name"])


def test_one_server_shows_all_namespaces_of_its_id(
    server_of_all: str, kubectl: Kubectl, api: Api, tmp_path: Path
) -> None:
    """To each what that person may see: the setting is that of their own namespace, the server stands in another."""
    token, kubeconfig = person(kubectl, api, "user", ANOTHER, "edit", ROLE["metadata"]["name"])
    kubeconfig.unlink()
    argo = Argo(cluster_command("path", "argo"), {})
    asked = with_setting(plain(argo.program, KUBECONFIG, tmp_path), ANOTHER, "--at", server_of_all)
    argo.environment = asked | {"ARGO_TOKEN": f"Bearer {token}"}
    eventually(lambda: _stamped(kubectl))

    name = argo.submit(Files(tmp_path).write("any", workflows.one_step("any", generateName="through-")))

    made = api.object(workflows.WORKFLOWS, ANOTHER, name)
    assert made is not None
    assert made["metadata"]["labels"][INSTANCE_ID] == ID
    workflows.succeeded(api, made)

    def listed() -> None:
        assert name in argo("list", "-o", "name").split()

    eventually(listed, seconds=60)
    assert "done" in argo("logs", name)
    with pytest.raises(Failed, match=r"PermissionDenied|forbidden"):
        argo("list", "-n", SPACE)
