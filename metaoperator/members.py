"""Who belongs to the fleet of a ControllerTemplate, and how each one does, as it was published. Nothing is sent."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from metaoperator.core import names, optin, revision, status
from metaoperator.core.model import DEPLOYMENT, NAMESPACE, WORKFLOW_CONTROLLER, Manifest, Namespace
from metaoperator.core.names import Condition, Reason
from metaoperator.core.revision import Head
from metaoperator.core.standing import Child
from metaoperator.fleet import Fleet
from metaoperator.mirror import Mirror
from metaoperator.revisions import Revisions
from metaoperator.settings import Settings

_OWN_FAULTS: Final = frozenset(
    {
        Reason.VALUES_INVALID,
        Reason.OVERLAP,
        Reason.INSTANCE_ID_CHANGED,
        Reason.INSTANCE_ID_UNSUPPORTED,
        Reason.ADOPTION_REFUSED,
        Reason.SPEC_LOST,
    }
)
"""What a namespace waits for a person with, whatever revision it has: it holds up nobody else."""
_FAILING: Final = frozenset(
    {Reason.POD_FAILING, Reason.POD_REFUSED, Reason.DEPLOYMENT_FAILED, Reason.LEASE_STALE, Reason.ARGO_CRDS_MISSING}
)
"""How a child fails with what was applied, and does not come right by itself."""
_REFUSED: Final = frozenset(
    {
        Reason.CONFLICT,
        Reason.IMMUTABLE,
        Reason.REJECTED,
        Reason.QUOTA_EXCEEDED,
        Reason.OPERATOR_FORBIDDEN,
        Reason.KIND_UNSEEN,
        Reason.DELETION_LIMIT,
    }
)
"""Why it could not even be applied."""
_LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One namespace of a fleet: as it is labelled, its row, and what is recorded of it."""

    namespace: Namespace
    row: Manifest | None
    head: Head | None

    @property
    def spec(self) -> Mapping[str, Any]:
        """What its row says."""
        return (self.row or {}).get("spec") or {}

    @property
    def status(self) -> Mapping[str, Any]:
        """What was published of it."""
        return (self.row or {}).get("status") or {}

    @property
    def apart(self) -> str:
        """Say why it is told apart from the others; empty where it is not."""
        if self.spec.get("paused"):
            return "its own spec.paused is set"
        stalled = status.condition(self.status, Condition.STALLED)
        if stalled.get("status") == "True" and stalled.get("reason") in _OWN_FAULTS:
            return f"{stalled['reason']}: {stalled.get('message', '')}"
        return ""

    @property
    def work(self) -> int | None:
        """Count its unfinished Workflows, as they were published."""
        counts = self.status.get("workflows")
        return None if counts is None else int(counts.get("running", 0)) + int(counts.get("pending", 0))

    def child(self, now: datetime) -> Child:
        """Say how its child does with what is recorded: before that is applied, it is not ready."""
        ready = status.condition(self.status, Condition.READY)
        under_way = status.condition(self.status, Condition.RECONCILING)
        settled = under_way.get("status") != "True" or under_way.get("reason") in names.TURNS
        applied = self.head is None or self.status.get("revision") == self.head.revision
        reason = str(ready.get("reason", Reason.INSTALLING))
        return Child(
            ready=ready.get("status") == "True" and applied and settled,
            failed=ready.get("status") != "True" and (reason in _REFUSED or (applied and reason in _FAILING)),
            since=_moment(ready.get("lastTransitionTime")) or now,
            reason=reason,
            message=str(ready.get("message", "")),
        )


class Members:
    """Reads fleets out of the copies at hand."""

    def __init__(self, mirror: Mirror, fleet: Fleet, revisions: Revisions, settings: Settings) -> None:
        """Remember nothing."""
        self._mirror = mirror
        self._fleet = fleet
        self._revisions = revisions
        self._settings = settings

    @property
    def known(self) -> bool:
        """Tell whether all of every fleet is at hand: who is not seen yet would be left out of its wave."""
        return self._revisions.synced and all(self._mirror.whole(kind) for kind in (NAMESPACE, WORKFLOW_CONTROLLER))

    def of(self, template: str) -> Iterator[Found]:
        """Go through the namespaces that are served with a ControllerTemplate, by name."""
        rows = {row["metadata"]["namespace"]: row for row in self._mirror.copies(WORKFLOW_CONTROLLER)}
        for live in self._mirror.copies(NAMESPACE):
            namespace = Namespace.of(live)
            found = optin.stage(namespace, own_namespace=self._settings.namespace, denied=self._settings.deny)
            if isinstance(found, optin.Served) and found.template == template:
                yield Found(namespace=namespace, row=rows.get(namespace.name), head=self.head(namespace))

    def head(self, namespace: Namespace) -> Head | None:
        """Find what is recorded of a namespace; of a child without a record, that it has been there for long."""
        head = self._revisions.current(namespace.uid)
        if head is not None:
            return head
        child = self._fleet.objects[DEPLOYMENT].get(namespace.name, names.WORKFLOW_CONTROLLER)
        return None if child is None else unrecorded(namespace)


def unrecorded(namespace: Namespace) -> Head:
    """Stand for the record of a child that has none: whatever it was given, that was long ago, and it works."""
    return Head(
        name="",
        uid="",
        namespace=namespace.name,
        namespace_uid=namespace.uid,
        template="",
        set_revision="",
        revision="",
        number=0,
        version="",
        before=revision.NEW,
        since=_LONG_AGO,
        proven=_LONG_AGO,
    )


def _moment(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
