"""The row of a namespace: its WorkflowController is made, filled in, and held when its predecessor's spec is lost."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from metaoperator import publish
from metaoperator.cluster import Cluster
from metaoperator.core import names, ownership, shard
from metaoperator.core.errors import Conflict, Stalled
from metaoperator.core.model import NAMESPACE, Desired, Manifest, Namespace, Ref
from metaoperator.core.names import Reason
from metaoperator.core.shard import Policy
from metaoperator.fleet import Fleet
from metaoperator.mirror import Mirror

Recorded = Callable[[Namespace], Awaitable[Mapping[str, Any] | None]]
"""What is recorded of a namespace's row: its spec; `None` where nothing is."""


class Row:
    """Writes the spec of WorkflowControllers; their status is `publish`'s."""

    def __init__(self, cluster: Cluster, mirror: Mirror, fleet: Fleet, *, recorded: Recorded | None = None) -> None:
        """Remember only which rows were paused: a cache, for one that is deleted. `recorded` knows what a row said."""
        self._cluster = cluster
        self._mirror = mirror
        self._fleet = fleet
        self._recorded = recorded
        self._paused: dict[str, str] = {}

    def forget(self, namespace: str) -> None:
        """Drop what is remembered of one namespace."""
        self._paused.pop(namespace, None)

    async def ensure(
        self, namespace: Namespace, policy: Policy | None, *, taken_over: str | None = None
    ) -> tuple[Manifest, str | None]:
        """Make the WorkflowController, or fill in its instance ID; one that a person made does not get our mark.

        The ID is what the object says, else that of the child that is there, or of an install that is `taken_over`,
        else what the policy gives: empty for none, `None` while nobody knows.
        """
        ref = publish.wfc_ref(namespace.name)
        live = await self._mirror.get(ref)
        if live is not None:
            self._remember(namespace, live)
        seen = self._fleet.observe(namespace.name, None)
        written = ((live or {}).get("spec") or {}).get("instanceID")
        instance = written or seen.rendered_for(namespace)
        if instance is None:
            instance = taken_over
        if instance is None and policy is not None:
            instance = shard.instance_id(namespace.name, policy)
        if live is not None and (written or not instance):
            if self._something_is_missing(namespace, live):
                await self.confirm(namespace)
            return live, instance
        spec: dict[str, Any] = {"instanceID": instance} if instance else {}
        if live is None:
            await self.confirm(namespace)
            meta = self._marked(ref, namespace)
            if seen.deployment(namespace.uid) is not None:
                said = None if self._recorded is None else await self._recorded(namespace)
                if said is None:
                    meta["annotations"][names.SPEC_LOST_ANNOTATION] = "true"
                spec = {**(said or {}), **spec}
            meta["resourceVersion"] = "1"  # creates, or conflicts with one that a person made meanwhile
            if self._paused.get(namespace.name) == namespace.uid:
                spec["paused"] = True  # somebody works on this child by hand: that its row is gone does not end it
            return await self._write_wfc(ref, meta, spec), instance
        return await self._rewritten(namespace, live, spec), instance

    async def _rewritten(self, namespace: Namespace, live: Manifest, spec: Manifest) -> Manifest:
        """Add to a row's spec; what we wrote before stays."""
        ref, meta = Ref.of(live), live["metadata"]
        marked: dict[str, Any] = {"name": ref.name, "namespace": ref.namespace}
        if ownership.is_ours(live, namespace.uid):
            marked = self._marked(ref, namespace)
            if names.SPEC_LOST_ANNOTATION in meta["annotations"]:
                marked["annotations"][names.SPEC_LOST_ANNOTATION] = meta["annotations"][names.SPEC_LOST_ANNOTATION]
        return await self._write_wfc(ref, marked | {"uid": meta["uid"]}, {**_written(live), **spec})

    def _remember(self, namespace: Namespace, live: Manifest) -> None:
        if (live.get("spec") or {}).get("paused"):
            self._paused[namespace.name] = namespace.uid
        else:
            self._paused.pop(namespace.name, None)

    def _something_is_missing(self, namespace: Namespace, wfc: Manifest) -> bool:
        """Tell whether objects may be made in this pass: the row's own copy may be as old as the namespace's."""
        there = self._fleet.observe(namespace.name, None).ours(namespace.uid)
        ours = {f"{ref.kind.kind}/{ref.name}" for ref in there}
        return not ours or not ours.issuperset((wfc.get("status") or {}).get("inventory") or ())

    async def _write_wfc(self, ref: Ref, meta: Manifest, spec: Manifest) -> Manifest:
        body = {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, "metadata": meta, "spec": spec}
        try:
            made, _ = await self._cluster.apply(body, force=False)
        except Conflict:
            self._mirror.saw(ref, "")
            raise
        self._mirror.learn(made)
        return made

    async def confirm(self, namespace: Namespace) -> None:
        """Ask the API server itself whether a namespace is what we took it for; `Conflict` where our copy is older."""
        ref = Ref(NAMESPACE, "", namespace.name)
        live = await self._cluster.get(ref)
        if live is None or Namespace.of(live) != namespace:
            self._mirror.saw(ref, "")
            raise Conflict(f"namespace {namespace.name} is not what it was")

    async def spec_found(self, namespace: Namespace, wfc: Manifest, desired: Desired) -> None:
        """Hold a child whose WorkflowController was deleted, as long as a new one would make another child of it."""
        meta = wfc["metadata"]
        if names.SPEC_LOST_ANNOTATION not in (meta.get("annotations") or {}):
            return
        seen = self._fleet.observe(namespace.name, None)
        wanted = {Ref.of(each): ownership.rendered_digest(each) for each in desired.documents}
        other = [
            ref for ref, live in seen.ours(namespace.uid).items() if wanted.get(ref) != ownership.rendered_digest(live)
        ]
        if other and seen.deployment(namespace.uid) is not None:
            raise Stalled(
                Reason.SPEC_LOST,
                "the WorkflowController was deleted, and its values with it; the child is held as it is: write "
                f"spec.values again, or accept what is there now: kubectl -n {namespace.name} annotate "
                f"workflowcontroller {meta['name']} {names.SPEC_LOST_ANNOTATION}-",
            )
        ref = Ref.of(wfc)
        kept = self._marked(ref, namespace) | {"uid": meta["uid"]}
        there = wfc.get("spec") or {}
        await self._write_wfc(ref, kept, {key: there[key] for key in there if key == "instanceID"} | _written(wfc))

    def _marked(self, ref: Ref, namespace: Namespace) -> dict[str, Any]:
        return {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": {names.MANAGED_BY_LABEL: names.MANAGED_BY},
            "annotations": {names.NAMESPACE_UID_ANNOTATION: namespace.uid},
        }


def _written(live: Manifest) -> dict[str, Any]:
    """Keep what we wrote into a spec: what an apply of ours leaves out, the API server takes away."""
    spec = live.get("spec") or {}
    return {key: spec[key] for key in spec if ownership.owns(live, names.FIELD_MANAGER, ("spec", key))}
