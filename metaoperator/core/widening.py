"""What a change lets somebody do that could not be done before: two states of an object → sentences.

Only what is gained is told: rights, identities, a pod's hold on its node, a guard that falls away. An image that is
another one is none of it, though it may do whatever its pod may.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from metaoperator.core import paths, rules
from metaoperator.core.model import Manifest, Ref

_RBAC: Final = "rbac.authorization.k8s.io"
_CLOUD: Final = ("eks.amazonaws.com/role-arn", "iam.gke.io/gcp-service-account", "azure.workload.identity/client-id")
"""Annotations of a ServiceAccount that lend its pods an identity outside of the cluster."""
_HOST: Final = ("hostNetwork", "hostPID", "hostIPC")
_NOTHING: Final[Mapping[str, Any]] = {}


def widened(before: Manifest | None, after: Manifest | None) -> list[str]:
    """Say what is gained by an object's change; `None` for one that is not there."""
    some = after if after is not None else before
    if some is None:
        return []
    group, kind = some["apiVersion"].rpartition("/")[0], some["kind"]
    rule = _RULES.get((group, kind), _workload)
    if after is None:
        return [f"{_name(some)}: nothing restricts its pods' network any more"] if kind == "NetworkPolicy" else []
    return [f"{_name(some)}: {told}" for told in dict.fromkeys(rule(before or _NOTHING, after))]


def _name(manifest: Manifest) -> str:
    ref = Ref.of(manifest)
    return f"{ref.kind.kind}/{ref.name}"


# ---- rights


def _binding(before: Manifest, after: Manifest) -> Iterator[str]:
    role, had = _role(after), _role(before)
    subjects = _subjects(after)
    if not before or role != had:
        was = f" in place of {had}" if before else ""
        yield f"gives the rights of {role}{was} to {', '.join(subjects) or 'nobody'}"
        return
    if new := [each for each in subjects if each not in _subjects(before)]:
        yield f"gives the rights of {role} to {', '.join(new)} as well"


def _role(binding: Manifest) -> str:
    role = paths.mapping(binding, "roleRef")
    return f"{role.get('kind', '?')} {role.get('name', '?')}"


def _subjects(binding: Manifest) -> list[str]:
    found = []
    for each in binding.get("subjects") or ():
        place = f"{each['namespace']}/" if each.get("namespace") else ""
        found.append(f"{each.get('kind', '?')} {place}{each.get('name', '?')}")
    return sorted(found)


def _rules(before: Manifest, after: Manifest) -> Iterator[str]:
    had = set(rules.rights(before.get("rules") or ()))
    new = [right for right in rules.rights(after.get("rules") or ()) if not _covered(right, had)]
    if new:
        yield f"allows {rules.told(dict.fromkeys(new))}"
    urls = {url for rule in after.get("rules") or () for url in rule.get("nonResourceURLs") or ()}
    if further := sorted(
        urls - {url for rule in before.get("rules") or () for url in rule.get("nonResourceURLs") or ()}
    ):
        yield f"allows {', '.join(further)}"
    if after.get("aggregationRule") and after.get("aggregationRule") != before.get("aggregationRule"):
        yield "takes in the rules of other ClusterRoles"


def _covered(right: rules.Right, had: set[rules.Right]) -> bool:
    """Tell whether a right was there already, by itself or as part of a wider one."""
    return any(
        each.group in {right.group, "*"}
        and each.resource in {right.resource, "*"}
        and each.verb in {right.verb, "*"}
        and each.name in {right.name, ""}
        for each in had
    )


# ---- identities


def _account(before: Manifest, after: Manifest) -> Iterator[str]:
    if before and before.get("automountServiceAccountToken") is False is not after.get("automountServiceAccountToken"):
        yield "its token is mounted into pods that do not refuse it"
    had, has = paths.mapping(before, "metadata", "annotations"), paths.mapping(after, "metadata", "annotations")
    for key in _CLOUD:
        if has.get(key) and has.get(key) != had.get(key):
            yield f"acts outside of the cluster as {has[key]} ({key})"


# ---- pods


def _workload(before: Manifest, after: Manifest) -> Iterator[str]:
    has = _pod(after)
    if has:
        yield from _of_pod(_pod(before), has, new=not before)


def _pod(manifest: Manifest) -> Mapping[str, Any]:
    for way in (("spec", "template", "spec"), ("spec", "jobTemplate", "spec", "template", "spec")):
        if found := paths.mapping(manifest, *way):
            return found
    return paths.mapping(manifest, "spec") if manifest.get("kind") == "Pod" else {}


def _of_pod(had: Mapping[str, Any], has: Mapping[str, Any], *, new: bool) -> Iterator[str]:
    account, before = has.get("serviceAccountName") or "default", had.get("serviceAccountName") or "default"
    if account != before and not new:
        yield f"runs as ServiceAccount {account} in place of {before}"
    if not new and had.get("automountServiceAccountToken") is False is not has.get("automountServiceAccountToken"):
        yield "has its ServiceAccount's token mounted"
    for each in _HOST:
        if has.get(each) is True and had.get(each) is not True:
            yield f"uses its node's own ({each})"
    yield from _of_volumes(had, has, new=new)
    yield from _of_context(paths.mapping(had, "securityContext"), paths.mapping(has, "securityContext"), new=new)
    known = {name: each for _, name, each in _containers(had)}
    for kind, name, container in _containers(has):
        fresh = new or name not in known
        for told in _of_container(known.get(name, {}), container, new=fresh):
            yield f"{kind} {name} {told}"


def _containers(pod: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for field, kind in (("initContainers", "init container"), ("containers", "container")):
        for each in pod.get(field) or ():
            yield kind, str(each.get("name")), each


def _of_volumes(had: Mapping[str, Any], has: Mapping[str, Any], *, new: bool) -> Iterator[str]:
    hosts, secrets = _volumes(has)
    hosts_before, secrets_before = _volumes(had)
    for path in sorted(hosts - hosts_before):
        yield f"mounts {path} of its node (hostPath)"
    for name in sorted(secrets - secrets_before) if not new else ():
        yield f"mounts Secret {name}"


def _volumes(pod: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    hosts: set[str] = set()
    secrets: set[str] = set()
    for volume in pod.get("volumes") or ():
        if path := paths.mapping(volume, "hostPath").get("path"):
            hosts.add(str(path))
        sources = [paths.mapping(volume, "secret").get("secretName")]
        projected = paths.mapping(volume, "projected").get("sources") or ()
        sources += [paths.mapping(each, "secret").get("name") for each in projected]
        secrets |= {str(each) for each in sources if each}
    return hosts, secrets


def _of_container(had: Mapping[str, Any], has: Mapping[str, Any], *, new: bool) -> Iterator[str]:
    before, after = paths.mapping(had, "securityContext"), paths.mapping(has, "securityContext")
    if after.get("privileged") is True and before.get("privileged") is not True:
        yield "is privileged"
    capabilities, earlier = paths.mapping(after, "capabilities"), paths.mapping(before, "capabilities")
    if added := sorted(set(capabilities.get("add") or ()) - set(earlier.get("add") or ())):
        yield f"gains the capabilities {', '.join(added)}"
    if not new and (kept := sorted(set(earlier.get("drop") or ()) - set(capabilities.get("drop") or ()))):
        yield f"no longer drops the capabilities {', '.join(kept)}"
    if not new and before.get("allowPrivilegeEscalation") is False is not after.get("allowPrivilegeEscalation"):
        yield "may gain privileges (allowPrivilegeEscalation)"
    if not new and before.get("readOnlyRootFilesystem") is True is not after.get("readOnlyRootFilesystem"):
        yield "may write to its root file system"
    if after.get("procMount") == "Unmasked" != before.get("procMount"):
        yield "sees /proc unmasked"
    ports, known = ({each.get("hostPort") for each in one.get("ports") or ()} - {None, 0} for one in (has, had))
    if ports - known:
        yield f"listens on its node's ports {', '.join(map(str, sorted(ports - known)))}"
    yield from _of_context(before, after, new=new)


def _of_context(before: Mapping[str, Any], after: Mapping[str, Any], *, new: bool) -> Iterator[str]:
    """Compare what pods and containers have alike; for one that is new, what is not forbidden was never forbidden."""
    if after.get("runAsUser") == 0 and before.get("runAsUser") != 0:
        yield "runs as root (runAsUser: 0)"
    if new:
        return
    if before.get("runAsNonRoot") is True is not after.get("runAsNonRoot"):
        yield "may run as root (runAsNonRoot falls away)"
    had, has = (paths.mapping(each, "seccompProfile").get("type", "Unconfined") for each in (before, after))
    if has == "Unconfined" != had:
        yield f"may make any system call (seccompProfile {had} falls away)"


_RULES: Final[Mapping[tuple[str, str], Callable[[Manifest, Manifest], Iterator[str]]]] = {
    (_RBAC, "RoleBinding"): _binding,
    (_RBAC, "ClusterRoleBinding"): _binding,
    (_RBAC, "Role"): _rules,
    (_RBAC, "ClusterRole"): _rules,
    ("", "ServiceAccount"): _account,
}
