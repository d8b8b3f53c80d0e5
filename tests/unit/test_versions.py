"""Which Argo versions a set is for, since when its values are known, and values that have to be right together."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaoperator import sources
from metaoperator.core import relations, versions
from metaoperator.core.errors import TemplateError, ValuesError
from metaoperator.core.model import ArgoVersions, Relation
from metaoperator.core.render import Program
from tests.unit.builders import SHIPPED, desired, object_text, template_set, write_set

RANGE = ArgoVersions(min="v3.6.0", below="v4.2.0", since={"a.b": "v4.0.0", "c": "v4.1.0"})
SET = sources.template_set(SHIPPED)
PROGRAM = Program(SET)


def told(values: dict[str, Any], defaults: dict[str, Any] | None = None) -> list[str]:
    """Hold values to the range above."""
    return [str(each) for each in versions.problems(RANGE, values, defaults or {})]


@pytest.mark.parametrize("version", ["v3.6.0", "v3.6.19", "v4.0.5", "v4.1.2", "v4.1.0-rc1"])
def test_a_version_in_the_range_is_taken(version: str) -> None:
    """From `min` on and before `below`."""
    assert told({"version": version}) == []


@pytest.mark.parametrize("version", ["v3.5.15", "v4.2.0", "v4.2.0-rc1", "v10.0.0"])
def test_a_version_outside_of_the_range_is_refused_with_the_range(version: str) -> None:
    """Compared by numbers, not by text."""
    (only,) = told({"version": version})
    assert only == (f"values.version: {version} is not supported (choose one from v3.6.0 on and before v4.2.0)")


@pytest.mark.parametrize("version", ["latest", "4.0.5", "v4.0", "v4.0.5 ", "v4.0.5\n", "", None, 4, {}, "v\u0664.0.5"])
def test_what_is_no_version_is_refused(version: Any) -> None:
    """Whatever it is, without a traceback."""
    (only,) = told({"version": version})
    assert "is no version (write it like v4.1.2)" in only


def test_a_value_that_the_version_does_not_know_names_the_version_that_does() -> None:
    """At any depth; and every one of them at once."""
    assert told({"version": "v3.7.18", "a": {"b": 1, "x": 2}, "c": False}) == [
        "values.a.b: needs Argo v4.0 or newer, and version is v3.7.18 (leave it out, or raise version)",
        "values.c: needs Argo v4.1 or newer, and version is v3.7.18 (leave it out, or raise version)",
    ]
    assert told({"version": "v4.0.5", "a": {"b": 1}}) == []
    assert told({"version": "v4.1.0", "a": {"b": 1}, "c": 1}) == []


def test_a_value_that_stands_as_the_set_has_it_is_always_known() -> None:
    """A default that switches something off is rendered for no version."""
    assert told({"version": "v3.6.0", "c": False}, {"c": False}) == []
    assert told({"version": "v3.6.0", "a": "text"}) == []


@pytest.mark.parametrize("path", sorted(SET.argo_versions.since if SET.argo_versions else {}))
def test_every_value_of_the_shipped_table_exists(path: str) -> None:
    """A misspelt path in the table would guard nothing."""
    schema: Any = SET.schema
    for step in path.split("."):
        schema = schema["properties"][step]
    assert schema["description"]


ABOUT = "kinds:\n  - apiVersion: v1\n    kind: ConfigMap\n"


@pytest.mark.parametrize(
    ("rest", "fault"),
    [
        ("argoVersions: v4\n", "argoVersions is not what it has to be"),
        ("argoVersions: {min: v3.6.0, below: v4.2.0, sinec: {}}\n", "argoVersions is not what it has to be"),
        ("argoVersions: {min: v3.6.0}\n", "argoVersions: None is no version"),
        ("argoVersions: {min: v3, below: v4.2.0}\n", "argoVersions: v3 is no version"),
        ("argoVersions: {min: v3.6.0, below: v4.2.0, since: {a: 4}}\n", "argoVersions: 4 is no version"),
        ("argoVersions: {min: v3.6.0, below: v4.2.0, since: [a]}\n", "argoVersions: None is no version"),
        ("relations: {a: b}\n", "relations must list what holds"),
        ("relations: [{holds: a, at: b}]\n", "relations must list what holds"),
        ("relations: [{holds: 1, at: b, otherwise: c}]\n", "relations must list what holds"),
        ("namespacevalues: [a]\n", "namespacevalues is not known (what it may hold: argoVersions, description"),
    ],
)
def test_a_table_at_fault_is_told(tmp_path: Path, rest: str, fault: str) -> None:
    """With the file, and what it has to be."""
    folder = write_set(tmp_path / "mine", template_yaml=ABOUT + rest)
    with pytest.raises(TemplateError) as caught:
        sources.template_set(folder)
    (only,) = caught.value.problems
    assert str(only).startswith(f"mine/template.yaml: {fault}")


def test_a_relation_that_is_no_expression_is_a_fault_of_the_set() -> None:
    """Told when the set is loaded, not when it is used."""
    with pytest.raises(TemplateError, match=r"template\.yaml: relations: "):
        Program(template_set(relations=(Relation(holds="values.a >", at="a", otherwise="x"),)))


def test_a_broken_relation_is_told_with_its_cure() -> None:
    """All of them at once, after the schema had its say."""
    rules = (
        Relation(holds="values.a > values.b", at="a", otherwise="is not above b", cure="raise it"),
        Relation(holds="values.a > 5", at="a", otherwise="is small"),
    )
    with pytest.raises(ValuesError) as caught:
        desired(template_set({"one.yaml.j2": object_text()}, relations=rules, defaults={"a": 1, "b": 2}))
    assert [str(each) for each in caught.value.problems] == [
        "values.a: is not above b (raise it)",
        "values.a: is small",
    ]


def test_a_relation_that_ends_in_an_error_is_told_as_the_sets_fault() -> None:
    """An undefined value is not taken for a relation that holds."""
    rules = (Relation(holds="values.nothing > 1", at="a", otherwise="x"),)
    with pytest.raises(ValuesError, match=r"template\.yaml: relation 'values\.nothing > 1'"):
        desired(template_set({"one.yaml.j2": object_text()}, relations=rules))


def test_a_relation_that_ends_in_an_error_hides_none_of_the_others() -> None:
    """Those before it, those behind it, and each with its own words."""
    rules = (
        Relation(holds="values.a > 5", at="a", otherwise="is small"),
        Relation(holds="values.nothing > 1", at="a", otherwise="x"),
        Relation(holds="values.nothing", at="a", otherwise="x"),
        Relation(holds="values.a is defined", at="a", otherwise="x"),
        Relation(holds="values.a > 7", at="a", otherwise="is still small"),
    )
    with pytest.raises(ValuesError) as caught:
        desired(template_set({"one.yaml.j2": object_text()}, relations=rules, defaults={"a": 1}))
    assert [str(each) for each in caught.value.problems] == [
        "values.a: is small",
        "template.yaml: relation 'values.nothing > 1': values has no 'nothing'",
        "template.yaml: relation 'values.nothing': values has no 'nothing'",
        "values.a: is still small",
    ]


def test_each_relation_has_a_budget_of_its_own() -> None:
    """Two that are dear hold as one does, and one that is too dear is the only one told."""
    dear = Relation(holds="range(90000) | length > 0", at="a", otherwise="x")
    assert desired(template_set({"one.yaml.j2": object_text()}, relations=(dear,) * 3)).documents
    far = Relation(holds="range(99999) | list | list | list | list | list | length > 0", at="a", otherwise="x")
    with pytest.raises(ValuesError) as caught:
        desired(template_set({"one.yaml.j2": object_text()}, relations=(dear, far, dear)))
    (only,) = caught.value.problems
    assert f"relation {far.holds!r}: does more than" in str(only)


def test_all_relations_together_end() -> None:
    """Many that are dear are told after a few of them, and not in a minute."""
    dear = Relation(holds="range(90000) | list | list | list | length < 0", at="a", otherwise="x")
    with pytest.raises(ValuesError) as caught:
        desired(template_set({"one.yaml.j2": object_text()}, relations=(dear,) * 90))
    assert len(caught.value.problems) < 10
    assert any("are not looked at" in str(each) for each in caught.value.problems)


@pytest.mark.parametrize(
    ("holds", "fault"), [("(" * 5000 + "1" + ")" * 5000, "nested too deeply"), ("9" * 5000, "cannot be compiled")]
)
def test_a_relation_that_is_too_much_is_a_fault_of_the_set(holds: str, fault: str) -> None:
    """As with templates: Python's own limits are no traceback."""
    with pytest.raises(TemplateError, match=rf"template\.yaml: relations: .*{fault}"):
        Program(template_set(relations=(Relation(holds=holds, at="a", otherwise="x"),)))


def test_a_set_has_some_relations_and_not_thousands(tmp_path: Path) -> None:
    """Each one is compiled."""
    each = "  - {holds: 'true', at: a, otherwise: x}\n"
    with pytest.raises(TemplateError, match="has 101 relations, over the limit of 100"):
        sources.template_set(write_set(tmp_path / "mine", template_yaml=f"{ABOUT}relations:\n{each * 101}"))


def test_no_relation_sees_another_ones_value() -> None:
    """Not by any name that an expression can have."""
    rules = tuple(Relation(holds=f"{name} is not defined", at="a", otherwise="x") for name in ("result", "_0", "l_0_0"))
    first = Relation(holds="true", at="a", otherwise="x")
    assert desired(template_set({"one.yaml.j2": object_text()}, relations=(first, *rules))).documents


@pytest.mark.parametrize(
    ("text", "value"), [("1s", 1), ("1m30s", 90), ("1.5h", 5400), ("250ms", 0.25), ("0s", 0), ("1h1m1s1ms", 3661.001)]
)
def test_a_duration_is_read_as_go_writes_it(text: str, value: float) -> None:
    """Units and fractions."""
    assert relations.seconds(text) == pytest.approx(value)


@given(st.text(max_size=8))
def test_what_is_no_duration_is_no_number_of_seconds(text: str) -> None:
    """Any text is a duration or a ValueError."""
    try:
        assert relations.seconds(text) >= 0
    except ValueError:
        return
    assert text[-1] in "smh"


@pytest.mark.parametrize(
    ("fleet", "fault"),
    [
        (
            {"leaderElection": {"leaseDuration": "20s"}},
            "values.leaderElection.leaseDuration: must be above renewDeadline",
        ),
        ({"leaderElection": {"retryPeriod": "17s"}}, "values.leaderElection.renewDeadline: must be above 1.2"),
        ({"leaderElection": {"retryPeriod": "0s"}}, "values.leaderElection: a Lease lasts whole seconds"),
        (
            {"leaderElection": {"leaseDuration": "900ms", "renewDeadline": "800ms", "retryPeriod": "100ms"}},
            "values.leaderElection: a Lease lasts whole seconds",
        ),
        ({"api": {"qps": 31}}, "values.api.burst: is below qps"),
        (
            {"metrics": {"enabled": False}, "podMonitor": {"enabled": True}},
            "values.podMonitor.enabled: there is nothing",
        ),
        ({"workflowLevelExecutorPlugins": True}, "values.workflowLevelExecutorPlugins: a Workflow can choose no"),
        (
            {"config": {"persistence": {"nodeStatusOffLoad": True}}},
            "values.config.persistence: nodeStatusOffLoad needs",
        ),
        (
            {"config": {"synchronization": {"controllerName": "a"}}},
            "values.config.synchronization.controllerName: has to",
        ),
    ],
)
def test_values_of_the_shipped_set_that_do_not_go_together_are_refused(fleet: dict[str, Any], fault: str) -> None:
    """Before anything is written, with a cure."""
    with pytest.raises(ValuesError) as caught:
        desired(PROGRAM, fleet=fleet)
    (only,) = caught.value.problems
    assert str(only).startswith(fault)
    assert only.cure


LATER: dict[str, dict[str, Any]] = {
    "config.synchronization": {"config": {"synchronization": {}}},
    "config.synchronization.enableAPI": {"config": {"synchronization": {"enableAPI": True}}},
    "config.artifactDrivers": {"config": {"artifactDrivers": []}},
    "config.failedPodRestart": {"config": {"failedPodRestart": {}}},
    "config.initlessPod": {"config": {"initlessPod": {"enabled": True}}},
    "config.disableAgentPodCreation": {"config": {"disableAgentPodCreation": True}},
    "config.persistence.reconnectionConfig": {"config": {"persistence": {"reconnectionConfig": {}}}},
    "config.persistence.connectionTimeoutSeconds": {"config": {"persistence": {"connectionTimeoutSeconds": 5}}},
    "config.persistence.postgresql.azureToken": {"config": {"persistence": {"postgresql": {"azureToken": {}}}}},
    "config.persistence.postgresql.awsRDSToken": {"config": {"persistence": {"postgresql": {"awsRDSToken": {}}}}},
    "workflowLevelExecutorPlugins": {"workflowLevelExecutorPlugins": True, "executorPlugins": True},
}
FIRST = {"v3.6": "v3.6.19", "v3.7": "v3.7.18", "v4.0": "v4.0.5", "v4.1": "v4.1.2"}


@pytest.mark.parametrize("version", FIRST.values())
@pytest.mark.parametrize("path", LATER)
def test_what_a_version_does_not_know_is_refused_before_it_and_taken_from_it_on(path: str, version: str) -> None:
    """Each key and flag that a version since v3.6 brought."""
    assert SET.argo_versions is not None
    since = FIRST[SET.argo_versions.since[path].rpartition(".")[0]]
    if version >= since:
        assert desired(PROGRAM, fleet={"version": version} | LATER[path]).version == version
        return
    with pytest.raises(ValuesError) as caught:
        desired(PROGRAM, fleet={"version": version} | LATER[path])
    needed = since.rpartition(".")[0]
    wanted = f"values.{path}: needs Argo {needed} or newer, and version is {version}"
    assert [str(each) for each in caught.value.problems if str(each).startswith(wanted)]
