"""Who else runs workflow-controllers: cluster-wide, or in a namespace that is to be opted in."""

from collections.abc import Collection

from metaoperator import foreigners
from metaoperator.cluster import Cluster
from metaoperator.core.foreign import Foreign
from metaoperator.preflight.rows import Result, Row

CHECK = "other controllers"


async def of(cluster: Cluster, namespaces: Collection[str]) -> list[Row]:
    """Find every Deployment of a workflow-controller that is not ours, and what it serves."""
    rows = [row async for found in foreigners.listed(cluster) for row in _judge(found, namespaces)]
    return rows or [Row(check=CHECK, result=Result.OK, what="none that is not ours")]


def _judge(found: Foreign, wanted: Collection[str]) -> list[Row]:
    name, instance = str(found.ref), found.instance_id
    if found.sees:
        if found.sees not in wanted:
            return []
        how = f"kubectl -n {found.ref.namespace} delete deployment {found.ref.name}"
        what = f"{name} serves namespace {found.sees} with instance ID {instance or '(none)'}"
        cure = f"remove it once its Workflows have ended: {how}"
        return [Row(check=CHECK, result=Result.MISSING, what=what, cure=cure)]
    if found.unsure:
        what = f"{name} is cluster-wide; its instance ID cannot be read: {found.unsure}"
        return [Row(check=CHECK, result=Result.UNKNOWN, what=what, cure="compare it with the namespaces' names")]
    if instance in wanted:
        what, cure = f"{name} is cluster-wide with instance ID {instance}, a namespace's name", "give it another one"
        return [Row(check=CHECK, result=Result.MISSING, what=what, cure=cure)]
    if not instance:
        what = f"{name} is cluster-wide without an instance ID"
        cure = "it goes on with Workflows that have no ID: those from before an opt-in; new ones are stamped"
        return [Row(check=CHECK, result=Result.WARNING, what=what, cure=cure)]
    return [Row(check=CHECK, result=Result.OK, what=f"{name} is cluster-wide with its own instance ID {instance}")]
