"""What a server-side apply must look like: no unknown fields where a schema is known, no list item twice.

The real server answers 500 to these, and a create by POST just drops the unknown field.
"""

import json
from typing import Any

from . import fieldsets, problems, shapes
from .fieldsets import Path
from .kinds import Kind, Manifest

_ENVELOPE = ("apiVersion", "kind", "metadata")
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_ANY: Manifest = {"x-kubernetes-preserve-unknown-fields": True}


def _fields(*names: str, **typed: Manifest) -> Manifest:
    return {"type": "object", "properties": {**dict.fromkeys(names, _ANY), **typed}}


_CONTAINERS: Manifest = {"type": "array", "items": _fields(
    "args", "command", "env", "envFrom", "lifecycle", "livenessProbe", "ports", "readinessProbe", "resizePolicy",
    "resources", "restartPolicy", "restartPolicyRules", "securityContext", "startupProbe", "stdin", "stdinOnce",
    "terminationMessagePath", "terminationMessagePolicy", "tty", "volumeDevices", "volumeMounts",
    name=_TEXT, image=_TEXT, imagePullPolicy=_TEXT, workingDir=_TEXT,
)}  # fmt: skip
_POD = _fields(
    "activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks",
    "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers", "hostname",
    "hostnameOverride", "imagePullSecrets", "nodeSelector", "os", "overhead", "preemptionPolicy", "priority",
    "readinessGates", "resourceClaims", "resources", "restartPolicy", "runtimeClassName", "schedulerName",
    "schedulingGates", "securityContext", "setHostnameAsFQDN", "shareProcessNamespace", "tolerations",
    "topologySpreadConstraints", "volumes", "workloadRef",
    **dict.fromkeys(("nodeName", "priorityClassName", "serviceAccount", "serviceAccountName", "subdomain"), _TEXT),
    terminationGracePeriodSeconds=_NUMBER,
    containers=_CONTAINERS,
    initContainers=_CONTAINERS,
)  # fmt: skip
_BUILT_IN = {
    "ConfigMap": _fields("binaryData", "immutable", data={"type": "object", "additionalProperties": _TEXT}),
    "Deployment": _fields(
        "status",
        spec=_fields(
            "paused",
            "selector",
            "strategy",
            minReadySeconds=_NUMBER,
            progressDeadlineSeconds=_NUMBER,
            replicas=_NUMBER,
            revisionHistoryLimit=_NUMBER,
            template=_fields("metadata", spec=_POD),
        ),
    ),
}
"""As far as tests send them wrong."""


def check(kind: Kind, config: Manifest) -> None:
    """Refuse a configuration that does not fit its type."""
    why = _duplicate(kind, (), config) or _undeclared(_schema(kind), config, "")
    if why:
        version = kind.api_version if kind.group else f"/{kind.version}"
        what = f"/{config['metadata'].get('name', '')}; {version}, Kind={kind.kind}"
        raise problems.ApiError(500, "", f"failed to create typed patch object ({what}): {why}")


def _schema(kind: Kind) -> Manifest:
    return kind.schema if kind.custom else _BUILT_IN.get(kind.kind, {})


def _duplicate(kind: Kind, path: Path, value: Any) -> str | None:
    if isinstance(value, dict):
        inside = [(f"f:{name}", inner) for name, inner in value.items()]
    elif isinstance(value, list) and path and shapes.list_shape(kind, fieldsets.names(path)) != shapes.ATOMIC:
        inside = [(fieldsets.item_key(kind, path, item) or "", item) for item in value]
        keys = [key for key, _ in inside]
        for key in keys:
            if keys.count(key) > 1:
                return f"{fieldsets.show(path)}: duplicate entries for key {fieldsets.show((key,))}"
    else:
        return None
    return next((why for key, inner in inside if (why := _duplicate(kind, (*path, key), inner))), None)


def _mistyped(schema: Manifest, value: Any) -> str | None:
    wanted = schema.get("type")
    if wanted == "integer" and isinstance(value, str):
        return "expected numeric (int or float), got string"
    if schema is _TEXT and isinstance(value, bool | int | float):
        return f"expected string, got &value.valueUnstructured{{Value:{json.dumps(value)}}}"
    return None


def _undeclared(schema: Manifest, value: Any, path: str) -> str | None:
    properties, extra = schema.get("properties", {}), schema.get("additionalProperties")
    if isinstance(value, list):
        found = (_undeclared(schema.get("items", {}), item, path) for item in value)
        return next((why for why in found if why), None)
    if wrong := _mistyped(schema, value):
        return f"{path}: {wrong}"
    if not isinstance(value, dict) or (not properties and not extra):
        return None
    for name, inner in value.items():
        if not path and name in _ENVELOPE:
            continue
        if name in properties:
            why = _undeclared(properties[name], inner, f"{path}.{name}")
        elif isinstance(extra, dict):
            why = _undeclared(extra, inner, f"{path}.{name}")
        elif extra or schema.get("x-kubernetes-preserve-unknown-fields"):
            why = None
        else:
            why = f"{path}.{name}: field not declared in schema"
        if why:
            return why
    return None
