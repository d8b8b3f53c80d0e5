"""A drain's steps: CronWorkflows and finished Workflows lose our label, unfinished ones are waited for or deleted.

Each look reads anew what is left and does one step, so that it may end anywhere. Since when a drain waits stands in the
status.
"""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from metaoperator import batches
from metaoperator.cluster import Cluster, Selection, crd_exists
from metaoperator.core import drain, names, ownership, serving
from metaoperator.core.drain import Schedule, Seen, Step, Terms
from metaoperator.core.errors import Gone, Rejected, RetryableError
from metaoperator.core.model import CRON_WORKFLOW, WORKFLOW, Kind, Manifest, Namespace, Ref, WorkCount
from metaoperator.core.names import Reason
from metaoperator.core.status import Drain, Note
from metaoperator.fleet import Fleet, Observed, labelled, unfinished
from metaoperator.newcomers import Newcomers
from metaoperator.recorder import Recorder

log = logging.getLogger(__name__)

PLURALS: Final = {WORKFLOW: "workflows", CRON_WORKFLOW: "cronworkflows"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What one look did: with a `note`, the child is still needed. `again` is when the next step is due, in seconds.

    What `failed` is to be tried again when it was told.
    """

    note: Note | None
    stalled: Note | None
    progress: Drain
    again: float | None
    failed: RetryableError | None = None


class Drainer:
    """Empties namespaces that have opted out of what carries their instance ID."""

    def __init__(
        self, cluster: Cluster, fleet: Fleet, recorder: Recorder, *, wall_clock: Callable[[], datetime]
    ) -> None:
        """Remember only the count that the status shows later."""
        self._cluster = cluster
        self._fleet = fleet
        self.newcomers = Newcomers(fleet, recorder)
        self._wall_clock = wall_clock
        self._handed: dict[str, int] = {}

    def forget(self, namespace: str) -> None:
        """Drop what is remembered of one namespace."""
        self.newcomers.forget(namespace)
        self._handed.pop(namespace, None)

    async def look(
        self, namespace: Namespace, instance: str, wfc: Manifest | None, seen: Observed, *, lives: bool
    ) -> Drained:
        """Do the next step. `lives` where the child is there and not being deleted."""
        published = (wfc or {}).get("status") or {}
        before, terms, now = Drain.of(published), Terms.of(wfc), self._wall_clock()
        again = await self.newcomers.look(namespace, instance, published, seen)
        stalled, failed, done = None, None, 0
        found = Seen()
        try:
            found = await self._seen(namespace, instance, terms, seen, lives=lives)
            step = drain.decide(found, terms, instance_id=instance, since=before.since, now=now)
            if step.schedules or step.finished or step.delete:
                done = await self._act(namespace, instance, step)
                again = 0.0 if done else again
        except Rejected as exc:
            step = Step(note=Note(reason=Reason.DRAINING, message=str(exc)), since=before.since)
            stalled = Note(reason=exc.reason, message=exc.told)
        except RetryableError as exc:
            if not batches.may_be_its_own(exc):
                raise
            # A webhook that is down may fail for days: whoever waits for the end sees what it waits for.
            step = Step(note=Note(reason=Reason.DRAINING, message=f"tried again by itself: {exc}"), since=before.since)
            failed = exc
        if step.due is not None:
            again = min(step.due.total_seconds(), step.due.total_seconds() if again is None else again)
        handed_back = max(before.handed_back, self._handed.get(namespace.name, 0)) + done
        if handed_back:
            self._handed[namespace.name] = handed_back
        progress = Drain(since=step.since, waiting=found.unfinished, handed_back=handed_back)
        return Drained(note=step.note, stalled=stalled, progress=progress, again=again, failed=failed)

    # ---- gather

    async def _seen(self, namespace: Namespace, instance: str, terms: Terms, seen: Observed, *, lives: bool) -> Seen:
        """Read what is left, and no more of it than the next step asks for."""
        foreigners = self._fleet.around.foreigners
        # Who may not see the others promises nothing of them.
        others = () if foreigners.deployments.refused else foreigners.controllers()
        mine = serving.servers(namespace.name, instance or None, others)
        found = Seen(
            successor=drain.successor(namespace.name, others),
            served=lives or bool(mine or foreigners.deployments.refused),
        )
        if instance or not found.successor:  # a child without an ID and its successor serve the same
            found = replace(found, schedules=await self._schedules(namespace, instance, found, terms))
        count = (await counted(self._cluster, namespace, instance, seen)).unfinished
        found = replace(found, unfinished=count)
        if count or (found.successor and found.schedules):
            return found
        if found.successor and instance and await self._finished(namespace, instance):
            return replace(found, finished=1)
        return replace(found, held=await self._held(namespace, instance)) if lives else found

    async def _schedules(self, namespace: Namespace, instance: str, found: Seen, terms: Terms) -> Sequence[Schedule]:
        there = Selection(
            kind=CRON_WORKFLOW, namespace=namespace.name, label_selector=labelled(instance), metadata_only=True
        )
        listed = [
            Schedule(name=meta["name"], uid=meta["uid"], version=meta["resourceVersion"])
            async for meta in self._metadata(there)
            if "deletionTimestamp" not in meta
        ]
        if not listed or (not found.successor and terms.stop_schedules):
            return listed
        # After the CronWorkflows: one that starts a Workflow meanwhile has another version, and is not written.
        busy: set[str] = set()
        if found.successor:
            children = replace(
                unfinished(namespace.name, instance),
                label_selector=f"{unfinished(namespace.name, instance).label_selector},{names.CRON_WORKFLOW_LABEL}",
            )
            busy = {meta["labels"][names.CRON_WORKFLOW_LABEL] async for meta in self._metadata(children)}
        schedules: list[Schedule] = []
        for each in listed:
            asked = each
            # One that would stop is enough to know.
            if each.name in busy or (not found.successor and not any(one.suspended is False for one in schedules)):
                live = await self._cluster.get(Ref(CRON_WORKFLOW, namespace.name, each.name))
                if live is None or live["metadata"]["uid"] != each.uid:
                    continue
                asked = each.learned(live, busy=each.name in busy)
            schedules.append(asked)
        return schedules

    async def _metadata(self, selection: Selection) -> AsyncIterator[Manifest]:
        """List the metadata of all objects of one of Argo's kinds; of none where there is no such kind."""
        try:
            async for page in self._cluster.list_pages(selection):
                for item in page["items"]:
                    yield item["metadata"]
        except Gone as exc:
            await _absent(self._cluster, selection.kind, exc)

    async def _finished(self, namespace: Namespace, instance: str) -> list[Manifest]:
        """Read the first page that has any; those that are being deleted are left to the child."""
        ended = _ended(namespace.name, instance)
        try:
            async for page in self._cluster.list_pages(ended):
                found = [each["metadata"] for each in page["items"] if "deletionTimestamp" not in each["metadata"]]
                if found:
                    return found
        except Gone as exc:
            await _absent(self._cluster, WORKFLOW, exc)
        return []

    async def _held(self, namespace: Namespace, instance: str) -> list[str]:
        """Name the Workflows that are being deleted and wait for the child: it collects their artifacts."""
        return [
            f"{Ref(WORKFLOW, namespace.name, meta['name'])}{ownership.held({'metadata': meta})}"
            async for meta in self._metadata(_ended(namespace.name, instance))
            if ownership.held({"metadata": meta})
        ]

    # ---- act

    async def _act(self, namespace: Namespace, instance: str, step: Step) -> int:
        """Carry a step out, and count the objects that were handed back."""
        if step.delete:
            going = [
                meta
                async for meta in self._metadata(unfinished(namespace.name, instance))
                if "deletionTimestamp" not in meta
            ]

            async def delete(meta: Manifest) -> bool:
                ref = Ref(WORKFLOW, namespace.name, meta["name"])
                await self._cluster.delete(ref, uid=meta["uid"])
                log.info("unfinished workflow deleted", extra={"workflow": str(ref)})
                return False

            await batches.each(going, delete)
        done = 0
        if step.schedules:
            metas: list[Manifest] = [
                {"name": each.name, "uid": each.uid, "resourceVersion": each.version} for each in step.schedules
            ]
            done += await batches.each(metas, lambda meta: self._handed_back(CRON_WORKFLOW, namespace, meta))
        if step.finished:
            metas = await self._finished(namespace, instance)
            done += await batches.each(metas, lambda meta: self._handed_back(WORKFLOW, namespace, meta))
        if done:
            told = "CronWorkflows" if step.schedules else "Workflows"
            log.info("handed back", extra={"namespace": namespace.name, "kind": told, "count": done})
        return done

    async def _handed_back(self, kind: Kind, namespace: Namespace, meta: Manifest) -> bool:
        """Take our label off one version of an object; tells whether it is off."""
        guard = {key: meta[key] for key in ("uid", "resourceVersion")}
        patch = {"metadata": {**guard, "labels": {names.INSTANCE_ID_LABEL: None}}}
        live = await self._cluster.merge(Ref(kind, namespace.name, meta["name"]), patch, metadata_only=True)
        # A moment after the opt-out admission may still know the label of before, and puts ours on again.
        return names.INSTANCE_ID_LABEL not in (live["metadata"].get("labels") or {})


async def counted(cluster: Cluster, namespace: Namespace, instance: str, seen: Observed) -> WorkCount:
    """Count what an opt-out waits for; zero is confirmed by the API server before anything is removed."""
    if seen.work is not None and seen.work.unfinished:
        return seen.work
    try:
        async for page in cluster.list_pages(unfinished(namespace.name, instance), limit=1):
            more = page["metadata"].get("remainingItemCount") or 0
            return WorkCount(pending=len(page["items"]) + more)
    except Gone as exc:
        await _absent(cluster, WORKFLOW, exc)
    return WorkCount()


async def _absent(cluster: Cluster, kind: Kind, gone: Gone) -> None:
    """Take a kind for absent only without its CRD: one that is being served again in a moment is there already."""
    if await crd_exists(cluster, f"{PLURALS[kind]}.argoproj.io"):
        raise RetryableError(f"{kind.kind}s cannot be seen: {gone}") from gone


def _ended(namespace: str, instance: str) -> Selection:
    label = f"{labelled(instance)},{names.COMPLETED_LABEL}=true"
    return Selection(kind=WORKFLOW, namespace=namespace, label_selector=label, metadata_only=True)
