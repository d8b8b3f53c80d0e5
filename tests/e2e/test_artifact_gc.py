"""Artifacts are deleted, and their Workflows let go: real executor pods, a real controller, and an S3 server.

A controller with an instance ID never sees the pods that delete artifacts end (argo-workflows#10840): the default set
labels them, and the operator those that have no label.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.cluster import s3
from tests.e2e import audit as auditing
from tests.e2e import workflows
from tests.e2e.audit import Audit
from tests.e2e.install import Installation
from tests.e2e.local import INSTANCE_ID, Api, Kubectl, Object, eventually, metaoperator
from tests.e2e.namespaces import CHILD, Namespaces

HERE = TEMPLATE = BUCKET = "e2e-artifacts"
KEYS = "bucket"
"""A Secret."""
FINALIZER = "workflows.argoproj.io/artifact-gc"
COLLECTORS = "labelSelector=workflows.argoproj.io%2Fcomponent%3Dartifact-gc"
KEY_FORMAT = "{{workflow.namespace}}/{{workflow.name}}/{{pod.name}}"
ACCESS = {
    "accessKeySecret": {"name": KEYS, "key": "access-key"},
    "secretKeySecret": {"name": KEYS, "key": "secret-key"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A served namespace whose artifacts go to a bucket."""

    bucket: s3.S3
    api: Api
    kubectl: Kubectl

    def submit(self, name: str, **artifact_gc: Any) -> Object:
        """Submit a Workflow that writes one artifact."""
        container = {
            "image": workflows.BUSYBOX,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", "echo something > /tmp/something"],
        }
        artifact = {"name": "something", "path": "/tmp/something", "archive": {"none": {}}}  # noqa: S108 (its own)
        template = {"name": "main", "container": container, "outputs": {"artifacts": [artifact]}}
        manifest = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"name": name},
            "spec": {"entrypoint": "main", "templates": [template], "artifactGC": artifact_gc},
        }
        return workflows.submit(self.kubectl, HERE, manifest)

    def stored(self, name: str) -> list[str]:
        """List what the bucket has of one Workflow."""
        return [key for key in self.bucket.keys(BUCKET) if key.startswith(f"{HERE}/{name}/")]

    def was_stored(self, name: str) -> bool:
        """Tell whether the bucket ever had anything of it."""
        return any(key.startswith(f"{HERE}/{name}/") for key in self.bucket.keys(BUCKET, deleted=True))

    def workflow(self, name: str) -> Object | None:
        """Read one."""
        return self.api.object(workflows.WORKFLOWS, HERE, name)

    def collectors(self, name: str) -> list[Object]:
        """List the pods that delete the artifacts of one Workflow."""
        query = f"{COLLECTORS}%2Cworkflows.argoproj.io%2Fworkflow%3D{name}"
        return self.api.objects("v1/pods", HERE, query=query)


@pytest.fixture(scope="module")
def scene(namespaces: Namespaces, kubectl: Kubectl, api: Api) -> Iterator[Scene]:
    """Have the server, and the repository in the values of a ControllerTemplate, as values.yaml says."""
    with s3.running() as bucket:
        bucket.make(BUCKET, versioned=True)
        where = {"bucket": BUCKET, "endpoint": bucket.endpoint, "insecure": True, "keyFormat": KEY_FORMAT}
        repository = {"s3": where | ACCESS}
        template = kubectl.json("get", "controllertemplate", "default")
        template["metadata"] = {"name": TEMPLATE}
        template["spec"]["values"]["config"] = {"artifactRepository": repository}
        kubectl("create", "-f", "-", stdin={key: template[key] for key in ("apiVersion", "kind", "metadata", "spec")})
        namespaces.make(HERE, opt_in=TEMPLATE)
        try:
            keys = [
                f"--from-literal={name}={key}" for name, key in zip(("access-key", "secret-key"), s3.KEYS, strict=True)
            ]
            kubectl("create", "secret", "generic", KEYS, "-n", HERE, *keys)
            kubectl("create", "serviceaccount", "collector", "-n", HERE)
            namespaces.ready(HERE)
            yield Scene(bucket=bucket, api=api, kubectl=kubectl)
        finally:
            # One that is stuck would hold its namespace for ever: no pod can be made there any more.
            for name in kubectl("get", "workflows", "-n", HERE, "-o", "name").splitlines():
                kubectl("patch", name, "-n", HERE, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
            namespaces.remove(HERE)
            kubectl("delete", "controllertemplate", TEMPLATE)


def test_artifacts_are_deleted_when_their_workflow_has_ended(scene: Scene) -> None:
    """The object was in the bucket and is not, and the Workflow has no finalizer that keeps it."""
    workflows.succeeded(scene.api, scene.submit("ended", strategy="OnWorkflowCompletion"))

    def let_go() -> Object:
        live = scene.workflow("ended")
        assert live is not None
        assert FINALIZER not in live["metadata"].get("finalizers", ()), live["status"].get("artifactGCStatus")
        return live

    live = eventually(let_go)
    assert live["status"]["artifactGCStatus"]["strategiesProcessed"]["OnWorkflowCompletion"]
    assert scene.was_stored("ended")
    assert not scene.stored("ended")


def test_a_workflow_that_is_deleted_takes_its_artifacts_along_and_really_goes(scene: Scene) -> None:
    """Labels of its own for these pods leave ours where it is, and an account of its own needs no rights of its own."""
    own = {"podMetadata": {"labels": {"team": "a"}}, "serviceAccountName": "collector"}
    live = workflows.succeeded(scene.api, scene.submit("deleted", strategy="OnWorkflowDeletion", **own))
    assert FINALIZER in live["metadata"]["finalizers"]
    assert scene.stored("deleted")
    scene.kubectl("delete", "workflow", "deleted", "-n", HERE, "--wait=false")

    seen: dict[str, Object] = {}

    def gone() -> None:
        seen.update({pod["metadata"]["name"]: pod for pod in scene.collectors("deleted")})
        assert scene.workflow("deleted") is None

    eventually(gone)
    assert not scene.stored("deleted")
    (pod,) = seen.values()
    assert pod["spec"]["serviceAccountName"] == "collector"
    assert pod["metadata"]["labels"] | {"team": "a", INSTANCE_ID: HERE} == pod["metadata"]["labels"]


def test_a_workflow_that_is_stuck_is_let_go(
    scene: Scene, installation: Installation, namespaces: Namespaces, kubectl: Kubectl, audit: Audit
) -> None:
    """A child without the set's label, as people run it by hand, leaves one stuck; the operator comes, and it goes."""
    installation.scale(0)
    try:
        _without_the_label(kubectl)
        workflows.succeeded(scene.api, scene.submit("stuck", strategy="OnWorkflowDeletion"))
        kubectl("delete", "workflow", "stuck", "-n", HERE, "--wait=false")
        pod = eventually(lambda: _ended(scene))
        assert INSTANCE_ID not in pod["metadata"]["labels"]
        assert not scene.stored("stuck")
        # The child lives, and takes no note of the pod.
        workflows.succeeded(scene.api, scene.submit("another", strategy="Never"))
        live = scene.workflow("stuck")
        assert live is not None
        assert FINALIZER in live["metadata"]["finalizers"]
        assert f"does not see Pod/{HERE}/{pod['metadata']['name']}" in _explained("stuck")
    finally:
        mark = audit.mark()
        installation.scale(2)

    def gone() -> None:
        assert scene.workflow("stuck") is None

    eventually(gone)
    written = [each for each in audit.writes(mark) if auditing.target(each)[0] == "pods"]
    assert {auditing.target(each) for each in written} == {("pods", HERE, pod["metadata"]["name"])}
    namespaces.ready(HERE)


def test_a_workflow_whose_account_was_not_there_is_let_go_as_troubleshooting_says(scene: Scene) -> None:
    """Argo tries once to make the pod that deletes artifacts, and takes a refusal for done."""
    own = {"serviceAccountName": "later"}
    workflows.succeeded(scene.api, scene.submit("refused", strategy="OnWorkflowDeletion", **own))
    scene.kubectl("delete", "workflow", "refused", "-n", HERE, "--wait=false")

    def tried() -> None:
        live = scene.workflow("refused")
        assert live is not None
        processed = live["status"]["artifactGCStatus"].get("strategiesProcessed") or {}
        assert processed.get("OnWorkflowDeletion")

    eventually(tried)
    scene.kubectl("create", "serviceaccount", "later", "-n", HERE)
    # Later work of the child's, and it has not tried again.
    workflows.succeeded(scene.api, scene.submit("after", strategy="Never"))
    assert not scene.collectors("refused")
    assert scene.stored("refused")
    assert "Argo tries once to make it" in _explained("refused")
    # It does not see the list that it made for that pod, and would stumble over it.
    scene.kubectl("delete", "-n", HERE, *_lists(scene.kubectl, "refused"))
    patch = json.dumps({"status": {"artifactGCStatus": {"strategiesProcessed": None}}})
    scene.kubectl("patch", "workflow", "refused", "-n", HERE, "--type=merge", "-p", patch)

    def gone() -> None:
        assert scene.workflow("refused") is None

    eventually(gone)
    assert not scene.stored("refused")


def _explained(name: str) -> str:
    """Ask why it does not go."""
    done = metaoperator("explain", "workflow", f"{HERE}/{name}")
    assert done.returncode == 1, done.stderr
    return done.stdout


def _lists(kubectl: Kubectl, name: str) -> list[str]:
    """Name the lists of artifacts that are to be deleted for one Workflow."""
    there = kubectl("get", "workflowartifactgctasks", "-n", HERE, "-o", "name").splitlines()
    return [each for each in there if f"/{name}-artgc-" in each]


def _without_the_label(kubectl: Kubectl) -> None:
    """Have the child run on a configuration as Argo's own manifests give it, with an instance ID."""
    taken_up = _configured(kubectl)
    live = kubectl.json("get", "configmap", "workflow-controller-configmap", "-n", HERE)
    config = yaml.safe_load(live["data"]["config"])
    del config["workflowDefaults"]
    patch = json.dumps({"data": {"config": yaml.safe_dump(config)}})
    kubectl("patch", "configmap", "workflow-controller-configmap", "-n", HERE, "--type=merge", "-p", patch)

    def taken() -> None:
        assert _configured(kubectl) > taken_up

    eventually(taken)


def _configured(kubectl: Kubectl) -> int:
    """Count how often the child took up its configuration."""
    return kubectl("logs", f"deployment/{CHILD}", "-n", HERE).count("Configuration updated")


def _ended(scene: Scene) -> Object:
    pods = scene.collectors("stuck")
    assert pods, "no pod deletes its artifacts yet"
    (pod,) = pods
    assert pod["status"]["phase"] == "Succeeded", pod["status"]
    return pod
