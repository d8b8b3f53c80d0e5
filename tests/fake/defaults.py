"""What the real server fills in and rewrites, as far as it decides whether rendered and live objects differ."""

import re
from decimal import Decimal
from typing import Any

from .kinds import Kind, Manifest
from .values import clone


def fill(kind: Kind, obj: Manifest) -> None:
    """Default and canonicalise an object in place; doing it twice changes nothing."""
    defaulter = _DEFAULTERS.get((kind.group, kind.kind))
    if not kind.custom:
        _omit_empty(obj["metadata"], "labels", "annotations")
        if kind.kind == "ConfigMap":
            _omit_empty(obj, "data", "binaryData")
    if defaulter:
        defaulter(obj)
    elif kind.custom and kind.schema:
        for part, schema in kind.schema.get("properties", {}).items():
            if part not in ("metadata", "apiVersion", "kind"):
                _prune_and_default(obj, part, schema)


def _omit_empty(holder: Manifest, *names: str) -> None:
    """Drop what is empty where the Go field says omitempty."""
    for name in names:
        if name in holder and not holder[name]:
            del holder[name]


def _deployment(obj: Manifest) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxSurge", "25%")
        rolling.setdefault("maxUnavailable", "25%")
    _template(spec)


def _replica_set(obj: Manifest) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _template(spec)


def _template(spec: Manifest) -> None:
    if "template" in spec:
        _omit_empty(spec["template"].get("metadata", {}), "labels", "annotations")
        _pod_spec(spec["template"].setdefault("spec", {}))


def _pod(obj: Manifest) -> None:
    _pod_spec(obj.setdefault("spec", {}))
    obj["spec"].setdefault("enableServiceLinks", True)
    for container in obj["spec"].get("containers", ()):
        # A limit without a request is also the request: in pods, not in templates.
        resources = container["resources"]
        for name, value in resources.get("limits", {}).items():
            resources.setdefault("requests", {}).setdefault(name, value)
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def _pod_spec(spec: Manifest) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    _omit_empty(spec, "initContainers", "volumes", "nodeSelector", "tolerations", "imagePullSecrets")
    for container in [*spec.get("initContainers", ()), *spec.get("containers", ())]:
        _container(container)
    for volume in spec.get("volumes", ()):
        for source in ("configMap", "secret", "projected", "downwardAPI"):
            if source in volume:
                volume[source].setdefault("defaultMode", 0o644)


def _container(container: Manifest) -> None:
    _omit_empty(container, "args", "command", "env", "envFrom", "ports", "volumeMounts")
    image = container.get("image", "")
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    floating = not image.count("@") and tag in ("", "latest")
    container.setdefault("imagePullPolicy", "Always" if floating else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for env in container.get("env", ()):
        if reference := env.get("valueFrom", {}).get("fieldRef"):
            reference.setdefault("apiVersion", "v1")
        _omit_empty(env, "value")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            _probe(container[probe])
    resources = container.setdefault("resources", {})
    _omit_empty(resources, "limits", "requests")
    for which in ("limits", "requests"):
        if which in resources:
            resources[which] = {name: quantity(value) for name, value in resources[which].items()}


def _probe(probe: Manifest) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe.setdefault(name, value)
    if "httpGet" in probe:
        probe["httpGet"].setdefault("scheme", "HTTP")
        probe["httpGet"].setdefault("path", "/")


def _service(obj: Manifest) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("ipFamilies", ["IPv4"])
    name = f"{obj['metadata'].get('namespace')}/{obj['metadata'].get('name')}"
    spec.setdefault("clusterIP", f"10.96.{sum(name.encode()) % 256}.{len(name) % 250 + 2}")
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port["port"])
    obj.setdefault("status", {}).setdefault("loadBalancer", {})


def _binding(obj: Manifest) -> None:
    for subject in obj.get("subjects", ()):
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def _namespace(obj: Manifest) -> None:
    # The label is the server's own and comes back when it is taken away.
    obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"].get("name", "")
    obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    obj.setdefault("status", {}).setdefault("phase", "Active")


def _definition(obj: Manifest) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("conversion", {"strategy": "None"})
    names = spec.setdefault("names", {})
    names.setdefault("singular", names.get("kind", "").lower())
    names.setdefault("listKind", names.get("kind", "") + "List")


_DEFAULTERS = {
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("", "Pod"): _pod,
    ("", "Service"): _service,
    ("", "Namespace"): _namespace,
    ("rbac.authorization.k8s.io", "RoleBinding"): _binding,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
}

_QUANTITY = re.compile(r"^([+-]?[0-9.]+)([eE][+-]?[0-9]+)?([KMGTPE]i|[numkMGTPE])?$")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}


def amount(value: Any) -> Decimal:
    """Read a quantity as a number."""
    found = _QUANTITY.match(str(value))
    assert found, value
    number, exponent, suffix = Decimal(found[1]), found[2] or "", found[3] or ""
    if suffix in _BINARY:
        return number * _BINARY[suffix]
    return number * Decimal(f"1{exponent}" if exponent else 1).scaleb(_DECIMAL[suffix])


def quantity(value: Any) -> str:
    """Write a quantity as the server does: `0.5` becomes `500m`, `1024Mi` becomes `1Gi`."""
    found = _QUANTITY.match(str(value))
    if not found:
        return str(value)
    number, exponent, suffix = Decimal(found[1]), found[2] or "", found[3] or ""
    if suffix in _BINARY:
        count = number * _BINARY[suffix]
        for name, size in reversed(_BINARY.items()):
            if count and count % size == 0:
                return f"{int(count / size)}{name}"
        return str(int(count))
    count = number * Decimal(f"1{exponent}" if exponent else 1).scaleb(_DECIMAL[suffix])
    if exponent or not count:
        return str(value) if exponent else "0"
    for name, power in reversed(_DECIMAL.items()):
        scaled = count.scaleb(-power)
        if scaled == scaled.to_integral_value():
            return f"{int(scaled)}{name}"
    return str(value)


def _prune_and_default(holder: Manifest, name: str, schema: Manifest) -> None:
    if holder.get(name) is None and "default" in schema and not schema.get("nullable"):
        holder[name] = clone(schema["default"])
    value = holder.get(name)
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        for item in value:
            _prune_and_default({name: item}, name, items)
    if not isinstance(value, dict):
        return
    properties = schema.get("properties", {})
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        for key in list(value):
            _prune_and_default(value, key, extra)
    elif not extra and not schema.get("x-kubernetes-preserve-unknown-fields"):
        for key in set(value) - set(properties):
            del value[key]
    for key, inner in properties.items():
        _prune_and_default(value, key, inner)
