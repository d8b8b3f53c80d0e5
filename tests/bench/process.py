"""The operator as a process of this machine, under its ServiceAccount's token: so its CPU and memory are its own."""

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cluster import places
from tests.e2e.audit import WATCHED, Audit
from tests.e2e.local import OPERATOR, Api, Kubectl, eventually

from . import machine

LOG = places.HOME / "bench-operator.log"


class Operator:
    """One replica, while it is entered."""

    def __init__(self, kubectl: Kubectl, api: Api, audit: Audit, *, workers: int | None = None) -> None:
        """Get a token; nothing is started."""
        token = kubectl("create", "token", OPERATOR, "-n", OPERATOR, "--duration=6h").strip()
        self.token = token
        self._kubeconfig = api.bearer_kubeconfig(token)
        self._audit = audit
        self._workers = workers
        self._process: subprocess.Popen[bytes] | None = None
        self.started_at = 0

    def __enter__(self) -> Self:
        """Start it, and wait until every watch is open and it leads."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.started_at = self._audit.mark()
        command = [
            str(Path(sys.executable).with_name("metaoperator")),
            "run",
            f"--kubeconfig={self._kubeconfig}",
            f"--namespace={OPERATOR}",
            f"--port={port}",
            "--log-format=json",
            *([] if self._workers is None else [f"--workers={self._workers}"]),
        ]
        environment = {"PATH": os.environ["PATH"], "HOME": str(places.HOME)}
        with LOG.open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=places.HOME)
        eventually(lambda: self._in_sync(port), every=0.1)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop it as a pod is stopped."""
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Remove its kubeconfig."""
        self._kubeconfig.unlink(missing_ok=True)

    def _in_sync(self, port: int) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"the operator ended; its log is {LOG}")
        late = WATCHED - self._audit.watched(self.started_at).get("", set())
        assert not late, f"not watched yet: {sorted(late)}"
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
        except (urllib.error.URLError, OSError) as exc:
            raise AssertionError(f"not ready: {exc}") from exc
        led = self._audit.tally(self.started_at).leases
        assert led, "does not lead yet"

    @property
    def runs(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    # ---- what it costs

    def cpu(self) -> float:
        """Seconds of CPU since it started, user and system."""
        return machine.seconds(self.pid)

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self._process is not None
        return self._process.pid

    def peak(self) -> float:
        """MB of memory that it ever had resident."""
        return self._status("VmHWM")

    def resident(self) -> float:
        """MB of memory that it has resident now."""
        return self._status("VmRSS")

    def _status(self, key: str) -> float:
        assert self._process is not None
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise AssertionError(f"no {key} of process {self._process.pid}")


def troubles() -> list[str]:
    """Tell what the operator complained of: a figure of a run with errors is worth nothing."""
    found = []
    for line in LOG.read_text().splitlines() if LOG.exists() else ():
        try:
            entry = json.loads(line)
        except ValueError:
            found.append(line)
            continue
        if str(entry.get("level", "")).upper() in ("ERROR", "WARNING", "CRITICAL"):
            found.append(line)
    return found
