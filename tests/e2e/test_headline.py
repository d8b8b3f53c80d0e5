"""The short form of `python -m tests.bench --only headline`: few Workflows, nothing is measured, all is counted."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.bench import controllers, load
from tests.bench.wire import Door
from tests.e2e.audit import Audit
from tests.e2e.local import Api, Kubectl
from tests.e2e.namespaces import Namespaces

FLEET = ("e2e-busy", "e2e-next")
QUEUE = ("e2e-busy-queued", "e2e-next-queued")


@pytest.fixture(scope="module")
def made(simulated_nodes: None, namespaces: Namespaces) -> Iterator[None]:
    """Have both arms' namespaces and simulated nodes; the children are on their way."""
    del simulated_nodes
    namespaces.make(*FLEET, opt_in="enabled")
    namespaces.make(*QUEUE, controllers.SHARED)
    yield
    namespaces.remove(*FLEET, *QUEUE, controllers.SHARED)


@pytest.mark.parametrize("arm", ["shared controller", "fleet"])
def test_a_neighbour_and_a_backlog_run_to_their_end(
    made: None, arm: str, namespaces: Namespaces, kubectl: Kubectl, api: Api, audit: Audit
) -> None:
    """Every Workflow of both arms Succeeded with just its pods, under the controllers that are measured."""
    del made
    if arm == "fleet":
        busy, neighbour = FLEET
        for name in FLEET:
            namespaces.ready(name)
        running = controllers.Controllers(api, FLEET, expected=2)
    else:
        busy, neighbour = QUEUE
        controllers.install_shared(kubectl, api, {})
        running = controllers.Controllers(api, [controllers.SHARED], expected=1)
    door, mark, before = Door.of_admin(api), audit.mark(), running.cpu()

    with ThreadPoolExecutor(1) as elsewhere:  # pytest-asyncio has an event loop of its own here
        beside = elsewhere.submit(load.beside, door, busy=busy, neighbour=neighbour, backlog=3).result()
        together = elsewhere.submit(load.together, door, [busy, neighbour], count=4).result()

    load.require_ran_once(audit, mark, [*beside.runs, *together.runs])
    assert len(beside.runs) == 3 + len(beside.neighbour)
    assert [run.namespace for run in together.runs].count(busy) == 2
    assert running.cpu() > before, "those that are measured did not work"
    assert controllers.control_plane() > 0
    if arm == "shared controller":
        kubectl("delete", "deployment", "workflow-controller", "-n", controllers.SHARED)
