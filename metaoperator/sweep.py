"""What exists and carries no instance ID, or not the right one, in the namespaces of our children: put right.

A queue of its own beside the one that looks after children: ten thousand Workflows of one namespace delay nobody.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from metaoperator.artifactgc import ArtifactGC
from metaoperator.cluster import Cluster
from metaoperator.fleet import Fleet
from metaoperator.informer import Informer
from metaoperator.mirror import Mirror
from metaoperator.recorder import Recorder


class Sweep:
    """Works on one namespace at a look."""

    def __init__(
        self, cluster: Cluster, mirror: Mirror, fleet: Fleet, recorder: Recorder, ask: Callable[[str, float], None]
    ) -> None:
        """`ask(namespace, delay)` is called for each namespace that deserves a look."""
        self._artifact_gc = ArtifactGC(cluster, mirror, fleet, recorder, ask)

    @property
    def informers(self) -> tuple[Informer, ...]:
        """Every informer, for probes."""
        return (self._artifact_gc.pods,)

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """Hand out what has to run."""
        return [each.run() for each in self.informers]

    async def namespace(self, name: str) -> float | None:
        """Look at one namespace; returns the seconds after which to look again, `None` for never by itself."""
        return await self._artifact_gc.heal(name)
