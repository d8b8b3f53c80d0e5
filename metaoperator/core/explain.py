"""Why a Workflow waits, if it does, and what to do: the first answer that holds, from controller down to pods."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from metaoperator.core import lingering, names, paths, serving
from metaoperator.core.model import Manifest
from metaoperator.core.serving import Controller
from metaoperator.core.status import condition
from metaoperator.core.strays import Work, give
from metaoperator.core.sweep import BEGUN, Goal, open_labels

_POSTPONED: Final = "too many workflows are already running"
"""Argo's own words for its throttle (argo-workflows `workflow/controller/controller.go`)."""
_LOCK: Final = "Waiting for "


class Answer(StrEnum):
    """What is so, in one word."""

    FINISHED = "Finished"
    RUNNING = "Running"
    NO_CONTROLLER = "NoController"
    NOT_KNOWN = "NotKnown"
    SEVERAL_CONTROLLERS = "SeveralControllers"
    CONTROLLER_NOT_READY = "ControllerNotReady"
    SUSPENDED = "Suspended"
    LOCKED = "Locked"
    THROTTLED = "Throttled"
    POD_PENDING = "PodPending"
    NOT_TAKEN_UP = "NotTakenUp"
    UNSWEPT = "Unswept"
    KEPT = "Kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is known of a Workflow and of what is around it; `unknown` names what could not be read.

    `row` is the WorkflowController of its namespace, `instance_id` the ID of the child there, `None` for no child.
    """

    workflow: Manifest
    instance_id: str | None
    row: Manifest | None
    controllers: Sequence[Controller]
    pods: Sequence[Manifest] = ()
    unknown: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer to a person."""

    answer: Answer
    owners: tuple[Controller, ...]
    why: str
    cure: str = ""

    @property
    def waits(self) -> bool:
        """Tell whether somebody may have to do something."""
        return self.answer not in {Answer.FINISHED, Answer.RUNNING}


def explain(case: Case) -> Explanation:
    """Find the first answer that holds."""
    meta = case.workflow["metadata"]
    status = paths.mapping(case.workflow, "status")
    label = serving.instance_id_of(case.workflow)
    owners = serving.servers(meta["namespace"], label, case.controllers)
    deleted = lingering.by_artifacts(case.workflow)
    for answer, why, cure in (
        *(() if deleted else _finished(status)),
        *_nobody(case, label, owners),
        *_several(owners),
        *_not_ready(case, owners),
        *(_kept(case) if deleted else ()),
        *_suspended(case.workflow),
        *_locked(status),
        *_throttled(status, owners),
        *_pods(case.pods),
        *_not_taken_up(status, owners),
    ):
        return Explanation(answer=answer, owners=owners, why=why, cure=cure)
    message = f": {status['message']}" if status.get("message") else ""
    return Explanation(answer=Answer.RUNNING, owners=owners, why=f"it is {status.get('phase')}{message}")


_Found = Iterator[tuple[Answer, str, str]]


def _finished(status: Mapping[str, Any]) -> _Found:
    if (phase := str(status.get("phase"))) in lingering.FINISHED:
        yield Answer.FINISHED, f"it has {'ended' if phase == 'Error' else 'finished'}: {phase}", ""


def _nobody(case: Case, label: str | None, owners: Sequence[Controller]) -> _Found:
    """No controller that lives: our own one that is not there, others that cannot be seen, or truly nobody."""
    if owners:
        return
    what = "no instance ID" if label is None else f"instance ID {label!r}"
    if case.instance_id is not None and label == (case.instance_id or None):
        why = f"the workflow-controller of this namespace, for {what}, is not there: {_told(case.row)}"
        yield Answer.CONTROLLER_NOT_READY, why, "see: metaoperator status"
        return
    if case.unknown:
        why = f"it has {what}, and no controller for that can be seen; what could not be read: {_list(case.unknown)}"
        yield Answer.NOT_KNOWN, why, "ask somebody who may read it"
        return
    why = f"it has {what}, and no living controller serves that in this namespace"
    if case.instance_id is None:
        name = case.workflow["metadata"]["namespace"]
        cure = f"kubectl label namespace {name} {names.OPT_IN_LABEL}=enabled"
        yield Answer.NO_CONTROLLER, f"{why}; the namespace has no workflow-controller of ours", cure
        return
    work = Work.of(case.workflow)
    if lingering.by_artifacts(case.workflow):
        cure = give(replace(work, started=False), case.instance_id)
        yield Answer.NO_CONTROLLER, f"{why}: it is deleted, and nobody deletes its artifacts", cure
        return
    work = replace(work, started=work.started or bool(paths.mapping(case.workflow, "status").get("phase")))
    goal = Goal(namespace=case.workflow["metadata"]["namespace"], instance_id=case.instance_id)
    paused = ((case.row or {}).get("spec") or {}).get("paused")
    if not work.started and not paused and label in open_labels(goal, case.controllers):
        if case.pods:
            yield Answer.NO_CONTROLLER, f"{why}; {BEGUN}", give(replace(work, started=True), case.instance_id)
            return
        how = f"puts {case.instance_id} on it" if case.instance_id else "takes it off"
        cure = "wait some seconds; if it lasts: metaoperator status"
        yield Answer.UNSWEPT, f"{why}; the operator {how} as soon as the controller here is ready", cure
        return
    yield Answer.NO_CONTROLLER, why, give(work, case.instance_id)


def _several(owners: Sequence[Controller]) -> _Found:
    if len(owners) > 1:
        yield (
            Answer.SEVERAL_CONTROLLERS,
            f"{len(owners)} controllers act on it at once, and each may run it: {', '.join(map(str, owners))}",
            "remove all but one, or give the others instance IDs of their own",
        )


def _not_ready(case: Case, owners: Sequence[Controller]) -> _Found:
    if not owners or not owners[0].ours or case.row is None:
        return
    ready = condition(case.row.get("status") or {}, names.Condition.READY)
    if ready.get("status") != "True":
        why = f"its workflow-controller is not ready: {_told(case.row)}"
        yield Answer.CONTROLLER_NOT_READY, why, "see: metaoperator status"


def _kept(case: Case) -> _Found:
    yield from _pods(case.pods)
    why, cure = lingering.why(case.workflow, case.pods)
    yield Answer.KEPT, f"it is deleted, and kept by its finalizer {lingering.FINALIZER}: {why}", cure


def _suspended(workflow: Manifest) -> _Found:
    meta = workflow["metadata"]
    resume = f"argo -n {meta['namespace']} resume {meta['name']}"
    if paths.mapping(workflow, "spec").get("suspend"):
        yield Answer.SUSPENDED, "it is suspended (spec.suspend)", resume
    # Whoever may write a Workflow writes its status too, and Argo's minimal CRDs let anything through.
    nodes = [paths.mapping(node) for node in paths.mapping(workflow, "status", "nodes").values()]
    waiting = sorted(
        str(node.get("displayName") or node.get("name"))
        for node in nodes
        if node.get("type") == "Suspend" and node.get("phase") == "Running"
    )
    active = any(node.get("type") == "Pod" and str(node.get("phase")) in {"Pending", "Running"} for node in nodes)
    if waiting and not active:
        yield Answer.SUSPENDED, f"it waits in step {', '.join(waiting)} until somebody resumes it", resume


def _locked(status: Mapping[str, Any]) -> _Found:
    told = []
    for kind in ("mutex", "semaphore"):
        for each in map(paths.mapping, _list_in(paths.mapping(status, "synchronization", kind), "waiting")):
            holders = list(map(str, [each["holder"]] if each.get("holder") else _list_in(each, "holders")))
            told.append(f"{kind} {each.get(kind)} (held by {', '.join(holders) or 'nobody that is told'})")
    message = str(status.get("message") or "")
    if not told and message.startswith(_LOCK) and " lock" in message:
        told.append(message.removeprefix(_LOCK))
    if told:
        cure = "wait for the holders, or stop them; a lock counts only among Workflows of one controller"
        yield Answer.LOCKED, f"it waits for {_list(told)}", cure


def _list_in(found: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = found.get(key)
    return value if isinstance(value, list) else []


def _throttled(status: Mapping[str, Any], owners: Sequence[Controller]) -> _Found:
    message = str(status.get("message") or "")
    if status.get("phase") == "Pending" and _POSTPONED in message:
        ours = bool(owners) and owners[0].ours
        cure = "raise parallelism in the values, or in the configuration of its controller, or wait for others to end"
        yield Answer.THROTTLED, message, cure if ours else cure.replace("in the values, or ", "")


def _pods(pods: Sequence[Manifest]) -> _Found:
    for pod in sorted(pods, key=lambda each: str(each["metadata"]["name"])):
        status: Mapping[str, Any] = pod.get("status") or {}
        if status.get("phase") != "Pending":
            continue
        name = f"Pod/{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
        for each in status.get("conditions") or ():
            if each.get("type") == "PodScheduled" and each.get("status") == "False":
                why = f"{name} has no node: {each.get('reason', '')}: {each.get('message', '')}"
                yield Answer.POD_PENDING, why, "make room on the nodes, or change what the step asks for"
        for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
            waiting = (each.get("state") or {}).get("waiting") or {}
            reason = str(waiting.get("reason", ""))
            if reason not in {"", "PodInitializing", "ContainerCreating"}:
                why = f"{name}, container {each.get('name')}: {reason}: {waiting.get('message', '')}"
                yield Answer.POD_PENDING, why, "correct what it names: an image, a pull secret, a volume"


def _not_taken_up(status: Mapping[str, Any], owners: Sequence[Controller]) -> _Found:
    if status.get("phase") or not owners:
        return
    ref = owners[0].ref
    cure = f"wait some seconds; if it lasts: kubectl -n {ref.namespace} logs {ref.kind.kind.lower()}/{ref.name}"
    yield Answer.NOT_TAKEN_UP, f"{owners[0]} has not taken it up yet", cure


def _told(row: Manifest | None) -> str:
    ready = condition((row or {}).get("status") or {}, names.Condition.READY)
    return f"{ready['reason']}: {ready['message']}" if ready else "no operator has looked yet"


def _list(told: Sequence[str]) -> str:
    return "; ".join(told)
