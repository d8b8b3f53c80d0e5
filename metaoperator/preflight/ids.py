"""Instance IDs: what the ControllerTemplates give to namespaces, held against what admission puts on Workflows."""

from typing import Final

from metaoperator.cluster import Cluster, Selection
from metaoperator.core import names, shard, stamping, trial
from metaoperator.core.errors import Gone
from metaoperator.core.model import CONTROLLER_TEMPLATE, Manifest
from metaoperator.core.shard import Policy
from metaoperator.core.stamping import Stamps
from metaoperator.preflight.rows import Result, Row
from metaoperator.stamping import Stamping

CHECK: Final = "instance IDs"
_FIELD: Final = "instanceIDPolicy"


async def of(cluster: Cluster) -> list[Row]:
    """Compare each ControllerTemplate's policy with the stamping policies that are in force."""
    try:
        templates = [
            item async for page in cluster.list_pages(Selection(kind=CONTROLLER_TEMPLATE)) for item in page["items"]
        ]
    except Gone:
        return []  # told where ControllerTemplates are
    stamps = Stamping(cluster, lambda: None)
    await stamps.read_once()
    if refused := [each.refused for each in stamps.informers if each.refused]:
        return [Row(check=CHECK, result=Result.UNKNOWN, what=f"not known: {refused[0]}", cure="ask somebody who may")]
    return [_judged(each, stamps.now(), stamps.lacks()) for each in templates]


def _judged(template: Manifest, stamps: Stamps, lacks: str) -> Row:
    name, chosen = template["metadata"]["name"], shard.policy(template)
    wanted = shard.instance_id(trial.ORDINARY.name, chosen)
    stamped = stamps.puts(trial.ORDINARY.name, wanted)
    if stamped == wanted:
        how = "as its WorkflowController says" if stamps.pinned and wanted else "as it says" if wanted else "with none"
        return Row(check=CHECK, result=Result.OK, what=f"{name}: {_FIELD} {chosen}, and Workflows are stamped {how}")
    if not stamped:
        what = f"{name}: {_FIELD} is {chosen}, and {lacks}: new Workflows would get no ID by themselves"
        return Row(check=CHECK, result=Result.MISSING, what=what, cure=_install(chosen))
    what = (
        f"{name}: {_FIELD} is {chosen}, but {names.STAMPING_POLICY} stamps as for {stamps.policy}: no namespace of it "
        "is opted in, for its controller would serve no new Workflow"
    )
    patch = f'kubectl patch controllertemplate {name} --type=merge -p \'{{"spec":{{"{_FIELD}":"{stamps.policy}"}}}}\''
    return Row(check=CHECK, result=Result.MISSING, what=what, cure=f"{_install(chosen)}; or: {patch}")


def _install(chosen: Policy) -> str:
    """Say how the policies that fit are installed."""
    component = stamping.COMPONENTS.get(chosen)
    if component is None:
        return "kubectl apply --server-side -k manifests/fleet"
    if chosen is Policy.NONE:
        gone = "mutatingadmissionpolicybinding,mutatingadmissionpolicy"
        return f"install manifests/fleet with {component}, and: kubectl delete {gone} {names.STAMPING_POLICY}"
    return f"install manifests/fleet with {component}"
