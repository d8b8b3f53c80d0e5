"""R30: quota, LimitRange, Pod Security and what pods name: the API server's own sentence, no heat, healed by itself."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fake import FakeApiServer

from .world import World, bundled

REFUSED = (400, 403, 404, 413, 422, 500)
COUNTS = {
    "quota-maps": ("count/configmaps", "configmaps"),
    "quota-deployments": ("count/deployments.apps", "deployments"),
    "quota-accounts": ("count/serviceaccounts", "serviceaccounts"),
    "quota-services": ("services", "services"),
}
HOT = 20
"""So many requests in five minutes would be too many for one object that is refused."""


def quota(server: FakeApiServer, namespace: str, hard: Mapping[str, str]) -> None:
    """Make a ResourceQuota, or change the one that is there."""
    if server.get("ResourceQuota", namespace, "q"):
        server.patch("ResourceQuota", namespace, "q", {"spec": {"hard": dict(hard)}})
    else:
        meta = {"name": "q", "namespace": namespace}
        server.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": dict(hard)}})


def template_set(folder: Path, name: str, text: str, *, kind: str = "v1 ConfigMap", values: Any = None) -> Path:
    """Write a set of one template; returns the folder of sets."""
    home = folder / "sets" / name
    home.mkdir(parents=True)
    api, _, declared = kind.partition(" ")
    (home / "template.yaml").write_text(f"description: x\nkinds:\n  - {{apiVersion: {api}, kind: {declared}}}\n")
    (home / "values.yaml").write_text(json.dumps(values or {}))
    (home / "values.schema.json").write_text('{"type": "object"}\n')
    (home / "it.yaml.j2").write_text(f"apiVersion: {api}\nkind: {declared}\n{text}\n")
    return folder / "sets"


def tries(server: FakeApiServer, namespace: str) -> Counter[str]:
    """Count the requests that were refused in a namespace, by resource."""
    return Counter(entry.resource for entry in server.audit if entry.namespace == namespace and entry.code in REFUSED)


async def test_a_quota_that_refuses_an_object_is_told_and_heals_by_itself(world: World, server: FakeApiServer) -> None:
    """QuotaExceeded with the sentence and the cure, whatever the object; few requests; healed by a larger quota."""
    for space, (key, _) in COUNTS.items():
        world.namespace(space)
        quota(server, space, {key: "0"})
    async with world.operator():
        for space in (*COUNTS, "team-b"):
            world.opt_in(space)
        await world.until(lambda: world.ready("team-b"), 10)
        for space, (key, _) in COUNTS.items():
            await world.until(lambda: world.condition(space) == ("False", "QuotaExceeded"), 10)  # noqa: B023
            assert world.condition(space, "Stalled") == ("True", "QuotaExceeded")
            for part in (f"exceeded quota: q, requested: {key}=1, used: {key}=0, limited: {key}=0", "raise the quota"):
                assert part in world.message(space)
        told = world.events("QuotaExceeded")
        assert sorted(event["metadata"]["namespace"] for event in told) == sorted(COUNTS)
        assert {(event["type"], event["regarding"]["kind"]) for event in told} == {("Warning", "WorkflowController")}
        await asyncio.sleep(300)
        for space, (_, resource) in COUNTS.items():
            assert tries(server, space)[resource] < HOT
            statuses = [e for e in world.writes() if e.namespace == space and e.subresource == "status"]
            assert len(statuses) <= 3
        for space, (key, _) in COUNTS.items():
            quota(server, space, {key: "9"})
        await world.until(lambda: world.ready(*COUNTS) and world.whole(*COUNTS), 310)


async def test_a_quota_that_refuses_a_row_is_told_on_the_namespace(world: World, server: FakeApiServer) -> None:
    """There is no WorkflowController to tell it: an Event about the Namespace does, and is not repeated for ever."""
    key = "count/workflowcontrollers.metaoperator.dev"
    world.namespace("team-a")
    quota(server, "team-a", {key: "0"})
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.events("QuotaExceeded"), 10)
        await asyncio.sleep(300)
        (event,) = world.events("QuotaExceeded")
        assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("Namespace", "team-a")
        for part in ("WorkflowController/team-a/workflow-controller", "exceeded quota: q", "raise the quota"):
            assert part in event["note"]
        assert tries(server, "team-a")["workflowcontrollers"] < HOT
        quota(server, "team-a", {key: "1"})
        await world.until(lambda: world.ready("team-a"), 310)


@pytest.mark.parametrize("refusal", ["quota", "500"])
async def test_a_busy_namespace_does_not_heat_up_what_is_refused(
    world: World, server: FakeApiServer, refusal: str
) -> None:
    """A new Workflow every three seconds, and each would bring a try: there are a dozen in five minutes."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        server.delete("Service", "team-a", "workflow-controller-metrics")
        if refusal == "quota":
            quota(server, "team-a", {"services": "0"})
        else:
            server.faults.answer(500, message="etcd is full", verb="apply", resource="services", times=10**6)
        await asyncio.sleep(1)
        for number in range(100):
            world.workflow("team-a", f"w{number}")
            await asyncio.sleep(3)
        assert 2 < tries(server, "team-a")["services"] < HOT
        if refusal == "quota":
            quota(server, "team-a", {"services": "1"})
        server.faults.clear()
        await world.until(lambda: world.whole("team-a"), 310)


PODS = {
    "tight": "exceeded quota: q, requested: requests.cpu=",
    "minimums": "minimum memory usage per Container is 64Gi",
    "nameless": "no PriorityClass with name nope was found",
}


async def test_a_pod_that_may_not_be_is_told_in_the_api_servers_words(world: World, server: FakeApiServer) -> None:
    """The Deployment is taken and no pod ever comes: READY says PodRefused, why, and what to do; then it heals."""
    for space in PODS:
        world.namespace(space)
    quota(server, "tight", {"requests.cpu": "1m"})
    limit = {"type": "Container", "min": {"memory": "64Gi"}}
    server.create(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "l", "namespace": "minimums"},
            "spec": {"limits": [limit]},
        }
    )
    world.template("nameless", {"priorityClassName": "nope"})
    async with world.operator():
        world.opt_in("tight")
        world.opt_in("minimums")
        world.opt_in("nameless", "nameless")
        world.opt_in("team-b")
        await world.until(lambda: world.ready("team-b"), 10)
        for space, sentence in PODS.items():
            await world.until(lambda: world.condition(space) == ("False", "PodRefused"), 10)  # noqa: B023
            message = world.message(space)
            assert message.startswith(f"Deployment/{space}/workflow-controller ")
            assert sentence in message
            assert f"kubectl -n {space} rollout restart deployment/workflow-controller" in message
        assert [event["type"] for event in world.events("PodRefused")] == ["Warning"] * 3
        await asyncio.sleep(30)
        server.audit.clear()
        await asyncio.sleep(120)
        assert world.writes() == []
        quota(server, "tight", {"requests.cpu": "9"})
        server.delete("LimitRange", "minimums", "l")
        server.create({**bundled("fleet/priorityclass"), "metadata": {"name": "nope"}})
        await world.until(lambda: world.ready(*PODS), 300)


async def test_the_shipped_child_passes_pod_security_restricted(world: World, server: FakeApiServer) -> None:
    """And a set whose pods break the rules is told by each of its faults."""
    loose = """metadata: {name: workflow-controller}
spec:
  selector: {matchLabels: {app: loose}}
  template:
    metadata: {labels: {app: loose}}
    spec: {containers: [{name: main, image: "example.invalid/x:1"}]}"""
    sets = template_set(world.folder, "loose", loose, kind="apps/v1 Deployment")
    world.template("loose", directory="loose")
    for each in ("team-a", "team-b"):
        world.namespace(each, {"pod-security.kubernetes.io/enforce": "restricted"})
    async with world.operator(templates=(sets,)):
        world.opt_in("team-a")
        world.opt_in("team-b", "loose")
        await world.until(lambda: world.ready("team-a"), 10)
        await world.until(lambda: world.condition("team-b") == ("False", "PodRefused"), 10)
        for part in ('violates PodSecurity "restricted:latest"', "runAsNonRoot != true", "seccompProfile"):
            assert part in world.message("team-b")


# ---- what is too large, or fits no type


FIT_NOT = {
    "annotations": ("metadata: {name: it, annotations: {big: {{ values.long | q }}}}", "262144"),
    "name": ("metadata: {name: {{ values.long[:254] | q }}}", "253"),
    "label": ("metadata: {name: it, labels: {long: {{ values.long[:64] | q }}}}", "63"),
    "number": ("metadata: {name: it}\ndata: {k: 1}", "data"),
    "letters": ("metadata: {name: It_s}", "metadata.name"),
    "undefined": ("metadata: {name: it}\ndata: {k: {{ values.nope | q }}}", "it.yaml.j2:4"),
    "jinja": ("metadata: {name: it}\n{% if %}", "it.yaml.j2:4"),
    "yaml": ("metadata: {name: it}\ndata: [", "it.yaml.j2"),
    "kind": ("metadata: {name: it}\nkind: Secret", "kind"),
    "elsewhere": ("metadata: {name: it, namespace: kube-system}", "kube-system"),
    "store": ("metadata: {name: it}\ndata: {{ values.many | q }}", "large"),
}


async def test_what_the_api_server_cannot_take_is_told_and_harms_nobody(
    world: World, server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    """At render or by the API server: Stalled, with place and limit; others are served, and so is a mended label."""
    values = {"annotations": {"long": "x" * 270_000}, "store": {"many": {f"{i:0200}": "" for i in range(4300)}}}
    for name, (text, _) in FIT_NOT.items():
        sets = template_set(world.folder, name, text, values=values.get(name, {"long": "x" * 300}))
        world.template(name, directory=name)
    async with world.operator(templates=(sets,)):
        for name in FIT_NOT:
            world.opt_in(name, name)
        world.opt_in("team-b")
        await world.until(lambda: world.ready("team-b"), 10)
        for name, (_, told) in FIT_NOT.items():
            await world.until(lambda: world.condition(name, "Stalled")[0] == "True", 20)  # noqa: B023
            assert world.condition(name, "Stalled")[1] in ("TemplateInvalid", "Rejected"), name
            assert told in world.message(name), name
            assert world.child(name) == []
        await asyncio.sleep(120)
        assert {name: count for name in FIT_NOT if (count := sum(tries(server, name).values())) >= HOT} == {}
        for name in FIT_NOT:
            world.label(name, "enabled")
        await world.until(lambda: world.ready(*FIT_NOT), 60)
    assert not [each for each in caplog.records if each.exc_info and each.levelno >= logging.ERROR]


async def test_a_status_that_is_refused_is_told_in_an_event(world: World, server: FakeApiServer) -> None:
    """Our CRD is older than we are and knows no `leader`: an Event says so, the child is installed, no hot loop."""
    definition = json.loads(json.dumps(bundled("fleet/crds/workflowcontrollers")))
    status = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    leader = status.pop("leader")
    server.define(definition)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.events("Rejected"), 30)
        assert any("leader" in event["note"] and "CRDs" in event["note"] for event in world.events("Rejected"))
        await world.until(lambda: world.whole("team-a"), 20)
        server.audit.clear()
        await asyncio.sleep(300)
        assert tries(server, "team-a")["workflowcontrollers"] < HOT
        status["leader"] = leader
        server.define(definition)
        await world.until(lambda: world.ready("team-a"), 310)
