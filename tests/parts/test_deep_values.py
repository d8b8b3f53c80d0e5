"""Values that the API server takes and that we cannot use: too deep, or against the schema. They harm nobody else."""

import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from metaoperator.cluster import RECURSION_LIMIT
from metaoperator.core import names
from tests.fake import FakeApiServer

from .world import SIX, World


@pytest.fixture(autouse=True)
def _as_in_a_process_of_its_own() -> Iterator[None]:
    """`operator.run` sets the recursion limit of its process; here it is that of the fake API server as well."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(RECURSION_LIMIT)
    yield
    sys.setrecursionlimit(before)


def nested(levels: int, *, lists: bool = True) -> dict[str, Any]:
    """Nest lists in a mapping, or mappings, so many levels deep; the fake keeps book of every path of mappings."""
    inner: Any = "x"
    for _ in range(levels - 1):
        inner = [inner] if lists else {"a": inner}
    return {"config": inner}


@pytest.mark.parametrize(
    ("levels", "lists"), [(280, False), (280, True), (1_500, True), (9_000, True)], ids=["280m", "280", "1500", "9000"]
)
async def test_values_too_deep_are_one_namespaces_own_trouble(
    world: World, server: FakeApiServer, caplog: pytest.LogCaptureFixture, levels: int, *, lists: bool
) -> None:
    """ValuesInvalid for the one WorkflowController, whose child stays; everybody else is served, now and later."""
    async with world.operator() as one:
        world.opt_in("deep")
        world.opt_in("team-a")
        await world.until(lambda: world.ready("deep", "team-a"))
        before = [server.get(kind, "deep", name) for kind, name in SIX]
        world.spec("deep", values=nested(levels, lists=lists))
        await world.until(lambda: world.condition("deep") == ("False", "ValuesInvalid"), 10)
        assert "levels deep" in world.message("deep")
        assert [server.get(kind, "deep", name) for kind, name in SIX] == before
        world.opt_in("team-b")
        await world.until(lambda: world.ready("team-a", "team-b"), 10)
        # A list that kopf takes anew holds it too.
        server.compact()
        server.fail_watches(410, kind="WorkflowController")
        world.spec("team-a", values={"workers": {"workflow": 7}})
        await world.until(lambda: "--workflow-workers=7" in arguments(server, "team-a"), 60)
        world.spec("deep", values=None)
        await world.until(lambda: world.ready("deep"), 60)
        assert not one.task.done()
    assert not bugs(caplog)


@pytest.mark.parametrize("levels", [280, 1_500, 9_000])
async def test_values_too_deep_in_a_template_are_its_namespaces_trouble_only(
    world: World, server: FakeApiServer, caplog: pytest.LogCaptureFixture, levels: int
) -> None:
    """The ControllerTemplate and its namespaces say ValuesInvalid; those of another are served."""
    world.template("deep", nested(levels))
    async with world.operator() as one:
        world.opt_in("team-a")
        world.opt_in("team-b", "deep")
        await world.until(lambda: world.ready("team-a"), 10)
        await world.until(lambda: world.condition("team-b") == ("False", "ValuesInvalid"), 10)
        await world.until(lambda: template_condition(server, "deep") == ("False", "ValuesInvalid"), 10)
        await world.until(lambda: template_condition(server, "default") == ("True", "Loaded"), 10)
        assert world.child("team-b") == []
        server.patch("ControllerTemplate", None, "deep", {"spec": {"values": None}})
        await world.until(lambda: world.ready("team-a", "team-b"), 60)
        await world.until(lambda: template_condition(server, "deep") == ("True", "Loaded"), 10)
        assert not one.task.done()
    assert not bugs(caplog)


async def test_values_too_deep_do_not_keep_a_restarted_operator_from_its_work(
    world: World, server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    """They are there before it starts: in its first lists, in those of kopf and in the first compare."""
    world.namespace("deep")
    world.make(
        "WorkflowController", "deep", "workflow-controller", api=names.API_VERSION, spec={"values": nested(9000)}
    )
    world.template("deep", nested(9000))
    world.opt_in("deep")
    async with world.operator() as one:
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"), 30)
        assert world.condition("deep") == ("False", "ValuesInvalid")
        world.opt_out("deep")
        await world.until(lambda: world.condition("deep") == ("False", "NotOptedIn"), 10)
        assert not one.task.done()
    assert not bugs(caplog)


async def test_a_template_whose_values_break_the_schema_is_not_ready(world: World, server: FakeApiServer) -> None:
    """Also one that no namespace has chosen yet: Ready False with ValuesInvalid and the path, until it is mended."""
    world.template("broken", {"workers": {"workflow": "many"}})
    async with world.operator():
        await world.until(lambda: template_condition(server, "broken") == ("False", "ValuesInvalid"), 20)
        assert template_condition(server, "broken", "Stalled") == ("True", "ValuesInvalid")
        live = server.get("ControllerTemplate", None, "broken")
        assert live is not None
        assert "workers.workflow" in live["status"]["conditions"][0]["message"]
        server.patch("ControllerTemplate", None, "broken", {"spec": {"values": {"workers": {"workflow": 5}}}})
        await world.until(lambda: template_condition(server, "broken") == ("True", "Loaded"), 20)


def template_condition(server: FakeApiServer, name: str, kind: str = "Ready") -> tuple[str, str]:
    """Get status and reason of a condition of a ControllerTemplate."""
    live = server.get("ControllerTemplate", None, name) or {}
    for each in (live.get("status") or {}).get("conditions", ()):
        if each["type"] == kind:
            return each["status"], each["reason"]
    return "", ""


def arguments(server: FakeApiServer, namespace: str) -> list[str]:
    """Read the arguments of the child."""
    live = server.get("Deployment", namespace, "workflow-controller")
    return [] if live is None else live["spec"]["template"]["spec"]["containers"][0]["args"]


def bugs(caplog: pytest.LogCaptureFixture) -> list[str]:
    """List what was logged with a traceback."""
    return [each.getMessage() for each in caplog.records if each.exc_info and each.levelno >= logging.ERROR]
