"""Maintenance windows: whether one is open, since when, and when that changes.

A window opens when its cron expression fires in its time zone, as Debian's cron would fire (decision 0017): what falls
into the hour that a clock change skips comes right after it, what falls into the repeated hour comes once. It stays
open for its duration, measured in elapsed time: six hours are six hours in the night of a change too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from metaoperator.core import kubernetes

_THIS_MACHINE: Final = frozenset({"local", "localtime", "posixrules", "factory"})
"""Zones that mean another time on another machine, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """When it opens, in which zone, and for how long."""

    cron: str
    duration: timedelta
    zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Whether a window is open now, since when, and when to look again."""

    open: bool
    since: datetime | None = None
    changes: datetime | None = None


def state(windows: Sequence[Window], now: datetime) -> State:
    """Look at all of them together; with none, it is always open.

    `changes` is never late. It may be early where openings overlap.
    """
    if not windows:
        return State(open=True)
    opened, openings = [], []
    for window in windows:
        # Forwards from where one that is still open would have opened: that is the one that closes first.
        if (start := _next(window.cron, window.zone, now - window.duration)) is None:
            continue
        if start <= now:
            opened.append((start, start + window.duration))
        else:
            openings.append(start)
    if opened:
        # Any of them keeps it open: only when the last closes, it may be closed.
        return State(open=True, since=min(start for start, _ in opened), changes=max(end for _, end in opened))
    return State(open=False, changes=min(openings, default=None))


def cron_fault(cron: str) -> str:
    """Say what is wrong with a cron expression; empty where nothing is."""
    if len(cron.split()) != 5:
        return "has not five fields: minute, hour, day of month, month, day of week"
    try:
        found = next(CronSim(cron, datetime(2000, 1, 1)), None)  # noqa: DTZ001 - which years it knows has no zone
    except CronSimError as exc:
        return f"is no cron expression: {exc}"
    return "" if found is not None else "never comes"


def zone_fault(zone: str) -> str:
    """Say what is wrong with the name of a time zone; empty where nothing is."""
    if zone.lower() in _THIS_MACHINE:
        return "is another time on another machine"
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder of zones is an OSError, a path outside a ValueError
        near = kubernetes.nearest(zone, _known())
        return "is no time zone of the IANA database" + (f": did you mean {near}?" if near else "")
    return ""


def _known() -> set[str]:
    import zoneinfo  # noqa: PLC0415 - only where something is wrong

    return zoneinfo.available_timezones()


def _next(cron: str, zone: str, after: datetime) -> datetime | None:
    """Find the first opening after a moment; `None` where none comes in 50 years."""
    # Cron knows no seconds, so that all moments of a minute have the same answer.
    return _of_minute(cron, zone, after.astimezone(UTC).replace(second=0, microsecond=0))


@lru_cache(maxsize=256)
def _of_minute(cron: str, zone: str, after: datetime) -> datetime | None:
    for found in CronSim(cron, after.astimezone(ZoneInfo(zone))):
        # Of the repeated hour the library knows the first pass alone: from the second, it looks back.
        if (start := found.astimezone(UTC)) > after:
            return start
    return None
