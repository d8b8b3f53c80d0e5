"""Workflows that wait in vain, told once each: in the condition, in an Event at the Workflow, and counted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from metaoperator.core import names, serving, strays
from metaoperator.core.model import DEPLOYMENT, Namespace, Ref
from metaoperator.core.names import Reason
from metaoperator.core.serving import Controller
from metaoperator.core.status import Note
from metaoperator.core.strays import Found, Stray, Work
from metaoperator.core.sweep import Standing
from metaoperator.fleet import Fleet, Observed
from metaoperator.recorder import Recorder

AT_ONCE: Final = 20
"""Events of one look; the rest is told at the next ones."""
AGAIN_SECONDS: Final = 30.0
_WORST: Final = (Reason.WORKFLOW_ORPHANED, Reason.SCHEDULE_ORPHANED, Reason.WORKFLOW_PENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one look found: the strays and their condition, who serves what has no ID, and when to look again."""

    found: Found = field(default_factory=Found)
    note: Note | None = None
    beside: str = ""
    again: float | None = None


class Strays:
    """Looks only where there is anything that may wait in vain: a settled namespace costs nothing."""

    def __init__(
        self, fleet: Fleet, recorder: Recorder, *, patience: float, wall_clock: Callable[[], datetime]
    ) -> None:
        """`patience` is the seconds after which a ready child should have taken a Workflow up."""
        self._fleet = fleet
        self._recorder = recorder
        self._patience = timedelta(seconds=patience)
        self._wall_clock = wall_clock
        self._told: dict[str, frozenset[tuple[str, Reason]]] = {}
        self._due: dict[str, datetime] = {}
        self._found: dict[str, Found] = {}

    def counted(self) -> Mapping[str, Found]:
        """Hand out what was found last, for metrics; namespaces without strays are not in it."""
        return self._found

    def forget(self, namespace: str) -> None:
        """Drop what is remembered of one namespace."""
        for kept in (self._told, self._due, self._found):
            kept.pop(namespace, None)

    async def look(
        self,
        namespace: Namespace,
        instance_id: str,
        seen: Observed,
        *,
        ready: bool,
        alive: bool,
        standing: Standing | None = None,
    ) -> Seen:
        """Look at the unfinished Workflows and the CronWorkflows of a namespace.

        `alive` where its child is there, or is being made; `standing` is what the sweep does there meanwhile.
        """
        standing = standing or Standing()
        foreigners = self._fleet.around.foreigners
        child = serving.child(Ref(DEPLOYMENT, namespace.name, names.WORKFLOW_CONTROLLER), instance_id, alive=alive)
        there = (*foreigners.controllers(), child)

        def servers(label: str | None) -> tuple[Controller, ...]:
            return serving.servers(namespace.name, label, there)

        swept = None in standing.open
        beside = _beside(servers(None)) if instance_id and None in seen.labels and not swept else ""
        if foreigners.deployments.refused:
            return Seen(beside=beside)  # whoever is not seen may serve anything
        now = self._wall_clock()
        waiting = ready and seen.work is not None and seen.work.pending > 0
        lost = [label for label in seen.labels if not servers(label)]
        # What is about to be swept is read only where something beside it may not be.
        orphaned = bool(
            any(label not in standing.open or seen.labels[label].running for label in lost)
            or standing.kept
            or any(not servers(each.label) and not standing.takes(each) for each in standing.schedules)
        )
        if not waiting and not orphaned:
            self.forget(namespace.name)
            return Seen(beside=beside, note=standing.fault)
        if not orphaned and namespace.name not in self._found and now < self._due.get(namespace.name, now):
            return Seen(beside=beside, note=standing.fault, again=(self._due[namespace.name] - now).total_seconds())
        found = strays.find(
            (*map(Work.of, self._fleet.workflows.within(namespace.name)), *standing.schedules),
            instance_id=instance_id,
            servers=servers,
            ready=ready,
            now=now,
            patience=self._patience,
            swept=standing.takes,
            kept=standing.kept,
        )
        left = await self._remember(namespace.name, found)
        again = AGAIN_SECONDS if left else None
        if again is None and found.due is not None:
            again = max(1.0, (found.due - now).total_seconds())
        return Seen(found=found, note=_note(found) or standing.fault, beside=beside, again=again)

    async def _remember(self, namespace: str, found: Found) -> bool:
        """Tell of those that are new, some at a time; returns whether any is left."""
        told = self._told.get(namespace, frozenset()) & {(each.uid, each.reason) for each in found.strays}
        new = [each for each in found.strays if (each.uid, each.reason) not in told]
        for each in new[:AT_ONCE]:
            await self._recorder.tell(_about(namespace, each), each.reason, each.message, warning=True)
        self.forget(namespace)
        if found.strays:
            self._found[namespace] = found
            self._told[namespace] = told | {(each.uid, each.reason) for each in new[:AT_ONCE]}
        if found.due is not None:
            self._due[namespace] = found.due
        return len(new) > AT_ONCE


def _about(namespace: str, stray: Stray) -> dict[str, object]:
    meta = {"name": stray.name, "namespace": namespace, "uid": stray.uid}
    return {"apiVersion": stray.kind.api_version, "kind": stray.kind.kind, "metadata": meta}


def _note(found: Found) -> Note | None:
    """Name the oldest only: a message that changes with each Workflow would be written each time."""
    if not found.strays:
        return None
    worst = min(found.strays, key=lambda each: _WORST.index(each.reason))
    return Note(reason=worst.reason, message=f"such as {worst.kind.kind} {worst.name}: {worst.message}")


def _beside(others: tuple[Controller, ...]) -> str:
    who = ", ".join(map(str, others)) or "nobody"
    return f"unfinished Workflows without an instance ID are served by {who}"
