"""Health: what the API server says of a child, as YAML, beside the verdict. Ready means that it leads."""

from datetime import UTC, datetime
from typing import Any

import pytest

from metaoperator.core import health, strictyaml
from metaoperator.core.model import LeaseView, Manifest
from metaoperator.core.names import Health, Reason

DEPLOYED = """
  metadata: {name: workflow-controller, namespace: team-a, generation: 2}
  spec: {replicas: 1}
  status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, availableReplicas: 1}
"""
WAITING = """
  metadata: {name: workflow-controller, namespace: team-a, generation: 2}
  spec: {replicas: 1}
  status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1}
"""
RUNNING = "{metadata: {name: p1, namespace: team-a}, status: {phase: Running}}"
UNSCHEDULABLE = """
  metadata: {name: p1, namespace: team-a}
  status:
    phase: Pending
    conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: 0/3 nodes}]
"""
LEADS = LeaseView(holder="p1", duration=30, age=3)


def pending(waiting: str, *, container: str = "containerStatuses", more: str = "") -> str:
    """Write a pod with a container that waits."""
    status = f"{{phase: Pending, {container}: [{{state: {{waiting: {waiting}}}{more}}}]}}"
    return f"{{metadata: {{name: p1, namespace: team-a}}, status: {status}}}"


def assess(deployment: str | None, *pods: str, lease: LeaseView | None = LEADS) -> health.Verdict:
    """Judge a child that is written as YAML."""
    found: Manifest | None = None if deployment is None else strictyaml.load(deployment)
    return health.assess(found, [strictyaml.load(pod) for pod in pods], lease, now=NOW)


def condition(kind: str, status: str, reason: str, message: str) -> str:
    """Write a Deployment that is not available, with a condition."""
    return WAITING.replace(
        "updatedReplicas: 1}",
        f'conditions: [{{type: {kind}, status: "{status}", reason: {reason}, message: "{message}"}}]}}',
    )


NAME = "Deployment/team-a/workflow-controller"
POD = "Pod/team-a/p1"
NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
REFUSED = (
    "mend what it names; Kubernetes tries again ever more rarely, and at once after: "
    "kubectl -n team-a rollout restart deployment/workflow-controller"
)
IMAGE = "correct the image, the registry or the pull secret in the values"
STALE = "another pod takes over when it ends, and its liveness probe ends one that hangs; see its log"
DESCRIBE = "kubectl -n team-a describe pods tells what its pods wait for"
ROOM = "make room on the nodes, or change resources or placement in the values"
LOG = "see its log: kubectl -n team-a logs p1 --previous"


@pytest.mark.parametrize(
    ("deployment", "pods", "lease", "verdict"),
    [
        pytest.param(DEPLOYED, [RUNNING], LEADS, (Health.CURRENT, Reason.LEADING, "p1 leads"), id="leads"),
        pytest.param(
            DEPLOYED,
            [RUNNING],
            LeaseView(holder="p1", duration=30, age=30),
            (Health.CURRENT, Reason.LEADING, "p1 leads"),
            id="leads, to the last second",
        ),
        pytest.param(
            None, [], None, (Health.NOT_FOUND, Reason.INSTALLING, "the Deployment is not there yet"), id="not there"
        ),
        pytest.param(
            None,
            [RUNNING],
            LEADS,
            (Health.NOT_FOUND, Reason.INSTALLING, "the Deployment is not there yet"),
            id="not there, though something leads",
        ),
        pytest.param(
            DEPLOYED.replace("generation: 2}", 'generation: 2, deletionTimestamp: "x"}'),
            [RUNNING],
            LEADS,
            (Health.TERMINATING, Reason.REMOVING, f"{NAME} is being deleted"),
            id="being deleted",
        ),
        # Available, but nobody leads
        pytest.param(
            DEPLOYED,
            [RUNNING],
            None,
            (Health.IN_PROGRESS, Reason.LEASE_MISSING, f"{NAME} is available, no pod leads yet"),
            id="no Lease",
        ),
        pytest.param(
            DEPLOYED,
            [RUNNING],
            LeaseView(holder="", duration=30, age=0),
            (Health.IN_PROGRESS, Reason.LEASE_MISSING, f"{NAME} is available, no pod leads yet"),
            id="a Lease without a holder",
        ),
        pytest.param(
            DEPLOYED,
            [RUNNING],
            LeaseView(holder="p1", duration=30, age=30.5),
            (
                Health.FAILED,
                Reason.LEASE_STALE,
                f"p1 holds the Lease of {NAME} but has not renewed it within 30 s: {STALE}",
            ),
            id="a stale Lease",
        ),
        *[
            pytest.param(
                DEPLOYED,
                pods,
                LeaseView(holder="p1", duration=30, age=0),
                (
                    Health.IN_PROGRESS,
                    Reason.LEASE_FOREIGN,
                    f"the Lease is held by p1, which is no live pod of {NAME}: it expires by itself",
                ),
                id=f"the holder is {what}",
            )
            for what, pods in {
                "gone": [],
                "another pod": [RUNNING.replace("p1", "p2")],
                "being deleted": ['{metadata: {name: p1, deletionTimestamp: "x"}, status: {phase: Running}}'],
                "finished": ["{metadata: {name: p1, namespace: team-a}, status: {phase: Failed}}"],
                "without a status": ["{metadata: {name: p1}}"],
            }.items()
        ],
        pytest.param(
            DEPLOYED,
            [],
            LeaseView(holder="p0", duration=30, age=99),
            (
                Health.IN_PROGRESS,
                Reason.LEASE_FOREIGN,
                f"the Lease is held by p0, which is no live pod of {NAME}: it expires by itself",
            ),
            id="the holder is gone and its Lease stale",
        ),
        # Not available
        pytest.param(
            WAITING,
            [],
            LEADS,
            (Health.IN_PROGRESS, Reason.DEPLOYMENT_PROGRESSING, f"{NAME}: 0 of 1 available, waiting for the new pod"),
            id="no pod yet",
        ),
        pytest.param(
            WAITING.split("status:", maxsplit=1)[0],
            [],
            None,
            (Health.IN_PROGRESS, Reason.DEPLOYMENT_PROGRESSING, f"{NAME}: 0 of 1 available, waiting for the new pod"),
            id="no status yet",
        ),
        pytest.param(
            DEPLOYED.replace("generation: 2}", "generation: 3}", 1),
            [RUNNING],
            LEADS,
            (Health.IN_PROGRESS, Reason.DEPLOYMENT_PROGRESSING, f"{NAME}: 1 of 1 available, waiting for the new pod"),
            id="the newest spec is not observed",
        ),
        pytest.param(
            DEPLOYED.replace("updatedReplicas: 1", "updatedReplicas: 0"),
            [RUNNING],
            LEADS,
            (Health.IN_PROGRESS, Reason.DEPLOYMENT_PROGRESSING, f"{NAME}: 1 of 1 available, waiting for the new pod"),
            id="only the old pod is available",
        ),
        pytest.param(
            DEPLOYED.replace("replicas: 1, updated", "replicas: 2, updated"),
            [RUNNING],
            LEADS,
            (Health.IN_PROGRESS, Reason.DEPLOYMENT_PROGRESSING, f"{NAME}: 1 of 1 available, waiting for the new pod"),
            id="the old pod is still there",
        ),
        pytest.param(
            DEPLOYED.replace("replicas: 1}\n", "replicas: 0}\n", 1).replace("replicas: 1,", "replicas: 0,"),
            [],
            LEADS,
            (
                Health.FAILED,
                Reason.DEPLOYMENT_FAILED,
                f"{NAME} is scaled to 0, nothing runs: scale it to 1, or end the pause of its WorkflowController",
            ),
            id="scaled to zero",
        ),
        # What only conditions and pods tell
        pytest.param(
            condition("ReplicaFailure", "True", "FailedCreate", "exceeded quota: pods"),
            [],
            None,
            (
                Health.FAILED,
                Reason.POD_REFUSED,
                f"{NAME} may have no pod: FailedCreate: exceeded quota: pods ({REFUSED})",
            ),
            id="quota",
        ),
        pytest.param(
            condition("ReplicaFailure", "True", "FailedCreate", "quota").replace("generation: 2}", "generation: 3}", 1),
            [],
            None,
            (Health.IN_PROGRESS, Reason.DEPLOYMENT_PROGRESSING, f"{NAME}: 0 of 1 available, waiting for the new pod"),
            id="quota, of an older spec",
        ),
        pytest.param(
            condition("ReplicaFailure", "False", "x", "y"),
            [],
            None,
            (Health.IN_PROGRESS, Reason.DEPLOYMENT_PROGRESSING, f"{NAME}: 0 of 1 available, waiting for the new pod"),
            id="quota no more",
        ),
        pytest.param(
            condition("Progressing", "False", "ProgressDeadlineExceeded", "timed out"),
            [],
            None,
            (
                Health.FAILED,
                Reason.DEPLOYMENT_FAILED,
                f"{NAME}: ProgressDeadlineExceeded: timed out ({DESCRIBE})",
            ),
            id="deadline",
        ),
        pytest.param(
            WAITING,
            [pending("{reason: ImagePullBackOff, message: not found}")],
            None,
            (Health.FAILED, Reason.POD_FAILING, f"{POD}: ImagePullBackOff: not found ({IMAGE})"),
            id="image pull",
        ),
        pytest.param(
            WAITING,
            [
                pending(
                    "{reason: CrashLoopBackOff, message: back-off 10s}",
                    more=', lastState: {terminated: {message: "unknown field: parallelisms\\n"}}',
                )
            ],
            None,
            (Health.FAILED, Reason.POD_FAILING, f"{POD}: CrashLoopBackOff: unknown field: parallelisms ({LOG})"),
            id="crash loop, with its last words",
        ),
        pytest.param(
            WAITING,
            [pending("{reason: CrashLoopBackOff}")],
            None,
            (Health.FAILED, Reason.POD_FAILING, f"{POD}: CrashLoopBackOff ({LOG})"),
            id="crash loop without a word",
        ),
        pytest.param(
            WAITING,
            [pending("{reason: CreateContainerConfigError, message: no secret}", container="initContainerStatuses")],
            None,
            (
                Health.FAILED,
                Reason.POD_FAILING,
                f"{POD}: CreateContainerConfigError: no secret (make what it names, or take it out of the values)",
            ),
            id="an init container",
        ),
        pytest.param(
            WAITING,
            [pending("{reason: ContainerCreating}")],
            None,
            (Health.IN_PROGRESS, Reason.DEPLOYMENT_PROGRESSING, f"{NAME}: 0 of 1 available, waiting for the new pod"),
            id="just starting",
        ),
        pytest.param(
            WAITING,
            [UNSCHEDULABLE],
            None,
            (
                Health.FAILED,
                Reason.POD_FAILING,
                f"{POD}: Unschedulable: 0/3 nodes ({ROOM})",
            ),
            id="unschedulable",
        ),
    ],
)
def test_a_child_is_judged_by_what_it_does(
    deployment: str | None, pods: list[str], lease: LeaseView | None, verdict: tuple[Health, Reason, str]
) -> None:
    """Current needs an available Deployment and a Lease that a live pod of it moved lately; all else says why not."""
    found = assess(deployment, *pods, lease=lease)
    assert (found.health, found.reason, found.message) == verdict


@pytest.mark.parametrize("pods", [[RUNNING, pending("{reason: ErrImagePull}").replace("p1", "p2")]])
def test_a_child_that_leads_is_not_judged_by_a_leftover_pod(pods: list[str]) -> None:
    """An available Deployment with a leader works, whatever else its name still hangs on."""
    assert assess(DEPLOYED, *pods).health is Health.CURRENT


def test_of_several_failing_pods_the_first_by_name_is_told() -> None:
    """The message does not jump from one to the other at each look."""
    pods = [pending("{reason: ErrImagePull}").replace("p1", name) for name in ("p3", "p2", "p4")]
    assert assess(WAITING, *pods, lease=None).message == f"Pod/team-a/p2: ErrImagePull ({IMAGE})"


@pytest.mark.parametrize(
    ("owners", "belongs"),
    [
        ([{"kind": "ReplicaSet", "name": "workflow-controller-7c9f"}], True),
        ([{"kind": "ReplicaSet", "name": "workflow-controller-1-7c9f"}], False),
        ([{"kind": "ReplicaSet", "name": "workflow-controller"}], False),
        ([{"kind": "Job", "name": "workflow-controller-7c9f"}], False),
        ([{"kind": "ReplicaSet", "name": "other-7c9f"}], False),
        ([], False),
        (None, False),
    ],
    ids=str,
)
def test_a_pod_belongs_to_the_deployment_whose_replica_set_made_it(owners: Any, *, belongs: bool) -> None:
    """Labels can be copied; a second shard's name begins with the first's."""
    pod = {"metadata": {"name": "p", "ownerReferences": owners}}
    assert health.belongs(pod, "workflow-controller") is belongs


NO_ACCOUNT = 'pods "x" is forbidden: error looking up service account team-a/x: serviceaccount "x" not found'


@pytest.mark.parametrize(
    ("since", "message", "health_", "again"),
    [
        ("2026-01-01T12:00:00Z", NO_ACCOUNT, Health.IN_PROGRESS, 31),
        ("2026-01-01T11:59:31Z", NO_ACCOUNT, Health.IN_PROGRESS, 2),
        ("2026-01-01T11:59:30Z", NO_ACCOUNT, Health.FAILED, None),
        ("2026-01-01T12:00:29Z", 'pods "x" is forbidden: exceeded quota: q', Health.FAILED, None),
        ("2026-01-01T12:59:59Z", NO_ACCOUNT, Health.IN_PROGRESS, 61),
        ("once upon a time", NO_ACCOUNT, Health.IN_PROGRESS, 61),
    ],
    ids=["half a minute", "59 s", "a minute", "another refusal", "a clock that is ahead", "no time"],
)
def test_a_service_account_that_is_not_seen_yet_alarms_nobody_for_a_minute(
    since: str, message: str, health_: Health, again: float | None
) -> None:
    """The API server may see it later than us, and Kubernetes tries again; any other refusal is told at once."""
    found: dict[str, Any] = strictyaml.load(condition("ReplicaFailure", "True", "FailedCreate", "x"))
    found["status"]["conditions"][0] |= {"message": message, "lastTransitionTime": since}
    verdict = health.assess(found, [], None, now=NOW)
    assert (verdict.health, verdict.again) == (health_, again)
    assert message in verdict.message


def companion(status: str, *, name: str = "argo-server") -> Any:
    """Write a Deployment that stands beside the child."""
    return strictyaml.load(
        f"{{metadata: {{name: {name}, namespace: team-a, generation: 1}}, spec: {{replicas: 1}}, status: {status}}}"
    )


UP = "{observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1}"
DOWN = "{observedGeneration: 1, replicas: 1, updatedReplicas: 1}"


def test_what_stands_beside_a_child_is_told_of_only_when_it_fails() -> None:
    """A rollout that goes on is no news; a pod that cannot run is, in its own words, and pods of others are not its."""
    crash: Any = strictyaml.load(
        "{metadata: {name: argo-server-1-a, namespace: team-a, ownerReferences:"
        " [{kind: ReplicaSet, name: argo-server-1}]}, status: {phase: Running, containerStatuses:"
        " [{state: {waiting: {reason: CrashLoopBackOff}}}]}}"
    )
    assert health.companions([], [crash], now=NOW) is None
    assert health.companions([companion(UP)], [], now=NOW) is None
    assert health.companions([companion(DOWN)], [], now=NOW) is None
    assert health.companions([companion(DOWN, name="other")], [crash], now=NOW) is None
    found = health.companions([companion(UP, name="a"), companion(DOWN)], [crash], now=NOW)
    assert found is not None
    assert (found.health, found.reason) == (Health.FAILED, Reason.COMPANION_FAILING)
    assert found.message.startswith(
        "the workflow-controller works, but not argo-server beside it: Pod/team-a/argo-server-1-a: CrashLoopBackOff"
    )
