"""Workflow-controllers that are not ours, as the API server shows them: found, and read with their ConfigMaps."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

from metaoperator.cluster import Cluster, Selection
from metaoperator.core import foreign, names, serving
from metaoperator.core.errors import Gone, Rejected, RetryableError
from metaoperator.core.foreign import Foreign, Started
from metaoperator.core.model import DEPLOYMENT, Manifest, Ref
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

    def __init__(self, cluster: Cluster, leads: Callable[[Foreign], bool], changed: Callable[[set[str]], None]) -> None:
        """`leads` tells whether a controller's Lease moves; `changed` gets the namespaces, or "" for all of them."""
        self._cluster = cluster
        self._leads = leads
        self._changed = changed
        self._found: dict[Ref, tuple[Foreign, ...]] = {}
        self._unread: set[Ref] = set()
        self._news = asyncio.Event()
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
            self._changed({each.sees for each in moved})

    def _deployment_changed(self, ref: Ref, _before: Manifest | None, after: Manifest | None) -> None:
        if after is None:
            self._unread.discard(ref)
            self._found.pop(ref, None)
            self.look()
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
            for ref in sorted(self._unread):
                try:
                    await self._read(ref)
                except RetryableError as exc:
                    log.warning("foreign controller not read", extra={"deployment": str(ref), "error": str(exc)})
            if self._unread:
                await asyncio.sleep(AGAIN_SECONDS * (0.5 + random.random()))
                self._news.set()

    async def _read(self, ref: Ref) -> None:
        live = self.deployments.get(ref.namespace, ref.name)
        if live is None:
            self._unread.discard(ref)
            return
        ways = foreign.started(live)
        try:
            found = [await read(self._cluster, how) for how in ways]
        except RetryableError as exc:
            # Better a doubt that passes than one that nobody counts with.
            self._found.setdefault(ref, tuple(foreign.judge(how, None, unread=f"not read yet: {exc}") for how in ways))
            self.look()
            raise
        if self.deployments.get(ref.namespace, ref.name) == live:
            self._unread.discard(ref)
            self._found[ref] = tuple(each for each in found if each is not None)
        self.look()


def only_controllers(live: Manifest) -> Manifest | None:
    """Keep only Deployments that run a controller, and of those what tells how; of the rest nothing is stored.

    `generation` moves when the pods are replaced: what its ConfigMap says counts from then on.
    """
    if not foreign.started(live):
        return None
    meta, spec, status = live["metadata"], live["spec"], live.get("status") or {}
    pod = spec["template"]["spec"]
    keep = ("name", "image", "command", "args", "env")
    containers = [{key: each[key] for key in keep if key in each} for each in pod["containers"]]
    return {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {key: meta[key] for key in ("name", "namespace", "uid", "generation") if key in meta},
        "spec": {
            "replicas": spec.get("replicas"),
            "template": {"spec": {"serviceAccountName": pod.get("serviceAccountName"), "containers": containers}},
        },
        "status": {key: status[key] for key in ("replicas", "terminatingReplicas") if key in status},
    }
