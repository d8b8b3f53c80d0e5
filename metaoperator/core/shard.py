"""Namespace → instance ID → the names that Argo derives from it."""

from enum import StrEnum

from metaoperator.core import names
from metaoperator.core.model import Manifest, Shard


class Policy(StrEnum):
    """How a ControllerTemplate chooses instance IDs (`spec.instanceIDPolicy`). The first is the default."""

    PER_NAMESPACE = "PerNamespace"
    FLEET = "Fleet"
    NONE = "None"


def policy(template: Manifest) -> Policy:
    """Read the policy of a ControllerTemplate that the API server took."""
    return Policy(template["spec"].get("instanceIDPolicy") or Policy.PER_NAMESPACE)


def instance_id(namespace: str, chosen: Policy) -> str:
    """Name the instance ID that a policy gives a namespace; empty for none.

    A namespace's name is a label value and an object name by itself. The stamping policies in `manifests` put the same
    text on Workflows; the two must not differ.
    """
    match chosen:
        case Policy.PER_NAMESPACE:
            return namespace
        case Policy.FLEET:
            return names.FLEET_INSTANCE_ID
        case Policy.NONE:
            return ""


def only_shard(instance: str) -> Shard:
    """Describe the single shard of a namespace."""
    return Shard(index=0, name=names.WORKFLOW_CONTROLLER, instance_id=instance)


def lease_name(instance: str) -> str:
    """Name the Lease of a child, as Argo builds it (argo-workflows `cmd/workflow-controller/main.go`)."""
    return f"{names.WORKFLOW_CONTROLLER}-{instance}" if instance else names.WORKFLOW_CONTROLLER


def recorded(live: Manifest) -> str | None:
    """Read which instance ID an object of ours was rendered for; `None` where nothing of it is written down."""
    return (live["metadata"].get("annotations") or {}).get(names.INSTANCE_ID_ANNOTATION)
