"""Fights: three repairs in ten minutes, and it stops; it goes on for other bytes, for agreement, and once an hour."""

from hypothesis import given
from hypothesis import strategies as st

from metaoperator.core.fights import RETRY_SECONDS, WINDOW_SECONDS, WRITES, Fights
from metaoperator.core.model import CONFIG_MAP, Ref

REF = Ref(CONFIG_MAP, "team-a", "one")


class Rival:
    """An object that differs whenever it is looked at, put right as often as that is allowed."""

    def __init__(self) -> None:
        self.fights = Fights()
        self.writes: list[float] = []

    def look(self, now: float, *, uid: str = "u", digest: str = "d") -> bool:
        """Put it right, if that may be done now."""
        may = self.fights.may_write(REF, uid, digest, now)
        if may:
            self.fights.wrote(REF, uid, digest, now)
            self.writes.append(now)
        return may


def fierce() -> Rival:
    """Make one that was stopped at second 3."""
    rival = Rival()
    assert [rival.look(float(now)) for now in range(4)] == [True, True, True, False]
    return rival


def test_the_fourth_repair_within_ten_minutes_does_not_happen() -> None:
    """Nor does any later one, however often it is looked at, until the hour is over."""
    rival = fierce()
    assert not any(rival.look(now) for now in (4.0, 100.0, WINDOW_SECONDS + 5, 2 + RETRY_SECONDS - 1))
    assert rival.look(2 + RETRY_SECONDS)
    assert not rival.look(3 + RETRY_SECONDS)


def test_repairs_every_four_minutes_are_a_fight() -> None:
    """Three within ten minutes, seen at the fourth."""
    rival = Rival()
    assert [rival.look(now * 240.0) for now in range(4)] == [True, True, True, False]


def test_repairs_every_six_minutes_are_none() -> None:
    """Twelve minutes for three."""
    rival = Rival()
    assert all(rival.look(now * 360.0) for now in range(30))


def test_three_repairs_and_ten_minutes_of_peace_are_forgotten() -> None:
    """Somebody tried three times and gave up: the next edit, later, is put right."""
    rival = Rival()
    assert all(rival.look(float(now)) for now in range(3))
    assert rival.look(3 + WINDOW_SECONDS)


def test_other_bytes_and_another_object_begin_anew() -> None:
    """A rendered change is applied whatever was before, and a successor of the name is nobody's rival yet."""
    assert fierce().look(4.0, digest="other")
    assert fierce().look(4.0, uid="successor")
    rival = fierce()
    rival.fights.forget(REF)
    assert rival.look(4.0)


def test_an_object_that_agrees_by_itself_ends_the_fight() -> None:
    """It differed after our last write and does not any more: the other gave up."""
    rival = fierce()
    assert rival.fights.agrees(REF, "u", 5.0)
    assert len(rival.fights) == 0
    assert rival.look(6.0)


def test_our_own_hourly_write_is_no_agreement_before_it_has_lasted() -> None:
    """Right after our write an object always agrees: READY would flap once an hour."""
    rival = fierce()
    then = 2 + RETRY_SECONDS
    assert rival.look(then)
    assert not rival.fights.agrees(REF, "u", then + 1)
    assert not rival.fights.agrees(REF, "u", then + WINDOW_SECONDS - 1)
    assert rival.fights.agrees(REF, "u", then + WINDOW_SECONDS)
    assert len(rival.fights) == 0


def test_agreement_between_the_first_repairs_ends_nothing() -> None:
    """After each of our writes the object is as it should be for a moment: that is no peace."""
    rival = Rival()
    for now in range(3):
        assert rival.look(float(now))
        assert rival.fights.agrees(REF, "u", now + 0.5)
    assert not rival.look(3.0)


@given(st.lists(st.tuples(st.floats(0.01, 900), st.booleans()), max_size=200))
def test_an_object_that_never_agrees_is_written_three_times_in_ten_minutes_at_most(
    looks: list[tuple[float, bool]],
) -> None:
    """Whatever the rhythm of the other, and however often our own write is seen to be there for a moment."""
    rival, now = Rival(), 0.0
    for pause, seen_between in looks:
        now += pause
        if rival.look(now) and seen_between:
            rival.fights.agrees(REF, "u", now)
    for first in rival.writes:
        assert len([each for each in rival.writes if first <= each < first + WINDOW_SECONDS]) <= WRITES
