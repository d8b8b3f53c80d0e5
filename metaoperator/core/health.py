"""Judge one child from what was gathered about it: Ready means that it leads, not that a pod exists."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from metaoperator.core.model import LeaseView, Manifest
from metaoperator.core.names import Health, Reason

_FAILING: Final = frozenset(
    {
        "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ErrImagePull",
        "ImagePullBackOff", "InvalidImageName", "RunContainerError",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a check found, in the words Kubernetes conditions use."""

    health: Health
    reason: Reason
    message: str


def assess(deployment: Manifest | None, pods: Sequence[Manifest], lease: LeaseView | None) -> Verdict:
    """Judge one child.

    The manifests are what the API server last said, status included; `None` means it is not there. `pods` are
    those that the Deployment selects. A status that has not seen the newest spec yet is `InProgress`, whatever
    it claims. Current needs an available Deployment and a Lease that a live pod of it moved within its duration.
    """
    if deployment is None:
        return Verdict(health=Health.NOT_FOUND, reason=Reason.INSTALLING, message="the Deployment is not there yet")
    name = f"Deployment/{deployment['metadata'].get('namespace', '')}/{deployment['metadata']['name']}"
    if "deletionTimestamp" in deployment["metadata"]:
        return Verdict(health=Health.TERMINATING, reason=Reason.REMOVING, message=f"{name} is being deleted")
    return _rollout(name, deployment, pods) or _leadership(name, pods, lease)


def _rollout(name: str, deployment: Manifest, pods: Sequence[Manifest]) -> Verdict | None:
    status: Mapping[str, Any] = deployment.get("status") or {}
    wanted = (deployment.get("spec") or {}).get("replicas", 1)
    seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    available = (
        seen
        and status.get("updatedReplicas", 0) >= wanted
        and status.get("availableReplicas", 0) >= wanted
        and status.get("replicas", 0) <= wanted
    )
    if available and wanted > 0:
        return None
    if (trouble := next(_pod_troubles(pods), None)) is not None:
        return Verdict(health=Health.FAILED, reason=Reason.POD_FAILING, message=trouble)
    if seen and (failure := _condition(status, "ReplicaFailure", "True")):
        # Quota, LimitRange and Pod Security refuse the pod, not the Deployment: only this condition tells.
        return Verdict(health=Health.FAILED, reason=Reason.DEPLOYMENT_FAILED, message=f"{name}: {failure}")
    if seen and (failure := _condition(status, "Progressing", "False")):
        return Verdict(health=Health.FAILED, reason=Reason.DEPLOYMENT_FAILED, message=f"{name}: {failure}")
    if wanted == 0:
        return Verdict(
            health=Health.FAILED, reason=Reason.DEPLOYMENT_FAILED, message=f"{name} is scaled to 0: nothing runs"
        )
    message = f"{name}: {status.get('availableReplicas', 0)} of {wanted} available, waiting for the new pod"
    return Verdict(health=Health.IN_PROGRESS, reason=Reason.DEPLOYMENT_PROGRESSING, message=message)


def _leadership(name: str, pods: Sequence[Manifest], lease: LeaseView | None) -> Verdict:
    if lease is None or not lease.holder:
        return Verdict(
            health=Health.IN_PROGRESS, reason=Reason.LEASE_MISSING, message=f"{name} is available, no pod leads yet"
        )
    live = sorted(pod["metadata"]["name"] for pod in pods if _alive(pod))
    if lease.holder not in live:
        message = f"the Lease is held by {lease.holder}, which is no live pod of {name}: it expires by itself"
        return Verdict(health=Health.IN_PROGRESS, reason=Reason.LEASE_FOREIGN, message=message)
    if lease.age > lease.duration:
        message = f"{lease.holder} holds the Lease but has not renewed it within {lease.duration:.0f} s"
        return Verdict(health=Health.FAILED, reason=Reason.LEASE_STALE, message=message)
    return Verdict(health=Health.CURRENT, reason=Reason.LEADING, message=f"{lease.holder} leads")


def _alive(pod: Manifest) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and (pod.get("status") or {}).get("phase") == "Running"


def _pod_troubles(pods: Sequence[Manifest]) -> Iterator[str]:
    for pod in sorted(pods, key=lambda item: str(item["metadata"]["name"])):
        if "deletionTimestamp" in pod["metadata"]:
            continue  # one that is on its way out says nothing about the one that follows
        status = pod.get("status") or {}
        for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _FAILING:
                last = ((container.get("lastState") or {}).get("terminated") or {}).get("message", "").strip()
                detail = last or waiting.get("message", "")
                yield f"Pod/{pod['metadata']['name']}: {waiting['reason']}" + (f": {detail}" if detail else "")
        if (refused := _condition(status, "PodScheduled", "False")) is not None:
            yield f"Pod/{pod['metadata']['name']}: {refused}"


def _condition(status: Mapping[str, Any], kind: str, value: str) -> str | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind and condition.get("status") == value:
            return f"{condition.get('reason', '')}: {condition.get('message', '')}".strip(": ")
    return None


def belongs(pod: Manifest, deployment: str) -> bool:
    """Tell whether a pod is one of this Deployment's: a ReplicaSet of its name made it."""
    return any(
        owner["kind"] == "ReplicaSet" and owner["name"].rpartition("-")[0] == deployment
        for owner in pod["metadata"].get("ownerReferences") or ()
    )
