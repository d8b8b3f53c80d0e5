"""How a person's word on a rollout is written: by server-side apply of these fields alone, never by force.

A GitOps tool applies the same object as another field manager. What that one says is its own: it is told by name, and
left as it is. What we said once is said again with each apply, or the API server would take it out.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from metaoperator.cluster import Cluster
from metaoperator.commands.rollout import facts
from metaoperator.commands.rollout.facts import Refused
from metaoperator.core import names, paths
from metaoperator.core.errors import Conflict
from metaoperator.core.model import Manifest

FIELDS: Final = ("paused", "revision", "resumedAt", "approvals")
"""Of `spec.rollout`: all that is ever written here."""
_ATTEMPTS: Final = 8
_OWNERS: Final = re.compile(r'conflicts? with "([^"]+)"')

Ours = dict[str, Any]


async def change(cluster: Cluster, name: str, edit: Callable[[Manifest, Ours], None]) -> Manifest:
    """Apply what `edit` makes of the fields that are ours, to the very object that it saw.

    `edit` is called anew when somebody else wrote meanwhile. `Refused` names whose a field is.
    """
    for attempt in range(_ATTEMPTS):
        live = await facts.find(cluster, name)
        ours = owned(live)
        edit(live, ours)
        # With its resource version nothing is created, and no approval of another person is lost.
        meta = {key: live["metadata"][key] for key in ("name", "uid", "resourceVersion")}
        body: dict[str, Any] = {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": meta}
        if ours:
            body["spec"] = {"rollout": ours}
        try:
            return await cluster.apply_for_person(body)
        except Conflict as exc:
            if owners := _OWNERS.findall(str(exc)):
                theirs = [field for field in FIELDS if f".spec.rollout.{field}" in str(exc)]
                raise Refused(belongs(name, ", ".join(theirs), owners)) from exc
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def let_go(live: Manifest, ours: Ours, field: str) -> None:
    """Take a field out; `Refused` where somebody else holds it too, for then it would stay."""
    others = sorted(_managers(live, field) - {names.PERSON_MANAGER})
    if others or field not in ours:
        raise Refused(belongs(live["metadata"]["name"], field, others))
    del ours[field]


def belongs(name: str, fields: str, owners: list[str]) -> str:
    """Say whose a field is, and what to do."""
    whose = ", ".join(dict.fromkeys(owners)) or "nobody who could be asked"
    where = f"in git, for a GitOps tool; otherwise kubectl edit controllertemplate {name}"
    return (
        f"spec.rollout.{fields} of ControllerTemplate/{name} belongs to {whose}, and is left as it is: change it there "
        f"({where}), or take it out there and leave it to this command"
    )


def owned(live: Manifest) -> Ours:
    """List the fields of `spec.rollout` that were written here, with what they say now."""
    mine = _fields(live, names.PERSON_MANAGER)
    said = facts.said(live)
    ours: Ours = {field: said[field] for field in FIELDS[:-1] if f"f:{field}" in mine and field in said}
    keys = [json.loads(key[2:]) for key in paths.mapping(mine, "f:approvals") if key.startswith("k:")]
    given = [dict(each) for each in said.get("approvals") or () if _key(each) in map(_key, keys)]
    return ours | ({"approvals": given} if given else {})


def _key(approval: Mapping[str, Any]) -> tuple[Any, Any]:
    return approval.get("revision"), approval.get("wave")


def _managers(live: Manifest, field: str) -> set[str]:
    entries = live["metadata"].get("managedFields") or ()
    return {str(each.get("manager")) for each in entries if f"f:{field}" in _rollout(each)}


def _fields(live: Manifest, manager: str) -> Mapping[str, Any]:
    for entry in live["metadata"].get("managedFields") or ():
        if entry.get("manager") == manager and entry.get("operation") == "Apply":
            return _rollout(entry)
    return {}


def _rollout(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return paths.mapping(entry, "fieldsV1", "f:spec", "f:rollout")
