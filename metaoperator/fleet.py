"""What we watch of the children: the informers, what of them asks for a look, and one namespace's observation."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from metaoperator import informer
from metaoperator.cluster import Cluster, Selection
from metaoperator.core import health, names, ownership, shard
from metaoperator.core.foreign import Foreign
from metaoperator.core.model import (
    CHILD_KINDS,
    DEPLOYMENT,
    LEASE,
    OPTIONAL_KINDS,
    POD,
    WORKFLOW,
    Kind,
    LeaseView,
    Manifest,
    Namespace,
    Ref,
    WorkCount,
)
from metaoperator.informer import Informer
from metaoperator.surroundings import Surroundings

WORK_DELAY: Final = 2.0
"""Seconds that changes of Workflows are gathered for before a namespace is looked at."""
WATCHDOG_SECONDS: Final = 2.0
_MARKED: Final = f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY}"
_UNFINISHED: Final = f"{names.COMPLETED_LABEL}!=true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the API server last said of one namespace. `work` is `None` where Workflows cannot be seen.

    `pods` are the child's; those of its companions are `beside`. `labels` counts the unfinished Workflows there by the
    instance ID that they carry, whose ever it is; `None` for none at all.
    """

    objects: Mapping[Ref, Manifest]
    pods: tuple[Manifest, ...]
    beside: tuple[Manifest, ...]
    lease: LeaseView | None
    work: WorkCount | None
    labels: Mapping[str | None, WorkCount] = field(default_factory=dict)

    def ours(self, namespace_uid: str) -> dict[Ref, Manifest]:
        """Keep those objects that carry our whole mark."""
        return {ref: live for ref, live in self.objects.items() if ownership.is_ours(live, namespace_uid)}

    def rendered_for(self, namespace: Namespace) -> str | None:
        """Read from the child itself which instance ID it has, empty for none; `None` where there is no child."""
        ours = sorted(self.ours(namespace.uid).items(), key=lambda each: each[0].kind != DEPLOYMENT)
        if not ours:
            return None
        recorded = [each for _, live in ours if (each := shard.recorded(live)) is not None]
        return recorded[0] if recorded else namespace.name  # older ones did not write it down, and had no other

    def deployment(self, namespace_uid: str) -> Manifest | None:
        """Find the child's Deployment, if it is ours."""
        for ref, live in self.ours(namespace_uid).items():
            if ref.kind == DEPLOYMENT and ref.name == names.WORKFLOW_CONTROLLER:
                return live
        return None

    def companions(self, namespace_uid: str) -> list[Manifest]:
        """Find the Deployments of ours that are not the child's."""
        return [
            live
            for ref, live in self.ours(namespace_uid).items()
            if ref.kind == DEPLOYMENT and ref.name != names.WORKFLOW_CONTROLLER
        ]


def labelled(instance_id: str) -> str:
    """Select by instance ID as a controller with it does: one without serves what has no such label."""
    return f"{names.INSTANCE_ID_LABEL}={instance_id}" if instance_id else f"!{names.INSTANCE_ID_LABEL}"


def unfinished(namespace: str, instance_id: str) -> Selection:
    """Select the unfinished Workflows of one instance ID in one namespace."""
    return Selection(
        kind=WORKFLOW,
        namespace=namespace,
        label_selector=f"{labelled(instance_id)},{names.COMPLETED_LABEL}!=true",
        metadata_only=True,
    )


class Fleet:
    """All informers. `ask(name, delay)` is called for each namespace that deserves a look."""

    def __init__(
        self,
        cluster: Cluster,
        kinds: Collection[Kind],
        ask: Callable[[str, float], None],
        *,
        opted_in: Callable[[str], bool],
        everyone: Callable[[], Collection[str]] = tuple,
        around: Surroundings | None = None,
        namespace: str = "",
    ) -> None:
        """`kinds` are those that template sets declare so far; what children live on is watched besides.

        With a `namespace`, no child outside of it is looked at.

        Workflows and Leases of namespaces that are neither `opted_in` nor hold anything of ours are nobody's news.
        """
        self._ask = ask
        self._opted_in = opted_in
        self._everyone = everyone
        self._moved: dict[tuple[str, str], float] = {}
        self._stale: set[tuple[str, str]] = set()
        self._work: dict[str, dict[str | None, Counter[bool]]] = {}
        self._strangers: set[str] = set()
        self._cluster = cluster
        self._namespace = namespace
        self._further: asyncio.Queue[Informer] = asyncio.Queue()
        self.objects = {kind: self._informer(kind) for kind in sorted({*CHILD_KINDS, *OPTIONAL_KINDS, *kinds})}
        self.pods = Informer(
            cluster,
            Selection(kind=POD, label_selector=_MARKED, namespace=namespace),
            project=informer.pod,
            changed=self._object_changed,
        )
        self.leases = Informer(
            cluster,
            # Node heartbeats are most of a cluster's Leases; no child lives there.
            Selection(kind=LEASE, field_selector="metadata.namespace!=kube-node-lease", namespace=namespace),
            project=_controllers_lease,
            changed=self._lease_changed,
        )
        self.workflows = Informer(
            cluster,
            Selection(kind=WORKFLOW, label_selector=_UNFINISHED, metadata_only=True, namespace=namespace),
            project=informer.work,
            changed=self._work_changed,
        )

        self.around = around or Surroundings(cluster, ask, leads=self._leads, holder=self._holder, everyone=everyone)

    @property
    def informers(self) -> tuple[Informer, ...]:
        """Every informer, for probes."""
        return (*self._own, *self.around.informers)

    @property
    def _own(self) -> tuple[Informer, ...]:
        return (*self.objects.values(), self.pods, self.leases, self.workflows)

    @property
    def base(self) -> tuple[Informer, ...]:
        """Those informers that every namespace rests on; kinds that only some template sets declare are beside them."""
        return (*(self.objects[kind] for kind in CHILD_KINDS), self.pods, self.leases, self.workflows)

    @property
    def synced(self) -> bool:
        """Tell whether every store of the base holds a whole list, and what is around the children was judged."""
        return all(each.synced for each in self.base) and self.around.known

    def unseen(self, kinds: Collection[Kind]) -> dict[Kind, str]:
        """Say of each of these kinds that cannot be watched why not, and what to do."""
        told: dict[Kind, str] = {}
        for kind in sorted(kinds):
            each = self.objects.get(kind)
            if each is None:
                told[kind] = f"the operator does not watch {kind} yet: it begins to by itself"
            elif each.kind_missing:
                told[kind] = f"the cluster has no {kind}: install its CRD, or switch off the value that asks for one"
            elif not each.synced:
                why = f" ({each.refused})" if each.refused else ""
                told[kind] = f"the operator cannot watch {kind}{why}: grant it get, list and watch"
        return told

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """Hand out what has to run: the informers and the watch over Leases."""
        return [*(each.run() for each in self._own), *self.around.runs(), self._watch_leases(), self._watch_further()]

    def watch(self, kinds: Collection[Kind]) -> None:
        """Watch these kinds too from now on. None is ever left out again: what was made of it must still be pruned."""
        for kind in sorted({*kinds} - {*self.objects}):
            self.objects[kind] = self._informer(kind)
            self._further.put_nowait(self.objects[kind])

    async def _watch_further(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                each = await self._further.get()
                group.create_task(each.run())
                group.create_task(self._tell_synced(each))

    async def _tell_synced(self, further: Informer) -> None:
        """Ask for a look at everyone once a kind that came later is read: who waits for it hears of nothing else."""
        await further.wait_synced()
        for name in self._everyone():
            self._ask(name, 0.0)

    def _informer(self, kind: Kind) -> Informer:
        return Informer(
            self._cluster,
            Selection(kind=kind, label_selector=_MARKED, namespace=self._namespace),
            project=informer.without_noise,
            changed=self._object_changed,
            absent_pause=informer.ABSENT_PAUSE,
        )

    async def read_once(self) -> None:
        """Fill every store without watching; what may not be read stays unsynced, and says why."""
        await asyncio.gather(*(each.read_once() for each in self._own))
        if not self.around.known:
            await self.around.read_once()

    def marked_namespaces(self) -> frozenset[str]:
        """Name the namespaces that hold anything with our label."""
        return frozenset().union(*(each.namespaces() for each in self.objects.values()))

    def observe(self, namespace: str, instance_id: str | None) -> Observed:
        """Look at one namespace, and at the work with one instance ID, empty for none; nothing is sent."""
        objects = {Ref.of(live): live for each in self.objects.values() for live in each.within(namespace)}
        pods = tuple(self.pods.within(namespace))
        childs = tuple(pod for pod in pods if health.belongs(pod, names.WORKFLOW_CONTROLLER))
        work = self._work.get(namespace, {})
        mine, unlabelled = work.get(instance_id or None, Counter()), work.get(None, Counter()) if instance_id else None
        return Observed(
            objects=objects,
            pods=childs,
            beside=tuple(pod for pod in pods if pod not in childs) if len(childs) < len(pods) else (),
            lease=None if instance_id is None else self._lease(namespace, shard.lease_name(instance_id)),
            work=None
            if self.workflows.kind_missing
            else WorkCount(
                running=mine[True], pending=mine[False], unlabelled=unlabelled.total() if unlabelled is not None else 0
            ),
            labels={label: WorkCount(running=each[True], pending=each[False]) for label, each in work.items()},
        )

    def learn(self, live: Manifest) -> None:
        """Take over what a write answered."""
        ref = Ref.of(live)
        if ref.kind in self.objects:
            self.objects[ref.kind].learn(live)

    def work_moved(self, namespace: str) -> None:
        """Take note that something of Argo's changed in a namespace: news, where anything of ours is."""
        self._ask_if_ours(namespace, WORK_DELAY)

    def nothing_of_ours(self, namespace: str) -> None:
        """Take note that what carries our label there is not ours: Workflows there are nobody's news."""
        if self._holds(namespace):
            self._strangers.add(namespace)

    # ---- changes

    def _object_changed(self, ref: Ref, _before: Manifest | None, _after: Manifest | None) -> None:
        self._strangers.discard(ref.namespace)
        self._ask(ref.namespace, 0.0)

    def _work_changed(self, ref: Ref, before: Manifest | None, after: Manifest | None) -> None:
        for manifest, change in ((before, -1), (after, 1)):
            if manifest is not None:
                labels = manifest["metadata"].get("labels") or {}
                counts = self._work.setdefault(ref.namespace, {}).setdefault(
                    labels.get(names.INSTANCE_ID_LABEL), Counter()
                )
                counts[bool(labels.get(names.PHASE_LABEL))] += change
        left = {label: counts for label, counts in self._work[ref.namespace].items() if any(counts.values())}
        if left:
            self._work[ref.namespace] = left
        else:
            del self._work[ref.namespace]
        self.work_moved(ref.namespace)

    def _lease_changed(self, ref: Ref, before: Manifest | None, after: Manifest | None) -> None:
        key = (ref.namespace, ref.name)
        if after is None:
            self._moved.pop(key, None)
            self._stale.discard(key)
            self.around.foreigners.lease_moved(ref)
            self._ask_if_ours(ref.namespace, 0.0)
            return
        now = asyncio.get_running_loop().time()
        # Later on only movement that we see counts; at first sight the writer's clock is all there is.
        self._moved[key] = now if before is not None else now - _age(after)
        moved_hands = before is None or before["spec"].get("holderIdentity") != after["spec"].get("holderIdentity")
        if moved_hands or key in self._stale:
            self._stale.discard(key)
            self.around.foreigners.lease_moved(ref)
            self._ask_if_ours(ref.namespace, 0.0)

    def _leads(self, found: Foreign) -> bool:
        return bool(self._holder(found.lease))

    def _holder(self, lease: Ref) -> str:
        """Name who moves a Lease, none of our pods; empty for nobody."""
        view = self._lease(lease.namespace, lease.name)
        if view is None or view.age > view.duration or self.pods.get(lease.namespace, view.holder) is not None:
            return ""
        return view.holder

    def _ask_if_ours(self, namespace: str, delay: float) -> None:
        if self._opted_in(namespace) or (namespace not in self._strangers and self._holds(namespace)):
            self._ask(namespace, delay)

    def _holds(self, namespace: str) -> bool:
        return any(each.holds(namespace) for each in self.objects.values())

    async def _watch_leases(self) -> None:
        """Ask for a look at each namespace whose Lease just stopped moving: nothing else would tell."""
        while True:
            await asyncio.sleep(WATCHDOG_SECONDS)
            for namespace, name in list(self._moved):
                lease = self._lease(namespace, name)
                if lease is not None and lease.age > lease.duration and (namespace, name) not in self._stale:
                    self._stale.add((namespace, name))
                    self.around.foreigners.lease_moved(Ref(LEASE, namespace, name))
                    self._ask_if_ours(namespace, 0.0)

    def _lease(self, namespace: str, name: str) -> LeaseView | None:
        live = self.leases.get(namespace, name)
        if live is None:
            return None
        # Until the moment that anything was heard: while we are cut off, a Lease may well move without our seeing it.
        # What moved meanwhile is told bit by bit afterwards: a Lease is not stale because another was told of first.
        since = max(self._moved.get((namespace, name), 0.0), self.leases.resumed_at)
        age = max(0.0, self.leases.heard_at - since)
        spec = live["spec"]
        return LeaseView(
            holder=spec.get("holderIdentity") or "", duration=float(spec.get("leaseDurationSeconds") or 15), age=age
        )


def _controllers_lease(live: Manifest) -> Manifest | None:
    """Keep only Leases that Argo could have made for a controller, and of those what tells who leads since when."""
    meta, spec = live["metadata"], live.get("spec") or {}
    if meta["name"] != names.WORKFLOW_CONTROLLER and not meta["name"].startswith(f"{names.WORKFLOW_CONTROLLER}-"):
        return None
    return {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {"name": meta["name"], "namespace": meta.get("namespace", ""), "uid": meta["uid"]},
        "spec": {key: spec.get(key) for key in ("holderIdentity", "leaseDurationSeconds", "renewTime")},
    }


def _age(lease: Manifest) -> float:
    try:
        renewed = datetime.fromisoformat(lease["spec"]["renewTime"])
    except (KeyError, TypeError, ValueError):
        return 0.0
    return max(0.0, (datetime.now(UTC) - renewed).total_seconds())
