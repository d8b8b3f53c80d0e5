"""Names, labels, annotations and other metadata: what Kubernetes would refuse, and what a template must not set."""
# ruff: noqa: E501 - tables: a row is a line

from typing import Any

import pytest

from metaoperator.core import metadata
from metaoperator.core.errors import TemplateError
from metaoperator.core.model import CONFIG_MAP, DEPLOYMENT, ROLE_BINDING, SERVICE, Kind
from tests.unit.builders import desired, document, namespace, object_text, template_set

JOB, CRON_JOB = Kind("batch/v1", "Job"), Kind("batch/v1", "CronJob")
KINDS = frozenset({CONFIG_MAP, DEPLOYMENT, ROLE_BINDING, SERVICE})

NAMES = {
    # name: the kinds that take it
    "a": {"cm", "svc", "rb", "job", "cron"},
    "0123": {"cm", "svc", "rb", "job", "cron"},
    "a.b": {"cm", "rb", "job", "cron"},
    "a..b": {"rb"},
    ".": set(),
    "..": set(),
    "a/b": set(),
    "a%b": set(),
    "system:x": {"rb"},
    "A": {"rb"},
    "-a": {"rb"},
    "a-": {"rb"},
    "a_b": {"rb"},
    "a b": {"rb"},
    "ä": {"rb"},
    "a\n": {"rb"},
    "a" * 52: {"cm", "svc", "rb", "job", "cron"},
    "a" * 53: {"cm", "svc", "rb", "job"},
    "a" * 63: {"cm", "svc", "rb", "job"},
    "a" * 64: {"cm", "rb"},
    "a" * 253: {"cm", "rb"},
    "a" * 254: {"rb"},
}
"""Held to a real API server by `tests/contract/test_names.py`."""
NAMED = {"cm": CONFIG_MAP, "svc": SERVICE, "rb": ROLE_BINDING, "job": JOB, "cron": CRON_JOB}


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_name_is_taken_by_the_kinds_that_may_have_it(name: str) -> None:
    """Each kind has its own rule and length."""
    assert {short for short, kind in NAMED.items() if metadata.misnamed(kind, name) is None} == NAMES[name]


def told(text: str, **fields: Any) -> list[str]:
    """Render what must fail."""
    with pytest.raises(TemplateError) as caught:
        desired(template_set({"one.yaml.j2": text}, kinds=KINDS), **fields)
    return list(map(str, caught.value.problems))


KEYS = {
    "a": True, "a/b": True, "example.com/a": True, "example.com/a_b.c-d": True, "A": True, "0": True, "a" * 63: True, f"{'a' * 253}/b": True,
    "": False, "/a": False, "a/": False, "a/b/c": False, "-a": False, "a-": False, "a b": False, "ä": False,
    "a" * 64: False, f"{'a' * 254}/b": False, "Example.com/a": False, "a_b/c": False,
}  # fmt: skip
"""Held to a real API server by `tests/contract/test_names.py`."""
VALUES = {
    "": True, "a": True, "0": True, "a.b_c-d": True, "1.10": True, "true": True, "a" * 63: True,
    "a" * 64: False, "a b": False, "a/b": False, "-a": False, "a-": False, ".": False, "ä": False, "a\n": False,
}  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=repr)
@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_a_key_is_taken_as_kubernetes_takes_it(key: str, field: str) -> None:
    """Of labels and of annotations alike."""
    text = object_text(f"  {field}: {{{{ {{values.key: 'x'}} | q }}}}\n")
    if KEYS[key.lower() if field == "annotations" else key]:
        assert document(text, fleet={"key": key})["metadata"][field][key] == "x"
    else:
        (only,) = told(text, fleet={"key": key})
        assert "is no key: " in only
        assert only.startswith(f"one.yaml.j2:5: metadata.{field}")


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_labels_value_is_taken_as_kubernetes_takes_it(value: str) -> None:
    """An annotation's may be any text."""
    text = "  {}: {{{{ {{'k': values.value}} | q }}}}\n"
    assert (
        document(object_text(text.format("annotations")), fleet={"value": value})["metadata"]["annotations"]["k"]
        == value
    )
    if VALUES[value]:
        assert document(object_text(text.format("labels")), fleet={"value": value})["metadata"]["labels"]["k"] == value
    else:
        (only,) = told(object_text(text.format("labels")), fleet={"value": value})
        assert "is no label's value" in only


def test_the_labels_of_pods_are_checked_too() -> None:
    """A Deployment whose pods cannot be made is worse than one that is refused."""
    (only,) = told(object_text("spec:\n  template:\n    metadata:\n      labels: {a: 1}\n", kind=DEPLOYMENT))
    assert only.startswith("one.yaml.j2:8: spec.template.metadata.labels.a is not text but 1")


@pytest.mark.parametrize("field", sorted(metadata._SERVERS))
@pytest.mark.parametrize("value", ["x", "[]", "null", "{}"])
def test_what_belongs_to_the_server_or_to_others_is_refused(field: str, value: str) -> None:
    """Whatever value it has: each would break an apply, or an opt-out, later."""
    (only,) = told(object_text(f"  {field}: {value}\n"))
    assert only.startswith(f"one.yaml.j2:5: metadata.{field} does not belong into a template (leave it out: ")


@pytest.mark.parametrize(
    ("rest", "paths"),
    [
        ("roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ''}\n", ["roleRef.name"]),
        ("roleRef: {apiGroup: rbac.authorization.k8s.io, kind: '', name: x}\n", ["roleRef.kind"]),
        ("roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole}\n", ["roleRef.name"]),
        ("roleRef: {apiGroup: '', kind: ClusterRole, name: x}\n", ["roleRef.apiGroup"]),
        ("roleRef: {kind: Role, name: x}\nsubjects: [{kind: ServiceAccount, name: ''}]\n", ["subjects[0].name", "subjects[0].namespace"]),
        ("roleRef: {kind: Role, name: x}\nsubjects: [{kind: ServiceAccount, name: a, namespace: ''}]\n", ["subjects[0].namespace"]),
        ("roleRef: {kind: Role, name: x}\nsubjects: [{kind: Group, name: ''}]\n", ["subjects[0].name"]),
        ("roleRef: {kind: Role, name: x}\nsubjects: [{kind: User, name: a}, {name: b}]\n", ["subjects[1].kind"]),
    ],
)  # fmt: skip
def test_rights_are_given_to_somebody(rest: str, paths: list[str]) -> None:
    """No role, subject or subject's namespace that came out empty."""
    found = told(object_text(rest, kind=ROLE_BINDING))
    assert [line.split(" ")[1] for line in found] == paths


@pytest.mark.parametrize(("length", "fits"), [(metadata.MAX_ANNOTATIONS - 1, True), (metadata.MAX_ANNOTATIONS, False)])
def test_annotations_have_a_limit_together(length: int, fits: bool) -> None:  # noqa: FBT001
    """Keys count too, and characters as the bytes that they are."""
    half = "ä" * (length // 4)
    fill = "x" * (length - 2 * (length // 4) - 1)
    text = object_text("  annotations: {{ {'a': values.half, 'b': values.fill} | q }}\n")
    if fits:
        assert document(text, fleet={"half": half, "fill": fill})["metadata"]["annotations"]["a"] == half
    else:
        (only,) = told(text, fleet={"half": half, "fill": fill})
        assert f"holds {metadata.MAX_ANNOTATIONS + 1} bytes, over Kubernetes' limit of 262144" in only


def test_a_config_map_has_a_limit() -> None:
    """Of one MiB of keys and values; a document has a lower one of its own, so base64 and escapes count as written."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    assert list(metadata.faults({**body, "data": {"a": "x" * (2**20 - 1)}}, "team-a")) == []
    (only,) = metadata.faults({**body, "data": {"a": "x" * 2**20}}, "team-a")
    assert only.what == "the ConfigMap holds 1048577 bytes, over Kubernetes' limit of 1048576"
    assert (
        "over the limit of 900000"
        in told(object_text("data: {{ {'a': values.a} | q }}\n"), fleet={"a": "x" * 900_000})[0]
    )


@pytest.mark.parametrize("target", ["team-b", "", "kube-system"])
def test_an_object_stays_in_its_namespace(target: str) -> None:
    """An empty namespace is not ours either."""
    (only,) = told(object_text(f"  namespace: '{target}'\n"))
    assert only.startswith(
        f"one.yaml.j2:5: metadata.namespace the object is for namespace '{target}', not for 'team-a'"
    )
    assert (
        document(object_text("  namespace: {{ namespace.name | q }}\n"), namespace("team-b"))["metadata"]["namespace"]
        == "team-b"
    )
