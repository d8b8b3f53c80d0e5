"""Rendering, without a cluster."""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .report import Figure

RUNS = 7
IMPORTS = "import click, jinja2, jsonschema_rs, yaml"


def cpu(command: list[str]) -> float:
    """Seconds of CPU, user and system, that one run of a command takes."""
    # As where it is installed: pip compiles what it installs, and a checkout is compiled when it is first used.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def against_imports(what: str, *arguments: str, most: float | None) -> list[Figure]:
    """Run a command against importing what it needs (CPU)."""
    first = [sys.executable, "-m", "metaoperator", *arguments]
    second = [sys.executable, "-c", IMPORTS]
    # In turn, so that a drifting machine hits both.
    cpu(first), cpu(second)
    pairs = [(cpu(first), cpu(second)) for _ in range(RUNS)]
    ratio = statistics.median(a / b for a, b in pairs)
    return [
        Figure(what=what, value=statistics.median(a for a, _ in pairs), unit="s of CPU"),
        Figure(what="importing what it needs", value=statistics.median(b for _, b in pairs), unit="s of CPU"),
        Figure(what=f"{what} / import, median of the ratios", value=ratio, most=most),
    ]


def own_set() -> list[Figure]:
    """Render a set that is not shipped, of which nothing is kept from one run to the next (CPU)."""
    from metaoperator import sources

    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(sources.shipped() / sources.DEFAULT_SET, Path(folder) / "mine")
        arguments = ("render", "team-a", "--templates", folder, "--set", "mine")
        return against_imports("render of one namespace, from a set of one's own", *arguments, most=None)


def fleet(namespaces: int = 1000) -> list[Figure]:
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
            namespace, shard.only_shard(namespace.name), template_name="default", fleet_values={}, namespace_values={}
        )
    seconds = time.process_time() - started
    return [Figure(what=f"render of {namespaces} namespaces in one process", value=seconds, unit="s of CPU", most=5.0)]


def run() -> list[Figure]:
    """One namespace, from a shipped set and from another, the validation of what is shipped, and many namespaces."""
    return [
        *against_imports("render of one namespace", "render", "team-a", most=1.5),
        *own_set(),
        *against_imports("validate of the shipped sets", "validate", most=None),
        *fleet(),
    ]
