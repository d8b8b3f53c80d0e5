"""How objects go over the wire: whole or metadata only, one, a page of many, or a bookmark."""

import base64
import json
from dataclasses import dataclass

from . import problems, selectors
from .history import History
from .kinds import Kind, Manifest
from .store import Store

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter."
)


@dataclass(frozen=True, slots=True)
class View:
    """What the client asked to see of each object."""

    kind: Kind
    metadata_only: bool

    def one(self, obj: Manifest) -> Manifest:
        """Show one object."""
        if not self.metadata_only:
            return obj
        return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}

    def _item(self, obj: Manifest) -> Manifest:
        if self.metadata_only:
            return self.one(obj)
        if self.kind.custom:
            return obj
        # Typed lists carry the kind once, on the list.
        return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}

    def many(self, objects: list[Manifest], metadata: Manifest) -> Manifest:
        """Show a list."""
        partial = ("PartialObjectMetadataList", "meta.k8s.io/v1")
        kind, version = partial if self.metadata_only else (f"{self.kind.kind}List", self.kind.api_version)
        return {
            "kind": kind,
            "apiVersion": version,
            "metadata": metadata,
            "items": [self._item(obj) for obj in objects],
        }

    def bookmark(self, version: int) -> Manifest:
        """Show how far the watch has come."""
        return self.one(
            {
                "kind": self.kind.kind,
                "apiVersion": self.kind.api_version,
                "metadata": {"resourceVersion": str(version), "creationTimestamp": None},
            }
        )


class Lister:
    """Answers lists, and keeps what later pages of a list need to be of the same moment."""

    def __init__(self, store: Store, history: History) -> None:
        self._store = store
        self._history = history
        self._snapshots: dict[str, list[Manifest]] = {}

    def answer(self, view: View, namespace: str | None, query: dict[str, str]) -> Manifest:
        """Answer a list request, page by page when asked."""
        limit, wanted = int(query.get("limit") or 0), int(query.get("resourceVersion") or 0)
        if wanted > self._history.version:
            raise problems.from_the_future(wanted, self._history.version)
        if token := query.get("continue"):
            version, start, left = self._resume(token)
        else:
            predicate = selectors.both(query.get("labelSelector"), query.get("fieldSelector"))
            version, start = self._history.version, 0
            left = self._store.select(view.kind, namespace, predicate)
        page = left[start : start + limit] if limit else left[start:]
        metadata: Manifest = {"resourceVersion": str(version)}
        if start + len(page) < len(left):
            where = f"{id(left):x}.{version}"
            self._snapshots[where] = left
            wire = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start + len(page), "at": where})
            metadata["continue"] = base64.urlsafe_b64encode(wire.encode()).decode().rstrip("=")
            if not query.get("labelSelector") and not query.get("fieldSelector"):
                metadata["remainingItemCount"] = len(left) - start - len(page)
        return view.many(page, metadata)

    def _resume(self, token: str) -> tuple[int, int, list[Manifest]]:
        try:
            wire = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
            version, start, where = wire["rv"], wire["start"], wire["at"]
        except (ValueError, KeyError, TypeError) as exc:
            raise problems.bad_request(f"continue key is not valid: {exc}") from exc
        if self._history.too_old(version) or where not in self._snapshots:
            raise problems.expired(_TOO_OLD)
        return version, start, self._snapshots[where]
