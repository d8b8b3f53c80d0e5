"""The images of a child: which ones, and on how many nodes they are already."""

from typing import Final

from metaoperator import sources
from metaoperator.cluster import Selection
from metaoperator.core import paths, trial
from metaoperator.core.model import DEPLOYMENT, Kind, Ref
from metaoperator.core.render import Program
from metaoperator.preflight.rows import Result, Row
from metaoperator.pretence import Assumed
from metaoperator.rehearsal import Rehearsal

_NODE: Final = Kind("v1", "Node")


async def of(cluster: Rehearsal, assumed: Assumed) -> list[Row]:
    """Say what would be pulled, and on how many nodes it is already: nobody can try a pull from here."""
    wanted = _images(assumed)
    nodes: list[set[str]] = []
    async for page in cluster.list_pages(Selection(kind=_NODE)):
        for node in page["items"]:
            held = (node.get("status") or {}).get("images") or ()
            nodes.append({name for image in held for name in image.get("names") or ()})
    rows = []
    for image in wanted:
        there = sum(image in held for held in nodes)
        pulled = "" if there == len(nodes) else ": pulled on the others when needed"
        what = f"{image} on {there} of {len(nodes)} nodes{pulled}"
        rows.append(Row(check="images", result=Result.OK, what=what))
    return rows


def _images(assumed: Assumed) -> list[str]:
    program = assumed.programs.get(sources.DEFAULT_SET)
    if not isinstance(program, Program):
        return []
    desired, _ = trial.run(program, trial.ORDINARY, trial.Layers(fleet=assumed.fleet_values or {}))
    found: set[str] = set()
    for document in desired.documents if desired is not None else ():
        if Ref.of(document).kind != DEPLOYMENT:
            continue
        for container in paths.mapping(document, "spec", "template", "spec").get("containers") or ():
            found |= {str(container["image"])} if container.get("image") else set()
            args = [str(each) for each in container.get("args") or ()]
            found |= {arg.removeprefix("--executor-image=") for arg in args if arg.startswith("--executor-image=")}
    return sorted(found)
