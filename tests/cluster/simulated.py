"""Simulated nodes: objects whose kubelet is played by kwok, so that one machine holds hundreds of children.

A pod on such a node is Running as soon as it is scheduled and runs nothing; a pod of a Workflow has succeeded a second
later. The nodes are tainted: only what tolerates the taint and asks for the label comes there, and nothing of it ever
waits on the real node for an image that no one has.
"""

import json
import subprocess
import time
from typing import Any

from . import build, controlplane, credentials, places, processes
from .credentials import Credentials
from .errors import ClusterError
from .record import Record

COMPONENT = "kwok"
SELECTOR = {"type": "kwok"}
TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
MOST = 1000


def have(count: int, current: Record, who: Credentials) -> None:
    """Have exactly this many simulated nodes, all Ready; with none, kwok is stopped."""
    if not 0 <= count <= MOST:
        raise ClusterError(f"{count} simulated nodes cannot be had: 0 to {MOST}")
    if count:
        _run_kwok(current, who)
    present = _nodes(who)
    wanted = {f"simulated-{index}" for index in range(count)}
    if missing := sorted(wanted - present.keys()):
        _kubectl("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": [*map(_node, missing)]})
    if surplus := sorted(present.keys() - wanted):
        _kubectl("delete", "node", *surplus)
    if count:
        _wait(wanted, who)
    elif process := current.running().get(COMPONENT):
        processes.stop([process], grace=3)
        del current.processes[COMPONENT]
        current.save()


def _run_kwok(current: Record, who: Credentials) -> None:
    if COMPONENT in current.running():
        return
    program = build.program(COMPONENT)
    kubeconfig = who.kubeconfig(credentials.KWOK, places.RUN / "kwok.kubeconfig")
    stages = [*sorted((program.parent / "stages").glob("*/*.yaml")), *sorted(places.STAGES.glob("*.yaml"))]
    command = [
        str(program),
        f"--kubeconfig={kubeconfig}",
        f"--manage-nodes-with-label-selector={','.join(f'{key}={value}' for key, value in SELECTOR.items())}",
        # Without heartbeats and leases the controller-manager takes every simulated pod for lost after a minute.
        "--node-lease-duration-seconds=40",
        # Addresses that are set aside for benchmarks: nobody takes a simulated pod for somebody he can speak to.
        "--cidr=198.18.0.1/15",
        "--v=WARN",
        *(f"--config={stage}" for stage in stages),
    ]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(places.RUN)}
    current.processes[COMPONENT] = processes.spawn(COMPONENT, command, environment=environment)
    current.save()


def _kubectl(*arguments: str, stdin: dict[str, object] | None = None) -> None:
    done = subprocess.run(
        [build.program("kubectl"), f"--kubeconfig={places.KUBECONFIG}", *arguments],
        input=json.dumps(stdin or {}),
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise ClusterError(f"kubectl {' '.join(arguments)[:200]} failed:\n{done.stderr.strip()}")


def _node(name: str) -> dict[str, object]:
    labels = {**SELECTOR, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": [TAINT]},
    }


def _nodes(who: Credentials) -> dict[str, dict[str, Any]]:
    selector = "%2C".join(f"{key}%3D{value}" for key, value in SELECTOR.items())
    answer = controlplane.get(f"/api/v1/nodes?labelSelector={selector}", who)
    if answer is None:
        raise ClusterError("the API server does not answer")
    return {item["metadata"]["name"]: item for item in json.loads(answer)["items"]}


def _wait(wanted: set[str], who: Credentials, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while late := sorted(wanted - {name for name, node in _nodes(who).items() if _ready(node)}):
        if time.monotonic() > deadline:
            raise ClusterError(
                f"simulated nodes are not Ready: {', '.join(late[:5])}; the end of kwok's log:\n"
                f"{processes.log_tail(COMPONENT)}"
            )
        time.sleep(0.1)


def _ready(node: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions", [])}
    # The API server taints a new node as not ready, and the controller-manager takes that off a moment after it is.
    taints = [each["key"] for each in node["spec"].get("taints", [])]
    return conditions.get("Ready") == "True" and taints == [TAINT["key"]]
