"""What a real API server refuses in an object by itself: names, labels and sizes."""

import json
import re
from typing import Any

from . import problems
from .kinds import Kind, Manifest

MAX_ANNOTATIONS = 262_144
MAX_CONFIG_MAP = 1_048_576
MAX_STORED = 1_572_864  # etcd's --max-request-bytes
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_WHAT_A_SUBDOMAIN_IS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_WHAT_A_LABEL_IS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    r"'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def validate(kind: Kind, new: Manifest) -> None:
    """Hold names, labels and sizes to what every kind has in common."""
    meta, name = new["metadata"], new["metadata"]["name"]
    if kind.group != "rbac.authorization.k8s.io":  # whose names are only path segments
        if len(name) > 253:
            raise problems.invalid(kind, name, "metadata.name", _wrong(name, "must be no more than 253 characters"))
        if not _SUBDOMAIN.fullmatch(name):
            raise problems.invalid(kind, name, "metadata.name", _wrong(name, _WHAT_A_SUBDOMAIN_IS))
    _labels(kind, name, "metadata.labels", meta.get("labels") or {})
    _annotations(kind, name, "metadata.annotations", meta.get("annotations") or {})
    if kind.kind in ("Deployment", "ReplicaSet"):
        template = (new["spec"].get("template") or {}).get("metadata") or {}
        _labels(kind, name, "spec.template.labels", template.get("labels") or {})
        _annotations(kind, name, "spec.template.annotations", template.get("annotations") or {})
    if kind.kind == "ConfigMap":
        size = sum(len(value.encode()) for part in ("data", "binaryData") for value in (new.get(part) or {}).values())
        if size > MAX_CONFIG_MAP:
            raise problems.invalid(kind, name, "[]", f"Too long: may not be more than {MAX_CONFIG_MAP} bytes")


def store_limit(new: Manifest) -> None:
    """Refuse what etcd would: the whole object, managedFields included, as it would be written."""
    if len(json.dumps(new, separators=(",", ":"), ensure_ascii=False).encode()) > MAX_STORED:
        raise problems.ApiError(500, "", "etcdserver: request is too large")


def _labels(kind: Kind, name: str, field: str, labels: dict[str, Any]) -> None:
    for value in labels.values():
        if len(value) > 63:
            raise problems.invalid(kind, name, field, _wrong(value, "must be no more than 63 bytes"))
        if not _LABEL_VALUE.fullmatch(value):
            raise problems.invalid(kind, name, field, _wrong(value, _WHAT_A_LABEL_IS))


def _annotations(kind: Kind, name: str, field: str, annotations: dict[str, Any]) -> None:
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MAX_ANNOTATIONS:
        raise problems.invalid(kind, name, field, f"Too long: may not be more than {MAX_ANNOTATIONS} bytes")


def _wrong(value: str, why: str) -> str:
    return f'Invalid value: "{value}": {why}'
