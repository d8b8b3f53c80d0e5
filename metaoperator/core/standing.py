"""How one namespace stands in a rollout: where it is, whether it proves anything, and what that means for the others.

Recomputed from facts at each look: what its record says, and how its child does. Whoever looks has watched only since
`began`; so nothing counts as healthy, or as late, for longer than that: a predecessor may have died between writing a
record and applying it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from metaoperator.core.policy import Policy
from metaoperator.core.revision import NEW, OWN, READY, Head
from metaoperator.core.target import Target
from metaoperator.core.waves import Wave

FAILED_SECONDS: Final = 20.0
"""For as long a child may look failed that is not: its image is pulled again, its quota is just being raised."""
_FREE: Final = frozenset({NEW, OWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """How a child does; `since` is when it last became Ready or ceased to be.

    It is judged after what its namespace's record says was applied, and not Ready before.
    """

    ready: bool
    since: datetime
    failed: bool = False
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A namespace of the fleet.

    `wanted` is the revision that the target renders for it, `None` where it renders none. `apart` says why it is told
    apart, such as a pause of its own; it then holds up nobody. `claimed` from when it was admitted until its documents
    are applied. `work` counts its unfinished Workflows, `None` where that is not known.
    """

    namespace: str
    uid: str
    child: Child
    labels: Mapping[str, str] = field(default_factory=dict)
    head: Head | None = None
    wanted: str | None = None
    failing_seconds: float = 0.0
    apart: str = ""
    work: int | None = 0
    claimed: bool = False

    @property
    def there(self) -> bool:
        """Tell whether it is at the target; who has the same bytes already need not move."""
        return self.head is not None and self.head.revision == self.wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all of them are judged on."""

    policy: Policy
    target: Target
    now: datetime
    began: datetime
    resumed: datetime | None

    def moment(self, stamp: datetime) -> datetime:
        """Read a stamp: one that is yet to come was written by a clock that was ahead; it counts from when we began."""
        return stamp if stamp <= self.now else self.began

    def left(self, seconds: float, *stamps: datetime, resumed: bool = False) -> float:
        """Count how much of a time is left that runs from the last of some moments; a resumption may begin it anew."""
        since = max(self.began, *map(self.moment, stamps))
        if resumed and self.resumed is not None:
            since = max(since, self.resumed)
        return seconds - (self.now - since).total_seconds()

    def moved(self, head: Head) -> bool:
        """Tell whether it was this rollout that brought a member where it is."""
        return head.set_revision == self.target.set_revision and not self.target.settled(head)

    def forgives(self, head: Head, child: Child) -> bool:
        """Tell whether a person resumed after a child had become ill: that is not held against the target any more."""
        if self.resumed is None or child.ready or (head.proven is None and not self.target.forgiven):
            return False
        return max(self.moment(head.since), self.moment(child.since)) <= self.resumed


@dataclass(slots=True, kw_only=True)
class Standing:
    """How a member stands, and what follows.

    `pending` is who has to move. `complete` members do not keep their wave open; `unavailable` ones take from the
    budget, `ailing` ones from that of those who were ill before; `holding` ones hold admission. `failed` ones fail the
    rollout, `lost` ones were proven first and pause it. `proof` shows that the target works, `changed` that it might
    not: its bytes were, or are to be, changed by this rollout. `due` is how many seconds until time alone changes it.
    """

    member: Member
    there: bool = False
    pending: bool = False
    back: bool = False
    ill: bool = False
    complete: bool = False
    unavailable: bool = False
    ailing: bool = False
    holding: bool = False
    failed: bool = False
    lost: bool = False
    proof: bool = False
    changed: bool = False
    soaking: bool = False
    prove: bool = False
    due: float | None = None

    def look_again(self, seconds: float) -> None:
        """Note when time alone changes something; what is past changes nothing more."""
        if seconds > 0:
            self.due = seconds if self.due is None else min(self.due, seconds)

    def write_off(self) -> None:
        """Accept it as it is: the policy lets so many fail."""
        self.complete, self.unavailable, self.holding = True, False, False


def before(head: Head | None, child: Child) -> str:
    """Say what is recorded of a namespace that is about to be moved: how it was.

    Who is ill at a revision that was never proven there takes over what is recorded of that move: the fix of a bad
    revision does not find its victims ill before. Such a one, ill itself, blames the fix for nothing that it found ill.
    """
    if head is None:
        return NEW
    if child.ready:
        return READY
    return head.before if head.proven is None else child.reason or "Unknown"


def of(member: Member, wave: Wave, ground: Ground) -> Standing:
    """Judge one member."""
    standing = Standing(member=member, there=member.there)
    head, soak = member.head, ground.policy.soak_seconds if wave.soak_seconds is None else wave.soak_seconds
    if head is not None and head.proven is None and member.child.ready and not member.claimed:
        # Wherever it is: who waits has something to prove too, or it would seem to have been ill there.
        left = ground.left(soak, head.since, member.child.since)
        standing.prove, standing.soaking = left <= 0, left > 0
        standing.look_again(left)
    if member.apart or (not standing.there and member.wanted is None):
        standing.complete, standing.changed = True, not standing.there
    elif head is None or not standing.there:
        standing.pending = True
        standing.back = head is not None and ground.target.going_back(head)
        standing.ill = head is not None and not member.child.ready and before(head, member.child) != READY
        if head is not None and (member.claimed or _still_starting(standing, head, ground)):
            standing.ailing, standing.unavailable = standing.ill, not standing.ill
    else:
        standing.changed = ground.moved(head) and head.before != NEW
        standing.proof = ground.moved(head) and head.proven is not None
        if head.proven is not None:
            _proven(standing, head, ground)
        elif head.before in _FREE or ground.target.settled(head):
            standing.complete = True
        elif head.before == READY and not ground.forgives(head, member.child):
            _under_way(standing, head, soak, ground)
        else:
            _given_up(standing, head, ground)
    return standing


def _proven(standing: Standing, head: Head, ground: Ground) -> None:
    """Judge who was proven at the target; who came by its own way, or long ago, says nothing of this rollout."""
    standing.complete, child = True, standing.member.child
    if ground.moved(head) and head.before not in _FREE and not child.ready and not ground.forgives(head, child):
        standing.unavailable, standing.holding = True, child.failed
        left = ground.left(ground.policy.progress_deadline_seconds, child.since, resumed=True)
        standing.lost = left <= 0
        standing.look_again(left)


def _still_starting(standing: Standing, head: Head, ground: Ground) -> bool:
    """Tell whether an earlier move took down who has to move again, and it may yet come up: it takes from the budget.

    Who fails, or is late, takes nothing: what mends it may have to go through earlier waves first.
    """
    child = standing.member.child
    if child.ready or child.failed or standing.ill:
        return False
    left = ground.left(ground.policy.progress_deadline_seconds, head.since)
    standing.look_again(left)
    return left > 0


def _under_way(standing: Standing, head: Head, soak: float, ground: Ground) -> None:
    """Judge who was well before, and has yet to prove that it still is."""
    member, child = standing.member, standing.member.child
    standing.unavailable, standing.holding = not child.ready or member.claimed, child.failed
    deadline = ground.policy.progress_deadline_seconds + (soak if child.ready else 0)
    left = ground.left(deadline, head.since, resumed=True)
    standing.failed = left <= 0 and not standing.prove
    standing.look_again(left)
    if child.failed:
        failing = member.failing_seconds
        if ground.resumed is not None:
            failing = min(failing, (ground.now - ground.resumed).total_seconds())
        standing.failed |= failing >= FAILED_SECONDS
        standing.look_again(FAILED_SECONDS - failing)


def _given_up(standing: Standing, head: Head, ground: Ground) -> None:
    """Judge who was ill before, or was forgiven: it proves nothing, and after its deadline nobody waits for it."""
    left = ground.left(ground.policy.progress_deadline_seconds, head.since, resumed=True)
    standing.complete = left <= 0
    standing.ailing = standing.member.claimed or (not standing.member.child.ready and left > 0)
    standing.look_again(left)
