"""What is gained by a change is told, and nothing that is not: object by object."""

from collections.abc import Mapping
from typing import Any

import pytest

from metaoperator.core.widening import widened

RBAC = "rbac.authorization.k8s.io/v1"
TIGHT = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def an_object(kind: str, api: str = "v1", **fields: Any) -> dict[str, Any]:
    """Build an object."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "x", "namespace": "team-a"}, **fields}


def binding(role: str = "view", *subjects: str) -> dict[str, Any]:
    """Build a RoleBinding of ServiceAccounts."""
    return an_object(
        "RoleBinding",
        RBAC,
        roleRef={"kind": "ClusterRole", "name": role},
        subjects=[{"kind": "ServiceAccount", "name": each} for each in subjects],
    )


def role(**rule: Any) -> dict[str, Any]:
    """Build a Role of one rule."""
    return an_object("Role", RBAC, rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]} | rule])


def deployment(context: Mapping[str, Any] | None = None, *, container: Any = None, **pod: Any) -> dict[str, Any]:
    """Build a Deployment of one container."""
    main = {"name": "main", "securityContext": TIGHT if context is None else context, **(container or {})}
    return an_object("Deployment", "apps/v1", spec={"template": {"spec": {"containers": [main], **pod}}})


def without(key: str) -> dict[str, Any]:
    """Leave a guard out."""
    return {name: value for name, value in TIGHT.items() if name != key}


HOST = [{"name": "h", "hostPath": {"path": "/var/run"}}]
SECRET = [{"name": "s", "projected": {"sources": [{"secret": {"name": "keys"}}]}}]
CASES: dict[str, tuple[Any, Any, list[str]]] = {
    "a new binding": (
        None,
        binding("edit", "a"),
        ["RoleBinding/x: gives the rights of ClusterRole edit to ServiceAccount a"],
    ),
    "another role": (
        binding("view", "a"),
        binding("edit", "a"),
        ["RoleBinding/x: gives the rights of ClusterRole edit in place of ClusterRole view to ServiceAccount a"],
    ),
    "one more subject": (
        binding("view", "a"),
        binding("view", "a", "b"),
        ["RoleBinding/x: gives the rights of ClusterRole view to ServiceAccount b as well"],
    ),
    "one subject less": (binding("view", "a", "b"), binding("view", "a"), []),
    "a binding that goes": (binding("view", "a"), None, []),
    "a further verb": (role(), role(verbs=["get", "list"]), ["Role/x: allows list pods"]),
    "a verb within a wider one": (role(verbs=["*"]), role(verbs=["get", "list"]), []),
    "a right on all that was on one": (role(resourceNames=["a"]), role(), ["Role/x: allows get pods"]),
    "a right on one that was on all": (role(), role(resourceNames=["a"]), []),
    "everything": (role(), role(resources=["*"], verbs=["*"]), ["Role/x: allows * *"]),
    "an URL": (role(), role(nonResourceURLs=["/metrics"]), ["Role/x: allows /metrics"]),
    "other roles' rules": (
        an_object("ClusterRole", RBAC),
        an_object("ClusterRole", RBAC, aggregationRule={"clusterRoleSelectors": []}),
        ["ClusterRole/x: takes in the rules of other ClusterRoles"],
    ),
    "a token": (
        an_object("ServiceAccount", automountServiceAccountToken=False),
        an_object("ServiceAccount"),
        ["ServiceAccount/x: its token is mounted into pods that do not refuse it"],
    ),
    "an account as it was": (an_object("ServiceAccount"), an_object("ServiceAccount"), []),
    "a cloud role": (
        None,
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "x", "annotations": {"eks.amazonaws.com/role-arn": "arn:x"}},
        },
        ["ServiceAccount/x: acts outside of the cluster as arn:x (eks.amazonaws.com/role-arn)"],
    ),
    "a policy that goes": (
        an_object("NetworkPolicy", "networking.k8s.io/v1"),
        None,
        ["NetworkPolicy/x: nothing restricts its pods' network any more"],
    ),
    "another image": (deployment(), deployment(container={"image": "evil"}), []),
    "a new Deployment, guarded": (None, deployment(), []),
    "a new Deployment, not guarded": (None, deployment({}), []),
    "another account": (
        deployment(serviceAccountName="a"),
        deployment(serviceAccountName="b"),
        ["Deployment/x: runs as ServiceAccount b in place of a"],
    ),
    "a token in the pod": (
        deployment(automountServiceAccountToken=False),
        deployment(),
        ["Deployment/x: has its ServiceAccount's token mounted"],
    ),
    "the host's network": (None, deployment(hostNetwork=True), ["Deployment/x: uses its node's own (hostNetwork)"]),
    "the host's files": (
        deployment(),
        deployment(volumes=HOST),
        ["Deployment/x: mounts /var/run of its node (hostPath)"],
    ),
    "the host's files, as before": (deployment(volumes=HOST), deployment(volumes=HOST), []),
    "a Secret": (deployment(), deployment(volumes=SECRET), ["Deployment/x: mounts Secret keys"]),
    "privileged": (
        deployment(),
        deployment({**TIGHT, "privileged": True}),
        ["Deployment/x: container main is privileged"],
    ),
    "a capability": (
        deployment(),
        deployment({**TIGHT, "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}}),
        ["Deployment/x: container main gains the capabilities NET_ADMIN"],
    ),
    "capabilities kept": (
        deployment(),
        deployment(without("capabilities")),
        ["Deployment/x: container main no longer drops the capabilities ALL"],
    ),
    "escalation": (
        deployment(),
        deployment(without("allowPrivilegeEscalation")),
        ["Deployment/x: container main may gain privileges (allowPrivilegeEscalation)"],
    ),
    "a file system to write to": (
        deployment(),
        deployment(without("readOnlyRootFilesystem")),
        ["Deployment/x: container main may write to its root file system"],
    ),
    "root": (
        deployment(),
        deployment({**TIGHT, "runAsUser": 0}),
        ["Deployment/x: container main runs as root (runAsUser: 0)"],
    ),
    "root, perhaps": (
        deployment(),
        deployment(without("runAsNonRoot")),
        ["Deployment/x: container main may run as root (runAsNonRoot falls away)"],
    ),
    "any system call": (
        deployment(),
        deployment(without("seccompProfile")),
        ["Deployment/x: container main may make any system call (seccompProfile RuntimeDefault falls away)"],
    ),
    "a guard of the whole pod": (
        deployment(securityContext={"runAsNonRoot": True}),
        deployment(),
        ["Deployment/x: may run as root (runAsNonRoot falls away)"],
    ),
    "a port of the node": (
        deployment(),
        deployment(container={"ports": [{"containerPort": 1, "hostPort": 80}]}),
        ["Deployment/x: container main listens on its node's ports 80"],
    ),
    "/proc": (
        deployment(),
        deployment({**TIGHT, "procMount": "Unmasked"}),
        ["Deployment/x: container main sees /proc unmasked"],
    ),
    "nothing at all": (None, None, []),
    "a kind without pods": (None, an_object("ConfigMap"), []),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_gained_is_told(case: str) -> None:
    """And the way back gains nothing of it."""
    before, after, expected = CASES[case]
    assert widened(before, after) == expected


def test_a_job_on_a_schedule_has_a_pod_too() -> None:
    """Whatever kind a set renders: where its pod's spec stands is known."""
    pod = {"hostPID": True, "containers": []}
    job = an_object("CronJob", "batch/v1", spec={"jobTemplate": {"spec": {"template": {"spec": pod}}}})
    assert widened(None, job) == ["CronJob/x: uses its node's own (hostPID)"]
    assert widened(None, an_object("Pod", spec=pod)) == ["Pod/x: uses its node's own (hostPID)"]
