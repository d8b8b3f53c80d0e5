"""A rollout's decisions, one at a time: who may go, why the others wait, what is written down."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from metaoperator.core import standing
from metaoperator.core.names import Reason
from metaoperator.core.policy import Approval, OnFailure, Policy, Workflows
from metaoperator.core.revision import Head
from metaoperator.core.rollout import Phase
from metaoperator.core.standing import Member
from metaoperator.core.status import Note
from metaoperator.core.stops import Check
from metaoperator.core.waves import Share
from metaoperator.core.windows import Window
from tests.unit.fleets import (
    CANARY,
    FIX,
    LONG_AGO,
    NEW,
    NOW,
    OLD,
    SETS,
    ago,
    child,
    decide,
    failing,
    head,
    member,
    moved,
    proved,
    reasons,
    set_head,
    tier,
    wave,
)

ONE = Policy(max_unavailable=Share(amount=1))
CANARIES = Policy(max_unavailable=Share(amount=1), waves=CANARY)
TWO = Policy(max_unavailable=Share(amount=2), waves=CANARY)
ILL = {"before": "PodFailing"}
FAILED = [replace(SETS[1], failed=ago(50), why="team-c crashes"), SETS[0]]
NIGHT = Window(cron="0 22 * * *", duration=timedelta(hours=2))


def canary(build: Any, name: str = "c", *args: Any, **more: Any) -> Member:
    """Build a member of the canary."""
    return build(name, *args, **tier("canary"), **more)  # type: ignore[no-any-return]


def row(
    members: Sequence[Member],
    policy: Policy,
    phase: Phase,
    admitted: str = "",
    waits: Mapping[str, Reason] | None = None,
    **more: Any,
) -> Any:
    """Write one case of the table."""
    return members, policy, phase, admitted, waits or {}, more


CASES = {
    "the first wave goes first": row(
        [member("a"), canary(member)], CANARIES, Phase.PROGRESSING, "c", {"a": Reason.WAITS_FOR_WAVE}
    ),
    "in a wave, as many as the budget lets": row(
        [member("a"), member("b"), member("d")],
        replace(ONE, max_unavailable=Share(amount=2)),
        Phase.PROGRESSING,
        "a b",
        {"d": Reason.WAITS_FOR_BUDGET},
    ),
    "who is claimed already keeps its place": row(
        [member("a"), member("b", claimed=True)], ONE, Phase.PROGRESSING, "b", {"a": Reason.WAITS_FOR_BUDGET}
    ),
    "who was moved and is not Ready takes from the budget": row(
        [moved("a", child=child(ready=False, since=ago(9))), member("b")],
        ONE,
        Phase.PROGRESSING,
        "",
        {"b": Reason.WAITS_FOR_BUDGET},
    ),
    "who was moved and is not applied yet takes from it": row(
        [moved("a", claimed=True), member("b")], ONE, Phase.PROGRESSING, "", {"b": Reason.WAITS_FOR_BUDGET}
    ),
    "who soaks takes nothing from it": row([moved("a"), member("b")], ONE, Phase.PROGRESSING, "b"),
    "who soaks keeps its wave open": row(
        [canary(moved), member("a")], CANARIES, Phase.PROGRESSING, "", {"a": Reason.WAITS_FOR_WAVE}
    ),
    "a proven canary opens the next": row([canary(proved), member("a")], CANARIES, Phase.PROGRESSING, "a"),
    "what was healthy for long enough is proven when that is written down, not before": row(
        [canary(moved, "c", 60), member("a")],
        CANARIES,
        Phase.PROGRESSING,
        "",
        {"a": Reason.WAITS_FOR_WAVE},
        proven=("c",),
    ),
    "same bytes need no move and prove nothing": row(
        [canary(member, "c", wanted=f"r-{OLD}"), member("a")], CANARIES, Phase.PROGRESSING, "a"
    ),
    "a wave that selects nobody stops it": row([member("a")], CANARIES, Phase.WAITING, "", {"a": Reason.WAVE_EMPTY}),
    "unless somebody passes it by": row(
        [member("a")], replace(CANARIES, approvals=(Approval(revision=NEW, wave="canary"),)), Phase.PROGRESSING, "a"
    ),
    "or it was passed before its last member left": row([proved("a"), member("b")], CANARIES, Phase.PROGRESSING, "b"),
    "a wave may need a person": row(
        [canary(member), member("a")],
        replace(ONE, waves=(wave("canary", approval=True),)),
        Phase.WAITING,
        "",
        {"a": Reason.WAITS_FOR_WAVE, "c": Reason.WAITS_FOR_APPROVAL},
    ),
    "whose approval is of one revision": row(
        [canary(member), member("a")],
        replace(
            ONE,
            waves=(wave("canary", approval=True),),
            approvals=(Approval(revision=NEW, wave="canary"), Approval(revision=FIX, wave="rest")),
        ),
        Phase.PROGRESSING,
        "c",
        {"a": Reason.WAITS_FOR_WAVE},
    ),
    "paused stops everybody, and says so": row(
        [canary(member), member("a")],
        replace(CANARIES, paused=True),
        Phase.PAUSED,
        "",
        {"a": Reason.ROLLOUT_PAUSED, "c": Reason.ROLLOUT_PAUSED},
    ),
    "and still proves": row(
        [canary(moved, "c", 99), member("a")],
        replace(CANARIES, paused=True),
        Phase.PAUSED,
        "",
        {"a": Reason.ROLLOUT_PAUSED},
        proven=("c",),
    ),
    "a closed window keeps back who has his turn": row(
        [canary(member), member("a")],
        replace(CANARIES, windows=(NIGHT,)),
        Phase.WAITING,
        "",
        {"a": Reason.WAITS_FOR_WAVE, "c": Reason.WAITS_FOR_WINDOW},
    ),
    "a window that closes in the middle keeps nobody from proving himself": row(
        [moved("a", 99), member("b")],
        replace(ONE, windows=(NIGHT,)),
        Phase.WAITING,
        "",
        {"b": Reason.WAITS_FOR_WINDOW},
        proven=("a",),
    ),
    "a check comes first": row(
        [canary(member), member("a")],
        CANARIES,
        Phase.CHECKING,
        "",
        {"a": Reason.WAITS_FOR_WAVE, "c": Reason.ROLLOUT_CHECKING},
        checked=Check(done=False),
    ),
    "what fails its check starts nowhere": row(
        [canary(member), member("a")],
        CANARIES,
        Phase.FAILED,
        "",
        {"a": Reason.CHECK_FAILED, "c": Reason.CHECK_FAILED},
        checked=Check(fault=Note(reason=Reason.VALUES_INVALID, message="team-a: no")),
    ),
    "a child that fails holds the others": row(
        [moved("a", child=failing(ago(5)), failing_seconds=5), member("b")],
        replace(ONE, max_unavailable=Share(amount=5)),
        Phase.HOLDING,
        "",
        {"b": Reason.ROLLOUT_HOLDING},
    ),
    "one that fails for long fails the rollout": row(
        [moved("a", child=failing(ago(25)), failing_seconds=20), member("b")],
        ONE,
        Phase.FAILED,
        "",
        {"b": Reason.ROLLOUT_FAILED},
        failing=("a",),
        failed=True,
    ),
    "so does one that is late": row(
        [moved("a", 600, child=child(ready=False, since=ago(600))), member("b")],
        ONE,
        Phase.FAILED,
        "",
        {"b": Reason.ROLLOUT_FAILED},
        failing=("a",),
        failed=True,
    ),
    "and one that never stays well": row(
        [moved("a", 660, child=child(since=ago(10))), member("b")],
        ONE,
        Phase.FAILED,
        "",
        {"b": Reason.ROLLOUT_FAILED},
        failing=("a",),
        failed=True,
    ),
    "not one that became well in time": row(
        [moved("a", 640, child=child(since=ago(59))), member("b")], ONE, Phase.PROGRESSING, "b"
    ),
    "as many failures as the policy allows are accepted, and go on taking nothing": row(
        [moved("a", child=failing(ago(25)), failing_seconds=20), member("b")],
        replace(ONE, failure_threshold=Share(amount=1)),
        Phase.PROGRESSING,
        "b",
    ),
    "what failed stays so, whatever health says now": row(
        [moved("a"), member("b")], ONE, Phase.FAILED, "", {"b": Reason.ROLLOUT_FAILED}, sets=FAILED
    ),
    "until a person resumes": row(
        [moved("a"), member("b")], replace(ONE, resumed_at=ago(40)), Phase.PROGRESSING, "b", sets=FAILED
    ),
    "who failed before that is not waited for, and proves nothing": row(
        [canary(moved, "c", 100, child=failing(ago(70)), failing_seconds=70), member("a")],
        replace(CANARIES, resumed_at=ago(40)),
        Phase.PROGRESSING,
        "",
        {"a": Reason.WAITS_FOR_WAVE},
        sets=FAILED,
    ),
    "so that a person has to let the others follow": row(
        [canary(moved, "c", 1000, child=failing(ago(970)), failing_seconds=970), member("a")],
        replace(CANARIES, resumed_at=ago(700)),
        Phase.WAITING,
        "",
        {"a": Reason.WAITS_FOR_APPROVAL},
        sets=[replace(SETS[1], failed=ago(900)), SETS[0]],
    ),
    "who was ill before fails nothing": row(
        [canary(moved, "c", 100, **ILL, child=failing(), failing_seconds=9999), canary(proved, "d"), member("a")],
        CANARIES,
        Phase.PROGRESSING,
        "",
        {"a": Reason.WAITS_FOR_WAVE},
    ),
    "and is not waited for longer than the deadline": row(
        [canary(moved, "c", 600, **ILL, child=failing(), failing_seconds=9999), canary(proved, "d"), member("a")],
        CANARIES,
        Phase.PROGRESSING,
        "a",
    ),
    "a wave in which all were ill before proves nothing": row(
        [canary(moved, "c", 600, **ILL, child=failing(), failing_seconds=9999), member("a")],
        CANARIES,
        Phase.WAITING,
        "",
        {"a": Reason.WAITS_FOR_APPROVAL},
    ),
    "nor does one whose members are told apart": row(
        [canary(member, apart="paused"), member("a")],
        CANARIES,
        Phase.WAITING,
        "",
        {"a": Reason.WAITS_FOR_APPROVAL},
    ),
    "which a person may accept": row(
        [canary(member, apart="paused"), member("a")],
        replace(CANARIES, approvals=(Approval(revision=NEW, wave="rest"),)),
        Phase.PROGRESSING,
        "a",
    ),
    "who is told apart holds up nobody": row(
        [canary(member, apart="paused"), canary(proved, "d"), member("a")], CANARIES, Phase.PROGRESSING, "a"
    ),
    "the ill have a budget of their own": row(
        [
            member("a", child=failing()),
            member("b", child=failing()),
            member("d"),
            member("e"),
        ],
        ONE,
        Phase.PROGRESSING,
        "a d",
        {"b": Reason.WAITS_FOR_BUDGET, "e": Reason.WAITS_FOR_BUDGET},
    ),
    "a namespace that came by itself is complete, and proves nothing yet": row(
        [canary(moved, before="Own"), member("a")], CANARIES, Phase.PROGRESSING, "", {"a": Reason.WAITS_FOR_WAVE}
    ),
    "a proven one that fails holds the others": row(
        [proved("a", child=failing(ago(9))), member("b")],
        replace(ONE, max_unavailable=Share(amount=5)),
        Phase.HOLDING,
        "",
        {"b": Reason.ROLLOUT_HOLDING},
    ),
    "and after the deadline stops the rollout, which has not failed": row(
        [proved("a", child=failing(ago(600))), member("b")],
        ONE,
        Phase.PAUSED,
        "",
        {"b": Reason.PROVEN_FAILING},
        failing=("a",),
    ),
    "until a person does not mind": row(
        [proved("a", child=failing(ago(600))), member("b")],
        replace(ONE, resumed_at=ago(1)),
        Phase.PROGRESSING,
        "b",
    ),
    "one that was moved long before says nothing": row(
        [member("a", wanted=f"r-{OLD}", child=failing()), member("b")], ONE, Phase.PROGRESSING, "b"
    ),
    "a new namespace of a wave that is open gets the target, at no cost": row(
        [canary(moved, "d", child=child(ready=False, since=ago(9))), canary(member, "c", head=None)],
        CANARIES,
        Phase.PROGRESSING,
        "c",
    ),
    "of another, the last stable one": row(
        [canary(moved, "d"), member("a", head=None)],
        CANARIES,
        Phase.PROGRESSING,
        "",
        {"a": Reason.WAITS_FOR_WAVE},
    ),
    "or the target, where there is no other": row(
        [canary(moved, "d"), member("a", head=None)], CANARIES, Phase.PROGRESSING, "a", sets=SETS[1:]
    ),
    "with nothing to move, all is done": row(
        [member("a", NEW)], CANARIES, Phase.DONE, sets=[replace(SETS[1], stable=ago(5))]
    ),
    "the last one that proves himself makes the set stable": row(
        [canary(proved), proved("a")], CANARIES, Phase.DONE, stable=True
    ),
    "nobody has proved himself: not stable": row([moved("a")], ONE, Phase.PROGRESSING),
    "a straggler of a stable set is no experiment, but keeps to windows and budget": row(
        [member("a"), member("b"), member("d", NEW, since=ago(999))],
        CANARIES,
        Phase.PROGRESSING,
        "a",
        {"b": Reason.WAITS_FOR_BUDGET},
        sets=[replace(SETS[1], stable=ago(500)), SETS[0]],
    ),
    "nor does it fail the set when it fails": row(
        [moved("a", child=failing(ago(25)), failing_seconds=20), member("b")],
        ONE,
        Phase.FAILED,
        "",
        {"b": Reason.ROLLOUT_FAILED},
        sets=[replace(SETS[1], stable=ago(500)), SETS[0]],
        failing=("a",),
    ),
    "no source, no pin: everything stays": row(
        [member("a"), moved("b", 99)], ONE, Phase.IDLE, source=None, proven=("b",)
    ),
    "a pin to what is not there moves nobody": row(
        [member("a")], replace(ONE, revision="0123456789"), Phase.IDLE, source=NEW
    ),
    "Workflows are waited for, and others go meanwhile": row(
        [member("a", work=2), member("b", work=None), member("d")],
        replace(ONE, workflows=Workflows.WAIT),
        Phase.PROGRESSING,
        "d",
        {"a": Reason.WAITS_FOR_WORKFLOWS, "b": Reason.WAITS_FOR_WORKFLOWS},
    ),
    "for a time": row(
        [member("a", work=2), member("b")],
        replace(ONE, workflows=Workflows.WAIT, workflows_timeout_seconds=1000),
        Phase.PROGRESSING,
        "a",
        {"b": Reason.WAITS_FOR_BUDGET},
    ),
    "that begins when the wave does": row(
        [canary(proved), member("a", work=2)],
        replace(CANARIES, workflows=Workflows.WAIT, workflows_timeout_seconds=900),
        Phase.PROGRESSING,
        "",
        {"a": Reason.WAITS_FOR_WORKFLOWS},
    ),
    "a wave may have a budget and a soak of its own": row(
        [canary(moved, "c", 40), canary(moved, "d", 40), canary(member, "e"), canary(member, "f"), member("a")],
        replace(ONE, waves=(wave("canary", max_unavailable=Share(amount=50, percent=True), soak_seconds=30),)),
        Phase.PROGRESSING,
        "e f",
        {"a": Reason.WAITS_FOR_WAVE},
        proven=("c", "d"),
    ),
    "who changes its labels is claimed anew": row(
        [canary(proved), canary(member, "late"), member("a")],
        CANARIES,
        Phase.PROGRESSING,
        "late",
        {"a": Reason.WAITS_FOR_WAVE},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_who_may_go_and_why_the_others_wait(case: Any) -> None:
    """One look at a fleet; the order of its members changes nothing."""
    members, policy, phase, admitted, waits, rest = case
    more = dict(rest)
    wanted = {"proven": (), "failing": (), "failed": False, "stable": False}
    wanted |= {key: more.pop(key) for key in list(more) if key in wanted}
    found = decide(members, policy, **more)
    assert (found.phase, " ".join(found.admitted), reasons(found)) == (
        phase,
        admitted,
        {name: str(reason) for name, reason in waits.items()},
    )
    assert {
        "proven": found.proven,
        "failing": found.failing,
        "failed": found.failed is not None,
        "stable": found.stable,
    } == wanted
    shuffled = random.Random(1).sample(list(members), len(members))
    assert decide(shuffled, policy, **more) == found


ROLLBACK = Policy(max_unavailable=Share(amount=1), waves=CANARY, on_failure=OnFailure.ROLLBACK)


def back(name: str, **more: Any) -> Member:
    """Build one that was moved to what failed."""
    return moved(name, 200, **{"wanted": f"r-{OLD}"} | more)


def returned(name: str, **more: Any) -> Member:
    """Build one that was moved back after the failure."""
    return member(name, OLD, **{"wanted": f"r-{OLD}", "since": ago(30), "proven": None} | more)


BACK = {
    "the ill at once, the healthy within the budget": row(
        [back("a"), back("b"), back("c", child=failing(ago(90))), back("d", child=failing(ago(90)))],
        ROLLBACK,
        Phase.ROLLING_BACK,
        "a c d",
        {"b": Reason.WAITS_FOR_BUDGET},
    ),
    "windows and approvals guard what is new": row(
        [back("a", **tier("canary"))],
        replace(ROLLBACK, windows=(NIGHT,), waves=(wave("canary", approval=True),)),
        Phase.ROLLING_BACK,
        "a",
    ),
    "a person who pauses stops it": row(
        [back("a"), back("b", child=failing(ago(90)))],
        replace(ROLLBACK, paused=True),
        Phase.PAUSED,
        "",
        {"a": Reason.ROLLOUT_PAUSED, "b": Reason.ROLLOUT_PAUSED},
    ),
    "who fails there too keeps the healthy where they work, and nothing is blamed": row(
        [back("a"), back("b", child=failing(ago(90))), returned("c", child=failing(ago(29)), failing_seconds=29)],
        ROLLBACK,
        Phase.FAILED,
        "b",
        {"a": Reason.ROLLOUT_FAILED},
        failing=("c",),
    ),
    "who never left and is ill says nothing": row(
        [back("a"), member("b", wanted=f"r-{OLD}", child=failing())], ROLLBACK, Phase.ROLLING_BACK, "a"
    ),
    "when all are back it stays there": row([returned("a")], ROLLBACK, Phase.ROLLED_BACK),
    "a new namespace gets what the others go back to": row(
        [back("a", child=child(ready=False, since=ago(9))), member("b", head=None, wanted=f"r-{OLD}")],
        ROLLBACK,
        Phase.ROLLING_BACK,
        "b a",
    ),
}


@pytest.mark.parametrize("case", BACK.values(), ids=BACK.keys())
def test_a_rollback_needs_no_care_but_the_budget(case: Any) -> None:
    """It goes to the last stable revision, once."""
    members, policy, phase, admitted, waits, more = case
    found = decide(members, policy, sets=FAILED)
    assert (found.phase, " ".join(found.admitted), reasons(found)) == (
        phase,
        admitted,
        {name: str(reason) for name, reason in waits.items()},
    )
    assert found.failing == more.get("failing", ())
    assert found.failed is None
    assert not found.stable


def test_a_source_that_goes_back_takes_along_who_had_left() -> None:
    """The last stable revision is no experiment: no waves, no windows."""
    policy = replace(CANARIES, windows=(NIGHT,))
    fleet = [back("a"), canary(back, child=failing(ago(9))), member("b", wanted=f"r-{OLD}")]
    found = decide(fleet, policy, source=OLD)
    assert (found.phase, found.admitted) == (Phase.ROLLING_BACK, ("c", "a"))


def test_a_pin_to_what_was_stable_once_is_a_rollback_by_hand() -> None:
    """After the whole fleet had the new one, `undo` goes back without waves."""
    sets = [replace(SETS[1], stable=ago(500)), SETS[0]]
    fleet = [
        member("a", NEW, since=ago(900), wanted=f"r-{OLD}"),
        canary(member, at=NEW, since=ago(900), wanted=f"r-{OLD}"),
    ]
    found = decide(fleet, replace(CANARIES, revision=OLD, windows=(NIGHT,)), sets=sets)
    assert (found.phase, found.admitted) == (Phase.ROLLING_BACK, ("c",))
    assert reasons(found) == {"a": "WaitsForBudget"}


def test_another_revision_in_the_middle_starts_with_the_canary_again() -> None:
    """Who was on the way to the one before goes on from there, in the order of the waves."""
    sets = [set_head(FIX, 3, since=ago(5)), *SETS]
    fleet = [
        canary(moved, wanted=f"r-{FIX}", child=failing(ago(20)), failing_seconds=15),
        moved("a", wanted=f"r-{FIX}"),
        member("b", wanted=f"r-{FIX}"),
    ]
    found = decide(fleet, CANARIES, sets=sets, source=FIX)
    assert found.admitted == ("c",)
    assert reasons(found) == {"a": "WaitsForWave", "b": "WaitsForWave"}
    assert found.failed is None


def test_who_still_starts_at_the_revision_before_takes_from_the_budget_until_it_fails_or_is_late() -> None:
    """It is down because of a rollout; what mends a broken one is not kept waiting by it."""
    sets = [set_head(FIX, 3, since=ago(5)), *SETS]
    policy = Policy(max_unavailable=Share(amount=1), progress_deadline_seconds=600)

    def admitted(seconds: float, victim: Any) -> tuple[str, ...]:
        fleet = [member("a", wanted=f"r-{FIX}"), moved("b", seconds, wanted=f"r-{FIX}", child=victim)]
        return decide(fleet, policy, sets=sets, source=FIX).admitted

    assert admitted(9, child(ready=False, since=ago(9))) == ("b",)
    assert admitted(700, child(ready=False, since=ago(700)))[0] == "a"
    assert admitted(20, failing(ago(20)))[0] == "a"


@pytest.mark.parametrize(
    ("record", "ready", "wanted"),
    [
        (None, False, "New"),
        (head(OLD, proven=LONG_AGO), True, "Ready"),
        (head(OLD, proven=LONG_AGO), False, "PodFailing"),
        (head(OLD), False, "Ready"),
        (head(OLD, before="New"), False, "New"),
        (head(OLD, before="QuotaExceeded"), False, "QuotaExceeded"),
        (head(OLD, before="QuotaExceeded"), True, "Ready"),
    ],
)
def test_the_fix_of_a_bad_revision_does_not_find_its_victims_ill_before(
    record: Head | None,
    ready: bool,  # noqa: FBT001
    wanted: str,
) -> None:
    """Who is ill where it was never proven takes over what was recorded of it."""
    assert standing.before(record, child() if ready else failing()) == wanted


# Clocks


def test_a_stamp_from_the_future_counts_from_when_we_began() -> None:
    """A clock that was a year ahead delays nothing for a year, and one that is a bit ahead skips nothing."""
    ahead = NOW + timedelta(days=365)
    fleet = [moved("a", since=ahead, child=child(since=ahead))]
    assert decide(fleet, ONE, began=ago(59)).proven == ()
    assert decide(fleet, ONE, began=ago(59)).again == 1
    assert decide(fleet, ONE, began=ago(60)).proven == ("a",)


def test_who_takes_over_has_to_watch_for_himself() -> None:
    """A record may have been written and not applied: neither soaking nor lateness counts from before that."""
    soaked = [moved("a", 999)]
    assert decide(soaked, ONE, began=ago(10)).proven == ()
    late = [moved("a", 999, child=child(ready=False, since=ago(999)))]
    assert decide(late, ONE, began=ago(10)).failing == ()
    assert decide(late, ONE, began=ago(600)).failing == ("a",)


def test_a_resumption_that_is_yet_to_come_forgives_nothing() -> None:
    """A typo in the year does not switch the gate off."""
    policy = replace(ONE, resumed_at=NOW + timedelta(days=365))
    assert decide([moved("a"), member("b")], policy, sets=FAILED).phase is Phase.FAILED


@pytest.mark.parametrize(
    ("members", "policy", "wanted"),
    [
        ([moved("a", 30), member("b")], ONE, 30),
        ([moved("a", 30, child=child(ready=False, since=ago(30)))], ONE, 570),
        ([moved("a", 30, child=failing(ago(10)), failing_seconds=10)], ONE, 10),
        ([moved("a", 30, **ILL, child=failing())], ONE, 570),
        ([proved("a", child=failing(ago(10)))], ONE, 590),
        ([member("a")], replace(ONE, windows=(NIGHT,)), 19 * 3600),
        ([member("a", work=1)], replace(ONE, workflows=Workflows.WAIT), 2600),
        ([member("a")], ONE, None),
    ],
)
def test_it_says_when_time_alone_changes_something(
    members: Sequence[Member], policy: Policy, wanted: float | None
) -> None:
    """Then it is looked at again, if nothing happens before."""
    assert decide(members, policy).again == wanted


def test_a_set_that_was_stable_after_it_failed_has_not_failed() -> None:
    """Taking `resumedAt` out again, as GitOps may, starts no rollback of a fleet that works."""
    sets = [replace(SETS[1], failed=ago(900), stable=ago(800)), SETS[0]]
    fleet = [member("a", NEW, since=ago(950))]
    assert decide(fleet, ROLLBACK, sets=sets).phase is Phase.DONE


def test_one_rollback_and_no_second() -> None:
    """What failed stays off while the source says it; a new source is tried, and the same again is not."""
    first = [replace(SETS[1], failed=ago(50), why="x"), SETS[0]]
    assert decide([member("a", wanted=f"r-{OLD}")], ROLLBACK, sets=first).phase is Phase.ROLLED_BACK
    third = [set_head(FIX, 3), *first]
    assert decide([member("a", wanted=f"r-{FIX}", **tier("canary"))], ROLLBACK, sets=third, source=FIX).admitted == (
        "a",
    )


def test_without_a_stable_revision_a_failure_pauses_and_is_told() -> None:
    """There is nowhere to go back to."""
    found = decide([moved("a", child=failing()), member("b", NEW)], ROLLBACK, sets=FAILED[:1])
    assert found.phase is Phase.FAILED
    assert "team-c crashes" in found.note.message


def test_what_a_waiting_namespace_is_told_does_not_change_with_the_others() -> None:
    """Or each step would rewrite a thousand statuses."""
    small = [canary(member), canary(member, "d"), *(member(f"n{at}") for at in range(20))]
    later = [canary(proved), canary(moved, "d", 9), *(member(f"n{at}") for at in range(20))]
    assert decide(small, CANARIES).waits["n7"] == decide(later, CANARIES).waits["n7"]
    one = [canary(moved, child=failing(ago(30)), failing_seconds=30), member("a")]
    assert decide(one, TWO).waits["a"] == decide(one, TWO, sets=FAILED).waits["a"]


def test_waves_tell_how_far_they_are() -> None:
    """Total, updated, ready, told apart; the rest is always among them."""
    fleet = [
        canary(proved),
        canary(moved, "d", child=failing(ago(1))),
        canary(member, "e", apart="paused"),
        member("a"),
    ]
    found = decide(fleet, CANARIES)
    assert [(each.name, each.total, each.updated, each.ready, each.apart) for each in found.waves] == [
        ("canary", 3, 2, 1, 1),
        ("rest", 1, 0, 0, 0),
    ]
    assert found.wave == "canary"
