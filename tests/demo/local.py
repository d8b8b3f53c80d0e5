"""The story on a real Kubernetes on this machine. Needs root; may be run again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from .story import LABEL, WORKFLOW, Story, show
from .telling import CHECKOUT, Kubectl, Stop, heading, note

KUBECONFIG = CHECKOUT / ".cluster" / "kubeconfig"
IMAGE = Path("dist/metaoperator.tar")
IMAGE_NAME = os.environ.get("IMAGE_NAME") or "metaoperator:0.1.0"
NAMESPACES = ("demo-a", "demo-b")

PLAN = """\
This demo starts a Kubernetes on this machine and runs the meta-operator on it. As root, it
  - installs Debian packages that are missing, named before it starts; they stay;
  - runs etcd, a Kubernetes control plane, containerd and a kubelet;
  - makes the bridge mo-br0, the address 10.96.0.1 on the loopback device, a cgroup, folders under /run and /var/lib.
`make cluster-down` takes all of it (but the packages) away again. More: docs/local-cluster.md
The first time it builds Kubernetes and Argo from source: 10 to 20 minutes on two cores. After that, about two minutes.
"""
NO_ROOT = """\
The demo needs root for a real node, and nothing was done. Run it as root, or, without root, on the cluster of your
kubeconfig's current context; it says first what it would do there:
  make demo CLUSTER=current
"""


AGAIN = "What runs goes on running. `make demo` begins again, `make cluster-down` stops everything."
INTERRUPTED = "What runs goes on running; `make cluster-down` stops it."


def run() -> str:
    """Tell the story on a Kubernetes on this machine; returns how to go on."""
    kubectl = _start_cluster()
    _install(kubectl)
    for name in NAMESPACES:
        if not kubectl.quietly("get", "namespace", name, "--ignore-not-found", "-o", "name").strip():
            kubectl("create", "namespace", name)
    show(kubectl, Story(namespaces=NAMESPACES).use(kubectl))
    return _how_to_go_on(kubectl)


def _start_cluster() -> Kubectl:
    heading("A Kubernetes on this machine")
    _cluster("up")
    heading("The operator's image")
    IMAGE.parent.mkdir(exist_ok=True)
    _cluster("image", "--out", str(IMAGE), "--tag", IMAGE_NAME)
    _cluster("load", str(IMAGE))
    return Kubectl(_cluster("path", "kubectl"), KUBECONFIG)


def _install(kubectl: Kubectl) -> None:
    heading("Argo's CRDs, and what children of the meta-operator live on")
    kubectl("apply", "--server-side", "-f", _cluster("crds", "full"))
    kubectl("apply", "--server-side", "-k", "manifests/fleet/crds")
    kubectl.until("get", "workflowcontrollers,controllertemplates", "-A")
    note("manifests/fleet, with the images that this cluster has instead of those at quay.io:")
    kubectl("apply", "--server-side", "-k", "tests/e2e/manifests/local")
    heading("The operator")
    here = kubectl.quietly(
        "get", "deployment", "metaoperator", "-n", "metaoperator", "--ignore-not-found", "-o", "name"
    )
    kubectl("apply", "--server-side", "-k", "manifests/operator")
    if here.strip():
        note("it was here already, perhaps from an older image:")
        kubectl("rollout", "restart", "deployment/metaoperator", "-n", "metaoperator")
    kubectl("rollout", "status", "deployment/metaoperator", "-n", "metaoperator", "--timeout=180s")


def _how_to_go_on(kubectl: Kubectl) -> str:
    path = "" if shutil.which("kubectl") else f'  export PATH="{Path(kubectl.program).parent}:$PATH"   # has kubectl\n'
    return f"""\
Go on by hand, in {CHECKOUT}:
  export KUBECONFIG={KUBECONFIG}
{path}  kubectl create namespace team-a
  kubectl label namespace team-a {LABEL}=enabled
  kubectl create -n team-a -f {WORKFLOW}
  kubectl get workflows -A --watch
  .venv/bin/metaoperator status
  kubectl delete configmap workflow-controller-configmap -n team-a     # and look: it is there again
  kubectl label namespace team-a {LABEL}-   # opts out again
Stop:
  make cluster-down
"""


def _cluster(*arguments: str) -> str:
    """Run one command of tests/cluster; its progress goes to the terminal, its answer is returned."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster", *arguments], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode == 130:
        raise KeyboardInterrupt
    if done.returncode != 0:
        raise Stop(f"`python3 -m tests.cluster {' '.join(arguments)}` failed; its reason stands above.")
    return done.stdout.strip()
