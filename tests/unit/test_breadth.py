"""How often a schema looks at one value: what has no end, or nearly none, is refused before it is asked."""

import json
from pathlib import Path
from typing import Any

import pytest

from metaoperator import sources
from metaoperator.core import breadth
from metaoperator.core.errors import TemplateError
from tests.unit.builders import SHIPPED, write_set

NODE = {"$ref": "#/$defs/node"}
TWICE = {"anyOf": [{"properties": {"a": NODE}, "required": ["b"]}, {"properties": {"a": NODE}, "required": ["c"]}]}
DOUBLED = {f"a{at}": {"allOf": [{"$ref": f"#/$defs/a{at + 1}"}] * 2} for at in range(30)} | {"a30": {}}

HONEST: dict[str, Any] = {
    "nothing": {},
    "a tree": {**NODE, "$defs": {"node": {"properties": {"left": NODE, "right": NODE}}}},
    "any JSON": {
        **NODE,
        "$defs": {
            "node": {
                "anyOf": [
                    {"type": "string"},
                    {"type": "array", "items": NODE},
                    {"type": "object", "additionalProperties": NODE},
                ]
            }
        },
    },
    "an anchor": {"$ref": "#here", "$defs": {"x": {"$anchor": "here", "items": {"$ref": "#here"}}}},
    "a pointer": {"$ref": "#/$defs/a~1b%25/allOf/0", "$defs": {"a/b%": {"allOf": [{"type": "object"}]}}},
    "truth": {"$ref": "#/$defs/x", "$defs": {"x": True}},
    "another schema": {
        "$ref": "other#/$defs/x",
        "$defs": {"o": {"$id": "other", "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {}}}},
    },
    "a relative one": {"$id": "https://e.org/a", "$ref": "b", "$defs": {"b": {"$id": "https://e.org/b"}}},
    "wrong shapes": {"properties": [1], "allOf": {"a": 1}, "items": "x", "$ref": 1},
}  # fmt: skip

HOSTILE: dict[str, tuple[Any, str]] = {
    "itself": ({"$ref": "#"}, "leads back to itself"),
    "itself in parts": ({"allOf": [{"not": {"$ref": "#"}}]}, "leads back to itself"),
    "each other": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"if": {"$ref": "#/$defs/b"}}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
        "leads back to itself",
    ),
    "doubled thirty times": ({"$ref": "#/$defs/a0", "$defs": DOUBLED}, "multiply each other"),
    "doubled at each depth": ({"properties": {"x": NODE}, "$defs": {"node": TWICE}}, "multiply each other"),
    "doubled by items": ({**NODE, "$defs": {"node": {"items": NODE, "contains": NODE}}}, "multiply each other"),
    "doubled by patterns": (
        {**NODE, "$defs": {"node": {"patternProperties": {"a": NODE, "b": NODE}}}},
        "multiply each other",
    ),
    "a URL": ({"$ref": "http://127.0.0.1:9/"}, "is outside of the schema"),
    "nowhere": ({"$ref": "#/$defs/none"}, "is outside of the schema"),
    "no anchor": ({"$ref": "#none"}, "is outside of the schema"),
    "what floats": ({"$dynamicRef": "#x"}, "use \\$ref"),
}


@pytest.mark.parametrize("schema", HONEST.values(), ids=HONEST)
def test_an_honest_schema_passes(schema: Any) -> None:
    """Recursive ones too, as long as one value is looked at a few times."""
    breadth.check(schema)


@pytest.mark.parametrize(("schema", "what"), HOSTILE.values(), ids=HOSTILE)
def test_a_schema_without_end_is_refused(schema: Any, what: str) -> None:
    """Each of these takes the validator longer than anybody waits, or leads nowhere."""
    with pytest.raises(ValueError, match=what):
        breadth.check(schema)


def test_the_shipped_schema_is_far_from_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not asked when it is read: that takes as long as to compile it."""
    monkeypatch.setattr(breadth, "MAX_LOOKS", 20)
    breadth.check(sources.template_set(SHIPPED).schema)


def test_a_set_with_such_a_schema_is_refused(tmp_path: Path) -> None:
    """Before a value is held to it."""
    schema = json.dumps({"$ref": "#/$defs/a0", "$defs": DOUBLED})
    with pytest.raises(TemplateError, match="not a JSON Schema: it looks at one value more than 1000 times"):
        sources.compiled(write_set(tmp_path / "wild", values_schema_json=schema))
