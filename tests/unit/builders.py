"""Nouns with sane defaults, so that a test shows only what it is about."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from metaoperator import sources
from metaoperator.core import names, render, shard
from metaoperator.core.model import (
    CONFIG_MAP,
    DEPLOYMENT,
    ROLE_BINDING,
    Desired,
    Kind,
    Manifest,
    Namespace,
    TemplateSet,
)

UID = "uid-of-team-a"
SHIPPED = sources.shipped() / "workflow-controller"


# What is rendered


def namespace(name: str = "team-a", **fields: Any) -> Namespace:
    """Build a Namespace as the operator sees it."""
    return Namespace(**{"name": name, "uid": UID} | fields)


def template_set(files: Mapping[str, str] | None = None, **fields: Any) -> TemplateSet:
    """Build a set without values that may render ConfigMaps, Deployments and RoleBindings."""
    defaults: dict[str, Any] = {
        "name": "set",
        "description": "",
        "kinds": frozenset({CONFIG_MAP, DEPLOYMENT, ROLE_BINDING}),
        "namespace_values": frozenset(),
        "defaults": {},
        "schema": {},
        "files": {"one.yaml.j2": object_text()} if files is None else files,
        "digest": "digest",
    }
    return TemplateSet(**defaults | fields)


def object_text(rest: str = "", *, kind: Kind = CONFIG_MAP, name: str = "one") -> str:
    """Write a template's text: the four lines that every object has, and what the test is about."""
    return f"apiVersion: {kind.api_version}\nkind: {kind.kind}\nmetadata:\n  name: {name}\n{rest}"


def desired(
    source: str | TemplateSet | render.Program,
    where: Namespace | None = None,
    *,
    fleet: Mapping[str, Any] | None = None,
    own: Mapping[str, Any] | None = None,
) -> Desired:
    """Render a set, or one template's text, for one namespace."""
    if isinstance(source, str):
        source = template_set({"one.yaml.j2": source})
    program = source if isinstance(source, render.Program) else render.Program(source)
    where = where or namespace()
    return program.desired(
        where,
        shard.only_shard(where.name),
        template_name=names.DEFAULT_TEMPLATE,
        fleet_values=fleet or {},
        namespace_values=own or {},
    )


def document(source: str | TemplateSet | render.Program, where: Namespace | None = None, **layers: Any) -> Manifest:
    """Render what is one document."""
    (only,) = desired(source, where, **layers).documents
    return only


def write_set(folder: Path, **texts: str) -> Path:
    """Write a whole small set to a folder; `texts` replaces files, by their names with `_` for `.`."""
    whole = {
        "template_yaml": "kinds:\n  - apiVersion: v1\n    kind: ConfigMap\n",
        "values_yaml": "a: 1\n",
        "values_schema_json": "{}",
        "one_yaml_j2": object_text(),
    } | texts
    folder.mkdir(parents=True)
    for name, text in whole.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


# What is observed


def live(manifest: Manifest, *, uid: str = "live-1", manager: str = names.FIELD_MANAGER) -> dict[str, Any]:
    """Store a manifest as an API server would: with its own metadata, and without empty mappings and lists."""
    stored = _without_empty(copy.deepcopy(dict(manifest)))
    stored["metadata"] |= {
        "uid": uid,
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": manager, "operation": "Apply"}],
    }
    return stored


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        slim = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in slim.items() if item not in ({}, [])}
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    return value


def config_map(name: str = "one", **fields: Any) -> Manifest:
    """Build a rendered ConfigMap, mark included."""
    return rendered({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} | fields)


def deployment(**pod_spec: Any) -> Manifest:
    """Build the child's rendered Deployment, mark included."""
    return rendered(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": names.WORKFLOW_CONTROLLER},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "i"}]} | pod_spec}},
        }
    )


def rendered(manifest: Manifest, where: Namespace | None = None) -> Manifest:
    """Put the mark on a manifest, as rendering does."""
    where = where or namespace()
    return render.mark(manifest, where, shard.only_shard(where.name))


# Generated data

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=12
)
JSON_OBJECTS = st.dictionaries(TEXT, JSON, max_size=4)
