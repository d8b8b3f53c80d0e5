"""What exists and carries no instance ID, or not the right one, is given to the child of its namespace.

`core/sweep.py` decides, `broom.py` writes. A queue of its own beside the one that looks after children: ten thousand
Workflows of one namespace delay nobody. What there is is known from watches; a pass reads, once, what was begun of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Final

from prometheus_client import REGISTRY, CollectorRegistry

from metaoperator import begun, informer
from metaoperator.artifactgc import ArtifactGC
from metaoperator.broom import Broom, Pass
from metaoperator.cluster import Cluster, Selection
from metaoperator.core import names, serving, status, sweep
from metaoperator.core.errors import Rejected, RetryableError
from metaoperator.core.model import CRON_WORKFLOW, DEPLOYMENT, WORKFLOW, Manifest, Namespace, Ref
from metaoperator.core.names import Condition
from metaoperator.core.status import Note
from metaoperator.core.strays import Work
from metaoperator.core.sweep import Goal, Standing
from metaoperator.fleet import Fleet, Observed
from metaoperator.informer import Informer
from metaoperator.mirror import Mirror
from metaoperator.recorder import Recorder
from metaoperator.stays import Stays

BATCH: Final = 100
"""Objects of one look at a namespace; then the others have their turn."""
FRESH_SECONDS: Final = 60.0
"""For so long counts what was read at the beginning of a pass."""
AGAIN_SECONDS: Final = 2.0
"""After which objects that changed under a pass are tried again, at first."""


class Sweep:
    """Works on one namespace at a look."""

    def __init__(
        self,
        cluster: Cluster,
        mirror: Mirror,
        fleet: Fleet,
        recorder: Recorder,
        ask: Callable[[str, float], None],
        *,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        """`ask(namespace, delay)` is called for each namespace that deserves a look."""
        self._cluster = cluster
        self._fleet = fleet
        self._ask = ask
        self._artifact_gc = ArtifactGC(cluster, mirror, fleet, recorder, ask)
        self.schedules = Informer(
            cluster,
            Selection(kind=CRON_WORKFLOW, metadata_only=True),
            project=informer.work,
            changed=lambda ref, _before, _after: fleet.work_moved(ref.namespace),
            absent_pause=informer.ABSENT_PAUSE,
        )
        self._stays = Stays(fleet, self.schedules)
        self._broom = Broom(cluster, self._stays, self._holds, self._moved, registry=registry)
        self._goals: dict[str, Goal] = {}
        self._passes: dict[str, Pass] = {}
        self._open: dict[str, frozenset[str | None]] = {}
        self._finished: set[str] = set()
        self._swept: dict[str, int] = {}
        self._waiting: dict[str, int] = {}
        self._faults: dict[str, Note] = {}
        self._tries: dict[str, int] = {}
        self._failing: set[str] = set()

    @property
    def informers(self) -> tuple[Informer, ...]:
        """Every informer, for probes."""
        return (self.schedules, self._artifact_gc.pods)

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """Hand out what has to run."""
        return [each.run() for each in self.informers]

    def waiting(self) -> Mapping[str, int]:
        """Count the Workflows that are about to get their ID, by namespace, for metrics."""
        return {name: count for name, count in self._waiting.items() if count}

    def anew(self) -> None:
        """Begin a term: whom to serve is told by the first look at each namespace, not by what was so in another."""
        self._goals.clear()
        self._passes.clear()
        self._failing.clear()

    def forget(self, namespace: str) -> None:
        """Drop what is remembered of one namespace, and leave it alone from now on."""
        for each in (self._goals, self._passes, self._open, self._swept, self._waiting, self._faults, self._tries):
            each.pop(namespace, None)
        self._finished.discard(namespace)
        self._failing.discard(namespace)
        self._stays.forget(namespace)

    # ---- what is to be done

    def stand(
        self,
        namespace: Namespace,
        instance_id: str,
        seen: Observed,
        *,
        alive: bool,
        ready: bool,
        published: Manifest,
    ) -> Standing:
        """Tell how a namespace stands, and begin where anything is to be done and its child is `ready`.

        `alive` where it is there, or is being made, and nobody asked to hold still.
        """
        name, goal = namespace.name, Goal(namespace=namespace.name, instance_id=instance_id)
        found: frozenset[str | None] = self._open_labels(goal) if alive else frozenset()
        before = (published.get("workflows") or {}).get("swept") or 0
        self._swept[name] = max(self._swept.get(name, 0), int(before))
        schedules = list(map(_schedule, self.schedules.within(name)))
        stays = self._stays.of(name)
        pending = sum(count.pending for label, count in seen.labels.items() if label in found)
        waiting = max(0, pending - sum(each.kind == WORKFLOW for each in stays.values()))
        standing = Standing(
            open=found,
            kept={uid: each.why for uid, each in stays.items()},
            schedules=schedules,
            waiting=waiting,
            swept=self._swept[name],
            fault=self._faults.get(name),
        )
        self._waiting[name] = waiting
        if not (alive and ready):
            self._goals.pop(name, None)
            self._passes.pop(name, None)
            return standing
        self._goals[name] = goal
        # Who served what has no ID is gone, or the child is new: what has ended there may be nobody's as well.
        left = None not in self._open.get(name, {None})
        if None in found and (left or status.condition(published, Condition.READY).get("status") != "True"):
            self._finished.add(name)
        self._open[name] = found
        if name in self._failing or name in self._tries:
            return standing  # it is due by itself, and what happens here meanwhile makes no difference to what failed
        if waiting or name in self._finished or any(map(standing.takes, schedules)):
            self._ask(name, 0.0)
        elif stays:
            now = asyncio.get_running_loop().time()
            self._ask(name, max(1.0, min(each.until for each in stays.values()) - now))
        return standing

    def _open_labels(self, goal: Goal) -> frozenset[str | None]:
        foreigners = self._fleet.around.foreigners
        if foreigners.deployments.refused or not self._fleet.around.known:
            return frozenset()  # whoever is not seen may serve anything
        mine = serving.child(Ref(DEPLOYMENT, goal.namespace, names.WORKFLOW_CONTROLLER), goal.instance_id, alive=True)
        return sweep.open_labels(goal, (*foreigners.controllers(), mine))

    def _holds(self, current: Pass) -> bool:
        """Tell whether a pass may still move anything: its child is served, and nobody else came or went."""
        same = self._goals.get(current.goal.namespace) == current.goal
        return same and current.epoch == self._fleet.around.foreigners.epoch(current.goal.namespace)

    def _moved(self, current: Pass) -> None:
        name = current.goal.namespace
        if name in self._goals:
            self._swept[name] = self._swept.get(name, 0) + 1
            self._fleet.work_moved(name)  # of what has ended no watch tells

    # ---- doing it

    async def namespace(self, name: str) -> float | None:
        """Look at one namespace; returns the seconds after which to look again, `None` for never by itself."""
        again = await self._artifact_gc.heal(name)
        goal = self._goals.get(name)
        if goal is None:
            return again
        try:
            due = await self._look(goal)
        except (Rejected, RetryableError) as exc:
            self._passes.pop(name, None)  # what was under way is planned anew
            self._failing.add(name)
            if isinstance(exc, Rejected) and name in self._goals:
                told = f"what has no instance ID here waits for the operator: {exc.told}"
                self._faults[name] = Note(reason=exc.reason, message=told)
                self._fleet.work_moved(name)
            raise
        self._failing.discard(name)
        if self._faults.pop(name, None) is not None:
            self._fleet.work_moved(name)
        return min((each for each in (again, due) if each is not None), default=None)

    async def _look(self, goal: Goal) -> float | None:
        """Do one batch of a pass, or begin one."""
        name = goal.namespace
        current = self._passes.get(name)
        if current is None or not self._holds(current) or asyncio.get_running_loop().time() > current.until:
            current = self._passes[name] = await self._begin(goal)
        found = self._open_labels(goal)
        if not found or not self._holds(current):
            self._passes.pop(name, None)
            return 0.0 if found else None  # who serves them now asks for a look when it goes
        moved = await self._broom.move(current, found, BATCH)
        if current.left:
            return 0.0
        if moved or name in self._finished:
            ended = await self._broom.finished(current, BATCH) if None in found and goal.label is not None else 0
            if ended:
                self._finished.add(name)
                return 0.0
            self._finished.discard(name)
        self._passes.pop(name, None)
        if not current.missed or not self._anything(goal, found):
            self._tries.pop(name, None)
            return None
        tries = self._tries[name] = 0 if moved else self._tries.get(name, -1) + 1
        return min(AGAIN_SECONDS * 2.0 ** min(tries, 10), FRESH_SECONDS)

    def _anything(self, goal: Goal, found: Collection[str | None]) -> bool:
        """Tell whether anything is left that might be moved."""
        name, stays = goal.namespace, self._stays.of(goal.namespace)
        there = (*map(Work.of, self._fleet.workflows.within(name)), *map(_schedule, self.schedules.within(name)))
        return any(each.label in found and not each.started and each.uid not in stays for each in there)

    async def _begin(self, goal: Goal) -> Pass:
        """Plan a pass; what was begun is asked for only where anything might be moved."""
        name, epoch = goal.namespace, self._fleet.around.foreigners.epoch(goal.namespace)
        until = asyncio.get_running_loop().time() + FRESH_SECONDS
        found, stays = self._open_labels(goal), self._stays.of(name)
        work: list[Work] = []
        for number, live in enumerate(self._fleet.workflows.within(name), start=1):
            if (each := Work.of(live)).label in found or (each.schedule and each.label != goal.label):
                work.append(each)
            if number % 500 == 0:
                await asyncio.sleep(0)  # others have their turn
        schedules = [each for each in map(_schedule, self.schedules.within(name)) if each.uid not in stays]
        candidates = any(each.label in found and not each.started and each.uid not in stays for each in work)
        traces: Collection[str] = await begun.begun(self._cluster, name) if candidates else ()
        planned = sweep.plan(
            goal, work, schedules, open_=found, begun=lambda each: each.uid in traces or each.uid in stays
        )
        for each in planned.begun:
            if not each.started and each.uid not in stays:
                self._stays.stay(name, each, sweep.BEGUN)
        return Pass(goal=goal, left=deque(planned.order), epoch=epoch, until=until, held=planned.held)


def _schedule(live: Manifest) -> Work:
    return Work.of(live, CRON_WORKFLOW)
