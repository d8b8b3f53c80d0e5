"""What Kubernetes takes as names, labels, annotations and other metadata, and what templates leave to the server."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from metaoperator.core.kubernetes import Fault, Path
from metaoperator.core.model import Kind, Manifest

MAX_ANNOTATIONS: Final = 256 * 1024
MAX_CONFIG_MAP: Final = 1024 * 1024

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_QUALIFIED: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_RBAC: Final = "rbac.authorization.k8s.io"
_LONGEST: Final = {"Service": 63, "Namespace": 63, "CronJob": 52, "Job": 63}
_SHORT_NAMES: Final = frozenset({"Service"})

_SERVERS: Final = {
    "creationTimestamp": "the API server sets it",
    "deletionGracePeriodSeconds": "the API server sets it",
    "deletionTimestamp": "the API server sets it",
    "finalizers": "a finalizer holds the object until somebody takes it off, and nobody here would: an opt-out hung",
    "generateName": "each apply would make one object more: give it a name",
    "generation": "the API server sets it",
    "managedFields": "the API server keeps it; server-side apply refuses it",
    "ownerReferences": "Kubernetes would collect the object with its owner, Workflows running or not",
    "resourceVersion": "the API server sets it; an apply that carries one fails with a conflict on the next change",
    "selfLink": "it is gone from Kubernetes",
    "uid": "the API server sets it; an apply that carries one touches nothing else",
}


def faults(manifest: Manifest, namespace: str) -> Iterator[Fault]:
    """Name what is wrong with an object's metadata and with the names that it gives to others."""
    meta = manifest["metadata"]
    for key, why in _SERVERS.items():
        if key in meta:
            yield Fault(path=("metadata", key), what="does not belong into a template", cure=f"leave it out: {why}")
    target = meta.get("namespace", namespace)
    if target != namespace:
        yield Fault(
            path=("metadata", "namespace"),
            what=f"the object is for namespace {target!r}, not for {namespace!r}",
            cure="leave metadata.namespace out: it is filled in",
        )
    if (wrong := misnamed(Kind(manifest["apiVersion"], manifest["kind"]), meta["name"])) is not None:
        what = f"{_brief(meta['name'])} is no name: {wrong}"
        yield Fault(path=("metadata", "name"), what=what, cure="shorten or mend it")
    yield from _texts(meta, ("metadata",))
    template = _pod_template(manifest)
    if isinstance(template, Mapping) and isinstance(template.get("metadata"), Mapping):
        yield from _texts(template["metadata"], ("spec", "template", "metadata"))
    yield from _references(manifest)
    if "status" in manifest:
        yield Fault(path=("status",), what="renders a status", cure="leave it out: status belongs to the API server")
    if manifest["kind"] == "ConfigMap":
        yield from _size(manifest)


def misnamed(kind: Kind, name: str) -> str | None:
    """Say why the API server takes no object of the kind by that name, or `None` where it does."""
    group = kind.api_version.rpartition("/")[0]
    if group == _RBAC:  # roles may be called system:this
        return "it is . or .., or holds / or %" if name in {".", ".."} or re.search("[/%]", name) else None
    longest = _LONGEST.get(kind.kind, 253)
    if len(name) > longest:
        return f"it has {len(name)} characters, {longest} are allowed"
    if kind.kind in _SHORT_NAMES:
        return None if _LABEL.fullmatch(name) else "only a-z, 0-9 and - are allowed, and - neither first nor last"
    if _SUBDOMAIN.fullmatch(name):
        return None
    return "only a-z, 0-9, - and . are allowed, and each part between dots begins and ends with a letter or digit"


def _pod_template(manifest: Manifest) -> Any:
    spec = manifest.get("spec")
    return spec.get("template") if isinstance(spec, Mapping) else None


def _texts(meta: Mapping[str, Any], path: Path) -> Iterator[Fault]:
    for field in ("labels", "annotations"):
        texts = meta.get(field)
        if texts is None:
            continue
        here = (*path, field)
        if not isinstance(texts, Mapping):
            yield Fault(path=here, what="is not a mapping", cure="write key: value, with the value in quotes")
            continue
        for key, value in texts.items():
            # Kubernetes takes an annotation's key in any case, a label's as it is.
            if (wrong := _misqualified(key.lower() if field == "annotations" else key)) is not None:
                yield Fault(path=(*here, key), what=f"is no key: {wrong}", cure="mend the key")
            if value is None:
                continue
            if not isinstance(value, str):
                what = f"is not text but {_brief(value)}"
                yield Fault(path=(*here, key), what=what, cure="write the value with the filter q, or in quotes")
            elif field == "labels" and (len(value) > 63 or (value and not _QUALIFIED.fullmatch(value))):
                yield Fault(
                    path=(*here, key),
                    what=f"{_brief(value)} is no label's value",
                    cure="at most 63 letters, digits, -, _ and ., first and last a letter or digit; "
                    "longer texts are annotations",
                )
        size = sum(
            len(part.encode(errors="replace")) for pair in texts.items() for part in pair if isinstance(part, str)
        )
        if field == "annotations" and size > MAX_ANNOTATIONS:
            yield Fault(
                path=here,
                what=f"holds {size} bytes, over Kubernetes' limit of {MAX_ANNOTATIONS}",
                cure="put long texts into a ConfigMap",
            )


def _misqualified(key: str) -> str | None:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        return "what stands before / must be a DNS name"
    if len(name) > 63 or not _QUALIFIED.fullmatch(name):
        return "at most 63 letters, digits, -, _ and ., first and last a letter or digit"
    return None


def _references(manifest: Manifest) -> Iterator[Fault]:
    """Refuse names that came out empty: what they stand for would be somebody else's, or everybody's."""
    if manifest["apiVersion"].rpartition("/")[0] != _RBAC or manifest["kind"] != "RoleBinding":
        return
    role = manifest.get("roleRef")
    if isinstance(role, Mapping):
        yield from _named(role, ("roleRef",), "kind", "name")
        if role.get("apiGroup", _RBAC) != _RBAC:
            yield Fault(path=("roleRef", "apiGroup"), what=f"must be {_RBAC}")
    subjects = manifest.get("subjects")
    for at, subject in enumerate(subjects if isinstance(subjects, list) else ()):
        if isinstance(subject, Mapping):
            account = subject.get("kind") == "ServiceAccount"
            yield from _named(subject, ("subjects", at), "kind", "name", *(("namespace",) if account else ()))


def _named(holder: Mapping[str, Any], path: Path, *fields: str) -> Iterator[Fault]:
    for field in fields:
        if not holder.get(field):
            cure = "a name that comes out empty binds rights to nobody, or to somebody else"
            yield Fault(path=(*path, field), what="is empty", cure=cure)


def _size(manifest: Manifest) -> Iterator[Fault]:
    size = sum(
        len(text.encode(errors="replace"))
        for field in ("data", "binaryData")
        if isinstance(manifest.get(field), Mapping)
        for pair in manifest[field].items()
        for text in pair
        if isinstance(text, str)
    )
    if size > MAX_CONFIG_MAP:
        what = f"the ConfigMap holds {size} bytes, over Kubernetes' limit of {MAX_CONFIG_MAP}"
        yield Fault(path=("data",), what=what, cure="split it, or mount a volume")


def _brief(value: Any) -> str:
    from metaoperator.core.writing import q  # noqa: PLC0415 - only where something is wrong

    text = q(value)
    return text if len(text) <= 60 else text[:57] + "…"
