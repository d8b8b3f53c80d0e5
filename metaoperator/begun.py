"""What some controller has begun: it makes pods, task sets and volume claims of a Workflow before it says so on it."""

from typing import Final

from metaoperator.cluster import Cluster, Selection
from metaoperator.core import names, sweep
from metaoperator.core.errors import Gone
from metaoperator.core.model import POD, VOLUME_CLAIM, WORKFLOW_TASK_SET

TRACES: Final = ((POD, names.WORKFLOW_LABEL), (WORKFLOW_TASK_SET, ""), (VOLUME_CLAIM, ""))


async def begun(cluster: Cluster, namespace: str) -> frozenset[str]:
    """Name by UID the Workflows of a namespace of which anything is there: three lists, metadata only."""
    found: set[str] = set()
    for kind, label in TRACES:
        there = Selection(kind=kind, namespace=namespace, label_selector=label, metadata_only=True)
        try:
            async for page in cluster.list_pages(there):
                for item in page["items"]:
                    found.update(sweep.owners(item))
        except Gone as gone:
            if not gone.kind_missing:
                raise
    return frozenset(found)
