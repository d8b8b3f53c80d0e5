"""What each namespace was given, and the sets it came from: ControllerRevisions in the operator's namespace.

Their metadata is watched, their content is read when somebody needs it. Whatever is written is written before anything
of a namespace is: whoever is killed in between leaves a record of what the namespace is to hold, and repair brings it.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from metaoperator import sources
from metaoperator.cluster import Cluster
from metaoperator.core import recorded, revision
from metaoperator.core.errors import MetaoperatorError
from metaoperator.core.model import Desired, Namespace
from metaoperator.core.render import Program
from metaoperator.core.revision import MAX_WHY, Head, Inputs, Record, SetHead
from metaoperator.informer import Informer
from metaoperator.records import Records

log = logging.getLogger(__name__)

PROGRAMS: Final = 8
"""Compiled sets of the past that are kept at hand."""


class Revisions:
    """The records of all namespaces and sets: heads from memory, content from the cluster, writes to it."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        namespace: str,
        wall_clock: Callable[[], datetime],
        changed: Callable[[Head | SetHead], None] = lambda _: None,
    ) -> None:
        """Nothing is sent before `runs` run. `changed` is told of each head that came, changed or went."""
        self._records = Records(cluster, namespace=namespace, wall_clock=wall_clock, changed=changed)
        self._programs: OrderedDict[str, tuple[Program, Mapping[str, Any]]] = OrderedDict()

    @property
    def informers(self) -> tuple[Informer, ...]:
        """The one that watches."""
        return (self._records.informer,)

    @property
    def synced(self) -> bool:
        """Tell whether all records were seen: until then nobody knows what a namespace was given."""
        return self._records.informer.synced

    @property
    def faults(self) -> Mapping[str, str]:
        """By the name of a record: why it cannot be used, for people."""
        return self._records.faults

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """Hand out what has to run."""
        return self._records.runs()

    # ---- namespaces

    def current(self, namespace_uid: str) -> Head | None:
        """Find what a namespace was given last."""
        return next(iter(self._records.of_namespace(namespace_uid)), None)

    def at(self, namespace_uid: str, set_revision: str) -> Head | None:
        """Find what a namespace was given, of what is kept, when it was at a set revision."""
        newest = self._records.of_namespace(namespace_uid)
        return next((each for each in newest if set_revision in (each.set_revision, *each.earlier)), None)

    def held(self, namespace_uid: str, set_revision: str, stable: datetime | None) -> Head | None:
        """Find what a namespace had, of what is kept, at a set revision, or when all of the fleet had that.

        Who was given the same by an earlier set has no record of the later one.
        """
        newest = self._records.of_namespace(namespace_uid)
        return self.at(namespace_uid, set_revision) or next(
            (each for each in newest if stable is not None and each.since <= stable), None
        )

    def heads(self, template: str) -> list[Head]:
        """List the current heads of a ControllerTemplate's namespaces, by name."""
        current = [self._records.of_namespace(uid)[0] for uid in self._records.namespaces()]
        return sorted((each for each in current if each.template == template), key=lambda each: each.namespace)

    def namespaces(self) -> dict[str, str]:
        """Name the namespaces of which there are records, by their UIDs: some of them may be gone."""
        return {uid: self._records.of_namespace(uid)[0].namespace for uid in self._records.namespaces()}

    async def record(self, head: Head) -> Record | None:
        """Read what a head stands for; `None` for one that is gone or garbled, which `faults` then explains."""
        data = await self._records.content(head)
        if data is None:
            return None
        found, why = recorded.record(head, data)
        if found is None:
            self._records.garbled(head.name, why)
        return found

    async def move(
        self,
        namespace: Namespace,
        *,
        desired: Desired,
        set_revision: str,
        inputs: Inputs,
        spec: Mapping[str, Any],
        template: str,
        before: str = revision.OWN,
        said: Head | None = None,
    ) -> Head:
        """Record what a namespace is given from now on; forget all but the one before, and the last that was proven.

        With `said`, nothing is given anew: the row says other things, of which nothing is rendered.

        `TemplateError` for what is too large to be recorded. A record of the very same content that is still there
        becomes the current one again. Whenever this fails, there is a current record: this one or the one before.
        """
        self._records.require_synced()
        packed = recorded.namespace_content(namespace.name, inputs, spec, desired)
        mine = self._records.of_namespace(namespace.uid)
        head = Head(
            name="",
            uid="",
            namespace=namespace.name,
            namespace_uid=namespace.uid,
            template=template,
            set_revision=set_revision,
            revision=desired.revision,
            number=mine[0].number + 1 if mine else 1,
            version=desired.version,
            before=before,
            since=self._records.now(),
            spec=revision.spec_digest(spec),
        )
        if said is not None:
            at = said.set_revision
            head = replace(head, set_revision=at, before=said.before, since=said.since, proven=said.proven)
        written = await self._records.put(
            head, packed, lambda attempt: revision.namespace_name(namespace.uid, desired.revision, packed, attempt)
        )
        for old in _outlived(self._records.of_namespace(namespace.uid)):
            try:
                await self._records.delete(old)
            except MetaoperatorError as exc:
                # What was to be recorded is; one record too many is deleted with the next move.
                log.warning("old record not deleted", extra={"record": old.name, "error": str(exc)})
        return written

    async def prove(self, head: Head) -> Head:
        """Note that a namespace has been healthy with what a head stands for; `Conflict` if it was moved since."""
        return head if head.proven else await self._records.restate(head, replace(head, proven=self._records.now()))

    async def forget(self, namespace_uid: str) -> None:
        """Delete the records of a namespace that has left for good, the current one last."""
        for each in reversed(self._records.of_namespace(namespace_uid)):
            await self._records.delete(each)

    # ---- sets

    def sets(self, template: str) -> list[SetHead]:
        """List what is recorded of a ControllerTemplate's sets, the newest first."""
        return self._records.of_template(template)

    async def keep_set(
        self, template: str, program: Program, fleet_values: Mapping[str, Any], set_revision: str
    ) -> SetHead:
        """Record the set that a ControllerTemplate's source gives now, as its newest; nothing is written if it is.

        One that was recorded before, and was followed by others, is the newest again: what was stable stays so, and
        what failed has another attempt.
        """
        self._records.require_synced()
        known = self.sets(template)
        if known and known[0].set_revision == set_revision and known[0].name not in self.faults:
            return known[0]
        the_set = program.template_set
        head = SetHead(
            name="",
            uid="",
            template=template,
            set_revision=set_revision,
            number=known[0].number + 1 if known else 1,
            since=self._records.now(),
        )
        packed = recorded.set_content(the_set.name, the_set.texts, fleet_values)
        return await self._records.put(head, packed, lambda attempt: revision.set_name(template, set_revision, attempt))

    async def loaded(self, template: str, set_revision: str) -> tuple[Program, Mapping[str, Any]] | None:
        """Compile a recorded set; `None` where there is none, `TemplateError` for one that no longer compiles.

        It is rendered by the code that runs now: what a namespace was given by other code, only its record knows.
        """
        for head in self.sets(template):
            if head.set_revision != set_revision:
                continue
            if head.uid in self._programs:
                self._programs.move_to_end(head.uid)
                return self._programs[head.uid]
            if (data := await self._records.content(head)) is None:
                continue
            parts, why = recorded.set_parts(head, data)
            if parts is None:
                self._records.garbled(head.name, why)
                continue
            name, files, values = parts
            self._programs[head.uid] = sources.from_texts(name, files), values
            while len(self._programs) > PROGRAMS:
                self._programs.popitem(last=False)
            return self._programs[head.uid]
        return None

    async def mark(self, set_head: SetHead, *, stable: bool = False, failed: str = "") -> SetHead:
        """Note that all members have reached a set, or why it failed; `Conflict` if anything was noted since."""
        if stable:
            return await self._records.restate(
                set_head, replace(set_head, stable=self._records.now(), failed=None, why="")
            )
        return await self._records.restate(
            set_head, replace(set_head, failed=self._records.now(), why=failed[:MAX_WHY])
        )

    async def tidy(self, template: str, limit: int, keep: Collection[str]) -> None:
        """Delete all but the newest sets of a ControllerTemplate.

        Never one that is to be kept, the newest, the one that was stable last, or one that a namespace's record names.
        """
        self._records.require_synced()
        every = self.sets(template)
        given = (each for uid in self._records.namespaces() for each in self._records.of_namespace(uid))
        needed = {*keep, *(each.set_revision for each in given)}
        stable = [each for each in every if each.stable is not None]
        if stable:
            needed.add(max(stable, key=lambda each: (each.stable, each.number)).set_revision)
        for old in every[max(limit, 1) :]:
            if old.set_revision not in needed:
                await self._records.delete(old)


def _outlived(newest: Sequence[Head]) -> list[Head]:
    """Name the records of a namespace that nobody goes back to, of those that it has, the newest first.

    What it has now is kept, what it had before, and what was proven there last.
    """
    others = [each for each in newest[1:] if each.revision != newest[0].revision]
    needed = {each.name for each in (*newest[:1], *others[:1], *[each for each in others if each.proven][:1])}
    return [each for each in newest if each.name not in needed]
