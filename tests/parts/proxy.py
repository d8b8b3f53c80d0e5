"""A TCP proxy in front of the API server, with faults of the network on demand: for one client and not the others."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Self
from urllib.parse import urlsplit

_CHUNK = 65536


class Proxy:
    """Passes bytes on; `freeze` holds them back, `reset` breaks connections, `refuse` takes no new ones."""

    def __init__(self, target: str) -> None:
        """`target` is the URL behind it."""
        parts = urlsplit(target)
        self._target = parts.hostname, parts.port
        self._flows = asyncio.Event()
        self._flows.set()
        self._refuses = False
        self._writers: set[asyncio.StreamWriter] = set()
        self.url = ""

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Self]:
        """Listen on a free port."""
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = "http://{}:{}".format(*listener.sockets[0].getsockname()[:2])
        try:
            yield self
        finally:
            listener.close()
            self.reset()
            await asyncio.sleep(0.01)

    def freeze(self) -> None:
        """Deliver nothing any more, in either direction, without ending anything: a half-open connection."""
        self._flows.clear()

    def refuse(self) -> None:
        """Break what is open and take nothing new."""
        self._refuses = True
        self.reset()

    def heal(self) -> None:
        """Let everything pass again, what was held back included."""
        self._refuses = False
        self._flows.set()

    def reset(self) -> None:
        """Break what is open."""
        for writer in list(self._writers):
            if writer.transport is not None:
                writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, far_writer))
                group.create_task(self._pass(far_reader, writer))
        finally:
            self._writers -= {writer, far_writer}
            for each in (writer, far_writer):
                each.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
            await self._flows.wait()
        # The other direction ends with this one: HTTP over a half-closed connection is of no use.
        writer.transport.abort()
