"""The deletion brake: how many may go, whose word lets more go, and laws over every sequence of removals."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaoperator.core import brake, names
from metaoperator.core.brake import Census, Member
from metaoperator.core.model import DEPLOYMENT, Manifest, Ref
from tests.unit.builders import UID


def some(*numbers: int) -> frozenset[Member]:
    """Build namespaces by their numbers."""
    return frozenset(Member(namespace=f"team-{each:03}", uid=f"uid-{each}") for each in numbers)


FLEET = some(*range(100))


@pytest.mark.parametrize(
    ("said", "total", "wanted"),
    [
        (None, 1, 5),
        (None, 50, 5),
        (None, 59, 5),
        (None, 60, 6),
        (None, 1000, 100),
        ("10%", 1000, 100),
        ("3%", 1000, 30),
        ("0%", 1000, 5),
        ("100%", 1000, 1000),
        (0, 1000, 5),
        (3, 1000, 5),
        (40, 1000, 40),
        (40, 10, 40),
        ("40", 1000, 100),
        ("", 1000, 100),
        ("-5%", 1000, 100),
        (True, 1000, 100),
    ],
)
def test_the_limit_is_what_the_template_says_and_never_less_than_five(said: Any, total: int, wanted: int) -> None:
    """A number or a share, rounded down; what cannot be read is the default of a tenth."""
    assert brake.limit({} if said is None else {"deletionLimit": said}, total) == wanted


@pytest.mark.parametrize(
    ("leaving", "recent", "confirmed", "held"),
    [
        (0, 0, 0, False),
        (10, 0, 0, False),
        (11, 0, 0, True),
        (1, 10, 0, True),
        (5, 5, 0, False),
        (5, 6, 0, True),
        (100, 0, 0, True),
        (100, 0, 100, False),
        (100, 0, 90, False),
        (100, 0, 89, True),
        (0, 50, 0, False),
    ],
)
def test_more_than_a_tenth_at_once_or_within_an_hour_is_held(
    leaving: int, recent: int, confirmed: int, *, held: bool
) -> None:
    """Of a hundred; who is confirmed does not count, and what was removed within the hour does."""
    goes = some(*range(leaving))
    gone = some(*range(100 - recent, 100))
    census = Census(there=FLEET - gone, leaving=goes, recent=gone, confirmed=some(*range(confirmed)))
    found = brake.decide(census, {}, ())
    assert found.held == (goes - census.confirmed if held else frozenset())
    assert (found.total, found.limit) == (100, 10)
    assert bool(found.word) is held


def test_a_word_is_for_exactly_those_that_it_was_made_for() -> None:
    """Another name, another UID, one more or one less is another set; the order is not."""
    words = [
        brake.word(each)
        for each in (some(1, 2), some(1, 2, 3), some(1), some(1, 3), [Member(namespace="team-001", uid="uid-9")])
    ]
    assert len(set(words)) == len(words)
    assert brake.word(sorted(some(1, 2), reverse=True)) == words[0]


def test_who_joins_a_confirmed_set_is_counted_anew_and_the_set_goes_on() -> None:
    """Twenty are confirmed. Ten that join may go; the eleventh holds those that joined, and a new word lets them go."""
    twenty = some(*range(20))
    first = brake.decide(Census(there=FLEET, leaving=twenty), {}, ())
    assert first.held == twenty
    agreed = brake.decide(Census(there=FLEET, leaving=twenty), {}, {"", first.word})
    assert (agreed.held, agreed.confirmed) == (frozenset(), twenty)
    grown = Census(there=FLEET, leaving=twenty | some(*range(20, 31)), confirmed=twenty)
    more = brake.decide(grown, {}, {first.word})
    assert (more.held, more.confirmed) == (some(*range(20, 31)), twenty)
    assert brake.decide(grown, {}, {more.word}).confirmed == grown.leaving


def test_a_word_that_was_said_before_the_set_grew_lets_nobody_go() -> None:
    """It is for twenty; there are twenty-one."""
    before = brake.word(some(*range(20)))
    census = Census(there=FLEET, leaving=some(*range(21)))
    assert brake.decide(census, {}, {before}).held == census.leaving


@given(st.data())
def test_without_a_word_no_more_than_the_limit_ever_goes_within_an_hour(data: st.DataObject) -> None:
    """Whatever leaves in whatever order, at once or one by one, and whatever comes back meanwhile."""
    size = data.draw(st.integers(1, 120))
    there = set(some(*range(size)))
    spec = {"deletionLimit": data.draw(st.sampled_from(["0%", "10%", "50%", 7]))}
    leaving: set[Member] = set()
    gone: set[Member] = set()
    for _ in range(data.draw(st.integers(1, 12))):
        joins = data.draw(st.lists(st.sampled_from(sorted(there)), max_size=40)) if there else []
        leaving |= set(joins)
        back = data.draw(st.lists(st.sampled_from(sorted(leaving)), max_size=5)) if leaving else []
        leaving -= set(back)
        census = Census(there=frozenset(there), leaving=frozenset(leaving), recent=frozenset(gone))
        found = brake.decide(census, spec, {"", "an-older-word"})
        assert found.held in (frozenset(), census.leaving)
        assert found.total == size
        free = sorted(leaving - found.held)
        for each in free[: data.draw(st.integers(0, len(free)))]:
            leaving.discard(each)
            there.discard(each)
            gone.add(each)
        assert len(gone) <= brake.limit(spec, size)


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.booleans())
def test_whoever_is_confirmed_stays_so_until_gone(leaving: set[int], agreed: set[int], right: bool) -> None:  # noqa: FBT001
    """No joiner and no word takes it back, and nobody else is confirmed but by the word of all that are held."""
    census = Census(there=some(*range(61)), leaving=some(*leaving), confirmed=some(*agreed))
    said = {brake.word(some(*(leaving - agreed)) if right else some(*leaving, 99))}
    found = brake.decide(census, {}, said)
    assert found.confirmed >= census.confirmed & census.leaving
    assert found.confirmed <= census.leaving
    assert not found.held & found.confirmed
    if not right:
        assert found.confirmed == census.confirmed & census.leaving


def _deployment(name: str, uid: str) -> Manifest:
    meta = {
        "name": name,
        "namespace": "team-a",
        "labels": {names.MANAGED_BY_LABEL: names.MANAGED_BY},
        "annotations": {names.NAMESPACE_UID_ANNOTATION: uid},
        "managedFields": [{"manager": names.FIELD_MANAGER}],
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta}


@pytest.mark.parametrize(
    ("there", "uid", "rendered", "wanted"),
    [
        ("workflow-controller", UID, [], True),
        ("workflow-controller", UID, ["workflow-controller"], False),
        ("workflow-controller", UID, ["argo-server"], True),
        ("argo-server", UID, [], False),
        ("workflow-controller", "of-another", [], False),
        ("", UID, [], False),
    ],
)
def test_a_child_is_removed_that_is_ours_and_no_longer_rendered(
    there: str, uid: str, rendered: list[str], *, wanted: bool
) -> None:
    """A companion is no child, and what is not ours is not ours to remove."""
    observed = {Ref(DEPLOYMENT, "team-a", there): _deployment(there, uid)} if there else {}
    desired = [_deployment(each, UID) for each in rendered]
    assert brake.removed(desired, observed, namespace_uid=UID) is wanted


def test_the_command_in_the_message_names_the_template_and_the_word() -> None:
    """It can be copied, and the message says how many, of how many, and who."""
    found = brake.decide(Census(there=FLEET, leaving=some(*range(12))), {}, ())
    told = brake.for_template(found, "gold")
    assert f"kubectl annotate controllertemplate gold metaoperator.dev/confirm-removal={found.word} --overwrite" in told
    assert "12 of 100" in told
    assert "allows 10" in told
    assert "team-009 and 2 more" in told
    assert "kubectl describe controllertemplate gold" in brake.for_namespace(found, "gold")
    assert "create ControllerTemplate gold again" in brake.for_namespace(found, "gold", there=False)
