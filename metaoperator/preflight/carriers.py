"""What is there already and would move Workflows away from their controller: IDs that templates and schedules give."""

from collections.abc import Collection

from metaoperator.cluster import Cluster, Selection
from metaoperator.core import carried, names
from metaoperator.core.model import (
    CLUSTER_WORKFLOW_TEMPLATE,
    CRON_WORKFLOW,
    NAMESPACE,
    WORKFLOW_TEMPLATE,
    Manifest,
    Namespace,
    Ref,
)
from metaoperator.preflight.rows import Result, Row

CHECK = "instance IDs in templates"


async def of(cluster: Cluster, namespaces: Collection[str]) -> list[Row]:
    """Find them in what serves all namespaces, and in the namespaces that opted in or are about to.

    Admission refuses new ones in opted-in namespaces only; a ClusterWorkflowTemplate is in none.
    """
    wanted = {"", *namespaces, *await _opted_in(cluster)}
    rows = [
        _row(each, places)
        for kind in (CLUSTER_WORKFLOW_TEMPLATE, WORKFLOW_TEMPLATE, CRON_WORKFLOW)
        if await cluster.serves(kind)
        async for page in cluster.list_pages(Selection(kind=kind))
        for each in page["items"]
        if (places := list(carried.places(each))) and each["metadata"].get("namespace", "") in wanted
    ]
    return rows or [Row(check=CHECK, result=Result.OK, what="none")]


async def _opted_in(cluster: Cluster) -> Collection[str]:
    labelled = Selection(kind=NAMESPACE, label_selector=names.OPT_IN_LABEL, metadata_only=True)
    spaces = [Namespace.of(each) async for page in cluster.list_pages(labelled) for each in page["items"]]
    return {each.name for each in spaces if each.labels[names.OPT_IN_LABEL] not in {"", names.OPTED_OUT}}


def _row(live: Manifest, places: Collection[str]) -> Row:
    return Row(
        check=CHECK,
        result=Result.WARNING,
        what=f"{Ref.of(live)} has {names.INSTANCE_ID_LABEL} in {', '.join(places)}: Argo puts it on a Workflow after "
        "its pods exist, and its controller loses it",
        cure="take it out: in opted-in namespaces admission puts the right one on",
    )
