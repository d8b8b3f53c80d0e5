"""Events for people: events.k8s.io/v1, one object per (object, reason, message), counted up instead of repeated."""

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
        meta = about["metadata"]
        key = (meta["uid"], str(reason), message)
        now = self._wall_clock()
        if not self._allowed(meta["uid"], now.timestamp()):
            return
        name, count = self._told.pop(key, ("", 0))
        name = name or f"{meta['name'][:200]}.{_suffix(key, now)}"
        try:
            try:
                await self._cluster.post_event(self._event(about, reason, message, name, count, now, warning=warning))
            except Gone:
                # The API server forgets Events after an hour: begin a new series.
                if count:
                    name, count = f"{meta['name'][:200]}.{_suffix(key, now)}", 0
                    await self._cluster.post_event(self._event(about, reason, message, name, 0, now, warning=warning))
        except NotLeading:
            return
        except MetaoperatorError as exc:
            log.warning("event not recorded", extra={"reason": str(reason), "error": str(exc)})
            return
        self._told[key] = (name, count + 1)
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)

    def _allowed(self, uid: str, now: float) -> bool:
        tokens, since = self._budget.pop(uid, (float(BURST), now))
        tokens = min(float(BURST), tokens + (now - since) / REFILL_SECONDS)
        allowed = tokens >= 1
        self._budget[uid] = (tokens - 1 if allowed else tokens, now)
        while len(self._budget) > REMEMBERED:
            self._budget.popitem(last=False)
        return allowed

    def _event(
        self, about: Manifest, reason: Reason, message: str, name: str, count: int, now: datetime, *, warning: bool
    ) -> dict[str, Any]:
        meta = about["metadata"]
        stamp = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        event: dict[str, Any] = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            # Events about cluster-scoped objects live in `default` (Kubernetes API conventions).
            "metadata": {"name": name, "namespace": meta.get("namespace") or "default"},
            "eventTime": stamp,
            "type": "Warning" if warning else "Normal",
            "reason": str(reason),
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
