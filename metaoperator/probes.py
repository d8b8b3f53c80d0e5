"""/healthz, /readyz and /metrics on one port."""

from collections.abc import Callable, Iterator, Mapping

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from metaoperator.core.errors import ConfigError
from metaoperator.core.names import Reason
from metaoperator.core.strays import Found

Check = Callable[[], list[str]]
"""Names what is wrong; empty when all is well."""


def application(*, healthy: Check, ready: Check) -> web.Application:
    """Build the three pages. A check that finds something answers 503 with it."""

    async def healthz(_: web.Request) -> web.Response:
        return _answer(healthy())

    async def readyz(_: web.Request) -> web.Response:
        return _answer(ready())

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    made = web.Application()
    made.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return made


class StrayWorkflows(Collector):
    """Counts Workflows that wait in vain, or for the operator, by namespace; one without any has no line."""

    def __init__(self, read: Callable[[], Mapping[str, Found]], waiting: Callable[[], Mapping[str, int]]) -> None:
        """`read` tells what was found last, `waiting` how many are about to get their instance ID."""
        self._read = read
        self._waiting = waiting

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Make all families, in order."""
        for name, told, reason in (
            ("orphaned", "Unfinished Workflows that no living controller serves.", Reason.WORKFLOW_ORPHANED),
            ("schedules_orphaned", "CronWorkflows that no living controller serves.", Reason.SCHEDULE_ORPHANED),
            ("overdue", "Workflows that a ready controller has not taken up in time.", Reason.WORKFLOW_PENDING),
        ):
            family = GaugeMetricFamily(f"metaoperator_workflows_{name}", told, labels=["namespace"])
            for namespace, found in sorted(self._read().items()):
                if count := found.count(reason):
                    family.add_metric([namespace], count)
            yield family
        told = "Unfinished Workflows that are about to get their instance ID from the operator."
        family = GaugeMetricFamily("metaoperator_workflows_unswept", told, labels=["namespace"])
        for namespace, count in sorted(self._waiting().items()):
            family.add_metric([namespace], count)
        yield family


def _answer(faults: list[str]) -> web.Response:
    return web.Response(text="".join(f"{fault}\n" for fault in faults) or "ok\n", status=503 if faults else 200)


async def serve(app: web.Application, port: int) -> web.AppRunner:
    """Begin to serve on all addresses of the pod; the caller cleans the runner up. `ConfigError` for a taken port."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port).start()
    except OSError as exc:
        await runner.cleanup()
        raise ConfigError(f"port {port} cannot be opened: {exc.strerror}; choose another with --port") from exc
    return runner
