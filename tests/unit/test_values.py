"""Values in layers: how they merge, what a namespace may set, and how faults are told."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaoperator.core import values
from metaoperator.core.errors import ValuesError
from tests.unit.builders import JSON_OBJECTS, SCALARS, template_set

KEYS = st.sampled_from("abc")
LEAVES = SCALARS.filter(lambda value: value is not None) | st.lists(SCALARS, max_size=2)


def trees(depth: int = 3) -> st.SearchStrategy[dict[str, Any]]:
    """Build mappings in which the same path is a mapping in each, or a leaf in each: as one schema has it."""
    if depth == 0:
        return st.dictionaries(KEYS, LEAVES, max_size=3)
    return st.fixed_dictionaries({}, optional={"leaf": LEAVES, "a": trees(depth - 1), "b": trees(depth - 1)})


def without_nulls(value: Any) -> bool:
    """Tell whether no mapping in it, at any depth, holds a null."""
    return not isinstance(value, dict) or all(item is not None and without_nulls(item) for item in value.values())


@pytest.mark.parametrize(
    ("base", "over", "merged"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {"a": {"x": 1, "y": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"x": 1}}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": {"x": 1}}, {"a": {}}, {"a": {"x": 1}}),
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": None}}, {"a": {"y": 2}}),
        ({}, {"a": None}, {}),
        ({}, {"a": {"x": None, "y": 1}}, {"a": {"y": 1}}),
        ({"a": 1}, {"a": {"x": None}}, {"a": {}}),
        ({"a": True}, {"a": False}, {"a": False}),
        ({"a": 1}, {"a": ""}, {"a": ""}),
        ({}, {"a": [None]}, {"a": [None]}),
    ],
    ids=str,
)
def test_mappings_merge_and_anything_else_is_replaced(base: Any, over: Any, merged: Any) -> None:
    """Key by key at every depth; a list is replaced whole, a null removes."""
    assert values.merge(base, over) == merged


@given(trees())
def test_an_empty_layer_changes_nothing(tree: dict[str, Any]) -> None:
    """The empty mapping is neutral below and above."""
    assert values.merge(tree, {}) == tree
    assert values.merge({}, tree) == tree


@given(trees(), trees(), trees())
def test_layers_may_be_merged_in_either_grouping(one: Any, two: Any, three: Any) -> None:
    """Without nulls, and where a path is a mapping in every layer or in none, grouping does not matter."""
    assert values.merge(values.merge(one, two), three) == values.merge(one, values.merge(two, three))


@given(trees(), trees())
def test_the_upper_layer_wins(one: Any, two: Any) -> None:
    """Laying the same values on once more changes nothing."""
    merged = values.merge(one, two)
    assert values.merge(merged, two) == merged


@given(JSON_OBJECTS, JSON_OBJECTS)
def test_neither_layer_is_changed(base: Any, over: Any) -> None:
    """Layers are shared by a thousand namespaces."""
    before = copy.deepcopy((base, over))
    values.merge(base, over)
    assert (base, over) == before


@given(JSON_OBJECTS)
def test_no_null_is_left_of_the_upper_layer(over: Any) -> None:
    """A null removes at any depth, also where nothing was."""
    assert without_nulls(values.merge({}, over))


@pytest.mark.parametrize(
    ("own", "refused"),
    [
        ({}, ()),
        ({"resources": {"limits": {"cpu": "1"}}}, ()),
        ({"resources": {}}, ()),
        ({"resources": None}, ()),
        ({"config": {"parallelism": 3}}, ()),
        ({"resourcesX": 1}, ("resourcesX",)),
        ({"resource": 1}, ("resource",)),
        ({"config": {"parallelismX": 1}}, ("config.parallelismX",)),
        ({"config": {}}, ("config",)),
        ({"config": None}, ("config",)),
        ({"config": [1]}, ("config",)),
        ({"config": {"parallelism": 3, "sso": {"a": 1, "b": 2}}}, ("config.sso.a", "config.sso.b")),
        ({"config.parallelism": 3}, ("config.parallelism",)),
        ({"resources": {"a.b/c": 3}}, ()),
        (
            {"images": {"controller": "evil"}, "config": {"persistence": {}}},
            ("config.persistence", "images.controller"),
        ),
    ],
    ids=str,
)
def test_a_namespace_sets_what_is_listed_and_what_lies_below(own: Any, refused: tuple[str, ...]) -> None:
    """A path that only begins with the same letters is not below; emptying a parent is not allowed either."""
    assert values.forbidden(own, frozenset({"resources", "config.parallelism"})) == refused


def test_the_namespace_stands_above_the_fleet_and_the_fleet_above_the_set() -> None:
    """Defaults < fleet < namespace."""
    found = values.effective(
        template_set(defaults={"a": 1, "b": 1, "c": 1}, namespace_values=frozenset({"c"})),
        fleet={"b": 2, "c": 2},
        namespace={"c": 3},
    )
    assert found == {"a": 1, "b": 2, "c": 3}


def test_every_fault_is_told_at_once_with_path_and_cure() -> None:
    """Three faults of two sorts are one error with three problems, each naming where and what to do."""
    schema = {
        "properties": {"workers": {"properties": {"ttl": {"type": "integer"}}}, "log": {"enum": ["info"]}},
    }
    layers: dict[str, Any] = {"workers": {"ttl": "four"}, "log": "loud", "images": "evil"}
    with pytest.raises(ValuesError) as caught:
        values.effective(
            template_set(schema=schema, namespace_values=frozenset({"workers", "log"})), fleet={}, namespace=layers
        )
    told = [
        (problem.where, problem.what.split(" is not")[0], problem.cure.partition(",")[0])
        for problem in caught.value.problems
    ]
    assert told == [
        ("spec.values", "images", "ask the platform team to set it in the ControllerTemplate"),
        ("values.log", '"loud"', "see values.yaml of set"),
        ("values.workers.ttl", '"four"', "see values.yaml of set"),
    ]


def test_a_merged_default_counts_for_the_schema() -> None:
    """What is required may come from any layer, and a null can take it away again."""
    whole = template_set(defaults={"a": 1}, schema={"required": ["a"]})
    assert values.effective(whole, fleet={}, namespace={}) == {"a": 1}
    with pytest.raises(ValuesError, match='"a" is a required property'):
        values.effective(whole, fleet={"a": None}, namespace={})


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9/schema.json", "file:///etc/hostname"])
def test_a_schema_reaches_nothing_outside_of_itself(uri: str) -> None:
    """A `$ref` to a URL or a file is refused, not followed."""
    with pytest.raises(ValueError, match="is outside of the schema"):
        values.validator({"$ref": uri})
