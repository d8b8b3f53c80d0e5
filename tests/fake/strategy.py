"""The rules around each write: what a body must say, what a request may not change, what counts as a change."""

from typing import Any

from . import problems
from .kinds import Kind, Manifest
from .values import clone

_KEPT = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "name",
    "namespace",
)

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


def received(kind: Kind, namespace: str | None, obj: Any, name: str | None) -> Manifest:
    """Copy a body and make it agree with the path it was sent to."""
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata", {}), dict):
        raise problems.bad_request("the body of the request is not an object")
    if obj.get("kind", kind.kind) != kind.kind or obj.get("apiVersion", kind.api_version) != kind.api_version:
        raise problems.bad_request(
            f"{obj.get('kind')} in version {obj.get('apiVersion')!r} cannot be handled as a {kind.kind}"
        )
    new = clone(obj)
    metadata = new.setdefault("metadata", {})
    new["apiVersion"], new["kind"] = kind.api_version, kind.kind
    if name is not None and metadata.get("name", name) != name:
        why = f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({name})"
        raise problems.bad_request(why)
    if kind.namespaced:
        if metadata.setdefault("namespace", namespace) != namespace:
            raise problems.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
    else:
        metadata.pop("namespace", None)
    return new


def check_preconditions(kind: Kind, live: Manifest, metadata: Manifest, *, put: bool = False) -> None:
    """Check the uid and resourceVersion that a body carries; only a PUT calls a wrong uid a conflict."""
    have, name, uid = live["metadata"], live["metadata"]["name"], metadata.get("uid")
    if uid and uid != have["uid"]:
        if put:
            raise problems.wrong_uid(kind, name, uid, have["uid"])
        raise problems.invalid(kind, name, "metadata.uid", f'Invalid value: "{uid}": field is immutable')
    version = metadata.get("resourceVersion")
    if version and version != "0" and version != have["resourceVersion"]:
        raise problems.stale(kind, name)


def prepared(kind: Kind, live: Manifest, new: Manifest, sub: str) -> Manifest:
    """Keep what this request may not change."""
    if sub == "scale":
        # The real one takes a Scale; what it changes in the object is this field alone.
        spec = {**clone(live["spec"]), "replicas": new["spec"]["replicas"]}
        new = {**clone(live), "spec": spec}
    elif sub:
        owners = {key: new["metadata"][key] for key in ("managedFields",) if key in new["metadata"]}
        status = {"status": new["status"]} if "status" in new else {}
        rest = {key: value for key, value in clone(live).items() if key != "status"}
        new = {**rest, **status, "metadata": {**clone(live["metadata"]), **owners}}
    elif kind.status:
        new.pop("status", None)
        if "status" in live:
            new["status"] = live["status"]
    for field in _KEPT:
        new["metadata"].pop(field, None)
        if field in live["metadata"]:
            new["metadata"][field] = live["metadata"][field]
    if kind.kind == "Service" and not new["spec"].get("clusterIP"):
        # Addresses that were given once are kept by whoever says nothing of them.
        for field in ("clusterIP", "clusterIPs"):
            if field in live["spec"]:
                new["spec"][field] = live["spec"][field]
    return new


def check_complete(kind: Kind, new: Manifest) -> None:
    """Refuse what an apply can leave behind: containers without an image, nulls where a schema wants something."""
    if kind.custom and (null := _null(kind.schema, new, "")):
        path, wanted = null
        why = f'Invalid value: "null": {path} in body must be of type {wanted}: "null"'
        raise problems.invalid(kind, new["metadata"]["name"], path, why)
    if kind.kind == "ControllerRevision":
        _check_record(kind, new)
    if kind.kind not in ("Deployment", "ReplicaSet", "Pod"):
        return
    path, spec = (
        ("spec", new["spec"]) if kind.kind == "Pod" else ("spec.template.spec", new["spec"]["template"]["spec"])
    )
    lacking = [
        f"{path}.{which}[{index}].image"
        for which in ("containers", "initContainers")
        for index, container in enumerate(spec.get(which, ()))
        if not container.get("image")
    ]
    if lacking:
        raise problems.required(kind, new["metadata"]["name"], lacking)


def _check_record(kind: Kind, new: Manifest) -> None:
    name, number = new["metadata"]["name"], new.get("revision", 0)
    if new.get("data") is None:
        raise problems.required(kind, name, ["data"], "data is mandatory")
    if number < 0:
        raise problems.invalid(kind, name, "revision", f"Invalid value: {number}: must be greater than or equal to 0")


def _null(schema: Manifest, value: Any, path: str) -> tuple[str, str] | None:
    """Find a null that its schema does not allow, and the type that should be there."""
    if value is None:
        return None if schema.get("nullable") or "type" not in schema else (path, schema["type"])
    if isinstance(value, list):
        inside = [(f"{path}[{index}]", schema.get("items", {}), item) for index, item in enumerate(value)]
    elif isinstance(value, dict):
        extra = schema.get("additionalProperties")
        other = extra if isinstance(extra, dict) else {}
        properties = schema.get("properties", {})
        inside = [(f"{path}.{name}".lstrip("."), properties.get(name, other), v) for name, v in value.items()]
    else:
        return None
    return next((found for where, inner, item in inside if (found := _null(inner, item, where))), None)


def check_content(kind: Kind, live: Manifest, new: Manifest) -> None:
    """Refuse another content of a record, and none: of an update this is told before anything that it may lack."""
    if kind.kind == "ControllerRevision" and live.get("data") != new.get("data"):
        raise problems.invalid(kind, live["metadata"]["name"], "data", "Invalid value: field is immutable")


def check_immutable(kind: Kind, live: Manifest, new: Manifest) -> None:
    """Refuse a change of what cannot change."""
    name = new["metadata"]["name"]
    if kind.kind in ("Deployment", "ReplicaSet") and live["spec"].get("selector") != new["spec"].get("selector"):
        raise problems.invalid(kind, name, "spec.selector", "Invalid value: field is immutable")
    if kind.kind == "RoleBinding" and live.get("roleRef") != new.get("roleRef"):
        raise problems.invalid(kind, name, "roleRef", "Invalid value: cannot change roleRef")
    if kind.kind == "Service":
        had, has = live["spec"].get("clusterIP"), new["spec"].get("clusterIP")
        if had and has and had != has:
            raise problems.invalid(kind, name, "spec.clusterIPs[0]", f"Invalid value: [{has}]: may not change once set")
    frozen = kind.kind == "ConfigMap" and live.get("immutable")
    if frozen and any(live.get(part) != new.get(part) for part in ("data", "binaryData", "immutable")):
        raise problems.invalid(kind, name, "data", "Forbidden: field is immutable when `immutable` is set")


def check_delete(kind: Kind, live: Manifest, options: Manifest) -> None:
    """Hold a delete to the object and state that it names."""
    wanted = options.get("preconditions") or {}
    for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        asked, have = wanted.get(field), live["metadata"][field]
        if asked and asked != have:
            raise problems.delete_refused(kind, live["metadata"]["name"], label, asked, have)


def marked(kind: Kind, live: Manifest, policy: str | None, now: str) -> Manifest:
    """Return the object as a delete leaves it while something holds it; the policy may be what holds it."""
    obj = clone(live)
    metadata = obj["metadata"]
    finalizers = metadata.pop("finalizers", [])
    if policy:
        finalizers = [each for each in finalizers if each not in (FOREGROUND, ORPHAN)]
        finalizers += {"Foreground": [FOREGROUND], "Orphan": [ORPHAN]}.get(policy, [])
    if finalizers:
        metadata["finalizers"] = finalizers
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = now
        metadata["deletionGracePeriodSeconds"] = 0
        if "generation" in metadata:
            metadata["generation"] += 1
    if kind.kind == "Namespace":
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
    return obj


def timeless(obj: Manifest) -> Manifest:
    """Leave out the times of managedFields: they alone are no change."""
    metadata = dict(obj["metadata"])
    metadata["managedFields"] = [{**entry, "time": None} for entry in metadata.get("managedFields", ())]
    return {**obj, "metadata": metadata}


def counts(kind: Kind, live: Manifest, new: Manifest) -> bool:
    """Tell whether a change is one of the desired state."""
    if not kind.custom:
        return live.get("spec") != new.get("spec")
    ignored = {"metadata", "status"} if kind.status else {"metadata"}
    return {k: v for k, v in live.items() if k not in ignored} != {k: v for k, v in new.items() if k not in ignored}
