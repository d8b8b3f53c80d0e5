"""One namespace that is to be opted in: what would be refused there, by whom, and what stands in the way."""

from collections.abc import Iterator, Mapping

from metaoperator import preview
from metaoperator.core.errors import ConfigError, Forbidden, Rejected
from metaoperator.core.model import DEPLOYMENT, Kind, Manifest, Ref
from metaoperator.preflight.rows import Result, Row
from metaoperator.pretence import Assumed
from metaoperator.preview import Change, Preview
from metaoperator.rehearsal import Rehearsal
from metaoperator.settings import Settings

_SECRET = Kind("v1", "Secret")
_PRIORITY = Kind("scheduling.k8s.io/v1", "PriorityClass")
_CURES: Mapping[str, str] = {
    "conflict": "rename or delete what stands there, or take a hand-made install over whole: spec.adopt",
    "refused": "mend what the API server names: a quota, a LimitRange, a policy",
}


async def of(cluster: Rehearsal, name: str, assumed: Assumed, settings: Settings) -> list[Row]:
    """Rehearse the opt-in, and then the controller's pod."""
    check = f"namespace {name}"
    try:
        found = await preview.of(cluster, name, assumed, settings)
    except ConfigError as exc:
        return [Row(check=check, result=Result.MISSING, what=str(exc))]
    amiss = [each for each in found.changes if each.what in {"conflict", "refused"}]
    rows = [Row(check=check, result=Result.MISSING, what=_told(each), cure=_CURES[each.what]) for each in amiss]
    rows += [
        Row(check=check, result=Result.UNKNOWN, what=_told(each)) for each in found.changes if each.what == "unknown"
    ]
    if found.stalled and not amiss and not found.stalled.startswith("ArgoCRDsMissing"):
        rows.append(Row(check=check, result=Result.MISSING, what=found.stalled))
    for manifest in _deployments(found):
        rows += await _pod(cluster, check, name, manifest)
        rows += await _pull_secrets(cluster, check, name, manifest)
    if any(each.write is not None and not each.write.asked for each in found.changes):
        what = "not known: you may not try objects there, only values were compared"
        rows.append(Row(check=check, result=Result.UNKNOWN, what=what, cure="ask somebody who may"))
    return rows or [Row(check=check, result=Result.OK, what=_fine(found))]


def _told(change: Change) -> str:
    return change.why if str(change.ref) in change.why else f"{change.ref}: {change.why}"


def _fine(found: Preview) -> str:
    made = sum(each.what == "created" for each in found.changes)
    return f"{made} objects would be made, and the controller's pod admitted" if made else "opted in already"


def _deployments(found: Preview) -> Iterator[Manifest]:
    for each in found.changes:
        if each.ref.kind == DEPLOYMENT and each.write is not None and each.write.after is not None:
            yield each.write.after


async def _pod(cluster: Rehearsal, check: str, namespace: str, deployment: Manifest) -> list[Row]:
    """Try the controller's pod: quotas, limits and Pod Security are only asked about pods."""
    template = deployment["spec"]["template"]
    # The account of its own is not there before the opt-in, and which one it is decides nothing here.
    spec = {**template["spec"], "serviceAccountName": "default", "serviceAccount": "default"}
    priority = spec.get("priorityClassName")
    if priority and await cluster.get(Ref(_PRIORITY, "", priority)) is None:
        spec = {key: value for key, value in spec.items() if key != "priorityClassName"}
    meta = {**template.get("metadata", {}), "name": "workflow-controller-preflight", "namespace": namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    try:
        await cluster.try_out(pod)
    except Forbidden as exc:
        return [Row(check=check, result=Result.UNKNOWN, what=f"not known: {exc}", cure="ask somebody who may")]
    except Rejected as exc:
        what = f"the controller's pod would be refused: {exc}"
        return [
            Row(check=check, result=Result.MISSING, what=what, cure="values: resources, podLabels, images.registry …")
        ]
    return []


async def _pull_secrets(cluster: Rehearsal, check: str, namespace: str, deployment: Manifest) -> list[Row]:
    named = deployment["spec"]["template"]["spec"].get("imagePullSecrets") or ()
    rows = []
    for secret in sorted(str(each.get("name")) for each in named):
        try:
            there = await cluster.get(Ref(_SECRET, namespace, secret)) is not None
        except Forbidden as exc:
            rows.append(Row(check=check, result=Result.UNKNOWN, what=f"not known: {exc}", cure="ask somebody who may"))
            continue
        if not there:
            what, cure = (
                f"pull secret {secret} is not there",
                f"kubectl -n {namespace} create secret docker-registry {secret}",
            )
            rows.append(Row(check=check, result=Result.MISSING, what=what, cure=cure))
    return rows
