"""What is said of a rollout: how far it is, wave by wave, who waits for what, and who fails."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from metaoperator.commands import tables, telling
from metaoperator.commands.rollout import facts
from metaoperator.core import names
from metaoperator.core.model import Manifest
from metaoperator.core.names import Condition, Reason
from metaoperator.core.rollout import Phase
from metaoperator.core.status import condition

ENDS: Final = frozenset({str(Phase.DONE), str(Phase.FAILED), str(Phase.ROLLED_BACK), "Stalled"})
"""Phases in which nothing goes on by itself: `--watch` ends."""
_FAILING: Final = frozenset(
    map(
        str,
        (
            Reason.DEPLOYMENT_FAILED,
            Reason.POD_REFUSED,
            Reason.POD_FAILING,
            Reason.LEASE_MISSING,
            Reason.LEASE_STALE,
            Reason.LEASE_FOREIGN,
        ),
    )
)
_NAMED: Final = 3
_SHOWN: Final = 10


def of(live: Manifest, rows: Iterable[Manifest] = ()) -> dict[str, Any]:
    """Gather it from a ControllerTemplate and the WorkflowControllers of its namespaces, for programs and people."""
    told, status = facts.told(live), live.get("status") or {}
    phase, message = told.get("phase", "Unseen"), told.get("message", "no operator has looked at it yet")
    ready = condition(status, Condition.READY)
    if facts.stale(live):
        phase, message = "Unseen", "no operator has looked at the newest spec yet"
    elif ready.get("status") == "False":
        phase, message = "Stalled", f"{ready.get('reason')}: {ready.get('message')}"
    said = facts.said(live)
    chosen = "pinned" if said.get("revision") else "source" if told.get("target") == told.get("source") else "rollback"
    mine = [each for each in rows if (each.get("status") or {}).get("template") == live["metadata"]["name"]]
    return {
        "template": live["metadata"]["name"],
        "phase": phase,
        "message": message,
        "target": told.get("target", ""),
        "chosenBy": chosen if told.get("target") else "",
        "source": told.get("source", ""),
        "stable": told.get("stable", ""),
        "paused": bool(said.get("paused")),
        "updated": told.get("updated", ""),
        "wave": told.get("wave", ""),
        "waves": [dict(each) for each in told.get("waves") or ()],
        "failed": dict(told.get("failed") or {}),
        "waits": _waits(mine),
        "failing": _failing(mine, told.get("failed", {}).get("members") or ()),
    }


def _waits(rows: Sequence[Manifest]) -> list[dict[str, Any]]:
    """Count who waits by what for, the most first."""
    found: dict[str, list[str]] = {}
    messages: dict[str, str] = {}
    for row in rows:
        turn = condition(row["status"], Condition.RECONCILING)
        if turn.get("status") == "True" and turn.get("reason") in names.TURNS:
            found.setdefault(turn["reason"], []).append(row["metadata"]["namespace"])
            messages.setdefault(turn["reason"], turn.get("message", ""))
    ordered = sorted(found, key=lambda reason: (-len(found[reason]), reason))
    return [{"reason": each, "message": messages[each], "namespaces": sorted(found[each])} for each in ordered]


def _failing(rows: Sequence[Manifest], members: Sequence[str]) -> list[dict[str, str]]:
    found = []
    for row in sorted(rows, key=lambda each: each["metadata"]["namespace"]):
        ready, stalled = (condition(row["status"], kind) for kind in (Condition.READY, Condition.STALLED))
        namespace = row["metadata"]["namespace"]
        ill = ready.get("status") == "False" and (ready.get("reason") in _FAILING or namespace in members)
        shown = stalled if stalled.get("status") == "True" else ready if ill else {}
        if shown:
            said = {"reason": shown.get("reason", ""), "message": shown.get("message", "")}
            found.append({"namespace": namespace, **said})
    return found


def text(view: Mapping[str, Any]) -> str:
    """Say it to people."""
    parts = [f"{headline(view)}\n"]
    revisions = [
        {"": "target", " ": view["target"], "  ": f"({view['chosenBy']})"},
        {"": "source", " ": view["source"], "  ": ""},
        {"": "stable", " ": view["stable"], "  ": ""},
    ]
    lines = ["   ".join(row.values()).rstrip() for row in revisions if row[" "]]
    parts += ["\n".join(lines) + "\n"] if lines else []
    if view["failed"]:
        parts.append(telling.printable(f"failed at {view['failed'].get('at')}: {view['failed'].get('reason')}\n"))
    if view["waves"]:
        parts.append(tables.text([_wave(each) for each in view["waves"]]))
    if view["waits"]:
        parts.append(tables.text([_wait(each) for each in view["waits"]]))
    if failing := view["failing"]:
        shown = [
            {"FAILING": each["namespace"], "REASON": each["reason"], "MESSAGE": each["message"]}
            for each in failing[:_SHOWN]
        ]
        more = f"and {len(failing) - _SHOWN} more: metaoperator status\n" if len(failing) > _SHOWN else ""
        parts.append(tables.text(shown) + more)
    return "\n".join(parts)


def headline(view: Mapping[str, Any]) -> str:
    """Say it in one line."""
    updated = f", {view['updated']} namespaces updated" if view["updated"] else ""
    said = f"ControllerTemplate/{view['template']}: {view['phase']}{updated}: {view['message']}"
    return telling.printable(" ".join(said.split()))


def _wave(each: Mapping[str, Any]) -> dict[str, str]:
    count = f"{each.get('updated', 0)}/{each.get('total', 0)}"
    return {
        "WAVE": str(each["name"]),
        "UPDATED": count,
        "READY": str(each.get("ready", 0)),
        "APART": str(each.get("apart", 0)),
    }


def _wait(each: Mapping[str, Any]) -> dict[str, str]:
    who = each["namespaces"]
    more = f" and {len(who) - _NAMED} more" if len(who) > _NAMED else ""
    return {"WAITS FOR": each["reason"], "COUNT": str(len(who)), "NAMESPACES": ", ".join(who[:_NAMED]) + more}
