"""The install bundles and the shipped template set, held to what the rest of the project relies on.

What only an API server can judge (CEL, admission, storing unchanged) is not here.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from metaoperator import sources
from metaoperator.core import names, render, shard, strictyaml
from metaoperator.core.errors import ValuesError
from metaoperator.core.model import CHILD_KINDS, OPTIONAL_KINDS, Desired, Namespace

ROOT = Path(__file__).parents[2]
FLEET = ROOT / "manifests" / "fleet"
OPERATOR = ROOT / "manifests" / "operator"
SET = ROOT / "templates" / "workflow-controller"

MANIFESTS = sorted(path for path in (ROOT / "manifests").rglob("*.yaml") if path.name != "kustomization.yaml")
KUSTOMIZATIONS = sorted((ROOT / "manifests").rglob("kustomization.yaml"))
CRDS = sorted(path for path in (FLEET / "crds").glob("*.yaml") if path.name != "kustomization.yaml")
TEMPLATES = sorted(SET.glob("*.j2"))

ALL = {"get", "list", "watch", "create", "update", "patch", "delete"}
READ = {"get", "list", "watch"}


def read(path: Path) -> Any:
    """Read a file as strictly as the operator does."""
    return strictyaml.load(path.read_text())


def short(path: Path) -> str:
    """Name a file in a test's id."""
    return str(path.relative_to(ROOT))


def objects(folder: Path) -> list[dict[str, Any]]:
    """Read every manifest below a folder."""
    return [read(path) for path in MANIFESTS if folder in path.parents]


def only(folder: Path, kind: str, name: str) -> dict[str, Any]:
    """Find the one object of that kind and name."""
    (found,) = [item for item in objects(folder) if item["kind"] == kind and item["metadata"]["name"] == name]
    return found


def rights(role: Mapping[str, Any]) -> dict[tuple[str, str], set[str]]:
    """Unfold a role's rules into (group, resource) → verbs."""
    granted: dict[tuple[str, str], set[str]] = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                granted.setdefault((group, resource), set()).update(rule["verbs"])
    return granted


def nodes(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Walk a document: every value below it with its path, the leaves included."""
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        here = f"{path}/{key}"
        yield here, item
        yield from nodes(item, here)


SHIPPED = sources.template_set(SET)
PROGRAM = render.Program(SHIPPED)


def rendered(
    name: str = "team-a", *, fleet: Mapping[str, Any] | None = None, own: Mapping[str, Any] | None = None
) -> Desired:
    """Render the shipped set for one namespace."""
    namespace = Namespace(name=name, uid="uid-1")
    return PROGRAM.desired(
        namespace,
        shard.only_shard(namespace.name),
        template_name="default",
        fleet_values=fleet or {},
        namespace_values=own or {},
    )


def child(kind: str, desired: Desired) -> Any:
    """Find the one rendered document of that kind."""
    (found,) = [document for document in desired.documents if document["kind"] == kind]
    return found


def config(desired: Desired) -> Any:
    """Read the child's configuration out of its ConfigMap."""
    return strictyaml.load(child("ConfigMap", desired)["data"]["config"])


def pod(desired: Desired) -> Any:
    """Take the child's pod template."""
    return child("Deployment", desired)["spec"]["template"]


# The bundles


@pytest.mark.parametrize("path", MANIFESTS, ids=short)
def test_every_manifest_is_one_object_with_a_name(path: Path) -> None:
    """A file holds exactly one Kubernetes object, in strict YAML."""
    document = read(path)
    assert document["apiVersion"]
    assert document["kind"]
    assert document["metadata"]["name"]


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=short)
def test_every_file_in_a_bundle_is_applied(path: Path) -> None:
    """A manifest that its kustomization forgets is never installed."""
    there = {item.name for item in path.parent.iterdir() if item.is_dir() or item.suffix == ".yaml"} - {path.name}
    assert sorted(read(path).get("resources", [])) == sorted(there)


@pytest.mark.parametrize("path", [*MANIFESTS, *KUSTOMIZATIONS], ids=short)
def test_nothing_that_is_installed_carries_the_mark_of_what_is_kept(path: Path) -> None:
    """The operator removes marked objects that nobody asked for: its own install must not be among them."""
    told = [value for where, value in nodes(read(path)) if where.endswith(f"/{names.MANAGED_BY_LABEL}")]
    assert told == []


def test_the_operator_bundle_holds_nothing_that_children_live_on() -> None:
    """Deleting the operator's bundle takes nothing but the operator."""
    kinds = {item["kind"] for item in objects(OPERATOR)}
    assert kinds == {
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "Deployment",
        "PodDisruptionBudget",
        "Service",
    }
    assert {item["metadata"]["name"] for item in objects(OPERATOR)} == {"metaoperator"}


def test_names_in_manifests_are_those_in_the_code() -> None:
    """Fixed names of CRDs and of what is installed are the ones that the operator reads."""
    for path in CRDS:
        assert read(path)["spec"]["group"] == names.GROUP
    schema = read(FLEET / "crds" / "workflowcontrollers.yaml")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    rules = [rule["rule"] for rule in schema["x-kubernetes-validations"]]
    assert f"self.metadata.name == '{names.WORKFLOW_CONTROLLER}'" in rules
    assert only(FLEET, "ControllerTemplate", names.DEFAULT_TEMPLATE)["spec"]["source"]["directory"] == SET.name
    assert only(FLEET, "Namespace", names.OPERATOR_NAMESPACE)
    (lease,) = [rule for rule in only(OPERATOR, "Role", "metaoperator")["rules"] if "resourceNames" in rule]
    assert lease["resourceNames"] == [names.OPERATOR_LEASE]


@pytest.mark.parametrize("path", CRDS, ids=short)
def test_kubectl_explain_has_a_sentence_for_every_field(path: Path) -> None:
    """Every property of every kind, and every list item, has a description.

    Except `metadata`, where the API server refuses one and puts its own.
    """
    schema = read(path)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    mute = [
        where
        for where, value in nodes({"schema": schema})
        if re.search(r"(^/schema|/properties/[^/]+|/items)$", where) and not value.get("description")
    ]
    assert mute == ["/schema/properties/metadata"]


@pytest.mark.parametrize("path", CRDS, ids=short)
def test_conditions_are_merged_by_type(path: Path) -> None:
    """Two writers of different conditions do not overwrite each other."""
    schema = read(path)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    conditions = schema["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


# Permissions


@pytest.mark.parametrize("path", [path for path in MANIFESTS if "role" in path.name], ids=short)
def test_no_role_has_a_wildcard_or_a_way_up(path: Path) -> None:
    """Rights are named one by one, and none of them grants others."""
    for rule in read(path).get("rules", []):
        said = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
        assert not said & {"*", "escalate", "impersonate", "approve", "sign"}


def test_the_operator_never_writes_a_namespace_nor_sees_a_secret() -> None:
    """Its rights on Namespaces are to read; Secrets, pods' exec and roles do not occur."""
    granted = rights(only(OPERATOR, "ClusterRole", "metaoperator"))
    assert granted["", "namespaces"] == READ
    assert granted["", "pods"] == READ | {"patch"}
    assert granted["argoproj.io", "workflows"] == READ | {"patch", "delete"}
    assert granted["argoproj.io", "cronworkflows"] == READ | {"patch"}
    assert granted["argoproj.io", "workflowtasksets"] == granted["", "persistentvolumeclaims"] == {"list"}
    resources = {resource for _, resource in granted}
    assert not resources & {"secrets", "pods/exec", "roles", "clusterrolebindings", "serviceaccounts/token"}


def test_the_operator_keeps_its_records_in_its_own_namespace_and_nowhere_else() -> None:
    """What a child is to hold after a restart is out of the reach of whoever has rights in other namespaces only."""
    assert rights(only(OPERATOR, "Role", "metaoperator"))["apps", "controllerrevisions"] == ALL - {"update"}
    for item in (*objects(OPERATOR), *objects(FLEET)):
        if item["kind"] == "ClusterRole":
            assert ("apps", "controllerrevisions") not in rights(item), item["metadata"]["name"]


def test_the_operator_binds_the_numbered_roles_and_no_other() -> None:
    """It cannot hand out a right that an administrator did not put into these roles."""
    role = only(OPERATOR, "ClusterRole", "metaoperator")
    (rule,) = [rule for rule in role["rules"] if "bind" in rule["verbs"]]
    assert rule == {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles"],
        "resourceNames": [
            "metaoperator-workflow-controller-v1",
            "metaoperator-workflow-executor-v1",
            "metaoperator-argo-server-v1",
            "metaoperator-argo-server-secrets-v1",
        ],
        "verbs": ["bind"],
    }


def test_the_operator_may_keep_every_kind_of_the_shipped_set() -> None:
    """A kind that the set renders and the operator may not write would stall each namespace."""
    granted = rights(only(OPERATOR, "ClusterRole", "metaoperator"))
    for kind in SHIPPED.kinds:
        group = kind.api_version.rpartition("/")[0]
        plural = re.sub("ys$", "ies", f"{kind.kind.lower()}s")
        assert granted[group, plural] == ALL - {"update"}, kind


def test_a_child_may_do_what_argos_namespaced_install_allows() -> None:
    """The rules are Argo's own from v3.5 to v4.1; a numbered role never changes, so other rules are a new file."""
    every = {"create", "get", "list", "watch", "update", "patch", "delete"}
    assert rights(only(FLEET, "ClusterRole", "metaoperator-workflow-controller-v1")) == {
        ("coordination.k8s.io", "leases"): {"create", "get", "update"},
        ("", "pods"): every,
        ("", "pods/exec"): every,
        ("", "configmaps"): READ,
        ("", "persistentvolumeclaims"): {"create", "update", "delete", "get"},
        ("", "persistentvolumeclaims/finalizers"): {"create", "update", "delete", "get"},
        ("argoproj.io", "workflows"): every,
        ("argoproj.io", "workflows/finalizers"): every,
        ("argoproj.io", "workflowtasksets"): every,
        ("argoproj.io", "workflowtasksets/finalizers"): every,
        ("argoproj.io", "workflowartifactgctasks"): every,
        ("argoproj.io", "workflowtemplates"): READ,
        ("argoproj.io", "workflowtemplates/finalizers"): READ,
        ("argoproj.io", "workflowtaskresults"): {"list", "watch", "deletecollection"},
        ("argoproj.io", "cronworkflows"): every - {"create"},
        ("argoproj.io", "cronworkflows/finalizers"): every - {"create"},
        ("", "serviceaccounts"): {"get", "list"},
        ("", "secrets"): {"get"},
        ("", "events"): {"create", "patch"},
        ("policy", "poddisruptionbudgets"): {"create", "get", "delete"},
    }


def test_workflow_pods_may_report_and_no_more() -> None:
    """Executor, agent and artifact clean-up have the verbs that Argo documents; a numbered role never changes."""
    assert rights(only(FLEET, "ClusterRole", "metaoperator-workflow-executor-v1")) == {
        ("argoproj.io", "workflowtaskresults"): {"create", "patch"},
        ("argoproj.io", "workflowtasksets"): {"list", "watch"},
        ("argoproj.io", "workflowtasksets/status"): {"patch"},
        ("argoproj.io", "workflowartifactgctasks"): {"list", "watch"},
        ("argoproj.io", "workflowartifactgctasks/status"): {"patch"},
    }


def test_an_argo_server_reads_and_tells_as_itself_and_sees_secrets_only_where_needed() -> None:
    """For people it acts with their own tokens; a numbered role never changes."""
    assert rights(only(FLEET, "ClusterRole", "metaoperator-argo-server-v1")) == {
        ("", "configmaps"): READ,
        ("argoproj.io", "workflows"): READ,
        ("argoproj.io", "workflowtemplates"): READ,
        ("", "events"): {"create", "patch"},
    }
    component = ROOT / "manifests" / "components" / "argo-server-fleet"
    assert rights(only(component, "ClusterRole", "metaoperator-argo-server-fleet-v1")) == {
        ("argoproj.io", "workflows"): READ,
        ("argoproj.io", "workflowtemplates"): READ,
    }
    assert rights(only(FLEET, "ClusterRole", "metaoperator-argo-server-secrets-v1")) == {
        ("", "secrets"): {"get"},
        ("", "serviceaccounts"): {"get"},
    }


def test_only_reading_comes_with_a_stock_role() -> None:
    """Setting values is given on purpose: no aggregation into edit or admin."""
    aggregated = {
        (item["metadata"]["name"], label): rights(item)
        for item in objects(FLEET)
        if item["kind"] == "ClusterRole"
        for label in item["metadata"].get("labels", {})
        if "aggregate-to" in label
    }
    assert aggregated == {
        ("metaoperator-view", "rbac.authorization.k8s.io/aggregate-to-view"): {
            (names.GROUP, "workflowcontrollers"): READ
        }
    }


# Pods


def test_what_we_run_passes_pod_security_restricted() -> None:
    """Operator, child and argo-server run in a namespace that enforces `restricted`, under any user ID."""
    desired = rendered(fleet={"server": {"enabled": True}})
    ours = [only(OPERATOR, "Deployment", "metaoperator"), *(d for d in desired.documents if d["kind"] == "Deployment")]
    assert len(ours) == 3
    for spec in (each["spec"]["template"]["spec"] for each in ours):
        assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_image_tags_are_pinned_to_what_is_released() -> None:
    """The operator's tag is this release, the child's and its executor's tag one and the same Argo version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert read(OPERATOR / "kustomization.yaml")["images"] == [{"name": "metaoperator", "newTag": project["version"]}]

    version = read(SET / "values.yaml")["version"]
    (container,) = pod(rendered())["spec"]["containers"]
    assert container["image"].endswith(f":{version}")
    assert any(arg.startswith("--executor-image=") and arg.endswith(f":{version}") for arg in container["args"])


@pytest.mark.parametrize("path", sorted([*MANIFESTS, *KUSTOMIZATIONS, *SET.iterdir()]), ids=short)
def test_files_name_no_package_registry_and_no_machine(path: Path) -> None:
    """What is committed works anywhere."""
    hosts = r"(pypi|pythonhosted|npmjs|crates|(proxy|sum)\.golang)\.(org|com|io)"
    assert not re.search(rf"{hosts}|/home/|localhost\b|:latest\b", path.read_text())


# The shipped template set


def test_what_children_refer_to_is_in_the_fleet_bundle() -> None:
    """ClusterRoles and the PriorityClass exist: without them nothing starts."""
    there = {(item["kind"], item["metadata"]["name"]) for item in objects(FLEET)}
    desired = rendered(fleet={"server": {"enabled": True, "webhooks": True}})
    roles = {document["roleRef"]["name"] for document in desired.documents if document["kind"] == "RoleBinding"}
    assert len(roles) == 4
    assert {("ClusterRole", role) for role in roles} <= there
    assert ("PriorityClass", pod(rendered())["spec"]["priorityClassName"]) in there


def test_argo_versions_outside_the_supported_range_are_refused() -> None:
    """The range in `template.yaml` is the one that the schema holds `version` to."""
    supported = read(SET / "template.yaml")["argoVersions"]
    assert rendered(fleet={"version": supported["min"]}).version == supported["min"]
    for version in (supported["below"], "v3.5.15"):
        with pytest.raises(ValuesError, match="version"):
            rendered(fleet={"version": version})


@pytest.mark.parametrize("path", TEMPLATES, ids=short)
def test_every_output_of_a_template_is_quoted(path: Path) -> None:
    """Values reach YAML through `q` or `to_yaml` only, so none of them can add structure."""
    outputs = re.findall(r"\{\{-?(.*?)-?\}\}", path.read_text(), re.DOTALL)
    assert [output for output in outputs if not re.search(r"\|\s*(q|to_yaml)\s*$", output)] == []


def test_every_value_has_a_description_and_a_default_that_fits() -> None:
    """The schema explains each value, and the set renders with no value set by anybody."""
    mute = [
        where
        for where, value in nodes(SHIPPED.schema)
        if re.search(r"/properties/[^/]+$", where)
        and "/allOf/" not in where
        and "/$defs/" not in where
        and not where.endswith("/properties/properties")
        and not value.get("description")
    ]
    assert mute == []
    optional = {kind.kind for kind in OPTIONAL_KINDS}
    assert {document["kind"] for document in rendered().documents} == {kind.kind for kind in SHIPPED.kinds} - optional
    asked = {
        "podDisruptionBudget": {"enabled": True},
        "networkPolicy": {"enabled": True},
        "podMonitor": {"enabled": True},
    }
    there = {document["kind"] for document in rendered(fleet=asked).documents}
    assert there == {kind.kind for kind in SHIPPED.kinds} == {kind.kind for kind in (*CHILD_KINDS, *OPTIONAL_KINDS)}


@pytest.mark.parametrize("path", sorted(SHIPPED.namespace_values))
def test_what_a_namespace_may_set_exists_and_is_harmless(path: str) -> None:
    """The list names values of the schema, and nothing that reaches permissions, images, scheduling or pod specs."""
    schema: Any = SHIPPED.schema
    for part in path.split("."):
        schema = schema["properties"][part]
    safe = {"resources", "workers", "api", "requeueTime", "log", "config"}
    first, _, rest = path.partition(".")
    assert first in safe
    assert first != "config" or rest
    pods = {"executor", "mainContainer", "workflowDefaults", "workflowRestrictions", "artifactDrivers", "persistence"}
    assert rest not in pods


@pytest.mark.parametrize(
    "name", ["team-a", "null", "0123", "08", "0x1f", "1e3", "3240286e-210077", "on", "y", "n", "true", "2024-01-01"]
)
def test_the_child_reads_the_instance_id_that_its_workflows_carry(name: str) -> None:
    """No YAML reader, old or new, takes a namespace's name for a number, a boolean or nothing."""
    text = child("ConfigMap", rendered(name))["data"]["config"]
    assert f'"instanceID": "{name}"\n' in text
    assert config(rendered(name))["instanceID"] == name


def test_artifact_clean_up_pods_carry_the_instance_id() -> None:
    """What a fleet says of artifactGC stays, except for the one label without which Workflows never go away."""
    mine = {"strategy": "OnWorkflowDeletion", "podMetadata": {"labels": {"team": "a", names.INSTANCE_ID_LABEL: "x"}}}
    defaults = {"spec": {"artifactGC": mine, "serviceAccountName": "builder"}}
    spec = config(rendered(fleet={"config": {"workflowDefaults": defaults}}))["workflowDefaults"]["spec"]
    assert spec == {
        "serviceAccountName": "builder",
        "artifactGC": {
            "strategy": "OnWorkflowDeletion",
            "podMetadata": {"labels": {"team": "a", names.INSTANCE_ID_LABEL: "team-a"}},
        },
    }


def test_a_changed_configuration_rolls_the_child_and_nothing_else_of_it() -> None:
    """The pod carries a digest of its configuration."""
    before, after = pod(rendered()), pod(rendered(own={"config": {"parallelism": 7}}))
    key = "metaoperator.dev/config-digest"
    assert before["metadata"]["annotations"][key] != after["metadata"]["annotations"][key]
    assert before["spec"] == after["spec"]


def test_pods_are_selected_by_labels_that_no_value_reaches() -> None:
    """Deployment and Service select what the pod carries, and the selector is immutable."""
    desired = rendered(fleet={"podLabels": {"team": "a"}})
    selector = {"app.kubernetes.io/name": "workflow-controller", "app.kubernetes.io/instance": "workflow-controller"}
    assert child("Deployment", desired)["spec"]["selector"]["matchLabels"] == selector
    assert child("Service", desired)["spec"]["selector"] == selector
    mark = {names.MANAGED_BY_LABEL: names.MANAGED_BY}
    assert pod(desired)["metadata"]["labels"] == selector | mark | {"team": "a"}


@pytest.mark.parametrize(
    "fleet",
    [
        {},
        {"priorityClassName": "", "nodeSelector": {"kubernetes.io/os": None}},
        {"resources": {"limits": {"cpu": None, "memory": None}}},
        {"resources": {"limits": None, "requests": None}},
    ],
    ids=["defaults", "no scheduling", "no limits", "no resources"],
)
def test_nothing_is_rendered_that_the_api_server_drops(fleet: Mapping[str, Any]) -> None:
    """Empty lists, mappings and texts are not stored, and would look like drift for ever."""
    empty = [
        where
        for document in rendered(fleet=fleet).documents
        for where, value in nodes(document)
        if value is None or value in ("", [], {})
    ]
    assert empty == []


def test_the_metrics_service_can_be_switched_off() -> None:
    """Without metrics there is no Service, and the child opens no port for them."""
    desired = rendered(fleet={"metrics": {"enabled": False}})
    assert "Service" not in {document["kind"] for document in desired.documents}
    assert config(desired)["metricsConfig"]["enabled"] is False


def test_an_image_with_a_digest_gets_no_tag() -> None:
    """A pinned image is taken as it is written, registry port included."""
    image = f"registry.example:5000/argo/workflow-controller@sha256:{'a' * 64}"
    (container,) = pod(rendered(fleet={"images": {"controller": image}}))["spec"]["containers"]
    assert container["image"] == image


RELABELLED = {"workflowMetadata": {"labels": {names.INSTANCE_ID_LABEL: "x"}}}


@pytest.mark.parametrize(
    ("fleet", "named"),
    [
        ({"config": {"bogus": 1}}, "bogus"),
        ({"config": {"instanceID": "x"}}, "instanceID"),
        ({"config": {"namespace": "x"}}, "namespace"),
        ({"config": {"metricsConfig": {"port": 1}}}, "port"),
        ({"config": {"workflowDefaults": {"metadata": {"labels": {names.INSTANCE_ID_LABEL: "x"}}}}}, "labels"),
        ({"config": {"workflowDefaults": {"spec": RELABELLED}}}, "workflowMetadata"),
        ({"version": "v3.7.18", "config": {"failedPodRestart": {"enabled": True}}}, "failedPodRestart"),
        ({"version": "v3.6.19", "config": {"synchronization": {}}}, "synchronization"),
        ({"version": None}, "version"),
        ({"images": {"controller": "registry.example/wc:v1"}}, "images.controller"),
        ({"extraEnv": {"LEADER_ELECTION_DISABLE": "true"}}, "LEADER_ELECTION_DISABLE"),
        ({"podLabels": {names.MANAGED_BY_LABEL: "me"}}, names.MANAGED_BY_LABEL),
        ({"resources": {"limits": {"cpu": "0.5"}}}, "cpu"),
        ({"requeueTime": "5"}, "requeueTime"),
        ({"log": {"level": "trace"}}, "log.level"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_that_would_keep_the_child_from_working_is_refused(fleet: Mapping[str, Any], named: str) -> None:
    """The refusal names the value, before anything is written."""
    with pytest.raises(ValuesError, match=re.escape(named)):
        rendered(fleet=fleet)


def test_keys_of_a_new_argo_version_are_allowed_with_it() -> None:
    """The same keys that an old version refuses to start on reach one that knows them."""
    wanted = {"failedPodRestart": {"enabled": True}, "artifactDrivers": [{"name": "a", "image": "b"}]}
    assert wanted.items() <= config(rendered(fleet={"version": "v4.0.5", "config": wanted})).items()
