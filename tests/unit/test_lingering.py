"""A Workflow that is deleted and does not go: how far its artifacts are, and what to do."""

from typing import Any

import pytest

from metaoperator.core import explain, lingering, names, serving
from metaoperator.core.explain import Answer, Case, Explanation
from metaoperator.core.model import DEPLOYMENT, Ref

ID = names.INSTANCE_ID_LABEL
CHILD = serving.child(Ref(DEPLOYMENT, "team-a", "workflow-controller"), "team-a", alive=True)
LEADS = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Leading", "message": "it leads"}]}}


def collector(phase: str, instance_id: str | None = "team-a", name: str = "w-artgc-wfdel-1", **status: Any) -> Any:
    """Build a pod that deletes artifacts."""
    labels = {names.COMPONENT_LABEL: names.ARTIFACT_GC} | ({} if instance_id is None else {ID: instance_id})
    return {"metadata": {"name": name, "namespace": "team-a", "labels": labels}, "status": {"phase": phase, **status}}


def asked(*pods: Any, processed: bool = False, controllers: Any = (CHILD,), **more: Any) -> Explanation:
    """Explain a Workflow that has finished and is deleted."""
    meta = {"name": "w", "namespace": "team-a", "labels": {ID: "team-a"}} | {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": [lingering.FINALIZER],
    }
    done = {"OnWorkflowCompletion": True} | ({"OnWorkflowDeletion": True} if processed else {})
    status = {"phase": "Succeeded", "artifactGCStatus": {"strategiesProcessed": done}}
    known: dict[str, Any] = {"instance_id": "team-a", "row": LEADS} | more
    workflow = {"metadata": meta, "spec": {}, "status": status}
    return explain.explain(Case(workflow=workflow, controllers=controllers, pods=pods, **known))


BROKEN: dict[str, Any] = {
    "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}]
}
WORKER = {"metadata": {"name": "w", "namespace": "team-a", "labels": {ID: "team-a"}}, "status": {"phase": "Failed"}}

CASES = {
    "not begun": (asked(), Answer.KEPT, "has not begun to delete", ""),
    "not begun, and a step that failed": (asked(WORKER), Answer.KEPT, "has not begun to delete", ""),
    "at it": (asked(collector("Running")), Answer.KEPT, "Pod/team-a/w-artgc-wfdel-1 deletes its artifacts", ""),
    "waiting for an image": (asked(collector("Pending", **BROKEN)), Answer.POD_PENDING, "ErrImagePull", "an image"),
    "failed": (
        asked(collector("Succeeded"), collector("Running", name="x"), collector("Failed", name="z")),
        Answer.KEPT,
        "Pod/team-a/z, which deletes its artifacts, has failed",
        'kubectl -n team-a patch workflow w --type=merge -p \'{"metadata":{"finalizers":null}}\'',
    ),
    "done": (asked(collector("Succeeded")), Answer.KEPT, "has not taken note of Pod/team-a/w-artgc-wfdel-1 yet", ""),
    "done and not seen": (
        asked(collector("Succeeded", None)),
        Answer.KEPT,
        "does not see Pod/team-a/w-artgc-wfdel-1",
        "the operator puts it on",
    ),
    "done and given to another": (
        asked(collector("Succeeded", "other")),
        Answer.KEPT,
        "without its own instance ID",
        f"kubectl -n team-a label pod w-artgc-wfdel-1 --overwrite {ID}=team-a",
    ),
    "refused": (
        asked(processed=True),
        Answer.KEPT,
        "Argo tries once to make it, and was refused",
        '{"status":{"artifactGCStatus":{"strategiesProcessed":null}}}',
    ),
    "nobody": (
        asked(controllers=(), instance_id="other"),
        Answer.NO_CONTROLLER,
        "nobody deletes its artifacts",
        f"kubectl label workflow w --overwrite {ID}=other",
    ),
    "nobody, where nobody is served": (
        asked(controllers=(), instance_id=None),
        Answer.NO_CONTROLLER,
        "no workflow-controller of ours",
        "kubectl label namespace team-a",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_workflow_that_is_deleted_says_what_keeps_it(case: str) -> None:
    """Though it has finished: what is told is what a person who deleted it wants to know."""
    found, answer, why, cure = CASES[case]
    assert (found.answer, found.waits) == (answer, True)
    assert why in found.why
    assert (cure in found.cure) if cure else not found.cure


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Error", "Running", None])
@pytest.mark.parametrize("deleted", [True, False])
@pytest.mark.parametrize("finalizers", [None, [], ["other"], ["other", lingering.FINALIZER]], ids=str)
def test_others_are_not_kept_by_artifacts(finalizers: list[str] | None, phase: str | None, *, deleted: bool) -> None:
    """Neither one that only will be kept, nor one that goes on, nor one that somebody else keeps."""
    meta = {"name": "w", "finalizers": finalizers} | ({"deletionTimestamp": "x"} if deleted else {})
    held = lingering.FINALIZER in (finalizers or [])
    ended = phase in {"Succeeded", "Failed", "Error"}
    assert lingering.by_artifacts({"metadata": meta, "status": {"phase": phase}}) == (deleted and held and ended)
