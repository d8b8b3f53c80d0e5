"""What Kubernetes' own OpenAPI says, made small: `metaoperator/kubernetes`, which rendered objects are held to.

`python -m tests.schemas` asks a real API server and writes the files anew; the contract tests hold them to it.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.contract.client import Api

FOLDER = Path(__file__).parents[2] / "metaoperator" / "kubernetes"
GROUPS = {
    "v1", "apps/v1", "autoscaling/v2", "batch/v1", "coordination.k8s.io/v1", "networking.k8s.io/v1", "policy/v1",
    "rbac.authorization.k8s.io/v1",
}  # fmt: skip
"""Of these the schemas are kept. Of all others, only which kinds there are."""
LEFT_OUT = {"Binding", "Event", "Secret"}
"""No set may render these: a Secret would stand readable in records, the others are not for keeping."""
_PREFIXES = {"io.k8s.api.": "", "io.k8s.apimachinery.pkg.": "meta.", "io.k8s.kube-aggregator.pkg.": "aggregator."}
_INLINE = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "int-or-string"},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "quantity"},
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": {"type": "string", "format": "date-time"},
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": {"type": "string", "format": "date-time"},
}

Files = dict[str, Any]


async def ask(api: Api) -> Files:
    """Build every file from what a real API server says now."""
    groups = (await api.call("GET", "/apis")).body["groups"]
    versions = ["v1", *(each["groupVersion"] for group in groups for each in group["versions"])]
    builtin = [
        each for each in versions if "/" not in each or each.partition("/")[0].count(".") < 1 or ".k8s.io/" in each
    ]
    kinds: Files = {}
    needed: Files = {}
    for version in sorted(builtin):
        path = version if "/" in version else f"api/{version}"
        path = f"apis/{version}" if "/" in version else path
        resources = (await api.call("GET", f"/{path}")).body["resources"]
        found = [each for each in resources if "/" not in each["name"] and "create" in each["verbs"]]
        entry: dict[str, Any] = {
            "cluster": sorted(each["kind"] for each in found if not each["namespaced"]),
            "namespaced": dict.fromkeys(sorted(each["kind"] for each in found if each["namespaced"]), ""),
        }
        kinds[version] = entry
        if version in GROUPS:
            schemas = (await api.call("GET", f"/openapi/v3/{path}")).body["components"]["schemas"]
            for kind in entry["namespaced"].keys() - LEFT_OUT:
                name = _definition(schemas, version, kind)
                entry["namespaced"][kind] = _short(name)
                needed |= _closure(schemas, name)
    return _files(kinds, needed)


def _definition(schemas: Mapping[str, Any], version: str, kind: str) -> str:
    group, _, number = version.rpartition("/")
    wanted = {"group": group, "version": number, "kind": kind}
    (name,) = [
        name for name, schema in schemas.items() if schema.get("x-kubernetes-group-version-kind", []) == [wanted]
    ]
    return name


def _closure(schemas: Mapping[str, Any], root: str) -> Files:
    found: Files = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if _short(name) in found:
            continue
        schema = dict(schemas[name])
        if name == root:  # no template renders a status
            schema["properties"] = {key: value for key, value in schema["properties"].items() if key != "status"}
        found[_short(name)] = _small(schema, schemas)
        waiting += [each for each in _references(schema) if each not in _INLINE]
    return found


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix("#/components/schemas/")
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for each in schema:
            yield from _references(each)


def _small(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what decides whether a value is taken."""
    if references := [*_references({"allOf": schema.get("allOf", []), "$ref": schema.get("$ref")})]:
        (reference,) = references
        return dict(_INLINE.get(reference) or {"$ref": _short(reference)})
    small = {key: schema[key] for key in ("type", "format", "enum", "required") if key in schema}
    if "properties" in schema:
        small["properties"] = {key: _small(value, schemas) for key, value in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            small[key] = _small(schema[key], schemas)
    if schema.get("x-kubernetes-list-type") in {"map", "set"}:
        item = schemas[next(_references(schema["items"]))] if "x-kubernetes-list-map-keys" in schema else {}
        small["keys"] = {
            key: item["properties"][key].get("default") for key in schema.get("x-kubernetes-list-map-keys", [])
        }
    return small


def _short(name: str) -> str:
    for prefix, short in _PREFIXES.items():
        if name.startswith(prefix):
            return short + name.removeprefix(prefix)
    raise ValueError(name)


def file_of(definition: str) -> str:
    """Name the file that holds a definition: one for each group and version, one for what all of them share."""
    return "meta" if definition.startswith("meta.") else definition.rpartition(".")[0]


def _files(kinds: Files, needed: Files) -> Files:
    files: Files = {"kinds": kinds}
    for name in sorted(needed):
        file = files.setdefault(file_of(name), {"needs": [], "definitions": {}})
        file["definitions"][name] = needed[name]
    for name, file in files.items():
        if name != "kinds":
            used = {file_of(each) for each in _small_references(file["definitions"])}
            file["needs"] = sorted(used - {name})
    return files


def _small_references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, below in value.items():
            if key == "$ref" and isinstance(below, str):
                yield below
            else:
                yield from _small_references(below)
    elif isinstance(value, list):
        for each in value:
            yield from _small_references(each)


def text_of(content: Any) -> str:
    """Write one file: a line for each definition or group, so that a diff shows what changed."""
    if "definitions" not in content:
        rows = [f"{json.dumps(key)}: {_line(value)}" for key, value in sorted(content.items())]
        return "{\n" + ",\n".join(rows) + "\n}\n"
    rows = [f"{json.dumps(key)}: {_line(value)}" for key, value in sorted(content["definitions"].items())]
    return f'{{"needs": {json.dumps(content["needs"])}, "definitions": {{\n' + ",\n".join(rows) + "\n}}\n"


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
