"""How the parts are started, supervised and stopped.

Order of starting: credentials, our CRDs, informers and kopf, the election; the worker runs while this replica leads
and every store holds a whole list. Order of stopping: the worker first, then the Lease is given back.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import kopf
from aiohttp import web
from prometheus_client import REGISTRY, CollectorRegistry

from metaoperator import handlers, probes, sources, unheard
from metaoperator.brake import SETTLE_SECONDS, Brake
from metaoperator.catalogue import Catalogue
from metaoperator.cluster import RECURSION_LIMIT, Cluster, Selection
from metaoperator.core import names
from metaoperator.core.errors import Gone, MetaoperatorError, Throttled, Unauthorized
from metaoperator.core.model import CONTROLLER_TEMPLATE, LEASE, WORKFLOW_CONTROLLER, Kind, Ref
from metaoperator.election import Elector
from metaoperator.fleet import Fleet
from metaoperator.gate import Gate
from metaoperator.mirror import Mirror
from metaoperator.reconcile import Reconciler
from metaoperator.recorder import Recorder
from metaoperator.rolling import Rolling
from metaoperator.settings import Settings
from metaoperator.shelves import Shelves
from metaoperator.sweep import Sweep
from metaoperator.templates import Templates
from metaoperator.worker import THROTTLED_SECONDS, Worker

log = logging.getLogger(__name__)

SILENCE_SECONDS: Final = 180.0
STUCK_SECONDS: Final = 30.0
SWEEPERS: Final = 4
"""Namespaces that are swept at the same time."""
LOGIN_SECONDS: Final = 300.0
SIGNAL_SECONDS: Final = 5.0
KOPF_RESTARTS: Final = 5
KOPF_WINDOW: Final = 600.0


class Operator:
    """One replica."""

    def __init__(self, settings: Settings) -> None:
        """Load the template sets; nothing is sent before `run`."""
        self._settings = settings
        self._identity = settings.identity or Settings.default_identity()
        self._cluster = Cluster(kubeconfig=settings.kubeconfig, gate=Gate())
        shelves = Shelves(sources.programs((sources.shipped(),)), settings.templates)
        for name, fault in shelves.faults.items():
            log.error("template set cannot be used", extra={"set": name, "error": str(fault)})
        self._catalogue = Catalogue(self._cluster, shelves, namespace=settings.namespace, changed=self._sets_changed)
        self._mirror = Mirror(self._cluster, self._changed)
        self._worker = Worker(self._reconcile, may_run=self._may_run, width=settings.workers)
        self._fleet = Fleet(
            self._cluster,
            self._catalogue.kinds,
            self._worker.ask,
            opted_in=self._mirror.is_opted_in,
            everyone=self._mirror.opted_in,
        )
        recorder = Recorder(self._cluster, instance=self._identity)
        self._sweeper = Worker(self._swept, may_run=self._may_run, width=SWEEPERS, registry=CollectorRegistry())
        self._sweep = Sweep(self._cluster, self._mirror, self._fleet, recorder, self._sweeper.ask)
        brake = Brake(
            self._mirror,
            self._fleet,
            namespace=settings.namespace,
            deny=settings.deny,
            settle=SETTLE_SECONDS,
            changed=self._changed,
        )
        templates = Templates(self._mirror, self._catalogue)
        self._rolling = Rolling(
            self._cluster,
            self._mirror,
            self._fleet,
            recorder,
            templates,
            settings,
            brake=brake,
            ask=self._worker.ask,
            ask_template=lambda name, delay: self._worker.ask(f"{handlers.TEMPLATE_KEY}{name}", delay),
        )
        self._reconciler = Reconciler(
            self._cluster,
            self._mirror,
            self._fleet,
            recorder,
            templates,
            settings,
            sweep=self._sweep,
            rolling=self._rolling,
            wall_clock=self._rolling.clock,
            brake=brake,
        )
        REGISTRY.register(probes.StrayWorkflows(self._reconciler.strays.counted, self._sweep.waiting))
        self._elector = Elector(
            self._cluster,
            Ref(LEASE, settings.namespace, names.OPERATOR_LEASE),
            identity=self._identity,
            timing=settings.timing,
            on_start=self._lead,
        )
        self._handed_at: float | None = None
        self._login_pauses = iter(handlers.JitteredForever(1, 30))
        self._kopf_ready = asyncio.Event()
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT; `ConfigError` when it cannot work as started."""
        asyncio.get_running_loop().set_exception_handler(unheard.answer)
        self._take_signals()
        await self._cluster.connect()
        support: list[asyncio.Task[None]] = []
        pages: web.AppRunner | None = None
        try:
            if self._settings.port:
                app = probes.application(healthy=self._unhealthy, ready=self._unready)
                pages = await probes.serve(app, self._settings.port)
            await self._race(self._own_kinds())
            parts = (self._fleet, self._catalogue, self._sweep, self._rolling)
            runs = [run for each in parts for run in each.runs()] + [self._mirror.run()]
            support += [asyncio.create_task(run) for run in runs]
            # The workers end before the elector does: nothing is under way when the Lease is given back.
            elector = asyncio.create_task(self._elector.run())
            workers = {asyncio.create_task(each.run()) for each in (self._worker, self._sweeper)}
            kopf_run = asyncio.create_task(self._supervise_kopf())
            support.append(asyncio.create_task(self._keep_signals()))
            stop = asyncio.create_task(self._stopped())
            done, _ = await asyncio.wait(
                {elector, *workers, kopf_run, stop, *support}, return_when=asyncio.FIRST_COMPLETED
            )
            for task in (*workers, elector, kopf_run, stop):
                await _end(task)
            for task in done - {stop}:
                task.result()
        finally:
            for task in support:
                await _end(task)
            if pages is not None:
                await pages.cleanup()
            await self._cluster.close()

    async def _race(self, step: Coroutine[Any, Any, None]) -> None:
        """Wait for a step of the start, but not past a signal to stop."""
        task = asyncio.create_task(step)
        stop = asyncio.create_task(self._stopped())
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        await _end(stop)
        if task.done():
            task.result()
        await _end(task)

    def _take_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop.set)

    async def _stopped(self) -> None:
        await self._stop.wait()

    async def _own_kinds(self) -> None:
        """Wait until the API server serves our kinds: kopf looks for them only once."""
        while True:
            pause = 5.0
            try:
                for kind in (WORKFLOW_CONTROLLER, CONTROLLER_TEMPLATE):
                    async for _ in self._cluster.list_pages(_selection(kind), limit=1):
                        break
            except Gone as gone:
                log.error(  # noqa: TRY400 - a person has to read it, not its traceback
                    "our CRDs are missing: kubectl apply --server-side -k manifests/fleet", extra={"error": str(gone)}
                )
            except MetaoperatorError as exc:
                log.warning("waiting for the API server", extra={"error": str(exc)})
                if isinstance(exc, Throttled):
                    pause = max(pause, min(exc.after, THROTTLED_SECONDS))
            else:
                return
            await asyncio.sleep(pause)

    # ---- kopf

    async def _supervise_kopf(self) -> None:
        """Keep kopf running: some answers of an API server end it (facts/kopf.md K4, K5)."""
        loop = asyncio.get_running_loop()
        ended: list[float] = []
        while True:
            try:
                await kopf.operator(
                    registry=handlers.registry(self._mirror, self._worker.ask, self._login),
                    settings=handlers.settings(),
                    clusterwide=True,
                    # Derived from the user's name otherwise, which an arbitrary UID does not have.
                    identity=cast("Any", self._identity),
                    ready_flag=self._kopf_ready,
                    stop_flag=self._stop,
                )
            except Exception as exc:
                if unheard.cut_off(exc):
                    log.warning("kopf's connections were closed under it; it is started again")
                else:
                    log.exception("kopf ended; it is started again")
            else:
                # kopf takes the signals over: a quiet end is its way of telling that we were asked to stop.
                self._stop.set()
            if self._stop.is_set():
                return
            now = loop.time()
            ended = [moment for moment in ended if now - moment < KOPF_WINDOW] + [now]
            if len(ended) > KOPF_RESTARTS:
                raise MetaoperatorError(
                    f"kopf ended {len(ended)} times in {KOPF_WINDOW:.0f} s; giving up, to be started anew"
                )
            await asyncio.sleep(1)
            # kopf looks for our kinds only when it starts, and goes on without those that it does not find.
            await self._own_kinds()
            await self._resync()

    async def _keep_signals(self) -> None:
        """Take the signals back from kopf, which needs seconds to end: the Lease is given back before it does."""
        while True:
            await self._kopf_ready.wait()
            self._take_signals()
            await asyncio.sleep(SIGNAL_SECONDS)  # kopf takes them again each time that it is started again

    async def _login(self, **_: Any) -> kopf.ConnectionInfo:
        """Give kopf the credentials that our own client uses, to be asked for again before they go stale.

        kopf asks again at each 401 and repeats at once: who asks again soon has to wait, longer each time.
        """
        if self._handed_at is not None:
            await self._renewed()
            if asyncio.get_running_loop().time() - self._handed_at < LOGIN_SECONDS / 2:
                await asyncio.sleep(next(self._login_pauses))
            else:
                self._login_pauses = iter(handlers.JitteredForever(1, 30))
        self._handed_at = asyncio.get_running_loop().time()
        found = await self._cluster.credentials()
        expiration = datetime.now(UTC) + timedelta(seconds=LOGIN_SECONDS)
        return kopf.ConnectionInfo(**found, expiration=expiration)

    async def _renewed(self) -> None:
        """Renew the credentials, however long that takes: kopf would log a login that fails with its traceback."""
        for pause in handlers.JitteredForever(1, 30):
            try:
                await self._cluster.renew_credentials()
            except Unauthorized as exc:
                log.warning("waiting for credentials", extra={"error": str(exc)})
                await asyncio.sleep(pause)
            else:
                return

    # ---- names

    def _changed(self, ref: Ref, delay: float = 0.0) -> None:
        if ref.kind == CONTROLLER_TEMPLATE:
            self._worker.ask(f"{handlers.TEMPLATE_KEY}{ref.name}", delay)
        else:
            self._worker.ask(ref.namespace or ref.name, delay)

    def _sets_changed(self, templates: frozenset[str]) -> None:
        self._fleet.watch(self._catalogue.kinds)
        for name in sorted(templates):
            self._worker.ask(f"{handlers.TEMPLATE_KEY}{name}")
        for name in self._mirror.opted_in() if templates else ():
            self._worker.ask(name)

    def _may_run(self) -> bool:
        return self._elector.leading and self._fleet.synced and self._rolling.synced

    async def _reconcile(self, name: str) -> float | None:
        if name.startswith(handlers.TEMPLATE_KEY):
            return await self._rolling.rollup.publish(name.removeprefix(handlers.TEMPLATE_KEY))
        return await self._reconciler.namespace(name)

    async def _swept(self, name: str) -> float | None:
        return await self._sweep.namespace(name)

    def _lead(self) -> None:
        self._sweep.anew()
        self._rolling.anew()
        self._resyncing = asyncio.create_task(self._resync())

    async def _resync(self) -> None:
        """Ask for every namespace that has our label or holds anything of ours: whatever was missed is found here."""
        for name in self._fleet.marked_namespaces():
            self._worker.ask(name)
        try:
            await self._mirror.compare(everything=True)
        except MetaoperatorError as exc:
            log.warning("resync incomplete; the next compare completes it", extra={"error": str(exc)})
        for each in (self._worker, self._sweeper):
            each.wake()

    # ---- probes

    def _unhealthy(self) -> list[str]:
        now = asyncio.get_running_loop().time()
        faults = [
            f"nothing heard for {SILENCE_SECONDS:.0f} s: {each.selection}"
            for part in (self._fleet, self._catalogue, self._sweep, self._rolling)
            for each in part.informers
            if each.synced and now - each.heard_at > SILENCE_SECONDS
        ]
        turned = [each.turned_at for each in (self._worker, self._sweeper)]
        if any(each and now - each > STUCK_SECONDS for each in turned):
            faults.append("the worker does not turn")
        return faults

    def _unready(self) -> list[str]:
        faults = [f"not read yet: {each.selection}" for each in self._fleet.base if not each.synced]
        if not self._rolling.synced:
            faults.append("not read yet: the records of revisions")
        if not self._fleet.around.known:
            faults.append("not known yet: other workflow-controllers, and the stamping policy")
        return faults if self._kopf_ready.is_set() else [*faults, "kopf has not started yet"]


def _selection(kind: Kind) -> Selection:
    return Selection(kind=kind, metadata_only=True)


async def _end(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it is over, whatever it ends with."""
    task.cancel()
    await asyncio.wait({task})


def run(settings: Settings) -> None:
    """Run one replica in this process."""

    async def main() -> None:
        await Operator(settings).run()

    # The API server takes objects that are nested 10,000 levels deep, and one that we cannot read, in a list that kopf
    # reads, would end it for all. What is too deep for us is refused by name (core/values.py).
    sys.setrecursionlimit(RECURSION_LIMIT)

    asyncio.run(main())
