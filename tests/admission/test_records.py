"""The operator's records on a real API server, by its own account and with the rights that it is installed with."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from metaoperator import bundle, sources
from metaoperator.cluster import Cluster
from metaoperator.core import names
from metaoperator.core.errors import Invalid
from metaoperator.core.model import CONTROLLER_REVISION, Desired, Namespace, Ref
from metaoperator.core.revision import NEW, READY, Inputs
from metaoperator.gate import Gate
from metaoperator.revisions import Revisions
from tests.e2e.local import OPERATOR, Object, eventually

from .world import World

SERVED, OUT = "team-records", "team-records-out"
TENANT = "tenant-of-records"
THE_OPERATOR = f"system:serviceaccount:{OPERATOR}:{names.OPERATOR_ACCOUNT}"
SET = sources.shipped() / sources.DEFAULT_SET
EVERYWHERE: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "records"},
    "rules": [{"apiGroups": ["apps"], "resources": ["controllerrevisions"], "verbs": ["*"]}],
}


@pytest.fixture(scope="module")
def records(world: World) -> Iterator[World]:
    """Have the operator's account with its Role, and somebody who may do everything in a namespace of their own."""
    world.have()
    world.namespace(SERVED)
    world.namespace(OUT, None)
    wanted = [
        each for each in bundle.objects(bundle.OPERATOR) if each["kind"] in {"ServiceAccount", "Role", "RoleBinding"}
    ]
    world.kubectl("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": wanted})
    for namespace in (SERVED, OUT):
        world.kubectl(
            "create", "rolebinding", "all", "-n", namespace, "--clusterrole=cluster-admin", f"--user={TENANT}"
        )
    yield world
    world.kubectl("delete", "controllerrevisions", "--all", "-n", OPERATOR)
    world.kubectl("delete", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": wanted})


@contextlib.asynccontextmanager
async def as_the_operator(world: World, folder: Path) -> AsyncIterator[Cluster]:
    """Connect with a token of the operator's account, through the client that it uses."""
    path = f"/api/v1/namespaces/{OPERATOR}/serviceaccounts/{names.OPERATOR_ACCOUNT}/token"
    code, answer = world.send("POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"})
    assert code == 201, answer
    config = world.kubectl.json("config", "view", "--raw", "--flatten", "-o", "json")
    config["users"] = [{**each, "user": {"token": answer["status"]["token"]}} for each in config["users"]]
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    cluster = Cluster(kubeconfig=str(kubeconfig), gate=Gate())
    await cluster.connect()
    cluster.gate.open_until(asyncio.get_running_loop().time() + 600)
    try:
        yield cluster
    finally:
        await cluster.close()


@contextlib.asynccontextmanager
async def keeping(cluster: Cluster) -> AsyncIterator[Revisions]:
    """Run revisions until they are synced."""
    revisions = Revisions(cluster, namespace=OPERATOR, wall_clock=lambda: datetime.now(UTC))
    tasks = [asyncio.ensure_future(each) for each in revisions.runs()]
    try:
        await until(lambda: revisions.synced)
        yield revisions
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def until(true: Callable[[], Any]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - there is nothing to wait on
            await asyncio.sleep(0.05)


async def move(revisions: Revisions, content: str) -> Any:
    """Move a namespace."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": content}}
    return await revisions.move(
        Namespace(name=SERVED, uid="11111111-2222-3333-4444-555555555555"),
        desired=Desired(documents=(body,), revision=content, version="4.0.5"),
        set_revision="0123456789",
        inputs=Inputs(labels={"a": "b"}, values={"<&>": "ü"}, instance_id=SERVED, template="default"),
        spec={"values": {"<&>": "ü"}},
        template="default",
        before=NEW if content == "aaaaaaaaaa" else READY,
    )


async def test_records_have_their_whole_life_on_a_real_api_server(records: World, tmp_path: Path) -> None:
    """Written, renumbered, proven, pruned and forgotten by the operator's account; another replica sees all of it."""
    async with (
        as_the_operator(records, tmp_path) as cluster,
        keeping(cluster) as revisions,
        keeping(cluster) as other,
    ):
        one = await revisions.prove(await move(revisions, "aaaaaaaaaa"))
        two = await move(revisions, "bbbbbbbbbb")
        back = await move(revisions, "aaaaaaaaaa")
        assert (back.uid, back.number, back.proven) == (one.uid, 3, None)
        await until(lambda: other.current(back.namespace_uid) == back)
        record = await other.record(back)
        assert record is not None
        assert record.documents[0]["data"] == {"a": "aaaaaaaaaa"}
        assert record.inputs.values == {"<&>": "ü"}
        await move(revisions, "cccccccccc")
        await until(lambda: not [each for each in other._records.of_namespace(two.namespace_uid) if each == two])
        made = sources.compiled(SET)
        kept = await revisions.keep_set("default", made, {"version": "4.0.5"}, "0123456789")
        await until(lambda: other.sets("default") == [kept])
        failed = await other.mark(kept, failed="PodFailing in team-a")
        await until(lambda: revisions.sets("default") == [failed])
        loaded = await other.loaded("default", "0123456789")
        assert loaded is not None
        assert loaded[0].template_set == made.template_set
        ref = Ref(CONTROLLER_REVISION, OPERATOR, back.name)
        with pytest.raises(Invalid, match="field is immutable"):
            await cluster.merge(ref, {"data": {"gzip": "other"}})
        await revisions.forget(back.namespace_uid)
        await until(lambda: other.current(back.namespace_uid) is None)


def _path(namespace: str, name: str = "") -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/controllerrevisions" + (f"/{name}" if name else "")


def _record(**metadata: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "revision": 1,
        "data": {"a": "b"},
    }


def test_the_operator_keeps_records_in_its_own_namespace_only(records: World) -> None:
    """By its rights; and had it more of them, by the fence, whether the namespace is opted in or not."""
    for namespace in (SERVED, OUT):
        code, answer = records.send("POST", _path(namespace), _record(name="one"), who=THE_OPERATOR)
        assert code == 403, answer
        # Other tests of this API server may have given it more rights, as this one does below.
        assert any(said in answer["message"] for said in ("cannot create resource", "metaoperator-operator-writes"))
    records.kubectl("apply", "-f", "-", stdin=EVERYWHERE)
    records.kubectl("create", "clusterrolebinding", "records", "--clusterrole=records", f"--user={THE_OPERATOR}")
    try:
        for namespace, told in ((SERVED, "creates only objects that carry its mark"), (OUT, "is not opted in")):

            def fenced(namespace: str = namespace, told: str = told) -> None:  # once the binding counts
                code, answer = records.send("POST", _path(namespace), _record(name="one"), who=THE_OPERATOR)
                assert code == 403, answer
                assert told in answer["message"]

            eventually(fenced, seconds=60)
            made = _record(name="one")
            path = f"{_path(namespace, 'one')}?fieldManager=test"
            # As the operator does it: what an apply stores, a later merge leaves as it is.
            assert records.send("PATCH", path, made, kind="application/apply-patch+yaml")[0] == 201
            for method, body in (("PATCH", {"revision": 2}), ("DELETE", None)):
                code, answer = records.send(
                    method, _path(namespace, "one"), body, who=THE_OPERATOR, kind="application/merge-patch+json"
                )
                assert code == 403, (method, answer["message"])
                assert "changes and deletes only objects that carry its mark" in answer["message"]
        code, answer = records.send("POST", _path(OPERATOR) + "?dryRun=All", _record(name="one"), who=THE_OPERATOR)
        assert code == 201, answer
    finally:
        records.kubectl("delete", "clusterrolebinding", "records")


def test_who_rules_another_namespace_reaches_no_record(records: World) -> None:
    """Not to read one, for it holds values and rendered objects of others; not to make or change one."""
    assert records.send("POST", _path(OPERATOR), _record(name="of-the-operator"))[0] == 201
    merge = "application/merge-patch+json"
    for method, name, body in (
        ("GET", "", None),
        ("GET", "of-the-operator", None),
        ("POST", "", _record(name="theirs")),
        ("PATCH", "of-the-operator", {"revision": 2}),
        ("DELETE", "of-the-operator", None),
        ("DELETE", "", None),
    ):
        code, answer = records.send(method, _path(OPERATOR, name), body, who=TENANT, kind=merge if body else "")
        assert code == 403, (method, answer)
    assert records.send("GET", _path(SERVED), who=TENANT)[0] == 200, "in their own they may"
    records.kubectl("delete", "controllerrevision", "of-the-operator", "-n", OPERATOR)
