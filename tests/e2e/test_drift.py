"""What is ours and differs from what we rendered is repaired when it happens, not at the next resync (an hour)."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e import workflows
from tests.e2e.audit import Audit, told
from tests.e2e.local import Api, Kubectl, eventually
from tests.e2e.namespaces import CHILD, Namespaces, rendered

Damage = Callable[[Kubectl, str], Any]


def _patch(kind: str, name: str, patch: str, how: str = "merge") -> Damage:
    return lambda kubectl, ns: kubectl("patch", kind, name, "-n", ns, f"--type={how}", "-p", patch)


def _delete(kind: str, name: str) -> Damage:
    return lambda kubectl, ns: kubectl("delete", kind, name, "-n", ns)


CHANGED: dict[str, Damage] = {
    "kubectl set image": lambda kubectl, ns: kubectl(
        "set", "image", "deployment/workflow-controller", "workflow-controller=metaoperator.local/pause:1", "-n", ns
    ),
    "a scaled Deployment": lambda kubectl, ns: kubectl(
        "scale", "deployment", "workflow-controller", "--replicas=0", "-n", ns
    ),
    "an edited ConfigMap": _patch("configmap", "workflow-controller-configmap", '{"data":{"config":"parallelism: 1"}}'),
    "a RoleBinding with one more subject": _patch(
        "rolebinding",
        "workflow-controller",
        '[{"op":"add","path":"/subjects/-","value":{"kind":"ServiceAccount","name":"default","namespace":"default"}}]',
        "json",
    ),
    "a Service that selects something else": _patch(
        "service", "workflow-controller-metrics", '{"spec":{"selector":{"app.kubernetes.io/name":"other"}}}'
    ),
    # Ports are merged by number and protocol: an apply alone would add ours beside the edited one, under the same name.
    "a Service with another port": _patch(
        "service", "workflow-controller-metrics", '[{"op":"replace","path":"/spec/ports/0/port","value":9999}]', "json"
    ),
    "a ServiceAccount that mounts its token": _patch(
        "serviceaccount", "workflow-controller", '{"automountServiceAccountToken":true}'
    ),
}
DELETED: dict[str, tuple[str, str]] = {
    "a deleted ConfigMap": ("configmap", "workflow-controller-configmap"),
    "a removed RoleBinding of the controller": ("rolebinding", "workflow-controller"),
    "a removed RoleBinding of the executor": ("rolebinding", "workflow-executor"),
    "a deleted Service": ("service", "workflow-controller-metrics"),
    "a deleted Deployment": ("deployment", "workflow-controller"),
}


@pytest.fixture(scope="module")
def served(namespaces: Namespaces) -> str:
    """Have a namespace that was READY once: repair does not wait until the child of the last repair leads."""
    namespaces.ready("e2e-main")
    return "e2e-main"


def _content(namespaces: Namespaces, name: str) -> dict[tuple[str, str], Any]:
    return {key: rendered(item) for key, item in namespaces.objects(name).items()}


def _repaired(namespaces: Namespaces, name: str, wanted: dict[tuple[str, str], Any]) -> None:
    def check() -> None:
        found = _content(namespaces, name)
        for key, item in wanted.items():
            assert found[key] == item, f"{key} is not as it was"

    eventually(check, seconds=120)


@pytest.mark.parametrize("what", CHANGED)
def test_a_change_is_taken_back(what: str, served: str, namespaces: Namespaces, kubectl: Kubectl) -> None:
    """The object stays the same object, and a person finds an Event that names it."""
    wanted = _content(namespaces, served)
    uids = {key: item and item["metadata"]["uid"] for key, item in namespaces.objects(served).items()}
    told_before = _drift_events(namespaces)

    CHANGED[what](kubectl, served)

    eventually(lambda: _assert_damaged_or_told(namespaces, served, wanted, told_before), seconds=120)
    _repaired(namespaces, served, wanted)
    assert {key: item and item["metadata"]["uid"] for key, item in namespaces.objects(served).items()} == uids
    eventually(lambda: _assert_told(namespaces, told_before), seconds=120)


def _drift_events(namespaces: Namespaces) -> int:
    return sum((each.get("series") or {}).get("count", 1) for each in namespaces.events("Drift", "workflow-controller"))


def _assert_told(namespaces: Namespaces, before: int) -> None:
    assert _drift_events(namespaces) > before, "no Event tells of the drift"


def _assert_damaged_or_told(namespaces: Namespaces, name: str, wanted: Any, before: int) -> None:
    assert _content(namespaces, name) != wanted or _drift_events(namespaces) > before, "the change was not seen"


@pytest.mark.parametrize("what", DELETED)
def test_what_was_deleted_is_made_anew(what: str, served: str, namespaces: Namespaces, kubectl: Kubectl) -> None:
    """With the same content; only a new UID tells that it was gone."""
    wanted = _content(namespaces, served)
    uids = {item and item["metadata"]["uid"] for item in namespaces.objects(served).values()}

    kubectl("delete", *DELETED[what], "-n", served)

    _repaired(namespaces, served, wanted)
    new = {item and item["metadata"]["uid"] for item in namespaces.objects(served).values()} - uids
    assert len(new) == 1, "exactly what was deleted is another object now"


def test_the_child_works_on_when_its_account_was_made_anew(
    main: str, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """A token is bound to the account's UID: whoever holds one of the old account is locked out, for up to an hour."""
    old = api.object("v1/serviceaccounts", main, CHILD)
    assert old is not None
    pods = _pods(api, main)
    kubectl("delete", "serviceaccount", CHILD, "-n", main)

    def replaced() -> None:
        now = _pods(api, main)
        assert now, "no pod"
        assert not now & pods, "a pod runs on with a token of the old account"

    # Nobody is left who could work on for as long as the API server remembers that a token was good.
    eventually(replaced)
    namespaces.ready(main)

    new = api.object("v1/serviceaccounts", main, CHILD)
    assert new is not None
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    workflows.succeeded(api, workflows.submit(kubectl, main, workflows.one_step("after-drift")))
    kubectl("delete", "workflow", "after-drift", "-n", main)


def _pods(api: Api, namespace: str) -> set[str]:
    found = api.objects("v1/pods", namespace, query=f"labelSelector=app.kubernetes.io%2Fname%3D{CHILD}")
    return {each["metadata"]["uid"] for each in found}


def test_a_settled_fleet_is_not_written_to(main: str, namespaces: Namespaces, audit: Audit) -> None:
    """Ready children that nobody touches cost no write but the operator's own Lease."""
    namespaces.ready(main)

    def quiet() -> None:
        mark = audit.mark()
        time.sleep(8)
        found = [told(entry) for entry in audit.writes(mark) if entry["objectRef"]["resource"] != "leases"]
        assert not found, "\n".join(found)

    # What earlier tests set off is still being told for some seconds; then all is still.
    eventually(quiet, seconds=90)
