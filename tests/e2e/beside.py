"""A cluster-wide workflow-controller as somebody installs it by hand, beside which namespaces opt in and out."""

from .local import MANIFESTS, Api, Kubectl, Object, eventually
from .namespaces import CHILD, Namespaces

ARGO = "e2e-argo"
"""Its namespace."""
FOREIGN = MANIFESTS / "foreign.yaml"
WHO = f"Deployment/{ARGO}/workflow-controller"
"""How the product names it."""


def install(namespaces: Namespaces, kubectl: Kubectl, api: Api) -> None:
    """Run it without an instance ID, from the same image as the children's, and wait until it leads."""
    namespaces.make(ARGO)
    namespaces.ready("e2e-main")
    child = api.object("apps/v1/deployments", "e2e-main", CHILD)
    assert child is not None
    image = child["spec"]["template"]["spec"]["containers"][0]["image"]
    kubectl("apply", "--server-side", "-f", FOREIGN)
    executor = image.replace("workflow-controller", "argoexec")
    kubectl("apply", "--server-side", "-f", "-", stdin=deployment(image, executor))
    leads(api, "workflow-controller")


def remove(namespaces: Namespaces, kubectl: Kubectl, *others: str) -> None:
    """Take it away, with these namespaces: what comes next finds no controller, but perhaps the rest of a namespace."""
    kubectl("delete", "--ignore-not-found", "--wait=false", "-f", FOREIGN)
    namespaces.remove(*others)
    namespaces.remove(ARGO, wait=True)


def lets_executors_report(kubectl: Kubectl, namespace: str) -> None:
    """Give a namespace's pods what the executors of that controller need there."""
    kubectl(
        "create", "rolebinding", "by-hand", "-n", namespace, "--clusterrole=metaoperator-workflow-executor-v1",
        f"--serviceaccount={namespace}:default",
    )  # fmt: skip


def deployment(image: str, executor: str) -> Object:
    """Build the Deployment of Argo's own manifests, election on, with the image of this cluster.

    It looks at a Workflow again after 1 s, not 10: each that it runs would take so much longer, and nothing else.
    """
    labels = {"app": "workflow-controller"}
    identity = {
        "name": "LEADER_ELECTION_IDENTITY",
        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
    }
    container = {
        "name": "workflow-controller",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["workflow-controller"],
        "args": ["--executor-image", executor, "--executor-image-pull-policy", "IfNotPresent"],
        "env": [identity, {"name": "DEFAULT_REQUEUE_TIME", "value": "1s"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "workflow-controller", "namespace": ARGO},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": "argo",
                    "terminationGracePeriodSeconds": 2,
                    "containers": [container],
                },
            },
        },
    }


def leads(api: Api, lease: str) -> None:
    """Wait until the foreign controller leads under a Lease of this name."""

    def check() -> None:
        live = api.object("coordination.k8s.io/v1/leases", ARGO, lease)
        assert live is not None, f"no Lease {lease}"
        pods = {pod["metadata"]["name"] for pod in api.objects("v1/pods", ARGO)}
        assert live["spec"].get("holderIdentity") in pods

    eventually(check)
