"""Manifests with sane defaults, so that a test shows only what it is about."""

from typing import Any

from .client import Manifest, manifest


def config_map(name: str = "one", /, data: dict[str, str] | None = None, **metadata: Any) -> Manifest:
    """Build a ConfigMap."""
    return manifest("ConfigMap", name, metadata=metadata, **({"data": data} if data is not None else {}))


def container(name: str = "main", **fields: Any) -> Manifest:
    """Build a container."""
    return {"name": name, "image": "example.invalid/image:1", **fields}


def deployment(
    name: str = "one", /, *, containers: list[Manifest] | None = None, pod: Manifest | None = None, **spec: Any
) -> Manifest:
    """Build a Deployment without replicas, so that nothing is scheduled anywhere."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers or [container()], **(pod or {})}}
    return manifest(
        "Deployment", name, spec={"replicas": 0, "selector": {"matchLabels": labels}, "template": template, **spec}
    )


def widget(
    name: str = "one",
    /,
    *,
    kind: str = "Widget",
    metadata: Manifest | None = None,
    status: Manifest | None = None,
    **spec: Any,
) -> Manifest:
    """Build a custom resource."""
    more = {} if status is None else {"status": status}
    return manifest(kind, name, metadata=metadata or {}, **({"spec": spec} if spec else {}), **more)


def managers(obj: Manifest) -> list[tuple[str, str, str]]:
    """Return who owns something: manager, operation and subresource."""
    return sorted(
        (e["manager"], e["operation"], e.get("subresource", "")) for e in obj["metadata"].get("managedFields", ())
    )


def owned(obj: Manifest, manager: str, operation: str = "Apply", sub: str = "") -> Manifest:
    """Return what one manager owns, as fieldsV1."""
    for entry in obj["metadata"].get("managedFields", ()):
        if (entry["manager"], entry["operation"], entry.get("subresource", "")) == (manager, operation, sub):
            return dict(entry["fieldsV1"])
    return {}
