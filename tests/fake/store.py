"""The objects and their life: create, update, delete, with versions, generations and preconditions.

A stored object is never changed in place, so it can be handed out and kept in the history as it is.
"""

import random
import uuid
from collections.abc import Callable, Iterator

from . import apply, defaults, problems, strategy, typed, validation
from .history import ADDED, DELETED, MODIFIED, Event, History, Place, place
from .kinds import Kind, Manifest, Registry
from .selectors import Predicate
from .values import clone, json_patch, merge_patch, without_nulls


class Store:
    """Everything that the API server would keep in etcd, and the strategy around each write."""

    def __init__(self, registry: Registry, history: History, clock: Callable[[], str]) -> None:
        self.registry = registry
        self.history = history
        self.clock = clock
        self.listeners: list[Callable[[Kind, Event], None]] = []
        self._objects: dict[Place, dict[str, dict[str, Manifest]]] = {}  # by namespace ("" for none) and name
        self.admit: Callable[[Kind, Manifest], None] = lambda _kind, _new: None

    # Reading

    def find(self, kind: Kind, namespace: str | None, name: str) -> Manifest | None:
        """Return an object, or `None`."""
        return self._objects.get(place(kind), {}).get(namespace or "", {}).get(name)

    def get(self, kind: Kind, namespace: str | None, name: str) -> Manifest:
        """Return an object or raise the 404."""
        found = self.find(kind, namespace, name)
        if found is None:
            raise problems.not_found(kind, name)
        return found

    def select(self, kind: Kind, namespace: str | None = None, predicate: Predicate | None = None) -> list[Manifest]:
        """Return the objects in the order of their keys, as etcd does."""
        homes = self._objects.get(place(kind), {})
        return [
            obj
            for home in (sorted(homes) if namespace is None else [namespace])
            for _, obj in sorted(homes.get(home, {}).items())
            if predicate is None or predicate(obj)
        ]

    def everything(self) -> Iterator[tuple[Kind, Manifest]]:
        """Walk over all objects of all served kinds."""
        for kind in self.registry:
            for obj in self.select(kind):
                yield kind, obj

    # Writing

    def create(
        self, kind: Kind, namespace: str | None, obj: Manifest, *, manager: str, dry_run: bool = False
    ) -> Manifest:
        """Create an object for a POST."""
        new = strategy.received(kind, namespace, obj, None)
        metadata = new["metadata"]
        if metadata.get("resourceVersion"):
            raise problems.ApiError(500, "InternalError", "resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + "".join(random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
        if not metadata.get("name"):
            raise problems.invalid(kind, "", "metadata.name", "Required value: name or generateName is required")
        self._check_home(kind, new)
        if self.find(kind, namespace, metadata["name"]):
            raise problems.already_exists(kind, metadata["name"])
        if kind.status:
            new.pop("status", None)
        self._filled(kind, new)
        self.admit(kind, new)
        apply.track(kind, None, new, apply.Owner(manager, apply.UPDATE, kind.api_version), self.clock())
        return self._born(kind, new, dry_run=dry_run)

    def replace(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        obj: Manifest,
        *,
        manager: str,
        sub: str = "",
        dry_run: bool = False,
    ) -> tuple[int, Manifest]:
        """Update an object for a PUT; some kinds are created by it."""
        live = self.find(kind, namespace, name)
        if live is None:
            if not kind.create_on_put or sub:
                raise problems.not_found(kind, name)
            return 201, self.create(kind, namespace, obj, manager=manager, dry_run=dry_run)
        if not kind.blind_put and not obj.get("metadata", {}).get("resourceVersion"):
            why = "Invalid value: 0: must be specified for an update"
            raise problems.invalid(kind, name, "metadata.resourceVersion", why)
        return 200, self._update(kind, live, obj, manager=manager, sub=sub, dry_run=dry_run, put=True)

    def merge(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        patch: Manifest | list[Manifest],
        *,
        manager: str,
        sub: str = "",
        dry_run: bool = False,
    ) -> Manifest:
        """Apply a JSON merge patch, or a JSON patch where it is a list."""
        live = self.get(kind, namespace, name)
        try:
            new = json_patch(live, patch) if isinstance(patch, list) else merge_patch(live, patch)
        except ValueError as exc:
            raise problems.ApiError(422, "Invalid", f"the server rejected our request: {exc}") from exc
        return self._update(kind, live, new, manager=manager, sub=sub, dry_run=dry_run)

    def apply(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        config: Manifest,
        *,
        manager: str,
        force: bool = False,
        sub: str = "",
        dry_run: bool = False,
    ) -> tuple[int, Manifest]:
        """Apply a configuration server-side."""
        if config.get("apiVersion") != kind.api_version:
            raise problems.bad_request(f"invalid object type: {config.get('apiVersion')}, Kind={config.get('kind')}")
        if config.get("metadata", {}).get("managedFields") is not None:
            raise problems.bad_request("metadata.managedFields must be nil")
        live = self.find(kind, namespace, name)
        if live is None and sub:
            raise problems.not_found(kind, name)
        config = strategy.received(
            kind, namespace, {**config, "metadata": {"name": name, **config.get("metadata", {})}}, name
        )
        if live is None and (uid := config["metadata"].get("uid")):
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise problems.conflict(kind, name, why)
        if live is not None:
            strategy.check_preconditions(kind, live, config["metadata"])
        claims = dict(config)
        if sub:
            claims = {key: config[key] for key in ("apiVersion", "kind", "status") if key in config} | {"metadata": {}}
        elif kind.status:
            claims.pop("status", None)
        typed.check(kind, claims)
        owner = apply.Owner(manager, apply.APPLY, kind.api_version, sub)
        new = clone(apply.apply(kind, live, claims, owner, self.clock(), force=force))
        if not kind.custom:
            new = without_nulls(new)
        if live is None:
            # A resourceVersion is ignored when there is nothing to compare it with: a create-only apply names one.
            new["metadata"].pop("resourceVersion", None)
            self._check_home(kind, new)
            self._filled(kind, new)
            self.admit(kind, new)
            return 201, self._born(kind, new, dry_run=dry_run)
        return 200, self._changed(kind, live, self._checked(kind, live, new, sub), dry_run=dry_run)

    def delete(
        self, kind: Kind, namespace: str | None, name: str, options: Manifest | None = None, *, dry_run: bool = False
    ) -> tuple[bool, Manifest]:
        """Delete an object, or mark it while finalizers hold it; the answer says whether it is gone."""
        options = options or {}
        live = self.get(kind, namespace, name)
        strategy.check_delete(kind, live, options)
        namespaced_end = kind.kind == "Namespace"  # its spec.finalizers always hold it until it is empty
        if namespaced_end and live["metadata"].get("deletionTimestamp"):
            return False, live
        marked = strategy.marked(kind, live, options.get("propagationPolicy"), self.clock())
        if not marked["metadata"].get("finalizers") and not namespaced_end:
            if not dry_run:
                self.remove(kind, live)
            return True, live
        return False, self._changed(kind, live, marked, dry_run=dry_run)

    def remove(self, kind: Kind, live: Manifest) -> None:
        """Take an object out, whatever holds it, and say so."""
        metadata = live["metadata"]
        del self._objects[place(kind)][metadata.get("namespace", "")][metadata["name"]]
        version = self.history.tick()
        last = {**live, "metadata": {**metadata, "resourceVersion": str(version)}}
        self._publish(kind, Event(version, place(kind), DELETED, last, live))

    # The steps of a write

    def _check_home(self, kind: Kind, new: Manifest) -> None:
        if not kind.namespaced:
            return
        home = self.get(self.registry.named("Namespace"), None, new["metadata"]["namespace"])
        if home["metadata"].get("deletionTimestamp"):
            raise problems.terminating(kind, new["metadata"]["name"], home["metadata"]["name"])

    def _checked(self, kind: Kind, live: Manifest, new: Manifest, sub: str) -> Manifest:
        """Prepare an update; what is no write of a subresource is validated."""
        new = strategy.prepared(kind, live, new, sub)
        if not sub:
            strategy.check_content(kind, live, new)
            self._filled(kind, new)
            strategy.check_immutable(kind, live, new)
        return new

    def _filled(self, kind: Kind, new: Manifest) -> None:
        """Default and validate."""
        defaults.fill(kind, new)
        strategy.check_complete(kind, new)
        validation.validate(kind, new)

    def _born(self, kind: Kind, new: Manifest, *, dry_run: bool) -> Manifest:
        metadata = new["metadata"]
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = self.clock()
        for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            metadata.pop(field, None)
        if kind.generation:
            metadata["generation"] = 1
        validation.store_limit(new)
        if dry_run:
            return new
        version = self.history.tick()
        metadata["resourceVersion"] = str(version)
        self._keep(kind, new)
        self._publish(kind, Event(version, place(kind), ADDED, new, None))
        return new

    def _update(
        self, kind: Kind, live: Manifest, obj: Manifest, *, manager: str, sub: str, dry_run: bool, put: bool = False
    ) -> Manifest:
        new = strategy.received(kind, live["metadata"].get("namespace"), obj, live["metadata"]["name"])
        if not kind.custom:
            new = without_nulls(new)
        strategy.check_preconditions(kind, live, new["metadata"], put=put)
        new = self._checked(kind, live, new, sub)
        apply.track(kind, live, new, apply.Owner(manager, apply.UPDATE, kind.api_version, sub), self.clock())
        return self._changed(kind, live, new, dry_run=dry_run)

    def _changed(self, kind: Kind, live: Manifest, new: Manifest, *, dry_run: bool) -> Manifest:
        metadata = new["metadata"]
        metadata["resourceVersion"] = live["metadata"]["resourceVersion"]
        if strategy.timeless(new) == strategy.timeless(live):
            return live
        if (
            kind.generation
            and metadata["generation"] == live["metadata"]["generation"]
            and strategy.counts(kind, live, new)
        ):
            metadata["generation"] += 1
        validation.store_limit(new)
        if dry_run:
            return new
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers") and kind.kind != "Namespace":
            self.remove(kind, live)
            return new
        version = self.history.tick()
        metadata["resourceVersion"] = str(version)
        self._keep(kind, new)
        self._publish(kind, Event(version, place(kind), MODIFIED, new, live))
        return new

    def _keep(self, kind: Kind, new: Manifest) -> None:
        homes = self._objects.setdefault(place(kind), {})
        homes.setdefault(new["metadata"].get("namespace", ""), {})[new["metadata"]["name"]] = new

    def _publish(self, kind: Kind, event: Event) -> None:
        self.history.publish(event)
        for listener in self.listeners:
            listener(kind, event)
