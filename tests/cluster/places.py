"""Every path and machine-wide name that the cluster uses.

What is outside the checkout carries our name, so that leftovers of a crash can be recognised without a
record, and nothing that belongs to another containerd, kubelet or network is ever touched.
"""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
TOOLS = Path(__file__).resolve().parent / "tools"
STAGES = Path(__file__).resolve().parent / "stages"

# In the checkout: what a person or a test reads.
HOME = CHECKOUT / ".cluster"
KUBECONFIG = HOME / "kubeconfig"
AUDIT_LOG = HOME / "audit.log"
LOGS = HOME / "logs"
STATE = HOME / "state.json"
ETCD = HOME / "etcd"

# On the machine. Short, because a socket's path may have at most 107 bytes and a checkout's may be long.
RUN = Path("/run/metaoperator-cluster")
MACHINE_STATE = RUN / "state.json"
SOCKET = RUN / "containerd.sock"
# Not under /run: that is often mounted noexec, and Argo runs its executor from a pod's volume.
VAR = Path("/var/lib/metaoperator-cluster")
CONTAINERD_ROOT = VAR / "containerd"
CONTAINERD_STATE = RUN / "containerd"
KUBELET_ROOT = VAR / "kubelet"

CGROUP = "metaoperator"
BRIDGE = "mo-br0"
CNI_NETWORK = "metaoperator"
CNI_BIN = Path("/usr/lib/cni")
CNI_RESULTS = Path("/var/lib/cni/results")
# Every process that we start has it in its environment, and shims inherit it from containerd.
PROCESS_MARK = "METAOPERATOR_CLUSTER"

# Compiled into the kubelet, the shim and libcni: no option moves these. They are removed again if they
# were not there before.
KUBELET_COMPILED_IN = Path("/var/lib/kubelet")
COMPILED_IN = (
    KUBELET_COMPILED_IN,
    Path("/var/log/containers"),
    Path("/run/containerd/s"),
    Path("/run/containerd"),
    Path("/var/lib/cni/results"),
    Path("/var/lib/cni"),
)


def cache() -> Path:
    """Return the folder of everything that is slow to make and the same in every checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "metaoperator"
