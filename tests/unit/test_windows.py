"""Maintenance windows: open or not, through both nights in which clocks change."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from metaoperator.core import windows
from metaoperator.core.windows import Window

HOUR = timedelta(hours=1)
NIGHTS = Window(cron="0 22 * * 1-5", duration=6 * HOUR, zone="Europe/Berlin")
HALF_PAST_TWO = Window(cron="30 2 * * *", duration=HOUR, zone="Europe/Berlin")
ALWAYS = Window(cron="* * * * *", duration=HOUR)
LEAP_DAY = Window(cron="0 0 29 2 *", duration=HOUR)


def at(text: str) -> datetime:
    """Read a moment."""
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("found", "now", "is_open", "since", "changes"),
    [
        ([], "2026-12-01T12:00:00Z", True, None, None),
        ([NIGHTS], "2026-12-01T20:59:59Z", False, None, "2026-12-01T21:00:00Z"),
        ([NIGHTS], "2026-12-01T21:00:00Z", True, "2026-12-01T21:00:00Z", "2026-12-02T03:00:00Z"),
        ([NIGHTS], "2026-12-02T02:59:59Z", True, "2026-12-01T21:00:00Z", "2026-12-02T03:00:00Z"),
        ([NIGHTS], "2026-12-02T03:00:00Z", False, None, "2026-12-02T21:00:00Z"),
        # The window of Friday reaches into Saturday, on which none opens.
        ([NIGHTS], "2026-12-05T02:00:00Z", True, "2026-12-04T21:00:00Z", "2026-12-05T03:00:00Z"),
        ([NIGHTS], "2026-12-05T21:30:00Z", False, None, "2026-12-07T21:00:00Z"),
        # The hour from 2 to 3 is skipped on 29 March 2026: what opens in it opens right after it, at 3 (1 UTC).
        ([HALF_PAST_TWO], "2026-03-29T00:59:59Z", False, None, "2026-03-29T01:00:00Z"),
        ([HALF_PAST_TWO], "2026-03-29T01:00:00Z", True, "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"),
        ([HALF_PAST_TWO], "2026-03-29T02:00:00Z", False, None, "2026-03-30T00:30:00Z"),
        # It is repeated on 25 October 2026: what opens in it opens once, in the first pass.
        ([HALF_PAST_TWO], "2026-10-25T00:29:59Z", False, None, "2026-10-25T00:30:00Z"),
        ([HALF_PAST_TWO], "2026-10-25T01:29:59Z", True, "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
        ([HALF_PAST_TWO], "2026-10-25T01:30:00Z", False, None, "2026-10-26T01:30:00Z"),
        # Six hours are six hours in that night, although the clock shows five.
        (
            [Window(cron="0 22 * * 6", duration=6 * HOUR, zone="Europe/Berlin")],
            "2026-10-25T01:59:59Z",
            True,
            "2026-10-24T20:00:00Z",
            "2026-10-25T02:00:00Z",
        ),
        # Openings that overlap: always open, and looked at again when the oldest would close.
        ([ALWAYS], "2026-12-01T12:00:30Z", True, "2026-12-01T11:01:00Z", "2026-12-01T12:01:00Z"),
        ([LEAP_DAY], "2026-12-01T12:00:00Z", False, None, "2028-02-29T00:00:00Z"),
        ([LEAP_DAY, NIGHTS], "2026-12-01T12:00:00Z", False, None, "2026-12-01T21:00:00Z"),
        ([NIGHTS, ALWAYS], "2026-12-01T21:00:00Z", True, "2026-12-01T20:01:00Z", "2026-12-02T03:00:00Z"),
    ],
)
def test_it_is_open_from_when_cron_fires_for_its_duration(
    found: Sequence[Window],
    now: str,
    is_open: bool,  # noqa: FBT001
    since: str | None,
    changes: str | None,
) -> None:
    """Begun includes the second in which it opens, and not the one in which it closes."""
    state = windows.state(found, at(now))
    told = [None if each is None else each.isoformat().replace("+00:00", "Z") for each in (state.since, state.changes)]
    assert (state.open, *told) == (is_open, since, changes)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC", "Asia/Kolkata"])
@pytest.mark.parametrize("cron", ["30 2 * * *", "*/20 * * * *", "0 */3 * * *", "15 1-3 * * 0", "5 0 1 * *"])
def test_when_it_says_to_look_again_is_never_late(cron: str, zone: str) -> None:
    """Minute by minute over the nights of both changes: what is said then is what is found."""
    window = [Window(cron=cron, duration=timedelta(minutes=50), zone=zone)]
    for start in ("2026-03-08T05:00:00Z", "2026-03-28T23:00:00Z", "2026-04-04T14:00:00Z", "2026-10-24T23:00:00Z"):
        before = windows.state(window, at(start))
        for minute in range(1, 300):
            now = at(start) + timedelta(minutes=minute)
            state = windows.state(window, now)
            if state.open != before.open:
                assert before.changes == now
                if state.open:
                    assert state.since == now
            before = state


@pytest.mark.parametrize(
    ("cron", "fault"),
    [
        ("0 22 * * 1-5", ""),
        ("0 22 * * mon-fri", ""),
        ("0 22 L * *", ""),
        ("0 22 * * 1#2", ""),
        ("22 * *", "five fields"),
        ("0 0 22 * * 1", "five fields"),
        ("@daily", "five fields"),
        ("0 25 * * *", "hour"),
        ("0 22 30 2 *", "day-of-month"),
        ("0 22 * * 5L,foo", "day-of-week"),
        ("* * */20 * 1L", "never comes"),
    ],
)
def test_what_is_no_cron_expression_is_said(cron: str, fault: str) -> None:
    """With the field at fault."""
    assert fault in windows.cron_fault(cron)
    assert bool(fault) == bool(windows.cron_fault(cron))


@pytest.mark.parametrize(
    ("zone", "fault"),
    [
        ("Europe/Berlin", ""),
        ("UTC", ""),
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("Europe", "no time zone"),
        ("../etc/passwd", "no time zone"),
        ("/etc/localtime", "no time zone"),
        ("localtime", "another machine"),
        ("", "no time zone"),
    ],
)
def test_what_is_no_time_zone_is_said(zone: str, fault: str) -> None:
    """With the nearest that is one."""
    assert fault in windows.zone_fault(zone)
    assert bool(fault) == bool(windows.zone_fault(zone))
