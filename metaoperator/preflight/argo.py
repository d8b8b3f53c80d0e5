"""The versions of Argo that children are asked for: what those get wrong, and what moving to them needs."""

from collections.abc import Mapping
from typing import Any, Final

from metaoperator import skew, sources
from metaoperator.catalogue import Catalogue
from metaoperator.cluster import Cluster, Selection
from metaoperator.core import flaws, paths, shard
from metaoperator.core.errors import Forbidden, Gone, ValuesError
from metaoperator.core.model import CONTROLLER_TEMPLATE, WORKFLOW_CONTROLLER
from metaoperator.core.move import Severity
from metaoperator.core.render import Program
from metaoperator.preflight.rows import Result, Row
from metaoperator.pretence import Assumed

CHECK: Final = "Argo version"


_RESULTS: Final = {Severity.REFUSE: Result.MISSING, Severity.REMARK: Result.OK}


async def of(cluster: Cluster, assumed: Assumed, catalogue: Catalogue) -> list[Row]:
    """Warn of each version that is asked for, here and by the ControllerTemplates, and tell what moves to it need."""
    asked = {"the values at hand": asked_for(assumed, sources.DEFAULT_SET, assumed.fleet_values or {})}
    wanted: dict[str, tuple[str, Mapping[str, Any]]] = {}
    try:
        async for page in cluster.list_pages(Selection(kind=CONTROLLER_TEMPLATE)):
            for each in page["items"]:
                name, values, program = each["metadata"]["name"], each["spec"].get("values") or {}, catalogue.get(each)
                version = _version(program, values)
                wanted[name] = version, _merged(program, values)
                if shard.policy(each) is not shard.Policy.NONE:
                    asked[f"ControllerTemplate/{name}"] = version
    except (Gone, Forbidden):
        pass  # told by the check of the ControllerTemplates
    rows = [
        Row(check=CHECK, result=Result.WARNING, what=f"{where}: {version}: {flaw.what}", cure=flaw.cure)
        for where, version in asked.items()
        for flaw in flaws.of(version)
    ]
    return rows + [
        Row(
            check=CHECK,
            result=_RESULTS.get(found.severity, Result.WARNING),
            what=f"{found.severity}: {found.what} [{found.who}]",
            cure=found.cure,
        )
        for found in await skew.skew_findings(cluster, await _moves(cluster, wanted))
    ]


async def _moves(
    cluster: Cluster, wanted: Mapping[str, tuple[str, Mapping[str, Any]]]
) -> dict[str, tuple[str, str, Mapping[str, Any]]]:
    """Find the children that are of another version than their ControllerTemplate asks for."""
    found: dict[str, tuple[str, str, Mapping[str, Any]]] = {}
    try:
        async for page in cluster.list_pages(Selection(kind=WORKFLOW_CONTROLLER)):
            for each in page["items"]:
                status = each.get("status") or {}
                before, (after, values) = (
                    status.get("version") or "",
                    wanted.get(status.get("template") or "", ("", {})),
                )
                if before and after and before != after:
                    found[each["metadata"]["namespace"]] = before, after, values
    except (Gone, Forbidden):
        return {}  # told by other checks
    return found


def _merged(program: object, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Merge the values of a ControllerTemplate with its set's; those at fault are told by another check."""
    try:
        return program.effective(fleet=values, namespace={}) if isinstance(program, Program) else {}
    except ValuesError:
        return {}


def asked_for(assumed: Assumed, directory: str, values: Mapping[str, Any]) -> str:
    """Read the version of a set under these values; empty where the set has none, or is not at hand."""
    return _version(assumed.programs.get(directory), values)


def _version(program: object, values: Mapping[str, Any]) -> str:
    defaults = program.template_set.defaults if isinstance(program, Program) else {}
    return str(paths.mapping(values).get("version") or defaults.get("version", ""))
