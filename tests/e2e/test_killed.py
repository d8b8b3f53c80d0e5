"""Killed at any moment, the operator begins again where the cluster is, not where it was itself.

The short form is for every run; with CHAOS=full (`make chaos`, `make soak`) it is 50 opt-ins and as many kills. The
children run on simulated nodes: what is tried here is the operator, and one node has no room for fifty controllers.
"""

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import replicas, simulated
from tests.e2e.audit import Audit, Entry, code, target, told
from tests.e2e.install import Installation
from tests.e2e.local import LOGS, OPERATOR, Api, Kubectl, condition, eventually
from tests.e2e.namespaces import OBJECTS, Namespaces

FULL = os.environ.get("CHAOS") == "full"
NAMES = [f"e2e-killed-{number:02}" for number in range(1, (50 if FULL else 20) + 1)]
CREATES = 7 * len(NAMES)  # six objects of the set and the WorkflowController
KILLS = 50 if FULL else 4


@pytest.fixture
def kubeconfig(simulated_nodes: None, installation: Installation, kubectl: Kubectl, api: Api) -> Iterator[Path]:
    """Act as the operator's own ServiceAccount, with no pod of it running, beside simulated nodes."""
    del simulated_nodes
    kubectl("apply", "--server-side", "-f", simulated.TEMPLATE)
    with replicas.no_pods(installation, kubectl, api) as path:
        yield path
        kubectl("delete", "--ignore-not-found", "-f", simulated.TEMPLATE)


def _creates(audit: Audit, mark: int) -> Counter[tuple[str, str, str]]:
    """Count answers 201 of the operator for each object in our namespaces, Events aside."""
    return Counter(
        target(entry)
        for entry in audit.writes(mark)
        if code(entry) == 201 and target(entry)[1] in NAMES and target(entry)[0] != "events"
    )


def test_opt_ins_survive_kills_of_all_replicas_with_one_create_for_each_object(
    kubeconfig: Path, namespaces: Namespaces, audit: Audit, api: Api
) -> None:
    """SIGKILL of both at random points, again and again: all namespaces are READY, and nothing was made twice."""
    log = LOGS / "killed.log"
    mark = audit.mark()
    namespaces.make(*NAMES, opt_in=simulated.LABEL)
    # Random, but in the middle of the work: what is in flight at a kill may be done, hence the room at the end.
    points = sorted(random.sample(range(1, CREATES - 20), KILLS))
    killed_at = []
    for number in points:
        with replicas.running(kubeconfig, log) as processes:
            eventually(lambda number=number: _assert_made(audit, mark, number), seconds=90, every=0.05)  # type: ignore[misc]
            time.sleep(random.uniform(0, 0.1))
            assert [each.poll() for each in processes] == [None, None], f"a replica ended by itself: {log}"
        killed_at.append(len(_creates(audit, mark)))
        if killed_at[-1] == CREATES:
            break
    in_the_middle = sum(1 for made in killed_at if made < CREATES)
    print(f"killed {len(killed_at)} times, {in_the_middle} of them before all {CREATES} objects were made: {killed_at}")
    assert in_the_middle >= KILLS // 2

    begin = log.stat().st_size
    with simulated.Children(api), replicas.running(kubeconfig, log) as processes:
        for name in NAMES:
            row = namespaces.ready(name, seconds=300)
            assert condition(row, "Stalled")["status"] == "False"
        for each in processes:
            each.send_signal(signal.SIGTERM)
        assert [each.wait(timeout=30) for each in processes] == [0, 0]

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
    odd = [
        told(entry)
        for entry in entries
        if entry["verb"] == "delete" or (code(entry) >= 400 and entry not in cut and not _lost_race(entry))
    ]
    assert not odd, "\n".join(odd)
    with log.open("rb") as file:
        file.seek(begin)
        levels = Counter(json.loads(line)["level"].lower() for line in file if line.startswith(b"{"))
    assert levels.keys() <= {"info", "warning", "debug"}, levels
    namespaces.remove(*NAMES)


def _lost_race(entry: Entry) -> bool:
    """Tell a candidate that asked for the free Lease a moment after the other: 409 is how the election decides."""
    return code(entry) == 409 and target(entry) == ("leases", OPERATOR, OPERATOR)


def _assert_made(audit: Audit, mark: int, number: int) -> None:
    made = len(_creates(audit, mark))
    assert made >= number, f"{made} objects are made, wanted {number}"
