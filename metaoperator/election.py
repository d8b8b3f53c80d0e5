"""The Lease: who may write, and until when on this process's own clock.

The `kubernetes` package's elector goes on leading past its Lease after a network error (facts, kopf.md §7), so this
one is ours: every attempt has a hard deadline, and writes pass a gate that closes by itself. A term begins when the
request that renewed it was *sent*, so it ends here before it can end for anybody else: others wait the whole Lease
duration from the moment they *saw* it renewed.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from metaoperator.cluster import Cluster
from metaoperator.core.errors import Conflict, MetaoperatorError
from metaoperator.core.model import LEASE, Manifest, Ref

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds. `renew` must be below `duration`: the difference is what a request on the wire may still take."""

    duration: float = 15.0
    renew: float = 10.0
    retry: float = 2.0


class Elector:
    """One candidate for one Lease."""

    def __init__(
        self,
        cluster: Cluster,
        ref: Ref,
        *,
        identity: str,
        timing: Timing,
        on_start: Callable[[], None],
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`on_start` is called at the beginning of each term; the end of one is the gate's closing."""
        self._cluster = cluster
        self._ref = ref
        self._identity = identity
        self._timing = timing
        self._on_start = on_start
        self._wall_clock = wall_clock
        self._seen: tuple[Any, ...] | None = None
        self._seen_at = 0.0
        self._leading = False

    @property
    def leading(self) -> bool:
        """Tell whether writes pass right now."""
        return self._cluster.gate.remaining() > 0

    async def run(self) -> None:
        """Try to lead, renew, try again, until cancelled; then give the Lease back so that nobody has to wait."""
        try:
            while True:
                await self._attempt()
                pause = self._timing.retry * (1 if self._leading else 1 + 0.2 * random.random())
                await asyncio.sleep(pause)
        finally:
            await asyncio.shield(self._release())

    async def _attempt(self) -> None:
        if not self.leading:
            self._end()
        sent = asyncio.get_running_loop().time()
        # One hung attempt must not use the whole term up: a second one may find a connection that works.
        limit = min(2 * self._timing.retry, self._timing.renew)
        if self.leading:
            limit = min(limit, self._cluster.gate.remaining())
        try:
            async with asyncio.timeout(limit):
                won = await self._take()
        except (MetaoperatorError, TimeoutError) as exc:
            log.warning("lease not renewed", extra={"lease": str(self._ref), "error": str(exc) or type(exc).__name__})
            return  # a term that was not renewed ends by itself
        if won:
            self._cluster.gate.open_until(sent + self._timing.renew)
            if not self._leading:
                self._leading = True
                log.info("leading", extra={"lease": str(self._ref), "identity": self._identity})
                self._on_start()
        else:
            self._cluster.gate.open_until(0.0)
            self._end()

    def _end(self) -> None:
        if self._leading:
            self._leading = False
            log.warning("no longer leading", extra={"lease": str(self._ref), "identity": self._identity})

    async def _take(self) -> bool:
        """Create, renew or take over the Lease; `False` while somebody else holds it or was faster."""
        live = await self._cluster.get(self._ref)
        try:
            if live is None:
                waited = asyncio.get_running_loop().time() - self._seen_at
                if not self.leading and self._seen is not None and waited <= self._timing.duration:
                    return False  # somebody deleted it; who held it leads until its term ends
                await self._cluster.create(self._lease(None), fenced=False)
                return True
            # What others wait for begins when they *see* a renewal: the answer may be long on its way.
            if not self._may_take(live, asyncio.get_running_loop().time()):
                return False
            await self._cluster.replace(self._lease(live), fenced=False)
        except Conflict:
            return False
        return True

    def _may_take(self, live: Manifest, now: float) -> bool:
        spec = live.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder in {"", self._identity}:
            return True
        # Clocks differ between machines: only the time for which *we* saw nothing move counts.
        mark = (holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        if mark != self._seen:
            self._seen, self._seen_at = mark, now
        return now - self._seen_at > float(spec.get("leaseDurationSeconds") or self._timing.duration)

    def _lease(self, live: Manifest | None, *, release: bool = False) -> Manifest:
        stamp = self._wall_clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = (live or {}).get("spec") or {}
        same = before.get("holderIdentity") == self._identity
        spec = {
            "holderIdentity": "" if release else self._identity,
            "leaseDurationSeconds": 1 if release else int(self._timing.duration),
            "acquireTime": before.get("acquireTime", stamp) if same else stamp,
            "renewTime": stamp,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if same or live is None else 1),
        }
        meta = {"name": self._ref.name, "namespace": self._ref.namespace}
        if live is not None:
            meta = {**live["metadata"]}
        return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta, "spec": spec}

    async def _release(self) -> None:
        """Close the gate first, then hand the Lease back; best effort, since it expires by itself."""
        self._cluster.gate.open_until(0.0)
        if not self._leading:
            return
        try:
            async with asyncio.timeout(self._timing.retry):
                live = await self._cluster.get(self._ref)
                if live is not None and (live.get("spec") or {}).get("holderIdentity") == self._identity:
                    await self._cluster.replace(self._lease(live, release=True), fenced=False)
        except (MetaoperatorError, TimeoutError) as exc:
            log.warning("lease not released", extra={"lease": str(self._ref), "error": str(exc)})
