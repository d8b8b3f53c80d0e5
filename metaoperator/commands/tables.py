"""Tables as kubectl prints them: columns lined up, nothing else than text, whatever a cell holds."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from metaoperator.commands import telling


def text(rows: Sequence[Mapping[str, str]]) -> str:
    """Line the columns up, a header first; no blanks at the end of a line, and one line for each row."""
    lines = [list(rows[0]), *([_cell(cell) for cell in row.values()] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "".join(
        "   ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"
        for line in lines
    )


def _cell(cell: str) -> str:
    return telling.printable(" ".join(cell.split()) if "\n" in cell else cell)


def show_json(value: Any) -> None:
    """Print JSON for other programs."""
    click.echo(json.dumps(value, indent=2))
