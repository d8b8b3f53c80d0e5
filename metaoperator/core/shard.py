"""Namespace → instance ID → the names that Argo derives from it."""

from metaoperator.core import names
from metaoperator.core.model import Namespace, Shard


def instance_id(namespace: Namespace) -> str:
    """Policy `PerNamespace`: the namespace's own name, which is a label value and an object name by itself.

    The stamping policy in `manifests/fleet` puts the same text on Workflows; the two must not differ.
    """
    return namespace.name


def only_shard(namespace: Namespace) -> Shard:
    """Describe the single shard of a namespace."""
    return Shard(index=0, name=names.WORKFLOW_CONTROLLER, instance_id=instance_id(namespace))


def lease_name(instance: str) -> str:
    """Name the Lease of a child, as Argo builds it (argo-workflows `cmd/workflow-controller/main.go`)."""
    return f"{names.WORKFLOW_CONTROLLER}-{instance}" if instance else names.WORKFLOW_CONTROLLER
