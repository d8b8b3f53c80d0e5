"""A fleet on simulated nodes, and what it costs while nothing happens: 0 writes, and no list but the compares."""

import json
import time
from collections.abc import Iterator

import pytest

from tests.e2e import simulated, workflows
from tests.e2e.audit import WATCHED, Audit, code, target, told
from tests.e2e.install import Installation
from tests.e2e.local import FULL, OPERATOR, Api, Kubectl, condition, eventually
from tests.e2e.namespaces import Namespaces

FLEET = tuple(f"e2e-simulated-{index:02}" for index in range(20))
QUIET_SECONDS = 20
"""Longer than the operator may put off a write that is due: counts wait up to 15 s, roll-ups 5 s."""
SETTLED_SECONDS = 60 if FULL else 30


@pytest.fixture(scope="module")
def fleet(simulated_nodes: None, namespaces: Namespaces, kubectl: Kubectl) -> Iterator[tuple[str, ...]]:
    """Have simulated nodes, a policy that rewrites images, and namespaces whose children nobody leads yet."""
    del simulated_nodes
    kubectl("apply", "--server-side", "-f", simulated.MIRROR)
    kubectl("apply", "--server-side", "-f", simulated.TEMPLATE)
    try:
        namespaces.make(*FLEET)
        eventually(lambda: simulated.mirrored(kubectl, FLEET[0]))
        for name in FLEET:
            namespaces.label(name, simulated.LABEL)
        yield FLEET
    finally:
        namespaces.remove(*FLEET)
        kubectl("delete", "--ignore-not-found", "-f", simulated.TEMPLATE, "-f", simulated.MIRROR)


@pytest.fixture(scope="module")
def ready(fleet: tuple[str, ...], namespaces: Namespaces, api: Api) -> Iterator[tuple[str, ...]]:
    """Renew the Leases of the fleet, and wait until it is READY."""
    for name in fleet:
        _waits_for_a_lease(namespaces, name)
    with simulated.Children(api) as children:
        for name in fleet:
            namespaces.ready(name)
        yield fleet
        assert not children.failures


def _waits_for_a_lease(namespaces: Namespaces, name: str) -> None:
    def check() -> None:
        told_of = condition(namespaces.row(name) or {}, "Ready")
        assert (told_of.get("status"), told_of.get("reason")) == ("False", "LeaseMissing"), dict(told_of)

    eventually(check)


def test_a_simulated_child_is_ready_only_while_somebody_holds_its_lease(ready: tuple[str, ...], api: Api) -> None:
    """Its Deployment alone is not enough (`ready` saw `LeaseMissing` first): the product has no exemption for it."""
    for name in ready:
        pods = api.objects("v1/pods", name)
        assert [pod["spec"]["nodeName"].partition("-")[0] for pod in pods] == ["simulated"]
        assert [pod["status"]["phase"] for pod in pods] == ["Running"]


def test_a_simulated_pod_of_a_workflow_succeeds_by_itself(ready: tuple[str, ...], kubectl: Kubectl, api: Api) -> None:
    """And one without that owner goes on running: the children do."""
    name = ready[0]
    owner = workflows.submit(kubectl, name, workflows.one_step("owner", suspended=True))
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {
        key: owner["metadata"][key] for key in ("name", "uid")
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "step", "ownerReferences": [reference]},
        "spec": {
            "containers": [{"name": "main", "image": "nowhere.invalid/step"}],
            "nodeSelector": {"type": "kwok"},
            "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
        },
    }
    kubectl("create", "-n", name, "-f", "-", stdin=pod)

    def succeeded() -> None:
        live = api.object("v1/pods", name, "step")
        assert live is not None
        assert live["status"]["phase"] == "Succeeded"
        assert live["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0

    eventually(succeeded)
    kubectl("delete", "workflow", "owner", "-n", name)


def test_real_pods_stay_off_simulated_nodes(ready: tuple[str, ...], main: str, api: Api) -> None:
    """A pod that does not ask for a simulated node would only look as if it ran."""
    del ready
    assert {pod["spec"]["nodeName"] for pod in api.objects("v1/pods", main)} == {"metaoperator-node"}


def test_a_settled_fleet_costs_no_write_and_no_list(
    ready: tuple[str, ...], installation: Installation, namespaces: Namespaces, audit: Audit, kubectl: Kubectl
) -> None:
    """Also after a restart, and where a policy rewrites what the operator sent; leases and dry-runs are apart."""
    time.sleep(QUIET_SECONDS)
    mark = audit.mark()
    kubectl("rollout", "restart", f"deployment/{OPERATOR}", "-n", OPERATOR)
    kubectl("rollout", "status", f"deployment/{OPERATOR}", "-n", OPERATOR, "--timeout=120s")
    installation.wait_for_replicas(2)
    names = {str(pod["metadata"]["name"]) for pod in installation.pods()}  # type: ignore[index]
    eventually(lambda: _all_watch(audit, mark, names))
    synced = audit.mark()
    time.sleep(SETTLED_SECONDS)

    found = audit.tally(synced)

    # Where somebody's object has a name that a child needs, the new leader finds that out as the one before did: by a
    # creation that is refused, once.
    tried = [entry for entry in found.writes if (target(entry)[1], code(entry)) == ("e2e-held", 409)]
    assert len(tried) <= 1, [told(entry) for entry in tried]
    assert [told(entry) for entry in found.writes if entry not in tried] == []
    assert [told(entry) for entry in found.lists] == []
    assert found.leases > 0, "the log tells nothing of the operator: this test proves nothing"
    for name in ready:
        namespaces.ready(name)


def _all_watch(audit: Audit, mark: int, names: set[str]) -> None:
    watched = audit.watched(mark)
    late = {name: sorted(WATCHED - watched.get(name, set())) for name in names}
    assert not any(late.values()), f"not watched yet: {json.dumps(late)}"
