"""The controllers of either arm: the shared one, as somebody installs it by hand, and what any of them costs."""

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import yaml

from tests.cluster import record
from tests.e2e.local import CHECKOUT, MANIFESTS, Api, Kubectl, Object, eventually

from . import machine

SHARED = "e2e-argo"
"""The namespace of the shared controller, of its ServiceAccount and of its rules."""
_RULES = MANIFESTS / "foreign.yaml"
_IMAGES = MANIFESTS / "local" / "controllertemplate.yaml"
_SELECTOR = "labelSelector=app.kubernetes.io%2Fname%3Dworkflow-controller"

STOCK: Object = {
    "requeueTime": "10s",
    "leaderElection": {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "5s"},
}
"""Where the set's defaults differ from Argo's own: with these values a child has Argo's flags."""


def values(extra: Object) -> Object:
    """Add to the values by which the local cluster's images are found."""
    found: Object = yaml.safe_load((CHECKOUT / _IMAGES).read_text())["spec"]["values"]
    return found | extra


def template(name: str, extra: Object) -> Object:
    """Build a ControllerTemplate of the shipped set with these values."""
    return {
        "apiVersion": "metaoperator.dev/v1alpha1",
        "kind": "ControllerTemplate",
        "metadata": {"name": name},
        "spec": {"source": {"directory": "workflow-controller"}, "values": values(extra)},
    }


def install_shared(kubectl: Kubectl, api: Api, extra: Object) -> None:
    """Install one controller for the whole cluster, without an ID: flags and settings are those of a child."""
    if api.get(f"/api/v1/namespaces/{SHARED}") is None:
        kubectl("create", "namespace", SHARED)
    kubectl("apply", "--server-side", "-f", _RULES)
    items = {"apiVersion": "v1", "kind": "List", "items": shared(extra)}
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=items)

    def leads() -> None:
        lease = api.object("coordination.k8s.io/v1/leases", SHARED, "workflow-controller") or {}
        pods = {pod["metadata"]["name"] for pod in api.objects("v1/pods", SHARED)}
        assert (lease.get("spec") or {}).get("holderIdentity") in pods, "the shared controller does not lead"

    eventually(leads)


def shared(extra: Object) -> list[Object]:
    """Make the shared controller's Deployment and ConfigMap out of those that the set renders for a namespace."""
    with NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(values(extra), file)
        file.flush()
        command = ["metaoperator", "render", SHARED, "--instance-id=", f"--fleet-values={file.name}", "--output=json"]
        command[0] = str(Path(sys.executable).with_name(command[0]))
        text = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=True).stdout
    rendered = {each["kind"]: each for each in json.loads(text)["items"]}
    deployment, settings = rendered["Deployment"], rendered["ConfigMap"]
    deployment["spec"]["template"]["metadata"] = {"labels": deployment["spec"]["selector"]["matchLabels"]}
    pod = deployment["spec"]["template"]["spec"]
    pod["serviceAccountName"] = "argo"
    (container,) = pod["containers"]
    container["args"].remove("--namespaced")
    del container["resources"]["limits"]  # in its favour
    for each in (deployment, settings):
        each["metadata"] = {"name": each["metadata"]["name"], "namespace": SHARED}
    return [settings, deployment]


# ---- what they cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """MB of all controllers together. Pages of the program count in each process's `resident`, never in `own`."""

    resident: float
    own: float
    peak: float


class Controllers:
    """The processes of all controllers that run on the real node now."""

    def __init__(self, api: Api, namespaces: Iterable[str], *, expected: int) -> None:
        """Find them by the cgroups of their pods."""
        pods = [pod for name in namespaces for pod in api.objects("v1/pods", name, query=_SELECTOR)]
        self.pids = [pid for pod in pods for pid in _processes(pod["metadata"]["uid"])]
        assert len(self.pids) == expected, f"{len(self.pids)} processes of {len(pods)} controllers, expected {expected}"

    def cpu(self) -> float:
        """Seconds of CPU since they started."""
        return sum(map(machine.seconds, self.pids))

    def memory(self) -> Memory:
        """Read how much they have now, and the most that they had."""
        found = [_status(pid) for pid in self.pids]
        resident, own, peak = (sum(each[key] for each in found) for key in ("VmRSS", "RssAnon", "VmHWM"))
        return Memory(resident=resident, own=own, peak=peak)


def control_plane() -> float:
    """Seconds of CPU of API server, etcd, controller-manager and scheduler since they started."""
    last = record.load()
    processes = last.running() if last else {}
    return sum(machine.seconds(process.pid) for name, process in processes.items() if name in CONTROL_PLANE)


CONTROL_PLANE: Sequence[str] = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


def _processes(uid: str) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            inside = uid in (place / "cgroup").read_text()
            command = (place / "cmdline").read_bytes().split(b"\0")[0]
        except OSError:  # it ended
            continue
        if inside and command.endswith(b"workflow-controller"):
            found.append(int(place.name))
    return found


def _status(pid: int) -> dict[str, float]:
    lines: list[Any] = [line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return {line[0].rstrip(":"): int(line[1]) * 1024 / 1e6 for line in lines if line[2:] == ["kB"]}
