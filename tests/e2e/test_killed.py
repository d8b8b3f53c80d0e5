"""Killed at any moment, the operator begins again where the cluster is, not where it was itself."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.audit import Audit, code, target, told
from tests.e2e.install import Installation
from tests.e2e.local import CHECKOUT, LOGS, OPERATOR, Api, Kubectl, condition, eventually
from tests.e2e.namespaces import OBJECTS, Namespaces

NAMES = [f"e2e-killed-{number:02}" for number in range(1, 21)]
# Creates after which it is killed: early, in the thick of it and near the end; 7 objects for each namespace.
KILLS = (2, 30, 75, 120)


@pytest.fixture
def kubeconfig(installation: Installation, kubectl: Kubectl, api: Api) -> Iterator[Path]:
    """Act as the operator's own ServiceAccount, with no pod of it running."""
    installation.scale(0)
    token = kubectl("create", "token", OPERATOR, "-n", OPERATOR, "--duration=1h").strip()
    path = api.bearer_kubeconfig(token)
    try:
        yield path
    finally:
        path.unlink()
        installation.scale(2)


def _start(kubeconfig: Path, log: Path) -> subprocess.Popen[bytes]:
    # One name for all of them, as a container that is started again in its pod keeps its own.
    environment = {**os.environ, "POD_NAME": "e2e-host", "POD_NAMESPACE": OPERATOR}
    command = [sys.executable, "-m", "metaoperator", "run", "--kubeconfig", str(kubeconfig), "--port", "0"]
    with log.open("ab") as file:
        return subprocess.Popen(
            [*command, "--log-format", "json"], cwd=CHECKOUT, env=environment, stdout=file, stderr=file
        )


def _creates(audit: Audit, mark: int) -> Counter[tuple[str, str, str]]:
    """Count answers 201 of the operator for each object in our namespaces, Events aside."""
    return Counter(
        target(entry)
        for entry in audit.writes(mark)
        if code(entry) == 201 and target(entry)[1] in NAMES and target(entry)[0] != "events"
    )


def test_twenty_opt_ins_survive_four_kills_with_one_create_for_each_object(
    kubeconfig: Path, namespaces: Namespaces, audit: Audit, kubectl: Kubectl
) -> None:
    """SIGKILL in the middle, four times: all twenty are READY, and nothing was made twice."""
    del kubectl
    log = LOGS / "killed.log"
    mark = audit.mark()
    namespaces.make(*NAMES, opt_in="enabled")
    for number in KILLS:
        process = _start(kubeconfig, log)
        try:
            eventually(lambda number=number: _assert_made(audit, mark, number), seconds=90, every=0.05)  # type: ignore[misc]
            time.sleep(random.uniform(0, 0.1))
            assert process.poll() is None, f"the operator ended by itself: {log}"
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert len(_creates(audit, mark)) < 7 * len(NAMES), "the last kill came after the last create"

    process = _start(kubeconfig, log)
    begin = log.stat().st_size
    try:
        for name in NAMES:
            row = namespaces.ready(name, seconds=240)
            assert condition(row, "Stalled")["status"] == "False"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0

    entries = list(audit.writes(mark))
    # A client that is killed while its request is on the way leaves this answer, whether the object was stored or not.
    cut = [
        entry for entry in entries if code(entry) == 504 and "context canceled" in entry["responseStatus"]["message"]
    ]
    made = _creates(audit, mark)
    wanted = {
        *((resource.rpartition("/")[2], name, each) for resource, each in OBJECTS for name in NAMES),
        *(("workflowcontrollers", name, "workflow-controller") for name in NAMES),
    }
    assert set(made) | {target(entry) for entry in cut if target(entry) in wanted} == wanted
    assert set(made.values()) == {1}, {key: count for key, count in made.items() if count != 1}
    # What is there and was never deleted was created once: this covers what a kill left without an answer 201.
    assert all(all(namespaces.objects(name).values()) for name in NAMES)
    odd = [told(entry) for entry in entries if entry["verb"] == "delete" or (code(entry) >= 400 and entry not in cut)]
    assert not odd, "\n".join(odd)
    with log.open("rb") as file:
        file.seek(begin)
        levels = Counter(json.loads(line)["level"].lower() for line in file if line.startswith(b"{"))
    assert levels.keys() <= {"info", "warning", "debug"}, levels
    namespaces.remove(*NAMES)


def _assert_made(audit: Audit, mark: int, number: int) -> None:
    made = len(_creates(audit, mark))
    assert made >= number, f"{made} objects are made, wanted {number}"
