"""Figures with their limits: kept as `bench/results/<bench>.json`, shown as one table, `bench/results/README.md`."""

import dataclasses
import json
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import recipes

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
TABLE = RESULTS / "README.md"
HEAD = """\
# Figures

Written by `make bench`; nothing here passes or fails by itself. The machines are shared and noisy: quote ratios and
counts, never a single time. What is measured, and how: docs/local-cluster.md.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure; `most` and `least` are the limits it is held against, where there is one."""

    what: str
    value: float
    unit: str = ""
    most: float | None = None
    least: float | None = None

    @property
    def limit(self) -> str:
        """Say the limit."""
        if self.most is not None:
            return f"at most {self.most:g}"
        return "" if self.least is None else f"at least {self.least:g}"

    @property
    def verdict(self) -> str:
        """Say whether the limit is kept; nothing where there is none."""
        if self.most is None and self.least is None:
            return ""
        kept = (self.most is None or self.value <= self.most) and (self.least is None or self.value >= self.least)
        return "kept" if kept else "**missed**"


def about() -> dict[str, Any]:
    """Describe the machine and the versions."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal:")), 0)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "commit": commit.stdout.strip(),
        "machine": f"{os.cpu_count()} CPUs ({model}), {memory / 1048576:.0f} GiB, {platform.machine()}",
        "load before": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "kubernetes": recipes.KUBERNETES,
        "argo": recipes.ARGO,
    }


def rounded(figures: Sequence[Figure]) -> list[Figure]:
    """Round figures to what is kept of them."""
    return [dataclasses.replace(each, value=round(each.value, 4)) for each in figures]


def keep(bench: str, what_was_run: str, described: dict[str, Any], figures: Sequence[Figure]) -> None:
    """Write one bench's figures down, and the table of all anew."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    kept = [dataclasses.asdict(each) for each in rounded(figures)]
    content = {"run": what_was_run, "about": described, "figures": kept}
    (RESULTS / f"{bench}.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    parts = [HEAD, *(_section(place) for place in sorted(RESULTS.glob("*.json")))]
    TABLE.write_text("\n".join(parts))


def table(figures: Sequence[Figure]) -> str:
    """Lay figures out in Markdown."""
    rows = [("what", "figure", "limit", ""), ("---", "---:", "---", "---")]
    rows += [(each.what, f"{_number(each.value)} {each.unit}".strip(), each.limit, each.verdict) for each in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    )


def _section(place: Path) -> str:
    content = json.loads(place.read_text())
    described = " · ".join(f"{key} {value}" for key, value in content["about"].items())
    figures = [Figure(**each) for each in content["figures"]]
    return f"## {place.stem}\n\n`{content['run']}`\\\n{described}\n\n{table(figures)}\n"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:.3g}"


def _lines(place: str) -> list[str]:
    try:
        return Path(place).read_text().splitlines()
    except OSError:
        return []
