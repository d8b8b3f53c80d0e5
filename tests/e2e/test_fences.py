"""The fences deny what they say, to real users with real tokens, and let pass what they should."""

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from metaoperator.core import names
from tests.e2e import workflows
from tests.e2e.local import INSTANCE_ID, NAMESPACE_UID, OPERATOR, Api, Kubectl, Object, condition, eventually
from tests.e2e.namespaces import CHILD, MADE_BY_TESTS, Namespaces

SERVED, LEAVING, OUT = "e2e-fenced", "e2e-fenced-leaving", "e2e-fenced-out"
"""Opted in; opted out and kept by an unfinished Workflow; never opted in."""

CORE, APPS, BATCH = "/api/v1", "/apis/apps/v1", "/apis/batch/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ARGO = "/apis/argoproj.io/v1alpha1"
OURS = "/apis/metaoperator.dev/v1alpha1"
MERGE = "application/merge-patch+json"

# Rights that each person gets in all three namespaces, besides those that the bundles give.
PEOPLE = {
    # Also what a thief of the operator's token could be given by mistake: the fences are all that is left.
    "operator": "cluster-admin",
    "tenant": "edit",
    "values": "metaoperator-values",
    "platform": "metaoperator-administer",
}
CONTROLLERS = "system:kube-controller-manager"
"""The user of all of Kubernetes' controllers, in a cluster that does not give each a ServiceAccount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Namespaces, tokens and what is in them."""

    api: Api
    tokens: Mapping[str, str]
    uids: Mapping[str, str]
    pod: str
    replica_set: str
    account_uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One request; with `fence`, the policy that denies it."""

    who: str
    method: str
    path: str
    body: Any = None
    fence: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    code: int = 0
    says: str = ""


def _people(kubectl: Kubectl, api: Api) -> Mapping[str, str]:
    """Make a ServiceAccount for each person, with rights in the three namespaces, and return their tokens."""
    tokens = {}
    items: list[Object] = []
    for person, role in PEOPLE.items():
        home = OPERATOR if person == "operator" else OUT
        account = OPERATOR if person == "operator" else f"e2e-{person}"
        if person != "operator":
            kubectl("create", "serviceaccount", account, "-n", home)
        subject = {"kind": "ServiceAccount", "name": account, "namespace": home}
        extra = ["edit"] if person == "platform" else []
        for namespace in (SERVED, LEAVING, OUT):
            items += [_grant(namespace, f"e2e-{person}-{each}", each, subject) for each in [role, *extra, "e2e-argo"]]
        tokens[person] = kubectl("create", "token", account, "-n", home, "--duration=1h").strip()
    controllers = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": CONTROLLERS}
    items.append(_grant(SERVED, "e2e-controllers", "edit", controllers))
    kubectl("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": items})
    return tokens


def _grant(namespace: str, name: str, role: str, subject: Object) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


# What whoever uses Argo holds, as Argo's own aggregated roles would give it.
ARGO_USER: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "e2e-argo", "labels": {MADE_BY_TESTS: "yes"}},
    "rules": [
        {
            "apiGroups": ["argoproj.io"],
            "resources": ["workflows", "cronworkflows"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        },
        # More than most hold, so that it is the fence that says no.
        {"apiGroups": ["metaoperator.dev"], "resources": ["workflowcontrollers"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["patch"]},
    ],
}


@pytest.fixture(scope="module")
def scene(namespaces: Namespaces, kubectl: Kubectl, api: Api) -> Iterator[Scene]:
    """Set the stage: a served, a draining and a foreign namespace, and five people."""
    namespaces.make(SERVED, LEAVING, opt_in="enabled")
    namespaces.make(OUT)
    kubectl("apply", "-f", "-", stdin=ARGO_USER)
    try:
        tokens = _people(kubectl, api)
        for name in (SERVED, LEAVING):
            namespaces.ready(name)
        workflows.submit(kubectl, LEAVING, workflows.one_step("unfinished", suspended=True))
        kubectl("create", "serviceaccount", f"{CHILD}-1", "-n", SERVED)
        # Where nobody is served, a hand-made controller has every right to our names.
        for kind in (("serviceaccount", CHILD), ("configmap", "theirs", "--from-literal=a=b")):
            kubectl("create", *kind, "-n", OUT)
        kubectl("create", "-f", "-", stdin=_row(OUT, paused=True))
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "theirs"}}
        kubectl("create", "-n", OUT, "-f", "-", stdin=lease)
        completed = {INSTANCE_ID: OUT, names.COMPLETED_LABEL: "true"}
        for name, labels in {
            "theirs": {INSTANCE_ID: OUT},
            "fleets": {INSTANCE_ID: names.FLEET_INSTANCE_ID},
            "others": {INSTANCE_ID: "other"},
            "finished": completed,
            "bare": {},
        }.items():
            kubectl("create", "-n", OUT, "-f", "-", stdin=workflows.one_step(name, labels=labels))
        schedule = workflows.one_step("schedule", kind="CronWorkflow", labels={INSTANCE_ID: OUT})
        kubectl("create", "-n", OUT, "-f", "-", stdin=schedule)
        namespaces.label(LEAVING, None)
        eventually(lambda: _drains(namespaces))
        pods = api.objects("v1/pods", SERVED, query="labelSelector=app.kubernetes.io%2Fmanaged-by%3Dmetaoperator")
        (pod,) = [each["metadata"] for each in pods if "deletionTimestamp" not in each["metadata"]]
        account = api.object("v1/serviceaccounts", SERVED, CHILD)
        assert account is not None
        yield Scene(
            api=api,
            tokens=tokens,
            uids={name: namespaces.uid(name) for name in (SERVED, LEAVING, OUT, OPERATOR, "kube-system")},
            pod=pod["name"],
            replica_set=pod["ownerReferences"][0]["name"],
            account_uid=account["metadata"]["uid"],
        )
    finally:
        kubectl("delete", "clusterrole", "e2e-argo")
        # The child that drains goes once its Workflow is gone; both leave with their namespaces.
        namespaces.remove(SERVED, LEAVING, OUT)


def _drains(namespaces: Namespaces) -> None:
    row = namespaces.row(LEAVING)
    assert row is not None
    assert condition(row, "Reconciling").get("reason") == "Draining"


# ---- what is sent


def _meta(scene: Scene, namespace: str, name: str = "e2e-fence", *, mark: str | None = None) -> Object:
    """Write an object's metadata, with our mark of a namespace's UID."""
    meta: Object = {"name": name, "namespace": namespace}
    if mark is not None:
        meta["labels"] = {names.MANAGED_BY_LABEL: names.MANAGED_BY}
        meta["annotations"] = {NAMESPACE_UID: scene.uids.get(mark, mark)}
    return meta


def _config_map(scene: Scene, namespace: str, **more: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(scene, namespace, **more)}


def _pod_spec(account: str = "", **more: Any) -> Object:
    spec: Object = {"containers": [{"name": "main", "image": workflows.BUSYBOX, **more.pop("container", {})}], **more}
    return spec | ({"serviceAccountName": account} if account else {})


def _template(account: str = "", **more: Any) -> Object:
    return {"metadata": {"labels": {"app": "e2e"}}, "spec": _pod_spec(account, **more)}


def _workload(kind: str, template: Object, meta: Object | None = None) -> Object:
    """Write a workload of any kind around a pod template."""
    head: Object = {"kind": kind, "metadata": meta or {"name": "e2e-fence"}}
    selector = {"selector": {"matchLabels": {"app": "e2e"}}}
    once = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    match kind:
        case "Pod":
            return {**head, "apiVersion": "v1", "spec": template["spec"]}
        case "ReplicationController":
            return {**head, "apiVersion": "v1", "spec": {"template": template}}
        case "Job":
            return {**head, "apiVersion": "batch/v1", "spec": {"template": once}}
        case "CronJob":
            job = {"spec": {"template": once}}
            return {**head, "apiVersion": "batch/v1", "spec": {"schedule": "0 0 1 1 *", "jobTemplate": job}}
        case "StatefulSet":
            return {**head, "apiVersion": "apps/v1", "spec": {**selector, "serviceName": "e2e", "template": template}}
        case _:
            return {**head, "apiVersion": "apps/v1", "spec": {**selector, "template": template}}


COLLECTIONS = {
    "Pod": f"{CORE}/namespaces/{{}}/pods",
    "ReplicationController": f"{CORE}/namespaces/{{}}/replicationcontrollers",
    "Deployment": f"{APPS}/namespaces/{{}}/deployments",
    "ReplicaSet": f"{APPS}/namespaces/{{}}/replicasets",
    "StatefulSet": f"{APPS}/namespaces/{{}}/statefulsets",
    "DaemonSet": f"{APPS}/namespaces/{{}}/daemonsets",
    "Job": f"{BATCH}/namespaces/{{}}/jobs",
    "CronJob": f"{BATCH}/namespaces/{{}}/cronjobs",
}


def _run(who: str, kind: str, namespace: str, account: str, fence: str = "") -> Act:
    """Run something under an account."""
    body = _workload(kind, _template(account))
    return Act(who=who, method="POST", path=COLLECTIONS[kind].format(namespace), body=body, fence=fence)


def _running(_: Scene, *, kind: str, account: str, fence: str = "") -> Act:
    """Run something as a tenant, in the namespace that is served."""
    return _run("tenant", kind, SERVED, account, fence)


def _gets(scene: Scene, *, how: str) -> Act:
    """Reach into the child's pod as a tenant."""
    path = f"{CORE}/namespaces/{SERVED}/pods/{scene.pod}/{how}"
    return Act(who="tenant", method="GET", path=path, fence=ACCESS)


def _ours(scene: Scene, fence: str = "", *, account: str = CHILD, **more: Any) -> Act:
    """Run something as the operator, in the namespace that it serves."""
    body = _workload("Deployment", _template(account, **more), _meta(scene, SERVED, mark=SERVED))
    path = COLLECTIONS["Deployment"].format(SERVED)
    return Act(who="operator", method="POST", path=path, body=body, fence=fence)


def _bind(scene: Scene, role: str, subject: Object, fence: str = "", kind: str = "ClusterRole") -> Act:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
    body = {"metadata": _meta(scene, SERVED, mark=SERVED), "roleRef": ref, "subjects": [subject]}
    path = f"{RBAC}/namespaces/{SERVED}/rolebindings"
    return Act(who="operator", method="POST", path=path, body=body, fence=fence)


def _patch(who: str, path: str, body: Any, fence: str = "", **more: Any) -> Act:
    return Act(who=who, method="PATCH", path=path, body=body, fence=fence, headers={"Content-Type": MERGE}, **more)


def _image(image: str = "example.org/evil:1", container: str = "workflow-controller") -> Object:
    return {"containers": [{"name": container, "image": image}]}


def _row(namespace: str, **spec: Any) -> Object:
    meta = {"name": CHILD, "namespace": namespace}
    return {"apiVersion": names.API_VERSION, "kind": "WorkflowController", "metadata": meta, "spec": spec}


def _strategic(who: str, path: str, body: Any, fence: str = "") -> Act:
    kind = {"Content-Type": "application/strategic-merge-patch+json"}
    return Act(who=who, method="PATCH", path=path, body=body, fence=fence, headers=kind)


def _token_secret(account: str) -> Object:
    annotations = {"kubernetes.io/service-account.name": account}
    return {
        "metadata": {"name": "e2e-token", "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    }


def _made_by_kubernetes(
    kind: str, owner_kind: str, owner: str, account_uid: str, fence: str = "", account: str = CHILD
) -> Act:
    """Make a pod or ReplicaSet as a controller-manager does that has one user for all its controllers."""
    template = _template(account)
    template["metadata"]["annotations"] = {names.ACCOUNT_ANNOTATION: account_uid}
    body = _workload(kind, template)
    body["metadata"]["annotations"] = template["metadata"]["annotations"]
    body["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": owner_kind, "name": owner, "uid": "u", "controller": True}
    ]
    who = {"Impersonate-User": CONTROLLERS}
    return Act(who="admin", method="POST", path=COLLECTIONS[kind].format(SERVED), body=body, headers=who, fence=fence)


OPERATOR_WRITES = "metaoperator-operator-writes"
ACCOUNTS, PODS, BINDINGS = (f"metaoperator-operator-{each}" for each in ("accounts", "pods", "rolebindings"))
THEIR_WORKFLOWS = "metaoperator-operator-workflows"
CHILD_PODS, CHILD_WORKLOADS = "metaoperator-child-pods", "metaoperator-child-workloads"
CREDENTIALS, ACCESS = "metaoperator-child-credentials", "metaoperator-child-access"
FIELDS = "metaoperator-platform-fields"
CHILD_ACCOUNTS = "metaoperator-accounts"

CMS = f"{CORE}/namespaces/{{}}/configmaps"
SAS = f"{CORE}/namespaces/{{}}/serviceaccounts"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
ROW = f"{OURS}/namespaces/{{}}/workflowcontrollers/{CHILD}"
THEIR_WORKFLOW = f"{ARGO}/namespaces/{OUT}/workflows/theirs"
DEPLOYMENT = f"{APPS}/namespaces/{SERVED}/deployments/{CHILD}"
EXECUTORS = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": f"system:serviceaccounts:{SERVED}"}


def _post(who: str, path: str, body: Any, fence: str = "", **more: Any) -> Act:
    return Act(who=who, method="POST", path=path, body=body, fence=fence, **more)


ACTS: dict[str, Callable[[Scene], Act]] = {
    # The operator, or who has its token: where it writes.
    "it creates where the label is": lambda s: _post(
        "operator", CMS.format(SERVED), _config_map(s, SERVED, mark=SERVED)
    ),
    "it creates nothing where the label is not": lambda s: _post(
        "operator",
        CMS.format(OUT),
        _config_map(s, OUT, mark=OUT),
        OPERATOR_WRITES,
        says=f"namespace {OUT} is not opted",
    ),
    "it creates nothing where the label was": lambda s: _post(
        "operator", CMS.format(LEAVING), _config_map(s, LEAVING, mark=LEAVING), OPERATOR_WRITES
    ),
    "it creates nothing in kube-system": lambda s: _post(
        "operator", CMS.format("kube-system"), _config_map(s, "kube-system", mark="kube-system"), OPERATOR_WRITES
    ),
    "it creates nothing without its mark": lambda s: _post(
        "operator", CMS.format(SERVED), _config_map(s, SERVED), OPERATOR_WRITES, says="its mark"
    ),
    "it creates nothing with the mark of another namespace": lambda s: _post(
        "operator", CMS.format(SERVED), _config_map(s, SERVED, mark=OUT), OPERATOR_WRITES
    ),
    "it creates in its own namespace": lambda s: _post(
        "operator", CMS.format(OPERATOR), _config_map(s, OPERATOR, mark=OPERATOR)
    ),
    "it changes what carries its mark": lambda _: _patch(
        "operator", f"{CMS.format(SERVED)}/workflow-controller-configmap", {"data": {"a": "b"}}
    ),
    "it changes nothing of others, also where it serves": lambda _: _patch(
        "operator", f"{CMS.format(SERVED)}/kube-root-ca.crt", {"data": {"a": "b"}}, OPERATOR_WRITES
    ),
    "it changes nothing of others elsewhere": lambda _: _patch(
        "operator", f"{CMS.format(OUT)}/theirs", {"data": {"a": "b"}}, OPERATOR_WRITES
    ),
    "it puts its mark on nothing of others": lambda s: _patch(
        "operator", f"{CMS.format(OUT)}/theirs", {"metadata": _meta(s, OUT, "theirs", mark=OUT)}, OPERATOR_WRITES
    ),
    "it takes its mark off nothing": lambda _: _patch(
        "operator",
        f"{CMS.format(SERVED)}/workflow-controller-configmap",
        {"metadata": {"labels": {names.MANAGED_BY_LABEL: None}}},
        OPERATOR_WRITES,
    ),
    "it deletes what carries its mark, also where the label was": lambda _: Act(
        who="operator", method="DELETE", path=f"{CMS.format(LEAVING)}/workflow-controller-configmap"
    ),
    "it deletes nothing of others": lambda _: Act(
        who="operator", method="DELETE", path=f"{CMS.format(OUT)}/theirs", fence=OPERATOR_WRITES
    ),
    "it deletes no object of others of a name that it uses": lambda _: Act(
        who="operator", method="DELETE", path=f"{CORE}/namespaces/{OUT}/serviceaccounts/{CHILD}", fence=OPERATOR_WRITES
    ),
    "it deletes the Lease of a child that leaves": lambda _: Act(
        who="operator", method="DELETE", path=f"{LEASES.format(LEAVING)}/workflow-controller-{LEAVING}"
    ),
    "it deletes no other Lease": lambda _: Act(
        who="operator", method="DELETE", path=f"{LEASES.format(OUT)}/theirs", fence=OPERATOR_WRITES
    ),
    "it changes nothing of its own install": lambda _: _patch(
        "operator",
        f"{CORE}/namespaces/{OPERATOR}/services/{OPERATOR}",
        {"spec": {"selector": {"a": "b"}}},
        OPERATOR_WRITES,
    ),
    "it writes no Namespace": lambda _: _patch(
        "operator", f"{CORE}/namespaces/{SERVED}", {"metadata": {"annotations": {"a": "b"}}}, OPERATOR_WRITES
    ),
    "it mints no token": lambda _: _post(
        "operator", f"{CORE}/namespaces/{SERVED}/serviceaccounts/default/token", {"spec": {}}, OPERATOR_WRITES
    ),
    "it gets into no pod": lambda s: Act(
        who="operator",
        method="GET",
        path=f"{CORE}/namespaces/{SERVED}/pods/{s.pod}/exec?command=id&stdout=1",
        fence=OPERATOR_WRITES,
    ),
    "it writes any WorkflowController's status": lambda _: _patch(
        "operator", f"{ROW.format(OUT)}/status", {"status": {"leader": "e2e"}}
    ),
    "it fills in the ID of a WorkflowController that a person made, where it serves": lambda _: _patch(
        "operator", ROW.format(SERVED), {"spec": {"paused": True}}
    ),
    "it changes no WorkflowController elsewhere": lambda _: _patch(
        "operator", ROW.format(OUT), {"spec": {"paused": True}}, OPERATOR_WRITES
    ),
    "it tells Events everywhere": lambda s: _post(
        "operator",
        f"/apis/events.k8s.io/v1/namespaces/{OUT}/events",
        {
            "metadata": {"name": "e2e-fence"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "type": "Normal",
            "reason": "Fence",
            "action": "Test",
            "reportingController": "metaoperator",
            "reportingInstance": "e2e",
            "regarding": {"kind": "Namespace", "name": OUT, "namespace": OUT, "uid": s.uids[OUT]},
        },
    ),
    # What it takes off Workflows where it serves nobody.
    "it takes our label off a Workflow": lambda _: _patch(
        "operator", THEIR_WORKFLOW, {"metadata": {"labels": {INSTANCE_ID: None}}}
    ),
    "it takes nothing else off with it": lambda _: _patch(
        "operator",
        THEIR_WORKFLOW,
        {"metadata": {"labels": {INSTANCE_ID: None}}, "spec": {"suspend": True}},
        THEIR_WORKFLOWS,
    ),
    "it puts no other label on": lambda _: _patch(
        "operator", THEIR_WORKFLOW, {"metadata": {"labels": {INSTANCE_ID: "other"}}}, THEIR_WORKFLOWS
    ),
    "it submits no Workflow": lambda _: _post(
        "operator", f"{ARGO}/namespaces/{OUT}/workflows", workflows.one_step("e2e-fence"), THEIR_WORKFLOWS
    ),
    "it takes the fleet's label off": lambda _: _patch(
        "operator", f"{ARGO}/namespaces/{OUT}/workflows/fleets", {"metadata": {"labels": {INSTANCE_ID: None}}}
    ),
    "it takes our label off a CronWorkflow": lambda _: _patch(
        "operator", f"{ARGO}/namespaces/{OUT}/cronworkflows/schedule", {"metadata": {"labels": {INSTANCE_ID: None}}}
    ),
    "it suspends no CronWorkflow with it": lambda _: _patch(
        "operator",
        f"{ARGO}/namespaces/{OUT}/cronworkflows/schedule",
        {"metadata": {"labels": {INSTANCE_ID: None}}, "spec": {"suspend": False}},
        THEIR_WORKFLOWS,
    ),
    "it takes no other controller's label off": lambda _: _patch(
        "operator",
        f"{ARGO}/namespaces/{OUT}/workflows/others",
        {"metadata": {"labels": {INSTANCE_ID: None}}},
        THEIR_WORKFLOWS,
        says="is not opted in",
    ),
    "it deletes an unfinished Workflow that carries our label": lambda _: Act(
        who="operator", method="DELETE", path=f"{ARGO}/namespaces/{LEAVING}/workflows/unfinished"
    ),
    "it deletes no finished one": lambda _: Act(
        who="operator", method="DELETE", path=f"{ARGO}/namespaces/{OUT}/workflows/finished", fence=THEIR_WORKFLOWS
    ),
    "it deletes none of another controller": lambda _: Act(
        who="operator", method="DELETE", path=f"{ARGO}/namespaces/{OUT}/workflows/others", fence=THEIR_WORKFLOWS
    ),
    "it deletes none without a label": lambda _: Act(
        who="operator", method="DELETE", path=f"{ARGO}/namespaces/{OUT}/workflows/bare", fence=THEIR_WORKFLOWS
    ),
    "it deletes not all of them at once": lambda _: Act(
        who="operator", method="DELETE", path=f"{ARGO}/namespaces/{OUT}/workflows", fence=THEIR_WORKFLOWS
    ),
    "it deletes no CronWorkflow": lambda _: Act(
        who="operator", method="DELETE", path=f"{ARGO}/namespaces/{OUT}/cronworkflows/schedule", fence=THEIR_WORKFLOWS
    ),
    # What it runs, and as whom.
    "it runs under the account that it made": _ours,
    "it runs under no other account": lambda s: _ours(s, ACCOUNTS, account="default", says="default"),
    "it runs under no default account": lambda s: _ours(s, ACCOUNTS, account=""),
    "it uses no deprecated field to name one": lambda s: _ours(s, ACCOUNTS, account="", serviceAccount="default"),
    "it mounts a Secret": lambda s: _ours(s, volumes=[{"name": "v", "secret": {"secretName": "s"}}]),
    "it mounts nothing of the node": lambda s: _ours(s, PODS, volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
    "it is not on the node's network": lambda s: _ours(s, PODS, hostNetwork=True),
    "it sees no process of the node": lambda s: _ours(s, PODS, hostPID=True),
    "it is not privileged": lambda s: _ours(s, PODS, container={"securityContext": {"privileged": True}}),
    "it adds no capability": lambda s: _ours(
        s, PODS, container={"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}
    ),
    "it is not privileged at the start either": lambda s: _ours(
        s, PODS, initContainers=[{"name": "i", "image": "i", "securityContext": {"privileged": True}}]
    ),
    # What it grants, and to whom.
    "it binds a numbered role to an account": lambda s: _bind(
        s, "metaoperator-workflow-controller-v1", {"kind": "ServiceAccount", "name": CHILD, "namespace": SERVED}
    ),
    "it binds a numbered role to the namespace's accounts": lambda s: _bind(
        s, "metaoperator-workflow-executor-v1", EXECUTORS
    ),
    "it binds no other role": lambda s: _bind(s, "cluster-admin", EXECUTORS, BINDINGS),
    "it binds no Role": lambda s: _bind(s, "metaoperator-workflow-x", EXECUTORS, BINDINGS, kind="Role"),
    "it binds nobody elsewhere": lambda s: _bind(
        s,
        "metaoperator-workflow-controller-v1",
        {"kind": "ServiceAccount", "name": "default", "namespace": OUT},
        BINDINGS,
    ),
    "it binds no person": lambda s: _bind(
        s,
        "metaoperator-workflow-controller-v1",
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"},
        BINDINGS,
    ),
    "it binds no other group": lambda s: _bind(
        s,
        "metaoperator-workflow-controller-v1",
        {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated"},
        BINDINGS,
    ),
    # A tenant and the child's account.
    **{
        f"a tenant's {kind} runs under an account of theirs": functools.partial(_running, kind=kind, account="default")
        for kind in COLLECTIONS
    },
    **{
        f"a tenant's {kind} does not run as the child": functools.partial(
            _running, kind=kind, account=CHILD, fence=CHILD_PODS if kind == "Pod" else CHILD_WORKLOADS
        )
        for kind in COLLECTIONS
    },
    "nor as a shard": lambda _: _run("tenant", "Pod", SERVED, f"{CHILD}-1", CHILD_PODS),
    "nor while the namespace drains": lambda _: _run("tenant", "Pod", LEAVING, CHILD, CHILD_PODS),
    "nor by a Deployment while it drains": lambda _: _run("tenant", "Deployment", LEAVING, CHILD, CHILD_WORKLOADS),
    "where nobody is served the name is free": lambda _: _run("tenant", "Pod", OUT, CHILD),
    "where nobody is served a Deployment is too": lambda _: _run("tenant", "Deployment", OUT, CHILD),
    "the platform may": lambda _: _run("platform", "Pod", SERVED, CHILD),
    "the platform may by a Deployment": lambda _: _run("platform", "Deployment", SERVED, CHILD),
    "a tenant changes no image of the child's pod": lambda s: _strategic(
        "tenant", f"{CORE}/namespaces/{SERVED}/pods/{s.pod}", {"spec": _image()}, CHILD_PODS
    ),
    "a tenant labels the child's pod": lambda s: _patch(
        "tenant", f"{CORE}/namespaces/{SERVED}/pods/{s.pod}", {"metadata": {"labels": {"a": "b"}}}
    ),
    "a tenant changes no image of the child": lambda _: _strategic(
        "tenant", DEPLOYMENT, {"spec": {"template": {"spec": _image()}}}, CHILD_WORKLOADS
    ),
    "a tenant adds no container to the child": lambda _: _strategic(
        "tenant", DEPLOYMENT, {"spec": {"template": {"spec": _image(container="other")}}}, CHILD_WORKLOADS
    ),
    "a tenant changes no image of the child's ReplicaSet": lambda s: _strategic(
        "tenant",
        f"{APPS}/namespaces/{SERVED}/replicasets/{s.replica_set}",
        {"spec": {"template": {"spec": _image()}}},
        CHILD_WORKLOADS,
    ),
    "an autoscaler scales the child": lambda _: _patch("tenant", f"{DEPLOYMENT}/scale", {"spec": {"replicas": 2}}),
    "a tenant sets its replicas": lambda _: _patch("tenant", DEPLOYMENT, {"spec": {"replicas": 2}}),
    "a tenant labels the child": lambda _: _patch("tenant", DEPLOYMENT, {"metadata": {"labels": {"a": "b"}}}),
    "a tenant deletes the child's pod": lambda s: Act(
        who="tenant", method="DELETE", path=f"{CORE}/namespaces/{SERVED}/pods/{s.pod}"
    ),
    "the platform changes the child": lambda _: _strategic(
        "platform", DEPLOYMENT, {"spec": {"template": {"spec": _image()}}}
    ),
    "the platform changes the child's pod": lambda s: _strategic(
        "platform", f"{CORE}/namespaces/{SERVED}/pods/{s.pod}", {"spec": _image()}
    ),
    # Kubernetes itself, where all its controllers are one user.
    "the child's ReplicaSet makes its pod": lambda s: _made_by_kubernetes(
        "Pod", "ReplicaSet", s.replica_set, s.account_uid
    ),
    "a ReplicaSet that was prepared makes none": lambda s: _made_by_kubernetes(
        "Pod", "ReplicaSet", s.replica_set, "guessed", CHILD_PODS
    ),
    "a ReplicaSet of another name makes none": lambda s: _made_by_kubernetes(
        "Pod", "ReplicaSet", "other-5bcdd64577", s.account_uid, CHILD_PODS
    ),
    "a Job makes none": lambda s: _made_by_kubernetes("Pod", "Job", s.replica_set, s.account_uid, CHILD_PODS),
    "the child's Deployment makes its ReplicaSet": lambda s: _made_by_kubernetes(
        "ReplicaSet", "Deployment", CHILD, s.account_uid
    ),
    "a Deployment that was prepared makes none": lambda _: _made_by_kubernetes(
        "ReplicaSet", "Deployment", CHILD, "guessed", CHILD_WORKLOADS
    ),
    "a Deployment of another name makes none": lambda s: _made_by_kubernetes(
        "ReplicaSet", "Deployment", "other", s.account_uid, CHILD_WORKLOADS
    ),
    "other ReplicaSets make pods": lambda _: _made_by_kubernetes(
        "Pod", "ReplicaSet", "other-5bcdd64577", "", account="default"
    ),
    # Its credentials.
    "a tenant mints a token of their own account": lambda _: _post(
        "tenant", f"{CORE}/namespaces/{SERVED}/serviceaccounts/default/token", {"spec": {}}
    ),
    "a tenant mints no token of the child's": lambda _: _post(
        "tenant", f"{CORE}/namespaces/{SERVED}/serviceaccounts/{CHILD}/token", {"spec": {}}, CREDENTIALS
    ),
    "nor while the namespace drains, either": lambda _: _post(
        "tenant", f"{CORE}/namespaces/{LEAVING}/serviceaccounts/{CHILD}/token", {"spec": {}}, CREDENTIALS
    ),
    "the platform mints one": lambda _: _post(
        "platform", f"{CORE}/namespaces/{SERVED}/serviceaccounts/{CHILD}/token", {"spec": {}}
    ),
    "a tenant keeps a token of their own in a Secret": lambda _: _post(
        "tenant", f"{CORE}/namespaces/{SERVED}/secrets", _token_secret("default")
    ),
    "a tenant keeps none of the child's": lambda _: _post(
        "tenant", f"{CORE}/namespaces/{SERVED}/secrets", _token_secret(CHILD), CREDENTIALS
    ),
    "a tenant keeps other Secrets": lambda _: _post(
        "tenant", f"{CORE}/namespaces/{SERVED}/secrets", {"metadata": {"name": "e2e-fence"}, "type": "Opaque"}
    ),
    # The account itself: whoever makes it knows its UID, by which the fences know what its Deployment made.
    "a tenant makes an account": lambda s: _post("tenant", SAS.format(SERVED), {"metadata": _meta(s, SERVED, "mine")}),
    "a tenant makes no account of a shard's name": lambda s: _post(
        "tenant", SAS.format(SERVED), {"metadata": _meta(s, SERVED, f"{CHILD}-7")}, CHILD_ACCOUNTS, says=f"{CHILD}-7"
    ),
    "a tenant makes none that carries our mark": lambda s: _post(
        "tenant", SAS.format(OUT), {"metadata": _meta(s, OUT, "mine", mark=OUT)}, CHILD_ACCOUNTS, says="its mark"
    ),
    "a tenant makes one of any name where nobody is served": lambda s: _post(
        "tenant", SAS.format(OUT), {"metadata": _meta(s, OUT, f"{CHILD}-7")}
    ),
    "a tenant does not delete the child's": lambda _: Act(
        who="tenant", method="DELETE", path=f"{SAS.format(SERVED)}/{CHILD}", fence=CHILD_ACCOUNTS
    ),
    "nor along with all others": lambda _: Act(
        who="tenant", method="DELETE", path=SAS.format(SERVED), fence=CHILD_ACCOUNTS, says=f"ServiceAccount {CHILD} is"
    ),
    "nor while the namespace drains, too": lambda _: Act(
        who="tenant", method="DELETE", path=f"{SAS.format(LEAVING)}/{CHILD}", fence=CHILD_ACCOUNTS
    ),
    "a tenant does not take our mark off it": lambda _: _patch(
        "tenant",
        f"{SAS.format(SERVED)}/{CHILD}",
        {"metadata": {"labels": {names.MANAGED_BY_LABEL: None}}},
        CHILD_ACCOUNTS,
    ),
    "a tenant does not have it collected": lambda _: _patch(
        "tenant",
        f"{SAS.format(LEAVING)}/{CHILD}",
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "gone"}]}},
        CHILD_ACCOUNTS,
        says="its owners",
    ),
    "a tenant labels it": lambda _: _patch(
        "tenant", f"{SAS.format(SERVED)}/{CHILD}", {"metadata": {"labels": {"a": "b"}}}
    ),
    "a tenant deletes an account that is not the child's": lambda _: Act(
        who="tenant", method="DELETE", path=f"{SAS.format(OUT)}/{CHILD}"
    ),
    "the platform deletes the child's": lambda _: Act(
        who="platform", method="DELETE", path=f"{SAS.format(SERVED)}/{CHILD}"
    ),
    "the operator does, too": lambda _: Act(who="operator", method="DELETE", path=f"{SAS.format(LEAVING)}/{CHILD}"),
    "Kubernetes empties a namespace of accounts": lambda _: Act(
        who="admin", method="DELETE", path=SAS.format(SERVED), headers={"Impersonate-User": CONTROLLERS}
    ),
    # Its pod. Without an upgrade no connection is made: the answer tells who would have been let in.
    **{
        f"a tenant gets no {how}": functools.partial(_gets, how=f"{how}{more}")
        for how, more in (
            ("exec", "?command=id&stdout=1"),
            ("attach", "?stdout=1"),
            ("portforward", "?ports=9090"),
            ("proxy/", ""),
        )
    },
    "the platform gets in": lambda s: Act(
        who="platform",
        method="GET",
        path=f"{CORE}/namespaces/{SERVED}/pods/{s.pod}/exec?command=id&stdout=1",
        code=400,
        says="pgrade",
    ),
    "a tenant debugs no child": lambda s: _strategic(
        "tenant",
        f"{CORE}/namespaces/{SERVED}/pods/{s.pod}/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [{"name": "e", "image": "e"}]}},
        ACCESS,
    ),
    # The fields of a WorkflowController.
    "who holds metaoperator-values sets values": lambda _: _patch(
        "values", ROW.format(SERVED), {"spec": {"values": {"parallelism": 3}}}
    ),
    "and does not pause": lambda _: _patch(
        "values", ROW.format(SERVED), {"spec": {"paused": True}}, FIELDS, says="spec.paused"
    ),
    "nor along with values": lambda _: _patch(
        "values", ROW.format(SERVED), {"spec": {"values": {"parallelism": 3}, "paused": True}}, FIELDS
    ),
    "nor goes on with what the platform paused": lambda _: _patch(
        "values", ROW.format(OUT), {"spec": {"paused": False}}, FIELDS
    ),
    "nor by leaving it out": lambda _: _patch("values", ROW.format(OUT), {"spec": {"paused": None}}, FIELDS),
    "nor by leaving out everything": lambda _: _patch("values", ROW.format(OUT), {"spec": None}, FIELDS),
    "values are theirs while it is paused": lambda _: _patch(
        "values", ROW.format(OUT), {"spec": {"values": {"parallelism": 3}}}
    ),
    "nor says how it leaves": lambda _: _patch(
        "values",
        ROW.format(SERVED),
        {"spec": {"drain": {"then": "Delete", "timeout": "0s"}}},
        FIELDS,
        says="spec.drain",
    ),
    "the platform says how it leaves": lambda _: _patch(
        "platform", ROW.format(SERVED), {"spec": {"drain": {"then": "Delete", "timeout": "1h30m"}}}
    ),
    "but not in other words": lambda _: _patch(
        "platform", ROW.format(SERVED), {"spec": {"drain": {"timeout": "half an hour"}}}, code=422, says="drain.timeout"
    ),
    "the platform pauses": lambda _: _patch("platform", ROW.format(SERVED), {"spec": {"paused": True}}),
    "the platform goes on": lambda _: _patch("platform", ROW.format(OUT), {"spec": {"paused": False}}),
    # The name is taken, but admission is asked first: 409 says that it had nothing against it.
    "a tenant who may create one does so": lambda _: _post(
        "tenant", ROW.format(SERVED).rpartition("/")[0], _row(SERVED, values={"parallelism": 3}), code=409
    ),
    "and does not choose its ID": lambda _: _post(
        "tenant", ROW.format(SERVED).rpartition("/")[0], _row(SERVED, instanceID="other"), FIELDS, says="instanceID"
    ),
}


def _answer(scene: Scene, act: Act) -> tuple[int, str]:
    """Send it as a dry-run, which passes admission and changes nothing."""
    query = "" if act.method == "GET" else "?dryRun=All"
    token = "" if act.who == "admin" else scene.tokens[act.who]
    return scene.api.ask(act.method, act.path + query, act.body, token=token, headers=act.headers)


@pytest.mark.parametrize("what", ACTS)
def test_the_fences_do_what_they_say(what: str, scene: Scene) -> None:
    """What is allowed passes, and what is denied is denied by the fence that is for it, in words for people."""
    act = ACTS[what](scene)
    code, message = _answer(scene, act)
    told = f"{act.who} {act.method} {act.path} → {code} {message}"
    if act.fence:
        assert code == 403, told
        assert f"ValidatingAdmissionPolicy '{act.fence}'" in message, told
        assert "resulted in error" not in message, told
        assert act.says in message, told
    else:
        assert code == act.code or (not act.code and code in (200, 201)), told


def test_every_fence_was_tried_both_ways(scene: Scene) -> None:
    """No policy of the bundle is only believed in."""
    assert {act(scene).fence for act in ACTS.values()} == {"", *names.FENCES}


def test_no_fence_has_an_expression_that_the_api_server_warns_of(scene: Scene) -> None:
    """Each is there with its bindings, and its types were checked against the kinds that it is for."""
    found = {
        each["metadata"]["name"]: each
        for each in scene.api.objects("admissionregistration.k8s.io/v1/validatingadmissionpolicies")
    }
    bound = {
        each["spec"]["policyName"]
        for each in scene.api.objects("admissionregistration.k8s.io/v1/validatingadmissionpolicybindings")
    }
    for name in names.FENCES:
        assert name in bound
        status = found[name]["status"]
        assert status["observedGeneration"] == found[name]["metadata"]["generation"]
        assert not (status.get("typeChecking") or {}).get("expressionWarnings"), json.dumps(status, indent=2)


def test_a_workflow_that_names_the_childs_account_ends_and_says_why(scene: Scene, kubectl: Kubectl) -> None:
    """Its pods are asked for by the child itself, and even to that one its account is denied."""
    manifest = workflows.one_step("as-the-child")
    manifest["spec"]["serviceAccountName"] = CHILD
    code, message = scene.api.ask(
        "POST", f"{ARGO}/namespaces/{SERVED}/workflows", manifest, token=scene.tokens["tenant"]
    )
    assert code == 201, message

    def ended() -> Object:
        live = scene.api.object(workflows.WORKFLOWS, SERVED, "as-the-child")
        assert live is not None
        assert (live.get("status") or {}).get("phase") in ("Error", "Failed"), live.get("status")
        return live

    live = eventually(ended)
    told = json.dumps(live["status"])
    assert CHILD_PODS in told
    assert "spec.serviceAccountName" in told
    kubectl("delete", "workflow", "as-the-child", "-n", SERVED)


def test_a_workflow_under_an_account_of_its_own_succeeds(scene: Scene, kubectl: Kubectl) -> None:
    """Beside the fence, all is as ever."""
    kubectl("create", "serviceaccount", "worker", "-n", SERVED)
    manifest = workflows.one_step("as-a-worker")
    manifest["spec"]["serviceAccountName"] = "worker"
    workflows.succeeded(scene.api, workflows.submit(kubectl, SERVED, manifest))
