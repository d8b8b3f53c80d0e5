"""What people and clusters do to a drain: nothing is lost, nothing waits in silence, and none keeps the others back."""

import asyncio
import contextlib
import logging
from typing import Any

import pytest

from metaoperator.core import names
from tests.fake import FakeApiServer
from tests.fake.problems import ApiError

from .test_drain import CRON, DRAINING, cron, end, finished, fired, gone, label, off, operator, served, told
from .test_sweep import a_thousand, swept
from .test_sweep import label as sweep_label
from .world import World


@pytest.mark.parametrize("code", [403, 500])
@pytest.mark.parametrize("kind", ["cronworkflows", "workflows"])
async def test_one_object_that_cannot_be_handed_back_keeps_no_other_back_and_is_told(
    world: World, server: FakeApiServer, code: int, kind: str
) -> None:
    """A webhook says no to one of them, or falls over it: the child stays for that one alone."""
    async with operator(world):
        await served(world)
        for number in range(30):
            cron(world, f"o-{number:02}") if kind == "cronworkflows" else finished(world, f"o-{number:02}")
        no = server.faults.answer(
            code, message="the webhook stumbles", verb="patch", resource=kind, name="o-00", times=10**6
        )
        world.opt_out("team-a")
        of = CRON if kind == "cronworkflows" else "Workflow"
        others = [f"o-{number:02}" for number in range(1, 30)]
        await world.until(lambda: {label(world, of, each) for each in others} == {None}, 30)
        condition = "Reconciling" if code == 500 else "Stalled"
        await world.until(lambda: "the webhook stumbles" in world.message("team-a", condition))
        await asyncio.sleep(300)
        assert world.whole("team-a")
        no.release()
        await world.until(lambda: gone(world), 400)
        assert len(off(world)) == len(set(off(world))) == 30


async def test_a_child_that_was_deleted_in_the_middle_is_not_waited_for_in_silence(
    world: World, server: FakeApiServer
) -> None:
    """Nobody serves what is left: it says so, and what to do; opting in again makes the child anew."""
    async with operator(world):
        await served(world, beside=False)
        world.workflow("team-a", "running", **{names.PHASE_LABEL: "Running"})
        world.opt_out("team-a")
        await world.until(lambda: told(world) == DRAINING)
        server.delete("Deployment", "team-a", "workflow-controller")
        await world.until(lambda: "opt in again" in world.message("team-a", "Reconciling"), 90)
        assert told(world) == ("True", "WorkflowOrphaned")
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"), 120)
        world.opt_out("team-a")
        await world.until(lambda: told(world) == DRAINING)
        end(world, "running")
        await world.until(lambda: gone(world), 120)


async def test_schedules_of_a_child_that_was_deleted_are_not_said_to_go_on(world: World, server: FakeApiServer) -> None:
    """Without a successor they would stop when the child goes; it has gone already."""
    async with operator(world):
        await served(world, beside=False)
        cron(world, "nightly")
        world.opt_out("team-a")
        await world.until(lambda: told(world)[1] == "SchedulesWouldStop")
        server.delete("Deployment", "team-a", "workflow-controller")
        await world.until(lambda: "opt in again" in world.message("team-a", "Reconciling"), 90)
        assert told(world) == ("True", "ScheduleOrphaned")
        assert "the child is kept" not in world.message("team-a", "Reconciling")


async def test_a_clock_that_was_ahead_when_the_drain_began_makes_nobody_wait_for_years(
    world: World, server: FakeApiServer
) -> None:
    """Since when it waits stands in the status: a time yet to come counts as now."""
    async with operator(world):
        await served(world)
        world.spec("team-a", drain={"timeout": "5m", "then": "Delete"})
        world.workflow("team-a", "running", **{names.PHASE_LABEL: "Running"})
        world.opt_out("team-a")
        await world.until(lambda: told(world) == DRAINING)
        later = {"status": {"drain": {"since": "2099-01-01T00:00:00Z"}}}
        server.patch("WorkflowController", "team-a", "workflow-controller", later, sub="status")
        await world.until(lambda: gone(world), 600)


async def test_a_namespace_that_is_made_anew_while_it_drains_starts_from_nothing(
    world: World, server: FakeApiServer
) -> None:
    """Of the one before nothing is counted, moved or told."""
    async with operator(world):
        await served(world)
        for number in range(20):
            finished(world, f"o-{number}")
        cron(world, "c")
        fired(world, "c-1", "c")
        world.opt_out("team-a")
        await world.until(lambda: told(world) == DRAINING)
        server.delete("Namespace", None, "team-a")
        await world.until(lambda: server.get("Namespace", None, "team-a") is None, 120)
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"), 120)
        finished(world, "new")
        world.workflow("team-a", "runs", **{names.PHASE_LABEL: "Running"})
        world.opt_out("team-a")
        await world.until(lambda: told(world) == DRAINING)
        assert world.status("team-a")["drain"]["handedBack"] == 0
        end(world, "runs")
        await world.until(lambda: gone(world), 120)


async def test_a_label_that_flaps_ends_where_it_stands(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Ten times a second, over schedules and Workflows of each state: nothing is lost, and then it is quiet."""
    caplog.set_level(logging.WARNING)
    async with operator(world):
        await served(world)
        for number in range(5):
            cron(world, f"c-{number}")
            finished(world, f"f-{number}")
        fired(world, "c-0-run", "c-0")
        world.workflow("team-a", "runs", **{names.PHASE_LABEL: "Running"})
        for number in range(300):
            world.opt_out("team-a") if number % 2 == 0 else world.opt_in("team-a")
            await asyncio.sleep(0.1)
        await world.until(lambda: world.ready("team-a"), 120)
        assert {label(world, "Workflow", each) for each in ("c-0-run", "runs")} == {"team-a"}
        assert label(world, CRON, "c-0") == "team-a"
        await world.proven()
        before = len(world.writes())
        await asyncio.sleep(300)
        assert len(world.writes()) == before
        assert len(off(world)) == len(set(off(world)))
        world.opt_out("team-a")
        for each in ("c-0-run", "runs"):
            end(world, each)
        await world.until(lambda: gone(world), 300)
    assert not [each for each in caplog.records if each.exc_info]


async def test_an_opt_out_in_the_middle_of_a_sweep_writes_nothing_twice(world: World) -> None:
    """What has its ID by then is served to its end, what has none keeps none."""
    a_thousand(world)
    async with operator(world):
        await served(world, beside=False)
        await world.until(lambda: len(swept(world)) > 100, 60)
        world.opt_out("team-a")
        await asyncio.sleep(30)
        written = [name for _, name, _ in swept(world)]
        assert len(written) == len(set(written)) < 1_000
        await asyncio.sleep(120)
        assert len(swept(world)) == len(written)
        mine = [f"w-{n:04}" for n in range(1_000) if sweep_label(world, f"w-{n:04}") == "team-a"]
        assert sorted(mine) == sorted(filter(None, written))
        assert world.whole("team-a")
        for each in mine:
            end(world, each)
        await world.until(lambda: gone(world), 300)


async def test_schedules_as_only_minimal_crds_let_them_through(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing that stands in a spec is a traceback."""
    odd: list[dict[str, Any]] = [
        {"concurrencyPolicy": None}, {"concurrencyPolicy": ["Allow"]}, {"suspend": "x"}, {"suspend": None},
        {"workflowSpec": None}, {"schedules": None}, {"workflowMetadata": 7},
    ]  # fmt: skip
    caplog.set_level(logging.WARNING)
    async with operator(world):
        await served(world)
        for number, each in enumerate(odd):
            cron(world, f"c-{number}", **each)
            fired(world, f"c-{number}-1", f"c-{number}")
        world.opt_out("team-a")
        await world.until(lambda: told(world) == DRAINING)
        for number in range(len(odd)):
            end(world, f"c-{number}-1")
        await world.until(lambda: gone(world), 200)
    assert not [each for each in caplog.records if each.exc_info]


async def test_a_row_that_is_deleted_again_and_again_does_not_end_a_drain(world: World, server: FakeApiServer) -> None:
    """The child stays until its Workflows have ended, whether there is a row to say so or not."""
    async with operator(world):
        await served(world)
        cron(world, "c")
        fired(world, "c-1", "c")
        world.opt_out("team-a")
        for _ in range(20):
            with contextlib.suppress(ApiError):
                server.delete("WorkflowController", "team-a", "workflow-controller")
            await asyncio.sleep(3)
        assert world.whole("team-a")
        assert label(world, CRON, "c") == "team-a"
        end(world, "c-1")
        await world.until(lambda: world.empty("team-a"), 120)
        assert label(world, CRON, "c") is None
