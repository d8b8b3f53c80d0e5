"""Who may do what: the roles and bindings in the store, asked as the real authorizer asks them.

Nobody is held to them unless `FakeApiServer.users` says who a bearer token is, or a request impersonates somebody.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from . import problems
from .kinds import RBAC, Kind, Manifest
from .store import Store

_VERBS = {"apply": "patch"}
_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that somebody wants to do."""

    verb: str
    group: str
    resource: str
    namespace: str | None = None
    name: str | None = None


class Authorizer:
    """Answers from what the store holds at the moment."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check(self, user: str, kind: Kind, verb: str, namespace: str | None, name: str | None, sub: str = "") -> None:
        """Refuse what no rule allows, in the real server's words."""
        verb = _VERBS.get(verb, verb)
        resource = f"{kind.plural}/{sub}" if sub else kind.plural
        asked = Question(verb, kind.group, resource, namespace, name)
        if not self._allowed(user, asked):
            raise problems.forbidden(kind, name, f'User "{user}" cannot {verb} resource "{resource}" {_where(asked)}')

    def review(self, spec: Manifest) -> bool:
        """Answer a SubjectAccessReview about a resource."""
        asked = spec["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        where, name = asked.get("namespace"), asked.get("name")
        return self._allowed(spec["user"], Question(asked["verb"], asked.get("group", ""), resource, where, name))

    def check_creation(self, user: str, kind: Kind, namespace: str | None, name: str, live: Manifest | None) -> None:
        """An apply to what is not there is a create as well."""
        if live is None:
            self.check(user, kind, "create", namespace, name)

    def check_grant(self, user: str, kind: Kind, namespace: str | None, body: Manifest) -> None:
        """Refuse a binding that hands out what its writer neither holds nor may bind."""
        role, name = body.get("roleRef") or {}, body["metadata"].get("name")
        asked = Question("bind", RBAC, f"{role.get('kind', '').lower()}s", None, role.get("name"))
        if kind.kind != "RoleBinding" or self._allowed(user, asked):
            return
        held = self._store.registry.named(role["kind"], f"{RBAC}/v1")
        rules = self._store.get(held, namespace if held.namespaced else None, role["name"]).get("rules") or []
        missing = [each for each in _single(rules) if not self._allowed(user, each, namespace)]
        if missing:
            groups = ["system:authenticated"]
            if user.startswith(_ACCOUNT):
                groups = ["system:serviceaccounts", f"{_ACCOUNT[:-1]}s:{user.split(':')[2]}", *groups]
            why = (
                f'user "{user}" (groups={_quoted(groups, ",")}) is attempting to grant RBAC permissions not currently '
                f"held:\n{_compact(missing)}"
            )
            raise problems.forbidden(kind, name, why)

    def _allowed(self, user: str, asked: Question, namespace: str | None = None) -> bool:
        return any(_covers(rule, asked) for rule in self._rules(user, asked.namespace or namespace))

    def _rules(self, user: str, namespace: str | None) -> Iterator[Manifest]:
        named = self._store.registry.named
        cluster_roles = named("ClusterRole")
        bindings: list[tuple[str | None, Manifest]] = [
            (None, each) for each in self._store.select(named("ClusterRoleBinding"))
        ]
        if namespace:
            bindings += [(namespace, each) for each in self._store.select(named("RoleBinding"), namespace)]
        for home, binding in bindings:
            if not any(_is(user, subject, home) for subject in binding.get("subjects") or ()):
                continue
            ref = binding["roleRef"]
            kind = named("Role") if ref["kind"] == "Role" else cluster_roles
            role = self._store.find(kind, home if kind.namespaced else None, ref["name"])
            yield from (role or {}).get("rules") or ()


def _is(user: str, subject: Manifest, home: str | None) -> bool:
    if subject["kind"] == "ServiceAccount":
        return user == f"{_ACCOUNT}{subject.get('namespace') or home}:{subject['name']}"
    if subject["kind"] == "Group":
        return user.startswith(_ACCOUNT) and subject["name"] in (
            "system:authenticated",
            "system:serviceaccounts",
            f"system:serviceaccounts:{user.split(':')[2]}",
        )
    return bool(user == subject["name"])


def _covers(rule: Manifest, asked: Question) -> bool:
    names = rule.get("resourceNames") or ()
    return (
        bool({"*", asked.verb} & set(rule.get("verbs", ())))
        and bool({"*", asked.group} & set(rule.get("apiGroups", ())))
        and bool({"*", asked.resource} & set(rule.get("resources", ())))
        and (not names or asked.name in names)
    )


def _single(rules: list[Manifest]) -> Iterator[Question]:
    for rule in rules:
        for group in rule.get("apiGroups", ()):
            for resource in rule.get("resources", ()):
                for verb in rule.get("verbs", ()):
                    for name in rule.get("resourceNames") or (None,):
                        yield Question(verb, group, resource, None, name)


def _compact(missing: list[Question]) -> str:
    verbs: dict[tuple[str, str, str | None], list[str]] = {}
    for each in missing:
        verbs.setdefault((each.group, each.resource, each.name), []).append(each.verb)
    lines = []
    for (group, resource, name), found in verbs.items():
        parts = [f"APIGroups:{_quoted([group])}", f"Resources:{_quoted([resource])}"]
        parts += [f"ResourceNames:{_quoted([name])}"] if name else []
        lines.append("{" + ", ".join([*parts, f"Verbs:{_quoted(found)}"]) + "}")
    return "\n".join(sorted(lines))


def _quoted(texts: list[str], between: str = " ") -> str:
    return "[" + between.join(f'"{text}"' for text in texts) + "]"


def _where(asked: Question) -> str:
    scope = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    return f'in API group "{asked.group}" {scope}'
