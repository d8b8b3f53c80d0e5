"""A fleet of 100, or 300, and two real canaries, moved in waves: killed on the way, given a bad image, upgraded.

The canaries are real children on the real node: the same controller under two tags, and an image that exits at once.
The others are simulated. Order is read from the API server's audit log, restarts from the Deployments' generations.
"""

import json
import math
import random
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster import node, oci
from tests.e2e import replicas, simulated
from tests.e2e.audit import Audit, Entry, target, told
from tests.e2e.install import IMAGE, Installation, cluster_command
from tests.e2e.local import (
    AUDIT_LOG,
    CHECKOUT,
    FULL,
    LOGS,
    MANIFESTS,
    OPERATOR,
    OPT_IN,
    Api,
    Kubectl,
    condition,
    eventually,
)
from tests.e2e.namespaces import WORKFLOW_CONTROLLERS, Namespaces

TEMPLATE: Final = MANIFESTS / "waves" / "controllertemplate.yaml"
POLICY: Final = MANIFESTS / "waves" / "canaries-policy.yaml"
NAME: Final = "waves"
CANARIES: Final = ("e2e-canary-1", "e2e-canary-2")
FLEET: Final = tuple(f"e2e-wave-{number:03}" for number in range(300 if FULL else 100))
ALL: Final = (*CANARIES, *FLEET)
EARLY: Final = math.ceil(len(ALL) / 10)
SOAK_SECONDS: Final = 5.0
KILLS: Final = 20 if FULL else 5

CONTROLLER: Final = "metaoperator.local/workflow-controller"
OLD, GOOD, BAD = "v4.0.5", "v4.0.6", "v4.0.7"
REAL_NODE: Final = "metaoperator-node"
CHILD_RESOURCES: Final = (
    "v1/serviceaccounts",
    "v1/configmaps",
    "v1/services",
    "rbac.authorization.k8s.io/v1/rolebindings",
    "apps/v1/deployments",
)
FILTERS: Final = "opt/metaoperator/lib/metaoperator/core"


@pytest.fixture(scope="module")
def images(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Have the controller under a second tag, one that exits at once, and an operator that renders other bytes."""
    del installation
    done = node.ctr("images", "tag", "--force", f"{CONTROLLER}:{OLD}", f"{CONTROLLER}:{GOOD}")
    assert done.returncode == 0, done.stderr
    place = tmp_path_factory.mktemp("images")
    layer = oci.tar_of(
        [
            oci.Entry(name="bin"),
            oci.Entry(name="bin/busybox", data=Path("/bin/busybox").read_bytes()),
            oci.Entry(name="bin/sh", link="busybox"),
            oci.Entry(name="bin/workflow-controller", data=b"#!/bin/sh\necho 'this image is broken' >&2\nexit 1\n"),
        ]
    )
    config: dict[str, object] = {"User": "65534", "Env": ["PATH=/bin"]}
    oci.docker_archive(place / "bad.tar", reference=f"{CONTROLLER}:{BAD}", layer=layer, config=config)
    cluster_command("load", place / "bad.tar")
    (plain,) = oci.names(IMAGE)
    other = f"{plain}-other-renderer"
    filters = (CHECKOUT / "metaoperator" / "core" / "filters.py").read_text()
    changed = filters.replace('"digest": _made(digest)', '"digest": _made(lambda text: digest(f"{text}anew"))')
    assert changed != filters
    entries = [
        oci.Entry(name=f"{FILTERS}/filters.py", data=changed.encode(), mode=0o644),
        # The compiled form is trusted without a look at the source: this takes it out of the layer below.
        oci.Entry(name=f"{FILTERS}/__pycache__/.wh.filters.cpython-311.pyc", data=b"", mode=0o644),
    ]
    oci.with_files(IMAGE, place / "other.tar", reference=other, entries=entries)
    cluster_command("load", place / "other.tar")
    return other


@pytest.fixture(scope="module")
def fleet(simulated_nodes: None, namespaces: Namespaces, kubectl: Kubectl, api: Api) -> Iterator[None]:
    """Have everybody READY at the old version, and that version stable."""
    del simulated_nodes
    kubectl("apply", "--server-side", "-f", TEMPLATE, "-f", POLICY)
    try:
        with simulated.Children(api) as children:
            namespaces.make(*ALL)
            kubectl("label", "namespace", *CANARIES, "e2e-tier=canary")
            eventually(lambda: _real(kubectl, CANARIES[0]))
            kubectl("label", "namespace", *ALL, f"{OPT_IN}={NAME}")
            eventually(lambda: _settled(api, OLD), seconds=240, every=2)
            yield
            assert not children.failures
    finally:
        namespaces.remove(*ALL)
        kubectl("delete", "--ignore-not-found", "-f", TEMPLATE, "-f", POLICY)


def _real(kubectl: Kubectl, namespace: str) -> None:
    """Check that the policy is at work: the API server takes a moment to load it."""
    where = "jsonpath={.spec.nodeSelector}"
    made = kubectl("run", "probe", "--image=probe", "--dry-run=server", "-n", namespace, "-o", where)
    assert REAL_NODE in made, made


def _rollout(api: Api) -> Mapping[str, Any]:
    live = api.get(f"/apis/metaoperator.dev/v1alpha1/controllertemplates/{NAME}")
    assert live is not None
    status = live.get("status") or {}
    assert status.get("observedGeneration") == live["metadata"]["generation"], "not looked at yet"
    return status.get("rollout") or {}


def _settled(api: Api, version: str) -> None:
    """Check that everybody is READY at a version, and that the rollout says so."""
    rows = {row["metadata"]["namespace"]: row for row in api.objects(WORKFLOW_CONTROLLERS)}
    late = {
        name: dict(condition(rows.get(name, {}), "Ready"))
        for name in ALL
        if condition(rows.get(name, {}), "Ready").get("status") != "True" or rows[name]["status"]["version"] != version
    }
    assert not late, f"{len(late)} are not READY at {version}, such as {next(iter(late.items()))}"
    rollout = _rollout(api)
    assert rollout.get("phase") in {"Done", "Idle"}, dict(rollout)
    assert rollout.get("stable") == rollout["target"], dict(rollout)


def _generations(api: Api) -> dict[str, int]:
    """Read how often each child's Deployment was changed: each change is a new pod."""
    return {
        each["metadata"]["namespace"]: each["metadata"]["generation"]
        for each in api.objects("apps/v1/deployments")
        if each["metadata"]["namespace"] in ALL
    }


def _versions(api: Api, names: Sequence[str]) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Read the identities of all that children consist of: the same means that nobody wrote, or made it anew."""
    return {
        (resource, each["metadata"]["namespace"], each["metadata"]["name"]): (
            each["metadata"]["uid"],
            each["metadata"]["resourceVersion"],
        )
        for resource in CHILD_RESOURCES
        for each in api.objects(resource)
        if each["metadata"]["namespace"] in names
    }


def _set_version(kubectl: Kubectl, version: str) -> None:
    patch = {"spec": {"values": {"version": version}}}
    kubectl("patch", "controllertemplate", NAME, "--type=merge", "-p", json.dumps(patch))


class Moves:
    """Follows the audit log: which Deployments the operator wrote, in the order of its requests."""

    def __init__(self, audit: Audit) -> None:
        """Begin at the end."""
        self._at = audit.mark()
        self.entries: list[Entry] = []

    def look(self) -> "Moves":
        """Read on."""
        with AUDIT_LOG.open("rb") as file:
            file.seek(self._at)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.splitlines():
            if b'"resource":"deployments"' in line and b'"username":"system:serviceaccount:metaoperator:' in line:
                entry = json.loads(line)
                if (
                    entry["verb"] in {"patch", "create", "update", "delete"}
                    and entry["stage"] == "ResponseComplete"
                    and "dryRun=All" not in entry["requestURI"]
                    and target(entry)[1] in ALL
                ):
                    self.entries.append(entry)
        return self

    def first(self) -> dict[str, datetime]:
        """Say when each namespace was written to first, the earliest first."""
        found: dict[str, datetime] = {}
        for entry in sorted(self.entries, key=lambda each: str(each["requestReceivedTimestamp"])):
            received = datetime.fromisoformat(entry["requestReceivedTimestamp"])
            found.setdefault(target(entry)[1], received)
        return found

    def assert_made(self, number: int) -> None:
        """Check that so many were written to."""
        made = len(self.look().first())
        assert made >= number, f"{made} are moved, wanted {number}"


def _assert_in_order(first: Mapping[str, datetime]) -> None:
    """Check the waves: each begins when the one before is healthy for the soak time, so not before that has passed."""
    names, times = list(first), list(first.values())
    assert set(names[: len(CANARIES)]) == set(CANARIES), names[: len(CANARIES) + 3]
    edges = [len(CANARIES), len(CANARIES) + EARLY]
    for edge in edges:
        if len(times) > edge:
            gap = (times[edge] - times[edge - 1]).total_seconds()
            assert gap >= SOAK_SECONDS, f"{names[edge]} was moved {gap} s after {names[edge - 1]}, of the wave before"


def test_killed_at_random_moments_a_rollout_goes_through_its_waves(
    images: str, fleet: None, installation: Installation, kubectl: Kubectl, api: Api, audit: Audit
) -> None:
    """Canaries, soak, ten percent, soak, the rest: order and end are as without kills, each child is moved once."""
    del images, fleet
    log = LOGS / "rollout.log"
    # Twice while the canaries are proved; the others anywhere.
    points = [1, 2, *sorted(random.sample(range(3, len(ALL) * 3 // 4), KILLS - 2))]
    with replicas.no_pods(installation, kubectl, api) as kubeconfig:
        before = _generations(api)
        moves = Moves(audit)
        _set_version(kubectl, GOOD)
        killed_at = []
        for point in points:
            with replicas.running(kubeconfig, log) as processes:
                eventually(lambda point=point: moves.assert_made(point), seconds=120, every=0.1)  # type: ignore[misc]
                time.sleep(random.uniform(0, 0.5))
                assert [each.poll() for each in processes] == [None, None], f"a replica ended by itself: {log}"
            killed_at.append(len(moves.look().first()))
        print(f"killed {len(killed_at)} times, when so many were moved: {killed_at}")
        assert sum(1 for each in killed_at if each < len(ALL)) >= KILLS // 2
        with replicas.running(kubeconfig, log) as processes:
            eventually(lambda: _settled(api, GOOD), seconds=240, every=2)
            for each in processes:
                each.send_signal(signal.SIGTERM)
            assert [each.wait(timeout=30) for each in processes] == [0, 0]
    first = moves.look().first()
    assert set(first) == set(ALL)
    _assert_in_order(first)
    after = _generations(api)
    assert {name: after[name] - before[name] for name in ALL} == dict.fromkeys(ALL, 1)


def test_a_bad_image_stops_at_the_canary_and_is_rolled_back(
    images: str, fleet: None, namespaces: Namespaces, kubectl: Kubectl, api: Api, audit: Audit
) -> None:
    """By itself, with nobody else's child written to: not by the operator, and by no one else."""
    del images, fleet
    others = [name for name in ALL if name not in CANARIES]
    had = {name: namespaces.ready(name)["status"]["version"] for name in CANARIES}
    before, generations, mark = _versions(api, others), _generations(api), audit.mark()
    assert len(before) > len(CHILD_RESOURCES) * len(others)
    _set_version(kubectl, BAD)

    def rolled_back() -> Mapping[str, Any]:
        rollout = _rollout(api)
        assert rollout.get("phase") == "RolledBack", dict(rollout)
        return rollout

    rollout = eventually(rolled_back, seconds=240, every=1)

    assert {name: namespaces.ready(name)["status"]["version"] for name in CANARIES} == had
    moved = {name: count - generations[name] for name, count in _generations(api).items()}
    assert sorted(moved[name] for name in CANARIES) == [0, 2], "one canary there and back, the other never"
    assert {name for name, count in moved.items() if count} < set(CANARIES)
    assert rollout["target"] == rollout["stable"] != rollout["source"]
    assert any(name in json.dumps(rollout["failed"]) for name in CANARIES)
    assert _versions(api, others) == before
    written = [
        told(entry)
        for entry in audit.writes(mark)
        if target(entry)[1] in others and target(entry)[0] not in {"workflowcontrollers/status", "events"}
    ]
    assert written == []
    _set_version(kubectl, GOOD)
    eventually(lambda: _settled(api, GOOD))


def test_another_operator_restarts_no_child_before_its_wave(
    images: str, fleet: None, installation: Installation, kubectl: Kubectl, api: Api, audit: Audit
) -> None:
    """What it renders differently is a revision of its own: it waits, is approved for the canaries, and goes back."""
    del fleet
    patch = {"spec": {"rollout": {"waves": _waves(approval=True)}}}
    kubectl("patch", "controllertemplate", NAME, "--type=merge", "-p", json.dumps(patch))
    eventually(lambda: _settled(api, GOOD))
    stable = _rollout(api)["target"]
    before, moves = _versions(api, ALL), Moves(audit)
    (deployment,) = api.objects("apps/v1/deployments", OPERATOR)
    plain = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    _run_image(kubectl, installation, images)
    try:

        def waits() -> str:
            rollout = _rollout(api)
            assert rollout["target"] != stable, dict(rollout)
            assert rollout["phase"] == "Waiting", dict(rollout)
            return str(rollout["target"])

        revision = eventually(waits, every=1)
        time.sleep(SOAK_SECONDS)
        assert _versions(api, ALL) == before
        assert moves.look().entries == []
        approval = {"spec": {"rollout": {"approvals": [{"revision": revision, "wave": "canary"}]}}}
        kubectl("patch", "controllertemplate", NAME, "--type=merge", "-p", json.dumps(approval))
        eventually(lambda: moves.assert_made(len(CANARIES) + 1), every=0.5)
        _assert_in_order(moves.first())
    finally:
        _run_image(kubectl, installation, plain)
    eventually(lambda: _settled(api, GOOD), seconds=240, every=2)
    assert _rollout(api)["target"] == stable


def _waves(*, approval: bool) -> list[dict[str, Any]]:
    canary = {"name": "canary", "selector": {"matchLabels": {"e2e-tier": "canary"}}, "maxUnavailable": 1}
    return [{**canary, "approval": approval}, {"name": "early", "percent": 10}]


def _run_image(kubectl: Kubectl, installation: Installation, image: str) -> None:
    kubectl("set", "image", f"deployment/{OPERATOR}", f"{OPERATOR}={image}", "-n", OPERATOR)
    kubectl("rollout", "status", f"deployment/{OPERATOR}", "-n", OPERATOR, "--timeout=120s")
    installation.wait_for_replicas(2)
