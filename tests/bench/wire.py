"""Many requests to the API server at once, as plainly as Python can send them."""

import asyncio
import http.client
import json
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import aiohttp

from tests.e2e.local import Api

MERGE = "application/merge-patch+json"


class Line:
    """One connection to an API server of this machine, which stays open."""

    def __init__(self, port: int, token: str) -> None:
        """Connect at the first request; its certificate is made by itself."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30)
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}

    def send(
        self, method: str, path: str, body: str = "", *, kind: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        """Send one request; returns the code and the body. A connection that was idle for too long is made anew."""
        headers = {**self._headers, "Content-Type": kind}
        for again in (True, False):
            try:
                self._connection.request(method, path, body or None, headers)
                answer = self._connection.getresponse()
                return answer.status, json.loads(answer.read())
            except ConnectionError:
                self._connection.close()
                if not again:
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request; the body is sent as it is."""

    method: str
    path: str
    body: str
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Where the API server is, and who asks."""

    server: str
    authority: str
    token: str
    agent: str

    @classmethod
    def of_admin(cls, api: Api, agent: str = "bench-admin") -> Self:
        """Take the administrator's."""
        token = api.headers["Authorization"].removeprefix("Bearer ")
        return cls(server=api.server, authority=api.authority, token=token, agent=agent)

    def session(self) -> aiohttp.ClientSession:
        """Open a session; connections are kept and reused."""
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=self.authority), limit=0)
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json", "User-Agent": self.agent}
        return aiohttp.ClientSession(self.server, headers=headers, connector=connector)


async def send(session: aiohttp.ClientSession, request: Request) -> tuple[int, dict[str, Any]]:
    """Send one request; returns the code and the body."""
    headers = {"Content-Type": request.content_type}
    async with session.request(request.method, request.path, data=request.body, headers=headers) as answer:
        return answer.status, json.loads(await answer.read())


async def each(items: Iterable[Any], work: Callable[[Any], Awaitable[None]], *, at_once: int) -> None:
    """Work on all items, so many at a time."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    await asyncio.gather(*(worker() for _ in range(at_once)))


def send_all(door: Door, requests: Iterable[Request], *, at_once: int = 32) -> None:
    """Send them all; the first that is refused ends it."""

    async def main() -> None:
        async with door.session() as session:

            async def one(request: Request) -> None:
                code, body = await send(session, request)
                if code >= 300:
                    raise AssertionError(f"{request.method} {request.path}: {code} {body.get('message')}")

            await each(requests, one, at_once=at_once)

    asyncio.run(main())


def labels(name: str, wanted: Mapping[str, str | None]) -> Request:
    """Label a namespace."""
    body = json.dumps({"metadata": {"labels": wanted}})
    return Request(method="PATCH", path=f"/api/v1/namespaces/{name}", body=body, content_type=MERGE)
