"""What around a child decides whether it may be installed: other controllers, and the policy that stamps IDs."""

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final

from metaoperator.cluster import Cluster
from metaoperator.core import names, overlap, serving, stamping
from metaoperator.core.errors import Stalled
from metaoperator.core.foreign import Foreign
from metaoperator.core.model import DEPLOYMENT, Ref
from metaoperator.core.status import Note
from metaoperator.foreigners import Foreigners
from metaoperator.informer import Informer
from metaoperator.stamping import Stamping

SPREAD: Final = 0.05
"""Seconds for each namespace over which looks are spread that one change of the cluster asks for."""


class Surroundings:
    """Asks for a look at each namespace concerned when anything of it changes."""

    def __init__(
        self,
        cluster: Cluster,
        ask: Callable[[str, float], None],
        *,
        leads: Callable[[Foreign], bool],
        holder: Callable[[Ref], str],
        everyone: Callable[[], Collection[str]],
    ) -> None:
        """`everyone` names the namespaces that are opted in."""
        self._ask = ask
        self._everyone = everyone
        self._known = False
        self.foreigners = Foreigners(cluster, leads=leads, holder=holder, changed=self._moved)
        self.stamping = Stamping(cluster, lambda: self._moved({""}))

    @property
    def informers(self) -> tuple[Informer, ...]:
        """Every informer, for probes."""
        return (self.foreigners.deployments, *self.stamping.informers)

    @property
    def known(self) -> bool:
        """Tell whether children can be judged by it; what comes later holds nobody up while it is read."""
        self._known = self._known or (self.foreigners.known and self.stamping.known)
        return self._known

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """Hand out what has to run."""
        return [*self.foreigners.runs(), *self.stamping.runs()]

    async def read_once(self) -> None:
        """Look without watching."""
        await asyncio.gather(self.foreigners.read_once(), self.stamping.read_once())

    def check(self, namespace: str, instance_id: str, *, child: str | None) -> Note | None:
        """Say what a person should know of the child of a namespace; `Stalled` when it may not be there.

        `child` is the ID of the one that is there already, `None` for none.
        """
        stamps = self.stamping.now()
        if fault := stamping.fault(namespace, instance_id, child=child, stamps=stamps):
            raise Stalled(fault.reason, fault.message)
        mine = serving.child(Ref(DEPLOYMENT, namespace, names.WORKFLOW_CONTROLLER), instance_id, alive=True)
        unstamped = "" if stamps.puts(namespace, instance_id) == instance_id else self.stamping.lacks()
        found = overlap.judge(mine, self.foreigners.controllers(), unstamped=unstamped)
        if found.stalled is not None:
            raise Stalled(found.stalled.reason, found.stalled.message)
        return found.remark

    def _moved(self, places: set[str]) -> None:
        opted_in = self._everyone()
        concerned = sorted(opted_in if "" in places else places.intersection(opted_in))
        for name in concerned:
            self._ask(name, random.uniform(0, SPREAD * len(concerned)))
