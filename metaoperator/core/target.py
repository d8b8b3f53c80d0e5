"""Which set revision a fleet should have: the one that a person pinned, the source's, or the last stable one.

Nothing is remembered but what the records of the sets say: when each was stable, and when and why it failed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from metaoperator.core.names import Reason
from metaoperator.core.policy import OnFailure, Policy
from metaoperator.core.revision import Head, SetHead
from metaoperator.core.status import Note


class Why(StrEnum):
    """Who chose the target."""

    SOURCE = "Source"
    PINNED = "Pinned"
    ROLLBACK = "Rollback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the fleet goes; without a `set_revision` nobody goes anywhere, and each is kept as it is.

    `stable` tells of sets that did not fail since when the whole fleet had them. `last_stable` is what a namespace gets
    that is new and whose wave has not come. `failed` is why the target is not rolled out, or, in a rollback, why it is
    no more what source or pin say; `forgiven` tells that it had failed before a person resumed.
    """

    set_revision: str | None
    why: Why
    stable: Mapping[str, datetime] = field(default_factory=dict)
    last_stable: str | None = None
    since: datetime | None = None
    failed: Note | None = None
    forgiven: bool = False
    note: Note | None = None

    @property
    def proved(self) -> bool:
        """Tell whether the target is what the whole fleet had last: who comes late to it is no experiment."""
        return self.set_revision is not None and self.set_revision == self.last_stable

    def going_back(self, head: Head) -> bool:
        """Tell whether a member goes back to what the whole fleet had, and needs no care.

        So does everybody in a rollback, or after a person pinned such a revision; and who was moved to another before
        the source went back.
        """
        if self.why is Why.ROLLBACK:
            return True
        had = self.stable.get(self.set_revision or "")
        return had is not None and (
            self.why is Why.PINNED or (head.set_revision not in self.stable and head.since > had)
        )

    def settled(self, head: Head) -> bool:
        """Tell whether the rollout that brought a member where it is has ended: it says nothing of the present one."""
        had = self.stable.get(head.set_revision)
        return had is not None and head.since <= had


def choose(source: str | None, sets: Sequence[SetHead], policy: Policy, *, now: datetime) -> Target:
    """Choose the target of a fleet; `source` is the set revision of the source as it is now, `None` for none usable."""
    known = {each.set_revision: each for each in sets}
    proven = [each for each in sets if each.stable is not None and not _failed(each)]
    ordered = sorted(proven, key=lambda each: (each.stable, each.number))
    last = ordered[-1].set_revision if ordered else None
    why, chosen = (Why.PINNED, policy.revision) if policy.revision else (Why.SOURCE, source)
    stable = {each.set_revision: each.stable for each in proven if each.stable is not None}
    if chosen is None or (why is Why.PINNED and chosen not in known):
        return Target(
            set_revision=None,
            why=why,
            stable=stable,
            last_stable=last,
            note=_lost(policy) if policy.revision else None,
        )
    head = known.get(chosen)
    since, failed, forgiven = (None if head is None else head.since), None, False
    if head is not None and head.failed is not None and _failed(head):
        resumed = policy.resumed(now)
        forgiven = resumed is not None and resumed >= head.failed
        failed = None if forgiven else Note(reason=Reason.ROLLOUT_FAILED, message=f"{chosen} failed: {head.why}")
    if failed is not None and policy.on_failure is OnFailure.ROLLBACK and last is not None:
        since = known[last].since  # it is another one: what failed is not among those that are stable
        return Target(set_revision=last, why=Why.ROLLBACK, stable=stable, last_stable=last, since=since, failed=failed)
    return Target(
        set_revision=chosen,
        why=why,
        stable=stable,
        last_stable=last,
        since=since,
        failed=failed,
        forgiven=forgiven,
    )


def _failed(head: SetHead) -> bool:
    """Tell whether a set failed, and was not stable afterwards: that is the better proof, whoever resumed."""
    return head.failed is not None and (head.stable is None or head.stable < head.failed)


def _lost(policy: Policy) -> Note:
    message = (
        f"spec.rollout.revision is {policy.revision}, which is not recorded: everything stays as it is (correct it, or "
        "take it out; metaoperator rollout history shows what there is)"
    )
    return Note(reason=Reason.REVISION_NOT_FOUND, message=message)
