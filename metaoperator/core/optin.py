"""Is this namespace served, refused, leaving, or none of our business? One pure look at label and name."""

import re
from dataclasses import dataclass

from metaoperator.core import names
from metaoperator.core.model import Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The label asks for the ControllerTemplate `template`."""

    template: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The label is set where it must not be; `message` says why and what to do."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OptedOut:
    """No label, or `disabled`: whatever of ours is here drains and leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """No such namespace, or one that is Terminating: its contents go with it, and nothing is written."""


Stage = Served | Refused | OptedOut | Absent


def stage(namespace: Namespace | None, *, own_namespace: str, denied: frozenset[str]) -> Stage:
    """Judge a namespace as the API server last showed it; `None` means that it is not there."""
    if namespace is None or namespace.terminating:
        return Absent()
    value = namespace.labels.get(names.OPT_IN_LABEL, "")
    if value in {"", names.OPTED_OUT}:
        return OptedOut()
    if (why := refusal(namespace.name, own_namespace=own_namespace, denied=denied)) is not None:
        return Refused(message=f"namespace {namespace.name} {why}: remove the label {names.OPT_IN_LABEL}")
    return Served(template=names.DEFAULT_TEMPLATE if value == names.DEFAULT_TEMPLATE_WORD else value)


def misnamed(name: str) -> str | None:
    """Say why the API server would take no namespace of this name (DNS-1123 label), or `None` where it would."""
    if not 0 < len(name) <= 63:
        return f"it has {len(name)} characters, 1 to 63 are allowed"
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name):
        return "only a-z, 0-9 and - are allowed, and - neither first nor last"
    return None


def refusal(name: str, *, own_namespace: str, denied: frozenset[str]) -> str | None:
    """Say why a namespace of this name is never served, or `None` where it may be."""
    if name == own_namespace:
        return "is the operator's own"
    if name.startswith(names.REFUSED_PREFIXES):
        return "belongs to the system"
    if name in denied:
        return "is on the operator's deny-list"
    return None
