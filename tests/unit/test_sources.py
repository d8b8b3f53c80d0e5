"""Template sets read from folders: every fault at once, and one bad set is no other's."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from metaoperator import renderer, sources
from metaoperator.core import names, strictyaml, values
from metaoperator.core.errors import TemplateError
from metaoperator.core.render import Program
from tests.unit.builders import SHIPPED, desired, write_set


def faults(folder: Path) -> list[str]:
    """Load a set that must fail, and return each problem as it is told."""
    with pytest.raises(TemplateError) as caught:
        sources.template_set(folder)
    return [str(problem) for problem in caught.value.problems]


def test_a_set_is_its_folder(tmp_path: Path) -> None:
    """Name, kinds, defaults, schema and texts; other files are left alone."""
    folder = write_set(tmp_path / "mine", part_j2="part")
    (folder / "README.md").write_bytes(b"\xff")
    found = sources.template_set(folder)
    assert (found.name, found.defaults, sorted(found.files)) == ("mine", {"a": 1}, ["one.yaml.j2", "part.j2"])


def test_the_digest_changes_with_every_byte_and_file_that_counts(tmp_path: Path) -> None:
    """Each file of the set decides what is rendered; two equal folders are one revision."""
    names = ("template_yaml", "values_yaml", "values_schema_json", "one_yaml_j2")
    base = sources.template_set(write_set(tmp_path / "base"))
    folder = tmp_path / "base"
    digests = {base.digest}
    for name in names:
        path = folder / name.replace("_", ".")
        before = path.read_text()
        path.write_text(before + "\n")
        digests.add(sources.template_set(folder).digest)
        path.write_text(before)
    (folder / "two.yaml.j2").write_text("")
    digests.add(sources.template_set(folder).digest)
    assert len(digests) == 6
    (folder / "two.yaml.j2").rename(folder / "README.md")
    assert sources.template_set(folder).digest == base.digest


def test_a_set_of_texts_is_the_set_of_the_folder_that_holds_them(tmp_path: Path) -> None:
    """The same noun, schemas beside included, in whichever order they come; what is no part of a set is passed by."""
    schema = '{"properties": {"a": {"$ref": "#/$defs/b"}}}'
    folder = write_set(tmp_path / "mine", values_schema_json=schema, b_schema_json='{"type": "integer"}')
    read = sources.template_set(folder)
    assert sorted(read.texts) == sorted(path.name for path in folder.iterdir())
    backwards = dict(sorted(read.texts.items(), reverse=True))
    again = sources.from_texts("mine", {"README.md": "other", **backwards})
    assert again.template_set == read
    assert again.revision({}) == sources.compiled(folder).revision({})
    assert desired(again) == desired(sources.compiled(folder))


def test_what_is_wrong_with_texts_is_told_as_of_files() -> None:
    """Every fault at once, by the set's name and the file's."""
    with pytest.raises(TemplateError) as caught:
        sources.from_texts("mine", {"values.yaml": "a: 1\na: 2\n", "values.schema.json": "{}"})
    assert [str(problem) for problem in caught.value.problems[:2]] == [
        "mine/template.yaml: is missing",
        "mine/values.yaml:2: duplicate key 'a', first on line 1",
    ]


def test_a_schema_of_texts_is_held_to_what_it_may_cost() -> None:
    """It is somebody's, unless whoever gives it says otherwise."""
    texts = dict(sources.template_set(SHIPPED).texts)
    assert sources.from_texts("mine", texts, trusted=True).template_set.texts == texts
    texts["values.schema.json"] = '{"$ref": "#"}'
    with pytest.raises(TemplateError, match="leads back to itself"):
        sources.from_texts("mine", texts)


def test_the_code_that_renders_is_known_by_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte more in a module that rendering rests on, and it is another; the time of a file says nothing."""
    core = tmp_path / "core"
    shutil.copytree(Path(names.__file__).parent, core, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(renderer, "_RESTS_ON", (core,))
    base = renderer.identity.__wrapped__()
    os.utime(core / "filters.py", (1, 1))
    assert renderer.identity.__wrapped__() == base
    with (core / "filters.py").open("a") as file:
        file.write("\n")
    assert renderer.identity.__wrapped__() != base


def test_a_set_that_was_read_has_the_revision_of_the_code_that_renders_it(
    tmp_path: Path,
) -> None:
    """However it was read."""
    folder = write_set(tmp_path / "mine")
    ways = [sources.compiled(folder), sources.from_texts("mine", sources.template_set(folder).texts)]
    assert len({each.revision({}) for each in ways}) == 1
    assert ways[0].revision({}) != Program(ways[0].template_set).revision({})


@pytest.mark.parametrize("name", ["template.yaml", "values.yaml", "values.schema.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    """All three data files have to be there."""
    folder = write_set(tmp_path / "mine")
    (folder / name).unlink()
    assert any(told.startswith(f"mine/{name}: is missing") for told in faults(folder))


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("values_yaml", "a: 1\na: 2\n", "mine/values.yaml:2: duplicate key 'a', first on line 1"),
        ("values_yaml", "- a\n", "mine/values.yaml: must hold a mapping"),
        ("values_yaml", "", "mine/values.yaml: must hold a mapping"),
        ("values_schema_json", '{\n"a": }', "mine/values.schema.json:2: Expecting value"),
        ("values_schema_json", "[]", "mine/values.schema.json: must hold a mapping"),
        ("values_schema_json", "[" * 100_000, "mine/values.schema.json: maximum recursion depth exceeded"),
        ("values_schema_json", f'{{"maximum": {"9" * 5000}}}', "mine/values.schema.json: Exceeds the limit"),
        ("values_schema_json", '{"type": "object", "type": "array"}', "mine/values.schema.json: duplicate key 'type'"),
        ("values_schema_json", '{"$defs": {"a": {"x": 1, "x": 2}}}', "mine/values.schema.json: duplicate key 'x'"),
        (
            "values_schema_json",
            '{"$ref": "#"}',
            "mine/values.schema.json: not a JSON Schema: a $ref leads back to itself",
        ),
        ("values_schema_json", '{"type": "no such type"}', "mine/values.schema.json: not a JSON Schema: "),
        ("values_schema_json", '{"pattern": "("}', "mine/values.schema.json: not a JSON Schema: "),
        ("values_schema_json", '{"$ref": "#/nowhere"}', "mine/values.schema.json: not a JSON Schema: "),
        ("template_yaml", "kinds: []\n", "mine/template.yaml: kinds must list what the set renders"),
        ("template_yaml", "kinds: ConfigMap\n", "mine/template.yaml: kinds must list what the set renders"),
        ("template_yaml", "kinds: [{kind: ConfigMap}]\n", "mine/template.yaml: kinds must list what the set renders"),
        ("template_yaml", "kinds: [ConfigMap]\n", "mine/template.yaml: kinds must list what the set renders"),
        (
            "template_yaml",
            "kinds: [{apiVersion: v1, kind: ConfigMap}]\nnamespaceValues: config\n",
            "mine/template.yaml: namespaceValues must list dotted paths",
        ),
        (
            "template_yaml",
            "kinds: [{apiVersion: v1, kind: ConfigMap}]\nnamespaceValues: [1]\n",
            "mine/template.yaml: namespaceValues must list dotted paths",
        ),
    ],
)
def test_a_broken_file_is_told_with_file_and_fault(tmp_path: Path, file: str, text: str, told: str) -> None:
    """And with the line where the file's syntax is at fault."""
    (only,) = faults(write_set(tmp_path / "mine", **{file: text}))
    assert only.startswith(told)


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    """One look at the message is enough to mend the set."""
    folder = write_set(tmp_path / "mine", template_yaml="kinds: 1\nnamespaceValues: x\n", values_yaml="a: &x [*x]\n")
    (folder / "values.schema.json").unlink()
    told = faults(folder)
    assert [line.partition(":")[0] for line in told] == [
        "mine/values.yaml",
        "mine/values.schema.json",
        "mine/template.yaml",
        "mine/template.yaml",
    ]


@pytest.mark.parametrize("content", [b"\xff\xfe", None], ids=["not UTF-8", "a folder"])
def test_a_file_that_cannot_be_read_is_a_fault_of_the_set(tmp_path: Path, content: bytes | None) -> None:
    """No traceback, whatever lies there."""
    folder = write_set(tmp_path / "mine")
    if content is None:
        (folder / "two.yaml.j2").mkdir()
    else:
        (folder / "two.yaml.j2").write_bytes(content)
    (only,) = faults(folder)
    assert "cannot be read" in only


def test_a_bad_set_keeps_no_other_from_being_used(tmp_path: Path) -> None:
    """Faults of data files and of templates stand beside sets that work; what is no set is told, unless hidden."""
    write_set(tmp_path / "fine")
    write_set(tmp_path / "broken-data", values_yaml="[")
    write_set(tmp_path / "broken-template", one_yaml_j2="{{")
    write_set(tmp_path / "deep-template", one_yaml_j2="{{ " + "(" * 3000)
    (tmp_path / "no-set").mkdir()
    (tmp_path / "..2026_01_01").mkdir()  # the kubelet's own, where a ConfigMap is mounted
    found = sources.programs([tmp_path, tmp_path / "not-there"])
    assert {name: type(each) for name, each in found.items()} == {
        "fine": Program,
        "broken-data": TemplateError,
        "broken-template": TemplateError,
        "deep-template": TemplateError,
        "no-set": TemplateError,
        "not-there": TemplateError,
    }


def test_a_later_directorys_set_replaces_an_earlier_ones(tmp_path: Path) -> None:
    """So that a platform team's set can take the shipped one's name; a broken one hides the one before."""
    for place, text in (("one", "a: 1\n"), ("two", "a: 2\n"), ("three", "[")):
        write_set(tmp_path / place / "mine", values_yaml=text)
    found = sources.programs([tmp_path / "one", tmp_path / "two"])["mine"]
    assert isinstance(found, Program)
    assert found.template_set.defaults == {"a": 2}
    assert isinstance(sources.programs([tmp_path / "one", tmp_path / "three"])["mine"], TemplateError)


@pytest.mark.parametrize(
    ("text", "told"),
    [("a: 1\na: 2\n", ":2: duplicate key 'a'"), ("- a\n", ": must hold a mapping"), ("7", ": must hold a mapping")],
)
def test_a_values_file_at_fault_is_told_with_its_path(tmp_path: Path, text: str, told: str) -> None:
    """The path that the person typed."""
    path = tmp_path / "values.yaml"
    path.write_text(text)
    with pytest.raises(TemplateError, match=re.escape(f"{path}{told}")):
        sources.values_file(path)


@pytest.mark.parametrize("text", ["", "# nothing\n", "null\n"])
def test_an_empty_values_file_sets_nothing(tmp_path: Path, text: str) -> None:
    """Commented-out values are no fault."""
    path = tmp_path / "values.yaml"
    path.write_text(text)
    assert sources.values_file(path) == {}


# The shipped set


def keys(tree: Any, *path: str) -> list[tuple[str, ...]]:
    """List every path of a mapping, the inner ones included."""
    return [
        found
        for key, below in tree.items()
        for found in ([(*path, key)] + (keys(below, *path, key) if isinstance(below, dict) else []))
    ]


DEFAULTS = strictyaml.load((SHIPPED / "values.yaml").read_text())
SCHEMA: Any = sources.template_set(SHIPPED).schema


def test_the_shipped_set_loads_and_renders() -> None:
    """Without any value set by anybody."""
    program = sources.programs([sources.shipped()])["workflow-controller"]
    assert isinstance(program, Program)
    assert len(desired(program).documents) == 6


def test_the_shipped_defaults_satisfy_their_own_schema() -> None:
    """And the schema is not merely permissive: every part of the defaults is held to something."""
    validator = values.validator(SCHEMA)
    assert list(validator.iter_errors(DEFAULTS)) == []
    assert not validator.is_valid(DEFAULTS | {"unheard-of": 1})


@pytest.mark.parametrize("path", keys(DEFAULTS), ids=".".join)
def test_every_default_is_known_to_the_schema(path: tuple[str, ...]) -> None:
    """By name, with a sentence about it; only label and annotation maps have free keys."""
    schema = SCHEMA
    for part in path:
        if part not in schema.get("properties", {}):
            assert "additionalProperties" in schema
            assert schema["propertyNames"]
            return
        schema = schema["properties"][part]
    assert schema["description"]


@pytest.mark.parametrize("key", DEFAULTS)
def test_every_value_is_commented(key: str) -> None:
    """A comment stands right above the key, above one of its first keys, or above the group of keys it is in."""
    block = re.search(rf"(?:^[^\n]+\n)*?^{key}:.*\n(?:[ ]+.*\n)*", (SHIPPED / "values.yaml").read_text(), re.MULTILINE)
    assert block is not None
    assert "#" in block[0]


def test_a_set_in_place_of_a_directory_of_sets_is_told(tmp_path: Path) -> None:
    """`--templates` of a set itself found nothing, and said nothing."""
    write_set(tmp_path / "sets" / "mine")
    found = sources.programs([tmp_path / "sets" / "mine"])["mine"]
    assert str(found).endswith(
        f"sets/mine: is a template set, not a directory of sets (give the directory above: {tmp_path / 'sets'})"
    )


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("loop.yaml.j2", "cannot be read: "),
        ("zero.yaml.j2", "cannot be read: "),
        ("pipe.yaml.j2", "cannot be read: "),
        ("long.yaml.j2", "is longer than 1500000 bytes"),
        ("bin.yaml.j2", "UTF-8"),
    ],
)
def test_hostile_files_are_told_all_at_once(tmp_path: Path, file: str, told: str) -> None:
    """A link that leads to itself, a device, a pipe, a file of 10 MB, a binary: none of them ends the reading."""
    folder = write_set(tmp_path / "mine")
    (folder / "loop.yaml.j2").symlink_to(folder / "loop.yaml.j2")
    (folder / "zero.yaml.j2").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.yaml.j2")
    (folder / "long.yaml.j2").write_bytes(b"x" * 10_000_000)
    (folder / "bin.yaml.j2").write_bytes(bytes(range(256)))
    found = {Path(line.partition(": ")[0]).name: line for line in faults(folder)}
    assert len(found) == 5
    assert told in found[file]
