"""The whole operator and fields that cannot be changed (R29): replaced in a safe order, also by one that is killed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from metaoperator import preview, sources
from metaoperator.commands import diff
from metaoperator.core import names, unified
from metaoperator.core.errors import RetryableError
from metaoperator.pretence import Assumed
from metaoperator.preview import Preview
from metaoperator.rehearsal import Rehearsal
from metaoperator.settings import Settings
from tests.fake import FakeApiServer

from .world import Replica, World

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: workflow-controller
spec:
  selector: {matchLabels: {{ labels }}}
  template:
    metadata: {labels: {{ labels }}}
    spec: {serviceAccountName: argo, containers: [{name: c, image: "i:{{ values.version }}"}]}
"""
BINDING = """
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: argo
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ "Role" if values.version == "1" else "ClusterRole" }}
  name: argo
subjects: [{kind: ServiceAccount, name: argo, namespace: {{ namespace.name | q }}}]
"""
ACCOUNT = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: argo}\n"
FROZEN = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: frozen
immutable: true
data: {version: {{ values.version | q }}}
"""
SERVICE = """
apiVersion: v1
kind: Service
metadata:
  name: metrics
spec:
{% if values.version == "2" %}
  clusterIP: None
{% endif %}
  ports: [{name: metrics, port: 9090}]
  selector: {app: a}
"""
NAMES = {
    "Deployment": "workflow-controller",
    "RoleBinding": "argo",
    "ConfigMap": "frozen",
    "Service": "metrics",
    "ServiceAccount": "argo",
}
BASES = ("/api/v1", "/apis/apps/v1", "/apis/rbac.authorization.k8s.io/v1")
PLURALS = tuple(f"{kind.lower()}s" for kind in NAMES)


def template_set(folder: Path) -> Path:
    """Write a set whose version decides every immutable field that a child has."""
    home = folder / "sets" / "versions"
    home.mkdir(parents=True)
    api = {"Deployment": "apps/v1", "RoleBinding": "rbac.authorization.k8s.io/v1"}
    kinds = [f"{{apiVersion: {api.get(kind, 'v1')}, kind: {kind}}}" for kind in NAMES]
    mark = f'"{names.MANAGED_BY_LABEL}": "{names.MANAGED_BY}"'
    one, two = f'{{"app": "a", {mark}}}', f'{{"app": "a", "more": "b", {mark}}}'
    labels = f"{{% set labels = {one!r} if values.version == '1' else {two!r} %}}"
    (home / "template.yaml").write_text(f"description: x\nkinds: [{', '.join(kinds)}]\nnamespaceValues: [version]\n")
    (home / "values.yaml").write_text('version: "1"\n')
    (home / "values.schema.json").write_text('{"type": "object"}\n')
    texts = {"deployment": labels + DEPLOYMENT, "b": BINDING, "a": ACCOUNT, "f": FROZEN, "s": SERVICE}
    for name, text in texts.items():
        (home / f"{name}.yaml.j2").write_text(text)
    return home.parent


def version(server: FakeApiServer) -> str:
    """Tell which version the objects of team-a are of; `mixed` while one is being replaced by the other."""
    found = {kind: server.get(kind, "team-a", name) for kind, name in NAMES.items()}
    there = {kind: each for kind, each in found.items() if each is not None}
    if len(there) < len(found) or any("deletionTimestamp" in each["metadata"] for each in there.values()):
        return "mixed"
    told = {
        "2" if "more" in there["Deployment"]["spec"]["selector"]["matchLabels"] else "1",
        "2" if there["RoleBinding"]["roleRef"]["kind"] == "ClusterRole" else "1",
        "2" if there["Service"]["spec"]["clusterIP"] == "None" else "1",
        there["ConfigMap"]["data"]["version"],
    }
    return told.pop() if len(told) == 1 else "mixed"


def uids(server: FakeApiServer) -> dict[str, str]:
    """Take the UID of each object."""
    return {kind: (server.get(kind, "team-a", name) or {})["metadata"]["uid"] for kind, name in NAMES.items()}


async def version_one(world: World) -> None:
    """Bring version 1 up."""
    world.template("versions", directory="versions")
    world.opt_in("team-a", "versions")
    await world.until(lambda: world.ready("team-a") and version(world.server) == "1")
    await asyncio.sleep(20)
    world.server.audit.clear()


async def test_an_upgrade_over_immutable_fields_replaces_and_says_so(world: World, server: FakeApiServer) -> None:
    """Each object by one delete with its UID and one create; the account stays; Events name field, before and after."""
    async with world.operator(templates=(template_set(world.folder),)):
        await version_one(world)
        before = uids(server)
        alive = _pods_at_birth(server)
        world.spec("team-a", values={"version": "2"})
        await world.until(lambda: version(server) == "2" and world.ready("team-a"), 30)
        await asyncio.sleep(120)
        after = uids(server)
        assert {kind for kind in before if before[kind] != after[kind]} == set(NAMES) - {"ServiceAccount"}
        deleted = [entry for entry in world.writes() if entry.verb == "delete"]
        assert {entry.body["preconditions"]["uid"] for entry in deleted if entry.body} == set(before.values()) - set(
            after.values()
        )
        policies = {entry.resource: entry.body["propagationPolicy"] for entry in deleted if entry.body}
        assert policies.pop("deployments") == "Foreground"
        assert policies == dict.fromkeys(("configmaps", "rolebindings", "services"), "Background")
        assert alive == [0], "the new Deployment was made while a pod of the old one was there"
        assert version(server) == "2"
    told = " ".join(event["note"] for event in world.events("Replaced"))
    for field in ("spec.selector", "roleRef", "spec.clusterIP", "data.version"):
        assert f"{field} cannot be changed from" in told


@pytest.mark.parametrize("may_ask", [True, False], ids=["asked", "by value"])
async def test_a_replacement_is_foretold(world: World, server: FakeApiServer, *, may_ask: bool) -> None:
    """`diff` tells what is replaced, for which field, and how the new object differs; it writes nothing."""
    sets = template_set(world.folder)
    async with world.operator(templates=(sets,)):
        await version_one(world)
    if not may_ask:
        message = 'x is forbidden: User "eve" cannot patch resource "x" in API group "" in the namespace "team-a"'
        server.faults.answer(403, verb="apply", times=99, message=message)
    ip = (server.get("Service", "team-a", "metrics") or {})["spec"]["clusterIP"]
    version_before = server.history.version
    cluster = Rehearsal(kubeconfig=str(world.kubeconfig))
    await cluster.connect()
    try:
        assumed = Assumed(programs=sources.programs((sources.shipped(), sets)), values={"version": "2"})
        found = await preview.of(cluster, "team-a", assumed, Settings())
    finally:
        await cluster.close()
    assert server.history.version == version_before
    told = {change.ref.kind.kind: (change.what, change.why) for change in found.changes if change.what != "unchanged"}
    assert {kind: what for kind, (what, _) in told.items()} == dict.fromkeys(
        set(NAMES) - {"ServiceAccount"}, "replaced"
    )
    assert told["Deployment"][1].startswith("spec.selector cannot be changed from")
    assert told["Deployment"][1].endswith("; it is deleted, with its pods, and created anew")
    assert told["Service"][1].endswith("; it is deleted and created anew")
    assert "# Deployment/team-a/workflow-controller: replaced: spec.selector cannot be changed from" in diff.text(found)
    if may_ask:
        assert {kind: tuple(changed(found, kind)) for kind in told} == {
            "ConfigMap": ("-  version: '1'", "+  version: '2'"),
            "RoleBinding": ("-  kind: Role", "+  kind: ClusterRole"),
            "Service": (f"-  clusterIP: '{ip}'", "+  clusterIP: None", f"-  - '{ip}'", "+  - None"),
            "Deployment": ("+      more: b", "+        more: b", "-      - image: i:1", "+      - image: i:2"),
        }
    else:
        assert {"+      more: b", "-      - image: i:1", "+      - image: i:2"} < set(changed(found, "Deployment"))
        assert {change.write.asked for change in found.changes if change.write is not None} == {False}
        return
    async with world.operator(templates=(sets,)):
        world.spec("team-a", values={"version": "2"})
        await world.until(lambda: version(server) == "2" and world.ready("team-a"), 300)
    for change in found.changes:
        if change.what == "replaced":
            assert change.write is not None
            assert change.write.after is not None
            live = server.get(change.ref.kind.kind, "team-a", change.ref.name)
            assert live is not None
            assert unified.diff(change.ref, change.write.after, live) == ""


def changed(found: Preview, kind: str) -> list[str]:
    """List the lines of an object's diff that come and go, but for the digest and the account's UID."""
    (change,) = [each for each in found.changes if each.ref.kind.kind == kind]
    assert change.write is not None
    lines = unified.diff(change.ref, change.write.before, change.write.after).splitlines()[3:]
    return [line for line in lines if line[0] in "+-" and names.GROUP not in line]


async def test_a_slow_pod_is_waited_for(world: World, server: FakeApiServer) -> None:
    """Between delete and create nothing else is taken down, and READY says what is waited for."""
    async with world.operator(templates=(template_set(world.folder),)):
        await version_one(world)
        (pod,) = server.select("Pod", "team-a")
        hold = {"metadata": {"finalizers": ["example.com/slow-kubelet"]}}
        server.patch("Pod", "team-a", pod["metadata"]["name"], hold)
        world.spec("team-a", values={"version": "2"})
        await asyncio.sleep(600)
        assert len(server.select("Pod", "team-a")) == 1
        assert world.condition("team-a") == ("False", "Removing")
        assert server.get("ConfigMap", "team-a", "frozen") is not None
        server.patch("Pod", "team-a", pod["metadata"]["name"], {"metadata": {"finalizers": None}})
        await world.until(lambda: version(server) == "2" and world.ready("team-a"), 30)


@pytest.mark.parametrize("sent", [False, True], ids=["before it was sent", "after it was answered"])
async def test_a_replacement_that_was_cut_off_anywhere_resumes(
    world: World, server: FakeApiServer, *, sent: bool
) -> None:
    """Killed at the first, second, … request about the child: the next one brings the end about, with one pod."""
    async with world.nature():
        sets = (template_set(world.folder),)
        replica = world.start(templates=sets)
        await version_one(world)
        wanted, number, killed = "1", 0, True
        while killed:
            number += 1
            wanted = "2" if wanted == "1" else "1"
            await asyncio.sleep(5)
            died = dies_at(replica, number, sent=sent)
            world.spec("team-a", values={"version": wanted})
            await world.until(lambda: died.is_set() or version(server) == wanted, 60)  # noqa: B023
            killed = died.is_set()
            if killed:
                await replica.kill()
                replica = world.start(templates=sets)
            await world.until(lambda: version(server) == wanted and world.ready("team-a"), 120, what=f"{number}")  # noqa: B023
            assert len(server.select("Pod", "team-a")) == 1
    assert number > 16, "a look, a dry run, a delete and a create for each of four objects were cut at least"


async def test_nobody_deletes_what_the_api_server_would_not_take_back(world: World, server: FakeApiServer) -> None:
    """A quota, a policy or a missing permission refuses the successor in a dry run: the predecessor stays, Rejected."""
    async with world.operator(templates=(template_set(world.folder),)):
        await version_one(world)
        before = uids(server)
        refused = [
            server.faults.answer(403, message="no more", verb="apply", resource=each, name=f"{name}-next", times=10**6)
            for each, name in (("deployments", "workflow-controller"), ("rolebindings", "argo"))
        ]
        world.spec("team-a", values={"version": "2"})
        await world.until(lambda: world.condition("team-a") == ("False", "Rejected"), 10)
        assert "no more" in world.message("team-a")
        await asyncio.sleep(300)
        after = uids(server)
        assert {kind for kind in before if before[kind] == after[kind]} == {
            "Deployment",
            "RoleBinding",
            "ServiceAccount",
        }
        for each in refused:
            each.release()
        await world.until(lambda: version(server) == "2" and world.ready("team-a"), 130)


async def test_nobodys_edit_makes_us_replace(world: World, server: FakeApiServer) -> None:
    """A ConfigMap that somebody edited and froze: told with the cure, and left as it is also when values change."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(30)
        name = "workflow-controller-configmap"
        patch = {"data": {"config": "x: 1\n"}, "immutable": True}
        frozen = server.patch("ConfigMap", "team-a", name, patch, manager="kubectl-edit")
        await world.until(lambda: world.condition("team-a") == ("False", "Immutable"), 10)
        assert "immutable" in world.message("team-a")
        assert "delete it" in world.message("team-a")
        await asyncio.sleep(300)
        child = server.get("Deployment", "team-a", "workflow-controller")
        world.spec("team-a", values={"config": {"parallelism": 5}})
        await asyncio.sleep(300)
        assert world.condition("team-a") == ("False", "Immutable")
        # A pod that starts now would read what has no instance ID, and take everything without one for its own.
        assert server.get("Deployment", "team-a", "workflow-controller") == child
        assert server.get("ConfigMap", "team-a", name) == frozen
        server.delete("ConfigMap", "team-a", name)
        await world.until(lambda: world.ready("team-a"), 10)


def dies_at(replica: Replica, number: int, *, sent: bool) -> asyncio.Event:
    """End the process at its n-th request about the objects of a child, before it is sent or once it is answered."""
    real, died = replica.operator._cluster._send, asyncio.Event()
    count = 0

    async def send(method: str, path: str, query: Any, *more: Any) -> Any:
        nonlocal count
        about = path.startswith(tuple(f"{base}/namespaces/team-a/{each}/" for base in BASES for each in PLURALS))
        count += about
        last = about and count == number
        if died.is_set() or (last and not sent):
            died.set()
            raise RetryableError("this process was killed")
        try:
            return await real(method, path, query, *more)
        finally:  # a "not there" is an answer as well
            if died.is_set() or last:
                died.set()
                raise RetryableError("this process was killed")

    replica.operator._cluster._send = send  # type: ignore[method-assign, assignment]
    return died


def _pods_at_birth(server: FakeApiServer) -> list[int]:
    """Count the pods that are there whenever a Deployment is made."""
    counted: list[int] = []

    def notice(kind: Any, event: Any) -> None:
        if kind.kind == "Deployment" and event.type == "ADDED":
            counted.append(len(server.select("Pod", "team-a")))

    server.store.listeners.insert(0, notice)
    return counted
