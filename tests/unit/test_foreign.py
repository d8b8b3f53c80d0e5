"""What a workflow-controller that is not ours serves, read as Argo v4.0.5 reads its flags, variables and ConfigMap."""

from typing import Any

import pytest

from metaoperator.core import foreign
from metaoperator.core.foreign import Foreign
from metaoperator.core.model import CONFIG_MAP, DEPLOYMENT, LEASE, POD, Ref
from tests.argo import go_yaml

HOME = "argo"
DEFAULT = "workflow-controller-configmap"
IMAGE = "quay.io/argoproj/workflow-controller:v4.0.5"


def deployment(container: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Build a Deployment around one container."""
    pod = {"containers": [{"name": "sidecar", "image": "envoy"}, container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "wc", "namespace": HOME},
        "spec": {"template": {"spec": pod}} | more,
    }


def stock(*args: str, env: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """Build the container of Argo's own manifests."""
    variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
    return {
        "name": "c",
        "image": IMAGE,
        "command": ["workflow-controller"],
        "args": list(args),
        "env": variables,
    } | more


def how(container: dict[str, Any]) -> tuple[str, Ref | None]:
    """Tell what a controller sees by its flags, and what it reads."""
    (found,) = foreign.started(deployment(container))
    return found.sees, found.configuration


def config(name: str = DEFAULT, namespace: str = HOME) -> Ref:
    """Name a ConfigMap."""
    return Ref(CONFIG_MAP, namespace, name)


FIELD = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
SECRET = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
STARTS: dict[str, tuple[dict[str, Any], str, Ref | None]] = {
    "Argo's cluster-install": (stock(), "", config()),
    "Argo's namespace-install": (stock("--namespaced"), HOME, config()),
    "the helm chart": (
        stock("--configmap", "argo-config", "--executor-image", "x", "--loglevel", "info", "--namespaced"),
        HOME,
        config("argo-config"),
    ),
    "managed elsewhere": (stock("--namespaced", "--managed-namespace=team-a"), "team-a", config()),
    "managed elsewhere, two words": (stock("--managed-namespace", "team-a", "--namespaced"), "team-a", config()),
    "managed without being namespaced": (stock("--managed-namespace=team-a"), "", config()),
    "managed by an empty word": (stock("--namespaced", "--managed-namespace="), HOME, config()),
    "variables": (
        stock(env={"ARGO_NAMESPACED": "true", "ARGO_MANAGED_NAMESPACE": "team-a", "ARGO_CONFIGMAP": "mine"}),
        "team-a",
        config("mine"),
    ),
    "a flag wins over its variable": (
        stock("--namespaced=false", "--configmap=other", env={"ARGO_NAMESPACED": "true", "ARGO_CONFIGMAP": "mine"}),
        "",
        config("other"),
    ),
    "an empty variable is none": (stock(env={"ARGO_NAMESPACED": "", "ARGO_CONFIGMAP": ""}), "", config()),
    "Go's words for true": (stock("--namespaced=T"), HOME, config()),
    "a bool takes no second word": (stock("--namespaced", "false"), HOME, config()),
    "the last of two counts": (stock("--namespaced", "--namespaced=0"), "", config()),
    "a word that another flag takes": (stock("--loglevel", "--namespaced"), "", config()),
    "after the end of flags": (stock("--", "--namespaced"), "", config()),
    "its own namespace by flag": (stock("--namespaced", "--namespace", "home"), "home", config(namespace="home")),
    "its own namespace by short flag": (stock("-nhome", "--namespaced"), "home", config(namespace="home")),
    "its own namespace by variable": (
        stock("--namespaced", env={"POD_NAMESPACE": "home"}),
        "home",
        config(namespace="home"),
    ),
    "a variable in a word": (
        stock("--namespaced", "--managed-namespace=$(WHERE)", env={"WHERE": "team-b"}),
        "team-b",
        config(),
    ),
    "an escaped variable": (stock("--configmap=$$(WHERE)", env={"WHERE": "team-b"}), "", config("$(WHERE)")),
    "the downward API": (
        stock("--namespaced", env={}) | {"env": [{"name": "ARGO_MANAGED_NAMESPACE"} | FIELD]},
        HOME,
        config(),
    ),
    "no command, the image's own": (stock("--namespaced", command=[]), HOME, config()),
    "a path": (stock("--namespaced", command=["/usr/local/bin/workflow-controller"], image="x"), HOME, config()),
    "behind an init": (stock("--namespaced", command=["tini", "--", "workflow-controller"]), HOME, config()),
    "all in args": (stock("workflow-controller", "--namespaced", command=[], image="mine"), HOME, config()),
    "an image by digest": (
        {"name": "c", "image": "mirror:5000/workflow-controller@sha256:00", "args": ["--namespaced"]},
        HOME,
        config(),
    ),
    # what cannot be told
    "a shell": (stock(command=["sh", "-c", "exec workflow-controller --namespaced"]), "", None),
    "a variable from a Secret": (stock() | {"env": [{"name": "ARGO_NAMESPACED"} | SECRET]}, "", None),
    "a word from a Secret": (stock("--configmap=$(WHERE)") | {"env": [{"name": "WHERE"} | SECRET]}, "", None),
    "a bool that is none": (stock("--namespaced=maybe"), "", None),
}


@pytest.mark.parametrize("name", STARTS)
def test_flags_and_variables_are_read_as_argo_reads_them(name: str) -> None:
    """What a controller sees, and which ConfigMap it reads; what cannot be told counts as everything."""
    container, sees, configuration = STARTS[name]
    assert how(container) == (sees, configuration)


@pytest.mark.parametrize(
    "container",
    [
        {"name": "c", "image": "quay.io/argoproj/argocli:v4.0.5", "args": ["server"]},
        {"name": "c", "image": "workflow-controller-exporter:1"},
        {"name": "c", "image": "x", "args": ["--url=http://workflow-controller-metrics"]},
        {"name": "c"},
    ],
)
def test_what_runs_no_controller_is_none(container: dict[str, Any]) -> None:
    """Only a program or an image of that very name counts."""
    assert foreign.started(deployment(container)) == ()


def test_a_deployment_without_containers_is_none() -> None:
    """Objects of a store may lack anything."""
    bare = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "namespace": "y"}}
    assert foreign.started(bare) == ()


def test_a_pod_is_read_like_a_template() -> None:
    """The holder of a Lease may belong to no Deployment."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": HOME},
        "spec": {"containers": [stock("--namespaced")]},
    }
    (found,) = foreign.started(pod)
    assert (found.ref, found.sees, found.replicas) == (Ref(POD, HOME, "p"), HOME, 1)
    (ended,) = foreign.started({**pod, "status": {"phase": "Succeeded"}})
    assert ended.replicas == 0


# How many


@pytest.mark.parametrize(
    ("spec", "status", "count"),
    [
        ({}, {}, 1),
        ({"replicas": None}, {}, 1),
        ({"replicas": 0}, {}, 0),
        ({"replicas": 0}, {"replicas": 1}, 1),
        ({"replicas": 0}, {"replicas": 0, "terminatingReplicas": 1}, 1),
        ({"replicas": 2}, {"replicas": 1}, 2),
    ],
)
def test_a_pod_that_is_still_there_counts(spec: dict[str, Any], status: dict[str, Any], count: int) -> None:
    """A controller that is scaled to 0 works until its pod is gone."""
    body = deployment(stock(), **spec) | {"status": status}
    (found,) = foreign.started(body)
    assert found.replicas == count


# The ConfigMap


def judged(data: dict[str, str] | None, *args: str, unread: str = "") -> Foreign:
    """Judge a stock controller by the data of its ConfigMap; `None` for no ConfigMap."""
    (found,) = foreign.started(deployment(stock(*args)))
    return foreign.judge(found, None if data is None else {"data": data}, unread=unread)


CONFIGS: dict[str, tuple[dict[str, str], str]] = {
    "one text": ({"config": "instanceID: mine\nparallelism: 2\n"}, "mine"),
    "flat keys": ({"instanceID": "mine", "executor": "resources:\n  limits: {cpu: 1}\n"}, "mine"),
    "flat, quoted": ({"instanceID": '"mine"'}, "mine"),
    "JSON": ({"config": '{"instanceID": "mine"}'}, "mine"),
    "no data": ({}, ""),
    "an empty text": ({"config": ""}, ""),
    "null": ({"config": "null"}, ""),
    "no ID": ({"config": "parallelism: 2\n"}, ""),
    "a null ID": ({"instanceID": "~"}, ""),
    "an empty ID": ({"instanceID": '""'}, ""),
    "a number": ({"instanceID": "123"}, "123"),
    "a number in quotes": ({"config": 'instanceID: "0123"'}, "0123"),
    "a date": ({"instanceID": "2024-01-01"}, "2024-01-01"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_an_instance_id_is_read_as_argo_reads_it(name: str) -> None:
    """One text under `config`, or flat keys that are glued together."""
    data, instance = CONFIGS[name]
    found = judged(data)
    assert (found.instance_id, found.sees, found.unsure) == (instance, "", "")


UNSURE: dict[str, tuple[dict[str, str] | None, str]] = {
    "not there": (None, "ConfigMap/argo/workflow-controller-configmap is not there"),
    "both forms": ({"config": "instanceID: a", "instanceID": "b"}, "which Argo refuses"),
    "no YAML": ({"instanceID": "a: b: c"}, "cannot be read"),
    "a list": ({"config": "- instanceID"}, "it holds no mapping"),
    "an ID that is a list": ({"config": "instanceID: [a]"}, "instanceID is no text"),
    "octal": ({"instanceID": "0123"}, "put it in quotes"),
    "a float": ({"instanceID": "1e3"}, "put it in quotes"),
    "a truth": ({"instanceID": "on"}, "put it in quotes"),
}


@pytest.mark.parametrize("name", UNSURE)
def test_what_cannot_be_told_counts_as_no_id_and_says_why(name: str) -> None:
    """A controller is never taken for one with an ID of its own because its ConfigMap was not understood."""
    data, why = UNSURE[name]
    found = judged(data)
    assert (found.instance_id, found.sees) == ("", "")
    assert why in found.unsure
    assert why in str(found)


def test_a_configmap_that_may_not_be_read_leaves_what_the_flags_tell() -> None:
    """Its namespace is known by its flags even where its ID is not."""
    found = judged(None, "--namespaced", unread="ConfigMap/argo/x may not be read")
    assert (found.instance_id, found.sees, found.unsure) == ("", HOME, "ConfigMap/argo/x may not be read")


def test_a_configmap_may_narrow_what_a_controller_watches() -> None:
    """Argo's old key `namespace` counts where no flag does (v4.0.5 controller.go:1242)."""
    assert judged({"config": "namespace: team-a"}).sees == "team-a"
    assert judged({"config": "namespace: team-a"}, "--namespaced").sees == HOME


@pytest.mark.parametrize("word", [*go_yaml._WORDS, "08", "0x1f", "0b11", "0o17", "1_000", ".5", "3240286e-210077", "7"])
def test_a_bare_word_is_text_only_where_go_yaml_reads_the_same_text(word: str) -> None:
    """Whatever go-yaml makes another value of is not taken for an ID."""
    read = go_yaml.resolve(word) if word else None
    found = judged({"config": f"instanceID: {word}"})
    if read is None:
        assert (found.instance_id, found.unsure) == ("", "")
    elif go_yaml.as_text(read) == word and not isinstance(read, bool):
        assert (found.instance_id, found.unsure) == (word, "")
    else:
        assert found.instance_id == ""
        assert found.unsure


# Names and rights


@pytest.mark.parametrize(("instance", "name"), [("", "workflow-controller"), ("a-b", "workflow-controller-a-b")])
def test_its_lease_is_named_as_argo_names_it(instance: str, name: str) -> None:
    """By its ID, in its own namespace, wherever it works."""
    made = Foreign(ref=Ref(DEPLOYMENT, "argo", "wc"), instance_id=instance, sees="team-a", replicas=1, home="home")
    assert made.lease == Ref(LEASE, "home", name)
    assert judged({"instanceID": instance}).lease == Ref(LEASE, HOME, name)


def test_it_needs_to_list_workflows_where_it_looks() -> None:
    """Without that right its cache never fills, and it does nothing at all."""
    (wide,) = foreign.started(deployment(stock()))
    (local,) = foreign.started(deployment(stock("--namespaced")))
    assert (wide.needs.namespace, wide.needs.resource, wide.needs.verb) == ("", "workflows", "list")
    assert (local.needs.namespace, local.account) == (HOME, "default")


def test_a_controller_tells_what_it_is() -> None:
    """For people: which object, which ID, which namespaces."""
    made = Foreign(ref=Ref(DEPLOYMENT, "argo", "wc"), instance_id="", sees="", replicas=1)
    assert str(made) == "Deployment/argo/wc (no instance ID, all namespaces)"
