"""Which rights the operator needs for what a set renders, beside those that it is installed with."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from metaoperator.core import rules
from metaoperator.core.model import ROLE_BINDING, Kind, Manifest, Ref
from metaoperator.core.rules import Right

_RBAC: Final = "rbac.authorization.k8s.io"
_ROLE: Final = Kind(ROLE_BINDING.api_version, "Role")
_VERBS: Final = ("get", "list", "watch", "create", "patch", "delete")


def lacking(kinds: Iterable[Kind], documents: Iterable[Manifest], granted: Collection[Right]) -> list[Right]:
    """List the rights that nobody granted yet: to keep the kinds, to bind the roles, to hand out what Roles allow."""
    needed = [*_of_kinds(kinds), *(right for document in documents for right in _of_document(document))]
    return [right for right in dict.fromkeys(needed) if not _covered(right, granted)]


def _of_kinds(kinds: Iterable[Kind]) -> Iterator[Right]:
    for kind in sorted(kinds):
        for verb in _VERBS:
            yield Right("", kind.api_version.rpartition("/")[0], plural(kind.kind), "", verb)


def _of_document(document: Manifest) -> Iterator[Right]:
    """RBAC lets nobody hand out more than they hold, unless they may bind that very role."""
    kind = Ref.of(document).kind
    role: Mapping[str, Any] = document["roleRef"] if kind == ROLE_BINDING else {}
    if role.get("kind") == "ClusterRole":
        yield Right("", _RBAC, "clusterroles", str(role.get("name")), "bind")
    if kind == _ROLE:
        yield from rules.rights(document.get("rules") or ())


def _covered(right: Right, granted: Collection[Right]) -> bool:
    return right in granted or right._replace(name="") in granted


def plural(kind: str) -> str:
    """Name the resource of a kind as the API server names its own; only it knows for sure."""
    low = kind.lower()
    if low.endswith("y") and low[-2:-1] not in "aeiou":
        return f"{low[:-1]}ies"
    return f"{low}es" if low.endswith(("s", "x", "ch", "sh")) else f"{low}s"


def as_rules(missing: Iterable[Right]) -> str:
    """Write rights as the rules of a ClusterRole, in JSON, which is YAML too."""
    together: dict[tuple[str, str, str], list[str]] = {}
    for right in missing:
        together.setdefault((right.group, right.resource, right.name), []).append(right.verb)
    return json.dumps(
        [
            {
                "apiGroups": [group],
                "resources": [resource],
                **({"resourceNames": [name]} if name else {}),
                "verbs": verbs,
            }
            for (group, resource, name), verbs in sorted(together.items())
        ]
    )
