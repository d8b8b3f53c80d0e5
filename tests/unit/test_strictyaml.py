"""Strict YAML: what is read, what is refused and where, and that what is written reads back as it was."""

from typing import Any

import pytest
import yaml
from hypothesis import example, given

from metaoperator.core import strictyaml, writing
from metaoperator.core.strictyaml import StrictYamlError
from tests.unit.builders import JSON, TEXT

TRAPS = ["on", "y", "null", "~", "", "0123", "08", "0x1f", "1e3", "3240286e-210077", "1.10", "12:30", "2024-01-01"]
TRAPS += ["{{ x }}", "- a", "a: b", "#", "a\nb\n", "\n", " ", "é", "\U0001f600", "\x00\x07\x1b", "\x7f", "\x85"]
TRAPS += ["\u2028", "\ufeff", "\ufffe", "<<", "=", '"', "\\", "%", "|", "---", "...", "x" * 300]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("0", 0),
        ("-7", -7),
        ("1.50", 1.5),
        ("-0.5", -0.5),
        ("1.0e+16", 1e16),
        # YAML 1.1 or sloppy spellings: text, as a person means them
        *[(word, word) for word in ("yes", "no", "on", "off", "y", "n", "True", "FALSE", "Null", "NULL")],
        *[(number, number) for number in ("0123", "08", "0x1f", "0o17", "0b11", "+1", "1_000", "1e3", ".5", "1.")],
        *[(other, other) for other in (".inf", ".nan", "12:30:45", "2024-01-01", "3240286e-210077", "v4.1.2", "<<")],
        ('"1"', "1"),
        ("'true'", "true"),
        ('"\\u00e9"', "é"),
    ],
)
def test_a_scalar_is_what_a_person_means(written: str, read: Any) -> None:
    """Only plain JSON-like spellings are numbers, booleans or null; all else is text."""
    found = strictyaml.load(f"key: {written}\n")
    assert found == {"key": read}
    assert type(found["key"]) is type(read)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "duplicate key 'a', first on line 1"),
        ("x:\n  a: 1\n  a: 1\n", 3, "duplicate key 'a', first on line 2"),
        ("a: &one 1\nb: *one\n", 1, "aliases are not allowed"),
        ("a: &one {b: 1}\nc: *one\n", 1, "aliases are not allowed"),
        ("a: &loop [*loop]\n", 1, "recursive"),
        ("a: 1\n2: b\n", 2, "key '2' is not a string"),
        ("true: b\n", 1, "key 'true' is not a string"),
        ("? [a]\n: b\n", 1, "is not a string"),
        ("a: 1\nb: !!binary YQ==\n", 2, "is not allowed"),
        ("a: !!python/object:os.system {}\n", 1, "is not allowed"),
        ("a: !mine 1\n", 1, "tag '!mine' is not allowed"),
        ('a: !!bool "no"\n', 1, "is not allowed"),
        ("a: !!null text\n", 1, "is not allowed"),
        ("a: !!int x\n", 1, "is not allowed"),
        ("a: !!float nan\n", 1, "is not allowed"),
        ("a: b\nc: 1.0e999\n", 2, "too large"),
        (f"a: b\nc: {'9' * 5000}\n", 2, "not a usable int"),
        ("a: 1\n---\nb: 2\n", 2, "expected a single document in the stream, but found another document"),
        ("a: b: c\n", 1, "mapping values are not allowed"),
        ("a:\n\t- b\n", 2, "cannot start any token"),
        ("a: [1\n", 2, "expected ',' or ']'"),
        ('a: "\\ud800"\n', 1, "invalid Unicode"),
        ("[" * 5000, 1, "nesting"),
        ("a:\n  " + "[" * 101 + "]" * 101, 2, "stand more than 100 deep in one another"),
        ("a:\n  " + "{a: " * 400 + "1" + "}" * 400, 2, "stand more than 100 deep in one another"),
    ],
)
def test_what_is_refused_says_what_and_where(text: str, line: int, what: str) -> None:
    """A fault comes with the line that a person has to look at."""
    with pytest.raises(StrictYamlError) as caught:
        strictyaml.load(text)
    assert what in caught.value.what
    assert caught.value.line == line


def test_an_alias_bomb_is_refused_before_it_unfolds() -> None:
    """Ten lines that stand for 10^9 items are an error, not a gigabyte."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(StrictYamlError, match="aliases are not allowed"):
        strictyaml.load("\n".join(lines))


@pytest.mark.parametrize("text", ["", "\n", "# a comment\n", "---\n"], ids=repr)
def test_a_text_without_a_document_is_nothing(text: str) -> None:
    """An empty file is no error: it holds nothing."""
    assert strictyaml.load(text) is None


@pytest.mark.parametrize("text", TRAPS, ids=ascii)
@pytest.mark.parametrize("write", [strictyaml.dump, strictyaml.dump_plain, writing.q], ids=lambda write: write.__name__)
def test_a_text_stays_the_text_that_it_was(write: Any, text: str) -> None:
    """As key, value and list item: no text is taken for a number, a boolean, nothing or structure."""
    assert strictyaml.load(write({text: [text], "key": text})) == {text: [text], "key": text}


@given(JSON)
@example({"a": 1e16, "b": 1e-05, "c": [-0.0, 1e300]})
def test_what_is_written_reads_back_equal(value: Any) -> None:
    """`dump`, `dump_plain` and the filter `q` lose nothing on the way back through `load`."""
    for write in (strictyaml.dump, strictyaml.dump_plain, writing.q):
        assert strictyaml.load(write(value)) == value


@given(JSON)
@example(TRAPS)
def test_the_childs_yaml_1_1_reader_reads_the_same(value: Any) -> None:
    """What goes into the child's ConfigMap means the same by YAML 1.1, where `on` is true and `0123` is 83."""
    assert yaml.safe_load(strictyaml.dump(value)) == value


@given(TEXT)
@example("1e3")
def test_every_text_is_quoted(text: str) -> None:
    """No reader of any YAML version gets to type a text: not as key, not as value."""
    lines = strictyaml.dump({text: text}).splitlines()
    assert lines[0].removeprefix("? ").startswith('"')
    assert lines[-1].endswith('"')


READERS_DISAGREE = ["0123", "08", "0x1f", "0b11", "0o17", "1e3", "3240286e-210077", "null", "Yes", "no", "ON", "off"]
READERS_DISAGREE += ["true", "y", "N", "2024-01-01", "12:30:45", "1_000", "+1", "-.5", ".inf", ".NaN", "~", "1.10"]


@pytest.mark.parametrize("text", READERS_DISAGREE)
def test_what_people_see_is_quoted_where_any_reader_would_retype_it(text: str) -> None:
    """`metaoperator render 1e3 | kubectl apply -f -` ends in the namespace of that name."""
    assert strictyaml.dump_plain({"name": text, text: 1}) == f"name: '{text}'\n'{text}': 1\n"


@pytest.mark.parametrize("text", ["team-a", "v4.1.2", "nothing", "offline", "only", "a.b/c", "--qps=20"])
def test_what_people_see_has_no_quotes_without_need(text: str) -> None:
    """Golden files and `render` stay easy to read."""
    assert strictyaml.dump_plain({"name": text}) == f"name: {text}\n"


def test_equal_values_are_written_as_equal_bytes() -> None:
    """The order in which a mapping was built does not show."""
    assert strictyaml.dump({"b": 1, "a": {"d": 1, "c": 2}}) == strictyaml.dump({"a": {"c": 2, "d": 1}, "b": 1})
    assert writing.q({"b": 1, "a": 2}) == writing.q({"a": 2, "b": 1})
