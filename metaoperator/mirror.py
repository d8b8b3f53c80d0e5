"""What kopf watches (Namespaces, our own kinds), read through on demand.

kopf tells *that* something changed, never whether its memory is whole (it loses deletions after a re-list). So an
event only marks a copy as old, one live GET decides when it is next needed, and a metadata-only list every ten
minutes finds what events missed. A settled fleet reads nothing in between.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from metaoperator.cluster import Cluster, Selection
from metaoperator.core import names
from metaoperator.core.errors import Gone, MetaoperatorError
from metaoperator.core.model import CONTROLLER_TEMPLATE, NAMESPACE, WORKFLOW_CONTROLLER, Kind, Manifest, Ref

log = logging.getLogger(__name__)

COMPARE_SECONDS: Final = 600.0
OPTED_IN: Final = Selection(kind=NAMESPACE, label_selector=names.OPT_IN_LABEL, metadata_only=True)
_COMPARED: Final = (
    OPTED_IN,
    Selection(kind=WORKFLOW_CONTROLLER, metadata_only=True),
    Selection(kind=CONTROLLER_TEMPLATE, metadata_only=True),
)


class Mirror:
    """Copies of objects, each true as of the last time that anything was heard of it."""

    def __init__(self, cluster: Cluster, changed: Callable[[Ref], None]) -> None:
        """Start empty; `changed` is told of every object that a compare found to be other than its copy."""
        self._cluster = cluster
        self._changed = changed
        self._copies: dict[Ref, Manifest | None] = {}
        self._heard: dict[Ref, str] = {}
        self._told = 0
        self._told_at: dict[Ref, int] = {}
        self._reading: dict[Ref, asyncio.Lock] = {}
        self._listed = False

    def saw(self, ref: Ref, resource_version: str) -> bool:
        """Note an event; tells whether it is news. An empty version means that the object may be gone."""
        copy = self._copies.get(ref)
        if resource_version and copy is not None and copy["metadata"]["resourceVersion"] == resource_version:
            return False
        self._copies.pop(ref, None)
        self._heard[ref] = resource_version
        self._told += 1
        self._told_at[ref] = self._told
        return True

    async def get(self, ref: Ref) -> Manifest | None:
        """Hand out the copy, reading it anew if anything was heard since; who asks meanwhile waits for one GET."""
        if ref in self._copies:
            return self._copies[ref]
        async with self._reading.setdefault(ref, asyncio.Lock()):
            if ref not in self._copies:
                before = self._told_at.get(ref)
                live = await self._cluster.get(ref)
                # Something heard while the answer was on its way may be newer than the answer.
                heard = self._heard.get(ref, "")
                told = live is not None and live["metadata"]["resourceVersion"] == heard
                if self._told_at.get(ref) != before and not told:
                    return live
                self._settle(ref)
                self._copies[ref] = live
            return self._copies[ref]

    def learn(self, live: Manifest) -> None:
        """Take over what a write answered, unless something newer was heard of while it was on its way."""
        ref = Ref.of(live)
        version = int(live["metadata"]["resourceVersion"])
        copy = self._copies.get(ref)
        if copy is not None:
            newer = int(copy["metadata"]["resourceVersion"]) > version
        else:
            newer = ref in self._heard and int(self._heard[ref] or version + 1) > version
        if not newer:
            self._settle(ref)
            self._copies[ref] = live

    def _settle(self, ref: Ref) -> None:
        self._heard.pop(ref, None)
        self._told_at.pop(ref, None)

    def forget(self, ref: Ref) -> None:
        """Drop the copy, and what was heard."""
        self._copies.pop(ref, None)
        self._settle(ref)
        if (lock := self._reading.get(ref)) is not None and not lock.locked():
            del self._reading[ref]

    def whole(self, kind: Kind) -> bool:
        """Tell whether every object of a kind that is known to be there has been read: until then, count nothing."""
        return self._listed and not any(ref.kind == kind for ref in self._heard)

    def copies(self, kind: Kind) -> list[Manifest]:
        """List the copies of one kind that are at hand, sorted; for counting, not for deciding."""
        return [copy for ref, copy in sorted(self._copies.items()) if ref.kind == kind and copy is not None]

    def is_opted_in(self, namespace: str) -> bool:
        """Tell whether the copy at hand of a namespace has our label, whatever its value."""
        return _labelled(self._copies.get(Ref(NAMESPACE, "", namespace)))

    def opted_in(self) -> list[str]:
        """Name the namespaces at hand that carry the opt-in label, whatever its value."""
        return [copy["metadata"]["name"] for copy in self.copies(NAMESPACE) if _labelled(copy)]

    async def run(self) -> None:
        """Compare with the API server every ten minutes until cancelled; a failed compare is tried at the next."""
        while True:
            await asyncio.sleep(COMPARE_SECONDS * (0.9 + 0.2 * random.random()))
            try:
                await self.compare()
            except MetaoperatorError as exc:
                log.warning("compare failed", extra={"error": str(exc)})

    async def compare(self, *, everything: bool = False) -> None:
        """List names and versions of all that kopf watches; whatever differs from a copy is told as changed.

        With `everything`, so is what does not: at the start of a term, nothing is known to be settled.
        """
        for selection in _COMPARED:
            found: dict[Ref, str] = {}
            try:
                async for page in self._cluster.list_pages(selection):
                    for item in page["items"]:
                        meta = item["metadata"]
                        ref = Ref(selection.kind, meta.get("namespace", ""), meta["name"])
                        found[ref] = meta["resourceVersion"]
            except Gone:
                continue
            for ref, version in found.items():
                if self.saw(ref, version) or everything:
                    self._changed(ref)
            for ref, copy in list(self._copies.items()):
                # Namespaces that never had the label are no part of the list, and no concern of it.
                listed = ref.kind == selection.kind and (ref.kind != NAMESPACE or _labelled(copy))
                if listed and copy is not None and ref not in found:
                    self.saw(ref, "")
                    self._changed(ref)
        self._listed = True


def _labelled(copy: Manifest | None) -> bool:
    return copy is not None and names.OPT_IN_LABEL in (copy["metadata"].get("labels") or {})
