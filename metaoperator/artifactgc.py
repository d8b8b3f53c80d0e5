"""Pods that delete artifacts, given the label that Argo forgets: without it their Workflows keep a finalizer for ever.

A controller with an instance ID writes that under `ARGO_INSTANCE_ID` (argo-workflows `controller/artifact_gc.go`) and
looks only at pods that have it under the usual label. It takes note of one that gets the label within seconds, also of
one that ended long ago. Nothing else of the pod is touched.
"""

import logging
from collections.abc import Callable
from typing import Final

from metaoperator import batches
from metaoperator.cluster import Cluster, Selection
from metaoperator.core import names, ownership, shard
from metaoperator.core.errors import Conflict, Gone, Rejected, RetryableError
from metaoperator.core.model import DEPLOYMENT, NAMESPACE, POD, Manifest, Ref
from metaoperator.fleet import Fleet
from metaoperator.informer import Informer
from metaoperator.mirror import Mirror
from metaoperator.recorder import Recorder

log = logging.getLogger(__name__)

FORGOTTEN: Final = Selection(
    kind=POD,
    label_selector=(
        f"{names.COMPONENT_LABEL}={names.ARTIFACT_GC},{names.MISPLACED_INSTANCE_ID_LABEL},!{names.INSTANCE_ID_LABEL}"
    ),
    metadata_only=True,
)
REFUSED_SECONDS: Final = 300.0
FAILED_SECONDS: Final = 30.0


class ArtifactGC:
    """Watches those pods alone: where the label is put on from the start, as the default set does, there are none."""

    def __init__(
        self, cluster: Cluster, mirror: Mirror, fleet: Fleet, recorder: Recorder, ask: Callable[[str, float], None]
    ) -> None:
        """`ask(namespace, delay)` is called for each namespace that has a new one."""
        self._cluster = cluster
        self._mirror = mirror
        self._fleet = fleet
        self._recorder = recorder
        self._told: dict[str, str] = {}
        self.pods = Informer(
            cluster,
            FORGOTTEN,
            project=_forgotten,
            changed=lambda ref, _, after: None if after is None else ask(ref.namespace, 0.0),
        )

    async def heal(self, namespace: str) -> float | None:
        """Label the pods of one namespace that its child made; returns when to try again what was refused."""
        if not self.pods.holds(namespace) or (instance := await self._instance(namespace)) is None:
            return None
        again = None

        async def label(pod: Manifest) -> bool:
            nonlocal again
            again = again if await self._label(pod, instance) else REFUSED_SECONDS
            return False

        key = names.MISPLACED_INSTANCE_ID_LABEL
        there = [pod for pod in self.pods.within(namespace) if pod["metadata"]["labels"][key] == instance]
        try:
            await batches.each(there, label)
        except RetryableError as exc:
            if not batches.may_be_its_own(exc):
                raise
            # Such as a webhook for pods that is down: what else is to be done in this namespace goes on.
            log.warning("artifact GC pod not labelled", extra={"namespace": namespace, "error": str(exc)})
            again = FAILED_SECONDS
        left = {pod["metadata"]["uid"] for pod in self.pods.within(namespace)} if again else set()
        self._told = {uid: told for uid, told in self._told.items() if told != namespace or uid in left}
        return again

    async def _instance(self, namespace: str) -> str | None:
        """Read the instance ID of the child there, which may be draining; `None` where there is no child of ours."""
        child = self._fleet.objects[DEPLOYMENT].get(namespace, names.WORKFLOW_CONTROLLER)
        if child is None:
            return None
        recorded = shard.recorded(child)
        space = await self._mirror.get(Ref(NAMESPACE, "", namespace))
        if space is None or not ownership.is_ours(child, space["metadata"]["uid"]):
            return None
        return namespace if recorded is None else recorded

    async def _label(self, pod: Manifest, instance: str) -> bool:
        """Put the label on; a refusal is told once at the pod."""
        meta = pod["metadata"]
        ref = Ref(POD, meta["namespace"], meta["name"])
        patch = {"metadata": {"uid": meta["uid"], "labels": {names.INSTANCE_ID_LABEL: instance}}}
        try:
            live = await self._cluster.merge(ref, patch, metadata_only=True)
        except (Gone, Conflict):
            return True  # gone, or another of its name
        except Rejected as exc:
            if meta["uid"] not in self._told:
                self._told[meta["uid"]] = meta["namespace"]
                message = f"its Workflow keeps the finalizer workflows.argoproj.io/{names.ARTIFACT_GC}: {exc.told}"
                about = {"apiVersion": POD.api_version, "kind": POD.kind, "metadata": meta}
                await self._recorder.tell(about, exc.reason, message, warning=True)
            return False
        self.pods.learn({**live, "apiVersion": POD.api_version, "kind": POD.kind})
        log.info("artifact GC pod labelled", extra={"pod": str(ref)})
        return True


def _forgotten(live: Manifest) -> Manifest | None:
    """Keep what tells whose it is, until it has its label."""
    meta = live["metadata"]
    labels = meta.get("labels") or {}
    if names.INSTANCE_ID_LABEL in labels:
        return None
    key = names.MISPLACED_INSTANCE_ID_LABEL
    kept = {name: meta[name] for name in ("name", "namespace", "uid")}
    return {"metadata": kept | {"labels": {key: labels[key]}}}
