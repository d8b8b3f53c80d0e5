"""Fleets with sane defaults, so that a test of rollouts shows only what it is about."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from metaoperator.core import rollout, target
from metaoperator.core.policy import Policy
from metaoperator.core.revision import Head, SetHead
from metaoperator.core.rollout import Decision
from metaoperator.core.standing import Child, Member
from metaoperator.core.stops import Check
from metaoperator.core.waves import Selector, Wave

NOW = datetime(2026, 12, 1, 3, tzinfo=UTC)
OLD, NEW, FIX = "aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"


def ago(seconds: float) -> datetime:
    """Tell the moment so many seconds before now."""
    return NOW - timedelta(seconds=seconds)


LONG_AGO = ago(90_000)


def head(set_revision: str, **more: Any) -> Head:
    """Build what a record says of a namespace that was moved long ago, and was well."""
    defaults: dict[str, Any] = {
        "name": "record",
        "uid": "uid",
        "namespace": "team-a",
        "namespace_uid": "uid-team-a",
        "template": "default",
        "set_revision": set_revision,
        "revision": f"r-{set_revision}",
        "number": 1,
        "version": "v4.0.5",
        "before": "Ready",
        "since": LONG_AGO,
    }
    return Head(**defaults | more)


def set_head(set_revision: str, number: int = 1, **more: Any) -> SetHead:
    """Build what a record says of a set."""
    defaults: dict[str, Any] = {"name": f"set-{set_revision}", "uid": "uid", "template": "default", "since": LONG_AGO}
    return SetHead(**defaults | {"set_revision": set_revision, "number": number} | more)


def child(*, ready: bool = True, **more: Any) -> Child:
    """Build one that works since long."""
    ill: dict[str, Any] = {} if ready else {"reason": "DeploymentProgressing", "message": "0 of 1"}
    fields: dict[str, Any] = {"ready": ready, "since": LONG_AGO}
    return Child(**fields | ill | more)


def failing(since: datetime = LONG_AGO) -> Child:
    """Build one whose pod crashes."""
    return Child(ready=False, failed=True, since=since, reason="PodFailing", message="CrashLoopBackOff")


def member(name: str, at: str = OLD, **more: Any) -> Member:
    """Build one that is well and proven at a set revision; the bytes of each are those of its set revision."""
    fields = {key: more.pop(key) for key in ("before", "since", "proven", "set_revision") if key in more}
    record = head(at, **{"namespace": name, "namespace_uid": f"uid-{name}", "proven": LONG_AGO} | fields)
    defaults: dict[str, Any] = {
        "namespace": name,
        "uid": f"uid-{name}",
        "head": record,
        "wanted": f"r-{NEW}",
        "child": child(),
    }
    return Member(**defaults | more)


def moved(name: str, seconds: float = 30, **more: Any) -> Member:
    """Build one that was well, and was moved to the new set revision some seconds ago."""
    since = ago(seconds)
    return member(name, NEW, **{"since": since, "proven": None, "child": child(since=since)} | more)


def proved(name: str, **more: Any) -> Member:
    """Build one that was moved and has proved itself."""
    return moved(name, 300, **{"proven": ago(100)} | more)


def wave(name: str, tier: str | None = None, **more: Any) -> Wave:
    """Build a wave that selects by the label `tier`, by default its own name."""
    if "percent" not in more:
        more["selector"] = Selector(labels={"tier": tier or name})
    return Wave(name=name, **more)


def tier(name: str) -> dict[str, Any]:
    """Put a member into a wave."""
    return {"labels": {"tier": name}}


CANARY = (wave("canary"),)
SETS = (
    set_head(OLD, 1, stable=ago(80_000)),
    set_head(NEW, 2, since=ago(1000)),
)


def decide(
    members: Sequence[Member],
    policy: Policy | None = None,
    *,
    sets: Iterable[SetHead] = SETS,
    source: str | None = NEW,
    checked: Check | None = None,
    now: datetime = NOW,
    began: datetime = LONG_AGO,
) -> Decision:
    """Decide for a fleet that goes from the old to the new set revision."""
    policy = policy or Policy()
    return rollout.decide(
        members,
        policy,
        target=target.choose(source, list(sets), policy, now=now),
        checked=checked or Check(),
        now=now,
        began=began,
    )


def reasons(decision: Decision) -> Mapping[str, str]:
    """Read why each of those waits who do."""
    return {name: str(note.reason) for name, note in sorted(decision.waits.items())}
