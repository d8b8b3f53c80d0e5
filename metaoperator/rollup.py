"""The status of a ControllerTemplate: whether its set can be used, who has it, and how far its rollout is."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from metaoperator.brake import Brake
from metaoperator.cluster import Cluster
from metaoperator.core import names, status
from metaoperator.core.errors import Stalled
from metaoperator.core.model import WORKFLOW_CONTROLLER, Manifest
from metaoperator.core.rollout import Decision, Phase
from metaoperator.core.status import Note, Rollout
from metaoperator.goals import Goal, Goals
from metaoperator.mirror import Mirror
from metaoperator.recorder import Recorder
from metaoperator.revisions import Revisions
from metaoperator.rollout import Rollouts
from metaoperator.templates import Templates

log = logging.getLogger(__name__)

UNKNOWN_SECONDS: Final = 0.3
"""So soon it is looked whether the whole fleet is known."""
_MOVING: Final = frozenset(
    {Phase.CHECKING, Phase.PROGRESSING, Phase.WAITING, Phase.HOLDING, Phase.PAUSED, Phase.ROLLING_BACK}
)
_HALTED: Final = frozenset({Phase.FAILED, Phase.ROLLED_BACK})
_NAMED: Final = 10


class Rollup:
    """Looks at one ControllerTemplate at a time."""

    def __init__(
        self,
        cluster: Cluster,
        mirror: Mirror,
        recorder: Recorder,
        templates: Templates,
        goals: Goals,
        rollouts: Rollouts,
        revisions: Revisions,
        *,
        brake: Brake,
        wall_clock: Callable[[], datetime],
    ) -> None:
        """Remember nothing of a look."""
        self._cluster = cluster
        self._mirror = mirror
        self._recorder = recorder
        self._templates = templates
        self._goals = goals
        self._rollouts = rollouts
        self._revisions = revisions
        self._brake = brake
        self._wall_clock = wall_clock

    async def publish(self, name: str) -> float | None:
        """Reconcile one ControllerTemplate; returns the seconds after which to look again."""
        live = await self._templates.find(name)
        if live is None or "deletionTimestamp" in live["metadata"]:
            self._rollouts.forget(name)
            return None
        revision, fault = self._templates.judge(live)
        goal: Goal | None = None
        try:
            goal = await self._goals.of(live)
        except Stalled as exc:
            fault = fault or Note(reason=exc.reason, message=exc.message)
        decision = None if goal is None else await self._rollouts.look(goal, told=_target(live))
        if not self._mirror.whole(WORKFLOW_CONTROLLER) or (goal is not None and decision is None):
            return UNKNOWN_SECONDS
        if goal is None or decision is None:
            await self._write(live, fault, revision, None)
            return None
        await self._write(live, fault, revision, self._told(goal, decision))
        return decision.again

    async def _write(self, live: Manifest, fault: Note | None, revision: str, rollout: Rollout | None) -> None:
        name = live["metadata"]["name"]
        users = [
            wfc for wfc in self._mirror.copies(WORKFLOW_CONTROLLER) if (wfc.get("status") or {}).get("template") == name
        ]
        ready = [wfc for wfc in users if status.condition(wfc["status"], names.Condition.READY).get("status") == "True"]
        held = await self._brake.note(live)
        published = status.ours(live.get("status") or {})
        wanted = status.controller_template(
            generation=live["metadata"]["generation"],
            fault=fault,
            held=held,
            revision=revision,
            total=len(users),
            ready=len(ready),
            previous=published,
            now=self._wall_clock(),
            rollout=rollout,
        )
        if wanted != published:
            self._mirror.learn(await self._cluster.apply_status(live, wanted))
        await self._tell(live, published, wanted)
        said = status.condition(published, names.Condition.DELETION_HELD).get("message")
        if held is not None and said != held.message:
            log.warning("removal held", extra={"template": name, "message_": held.message})
            await self._recorder.tell(live, held.reason, held.message, warning=True)

    async def _tell(self, live: Manifest, before: Manifest, after: Manifest) -> None:
        """Record an Event where something new is said: of the set, or of its rollout."""
        for kind, bad in ((names.Condition.READY, "False"), (names.Condition.STALLED, "True")):
            now, then = status.condition(after, kind), status.condition(before, kind)
            if now.get("status") == bad and now.get("message") != then.get("message"):
                await self._recorder.tell(live, names.Reason(now["reason"]), now["message"], warning=True)
                return
        now, then = (status.condition(each, names.Condition.RECONCILING) for each in (after, before))
        if now.get("status") == "True" and now.get("reason") != then.get("reason"):
            await self._recorder.tell(live, names.Reason(now["reason"]), now["message"])
        elif now.get("status") != then.get("status") and then.get("status") == "True":
            message = (after.get("rollout") or {}).get("message", "")
            await self._recorder.tell(live, names.Reason.ROLLOUT_DONE, message)

    def _told(self, goal: Goal, decision: Decision) -> Rollout:
        sets = {each.set_revision: each for each in self._revisions.sets(goal.template)}
        fields: dict[str, Any] = {
            "phase": str(decision.phase),
            "target": goal.set_revision,
            "source": goal.source or "",
            "stable": goal.target.last_stable or "",
            "wave": decision.wave,
            "waves": [
                {
                    "name": each.name,
                    "total": each.total,
                    "updated": each.updated,
                    "ready": each.ready,
                    "apart": each.apart,
                }
                for each in decision.waves
            ],
            "updated": f"{sum(each.updated for each in decision.waves)}/{sum(each.total for each in decision.waves)}",
            "waiting": len(decision.waits),
            "message": decision.note.message,
        }
        source = sets.get(goal.source or "")
        if source is not None and source.failed is not None and (goal.target.failed or decision.failing):
            stamp = source.failed.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            fields["failed"] = {"at": stamp, "reason": source.why[:1024]}
            if decision.failing:
                fields["failed"]["members"] = sorted(decision.failing)[:_NAMED]
        return Rollout(
            told={key: value for key, value in fields.items() if value not in ("", [])},
            moving=decision.note if decision.phase in _MOVING else None,
            halted=decision.note if decision.phase in _HALTED else None,
        )


def _target(template: Manifest) -> str:
    """Read which revision the published rollout speaks of."""
    return str(((template.get("status") or {}).get("rollout") or {}).get("target", ""))
