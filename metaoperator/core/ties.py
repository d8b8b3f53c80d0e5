"""Pods are tied to the ServiceAccount that they run under: one that is made anew replaces them.

The tie is an annotation of the pod template, so it cannot be put on without new pods. A Deployment that is taken over
with pods that may run on gets it with the next change that replaces them anyway, or when they are gone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from metaoperator.core import health, names, ownership, paths
from metaoperator.core.model import DEPLOYMENT, SERVICE_ACCOUNT, Manifest, Ref


def tied(manifest: Manifest, observed: Mapping[Ref, Manifest]) -> Manifest:
    """Write the UID of its account into a Deployment; other kinds, and one without an account, stay as they are."""
    ref = Ref.of(manifest)
    if ref.kind != DEPLOYMENT:
        return manifest
    account = observed.get(account_of(manifest))
    if account is None:
        return manifest
    spec: Mapping[str, Any] = manifest.get("spec") or {}
    template: Mapping[str, Any] = spec.get("template") or {}
    meta: Mapping[str, Any] = template.get("metadata") or {}
    annotations = {**(meta.get("annotations") or {}), names.ACCOUNT_ANNOTATION: account["metadata"]["uid"]}
    return {
        **manifest,
        "spec": {**spec, "template": {**template, "metadata": {**meta, "annotations": annotations}}},
    }


def run_on(manifest: Manifest, live: Manifest, observed: Mapping[Ref, Manifest], pods: Sequence[Manifest]) -> bool:
    """Tell whether pods that were taken over are still what is rendered, and there: they stay untied."""
    if Ref.of(live).kind != DEPLOYMENT or names.ACCOUNT_ANNOTATION in paths.mapping(
        live, "spec", "template", "metadata", "annotations"
    ):
        return False
    account = observed.get(account_of(live))
    adopted = "" if account is None else paths.mapping(account, "metadata", "annotations").get(names.ADOPTED_ANNOTATION)
    same = ownership.rendered_digest(live) == ownership.rendered_digest(manifest)
    return same and adopted in replica_sets(live, pods)


def account_of(deployment: Manifest) -> Ref:
    """Name the ServiceAccount that a Deployment runs under."""
    pod = paths.mapping(deployment, "spec", "template", "spec")
    return Ref(SERVICE_ACCOUNT, Ref.of(deployment).namespace, str(pod.get("serviceAccountName") or "default"))


def replica_sets(deployment: Manifest, pods: Sequence[Manifest]) -> frozenset[str]:
    """Name the ReplicaSets of a Deployment whose pods are there."""
    return frozenset(
        owner["name"]
        for pod in pods
        if health.belongs(pod, deployment["metadata"]["name"]) and "deletionTimestamp" not in pod["metadata"]
        for owner in pod["metadata"]["ownerReferences"]
        if owner["kind"] == "ReplicaSet"
    )
