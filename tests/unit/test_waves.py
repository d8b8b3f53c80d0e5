"""Which wave claims a namespace."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaoperator.core import waves
from metaoperator.core.waves import Expression, Operator, Selector, Share, Wave
from tests.unit.fleets import member, tier, wave

KEY = "metaoperator.dev/tier"


def claimed(fleet: Sequence[object], found: Sequence[Wave]) -> dict[str, str]:
    """Tell the wave of each namespace."""
    return {each.namespace: row.name for row, those in waves.claim(fleet, found) for each in those}  # type: ignore[type-var,attr-defined]


@pytest.mark.parametrize(
    ("operator", "values", "labels", "matches"),
    [
        (Operator.IN, {"a", "b"}, {KEY: "a"}, True),
        (Operator.IN, {"a"}, {KEY: "c"}, False),
        (Operator.IN, {"a"}, {}, False),
        (Operator.NOT_IN, {"a"}, {KEY: "b"}, True),
        (Operator.NOT_IN, {"a"}, {KEY: "a"}, False),
        (Operator.NOT_IN, {"a"}, {}, True),
        (Operator.EXISTS, set(), {KEY: ""}, True),
        (Operator.EXISTS, set(), {}, False),
        (Operator.DOES_NOT_EXIST, set(), {}, True),
        (Operator.DOES_NOT_EXIST, set(), {KEY: ""}, False),
    ],
)
def test_an_expression_matches_as_in_kubernetes(
    operator: Operator,
    values: set[str],
    labels: dict[str, str],
    matches: bool,  # noqa: FBT001
) -> None:
    """`NotIn` is met by a label that is not there."""
    expression = Expression(key=KEY, operator=operator, values=frozenset(values))
    assert expression.matches(labels) is matches
    assert Selector(labels={}, expressions=(expression,)).matches(labels) is matches
    assert Selector(labels={"other": "x"}, expressions=(expression,)).matches(labels) is False


@pytest.mark.parametrize(
    ("share", "total", "wanted"),
    [
        (Share(amount=3), 2, 3),
        (Share(amount=10, percent=True), 9, 0),
        (Share(amount=10, percent=True), 19, 1),
        (Share(amount=100, percent=True), 7, 7),
    ],
)
def test_a_share_is_rounded_down(share: Share, total: int, wanted: int) -> None:
    """A limit is never more than what was written; at least one is for whoever has to move somebody."""
    assert share.of(total) == wanted
    assert share.of(total, least=1) == max(1, wanted)


def test_the_first_selector_has_it_and_percentages_share_what_is_left() -> None:
    """A percentage that comes first does not take what a selector names."""
    found = (wave("early", percent=50), wave("canary"), wave("again", tier="canary"))
    fleet = [member(f"n{at}") for at in range(6)] + [member(f"c{at}", **tier("canary")) for at in range(2)]
    where = claimed(fleet, found)
    assert {where["c0"], where["c1"]} == {"canary"}
    assert Counter(where.values()) == {"early": 4, "canary": 2, "rest": 2}


def test_a_percentage_is_rounded_up_and_all_may_be_claimed() -> None:
    """One percent of three is one; a hundred leaves nothing for the rest, nor for who comes after."""
    fleet = [member(f"n{at}") for at in range(3)]
    assert Counter(claimed(fleet, (wave("one", percent=1),)).values()) == {"one": 1, "rest": 2}
    assert Counter(claimed(fleet, (wave("all", percent=100), wave("more", percent=50))).values()) == {"all": 3}
    assert waves.claim([], (wave("one", percent=1),))[0][1] == []


@given(st.sets(st.integers(0, 500), min_size=1, max_size=60), st.integers(1, 100), st.data())
def test_a_namespace_stays_in_its_wave_while_others_come_and_go(
    found: set[int], percent: int, data: st.DataObject
) -> None:
    """One that leaves moves at most one other for each percentage; names and order change nothing."""
    fleet = [member(f"n{at}") for at in sorted(found)]
    rows = (wave("early", percent=percent),)
    before = claimed(fleet, rows)
    shuffled = data.draw(st.permutations(fleet))
    assert claimed(shuffled, rows) == before
    gone = data.draw(st.sampled_from(fleet))
    after = claimed([each for each in fleet if each is not gone], rows)
    assert sum(before[name] != place for name, place in after.items()) <= 1
    renamed = [replace(each, namespace=f"x{each.namespace}") for each in fleet]
    assert {name[1:]: place for name, place in claimed(renamed, rows).items()} == before


def test_everybody_is_in_exactly_one_wave() -> None:
    """Also who matches all of them, and who matches none."""
    found = (wave("a", tier="x"), wave("b", tier="x"), wave("c", percent=100))
    fleet = [member(f"n{at}", **(tier("x") if at % 2 else {})) for at in range(9)]
    rows = waves.claim(fleet, found)
    assert [row.name for row, _ in rows] == ["a", "b", "c", "rest"]
    assert sorted(each.namespace for _, those in rows for each in those) == sorted(each.namespace for each in fleet)
