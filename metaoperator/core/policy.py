"""`spec.rollout` of a ControllerTemplate and the two limits beside it: read, and all that is wrong told at once.

The CRD refuses most of this at the API server, but not what it cannot know (cron, time zones), and `validate` looks at
files that no API server has seen.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from metaoperator.core import durations, waves, windows
from metaoperator.core.errors import PolicyError, Problem
from metaoperator.core.fields import Fields
from metaoperator.core.waves import Expression, Operator, Selector, Share, Wave
from metaoperator.core.windows import Window

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_REVISION: Final = re.compile(r"[0-9a-f]{10}")
_DAY: Final = 86_400
_TEXT: Final = re.compile(r".+")
TENTH: Final = Share(amount=10, percent=True)
NONE: Final = Share(amount=0)


class OnFailure(StrEnum):
    """What a failed rollout does (`onFailure`). The first is the default."""

    PAUSE = "Pause"
    ROLLBACK = "Rollback"


class Workflows(StrEnum):
    """Whether a namespace is moved while Workflows run in it (`workflows`). The first is the default."""

    IGNORE = "Ignore"
    WAIT = "Wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person lets one wave of one set revision begin; `at` where it was written down when."""

    revision: str
    wave: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a fleet is moved. What is not written has the default that the CRD tells."""

    waves: tuple[Wave, ...] = ()
    max_unavailable: Share = TENTH
    soak_seconds: float = 60
    progress_deadline_seconds: float = 600
    failure_threshold: Share = NONE
    on_failure: OnFailure = OnFailure.PAUSE
    windows: tuple[Window, ...] = ()
    workflows: Workflows = Workflows.IGNORE
    workflows_timeout_seconds: float = 3600
    paused: bool = False
    revision: str = ""
    approvals: tuple[Approval, ...] = ()
    resumed_at: datetime | None = None
    deletion_limit: Share = TENTH
    history_limit: int = 10

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> "Policy":
        """Read it out of a ControllerTemplate's spec; `PolicyError` tells every fault with its path."""
        problems: list[Problem] = []
        whole = Fields(spec, "spec", problems)
        said = whole.mapping("rollout")
        said.known(_FIELDS)
        policy = cls(
            waves=_waves(said),
            max_unavailable=said.share("maxUnavailable", TENTH, low=1),
            soak_seconds=said.number("soakSeconds", 60, high=_DAY),
            progress_deadline_seconds=said.number("progressDeadlineSeconds", 600, low=1, high=_DAY),
            failure_threshold=said.share("failureThreshold", NONE),
            on_failure=said.word("onFailure", OnFailure.PAUSE),
            windows=tuple(filter(None, map(_window, said.items("windows", 16)))),
            workflows=said.word("workflows", Workflows.IGNORE),
            workflows_timeout_seconds=said.number("workflowsTimeoutSeconds", 3600, high=7 * _DAY),
            paused=said.flag("paused"),
            revision=said.text(
                "revision", _REVISION, "ten hexadecimal digits, as `metaoperator rollout history` shows"
            ),
            approvals=tuple(filter(None, map(_approval, said.items("approvals", 64)))),
            resumed_at=said.time("resumedAt"),
            deletion_limit=whole.share("deletionLimit", TENTH),
            history_limit=whole.number("revisionHistoryLimit", 10, low=1, high=100),
        )
        if problems:
            raise PolicyError(problems)
        return policy

    def approved(self, revision: str, wave: str) -> Approval | None:
        """Find the approval of a wave, the newest first."""
        found = [each for each in self.approvals if (each.revision, each.wave) == (revision, wave)]
        return max(found, key=lambda each: (each.at is not None, each.at), default=None)

    def resumed(self, now: datetime) -> datetime | None:
        """Tell up to when failures are forgiven; a moment that is yet to come forgives nothing until then."""
        return None if self.resumed_at is None or self.resumed_at > now else self.resumed_at


_FIELDS: Final = (
    "waves",
    "maxUnavailable",
    "soakSeconds",
    "progressDeadlineSeconds",
    "failureThreshold",
    "onFailure",
    "windows",
    "workflows",
    "workflowsTimeoutSeconds",
    "paused",
    "revision",
    "approvals",
    "resumedAt",
)


def _waves(said: Fields) -> tuple[Wave, ...]:
    rows = said.items("waves", 16)
    found = [_wave(row) for row in rows]
    for at, (row, wave) in enumerate(zip(rows, found, strict=True)):
        if wave.name and wave.name in {each.name for each in found[:at]}:
            row.tell("name", f"{wave.name} is the name of two waves", "approvals would not tell them apart")
    return tuple(found)


def _wave(row: Fields) -> Wave:
    row.known(("name", "selector", "percent", "maxUnavailable", "soakSeconds", "approval"))
    name = row.text("name", _NAME, "a name of a-z, 0-9 and -, of at most 63 characters")
    if not row.body.get("name"):
        row.tell("name", "is missing")
    if name == waves.REST:
        row.tell("name", f"{waves.REST} is the last wave, always", "choose another name; percent: 100 claims all")
    selects = "selector" in row.body
    if selects == ("percent" in row.body):
        row.tell("", "must have either a selector or a percent")
    return Wave(
        name=name,
        selector=_selector(row.mapping("selector")) if selects else None,
        percent=None if selects else row.number("percent", 100, low=1, high=100),
        max_unavailable=row.share("maxUnavailable", Share(amount=1), low=1) if "maxUnavailable" in row.body else None,
        soak_seconds=row.number("soakSeconds", 60, high=_DAY) if "soakSeconds" in row.body else None,
        approval=row.flag("approval"),
    )


def _selector(row: Fields) -> Selector:
    row.known(("matchLabels", "matchExpressions"))
    labels = row.mapping("matchLabels")
    for key, value in labels.body.items():
        if not isinstance(value, str):
            labels.tell(str(key), "is not text", "write it in quotes")
    expressions = row.items("matchExpressions", 16)
    if not labels.body and not expressions:
        row.tell("", "selects every namespace", "write percent: 100, if that is meant")
    return Selector(
        labels={str(key): value for key, value in labels.body.items()},
        expressions=tuple(_expression(each) for each in expressions),
    )


def _expression(row: Fields) -> Expression:
    row.known(("key", "operator", "values"))
    key, operator = row.body.get("key"), row.word("operator", Operator.IN)
    if not isinstance(key, str) or not key:
        row.tell("key", "must name a label")
    if "operator" not in row.body:
        row.tell("operator", "is missing")
    values = row.body.get("values") or []
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        row.tell("values", "must be a list of texts")
        values = []
    elif (operator in {Operator.IN, Operator.NOT_IN}) != bool(values):
        row.tell("values", "belong to In and NotIn, which need some")
    return Expression(key=str(key), operator=operator, values=frozenset(values))


def _window(row: Fields) -> Window | None:
    row.known(("cron", "duration", "timeZone"))
    cron, zone = row.body.get("cron"), row.body.get("timeZone", "UTC")
    duration = durations.read(row.body.get("duration"))
    if not duration or duration > timedelta(days=31):
        row.tell("duration", "must be a time of at most 31 days", "like 6h or 1h30m")
    for key, value, fault in (("cron", cron, windows.cron_fault), ("timeZone", zone, windows.zone_fault)):
        row.text(key, _TEXT, "text")
        if value is None:
            row.tell(key, "is missing")
        elif isinstance(value, str) and (what := fault(value)):
            row.tell(key, what)
    if not isinstance(cron, str) or not isinstance(zone, str) or not duration:
        return None
    return Window(cron=cron, duration=duration, zone=zone)


def _approval(row: Fields) -> Approval | None:
    row.known(("revision", "wave", "at"))
    revision, wave, at = row.text("revision", _REVISION, "ten hexadecimal digits"), row.body.get("wave"), row.time("at")
    if not revision or not isinstance(wave, str):
        row.tell("", "must have the revision and the wave that it approves")
        return None
    return Approval(revision=revision, wave=wave, at=at)
