"""What exists gets its instance ID from the operator where nobody serves it, and nobody began it: else it does not."""

import asyncio
from typing import Any

import pytest

from metaoperator.core import names
from tests.fake import FakeApiServer

from .test_drain import operator, served
from .test_instance_ids import pinned
from .test_overlap import install, scale
from .test_strays import counts, metric, submit
from .world import ARGO, World

CRON = "CronWorkflow"
ID = names.INSTANCE_ID_LABEL
ORPHANED = ("True", "WorkflowOrphaned")
Manifest = dict[str, Any]


def label(world: World, name: str, kind: str = "Workflow", namespace: str = "team-a") -> str | None:
    """Read the instance ID of an object."""
    live = world.server.get(kind, namespace, name)
    assert live is not None
    found: str | None = (live["metadata"].get("labels") or {}).get(ID)
    return found


def cron(world: World, name: str, policy: str = "Forbid", *, instance: str | None = None, **spec: Any) -> Manifest:
    """Create a CronWorkflow, without an instance ID unless told otherwise."""
    labels = {} if instance is None else {ID: instance}
    meta = {"name": name, "namespace": "team-a", "labels": labels}
    spec = {"schedules": ["* * * * *"], "concurrencyPolicy": policy, "workflowSpec": {}, **spec}
    return world.server.create({"apiVersion": ARGO, "kind": CRON, "metadata": meta, "spec": spec})


def fired(world: World, name: str, by: str, **labels: str) -> Manifest:
    """Let a controller without an ID start a Workflow of a CronWorkflow."""
    meta = {"name": name, "namespace": "team-a", "labels": {names.CRON_WORKFLOW_LABEL: by, **labels}}
    return world.server.create({"apiVersion": ARGO, "kind": "Workflow", "metadata": meta, "spec": {}})


def belongs(world: World, kind: str, to: str, name: str = "trace") -> None:
    """Have an object that a controller made for a Workflow."""
    owner = world.server.get("Workflow", "team-a", to)
    assert owner is not None
    reference = {
        "apiVersion": ARGO,
        "kind": "Workflow",
        "name": to,
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    api = ARGO if kind == "WorkflowTaskSet" else "v1"
    labels = {names.WORKFLOW_LABEL: to}
    meta = {"name": name, "namespace": "team-a", "labels": labels, "ownerReferences": [reference]}
    spec = {"containers": [{"name": "main", "image": "i"}]} if kind == "Pod" else {}
    world.server.create({"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}, manager="argo")


def swept(world: World) -> list[tuple[str, str | None, int]]:
    """List the writes to Argo's objects, in order, with their answers."""
    kinds = {"workflows", "cronworkflows"}
    return [(entry.resource, entry.name, entry.code) for entry in world.writes() if entry.resource in kinds]


def asked(world: World, resource: str) -> int:
    """Count the lists of one kind in team-a."""
    return sum(
        each.verb == "list" and each.resource == resource and each.namespace == "team-a" for each in world.ours()
    )


# Workflows


async def test_what_nobody_serves_gets_the_id_and_what_somebody_chose_does_not(
    world: World, server: FakeApiServer
) -> None:
    """Report R01: no labels, an empty one, another's ID; before the operator came, and where nobody opted in."""
    world.namespace("team-b")
    world.namespace("team-a")
    meta = {"name": "bare", "namespace": "team-a"}
    server.create({"apiVersion": ARGO, "kind": "Workflow", "metadata": meta, "spec": {}})
    submit(world, "team-a", "no-labels", None)
    submit(world, "team-a", "empty", "")
    submit(world, "team-a", "foreign", "team-b")
    submit(world, "team-b", "elsewhere", None)
    async with operator(world):
        await served(world, beside=False)
        mine = ("bare", "no-labels", "empty")
        await world.until(lambda: [label(world, each) for each in mine] == ["team-a"] * 3)
        submit(world, "team-a", "later", None)
        await world.until(lambda: label(world, "later") == "team-a", 10)
        await world.until(lambda: counts(world, "team-a").get("orphaned") == 1, 90)
        assert label(world, "foreign") == "team-b"
        assert label(world, "elsewhere", namespace="team-b") is None
        assert world.condition("team-a", "OrphanedWorkflows") == ORPHANED
        assert "such as Workflow foreign" in world.message("team-a", "OrphanedWorkflows")
        assert counts(world, "team-a") == {"running": 0, "pending": 4, "orphaned": 1, "swept": 4}
        assert len(swept(world)) == 4
        assert [each["regarding"]["name"] for each in world.events("WorkflowOrphaned")] == ["foreign"]


async def test_a_child_that_is_not_ready_gets_nothing_until_it_is(world: World) -> None:
    """Report R01, while the child is down: its own condition tells, and how many wait for their ID."""
    world.controller.broken.add("team-a/workflow-controller")
    async with operator(world):
        world.opt_in("team-a")
        submit(world, "team-a", "w", None)
        await world.until(lambda: world.condition("team-a") == ("False", "PodFailing"))
        await world.until(lambda: counts(world, "team-a").get("unswept") == 1)
        assert metric("metaoperator_workflows_unswept", "team-a") == "1.0"
        await asyncio.sleep(300)
        assert label(world, "w") is None
        assert world.events("WorkflowOrphaned") == []
        world.controller.broken.clear()
        for pod in world.server.select("Pod", "team-a"):
            world.server.delete("Pod", "team-a", pod["metadata"]["name"])
        await world.until(lambda: label(world, "w") == "team-a", 120)
        await world.until(lambda: counts(world, "team-a") == {"running": 0, "pending": 1, "swept": 1})
        assert metric("metaoperator_workflows_unswept", "team-a") == ""


async def test_what_was_created_while_the_operator_was_down_is_found(world: World) -> None:
    """Nothing of it is remembered anywhere: a new one sees what there is, and the count goes on."""
    async with operator(world) as one:
        await served(world, beside=False)
        submit(world, "team-a", "first", None)
        await world.until(lambda: counts(world, "team-a").get("swept") == 1)
        await one.stop()
        submit(world, "team-a", "second", None)
        two = world.start()
        await world.until(lambda: label(world, "second") == "team-a")
        await world.until(lambda: counts(world, "team-a").get("swept") == 2)
        assert two.leading


async def test_a_constant_of_admission_gives_way_to_the_id_of_the_child(world: World) -> None:
    """Where the pinned ID was not known when a Workflow came, the fleet's own was stamped: the sweep corrects it."""
    pinned(world)
    world.namespace("team-a")
    body = {
        "apiVersion": names.API_VERSION,
        "kind": "WorkflowController",
        "metadata": {"name": "workflow-controller", "namespace": "team-a"},
        "spec": {"instanceID": "mine"},
    }
    world.server.create(body, manager="kubectl")
    for name, instance in {"by-namespace": "team-a", "by-fleet": "metaoperator", "chosen": "other"}.items():
        submit(world, "team-a", name, instance)
    async with operator(world):
        await served(world, beside=False)
        await world.until(lambda: {label(world, each) for each in ("by-namespace", "by-fleet")} == {"mine"})
        await asyncio.sleep(60)
        assert label(world, "chosen") == "other"


# Who serves it


async def test_a_living_controller_keeps_what_it_serves_until_its_last_pod_is_gone(
    world: World, server: FakeApiServer
) -> None:
    """Its Deployment's end is not its own: a pod that is being ended goes on working."""
    install(world, config={})
    world.namespace("team-a")
    submit(world, "team-a", "w", None)
    async with operator(world):
        await served(world, beside=False)
        await asyncio.sleep(120)
        assert label(world, "w") is None
        assert counts(world, "team-a") == {"running": 0, "pending": 0, "unlabelled": 1}
        (pod,) = server.select("Pod", "argo")
        server.patch("Pod", "argo", pod["metadata"]["name"], {"metadata": {"finalizers": ["example.org/hold"]}})
        server.delete("Deployment", "argo", "argo")
        await asyncio.sleep(120)
        assert label(world, "w") is None
        server.patch("Pod", "argo", pod["metadata"]["name"], {"metadata": {"finalizers": None}})
        await world.until(lambda: server.select("Pod", "argo") == [])
        await world.until(lambda: label(world, "w") == "team-a", 30)


async def test_one_that_is_scaled_to_zero_serves_nothing_any_more(world: World) -> None:
    """And has everything again that was not given away meanwhile, when it comes back."""
    install(world, config={})
    world.namespace("team-a")
    submit(world, "team-a", "one", None)
    async with operator(world):
        await served(world, beside=False)
        await asyncio.sleep(30)
        scale(world, "argo", 0)
        await world.until(lambda: label(world, "one") == "team-a", 90)
        scale(world, "argo", 1)
        await asyncio.sleep(30)
        submit(world, "team-a", "two", None)
        await asyncio.sleep(120)
        assert label(world, "two") is None


async def test_a_controller_that_cannot_be_understood_may_serve_anything(world: World) -> None:
    """Its ConfigMap is not there: nothing is taken from it, constants included."""
    pinned(world)
    async with operator(world):
        await served(world, beside=False)
        install(world)
        await world.until(lambda: world.condition("team-a")[1] != "Leading" or world.message("team-a") != "")
        await asyncio.sleep(10)
        submit(world, "team-a", "none", None)
        submit(world, "team-a", "fleets", "metaoperator")
        await asyncio.sleep(120)
        assert (label(world, "none"), label(world, "fleets")) == (None, "metaoperator")
        assert swept(world) == []


# What somebody began


@pytest.mark.parametrize("trace", ["Pod", "WorkflowTaskSet", "PersistentVolumeClaim"])
async def test_what_a_controller_began_without_saying_so_stays_and_is_told(world: World, trace: str) -> None:
    """It makes pods, task sets and claims before it writes the phase; the list of them is read once, not once each."""
    task_sets(world)
    world.namespace("team-a")
    for name in ("begun", "free"):
        submit(world, "team-a", name, None)
    belongs(world, trace, "begun")
    async with operator(world):
        await served(world, beside=False)
        await world.until(lambda: label(world, "free") == "team-a")
        await world.until(lambda: counts(world, "team-a").get("orphaned") == 1, 90)
        assert label(world, "begun") is None
        (event,) = world.events("WorkflowOrphaned")
        assert event["regarding"]["name"] == "begun"
        assert "the controller that began it" in event["note"]
        before = asked(world, "persistentvolumeclaims")
        assert before <= 2
        for number in range(20):
            world.workflow("team-a", f"busy-{number}")
            await asyncio.sleep(15)
        assert asked(world, "persistentvolumeclaims") == before
        server = world.server
        server.delete("Workflow", "team-a", "begun")
        await world.until(lambda: "orphaned" not in counts(world, "team-a"), 60)


async def test_what_was_started_stays_for_its_controller_to_come_back(world: World) -> None:
    """Only its own controller goes on with it as it is; the message says so."""
    install(world, config={})
    world.namespace("team-a")
    submit(world, "team-a", "w", None)
    world.phase("team-a", "w", "Running")
    async with operator(world):
        await served(world, beside=False)
        scale(world, "argo", 0)
        await world.until(lambda: counts(world, "team-a").get("orphaned") == 1, 120)
        assert label(world, "w") is None
        assert "bring its controller back" in world.message("team-a", "OrphanedWorkflows")
        assert counts(world, "team-a") == {"running": 0, "pending": 0, "unlabelled": 1, "orphaned": 1}
        scale(world, "argo", 1)
        await world.until(lambda: "orphaned" not in counts(world, "team-a"), 60)


@pytest.mark.parametrize("who", ["leaves", "stays", "was never there"])
async def test_what_has_ended_goes_too_where_nobody_serves_it(world: World, who: str) -> None:
    """For its time to live, archive and deletion; as long as somebody does, it stays."""
    if who != "was never there":
        install(world, config={})
    world.namespace("team-a")
    for number in range(250):
        submit(world, "team-a", f"old-{number:03}", None)
        world.phase("team-a", f"old-{number:03}", "Succeeded", completed=True)
    async with operator(world):
        await served(world, beside=False)
        await asyncio.sleep(60)
        if who == "leaves":
            world.server.delete("Deployment", "argo", "argo")
        if who == "stays":
            await asyncio.sleep(600)
            assert swept(world) == []
        else:
            await world.until(lambda: counts(world, "team-a").get("swept") == 250, 120)
            assert {label(world, f"old-{number:03}") for number in range(250)} == {"team-a"}


# CronWorkflows


async def test_a_schedule_follows_its_workflows(world: World) -> None:
    """Report R05: labelled together, the Workflows first, so that no controller forgets what it started."""
    world.namespace("team-a")
    for name in ("b", "a"):
        cron(world, name)
        fired(world, f"{name}-1", name)
    cron(world, "theirs", instance="elsewhere")
    async with operator(world):
        await served(world, beside=False)
        await world.until(lambda: {label(world, each, CRON) for each in ("a", "b")} == {"team-a"})
        written = [name or "" for _, name, _ in swept(world)]
        assert sorted(written) == ["a", "a-1", "b", "b-1"]
        assert all(written.index(each) > written.index(f"{each}-1") for each in ("a", "b"))
        assert label(world, "theirs", CRON) == "elsewhere"
        await world.until(lambda: bool(world.events("ScheduleOrphaned")), 90)
        (event,) = world.events("ScheduleOrphaned")
        assert (event["regarding"]["kind"], event["regarding"]["name"]) == (CRON, "theirs")
        assert "kubectl label cronworkflow theirs" in event["note"]
        assert world.condition("team-a", "OrphanedWorkflows") == ("True", "ScheduleOrphaned")
        assert metric("metaoperator_workflows_schedules_orphaned", "team-a") == "1.0"
        assert counts(world, "team-a") == {"running": 0, "pending": 2, "swept": 4}


@pytest.mark.parametrize("policy", ["Forbid", "Replace", "Allow", ""])
async def test_a_schedule_whose_workflow_cannot_move_waits_unless_it_allows_several(world: World, policy: str) -> None:
    """The controller that began it is gone; another one would start a second one beside it."""
    together = policy in {"Allow", ""}
    world.namespace("team-a")
    cron(world, "a", policy)
    fired(world, "a-1", "a", **{names.PHASE_LABEL: "Running"})
    fired(world, "a-2", "a")
    async with operator(world):
        await served(world, beside=False)
        await world.until(lambda: label(world, "a-2") == "team-a")
        await asyncio.sleep(90)
        assert label(world, "a-1") is None
        assert label(world, "a", CRON) == ("team-a" if together else None)
        told = [each["note"] for each in world.events("ScheduleOrphaned")]
        assert [f"concurrencyPolicy {policy} allows none beside it" in each for each in told] == [True] * (not together)
        world.phase("team-a", "a-1", "Failed", completed=True)
        await world.until(lambda: label(world, "a", CRON) == "team-a", 30)
        await world.until(lambda: world.condition("team-a", "OrphanedWorkflows") == ("", ""), 60)


async def test_a_schedule_does_not_overtake_its_workflow(world: World, server: FakeApiServer) -> None:
    """One whose write fails is tried again, and the schedule comes after it."""
    world.namespace("team-a")
    cron(world, "a")
    fired(world, "a-1", "a")
    server.faults.answer(409, verb="patch", resource="workflows", name="a-1", times=3)
    async with operator(world):
        await served(world, beside=False)
        await world.until(lambda: label(world, "a", CRON) == "team-a")
        assert [(name, code) for _, name, code in swept(world)] == [("a-1", 409)] * 3 + [("a-1", 200), ("a", 200)]


async def test_a_schedule_that_contradicts_itself_is_told_and_left_alone(world: World) -> None:
    """Report R05: its workflowMetadata would hand each of its Workflows to another controller."""
    world.namespace("team-a")
    cron(world, "at-once", workflowMetadata={"labels": {ID: "team-b"}})
    cron(world, "later", workflowSpec={"workflowMetadata": {"labels": {ID: "team-b"}}})
    cron(world, "agrees", workflowMetadata={"labels": {ID: "team-a"}})
    async with operator(world):
        await served(world, beside=False)
        await world.until(lambda: label(world, "agrees", CRON) == "team-a")
        await world.until(lambda: len(world.events("ScheduleOrphaned")) == 2, 90)
        assert {label(world, each, CRON) for each in ("at-once", "later")} == {None}
        assert all("take that out of it" in each["note"] for each in world.events("ScheduleOrphaned"))
        world.server.patch(CRON, "team-a", "at-once", {"spec": {"workflowMetadata": None}})
        submit(world, "team-a", "something", None)
        await world.until(lambda: label(world, "at-once", CRON) == "team-a", 30)


async def test_what_a_drain_handed_back_comes_home(world: World) -> None:
    """Handed to a controller without an ID, which went: the namespace opts in again, and its schedules go on."""
    async with operator(world):
        await served(world)
        cron(world, "a", instance="team-a")
        world.opt_out("team-a")
        await world.until(lambda: world.wfc("team-a") is None, 120)
        assert label(world, "a", CRON) is None
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(120)
        assert label(world, "a", CRON) is None
        world.server.delete("Deployment", "argo", "argo")
        await world.until(lambda: label(world, "a", CRON) == "team-a", 60)


# Many, and what goes wrong


async def test_ten_thousand_delay_nobody(world: World) -> None:
    """Each is written once; a namespace that opts in meanwhile, and one with a single Workflow, have their turn."""
    world.namespace("team-a")
    world.namespace("team-b")
    world.opt_in("team-b")
    for number in range(10_000):
        submit(world, "team-a", f"w-{number:05}", None)
    world.server.faults.slow(0.05, verb="patch", resource="workflows", namespace="team-a", times=10**6)
    async with operator(world):
        await world.until(lambda: world.ready("team-b"))
        world.opt_in("team-a")
        await world.until(lambda: len(swept(world)) > 500, 120)
        world.opt_in("team-c")
        submit(world, "team-b", "single", None)
        await world.until(lambda: label(world, "single", namespace="team-b") == "team-b", 15)
        await world.until(lambda: world.ready("team-c"), 30)
        assert len(swept(world)) < 9_500, "it was all done before: this shows nothing"
        await world.until(lambda: counts(world, "team-a").get("swept") == 10_000, 900)
        assert {label(world, f"w-{number:05}") for number in range(10_000)} == {"team-a"}
        assert len(swept(world)) == 10_001
        assert world.events("WorkflowOrphaned") == []
        assert asked(world, "pods") <= 6
        before = len(world.ours())
        await asyncio.sleep(600)
        assert not [each for each in world.ours()[before:] if each.verb in {"list", "patch"} and each.namespace]


def a_thousand(world: World) -> None:
    """Have so many Workflows without an ID that a sweep takes its time."""
    world.namespace("team-a")
    for number in range(1_000):
        submit(world, "team-a", f"w-{number:04}", None)
    world.server.faults.slow(0.2, verb="patch", resource="workflows", times=10**6)


async def test_a_controller_that_comes_in_the_middle_keeps_what_is_left(world: World) -> None:
    """And what it began is not moved when it has gone again."""
    a_thousand(world)
    async with operator(world):
        await served(world, beside=False)
        await world.until(lambda: len(swept(world)) > 100, 60)
        install(world, config={})
        await asyncio.sleep(30)
        done = len(swept(world))
        assert 100 < done < 1_000
        await asyncio.sleep(120)
        assert len(swept(world)) == done
        left = [f"w-{number:04}" for number in range(1_000) if label(world, f"w-{number:04}") is None]
        belongs(world, "Pod", left[0])
        world.phase("team-a", left[1], "Running")
        world.server.delete("Deployment", "argo", "argo")
        await world.until(lambda: all(label(world, each) == "team-a" for each in left[2:]), 120)
        await world.until(lambda: counts(world, "team-a").get("orphaned") == 2, 90)
        assert [label(world, each) for each in left[:2]] == [None, None]


@pytest.mark.parametrize("code", [409, 500, 503])
async def test_a_write_that_fails_is_tried_again(world: World, server: FakeApiServer, code: int) -> None:
    """Whatever the answer was, nothing is lost, and nothing is written twice."""
    world.namespace("team-a")
    for number in range(30):
        submit(world, "team-a", f"w-{number:02}", None)
    server.faults.answer(code, verb="patch", resource="workflows", times=15)
    async with operator(world):
        await served(world, beside=False)
        await world.until(lambda: counts(world, "team-a").get("swept") == 30, 120)
        assert sorted(code for _, _, code in swept(world)) == [200] * 30 + [code] * 15


async def test_it_waits_for_as_long_as_the_api_server_says(world: World, server: FakeApiServer) -> None:
    """No more writes until then; other namespaces are looked after meanwhile."""
    world.namespace("team-a")
    for number in range(30):
        submit(world, "team-a", f"w-{number:02}", None)
    server.faults.answer(429, verb="patch", resource="workflows", retry_after=60, times=1)
    async with operator(world):
        await served(world, beside=False)
        await world.until(lambda: bool(swept(world)))
        await asyncio.sleep(5)
        tried = len(swept(world))
        await asyncio.sleep(45)
        assert len(swept(world)) == tried
        world.opt_in("team-b")
        await world.until(lambda: world.ready("team-b"), 10)
        await world.until(lambda: counts(world, "team-a").get("swept") == 30, 60)


async def test_an_object_that_is_refused_is_told_and_the_others_go_on(world: World, server: FakeApiServer) -> None:
    """Such as one that the label makes too large; it is tried again every ten minutes, or when it has changed."""
    world.namespace("team-a")
    for name in ("large", "small"):
        submit(world, "team-a", name, None)
    too_large = server.faults.answer(
        500, message="etcdserver: request is too large", verb="patch", resource="workflows", name="large", times=10**6
    )
    async with operator(world):
        await served(world, beside=False)
        await world.until(lambda: label(world, "small") == "team-a")
        await world.until(lambda: counts(world, "team-a").get("orphaned") == 1, 90)
        (event,) = world.events("WorkflowOrphaned")
        assert "the ID cannot be put on" in event["note"]
        assert "larger than the API server can store" in event["note"]
        await asyncio.sleep(3600)
        assert too_large.hits <= 8
        too_large.release()
        server.patch("Workflow", "team-a", "large", {"spec": {"smaller": True}})
        submit(world, "team-a", "another", None)
        await world.until(lambda: label(world, "large") == "team-a", 30)


async def test_an_operator_without_the_rights_says_so(world: World, server: FakeApiServer) -> None:
    """An old ClusterRole: nothing is moved unseen, and the condition has the missing rule."""
    submit_to(world, "team-a", "w")
    may_not = server.faults.answer(
        403,
        message='persistentvolumeclaims is forbidden: User "operator" cannot list resource "persistentvolumeclaims"',
        verb="list",
        resource="persistentvolumeclaims",
        times=10**6,
    )
    async with operator(world):
        await served(world, beside=False)
        await world.until(lambda: world.condition("team-a", "OrphanedWorkflows") == ("True", "OperatorForbidden"))
        assert "cannot list resource" in world.message("team-a", "OrphanedWorkflows")
        assert label(world, "w") is None
        before = may_not.hits
        for number in range(60):
            world.workflow("team-a", f"busy-{number}", **{names.PHASE_LABEL: "Running"})
            await asyncio.sleep(10)
        assert may_not.hits - before < 20, "sixty times something happened beside it"
        may_not.release()
        await world.until(lambda: label(world, "w") == "team-a", 400)
        world.phase("team-a", "w", "Running")
        await world.until(lambda: world.condition("team-a", "OrphanedWorkflows") == ("", ""), 60)


async def test_a_namespace_that_holds_still_is_not_swept(world: World) -> None:
    """`spec.paused`: what nobody serves is told like any orphan."""
    async with operator(world):
        await served(world, beside=False)
        world.spec("team-a", paused=True)
        await world.until(lambda: world.condition("team-a") == ("True", "Paused"))
        submit(world, "team-a", "w", None)
        await world.until(lambda: counts(world, "team-a").get("orphaned") == 1, 90)
        assert label(world, "w") is None
        world.spec("team-a", paused=False)
        await world.until(lambda: label(world, "w") == "team-a", 30)


async def test_an_opt_out_ends_it(world: World) -> None:
    """What comes without an ID while a namespace drains is nobody's business but to tell."""
    async with operator(world):
        await served(world, beside=False)
        world.workflow("team-a", "running")
        world.opt_out("team-a")
        await world.until(lambda: world.condition("team-a", "Reconciling") == ("True", "Draining"))
        submit(world, "team-a", "w", None)
        await asyncio.sleep(120)
        assert label(world, "w") is None


async def test_a_workflow_that_is_being_deleted_gets_its_id_as_well(world: World, server: FakeApiServer) -> None:
    """Only its controller takes its finalizer off."""
    submit_to(world, "team-a", "w", finalizers=["workflows.argoproj.io/artifact-gc"])
    server.delete("Workflow", "team-a", "w")
    async with operator(world):
        await served(world, beside=False)
        await world.until(lambda: label(world, "w") == "team-a")


def submit_to(world: World, namespace: str, name: str, **metadata: Any) -> None:
    """Submit a Workflow, without an ID, to a namespace that may have to be made."""
    if world.server.get("Namespace", None, namespace) is None:
        world.namespace(namespace)
    meta = {"name": name, "namespace": namespace, **metadata}
    world.server.create({"apiVersion": ARGO, "kind": "Workflow", "metadata": meta, "spec": {}})


def task_sets(world: World) -> None:
    """Have the kind that Argo keeps HTTP and plugin steps in."""
    names_ = {"kind": "WorkflowTaskSet", "plural": "workflowtasksets", "singular": "workflowtaskset"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
    world.server.define(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "workflowtasksets.argoproj.io"},
            "spec": {"group": "argoproj.io", "scope": "Namespaced", "names": names_, "versions": [version]},
        }
    )
