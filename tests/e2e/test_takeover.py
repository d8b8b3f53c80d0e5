"""Two replicas: the holder of the Lease writes, the other takes over, and the old one never writes again."""

import os
import signal
import time
from pathlib import Path

from tests.e2e.audit import Audit, code, pod, target, told
from tests.e2e.install import Installation
from tests.e2e.local import OPERATOR, Api, Kubectl, eventually
from tests.e2e.namespaces import Namespaces


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


def _assert_no_write_after_takeover(audit: Audit, mark: int, old: str, new: str) -> None:
    """Check the record: from the moment that the other took the Lease, nothing that the old pod sent was a write."""
    entries = list(audit.writes(mark))
    taken = next(
        entry["stageTimestamp"]
        for entry in entries
        if target(entry) == ("leases", OPERATOR, OPERATOR)
        and pod(entry) == new
        and code(entry) < 300
        and entry["requestObject"]["spec"]["holderIdentity"] == new
    )
    late = [told(entry) for entry in entries if pod(entry) == old and entry["requestReceivedTimestamp"] > taken]
    assert not late, "\n".join([f"taken over at {taken}", *late])
    served = [told(entry) for entry in entries if pod(entry) == new and target(entry)[0] == "deployments"]
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
    _assert_no_write_after_takeover(audit, mark, old, new)
    namespaces.remove("e2e-takeover")


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


def test_a_leader_that_froze_writes_nothing_when_it_wakes(
    installation: Installation, namespaces: Namespaces, api: Api, audit: Audit
) -> None:
    """Stopped for longer than its Lease, with work waiting for it, it finds that its term is over and lets go."""
    installation.wait_for_replicas(2)
    old = eventually(lambda: _holder(api))
    live = api.object("v1/pods", OPERATOR, old)
    assert live is not None
    pids = _processes(live["metadata"]["uid"])
    assert len(pids) == 1, f"processes of {old}: {pids}"
    mark = audit.mark()
    os.kill(pids[0], signal.SIGSTOP)
    try:
        namespaces.make("e2e-frozen", opt_in="enabled")
        new = eventually(lambda: _another(api, old))
        eventually(lambda: _has_row(namespaces, "e2e-frozen"))
    finally:
        os.kill(pids[0], signal.SIGCONT)
    namespaces.make("e2e-thawed", opt_in="enabled")  # more that it could be tempted by
    namespaces.ready("e2e-frozen")
    namespaces.ready("e2e-thawed")
    time.sleep(3)
    _assert_no_write_after_takeover(audit, mark, old, new)
    assert _holder(api) == new
    namespaces.remove("e2e-frozen", "e2e-thawed")


def _has_row(namespaces: Namespaces, name: str) -> None:
    assert namespaces.row(name) is not None, f"{name} is not served yet"
