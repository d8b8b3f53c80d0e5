"""A cluster of its own for each round: fresh, with simulated nodes, the bundles, and namespaces that wait to opt in."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import yaml

from tests.cluster import places
from tests.e2e import simulated
from tests.e2e.audit import Audit
from tests.e2e.install import OPERATOR_BUNDLE, cluster_command
from tests.e2e.local import MANIFESTS, OPT_IN, Api, Kubectl, Refused, condition, eventually
from tests.e2e.namespaces import WORKFLOW_CONTROLLERS

from . import process, wire
from .process import Operator

NODES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One cluster, and who plays on it."""

    kubectl: Kubectl
    api: Api
    audit: Audit
    operator: Operator
    namespaces: tuple[str, ...]

    @property
    def admin(self) -> wire.Door:
        """The administrator's door."""
        return wire.Door.of_admin(self.api)

    def opt_in(self, template: str = simulated.LABEL) -> None:
        """Label all namespaces at once."""
        wire.send_all(self.admin, [wire.labels(name, {OPT_IN: template}) for name in self.namespaces])

    def wait_ready(self, seconds: float = 300) -> None:
        """Wait until every child is READY."""

        def check() -> None:
            rows = self.api.objects(WORKFLOW_CONTROLLERS)
            ready = sum(condition(row, "Ready").get("status") == "True" for row in rows)
            assert ready == len(self.namespaces), f"{ready} of {len(self.namespaces)} are READY"

        eventually(check, seconds=seconds, every=2)


@contextmanager
def fresh(
    wanted: int | Sequence[str], *, mirror: bool = False, workers: int | None = None, nodes: int = NODES
) -> Iterator[Stage]:
    """Have a fresh cluster with namespaces of these names, or so many; it is gone when this is left."""
    names = tuple(f"simulated-{index:03}" for index in range(wanted)) if isinstance(wanted, int) else tuple(wanted)
    _say(f"a fresh cluster, {len(names)} namespaces")
    cluster_command("up")
    try:
        cluster_command("simulate", str(nodes))
        process.LOG.unlink(missing_ok=True)
        kubectl = Kubectl(cluster_command("path", "kubectl"), places.KUBECONFIG)
        api, audit = Api(kubectl), Audit(places.AUDIT_LOG)
        _install(kubectl)
        stage = Stage(
            kubectl=kubectl,
            api=api,
            audit=audit,
            operator=Operator(kubectl, api, audit, workers=workers),
            namespaces=names,
        )
        try:
            _namespaces(stage)
            if mirror:
                kubectl("apply", "--server-side", "-f", simulated.MIRROR)
                eventually(lambda: simulated.mirrored(kubectl, names[0]))
            yield stage
        finally:
            stage.operator.close()
            api.close()
    finally:
        cluster_command("down")


def _install(kubectl: Kubectl) -> None:
    kubectl("apply", "--server-side", "-f", cluster_command("crds", "full"))
    kubectl("apply", "--server-side", "-k", "manifests/fleet/crds")
    eventually(lambda: _served(kubectl))
    kubectl("apply", "--server-side", "-k", MANIFESTS / "local")
    kubectl("apply", "--server-side", "-f", simulated.TEMPLATE)
    # All that the operator's pod would have but the pod: it is a process here.
    documents = [each for each in yaml.safe_load_all(kubectl("kustomize", OPERATOR_BUNDLE)) if each]
    kept = [each for each in documents if each["kind"] not in ("Deployment", "PodDisruptionBudget")]
    kubectl("apply", "--server-side", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": kept})


def _served(kubectl: Kubectl) -> None:
    try:
        kubectl("get", "workflowcontrollers,controllertemplates", "-A")
    except Refused as exc:
        raise AssertionError(str(exc)) from exc


def _namespaces(stage: Stage) -> None:
    bodies = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in stage.namespaces]
    wire.send_all(
        stage.admin,
        [wire.Request(method="POST", path="/api/v1/namespaces", body=json.dumps(body)) for body in bodies],
    )

    def furnished() -> None:
        for resource in ("v1/serviceaccounts", "v1/configmaps"):
            found = {item["metadata"]["namespace"] for item in stage.api.objects(resource)}
            late = set(stage.namespaces) - found
            assert not late, f"{len(late)} namespaces lack {resource}"

    eventually(furnished, every=1)
    # The API server goes on for some seconds to work on what Argo's CRDs are new to.
    time.sleep(5)


def require_none_running() -> None:
    """Refuse to take somebody's cluster away."""
    try:
        cluster_command("running")
    except AssertionError:
        return
    raise SystemExit("a local cluster of this checkout runs: the bench needs fresh ones; first: make cluster-down")


def _say(text: str) -> None:
    print(f"# {text}", flush=True)
