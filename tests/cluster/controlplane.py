"""etcd, API server, controller-manager and scheduler: flags, start, and when they are well.

Kubernetes' data is disposable: each start has a fresh etcd that does not wait for the disk.
"""

import contextlib
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from . import credentials, network, places
from .credentials import PKI, Credentials

# Not the usual ports: another cluster on this machine keeps its own.
_ETCD = "http://127.0.0.1:23790"
_ETCD_PEER = "http://127.0.0.1:23800"
_MANAGER_PORT, _SCHEDULER_PORT = "23257", "23259"
PORTS = (("127.0.0.1", 23790), ("127.0.0.1", 23800), ("127.0.0.1", 23257), ("127.0.0.1", 23259))


def etcd(program: Path) -> list[str]:
    """Return the command that runs etcd."""
    return [
        str(program),
        "--name=local",
        f"--data-dir={places.ETCD}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        f"--listen-peer-urls={_ETCD_PEER}",
        f"--initial-advertise-peer-urls={_ETCD_PEER}",
        f"--initial-cluster=local={_ETCD_PEER}",
        "--quota-backend-bytes=8589934592",
        "--auto-compaction-retention=5m",
    ]


def api_server(program: Path) -> list[str]:
    """Return the command that runs the API server, its audit log in `.cluster/audit.log`."""
    return [
        str(program),
        f"--etcd-servers={_ETCD}",
        f"--bind-address={network.API_ADDRESS}",
        f"--advertise-address={network.API_ADDRESS}",
        "--secure-port=443",
        f"--cert-dir={PKI}",
        f"--service-cluster-ip-range={network.SERVICE_RANGE}",
        f"--token-auth-file={PKI}/tokens.csv",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={PKI}/service-account.pub",
        f"--service-account-signing-key-file={PKI}/service-account.key",
        "--allow-privileged=true",
        # The node's name is in no DNS.
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={PKI}/kubelet-client.crt",
        f"--kubelet-client-key={PKI}/kubelet-client.key",
        f"--audit-policy-file={places.RUN}/audit-policy.json",
        f"--audit-log-path={places.AUDIT_LOG}",
        # Written before the request ends, so that a test can read what it just did.
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=2048",
        "--audit-log-maxbackup=1",
    ]


def controller_manager(program: Path) -> list[str]:
    """Return the command that runs the controller-manager, fast enough for hundreds of namespaces."""
    return [
        str(program),
        f"--kubeconfig={places.RUN}/controller-manager.kubeconfig",
        f"--cert-dir={PKI}/controller-manager",
        "--bind-address=127.0.0.1",
        f"--secure-port={_MANAGER_PORT}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        # Made at start-up, by default under /usr.
        f"--flex-volume-plugin-dir={places.VAR}/volume-plugins",
        f"--service-account-private-key-file={PKI}/service-account.key",
        f"--root-ca-file={credentials.API_CERTIFICATE}",
        "--kube-api-qps=300",
        "--kube-api-burst=600",
    ]


def scheduler(program: Path) -> list[str]:
    """Return the command that runs the scheduler."""
    return [
        str(program),
        f"--config={places.RUN}/scheduler.json",
        f"--cert-dir={PKI}/scheduler",
        "--bind-address=127.0.0.1",
        f"--secure-port={_SCHEDULER_PORT}",
    ]


def etcd_ready() -> bool:
    """Tell whether etcd serves."""
    return _ok(f"{_ETCD}/health")


def api_ready() -> bool:
    """Tell whether the API server says that it is ready."""
    return credentials.API_CERTIFICATE.exists() and _ok(f"{credentials.API_URL}/readyz")


def controllers_ready() -> bool:
    """Tell whether controller-manager and scheduler are healthy."""
    return _ok(f"https://127.0.0.1:{_MANAGER_PORT}/healthz") and _ok(f"https://127.0.0.1:{_SCHEDULER_PORT}/healthz")


def get(path: str, who: Credentials) -> bytes | None:
    """Read one object from the API server as admin; `None` if it is not there (yet)."""
    return fetch(f"{credentials.API_URL}{path}", {"Authorization": f"Bearer {who.admin}"})


def fetch(url: str, headers: Mapping[str, str]) -> bytes | None:
    """Read a URL on this machine; `None` whatever goes wrong, since the caller asks again."""
    # All listeners are our own, on addresses of this machine: their self-made certificates prove nothing more.
    context = ssl._create_unverified_context()  # noqa: S323
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with contextlib.suppress(OSError, urllib.error.URLError, http.client.HTTPException):
        with opener.open(urllib.request.Request(url, headers=dict(headers)), timeout=5) as answer:
            return answer.read()
    return None


def _ok(url: str) -> bool:
    return fetch(url, {}) is not None
