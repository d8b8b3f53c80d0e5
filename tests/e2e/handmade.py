"""A workflow-controller of one namespace as people install it by hand: the shape of Argo's own namespace-install."""

from .local import Object

NAME, CONFIG, ACCOUNT = "workflow-controller", "workflow-controller-configmap", "argo"
RULES = "metaoperator-workflow-controller-v1"
"""The rules of Argo's own Role, under the name that the fleet bundle has for them."""
_RBAC = "rbac.authorization.k8s.io"


def stock(namespace: str, *, image: str, executor: str, instance_id: str) -> list[Object]:
    """Build its objects: account, rights, configuration and Deployment, with names and labels that Argo gives them."""

    def meta(name: str) -> Object:
        return {"name": name, "namespace": namespace}

    labels = {"app": NAME}
    fields = {"apiVersion": "v1", "fieldPath": "metadata.name"}
    container = {
        "name": NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": [NAME],
        "args": ["--namespaced", "--executor-image", executor, "--executor-image-pull-policy", "IfNotPresent"],
        "env": [{"name": "LEADER_ELECTION_IDENTITY", "valueFrom": {"fieldRef": fields}}],
        "ports": [{"name": "metrics", "containerPort": 9090}, {"containerPort": 6060}],
    }
    pod = {
        "serviceAccountName": ACCOUNT,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": {"runAsNonRoot": True},
        "containers": [container],
    }
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(ACCOUNT)},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": meta("argo-binding"),
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": RULES},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta(CONFIG),
            "data": {"instanceID": instance_id, "parallelism": "50"},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta(NAME),
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]
