"""The operator puts the forgotten label on pods that delete artifacts; its fences let it do nothing else to them."""

from typing import Any

import pytest

from metaoperator.core import names
from tests.e2e.local import INSTANCE_ID, Object

from .test_components import OPERATOR
from .test_stamping import MERGE
from .world import World

NS, LEFT = "collects", "collects-still"
FORGOTTEN = {
    names.COMPONENT_LABEL: names.ARTIFACT_GC,
    names.WORKFLOW_LABEL: "w",
    names.MISPLACED_INSTANCE_ID_LABEL: NS,
}
ON: Object = {"metadata": {"labels": {INSTANCE_ID: NS}}}


def with_metadata(**more: Any) -> Object:
    """Put the label on, and write something else of the metadata with it."""
    return {"metadata": ON["metadata"] | more}


@pytest.fixture(scope="module")
def pods(world: World) -> World:
    """Have pods of all sorts, where people opted in and where they left, and an operator that holds every right."""
    world.have()
    role = ["create", "clusterrolebinding", "operator-collects", "--clusterrole=cluster-admin"]
    world.kubectl(*role, "--serviceaccount=metaoperator:metaoperator")
    for namespace, label in ((NS, "enabled"), (LEFT, None)):
        world.namespace(namespace, label)
        for name, labels in {
            "gc": FORGOTTEN,
            "step": {key: value for key, value in FORGOTTEN.items() if key != names.COMPONENT_LABEL},
            "labelled": FORGOTTEN | {INSTANCE_ID: "other"},
            "bare": {names.COMPONENT_LABEL: names.ARTIFACT_GC},
        }.items():
            world.send("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
            spec = {
                "containers": [{"name": "main", "image": "argoexec"}],
                # As a patch of the pod's spec may bring it in: it is people's own, and nothing of it is changed.
                "volumes": [{"name": "node", "hostPath": {"path": "/tmp"}}],  # noqa: S108
                "automountServiceAccountToken": False,
            }
            body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
            code, answer = world.send("POST", f"/api/v1/namespaces/{namespace}/pods", body)
            assert code == 201, answer
    return world


ACTS: dict[str, tuple[str, str, Any, bool]] = {
    "it puts the label on": ("PATCH", "gc", ON, True),
    "not another ID": ("PATCH", "gc", {"metadata": {"labels": {INSTANCE_ID: "other"}}}, False),
    "no other label with it": ("PATCH", "gc", {"metadata": {"labels": {INSTANCE_ID: NS, "a": "b"}}}, False),
    "it takes none off with it": (
        "PATCH",
        "gc",
        {"metadata": {"labels": {INSTANCE_ID: NS, names.WORKFLOW_LABEL: None}}},
        False,
    ),
    "no annotation": ("PATCH", "gc", with_metadata(annotations={"a": "b"}), False),
    "no finalizer": ("PATCH", "gc", with_metadata(finalizers=["example.org/hold"]), False),
    "and not the image": ("PATCH", "gc", ON | {"spec": {"activeDeadlineSeconds": 1}}, False),
    "nor on a step of a Workflow": ("PATCH", "step", ON, False),
    "nor over an ID that is there": ("PATCH", "labelled", ON, False),
    "nor where Argo wrote none": ("PATCH", "bare", ON, False),
    "it deletes none": ("DELETE", "gc", None, False),
}


@pytest.mark.parametrize("namespace", [NS, LEFT])
@pytest.mark.parametrize("what", ACTS)
def test_the_fence_lets_the_forgotten_label_pass_and_nothing_else(what: str, namespace: str, pods: World) -> None:
    """Tried as the operator's account, which holds every right, as dry-runs; also while a namespace drains."""
    method, name, body, passes = ACTS[what]
    path = f"/api/v1/namespaces/{namespace}/pods/{name}?dryRun=All"
    code, answer = pods.send(method, path, body, who=OPERATOR, kind=MERGE)
    assert code == (200 if passes else 403), answer
    if not passes:
        assert "ValidatingAdmissionPolicy 'metaoperator-operator-writes'" in answer["message"]
        assert "resulted in error" not in answer["message"]
