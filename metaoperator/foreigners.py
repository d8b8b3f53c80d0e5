"""Workflow-controllers that are not ours, as the API server shows them: found, and read with their ConfigMaps."""

from collections.abc import AsyncIterator

from metaoperator.cluster import Cluster, Selection
from metaoperator.core import foreign, names
from metaoperator.core.errors import Gone, Rejected
from metaoperator.core.foreign import Foreign, Started
from metaoperator.core.model import DEPLOYMENT

NOT_MARKED = f"{names.MANAGED_BY_LABEL}!={names.MANAGED_BY}"


async def read(cluster: Cluster, how: Started) -> Foreign:
    """Judge a controller by its ConfigMap; one that may not be read leaves the controller's ID unknown."""
    if how.configuration is None:
        return foreign.judge(how, None)
    try:
        return foreign.judge(how, await cluster.get(how.configuration))
    except (Rejected, Gone) as exc:
        return foreign.judge(how, None, unread=f"{how.configuration} cannot be read: {exc}")


async def listed(cluster: Cluster) -> AsyncIterator[Foreign]:
    """List every Deployment of the cluster that runs a controller and does not carry our mark."""
    async for page in cluster.list_pages(Selection(kind=DEPLOYMENT, label_selector=NOT_MARKED)):
        for item in page["items"]:
            live = {**item, "apiVersion": DEPLOYMENT.api_version, "kind": DEPLOYMENT.kind}
            for how in foreign.started(live):
                yield await read(cluster, how)
