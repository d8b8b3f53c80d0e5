"""A person without root: a home, a kubeconfig, and a checkout that he may read."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.install import cluster_command
from tests.e2e.local import CHECKOUT, KUBECONFIG, Api, Kubectl

NOBODY = 65534


@dataclass(frozen=True, slots=True)
class Person:
    """Runs the demo as somebody who is not root."""

    place: Path

    @property
    def checkout(self) -> Path:
        """His checkout."""
        return self.place / "metaoperator"

    def takes(self, kubeconfig: str) -> None:
        """Make a kubeconfig his usual one."""
        folder = self.place / ".kube"
        folder.mkdir(exist_ok=True)
        (folder / "config").write_text(kubeconfig)
        os.chown(folder / "config", NOBODY, NOBODY)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start `make …` in his checkout, under `env -i`."""
        return subprocess.Popen(
            ["make", *arguments],
            cwd=self.checkout,
            env={"HOME": str(self.place), "PATH": f"{self.place}/bin:/usr/bin:/bin", "PYTHONPATH": str(self.checkout)},
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def makes(self, *arguments: str) -> tuple[int, str]:
        """Run `make …` to its end."""
        process = self.start(*arguments)
        told, _ = process.communicate(timeout=400)
        print(told)
        return process.returncode, told


@pytest.fixture(scope="session")
def kubectl() -> Kubectl:
    """Run kubectl as the cluster's administrator."""
    return Kubectl(cluster_command("path", "kubectl"), KUBECONFIG)


@pytest.fixture(scope="session")
def api(kubectl: Kubectl) -> Iterator[Api]:
    """Read from the API server."""
    made = Api(kubectl)
    yield made
    made.close()


@pytest.fixture(scope="session")
def person(kubectl: Kubectl) -> Iterator[Person]:
    """Have a person whose kubeconfig names the local cluster."""
    found = kubectl("get", "namespace", "metaoperator", "--ignore-not-found", "-o", "name")
    found += kubectl("get", "crd", "workflows.argoproj.io", "--ignore-not-found", "-o", "name")
    assert not found, (
        f"the local cluster is in use ({found.split()}), as `make demo` leaves it: make cluster-down first"
    )
    # Not under pytest's own folder, which is root's alone.
    place = Path(tempfile.mkdtemp(prefix="metaoperator-person-"))
    try:
        place.chmod(0o755)
        (place / "bin").mkdir()
        shutil.copy(kubectl.program, place / "bin" / "kubectl")
        made = Person(place)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (CHECKOUT / name).is_file():
                (made.checkout / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(CHECKOUT / name, made.checkout / name)
        shutil.copytree(CHECKOUT / ".venv", made.checkout / ".venv", symlinks=True)
        _python(made)
        made.takes(KUBECONFIG.read_text())
        yield made
    finally:
        shutil.rmtree(place)


def _python(person: Person) -> None:
    """Have a Python that he may run: one that lies in root's home, as pyenv's does, is replaced by the system's."""
    program = person.checkout / ".venv" / "bin" / "python"
    real = program.resolve()
    if all(parent.stat().st_mode & 0o001 for parent in real.parents):
        return
    system = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    assert system.exists(), f"{real} is not for everybody, and there is no {system}"
    program.unlink()
    program.symlink_to(system)
