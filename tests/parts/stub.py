"""A server that answers what a test says, word for word: for answers that no well-behaved API server gives."""

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

CORE = {
    "kind": "APIResourceList",
    "groupVersion": "v1",
    "resources": [
        {"name": "configmaps", "kind": "ConfigMap", "namespaced": True},
        {"name": "configmaps/status", "kind": "ConfigMap", "namespaced": True},
        {"name": "namespaces", "kind": "Namespace", "namespaced": False},
    ],
}


@contextlib.asynccontextmanager
async def stub(answer: Answer) -> AsyncIterator[str]:
    """Serve discovery of ConfigMaps and Namespaces, and for the rest the test's own answers."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/api/v1":
            return web.json_response(CORE)
        return await answer(request)

    runner = web.ServerRunner(web.Server(handle, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield "http://{}:{}".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()


async def stream(request: web.BaseRequest, *chunks: Any) -> web.StreamResponse:
    """Answer with lines: texts as they are, anything else as JSON."""
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    for chunk in chunks:
        await response.write((chunk if isinstance(chunk, str) else json.dumps(chunk) + "\n").encode())
    return response
