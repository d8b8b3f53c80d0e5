"""The parts of rollouts, put together: what is recorded, what is aimed at, whose turn it is, and what is told of it."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

from metaoperator.brake import Brake
from metaoperator.check import Checker
from metaoperator.cluster import Cluster
from metaoperator.fleet import Fleet
from metaoperator.goals import Goals
from metaoperator.holding import Holder
from metaoperator.informer import Informer
from metaoperator.members import Members
from metaoperator.mirror import Mirror
from metaoperator.recorder import Recorder
from metaoperator.revisions import Revisions
from metaoperator.rollout import Rollouts
from metaoperator.rollup import Rollup
from metaoperator.settings import Settings
from metaoperator.templates import Templates

Ask = Callable[[str, float], None]


class Rolling:
    """What the operator needs of it."""

    def __init__(
        self,
        cluster: Cluster,
        mirror: Mirror,
        fleet: Fleet,
        recorder: Recorder,
        templates: Templates,
        settings: Settings,
        *,
        brake: Brake,
        ask: Ask,
        ask_template: Ask,
        wall_clock: Callable[[], datetime] | None = None,
    ) -> None:
        """`ask` wants a look at a namespace, `ask_template` one at a ControllerTemplate."""
        self.clock = clock = wall_clock or steady()
        self._revisions = Revisions(cluster, namespace=settings.namespace, wall_clock=clock)
        self._goals = Goals(self._revisions, templates, wall_clock=clock)
        self._rollouts = Rollouts(
            Members(mirror, fleet, self._revisions, settings),
            self._revisions,
            self._goals,
            Checker(cluster, fleet, self._goals, brake),
            ask=ask,
            ask_template=ask_template,
            wall_clock=clock,
        )
        self.holder = Holder(fleet, self._goals, self._revisions, self._rollouts, wall_clock=clock)
        self.rollup = Rollup(
            cluster,
            mirror,
            recorder,
            templates,
            self._goals,
            self._rollouts,
            self._revisions,
            brake=brake,
            wall_clock=clock,
        )

    @property
    def informers(self) -> tuple[Informer, ...]:
        """Every informer, for probes."""
        return self._revisions.informers

    @property
    def synced(self) -> bool:
        """Tell whether all records were seen: before, nobody knows what a namespace was given."""
        return self._revisions.synced

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """Hand out what has to run."""
        return self._revisions.runs()

    def anew(self) -> None:
        """Begin a term."""
        self._rollouts.anew()

    def judged(self, template: str) -> None:
        """Take note that the status of a namespace with this ControllerTemplate was looked at anew."""
        self._rollouts.judged(template)

    async def forget(self, namespace: str, *, but: str = "") -> None:
        """Delete what is recorded of a namespace that is gone, or has left; not of one with the UID `but`."""
        self._goals.forget(namespace)
        for uid, name in self._revisions.namespaces().items():
            if name == namespace and uid != but:
                await self._revisions.forget(uid)


def steady() -> Callable[[], datetime]:
    """Make a clock that starts at the wall clock's time and never jumps: deadlines and soak times are counted by it."""
    started: list[tuple[datetime, float]] = []

    def now() -> datetime:
        seconds = asyncio.get_running_loop().time()
        if not started:
            started.append((datetime.now(UTC), seconds))
        at, since = started[0]
        return at + timedelta(seconds=seconds - since)

    return now
