"""Compiled templates kept from one process to the next: equal documents and faults, never a stale or broken one."""

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from metaoperator import kept, sources
from metaoperator.core import sandbox
from metaoperator.core.errors import TemplateError
from metaoperator.core.model import Relation, TemplateSet
from metaoperator.core.render import Program
from tests.unit.builders import SHIPPED, desired, object_text, template_set, write_set

SET = sources.template_set(SHIPPED)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let Python, and us, keep what is compiled in a folder of the test's own."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "cache"))
    return tmp_path / "cache"


def program(whole: TemplateSet = SET) -> Program:
    """Load a set as `render` does."""
    with kept.codes(whole) as codes:
        return Program(whole, codes=codes)


def known(whole: TemplateSet = SET) -> set[str]:
    """Name what is kept of a set."""
    with kept.codes(whole) as codes:
        return set(codes)


def files(place: Path) -> list[Path]:
    """List what stands in the folder."""
    return [path for path in place.rglob("*") if path.is_file()]


def test_a_set_is_compiled_once_and_renders_alike() -> None:
    """Every template and the relations are kept, and what comes of them is what comes of fresh ones."""
    assert known() == set()
    first = desired(program())
    assert known() == {*SET.files, "relations"}
    assert desired(program()) == first == desired(Program(SET))


def test_what_is_kept_is_what_is_rendered() -> None:
    """It is not compiled beside it once more."""
    other = dataclasses.replace(SET, files={**SET.files, "serviceaccount.yaml.j2": object_text("data: {a: b}\n")})
    with kept.codes(SET) as codes:
        Program(SET, codes=codes)
        codes["serviceaccount.yaml.j2"] = sandbox.environment(other).compile(
            other.files["serviceaccount.yaml.j2"], "serviceaccount.yaml.j2", "serviceaccount.yaml.j2"
        )
    assert {"a": "b"} in [document.get("data") for document in desired(program()).documents]


@pytest.mark.parametrize(
    "text",
    [
        object_text("data:\n  a: b\n  c: {{ values.nothing | q }}\n"),
        object_text("data:\n  a: b\n  {% if true %}\n  c: 1\n  {% endif %}\n"),
        object_text("data:\n  a: b\n\n  a: c\n"),
        object_text("{% for a in values.list %}\n{{ a }}: {{ shard.index }}\n{% endfor %}\n"),
    ],
)
def test_a_fault_has_its_line_and_cure(text: str) -> None:
    """Also where the template was compiled by another process."""
    kinds = frozenset(SET.kinds)
    whole = template_set(
        {"one.yaml.j2": text}, kinds=kinds, definitions=sources.definitions(kinds), defaults={"list": ["x", "y"]}
    )
    told = []
    for each in (Program(whole), program(whole), program(whole)):
        with pytest.raises(TemplateError) as caught:
            desired(each)
        told.append(caught.value.problems)
    assert told[0] == told[1] == told[2]
    assert all(problem.line is not None for problem in told[0])


@pytest.mark.parametrize(
    "harm",
    [
        lambda content: content[:0],
        lambda content: content[:40],
        lambda content: content[:-1],
        lambda content: content[:100] + bytes([content[100] ^ 1]) + content[101:],
        lambda content: bytes(32) + content[32:],
        lambda content: content + b"x",
    ],
    ids=["empty", "cut short", "cut", "a bit turned", "of another set", "longer"],
)
def test_a_file_that_is_not_whole_is_passed_by_and_replaced(place: Path, harm: Callable[[bytes], bytes]) -> None:
    """A full disk, a crash and a stray write cost a compilation, nothing else."""
    program()
    (file,) = files(place)
    whole = file.read_bytes()
    file.write_bytes(harm(whole))
    assert known() == set()
    assert desired(program()) == desired(Program(SET))
    assert files(place) == [file]
    assert known() == {*SET.files, "relations"}


def test_a_changed_set_or_compiler_is_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A set by its bytes, and what compiles it as Python knows its own modules: by time and size."""
    compiler = tmp_path / "compiler"
    compiler.mkdir()
    (compiler / "one.py").write_text("a")
    monkeypatch.setattr(kept, "_COMPILERS", (compiler,))
    program()
    assert known(dataclasses.replace(SET, digest="another")) == set()
    assert known() != set()
    (compiler / "one.py").write_text("ab")
    assert known() == set()
    program()
    os.utime(compiler / "one.py", (1, 1))
    assert known() == set()


def test_what_makes_code_of_a_template_is_watched() -> None:
    """Our part of the compiler, what it asks of filters, and Jinja's."""
    watched = {path.name for folder in kept._COMPILERS for path in folder.glob("*.py")}
    assert {"metered.py", "sandbox.py", "filters.py", "relations.py", "compiler.py", "parser.py", "lexer.py"} <= watched


def test_a_set_at_fault_is_not_kept(place: Path) -> None:
    """Nor is the half of it that could be compiled: the fault is told each time."""
    whole = template_set(
        {"a.yaml.j2": object_text(), "b.yaml.j2": "{{"}, relations=(Relation(holds="true", at="", otherwise=""),)
    )
    for _ in range(2):
        with pytest.raises(TemplateError, match=r"b\.yaml\.j2"):
            program(whole)
    assert files(place) == []


def test_where_nobody_may_write_it_is_compiled_each_time(place: Path) -> None:
    """Without a word: Python itself says none."""
    place.write_text("no folder")
    assert desired(program()) == desired(Program(SET))
    assert place.read_text() == "no folder"


def test_who_wants_no_compiled_files_gets_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`PYTHONDONTWRITEBYTECODE` is Python's own word for it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    program()
    assert files(place) == []


def test_of_peoples_own_sets_nothing_is_kept(place: Path, tmp_path: Path) -> None:
    """Whoever may write templates may not write code: theirs pass the sandbox each time, under a shipped name too."""
    write_set(tmp_path / "sets" / "mine")
    write_set(tmp_path / "sets" / "workflow-controller")
    found = sources.programs([tmp_path / "sets"], keep=True)
    assert all(isinstance(each, Program) for each in found.values())
    assert files(place) == []


@pytest.mark.parametrize(("command", "keeps"), [(["render", "team-a"], True), (["validate"], False)])
def test_render_keeps_and_what_judges_or_acts_does_not(place: Path, command: list[str], *, keeps: bool) -> None:
    """The operator and `validate` compile what they read, each time they start."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    env["PYTHONPYCACHEPREFIX"] = str(place)
    run = [sys.executable, "-m", "metaoperator", *command]
    first, second = (subprocess.run(run, env=env, capture_output=True, check=True).stdout for _ in range(2))
    assert first == second
    assert any(path.name.startswith("templates-") for path in files(place)) is keeps


def test_the_operator_compiles_what_it_reads(place: Path) -> None:
    """It starts seldom, and what it runs should come from nowhere but its templates."""
    assert all(isinstance(each, Program) for each in sources.programs([sources.shipped()]).values())
    assert files(place) == []
