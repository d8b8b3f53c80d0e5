"""Puts Argo's CRDs and both bundles on the cluster as `manifests/` says, and takes off what was not there before."""

import contextlib
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from .local import CHECKOUT, LOGS, MANIFESTS, OPERATOR, Api, Kubectl, Refused, eventually

FLEET = MANIFESTS / "fast"
OPERATOR_BUNDLE = Path("manifests/operator")
IMAGE = CHECKOUT / "dist" / "metaoperator.tar"


def cluster_command(*arguments: str | Path) -> str:
    """Run one command of tests/cluster and return what it prints."""
    command = [sys.executable, "-m", "tests.cluster", *map(str, arguments)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


class Installation:
    """What the whole session runs on."""

    def __init__(self, kubectl: Kubectl, api: Api) -> None:
        """Look what is there already, such as what `make demo` left: that stays."""
        self._kubectl = kubectl
        self._api = api
        self.had_fleet = api.get(f"/api/v1/namespaces/{OPERATOR}") is not None
        self.had_argo = api.get("/apis/argoproj.io/v1alpha1") is not None

    def up(self) -> None:
        """Install in the order that manifests/fleet/kustomization.yaml gives."""
        if not IMAGE.exists():
            raise AssertionError(f"{IMAGE} is not there: make image")
        cluster_command("load", IMAGE)
        kubectl = self._kubectl
        kubectl("apply", "--server-side", "-f", cluster_command("crds", "full"))
        kubectl("apply", "--server-side", "-k", "manifests/fleet/crds")
        eventually(self._our_kinds_are_served, seconds=60)
        kubectl("apply", "--server-side", "-k", FLEET)
        if self.had_fleet:  # pods of the same tag may run an older image
            kubectl("delete", "deployment", OPERATOR, "-n", OPERATOR, "--ignore-not-found", "--wait=true")
        self.operator_up()

    def _our_kinds_are_served(self) -> None:
        # `kubectl wait` fails on a CRD whose conditions are still null.
        try:
            self._kubectl("get", "workflowcontrollers,controllertemplates", "-A")
        except Refused as exc:
            raise AssertionError(str(exc)) from exc

    def operator_up(self) -> None:
        """Apply manifests/operator, unchanged, and wait for both replicas."""
        self._kubectl("apply", "--server-side", "-k", OPERATOR_BUNDLE)
        self.wait_for_replicas(2)

    def scale(self, replicas: int) -> None:
        """Run so many replicas, and wait until there are no more and no fewer pods."""
        self._kubectl("scale", "deployment", OPERATOR, "-n", OPERATOR, f"--replicas={replicas}")
        self.wait_for_replicas(replicas)

    def wait_for_replicas(self, replicas: int) -> None:
        """Wait until so many pods are ready and none is left of before."""

        def check() -> None:
            pods = self.pods()
            ready = [
                pod["metadata"]["name"]
                for pod in pods
                if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
            ]
            assert len(ready) == len(pods) == replicas, f"{len(ready)} of {len(pods)} pods are ready, wanted {replicas}"

        eventually(check, seconds=120)

    def pods(self) -> list[dict[str, Any]]:
        """List the operator's pods."""
        return self._api.objects("v1/pods", OPERATOR, query="labelSelector=app.kubernetes.io%2Fname%3Dmetaoperator")

    def down(self) -> None:
        """Leave the cluster as it was found."""
        kubectl = self._kubectl
        if self.had_fleet:
            kubectl("apply", "--server-side", "--force-conflicts", "-k", MANIFESTS / "local")
            self.operator_up()
            return
        kubectl("delete", "--ignore-not-found", "-k", OPERATOR_BUNDLE)
        # A namespace with pods that may take 30 s to end is looked at again after half of that.
        self.wait_for_replicas(0)
        kubectl("delete", "--ignore-not-found", "--wait=false", "-k", FLEET)
        if not self.had_argo:
            kubectl("delete", "--ignore-not-found", "--timeout=120s", "-f", cluster_command("crds", "full"))
        kubectl("delete", "--ignore-not-found", "--timeout=120s", "-k", FLEET)  # until it is gone


class LogCollector:
    """Follows the log of every pod that the operator ever has, into `.cluster/e2e-logs/`."""

    def __init__(self, kubectl: Kubectl, api: Api) -> None:
        """Take an `api` of its own: the collector runs in a thread."""
        self._kubectl = kubectl
        self._api = api
        self._following: dict[str, subprocess.Popen[bytes]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        LOGS.mkdir(parents=True, exist_ok=True)
        for old in LOGS.iterdir():
            old.unlink()
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            with contextlib.suppress(AssertionError, OSError, Refused):
                for pod in self._api.objects("v1/pods", OPERATOR):
                    if pod["status"]["phase"] == "Running":
                        self._follow(pod["metadata"]["name"])

    def _follow(self, name: str) -> None:
        last = self._following.get(name)
        if last is None or (last.poll() is not None and last.returncode != 0):
            with (LOGS / f"{name}.log").open("ab") as file:
                self._following[name] = subprocess.Popen(
                    [self._kubectl.program, "logs", "-f", "-n", OPERATOR, name],
                    env=self._kubectl.environment,
                    stdout=file,
                    stderr=subprocess.DEVNULL,
                )

    def stop(self) -> None:
        """End all followers."""
        self._stop.set()
        self._thread.join()
        for process in self._following.values():
            process.terminate()
        for process in self._following.values():
            process.wait()
        self._api.close()
