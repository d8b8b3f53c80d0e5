"""One API server for the whole session. A test that needs other policies puts the shipped ones back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import alone

from .world import World


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test time for an API server that starts on a busy machine."""
    for item in items:
        item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Have the fleet bundle on an API server that serves v1beta1 of the policies too, as Kubernetes 1.34 does."""
    with alone.running("--runtime-config=admissionregistration.k8s.io/v1beta1=true") as api_server:
        made = World(api_server, Path(tmp_path_factory.mktemp("overlays")))
        made.up()
        made.have()
        yield made


@pytest.fixture
def shipped(world: World) -> Iterator[World]:
    """Have the shipped policies again when the test is over."""
    yield world
    world.have()
