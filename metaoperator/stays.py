"""Objects that a sweep leaves as they are, and why: each for a time, or until it, or what is around it, is another."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from metaoperator.core.model import WORKFLOW, Kind
from metaoperator.core.strays import Work
from metaoperator.fleet import Fleet
from metaoperator.informer import Informer

STAY_SECONDS: Final = 600.0
"""After which one is looked at again, whatever comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """One object, at one version; `because_of` names Workflows without which it need not stay."""

    kind: Kind
    name: str
    version: int
    epoch: int
    until: float
    why: str
    because_of: tuple[str, ...] = ()


class Stays:
    """Of all namespaces, by the object's UID."""

    def __init__(self, fleet: Fleet, schedules: Informer) -> None:
        """`schedules` are the CronWorkflows."""
        self._fleet = fleet
        self._schedules = schedules
        self._stays: dict[str, dict[str, Stay]] = {}
        self._failures: dict[str, Counter[str]] = {}

    def store(self, kind: Kind) -> Informer:
        """Find the store of Workflows, or of CronWorkflows."""
        return self._fleet.workflows if kind == WORKFLOW else self._schedules

    def forget(self, namespace: str) -> None:
        """Drop what is remembered of one namespace."""
        self._stays.pop(namespace, None)
        self._failures.pop(namespace, None)

    def failed(self, namespace: str, uid: str) -> int:
        """Count the failures of one object; those of one that has moved are forgotten with `passed`."""
        counts = self._failures.setdefault(namespace, Counter())
        counts[uid] += 1
        return counts[uid]

    def passed(self, namespace: str, uid: str) -> None:
        """Forget what failed before."""
        if counts := self._failures.get(namespace):
            counts.pop(uid, None)

    def stay(
        self,
        namespace: str,
        work: Work,
        why: str,
        *,
        because_of: Iterable[str] = (),
        seconds: float = STAY_SECONDS,
    ) -> None:
        """Leave an object as it is now."""
        version = self.store(work.kind).version(namespace, work.name)
        if version is None:
            return
        self._stays.setdefault(namespace, {})[work.uid] = Stay(
            kind=work.kind,
            name=work.name,
            version=version,
            epoch=self._fleet.around.foreigners.epoch(namespace),
            until=asyncio.get_running_loop().time() + seconds,
            why=why,
            because_of=tuple(because_of),
        )
        self._fleet.work_moved(namespace)

    def of(self, namespace: str) -> Mapping[str, Stay]:
        """Name those that still stay, by UID."""
        now = asyncio.get_running_loop().time()
        epoch = self._fleet.around.foreigners.epoch(namespace)
        found = {
            uid: each
            for uid, each in self._stays.get(namespace, {}).items()
            if each.version == self.store(each.kind).version(namespace, each.name)
            and (each.epoch, now < each.until) == (epoch, True)
            and all(self._fleet.workflows.version(namespace, one) is not None for one in each.because_of)
        }
        if found:
            self._stays[namespace] = found
        else:
            self._stays.pop(namespace, None)
        return found
