"""What the controller-manager does for everybody: owner references, and namespaces that go away."""

import asyncio

from . import problems
from .history import ADDED, DELETED, Event
from .kinds import Kind, Manifest
from .store import Store
from .strategy import FOREGROUND, ORPHAN
from .values import clone


class Collector:
    """Deletes what lost its owners, in the background and in the order that the policies ask for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wanted = asyncio.Event()
        self.on = True
        store.listeners.append(self._notice)

    def _notice(self, _kind: Kind, event: Event) -> None:
        metadata = event.obj["metadata"]
        orphan = event.type == ADDED and metadata.get("ownerReferences")
        if event.type == DELETED or orphan or metadata.get("deletionTimestamp"):
            self._wanted.set()

    async def run(self) -> None:
        """Collect whenever something was deleted, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await asyncio.sleep(0)
            if self.on:
                self.collect()

    def collect(self) -> None:
        """Collect until nothing more follows."""
        while self._pass():
            pass

    def _pass(self) -> bool:
        everything = list(self._store.everything())
        alive = {obj["metadata"]["uid"]: obj for _, obj in everything}
        dependents: dict[str, list[tuple[Kind, Manifest]]] = {}
        acted = False
        for kind, obj in everything:
            references = obj["metadata"].get("ownerReferences", [])
            for each in references:
                dependents.setdefault(each["uid"], []).append((kind, obj))
            if references and all(each["uid"] not in alive for each in references):
                acted |= self._delete(kind, obj, "Background")
        for kind, obj in everything:
            if obj["metadata"].get("deletionTimestamp"):
                acted |= self._finish(kind, obj, dependents.get(obj["metadata"]["uid"], []))
        return acted

    def _finish(self, kind: Kind, obj: Manifest, dependents: list[tuple[Kind, Manifest]]) -> bool:
        finalizers = obj["metadata"].get("finalizers", [])
        if kind.kind == "Namespace":
            return self._clear(kind, obj)
        if ORPHAN in finalizers:
            for owned_kind, owned in dependents:
                self._disown(owned_kind, owned, obj["metadata"]["uid"])
            return self._release(kind, obj, ORPHAN)
        if FOREGROUND in finalizers:
            acted = False
            for owned_kind, owned in dependents:
                acted |= self._delete(owned_kind, owned, "Foreground")
            blocking = any(
                each["uid"] == obj["metadata"]["uid"] and each.get("blockOwnerDeletion")
                for _, owned in dependents
                for each in owned["metadata"]["ownerReferences"]
            )
            return acted if blocking else self._release(kind, obj, FOREGROUND)
        return False

    def _clear(self, kind: Kind, home: Manifest) -> bool:
        name = home["metadata"]["name"]
        inside = [(k, o) for k, o in self._store.everything() if o["metadata"].get("namespace") == name]
        if not inside and not home["metadata"].get("finalizers"):
            self._store.remove(kind, home)
            return True
        return sum(self._delete(each, obj, "Background") for each, obj in inside) > 0

    def _delete(self, kind: Kind, obj: Manifest, policy: str) -> bool:
        if obj["metadata"].get("deletionTimestamp"):
            return False
        metadata = obj["metadata"]
        options = {"propagationPolicy": policy, "preconditions": {"uid": metadata["uid"]}}
        try:
            self._store.delete(kind, metadata.get("namespace"), metadata["name"], options)
        except problems.ApiError:
            return False
        return True

    def _disown(self, kind: Kind, obj: Manifest, uid: str) -> None:
        left = [each for each in obj["metadata"]["ownerReferences"] if each["uid"] != uid]
        self._patch(kind, obj, {"ownerReferences": left or None})

    def _release(self, kind: Kind, obj: Manifest, finalizer: str) -> bool:
        left = [each for each in obj["metadata"].get("finalizers", []) if each != finalizer]
        self._patch(kind, obj, {"finalizers": left or None})
        return True

    def _patch(self, kind: Kind, obj: Manifest, metadata: Manifest) -> None:
        where = obj["metadata"].get("namespace"), obj["metadata"]["name"]
        self._store.merge(kind, *where, clone({"metadata": metadata}), manager="kube-controller-manager")
