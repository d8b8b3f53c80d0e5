"""What the sweep of 10,000 Workflows costs the operator: on an API server of its own, with children that are played.

The operator's memory is that of its process: idle with one namespace served and no Workflows, and the most that it ever
had with all of them there when it starts, which is when it reads them as lists, until each has its instance ID. In a
second namespace, one Workflow is swept in the middle of it.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from metaoperator.core import names
from tests.cluster import alone
from tests.cluster.alone import ApiServer
from tests.e2e.install import OPERATOR_BUNDLE
from tests.e2e.local import OPERATOR, Object, eventually

from . import machine, wire
from .admission import Server, workflow
from .report import Figure

MANY, FEW = "many", "few"
CHILD = names.WORKFLOW_CONTROLLER
WANTED = re.compile(r"apiserver_request_total\{([^}]*)\} (\S+)")
TRACES = ("pods", "workflowtasksets", "persistentvolumeclaims")


def run(count: int = 10_000, large: int = 200) -> list[Figure]:
    """Measure small ones alone, and with some of 1 MB among them."""
    figures: list[Figure] = []
    for told, sizes in (("", [2_000] * count), (f", {large} of 1 MB", [2_000] * (count - large) + [1_000_000] * large)):
        with alone.running() as api_server:
            on = _Stage(api_server)
            try:
                figures += on.measure(f"{count:,} Workflows{told}", sizes)
            finally:
                on.close()
    return figures


class _Stage:
    """The API server with both bundles, the operator's rights, and somebody who plays its children."""

    def __init__(self, api_server: ApiServer) -> None:
        self._api_server = api_server
        self._server = Server(api_server)
        self._line = self._dialled()
        self._port = 0
        self._folder = Path(tempfile.mkdtemp(prefix="metaoperator-bench-"))
        server = self._server
        server.crds("full")
        server.kubectl("apply", "--server-side", "-k", "manifests/fleet/crds")
        eventually(lambda: server.crds("full"))
        server.kubectl("apply", "--server-side", "-k", "manifests/fleet")
        documents = [each for each in yaml.safe_load_all(server.kubectl("kustomize", OPERATOR_BUNDLE)) if each]
        kept = [each for each in documents if each["kind"] not in ("Deployment", "PodDisruptionBudget", "Service")]
        server.kubectl("apply", "--server-side", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": kept})
        for name in (MANY, FEW):
            server.kubectl("create", "namespace", name)
        token = server.kubectl("create", "token", OPERATOR, "-n", OPERATOR, "--duration=6h").strip()
        content = json.loads(api_server.kubeconfig.read_text())
        content["users"][0]["user"] = {"token": token}
        self._kubeconfig = self._folder / "kubeconfig"
        self._kubeconfig.write_text(json.dumps(content))
        self._ended = threading.Event()
        self._children = threading.Thread(target=self._play)
        self._children.start()

    def close(self) -> None:
        """End what was started."""
        self._ended.set()
        self._children.join()
        self._line.close()

    def measure(self, what: str, sizes: list[int]) -> list[Figure]:
        """Sweep so many."""
        _say(what)
        self._label(FEW)
        with self._operator() as process:
            eventually(lambda: self._ready(FEW), seconds=120, every=0.5)
            time.sleep(20)
            idle = _memory(process, "VmRSS")
        self._submit(MANY, sizes)
        with self._operator() as process:
            eventually(lambda: self._ready(FEW), seconds=120, every=0.5)
            time.sleep(10)
            before, started = self._requests(), time.monotonic()
            self._label(MANY)
            eventually(lambda: self._one_is("w-00500"), seconds=600, every=0.2)
            # Created where nothing stamps: the policy's binding is gone for a moment.
            single = self._single()
            eventually(lambda: self._all_are(len(sizes) + 1), seconds=1800, every=0.5)
            seconds = time.monotonic() - started
            requests = self._requests() - before
            eventually(lambda: self._told(len(sizes)), seconds=60, every=0.5)
            peak, cpu = _memory(process, "VmHWM"), machine.seconds(process.pid)
        return [
            Figure(what=f"{what}: memory of the idle operator", value=idle, unit="MB"),
            Figure(what=f"{what}: most memory above that", value=peak - idle, unit="MB", most=100),
            Figure(what=f"{what}: from opt-in to the last label", value=seconds, unit="s"),
            Figure(what=f"{what}: CPU of the operator, its start included", value=cpu, unit="s"),
            Figure(what=f"{what}: a single one of another namespace meanwhile", value=single, unit="s", most=15),
            Figure(what=f"{what}: writes of Workflows", value=requests["PATCH", "workflows"], most=len(sizes) + 1),
            *(Figure(what=f"{what}: lists of {kind}", value=requests["LIST", kind]) for kind in TRACES),
        ]

    # ---- acts

    def _submit(self, namespace: str, sizes: list[int]) -> None:
        bodies = {size: json.dumps(workflow(size, nodes=False)) for size in set(sizes)}
        requests = [
            wire.Request(method="POST", path=_workflows(namespace), body=_named(bodies[size], f"w-{index:05}"))
            for index, size in enumerate(sizes)
        ]
        wire.send_all(self._door(), requests, at_once=16)

    def _single(self) -> float:
        binding = (names.STAMPING_POLICY, "mutatingadmissionpolicybinding")
        manifest = self._server.kubectl("get", binding[1], binding[0], "-o", "json")
        self._server.kubectl("delete", binding[1], binding[0])
        name, path = "single", _workflows(FEW)
        body = json.loads(_named(json.dumps(workflow(2_000, nodes=False)), name))

        def unstamped() -> None:
            self._line.send("DELETE", f"{path}/{name}")
            code, answer = self._line.send("POST", path, json.dumps(body))
            assert code == 201, answer
            assert names.INSTANCE_ID_LABEL not in (answer["metadata"].get("labels") or {}), "stamped still"

        eventually(unstamped, seconds=30, every=0.2)
        started = time.monotonic()

        def has() -> None:
            _, answer = self._line.send("GET", f"{path}/{name}")
            assert (answer["metadata"].get("labels") or {}).get(names.INSTANCE_ID_LABEL) == FEW

        eventually(has, seconds=120, every=0.1)
        seconds = time.monotonic() - started
        restored = json.loads(manifest)
        restored["metadata"] = {"name": binding[0]}
        self._server.kubectl("create", "-f", "-", stdin=restored)
        return seconds

    def _label(self, namespace: str) -> None:
        self._server.kubectl("label", "namespace", namespace, f"{names.OPT_IN_LABEL}=enabled", "--overwrite")

    def _door(self) -> wire.Door:
        authority = (self._folder_of_server / "pki" / "apiserver.crt").read_text()
        return wire.Door(server=self._api_server.url, authority=authority, token=alone.TOKEN, agent="bench")

    @property
    def _folder_of_server(self) -> Path:
        return self._api_server.kubeconfig.parent

    # ---- questions

    def _row(self, namespace: str) -> Object:
        path = f"/apis/{names.API_VERSION}/namespaces/{namespace}/workflowcontrollers/{CHILD}"
        code, answer = self._line.send("GET", path)
        return answer if code == 200 else {}

    def _ready(self, namespace: str) -> None:
        conditions = (self._row(namespace).get("status") or {}).get("conditions", ())
        assert any(each["type"] == "Ready" and each["status"] == "True" for each in conditions), (
            f"{namespace}: not ready"
        )

    def _one_is(self, name: str) -> None:
        _, answer = self._line.send("GET", f"{_workflows(MANY)}/{name}")
        assert names.INSTANCE_ID_LABEL in (answer["metadata"].get("labels") or {}), f"{name} is not swept"

    def _all_are(self, count: int) -> None:
        # By the operator's own count: to ask the API server for what has no label makes it read all of them.
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=30) as answer:
            found = re.search(rb'metaoperator_swept_total\{kind="Workflow"\} (\S+)', answer.read())
        done = float(found[1]) if found else 0
        assert done >= count, f"{done:g} of {count}"

    def _told(self, count: int) -> None:
        work = (self._row(MANY).get("status") or {}).get("workflows", {})
        assert (work.get("swept"), work.get("unswept", 0)) == (count, 0), work

    def _requests(self) -> Counter[tuple[str, str]]:
        found: Counter[tuple[str, str]] = Counter()
        text = self._server.kubectl("get", "--raw", "/metrics")
        for labels, value in WANTED.findall(text):
            said = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            found[said["verb"], said["resource"]] += int(float(value))
        return found

    # ---- the operator

    @contextmanager
    def _operator(self) -> Iterator[subprocess.Popen[bytes]]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = self._port = int(probe.getsockname()[1])
        command = [
            str(Path(sys.executable).with_name("metaoperator")),
            "run",
            f"--kubeconfig={self._kubeconfig}",
            f"--port={port}",
            "--log-format=json",
        ]
        with (self._folder / "operator.log").open("ab") as log:
            process = subprocess.Popen(
                command, env={"PATH": os.environ["PATH"], "HOME": str(self._folder)}, stdout=log, stderr=log
            )

        def ready() -> None:
            assert process.poll() is None, (self._folder / "operator.log").read_text()[-2000:]
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
            except (urllib.error.URLError, OSError) as exc:
                raise AssertionError(f"not ready: {exc}") from exc

        try:
            eventually(ready, seconds=120, every=0.2)
            yield process
        finally:
            process.terminate()
            process.wait(60)

    # ---- the children

    def _play(self) -> None:
        """Be what makes Deployments available, and their Leases move."""
        line = self._dialled()
        while not self._ended.wait(1):
            query = f"labelSelector={names.MANAGED_BY_LABEL}%3D{names.MANAGED_BY}"
            _, found = line.send("GET", f"/apis/apps/v1/deployments?{query}")
            for each in found["items"]:
                _play(line, each)
        line.close()

    def _dialled(self) -> wire.Line:
        return wire.Line(int(self._api_server.url.rpartition(":")[2]), alone.TOKEN)


def _play(line: wire.Line, deployment: Object) -> None:
    meta, spec = deployment["metadata"], deployment["spec"]
    namespace = meta["namespace"]
    pods, name = f"/api/v1/namespaces/{namespace}/pods", f"{meta['name']}-1-1"
    if line.send("GET", f"{pods}/{name}")[0] == 404:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{meta['name']}-1", "uid": meta["uid"]}
        template = spec["template"]
        body = {
            "metadata": {**template["metadata"], "name": name, "ownerReferences": [{**owner, "controller": True}]},
            # Without a node, nothing of it is looked at.
            "spec": {"containers": [{"name": "played", "image": "played"}], "automountServiceAccountToken": False},
        }
        line.send(
            "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", json.dumps({"metadata": {"name": "default"}})
        )
        line.send("POST", pods, json.dumps(body))
    _merge(line, f"{pods}/{name}/status", {"status": {"phase": "Running"}})
    status = {
        "observedGeneration": meta["generation"],
        **dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1),
    }
    _merge(line, f"/apis/apps/v1/namespaces/{namespace}/deployments/{meta['name']}/status", {"status": status})
    leases, lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", f"{CHILD}-{namespace}"
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    held = {"spec": {"holderIdentity": name, "leaseDurationSeconds": 30, "renewTime": now}}
    if line.send("GET", f"{leases}/{lease}")[0] == 404:
        line.send("POST", leases, json.dumps({"metadata": {"name": lease}, **held}))
    _merge(line, f"{leases}/{lease}", held)


def _merge(line: wire.Line, path: str, body: Any) -> None:
    line.send("PATCH", path, json.dumps(body), kind=wire.MERGE)


def _workflows(namespace: str) -> str:
    return f"/apis/{names.ARGO_API_VERSION}/namespaces/{namespace}/workflows"


def _named(body: str, name: str) -> str:
    return json.dumps({**json.loads(body), "metadata": {"name": name}})


def _memory(process: subprocess.Popen[bytes], key: str) -> float:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise AssertionError(f"no {key}")


def _say(text: str) -> None:
    print(f"# {text}", flush=True)
