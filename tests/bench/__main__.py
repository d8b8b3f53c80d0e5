"""Measure, and write the figures down: `python -m tests.bench`. Ratios in one run; nothing here passes or fails.

The machines are shared and noisy: quote the ratios and medians, never a single time.
"""

import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results"
RUNS = 7
IMPORTS = "import click, jinja2, jsonschema_rs, yaml"


def cpu(command: list[str]) -> float:
    """Seconds of CPU, user and system, that one run of a command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def paired(first: list[str], second: list[str]) -> dict[str, float]:
    """Run two commands in turn, so that a drifting machine hits both; medians, and the median of the ratios."""
    cpu(first), cpu(second)
    pairs = [(cpu(first), cpu(second)) for _ in range(RUNS)]
    return {
        "seconds": statistics.median(a for a, _ in pairs),
        "imports_seconds": statistics.median(b for _, b in pairs),
        "ratio": statistics.median(a / b for a, b in pairs),
    }


def render_once() -> dict[str, float]:
    """`metaoperator render` of one namespace against importing what it needs (CPU)."""
    return paired([sys.executable, "-m", "metaoperator", "render", "team-a"], [sys.executable, "-c", IMPORTS])


def validate_shipped() -> dict[str, float]:
    """`metaoperator validate` of what is shipped, for every kind of namespace, against the same imports (CPU)."""
    return paired([sys.executable, "-m", "metaoperator", "validate"], [sys.executable, "-c", IMPORTS])


def render_fleet(namespaces: int = 1000) -> dict[str, float]:
    """Render many namespaces in one process (CPU)."""
    from metaoperator import sources
    from metaoperator.core import shard
    from metaoperator.core.model import Namespace
    from metaoperator.core.render import Program

    program = sources.programs([sources.shipped()])["workflow-controller"]
    assert isinstance(program, Program)
    started = time.process_time()
    for index in range(namespaces):
        namespace = Namespace(name=f"team-{index}", uid=str(index))
        program.desired(
            namespace, shard.only_shard(namespace), template_name="default", fleet_values={}, namespace_values={}
        )
    seconds = time.process_time() - started
    return {"namespaces": namespaces, "seconds": seconds, "milliseconds_each": 1000 * seconds / namespaces}


BENCHES: dict[str, Callable[[], dict[str, float]]] = {
    "render one": render_once,
    "validate": validate_shipped,
    "render fleet": render_fleet,
}


def main() -> None:
    """Run every bench; print the figures and keep them in `bench/results/latest.json`."""
    figures = {}
    for name, bench in BENCHES.items():
        figures[name] = {key: round(value, 4) for key, value in bench().items()}
        print(name, figures[name], flush=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    about = {"python": platform.python_version(), "machine": platform.machine(), "date": time.strftime("%Y-%m-%d")}
    (RESULTS / "latest.json").write_text(json.dumps({"about": about, "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
