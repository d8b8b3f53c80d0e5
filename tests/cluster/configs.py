"""The components' configuration files. Text only: what is started with which flags is said elsewhere."""

import json
from pathlib import Path

from . import credentials, debian, images, network, places

MAX_PODS = 250


def write_all() -> None:
    """Write every file into the run folder, CNI's into its own."""
    (places.RUN / "audit-policy.json").write_text(_json(_AUDIT_POLICY))
    (places.RUN / "scheduler.json").write_text(_json(_scheduler()))
    (places.RUN / "kubelet.json").write_text(_json(_kubelet()))
    # An empty resolver file makes a pod's look-up fail at once: there is no DNS here.
    (places.RUN / "resolv.conf").write_text("")
    (places.RUN / "containerd.toml").write_text(_containerd())
    folder = places.RUN / "cni"
    folder.mkdir(exist_ok=True)
    (folder / "10-metaoperator.conflist").write_text(_json(_cni()))


_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi/*"]},
        {"level": "Metadata", "verbs": ["get", "list", "watch"]},
        # The API server's own status updates of Argo's CRDs: 20 MB at each start, of no interest to any test.
        {
            "level": "Metadata",
            "users": ["system:apiserver"],
            "resources": [{"group": "apiextensions.k8s.io", "resources": ["customresourcedefinitions/status"]}],
        },
        # Large, and written at each step of each Workflow: their bodies cost more than what is measured.
        {
            "level": "Metadata",
            "resources": [
                {"group": "argoproj.io", "resources": ["workflows", "workflowtaskresults"]},
                {"group": "", "resources": ["pods/status", "nodes/status"]},
            ],
        },
        {"level": "RequestResponse"},
    ],
}


def _scheduler() -> dict[str, object]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(places.RUN / "scheduler.kubeconfig"), "qps": 500, "burst": 1000},
        "leaderElection": {"leaderElect": False},
    }


def _kubelet() -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": network.NODE_ADDRESS,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(credentials.PKI / "kubelet-client-ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{places.SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{places.CGROUP}",
        "failCgroupV1": False,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "maxPods": MAX_PODS,
        "volumePluginDir": str(places.VAR / "volume-plugins"),
        "podLogsDir": str(places.VAR / "pod-logs"),
        # Refused at once, since nothing listens there; without an entry each pod gets a warning event.
        "clusterDNS": [network.NODE_ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": str(places.RUN / "resolv.conf"),
        "makeIPTablesUtilChains": False,
        "healthzPort": 0,
        # Disk belongs to the person whose machine this is: no eviction, no removal of images.
        "evictionHard": {
            "memory.available": "64Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "serializeImagePulls": False,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "eventRecordQPS": 0,
        "shutdownGracePeriod": "0s",
    }


def _containerd() -> str:
    cri, runc = "io.containerd.cri.v1", "containerd.runtimes.runc"
    return f"""\
version = 3
root = "{places.CONTAINERD_ROOT}"
state = "{places.CONTAINERD_STATE}"
temp = "{places.VAR}/tmp"

[grpc]
  address = "{places.SOCKET}"

[ttrpc]
  address = "{places.SOCKET}.ttrpc"

# Elsewhere than /opt and /run/nri, which are another containerd's as well.
[plugins."io.containerd.internal.v1.opt"]
  path = "{places.VAR}/opt"

[plugins."io.containerd.image-verifier.v1.bindir"]
  bin_dir = "{places.VAR}/image-verifiers"

[plugins."io.containerd.nri.v1.nri"]
  disable = true

[plugins."{cri}.images".pinned_images]
  sandbox = "{images.PAUSE}"

[plugins."{cri}.images"]
  snapshotter = "{_snapshotter()}"

[plugins."{cri}.runtime"]
  # Lowering oom_score_adj needs a capability that a sandboxed root may lack; pods then fail to start.
  restrict_oom_score_adj = true
  # Under our folder rather than in /run/netns, where they could not be told from another runtime's.
  netns_mounts_under_state_dir = true
  enable_cdi = false

[plugins."{cri}.runtime".containerd]
  default_runtime_name = "runc"

[plugins."{cri}.runtime".{runc}]
  runtime_type = "io.containerd.runc.v2"

[plugins."{cri}.runtime".{runc}.options]
  BinaryName = "{debian.find("runc")}"
  SystemdCgroup = false
  Root = "{places.RUN}/runc"

[plugins."{cri}.runtime".cni]
  bin_dirs = ["{places.CNI_BIN}"]
  conf_dir = "{places.RUN}/cni"
  # CNI's loopback plugin would leave results whose names do not tell whose they are.
  use_internal_loopback = true
"""


def _snapshotter() -> str:
    """Return overlayfs, or the slow one that works where an overlay cannot sit on our file system."""
    return "native" if _filesystem(places.VAR) in ("overlay", "fuse", "nfs", "nfs4") else "overlayfs"


def _filesystem(place: Path) -> str:
    best, kind = "", ""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ", 1)
        mount = left.split()[4]
        if (place == Path(mount) or Path(mount) in place.parents) and len(mount) >= len(best):
            best, kind = mount, right.split()[0]
    return kind


def _cni() -> dict[str, object]:
    return {
        "cniVersion": "1.0.0",
        "name": places.CNI_NETWORK,
        "plugins": [
            {
                "type": "bridge",
                "bridge": places.BRIDGE,
                "isGateway": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(places.RUN / "addresses"),
                    "ranges": [[{"subnet": network.POD_RANGE, "gateway": network.NODE_ADDRESS}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
        ],
    }


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
