"""An API server by itself: etcd and kube-apiserver on free ports of the loopback device, by any user, several at once.

For what the API server decides alone, such as admission. No controller runs and there is no node, so Namespaces are never
emptied and nobody makes `default` ServiceAccounts. Its data are gone with it.
"""

import base64
import contextlib
import ctypes
import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from . import build
from .errors import ClusterError

TOKEN = "alone"
_OPENSSL = (
    ("genrsa", "-out", "service-account.key", "2048"),
    ("rsa", "-in", "service-account.key", "-pubout", "-out", "service-account.pub"),
)


class ApiServer:
    """One API server with its store; it may be killed and started anew, on the same port with the same data."""

    def __init__(self, folder: Path, flags: tuple[str, ...] = ()) -> None:
        """Write keys and tokens; nothing is started."""
        self._folder = folder
        self._flags = flags
        self._etcd_port, self._peer_port, self._port = free_ports(3)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.kubeconfig = folder / "kubeconfig"
        self.url = f"https://127.0.0.1:{self._port}"
        for command in _OPENSSL:
            done = subprocess.run(["openssl", *command], cwd=folder, capture_output=True, text=True)
            if done.returncode != 0:
                raise ClusterError(f"openssl {command[0]} failed:\n{done.stderr}")
        (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')

    @property
    def pid(self) -> int:
        """The API server's process."""
        return self._running["kube-apiserver"].pid

    def start(self) -> None:
        """Start what does not run, and wait until the API server says that it is ready."""
        if "etcd" not in self._running:
            self._spawn("etcd", self._etcd())
            self._wait("etcd", lambda: _ok(f"http://127.0.0.1:{self._etcd_port}/health"))
        self._spawn("kube-apiserver", self._api_server())
        self._wait("kube-apiserver", lambda: _ok(f"{self.url}/readyz"))
        self._write_kubeconfig()

    def stop(self, name: str = "kube-apiserver", number: signal.Signals = signal.SIGKILL) -> None:
        """End one process and see it gone. SIGTERM lets requests end that are under way, SIGKILL is a crash."""
        process = self._running.pop(name)
        process.send_signal(number)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        """End all of it."""
        for name in reversed(list(self._running)):
            self.stop(name)

    def _etcd(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        return [
            str(build.program("etcd")),
            "--name=alone",
            f"--data-dir={self._folder}/etcd",
            "--unsafe-no-fsync",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=alone={peer}",
            # Workflows of 1 MB, many times over.
            "--max-request-bytes=8388608",
            "--quota-backend-bytes=8589934592",
            "--log-level=error",
        ]

    def _api_server(self) -> list[str]:
        return [
            str(build.program("kube-apiserver")),
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            # Nobody reaches it by the Service `kubernetes`, whose endpoint may not be a loopback address.
            "--endpoint-reconciler-type=none",
            f"--secure-port={self._port}",
            f"--cert-dir={self._folder}/pki",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--token-auth-file={self._folder}/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={self._folder}/service-account.pub",
            f"--service-account-signing-key-file={self._folder}/service-account.key",
            *self._flags,
        ]

    def _spawn(self, name: str, command: list[str]) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                command,
                cwd=self._folder,
                env={"PATH": os.environ["PATH"], "HOME": str(self._folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,
            )

    def _wait(self, name: str, ready: Callable[[], bool], seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            code = self._running[name].poll()
            if code is not None or time.monotonic() > deadline:
                told = (self._folder / f"{name}.log").read_text(errors="replace")[-2000:]
                what = "is not ready" if code is None else f"ended with {code}"
                raise ClusterError(f"{name} {what}; the end of its log:\n{told}")
            time.sleep(0.05)

    def _write_kubeconfig(self) -> None:
        certificate = base64.b64encode((self._folder / "pki" / "apiserver.crt").read_bytes()).decode()
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "alone", "cluster": {"server": self.url, "certificate-authority-data": certificate}}],
            "users": [{"name": "admin", "user": {"token": TOKEN}}],
            "contexts": [{"name": "alone", "context": {"cluster": "alone", "user": "admin"}}],
            "current-context": "alone",
        }
        self.kubeconfig.write_text(json.dumps(content, indent=2) + "\n")


@contextmanager
def running(*flags: str) -> Iterator[ApiServer]:
    """Have an API server with these flags besides its own; everything of it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="metaoperator-api-", ignore_cleanup_errors=True) as folder:
        made = ApiServer(Path(folder), flags)
        try:
            made.start()
            yield made
        finally:
            made.close()


def end_with_parent() -> None:
    """A parent that is killed leaves nothing behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def free_ports(count: int, address: str = "127.0.0.1") -> list[int]:
    """Find ports that nobody listens at."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((address, 0))
        return [probe.getsockname()[1] for probe in probes]


def _ok(url: str) -> bool:
    # Its certificate is made by itself.
    context = ssl._create_unverified_context()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        opener.open(url, timeout=5).close()
    except (OSError, urllib.error.URLError):
        return False
    return True
