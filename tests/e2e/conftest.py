"""One installation for the whole session. What a test makes it removes; the cluster is left as it was found."""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.e2e.audit import Audit
from tests.e2e.install import Installation, LogCollector, cluster_command
from tests.e2e.local import AUDIT_LOG, KUBECONFIG, LOGS, OPERATOR, Api, Kubectl, Refused
from tests.e2e.namespaces import Namespaces

# Cheap ones first, then those that take the operator away.
ORDER = (
    "images",
    "serving",
    "stamping",
    "commands",
    "argo_cli",
    "settled",
    "fences",
    "conflict",
    "drift",
    "stays_out",
    "refused",
    "conflict_ends",
    "optout",
    "overlap",
    "headline",
    "instance_ids",
    "drain",
    "sweep",
    "every_door",
    "adopt",
    "artifact_gc",
    "takeover",
    "killed",
    "rollout",
    "uninstalled",
)
ODD_NAMES = ("null", "0123", "1e3", "on")
"""Namespaces whose names are something else than text in careless YAML."""


def pytest_report_header() -> str:
    """Say at the top where the operator's logs go."""
    return f"e2e: {KUBECONFIG}, logs in {LOGS}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put modules in order, and give every test minutes instead of seconds."""
    items.sort(key=lambda item: ORDER.index(Path(str(item.path)).stem.removeprefix("test_")))
    for item in items:
        item.add_marker(pytest.mark.timeout(2400 if os.environ.get("CHAOS") == "full" else 600))


@pytest.fixture(scope="session")
def kubectl() -> Kubectl:
    """Run kubectl as the cluster's administrator."""
    program = cluster_command("path", "kubectl")
    os.environ["KUBECONFIG"] = str(KUBECONFIG)
    return Kubectl(program, KUBECONFIG)


@pytest.fixture(scope="session")
def api(kubectl: Kubectl) -> Iterator[Api]:
    """Read from the API server."""
    made = Api(kubectl)
    yield made
    made.close()


@pytest.fixture(scope="session")
def audit() -> Audit:
    """Read the API server's audit log."""
    return Audit(AUDIT_LOG)


@pytest.fixture(scope="session")
def installation(kubectl: Kubectl, api: Api) -> Iterator[Installation]:
    """Install everything; the operator runs as two pods under its own ServiceAccount."""
    made = Installation(kubectl, api)
    logs = LogCollector(kubectl, Api(kubectl))
    logs.start()
    leftovers = Namespaces(kubectl, api)
    try:
        leftovers.remove_all()
        made.up()
        yield made
    finally:
        try:
            leftovers.remove_all()
            cluster_command("simulate", "0")
            made.down()
        finally:
            logs.stop()


@pytest.fixture(scope="session")
def simulated_nodes(installation: Installation) -> None:
    """Have nodes of kwok's until the end: without them nobody would end the pods of namespaces that still go."""
    del installation  # it takes them away when all namespaces are gone
    cluster_command("simulate", "2")


@pytest.fixture(scope="session")
def namespaces(installation: Installation, kubectl: Kubectl, api: Api) -> Namespaces:
    """Make namespaces. Those that many tests look at come first and together, so that nobody waits for each alone."""
    del installation  # it only has to be there
    made = Namespaces(kubectl, api)
    made.make("e2e-main", "e2e-neighbour", *ODD_NAMES, opt_in="enabled")
    return made


@pytest.fixture
def main(namespaces: Namespaces) -> str:
    """Have an opted-in namespace that is READY."""
    namespaces.ready("e2e-main")
    return "e2e-main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A namespace whose child cannot be installed, for somebody else's ServiceAccount has its name."""

    namespace: str
    foreign: dict[str, object]


@pytest.fixture(scope="session")
def held(namespaces: Namespaces, kubectl: Kubectl) -> Held:
    """Make the foreign object before the opt-in."""
    name = "e2e-held"
    namespaces.make(name)
    kubectl("create", "serviceaccount", "workflow-controller", "-n", name)
    foreign = kubectl.json("get", "serviceaccount", "workflow-controller", "-n", name)
    namespaces.label(name, "enabled")
    return Held(namespace=name, foreign=foreign)


@pytest.fixture(scope="session")
def freed(held: Held, kubectl: Kubectl) -> str:
    """Take the foreign object away; returns the namespace."""
    kubectl("delete", "serviceaccount", "workflow-controller", "-n", held.namespace)
    return held.namespace


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Keep what the cluster said at the time of a failure."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    kubectl = getattr(item, "funcargs", {}).get("kubectl")
    if report.when == "call" and report.failed and kubectl is not None:
        LOGS.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^\w.-]", "_", item.name)[:80]  # an id may hold a slash
        with (LOGS / f"failed-{name}.txt").open("w") as file:
            for command in (
                ["get", "workflowcontrollers,workflows,pods,deployments", "-A", "-o", "wide"],
                ["get", "workflowcontrollers,controllertemplates", "-A", "-o", "yaml"],
                ["get", "lease", OPERATOR, "-n", OPERATOR, "-o", "yaml"],
                ["events", "-A"],
            ):
                try:
                    told = kubectl(*command)
                except Refused as exc:
                    told = str(exc)
                file.write(f"$ kubectl {' '.join(command)}\n{told}\n")
