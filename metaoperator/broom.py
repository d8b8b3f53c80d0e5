"""The writes of a sweep: one label on one version of one object, by its metadata alone.

An object that moved on meanwhile answers 409, and the next pass looks at it anew. Each is asked about once more, from
what the watches tell, right before it is written.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from metaoperator import batches
from metaoperator.cluster import Cluster, Selection
from metaoperator.core import names, sweep
from metaoperator.core.errors import Forbidden, Rejected, RetryableError
from metaoperator.core.model import CRON_WORKFLOW, WORKFLOW, Manifest, Ref
from metaoperator.core.strays import Work
from metaoperator.core.sweep import Goal
from metaoperator.stays import Stays

log = logging.getLogger(__name__)

TRIES: Final = 5
"""After so many server errors one object is left aside for a while, and told."""
FAILED_SECONDS: Final = 60.0


@dataclass(slots=True, kw_only=True)
class Pass:
    """One way through a namespace, over several looks.

    `epoch` is that of the other controllers in which it was planned, `until` when it is to be planned anew. `held`
    names the Workflows of each schedule that stay, `stuck` the schedules of which one did not move when its turn came.
    """

    goal: Goal
    left: deque[Work]
    epoch: int
    until: float
    held: Mapping[str, Collection[str]]
    stuck: set[str] = field(default_factory=set)
    missed: bool = False


class Broom:
    """Moves batches."""

    def __init__(
        self,
        cluster: Cluster,
        stays: Stays,
        holds: Callable[[Pass], bool],
        moved: Callable[[Pass], None],
        *,
        registry: CollectorRegistry,
    ) -> None:
        """`holds(current)` tells whether a pass still may move anything, `moved(current)` is told of each that has."""
        self._cluster = cluster
        self._stays = stays
        self._holds = holds
        self._moved = moved
        self._count = Counter(
            "metaoperator_swept", "Objects that got their instance ID from the operator.", ["kind"], registry=registry
        )

    async def move(self, current: Pass, found: Collection[str | None], size: int) -> int:
        """Move the next ones, Workflows before CronWorkflows, out of the labels found; returns how many have moved."""
        batch = [current.left.popleft() for _ in range(min(size, len(current.left)))]
        done = 0
        for kinds in ({WORKFLOW}, {CRON_WORKFLOW}):
            chosen = [each for each in batch if each.kind in kinds]
            done += await batches.each(chosen, lambda each: self._move(current, found, each))
        return done

    async def _move(self, current: Pass, found: Collection[str | None], work: Work) -> bool:
        """Give one object to the child; tells whether it has it now."""
        ref = Ref(work.kind, current.goal.namespace, work.name)
        store = self._stays.store(work.kind)
        live, version = store.get(ref.namespace, ref.name), store.version(ref.namespace, ref.name)
        seen = None if live is None else Work.of(live, work.kind)
        if seen is None or seen.uid != work.uid or seen.label not in found or seen.started or version is None:
            return False  # gone, or moved on by itself
        moved = False
        try:
            if not self._holds(current):
                return False
            if work.kind == WORKFLOW:
                meta = {"name": work.name, "uid": work.uid, "resourceVersion": str(version)}
                moved = await self._label(current, ref, meta)
            else:
                moved = await self._schedule(current, ref, seen)
        except Forbidden:
            raise  # of all of them
        except Rejected as exc:
            why = f"the controller of this namespace would serve it, but the ID cannot be put on: {exc.told}"
            self._stays.stay(ref.namespace, seen, why)
        except RetryableError as exc:
            if not batches.may_be_its_own(exc) or self._stays.failed(ref.namespace, work.uid) < TRIES:
                raise
            why = f"the controller of this namespace would serve it, but the ID cannot be put on yet: {exc}"
            self._stays.stay(ref.namespace, seen, why, seconds=FAILED_SECONDS)
        finally:
            if moved:
                self._stays.passed(ref.namespace, work.uid)
            else:
                current.missed = True
                current.stuck.add(work.schedule)
        return moved

    async def _schedule(self, current: Pass, ref: Ref, seen: Work) -> bool:
        """Move a CronWorkflow when its Workflows have moved, or where it lets several run at a time."""
        live = await self._cluster.get(ref)
        if live is None or live["metadata"]["uid"] != seen.uid or Work.of(live, ref.kind).label != seen.label:
            return False
        held = current.held.get(ref.name, ())
        if why := sweep.refusal(live, current.goal, held):
            self._stays.stay(ref.namespace, seen, why, because_of=held)
            return False
        return ref.name not in current.stuck and await self._label(current, ref, live["metadata"])

    async def finished(self, current: Pass, size: int) -> int:
        """Move some finished Workflows without an ID, for their time to live, archive and deletion."""
        label = f"{names.COMPLETED_LABEL}=true,!{names.INSTANCE_ID_LABEL}"
        namespace = current.goal.namespace
        ended = Selection(kind=WORKFLOW, namespace=namespace, label_selector=label, metadata_only=True)

        async def move(meta: Manifest) -> bool:
            ref = Ref(WORKFLOW, namespace, meta["name"])
            try:
                return self._holds(current) and await self._label(current, ref, meta)
            except Forbidden:
                raise
            except Rejected as exc:
                log.warning("finished workflow not labelled", extra={"workflow": str(ref), "error": str(exc)})
                return False

        async for page in self._cluster.list_pages(ended, limit=size):
            if done := await batches.each([each["metadata"] for each in page["items"]], move):
                return done
        return 0

    async def _label(self, current: Pass, ref: Ref, meta: Manifest) -> bool:
        guard = {key: meta[key] for key in ("uid", "resourceVersion")}
        patch = {"metadata": guard | {"labels": {names.INSTANCE_ID_LABEL: current.goal.label}}}
        live = await self._cluster.merge(ref, patch, metadata_only=True)
        store = self._stays.store(ref.kind)
        if store.version(ref.namespace, ref.name) is not None:  # what has finished is not watched
            store.learn({**live, "apiVersion": ref.kind.api_version, "kind": ref.kind.kind})
        self._count.labels(ref.kind.kind).inc()
        self._moved(current)
        return True
