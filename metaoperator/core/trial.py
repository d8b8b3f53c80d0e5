"""A template set on trial: rendered for namespaces of every kind, and its promises held against what came out."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from metaoperator.core import names, optin, paths, shard, versions
from metaoperator.core.errors import Problem, TemplateError, ValuesError
from metaoperator.core.model import DEPLOYMENT, Desired, Manifest, Namespace, Ref, TemplateSet
from metaoperator.core.render import Program
from metaoperator.core.shard import Policy

UID: Final = "00000000-0000-0000-0000-000000000000"
ORDINARY: Final = Namespace(name="team-a", uid=UID)
SAMPLES: Final = (
    ORDINARY,
    # Names that a YAML reader takes for something else than text, and the shortest and longest there are.
    *(Namespace(name=name, uid=UID) for name in ("null", "0123", "1e3", "42", "on", "a", "n" * 63)),
    Namespace(
        name="team-b",
        uid=UID,
        labels={"team": "7", "cost-center": "1e3", "owner": "null", "empty": "", "on": "off"},
        annotations={"example.com/note": 'quotes " and\nlines: {{ not.a.template }}'},
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Values to render with, whose they are, and which instance ID; without one, a namespace's name is it."""

    fleet: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    template: str = names.DEFAULT_TEMPLATE
    policy: Policy = Policy.PER_NAMESPACE
    pinned: str = ""

    def instance_id(self, namespace: Namespace) -> str:
        """Name the instance ID to render for."""
        return self.pinned or shard.instance_id(namespace.name, self.policy)


def run(program: Program, namespace: Namespace, layers: Layers) -> tuple[Desired | None, tuple[Problem, ...]]:
    """Render once, and once more: what came out, and what is wrong with it."""
    try:
        first, second = (
            program.desired(
                namespace,
                shard.only_shard(layers.instance_id(namespace)),
                template_name=layers.template,
                fleet_values=layers.fleet,
                namespace_values=layers.own,
            )
            for _ in range(2)
        )
    except (TemplateError, ValuesError) as exc:
        return None, exc.problems
    return first, (*_unequal(program, first, second), *_misread(program, layers.instance_id(namespace), first))


def _unequal(program: Program, first: Desired, second: Desired) -> Iterator[Problem]:
    if first.revision != second.revision:
        apart = [one for one in first.documents if one not in second.documents]
        for kind, name in [(each["kind"], each["metadata"]["name"]) for each in apart]:
            what = f"{kind} {name} is rendered differently each time"
            yield Problem(
                where=f"{program.template_set.name}/template.yaml", what=what, cure="every change rolls children"
            )


def _misread(program: Program, wanted: str, desired: Desired) -> Iterator[Problem]:
    """Read the instance ID as the child does: wrong, and it serves nobody, or everybody."""
    for name in sorted(_configurations(desired)):
        found = [each for each in desired.documents if (each["kind"], each["metadata"]["name"]) == ("ConfigMap", name)]
        where = f"{program.template_set.name}/template.yaml"
        if not found:
            cure = "render it, or drop the argument"
            yield Problem(
                where=where, what=f"the child reads ConfigMap {name}, which the set does not render", cure=cure
            )
        for document in found:
            read = _instance_id(document)
            if read != wanted and (read or wanted):  # to Argo, none and an empty one are the same
                yield Problem(
                    where=where,
                    what=f"the child reads instanceID {read!r} from ConfigMap {name}, not {wanted!r}",
                    cure="write data.config as one YAML text, with to_yaml and q, and shard.instance_id in it",
                )


def _configurations(desired: Desired) -> set[str]:
    found: set[str] = set()
    for document in desired.documents:
        if Ref.of(document).kind != DEPLOYMENT:
            continue
        for container in paths.mapping(document, "spec", "template", "spec").get("containers") or ():
            words = [*(container.get("command") or ()), *(container.get("args") or ())]
            if "workflow-controller" in words:
                found |= {word.removeprefix("--configmap=") for word in words if str(word).startswith("--configmap=")}
    return found


def _instance_id(document: Manifest) -> Any:
    data = document.get("data") or {}
    try:
        if "config" in data:
            # YAML 1.1, as Argo's reader: `0123` and `on` without quotes are no text to it.
            return (yaml.load(data["config"], Loader=yaml.CSafeLoader) or {}).get("instanceID")
        return yaml.load(data["instanceID"], Loader=yaml.CSafeLoader) if "instanceID" in data else None
    except (yaml.YAMLError, ValueError, AttributeError, RecursionError) as exc:
        return f"(not readable: {type(exc).__name__})"


# ---- what can be told without rendering


def promises(template_set: TemplateSet) -> Iterator[Problem]:
    """Name the paths of `namespaceValues` that lead nowhere: a typo there is a value that no namespace may set."""
    where = f"{template_set.name}/template.yaml"
    for path in sorted(template_set.namespace_values):
        steps = path.split(".")
        if versions.at(template_set.defaults, steps) is versions.ABSENT and not _in_schema(template_set.schema, steps):
            cure = "correct the path: it stands neither in values.yaml nor in values.schema.json"
            yield Problem(where=where, what=f"namespaceValues: {path} leads nowhere", cure=cure)


def idle_kinds(template_set: TemplateSet) -> Iterator[Problem]:
    """Name the declared kinds that no template writes: rights that nobody needs."""
    text = "\n".join(template_set.files.values())
    for kind in sorted(template_set.kinds):
        if not re.search(rf"\bkind:\s*[\"']?{re.escape(kind.kind)}\b", text) and not re.search(r"\bkind:\s*{", text):
            yield Problem(
                where=f"{template_set.name}/template.yaml",
                what=f"{kind} is declared, and no template renders one",
                cure="take it out of kinds: the operator watches every kind that a set declares",
            )


def _in_schema(schema: Any, steps: list[str]) -> bool:
    for step in steps:
        if not isinstance(schema, Mapping):
            return False
        below: Any = (schema.get("properties") or {}).get(step)
        if below is None:
            if "$ref" in schema or any(key in schema for key in ("allOf", "anyOf", "oneOf", "patternProperties")):
                return True  # it may lead somewhere: only what certainly leads nowhere is told
            below = schema.get("additionalProperties")
            if not isinstance(below, Mapping):
                return False
        schema = below
    return True


def asked_for(namespace: Namespace) -> tuple[str | None, str]:
    """Read the label of a Namespace as a manifest: which ControllerTemplate it asks for, and why it is refused."""
    stage = optin.stage(namespace, own_namespace=names.OPERATOR_NAMESPACE, denied=frozenset())
    match stage:
        case optin.Served(template=template):
            return template, ""
        case optin.Refused(message=message):
            return None, message
    return None, ""
