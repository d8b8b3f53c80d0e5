"""ControllerRevisions of ours in the operator's namespace: watched by their metadata, read and written one by one.

The content of one never changes, so what it says is written down beside it, and other content is another object.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from metaoperator.cluster import Cluster, Selection
from metaoperator.core import names, packing, revision
from metaoperator.core.errors import Conflict, Gone, RetryableError
from metaoperator.core.model import CONTROLLER_REVISION, Manifest, Ref
from metaoperator.core.packing import Packed
from metaoperator.core.revision import MAX_EARLIER, Head, SetHead
from metaoperator.informer import Informer

log = logging.getLogger(__name__)

Heads = TypeVar("Heads", Head, SetHead)

CACHED_BYTES: Final = 16 * 2**20
"""Of packed content: about 3 KB for a namespace with what the shipped set renders."""
_ATTEMPTS: Final = 9
_SELECTOR: Final = f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY},{names.RECORD_LABEL}"
_META: Final = ("name", "namespace", "uid", "labels")


class Records:
    """Heads from memory, content from the cluster, one write at a time."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        namespace: str,
        wall_clock: Callable[[], datetime],
        changed: Callable[[Head | SetHead], None],
    ) -> None:
        """Nothing is sent before `runs` run. `changed` is told of each head that came, changed or went."""
        self._cluster = cluster
        self._home = namespace
        self._wall_clock = wall_clock
        self._told = changed
        self.informer = Informer(
            cluster,
            Selection(kind=CONTROLLER_REVISION, label_selector=_SELECTOR, metadata_only=True, namespace=namespace),
            project=_said,
            changed=self._changed,
        )
        self._heads: dict[str, Head | SetHead] = {}
        self._of_namespace: dict[str, dict[str, Head]] = {}
        self._of_template: dict[str, dict[str, SetHead]] = {}
        self._contents = _Contents()
        self.faults: dict[str, str] = {}
        """By the name of a record: why it cannot be used, for people."""

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """Hand out what has to run."""
        return [self.informer.run()]

    def require_synced(self) -> None:
        """Raise `RetryableError` until all records were seen: before, nobody knows which is the newest."""
        if not self.informer.synced:
            raise RetryableError(f"the records in namespace {self._home} have not been read yet")

    def now(self) -> datetime:
        """Tell the time as records say it."""
        return self._wall_clock().astimezone(UTC).replace(microsecond=0)

    # ---- reading

    def of_namespace(self, uid: str) -> list[Head]:
        """List the records of a namespace, the newest first."""
        return _newest(self._of_namespace.get(uid, {}))

    def of_template(self, template: str) -> list[SetHead]:
        """List the records of a ControllerTemplate's sets, the newest first."""
        return _newest(self._of_template.get(template, {}))

    def namespaces(self) -> list[str]:
        """List the UIDs of all namespaces with a record."""
        return list(self._of_namespace)

    async def content(self, head: Head | SetHead) -> Any:
        """Read what a record holds, packed; `None` if that very object is gone."""
        if (data := self._contents.get(head.uid)) is not None:
            return data
        live = await self._cluster.get(self._ref(head.name))
        if live is None or live["metadata"]["uid"] != head.uid:
            return None
        self._contents.put(head.uid, live.get("data"))
        return live.get("data") or {}

    def garbled(self, name: str, why: str) -> None:
        """Note, and say once, that a record cannot be used."""
        if self.faults.get(name) != why:
            self.faults[name] = why
            log.error("record cannot be used", extra={"record": name, "error": why})

    # ---- writing

    async def put(self, head: Heads, packed: Packed, name: Callable[[int], str]) -> Heads:
        """Write a record, or let one that holds the very same say what this one says.

        What has the name and does not hold it is garbled, or somebody else's, and is left as it is: the record gets the
        name of the next attempt.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            head = replace(head, name=name(attempt))
            known = self._heads.get(head.name)
            uid, data = ("", None) if known is None else (known.uid, await self.content(known))
            if data is None:
                # A resource version that no object ever has: nothing that is there is touched (decision 0006).
                body = revision.manifest(head, packed, home=self._home)
                meta = {**body["metadata"], "resourceVersion": "1"}
                try:
                    live, _ = await self._cluster.apply({**body, "metadata": meta}, force=False)
                except Conflict:
                    found = await self._cluster.get(self._ref(head.name))
                    if found is None:
                        raise
                    uid, data = found["metadata"]["uid"], found.get("data")
                    known, _ = revision.head(found)
                else:
                    return self._learn(live, head)
            if packing.same(data, packed):
                return await self._say(_continued(head, known), uid=uid)
        names_taken = f"{self._ref(name(1))} and {_ATTEMPTS - 1} names like it"
        raise RetryableError(f"{names_taken} are taken by objects that hold something else: delete them")

    async def restate(self, before: Heads, after: Heads) -> Heads:
        """Change what a record says, unless it says something else by now (`Conflict`)."""
        if self._heads.get(before.name) != before:
            raise Conflict(f"{self._ref(before.name)} was changed while we looked")
        return await self._say(after, uid=before.uid)

    async def delete(self, head: Head | SetHead) -> None:
        """Delete a record."""
        await self._cluster.delete(self._ref(head.name), uid=head.uid)
        self._forget(head.name)

    async def _say(self, head: Heads, *, uid: str) -> Heads:
        """Write down what a head says, on the object that has this UID and that nobody changed since we saw it."""
        meta: dict[str, Any] = {**revision.metadata(head), "uid": uid}
        if (seen := self.informer.version(self._home, head.name)) is not None:
            meta["resourceVersion"] = str(seen)
        # A merge, for an apply without `data` would take it away.
        patch = {"metadata": meta, "revision": head.number}
        ref = self._ref(head.name)
        try:
            return self._learn(await self._cluster.merge(ref, patch, metadata_only=True), head)
        except Gone as gone:
            self._forget(head.name)
            raise Conflict(f"{ref} was deleted while we looked") from gone

    def _learn(self, live: Manifest, head: Heads) -> Heads:
        uid = live["metadata"]["uid"]
        self._contents.put(uid, live.get("data"))
        self.informer.learn(live)
        return replace(head, uid=uid)

    # ---- what is watched

    def _changed(self, ref: Ref, _before: Manifest | None, after: Manifest | None) -> None:
        head, why = (None, "") if after is None else revision.head(after)
        old = self._forget(ref.name)
        if why:
            self.garbled(ref.name, why)
        if isinstance(head, Head):
            self._of_namespace.setdefault(head.namespace_uid, {})[head.name] = head
        elif head is not None:
            self._of_template.setdefault(head.template, {})[head.name] = head
        if head is not None:
            self._heads[head.name] = head
        if (told := head or old) is not None:
            self._told(told)

    def _forget(self, name: str) -> Head | SetHead | None:
        self.faults.pop(name, None)
        head = self._heads.pop(name, None)
        if isinstance(head, Head):
            _take(self._of_namespace, head.namespace_uid, name)
        elif head is not None:
            _take(self._of_template, head.template, name)
        return head

    def _ref(self, name: str) -> Ref:
        return Ref(CONTROLLER_REVISION, self._home, name)


class _Contents:
    """Packed contents by the UIDs of their objects, those used last, up to a number of bytes. They never change."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, Mapping[str, str]] = OrderedDict()
        self._bytes = 0

    def get(self, uid: str) -> Mapping[str, str] | None:
        if uid in self._found:
            self._found.move_to_end(uid)
        return self._found.get(uid)

    def put(self, uid: str, data: Any) -> None:
        size = _size(data)
        if not size or uid in self._found:
            return
        self._found[uid] = data
        self._bytes += size
        while self._bytes > CACHED_BYTES:
            self._bytes -= _size(self._found.popitem(last=False)[1])


def _size(data: Any) -> int:
    text = data.get(packing.KEY) if isinstance(data, Mapping) else None
    return len(text) if isinstance(text, str) else 0


def _newest(heads: Mapping[str, Heads]) -> list[Heads]:
    """Sort by number; where two leaders counted at once, the later one is the newer."""
    return sorted(heads.values(), key=lambda each: (each.number, each.since, each.name), reverse=True)


def _take(index: dict[str, dict[str, Heads]], key: str, name: str) -> None:
    index[key].pop(name, None)
    if not index[key]:
        del index[key]


def _continued(head: Heads, known: Head | SetHead | None) -> Heads:
    """Keep of a record that is written once more what stays true of it."""
    if isinstance(head, SetHead):
        return replace(head, stable=known.stable if isinstance(known, SetHead) else None)
    earlier = dict.fromkeys(each for each in _sets(known) if each != head.set_revision)
    return replace(head, earlier=tuple(earlier)[-MAX_EARLIER:])


def _sets(known: Head | SetHead | None) -> tuple[str, ...]:
    return (*known.earlier, known.set_revision) if isinstance(known, Head) else ()


def _said(live: Manifest) -> Manifest:
    """Keep what a head is read from."""
    meta = live["metadata"]
    annotations = {
        key: value for key, value in (meta.get("annotations") or {}).items() if key.startswith(f"{names.GROUP}/")
    }
    return {"metadata": {**{key: meta[key] for key in _META if key in meta}, "annotations": annotations}}
