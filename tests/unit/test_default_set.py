"""What the values of the shipped set make of a child, and which of them are refused."""

import itertools
import textwrap
from collections.abc import Mapping
from typing import Any

import pytest

from metaoperator import sources
from metaoperator.core import strictyaml
from metaoperator.core.errors import ValuesError
from metaoperator.core.render import Program
from tests.unit.builders import SHIPPED, desired, namespace

SET = sources.template_set(SHIPPED)
PROGRAM = Program(SET)
ID = "team-a"


def child(kind: str, fleet: Mapping[str, Any] | None = None, where: str = ID) -> Any:
    """Render the one document of a kind."""
    (found,) = [each for each in desired(PROGRAM, namespace(where), fleet=fleet).documents if each["kind"] == kind]
    return found


def server(config: Mapping[str, Any] | None = None, **values: Any) -> dict[tuple[str, str], Any]:
    """Render an argo-server's documents, by kind and name."""
    fleet = {"version": "v4.0.5", "server": {"enabled": True, **values}, "config": config or {}}
    found = {(each["kind"], each["metadata"]["name"]): each for each in desired(PROGRAM, fleet=fleet).documents}
    return {key: each for key, each in found.items() if key[1].startswith("argo-server")}


def pod(fleet: Mapping[str, Any] | None = None) -> Any:
    """Render the child's pod."""
    return child("Deployment", fleet)["spec"]["template"]["spec"]


def container(fleet: Mapping[str, Any] | None = None) -> Any:
    """Render the child's container."""
    (only,) = pod(fleet)["containers"]
    return only


def config(fleet: Mapping[str, Any], where: str = ID) -> Any:
    """Read the child's configuration."""
    return strictyaml.load(child("ConfigMap", fleet, where)["data"]["config"])


def refusal(fleet: Mapping[str, Any]) -> str:
    """Render what has to be refused, and return what is told."""
    with pytest.raises(ValuesError) as caught:
        desired(PROGRAM, fleet=fleet)
    return str(caught.value)


def images(values: Mapping[str, str]) -> tuple[str, str]:
    """Render both images."""
    made = container({"version": "v4.0.5", "images": values})
    (executor,) = [arg.partition("=")[2] for arg in made["args"] if arg.startswith("--executor-image=")]
    return made["image"], executor


DIGEST = f"@sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("values", "pair"),
    [
        ({}, ("quay.io/argoproj/workflow-controller:v4.0.5", "quay.io/argoproj/argoexec:v4.0.5")),
        (
            {"registry": "mirror.example:5000"},
            ("mirror.example:5000/argoproj/workflow-controller:v4.0.5", "mirror.example:5000/argoproj/argoexec:v4.0.5"),
        ),
        (
            {"registry": "mirror.example/quay", "controller": f"old.example:443/a/b{DIGEST}", "executor": "plain/c"},
            (f"mirror.example/quay/a/b{DIGEST}", "mirror.example/quay/plain/c:v4.0.5"),
        ),
        (
            {"registry": "mirror", "controller": "bare", "executor": f"quay.io/c{DIGEST}"},
            ("mirror/bare:v4.0.5", f"mirror/c{DIGEST}"),
        ),
    ],
    ids=["as they are", "a host", "a path", "bare names"],
)
def test_one_value_moves_both_images(values: Mapping[str, str], pair: tuple[str, str]) -> None:
    """The mirror takes the place of the host; tag and digest stay."""
    assert images(values) == pair


def test_environment_may_come_from_elsewhere() -> None:
    """Text and references, sorted by name."""
    secret = {"secretKeyRef": {"name": "a", "key": "b"}}
    made = container({"extraEnv": {"B": {"valueFrom": secret}, "A": "text"}})["env"]
    assert made[-2:] == [{"name": "A", "value": "text"}, {"name": "B", "valueFrom": secret}]


@pytest.mark.parametrize(
    "env",
    [
        {"A": {"valueFrom": {}}},
        {"A": {"valueFrom": {"secretKeyRef": {"name": "a"}}}},
        {"A": {"valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}, "fieldRef": {"fieldPath": "metadata.name"}}}},
        {"A": {"valueFrom": {"fieldRef": {"fieldPath": "spec.containers"}}}},
        {"A": {"value": "x"}},
        {"A": 1},
        {"A": ""},
        {"LEADER_ELECTION_DISABLE": "true"},
        {"ARGO_MANAGED_NAMESPACE": "other"},
        {"ARGO_NAMESPACE": "other"},
        {"ARGO_EXECUTOR_IMAGE": "x"},
    ],
    ids=str,
)
def test_environment_that_is_none_or_moves_the_child_elsewhere_is_refused(env: Mapping[str, Any]) -> None:
    """Each flag of the child is a variable too: ARGO_MANAGED_NAMESPACE would have it serve another namespace."""
    assert "values.extraEnv" in refusal({"extraEnv": env})


def test_volumes_are_read_only_unless_told() -> None:
    """Scratch space apart."""
    volumes = {
        "a": {"mountPath": "/a", "secret": {"secretName": "a"}},
        "b": {"mountPath": "/b", "emptyDir": {"sizeLimit": "1Gi"}},
        "c": {"mountPath": "/c", "readOnly": False, "configMap": {"name": "c"}},
    }
    made = container({"extraVolumes": volumes})["volumeMounts"]
    assert [(each["name"], each.get("readOnly", False)) for each in made] == [("a", True), ("b", False), ("c", False)]
    assert [set(each) for each in pod({"extraVolumes": volumes})["volumes"]] == [
        {"name", "secret"},
        {"name", "emptyDir"},
        {"name", "configMap"},
    ]


@pytest.mark.parametrize(
    "volume",
    [
        {"mountPath": "/a"},
        {"mountPath": "/a", "hostPath": {"path": "/"}},
        {"mountPath": "/a", "nfs": {"server": "x", "path": "/"}},
        {"mountPath": "/a", "secret": {"secretName": "a"}, "configMap": {"name": "a"}},
        {"mountPath": "a", "secret": {"secretName": "a"}},
        {"mountPath": "/proc/x", "secret": {"secretName": "a"}},
        {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "secret": {"secretName": "a"}},
        {"secret": {"secretName": "a"}},
        {"mountPath": "/a", "emptyDir": {}},
    ],
    ids=str,
)
def test_volumes_that_pod_security_or_the_child_would_not_take_are_refused(volume: Mapping[str, Any]) -> None:
    """`restricted` allows no host path; a child cannot do without its token; scratch space has a limit."""
    assert "values.extraVolumes" in refusal({"extraVolumes": {"a": volume}})


@pytest.mark.parametrize(
    ("secure", "scheme", "tls"), [(False, "http", None), (True, "https", {"insecureSkipVerify": True})]
)
def test_a_monitor_says_whose_metrics_they_are(secure: bool, scheme: str, tls: Any) -> None:  # noqa: FBT001
    """No metric of Argo's carries namespace or ID; the scheme follows the metrics'."""
    made = child("PodMonitor", {"metrics": {"secure": secure}, "podMonitor": {"enabled": True}})
    (endpoint,) = made["spec"]["podMetricsEndpoints"]
    assert (endpoint["scheme"], endpoint.get("tlsConfig")) == (scheme, tls)
    targets = {each["targetLabel"]: each for each in endpoint["relabelings"]}
    assert targets["instance_id"]["replacement"] == ID
    assert targets["namespace"]["sourceLabels"] == ["__meta_kubernetes_namespace"]


def test_a_network_policy_lets_the_child_work() -> None:
    """DNS, the API server and scrapes; nothing else comes in, and the selector is the child's pod alone."""
    spec = child("NetworkPolicy", {"networkPolicy": {"enabled": True}})["spec"]
    assert spec["podSelector"] == child("Deployment")["spec"]["selector"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == [{"ports": [{"protocol": "TCP", "port": 9090}]}]
    ports = [(each["protocol"], each["port"]) for rule in spec["egress"] for each in rule["ports"]]
    assert ports == [("UDP", 53), ("TCP", 53), ("TCP", 443), ("TCP", 6443)]


def test_without_metrics_nothing_comes_in() -> None:
    """An empty list would be dropped by the API server: there is none."""
    fleet = {"networkPolicy": {"enabled": True}, "metrics": {"enabled": False}}
    spec = child("NetworkPolicy", fleet)["spec"]
    assert "ingress" not in spec
    assert "Ingress" in spec["policyTypes"]


@pytest.mark.parametrize(
    "fleet",
    [
        {"podDisruptionBudget": {"enabled": True, "maxUnavailable": 0}},
        {"podDisruptionBudget": {"enabled": True, "minAvailable": 1}},
        {"networkPolicy": {"apiServer": {"ports": []}}},
        {"networkPolicy": {"apiServer": {"cidrs": ["api.example"]}}},
        {"networkPolicy": {"egress": [{}]}},
        {"networkPolicy": {"metricsFrom": [{}]}},
        {"podMonitor": {"labels": {"app.kubernetes.io/managed-by": "me"}}},
        {"podMonitor": {"interval": "often"}},
        {"serviceAccountAnnotations": {"metaoperator.dev/namespace-uid": "x"}},
        {"images": {"registry": "https://mirror.example"}},
        {"images": {"registry": "mirror.example/"}},
        {"livenessProbe": {"periodSeconds": 0}},
        {"clusterName": "a b"},
    ],
    ids=str,
)
def test_values_that_would_harm_are_refused(fleet: Mapping[str, Any]) -> None:
    """A budget that blocks drains, a policy without an API server, an egress to anywhere by an empty rule."""
    (first,) = fleet
    assert f"values.{first}" in refusal(fleet)


LOCKS = {"synchronization": {"postgresql": {"host": "db", "database": "locks"}}}
ARCHIVE = {"persistence": {"archive": True, "postgresql": {"host": "db", "database": "archive"}}}


def test_locks_are_held_in_a_name_that_is_no_other_childs() -> None:
    """Another namespace or another cluster is another name; what two of them could write as one does not exist."""
    names = {
        config({"config": LOCKS, "clusterName": cluster}, where)["synchronization"]["controllerName"]
        for cluster in ("", "east", "west")
        for where in ("team-a", "team-b", "0123", "null")
    }
    assert len(names) == 12
    assert config({"config": LOCKS}, "0123")["synchronization"]["controllerName"] == "0123"


def test_a_clusters_name_keeps_its_rows_apart() -> None:
    """Below what the fleet says itself; and no database where none was asked for."""
    assert "clusterName" not in config({"config": ARCHIVE})["persistence"]
    assert config({"config": ARCHIVE, "clusterName": "east"})["persistence"]["clusterName"] == "east"
    own = {"persistence": {**ARCHIVE["persistence"], "clusterName": "mine"}}
    assert config({"config": own, "clusterName": "east"})["persistence"]["clusterName"] == "mine"
    assert not {"persistence", "synchronization"} & set(config({"clusterName": "east"}))


NESTED: dict[str, Any] = {
    "workflowDefaults.spec": {"workflowDefaults": {"spec": {"tempaltes": []}}},
    "workflowDefaults.spec.templates.0": {"workflowDefaults": {"spec": {"templates": [{"contaner": {}}]}}},
    "executor": {"executor": {"resource": {}}},
    "executor.securityContext": {"executor": {"securityContext": {"runAsRoot": True}}},
    "mainContainer.env.0": {"mainContainer": {"env": [{"nam": "a"}]}},
    "artifactRepository.s3": {"artifactRepository": {"s3": {"buckt": "a"}}},
    "persistence.archiveLabelSelector": {"persistence": {"archiveLabelSelector": {"matchLabel": {}}}},
}


@pytest.mark.parametrize("where", NESTED)
def test_keys_below_argos_own_types_are_held_to_v4_0_and_to_no_other_version(where: str) -> None:
    """They are known for that version alone; elsewhere they go to the child as they are."""
    assert f"values.config.{where}: Additional properties" in refusal({"version": "v4.0.5", "config": NESTED[where]})
    desired(PROGRAM, fleet={"version": "v4.1.2", "config": NESTED[where]})


@pytest.mark.parametrize(
    "config_",
    [
        {"persistence": {"nodeStatusOffload": True}},
        {"persistence": {"postgresql": {"sslmode": "require"}}},
        {"persistence": {"postgresql": {}, "mysql": {}}},
        {"synchronization": {"semaphoreLimitCacheSecond": 1}},
        {"semaphoreLimitCacheSeconds": 1},
        {"sso": {"clientID": {"name": "a", "key": "b"}}},
        {"links": [{"name": "a", "scope": "pod", "url": "javascript:alert(1)"}]},
        {"telemetryConfig": {"prot": 1}},
        {"images": {"a": {"command": []}}},
    ],
    ids=str,
)
@pytest.mark.parametrize("version", ["v3.7.18", "v4.0.5", "v4.1.2"])
def test_keys_of_argos_configuration_are_held_to_every_version(config_: Mapping[str, Any], version: str) -> None:
    """A misspelt one would end the child at its start."""
    assert "values.config" in refusal({"version": version, "config": config_})


FLEET_ONLY = sorted(
    {key for key in SET.defaults if key not in {"resources", "workers", "api", "requeueTime", "log", "config"}}
)


@pytest.mark.parametrize("key", FLEET_ONLY)
def test_a_namespace_sets_nothing_that_reaches_images_rights_scheduling_or_other_peoples_pods(key: str) -> None:
    """Whatever it writes there is refused by name."""
    marker = "marker" if not isinstance(SET.defaults[key], dict) else {"marker": "marker"}
    with pytest.raises(ValuesError, match=f"{key}.* is not a namespace's to set"):
        desired(PROGRAM, own={key: marker})


@pytest.mark.parametrize("flag", ["executorPlugins", "workflowLevelExecutorPlugins"])
def test_plugins_are_switched_on_by_a_flag(flag: str) -> None:
    """And by default there is none of them."""
    words = {
        "executorPlugins": "--executor-plugins",
        "workflowLevelExecutorPlugins": "--workflow-level-executor-plugins",
    }
    assert words[flag] not in container()["args"]
    assert words[flag] in container({"executorPlugins": True, flag: True})["args"]


def test_a_probe_can_be_switched_off() -> None:
    """Before v3.7.1 a mere backlog restarts a child that is probed."""
    assert "livenessProbe" in container()
    assert "livenessProbe" not in container({"livenessProbe": {"enabled": False}})


PLAIN = {("Deployment", "argo-server"), ("RoleBinding", "argo-server"), ("Service", "argo-server")}
PLAIN |= {("ServiceAccount", "argo-server")}
SECRETS = ("RoleBinding", "argo-server-secrets")
DATABASE = {"host": "db", "database": "a", "tableName": "b", "userNameSecret": {"name": "c", "key": "d"}}
DATABASE["passwordSecret"] = {"name": "c", "key": "e"}


def test_a_namespace_has_no_argo_server_unless_asked_for() -> None:
    """And no right or Service of one."""
    assert server(enabled=False) == {}
    assert set(server()) == PLAIN


@pytest.mark.parametrize(
    ("values", "config"),
    [
        ({"tlsSecret": "tls"}, {}),
        ({"webhooks": True}, {}),
        ({}, {"persistence": {"postgresql": DATABASE}}),
        ({}, {"synchronization": {"postgresql": DATABASE}}),
    ],
    ids=["certificate", "webhooks", "archive", "locks"],
)
def test_a_server_may_read_secrets_only_where_something_needs_it(
    values: Mapping[str, Any], config: Mapping[str, Any]
) -> None:
    """A certificate, webhooks, or a database's password."""
    made = server(config, **values)
    assert set(made) == {*PLAIN, SECRETS}
    assert made[SECRETS]["roleRef"]["name"] == "metaoperator-argo-server-secrets-v1"


def test_a_server_acts_with_the_callers_token_and_speaks_tls() -> None:
    """No value switches the first off, and `secure` alone the second; the probe and the Service follow."""
    for secure, scheme in ((True, "HTTPS"), (False, "HTTP")):
        made = server(secure=secure)
        (only,) = made["Deployment", "argo-server"]["spec"]["template"]["spec"]["containers"]
        auth = [each for each in only["args"] if each.startswith(("--auth-mode", "--namespaced", "--secure"))]
        assert auth == ["--namespaced", "--auth-mode=client", f"--secure={str(secure).lower()}"]
        assert only["readinessProbe"]["httpGet"]["scheme"] == scheme
        (port,) = made["Service", "argo-server"]["spec"]["ports"]
        assert port["appProtocol"] == scheme.lower()


def test_a_server_restarts_with_the_configuration_that_it_reads_only_at_its_start() -> None:
    """The digest on its pod is the child's."""
    annotations = [
        server(config)["Deployment", "argo-server"]["spec"]["template"]["metadata"]["annotations"]
        for config in ({}, {"parallelism": 3})
    ]
    assert annotations[0] != annotations[1]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"server": {"extraEnv": {"ARGO_AUTH_MODE": "server"}}}, "values.server.extraEnv"),
        ({"server": {"extraEnv": {"ARGO_MANAGED_NAMESPACE": "other"}}}, "values.server.extraEnv"),
        ({"server": {"extraVolumes": {"a": {"mountPath": "/tmp", "emptyDir": {}}}}}, "values.server.extraVolumes"),  # noqa: S108
        ({"server": {"secure": False, "tlsSecret": "tls"}}, "values.server.tlsSecret"),
        ({"server": {"replicas": 0}}, "values.server.replicas"),
        ({"images": {"server": "quay.io/argoproj/argocli:v4"}}, "values.images.server"),
        (
            {"server": {"enabled": True}, "config": {"artifactDrivers": [{"name": "a", "image": "b"}]}},
            "values.server.enabled",
        ),
    ],
    ids=["no token", "elsewhere", "its own volume", "no TLS", "none", "a tag", "artifact drivers"],
)
def test_a_server_that_would_let_anybody_in_or_not_start_is_refused(values: Mapping[str, Any], named: str) -> None:
    """Each flag of the server is a variable too, and ARGO_AUTH_MODE would add a mode that asks for no token."""
    assert named in refusal({"version": "v4.0.5", **values})


def test_the_example_of_an_artifact_repository_is_one() -> None:
    """It stands in values.yaml as a comment, and is taken for every version; our label stays beside its strategy."""
    lines = (SHIPPED / "values.yaml").read_text().splitlines()
    first = lines.index("#   artifactRepository:")
    text = "\n".join(each[2:] for each in itertools.takewhile(lambda line: line.startswith("#   "), lines[first:]))
    example = strictyaml.load(textwrap.dedent(text))
    for version in ("v3.6.19", "v4.0.5", "v4.1.2"):
        made = config({"version": version, "config": example})
        assert made["artifactRepository"] == example["artifactRepository"]
        assert made["workflowDefaults"]["spec"]["artifactGC"] == {
            "strategy": "OnWorkflowDeletion",
            "podMetadata": {"labels": {"workflows.argoproj.io/controller-instanceid": ID}},
        }
