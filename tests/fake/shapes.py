"""Which lists are merged by key and which maps are one value: what `x-kubernetes-list-type` and its like say."""

from functools import lru_cache

from .kinds import Kind, Manifest

Names = tuple[str, ...]  # the field names on the way to a value; list items add nothing

ATOMIC = "atomic"
SET = "set"
Shape = str | tuple[str, ...]  # a tuple holds the keys of an associative list

_METADATA: dict[str, Shape] = {"ownerReferences": ("uid",), "finalizers": SET}
_BUILT_IN: dict[str, Shape] = {
    "conditions": ("type",),
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "secrets": ("name",),
    "hostAliases": ("ip",),
    "podIPs": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
_ATOMIC_MAPS = frozenset(
    {
        "configMapKeyRef",
        "fieldRef",
        "imagePullSecrets",
        "involvedObject",
        "labelSelector",
        "namespaceSelector",
        "nodeSelector",
        "ownerReferences",
        "podSelector",
        "resourceFieldRef",
        "roleRef",
        "secretKeyRef",
        "selector",
    }
)
KEY_DEFAULTS = {"protocol": "TCP"}


def list_shape(kind: Kind, names: Names) -> Shape:
    """Tell how a list merges: by these keys, as a set, or as one value."""
    if len(names) == 2 and names[0] == "metadata":
        return _METADATA.get(names[1], ATOMIC)
    if kind.custom:
        return _declared(kind, names)
    if names[-1] == "ports":
        return (
            ("containerPort", "protocol")
            if "containers" in names or "initContainers" in names
            else ("port", "protocol")
        )
    if names[-1] == "conditions" and names[0] != "status":
        return ATOMIC
    if kind.kind == "CustomResourceDefinition" and names[0] == "spec":
        return ATOMIC
    return _BUILT_IN.get(names[-1], ATOMIC)


def atomic_map(kind: Kind, names: Names) -> bool:
    """Tell whether a map has one owner as a whole."""
    if not names:
        return False
    if names[0] == "metadata":
        return names[-1] == "ownerReferences"
    if kind.custom:
        return _property(kind, names).get("x-kubernetes-map-type") == ATOMIC
    return names[-1] in _ATOMIC_MAPS


def _declared(kind: Kind, names: Names) -> Shape:
    prop = _property(kind, names)
    declared = prop.get("x-kubernetes-list-type")
    if declared == "map":
        return tuple(prop["x-kubernetes-list-map-keys"])
    if declared == SET:
        return SET
    # Without a schema the usual declaration is assumed for the one list that everybody declares.
    return (
        ("type",) if "properties" not in kind.schema and names == ("status", "conditions") and kind.status else ATOMIC
    )


@lru_cache(maxsize=4096)
def _property(kind: Kind, names: Names) -> Manifest:
    at = kind.schema
    for name in names:
        while "items" in at:
            at = at["items"]
        inner = at.get("properties", {}).get(name, at.get("additionalProperties"))
        if not isinstance(inner, dict):
            return {}
        at = inner
    return at
