"""The operator as processes of this machine under its own ServiceAccount: cheap to kill, and to start again."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .install import Installation
from .local import CHECKOUT, OPERATOR, Api, Kubectl

REPLICAS = ("e2e-host-a", "e2e-host-b")


@contextmanager
def no_pods(installation: Installation, kubectl: Kubectl, api: Api) -> Iterator[Path]:
    """Have no pod of the operator; yields a kubeconfig with which to act in their place."""
    installation.scale(0)
    token = kubectl("create", "token", OPERATOR, "-n", OPERATOR, "--duration=1h").strip()
    path = api.bearer_kubeconfig(token)
    try:
        yield path
    finally:
        path.unlink()
        installation.scale(2)


@contextmanager
def running(kubeconfig: Path, log: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run both replicas; whichever still runs at the end is killed."""
    command = [sys.executable, "-m", "metaoperator", "run", "--kubeconfig", str(kubeconfig), "--port", "0"]
    processes = []
    try:
        with log.open("ab") as file:
            for name in REPLICAS:
                # The same names each time, as a container that is started again in its pod keeps its own.
                environment = {**os.environ, "POD_NAME": name, "POD_NAMESPACE": OPERATOR}
                started = subprocess.Popen(
                    [*command, "--log-format", "json"], cwd=CHECKOUT, env=environment, stdout=file, stderr=file
                )
                processes.append(started)
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
