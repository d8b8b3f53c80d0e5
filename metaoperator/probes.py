"""/healthz, /readyz and /metrics on one port."""

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from metaoperator.core.errors import ConfigError

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
