"""Stub and real workflow-controller v4.0.5, asked the same: they start on the same, and end on the same.

The real one runs here on the host, against the API server of the local cluster, for as long as it takes to read its
configuration: some 30 ms.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from metaoperator import sources
from metaoperator.core import shard
from metaoperator.core.model import Namespace
from metaoperator.core.render import Program
from tests.argo import cases, controller
from tests.argo.cases import Case

KUBECONFIG = os.environ.get("METAOPERATOR_KUBECONFIG", "")
CHECKOUT = Path(__file__).parents[2]
GOLDEN = CHECKOUT / "tests" / "golden"
SEED = 20260
pytestmark = [
    pytest.mark.needs_real,
    pytest.mark.timeout(300),
]


def program(name: str) -> str:
    """Find a program of the local cluster's."""
    command = [sys.executable, "-m", "tests.cluster", "path", name]
    return subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout.strip()


def kubectl(*arguments: str, stdin: str = "") -> str:
    """Run kubectl as the administrator."""
    command = [program("kubectl"), "--kubeconfig", KUBECONFIG, *arguments]
    return subprocess.run(command, input=stdin, check=True, capture_output=True, text=True).stdout


class Real:
    """Runs the real controller in a namespace of its own."""

    def __init__(self) -> None:
        """Make the namespace."""
        self.program = program("workflow-controller")
        self.namespace = f"contract-argo-{os.getpid()}"
        self.leases: dict[str, str] = {}
        self.asked = 0
        kubectl("create", "namespace", self.namespace)

    def close(self) -> None:
        """Remove the namespace."""
        kubectl("delete", "namespace", self.namespace, "--wait=false")

    def ask(self, asked: Iterable[Case], *, electing: bool = False) -> list[tuple[Case, str]]:
        """Start the controller for each case; returns what it ended with, empty where it went on.

        It is watched until it has read its configuration, or, `electing`, until it asks for a Lease.
        """
        numbered = list(enumerate(asked, start=self.asked))
        self.asked += len(numbered)
        maps = [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c-{number}"}, "data": dict(case.data)}
            for number, case in numbered
        ]
        listed = {"apiVersion": "v1", "kind": "List", "items": maps}
        kubectl("create", "-n", self.namespace, "-f", "-", stdin=json.dumps(listed))
        # One at a time where they go on, for then they listen at a port.
        with ThreadPoolExecutor(1 if electing else 4) as pool:
            ends = list(pool.map(lambda each: self._run(*each, electing=electing), numbered))
        return [(case, end) for (_, case), end in zip(numbered, ends, strict=True)]

    def _run(self, number: int, case: Case, *, electing: bool) -> str:
        flags = [
            f"--kubeconfig={KUBECONFIG}",
            f"--namespace={self.namespace}",
            "--namespaced",
            f"--configmap=c-{number}",
        ]
        env = {"PATH": os.environ["PATH"], **case.env}
        # At the level `error` nothing is told of the Lease, but that it then led and found no Workflows.
        words = (
            ("attempting to acquire leader lease", "Failed to init managers")
            if electing
            else ("Configuration updated",)
        )
        said: list[str] = []
        with subprocess.Popen(
            [self.program, *flags, *case.args], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            assert process.stdout is not None
            # Neither an end nor the word: what it said by then tells why.
            overdue = threading.Timer(60, process.kill)
            overdue.start()
            try:
                for line in process.stdout:
                    said.append(line.rstrip())
                    if any(word in line for word in words):
                        if found := re.search(rf"lease {self.namespace}/([^\s\"]+?)\.\.\.", line):
                            self.leases[case.name] = found[1]
                        return ""
            finally:
                overdue.cancel()
                process.kill()
        return "\n".join(said[-12:]) or "ended without a word"


@pytest.fixture(scope="module")
def real() -> Any:
    """Have the real one."""
    made = Real()
    yield made
    made.close()


def stub(case: Case) -> controller.Started | str:
    """Start the stub; returns what it ended with, where it did."""
    try:
        return controller.start(cases.VERSION, args=case.args, env=case.env, data=case.data)
    except controller.Refused as exc:
        return str(exc)


def at_odds(answers: Iterable[tuple[Case, str]]) -> list[str]:
    """List the cases in which the two do not do the same."""
    told = []
    for case, end in answers:
        answer = stub(case)
        if isinstance(answer, str) != bool(end) or (case.starts is not None and case.starts == bool(end)):
            told.append(f"{case.name} {dict(case.data)}: stub {answer}; real {end or 'started'}")
    return told


async def test_they_read_every_key_alike(real: Real) -> None:
    """Each key of the configuration: right, misspelt, of a wrong type, null."""
    asked = list(cases.every_key())
    assert len(asked) > 500
    assert at_odds(real.ask(asked)) == []


async def test_they_read_every_trap_alike(real: Real) -> None:
    """Duplicates, other cases, glued lines, YAML 1.1, durations."""
    assert at_odds(real.ask((*cases.READING, *cases.IDS))) == []


async def test_they_read_what_dice_made_alike(real: Real) -> None:
    """Whole configurations, many with a fault somewhere."""
    asked = list(cases.by_dice(SEED, 300))
    answers = real.ask(asked)
    ended = sum(bool(end) for _, end in answers)
    assert 30 < ended < 270
    assert at_odds(answers) == []


async def test_they_take_the_same_lease(real: Real) -> None:
    """The instance ID as it was read, whatever was written."""
    asked = [case for case in (*cases.IDS, *cases.READING) if case.lease]
    assert at_odds(real.ask(asked, electing=True)) == []
    assert {case.name: real.leases.get(case.name) for case in asked} == {case.name: case.lease for case in asked}


async def test_they_start_alike(real: Real) -> None:
    """Flags, levels, election."""
    assert at_odds(real.ask(cases.STARTING, electing=True)) == []


def rendered() -> list[Case]:
    """Render the set for v4.0.5, for each golden case and for odd names."""
    made = Program(sources.template_set(sources.shipped() / "workflow-controller"))
    found = []
    for folder in sorted(GOLDEN.iterdir()):
        if not (folder / "namespace.yaml").exists():
            continue
        read = {
            name: sources.values_file(folder / name) if (folder / name).exists() else {}
            for name in ("namespace.yaml", "fleet.yaml", "values.yaml")
        }
        if read["fleet.yaml"].get("version", "v4.0.5") != "v4.0.5":
            continue
        namespace = Namespace.of(read["namespace.yaml"])
        documents = made.desired(
            namespace,
            shard.only_shard(namespace.name),
            template_name="default",
            fleet_values={"version": "v4.0.5"} | read["fleet.yaml"],
            namespace_values=read["values.yaml"],
        ).documents
        (data,) = [each["data"] for each in documents if each["kind"] == "ConfigMap"]
        found.append(Case(name=folder.name, data=data, starts=True, lease=f"workflow-controller-{namespace.name}"))
    return found


async def test_everything_that_the_set_renders_is_taken(real: Real) -> None:
    """The real one reads each golden configuration, also the one with every key that it knows."""
    asked = rendered()
    assert {"defaults", "everything-set", "named-0123", "named-null"} <= {case.name for case in asked}
    everything = next(case for case in asked if case.name == "everything-set")
    assert len(yaml.safe_load(everything.data["config"])) > 25
    assert at_odds(real.ask(asked)) == []
