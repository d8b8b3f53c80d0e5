"""What the cluster says of moves to another version of Argo: read once for all of them, then held to the table."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

from metaoperator.cluster import Cluster, Selection
from metaoperator.core import definitions, names, paths, skew, versions
from metaoperator.core.errors import Gone, Rejected
from metaoperator.core.model import CRD, CRON_WORKFLOW, DEPLOYMENT, WORKFLOW_CONTROLLER, Manifest, Ref
from metaoperator.core.move import Cron, Facts, Move
from metaoperator.core.skew import Finding

_MARKED: Final = f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY}"


async def skew_findings(cluster: Cluster, moves: Mapping[str, tuple[str, str, Mapping[str, Any]]]) -> list[Finding]:
    """Tell what the moves of these namespaces need: from which version, to which, with which merged values.

    Nothing is asked that no move depends on. What may not be read is a finding; an API server that does not answer is
    an error, for then nothing is known.
    """
    made = {namespace: Move(*each) for namespace, each in moves.items()}
    return skew.judge(made, await facts(cluster, made)) if made else []


async def facts(cluster: Cluster, moves: Mapping[str, Move]) -> Facts:
    """Read what the table asks about these moves."""
    changing = {name: move for name, move in moves.items() if move.before != move.after}
    missing, full, unread = await _definitions(cluster)
    crons, crons_unread = await _crons(cluster, {name for name, move in changing.items() if _changes_crons(move)})
    return Facts(
        missing=missing,
        full=full,
        unread=unread,
        fleet={**await _fleet(cluster), **{name: move.before for name, move in moves.items() if move.before}}
        if full
        else {},
        compression=await _compression(cluster, {name for name, move in changing.items() if _goes_back(move)}),
        crons=crons,
        crons_unread=crons_unread,
    )


async def _definitions(cluster: Cluster) -> tuple[frozenset[str], frozenset[str], str]:
    """Say which of Argo's kinds are not served, which are defined in full, and why that is not known."""
    missing: set[str] = set()
    full: set[str] = set()
    for plural in definitions.ARGO:
        # One after the other: a full one is more than a megabyte.
        try:
            crd = await cluster.get(Ref(CRD, "", definitions.named(plural)))
        except Rejected as exc:
            return frozenset(), frozenset(), str(exc)
        if not definitions.works(crd):
            missing.add(plural)
        elif plural in definitions.TELLING and crd is not None and definitions.is_full(crd):
            full.add(plural)
    return frozenset(missing), frozenset(full), ""


async def _fleet(cluster: Cluster) -> dict[str, str]:
    """Read the version of every child from its row; without our kinds there are none."""
    found: dict[str, str] = {}
    try:
        async for live in _each(cluster, Selection(kind=WORKFLOW_CONTROLLER)):
            version = (live.get("status") or {}).get("version")
            if version:
                found[live["metadata"]["namespace"]] = str(version)
    except (Gone, Rejected):
        return {}  # those that move are known by themselves
    return found


async def _crons(cluster: Cluster, wanted: set[str]) -> tuple[dict[str, tuple[Cron, ...]], str]:
    """Find the CronWorkflows of these namespaces that use what came or went with a version."""
    found: dict[str, tuple[Cron, ...]] = {}
    if not wanted:
        return found, ""
    # One namespace is asked for alone, so that whoever may see no other gets an answer too.
    selection = Selection(kind=CRON_WORKFLOW, namespace=min(wanted) if len(wanted) == 1 else "")
    try:
        async for live in _each(cluster, selection):
            namespace = live["metadata"]["namespace"]
            uses = frozenset(_uses(live.get("spec") or {}))
            if namespace in wanted and uses:
                found[namespace] = (*found.get(namespace, ()), Cron(name=live["metadata"]["name"], uses=uses))
    except Rejected as exc:
        return {}, str(exc)
    except Gone:
        return {}, ""  # told by the definitions
    return found, ""


def _uses(spec: Mapping[str, Any]) -> Iterator[str]:
    if spec.get("schedule") and not spec.get("schedules"):
        yield "schedule"
    if spec.get("schedules") and not spec.get("schedule"):
        yield "schedules"
    workflow = paths.mapping(spec, "workflowSpec")
    templates = workflow.get("templates")
    for where in (workflow, *(templates if isinstance(templates, list) else ())):
        synchronization = paths.mapping(where, "synchronization") if isinstance(where, Mapping) else {}
        yield from (each for each in ("mutex", "semaphore") if synchronization.get(each))


async def _compression(cluster: Cluster, wanted: set[str]) -> dict[str, str]:
    """Read how these children compress, from their Deployments; one that may not be read has Argo's default."""
    found: dict[str, str] = {}
    if not wanted:
        return found
    selection = Selection(kind=DEPLOYMENT, label_selector=_MARKED, namespace=min(wanted) if len(wanted) == 1 else "")
    try:
        async for live in _each(cluster, selection):
            meta = live["metadata"]
            if meta["namespace"] in wanted and meta["name"] == names.WORKFLOW_CONTROLLER:
                found[meta["namespace"]] = next(_algorithms(live), "")
    except Rejected:
        return {}
    return found


def _algorithms(deployment: Manifest) -> Iterator[str]:
    for container in paths.mapping(deployment, "spec", "template", "spec").get("containers") or ():
        for each in container.get("env") or ():
            if each.get("name") == skew.COMPRESSION:
                yield str(each.get("value") or "")


async def _each(cluster: Cluster, selection: Selection) -> AsyncIterator[Manifest]:
    async for page in cluster.list_pages(selection):
        for item in page["items"]:
            yield item


def _changes_crons(move: Move) -> bool:
    before, after = versions.parse(move.before), versions.parse(move.after)
    if before is None or after is None:
        return False
    return before < (4, 0, 0) <= after or after < (3, 6, 0) <= before


def _goes_back(move: Move) -> bool:
    before, after = versions.parse(move.before), versions.parse(move.after)
    return before is not None and after is not None and after < (4, 1, 0) <= before
