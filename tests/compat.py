"""`make compat`: what a child is for, on the kubeconfig's cluster with one Argo version; the operator runs on the host.

    make compat VERSION=v4.1.2 [IMAGE=registry/workflow-controller] [EXECUTOR=registry/argoexec]

It needs a cluster with Argo's CRDs and without the meta-operator, rights to install the fleet bundle, and kubectl. It
makes two namespaces, goes through the steps of `Place`, and takes all away again. What looks into the API server's log,
or needs nodes that nobody has, is in `make e2e` alone.
Variables: KUBECONFIG (one file), KUBECTL, POD_IMAGE (busybox:1.36), WAIT (seconds for each step, 300).
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from tests.e2e.local import CHECKOUT, Kubectl, Refused, condition, eventually

FLEET = ("manifests/fleet/crds", "manifests/fleet")
LABEL = "metaoperator.dev/workflow-controller"
INSTANCE_ID = "workflows.argoproj.io/controller-instanceid"
TEMPLATE = "compat"
CHILD = "deployment/workflow-controller"
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
    with NamedTemporaryFile("wb", prefix="metaoperator-compat-", suffix=".log", delete=False) as file:
        say(f"metaoperator run (its log: {file.name})")
        command = [sys.executable, "-m", "metaoperator", "run", "--port", "0"]
        env = {**os.environ, "KUBECONFIG": str(config)}
        process = subprocess.Popen(command, cwd=CHECKOUT, env=env, stdout=file, stderr=file)
        try:
            yield
            if process.poll() is not None:
                raise AssertionError(f"the operator ended with {process.returncode}: {file.name}")
        finally:
            process.terminate()
            process.wait(60)
    Path(file.name).unlink()


class Place:
    """One cluster, one version, and what the operator has to do there."""

    def __init__(self, kubectl: Kubectl, version: str) -> None:
        """Choose names that nobody else has."""
        self._kubectl = kubectl
        self._version = version
        suffix = secrets.token_hex(3)
        self.main = f"metaoperator-compat-{suffix}"
        self.taken = f"metaoperator-compat-{suffix}-taken"

    def opts_in(self) -> None:
        """A label brings a child of the version that leads."""
        self._label(self.main, TEMPLATE)
        self._told(self.main, "Ready", "True", "Leading")
        row = self._row(self.main)
        assert row is not None
        assert row["status"]["version"] == self._version

    def runs_workflows(self) -> None:
        """One Workflow succeeds and one fails; neither was told an instance ID."""
        for command, phase in ((["echo", "done"], "Succeeded"), (["sh", "-c", "exit 3"], "Failed")):
            made = self._create(_workflow("Workflow", _spec(command), generateName="compat-"))
            assert made["metadata"]["labels"][INSTANCE_ID] == self.main
            name = made["metadata"]["name"]
            eventually(lambda name=name, phase=phase: self._has(name, phase), seconds=WAIT)  # type: ignore[misc]

    def runs_schedules(self) -> None:
        """A CronWorkflow fires, and gets its instance ID back when somebody replaces it without."""
        spec = {"schedules": ["@every 5s"], "workflowSpec": _spec(["echo", "done"])}
        cron = _workflow("CronWorkflow", spec, name="compat")
        made = self._create(cron)
        cron["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
        replaced = self._kubectl.json("replace", "-n", self.main, "-f", "-", stdin=cron)
        assert replaced["metadata"]["labels"][INSTANCE_ID] == self.main

        def fired() -> None:
            selector = "workflows.argoproj.io/cron-workflow=compat"
            found = self._kubectl.json("get", "workflows", "-n", self.main, "-l", selector)["items"]
            assert found, "the schedule has not fired"
            assert found[0]["metadata"]["labels"][INSTANCE_ID] == self.main

        eventually(fired, seconds=WAIT)
        self._kubectl("delete", "cronworkflow", "compat", "-n", self.main)

    def repairs(self) -> None:
        """What is deleted comes back, what is changed is put right, and the child goes on."""
        config, service = "configmap/workflow-controller-configmap", "service/workflow-controller-metrics"
        before = self._kubectl.json("get", service, "-n", self.main)["spec"]["selector"]
        self._kubectl("delete", config, "-n", self.main)
        patch = '{"spec":{"selector":{"app.kubernetes.io/name":"another"}}}'
        self._kubectl("patch", service, "-n", self.main, "--type=merge", "-p", patch)

        def whole() -> None:
            try:
                self._kubectl("get", config, "-n", self.main)
            except Refused as exc:
                raise AssertionError(str(exc)) from exc
            assert self._kubectl.json("get", service, "-n", self.main)["spec"]["selector"] == before

        eventually(whole, seconds=WAIT)
        self._told(self.main, "Ready", "True", "Leading")

    def survives_a_typo(self) -> None:
        """A label that names no ControllerTemplate is told, and the child stays as it is."""
        before = self._child()["metadata"]["generation"]
        self._label(self.main, "no-such-template")
        self._told(self.main, "Stalled", "True", "TemplateNotFound")
        assert self._child()["metadata"]["generation"] == before
        self._label(self.main, TEMPLATE)
        self._told(self.main, "Ready", "True", "Leading")

    def leaves_others_alone(self) -> None:
        """An object of a name that the child needs is shown as a conflict; when it goes, the child comes."""
        self._kubectl("create", "serviceaccount", "workflow-controller", "-n", self.taken)
        self._label(self.taken, TEMPLATE)
        self._told(self.taken, "Stalled", "True", "Conflict")
        self._kubectl("delete", "serviceaccount", "workflow-controller", "-n", self.taken)
        self._told(self.taken, "Ready", "True", "Leading")

    def opts_out(self) -> None:
        """Nothing of ours is left."""
        for name in (self.main, self.taken):
            self._kubectl("label", "namespace", name, f"{LABEL}-")
        for name in (self.main, self.taken):
            eventually(lambda name=name: self._gone(name), seconds=WAIT)  # type: ignore[misc]

    # ---- how

    def _label(self, namespace: str, value: str) -> None:
        self._kubectl("label", "--overwrite", "namespace", namespace, f"{LABEL}={value}")

    def _create(self, manifest: dict[str, Any]) -> Any:
        return self._kubectl.json("create", "-n", self.main, "-f", "-", stdin=manifest)

    def _child(self) -> Any:
        return self._kubectl.json("get", CHILD, "-n", self.main)

    def _row(self, namespace: str) -> dict[str, Any] | None:
        row = ("workflowcontroller", "workflow-controller", "-n", namespace)
        found = self._kubectl("get", *row, "--ignore-not-found", "-o", "json")
        return json.loads(found) if found.strip() else None

    def _told(self, namespace: str, kind: str, status: str, reason: str) -> None:
        def check() -> None:
            found = dict(condition(self._row(namespace) or {}, kind))
            assert (found.get("status"), found.get("reason")) == (status, reason), f"{namespace}: {kind} is {found}"

        eventually(check, seconds=WAIT)

    def _has(self, name: str, phase: str) -> None:
        status = self._kubectl.json("get", "workflow", name, "-n", self.main).get("status") or {}
        assert status.get("phase") == phase, f"Workflow {name}: {status.get('phase')} {status.get('message', '')}"

    def _gone(self, namespace: str) -> None:
        assert self._row(namespace) is None, f"the WorkflowController of {namespace} is still there"
        mark = "app.kubernetes.io/managed-by=metaoperator"
        kinds = "deployments,configmaps,serviceaccounts,services,rolebindings"
        left = self._kubectl("get", kinds, "-n", namespace, "-l", mark, "-o", "name").split()
        assert not left, f"left: {', '.join(left)}"


STEPS = (
    Place.opts_in,
    Place.runs_workflows,
    Place.runs_schedules,
    Place.repairs,
    Place.survives_a_typo,
    Place.leaves_others_alone,
    Place.opts_out,
)


def main(version: str, image: str, executor: str) -> None:
    """Do each step once."""
    config = kubeconfig()
    kubectl = Kubectl(os.environ.get("KUBECTL", "kubectl"), config)
    fit(kubectl)
    place = Place(kubectl, version)
    spaces = (place.main, place.taken)
    template = {
        "apiVersion": "metaoperator.dev/v1alpha1",
        "kind": "ControllerTemplate",
        "metadata": {"name": TEMPLATE},
        "spec": {"source": {"directory": "workflow-controller"}, "values": values(version, image, executor)},
    }
    with installed(kubectl), operator(config):
        try:
            kubectl("apply", "--server-side", "-f", "-", stdin=template)
            for name in spaces:
                kubectl("create", "namespace", name)
            for step in STEPS:
                step(place)
                say(f"{step.__name__.replace('_', ' ')}: {(step.__doc__ or '').strip()}")
        finally:
            kubectl("delete", "namespace", *spaces, "--ignore-not-found", "--timeout=120s")
    say(f"{version} works here")


def _spec(command: list[str]) -> dict[str, Any]:
    image = os.environ.get("POD_IMAGE", "busybox:1.36")
    container = {"image": image, "imagePullPolicy": "IfNotPresent", "command": command}
    return {"entrypoint": "main", "templates": [{"name": "main", "container": container}]}


def _workflow(kind: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def say(text: str) -> None:
    """Tell the person what is done."""
    print(f"compat: {text}", flush=True)


def run(main: Callable[[], None]) -> int:
    """Turn what goes wrong into a sentence and an exit code: 2 for what was not fit, 1 for what does not work."""
    # Ended by a signal, it takes all away as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
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
