"""`make compat`: the main job on the kubeconfig's cluster with one Argo version; the operator runs on the host.

    make compat VERSION=v4.1.2 [IMAGE=registry/workflow-controller] [EXECUTOR=registry/argoexec]

It needs a cluster with Argo's CRDs and without the meta-operator, rights to install the fleet bundle, and kubectl. It
makes a namespace, waits until its child leads, runs one Workflow with one pod, opts out, and takes all away again.
Variables: KUBECONFIG (one file), KUBECTL, POD_IMAGE (busybox:1.36), WAIT (seconds for each step, 300).
"""

import contextlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.e2e.local import CHECKOUT, Kubectl, Refused, condition, eventually

FLEET = ("manifests/fleet/crds", "manifests/fleet")
LABEL = "metaoperator.dev/workflow-controller"
WAIT = float(os.environ.get("WAIT", "300"))


class Unfit(Exception):
    """The cluster or the call is not what this needs; the text says what to do."""


def kubeconfig() -> Path:
    """Find the person's kubeconfig, as kubectl does."""
    found = Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
    if not found.is_file():
        raise Unfit(f"no kubeconfig at {found}: set KUBECONFIG to one file")
    return found


def values(version: str, image: str, executor: str) -> dict[str, Any]:
    """Compose the fleet's values. Both images are without a tag: the version is it."""
    images = {name: text for name, text in (("controller", image), ("executor", executor)) if text}
    return {"version": version} | ({"images": images} if images else {})


def fit(kubectl: Kubectl) -> None:
    """Refuse a cluster whose fleet this would disturb, or in which no child can work."""
    try:
        spaces = {each["metadata"]["name"] for each in kubectl.json("get", "namespaces")["items"]}
        kubectl("get", "crd", "workflows.argoproj.io")
    except Refused as exc:
        raise Unfit(f"{exc}: this needs a cluster that answers, with Argo's CRDs (README)") from exc
    if "metaoperator" in spaces:
        raise Unfit("the namespace metaoperator is there: this would meddle with your fleet; use another cluster")


@contextlib.contextmanager
def installed(kubectl: Kubectl) -> Iterator[None]:
    """Have the fleet bundle in the cluster for a while."""
    try:
        for bundle in FLEET:
            say(f"kubectl apply --server-side -k {bundle}")
            eventually(lambda bundle=bundle: _apply(kubectl, bundle), seconds=60)  # type: ignore[misc]
        yield
    finally:
        say(f"kubectl delete -k {FLEET[-1]}")
        kubectl("delete", "--ignore-not-found", "--timeout=120s", "-k", FLEET[-1])


def _apply(kubectl: Kubectl, bundle: str) -> None:
    try:
        kubectl("apply", "--server-side", "-k", bundle)
    except Refused as exc:  # our CRDs are not served yet
        raise AssertionError(str(exc)) from exc


@contextlib.contextmanager
def operator(config: Path) -> Iterator[None]:
    """Run the operator on this host, under the person's own rights."""
    log = CHECKOUT / "dist" / "compat.log"
    log.parent.mkdir(exist_ok=True)
    say(f"metaoperator run (its log: {log})")
    with log.open("wb") as file:
        command = [sys.executable, "-m", "metaoperator", "run", "--port", "0"]
        env = {**os.environ, "KUBECONFIG": str(config)}
        process = subprocess.Popen(command, cwd=CHECKOUT, env=env, stdout=file, stderr=file)
        try:
            yield
            if process.poll() is not None:
                raise AssertionError(f"the operator ended with {process.returncode}: {log}")
        finally:
            process.terminate()
            process.wait(60)


def main(version: str, image: str, executor: str) -> None:
    """Do the main job once."""
    config = kubeconfig()
    kubectl = Kubectl(os.environ.get("KUBECTL", "kubectl"), config)
    fit(kubectl)
    name = f"metaoperator-compat-{secrets.token_hex(3)}"
    template = {
        "apiVersion": "metaoperator.dev/v1alpha1",
        "kind": "ControllerTemplate",
        "metadata": {"name": "compat"},
        "spec": {"source": {"directory": "workflow-controller"}, "values": values(version, image, executor)},
    }
    labels = {LABEL: "compat"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    with installed(kubectl), operator(config):
        try:
            kubectl("apply", "--server-side", "-f", "-", stdin=template)
            kubectl("create", "-f", "-", stdin=space)
            told = eventually(lambda: _ready(kubectl, name, version), seconds=WAIT)
            say(f"{name}: {told}")
            workflow = kubectl.json("create", "-n", name, "-f", "-", stdin=_workflow())["metadata"]["name"]
            eventually(lambda: _succeeded(kubectl, name, workflow), seconds=WAIT)
            say(f"Workflow {workflow}: Succeeded")
            kubectl("label", "namespace", name, f"{LABEL}-")
            eventually(lambda: _gone(kubectl, name), seconds=WAIT)
            say("opted out: nothing of the child is left")
        finally:
            kubectl("delete", "namespace", name, "--ignore-not-found", "--timeout=120s")
    say(f"{version} works here")


def _workflow() -> dict[str, Any]:
    container = {"image": os.environ.get("POD_IMAGE", "busybox:1.36"), "command": ["echo", "done"]}
    container["imagePullPolicy"] = "IfNotPresent"
    spec = {"entrypoint": "main", "templates": [{"name": "main", "container": container}]}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": "compat-"},
        "spec": spec,
    }


def _row(kubectl: Kubectl, name: str) -> dict[str, Any] | None:
    found = kubectl("get", "workflowcontroller", "workflow-controller", "-n", name, "--ignore-not-found", "-o", "json")
    return json.loads(found) if found.strip() else None


def _ready(kubectl: Kubectl, name: str, version: str) -> str:
    row = _row(kubectl, name)
    assert row is not None, f"{name} has no WorkflowController"
    told = condition(row, "Ready")
    assert told.get("status") == "True", f"{name} is not READY: {told.get('reason')}: {told.get('message')}"
    assert row["status"]["version"] == version
    return f"READY, {told['reason']}, {row['status']['version']}"


def _succeeded(kubectl: Kubectl, name: str, workflow: str) -> None:
    status = kubectl.json("get", "workflow", workflow, "-n", name).get("status") or {}
    assert status.get("phase") == "Succeeded", f"Workflow {workflow}: {status.get('phase')} {status.get('message', '')}"


def _gone(kubectl: Kubectl, name: str) -> None:
    assert _row(kubectl, name) is None, "the WorkflowController is still there"
    mark = "app.kubernetes.io/managed-by=metaoperator"
    kinds = "deployments,configmaps,serviceaccounts,services,rolebindings"
    left = kubectl("get", kinds, "-n", name, "-l", mark, "-o", "name").split()
    assert not left, f"left: {', '.join(left)}"


def say(text: str) -> None:
    """Tell the person what is done."""
    print(f"compat: {text}", flush=True)


def run(main: Callable[[], None]) -> int:
    """Turn what goes wrong into a sentence and an exit code: 2 for what was not fit, 1 for what does not work."""
    try:
        main()
    except Unfit as exc:
        print(f"compat: {exc}", file=sys.stderr)
        return 2
    except (AssertionError, Refused) as exc:
        print(f"compat: does not work: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 4 or not sys.argv[1]:
        sys.exit("make compat VERSION=v4.1.2 [IMAGE=registry/workflow-controller] [EXECUTOR=registry/argoexec]")
    sys.exit(run(lambda: main(*sys.argv[1:])))
