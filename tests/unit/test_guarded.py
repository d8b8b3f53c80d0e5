"""A law: nothing that a tenant may set reaches permissions, images, security contexts, or where pods run.

Tenants set what `namespaceValues` lists, and labels and annotations of their namespaces if they may. The values are made
from the set's own schema, so one that is added later is covered by itself.
"""
# ruff: noqa: E501 - tables: a row is a line

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from metaoperator import sources
from metaoperator.core import names, render, values
from metaoperator.core.errors import ValuesError
from metaoperator.core.model import Manifest, TemplateSet
from tests.unit.builders import SHIPPED, TEXT, desired, namespace, object_text, template_set

SET = sources.template_set(SHIPPED)
PROGRAM = render.Program(SET)
GUARDED_KINDS = {"Role", "RoleBinding", "ServiceAccount", "NetworkPolicy", "PodDisruptionBudget"}
GUARDED = {
    "affinity", "artifactDrivers", "artifactRepository", "automountServiceAccountToken", "command",
    "dnsConfig", "dnsPolicy", "envFrom", "ephemeralContainers", "executor", "executorImage", "hostAliases", "hostIPC",
    "hostNetwork", "hostPID", "hostPath", "hostUsers", "image", "imagePullPolicy", "imagePullSecrets", "images",
    "initContainers", "instanceID", "kubeConfig", "labels", "lifecycle", "livenessProbe", "mainContainer", "nodeName",
    "nodeSelector", "persistence", "ports", "priorityClassName", "readinessProbe", "replicas", "runtimeClassName",
    "schedulerName", "securityContext", "selector", "serviceAccount", "serviceAccountName", "sidecars", "sso", "startupProbe",
    "strategy", "synchronization", "tolerations", "topologySpreadConstraints", "volumeDevices", "volumeMounts", "volumes",
    "workflowDefaults", "workflowRestrictions",
}  # fmt: skip
PATHS = sorted(SET.namespace_values)
TRIES = max(25, settings.default.max_examples // 4) if settings.default else 25


def guarded(documents: tuple[Manifest, ...]) -> list[Any]:
    """Take out of objects all that no tenant may decide, the configuration in ConfigMaps included."""
    found: list[Any] = []
    for document in documents:
        body = dict(document)
        meta = dict(body["metadata"])
        meta["annotations"] = {
            key: text for key, text in meta["annotations"].items() if key != names.RENDERED_ANNOTATION
        }
        body["metadata"] = meta
        found += [body] if body["kind"] in GUARDED_KINDS else [(body["kind"], meta["name"], list(_fields(body)))]
    return found


def _fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[Any]:
    if isinstance(value, str) and path[:1] == ("data",):
        value = yaml.safe_load(value)
    if isinstance(value, Mapping):
        for key, below in value.items():
            if key in GUARDED:
                yield (*path, key), below
            else:
                yield from _fields(below, (*path, key))
    elif isinstance(value, list):
        for at, below in enumerate(value):
            yield from _fields(below, (*path, at))
    elif isinstance(value, str) and (
        "image" in value or "namespace" in value
    ):  # an argument such as --executor-image=…
        yield path, value
    elif isinstance(value, str) and value.startswith("-") and not value.startswith("--gloglevel="):
        yield "argument", value.partition("=")[0]  # its name: whoever may add one may add each; log.klog adds that one


# Values as the schema allows them


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    while isinstance(schema, Mapping) and "$ref" in schema:
        here: Any = root
        reference = schema["$ref"]
        if reference.startswith("#"):
            for step in reference.removeprefix("#/").split("/"):
                here = here[step]
        else:
            here = next(each for each in root["$defs"].values() if each.get("$id") == reference)
        schema = here
    return schema if isinstance(schema, Mapping) else {}


def strategy(schema: Any, root: Mapping[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Make values that a schema takes, as far as its own keywords say."""
    schema = _resolved(schema, root)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return st.one_of([strategy(each, root, depth) for each in schema[key]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    return st.one_of([_of_type(kind, schema, root, depth) for kind in ([kinds] if isinstance(kinds, str) else kinds)])


def _of_type(kind: str, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> st.SearchStrategy[Any]:
    if kind == "boolean":
        return st.booleans()
    if kind == "null":
        return st.none()
    if kind == "integer":
        return st.integers(schema.get("minimum", 0), schema.get("maximum", 10**6))
    if kind == "number":
        low, high = schema.get("minimum", schema.get("exclusiveMinimum", 0)), schema.get("maximum", 10**6)
        return st.floats(low, high, exclude_min="exclusiveMinimum" in schema, allow_nan=False)
    if kind == "string":
        if "pattern" in schema:
            return st.from_regex(schema["pattern"]).map(lambda text: text.removesuffix("\n"))
        return st.text(min_size=schema.get("minLength", 0), max_size=9).map("marker-{}".format)
    if depth > 4:
        return st.just([] if kind == "array" else {})
    if kind == "array":
        return st.lists(strategy(schema.get("items", {}), root, depth + 1), max_size=2)
    own = {key: strategy(each, root, depth + 1) for key, each in schema.get("properties", {}).items()}
    required = {key: own.pop(key) for key in schema.get("required", ()) if key in own}
    whole = st.fixed_dictionaries(required, optional=own)
    others = schema.get("additionalProperties")
    if not isinstance(others, Mapping):
        return whole
    free = st.dictionaries(
        strategy({"type": "string", **schema.get("propertyNames", {})}, root),
        strategy(others, root, depth + 1),
        max_size=2,
    )
    return st.builds(lambda one, two: {**two, **one}, whole, free)


def at(path: str, schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Make values for a dotted path, as a namespace would write them."""
    below: Any = schema
    steps = path.split(".")
    for step in steps:
        below = _resolved(below, schema)["properties"][step]

    def nest(value: Any) -> Any:
        for step in reversed(steps):
            value = {step: value}
        return value

    return strategy(below, schema).map(nest)


def holds(whole: TemplateSet, path: str) -> list[bool]:
    """Play a path with many values; returns for each whether anything at all was rendered in another way."""
    program = render.Program(whole)
    before = desired(program)
    differed: list[bool] = []

    @settings(max_examples=TRIES, report_multiple_bugs=False)  # one fault, told as what it is
    @given(at(path, whole.schema))
    def play(own: Any) -> None:
        try:
            after = desired(program, own=own)
        except ValuesError:  # what only the whole schema, or a relation, refuses
            reject()
        assert guarded(after.documents) == guarded(before.documents)
        differed.append(after.revision != before.revision)

    play()
    return differed


@pytest.mark.parametrize("path", PATHS)
def test_no_value_of_a_tenants_reaches_a_guarded_field(path: str) -> None:
    """Whatever the schema takes there; and it does reach something, so that the claim is not empty."""
    assert any(holds(SET, path)), path


@given(st.dictionaries(TEXT, TEXT, max_size=3), st.dictionaries(TEXT, TEXT, max_size=3))
def test_no_label_or_annotation_reaches_a_guarded_field(labels: dict[str, str], annotations: dict[str, str]) -> None:
    """Nor anything else: the shipped set reads none."""
    found = desired(PROGRAM, namespace(labels=labels, annotations=annotations))
    assert guarded(found.documents) == guarded(desired(PROGRAM).documents)


def test_a_listed_path_is_one_that_the_schema_knows() -> None:
    """A path that leads nowhere would be tried in vain."""
    for path in PATHS:
        assert at(path, SET.schema) is not None


@pytest.mark.parametrize(
    "rest",
    [
        "spec: {template: {spec: {containers: [{name: c, image: {{ values.x | q }}}]}}}\n",
        "spec: {template: {spec: {serviceAccountName: {{ values.x | q }}}}}\n",
        "spec: {template: {spec: {securityContext: {seLinuxOptions: {level: {{ values.x | q }}}}}}}\n",
        "spec: {template: {spec: {volumes: [{name: v, hostPath: {path: {{ values.x | q }}}}]}}}\n",
        "spec: {template: {spec: {containers: [{name: c, args: [{{ ('--executor-image=' ~ values.x) | q }}]}]}}}\n",
        "spec: {template: {spec: {containers: [{name: c, args: [{{ ('--managed-namespace=' ~ values.x) | q }}]}]}}}\n",
        "spec: {template: {spec: {containers: [{name: c, args: [{{ ('--' ~ values.x) | q }}]}]}}}\n",
        "spec: {template: {spec: {containers: [{name: c, livenessProbe: {exec: {command: [{{ values.x | q }}]}}}]}}}\n",
        "spec: {template: {metadata: {labels: {a: {{ ('a' ~ values.x ~ 'a') | q }}}}}}\n",
        "data: {config: {{ {'instanceID': values.x} | to_yaml | q }}}\n",
        "data: {config: {{ {'executor': {'securityContext': values.x}} | to_yaml | q }}}\n",
        "data: {config: {{ {'workflowDefaults': {'spec': values.x}} | to_yaml | q }}}\n",
    ],
)
def test_the_law_finds_a_value_that_does(rest: str) -> None:
    """In each sort of field: so that it is not the law that is blind."""
    whole = template_set(
        {"one.yaml.j2": object_text(rest)},
        defaults={"x": "safe"},
        schema={"type": "object", "properties": {"x": {"type": "string"}}},
        namespace_values=frozenset({"x"}),
    )
    with pytest.raises(AssertionError):
        holds(whole, "x")


def test_values_that_are_not_listed_are_refused() -> None:
    """Images, rights and security contexts are not among what a namespace may set."""
    for path in (
        "images",
        "images.controller",
        "podLabels",
        "extraEnv",
        "config.sso",
        "config.workflowDefaults",
        "version",
    ):
        assert values.forbidden(_nested(path), SET.namespace_values) == (path,)


def _nested(path: str) -> dict[str, Any]:
    value: Any = "marker"
    for step in reversed(path.split(".")):
        value = {step: value}
    return value  # type: ignore[no-any-return]
