"""The nouns, frozen. Bodies of Kubernetes objects stay plain mappings (`Manifest`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from metaoperator.core import names

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """A kind with its group and version, as written in a manifest."""

    api_version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """Where one object lives; `namespace` is empty for cluster-scoped kinds."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(filter(None, (self.kind.kind, self.namespace, self.name)))

    @classmethod
    def of(cls, manifest: Manifest) -> "Ref":
        """Read the reference out of a manifest that has kind and name."""
        meta = manifest["metadata"]
        return cls(Kind(manifest["apiVersion"], manifest["kind"]), meta.get("namespace", ""), meta["name"])


NAMESPACE = Kind("v1", "Namespace")
POD = Kind("v1", "Pod")
CONFIG_MAP = Kind("v1", "ConfigMap")
SECRET = Kind("v1", "Secret")
SERVICE = Kind("v1", "Service")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount")
DEPLOYMENT = Kind("apps/v1", "Deployment")
ROLE_BINDING = Kind("rbac.authorization.k8s.io/v1", "RoleBinding")
DISRUPTION_BUDGET = Kind("policy/v1", "PodDisruptionBudget")
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy")
VOLUME_CLAIM = Kind("v1", "PersistentVolumeClaim")
POD_MONITOR = Kind("monitoring.coreos.com/v1", "PodMonitor")
LEASE = Kind("coordination.k8s.io/v1", "Lease")
EVENT = Kind("events.k8s.io/v1", "Event")
CONTROLLER_REVISION = Kind("apps/v1", "ControllerRevision")
CRD = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
WORKFLOW = Kind(names.ARGO_API_VERSION, "Workflow")
CRON_WORKFLOW = Kind(names.ARGO_API_VERSION, "CronWorkflow")
WORKFLOW_TASK_SET = Kind(names.ARGO_API_VERSION, "WorkflowTaskSet")
WORKFLOW_TEMPLATE = Kind(names.ARGO_API_VERSION, "WorkflowTemplate")
CLUSTER_WORKFLOW_TEMPLATE = Kind(names.ARGO_API_VERSION, "ClusterWorkflowTemplate")
WORKFLOW_CONTROLLER = Kind(names.API_VERSION, "WorkflowController")
CONTROLLER_TEMPLATE = Kind(names.API_VERSION, "ControllerTemplate")

CHILD_KINDS = (SERVICE_ACCOUNT, CONFIG_MAP, SERVICE, ROLE_BINDING, DEPLOYMENT)
"""Kinds that the shipped set renders. They are always watched, so that an object is still pruned
when a newer set no longer declares its kind."""

OPTIONAL_KINDS = (DISRUPTION_BUDGET, NETWORK_POLICY, POD_MONITOR)
"""Kinds that the shipped set renders where a value asks for them. Watched for the same reason, but no namespace that
renders none of them rests on them: most clusters do not even have the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """What we need to know of one Namespace; `uid` tells a re-created one from its predecessor."""

    name: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    terminating: bool = False

    @classmethod
    def of(cls, manifest: Manifest) -> "Namespace":
        """Read a Namespace as the API server sends it."""
        meta = manifest["metadata"]
        return cls(
            name=meta["name"],
            uid=meta["uid"],
            labels=meta.get("labels") or {},
            annotations=meta.get("annotations") or {},
            terminating="deletionTimestamp" in meta,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One member of a namespace: its objects' name and the instance ID of its Workflows."""

    index: int
    name: str
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgoVersions:
    """The versions that `values.version` may name, and since which version a value (by its dotted path) is known."""

    min: str
    below: str
    since: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What has to hold between values, as a Jinja expression over `values`; if not: where, why, and what to do."""

    holds: str
    at: str
    otherwise: str
    cure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSet:
    """A folder of templates as read: text and data, nothing rendered yet.

    `files` maps a file name to its text; names that begin with `_` are partials. `namespace_values` lists
    the dotted paths that a namespace may set. A set without `argo_versions` is for any version, or has none. `digest`
    changes with every byte of the folder. `definitions` is what Kubernetes says of the kinds, as `sources` reads it; a
    kind that is not in it is not checked. `texts` are all files as they were read, by their names.
    """

    name: str
    description: str
    kinds: frozenset[Kind]
    namespace_values: frozenset[str]
    defaults: Mapping[str, Any]
    schema: Mapping[str, Any]
    files: Mapping[str, str]
    digest: str
    argo_versions: ArgoVersions | None = None
    relations: tuple[Relation, ...] = ()
    definitions: Mapping[str, Any] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What one namespace should hold: its documents in order, and the digest of their bytes."""

    documents: tuple[Manifest, ...]
    revision: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseView:
    """A child's Lease as we saw it: who holds it, for how long, and how many seconds ago it last moved."""

    holder: str
    duration: float
    age: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCount:
    """Unfinished Workflows that carry a namespace's instance ID: with a phase, and still without one.

    `unlabelled` ones carry none although the child has one: they are for other controllers.
    """

    running: int = 0
    pending: int = 0
    unlabelled: int = 0

    @property
    def unfinished(self) -> int:
        """All that an opt-out has to wait for."""
        return self.running + self.pending
