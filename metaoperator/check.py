"""Whether a set revision may start at all: rendered for every namespace, and asked of the API server by dry-run.

What fails for one namespace starts nowhere. What failed there before, at the revision that it stands at, is that
namespace's own fault and holds nobody up.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from metaoperator.cluster import Cluster
from metaoperator.core import immutable, plan
from metaoperator.core.errors import Gone, Rejected, RetryableError, Stalled
from metaoperator.core.model import Desired, Namespace
from metaoperator.core.plan import Step, Verb
from metaoperator.core.revision import Head, Inputs
from metaoperator.fleet import Fleet
from metaoperator.goals import Goal, Goals

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

    `own` ones could not be rendered where they stand either. `removed` would lose their child. `later` is why the API
    server could not be asked: then it is asked again.
    """

    set_revision: str
    wanted: dict[str, str] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    versions: dict[str, tuple[str, str]] = field(default_factory=dict)
    later: str = ""
    done: bool = False


class Checker:
    """Checks one goal for many namespaces. Nothing is written."""

    def __init__(self, cluster: Cluster, fleet: Fleet, goals: Goals) -> None:
        """Remember nothing."""
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
        found.done = not found.later

    async def _rendered(self, goal: Goal, candidate: Candidate, found: Checked) -> Desired | None:
        name, head = candidate.namespace.name, candidate.head
        try:
            desired = self._goals.render(goal, candidate.namespace, candidate.inputs, remember=True)
        except Stalled as exc:
            own = head is None or await self._goals.fails_anyway(goal, head, candidate.namespace, candidate.inputs)
            (found.own if own else found.faults)[name] = exc.message
            return None
        found.wanted[name] = desired.revision
        if head is not None and head.version != desired.version:
            found.versions[name] = head.version, desired.version
        return desired

    async def _asked(self, candidate: Candidate, desired: Desired, found: Checked, places: asyncio.Semaphore) -> None:
        name = candidate.namespace.name
        async with places:
            seen = self._fleet.observe(name, candidate.inputs.instance_id)
            steps = plan.build(
                desired.documents, seen.objects, namespace_uid=candidate.namespace.uid, answers={}, pods=seen.pods
            )
            if any(step.verb is Verb.PRUNE and plan.is_child(step.ref) for step in steps):
                found.removed.append(name)
            for step in steps:
                try:
                    await self._dry_run(step)
                except (Rejected, Gone) as exc:
                    found.faults[name] = f"{step.ref}: {exc}"
                    return
                except RetryableError as exc:
                    found.later = str(exc)
                    return

    async def _dry_run(self, step: Step) -> None:
        if step.manifest is None:
            return
        if step.verb is Verb.REPLACE:
            await self._cluster.apply(immutable.successor(step.manifest), force=False, dry_run=True)
        elif step.verb in {Verb.CREATE, Verb.APPLY}:
            await self._cluster.apply(step.manifest, force=True, dry_run=True)
