"""The fake API server with our kinds installed, and virtual time for every test of this folder.

Server, client and operator share one event loop, so nothing ever waits for the outside: hours pass in milliseconds.
"""

import functools
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from metaoperator import sources
from tests.fake import FakeApiServer

from . import processes
from .world import World

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder virtual time."""
    for item in items:
        if _HERE in item.path.parents:
            # A power of two: differences of times are exact, and failures can be repeated.
            item.add_marker(pytest.mark.looptime(resolution=2**-20, noop_cycles=20))


_programs = functools.cache(sources.programs)


@pytest.fixture(autouse=True)
def _quick_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare each operator what costs a tenth of a second and is the same each time."""
    monkeypatch.setattr(sources, "programs", _programs)
    # Everything is plain HTTP here: no connection looks at the machine's certificates.
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: None)


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """One API server, with everything that the fleet bundle installs."""
    processes.install(monkeypatch)
    async with FakeApiServer() as server:
        yield World(server, tmp_path)


@pytest.fixture
def server(world: World) -> FakeApiServer:
    """Name the API server of the world."""
    return world.server
