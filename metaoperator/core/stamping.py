"""What admission puts on new Workflows, held against the instance ID that a namespace's child serves."""

from dataclasses import dataclass
from typing import Final

from metaoperator.core import shard
from metaoperator.core.names import Reason
from metaoperator.core.shard import Policy
from metaoperator.core.status import Note

_HOME = "manifests/components"
COMPONENTS: Final = {Policy.FLEET: f"{_HOME}/instance-id-fleet", Policy.NONE: f"{_HOME}/instance-id-none"}
"""What installs the stamping that fits a policy; the bundle as it is fits the first one."""
_PINNED: Final = f"{_HOME}/instance-id-pinned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamps:
    """The stamping policies that are in force: how the general one chooses, and whether pinned IDs are read at all.

    Without a general one, or where it cannot be seen, `policy` is `None`.
    """

    policy: Policy | None = None
    pinned: bool = False

    def puts(self, namespace: str, instance: str) -> str:
        """Name the ID that a new Workflow gets where the WorkflowController says `instance`; empty for none."""
        if self.pinned and instance:
            return instance
        return "" if self.policy is None else shard.instance_id(namespace, self.policy)


def fault(namespace: str, instance: str, *, child: str | None, stamps: Stamps) -> Note | None:
    """Say why a child with this ID would leave Workflows to nobody; `None` where it would not.

    `child` is the ID of the controller that is there, `None` for none. It is never changed under one: its Workflows and
    CronWorkflows carry it, and it alone finishes what it began.
    """
    if child is not None and child != instance:
        return Note(
            reason=Reason.INSTANCE_ID_CHANGED,
            message=f"spec.instanceID is {instance}, but the controller here has {_named(child)}, and so have its "
            "Workflows: nothing is changed; delete this WorkflowController, and it is made anew with that ID, or opt "
            "out, wait until it is removed, and opt in with another",
        )
    stamped = stamps.puts(namespace, instance)
    if stamped in {"", instance}:
        return None
    return Note(
        reason=Reason.INSTANCE_ID_UNSUPPORTED,
        message=f"new Workflows here are stamped with {stamped}, and a controller with {_named(instance)} would serve "
        f"none of them: {_cure(namespace, instance)}",
    )


def _named(instance: str) -> str:
    return f"the instance ID {instance}" if instance else "no instance ID"


def _cure(namespace: str, instance: str) -> str:
    if not instance:
        return f"take the stamping policy away ({COMPONENTS[Policy.NONE]})"
    if instance == namespace:
        return f"install manifests/fleet as it is, or, for IDs of their own, with {_PINNED}"
    if instance == shard.instance_id(namespace, Policy.FLEET):
        return f"install the bundle with {COMPONENTS[Policy.FLEET]}"
    return f"install the bundle with {_PINNED}, or leave spec.instanceID out"
