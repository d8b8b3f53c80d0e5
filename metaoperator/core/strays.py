"""What waits for nobody: whatever has an ID that no living controller serves, and Workflows that none takes up."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from metaoperator.core import names
from metaoperator.core.model import CRON_WORKFLOW, WORKFLOW, Kind, Manifest
from metaoperator.core.names import Reason
from metaoperator.core.serving import Controller

GRACE: Final = timedelta(seconds=60)
"""For as long a new Workflow is nobody's concern: what stamps or serves it may need a moment."""

Servers = Callable[[str | None], Collection[Controller]]
"""Names the living controllers that act on what carries this label in the namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One unfinished Workflow, or a CronWorkflow; `label` is its instance ID, `None` for none.

    A controller that takes it up starts it, and says so when it has made the first pods. `schedule` names the
    CronWorkflow that a Workflow comes from.
    """

    name: str
    uid: str
    label: str | None
    started: bool
    created: datetime
    schedule: str = ""
    kind: Kind = WORKFLOW

    @classmethod
    def of(cls, live: Manifest, kind: Kind = WORKFLOW) -> "Work":
        """Read one from its metadata."""
        meta = live["metadata"]
        labels = meta.get("labels") or {}
        try:
            created = datetime.fromisoformat(meta["creationTimestamp"])
        except (KeyError, TypeError, ValueError):
            created = datetime.min.replace(tzinfo=UTC)
        return cls(
            name=meta["name"],
            uid=meta.get("uid", ""),
            label=labels.get(names.INSTANCE_ID_LABEL),
            started=bool(labels.get(names.PHASE_LABEL)),
            created=created,
            schedule=labels.get(names.CRON_WORKFLOW_LABEL, ""),
            kind=kind,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """One that waits in vain, why, and what to do."""

    name: str
    uid: str
    reason: Reason
    message: str
    kind: Kind = WORKFLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All of one look, oldest first; `due` is when time alone makes the next one."""

    strays: tuple[Stray, ...] = ()
    due: datetime | None = None

    def count(self, reason: Reason) -> int:
        """Count those of one reason."""
        return sum(each.reason is reason for each in self.strays)


def find(
    work: Iterable[Work],
    *,
    instance_id: str,
    servers: Servers,
    ready: bool,
    now: datetime,
    patience: timedelta,
    swept: Callable[[Work], bool] = lambda _: False,
    kept: Mapping[str, str] | None = None,
) -> Found:
    """Find the strays among the unfinished Workflows and the CronWorkflows of a namespace whose child has this ID.

    Only a child that is `ready` is expected to take work up; while it is not, its own condition tells. What is `swept`
    is about to be given to it; of what is `kept` from that, by UID, it says why.
    """
    kept = kept or {}
    mine = instance_id or None
    strays: list[Stray] = []
    due: list[datetime] = []
    served: dict[str | None, bool] = {}
    for each in sorted(work, key=lambda one: (one.created, one.name)):
        if each.label not in served:
            served[each.label] = bool(servers(each.label))
        if not served[each.label]:
            if swept(each):
                continue
            reason = Reason.WORKFLOW_ORPHANED if each.kind == WORKFLOW else Reason.SCHEDULE_ORPHANED
            limit, message = GRACE, kept.get(each.uid) or _orphaned(each, instance_id)
        elif each.kind == CRON_WORKFLOW:
            continue
        elif ready and each.label == mine and not each.started:
            reason, limit, message = Reason.WORKFLOW_PENDING, patience, _pending(patience)
        else:
            continue
        if now - each.created < limit:
            due.append(each.created + limit)
        else:
            strays.append(Stray(name=each.name, uid=each.uid, reason=reason, message=message, kind=each.kind))
    return Found(strays=tuple(strays), due=min(due, default=None))


def _pending(patience: timedelta) -> str:
    minutes = patience.total_seconds() / 60
    return (
        f"no controller has taken it up within {minutes:g} minutes, although the one of this namespace is ready: see "
        f"its log: kubectl logs deployment/{names.WORKFLOW_CONTROLLER}"
    )


def _orphaned(work: Work, instance_id: str) -> str:
    what = "without an instance ID" if work.label is None else f"with instance ID {work.label!r}"
    return f"no living controller serves {work.kind.kind}s {what} in this namespace: {give(work, instance_id)}"


def give(work: Work, instance_id: str) -> str:
    """Say how an orphan is given to the child; a started one only where nothing else is left to do."""
    label = f"{names.INSTANCE_ID_LABEL}={instance_id}" if instance_id else f"{names.INSTANCE_ID_LABEL}-"
    cure = f"kubectl label {work.kind.kind.lower()} {work.name} --overwrite {label}"
    if work.started:
        return f"bring its controller back, or stop it and submit it anew (it was started; else: {cure})"
    return cure
