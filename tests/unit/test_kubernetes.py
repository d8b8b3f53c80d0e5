"""Rendered objects against Kubernetes' own schema: every fault, with its path, its line in the template and a cure."""
# ruff: noqa: E501 - tables: a row is a line

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from metaoperator import sources
from metaoperator.core import kubernetes, strictyaml
from metaoperator.core.errors import Problem, TemplateError
from metaoperator.core.model import CONFIG_MAP, DEPLOYMENT, ROLE_BINDING, SERVICE, Kind
from metaoperator.core.render import Program
from tests.unit.builders import SHIPPED, desired, object_text, template_set

POD_MONITOR = Kind("monitoring.coreos.com/v1", "PodMonitor")
KINDS = frozenset({CONFIG_MAP, DEPLOYMENT, ROLE_BINDING, SERVICE, POD_MONITOR})

# What each kind looks like when nothing is wrong: one for each kind of which we have the schema.
_POD = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "i"}]}}
_RUN_ONCE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
_SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": _POD}
WHOLE: dict[str, dict[str, Any]] = {
    "apps/v1 ControllerRevision": {"revision": 1, "data": {"any": ["thing", 1]}},
    "apps/v1 DaemonSet": {"spec": {**_SELECTED, "updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}}}},
    "apps/v1 Deployment": {"spec": {**_SELECTED, "replicas": 1}},
    "apps/v1 ReplicaSet": {"spec": _SELECTED},
    "apps/v1 StatefulSet": {"spec": {**_SELECTED, "serviceName": "s"}},
    "autoscaling/v2 HorizontalPodAutoscaler": {
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}, "maxReplicas": 3}
    },
    "batch/v1 CronJob": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _RUN_ONCE}}}},
    "batch/v1 Job": {"spec": {"template": _RUN_ONCE}},
    "coordination.k8s.io/v1 Lease": {"spec": {"holderIdentity": "me", "renewTime": "2026-01-31T12:00:00.000000Z"}},
    "networking.k8s.io/v1 Ingress": {"spec": {"rules": [{"host": "h"}]}},
    "networking.k8s.io/v1 NetworkPolicy": {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": "http"}]}]}},
    "policy/v1 PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    "rbac.authorization.k8s.io/v1 Role": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "rbac.authorization.k8s.io/v1 RoleBinding": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "team-a"}],
    },
    "v1 ConfigMap": {"data": {"a": "b"}, "binaryData": {"c": "YQ=="}, "immutable": True},
    "v1 LimitRange": {"spec": {"limits": [{"type": "Container", "max": {"cpu": 2}}]}},
    "v1 PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "v1 Pod": {"spec": _POD["spec"]},
    "v1 PodTemplate": {"template": _POD},
    "v1 ReplicationController": {"spec": {"selector": {"a": "b"}, "template": _POD}},
    "v1 ResourceQuota": {"spec": {"hard": {"pods": "10", "requests.cpu": 0.5}}},
    "v1 Service": {"spec": {"ports": [{"port": 80, "targetPort": "http"}], "selector": {"a": "b"}}},
    "v1 ServiceAccount": {"automountServiceAccountToken": False},
}
_UNTRIED = {"v1 Endpoints"}  # deprecated; its schema is held to the server like the others


def program(text: str) -> Program:
    """Compile one template of a set that may render all that these tests are about."""
    return Program(template_set({"one.yaml.j2": text}, kinds=KINDS, definitions=sources.definitions(KINDS)))


def problems(text: str) -> list[Problem]:
    """Render what must fail."""
    with pytest.raises(TemplateError) as caught:
        desired(program(text))
    return list(caught.value.problems)


def kind_of(name: str) -> Kind:
    """Read a kind as it is written in `WHOLE`."""
    version, _, kind = name.partition(" ")
    return Kind(version, kind)


def manifest(name: str) -> dict[str, Any]:
    """Build an object of a kind in which nothing is wrong."""
    kind = kind_of(name)
    meta = {"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **copy.deepcopy(WHOLE[name])}


def faults(name: str, body: Any) -> list[kubernetes.Fault]:
    """Hold an object to its kind's schema."""
    definitions = sources.definitions({kind_of(name)})
    return list(kubernetes.faults(body, kubernetes.schema_of(kind_of(name), definitions["kinds"]), definitions))


def test_every_kind_with_a_schema_is_tried() -> None:
    """Those that a set may declare; Secrets, Events and Bindings are left out on purpose."""
    known = sources.definitions(())["kinds"]
    with_schema = {
        f"{version} {kind}" for version, served in known.items() for kind, name in served["namespaced"].items() if name
    }
    assert with_schema - _UNTRIED == set(WHOLE)


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_object_is_taken(name: str) -> None:
    """Also as a template renders it."""
    assert faults(name, manifest(name)) == []
    kind = kind_of(name)
    text = json.dumps(manifest(name))
    whole = template_set({"one.yaml.j2": text}, kinds={kind}, definitions=sources.definitions({kind}))
    assert len(desired(whole).documents) == 1


def mappings(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    """Every mapping in an object, with its path."""
    if isinstance(value, dict):
        yield path, value
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from mappings(below, (*path, key))


FREE = ("labels", "annotations", "matchLabels", "data", "binaryData", "selector", "requests", "hard", "max")


@pytest.mark.parametrize("name", WHOLE)
def test_an_unknown_field_is_found_wherever_it_stands(name: str) -> None:
    """In every mapping of every kind, but for those whose keys are free."""
    places = [
        path for path, _ in mappings(manifest(name)) if not path or str(path[-1]) not in FREE or path[-1] == "selector"
    ]
    tried = 0
    for place in places:
        body = manifest(name)
        holder: Any = body
        for step in place:
            holder = holder[step]
        if place and place[-1] == "selector" and "matchLabels" not in holder:
            continue
        holder["unheardOf"] = 1
        assert [fault.path for fault in faults(name, body)] == [(*place, "unheardOf")]
        tried += 1
    assert tried


@pytest.mark.parametrize("name", WHOLE)
def test_a_wrong_type_is_found_wherever_it_stands(name: str) -> None:
    """Each value in turn is replaced by one of another type: the fault is told at its path, and nowhere else."""
    for place, holder in mappings(manifest(name)):
        for key, value in holder.items():
            if "data" in place and name == "apps/v1 ControllerRevision":
                continue
            body = manifest(name)
            inside: Any = body
            for step in place:
                inside = inside[step]
            inside[key] = 7.5 if isinstance(value, str | dict | list | bool) or key in {"max", "hard"} else {"a": "b"}
            told = faults(name, body)
            if key in {"cpu", "storage", "pods", "requests.cpu"}:  # quantities may be numbers
                assert told == [] or told[0].path == (*place, key)
            else:
                assert [fault.path for fault in told][:1] == [(*place, key)], (place, key)


DEPLOYMENT_TEXT = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: one
spec:
  replicas: 1
  selector: {matchLabels: {a: b}}
  template:
    metadata:
      labels: {a: b}
    spec:
      containers:
        - name: main
          image: i
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("image: i", "imag: i", ":14: spec.template.spec.containers[0].imag is no field that Kubernetes knows (did you mean image?)"),
        ("replicas: 1", "replica: 1", ":6: spec.replica is no field that Kubernetes knows (did you mean replicas?)"),
        ("replicas: 1", 'replicas: "1"', ":6: spec.replicas must be a whole number, not '1' (write it without quotes"),
        ("replicas: 1", "replicas: 1.5", ":6: spec.replicas must be a whole number, not the number 1.5"),
        ("replicas: 1", "replicas: true", ":6: spec.replicas must be a whole number, not true"),
        ("replicas: 1", "replicas: 99999999999", ":6: spec.replicas 99999999999 does not fit in int32"),
        ("- name: main", "- command: [x]", ":13: spec.template.spec.containers[0].name is missing (Kubernetes requires"),
        ("  selector: {matchLabels: {a: b}}\n", "", ":5: spec.selector is missing (Kubernetes requires this field)"),
        ("image: i", "imagePullPolicy: always", ":14: spec.template.spec.containers[0].imagePullPolicy 'always' is not among the values that Kubernetes knows (did you mean Always? one of Always, IfNotPresent, Never)"),
        ("image: i", "image: 7", ":14: spec.template.spec.containers[0].image must be text, not the number 7 (put it in quotes"),
        ("image: i", "args: [1]", ":14: spec.template.spec.containers[0].args[0] must be text, not the number 1"),
        ("image: i", "args: [null]", ":14: spec.template.spec.containers[0].args[0] must be text, not null"),
        ("image: i", "args: x", ":14: spec.template.spec.containers[0].args must be a list, not 'x'"),
        ("image: i", "resources: [a]", ":14: spec.template.spec.containers[0].resources must be a mapping, not a list"),
        ("image: i", "resources: {limits: {cpu: lots}}", ":14: spec.template.spec.containers[0].resources.limits.cpu must be a quantity, not 'lots' (write it like 500m"),
        ("image: i", "resources: {limits: {cpu: true}}", ":14: spec.template.spec.containers[0].resources.limits.cpu must be a quantity, not true"),
        ("image: i", "tty: 'yes'", ":14: spec.template.spec.containers[0].tty must be true or false, not 'yes'"),
        ("image: i", "env: [{name: A}, {name: B}, {name: A}]", ":14: spec.template.spec.containers[0].env[2] stands twice: A is at spec.template.spec.containers[0].env[0] already"),
        ("image: i", "ports: [{containerPort: 1}, {containerPort: 1, protocol: TCP}]", ":14: spec.template.spec.containers[0].ports[1] stands twice: 1, TCP is at"),
        ("image: i", "image: i\n        - name: main", ":15: spec.template.spec.containers[1] stands twice: main is at spec.template.spec.containers[0] already"),
        ("      containers:", "      volumes: [{name: v}, {name: v}]\n      containers:", ":12: spec.template.spec.volumes[1] stands twice: v is at"),
        ("image: i", "livenessProbe: {httpGet: {path: /, port: [1]}}", ":14: spec.template.spec.containers[0].livenessProbe.httpGet.port must be a whole number or text, not a list"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_line_path_and_cure(old: str, new: str, told: str) -> None:
    """The line is the template's; typos come with the nearest known name."""
    (only,) = problems(DEPLOYMENT_TEXT.replace(old, new))
    assert str(only).startswith(f"one.yaml.j2{told}")


@pytest.mark.parametrize(
    "line",
    [
        "ports: [{containerPort: 1}, {containerPort: 1, protocol: UDP}]",
        "env: [{name: A, value: ''}, {name: B, value: null}]",
        "resources: {limits: {cpu: 2, memory: 0.5, x: 1e3, y: 12Mi, z: '.5'}}",
        "livenessProbe: {httpGet: {port: http}}",
        "livenessProbe: {httpGet: {port: 80}}",
        "securityContext: null",
    ],
)
def test_what_kubernetes_takes_is_taken(line: str) -> None:
    """Ports that differ by protocol, nulls, each spelling of a quantity, ports by number and name."""
    assert len(desired(program(DEPLOYMENT_TEXT.replace("image: i", line))).documents) == 1


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("data: {a: 1.10}\n", ":5: data.a must be text, not the number 1.1 (put it in quotes"),
        ("data:\n  a: yes\n  b: true\n", ":7: data.b must be text, not true"),
        ("data:\n  a:\n    b: c\n", ":6: data.a must be text, not a mapping"),
        ("binaryData: {a: 'not base64!'}\n", ":5: binaryData.a is not base64"),
        ("datas: {a: b}\n", ":5: datas is no field that Kubernetes knows (did you mean data?)"),
        ("  label: {a: b}\n", ":5: metadata.label is no field that Kubernetes knows (did you mean labels?)"),
        ("spec: {}\n", ":5: spec is no field that Kubernetes knows"),
    ],
)
def test_a_config_map_holds_texts(data: str, told: str) -> None:
    """What YAML made a number of, or a truth value, is never sent as one."""
    (only,) = problems(object_text(data))
    assert str(only).startswith(f"one.yaml.j2{told}")


def test_a_value_at_fault_is_told_at_the_line_that_writes_it() -> None:
    """Through a loop, an include and a filter: the template's line, not that of what was rendered."""
    files = {
        "one.yaml.j2": "{# two\n lines #}\n" + object_text(
            'data:\n{% for n in ["a", "b"] %}\n  {{ n }}: {{ n | q }}\n{% endfor %}\n{% include "_part.j2" %}\n\n  last: 4\n'
        ),
        "_part.j2": "{{ {'c': 1, 'd': 'x'} | to_yaml | indent(2, true) }}  e: 2\n  f: >-\n    text\n    text\n  g: 3",
    }  # fmt: skip
    with pytest.raises(TemplateError) as caught:
        desired(template_set(files, kinds=KINDS, definitions=sources.definitions(KINDS)))
    told = [(each.where, each.line, each.path) for each in caught.value.problems]
    assert told == [
        ("_part.j2", 1, "data.c"),
        ("_part.j2", 1, "data.e"),
        ("_part.j2", 5, "data.g"),
        ("one.yaml.j2", 13, "data.last"),
    ]


def test_faults_in_what_is_included_inside_of_a_text_are_told_at_its_line() -> None:
    """What a block captured and a filter wrote is one placeholder's doing."""
    text = "{% set t %}{% include '_part.j2' %}{% endset %}\n" + object_text("data: {{ {'a': [t]} | q }}\n")
    with pytest.raises(TemplateError) as caught:
        desired(
            template_set({"one.yaml.j2": text, "_part.j2": "a\nb\n"}, definitions=sources.definitions({CONFIG_MAP}))
        )
    (only,) = caught.value.problems
    assert (only.where, only.line, only.path) == ("one.yaml.j2", 6, "data.a")


def test_nobody_is_told_more_than_he_can_read() -> None:
    """Fifty faults of a document, and that there are more."""
    rows = "".join(f"  k{index}: {index}\n" for index in range(200))
    told = problems(object_text(f"data:\n{rows}"))
    assert len(told) == 51
    assert told[-1].what == "has more than these 50 faults"


def test_kinds_without_a_schema_are_named_and_not_checked() -> None:
    """A custom resource may hold anything; its metadata is checked all the same."""
    text = object_text("spec: {anything: [goes]}\n", kind=POD_MONITOR)
    assert program(text).unchecked == (POD_MONITOR,)
    assert len(desired(program(text)).documents) == 1
    (only,) = problems(object_text("  labels: {a b: c}\n", kind=POD_MONITOR))
    assert only.path == "metadata.labels['a b']"


def test_the_shipped_set_is_checked() -> None:
    """A fault that is put into any of its built-in objects is found."""
    shipped = sources.template_set(SHIPPED)
    built_in = [kind for kind in shipped.kinds if kind not in Program(shipped).unchecked]
    assert DEPLOYMENT in built_in
    for document in desired(Program(shipped)).documents:
        name = f"{document['apiVersion']} {document['kind']}"
        if Kind(document["apiVersion"], document["kind"]) in built_in:
            body = strictyaml.load(strictyaml.dump(document))
            assert faults(name, body) == []
            assert [fault.path for fault in faults(name, {**body, "unheardOf": 1})] == [("unheardOf",)]
