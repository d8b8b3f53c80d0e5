"""Our API to the cluster: every label, annotation, condition, reason and fixed name.

What stands here is public: changing a value breaks objects that live in clusters, or people's alerts.
"""

from enum import StrEnum
from typing import Final

GROUP: Final = "metaoperator.dev"
API_VERSION: Final = f"{GROUP}/v1alpha1"
FIELD_MANAGER: Final = "metaoperator"
PERSON_MANAGER: Final = "metaoperator-cli"
"""Field manager of what a person writes by `metaoperator rollout`."""

OPT_IN_LABEL: Final = f"{GROUP}/workflow-controller"
OPTED_OUT: Final = "disabled"
DEFAULT_TEMPLATE_WORD: Final = "enabled"
DEFAULT_TEMPLATE: Final = "default"

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "metaoperator"
NAMESPACE_UID_ANNOTATION: Final = f"{GROUP}/namespace-uid"
RENDERED_ANNOTATION: Final = f"{GROUP}/rendered"
ACCOUNT_ANNOTATION: Final = f"{GROUP}/service-account-uid"
"""On a pod template. A pod's token is bound to the UID of its ServiceAccount, and the kubelet keeps it for up to 48
minutes across container restarts: a child whose account was made anew is locked out until its pod is replaced."""

SPEC_LOST_ANNOTATION: Final = f"{GROUP}/spec-lost"
"""On a WorkflowController that the operator made anew while the child of a lost one went on: its values are unknown."""

ADOPTED_ANNOTATION: Final = f"{GROUP}/adopted-replicaset"
"""On a ServiceAccount that was taken over with pods that run on: their ReplicaSet; it needs no ACCOUNT_ANNOTATION."""

SET_VERSION_ANNOTATION: Final = f"{GROUP}/set-version"
"""On the ConfigMaps of a template set, where it is on any: those of one set all say the same."""

LAST_APPLIED_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""By it `kubectl apply` deletes what it wrote before and does not find in its file."""

CONFIRM_REMOVAL_ANNOTATION: Final = f"{GROUP}/confirm-removal"
"""On a ControllerTemplate, by a person: the word that names exactly those namespaces whose children may go."""

INSTANCE_ID_ANNOTATION: Final = f"{GROUP}/instance-id"
"""On every object of a child: the instance ID that it was rendered for, empty for none."""
INSTANCE_ID_POLICY_ANNOTATION: Final = f"{GROUP}/instance-id-policy"
"""On a stamping policy: how it chooses the ID, in the words of `ControllerTemplate.spec.instanceIDPolicy`."""
FLEET_INSTANCE_ID: Final = "metaoperator"
"""What the policy `Fleet` gives to every namespace."""
STAMPING_PINNED: Final = "metaoperator-instance-id-pinned"
"""The MutatingAdmissionPolicy, beside STAMPING_POLICY, that puts the ID of the WorkflowController on Workflows."""
INSTANCE_ID_METADATA: Final = "metaoperator-instance-id-metadata"
"""The ValidatingAdmissionPolicy that keeps the ID out of `workflowMetadata`."""
INSTANCE_ID_STARTED: Final = "metaoperator-instance-id-started"
"""The optional one that keeps the ID of started Workflows as it is."""

RECORD_LABEL: Final = f"{GROUP}/record"
"""On the ControllerRevisions in the operator's namespace: what it is the record of."""
NAMESPACE_RECORD: Final = "namespace"
SET_RECORD: Final = "set"
RECORDED_NAMESPACE_LABEL: Final = f"{GROUP}/namespace"
RECORDED_UID_LABEL: Final = f"{GROUP}/recorded-uid"
"""The UID of the Namespace. No NAMESPACE_UID_ANNOTATION: that says where an object of a child belongs."""
SET_REVISION_LABEL: Final = f"{GROUP}/set-revision"
REVISION_LABEL: Final = f"{GROUP}/revision"
EARLIER_SETS_ANNOTATION: Final = f"{GROUP}/earlier-set-revisions"
"""Set revisions before the one of SET_REVISION_LABEL for which the same was recorded, the newest last."""
ROW_SPEC_ANNOTATION: Final = f"{GROUP}/row-spec"
"""Digest of what the WorkflowController said."""
TEMPLATE_ANNOTATION: Final = f"{GROUP}/controller-template"
NUMBER_ANNOTATION: Final = f"{GROUP}/number"
"""The field `revision` once more, for whoever reads metadata alone."""
VERSION_ANNOTATION: Final = f"{GROUP}/version"
BEFORE_ANNOTATION: Final = f"{GROUP}/before"
SINCE_ANNOTATION: Final = f"{GROUP}/since"
PROVEN_ANNOTATION: Final = f"{GROUP}/proven"
STABLE_ANNOTATION: Final = f"{GROUP}/stable"
FAILED_ANNOTATION: Final = f"{GROUP}/failed"
WHY_ANNOTATION: Final = f"{GROUP}/why"

INSTANCE_ID_LABEL: Final = "workflows.argoproj.io/controller-instanceid"
COMPLETED_LABEL: Final = "workflows.argoproj.io/completed"
CRON_WORKFLOW_LABEL: Final = "workflows.argoproj.io/cron-workflow"
WORKFLOW_LABEL: Final = "workflows.argoproj.io/workflow"
COMPONENT_LABEL: Final = "workflows.argoproj.io/component"
ARTIFACT_GC: Final = "artifact-gc"
"""Value of COMPONENT_LABEL on the pods that delete artifacts."""
MISPLACED_INSTANCE_ID_LABEL: Final = "ARGO_INSTANCE_ID"
"""Where Argo writes the instance ID on those pods: the name of a variable in place of INSTANCE_ID_LABEL."""
PHASE_LABEL: Final = "workflows.argoproj.io/phase"
ARGO_API_VERSION: Final = "argoproj.io/v1alpha1"

WORKFLOW_CONTROLLER: Final = "workflow-controller"
"""Name of the WorkflowController object, of the child's Deployment, and prefix of the child's Lease."""

STAMPING_POLICY: Final = "metaoperator-instance-id"
"""The general MutatingAdmissionPolicy that puts instance IDs on; its binding has the same name."""

ARGO_SERVER: Final = "argo-server"
"""Name of everything of a namespace's argo-server."""

OPERATOR_NAMESPACE: Final = "metaoperator"
OPERATOR_ACCOUNT: Final = "metaoperator"
OPERATOR_LEASE: Final = "metaoperator"

REFUSED_PREFIXES: Final = ("kube-", "openshift-")

FENCES: Final = (
    "metaoperator-accounts",
    "metaoperator-child-access",
    "metaoperator-child-credentials",
    "metaoperator-child-pods",
    "metaoperator-child-workloads",
    "metaoperator-operator-accounts",
    "metaoperator-operator-pods",
    "metaoperator-operator-rolebindings",
    "metaoperator-operator-workflows",
    "metaoperator-operator-writes",
    "metaoperator-platform-fields",
)
"""The ValidatingAdmissionPolicies of the fleet bundle (decision 0007). Each has a binding of its name."""

FENCES_BY_PLACE: Final = ("metaoperator-operator-accounts", "metaoperator-operator-writes")
"""Those that judge the operator by what is around an object. The API server's copy of that may be older than ours."""

FENCES_BY_PERSON: Final = (
    "metaoperator-accounts",
    "metaoperator-child-access",
    "metaoperator-child-credentials",
    "metaoperator-child-pods",
    "metaoperator-child-workloads",
    "metaoperator-platform-fields",
)
"""Those that judge by who asks: they let the operator through, and whoever holds the verb."""

ADMINISTER: Final = "administer"
"""The verb on WorkflowControllers that the fences ask of people."""


class Condition(StrEnum):
    """Condition types of our kinds, with the meaning kstatus gives them."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    ORPHANED_WORKFLOWS = "OrphanedWorkflows"
    DELETION_HELD = "DeletionHeld"


class Health(StrEnum):
    """Health of one object or child, in the words of kstatus."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    NOT_FOUND = "NotFound"
    UNKNOWN = "Unknown"


class Reason(StrEnum):
    """Reasons of conditions and Events. A condition, its Event, its log line and its test use the same word."""

    # Ready
    LEADING = "Leading"
    INSTALLING = "Installing"
    DEPLOYMENT_PROGRESSING = "DeploymentProgressing"
    DEPLOYMENT_FAILED = "DeploymentFailed"
    POD_REFUSED = "PodRefused"
    POD_FAILING = "PodFailing"
    LEASE_MISSING = "LeaseMissing"
    LEASE_STALE = "LeaseStale"
    LEASE_FOREIGN = "LeaseForeign"
    COMPANION_FAILING = "CompanionFailing"
    # Not served
    NOT_OPTED_IN = "NotOptedIn"
    NAMESPACE_REFUSED = "NamespaceRefused"
    PAUSED = "Paused"
    SPEC_LOST = "SpecLost"
    # Stalled
    TEMPLATE_NOT_FOUND = "TemplateNotFound"
    TEMPLATE_INVALID = "TemplateInvalid"
    VALUES_INVALID = "ValuesInvalid"
    INSTANCE_ID_CHANGED = "InstanceIDChanged"
    INSTANCE_ID_UNSUPPORTED = "InstanceIDUnsupported"
    CONFLICT = "Conflict"
    DRIFT_FIGHT = "DriftFight"
    IMMUTABLE = "Immutable"
    IGNORE_FIELDS_INVALID = "IgnoreFieldsInvalid"
    WAITING = "Waiting"
    REJECTED = "Rejected"
    QUOTA_EXCEEDED = "QuotaExceeded"
    OPERATOR_FORBIDDEN = "OperatorForbidden"
    ARGO_CRDS_MISSING = "ArgoCRDsMissing"
    OVERLAP = "Overlap"
    ADOPTION_REFUSED = "AdoptionRefused"
    # Beside others
    STAMPING_MISSING = "StampingMissing"
    NEIGHBOUR = "Neighbour"
    WORKFLOW_ORPHANED = "WorkflowOrphaned"
    SCHEDULE_ORPHANED = "ScheduleOrphaned"
    WORKFLOW_PENDING = "WorkflowPending"
    # Moving to another revision
    ROLLOUT_IDLE = "RolloutIdle"
    ROLLOUT_INVALID = "RolloutInvalid"
    REVISION_NOT_FOUND = "RevisionNotFound"
    ROLLOUT_CHECKING = "RolloutChecking"
    CHECK_FAILED = "CheckFailed"
    ROLLING_OUT = "RollingOut"
    WAITS_FOR_WAVE = "WaitsForWave"
    WAITS_FOR_BUDGET = "WaitsForBudget"
    WAITS_FOR_WINDOW = "WaitsForWindow"
    WAITS_FOR_APPROVAL = "WaitsForApproval"
    WAITS_FOR_WORKFLOWS = "WaitsForWorkflows"
    WAVE_EMPTY = "WaveEmpty"
    ROLLOUT_PAUSED = "RolloutPaused"
    ROLLOUT_HOLDING = "RolloutHolding"
    PROVEN_FAILING = "ProvenFailing"
    ROLLOUT_FAILED = "RolloutFailed"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    ROLLOUT_DONE = "RolloutDone"
    # Leaving
    RETRYING = "Retrying"
    KIND_UNSEEN = "KindUnseen"
    ORPHANED = "Orphaned"
    DELETION_LIMIT = "DeletionLimit"
    DRAINING = "Draining"
    SCHEDULES_WOULD_STOP = "SchedulesWouldStop"
    DRAIN_TIMEOUT = "DrainTimeout"
    REMOVING = "Removing"
    REMOVED = "Removed"
    # What was done
    CREATED = "Created"
    DRIFT = "Drift"
    CHANGED = "Changed"
    REPLACED = "Replaced"
    ADOPTED = "Adopted"
    PRUNED = "Pruned"
    SETTLED = "Settled"
    LOADED = "Loaded"


TURNS: Final = frozenset(
    {
        Reason.ROLLOUT_CHECKING,
        Reason.CHECK_FAILED,
        Reason.WAITS_FOR_WAVE,
        Reason.WAITS_FOR_BUDGET,
        Reason.WAITS_FOR_WINDOW,
        Reason.WAITS_FOR_APPROVAL,
        Reason.WAITS_FOR_WORKFLOWS,
        Reason.WAVE_EMPTY,
        Reason.ROLLOUT_PAUSED,
        Reason.ROLLOUT_HOLDING,
        Reason.PROVEN_FAILING,
        Reason.ROLLOUT_FAILED,
    }
)
"""For what a namespace waits that has yet to be moved to another revision; its child works on meanwhile."""
