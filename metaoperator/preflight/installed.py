"""The fleet bundle and the operator: what of them is there, and whether it is what this version ships."""

from collections.abc import Mapping
from typing import Any

from metaoperator import bundle, packed
from metaoperator.catalogue import Catalogue
from metaoperator.cluster import Cluster, Selection
from metaoperator.core import drift, names, rules, shard, trial
from metaoperator.core.errors import Gone, TemplateError
from metaoperator.core.model import CONTROLLER_TEMPLATE, DEPLOYMENT, Manifest, Ref
from metaoperator.core.render import Program
from metaoperator.core.rules import Right
from metaoperator.core.trial import Layers
from metaoperator.preflight.rows import Result, Row
from metaoperator.rehearsal import Rehearsal

_APPLY = {
    bundle.FLEET: "kubectl apply --server-side -k manifests/fleet/crds, then -k manifests/fleet",
    bundle.OPERATOR: "kubectl apply --server-side -k manifests/operator",
}
_THEIRS = frozenset({DEPLOYMENT, CONTROLLER_TEMPLATE})
"""Kinds in which people change what is shipped: an image's registry, the values of the fleet."""


async def of(cluster: Cluster, name: str, home: str) -> list[Row]:
    """Look for every object of a bundle, and compare it by value.

    One that names the shipped namespace of the operator, and runs in another, is told by `home`.
    """
    shipped = bundle.objects(name)
    missing, changed = [], []
    chosen: dict[str, None] = {}
    for manifest in shipped:
        ways = bundle.ways(manifest) if name == bundle.FLEET else [bundle.Way((), manifest)]
        seen = [each for way in ways if (each := await _seen(cluster, way, home))]
        ref = Ref.of(bundle.moved(manifest, home))
        if not seen:
            taken = next((way.components for way in ways if way.manifest is None), ())
            missing.append(f"{ref}{f' (as with component {taken[-1]})' if taken else ''}")
            continue
        components, differing = min(seen, key=lambda each: len(each[1]))
        if ref.kind not in _THEIRS and differing:
            changed.append(f"{ref} ({differing[0]}{' …' if len(differing) > 1 else ''})")
        chosen |= dict.fromkeys(components)
    check, cure = f"{name} bundle", _apply(name, home)
    rows = []
    if missing:
        what = f"not there: {', '.join(missing)}" if len(missing) < len(shipped) else "not installed"
        rows.append(Row(check=check, result=Result.MISSING, what=what, cure=cure))
    if changed:
        what = f"not as this version ships it: {', '.join(changed)}"
        rows.append(Row(check=check, result=Result.WARNING, what=what, cure=cure))
    how = f", with {', '.join(sorted(chosen))}" if chosen else ""
    what = f"all {len(shipped)} objects are there, as shipped{how}"
    return rows or [Row(check=check, result=Result.OK, what=what)]


async def _seen(cluster: Cluster, way: bundle.Way, home: str) -> tuple[tuple[str, ...], list[str]] | None:
    """Tell in which fields the live object is not as one way of installing it has it; `None` where there is none."""
    if way.manifest is None:
        return None
    moved = bundle.moved(way.manifest, home)
    live = await found(cluster, Ref.of(moved))
    if live is None:
        return None
    # One that only names the shipped namespace of the operator is told by `home`.
    return way.components, apart(moved, live) if apart(way.manifest, live) else []


def _apply(name: str, home: str) -> str:
    return _APPLY[name] if home == names.OPERATOR_NAMESPACE else f"edit it (operator's namespace), then {_APPLY[name]}"


def apart(manifest: Manifest, live: Manifest) -> list[str]:
    """Name the fields in which a live object is not as it is written; what the API server fills in is no difference."""
    return [path for path, _ in drift.differences(_stored(manifest, live), _stored(live, live))]


def _stored(value: Any, live: Any) -> Any:
    """Write a value as the API server keeps it, which leaves out what is false or empty; spaces in a text are one."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, Mapping):
        there = live if isinstance(live, Mapping) else {}
        return {key: _stored(item, there.get(key)) for key, item in value.items() if item or key in there}
    if isinstance(value, list) and isinstance(live, list) and len(value) == len(live):
        return [_stored(item, found) for item, found in zip(value, live, strict=True)]
    return value


async def found(cluster: Cluster, ref: Ref) -> Manifest | None:
    """Read one object; a kind that is not served has none."""
    try:
        return await cluster.get(ref)
    except Gone:
        return None


async def templates(cluster: Cluster, catalogue: Catalogue) -> list[Row]:
    """Render what every ControllerTemplate stands for."""
    check = "ControllerTemplates"
    rows = []
    try:
        there = [
            item async for page in cluster.list_pages(Selection(kind=CONTROLLER_TEMPLATE)) for item in page["items"]
        ]
    except Gone:
        return [Row(check=check, result=Result.MISSING, what="the kind is not installed", cure=_APPLY[bundle.FLEET])]
    for each in there:
        name, program = each["metadata"]["name"], catalogue.get(each)
        if isinstance(program, Program):
            layers = Layers(fleet=each["spec"].get("values") or {}, template=name, policy=shard.policy(each))
            _, problems = trial.run(program, trial.ORDINARY, layers)
            told = "; ".join(map(str, problems))
        else:
            told = "its set is not read yet" if program is None else str(program)
        result = Result.MISSING if told else Result.OK
        rows.append(Row(check=check, result=result, what=f"{name}: {told or f'renders, from {_source(each)}'}"))
    none = Row(check=check, result=Result.MISSING, what="there is none", cure=_APPLY[bundle.FLEET])
    return rows or [none]


def _source(template: Manifest) -> str:
    wanted = packed.names_of(template["spec"])
    if wanted is None:
        return f"set {template['spec']['source']['directory']}"
    return f"ConfigMap{'s' if len(wanted) > 1 else ''} {', '.join(wanted)}"


async def permissions(cluster: Rehearsal, programs: Mapping[str, Program | TemplateError], home: str) -> list[Row]:
    """Ask for each right of the operator's roles, and for what sets at hand render besides."""
    check = "operator's permissions"
    account = f"ServiceAccount {home}/{names.OPERATOR_ACCOUNT}"
    needed = list(dict.fromkeys(bundle.operators_rights(home)))
    missing = [right for right in needed if not await cluster.allows(right, home=home)]
    if len(missing) == len(needed):
        what = f"{account} may do nothing yet"
        return [Row(check=check, result=Result.MISSING, what=what, cure=_apply(bundle.OPERATOR, home))]
    rows = []
    if missing:
        what = f"missing: {rules.told(missing)}"
        rows.append(Row(check=check, result=Result.MISSING, what=what, cure=_apply(bundle.OPERATOR, home)))
    for name, program in sorted(programs.items()):
        if isinstance(program, Program):
            lacking = [right for right in await _of_set(cluster, program) if not await cluster.allows(right, home=home)]
            if lacking:
                what = f"missing for template set {name}: {rules.told(lacking)}"
                cure = f"grant it to {account} by a ClusterRole of yours"
                rows.append(Row(check=check, result=Result.WARNING, what=what, cure=cure))
    return rows or [Row(check=check, result=Result.OK, what=f"all {len(needed)} rights are there")]


async def _of_set(cluster: Rehearsal, program: Program) -> list[Right]:
    found = []
    for kind in sorted(program.template_set.kinds):
        if await cluster.serves(kind):
            group = kind.api_version.rpartition("/")[0]
            resource = await cluster.plural(kind)
            verbs = ("get", "list", "watch", "create", "patch", "delete")
            found += [Right("", group, resource, "", verb) for verb in verbs]
    return found
