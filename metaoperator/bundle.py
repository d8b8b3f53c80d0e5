"""The manifests that travel with the package: what a cluster needs for the fleet, and for the operator."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from metaoperator.core import names, rules, strictyaml
from metaoperator.core.model import Manifest
from metaoperator.core.rules import Right

FLEET: Final = "fleet"
OPERATOR: Final = "operator"
COMPONENTS: Final = "components"
"""Kustomize components over the fleet bundle: people choose by them how Workflows get their instance IDs."""
_CLUSTER_SCOPED: Final = frozenset({"ClusterRole", "ClusterRoleBinding"})

HOME_WORDS: Final = (
    f"system:serviceaccount:{{}}:{names.OPERATOR_ACCOUNT}",
    "variables.place == '{}'",
    "kubectl -n {} ",
)
"""How policies name the operator's namespace, `{}`, in their texts."""


def folder(name: str) -> Path:
    """Find one bundle: inside the wheel, or beside the package in a checkout."""
    here = Path(__file__).parent
    wheel = here / "shipped" / "manifests"
    return (wheel if wheel.is_dir() else here.parent / "manifests") / name


def objects(name: str) -> list[Manifest]:
    """Read the objects of one bundle in the order in which its kustomization lists them."""
    return [manifest for _, manifest in files(name)]


def files(name: str) -> list[tuple[str, Manifest]]:
    """Read the objects of one bundle, each with the file in which it is written."""
    where = folder(name)
    return [(f"manifests/{name}/{path.relative_to(where)}", manifest) for path, manifest in _objects(where)]


@dataclass(frozen=True, slots=True)
class Way:
    """How one object of the fleet bundle is installed: by which components, and as what, if at all."""

    components: tuple[str, ...]
    manifest: Manifest | None


def ways(manifest: Manifest) -> list[Way]:
    """Write an object of the fleet bundle in every way in which components leave it, the plain one first."""
    found = [Way((), manifest)]
    for place in sorted(path for path in folder(COMPONENTS).iterdir() if path.is_dir()):
        about: dict[str, Any] = strictyaml.load((place / "kustomization.yaml").read_text(encoding="utf-8"))
        for each in about.get("patches", ()):
            if all(each["target"].get(key, is_) == is_ for key, is_ in _target(manifest).items()):
                patch: Any = strictyaml.load(each["patch"])
                found += [
                    Way((*way.components, place.name), _patched(way.manifest, patch))
                    for way in found
                    if way.manifest is not None
                ]
    return found


def _target(manifest: Manifest) -> dict[str, str]:
    return {"kind": manifest["kind"], "name": manifest["metadata"]["name"]}


def _patched(manifest: Manifest, patch: Any) -> Manifest | None:
    """Apply a patch of ours as kustomize does: they take an object away, or replace fields that are there."""
    if isinstance(patch, Mapping):
        return None
    found: Any = manifest
    for step in patch:
        if step["op"] == "replace":
            keys = [each.replace("~1", "/").replace("~0", "~") for each in step["path"].split("/")[1:]]
            found = _replaced(found, keys, step["value"])
    return dict(found)


def _replaced(value: Any, keys: list[str], new: Any) -> Any:
    if not keys:
        return new
    key, *rest = keys
    if isinstance(value, list):
        return [_replaced(item, rest, new) if str(index) == key else item for index, item in enumerate(value)]
    return {**value, key: _replaced(value[key], rest, new)}


def operators_rights(home: str = names.OPERATOR_NAMESPACE) -> list[Right]:
    """List every right that the operator is installed with in the namespace `home`."""
    return [
        right
        for each in objects(OPERATOR)
        if each["kind"] in {"ClusterRole", "Role"}
        for right in rules.rights(each["rules"], moved(each, home)["metadata"].get("namespace", ""))
    ]


def moved(manifest: Manifest, home: str) -> Manifest:
    """Write an object of a bundle as it has to be where the operator runs in the namespace `home`."""
    found: dict[str, Any] = _moved(manifest, home)
    field = "name" if found["kind"] == "Namespace" else "namespace"
    if found["metadata"].get(field) == names.OPERATOR_NAMESPACE:
        found["metadata"] = {**found["metadata"], field: home}
    if "subjects" in found:
        found["subjects"] = [
            {**each, "namespace": home} if each.get("namespace") == names.OPERATOR_NAMESPACE else each
            for each in found["subjects"]
        ]
    return found


def _moved(value: Any, home: str) -> Any:
    if isinstance(value, str):
        for words in HOME_WORDS:
            value = value.replace(words.format(names.OPERATOR_NAMESPACE), words.format(home))
    elif isinstance(value, Mapping):
        if value.get("key") == "kubernetes.io/metadata.name":
            values = [home if each == names.OPERATOR_NAMESPACE else each for each in value["values"]]
            return {**value, "values": values}
        return {key: _moved(item, home) for key, item in value.items()}
    elif isinstance(value, list):
        return [_moved(item, home) for item in value]
    return value


def _objects(where: Path, namespace: str = "") -> Iterator[tuple[Path, Manifest]]:
    about: dict[str, Any] = strictyaml.load((where / "kustomization.yaml").read_text(encoding="utf-8"))
    namespace = about.get("namespace", namespace)
    for each in about["resources"]:
        path = where / each
        if path.is_dir():
            yield from _objects(path, namespace)
            continue
        for found in strictyaml.documents(path.read_text(encoding="utf-8")):
            manifest = {**found, "metadata": {**found["metadata"]}}
            if namespace and found["kind"] not in _CLUSTER_SCOPED:
                manifest["metadata"]["namespace"] = namespace
            if namespace and "subjects" in found:
                manifest["subjects"] = [{**each, "namespace": namespace} for each in found["subjects"]]
            yield path, manifest
