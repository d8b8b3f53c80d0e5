"""Who makes, marks and removes a child's ServiceAccount, asked of the API server as each of those who might."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from metaoperator.core import names
from tests.e2e.local import NAMESPACE_UID, OPERATOR, Object, eventually

from .world import World

SERVED, LEFT, OUT, ENDING = "team-accounts", "team-accounts-left", "team-accounts-out", "team-accounts-ending"
"""Opted in; opted out, its child still there; never opted in; being deleted."""

FENCE = "metaoperator-accounts"
CHILD = names.WORKFLOW_CONTROLLER
MERGE = "application/merge-patch+json"

ADMIN, TENANT, PLATFORM = "", "tenant", "platform"
THE_OPERATOR = f"system:serviceaccount:{OPERATOR}:{names.OPERATOR_ACCOUNT}"
CONTROLLERS = (
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
)
SOME_CLUSTERS_OWN = "some-clusters-namespace-controller"
"""Whoever empties namespaces in a cluster that calls its controllers otherwise."""

MAY_WRITE: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "accounts"},
    "rules": [{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["*"]}],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One request; the name of an account or a collection, and what is sent."""

    method: str
    namespace: str
    name: str = CHILD
    patch: Object | None = None
    marked: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


def _create(namespace: str, name: str, *, marked: str = "", **more: Any) -> Act:
    return Act(method="POST", namespace=namespace, name=name, marked=marked, more=more)


def _change(namespace: str, name: str = CHILD, **metadata: Any) -> Act:
    return Act(method="PATCH", namespace=namespace, name=name, patch={"metadata": metadata})


def _delete(namespace: str, name: str = CHILD) -> Act:
    return Act(method="DELETE", namespace=namespace, name=name)


UNMARKED: dict[str, Any] = {"labels": {names.MANAGED_BY_LABEL: None}}
OWNED: dict[str, Any] = {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"}]}

REFUSED = {
    "makes the child's account": _create(SERVED, CHILD),
    "makes a shard's account": _create(SERVED, f"{CHILD}-7"),
    "makes one that carries our mark": _create(SERVED, "mine", marked=SERVED),
    "makes one that carries our mark before the label is set": _create(OUT, CHILD, marked=OUT),
    "makes one anew where the namespace leaves, and marks it": _create(LEFT, f"{CHILD}-7", marked=LEFT),
    "marks one that is there": _change(OUT, "theirs", labels={names.MANAGED_BY_LABEL: names.MANAGED_BY}),
    "deletes the child's": _delete(SERVED),
    "deletes all": _delete(SERVED, ""),
    "deletes the child's where the namespace leaves": _delete(LEFT),
    "takes the label off": _change(SERVED, **UNMARKED),
    "takes the label off where the namespace leaves": _change(LEFT, **UNMARKED),
    "takes the UID off": _change(SERVED, annotations={NAMESPACE_UID: None}),
    "gives it an owner that is gone": _change(SERVED, **OWNED),
    "gives it an owner where the namespace leaves": _change(LEFT, **OWNED),
}
FREE = {
    "makes an account": _create(SERVED, "mine"),
    "makes one whose name begins like the child's": _create(SERVED, f"{CHILD}-x"),
    "makes one with somebody else's mark": _create(SERVED, "mine", labels={names.MANAGED_BY_LABEL: "Helm"}),
    "makes one with the mark of another namespace, which is none": _create(SERVED, "mine", marked=OUT),
    "makes one of the child's name where nobody is served": _create(OUT, CHILD),
    "deletes an account": _delete(SERVED, "theirs"),
    "changes an account": _change(SERVED, "theirs", labels={"a": "b"}, **OWNED),
    "labels the child's": _change(SERVED, labels={"a": "b"}),
    "deletes one of the child's name that is not the operator's": _delete(OUT, f"{CHILD}-1"),
}


@pytest.fixture(scope="module")
def accounts(world: World) -> Iterator[World]:
    """Have the namespaces, in each the child's account and one of theirs, as far as there would be one."""
    for name in (SERVED, LEFT, ENDING):
        world.namespace(name)
    world.namespace(OUT, None)
    world.kubectl("apply", "-f", "-", stdin=MAY_WRITE)
    people = (TENANT, PLATFORM, THE_OPERATOR, *CONTROLLERS, SOME_CLUSTERS_OWN)
    for namespace in (SERVED, LEFT, OUT, ENDING):
        users = [f"--user={each}" for each in people]
        world.kubectl("create", "rolebinding", "accounts", "-n", namespace, "--clusterrole=accounts", *users)
        administers = ("--clusterrole=metaoperator-administer", f"--user={PLATFORM}")
        world.kubectl("create", "rolebinding", "administer", "-n", namespace, *administers)
        code, answer = _send(world, _create(namespace, "theirs"), ADMIN, dry=False)
        assert code == 201, answer
        name, marked = (f"{CHILD}-1", "") if namespace == OUT else (CHILD, namespace)
        code, answer = _send(world, _create(namespace, name, marked=marked), ADMIN, dry=False)
        assert code == 201, answer
    world.send("PATCH", _path(OUT, "theirs"), {"metadata": {"annotations": _mark(world, OUT)[1]}}, kind=MERGE)
    world.label(LEFT, None)
    # No controller runs here, so it stays as it is.
    world.send("DELETE", f"/api/v1/namespaces/{ENDING}")
    eventually(lambda: _ends(world), seconds=60)
    yield world
    world.kubectl("delete", "clusterrole", "accounts")


def _ends(world: World) -> None:
    code, answer = world.send("POST", f"/api/v1/namespaces/{ENDING}/configmaps?dryRun=All", {"metadata": {"name": "x"}})
    assert (code, "because it is being terminated" in answer.get("message", "")) == (403, True), answer


def _path(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/serviceaccounts" + (f"/{name}" if name else "")


def _mark(world: World, namespace: str) -> tuple[Object, Object]:
    """Write our label and annotation."""
    _, found = world.send("GET", f"/api/v1/namespaces/{namespace}")
    return {names.MANAGED_BY_LABEL: names.MANAGED_BY}, {NAMESPACE_UID: found["metadata"]["uid"]}


def _send(world: World, act: Act, who: str, *, dry: bool = True) -> tuple[int, Object]:
    """Ask for it, without doing it unless told."""
    query = "?dryRun=All" if dry else ""
    if act.method == "POST":
        labels, annotations = _mark(world, act.marked) if act.marked else ({}, {})
        meta = {"name": act.name, "labels": labels, "annotations": annotations, **act.more}
        return world.send("POST", _path(act.namespace) + query, {"metadata": meta}, who=who)
    return world.send(act.method, _path(act.namespace, act.name) + query, act.patch, who=who, kind=MERGE)


@pytest.mark.parametrize("what", REFUSED)
def test_a_tenant_is_refused(what: str, accounts: World) -> None:
    """And told what it is about, whose it is, and what to do instead."""
    act = REFUSED[what]
    code, answer = _send(accounts, act, TENANT)
    assert code == 403, answer
    assert f"ValidatingAdmissionPolicy '{FENCE}'" in answer["message"]
    assert "resulted in error" not in answer["message"]
    assert (
        f"ServiceAccount {act.name or CHILD} is, or would pass for, the workflow-controller's own" in answer["message"]
    )
    assert f"use another ServiceAccount of namespace {act.namespace}" in answer["message"]


@pytest.mark.parametrize("what", FREE)
def test_what_is_a_tenants_own_is_free(what: str, accounts: World) -> None:
    """The fence is around the child's accounts, and around no others."""
    code, answer = _send(accounts, FREE[what], TENANT)
    assert code in (200, 201), answer


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("who", [ADMIN, PLATFORM, THE_OPERATOR])
def test_whoever_administers_and_the_operator_pass(who: str, what: str, accounts: World) -> None:
    """By the verb or by name; the operator has fences of its own about what it marks, and what it does not."""
    code, answer = _send(accounts, REFUSED[what], who)
    # What is there already is told only by who looked for it: admission let it pass.
    passed = code in (200, 201) or (code == 409 and "already exists" in answer["message"])
    others = code == 403 and who == THE_OPERATOR and f"'{FENCE}'" not in answer["message"]
    assert passed or others, answer


@pytest.mark.parametrize("who", CONTROLLERS)
@pytest.mark.parametrize("namespace", [SERVED, LEFT, ENDING])
@pytest.mark.parametrize("name", [CHILD, ""], ids=["one", "all"])
def test_kubernetes_removes_what_has_to_go(name: str, namespace: str, who: str, accounts: World) -> None:
    """With a namespace, or with an owner that the platform gave it."""
    code, answer = _send(accounts, _delete(namespace, name), who)
    assert code == 200, answer


@pytest.mark.parametrize("what", ["makes the child's account", "makes one that carries our mark"])
@pytest.mark.parametrize("who", CONTROLLERS)
def test_kubernetes_makes_none(who: str, what: str, accounts: World) -> None:
    """Nothing of Kubernetes makes such accounts, and nobody makes them through it."""
    code, answer = _send(accounts, REFUSED[what], who)
    assert (code, f"'{FENCE}'" in answer["message"]) == (403, True), answer


@pytest.mark.parametrize("who", [TENANT, SOME_CLUSTERS_OWN])
@pytest.mark.parametrize("name", [CHILD, ""], ids=["one", "all"])
def test_a_namespace_that_is_deleted_is_emptied_by_whoever_does_that(name: str, who: str, accounts: World) -> None:
    """No namespace hangs because a cluster calls its controllers otherwise."""
    code, answer = _send(accounts, _delete(ENDING, name), who)
    assert code == 200, answer
    code, answer = _send(accounts, _delete(SERVED, name), who)
    assert code == 403, answer
