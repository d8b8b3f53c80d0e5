"""A cluster in which everything is asked and nothing is written: what the operator would do, without its being done.

Whatever acts on a `Cluster` acts on this one alike. The API server is asked by dry-run what each write would lead to;
where the asking person lacks the right, the answer is composed by value, and that is told.
"""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from metaoperator.cluster import PAGE, Cluster, Selection
from metaoperator.core import immutable, names, overlay
from metaoperator.core.errors import Conflict, Forbidden, Gone, MetaoperatorError
from metaoperator.core.model import NAMESPACE, Kind, Manifest, Ref
from metaoperator.core.rules import Right
from metaoperator.gate import Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One object before and after; `None` for absent. Not `asked` where the asking person lacks the right to."""

    before: Manifest | None
    after: Manifest | None
    asked: bool = True


class Rehearsal(Cluster):
    """One API server, read from as it is but for what is pretended and what was rehearsed."""

    def __init__(self, *, kubeconfig: str | None) -> None:
        """Its gate never opens: only dry-runs pass it by."""
        super().__init__(kubeconfig=kubeconfig, gate=Gate())
        self._stage: dict[Ref, Manifest] = {}
        self._by_value: set[Ref] = set()
        self._deleted: set[Ref] = set()
        self._taken: set[Ref] = set()
        self._kept: frozenset[Selection] = frozenset()
        self._listed: dict[str, dict[Ref, str]] = {}
        self._whole: set[Kind] = set()
        self.writes: dict[Ref, Write] = {}
        self.statuses: dict[Ref, Mapping[str, Any]] = {}

    def pretend(self, manifest: Manifest) -> None:
        """Show an object as it is given here, from now on."""
        self._stage[Ref.of(manifest)] = manifest
        self._by_value.add(Ref.of(manifest))

    async def get(self, ref: Ref) -> Manifest | None:
        """Read one object, with all that was rehearsed on it."""
        return self._stage[ref] if ref in self._stage else await self.really(ref)

    async def really(self, ref: Ref) -> Manifest | None:
        """Read one object as it stands in the cluster, or stood when it was listed, whatever is pretended."""
        if (text := self._listed.get(_place(ref), {}).get(ref)) is not None:
            return json.loads(text)  # type: ignore[no-any-return]
        return None if ref.kind in self._whole else await super().get(ref)

    def keep(self, selections: Iterable[Selection]) -> None:
        """Remember, as compact text, what lists of these selections bring from now on: nobody asks for it again."""
        self._kept |= frozenset(selections)

    async def list_pages(self, selection: Selection, *, limit: int = PAGE) -> AsyncIterator[Manifest]:
        """List as any cluster does. Of a kind of which all was listed, what was not there is not there."""
        kept, kind = selection in self._kept, selection.kind
        async for page in super().list_pages(selection, limit=limit):
            for item in page["items"] if kept else ():
                live = {**item, "apiVersion": kind.api_version, "kind": kind.kind}
                text = json.dumps(live, separators=(",", ":"), ensure_ascii=False)
                self._listed.setdefault(_place(Ref.of(live)), {})[Ref.of(live)] = text
            yield page
        if kept and selection == Selection(kind=kind):
            self._whole.add(kind)

    def leave(self, namespace: str) -> None:
        """Forget all that was rehearsed, pretended and listed of one namespace: it is done with."""
        self._listed.pop(namespace, None)
        places: tuple[dict[Ref, Any], ...] = (self._stage, self.writes, self.statuses)
        for place in places:
            for ref in [ref for ref in place if _place(ref) == namespace]:
                del place[ref]
        for several in (self._by_value, self._deleted, self._taken):
            several.difference_update([ref for ref in several if _place(ref) == namespace])

    async def apply(
        self, manifest: Manifest, *, force: bool, dry_run: bool = False, subresource: str = ""
    ) -> tuple[Manifest, bool]:
        """Tell what an apply would lead to."""
        ref = Ref.of(manifest)
        if subresource == "status":
            self.statuses[ref] = manifest["status"]
            live = await self.get(ref)
            if live is None:
                raise Gone(f"{ref} is not there")
            return {**live, "status": manifest["status"]}, False
        before = await self.get(ref)
        would, asked = await self._would(ref, manifest, before, force=force)
        if not dry_run:
            self._note(ref, before, would, asked=asked)
        return would, before is None

    async def _would(
        self, ref: Ref, manifest: Manifest, before: Manifest | None, *, force: bool
    ) -> tuple[Manifest, bool]:
        if ref in self._deleted:  # it is the successor, whose name its predecessor still has
            meta = {key: value for key, value in manifest["metadata"].items() if key != "uid"}
            would, asked = await self._asked(immutable.successor({**manifest, "metadata": meta}), None, force=force)
            return {**would, "metadata": {**would["metadata"], "name": ref.name}}, asked
        if ref in self._taken and before is not None:
            # It becomes what is rendered, so the API server is asked what that is where nothing was before it.
            meta = {key: value for key, value in manifest["metadata"].items() if key != "uid"}
            would, asked = await self._asked(immutable.successor({**manifest, "metadata": meta}), None, force=force)
            return overlay.became(would, before), asked
        if before is not None and manifest["metadata"].get("resourceVersion") not in {None, _version(before)}:
            raise Conflict(f"{ref} is there")
        if ref in self._by_value:
            return overlay.applied(manifest, before), True  # the API server has another object in mind
        if ref in self._stage:
            # Not known to the API server as we know it. But an apply says all that we want: the last one decides.
            meta = {key: value for key, value in manifest["metadata"].items() if key not in {"uid", "resourceVersion"}}
            manifest = {**manifest, "metadata": meta}
        return await self._asked(manifest, before, force=force)

    async def _asked(self, manifest: Manifest, before: Manifest | None, *, force: bool) -> tuple[Manifest, bool]:
        try:
            would, _ = await super().apply(manifest, force=force, dry_run=True)
        except MetaoperatorError as exc:
            if not _is_the_askers(exc):
                raise
            return overlay.applied(manifest, before), False
        # An object that is not stored has no version, one that is not changed its old one; readers go by them.
        return {**would, "metadata": {**would["metadata"], "resourceVersion": overlay.next_version(before)}}, True

    async def merge(self, ref: Ref, patch: Manifest, *, metadata_only: bool = False) -> Manifest:
        """Tell what a merge would lead to, by value: it is followed by an apply that asks no more either.

        Of what is written by its metadata alone, Workflows that are handed back, nothing is shown: it is no child's.
        """
        if metadata_only:
            return overlay.merged(patch, {})
        before = await self.get(ref)
        if before is None:
            raise Gone(f"{ref} is not there")
        self._by_value.add(ref)
        if "managedFields" in patch.get("metadata", {}):
            self._taken.add(ref)
        return self._note(ref, before, overlay.merged(patch, before), asked=True)

    async def delete(self, ref: Ref, *, uid: str, foreground: bool = False) -> None:  # noqa: ARG002 - as in Cluster
        """Note what would be deleted; it is still there for who looks, as in the first moments of a real deletion."""
        before = await self.get(ref)
        if before is not None and before["metadata"].get("uid") == uid:
            self.writes[ref] = Write(before=before, after=None)
            self._deleted.add(ref)

    async def try_out(self, manifest: Manifest) -> None:
        """Ask whether an object could be created; a refusal is raised in the API server's words."""
        query = {"fieldManager": names.FIELD_MANAGER, "dryRun": "All"}
        await self._write("POST", await self._home(manifest), query, manifest)

    async def allows(self, right: Right, *, home: str) -> bool:
        """Ask whether the ServiceAccount of an operator in the namespace `home` has a right."""
        return await self.may(right, account=names.OPERATOR_ACCOUNT, account_namespace=home)

    async def post_event(self, event: Manifest) -> None:
        """Tell nobody."""

    def _note(self, ref: Ref, before: Manifest | None, after: Manifest, *, asked: bool) -> Manifest:
        first = self.writes.get(ref)
        self.writes[ref] = Write(
            before=before if first is None else first.before,
            after=after,
            asked=asked and (first is None or first.asked),
        )
        self._stage[ref] = after
        return after

    async def _write(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Manifest,
        content_type: str = "application/json",
        *,
        accept: str = "application/json",
        fenced: bool = True,
    ) -> tuple[Manifest, bool]:
        """Let dry-runs through, which store nothing; anything else meets a gate that is closed."""
        rehearsed = query.get("dryRun") == "All"
        return await super()._write(
            method, path, query, body, content_type, accept=accept, fenced=fenced and not rehearsed
        )


def _place(ref: Ref) -> str:
    """Name the namespace that an object is of: a Namespace is of itself."""
    return ref.name if ref.kind == NAMESPACE else ref.namespace


def _version(live: Manifest) -> str:
    return str(live["metadata"].get("resourceVersion", ""))


def _is_the_askers(refusal: MetaoperatorError) -> bool:
    """Tell whether the operator would not be refused so: it has rights of its own, and our fences are for others."""
    return isinstance(refusal, Forbidden) or "ValidatingAdmissionPolicy 'metaoperator-child-" in str(refusal)
