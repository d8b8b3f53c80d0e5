"""Opting out leaves nothing behind, and touches nothing that is not ours."""

import time
from collections.abc import Iterator

import pytest

from tests.e2e import snapshot, workflows
from tests.e2e.local import INSTANCE_ID, NAMESPACE_UID, Api, Kubectl, Object, condition, eventually
from tests.e2e.namespaces import Namespaces

LEAVING = "e2e-leaving"
BYSTANDER = "e2e-bystander"
NEIGHBOUR = "e2e-neighbour"


def _look_alikes(namespace: str, uid: str) -> list[Object]:
    """Build objects that carry our label and some namespace's UID, and one that has only our name."""
    marked = {
        "labels": {"app.kubernetes.io/managed-by": "metaoperator"},
        "annotations": {NAMESPACE_UID: uid},
        "namespace": namespace,
    }
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**marked, "name": "copied"}, "data": {"a": "b"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**marked, "name": "copied"}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {**marked, "name": "workflow-executor-copied"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "metaoperator-workflow-executor-v1",
            },
        },
    ]


@pytest.fixture
def surroundings(namespaces: Namespaces, kubectl: Kubectl) -> Iterator[None]:
    """Have a namespace that will opt in and out, with things in it, and one beside it that never does."""
    namespaces.make(LEAVING, BYSTANDER)
    namespaces.ready(NEIGHBOUR)
    other = namespaces.uid(NEIGHBOUR)
    items = [*_look_alikes(LEAVING, other), *_look_alikes(BYSTANDER, other)]
    items.append(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "workflow-controller-configmap", "namespace": BYSTANDER},
            "data": {"config": "instanceID: theirs"},
        }
    )
    # Under our own field manager: nothing but the UID tells them from ours.
    for item in items:
        kubectl("apply", "--server-side", "--field-manager=metaoperator", "-f", "-", stdin=item)
    yield
    namespaces.remove(LEAVING, BYSTANDER)


def _still(api: Api) -> snapshot.Snapshot:
    """Take a snapshot when nothing moves any more of what earlier tests left to be cleaned up and counted."""

    def settled() -> snapshot.Snapshot:
        first = snapshot.take(api, touched=[LEAVING])
        going = ["/".join(key) for key, item in first.items() if "deletionTimestamp" in item["metadata"]]
        assert not going, f"being deleted: {going}"
        time.sleep(8)  # a ControllerTemplate's counts are written five seconds after what they count
        last = snapshot.take(api, touched=[LEAVING])
        assert not (apart := snapshot.differences(first, last)), "\n".join(apart)
        return last

    return eventually(settled, every=1)


def test_opting_out_leaves_the_cluster_as_it_was(
    surroundings: None, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """UID and content of every listable kind are the same; the neighbours' objects were not even written to.

    On the way out the child stays until the Workflow that it works on is done, and the row says that it waits.
    """
    del surroundings
    before = _still(api)

    namespaces.label(LEAVING, "enabled")
    namespaces.ready(LEAVING)
    finished = workflows.submit(kubectl, LEAVING, workflows.one_step("finished"))
    workflows.succeeded(api, finished)
    unfinished = workflows.submit(kubectl, LEAVING, workflows.one_step("unfinished", suspended=True))
    assert unfinished["metadata"]["labels"][INSTANCE_ID] == LEAVING
    deployment = api.object("apps/v1/deployments", LEAVING, "workflow-controller")
    assert deployment is not None

    namespaces.label(LEAVING, None)

    def draining() -> None:
        row = namespaces.row(LEAVING)
        assert row is not None
        found = condition(row, "Reconciling")
        assert (found["status"], found["reason"]) == ("True", "Draining"), dict(found)
        assert "unfinished Workflows" in found["message"]
        work = row["status"]["workflows"]
        assert work["running"] + work["pending"] == 1

    eventually(draining)
    assert "Draining" in kubectl("get", "wfc", "-n", LEAVING)
    while_draining = api.object("apps/v1/deployments", LEAVING, "workflow-controller")
    assert while_draining is not None
    assert while_draining["metadata"]["uid"] == deployment["metadata"]["uid"]
    assert "deletionTimestamp" not in while_draining["metadata"]

    kubectl("patch", "workflow", "unfinished", "-n", LEAVING, "--type=merge", "-p", '{"spec":{"suspend":null}}')
    workflows.succeeded(api, unfinished)
    namespaces.gone(LEAVING)
    # The Workflows are the person's own; who made them takes them away.
    for made in (finished, unfinished):
        kubectl("delete", "workflow", made["metadata"]["name"], "-n", LEAVING)

    def as_before() -> None:
        apart = snapshot.differences(before, snapshot.take(api, touched=[LEAVING]))
        assert not apart, "\n".join(apart)

    # resourceVersions are part of the comparison: of what is the neighbours', nothing was written in between either.
    eventually(as_before, every=2)


def test_the_word_disabled_opts_out_as_well(namespaces: Namespaces) -> None:
    """So that a value in somebody's Git can say it."""
    name = "e2e-disabled"
    namespaces.make(name, opt_in="enabled")
    namespaces.ready(name)

    namespaces.label(name, "disabled")

    namespaces.gone(name)
    namespaces.remove(name)
