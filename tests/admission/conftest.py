"""One API server for the whole session. A test that needs other policies puts the shipped ones back."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import alone
from tests.cluster.alone import ApiServer

from .world import World


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test time for an API server that starts on a busy machine."""
    # The default is to make a loop for whoever asks, which nobody closes.
    asyncio.set_event_loop(None)
    for item in items:
        item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def api_server() -> Iterator[ApiServer]:
    """Have an API server that serves v1beta1 of the policies too, as Kubernetes 1.34 does."""
    with alone.running("--runtime-config=admissionregistration.k8s.io/v1beta1=true") as made:
        yield made


@pytest.fixture(scope="session")
def world(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Have the fleet bundle on it."""
    made = World(api_server, Path(tmp_path_factory.mktemp("overlays")))
    made.up()
    made.have()
    return made


@pytest.fixture
def shipped(world: World) -> Iterator[World]:
    """Have the shipped policies again when the test is over."""
    yield world
    world.have()
