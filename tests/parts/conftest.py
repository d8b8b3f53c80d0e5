"""The fake API server with our kinds installed, and virtual time for every test of this folder.

Server, client and operator share one event loop, so nothing ever waits for the outside: hours pass in milliseconds.
"""

import asyncio
import functools
import gc
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from metaoperator import shelves, sources
from tests.fake import FakeApiServer

from . import processes
from .world import World

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give the tests of this folder virtual time, and as much of the real one as a busy machine needs."""
    # Who asks for a loop where none runs is told so. The default is to make one, which looptime does for tests that are
    # not asynchronous, and which nobody closes: any later test is red for it.
    asyncio.set_event_loop(None)
    for item in items:
        if _HERE in item.path.parents:
            # A power of two: differences of times are exact, and failures can be repeated.
            item.add_marker(pytest.mark.looptime(resolution=2**-20, noop_cycles=20))
            # Hours of virtual time are ten seconds of work, and minutes of it beside ten others. By signal, the limit
            # would strike in whatever callback is running, be swallowed there, and end a part of the fake in silence.
            item.add_marker(pytest.mark.timeout(max(900.0, float(config.getini("timeout"))), method="thread"))


_left: list[str] = []
"""Of API servers that a kind was taken from: kopf leaves tasks behind that ended with it."""


def pytest_runtest_logfinish() -> None:
    """Collect what a test left, so that it is not told of in the next one: its own records held it until now."""
    if _left:
        _left.clear()
        gc.collect()


async def _in_place(work: Callable[..., Any], *args: Any) -> Any:
    return work(*args)


_shipped = functools.cache(sources.programs)


def _programs(directories: tuple[Path, ...], *, keep: bool = False) -> dict[str, Any]:
    return dict(_shipped(directories, keep=keep)) if directories == (sources.shipped(),) else _read(directories)


_read = sources.programs


@pytest.fixture(autouse=True)
def _quick_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare each operator what costs a tenth of a second and is the same each time."""
    monkeypatch.setattr(sources, "programs", _programs)
    # Virtual time runs on while a thread works.
    monkeypatch.setattr(shelves, "apart", _in_place)
    # Everything is plain HTTP here: no connection looks at the machine's certificates.
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: None)


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """One API server, with everything that the fleet bundle installs."""
    processes.install(monkeypatch)
    async with FakeApiServer() as server:
        yield World(server, tmp_path)
    if server.withdrawn:
        _left.append(server.url)


@pytest.fixture
def server(world: World) -> FakeApiServer:
    """Name the API server of the world."""
    return world.server
