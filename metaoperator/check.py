"""Whether a set revision may start at all: rendered for every namespace, and asked of the API server by dry-run.

What fails for one namespace starts nowhere. What failed there before, at the revision that it stands at, is that
namespace's own fault and holds nobody up.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from metaoperator import brake, skew
from metaoperator.brake import Brake
from metaoperator.cluster import Cluster
from metaoperator.core import immutable, plan
from metaoperator.core.brake import Member
from metaoperator.core.errors import Gone, Rejected, RetryableError, Stalled
from metaoperator.core.model import Desired, Namespace
from metaoperator.core.move import Severity
from metaoperator.core.names import Reason
from metaoperator.core.plan import Step, Verb
from metaoperator.core.revision import Head, Inputs
from metaoperator.core.status import Note
from metaoperator.core.waves import Share
from metaoperator.fleet import Fleet
from metaoperator.goals import Goal, Goals

log = logging.getLogger(__name__)

AT_ONCE: Final = 16
"""Namespaces that the API server is asked about at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A namespace that has a child: what would be rendered from, and where it stands."""

    namespace: Namespace
    inputs: Inputs
    head: Head | None


@dataclass(slots=True, kw_only=True)
class Checked:
    """What was found so far. `wanted` is the revision that each namespace would get, `faults` why it cannot.

    `removed` would lose their child, which `said`, a person's word, may confirm. `refused` is why it starts nowhere
    although each could have it. `patient` ones are not to be moved while Workflows run. `later` is why the API server
    could not be asked: then it is asked again.
    """

    set_revision: str
    wanted: dict[str, str] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    removed: set[Member] = field(default_factory=set)
    said: str = ""
    moves: dict[str, tuple[str, str, Mapping[str, Any]]] = field(default_factory=dict)
    refused: Note | None = None
    patient: frozenset[str] = frozenset()
    later: str = ""
    done: bool = False

    @property
    def amiss(self) -> bool:
        """Tell whether anything is in its way that may be mended without an event."""
        return bool(self.faults or self.later or self.refused)


class Checker:
    """Checks one goal for many namespaces. Nothing is written."""

    def __init__(self, cluster: Cluster, fleet: Fleet, goals: Goals, brake: Brake) -> None:
        """Remember nothing."""
        self._brake = brake
        self._cluster = cluster
        self._fleet = fleet
        self._goals = goals

    async def check(self, goal: Goal, candidates: Sequence[Candidate], found: Checked) -> None:
        """Fill in what is found, from rendering first: what renders to what is there costs no request."""
        changed: list[tuple[Candidate, Desired]] = []
        for each in candidates:
            await asyncio.sleep(0)  # others go on meanwhile
            desired = await self._rendered(goal, each, found)
            if desired is not None and (each.head is None or each.head.revision != desired.revision):
                changed.append((each, desired))
        if not found.faults:
            places = asyncio.Semaphore(AT_ONCE)
            await asyncio.gather(*(self._asked(each, desired, found, places) for each, desired in changed))
            await self._together(goal, found)
        found.done = not found.later

    async def _rendered(self, goal: Goal, candidate: Candidate, found: Checked) -> Desired | None:
        name, head = candidate.namespace.name, candidate.head
        try:
            desired = await self._goals.wanted(goal, candidate.namespace, candidate.inputs)
        except Stalled as exc:
            own = head is None or await self._goals.fails_anyway(goal, head, candidate.namespace, candidate.inputs)
            if not own:
                found.faults[name] = exc.message
            return None
        found.wanted[name] = desired.revision
        if head is not None and head.version and head.version != desired.version:
            merged = goal.program.effective(fleet=goal.values, namespace=candidate.inputs.values)
            found.moves[name] = head.version, desired.version, merged
        return desired

    async def _asked(self, candidate: Candidate, desired: Desired, found: Checked, places: asyncio.Semaphore) -> None:
        name = candidate.namespace.name
        async with places:
            seen = self._fleet.observe(name, candidate.inputs.instance_id)
            steps = plan.build(
                desired.documents, seen.objects, namespace_uid=candidate.namespace.uid, answers={}, pods=seen.pods
            )
            if any(step.verb is Verb.PRUNE and plan.is_child(step.ref) for step in steps):
                found.removed.add(Member(namespace=name, uid=candidate.namespace.uid))
            for step in steps:
                try:
                    await self._dry_run(step)
                except (Rejected, Gone) as exc:
                    found.faults[name] = f"{step.ref}: {exc}"
                    return
                except RetryableError as exc:
                    found.later = str(exc)
                    return

    async def _together(self, goal: Goal, found: Checked) -> None:
        """Judge what no namespace shows alone: how many lose their child, and what a move to another version needs."""
        found.said = brake.said(goal.manifest)
        if found.removed:
            held = await self._brake.planned(goal.manifest, frozenset(found.removed))
            found.refused = None if held is None else Note(reason=Reason.CHECK_FAILED, message=held.message)
        told = await skew.skew_findings(self._cluster, found.moves)
        for each in told:
            log.info("move to another version", extra={"template": goal.template, "finding": str(each)})
        found.patient = frozenset(name for each in told if each.severity is Severity.WAIT for name in each.namespaces)
        refusing = [each for each in told if each.severity is Severity.REFUSE]
        if not _one_first(goal):
            refusing += [each for each in told if each.severity is Severity.ONE_FIRST]
        if refusing and found.refused is None:
            found.refused = Note(reason=Reason.CHECK_FAILED, message="; ".join(map(str, refusing)))

    async def _dry_run(self, step: Step) -> None:
        if step.manifest is None:
            return
        if step.verb is Verb.REPLACE:
            await self._cluster.apply(immutable.successor(step.manifest), force=False, dry_run=True)
        elif step.verb in {Verb.CREATE, Verb.APPLY}:
            await self._cluster.apply(step.manifest, force=True, dry_run=True)


def _one_first(goal: Goal) -> bool:
    """Tell whether a rollout begins with one child alone."""
    first = goal.policy.waves[0].max_unavailable if goal.policy.waves else None
    return Share(amount=1) in (first, goal.policy.max_unavailable)
