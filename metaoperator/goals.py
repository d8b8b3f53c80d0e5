"""What a ControllerTemplate aims at: one set revision, with the compiled set and the fleet's values that make it."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from metaoperator.core import shard, target
from metaoperator.core.errors import PolicyError, Stalled, TemplateError, ValuesError
from metaoperator.core.model import Desired, Manifest, Namespace
from metaoperator.core.names import Reason
from metaoperator.core.policy import Policy
from metaoperator.core.render import Program
from metaoperator.core.revision import Head, Inputs
from metaoperator.core.target import Target
from metaoperator.core.writing import q
from metaoperator.recent import Recent
from metaoperator.revisions import Revisions
from metaoperator.templates import Templates


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One set revision of one ControllerTemplate, ready to render; `target` says why it is this one.

    `manifest` is the ControllerTemplate as it was read.
    """

    template: str
    set_revision: str
    program: Program
    values: Mapping[str, Any]
    policy: Policy
    target: Target
    source: str | None
    manifest: Manifest


class Goals:
    """Finds goals, has each source recorded before anybody moves to it, and renders them."""

    def __init__(self, revisions: Revisions, templates: Templates, *, wall_clock: Callable[[], datetime]) -> None:
        """Remember only what was rendered last for each namespace: a cache."""
        self._revisions = revisions
        self._templates = templates
        self._wall_clock = wall_clock
        self._recent = Recent()
        self._keeping = asyncio.Lock()

    def forget(self, namespace: str) -> None:
        """Drop what is remembered of one namespace."""
        self._recent.forget(namespace)

    async def of(self, template: Manifest) -> Goal:
        """Find what a ControllerTemplate aims at now; `Stalled` where that is nothing that can be rendered."""
        name = template["metadata"]["name"]
        values: Mapping[str, Any] = template["spec"].get("values") or {}
        policy = read_policy(template)
        program: Program | None = None
        fault: Stalled | None = None
        source: str | None = None
        try:
            program = self._templates.program(template)
            source = program.revision(values)
            await self._keep(name, program, values, source)
        except Stalled as exc:
            fault, source = exc, None
        aim = target.choose(source, self._revisions.sets(name), policy, now=self._wall_clock())
        if aim.set_revision is None:
            raise fault or Stalled(Reason.REVISION_NOT_FOUND, aim.note.message if aim.note else "nothing is aimed at")
        if program is None or aim.set_revision != source:
            found = await self._loaded(name, aim.set_revision)
            if found is None:
                what = f"the record of revision {aim.set_revision} of ControllerTemplate/{name} cannot be read"
                raise Stalled(Reason.REVISION_NOT_FOUND, f"{what}: {await self._why(name)}")
            program, values = found
        return Goal(
            template=name,
            set_revision=aim.set_revision,
            program=program,
            values=values,
            policy=policy,
            target=aim,
            source=source,
            manifest=template,
        )

    async def recorded(self, goal: Goal, set_revision: str) -> Goal | None:
        """Find another set revision of the same ControllerTemplate; `None` where it is recorded no more."""
        if set_revision == goal.set_revision:
            return goal
        found = await self._loaded(goal.template, set_revision)
        return None if found is None else replace(goal, set_revision=set_revision, program=found[0], values=found[1])

    async def fails_anyway(self, goal: Goal, head: Head, namespace: Namespace, given: Inputs) -> bool:
        """Tell whether a namespace cannot be rendered where it stands either: then the fault is its own."""
        try:
            at = await self.recorded(goal, head.set_revision)
            if at is None:
                return False
            self.render(at, namespace, given)
        except Stalled:
            return True
        return False

    async def _loaded(self, template: str, set_revision: str) -> tuple[Program, Mapping[str, Any]] | None:
        try:
            return await self._revisions.loaded(template, set_revision)
        except TemplateError as exc:
            raise Stalled(Reason.TEMPLATE_INVALID, f"revision {set_revision} of it: {exc}") from exc

    async def _why(self, template: str) -> str:
        known = [each.set_revision for each in self._revisions.sets(template)]
        return f"those that can be are {', '.join(known) or 'none'} (metaoperator rollout history {template})"

    async def _keep(self, template: str, program: Program, values: Mapping[str, Any], set_revision: str) -> None:
        """Have the source recorded: who stands at it may have to be rendered from it again, when it has changed."""
        async with self._keeping:
            try:
                await self._revisions.keep_set(template, program, values, set_revision)
            except TemplateError as exc:
                raise Stalled(Reason.TEMPLATE_INVALID, str(exc)) from exc

    async def wanted(self, goal: Goal, namespace: Namespace, given: Inputs) -> Desired:
        """Say what a goal means to one namespace: on a way back what it had there, else what is rendered now.

        An operator that renders otherwise cannot make the bytes of its predecessor any more: only their record has
        them. What the namespace itself has changed since is rendered anew. `Stalled` as from `render`.
        """
        if goal.set_revision == goal.source:
            return self.render(goal, namespace, given, remember=True)
        had = self._revisions.held(namespace.uid, goal.set_revision, goal.target.stable.get(goal.set_revision))
        record = None if had is None or had.template != goal.template else await self._revisions.record(had)
        if record is None:
            return self.render(goal, namespace, given, remember=True)
        if plain(record.inputs) != plain(given):
            now = self.render(goal, namespace, given, remember=True)
            if self.render(goal, namespace, record.inputs).revision != now.revision:
                return now
        return record.desired

    def render(self, goal: Goal, namespace: Namespace, given: Inputs, *, remember: bool = False) -> Desired:
        """Render a set revision for one namespace; `Stalled` tells what is wrong with it, or with the values."""
        try:
            if not remember:
                return _render(goal, namespace, given)
            return self._recent.desired(
                namespace.name,
                (goal.set_revision, namespace.uid, plain(given)),
                lambda: _render(goal, namespace, given),
            )
        except ValuesError as exc:
            raise Stalled(Reason.VALUES_INVALID, str(exc)) from exc
        except TemplateError as exc:
            raise Stalled(Reason.TEMPLATE_INVALID, str(exc)) from exc


def read_policy(template: Manifest) -> Policy:
    """Read how the fleet of a ControllerTemplate is moved; `Stalled` tells all that is wrong with it."""
    try:
        return Policy.read(template["spec"])
    except PolicyError as exc:
        where = f"ControllerTemplate/{template['metadata']['name']}"
        raise Stalled(Reason.ROLLOUT_INVALID, f"{where}: {exc}") from exc


def _render(goal: Goal, namespace: Namespace, given: Inputs) -> Desired:
    # Labels and annotations are those of the inputs: a recorded namespace is rendered as it was.
    return goal.program.desired(
        replace(namespace, labels=given.labels, annotations=given.annotations),
        shard.only_shard(given.instance_id),
        template_name=given.template,
        fleet_values=goal.values,
        namespace_values=given.values,
    )


def inputs(namespace: Namespace, template: str, wfc: Manifest, instance: str) -> Inputs:
    """Gather what a namespace's documents are rendered from, beside the set."""
    return Inputs(
        labels=namespace.labels,
        annotations=namespace.annotations,
        values=(wfc.get("spec") or {}).get("values") or {},
        instance_id=instance,
        template=template,
    )


def plain(of: Inputs) -> str:
    """Write inputs down for comparing: to Python `1`, `1.0` and `True` are equal, and they do not render alike."""
    return q([of.labels, of.annotations, of.values, of.instance_id, of.template])
