"""How a command asks a cluster: one connection, whose gate stays closed, and one answer."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from metaoperator.cluster import RECURSION_LIMIT, Cluster
from metaoperator.gate import Gate

T = TypeVar("T")
C = TypeVar("C", bound=Cluster)
_SILENT: Final = logging.NullHandler()
"""What parts of the operator log is for whoever runs it; without a handler Python writes warnings to standard error."""


def run(cluster: Callable[[], C], ask: Callable[[C], Awaitable[T]]) -> T:
    """Connect, ask, and close again, whatever comes of it."""
    sys.setrecursionlimit(RECURSION_LIMIT)
    logging.getLogger("metaoperator").addHandler(_SILENT)

    async def main() -> T:
        asyncio.get_running_loop().set_exception_handler(_quiet)
        connected = cluster()
        await connected.connect()
        try:
            return await ask(connected)
        finally:
            await connected.close()

    return asyncio.run(main())


def reading(kubeconfig: str | None, ask: Callable[[Cluster], Awaitable[T]]) -> T:
    """Ask a cluster to which nothing can be written."""
    return run(lambda: Cluster(kubeconfig=kubeconfig, gate=Gate()), ask)


def _quiet(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # A connection that comes about while Ctrl-C cancels it: asyncio would tell that in words of its own (Python 3.11).
    if not isinstance(context.get("exception"), asyncio.InvalidStateError):
        loop.default_exception_handler(context)
