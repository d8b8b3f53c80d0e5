"""What may be given to a child, what may not, and in which order: in tables, and as laws over generated clusters."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaoperator.core import names, serving, sweep
from metaoperator.core.model import CRON_WORKFLOW, DEPLOYMENT, WORKFLOW, Ref
from metaoperator.core.serving import Controller
from metaoperator.core.strays import Work
from metaoperator.core.sweep import Goal, Standing

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GOAL = Goal(namespace="team-a", instance_id="team-a")
PINNED = Goal(namespace="team-a", instance_id="mine")
NONE = Goal(namespace="team-a", instance_id="")
FLEET = names.FLEET_INSTANCE_ID


def child(goal: Goal) -> Controller:
    """Have the child of a goal."""
    ref = Ref(DEPLOYMENT, goal.namespace, names.WORKFLOW_CONTROLLER)
    return serving.child(ref, goal.instance_id, alive=True)


def other(instance: str, sees: str = "", *, alive: bool = True, sure: bool = True) -> Controller:
    """Have a controller that is not ours."""
    return Controller(ref=Ref(DEPLOYMENT, "argo", "wc"), instance_id=instance, sees=sees, alive=alive, sure=sure)


def work(name: str, label: str | None = None, *, started: bool = False, schedule: str = "", age: int = 0) -> Work:
    """Have an unfinished Workflow."""
    created = NOW - timedelta(seconds=age)
    return Work(name=name, uid=f"u-{name}", label=label, started=started, created=created, schedule=schedule)


def cron(name: str, label: str | None = None) -> Work:
    """Have a CronWorkflow."""
    return Work(name=name, uid=f"c-{name}", label=label, started=False, created=NOW, kind=CRON_WORKFLOW)


OPEN: dict[str, tuple[Goal, Sequence[Controller], set[str | None]]] = {
    "alone": (GOAL, (), {None, "", FLEET}),
    "pinned": (PINNED, (), {None, "", "team-a", FLEET}),
    "fleet": (Goal(namespace="team-a", instance_id=FLEET), (), {None, "", "team-a"}),
    "no ID": (NONE, (), {"", "team-a", FLEET}),
    "beside a cluster-wide one": (GOAL, (other(""),), {"", FLEET}),
    "beside one of this namespace": (GOAL, (other("", "team-a"),), {"", FLEET}),
    "beside one of another namespace": (GOAL, (other("", "team-b"),), {None, "", FLEET}),
    "beside a dead one": (GOAL, (other("", alive=False),), {None, "", FLEET}),
    "beside one with the constant": (PINNED, (other("team-a"),), {None, "", FLEET}),
    "beside one with an ID of its own": (GOAL, (other("x"),), {None, "", FLEET}),
    "beside one with the same ID": (GOAL, (other("team-a"),), set()),
    "beside one without, as ours": (NONE, (other(""),), set()),
    "beside one of which nothing is known": (PINNED, (other("", sure=False),), set()),
    "beside such a one elsewhere": (PINNED, (other("", "team-b", sure=False),), {None, "", "team-a", FLEET}),
}


@pytest.mark.parametrize("case", OPEN)
def test_only_what_nobody_serves_and_nobody_chose_is_taken(case: str) -> None:
    """No label, an empty one, and what admission gives to whole namespaces; nothing from who lives."""
    goal, others, expected = OPEN[case]
    assert sweep.open_labels(goal, (child(goal), *others)) == expected


LABELS = st.sampled_from([None, "", "team-a", "team-b", FLEET, "mine", "x"])
OTHERS = st.lists(
    st.builds(
        Controller,
        ref=st.builds(Ref, st.just(DEPLOYMENT), st.sampled_from(["argo", "team-a", "b"]), st.sampled_from(["wc", "x"])),
        instance_id=st.sampled_from(["", "team-a", "team-b", FLEET, "mine", "x"]),
        sees=st.sampled_from(["", "team-a", "team-b"]),
        alive=st.booleans(),
        sure=st.booleans(),
    ),
    max_size=4,
)
GOALS = st.sampled_from([GOAL, PINNED, NONE, Goal(namespace="team-a", instance_id=FLEET)])


@given(goal=GOALS, others=OTHERS, label=LABELS)
def test_nothing_is_ever_taken_from_a_living_controller_nor_given_to_two(
    goal: Goal, others: list[Controller], label: str | None
) -> None:
    """Whatever the cluster: who serves the label now is nobody, and who serves it then is the child alone."""
    there = (child(goal), *others)
    if label in sweep.open_labels(goal, there):
        assert serving.servers("team-a", label, there) == ()
        assert serving.servers("team-a", goal.label, there) == (child(goal),)
        assert label != goal.label
        assert label in {None, "", "team-a", FLEET}


WORK = st.lists(
    st.builds(
        work,
        st.sampled_from("abcdefgh"),
        LABELS,
        started=st.booleans(),
        schedule=st.sampled_from(["", "k", "l"]),
        age=st.integers(0, 5),
    ),
    max_size=8,
    unique_by=lambda each: each.name,
)
CRONS = st.lists(st.builds(cron, st.sampled_from("klm"), LABELS), max_size=3, unique_by=lambda each: each.name)


@given(there=WORK, crons=CRONS, open_=st.frozensets(LABELS), begun=st.frozensets(st.sampled_from("abcdefgh")))
def test_a_plan_moves_each_once_none_that_is_begun_and_schedules_after_their_workflows(
    there: list[Work], crons: list[Work], open_: frozenset[str | None], begun: frozenset[str]
) -> None:
    """All that carries an open label is either in the order or told as begun; nothing else is."""
    found = sweep.plan(GOAL, there, crons, open_=open_, begun=lambda each: each.name in begun)
    order = [each.uid for each in found.order]
    assert len(order) == len(set(order))
    everything = {each.uid for each in (*there, *crons) if each.label in open_}
    assert {*order, *(each.uid for each in found.begun)} == everything
    assert not {*order} & {each.uid for each in found.begun}
    assert all(not each.started and each.name not in begun for each in found.order if each.kind == WORKFLOW)
    assert all(each.started or each.name in begun for each in found.begun)
    assert all(each.schedule and each.label not in {*open_, GOAL.label} for each in found.others)
    for each in found.order:
        if each.kind == CRON_WORKFLOW:
            after = order[order.index(each.uid) :]
            assert not [one for one in found.order if one.schedule == each.name and one.uid in after]


def test_the_oldest_go_first() -> None:
    """But for those of schedules, which go with them, before all others."""
    there = [work("new"), work("old", age=9), work("fired", schedule="k", age=1)]
    found = sweep.plan(GOAL, there, [cron("k"), cron("j")], open_={None}, begun=lambda _: False)
    assert [each.name for each in found.order] == ["j", "fired", "k", "old", "new"]


ID = names.INSTANCE_ID_LABEL
METADATA: dict[str, Any] = {"labels": {ID: "team-b"}}
SCHEDULES: dict[str, tuple[dict[str, Any], Sequence[str], str]] = {
    "nothing against it": ({"concurrencyPolicy": "Forbid"}, (), ""),
    "one that runs is not the child's": ({"concurrencyPolicy": "Forbid"}, ("w-1",), "Workflow w-1 was begun"),
    "and another would replace it": ({"concurrencyPolicy": "Replace"}, ("w-1",), "concurrencyPolicy Replace"),
    "several are allowed": ({"concurrencyPolicy": "Allow"}, ("w-1",), ""),
    "which is the default": ({}, ("w-1",), ""),
    "an ID of its own": ({"workflowMetadata": METADATA}, (), "take that out of it"),
    "an ID in the Workflow": ({"workflowSpec": {"workflowMetadata": METADATA}}, (), "controller-instanceid: team-b"),
    "a computed ID": ({"workflowSpec": {"workflowMetadata": {"labelsFrom": {ID: {}}}}}, (), "take that out of it"),
    "null for an ID": ({"workflowMetadata": {"labels": {ID: None}}}, (), "take that out of it"),
    "no maps": ({"workflowMetadata": "text", "workflowSpec": ["text"]}, (), ""),
    "no maps in maps": ({"workflowMetadata": {"labels": [ID]}, "workflowSpec": {"workflowMetadata": 7}}, (), ""),
    "the child's ID": ({"workflowMetadata": {"labels": {ID: "team-a"}}}, (), ""),
    "other labels": ({"workflowMetadata": {"labels": {"a": "b"}}, "workflowSpec": {"workflowMetadata": None}}, (), ""),
}


@pytest.mark.parametrize("case", SCHEDULES)
def test_a_schedule_is_refused_with_words(case: str) -> None:
    """What runs beside it, or what it writes on its Workflows, may stand against it."""
    spec, unfinished, why = SCHEDULES[case]
    found = sweep.refusal({"spec": spec}, GOAL, unfinished)
    assert why in found
    assert bool(found) == bool(why)


def test_whose_an_object_is_stands_in_its_owners() -> None:
    """Names are cut and reused, UIDs are not."""
    owners = [{"kind": "Workflow", "uid": "u"}, {"kind": "CronWorkflow", "uid": "v"}]
    assert list(sweep.owners({"metadata": {"ownerReferences": owners}})) == ["u"]
    assert list(sweep.owners({"metadata": {}})) == []


def test_what_is_taken_is_not_started_not_kept_and_carries_an_open_label() -> None:
    """What is not taken is told as an orphan."""
    standing = Standing(open=frozenset({None}), kept={"u-kept": "why"})
    assert standing.takes(work("w"))
    assert standing.takes(cron("k"))
    for each in (work("w", started=True), work("kept"), work("w", "x")):
        assert not standing.takes(each)
