"""Events for people: events.k8s.io/v1, one object per (object, reason, message), counted up instead of repeated."""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from metaoperator.cluster import Cluster
from metaoperator.core.errors import Gone, MetaoperatorError, NotLeading
from metaoperator.core.model import EVENT, Manifest
from metaoperator.core.names import MANAGED_BY, Reason

log = logging.getLogger(__name__)

REMEMBERED: Final = 2048
POST_SECONDS: Final = 3.0
BURST: Final = 25
REFILL_SECONDS: Final = 300.0


class Recorder:
    """Writes Events; losing one is never an error of the work that it tells of."""

    def __init__(
        self, cluster: Cluster, *, instance: str, wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """`instance` names this replica in the Events."""
        self._cluster = cluster
        self._instance = instance[:128]
        self._wall_clock = wall_clock
        self._told: OrderedDict[tuple[str, str, str], tuple[str, int]] = OrderedDict()
        self._budget: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def tell(self, about: Manifest, reason: Reason, message: str, *, warning: bool = False) -> None:
        """Record an Event about an object, at most 25 in a row and then one in five minutes for each object."""
        uid = about["metadata"]["uid"]
        # The loop's clock: one that is set back would keep Events away for as long.
        if not self._allowed(uid, asyncio.get_running_loop().time()):
            return
        now = self._wall_clock()
        key = (uid, str(reason), message)
        try:
            # Nobody's work waits for long because Events cannot be written.
            async with asyncio.timeout(POST_SECONDS):
                self._told[key] = await self._post(about, key, now, self._told.pop(key, ("", 0)), warning=warning)
        except NotLeading:
            return
        except (MetaoperatorError, TimeoutError) as exc:
            log.warning("event not recorded", extra={"reason": reason, "error": str(exc) or "no answer in time"})
            return
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)

    async def _post(
        self, about: Manifest, key: tuple[str, str, str], now: datetime, told: tuple[str, int], *, warning: bool
    ) -> tuple[str, int]:
        """Write one Event or raise its count; returns its name and count."""
        fresh = f"{about['metadata']['name'][:200]}.{_suffix(key, now)}"
        name, count = told if told[1] else (fresh, 0)
        try:
            await self._cluster.post_event(self._event(about, key, name, count, now, warning=warning))
        except Gone:
            if not count:
                return fresh, 1  # its namespace is gone
            # The API server forgets Events after an hour: begin a new series.
            name, count = fresh, 0
            await self._cluster.post_event(self._event(about, key, name, count, now, warning=warning))
        return name, count + 1

    def _allowed(self, uid: str, now: float) -> bool:
        tokens, since = self._budget.pop(uid, (float(BURST), now))
        tokens = min(float(BURST), tokens + (now - since) / REFILL_SECONDS)
        allowed = tokens >= 1
        self._budget[uid] = (tokens - 1 if allowed else tokens, now)
        while len(self._budget) > REMEMBERED:
            self._budget.popitem(last=False)
        return allowed

    def _event(
        self, about: Manifest, key: tuple[str, str, str], name: str, count: int, now: datetime, *, warning: bool
    ) -> dict[str, Any]:
        _, reason, message = key
        meta = about["metadata"]
        stamp = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        event: dict[str, Any] = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            # Events about cluster-scoped objects live in `default` (Kubernetes API conventions).
            "metadata": {"name": name, "namespace": meta.get("namespace") or "default"},
            "eventTime": stamp,
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "action": "Reconcile",
            "note": message[:1000],
            "reportingController": MANAGED_BY,
            "reportingInstance": self._instance,
            "regarding": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "name": meta["name"],
                "namespace": meta.get("namespace", ""),
                "uid": meta["uid"],
            },
        }
        if count:
            event["series"] = {"count": count + 1, "lastObservedTime": stamp}
        return event


def _suffix(key: tuple[str, str, str], now: datetime) -> str:
    return hashlib.sha256("\n".join((*key, now.isoformat())).encode()).hexdigest()[:16]
