"""From a place in rendered text back to the line of the template that wrote it. Asked only once something is wrong.

Rendering is pure, so it is done again, piece by piece; each piece's template and line are read from where its generator
stands.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import GeneratorType
from typing import Any, Final

import jinja2

from metaoperator.core import meter
from metaoperator.core.sandbox import NULLS

_INCLUDED: Final = "gen"
"""The name that compiled templates have for the generator of what they include."""


@dataclass(frozen=True, slots=True)
class Origin:
    """For each rendered line, file and line of the template; and the rendered lines on which a value printed null."""

    places: list[tuple[str, int]]
    nulls: frozenset[int]

    def of(self, line: int, otherwise: str) -> tuple[str, int | None]:
        """Name file and line that wrote a rendered line; lines count from 1."""
        return self.places[line - 1] if 0 < line <= len(self.places) else (otherwise, None)


def trace(template: jinja2.Template, context: Mapping[str, Any]) -> Origin:
    """Render once more. A rendered line is from where its first visible character is from."""
    places: list[tuple[str, int]] = []
    nulls: set[int] = set()
    blank = True
    for chunk, where, line, constant in _pieces(template, context):
        for at, row in enumerate(chunk.split("\n")):
            place = (where, line + at if constant else line)
            if at or not places:
                places.append(place)
                blank = True
            elif blank:
                places[-1] = place
            blank = blank and not row.strip()
        if chunk in NULLS and not constant:
            nulls.add(len(places))
    return Origin(places, frozenset(nulls))


def _pieces(template: jinja2.Template, context: Mapping[str, Any]) -> Iterator[tuple[str, str, int, bool]]:
    with meter.metered(dict(context)):
        outer = template.root_render_func(template.new_context(dict(context)))
        for chunk in outer:
            inner = _innermost(outer)  # type: ignore[arg-type]
            frame: Any = inner.gi_frame
            its = frame.f_globals.get("__jinja_template__", template)
            line = its.get_corresponding_lineno(frame.f_lineno)
            # A constant is the template's own text, and goes on over the template's next lines.
            constant = any(chunk is each for each in frame.f_code.co_consts)
            yield chunk, frame.f_code.co_filename, line, constant


def _innermost(generator: "GeneratorType[Any, Any, Any]") -> "GeneratorType[Any, Any, Any]":
    while True:
        frame: Any = generator.gi_frame
        below = generator.gi_yieldfrom or frame.f_locals.get(_INCLUDED)
        if not isinstance(below, GeneratorType) or below.gi_frame is None:
            return generator
        generator = below
