"""Who else runs workflow-controllers: cluster-wide, or in a namespace that is to be opted in."""

from collections.abc import Collection

from metaoperator import foreigners
from metaoperator.cluster import Cluster
from metaoperator.core import names
from metaoperator.core.foreign import Foreign
from metaoperator.core.model import DEPLOYMENT, Ref
from metaoperator.preflight.rows import Result, Row

CHECK = "other controllers"


async def of(cluster: Cluster, namespaces: Collection[str]) -> list[Row]:
    """Find every Deployment of a workflow-controller that is not ours, and what it serves."""
    rows = [row async for found in foreigners.listed(cluster) for row in _judge(found, namespaces)]
    return rows or [Row(check=CHECK, result=Result.OK, what="none that is not ours")]


def _judge(found: Foreign, wanted: Collection[str]) -> list[Row]:
    """Judge one as the operator will: the same ID keeps a child away, anything else is lived beside."""
    name, instance = str(found.ref), found.instance_id
    if found.sees and found.sees not in wanted:
        return []
    if not found.replicas:
        return [Row(check=CHECK, result=Result.OK, what=f"{name} is scaled to 0")]
    where = f"serves namespace {found.sees}" if found.sees else "is cluster-wide"
    if found.unsure:
        what = f"{name} {where}; its instance ID cannot be read: {found.unsure}"
        return [Row(check=CHECK, result=Result.UNKNOWN, what=what, cure="compare it with the namespaces' names")]
    if found.ref == Ref(DEPLOYMENT, found.sees, names.WORKFLOW_CONTROLLER):
        what = f"{name} {where} with instance ID {instance or '(none)'}, under the name that a child has"
        cure = f"take it over by spec.adopt (metaoperator diff --adopt {found.sees} shows what changes), or remove it"
        return [Row(check=CHECK, result=Result.WARNING, what=what, cure=cure)]
    if instance in {*([found.sees] if found.sees else wanted), names.FLEET_INSTANCE_ID}:
        what = f"{name} {where} with instance ID {instance}, which is a child's: none would be installed beside it"
        return [Row(check=CHECK, result=Result.MISSING, what=what, cure="give it another one, or remove it")]
    if found.sees:
        how = f"kubectl -n {found.ref.namespace} delete deployment {found.ref.name}"
        what = f"{name} {where} with instance ID {instance or '(none)'}"
        cure = f"it goes on with its own Workflows; remove it once they have ended: {how}"
        return [Row(check=CHECK, result=Result.WARNING, what=what, cure=cure)]
    if not instance:
        what = f"{name} {where} without an instance ID"
        cure = "it goes on with Workflows that have no ID: those from before an opt-in; new ones are stamped"
        return [Row(check=CHECK, result=Result.WARNING, what=what, cure=cure)]
    return [Row(check=CHECK, result=Result.OK, what=f"{name} {where} with its own instance ID {instance}")]
