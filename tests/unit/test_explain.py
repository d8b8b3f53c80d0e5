"""Why a Workflow waits: each answer alone, the first that holds where several do, and what to do about it."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaoperator.core import explain, serving
from metaoperator.core.explain import Answer, Case, Explanation
from metaoperator.core.model import DEPLOYMENT, Ref
from metaoperator.core.serving import Controller

ID = "workflows.argoproj.io/controller-instanceid"
REF = Ref(DEPLOYMENT, "team-a", "workflow-controller")
CHILD = serving.child(REF, "team-a", alive=True)
WIDE = Controller(ref=Ref(DEPLOYMENT, "argo", "wc"), instance_id="", sees="", alive=True)
SAME = Controller(ref=Ref(DEPLOYMENT, "argo", "wc2"), instance_id="team-a", sees="", alive=True)


def row(status: str = "True", reason: str = "Leading", message: str = "it leads") -> dict[str, Any]:
    """Build a WorkflowController."""
    return {"status": {"conditions": [{"type": "Ready", "status": status, "reason": reason, "message": message}]}}


def asked(
    status: dict[str, Any] | None = None,
    *,
    label: str | None = "team-a",
    spec: dict[str, Any] | None = None,
    controllers: Sequence[Controller] = (CHILD, WIDE),
    **more: Any,
) -> Explanation:
    """Explain a Workflow of team-a, which is opted in unless told otherwise."""
    meta = {"name": "w", "namespace": "team-a", "labels": {} if label is None else {ID: label}}
    workflow = {"metadata": meta, "spec": spec or {}, "status": status or {}}
    known: dict[str, Any] = {"instance_id": "team-a", "row": row()} | more
    return explain.explain(Case(workflow=workflow, controllers=controllers, **known))


def pod(**status: Any) -> dict[str, Any]:
    """Build a pod that waits."""
    return {"metadata": {"name": "w-1", "namespace": "team-a"}, "status": {"phase": "Pending", **status}}


UNSCHEDULED = pod(
    conditions=[
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient cpu.",
        }
    ]
)
PULLING = pod(
    containerStatuses=[
        {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": 'image "x" not found'}}}
    ]
)
CREATING = pod(containerStatuses=[{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}])
MUTEX = {"mutex": {"waiting": [{"mutex": "team-a/Mutex/m", "holder": "team-a/other"}]}}
SEMAPHORE = {"semaphore": {"waiting": [{"semaphore": "team-a/ConfigMap/s/k", "holders": ["team-a/one", "team-a/two"]}]}}
THROTTLED = "Workflow processing has been postponed because too many workflows are already running"
SUSPENDED = {"n": {"type": "Suspend", "phase": "Running", "displayName": "approve"}}

CASES: dict[str, tuple[Explanation, Answer, str, str]] = {
    "runs": (asked({"phase": "Running"}), Answer.RUNNING, "it is Running", ""),
    "runs under another": (asked({"phase": "Running"}, label=None), Answer.RUNNING, "it is Running", ""),
    "finished": (asked({"phase": "Succeeded"}, controllers=()), Answer.FINISHED, "Succeeded", ""),
    "failed": (asked({"phase": "Failed"}), Answer.FINISHED, "Failed", ""),
    "an ID that nobody serves": (
        asked(label="lost"),
        Answer.NO_CONTROLLER,
        "instance ID 'lost', and no living controller",
        f"kubectl label workflow w --overwrite {ID}=team-a",
    ),
    "a started one that nobody serves": (
        explain.explain(
            Case(
                workflow={
                    "metadata": {
                        "name": "w",
                        "namespace": "team-a",
                        "labels": {ID: "lost", "workflows.argoproj.io/phase": "Running"},
                    },
                    "status": {"phase": "Running"},
                },
                instance_id="team-a",
                row=row(),
                controllers=(CHILD,),
            )
        ),
        Answer.NO_CONTROLLER,
        "instance ID 'lost'",
        "bring its controller back",
    ),
    "no ID, and nobody for that": (
        asked(label=None, controllers=(CHILD,)),
        Answer.UNSWEPT,
        "no instance ID, and no living controller serves that in this namespace; the operator puts team-a on it",
        "metaoperator status",
    ),
    "no ID, and it was started": (
        asked({"phase": "Running"}, label=None, controllers=(CHILD,)),
        Answer.NO_CONTROLLER,
        "no instance ID",
        "bring its controller back",
    ),
    "an empty ID": (asked(label=""), Answer.UNSWEPT, "instance ID ''", "wait some seconds"),
    "the fleet's ID": (asked(label="metaoperator"), Answer.UNSWEPT, "the operator puts team-a on it", "status"),
    "an ID of before, where now there is none": (
        asked(label="team-a", instance_id="", controllers=()),
        Answer.UNSWEPT,
        "the operator takes it off",
        "status",
    ),
    "none, and somebody began it": (
        asked(label="", pods=[CREATING]),
        Answer.NO_CONTROLLER,
        "the controller that began it",
        "bring its controller back",
    ),
    "none, and the namespace holds still": (
        asked(label="", row=row() | {"spec": {"paused": True}}),
        Answer.NO_CONTROLLER,
        "instance ID ''",
        f"{ID}=team-a",
    ),
    "nobody at all": (
        asked(label=None, controllers=(), instance_id=None, row=None),
        Answer.NO_CONTROLLER,
        "no workflow-controller of ours",
        "kubectl label namespace team-a metaoperator.dev/workflow-controller=enabled",
    ),
    "others that may not be read": (
        asked(label="lost", unknown=["deployments is forbidden"]),
        Answer.NOT_KNOWN,
        "deployments is forbidden",
        "ask somebody",
    ),
    "two at once": (
        asked({"phase": "Running"}, controllers=(CHILD, SAME)),
        Answer.SEVERAL_CONTROLLERS,
        "Deployment/argo/wc2",
        "remove all but one",
    ),
    "a child that is not there": (
        asked(controllers=(), row=row("False", "TemplateInvalid", "broken")),
        Answer.CONTROLLER_NOT_READY,
        "is not there: TemplateInvalid: broken",
        "metaoperator status",
    ),
    "a child that nobody made yet": (
        asked(controllers=(), row=None),
        Answer.CONTROLLER_NOT_READY,
        "no operator has looked yet",
        "metaoperator status",
    ),
    "a child that is not ready": (
        asked({"phase": "Running"}, row=row("False", "LeaseStale", "it stopped")),
        Answer.CONTROLLER_NOT_READY,
        "LeaseStale: it stopped",
        "metaoperator status",
    ),
    "suspended": (asked(spec={"suspend": True}), Answer.SUSPENDED, "spec.suspend", "argo -n team-a resume w"),
    "a step that waits for a person": (
        asked({"phase": "Running", "nodes": SUSPENDED}),
        Answer.SUSPENDED,
        "step approve",
        "argo -n team-a resume w",
    ),
    "a step that waits while others run": (
        asked({"phase": "Running", "nodes": {**SUSPENDED, "p": {"type": "Pod", "phase": "Running"}}}),
        Answer.RUNNING,
        "it is Running",
        "",
    ),
    "a mutex": (
        asked({"phase": "Pending", "synchronization": MUTEX}),
        Answer.LOCKED,
        "mutex team-a/Mutex/m (held by team-a/other)",
        "wait for the holders",
    ),
    "a semaphore": (
        asked({"phase": "Pending", "synchronization": SEMAPHORE}),
        Answer.LOCKED,
        "semaphore team-a/ConfigMap/s/k (held by team-a/one, team-a/two)",
        "wait for the holders",
    ),
    "a lock by its message alone": (
        asked({"phase": "Pending", "message": "Waiting for team-a/Mutex/m lock. Lock status: 0/1"}),
        Answer.LOCKED,
        "team-a/Mutex/m lock. Lock status: 0/1",
        "wait for the holders",
    ),
    "too many at once": (
        asked({"phase": "Pending", "message": THROTTLED}),
        Answer.THROTTLED,
        "too many workflows",
        "parallelism in the values",
    ),
    "too many at once elsewhere": (
        asked({"phase": "Pending", "message": THROTTLED}, label=None),
        Answer.THROTTLED,
        "too many workflows",
        "raise parallelism in the configuration",
    ),
    "no node": (
        asked({"phase": "Running"}, pods=[UNSCHEDULED]),
        Answer.POD_PENDING,
        "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.",
        "make room",
    ),
    "no image": (
        asked({"phase": "Running"}, pods=[CREATING, PULLING]),
        Answer.POD_PENDING,
        'ImagePullBackOff: image "x" not found',
        "an image",
    ),
    "a pod that is being made": (asked({"phase": "Running"}, pods=[CREATING]), Answer.RUNNING, "it is Running", ""),
    "not taken up": (
        asked(),
        Answer.NOT_TAKEN_UP,
        "has not taken it up yet",
        "kubectl -n team-a logs deployment/workflow-controller",
    ),
    "not taken up elsewhere": (
        asked(label=None),
        Answer.NOT_TAKEN_UP,
        "Deployment/argo/wc",
        "kubectl -n argo logs deployment/wc",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_answer_has_its_reason_and_its_cure(name: str) -> None:
    """The word, why, and what to do; only what runs or has finished needs nobody."""
    found, answer, why, cure = CASES[name]
    assert found.answer is answer
    assert why in found.why
    assert cure in found.cure
    assert found.waits == (answer not in (Answer.RUNNING, Answer.FINISHED))
    assert bool(found.cure) == found.waits


def test_every_answer_has_a_case() -> None:
    """A new one needs its row above."""
    # Why one that is deleted does not go has a table of its own: test_lingering.py.
    assert {answer for _, answer, _, _ in CASES.values()} | {Answer.KEPT} == set(Answer)


def test_the_first_that_holds_is_told() -> None:
    """A Workflow that nobody serves waits for no pod, and a child that is not ready explains what follows."""
    everything: dict[str, Any] = {
        "status": {"phase": "Pending", "message": THROTTLED, "synchronization": MUTEX},
        "spec": {"suspend": True},
        "pods": [UNSCHEDULED],
    }
    assert asked(**everything, label="lost").answer is Answer.NO_CONTROLLER
    assert asked(**everything, row=row("False", "LeaseStale", "")).answer is Answer.CONTROLLER_NOT_READY
    assert asked(**everything).answer is Answer.SUSPENDED


KEYS = ("nodes", "synchronization", "mutex", "semaphore", "waiting", "holders", "holder", "phase", "message", "suspend")
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "text", "Pending", "Succeeded", "Suspend"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*KEYS, "a", "type"]), inner, max_size=4)
    ),
    max_leaves=12,
)
MAPPING = st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=5)


@given(status=MAPPING, spec=MAPPING, label=st.sampled_from([None, "", "team-a", "else"]))
def test_whatever_stands_in_a_workflow_it_is_explained(
    status: dict[str, Any], spec: dict[str, Any], label: str | None
) -> None:
    """Minimal CRDs take anything in spec and status: an answer in words, never an error."""
    assert asked(status, spec=spec, label=label).why


@pytest.mark.parametrize("kind", ["mutex", "semaphore"])
@pytest.mark.parametrize("odd", [None, "text", 7, [None], ["text"], {"waiting": None}, {"waiting": [None, "x", {}]}])
def test_locks_that_are_none(kind: str, odd: Any) -> None:
    """No map, or no list, where Argo writes one."""
    assert asked({"phase": "Running", "synchronization": {kind: odd}, "nodes": {"a": odd}}).why
