"""What a preview pretends: a label that is not set, values that are not written, kinds that are not installed yet."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from metaoperator import sources
from metaoperator.catalogue import Catalogue
from metaoperator.cluster import Selection
from metaoperator.core import names, optin, shard
from metaoperator.core.errors import Forbidden, Gone, TemplateError
from metaoperator.core.model import CONTROLLER_TEMPLATE, WORKFLOW_CONTROLLER, Manifest, Namespace, Ref
from metaoperator.core.render import Program
from metaoperator.rehearsal import Rehearsal
from metaoperator.shelves import Shelves


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What a person asks about, other than what stands in the cluster; `None` leaves it as it stands there.

    `templates` are ControllerTemplates by name, `sets` the template sets of others by theirs.
    """

    programs: Mapping[str, Program | TemplateError]
    templates: Mapping[str, Manifest] = field(default_factory=dict)
    sets: Mapping[str, str] = field(default_factory=dict)
    fleet_values: Mapping[str, Any] | None = None
    values: Mapping[str, Any] | None = None
    adopt: bool = False


async def catalogue(cluster: Rehearsal, assumed: Assumed, *, own_namespace: str) -> Catalogue:
    """Find the sets of all ControllerTemplates once for all that is asked in one run: those at hand, and ConfigMaps."""

    async def look() -> Catalogue:
        found = Catalogue(cluster, Shelves(assumed.programs), namespace=own_namespace, patience=PATIENCE)
        try:
            async for page in cluster.list_pages(Selection(kind=CONTROLLER_TEMPLATE)):
                for each in page["items"]:
                    await found.load(each)
        except (Gone, Forbidden):
            pass  # told by whoever needs one
        return found

    looked = _LOOKED.setdefault(cluster, {})
    key = id(assumed.programs), own_namespace
    if key not in looked:
        looked[key] = asyncio.ensure_future(look())
    return await looked[key]


_LOOKED: Final[WeakKeyDictionary[Rehearsal, dict[tuple[int, str], asyncio.Future[Catalogue]]]] = WeakKeyDictionary()
PATIENCE: Final = 60.0
"""Seconds for which a person waits for the ConfigMaps of one ControllerTemplate."""


async def set_up(cluster: Rehearsal, live: Manifest, assumed: Assumed, *, ours: bool, own_namespace: str) -> list[str]:
    """Pretend what is assumed for one namespace, and say what of it differs from what is there.

    A namespace that is not opted in, and holds nothing of ours, is looked at as if it were.
    """
    notes: list[str] = []
    namespace = Namespace.of(live)
    stage = optin.stage(namespace, own_namespace=own_namespace, denied=frozenset())
    if isinstance(stage, optin.OptedOut) and not ours:
        labels = {**namespace.labels, names.OPT_IN_LABEL: names.DEFAULT_TEMPLATE_WORD}
        live = {**live, "metadata": {**live["metadata"], "labels": labels}}
        cluster.pretend({**live, "apiVersion": "v1", "kind": "Namespace"})
        stage = optin.stage(Namespace.of(live), own_namespace=own_namespace, denied=frozenset())
        if isinstance(stage, optin.Served):
            label = f"{names.OPT_IN_LABEL}={names.DEFAULT_TEMPLATE_WORD}"
            notes.append(f"not opted in: this is what the label {label} would do")
    if isinstance(stage, optin.Served):
        template, told = await _template(cluster, stage.template, assumed)
        notes += [*told, *await _row(cluster, namespace, template, assumed)]
    return notes


async def _template(cluster: Rehearsal, name: str, assumed: Assumed) -> tuple[Manifest | None, list[str]]:
    ref = Ref(CONTROLLER_TEMPLATE, "", name)
    notes: list[str] = []
    live = await _found(cluster, ref)
    if name in assumed.templates:
        spec = assumed.templates[name]["spec"]
        live = _object(ref, spec) if live is None else {**live, "spec": spec}
        cluster.pretend(live)
        notes.append(f"ControllerTemplate {name} is taken from a file")
    elif live is None and name == names.DEFAULT_TEMPLATE:
        live = _object(ref, {"source": {"directory": sources.DEFAULT_SET}})
        cluster.pretend(live)
        notes.append(f"there is no ControllerTemplate {name} yet: the shipped one is assumed")
    if live is not None and name in assumed.sets:
        live = {**live, "spec": {**live["spec"], "source": {"directory": assumed.sets[name]}}}
        cluster.pretend(live)
        notes.append(f"the set of ControllerTemplate {name} is {assumed.sets[name]}, for --set")
    if live is not None and assumed.fleet_values is not None:
        cluster.pretend({**live, "spec": {**live["spec"], "values": assumed.fleet_values}})
        notes.append(f"the values of ControllerTemplate {name} are those of --fleet-values")
    return live, notes


async def _row(cluster: Rehearsal, namespace: Namespace, template: Manifest | None, assumed: Assumed) -> list[str]:
    ref = Ref(WORKFLOW_CONTROLLER, namespace.name, names.WORKFLOW_CONTROLLER)
    try:
        live, installed = await cluster.get(ref), True
    except Gone:
        live, installed = None, False
    if live is None and (assumed.values is not None or assumed.adopt or not installed):
        # An install that is taken over brings its own.
        new = template is not None and not assumed.adopt
        instance = shard.instance_id(namespace.name, shard.policy(template)) if new and template is not None else ""
        live = _object(ref, {"instanceID": instance} if instance else {})
        cluster.pretend(live)
    spec = {} if live is None else dict(live.get("spec") or {})
    notes = []
    if assumed.values is not None:
        spec["values"] = assumed.values
        notes.append("the values of the namespace are those of --values")
    if assumed.adopt and spec.get("adopt") != "Adopt":
        spec["adopt"] = "Adopt"
        notes.append("spec.adopt is Adopt for --adopt")
    if live is not None and notes:
        cluster.pretend({**live, "spec": spec})
        return notes
    return [] if installed else ["the kind WorkflowController is not installed yet (metaoperator preflight)"]


async def _found(cluster: Rehearsal, ref: Ref) -> Manifest | None:
    """Read what is there: what is pretended for one namespace is news for the next one all the same."""
    try:
        return await cluster.really(ref)
    except Gone:
        return None


def _object(ref: Ref, spec: Mapping[str, Any]) -> Manifest:
    meta = {"name": ref.name, "uid": "pretended", "resourceVersion": "1", "generation": 1}
    place = {"namespace": ref.namespace} if ref.namespace else {}
    return {
        "apiVersion": ref.kind.api_version,
        "kind": ref.kind.kind,
        "metadata": meta | place,
        "spec": spec,
    }
