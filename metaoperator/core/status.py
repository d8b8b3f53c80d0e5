"""What we publish: the status of a WorkflowController and of a ControllerTemplate, kstatus rules.

Status is a view. It is computed anew on each look; only `lastTransitionTime` is carried over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from metaoperator.core.health import Verdict
from metaoperator.core.model import WorkCount
from metaoperator.core.names import Condition, Health, Reason

_TYPES: Final = frozenset(Condition)
_COUNTS: Final = {"workflows": None, "drain": None}
_STAMP: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A reason and a message: why something stalls, or what is under way."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """How far a drain is: since when it waits for Workflows, for how many, and how many objects it handed back.

    `confirmed` where it is one of more than may go at once, and a person agreed.
    """

    since: datetime | None = None
    waiting: int = 0
    handed_back: int = 0
    confirmed: bool = False

    @classmethod
    def of(cls, status: Mapping[str, Any]) -> "Drain":
        """Read it from a published status; where that was lost, all of it counts anew."""
        said = status.get("drain") or {}
        try:
            since = datetime.fromisoformat(said["since"])
        except (KeyError, TypeError, ValueError):
            since = None
        return cls(since=since, handed_back=int(said.get("handedBack") or 0), confirmed=said.get("confirmed") is True)

    def told(self) -> dict[str, Any]:
        """Write it as the status shows it."""
        told: dict[str, Any] = {"waiting": self.waiting, "handedBack": self.handed_back}
        if self.confirmed:
            told["confirmed"] = True
        return told | ({} if self.since is None else {"since": self.since.strftime(_STAMP)})


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that one look at a namespace has to tell. A `remark` is told with a child that works and changes nothing.

    `strays` tells of Workflows that wait in vain, `beside` who serves those without an instance ID. `unswept` ones are
    about to get theirs from the operator, `swept` objects have got it.
    """

    generation: int
    verdict: Verdict
    stalled: Note | None = None
    reconciling: Note | None = None
    remark: Note | None = None
    strays: Note | None = None
    overdue: int = 0
    orphaned: int = 0
    beside: str = ""
    unswept: int = 0
    swept: int = 0
    drain: Drain | None = None
    template: str = ""
    revision: str = ""
    version: str = ""
    instance_id: str = ""
    leader: str = ""
    work: WorkCount | None = None
    inventory: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """What a ControllerTemplate tells of its rollout: in fields, and whether it goes on or waits for a person."""

    told: Mapping[str, Any]
    moving: Note | None = None
    halted: Note | None = None


def workflow_controller(view: View, previous: Mapping[str, Any], *, now: datetime) -> dict[str, Any]:
    """Compose the status of a WorkflowController; empty fields are left out.

    Stalled wins over the child's own health: READY then says what a person has to mend, although the child may
    go on working as it was.
    """
    verdict = view.verdict
    ready = "True" if verdict.health is Health.CURRENT else "Unknown" if verdict.health is Health.UNKNOWN else "False"
    told = Note(reason=verdict.reason, message=verdict.message)
    if view.stalled is not None:
        ready, told = "False", view.stalled
    elif verdict.health is Health.CURRENT:
        # A drain or a pause is what a person looks for in the REASON of a child that works.
        told = view.remark or view.reconciling or told
        told = Note(reason=told.reason, message="; ".join(filter(None, (told.message, view.beside))))
    busy = view.reconciling if view.stalled is None else None  # kstatus reads the first of the two that is true
    if busy is None and view.stalled is None and verdict.health in {Health.IN_PROGRESS, Health.NOT_FOUND}:
        busy = told
    status: dict[str, Any] = {
        "observedGeneration": view.generation,
        "conditions": conditions(
            [
                (Condition.READY, ready, told),
                (Condition.RECONCILING, *_abnormal(busy)),
                (Condition.STALLED, *_abnormal(view.stalled)),
                *([(Condition.ORPHANED_WORKFLOWS, *_abnormal(view.strays))] if view.strays is not None else []),
            ],
            previous.get("conditions") or (),
            generation=view.generation,
            now=now,
        ),
        "template": view.template,
        "revision": view.revision,
        "version": view.version,
        "instanceID": view.instance_id,
        "leader": view.leader,
        "inventory": sorted(view.inventory),
    }
    if view.work is not None:
        seldom = {
            "unlabelled": view.work.unlabelled,
            "unswept": view.unswept,
            "swept": view.swept,
            "orphaned": view.orphaned,
            "overdue": view.overdue,
        }
        counts = {"running": view.work.running, "pending": view.work.pending}
        status["workflows"] = counts | {key: count for key, count in seldom.items() if count}
    if view.drain is not None:
        status["drain"] = view.drain.told()
    return {key: value for key, value in status.items() if value not in ("", [])}


def controller_template(
    *,
    generation: int,
    fault: Note | None,
    held: Note | None = None,
    revision: str,
    total: int,
    ready: int,
    previous: Mapping[str, Any],
    now: datetime,
    rollout: Rollout | None = None,
) -> dict[str, Any]:
    """Compose the status of a ControllerTemplate: can its set be used, by whom it is, and how far its rollout is.

    A removal of children that is `held` leaves it ready, and stands where people look.
    """
    told = fault or held or Note(reason=Reason.LOADED, message="the template set is loaded")
    stalled = fault or (rollout.halted if rollout else None)
    moving = rollout.moving if rollout and stalled is None else None
    status: dict[str, Any] = {
        "observedGeneration": generation,
        "conditions": conditions(
            [
                (Condition.READY, "False" if fault else "True", told),
                (Condition.RECONCILING, *_abnormal(moving)),
                (Condition.STALLED, *_abnormal(stalled)),
                *([(Condition.DELETION_HELD, *_abnormal(held))] if held is not None else []),
            ],
            previous.get("conditions") or (),
            generation=generation,
            now=now,
        ),
        "namespaces": {"total": total, "ready": ready},
    }
    if rollout is not None:
        status["rollout"] = dict(rollout.told)
    elif "rollout" in previous:
        status["rollout"] = previous["rollout"]
    return status | ({"revision": revision} if revision else {})


def conditions(
    wanted: Sequence[tuple[Condition, str, Note]],
    previous: Sequence[Mapping[str, Any]],
    *,
    generation: int,
    now: datetime,
) -> list[dict[str, Any]]:
    """Write conditions; `lastTransitionTime` moves only when a condition's status does (Kubernetes API conventions)."""
    before = {str(item.get("type")): item for item in previous}
    stamp = now.strftime(_STAMP)
    written = []
    for kind, value, note in wanted:
        old = before.get(kind, {})
        since = old.get("lastTransitionTime", stamp) if old.get("status") == value else stamp
        written.append(
            {
                "type": str(kind),
                "status": value,
                "reason": str(note.reason),
                "message": note.message[:32000],
                "observedGeneration": generation,
                "lastTransitionTime": since,
            }
        )
    return written


def condition(status: Mapping[str, Any], kind: Condition) -> Mapping[str, Any]:
    """Find one condition in a published status; empty where it is not there."""
    for item in status.get("conditions") or ():
        if item.get("type") == kind:
            return item  # type: ignore[no-any-return]
    return {}


def ours(status: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what somebody else added to a status that we apply: conditions of other types stay, and are no news."""
    if "conditions" not in status:
        return dict(status)
    return {**status, "conditions": [each for each in status["conditions"] or () if each.get("type") in _TYPES]}


def only_counts_differ(status: Mapping[str, Any], published: Mapping[str, Any]) -> bool:
    """Tell whether nothing but counts changed: such a write can wait and be merged with the next."""
    return {**status, **_COUNTS} == {**published, **_COUNTS}


def _abnormal(note: Note | None) -> tuple[str, Note]:
    if note is None:
        return "False", Note(reason=Reason.SETTLED, message="")
    return "True", note
