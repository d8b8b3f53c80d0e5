"""RBAC rules, taken apart into single rights and put together again for people."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple


class Right(NamedTuple):
    """One verb on one resource; `namespace` is empty for a right in all of them, `name` for one on all objects."""

    namespace: str
    group: str
    resource: str
    name: str
    verb: str


def rights(rules: Iterable[Mapping[str, Any]], namespace: str = "") -> Iterator[Right]:
    """Take rules apart; a verb that no name can be asked for stays one on all objects."""
    for rule in rules:
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for name in rule.get("resourceNames") or [""]:
                    for verb in rule["verbs"]:
                        yield Right(namespace, group, resource, name, verb)


def review(right: Right, *, account: str, account_namespace: str) -> dict[str, Any]:
    """Write the question whether a ServiceAccount has a right."""
    resource, _, subresource = right.resource.partition("/")
    asked = {
        "namespace": right.namespace,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "name": right.name,
        "verb": right.verb,
    }
    groups = [f"system:serviceaccounts:{account_namespace}", "system:serviceaccounts", "system:authenticated"]
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": f"system:serviceaccount:{account_namespace}:{account}",
            "groups": groups,
            "resourceAttributes": {key: value for key, value in asked.items() if value},
        },
    }


def told(missing: Iterable[Right]) -> str:
    """Write rights as rules, one for each resource: `get, list pods; bind clusterroles/x (rbac…) in namespace y`."""
    together: dict[tuple[str, str, str, str], list[str]] = {}
    for right in missing:
        together.setdefault((right.namespace, right.group, right.resource, right.name), []).append(right.verb)
    return "; ".join(
        f"{','.join(verbs)} {resource}{f'.{group}' if group else ''}"
        f"{f' named {name}' if name else ''}{f' in namespace {namespace}' if namespace else ''}"
        for (namespace, group, resource, name), verbs in sorted(together.items())
    )
