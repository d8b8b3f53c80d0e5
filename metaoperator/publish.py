"""The status of a WorkflowController: composed from one look, written if it differs, told of when READY turns."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from metaoperator.cluster import Cluster
from metaoperator.core import names, status
from metaoperator.core.errors import Conflict, Gone, Invalid, Rejected
from metaoperator.core.health import Verdict
from metaoperator.core.model import WORKFLOW_CONTROLLER, Manifest, Namespace, Ref
from metaoperator.core.names import Reason
from metaoperator.core.status import Drain, Note, View
from metaoperator.core.sweep import Standing
from metaoperator.fleet import Observed
from metaoperator.mirror import Mirror
from metaoperator.recorder import Recorder
from metaoperator.strays import Seen

log = logging.getLogger(__name__)

COUNTS_SECONDS: Final = 15.0
"""Counts of Workflows alone are written at most this often for one namespace."""


PAUSED: Final = Note(reason=Reason.PAUSED, message="spec.paused is set: the child is judged, nothing of it is written")


def wfc_ref(namespace: str) -> Ref:
    """Name the WorkflowController of a namespace."""
    return Ref(WORKFLOW_CONTROLLER, namespace, names.WORKFLOW_CONTROLLER)


class Publisher:
    """Writes statuses."""

    def __init__(
        self, cluster: Cluster, mirror: Mirror, recorder: Recorder, *, wall_clock: Callable[[], datetime]
    ) -> None:
        """Remember only when each status was last written."""
        self._cluster = cluster
        self._mirror = mirror
        self._recorder = recorder
        self._wall_clock = wall_clock
        self._published_at: dict[str, float] = {}

    def forget(self, namespace: str) -> None:
        """Drop what is remembered of one namespace."""
        self._published_at.pop(namespace, None)

    async def publish(self, wfc: Manifest, view: View) -> float | None:
        """Write the status if it differs; returns the seconds after which counts that had to wait are due."""
        name = wfc["metadata"]["namespace"]
        published = status.ours(wfc.get("status") or {})
        wanted = status.workflow_controller(view, published, now=self._wall_clock())
        if wanted == published:
            return None
        now = asyncio.get_running_loop().time()
        wait = self._published_at.get(name, now - COUNTS_SECONDS) + COUNTS_SECONDS - now
        # Not for the rest of a rounding error: that would be a run without a pause.
        if wait > 0.01 and status.only_counts_differ(wanted, published):
            return wait
        ref = Ref.of(wfc)
        try:
            live = await self._cluster.apply_status(wfc, wanted)
        except (Gone, Conflict):
            self._mirror.saw(ref, "")
            return 1.0
        except Invalid as exc:
            # Also what a UID of before is answered with: look at the object that took its name.
            self._mirror.saw(ref, "")
            fresh = await self._mirror.get(ref)
            if fresh is None or fresh["metadata"]["uid"] != wfc["metadata"]["uid"]:
                return 1.0
            await self._refused(wfc, exc)
            raise
        except Rejected as exc:
            await self._refused(wfc, exc)
            raise
        self._mirror.learn(live)
        self._published_at[name] = now
        before, after = (status.condition(each, names.Condition.READY) for each in (published, wanted))
        turned = (before.get("status"), before.get("reason")) != (after["status"], after["reason"])
        if turned and not _fleets_news(before, after):
            bad = after["reason"] == Reason.COMPANION_FAILING or (
                after["status"] == "False" and (view.stalled is not None or view.verdict.health is names.Health.FAILED)
            )
            log.info("child judged", extra={"namespace": name, "ready": after["status"], "reason": after["reason"]})
            await self._recorder.tell(wfc, Reason(after["reason"]), after["message"], warning=bad)
        return None

    async def _refused(self, wfc: Manifest, error: Rejected) -> None:
        """Tell in an Event what the status, which cannot be written, would have told."""
        message = f"the status cannot be written: {error.told}; do the CRDs (manifests/fleet/crds) fit this operator?"
        await self._recorder.tell(wfc, error.reason, message, warning=True)


def _fleets_news(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Tell whether a child works on as it did, and only the fleet's next revision is told of: once, by the template."""
    fleets = {*names.TURNS, Reason.TEMPLATE_INVALID}
    said = {before.get("reason"), after["reason"]}
    return before.get("status") == after["status"] == "True" and not said.isdisjoint(fleets)


def nothing(note: Note) -> Verdict:
    """Judge a child that is not to be there."""
    return Verdict(health=names.Health.TERMINATING, reason=note.reason, message=note.message)


def published(wfc: Manifest, key: str) -> str:
    """Read one text of the status as it was last published."""
    return str((wfc.get("status") or {}).get(key, ""))


def _swept(wfc: Manifest) -> int:
    return int(((wfc.get("status") or {}).get("workflows") or {}).get("swept") or 0)


def view(
    wfc: Manifest,
    verdict: Verdict,
    *,
    stalled: Note | None = None,
    reconciling: Note | None = None,
    remark: Note | None = None,
    strays: Seen | None = None,
    standing: Standing | None = None,
    drain: Drain | None = None,
    template: str = "",
    revision: str = "",
    version: str = "",
    instance_id: str = "",
    seen: Observed | None = None,
    namespace: Namespace | None = None,
) -> View:
    """Compose what one look at a namespace tells; what is not known now stands as it was last published."""
    ours = {} if seen is None or namespace is None else seen.ours(namespace.uid)
    strays, standing = strays or Seen(), standing or Standing(swept=_swept(wfc))
    return View(
        generation=wfc["metadata"]["generation"],
        verdict=verdict,
        stalled=stalled,
        reconciling=reconciling,
        remark=remark,
        strays=strays.note,
        overdue=strays.found.count(Reason.WORKFLOW_PENDING),
        orphaned=strays.found.count(Reason.WORKFLOW_ORPHANED),
        beside=strays.beside,
        unswept=standing.waiting,
        swept=standing.swept,
        drain=drain,
        template=template or published(wfc, "template"),
        revision=revision or published(wfc, "revision"),
        version=version or published(wfc, "version"),
        instance_id=instance_id,
        leader=seen.lease.holder if seen is not None and seen.lease is not None else "",
        work=None if seen is None else seen.work,
        inventory=[f"{ref.kind.kind}/{ref.name}" for ref in ours],
    )
