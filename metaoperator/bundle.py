"""The manifests that travel with the package: what a cluster needs for the fleet, and for the operator."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from metaoperator.core import rules, strictyaml
from metaoperator.core.model import Manifest
from metaoperator.core.rules import Right

FLEET: Final = "fleet"
OPERATOR: Final = "operator"
_CLUSTER_SCOPED: Final = frozenset({"ClusterRole", "ClusterRoleBinding"})


def folder(name: str) -> Path:
    """Find one bundle: inside the wheel, or beside the package in a checkout."""
    here = Path(__file__).parent
    wheel = here / "shipped" / "manifests"
    return (wheel if wheel.is_dir() else here.parent / "manifests") / name


def objects(name: str) -> list[Manifest]:
    """Read the objects of one bundle in the order in which its kustomization lists them."""
    return list(_objects(folder(name)))


def operators_rights() -> list[Right]:
    """List every right that the operator is installed with."""
    return [
        right
        for each in objects(OPERATOR)
        if each["kind"] in {"ClusterRole", "Role"}
        for right in rules.rights(each["rules"], each["metadata"].get("namespace", ""))
    ]


def _objects(where: Path, namespace: str = "") -> Iterator[Manifest]:
    about: dict[str, Any] = strictyaml.load((where / "kustomization.yaml").read_text(encoding="utf-8"))
    namespace = about.get("namespace", namespace)
    for each in about["resources"]:
        path = where / each
        if path.is_dir():
            yield from _objects(path, namespace)
            continue
        for found in strictyaml.documents(path.read_text(encoding="utf-8")):
            meta = found["metadata"]
            if namespace and found["kind"] not in _CLUSTER_SCOPED:
                meta = {**meta, "namespace": namespace}
            yield {**found, "metadata": meta}
