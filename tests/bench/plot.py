"""Bars as SVG text: a card with a ground of its own, so that it reads on any page, in the reader's light or dark mode.

Written by hand, because plotting libraries draw for one ground, and this needs two sets of colours in one file.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, Literal

Kind = Literal["theirs", "ours"]

WIDTH: Final = 840
MARGIN: Final = 20
GAP: Final = 30
BAR: Final = 18
LABELS: Final = 62
"""Room for the value behind the longest bar."""

_STYLE = """\
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 14px }
  .note { font-size: 12px; fill: #59636e }
  .value { font-weight: 600 }
  .card { fill: #ffffff; stroke: #d1d9e0 }
  .axis { stroke: #d1d9e0 }
  .theirs { fill: #b3bac2 }
  .ours { fill: #218bff }
  .round { fill: #ffffff; stroke: #1f2328 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .note { fill: #9198a1 }
    .card { fill: #0d1117; stroke: #3d444d }
    .axis { stroke: #3d444d }
    .theirs { fill: #656c76 }
    .ours { fill: #388bfd }
    .round { fill: #0d1117; stroke: #f0f6fc }
  }"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The value of each round; the bar is their median."""

    kind: Kind
    values: Sequence[float]

    @property
    def middle(self) -> float:
        """How long the bar is."""
        return statistics.median(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Groups of bars on one scale, which begins at zero."""

    title: str
    note: str
    unit: str
    groups: Sequence[tuple[str, Sequence[Bar]]]


def draw(panels: Sequence[Panel], *, keys: Sequence[tuple[Kind, str]], note: str, described: str) -> str:
    """Draw panels side by side, with one line on the colours and one on the circumstances."""
    room = (WIDTH - 2 * MARGIN - GAP * (len(panels) - 1)) // len(panels)
    drawn = [_panel(panel, MARGIN + place * (room + GAP), room) for place, panel in enumerate(panels)]
    height = max(bottom for _, bottom in drawn) + 58
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(described)}</title>",
        f"<style>\n{_STYLE}\n</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
        *(line for found, _ in drawn for line in found),
        *_keys(keys, height - 38),
        _text(MARGIN, height - 14, note, "note"),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _panel(panel: Panel, left: int, room: int) -> tuple[list[str], int]:
    """Draw one; returns where it ends, too."""
    most = max(value for _, bars in panel.groups for bar in bars for value in bar.values)
    lines = [_text(left, 32, panel.title, "title"), _text(left, 51, panel.note, "note")]
    at = top = 64
    for name, bars in panel.groups:
        at += 20
        lines.append(_text(left + 6, at, name, ""))
        at += 8
        for bar in bars:
            lines += _bar(bar, panel.unit, left, at, scale=(room - LABELS) / most)
            at += BAR + 4
        at += 6
    lines.append(f'<line class="axis" x1="{left}" x2="{left}" y1="{top}" y2="{at}"/>')
    return lines, at


def _bar(bar: Bar, unit: str, left: int, at: int, *, scale: float) -> list[str]:
    length = max(1.0, bar.middle * scale)
    far = max([length, *(value * scale + 4 for value in bar.values if len(bar.values) > 1)])
    number = f"{bar.middle:,.0f}" if bar.middle >= 20 else f"{bar.middle:.1f}"
    lines = [f'<rect class="{bar.kind}" x="{left}" y="{at}" width="{length:.1f}" height="{BAR}"/>']
    if len(bar.values) > 1:
        middle = at + BAR / 2
        lines += [
            f'<circle class="round" cx="{left + value * scale:.1f}" cy="{middle:g}" r="3"/>' for value in bar.values
        ]
    return [*lines, _text(left + far + 6, at + BAR - 4, f"{number} {unit}".strip(), "value")]


def _keys(keys: Sequence[tuple[Kind, str]], at: int) -> list[str]:
    lines, left = [], float(MARGIN)
    for kind, name in keys:
        lines.append(f'<rect class="{kind}" x="{left:g}" y="{at - 11}" width="13" height="13"/>')
        lines.append(_text(left + 19, at, name, ""))
        left += 19 + 7.2 * len(name) + 24
    return lines


def _text(left: float, at: float, text: str, kind: str) -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{left:g}" y="{at:g}">{escape(text)}</text>'
