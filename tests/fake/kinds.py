"""The kinds that a server serves, and what is special about each. Tables only, no behaviour."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """One kind at one version, as discovery describes it and as its registry strategy treats it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    status: bool = False  # the status subresource
    generation: bool = False  # custom resources always count generations, built-in kinds only some
    custom: bool = False
    create_on_put: bool = False  # AllowCreateOnUpdate
    blind_put: bool = True  # AllowUnconditionalUpdate: a PUT without resourceVersion is taken
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    schema: Manifest = field(default_factory=dict)  # of a CustomResourceDefinition

    @property
    def api_version(self) -> str:
        """The value of `apiVersion` in a manifest."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The name that error messages use, such as `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def base(self) -> str:
        """The URL path under which the kind is served."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


RBAC = "rbac.authorization.k8s.io"

ADMISSION = "admissionregistration.k8s.io"

BUILT_IN = (
    Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False, status=True),
    # Pods count generations since 1.35.
    Kind(group="", version="v1", kind="Pod", plural="pods", status=True, generation=True),
    Kind(group="", version="v1", kind="ConfigMap", plural="configmaps"),
    Kind(group="", version="v1", kind="Service", plural="services", status=True),
    Kind(group="", version="v1", kind="ServiceAccount", plural="serviceaccounts"),
    Kind(group="", version="v1", kind="ResourceQuota", plural="resourcequotas", status=True),
    Kind(group="", version="v1", kind="LimitRange", plural="limitranges"),
    Kind(group="", version="v1", kind="Secret", plural="secrets"),
    Kind(group="", version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims", status=True),
    Kind(group="", version="v1", kind="Node", plural="nodes", namespaced=False, status=True),
    Kind(group="", version="v1", kind="Event", plural="events", create_on_put=True),
    Kind(group="events.k8s.io", version="v1", kind="Event", plural="events", create_on_put=True),
    Kind(group="apps", version="v1", kind="Deployment", plural="deployments", status=True, generation=True),
    Kind(group="apps", version="v1", kind="ReplicaSet", plural="replicasets", status=True, generation=True),
    Kind(group="apps", version="v1", kind="ControllerRevision", plural="controllerrevisions"),
    Kind(group=RBAC, version="v1", kind="Role", plural="roles", create_on_put=True),
    Kind(group=RBAC, version="v1", kind="RoleBinding", plural="rolebindings", create_on_put=True),
    Kind(group=RBAC, version="v1", kind="ClusterRole", plural="clusterroles", namespaced=False, create_on_put=True),
    Kind(
        group="policy",
        version="v1",
        kind="PodDisruptionBudget",
        plural="poddisruptionbudgets",
        status=True,
        generation=True,
        blind_put=False,
    ),
    Kind(group="networking.k8s.io", version="v1", kind="NetworkPolicy", plural="networkpolicies", generation=True),
    Kind(
        group=RBAC,
        version="v1",
        kind="ClusterRoleBinding",
        plural="clusterrolebindings",
        namespaced=False,
        create_on_put=True,
    ),
    Kind(group="scheduling.k8s.io", version="v1", kind="PriorityClass", plural="priorityclasses", namespaced=False),
    *(
        Kind(group=ADMISSION, version="v1", kind=kind, plural=plural, namespaced=False, generation=True)
        for kind, plural in (
            ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
            ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
            ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
            ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
        )
    ),
    # Answered, never stored.
    Kind(
        group="authorization.k8s.io",
        version="v1",
        kind="SubjectAccessReview",
        plural="subjectaccessreviews",
        namespaced=False,
    ),
    Kind(group="coordination.k8s.io", version="v1", kind="Lease", plural="leases", create_on_put=True, blind_put=False),
    Kind(
        group="apiextensions.k8s.io",
        version="v1",
        kind="CustomResourceDefinition",
        plural="customresourcedefinitions",
        namespaced=False,
        status=True,
        generation=True,
        blind_put=False,
    ),
)


class Registry:
    """The kinds that are served right now: adding and removing one is what a CustomResourceDefinition does."""

    def __init__(self, kinds: Iterable[Kind] = BUILT_IN) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        for kind in kinds:
            self.add(kind)

    def __iter__(self) -> Iterator[Kind]:
        return iter(sorted(self._kinds.values(), key=lambda kind: (kind.group, kind.version, kind.plural)))

    def add(self, kind: Kind) -> Kind:
        """Serve the kind, in place of an earlier one with the same path."""
        self._kinds[kind.group, kind.version, kind.plural] = kind
        return kind

    def remove(self, kind: Kind) -> None:
        """Stop serving the kind: its paths answer 404."""
        self._kinds.pop((kind.group, kind.version, kind.plural), None)

    def at(self, group: str, version: str, plural: str) -> Kind | None:
        """Find the kind behind a URL path."""
        return self._kinds.get((group, version, plural))

    def named(self, name: str, api_version: str | None = None) -> Kind:
        """Find a kind by `Deployment` or `deployments`; the first group wins unless the version says more."""
        for kind in self:
            if name in (kind.kind, kind.plural, kind.resource) and api_version in (None, kind.api_version):
                return kind
        raise LookupError(f"the fake does not serve {name} in {api_version or 'any version'}")


VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def resource_list(kinds: Iterable[Kind], api_version: str) -> Manifest:
    """Describe the resources of one group and version, as discovery does."""
    resources: list[Manifest] = []
    for kind in kinds:
        entry = {
            "name": kind.plural,
            "singularName": kind.kind.lower(),
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": VERBS,
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        resources.append(entry)
        if kind.status:
            resources.append({**entry, "name": f"{kind.plural}/status", "verbs": ["get", "patch", "update"]})
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}


def group_list(kinds: Iterable[Kind]) -> Manifest:
    """Describe the groups, as `/apis` does."""
    versions: dict[str, set[str]] = {}
    for kind in kinds:
        if kind.group:
            versions.setdefault(kind.group, set()).add(kind.version)
    groups = []
    for group in sorted(versions):
        served = [{"groupVersion": f"{group}/{version}", "version": version} for version in sorted(versions[group])]
        groups.append({"name": group, "versions": served, "preferredVersion": served[0]})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
