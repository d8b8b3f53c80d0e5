"""Two replicas: the holder of the Lease writes, the other takes over, and the old one never writes again.

The short form is for every run; with CHAOS=full (`make chaos`, `make soak`) leaders freeze twenty times.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.e2e.audit import Audit, code, pod, target, told
from tests.e2e.install import Installation
from tests.e2e.local import OPERATOR, OPT_IN, Api, Kubectl, eventually
from tests.e2e.namespaces import MADE_BY_TESTS, Namespaces

FREEZES = 20 if os.environ.get("CHAOS") == "full" else 2


def _holder(api: Api) -> str:
    lease = api.object("coordination.k8s.io/v1/leases", OPERATOR, OPERATOR)
    assert lease is not None, "nobody has made the Lease yet"
    holder = lease["spec"].get("holderIdentity") or ""
    assert holder, "nobody holds the Lease"
    return str(holder)


def _another(api: Api, old: str) -> str:
    holder = _holder(api)
    assert holder != old, f"{old} still holds the Lease"
    return holder


def _assert_no_write_after_takeover(
    audit: Audit, mark: int, old: str, new: str, *, repaired: str, woke: str = ""
) -> None:
    """Check the record: from the moment that the other took the Lease, nothing that the old pod sent was a write.

    A process that stands still sends nothing: what the API server received of it before it `woke` was on the wire.
    """
    entries = list(audit.writes(mark))
    taken = next(
        entry["stageTimestamp"]
        for entry in entries
        if target(entry) == ("leases", OPERATOR, OPERATOR)
        and pod(entry) == new
        and code(entry) < 300
        and entry["requestObject"]["spec"]["holderIdentity"] == new
    )
    since = max(taken, woke)
    late = [told(entry) for entry in entries if pod(entry) == old and entry["requestReceivedTimestamp"] > since]
    assert not late, "\n".join([f"taken over at {taken}, woken at {woke}", *late])
    served = [told(entry) for entry in entries if pod(entry) == new and target(entry)[0] == repaired]
    assert served, "the new leader wrote nothing: this test proves nothing"


def test_after_the_leaders_pod_is_deleted_the_other_replica_serves(
    installation: Installation, namespaces: Namespaces, kubectl: Kubectl, api: Api, audit: Audit
) -> None:
    """It need not wait for the Lease to expire, since a leader that is told to go gives it back."""
    installation.wait_for_replicas(2)
    old = eventually(lambda: _holder(api))
    mark = audit.mark()

    kubectl("delete", "pod", old, "-n", OPERATOR, "--wait=false")

    new = eventually(lambda: _another(api, old))
    namespaces.make("e2e-takeover", opt_in="enabled")
    namespaces.ready("e2e-takeover")
    installation.wait_for_replicas(2)
    _assert_no_write_after_takeover(audit, mark, old, new, repaired="deployments")
    namespaces.remove("e2e-takeover")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The process that leads, so told that another under the same number or in the same pod is not taken for it."""

    pod: str
    pid: int
    started: str
    container: str
    restarts: int


def _leader(api: Api) -> Leader:
    name = _holder(api)
    live = api.object("v1/pods", OPERATOR, name)
    assert live is not None, f"{name} is gone"
    (status,) = live["status"]["containerStatuses"]
    pids = _processes(live["metadata"]["uid"])
    assert len(pids) == 1, f"processes of {name}: {pids}"
    return Leader(
        pod=name,
        pid=pids[0],
        started=_stat(pids[0])[19],
        container=status["containerID"],
        restarts=status["restartCount"],
    )


def _processes(pod_uid: str) -> list[int]:
    """Find the operator's processes in a pod, as the host numbers them, by the cgroup that the kubelet made."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                inside = f"pod{pod_uid}" in (place / "cgroup").read_text()
                command = (place / "cmdline").read_bytes()
            except OSError:  # gone meanwhile
                continue
            if inside and b"metaoperator" in command:
                found.append(int(place.name))
    return found


def _stat(pid: int) -> list[str]:
    """Read the fields of /proc/PID/stat after the command: state first, start time twentieth."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()


def _assert_same_process(api: Api, leader: Leader) -> None:
    """Check that what woke is the process that was stopped, in the container that it was in."""
    assert _stat(leader.pid)[19] == leader.started
    live = api.object("v1/pods", OPERATOR, leader.pod)
    assert live is not None, f"{leader.pod} is gone"
    (status,) = live["status"]["containerStatuses"]
    assert (status["containerID"], status["restartCount"]) == (leader.container, leader.restarts)


NOWHERE: Final[dict[str, Any]] = {
    "apiVersion": "metaoperator.dev/v1alpha1",
    "kind": "ControllerTemplate",
    "metadata": {"name": "e2e-nowhere"},
    "spec": {"source": {"directory": "workflow-controller"}, "values": {"nodeSelector": {"e2e": "nowhere"}}},
}
"""Children of which everything is installed, and whose pods find no node: opt-ins that cost next to nothing."""


def _opt_in(kubectl: Kubectl, names: Sequence[str]) -> subprocess.Popen[bytes]:
    """Begin to make namespaces that opt in: work for whoever leads. New ones: what is undone time and again waits."""
    command = [kubectl.program, "create", "-f", "-"]
    labels = {MADE_BY_TESTS: "yes", OPT_IN: "e2e-nowhere"}
    items = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each, "labels": labels}} for each in names]
    process = subprocess.Popen(command, env=kubectl.environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    process.stdin.write(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode())
    process.stdin.close()
    return process


def _assert_installed(api: Api, names: Sequence[str]) -> None:
    missing = [name for name in names if api.object("apps/v1/deployments", name, "workflow-controller") is None]
    assert not missing, f"no Deployment in {missing}"


def test_a_leader_that_froze_writes_nothing_when_it_wakes(
    installation: Installation, namespaces: Namespaces, kubectl: Kubectl, api: Api, audit: Audit
) -> None:
    """Stopped in the middle of work for longer than its Lease, it finds that its term is over, and lets go.

    Each time that it happens the other replica leads afterwards, and is the next to be stopped.
    """
    installation.wait_for_replicas(2)
    kubectl("apply", "--server-side", "-f", "-", stdin=NOWHERE)
    made = [[f"e2e-frozen-{each:02}{letter}" for letter in "abcd"] for each in range(2 * FREEZES)]
    on_the_wire = 0
    try:
        for each in range(FREEZES):
            on_the_wire += _freeze(kubectl, api, audit, before=made[2 * each], after=made[2 * each + 1])
    finally:
        namespaces.remove(*(name for names in made for name in names))
        kubectl("delete", "controllertemplate", NOWHERE["metadata"]["name"])
    told_of = f"{on_the_wire} writes were on their way when their leader stopped, none came after it woke"
    print(f"frozen {FREEZES} times; {told_of}")


def _stamp() -> str:
    """Tell the time as the audit log writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _freeze(kubectl: Kubectl, api: Api, audit: Audit, *, before: Sequence[str], after: Sequence[str]) -> int:
    """Freeze the leader for longer than its Lease, in the middle of work; returns how many writes it had sent."""
    leader = eventually(lambda: _leader(api))
    mark = audit.mark()
    opt_in = _opt_in(kubectl, before)
    time.sleep(random.uniform(0.05, 1.0))
    stopped = _stamp()
    os.kill(leader.pid, signal.SIGSTOP)
    try:
        assert opt_in.wait(timeout=60) == 0
        new = eventually(lambda: _another(api, leader.pod))
        eventually(lambda: _assert_installed(api, before))
        assert _stat(leader.pid)[0] == "T", "it does not stand still"
        opt_in = _opt_in(kubectl, after)  # more that it could be tempted by
    finally:
        woke = _stamp()
        os.kill(leader.pid, signal.SIGCONT)
    assert opt_in.wait(timeout=60) == 0
    eventually(lambda: _assert_installed(api, after))
    time.sleep(3)
    _assert_same_process(api, leader)
    assert _holder(api) == new
    _assert_no_write_after_takeover(audit, mark, leader.pod, new, repaired="deployments", woke=woke)
    sent = [entry["requestReceivedTimestamp"] for entry in audit.writes(mark) if pod(entry) == leader.pod]
    return sum(stopped < received <= woke for received in sent)
