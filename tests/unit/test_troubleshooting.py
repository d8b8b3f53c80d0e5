"""docs/troubleshooting.md has one row for each reason, and none for what is no reason."""

import re
from pathlib import Path

import pytest

from metaoperator.core.names import Reason

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
ROW = re.compile(r"^\| `(?P<reason>\w+)` \| (?P<meaning>[^|]+) \| (?P<cure>[^|]+) \|$", re.MULTILINE)


def rows() -> list[re.Match[str]]:
    """Read the table."""
    return list(ROW.finditer(PAGE.read_text()))


def test_every_reason_has_a_row_and_every_row_a_reason() -> None:
    """In the order of `core/names.Reason` or not, but each once: a new reason needs its row."""
    assert sorted(row["reason"] for row in rows()) == sorted(Reason)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["reason"])
def test_a_row_says_what_and_what_to_do_in_sentences(row: re.Match[str]) -> None:
    """Each ends as a sentence does; no cell is left empty."""
    for cell in (row["meaning"], row["cure"]):
        assert re.fullmatch(r"[A-Z`*].*\.", cell.strip()), cell


def test_no_line_of_the_table_is_missed() -> None:
    """A row that is written in another way would not be held to anything."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert len(lines) == len(rows())
