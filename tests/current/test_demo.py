"""It tells first, refuses what does not fit before it does anything, does the main job, and leaves nothing behind."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e import snapshot
from tests.e2e.install import cluster_command
from tests.e2e.local import KUBECONFIG, OPT_IN, Api, Kubectl, eventually
from tests.e2e.snapshot import Snapshot

from .conftest import NOBODY, Person

pytestmark = pytest.mark.timeout(420)

LOCAL_IMAGES = "VALUES=tests/demo/local-images.yaml"
DEMO = ("demo", "CLUSTER=current", LOCAL_IMAGES)
NAMESPACES = ("metaoperator-demo-a", "metaoperator-demo-b")


def _of_the_cluster(key: tuple[str, str, str]) -> bool:
    """Leave out what comes and goes by itself: Kubernetes' own services renew, count and store as they like."""
    resource, namespace, _ = key
    return resource not in ("v1/nodes", "apiregistration.k8s.io/v1/apiservices") and namespace != "kube-node-lease"


def _seen(api: Api) -> Snapshot:
    # Again while it is refused: the API server reads a kind anew when its CRD is.
    found = snapshot.part(eventually(lambda: snapshot.take(api)), _of_the_cluster)
    for name in ("admin", "edit", "view"):
        # A controller adds our rules to these while our ClusterRole is there; only the trace of its writes may stay.
        for trace in ("managedFields", "resourceVersion"):
            found["rbac.authorization.k8s.io/v1/clusterroles", "", name]["metadata"].pop(trace)
    return found


def _at_rest(api: Api) -> Snapshot:
    """Look until two looks are equal: what came before is then over."""

    def check() -> Snapshot:
        first, second = _seen(api), _seen(api)
        assert snapshot.differences(first, second) == []
        return second

    return eventually(check)


def _as_before(api: Api, before: Snapshot) -> None:
    eventually(lambda: _equal(before, _seen(api)), seconds=60)


def _equal(before: Snapshot, after: Snapshot) -> None:
    assert snapshot.differences(before, after) == []


@pytest.fixture(scope="module")
def crds(kubectl: Kubectl) -> Iterator[str]:
    """Have Argo's CRDs, as a person who uses Argo has."""
    folder = cluster_command("crds", "full")
    kubectl("apply", "--server-side", "-f", folder)
    yield folder
    kubectl("delete", "--ignore-not-found", "--wait=false", "-f", folder)


def _refused(person: Person, api: Api, *words: str, arguments: tuple[str, ...] = (*DEMO, "YES=1")) -> None:
    before = _at_rest(api)
    code, told = person.makes(*arguments)
    assert code != 0
    assert "othing was done" in told
    for word in words:
        assert word in told, word
    assert "Traceback" not in told
    _as_before(api, before)


def test_without_argos_crds_it_names_the_command(person: Person, api: Api) -> None:
    """With the version that the demo would run."""
    _refused(person, api, "manifests/base/crds/full?ref=v4.0.5", "workflowtaskresults")


def test_with_nobody_to_ask_it_does_nothing(person: Person, api: Api, crds: str) -> None:
    """But it tells what it would do, and where."""
    del crds
    _refused(person, api, "context local, https://10.96.0.1:443", "YES=1", arguments=DEMO)


def test_without_rights_it_names_them(person: Person, api: Api, kubectl: Kubectl, crds: str) -> None:
    """All at once, instead of stopping half-way at the first."""
    del crds
    kubectl("create", "serviceaccount", "visitor", "-n", "default")
    try:
        token = kubectl("create", "token", "visitor", "-n", "default").strip()
        place = api.bearer_kubeconfig(token)
        person.takes(place.read_text())
        place.unlink()
        _refused(person, api, "customresourcedefinitions.apiextensions.k8s.io", "namespaces", "leases", "you may not")
    finally:
        person.takes(KUBECONFIG.read_text())
        kubectl("delete", "serviceaccount", "visitor", "-n", "default")


def _made(kubectl: Kubectl, *documents: dict[str, object]) -> Callable[[], None]:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    kubectl("create", "-f", "-", stdin=text)
    return lambda: print(kubectl("delete", "-f", "-", stdin=text))


def _namespace(name: str, **labels: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        pytest.param([_namespace("team-a", **{OPT_IN: "enabled"})], ("team-a", "opted in already"), id="opted in"),
        pytest.param([_namespace(NAMESPACES[0])], (NAMESPACES[0], "not the demo's"), id="a namespace of its name"),
        pytest.param(
            [
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRole",
                    "metadata": {"name": "metaoperator-workflow-controller-v1"},
                    "rules": [],
                }
            ],
            ("ClusterRole/metaoperator-workflow-controller-v1", "differs"),
            id="another fleet bundle",
        ),
        pytest.param(
            [
                _namespace("metaoperator"),
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": "metaoperator", "namespace": "metaoperator"},
                    "spec": {"holderIdentity": "somebody", "renewTime": "2999-01-01T00:00:00.000000Z"},
                },
            ],
            ("somebody", "another meta-operator"),
            id="another operator",
        ),
    ],
)
def test_what_stands_in_its_way_is_named_and_left(
    documents: list[dict[str, object]], words: tuple[str, ...], person: Person, api: Api, kubectl: Kubectl, crds: str
) -> None:
    """Nothing of somebody else's is changed, and nothing is begun beside it."""
    del crds
    undo = _made(kubectl, *documents)
    try:
        _refused(person, api, *words)
    finally:
        undo()


def test_it_does_the_main_job_and_leaves_nothing(person: Person, api: Api, crds: str) -> None:
    """Two namespaces, two Workflows, as on the local cluster; not one object is left, and no process."""
    del crds
    before = _at_rest(api)

    code, told = person.makes(*DEMO, "YES=1")

    assert code == 0
    assert told.count("step 3 received") == 2
    for name in NAMESPACES:
        assert f"kubectl wait --for=condition=Ready --timeout=180s wfc/workflow-controller -n {name}" in told
    _as_before(api, before)
    assert not _processes()


def test_killed_it_takes_its_operator_along_and_is_cleaned_up_later(
    person: Person, api: Api, kubectl: Kubectl, crds: str
) -> None:
    """Nothing of a demo outlives it but objects with its label, which `make demo-down` takes away."""
    del crds
    before = _at_rest(api)
    process = person.start(*DEMO, "YES=1")
    try:
        eventually(lambda: _has_row(api))
        for pid in _processes("tests.demo"):
            os.kill(pid, signal.SIGKILL)
        process.wait(60)
        eventually(lambda: _none(_processes()))
    finally:
        process.kill()
        process.communicate()
    assert snapshot.differences(before, _seen(api)), "it was killed before it made anything: this test proves nothing"

    code, _ = person.makes("demo-down")

    assert code == 0
    _as_before(api, before)


def _has_row(api: Api) -> None:
    found = api.object("metaoperator.dev/v1alpha1/workflowcontrollers", NAMESPACES[0], "workflow-controller")
    assert found is not None, "no WorkflowController yet"


def _none(found: list[int]) -> None:
    assert not found, f"still there: {found}"


def _processes(needle: str = "metaoperator") -> list[int]:
    """Find the person's processes: nobody else's on this machine has his user."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                mine = place.stat().st_uid == NOBODY and needle in (place / "cmdline").read_text()
                pod = "/kubepods" in (place / "cgroup").read_text()
            except OSError:  # gone meanwhile
                continue
            if mine and not pod:
                found.append(int(place.name))
    return sorted(found)
