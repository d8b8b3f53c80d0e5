"""Judge one child from what was gathered about it: Ready means that it leads, not that a pod exists."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from metaoperator.core.model import LeaseView, Manifest
from metaoperator.core.names import Health, Reason

_IMAGE: Final = "correct the image, the registry or the pull secret in the values"
_LOG: Final = "see its log: kubectl -n {namespace} logs {pod} --previous"
_LACKING: Final = "make what it names, or take it out of the values"
_FAILING: Final = {
    "CrashLoopBackOff": _LOG,
    "CreateContainerConfigError": _LACKING,
    "CreateContainerError": _LACKING,
    "ErrImageNeverPull": _IMAGE,
    "ErrImagePull": _IMAGE,
    "ImagePullBackOff": _IMAGE,
    "InvalidImageName": _IMAGE,
    "RunContainerError": _LOG,
}
"""What a container may wait for that does not come by itself, and what to do."""

_NO_ACCOUNT: Final = "error looking up service account"
GRACE_SECONDS: Final = 60.0
"""For as long nobody is alarmed by what a cluster that has just begun puts right by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a check found, in the words Kubernetes conditions use; `again` where time alone changes it, in seconds."""

    health: Health
    reason: Reason
    message: str
    again: float | None = None


def assess(deployment: Manifest | None, pods: Sequence[Manifest], lease: LeaseView | None, *, now: datetime) -> Verdict:
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
    return _rollout(name, deployment, pods, now) or _leadership(name, pods, lease)


def companions(deployments: Iterable[Manifest], pods: Sequence[Manifest], *, now: datetime) -> Verdict | None:
    """Judge what stands beside the child, such as an argo-server: the first that fails, `None` where none does.

    Whoever waits for READY waits for the child, which works without it. `pods` are those of all of them.
    """
    for deployment in sorted(deployments, key=lambda each: str(each["metadata"]["name"])):
        name = str(deployment["metadata"]["name"])
        if "deletionTimestamp" in deployment["metadata"]:
            continue
        own = [pod for pod in pods if belongs(pod, name)]
        verdict = _rollout(f"Deployment/{_home(deployment)}/{name}", deployment, own, now)
        if verdict is not None and verdict.health is Health.FAILED:
            message = f"the workflow-controller works, but not {name} beside it: {verdict.message}"
            return Verdict(health=Health.FAILED, reason=Reason.COMPANION_FAILING, message=message)
    return None


def _rollout(name: str, deployment: Manifest, pods: Sequence[Manifest], now: datetime) -> Verdict | None:
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
        return _no_pod(name, deployment, failure, since=_since(status, "ReplicaFailure"), now=now)
    if seen and (failure := _condition(status, "Progressing", "False")):
        message = f"{name}: {failure} (kubectl -n {_home(deployment)} describe pods tells what its pods wait for)"
        return Verdict(health=Health.FAILED, reason=Reason.DEPLOYMENT_FAILED, message=message)
    if wanted == 0:
        message = f"{name} is scaled to 0, nothing runs: scale it to 1, or end the pause of its WorkflowController"
        return Verdict(health=Health.FAILED, reason=Reason.DEPLOYMENT_FAILED, message=message)
    message = f"{name}: {status.get('availableReplicas', 0)} of {wanted} available, waiting for the new pod"
    return Verdict(health=Health.IN_PROGRESS, reason=Reason.DEPLOYMENT_PROGRESSING, message=message)


def _home(deployment: Manifest) -> str:
    return str(deployment["metadata"].get("namespace", ""))


def _no_pod(name: str, deployment: Manifest, failure: str, *, since: datetime | None, now: datetime) -> Verdict:
    """Tell why no pod comes: quota, LimitRange, Pod Security and the like refuse the pod, not the Deployment."""
    age = 0.0 if since is None else max(0.0, (now - since).total_seconds())
    if _NO_ACCOUNT in failure and age < GRACE_SECONDS:
        # The API server's own view of a ServiceAccount may be seconds old, and Kubernetes tries again by itself.
        message = f"{name} waits for its ServiceAccount: {failure}"
        again = GRACE_SECONDS - age + 1
        return Verdict(health=Health.IN_PROGRESS, reason=Reason.DEPLOYMENT_PROGRESSING, message=message, again=again)
    message = (
        f"{name} may have no pod: {failure} (mend what it names; Kubernetes tries again ever more rarely, and at once "
        f"after: kubectl -n {_home(deployment)} rollout restart deployment/{deployment['metadata']['name']})"
    )
    return Verdict(health=Health.FAILED, reason=Reason.POD_REFUSED, message=message)


def _since(status: Mapping[str, Any], kind: str) -> datetime | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind:
            try:
                return datetime.fromisoformat(condition["lastTransitionTime"])
            except (KeyError, TypeError, ValueError):
                return None
    return None


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
        message = (
            f"{lease.holder} holds the Lease of {name} but has not renewed it within {lease.duration:.0f} s: "
            "another pod takes over when it ends, and its liveness probe ends one that hangs; see its log"
        )
        return Verdict(health=Health.FAILED, reason=Reason.LEASE_STALE, message=message)
    return Verdict(health=Health.CURRENT, reason=Reason.LEADING, message=f"{lease.holder} leads")


def _alive(pod: Manifest) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and (pod.get("status") or {}).get("phase") == "Running"


def _pod_troubles(pods: Sequence[Manifest]) -> Iterator[str]:
    for pod in sorted(pods, key=lambda item: str(item["metadata"]["name"])):
        if "deletionTimestamp" in pod["metadata"]:
            continue  # one that is on its way out says nothing about the one that follows
        status = pod.get("status") or {}
        meta = pod["metadata"]
        name = "/".join(filter(None, ("Pod", meta.get("namespace", ""), meta["name"])))
        for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _FAILING:
                last = ((container.get("lastState") or {}).get("terminated") or {}).get("message", "").strip()
                detail = last or waiting.get("message", "")
                cure = _FAILING[waiting["reason"]].format(namespace=meta.get("namespace", ""), pod=meta["name"])
                yield f"{name}: {waiting['reason']}{f': {detail}' if detail else ''} ({cure})"
        if (refused := _condition(status, "PodScheduled", "False")) is not None:
            yield f"{name}: {refused} (make room on the nodes, or change resources or placement in the values)"


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
