"""The deletion brake: counts over the fleet which children are to go, before the first of them does.

What is leaving is read from the cluster at each look. Only two things are the memory of this process: what was removed
within the last hour, and how long a namespace has been seen to leave.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from metaoperator import publish
from metaoperator.core import brake, names, optin, ownership
from metaoperator.core.brake import Census, Decision, Member
from metaoperator.core.model import CONTROLLER_TEMPLATE, DEPLOYMENT, NAMESPACE, Manifest, Namespace, Ref
from metaoperator.core.names import Reason
from metaoperator.core.status import Drain, Note
from metaoperator.fleet import Fleet
from metaoperator.mirror import Mirror

SETTLE_SECONDS: Final = 5.0
"""A change of many namespaces arrives one by one: so long the first of them waits for the others."""
HELD_SECONDS: Final = 60.0
_FRESH_SECONDS: Final = 1.0
"""So old may a count be. It is less than the time to settle: it saw whoever has settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The removal of a child waits: for a person, with a `note`, or to see whether it is one of many."""

    note: Note | None
    again: float


@dataclass(slots=True, kw_only=True)
class _Counted:
    """All children, by ControllerTemplate, as of one moment."""

    at: float
    there: dict[str, set[Member]] = field(default_factory=lambda: defaultdict(set))
    leaving: dict[str, set[Member]] = field(default_factory=lambda: defaultdict(set))
    template_of: dict[Member, str] = field(default_factory=dict)
    """Of those that are leaving."""
    templates: dict[str, Manifest] = field(default_factory=dict)


class Brake:
    """Says of each child that is to go whether it may. `changed(ref, delay)` asks for a look at what is concerned."""

    def __init__(
        self,
        mirror: Mirror,
        fleet: Fleet,
        *,
        namespace: str,
        deny: frozenset[str] = frozenset(),
        settle: float = 0.0,
        changed: Callable[[Ref, float], None] = lambda *_: None,
    ) -> None:
        """Know nothing yet; without time to `settle`, whoever comes first may go first."""
        self._mirror = mirror
        self._fleet = fleet
        self._own, self._deny = namespace, deny
        self._settle = settle
        self._changed = changed
        self._counting = asyncio.Lock()
        self._counted: _Counted | None = None
        self._since: dict[Member, float] = {}
        self._pruning: dict[Member, str] = {}
        self._going: set[Member] = set()
        self._begun: dict[Member, tuple[str, float]] = {}
        self._confirmed: set[Member] = set()
        self._held: dict[str, frozenset[Member]] = {}
        self._terms: dict[str, tuple[str, str]] = {}

    def forget(self, namespace: str) -> None:
        """Take note that nobody wants to remove a child, or that it is gone: what the last hour saw still counts."""
        for times in (self._since, self._pruning):
            for each in [each for each in times if each.namespace == namespace]:
                del times[each]
        for members in (self._going, self._confirmed):
            members.difference_update([each for each in members if each.namespace == namespace])
        for template, held in self._held.items():
            if any(each.namespace == namespace for each in held):
                self._changed(Ref(CONTROLLER_TEMPLATE, "", template), _FRESH_SECONDS)

    async def leaving(self, namespace: Namespace, *, begin: bool = False) -> Held | None:
        """Say whether a namespace that has opted out has to wait; with `begin`, its removal begins if it has not."""
        return await self._may(Member(namespace=namespace.name, uid=namespace.uid), begin=begin)

    async def pruning(self, namespace: Namespace, template: str, *, begin: bool = False) -> Held | None:
        """Say the same of a child that its set no longer renders."""
        member = Member(namespace=namespace.name, uid=namespace.uid)
        self._pruning[member] = template
        held = await self._may(member, begin=begin)
        if held is not None:
            self._changed(Ref(NAMESPACE, "", namespace.name), held.again)
        return held

    async def planned(self, template: Manifest, members: frozenset[Member]) -> Note | None:
        """Say what holds a change that would remove these children together; `None` where they may go."""
        counted, name = await self._count(), template["metadata"]["name"]
        recent = frozenset(each for each, (where, _) in self._begun.items() if where == name)
        decision = brake.decide(
            Census(
                there=frozenset(counted.there.get(name, ())) | members,
                leaving=members - self._going,
                recent=recent,
                confirmed=frozenset(self._confirmed),
            ),
            template.get("spec") or {},
            {said(template)},
        )
        self._confirmed |= decision.confirmed
        if not decision.held:
            return None
        return Note(reason=Reason.DELETION_LIMIT, message=brake.for_change(decision, name))

    def confirmed(self, namespace: Namespace) -> bool:
        """Tell whether a person has confirmed that this child is to go."""
        return Member(namespace=namespace.name, uid=namespace.uid) in self._confirmed

    async def note(self, template: Manifest) -> Note | None:
        """Say what is held of one ControllerTemplate's children. What a person changed in it is news to those."""
        name = template["metadata"]["name"]
        terms = (said(template), repr(template["spec"].get("deletionLimit")))
        if self._terms.get(name) != terms:
            self._terms[name] = terms
            self._counted = None
            for each in sorted(frozenset[Member]().union(*self._held.values())):  # a word counts wherever it is said
                self._changed(Ref(NAMESPACE, "", each.namespace), 0.0)
        decision = self._decide(await self._count(), name)
        if not decision.held:
            return None
        return Note(reason=Reason.DELETION_LIMIT, message=brake.for_template(decision, name))

    async def _may(self, member: Member, *, begin: bool) -> Held | None:
        now = asyncio.get_running_loop().time()
        new = member not in self._since
        since = self._since.setdefault(member, now)
        if len(self._fleet.objects[DEPLOYMENT].namespaces()) > brake.FLOOR and now < since + self._settle:
            return Held(note=None, again=since + self._settle - now)
        if new:
            self._counted = None
        counted = await self._count()
        if member in self._going or member not in counted.template_of:
            return None  # what has begun is brought to its end, and where no child is left, there is none to keep
        template = counted.template_of[member]
        decision = self._decide(counted, template)
        if member in decision.held:
            told = brake.for_namespace(decision, template, there=template in counted.templates)
            note = Note(reason=Reason.DELETION_LIMIT, message=told)
            return Held(note=note, again=HELD_SECONDS)
        if begin:
            self._going.add(member)
            if member not in decision.confirmed:
                self._begun[member] = template, asyncio.get_running_loop().time()
        return None

    def _decide(self, counted: _Counted, template: str) -> Decision:
        now = asyncio.get_running_loop().time()
        self._begun = {
            each: (where, at) for each, (where, at) in self._begun.items() if now < at + brake.WINDOW_SECONDS
        }
        leaving = counted.leaving.get(template, set()) - self._going
        decision = brake.decide(
            Census(
                there=frozenset(counted.there.get(template, ())),
                leaving=frozenset(leaving),
                recent=frozenset(each for each, (where, _) in self._begun.items() if where == template),
                confirmed=frozenset(self._confirmed),
            ),
            counted.templates.get(template, {}).get("spec") or {},
            {said(each) for each in counted.templates.values()},
        )
        self._confirmed |= decision.confirmed
        if self._held.get(template, frozenset()) != decision.held:
            self._held[template] = decision.held
            self._changed(Ref(CONTROLLER_TEMPLATE, "", template), 0.0)
        return decision

    async def _count(self) -> _Counted:
        """Find all children and who of them is leaving, or raise: half a fleet is nothing to decide by."""
        async with self._counting:
            now = asyncio.get_running_loop().time()
            if self._counted is not None and now < self._counted.at + _FRESH_SECONDS:
                return self._counted
            counted = _Counted(at=now)
            for name in sorted(self._fleet.objects[DEPLOYMENT].namespaces()):
                await self._one(name, counted)
            counted.templates = {each["metadata"]["name"]: each for each in self._mirror.copies(CONTROLLER_TEMPLATE)}
            for name in counted.there:
                live = await self._mirror.get(Ref(CONTROLLER_TEMPLATE, "", name))
                if live is not None:
                    counted.templates[name] = live
            self._counted = counted
            return counted

    async def _one(self, name: str, counted: _Counted) -> None:
        children = self._fleet.objects[DEPLOYMENT]
        if children.version(name, names.WORKFLOW_CONTROLLER) is None:
            return
        raw = await self._mirror.get(Ref(NAMESPACE, "", name))
        if raw is None:
            return
        found = Namespace.of(raw)
        member = Member(namespace=name, uid=found.uid)
        match optin.stage(found, own_namespace=self._own, denied=self._deny):
            case optin.Served(template=template):
                counted.there[template].add(member)
                leaves = self._pruning.get(member) == template
            case optin.OptedOut():
                if not _stands(children.get(name, names.WORKFLOW_CONTROLLER), found):
                    return
                wfc = await self._mirror.get(publish.wfc_ref(name)) or {}
                status = wfc.get("status") or {}
                # Whose it was stands in the row; a child without one counts among those of the default.
                template = str(status.get("template") or names.DEFAULT_TEMPLATE)
                counted.there[template].add(member)
                leaves = not (wfc.get("spec") or {}).get("paused")  # a paused one goes nowhere
                if Drain.of(status).confirmed:
                    self._confirmed.add(member)
            case _:
                return
        if leaves and _stands(children.get(name, names.WORKFLOW_CONTROLLER), found):
            counted.leaving[template].add(member)
            counted.template_of[member] = template


def _stands(child: Manifest | None, namespace: Namespace) -> bool:
    """Tell whether a Deployment is a child of ours that nobody has deleted."""
    if child is None or "deletionTimestamp" in child["metadata"]:
        return False
    return ownership.is_ours(child, namespace.uid)


def said(template: Manifest) -> str:
    """Read by which word a person confirmed a removal."""
    return str((template["metadata"].get("annotations") or {}).get(names.CONFIRM_REMOVAL_ANNOTATION, ""))
