"""ControllerTemplates on a real API server: which sources it takes, and how it shows them."""

from typing import Any

import pytest

from metaoperator.core import names

from .world import World

PATH = f"/apis/{names.API_VERSION}/controllertemplates"


def template(source: Any, **meta: str) -> dict[str, Any]:
    """Write one."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ControllerTemplate",
        "metadata": {"name": "fleet", **meta},
        "spec": {"source": source},
    }


@pytest.mark.parametrize(
    "source",
    [
        {"directory": "workflow-controller"},
        {"configMap": {"names": ["fleet"]}},
        {"configMap": {"names": [f"fleet-{number}.v1" for number in range(16)]}},
    ],
    ids=str,
)
def test_either_source_is_taken(source: Any, world: World) -> None:
    """With a namespace too, as kustomize writes it: the kind has none, and it is taken off."""
    code, answer = world.send("POST", f"{PATH}?dryRun=All", template(source, namespace="metaoperator"))
    assert code == 201, answer
    assert answer["spec"]["source"] == source
    assert "namespace" not in answer["metadata"]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({}, "exactly one source"),
        ({"directory": "a", "configMap": {"names": ["b"]}}, "exactly one source"),
        ({"configMap": {}}, "spec.source.configMap.names: Required value"),
        ({"configMap": {"names": []}}, "at least 1 items"),
        ({"configMap": {"names": ["a", "a"]}}, "Duplicate value"),
        ({"configMap": {"names": [f"a{number}" for number in range(17)]}}, "at most 16 items"),
        ({"configMap": {"names": ["team-a/fleet"]}}, "should match"),
        ({"configMap": {"names": ["../fleet"]}}, "should match"),
        ({"configMap": {"names": [""]}}, "at least 1 chars long"),
    ],
    ids=str,
)
def test_any_other_source_is_refused_in_words(source: Any, told: str, world: World) -> None:
    """Both, none, and what is no name of a ConfigMap in the operator's namespace."""
    code, answer = world.send("POST", f"{PATH}?dryRun=All", template(source))
    assert code == 422, answer
    assert told in answer["message"]


@pytest.mark.parametrize(
    ("source", "shown"),
    [({"directory": "mine"}, "mine"), ({"configMap": {"names": ["mine"]}}, '{"names":["mine"]}')],
    ids=["directory", "configMap"],
)
def test_the_source_is_a_column_whichever_it_is(source: Any, shown: str, world: World) -> None:
    """As `kubectl get controllertemplates` prints it."""
    assert world.send("POST", PATH, template(source))[0] == 201
    try:
        (row,) = world.kubectl("get", "controllertemplates", "fleet", "--no-headers").splitlines()
        assert shown in row.split()
    finally:
        assert world.send("DELETE", f"{PATH}/fleet")[0] == 200
