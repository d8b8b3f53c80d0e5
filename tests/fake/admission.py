"""What a real API server refuses although the object is well-formed: quotas, ranges, Pod Security, what is not there.

Quotas and ranges are those in the store; their use is counted when it is asked for, where the real server keeps book.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from . import defaults, problems
from .kinds import Kind, Manifest
from .store import Store


class Admission:
    """The plugins that look at more than the object itself, in the real server's order."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, kind: Kind, new: Manifest) -> None:
        """Fill in what a LimitRange says and refuse what may not come into being."""
        if not kind.namespaced:
            return
        if kind.kind == "Pod":
            self._range_defaults(new)
            self._service_account(kind, new)
            self._priority(kind, new)
            self._ranges(kind, new)
            self._pod_security(kind, new)
        self._quotas(kind, new)

    def _in(self, new: Manifest, kind: str) -> list[Manifest]:
        return self._store.select(self._store.registry.named(kind), new["metadata"]["namespace"])

    # Pods

    def _limits(self, new: Manifest) -> Iterator[Manifest]:
        for each in self._in(new, "LimitRange"):
            yield from (limit for limit in each["spec"]["limits"] if limit["type"] == "Container")

    def _range_defaults(self, new: Manifest) -> None:
        for limit in self._limits(new):
            upper = {**limit.get("max", {}), **limit.get("default", {})}
            lower = {**limit.get("min", {}), **upper, **limit.get("defaultRequest", {})}
            for container in new["spec"]["containers"]:
                resources = container.setdefault("resources", {})
                for part, filling in (("limits", upper), ("requests", lower)):
                    have = resources.get(part) or {}
                    # A request that is not there follows the limit that is.
                    own = (resources.get("limits") or {}) if part == "requests" else {}
                    if filled := {**filling, **{k: v for k, v in own.items() if k in filling}, **have}:
                        resources[part] = filled

    def _service_account(self, kind: Kind, new: Manifest) -> None:
        space, account = new["metadata"]["namespace"], new["spec"].get("serviceAccountName") or "default"
        # The controller that makes `default` is not played, so that one is always there.
        if account != "default" and not self._store.find(self._store.registry.named("ServiceAccount"), space, account):
            why = f'error looking up service account {space}/{account}: serviceaccount "{account}" not found'
            raise problems.forbidden(kind, _name(new), why)

    def _priority(self, kind: Kind, new: Manifest) -> None:
        name = new["spec"].get("priorityClassName")
        system = name in ("system-cluster-critical", "system-node-critical")
        if name and not system and not self._store.find(self._store.registry.named("PriorityClass"), None, name):
            raise problems.forbidden(kind, _name(new), f"no PriorityClass with name {name} was found")

    def _ranges(self, kind: Kind, new: Manifest) -> None:
        faults = []
        for limit in self._limits(new):
            for container in new["spec"]["containers"]:
                have = container.get("resources") or {}
                for resource, least in limit.get("min", {}).items():
                    request = (have.get("requests") or {}).get(resource)
                    if request is not None and _amount(request) < _amount(least):
                        faults.append(f"minimum {resource} usage per Container is {least}, but request is {request}")
                for resource, most in limit.get("max", {}).items():
                    used = (have.get("limits") or {}).get(resource)
                    if used is not None and _amount(used) > _amount(most):
                        faults.append(f"maximum {resource} usage per Container is {most}, but limit is {used}")
        if faults:
            told = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
            raise problems.forbidden(kind, _name(new), told)

    def _pod_security(self, kind: Kind, new: Manifest) -> None:
        home = self._store.get(self._store.registry.named("Namespace"), None, new["metadata"]["namespace"])
        level = (home["metadata"].get("labels") or {}).get("pod-security.kubernetes.io/enforce")
        faults = list(_unrestricted(new["spec"])) if level == "restricted" else []
        if faults:
            raise problems.forbidden(kind, _name(new), f'violates PodSecurity "{level}:latest": {", ".join(faults)}')

    # Quotas

    def _quotas(self, kind: Kind, new: Manifest) -> None:
        wanted = {f"count/{kind.resource}": Decimal(1)}
        if not kind.group:
            wanted[kind.plural] = Decimal(1)
        if kind.kind == "Pod":
            wanted |= _usage(new)
        for quota in self._in(new, "ResourceQuota"):
            hard = quota["spec"]["hard"]
            if kind.kind == "Pod" and (lacking := _unsaid(new, hard)):
                raise problems.forbidden(
                    kind, _name(new), f"failed quota: {quota['metadata']['name']}: must specify {lacking}"
                )
            over = {
                key: (wanted[key], self._used(kind, new, key))
                for key in sorted(set(hard) & set(wanted))
                if self._used(kind, new, key) + wanted[key] > _amount(hard[key])
            }
            if over:
                asked = ",".join(f"{key}={_say(key, want)}" for key, (want, _) in over.items())
                used = ",".join(f"{key}={_say(key, have)}" for key, (_, have) in over.items())
                limited = ",".join(f"{key}={defaults.quantity(hard[key])}" for key in over)
                why = (
                    f"exceeded quota: {quota['metadata']['name']}, requested: {asked}, used: {used}, limited: {limited}"
                )
                raise problems.forbidden(kind, _name(new), why)

    def _used(self, kind: Kind, new: Manifest, key: str) -> Decimal:
        there = self._store.select(kind, new["metadata"]["namespace"])
        if key.startswith("count/") or key == kind.plural:
            return Decimal(len(there))
        return sum((_usage(pod).get(key, Decimal(0)) for pod in there), Decimal(0))


def _name(new: Manifest) -> str:
    return str(new["metadata"].get("name") or new["metadata"].get("generateName", ""))


def _usage(pod: Manifest) -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    for container in pod["spec"]["containers"]:
        for part, amounts in (container.get("resources") or {}).items():
            for resource, amount in (amounts or {}).items():
                for key in [f"{part}.{resource}", *([resource] if part == "requests" else [])]:
                    found[key] = found.get(key, Decimal(0)) + _amount(amount)
    return found


def _unsaid(pod: Manifest, hard: dict[str, Any]) -> str:
    lacking: dict[str, list[str]] = {}
    for key in sorted(hard):
        part, _, resource = key.partition(".") if "." in key else ("requests", "", key)
        if part not in ("requests", "limits") or resource not in ("cpu", "memory"):
            continue
        for container in pod["spec"]["containers"]:
            if resource not in ((container.get("resources") or {}).get(part) or {}):
                lacking.setdefault(key, []).append(container["name"])
    return "; ".join(f"{key} for: {','.join(names)}" for key, names in lacking.items())


def _amount(value: Any) -> Decimal:
    return defaults.amount(value)


def _say(key: str, amount: Decimal) -> str:
    if "memory" in key:
        return defaults.quantity(f"{int(amount / 1024)}Ki") if amount % 1024 == 0 else str(amount)
    return defaults.quantity(amount)


def _unrestricted(spec: Manifest) -> Iterator[str]:
    """Name what the level `restricted` misses, as far as it is played."""
    pod = spec.get("securityContext") or {}
    contexts = {each["name"]: each.get("securityContext") or {} for each in spec["containers"]}
    profiles = ("RuntimeDefault", "Localhost")

    def lacking(bad: Any) -> tuple[str, str]:
        names = [name for name, context in contexts.items() if bad(context)]
        word = "container" if len(names) == 1 else "containers"
        return ", ".join(f'"{name}"' for name in names), word

    names, word = lacking(lambda context: context.get("allowPrivilegeEscalation") is not False)
    if names:
        yield (
            f"allowPrivilegeEscalation != false ({word} {names} must set "
            "securityContext.allowPrivilegeEscalation=false)"
        )
    names, word = lacking(lambda context: "ALL" not in (context.get("capabilities") or {}).get("drop", ()))
    if names:
        yield f'unrestricted capabilities ({word} {names} must set securityContext.capabilities.drop=["ALL"])'
    names, word = lacking(lambda context: context.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True)
    if names:
        yield f"runAsNonRoot != true (pod or {word} {names} must set securityContext.runAsNonRoot=true)"
    names, word = lacking(
        lambda context: (context.get("seccompProfile") or pod.get("seccompProfile") or {}).get("type") not in profiles
    )
    if names:
        yield (
            f"seccompProfile (pod or {word} {names} must set securityContext.seccompProfile.type "
            'to "RuntimeDefault" or "Localhost")'
        )
