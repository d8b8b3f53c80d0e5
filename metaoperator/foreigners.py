"""Workflow-controllers that are not ours, as the API server shows them: found, and read with their ConfigMaps."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final

from metaoperator.cluster import Cluster, Selection
from metaoperator.core import foreign, health, names, serving, shard
from metaoperator.core.errors import Gone, Rejected, RetryableError
from metaoperator.core.foreign import Foreign, Started
from metaoperator.core.model import CONFIG_MAP, DEPLOYMENT, LEASE, POD, SERVICE_ACCOUNT, Manifest, Ref
from metaoperator.core.serving import Controller
from metaoperator.informer import Informer

log = logging.getLogger(__name__)

NOT_MARKED: Final = f"{names.MANAGED_BY_LABEL}!={names.MANAGED_BY}"
RESYNC_SECONDS: Final = 600.0
"""After which each is read anew: nothing tells of a ConfigMap or of a role that changed."""
AGAIN_SECONDS: Final = 5.0


async def read(cluster: Cluster, how: Started) -> Foreign | None:
    """Judge a controller by its ConfigMap; `None` for one that may not even list Workflows, and so does nothing.

    One whose ConfigMap may not be read is judged by what its flags tell, its ID unknown.
    """
    try:
        if not await cluster.may(how.needs, account=how.account, account_namespace=how.ref.namespace):
            return None
    except (Rejected, Gone):
        pass  # who may not ask takes it for one that may
    if how.configuration is None:
        return foreign.judge(how, None)
    try:
        return foreign.judge(how, await cluster.get(how.configuration))
    except (Rejected, Gone) as exc:
        return foreign.judge(how, None, unread=f"{how.configuration} cannot be read: {exc}")


async def listed(cluster: Cluster, namespace: str = "") -> AsyncIterator[Foreign]:
    """List every Deployment of the cluster that runs a controller, may do so, and does not carry our mark."""
    selection = Selection(kind=DEPLOYMENT, label_selector=NOT_MARKED, namespace=namespace)
    async for page in cluster.list_pages(selection):
        for item in page["items"]:
            live = {**item, "apiVersion": DEPLOYMENT.api_version, "kind": DEPLOYMENT.kind}
            for how in foreign.started(live):
                if (found := await read(cluster, how)) is not None:
                    yield found


class Foreigners:
    """Every one of them in the cluster, watched. `changed` is called when what they serve is another than before."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        leads: Callable[[Foreign], bool],
        holder: Callable[[Ref], str],
        changed: Callable[[set[str]], None],
    ) -> None:
        """`leads` tells whether a controller's Lease moves, `holder` the pod that moves a Lease.

        `changed` gets the namespaces concerned, or "" for all of them.
        """
        self._cluster = cluster
        self._leads = leads
        self._holder = holder
        self._changed = changed
        self._found: dict[Ref, tuple[Foreign, ...]] = {}
        self._unread: set[Ref] = set()
        self._news = asyncio.Event()
        self._epochs: Counter[str] = Counter()
        self._told: frozenset[Controller] = frozenset()
        self.deployments = Informer(
            cluster,
            Selection(kind=DEPLOYMENT, label_selector=NOT_MARKED),
            project=only_controllers,
            changed=self._deployment_changed,
        )

    @property
    def known(self) -> bool:
        """Tell whether each that is there was judged, or that we may not look."""
        return bool(self.deployments.refused) or (self.deployments.synced and self._unread <= self._found.keys())

    def controllers(self) -> tuple[Controller, ...]:
        """Name them all, in order."""
        found = [each for several in self._found.values() for each in several]
        return tuple(sorted(serving.foreign(each, leads=self._leads(each)) for each in found))

    def epoch(self, namespace: str) -> int:
        """Tell the epoch of a namespace: it moves on with all that is heard of whoever acts there.

        What was read in another one may no longer be so.
        """
        return self._epochs[""] + self._epochs[namespace]

    def ground(self, ref: Ref) -> frozenset[Ref]:
        """Name what the pods of one of them run on, where any are wanted: its ConfigMaps and its accounts."""
        found: set[Ref] = set()
        for how in self._ways(ref):
            if how.replicas:
                found.add(Ref(SERVICE_ACCOUNT, ref.namespace, how.account))
                found.update(() if how.configuration is None else (how.configuration,))
        return frozenset(found)

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """Hand out what has to run."""
        return [self.deployments.run(), self._run()]

    async def read_once(self) -> None:
        """Look without watching."""
        await self.deployments.read_once()
        while self._unread:
            await self._read(min(self._unread))

    def look(self) -> None:
        """Compare with what was told last: a Lease that begins or ceases to move tells whether one lives."""
        now = frozenset(self.controllers())
        if moved := now ^ self._told:
            self._told = now
            places = {each.sees for each in moved}
            self._epochs.update(places)
            self._changed(places)

    def lease_moved(self, lease: Ref) -> None:
        """Note that a Lease changed hands, came, went or stands still.

        That of a controller without an ID may be held by a pod of no Deployment. Others are not looked at: whoever has
        an ID of its own concerns nobody who has another one.
        """
        self.look()
        if lease.name == shard.lease_name(""):
            self._unread.add(lease)
            self._news.set()

    def _deployment_changed(self, ref: Ref, _before: Manifest | None, after: Manifest | None) -> None:
        # What one does that may not act anywhere is no news there: a tenant's would end everybody's work each time.
        self._epochs.update({each.sees for each in self._found.get(ref, ())})
        if after is None and ref not in self._found:
            self._unread.discard(ref)
            return
        self._unread.add(ref)
        self._news.set()

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(RESYNC_SECONDS * (0.9 + 0.2 * random.random())):
                    await self._news.wait()
            except TimeoutError:
                self._unread |= self._found.keys()
            self._news.clear()
            tried: set[Ref] = set()
            while left := self._unread - tried:
                # One of each namespace in turn: nobody's thousand come before another one's first.
                for ref in {each.namespace: each for each in left}.values():
                    tried.add(ref)
                    await self._read_if_answered(ref)
            if self._unread:
                await asyncio.sleep(AGAIN_SECONDS * (0.5 + random.random()))
                self._news.set()

    async def _read_if_answered(self, ref: Ref) -> None:
        try:
            await self._read(ref)
        except RetryableError as exc:
            log.warning("foreign controller not read", extra={"found": str(ref), "error": str(exc)})

    async def _read(self, ref: Ref) -> None:
        if ref.kind == LEASE:
            holder = self._holder(ref)
            ways = await self._led_by(ref, holder)
        else:
            ways = self._ways(ref)
        try:
            found = [await read(self._cluster, how) for how in ways]
        except RetryableError as exc:
            # Better a doubt that passes than one that nobody counts with.
            self._found.setdefault(ref, tuple(foreign.judge(how, None, unread=f"not read yet: {exc}") for how in ways))
            self.look()
            raise
        idle = ref.kind != LEASE and not any(how.replicas for how in ways)
        before = self._found.get(ref) or tuple(each for each in found if each is not None)
        if idle and before and await self._pods_left(ref):
            # They go on to their last moment, and nothing tells when that is.
            self._found[ref] = tuple(replace(each, replicas=max(1, each.replicas)) for each in before)
            self._unread.add(ref)
            self.look()
            return
        if (self._holder(ref) == holder) if ref.kind == LEASE else (self._ways(ref) == ways):
            self._unread.discard(ref)
        self._found[ref] = tuple(each for each in found if each is not None)
        if not ways:
            del self._found[ref]
        self.look()

    async def _pods_left(self, ref: Ref) -> bool:
        """Tell whether pods of a Deployment that is gone, or wants none, are still there and run a controller."""
        # Ours may have taken its name, and with `spec.adopt` its very pods.
        there = Selection(kind=POD, label_selector=NOT_MARKED, namespace=ref.namespace)
        try:
            async for page in self._cluster.list_pages(there):
                for item in page["items"]:
                    pod = {**item, "apiVersion": POD.api_version, "kind": POD.kind}
                    if _is_of(pod, ref) and any(how.replicas for how in foreign.started(pod)):
                        return True
        except Rejected:
            return False  # who may not look goes by the Deployment
        return False

    def _ways(self, ref: Ref) -> tuple[Started, ...]:
        live = self.deployments.get(ref.namespace, ref.name)
        return () if live is None else tuple(_unpacked(ref, each) for each in live["ways"])

    async def _led_by(self, lease: Ref, holder: str) -> tuple[Started, ...]:
        """Read the pod that moves a Lease, unless it is of a Deployment that counts by itself, or of nobody."""
        if not holder or any(
            holder.startswith(f"{each['name']}-") for each in self.deployments.within(lease.namespace)
        ):
            return ()
        pod = await self._cluster.get(Ref(POD, lease.namespace, holder))
        if pod is None or (pod["metadata"].get("labels") or {}).get(names.MANAGED_BY_LABEL) == names.MANAGED_BY:
            return ()
        return foreign.started(pod)


def _is_of(pod: Manifest, deployment: Ref) -> bool:
    """Tell whether a Deployment made a pod; where its ReplicaSet was taken from it, by its name."""
    if pod["metadata"].get("ownerReferences"):
        return health.belongs(pod, deployment.name)
    return str(pod["metadata"]["name"]).startswith(f"{deployment.name}-")


def only_controllers(live: Manifest) -> Manifest | None:
    """Keep only Deployments that run a controller, and of those no more than how: of the rest nothing is stored.

    `generation` moves when the pods are replaced: what its ConfigMap says counts from then on.
    """
    ways = foreign.started(live)
    if not ways:
        return None
    meta = live["metadata"]
    return {"name": meta["name"], "generation": meta.get("generation"), "ways": [_packed(each) for each in ways]}


def _packed(how: Started) -> dict[str, Any]:
    place = None if how.configuration is None else [how.configuration.namespace, how.configuration.name]
    return {
        "sees": how.sees,
        "configuration": place,
        "replicas": how.replicas,
        "account": how.account,
        "unsure": how.unsure,
    }


def _unpacked(ref: Ref, packed: Mapping[str, Any]) -> Started:
    place = packed["configuration"]
    return Started(ref=ref, **{**packed, "configuration": None if place is None else Ref(CONFIG_MAP, *place)})
