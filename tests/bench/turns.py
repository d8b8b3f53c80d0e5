"""What the turns of the headline came to: as figures, and as the picture that the README shows."""

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

from . import plot
from .plot import Bar, Panel
from .report import Figure

Arm = Literal["shared controller", "fleet"]
ARMS: Sequence[Arm] = ("shared controller", "fleet")
KINDS: dict[Arm, plot.Kind] = {"shared controller": "theirs", "fleet": "ours"}
STOCK_FLAGS, DEFAULT_SET = "stock flags", "default set"
SETTINGS = (STOCK_FLAGS, DEFAULT_SET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many Workflows."""

    backlog: int = 300
    count: int = 400


FULL = Sizes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one turn came to; each field is one figure, with its unit as `UNITS` has it."""

    neighbour: float
    neighbour_later: float
    backlog: float
    rate: float
    idle_resident: float
    idle_own: float
    idle_cpu: float
    idle_plane_cpu: float
    peak: float
    beside_cpu: float
    beside_plane_cpu: float
    together_cpu: float
    together_plane_cpu: float
    operator_cpu: float
    operator_peak: float
    others: float
    load: float


TOLD: dict[str, tuple[str, str]] = {
    "neighbour": ("neighbour's first Workflow, submit → done", "s"),
    "neighbour_later": ("neighbour's later Workflows, median", "s"),
    "backlog": (f"all {FULL.backlog} Workflows of the busy namespace", "s"),
    "rate": (f"{FULL.count} one-pod Workflows of 4 namespaces, a minute", ""),
    "idle_resident": ("controllers idle: memory resident", "MB"),
    "idle_own": ("controllers idle: of it their own", "MB"),
    "idle_cpu": ("controllers idle: CPU a minute", "s"),
    "idle_plane_cpu": ("controllers idle: CPU of the control plane a minute", "s"),
    "peak": ("controllers: most memory resident", "MB"),
    "beside_cpu": ("neighbour beside backlog: CPU of the controllers", "s"),
    "beside_plane_cpu": ("neighbour beside backlog: CPU of the control plane", "s"),
    "together_cpu": ("4 namespaces together: CPU of the controllers", "s"),
    "together_plane_cpu": ("4 namespaces together: CPU of the control plane", "s"),
    "operator_cpu": ("CPU of the operator in both", "s"),
    "operator_peak": ("most memory of the operator", "MB"),
    "others": ("CPU of the machine that others took", "%"),
    "load": ("load of the machine before", ""),
}
"""What each field of a turn is called in the figures, and its unit."""


Round = dict[tuple[str, Arm], Turn]
"""One turn of each arm at each setting."""


SUMMED_UP = (
    "neighbour", "neighbour_later", "backlog", "rate",
    "idle_resident", "idle_own", "idle_cpu", "idle_plane_cpu", "peak",
)  # fmt: skip


def told(rounds: Sequence[Round]) -> list[Figure]:
    """Tell first what it is about, then each round as it was."""
    cores = Figure(what="cores of the machine", value=os.cpu_count() or 1)
    return [cores, *_summary(rounds), *_turns(rounds)]


def _summary(rounds: Sequence[Round]) -> list[Figure]:
    figures = [Figure(what="rounds", value=len(rounds))]
    for setting in SETTINGS:
        pairs = [(each[setting, ARMS[0]], each[setting, ARMS[1]]) for each in rounds]
        figures += _spread(
            f"{setting}: neighbour's first Workflow, shared / fleet", [a.neighbour / b.neighbour for a, b in pairs]
        )
        figures += _spread(f"{setting}: Workflows a minute, fleet / shared", [b.rate / a.rate for a, b in pairs])
        for arm in ARMS:
            turns = [each[setting, arm] for each in rounds]
            for key in SUMMED_UP:
                what, unit = TOLD[key]
                figures += _spread(f"{setting}, {arm}: {what}", [getattr(each, key) for each in turns], unit)
    return figures


def _spread(what: str, values: Sequence[float], unit: str = "") -> list[Figure]:
    """Tell the median, and from where to where."""
    if len(values) == 1:
        return [Figure(what=what, value=values[0], unit=unit)]
    return [
        Figure(what=f"{what}; {name}", value=of(values), unit=unit)
        for name, of in (("median", statistics.median), ("least", min), ("most", max))
    ]


def _turns(rounds: Sequence[Round]) -> list[Figure]:
    return [
        Figure(what=f"round {number}, {setting}, {arm}: {what}", value=getattr(turn, key), unit=unit)
        for number, each in enumerate(rounds, 1)
        for setting in SETTINGS
        for arm in ARMS
        for turn in [each[setting, arm]]
        for key in (field.name for field in fields(Turn))
        for what, unit in [TOLD[key]]
    ]


def picture(figures: Sequence[Figure]) -> str:
    """Draw what the figures of a run in full size say, each round as a dot."""
    of = {each.what: each.value for each in figures}
    rounds = range(1, int(of["rounds"]) + 1)

    def panel(key: str, title: str, note: str) -> Panel:
        what, unit = TOLD[key]
        groups = [
            (
                setting,
                [
                    Bar(kind=KINDS[arm], values=[of[f"round {number}, {setting}, {arm}: {what}"] for number in rounds])
                    for arm in ARMS
                ],
            )
            for setting in SETTINGS
        ]
        return Panel(title=title, note=note, unit=unit, groups=groups)

    dots = f"; dots: {len(rounds)} rounds, bars: their median" if len(rounds) > 1 else ""
    cores = f"{of['cores of the machine']:.0f} cores"
    beside = f"while another namespace runs {FULL.backlog} of 4 pods; less is better"
    return plot.draw(
        [
            panel("neighbour", "A neighbour's Workflow, submit to done", beside),
            panel("rate", "Workflows a minute", f"{FULL.count} of one pod over 4 namespaces; more is better"),
        ],
        keys=[("theirs", "one shared controller"), ("ours", "metaoperator: one for each namespace")],
        note=f"real workflow-controllers with the same flags, simulated pods, one machine of {cores}{dots}",
        described="One shared controller against one for each namespace",
    )
