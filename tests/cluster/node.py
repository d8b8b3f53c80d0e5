"""The one real node: containerd, the kubelet, and the images that are there before any pod wants them."""

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

from . import build, controlplane, credentials, network, oci, places
from .credentials import Credentials
from .errors import ClusterError

_NAMESPACE = "k8s.io"


def containerd(program: Path) -> list[str]:
    """Return the command that runs containerd."""
    return [str(program), f"--config={places.RUN}/containerd.toml", "--log-level=info"]


def kubelet(program: Path) -> list[str]:
    """Return the command that runs the kubelet."""
    return [
        str(program),
        f"--config={places.RUN}/kubelet.json",
        f"--kubeconfig={places.RUN}/kubelet.kubeconfig",
        f"--root-dir={places.KUBELET_ROOT}",
        f"--cert-dir={credentials.PKI}/kubelet",
        f"--hostname-override={credentials.NODE}",
        f"--node-ip={network.NODE_ADDRESS}",
        "--v=1",
    ]


def containerd_ready() -> bool:
    """Tell whether containerd answers."""
    return places.SOCKET.exists() and ctr("version").returncode == 0


def ready(who: Credentials) -> bool:
    """Tell whether the API server calls the node Ready."""
    answer = controlplane.get(f"/api/v1/nodes/{credentials.NODE}", who)
    if answer is None:
        return False
    node = json.loads(answer)
    conditions = {c["type"]: c["status"] for c in node["status"].get("conditions", [])}
    # The taint goes a moment after the condition comes; until then no pod is scheduled.
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")


def load(archives: Iterable[Path]) -> list[str]:
    """Import image archives into containerd, where pods find them; return the images' names."""
    names = []
    for archive in archives:
        if not archive.is_file():
            raise ClusterError(f"there is no image archive {archive}")
        done = ctr("images", "import", "--local", str(archive.resolve()))
        if done.returncode != 0:
            raise ClusterError(f"{archive} cannot be imported: {done.stderr.strip()}")
        for name in oci.names(archive):
            names.append(name)
            if "/" not in name:
                # What the kubelet makes of a name that has no registry, before it asks containerd for it.
                ctr("images", "tag", "--force", name, f"docker.io/library/{name}")
    return names


def ctr(*arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run containerd's client in the namespace of Kubernetes' pods."""
    command = [str(build.program("ctr")), f"--address={places.SOCKET}", f"--namespace={_NAMESPACE}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)
