"""What only the fake can do: faults, cut watches, missing kinds, tokens, and the controllers around it."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.contract.builders import config_map, deployment, widget
from tests.contract.client import Api, eventually, manifest, path_of
from tests.fake import DeploymentController, FakeApiServer


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    """One fake."""
    async with FakeApiServer(bookmark_every=0.05) as fake:
        yield fake


@pytest.fixture
async def api(server: FakeApiServer) -> AsyncIterator[Api]:
    """Connect a thin client to it."""
    async with aiohttp.ClientSession() as session:
        yield Api(session, server.url, real=False)


@pytest.mark.parametrize("code", [401, 403, 409, 429, 500, 503])
async def test_the_next_requests_are_answered_as_planned(server: FakeApiServer, api: Api, code: int) -> None:
    """A fault answers so many requests that match, and no others."""
    server.faults.answer(code, verb="apply", resource="configmaps", name="one", times=2, retry_after=3)
    assert (await api.apply("default", config_map("two"))).code == 201
    for _ in range(2):
        answer = await api.apply("default", config_map())
        assert (answer.code, answer.body["details"]["retryAfterSeconds"]) == (code, 3)
    assert (await api.apply("default", config_map())).code == 201


async def test_a_fault_may_last_for_a_time(server: FakeApiServer, api: Api) -> None:
    """`seconds` ends a fault whatever it met."""
    server.faults.answer(503, seconds=0.05)
    assert (await api.get("ConfigMap", "default")).code == 503
    await asyncio.sleep(0.06)
    assert (await api.get("ConfigMap", "default")).code == 200


async def test_a_held_request_goes_on_when_released(server: FakeApiServer, api: Api) -> None:
    """Nothing has happened while a request hangs."""
    fault = server.faults.hang(verb="create")
    waiting = asyncio.create_task(api.create("default", config_map()))
    await fault.entered()
    assert server.get("ConfigMap", "default", "one") is None
    fault.release()
    assert (await waiting).code == 201


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_cut_connection_may_hide_an_effect(server: FakeApiServer, api: Api, *, after: bool) -> None:
    """The client sees the same; the object is there or not."""
    server.faults.cut(after_effect=after, verb="create")
    with pytest.raises(aiohttp.ClientError):
        await api.create("default", config_map())
    assert (server.get("ConfigMap", "default", "one") is not None) is after
    assert server.audit[-1].code == 0
    assert server.audit[-1].changed is after


async def test_a_slow_answer(server: FakeApiServer, api: Api) -> None:
    """A delay delays the effect too."""
    server.faults.slow(0.05, verb="list")
    began = time.monotonic()
    await api.get("ConfigMap", "default")
    assert time.monotonic() - began >= 0.05


async def test_cut_watches_break_without_an_end(server: FakeApiServer, api: Api) -> None:
    """The client sees a broken stream, not a finished one."""
    async with api.watch("ConfigMap", None) as stream:
        assert server.cut_watches("ConfigMap") == 1
        with pytest.raises(aiohttp.ClientError):
            await stream.next()


async def test_watches_end_with_any_error(server: FakeApiServer, api: Api) -> None:
    """An ERROR event other than 410, after what was waiting."""
    async with api.watch("ConfigMap", None, resourceVersion=str(server.history.version)) as stream:
        server.create(config_map(namespace="default"))
        server.fail_watches(500)
        assert await stream.take(1) == [("ADDED", "one")]
        kind, obj = await stream.next()
        assert (kind, obj["code"], obj["reason"]) == ("ERROR", 500, "InternalError")


async def test_dropped_events_are_never_heard_of(server: FakeApiServer, api: Api) -> None:
    """An event is lost, the bookmark after it is not."""
    async with api.watch(
        "ConfigMap", None, resourceVersion=str(server.history.version), allowWatchBookmarks="true"
    ) as s:
        server.faults.drop_events(resource="configmaps", name="one")
        server.create(config_map(namespace="default"))
        server.create(config_map("two", namespace="default"))
        assert await s.take(1) == [("ADDED", "two")]
        kind, obj = await s.next()
        assert (kind, obj["metadata"]["resourceVersion"]) == ("BOOKMARK", str(server.history.version))


async def test_a_small_window_forgets() -> None:
    """Without any compaction, what falls out of the window is 410 for who is behind."""
    async with FakeApiServer(window=3) as small, aiohttp.ClientSession() as session:
        since = str(small.history.version)
        for name in "abcd":
            small.create(config_map(name, namespace="default"))
        async with Api(session, small.url, real=False).watch("ConfigMap", None, resourceVersion=since) as stream:
            assert (await stream.next())[1]["code"] == 410


async def test_a_withdrawn_kind_is_not_found_until_defined_again(server: FakeApiServer, api: Api) -> None:
    """Deleting a definition takes the objects, ends the watches and answers 404; another definition starts empty."""
    body = {"apiVersion": "metaoperator.dev/v1alpha1", "kind": "WorkflowController", "metadata": {"name": "x"}}
    server.create({**body, "metadata": {"name": "x", "namespace": "default"}})
    path = "/apis/metaoperator.dev/v1alpha1/workflowcontrollers"
    definition = server.withdraw("WorkflowController")
    answer = await api.call("GET", path)
    assert (answer.code, answer.message) == (404, "the server could not find the requested resource")
    server.define(definition)
    assert (await api.call("GET", path)).body["items"] == []


async def test_a_definition_can_be_replaced(server: FakeApiServer, api: Api) -> None:
    """The product's own definitions take the place of the stand-ins, schema and all."""
    definition = server.get("CustomResourceDefinition", None, "workflowcontrollers.metaoperator.dev")
    assert definition is not None
    spec = {"type": "object", "properties": {"shards": {"type": "integer", "default": 1}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}}
    definition["spec"]["versions"][0]["schema"] = schema
    server.define(definition)
    body = {"apiVersion": "metaoperator.dev/v1alpha1", "kind": "WorkflowController"}
    server.create({**body, "metadata": {"name": "x", "namespace": "default"}, "spec": {}})
    answer = await api.call("GET", "/apis/metaoperator.dev/v1alpha1/namespaces/default/workflowcontrollers/x")
    assert answer.body["spec"] == {"shards": 1}


async def test_only_accepted_tokens_pass(server: FakeApiServer, api: Api) -> None:
    """A rotated token is 401 until the client brings the new one."""
    server.tokens = {"new"}
    assert (await api.get("ConfigMap", "default")).code == 401
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer new"}) as session:
        assert (await Api(session, server.url, real=False).get("ConfigMap", "default")).code == 200


async def test_the_audit_tells_who_did_what(server: FakeApiServer, api: Api) -> None:
    """Writes, dry runs and creations can be told apart."""
    await api.apply("default", config_map(data={"a": "1"}), dryRun="All")
    await api.apply("default", config_map(data={"a": "1"}))
    await api.apply("default", config_map(data={"a": "1"}))
    await api.get("ConfigMap", "default", "one")
    assert [str(entry) for entry in server.audit] == [
        "apply configmaps/default/one → 201 (dry run)",
        "apply configmaps/default/one → 201",
        "apply configmaps/default/one → 200",
        "get configmaps/default/one → 200",
    ]
    assert [entry.changed for entry in server.audit.writes()] == [True, False]
    assert [entry.name for entry in server.audit.creations()] == ["one"]
    assert server.audit.select(verb="get", namespace="default")[0].user_agent.startswith("Python/")


async def test_deployments_become_available_and_hold_a_lease(server: FakeApiServer) -> None:
    """Switched on, the controllers give a Deployment its ReplicaSet, pod, status and Lease."""
    async with DeploymentController(server):
        server.create(_child())
        await eventually(_available(server), 2)
        (pod,) = server.select("Pod", "default")
        (replica_set,) = server.select("ReplicaSet", "default")
        assert pod["metadata"]["name"].startswith(f"{replica_set['metadata']['name']}-")
        assert pod["metadata"]["ownerReferences"][0]["uid"] == replica_set["metadata"]["uid"]
        assert pod["metadata"]["labels"]["app"] == "workflow-controller"
        assert pod["status"]["phase"] == "Running"
        lease = server.get("Lease", "default", "workflow-controller-default")
        assert lease is not None
        assert lease["spec"]["holderIdentity"] == pod["metadata"]["name"]


async def test_a_killed_pod_is_replaced_and_the_lease_moves(server: FakeApiServer) -> None:
    """The ReplicaSet makes another pod; switched off, it does not."""
    async with DeploymentController(server) as controller:
        server.create(_child())
        await eventually(_available(server), 2)
        (first,) = server.select("Pod", "default")
        server.delete("Pod", "default", first["metadata"]["name"])

        async def moved() -> bool:
            lease = server.get("Lease", "default", "workflow-controller-default")
            return lease is not None and lease["spec"]["holderIdentity"] != first["metadata"]["name"]

        await eventually(moved, 2)
        await controller.switch_off()
        (second,) = server.select("Pod", "default")
        server.delete("Pod", "default", second["metadata"]["name"])
        await asyncio.sleep(0.01)
        assert server.select("Pod", "default") == []
        controller.switch_on()
        await eventually(_available(server), 2)


async def test_a_new_template_rolls(server: FakeApiServer) -> None:
    """A changed pod template gives a new ReplicaSet, and the old one goes with its pod."""
    async with DeploymentController(server):
        server.create(_child())
        await eventually(_available(server), 2)
        (old,) = server.select("Pod", "default")
        template = {"metadata": {"annotations": {"revision": "2"}}}
        server.patch("Deployment", "default", "workflow-controller", {"spec": {"template": template}})

        async def rolled() -> bool:
            pods = server.select("Pod", "default")
            return len(pods) == 1 and pods[0]["metadata"]["name"] != old["metadata"]["name"]

        await eventually(rolled, 2)
        await eventually(_available(server), 2)


async def test_a_broken_deployment_stays_unavailable(server: FakeApiServer) -> None:
    """Named as broken, its pod waits for an image, and no Lease is taken."""
    async with DeploymentController(server) as controller:
        controller.broken.add("default/workflow-controller")
        server.create(_child())

        async def waits() -> bool:
            return [pod["status"]["phase"] for pod in server.select("Pod", "default")] == ["Pending"]

        await eventually(waits, 2)
        assert server.select("Lease") == []


async def test_a_deleted_deployment_takes_everything_along(server: FakeApiServer) -> None:
    """The collector follows the owner references down to the pods."""
    async with DeploymentController(server):
        server.create(_child())
        await eventually(_available(server), 2)
        server.delete("Deployment", "default", "workflow-controller", propagationPolicy="Foreground")

        async def gone() -> bool:
            return not any(server.select(kind) for kind in ("Deployment", "ReplicaSet", "Pod"))

        await eventually(gone, 2)


async def test_the_product_client_works_unchanged(server: FakeApiServer, tmp_path: Path) -> None:
    """`kubernetes.aio` and its dynamic client discover, apply and read."""
    from kubernetes.aio import client, config
    from kubernetes.aio.dynamic import DynamicClient

    server.tokens = {"secret"}
    settings = client.Configuration()
    kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig", "secret")
    await config.load_kube_config(kubeconfig, client_configuration=settings, persist_config=False)
    async with client.ApiClient(settings) as session:
        dynamic = await DynamicClient(session)
        resource = await dynamic.resources.get(api_version="apps/v1", kind="Deployment")
        apply = dynamic.server_side_apply
        made = await apply(resource, body=_child(), namespace="default", field_manager="us", force_conflicts=True)
        assert made.metadata.generation == 1
        version = await client.VersionApi(session).get_code()
        assert version.git_version == "v1.36.3"


async def test_a_kopf_operator_runs_against_it(server: FakeApiServer) -> None:
    """It discovers, lists with a wire selector, watches, writes nothing; leaving the selector is DELETED."""
    import kopf

    seen: list[tuple[str | None, str]] = []
    registry = kopf.OperatorRegistry()
    settings = kopf.OperatorSettings()
    settings.watching.label_selectors["v1", "namespaces"] = "wanted"
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.persistence.finalizer = "example.invalid/never"

    @kopf.on.event("v1", "namespaces", registry=registry, id="seen")
    async def _notice(type: str | None, name: str, **_: Any) -> None:  # noqa: A002
        seen.append((type, name))

    @kopf.on.login(registry=registry, id="login")
    async def _login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=server.url)

    server.create(manifest("Namespace", "team-a", metadata={"labels": {"wanted": "yes"}}))
    stop = asyncio.Event()
    operator = asyncio.create_task(
        kopf.operator(
            registry=registry, settings=settings, clusterwide=True, stop_flag=stop, identity=cast("Any", "test")
        )
    )
    try:

        async def listed() -> bool:
            return (None, "team-a") in seen and bool(server.audit.select(verb="watch", resource="namespaces"))

        await eventually(listed, 10)
        server.patch("Namespace", None, "team-a", {"metadata": {"labels": {"wanted": None}}})

        async def left() -> bool:
            return ("DELETED", "team-a") in seen

        await eventually(left, 10)
    finally:
        stop.set()
        await asyncio.wait_for(operator, 10)
    assert server.audit.writes() == []
    assert server.audit.select(verb="list", resource="namespaces")[0].query["labelSelector"] == "wanted"


async def test_a_thousand_objects_list_quickly(server: FakeApiServer, api: Api) -> None:
    """The fake is small enough for a fleet."""
    began = time.monotonic()
    for number in range(1000):
        server.create(deployment(f"d-{number}") | {"metadata": {"name": f"d-{number}", "namespace": "default"}})
    listed = await api.get("Deployment", None)
    assert len(listed.body["items"]) == 1000
    assert time.monotonic() - began < 10


async def test_paths_that_mean_nothing(api: Api) -> None:
    """Wrong methods, types and bodies get the real codes."""
    assert (await api.call("PATCH", path_of("ConfigMap", "default", "x"), {}, content="text/plain")).code == 415
    assert (await api.call("POST", path_of("ConfigMap", "default", "x"), {})).code == 405
    assert (await api.call("POST", path_of("ConfigMap", "default"))).code == 400
    assert (await api.call("GET", "/version")).body["gitVersion"] == "v1.36.3"
    assert (await api.create("default", widget(size=1))).code == 404


def _child() -> dict[str, Any]:
    body = deployment("workflow-controller", replicas=1)
    body["metadata"]["namespace"] = "default"
    return body


def _available(server: FakeApiServer) -> Any:
    async def check() -> bool:
        live = server.get("Deployment", "default", "workflow-controller") or {}
        status = live.get("status", {})
        fresh = status.get("observedGeneration") == live.get("metadata", {}).get("generation")
        return bool(fresh and status.get("availableReplicas") == 1)

    return check
