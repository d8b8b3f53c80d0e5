"""R30, R40: what the real API server refuses is told in its own sentence, and heals without a restart."""

import json
from typing import Any

from tests.e2e.local import NAMESPACE_UID, OPERATOR, Api, Kubectl, condition, eventually
from tests.e2e.namespaces import CHILD, Namespaces


def refused(namespaces: Namespaces, name: str, reason: str, *parts: str) -> dict[str, Any]:
    """Wait until READY is False for this reason, in a message with all these parts."""

    def check() -> dict[str, Any]:
        row = namespaces.row(name)
        assert row is not None, f"{name} has no WorkflowController"
        found = condition(row, "Ready")
        assert (found.get("status"), found.get("reason")) == ("False", reason), dict(found)
        for part in parts:
            assert part in found["message"], found["message"]
        return row

    return eventually(check, seconds=60)


def quota(kubectl: Kubectl, namespace: str, **hard: str) -> None:
    """Make or change a ResourceQuota, and wait until it counts."""
    spec = {"hard": {key.replace("__", "/").replace("_", "."): value for key, value in hard.items()}}
    meta = {"name": "q", "namespace": namespace}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": spec}
    kubectl("apply", "--server-side", "-f", "-", stdin=body)

    def counted() -> None:
        live = kubectl.json("get", "resourcequota", "q", "-n", namespace)
        assert (live.get("status") or {}).get("hard") == spec["hard"], live.get("status")

    eventually(counted, seconds=60)


def test_quotas_and_ranges_are_told_and_heal(namespaces: Namespaces, kubectl: Kubectl) -> None:
    """R30's namespaces: objects that a quota refuses, and pods that a quota or a LimitRange refuses."""
    spaces = ("e2e-counted", "e2e-tight", "e2e-minimums")
    namespaces.make(*spaces)
    counted, tight, minimums = spaces
    quota(kubectl, counted, count__deployments_apps="0")
    quota(kubectl, tight, requests_cpu="1m")
    limit = {"type": "Container", "min": {"memory": "64Gi"}}
    meta = {"name": "l", "namespace": minimums}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": [limit]}}
    kubectl("create", "-f", "-", stdin=limits)
    for name in spaces:
        namespaces.label(name, "enabled")

    sentence = "exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=0"
    refused(namespaces, counted, "QuotaExceeded", f"Deployment/{counted}/{CHILD}: ", sentence, "raise the quota")
    again = "rollout restart deployment/workflow-controller"
    refused(namespaces, tight, "PodRefused", "exceeded quota: q, requested: requests.cpu=", again)
    refused(namespaces, minimums, "PodRefused", "minimum memory usage per Container is 64Gi", again)
    assert [event["type"] for event in namespaces.events("PodRefused", CHILD)] == ["Warning", "Warning"]

    quota(kubectl, counted, count__deployments_apps="5")
    quota(kubectl, tight, requests_cpu="5")
    kubectl("delete", "limitrange", "l", "-n", minimums)
    for name in (tight, minimums):  # as the message says
        kubectl("-n", name, "rollout", "restart", "deployment/workflow-controller")
    for name in spaces:
        namespaces.ready(name, seconds=310)
    namespaces.remove(*spaces)


def test_the_real_child_runs_where_pod_security_is_restricted(
    namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """Also with audit and warn at that level: not one word of it about the child."""
    name = "e2e-strict"
    namespaces.make(name)
    level = [f"pod-security.kubernetes.io/{mode}=restricted" for mode in ("enforce", "audit", "warn")]
    kubectl("label", "namespace", name, *level)
    namespaces.label(name, "enabled")
    namespaces.ready(name)
    pods = [pod for pod in api.objects("v1/pods", name) if pod["status"].get("phase") == "Running"]
    assert len(pods) == 1
    assert "PodSecurity" not in json.dumps(api.objects("v1/events", name))
    namespaces.remove(name)


def test_without_bind_the_operator_says_that_its_own_set_up_is_at_fault(
    namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """Every rule that is missing is named, no pod runs without permissions, others go on, and a grant heals it."""
    name = "e2e-unbound"
    role = kubectl.json("get", "clusterrole", OPERATOR)
    less = [rule for rule in role["rules"] if "bind" not in rule["verbs"]]
    assert len(less) == len(role["rules"]) - 1
    kubectl("patch", "clusterrole", OPERATOR, "--type=merge", "-p", json.dumps({"rules": less}))
    try:
        namespaces.make(name, opt_in="enabled")
        refused(
            namespaces,
            name,
            "OperatorForbidden",
            f"RoleBinding/{name}/{CHILD}: ",
            f'user "system:serviceaccount:{OPERATOR}:{OPERATOR}"',
            "is attempting to grant RBAC permissions not currently held",
            'Resources:["workflows"], Verbs:[',
            "the operator's own set-up lacks this permission",
        )
        assert api.object("apps/v1/deployments", name, CHILD) is None
        account = api.object("v1/serviceaccounts", name, CHILD)
        assert account is not None
        assert NAMESPACE_UID in account["metadata"]["annotations"]
    finally:
        kubectl("patch", "clusterrole", OPERATOR, "--type=merge", "-p", json.dumps({"rules": role["rules"]}))
    namespaces.ready(name, seconds=310)
    namespaces.remove(name)
