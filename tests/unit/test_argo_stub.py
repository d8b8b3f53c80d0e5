"""The stub controller of each version: what the set renders for a version starts on it, and what is broken does not."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaoperator import sources
from metaoperator.core import names
from metaoperator.core.errors import ValuesError
from metaoperator.core.model import Desired, Manifest, Namespace
from metaoperator.core.render import Program
from tests.argo import cases, controller, tables
from tests.unit.builders import SHIPPED, desired, namespace

ROOT = Path(__file__).parents[2]
SET = sources.template_set(SHIPPED)
PROGRAM = Program(SET)
GOLDEN = sorted(path.parent for path in (ROOT / "tests" / "golden").glob("*/namespace.yaml"))


def only(documents: tuple[Manifest, ...], kind: str) -> Any:
    """Find the one document of a kind."""
    (found,) = [each for each in documents if each["kind"] == kind]
    return found


def started(made: Desired) -> controller.Started:
    """Start the stub of a rendering's version as its Deployment says."""
    childs = tuple(each for each in made.documents if each["metadata"]["name"] != names.ARGO_SERVER)
    (container,) = only(childs, "Deployment")["spec"]["template"]["spec"]["containers"]
    env = {each["name"]: each.get("value", "from elsewhere") for each in container["env"]}
    return controller.start(
        made.version, args=container["args"], env=env, data=only(made.documents, "ConfigMap")["data"]
    )


def read(case: Path, name: str) -> dict[str, Any]:
    """Read one input of a golden case."""
    return sources.values_file(case / name) if (case / name).exists() else {}


@pytest.mark.parametrize("case", [*cases.READING, *cases.IDS, *cases.STARTING], ids=lambda case: case.name)
def test_it_answers_as_the_real_one_did(case: cases.Case) -> None:
    """The table holds the answers of workflow-controller v4.0.5."""
    try:
        found = controller.start(cases.VERSION, args=case.args, env=case.env, data=case.data)
    except controller.Refused:
        assert not case.starts
        return
    assert case.starts
    assert found.lease is not None
    assert case.lease in ("", found.lease)


@pytest.mark.parametrize("version", tables.VERSIONS)
def test_it_knows_each_key_of_its_version_and_no_other(version: str) -> None:
    """Right ones are read, misspelt ones and wrong types end it."""
    asked = [case for case in cases.every_key(version) if case.starts is not None]
    assert len(asked) > 300
    wrong = []
    for case in asked:
        try:
            controller.start(version, args=(), env=case.env, data=case.data)
            starts = True
        except controller.Refused:
            starts = False
        if starts != case.starts:
            wrong.append(case.name)
    assert wrong == []


RENDERED = [
    pytest.param(case, version, id=f"{case.name} {version}")
    for case in GOLDEN
    for version in tables.VERSIONS
    if read(case, "fleet.yaml").get("version", version) == version
]


@pytest.mark.parametrize(("case", "version"), RENDERED)
def test_each_golden_rendering_starts_on_its_version(case: Path, version: str) -> None:
    """For the version that it names, or else for each; under the Lease that the operator looks for."""
    fleet = read(case, "fleet.yaml")
    where = Namespace.of(read(case, "namespace.yaml"))
    made = desired(PROGRAM, where, fleet={"version": version} | fleet, own=read(case, "values.yaml"))
    found = started(made)
    assert found.lease == f"workflow-controller-{where.name}"
    assert found.config["instanceID"] == where.name


def values_of(schema: Mapping[str, Any], path: str = "") -> st.SearchStrategy[Any]:
    """Make values that the schema takes, with few keys at once."""
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "boolean":
            return st.booleans()
        case "integer":
            low = schema.get("minimum", 0)
            return st.integers(low, min(schema.get("maximum", 10_000), 10_000))
        case "number":
            return st.floats(0.5, 400, allow_nan=False)
        case "string":
            return _text(schema)
        case "array":
            return st.lists(values_of(schema.get("items", {"type": "string"}), path), max_size=2)
        case "object" if "properties" in schema:
            required = {
                key: values_of(schema["properties"][key], f"{path}.{key}") for key in schema.get("required", ())
            }
            rest = {
                key: values_of(each, f"{path}.{key}")
                for key, each in schema["properties"].items()
                if key not in required
            }
            return st.fixed_dictionaries(required, optional=rest)
    return st.just({})


def _text(schema: Mapping[str, Any]) -> st.SearchStrategy[str]:
    if "pattern" in schema:
        return st.from_regex(schema["pattern"].replace("$", r"\Z"), fullmatch=True).filter(lambda text: len(text) < 60)
    odd = st.sampled_from(
        ["null", "0123", "1e3", "on", "a: b", "# a", "- a", '"', "2024-01-01", "{{workflow.name}}", "\n"]
    )
    return odd | st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)


CONFIG: Any = SET.schema["properties"]["config"]
FREE = ("workflowDefaults", "executor", "mainContainer", "artifactRepository")
CONFIGS = values_of(
    {**CONFIG, "properties": {key: each for key, each in CONFIG["properties"].items() if key not in FREE}}
)


@given(
    version=st.sampled_from(tables.VERSIONS), config=CONFIGS, name=st.sampled_from(["team-a", "0123", "null", "1e3"])
)
def test_whatever_the_set_takes_starts(version: str, config: dict[str, Any], name: str) -> None:
    """Values that are not refused make a child that starts, on each version; its ID is its namespace's name."""
    try:
        made = desired(PROGRAM, namespace(name), fleet={"version": version, "config": config})
    except ValuesError:
        return
    assert started(made).lease == f"workflow-controller-{name}"


LEASE = {"leaseDuration": "30s", "renewDeadline": "20s", "retryPeriod": "10s"}
TIMES = st.sampled_from(["0s", "1s", "5s", "8s", "10s", "12s", "12.1s", "15s", "20s", "1m", "900ms", "1h"])


@given(st.fixed_dictionaries(dict.fromkeys(LEASE, TIMES)))
def test_whatever_timing_the_set_takes_starts(timing: dict[str, str]) -> None:
    """The relations of the set are those of the election."""
    try:
        made = desired(PROGRAM, fleet={"leaderElection": timing})
    except ValuesError:
        return
    assert started(made).lease


@pytest.mark.parametrize(
    ("version", "data", "word"),
    [
        ("v3.6.19", {"synchronization": {}}, "synchronization"),
        ("v3.7.18", {"failedPodRestart": {}}, "failedPodRestart"),
        ("v3.7.18", {"synchronization": {"enableAPI": True}}, "enableAPI"),
        ("v4.0.5", {"initlessPod": {}}, "initlessPod"),
        ("v4.0.5", {"persistence": {"postgresql": {"awsRDSToken": {}}}}, "awsRDSToken"),
        ("v4.1.2", {"instanceIDs": "a"}, "instanceIDs"),
    ],
)
def test_what_a_version_does_not_know_ends_it(version: str, data: Any, word: str) -> None:
    """With the key in its last words."""
    with pytest.raises(controller.Refused, match=f'unknown field "{word}"'):
        controller.start(version, args=(), env=cases.IDENTITY, data={"config": json.dumps(data)})


@pytest.mark.parametrize(
    ("version", "flag", "starts"),
    [
        ("v4.0.5", "--workflow-level-executor-plugins", False),
        ("v4.1.2", "--workflow-level-executor-plugins", True),
        ("v3.6.19", "--loglevel=warning", True),
        ("v4.0.5", "--loglevel=warning", False),
        ("v3.6.19", "--workflow-archive-workers=3", True),
    ],
)
def test_flags_and_levels_are_those_of_the_version(version: str, flag: str, starts: bool) -> None:  # noqa: FBT001
    """An unknown one is fatal."""
    try:
        controller.start(version, args=[flag], env=cases.IDENTITY, data={})
    except controller.Refused:
        assert not starts
    else:
        assert starts


def test_each_flag_is_a_variable_too() -> None:
    """Which is why the set lets no value write those that would move the child elsewhere."""
    with pytest.raises(controller.Refused, match="burst"):
        controller.start("v4.0.5", args=(), env=cases.IDENTITY | {"ARGO_BURST": "many"}, data={})


@pytest.mark.parametrize("text", ["instanceID: a", "bogus: a"])
def test_it_is_a_process_too(tmp_path: Path, text: str) -> None:
    """It runs until it is told to end, or ends at once with 1."""
    file = tmp_path / "data.json"
    file.write_text(json.dumps({"config": text}))
    command = [sys.executable, "-m", "tests.argo", "v4.0.5", str(file), "--namespaced"]
    env = {**os.environ, **cases.IDENTITY}
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        if text == "bogus: a":
            assert 'unknown field "bogus"' in process.stderr.read()
            assert process.wait(60) == 1
            return
        assert "Configuration updated" in process.stdout.readline()
        assert "lease=workflow-controller-a" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
