"""The versions of Argo that children are asked for, and what those are known to get wrong."""

from collections.abc import Mapping
from typing import Any, Final

from metaoperator import sources
from metaoperator.catalogue import Catalogue
from metaoperator.cluster import Cluster, Selection
from metaoperator.core import flaws, paths, shard
from metaoperator.core.errors import Forbidden, Gone
from metaoperator.core.model import CONTROLLER_TEMPLATE
from metaoperator.core.render import Program
from metaoperator.preflight.rows import Result, Row
from metaoperator.pretence import Assumed

CHECK: Final = "Argo version"


async def of(cluster: Cluster, assumed: Assumed, catalogue: Catalogue) -> list[Row]:
    """Warn of each version that is asked for: here, and by the ControllerTemplates of the cluster."""
    asked = {"the values at hand": asked_for(assumed, sources.DEFAULT_SET, assumed.fleet_values or {})}
    try:
        async for page in cluster.list_pages(Selection(kind=CONTROLLER_TEMPLATE)):
            for each in page["items"]:
                spec = each["spec"]
                if shard.policy(each) is not shard.Policy.NONE:
                    version = _version(catalogue.get(each), spec.get("values") or {})
                    asked[f"ControllerTemplate/{each['metadata']['name']}"] = version
    except (Gone, Forbidden):
        pass  # told by the check of the ControllerTemplates
    return [
        Row(check=CHECK, result=Result.WARNING, what=f"{where}: {version}: {flaw.what}", cure=flaw.cure)
        for where, version in asked.items()
        for flaw in flaws.of(version)
    ]


def asked_for(assumed: Assumed, directory: str, values: Mapping[str, Any]) -> str:
    """Read the version of a set under these values; empty where the set has none, or is not at hand."""
    return _version(assumed.programs.get(directory), values)


def _version(program: object, values: Mapping[str, Any]) -> str:
    defaults = program.template_set.defaults if isinstance(program, Program) else {}
    return str(paths.mapping(values).get("version") or defaults.get("version", ""))
