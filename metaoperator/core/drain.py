"""The way out of a namespace, decided: what is handed back, what is waited for, and when the child may stop.

A controller drops from a CronWorkflow's status every child that it does not itself serve (argo-workflows
`workflow/cron`, each 10 s). A CronWorkflow and its unfinished Workflows therefore stay under one instance ID, or
`Forbid` and `Replace` would start a second one beside the first.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from metaoperator.core import durations, names, serving
from metaoperator.core.model import Manifest
from metaoperator.core.names import Reason
from metaoperator.core.serving import Controller
from metaoperator.core.status import Note
from metaoperator.core.strays import Work

_ALLOW: Final = "Allow"


class Then(StrEnum):
    """What becomes of Workflows that are unfinished when the time is up (`spec.drain.then`)."""

    KEEP = "Keep"
    DELETE = "Delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the platform wrote under `spec.drain`; without any, a drain waits for as long as it takes."""

    timeout: timedelta | None = None
    then: Then = Then.KEEP
    stop_schedules: bool = False

    @classmethod
    def of(cls, wfc: Manifest | None) -> "Terms":
        """Read them as the CRD lets them through; `None` where the row is gone, and its terms with it."""
        said: dict[str, Any] = ((wfc or {}).get("spec") or {}).get("drain") or {}
        return cls(
            timeout=durations.read(said.get("timeout")),
            then=Then(said.get("then") or Then.KEEP),
            stop_schedules=bool(said.get("stopSchedules")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A CronWorkflow with our instance ID, at one of its versions.

    `busy` while a Workflow that it started is unfinished. `together` where it lets several run at a time, `suspended`
    where it starts nothing; both are `None` while nobody had to ask.
    """

    name: str
    uid: str
    version: str
    busy: bool = False
    together: bool | None = None
    suspended: bool | None = None

    @property
    def free(self) -> bool:
        """Tell whether another controller may have it now."""
        return not self.busy or self.together is True

    def learned(self, live: Manifest, *, busy: bool) -> "Schedule":
        """Take over what its spec says, and the version that says it."""
        spec: Manifest = live.get("spec") or {}
        return Schedule(
            name=self.name,
            uid=live["metadata"]["uid"],
            version=live["metadata"]["resourceVersion"],
            busy=busy,
            together=(spec.get("concurrencyPolicy") or _ALLOW) == _ALLOW,
            suspended=bool(spec.get("suspend")) or (live.get("status") or {}).get("phase") == "Stopped",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one look found under our instance ID. `successor` is who serves what has none, empty for nobody.

    `held` names the Workflows that are being deleted and wait for the child. What is looked for only when nothing
    before it is left counts as absent until then. It is not `served` where the child is gone before its time, and no
    other controller has its ID.
    """

    successor: str = ""
    served: bool = True
    schedules: Sequence[Schedule] = ()
    unfinished: int = 0
    finished: int = 0
    held: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do now, and what to say of it; without a `note`, nothing is left that the child is needed for.

    `since` is when the waiting for Workflows began, `due` how long until time alone makes the next step.
    """

    note: Note | None = None
    schedules: tuple[Schedule, ...] = ()
    finished: bool = False
    delete: bool = False
    since: datetime | None = None
    due: timedelta | None = None


def decide(seen: Seen, terms: Terms, *, instance_id: str, since: datetime | None, now: datetime) -> Step:
    """Choose the next step of a drain. Nothing is taken from the child that nobody would take up.

    CronWorkflows first, so that no schedule is lost; then the unfinished Workflows end under the child that began them;
    then the finished ones go, for their time to live, archive and deletion.
    """
    free: tuple[Schedule, ...] = ()
    if seen.successor:
        free = tuple(each for each in seen.schedules if each.free)
    elif not terms.stop_schedules and (lost := [each.name for each in seen.schedules if each.suspended is False]):
        # What runs out meanwhile is not what the schedules start after somebody agreed: the time counts anew.
        return Step(note=_lost(lost, seen, instance_id))
    since = min(since or now, now)  # a clock that was ahead, and was put right, would make us wait for as long
    stuck = [each.name for each in seen.schedules if not each.free] if seen.successor else []
    if seen.unfinished or stuck:
        late = terms.timeout is not None and now - since >= terms.timeout
        told = _waits(instance_id, stuck) if seen.served else f"unfinished Workflows wait: {_nobody(instance_id)}"
        reason, due = Reason.DRAINING if seen.served else Reason.WORKFLOW_ORPHANED, None
        if late and terms.then is Then.DELETE:
            told = f"unfinished Workflows with {_named(instance_id)} are deleted: spec.drain.timeout is over"
            reason = Reason.DRAINING
        elif late:
            reason, told = Reason.DRAIN_TIMEOUT, f"spec.drain.timeout is over, and spec.drain.then is Keep: {told}"
        elif terms.timeout is not None:
            due = since + terms.timeout - now
        note = Note(reason=reason, message=told)
        return Step(note=note, schedules=free, delete=late and terms.then is Then.DELETE, since=since, due=due)
    if free or (seen.successor and seen.finished):
        what = "CronWorkflows" if free else "finished Workflows"
        note = Note(reason=Reason.DRAINING, message=f"{what} are handed back to {seen.successor}")
        return Step(note=note, schedules=free, finished=not free, since=since)
    if seen.held:
        return Step(note=Note(reason=Reason.DRAINING, message=_held(seen.held)), since=since)
    return Step(since=since)


def successor(namespace: str, controllers: Iterable[Controller]) -> str:
    """Name who serves what has no instance ID there, empty for nobody that is known to: a doubt is no promise."""
    return ", ".join(str(each) for each in serving.servers(namespace, None, controllers) if each.sure)


def newcomers(work: Iterable[Work], *, since: datetime) -> list[Work]:
    """Find the Workflows without an instance ID that were submitted while the child drained, oldest first."""
    found = [each for each in work if each.label is None and each.created >= since]
    return sorted(found, key=lambda each: (each.created, each.name))


def fate(who: Collection[Controller]) -> str:
    """Say of a Workflow without an instance ID who runs it in a namespace that has opted out."""
    if who:
        return f"this namespace has opted out, and this Workflow has no instance ID: {', '.join(map(str, who))} runs it"
    return (
        "this namespace has opted out, this Workflow has no instance ID, and no controller that lives serves such "
        f"Workflows here: it waits for ever; label the namespace ({names.OPT_IN_LABEL}), or delete it"
    )


def _named(instance_id: str) -> str:
    return f"ID {instance_id}" if instance_id else "no ID"


def _nobody(instance_id: str) -> str:
    return (
        f"the child's Deployment was deleted, and no other controller serves what has {_named(instance_id)}: opt in "
        "again, which makes it anew, and then out, or delete them"
    )


def _waits(instance_id: str, stuck: Sequence[str]) -> str:
    told = (
        f"unfinished Workflows with {_named(instance_id)} are served until they end: stop or delete them to leave "
        "sooner, and suspend CronWorkflows with that ID, which start new ones"
    )
    if stuck:
        told += f"; CronWorkflow {_some(stuck)} is handed back when none of its Workflows is unfinished"
    return told


def _lost(lost: Sequence[str], seen: Seen, instance_id: str) -> Note:
    if not seen.served:
        told = f"CronWorkflow {_some(lost)} stands still: {_nobody(instance_id)}"
        return Note(reason=Reason.SCHEDULE_ORPHANED, message=told)
    told = (
        f"no other controller would go on with CronWorkflow {_some(lost)}: the child is kept, and with it the "
        "schedules; suspend or delete them, install a controller of all namespaces without an instance ID, or agree "
        "that they stop: spec.drain.stopSchedules: true in the WorkflowController"
    )
    return Note(reason=Reason.SCHEDULES_WOULD_STOP, message=told)


def _held(held: Sequence[str]) -> str:
    return (
        f"only the child takes these finalizers off, so it is kept until they are gone: {_some(held)}; to "
        "leave at once, and what they clean up behind, take them off by hand"
    )


def _some(found: Sequence[str]) -> str:
    more = [f"and {len(found) - 5} more"] if len(found) > 5 else []
    return ", ".join([*sorted(found)[:5], *more])
