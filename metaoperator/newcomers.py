"""Workflows that come without an instance ID while a namespace drains: each is told once who runs it."""

from datetime import datetime
from typing import Final

from metaoperator.core import drain, serving, status
from metaoperator.core.model import WORKFLOW, Manifest, Namespace
from metaoperator.core.names import Condition, Reason
from metaoperator.core.strays import Work
from metaoperator.fleet import Fleet, Observed
from metaoperator.recorder import Recorder

AT_ONCE: Final = 20
"""Events of one look; the rest is told at the next ones."""
AGAIN_SECONDS: Final = 5.0


class Newcomers:
    """Looks only where there is anything unfinished without an ID."""

    def __init__(self, fleet: Fleet, recorder: Recorder) -> None:
        """Remember only of which of them was told."""
        self._fleet = fleet
        self._recorder = recorder
        self._told: dict[str, frozenset[str]] = {}

    def forget(self, namespace: str) -> None:
        """Drop what is remembered of one namespace."""
        self._told.pop(namespace, None)

    async def look(self, namespace: Namespace, instance: str, published: Manifest, seen: Observed) -> float | None:
        """Tell of some; returns when to go on with the rest, in seconds."""
        began = status.condition(published, Condition.RECONCILING)
        foreigners = self._fleet.around.foreigners
        if not instance or None not in seen.labels or foreigners.deployments.refused or began.get("status") != "True":
            return None
        work = drain.newcomers(
            map(Work.of, self._fleet.workflows.within(namespace.name)),
            since=datetime.fromisoformat(began["lastTransitionTime"]),
        )
        told = self._told.get(namespace.name, frozenset()) & {each.uid for each in work}
        new = [each for each in work if each.uid not in told]
        who = serving.servers(namespace.name, None, foreigners.controllers())
        for each in new[:AT_ONCE]:
            meta = {"name": each.name, "namespace": namespace.name, "uid": each.uid}
            about = {"apiVersion": WORKFLOW.api_version, "kind": WORKFLOW.kind, "metadata": meta}
            await self._recorder.tell(about, Reason.DRAINING, drain.fate(who), warning=not who)
        self._told[namespace.name] = told | {each.uid for each in new[:AT_ONCE]}
        return AGAIN_SECONDS if len(new) > AT_ONCE else None
