"""`make demo`: the main job, end to end, on a real Kubernetes on this machine. Needs root; may be run again."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
KUBECONFIG = CHECKOUT / ".cluster" / "kubeconfig"
IMAGE = Path("dist/metaoperator.tar")
IMAGE_NAME = os.environ.get("IMAGE_NAME") or "metaoperator:0.1.0"
NAMESPACES = ("demo-a", "demo-b")
OPT_IN = "metaoperator.dev/workflow-controller=enabled"
WORKFLOW = "tests/e2e/manifests/three-steps.yaml"

PLAN = """\
This demo starts a Kubernetes on this machine and runs the meta-operator on it. As root, it
  - installs Debian packages that are missing, named before it starts; they stay;
  - runs etcd, a Kubernetes control plane, containerd and a kubelet;
  - makes the bridge mo-br0, the address 10.96.0.1 on the loopback device, a cgroup, folders under /run and /var/lib.
`make cluster-down` takes all of it (but the packages) away again. More: docs/local-cluster.md
The first time it builds Kubernetes and Argo from source: 10 to 20 minutes on two cores. After that, about two minutes.
"""
NO_ROOT = """\
The demo needs root for a real node, and nothing was done. Run it as root, or use a cluster of your own:
README.md, "Install on your own cluster".
"""


class Stop(Exception):
    """Something a person has to look at; the text says what."""


def main() -> int:
    """Run the demo; 0 done, 1 something failed, 2 it cannot run here."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print(PLAN)
    if os.geteuid() != 0:
        print(NO_ROOT, end="")
        return 2
    os.chdir(CHECKOUT)
    started = time.monotonic()
    try:
        kubectl = _start_cluster()
        _install(kubectl)
        workflows = _use(kubectl)
        _show(kubectl, workflows)
    except Stop as stop:
        print(f"\nThe demo stopped: {stop}\n")
        print("What runs goes on running. `make demo` begins again, `make cluster-down` stops everything.")
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. What runs goes on running; `make cluster-down` stops it.")
        return 130
    took = round(time.monotonic() - started)
    print(f"Done in {took // 60} min {took % 60:02} s.\n\n{_how_to_go_on(kubectl)}", end="")
    return 0


def _start_cluster() -> "Kubectl":
    _heading("A Kubernetes on this machine")
    _cluster("up")
    _heading("The operator's image")
    IMAGE.parent.mkdir(exist_ok=True)
    _cluster("image", "--out", str(IMAGE), "--tag", IMAGE_NAME)
    _cluster("load", str(IMAGE))
    return Kubectl(_cluster("path", "kubectl"))


def _install(kubectl: "Kubectl") -> None:
    _heading("Argo's CRDs, and what children of the meta-operator live on")
    kubectl("apply", "--server-side", "-f", _cluster("crds", "full"))
    kubectl("apply", "--server-side", "-k", "manifests/fleet/crds")
    kubectl.until("get", "workflowcontrollers,controllertemplates", "-A")
    _note("manifests/fleet, with the images that this cluster has instead of those at quay.io:")
    kubectl("apply", "--server-side", "-k", "tests/e2e/manifests/local")
    _heading("The operator")
    here = kubectl.quietly(
        "get", "deployment", "metaoperator", "-n", "metaoperator", "--ignore-not-found", "-o", "name"
    )
    kubectl("apply", "--server-side", "-k", "manifests/operator")
    if here.strip():
        _note("it was here already, perhaps from an older image:")
        kubectl("rollout", "restart", "deployment/metaoperator", "-n", "metaoperator")
    kubectl("rollout", "status", "deployment/metaoperator", "-n", "metaoperator", "--timeout=180s")


def _use(kubectl: "Kubectl") -> dict[str, str]:
    """Opt two namespaces in and run a Workflow in each; returns the Workflows' names."""
    _heading("Two namespaces opt in")
    for name in NAMESPACES:
        if not kubectl.quietly("get", "namespace", name, "--ignore-not-found", "-o", "name").strip():
            kubectl("create", "namespace", name)
    kubectl("label", "--overwrite", "namespace", *NAMESPACES, OPT_IN)
    for name in NAMESPACES:
        kubectl("wait", "--for=create", "--timeout=60s", "wfc/workflow-controller", "-n", name)
    for name in NAMESPACES:
        kubectl("wait", "--for=condition=Ready", "--timeout=180s", "wfc/workflow-controller", "-n", name)
    _heading("A Workflow of three steps in each; its manifest does not say which controller it is for")
    made = {name: kubectl("create", "-n", name, "-f", WORKFLOW, "-o", "name").strip() for name in NAMESPACES}
    for name, workflow in made.items():
        try:
            kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=180s", workflow, "-n", name)
        except Stop as stop:
            found = kubectl.quietly("get", workflow, "-n", name, "-o", "jsonpath={.status.phase}: {.status.message}")
            raise Stop(f"{name}/{workflow} has not Succeeded, but is {found}") from stop
    return {name: workflow.rpartition("/")[2] for name, workflow in made.items()}


def _show(kubectl: "Kubectl", workflows: dict[str, str]) -> None:
    _heading("What there is now")
    kubectl("get", "workflowcontrollers", "-A")
    print()
    kubectl("get", "workflows", "-A", "-L", "workflows.argoproj.io/controller-instanceid")
    print()
    for name, workflow in workflows.items():
        command = ["logs", "-n", name, "-l", f"workflows.argoproj.io/workflow={workflow}", "-c", "main"]
        print(f"$ kubectl {shlex.join(command)} | grep 'step 3'")
        lines = [
            line for line in kubectl.quietly(*command).splitlines() if re.match(r"step 3 received [0-9a-f]{16}$", line)
        ]
        if not lines:
            raise Stop(f"step 3 of Workflow {name}/{workflow} did not print the value that step 1 drew.")
        print(*lines, sep="\n")
    print()


def _how_to_go_on(kubectl: "Kubectl") -> str:
    path = "" if shutil.which("kubectl") else f'  export PATH="{Path(kubectl.program).parent}:$PATH"   # has kubectl\n'
    return f"""\
Go on by hand, in {CHECKOUT}:
  export KUBECONFIG={KUBECONFIG}
{path}  kubectl create namespace team-a
  kubectl label namespace team-a {OPT_IN}
  kubectl create -n team-a -f {WORKFLOW}
  kubectl get workflows -A --watch
  .venv/bin/metaoperator status
  kubectl delete configmap workflow-controller-configmap -n team-a     # and look: it is there again
  kubectl label namespace team-a metaoperator.dev/workflow-controller-   # opts out again
Stop:
  make cluster-down
"""


class Kubectl:
    """Runs kubectl, and prints each command so that a person can repeat it."""

    def __init__(self, program: str) -> None:
        """Use the kubectl that belongs to the cluster: the machine may have none."""
        self.program = program
        self._environment = {**os.environ, "KUBECONFIG": str(KUBECONFIG)}

    def __call__(self, *arguments: str) -> str:
        """Print the command, run it, and print what it says."""
        print(f"$ kubectl {shlex.join(arguments)}")
        told = self.quietly(*arguments)
        print(told, end="")
        return told

    def until(self, *arguments: str, seconds: float = 60) -> None:
        """Print the command once, and repeat it until it succeeds."""
        print(f"$ until kubectl {shlex.join(arguments)}; do sleep 1; done")
        ends = time.monotonic() + seconds
        while True:
            try:
                self.quietly(*arguments)
            except Stop:
                if time.monotonic() > ends:
                    raise
                time.sleep(1)
            else:
                return

    def quietly(self, *arguments: str) -> str:
        """Run a command and return what it says."""
        done = subprocess.run(
            [self.program, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            print(done.stdout, end="")
            raise Stop(f"kubectl {shlex.join(arguments)} failed.\n{done.stderr.strip()}")
        return done.stdout


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


def _heading(text: str) -> None:
    print(f"\n== {text}")


def _note(text: str) -> None:
    print(f"# {text}")


if __name__ == "__main__":
    sys.exit(main())
