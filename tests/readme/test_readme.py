"""The README's shell blocks, run unchanged, in an empty directory, under `env -i`.

What a person brings along is set up around the blocks, never in them: a checkout, a home directory, a kubeconfig of
"their own cluster" (the local cluster), and what this machine cannot fetch: Argo's repository (a local git repository
with the CRDs of the tested version, found through git's own `insteadOf`) and the default version's images (the tested
version's, under that name).

`make test` inside `make test` would never end: that block is left out when this run is part of it, and only then.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster import build, images, node
from tests.cluster import places as here

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
ARGO = "https://github.com/argoproj/argo-workflows"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
COLD = os.environ.get("README_COLD") == "1"
INSIDE = os.environ.get("METAOPERATOR_TEST") == "1"


@dataclass
class Person:
    """Somebody who reads the README: a home, a checkout, and the patience to go on while nothing failed."""

    home: Path
    checkout: Path
    broken: str = ""
    told: list[str] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        """What `env -i` leaves, and a home. A warm run is told where the built tools are."""
        kept = {"HOME": str(self.home), "PATH": f"{self.home}/bin:{PATH}"}
        return kept if COLD else kept | {"XDG_CACHE_HOME": str(here.cache().parent)}

    def does(self, block: str) -> str:
        """Run a block as it stands; what it printed comes back, and goes on record."""
        done = subprocess.run(
            ["bash", "-eu", "-c", block],
            cwd=self.checkout,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        self.told.append(f"$ {block.rstrip()}\n{done.stdout}")
        (here.HOME / "readme.log").write_text("\n".join(self.told))
        if done.returncode != 0:
            self.broken = block
            pytest.fail(f"exit code {done.returncode} of:\n{block}\n{done.stdout[-6000:]}", pytrace=False)
        return done.stdout


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """An empty directory with nothing but a checkout of HEAD in it; nothing of it is left running."""
    place = tmp_path_factory.mktemp("readme")
    here.HOME.mkdir(exist_ok=True)
    made = Person(home=place / "home", checkout=place / "metaoperator")
    (made.home / "bin").mkdir(parents=True)
    subprocess.run(["git", "clone", "--quiet", ROOT, made.checkout], check=True)
    yield made
    subprocess.run(
        ["python3", "-m", "tests.cluster", "down"],
        cwd=made.checkout,
        env=made.environment() | {"PATH": PATH},
        check=False,
    )
    shutil.rmtree(place, ignore_errors=True)


def own_cluster(person: Person) -> None:
    """Give the person a cluster of their own: a kubeconfig, kubectl, and what a connected machine could fetch."""
    person.does("make cluster")
    (person.home / ".kube").mkdir(exist_ok=True)
    shutil.copy(person.checkout / ".cluster" / "kubeconfig", person.home / ".kube" / "config")
    (person.home / "bin" / "kubectl").symlink_to(build.program("kubectl"))
    upstream = person.home / "argo-workflows"
    crds = build.argo_crds("full")
    shutil.copytree(crds, upstream / "manifests" / "base" / "crds" / "full")
    kustomization = upstream / "manifests" / "base" / "crds" / "full" / "kustomization.yaml"
    if not kustomization.exists():
        listed = "".join(f"  - {path.name}\n" for path in sorted(crds.glob("argoproj.io_*.yaml")))
        kustomization.write_text(f"resources:\n{listed}")
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", "-C", str(upstream)]
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "CRDs"], ["tag", "v4.1.2"]):
        subprocess.run([*git, *command], check=True)
    subprocess.run(
        ["git", "config", "--global", f"url.{upstream.as_uri()}.insteadOf", ARGO],
        env={"HOME": str(person.home), "PATH": PATH},
        check=True,
    )
    for tested, wanted in (
        (images.WORKFLOW_CONTROLLER, "quay.io/argoproj/workflow-controller:v4.1.2"),
        (images.ARGOEXEC, "quay.io/argoproj/argoexec:v4.1.2"),
    ):
        assert node.ctr("images", "tag", "--force", tested, wanted).returncode == 0


def push_image(person: Person) -> None:
    """Stand in for a registry: put the image where the node finds it."""
    person.does("python3 -m tests.cluster load dist/metaoperator.tar")


BEFORE = {ARGO: own_cluster}
AFTER = {"make image": push_image}
SHOWS = {
    "make demo": ["demo-a", "demo-b", "Succeeded", "True"],
    "kubectl get workflowcontrollers -A": ["team-a", "True", "Leading"],
    "rollout status": ["successfully rolled out"],
}


@pytest.mark.timeout(4500)
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0])
def test_a_block_of_the_readme_does_what_it_says(person: Person, block: str) -> None:
    """Run in order and unchanged, each block succeeds and shows what the README promises."""
    if person.broken:
        pytest.fail(f"an earlier block failed:\n{person.broken}", pytrace=False)
    if block.strip() == "make test" and INSIDE:
        return  # this very run is that block
    for text, prepare in BEFORE.items():
        if text in block:
            prepare(person)
    printed = person.does(block)
    for text, follow in AFTER.items():
        if text in block:
            follow(person)
    for text, expected in SHOWS.items():
        if text in block:
            assert [word for word in expected if word not in printed] == []


def test_the_readme_has_its_two_commands_and_the_way_out() -> None:
    """The demo, the tests, the install and the uninstall are all blocks, so all are run."""
    whole = "\n".join(BLOCKS)
    for command in ("make demo", "make test", "kubectl apply --server-side -k manifests/operator", "kubectl delete -k"):
        assert command in whole
