"""What a change would do to a whole fleet: every namespace's next pass, rehearsed, and equal ones told together.

Lists are read once for all namespaces. Of each namespace no more is kept than what it adds to its group, so that a
thousand of them cost what one costs, and the lists.
"""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from metaoperator import pretence, preview, skew
from metaoperator.catalogue import Catalogue
from metaoperator.cluster import Selection
from metaoperator.core import names, optin, paths, plan, unified, widening
from metaoperator.core.alike import Mask
from metaoperator.core.errors import ConfigError, Gone, MetaoperatorError, RetryableError, TemplateError, ValuesError
from metaoperator.core.model import (
    CONTROLLER_TEMPLATE,
    DEPLOYMENT,
    NAMESPACE,
    WORKFLOW_CONTROLLER,
    Namespace,
    Ref,
)
from metaoperator.core.render import Program
from metaoperator.core.skew import Finding
from metaoperator.fleet import Fleet
from metaoperator.pretence import Assumed
from metaoperator.preview import Change, Preview
from metaoperator.rehearsal import Rehearsal
from metaoperator.settings import Settings

WRITES: Final = frozenset({"created", "changed", "replaced", "adopted", "pruned"})
AMISS: Final = frozenset({"conflict", "held", "refused", "unknown"})
_ALIKE: Final = 200
"""Up to so many groups are held against each other once more, for namespaces whose names are everyday words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What becomes of one object in each namespace of a group: names are placeholders where they differ."""

    kind: str
    name: str
    what: str
    why: str
    diff: str
    asked: bool
    widening: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Group:
    """Namespaces to which the very same happens."""

    parts: tuple[Part, ...]
    notes: tuple[str, ...]
    stalled: str
    leaving: bool
    restarts: bool
    """Whether the controller's pods are replaced."""
    companions: int
    """Other Deployments whose pods are replaced."""
    deletions: int
    child_goes: bool
    namespaces: list[str] = field(default_factory=list)

    @property
    def changes(self) -> bool:
        """Tell whether anything is written in these namespaces."""
        return any(part.what in WRITES for part in self.parts)

    @property
    def amiss(self) -> bool:
        """Tell whether a person has to mend something before these namespaces are as they should be."""
        return bool(self.stalled) or any(part.what in AMISS for part in self.parts)

    @property
    def by_value(self) -> bool:
        """Tell whether anything was compared without asking the API server."""
        return not all(part.asked for part in self.parts)

    @property
    def widening(self) -> tuple[str, ...]:
        """Say what is gained in these namespaces."""
        return tuple(dict.fromkeys(told for part in self.parts for told in part.widening))


@dataclass(slots=True, kw_only=True)
class Outlook:
    """A fleet's next pass. Largest groups come first, those that need a person before those that change."""

    groups: list[Group] = field(default_factory=list)
    failed: dict[str, MetaoperatorError] = field(default_factory=dict)
    versions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many namespaces go from which version of Argo to which."""
    skew: list[Finding] = field(default_factory=list)
    skew_unknown: str = ""

    @property
    def total(self) -> int:
        """Count the namespaces that were looked at."""
        return sum(len(group.namespaces) for group in self.groups) + len(self.failed)

    def count(self, what: str) -> int:
        """Count the namespaces of all groups of which something is true."""
        return sum(len(group.namespaces) for group in self.groups if getattr(group, what))

    def sum(self, what: str) -> int:
        """Add up what is counted in each namespace."""
        return sum(len(group.namespaces) * int(getattr(group, what)) for group in self.groups if not group.leaving)

    @property
    def settled(self) -> bool:
        """Tell whether nothing would be written, and nothing is missed."""
        return not self.failed and not any(group.changes or group.amiss for group in self.groups)


async def of(cluster: Rehearsal, assumed: Assumed, settings: Settings) -> Outlook:
    """Rehearse the next pass over every namespace that is opted in, or holds anything of ours."""
    wanted = await _read_ahead(cluster, _OPTED_IN)
    for kind in (CONTROLLER_TEMPLATE, WORKFLOW_CONTROLLER):
        await _read_ahead(cluster, Selection(kind=kind))
    catalogue = await pretence.catalogue(cluster, assumed, own_namespace=settings.namespace)
    fleet = await preview.look(cluster, catalogue.kinds, kept=True)
    looker = _Looker(cluster, assumed, settings, fleet, catalogue)
    await looker.look(sorted({*wanted, *fleet.marked_namespaces()}))
    found = looker.found()
    found.versions = Counter((before, after) for before, after, _ in looker.moves.values())
    try:
        found.skew = await skew.skew_findings(cluster, looker.moves)
    except RetryableError as exc:
        found.skew_unknown = str(exc)
    return found


_OPTED_IN: Final = Selection(kind=NAMESPACE, label_selector=names.OPT_IN_LABEL)


async def _read_ahead(cluster: Rehearsal, selection: Selection) -> list[str]:
    """List once what every namespace asks for, and name it; of a kind of ours that is not there, there is nothing."""
    cluster.keep([selection])
    found: list[str] = []
    try:
        async for page in cluster.list_pages(selection):
            found += [item["metadata"]["name"] for item in page["items"]]
    except Gone:
        if selection.kind == NAMESPACE:
            raise
    return found


class _Looker:
    """Looks at one namespace after the other, `preview.AT_ONCE` at a time."""

    def __init__(
        self,
        cluster: Rehearsal,
        assumed: Assumed,
        settings: Settings,
        fleet: Fleet,
        catalogue: Catalogue,
    ) -> None:
        self._cluster = cluster
        self._assumed = assumed
        self._settings = settings
        self._fleet = fleet
        self._catalogue = catalogue
        self._merged: dict[str, Mapping[str, Any]] = {}
        self._groups: dict[str, Group] = {}
        self._masks: dict[str, Mask] = {}
        self._failed: dict[str, MetaoperatorError] = {}
        self.moves: dict[str, tuple[str, str, Mapping[str, Any]]] = {}

    async def look(self, wanted: list[str]) -> None:
        """Go through them all; what goes wrong with one is its own."""
        left = iter(wanted)

        async def worker() -> None:
            for name in left:
                try:
                    found = await preview.of(self._cluster, name, self._assumed, self._settings, self._fleet)
                    if self._take(found).changes and found.version:
                        values = await self._values(name) if found.before != found.version else {}
                        self.moves[name] = found.before, found.version, values
                except ConfigError:
                    continue  # gone since it was listed
                except MetaoperatorError as exc:
                    self._failed[name] = exc
                finally:
                    self._cluster.leave(name)

        await asyncio.gather(*(worker() for _ in range(preview.AT_ONCE)))

    async def _values(self, name: str) -> Mapping[str, Any]:
        """Merge the values of a namespace as they are taken here; empty where they do not go together."""
        live = await self._cluster.get(Ref(NAMESPACE, "", name))
        stage = optin.stage(
            None if live is None else Namespace.of(live),
            own_namespace=self._settings.namespace,
            denied=self._settings.deny,
        )
        template = await self._cluster.get(Ref(CONTROLLER_TEMPLATE, "", getattr(stage, "template", "")))
        row = await self._cluster.get(Ref(WORKFLOW_CONTROLLER, name, names.WORKFLOW_CONTROLLER))
        if template is None:
            return {}
        program = self._catalogue.get(template)
        if not isinstance(program, Program):
            return {}
        own = paths.mapping(row or {}, "spec", "values")
        key = json.dumps([template["metadata"]["name"], own], sort_keys=True)
        if key not in self._merged:
            try:
                self._merged[key] = program.effective(fleet=paths.mapping(template, "spec", "values"), namespace=own)
            except (TemplateError, ValuesError):
                self._merged[key] = {}
        return self._merged[key]

    def _take(self, found: Preview) -> Group:
        mask = Mask(found.namespace, found.uid, found.instance_id)
        group = _group(found, mask)
        key = hashlib.sha256(_key(group).encode()).hexdigest()
        kept = self._groups.setdefault(key, group)
        kept.namespaces.append(found.namespace)
        self._masks.setdefault(key, mask)
        return kept

    def found(self) -> Outlook:
        """Tell the groups, everyday names put where they belong."""
        self._join()
        for group in self._groups.values():
            group.namespaces.sort()
        ordered = sorted(
            self._groups.values(),
            key=lambda group: (not group.amiss, not group.changes, -len(group.namespaces), group.namespaces),
        )
        return Outlook(groups=ordered, failed=dict(sorted(self._failed.items())))

    def _join(self) -> None:
        """Put a namespace that is alone into a group whose change is its own, once the placeholders are filled in."""
        if not 1 < len(self._groups) <= _ALIKE:
            return
        texts = {key: _key(group) for key, group in self._groups.items()}
        for key in sorted(self._groups, key=lambda each: len(self._groups[each].namespaces)):
            mask = self._masks[key]
            if len(self._groups[key].namespaces) > 1:
                break
            mine = mask.expanded(texts[key])
            others = [each for each in self._groups if each != key and mask.expanded(texts[each]) == mine]
            if others:
                into = max(others, key=lambda each: len(self._groups[each].namespaces))
                self._groups[into].namespaces += self._groups.pop(key).namespaces


def _group(found: Preview, mask: Mask) -> Group:
    changed = [change for change in found.changes if change.what != "unchanged"]
    replaced = [change for change in changed if _replaces_pods(change)]
    return Group(
        parts=tuple(_part(change, mask) for change in changed),
        notes=tuple(mask.text(note) for note in found.notes),
        stalled=mask.text(found.stalled),
        leaving=found.leaving,
        restarts=any(plan.is_child(change.ref) for change in replaced),
        companions=sum(not plan.is_child(change.ref) for change in replaced),
        deletions=sum(change.what == "pruned" for change in changed),
        child_goes=any(change.leaves and plan.is_child(change.ref) for change in changed),
    )


def _part(change: Change, mask: Mask) -> Part:
    before = after = None
    asked = True
    if change.write is not None:
        before, after, asked = mask.manifest(change.write.before), mask.manifest(change.write.after), change.write.asked
    ref = replace(change.ref, namespace=mask.text(change.ref.namespace), name=mask.text(change.ref.name))
    return Part(
        kind=change.ref.kind.kind,
        name=ref.name,
        what=change.what,
        why=mask.text(change.why),
        diff=unified.diff(ref, before, after) if before is not None or after is not None else "",
        asked=asked,
        widening=tuple(widening.widened(before, after)),
    )


def _replaces_pods(change: Change) -> bool:
    """Tell whether the pods of a Deployment that is there, and wants any, end and others begin."""
    if change.ref.kind != DEPLOYMENT or change.write is None or change.write.before is None:
        return False
    if change.what == "replaced":
        return True
    before, after = (paths.mapping(each or {}, "spec") for each in (change.write.before, change.write.after))
    return change.what in {"changed", "adopted"} and before.get("template") != after.get("template")


def _key(group: Group) -> str:
    return json.dumps(list(_fields(group)))


def _fields(group: Group) -> Iterator[Any]:
    yield from (group.notes, group.stalled, group.leaving)
    for part in group.parts:
        yield from (part.kind, part.name, part.what, part.why, part.diff, part.asked)
