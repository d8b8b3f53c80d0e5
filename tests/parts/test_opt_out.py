"""The whole operator against the fake API server: how a child leaves, and what is never taken along."""

import asyncio
import random
from typing import Any

import pytest

from metaoperator.core import names
from tests.fake import FakeApiServer
from tests.fake.values import micro

from .world import ALONE, SIX, World


async def served(world: World, *namespaces: str) -> None:
    """Bring children up, and let go of the record of how."""
    for each in namespaces:
        world.opt_in(each)
    await world.until(lambda: world.ready(*namespaces) and world.whole(*namespaces))
    await asyncio.sleep(10)
    world.server.audit.clear()


def gone(world: World, namespace: str) -> bool:
    """Tell whether nothing of ours is left."""
    return world.empty(namespace) and world.wfc(namespace) is None


@pytest.mark.parametrize("value", [None, "disabled", ""], ids=["removed", "disabled", "empty"])
async def test_opting_out_drains_and_removes_in_order(world: World, server: FakeApiServer, value: str | None) -> None:
    """Unfinished Workflows are waited for; then the Deployment goes, its pods, the Lease and the rest, last the row."""
    async with world.operator():
        await served(world, "team-a")
        world.workflow("team-a", "long")
        world.phase("team-a", "long", "Running")
        await asyncio.sleep(5)
        world.label("team-a", value)
        await world.until(lambda: world.condition("team-a", "Reconciling") == ("True", "Draining"))
        await asyncio.sleep(600)
        assert world.whole("team-a")
        assert world.condition("team-a")[0] == "True"
        server.audit.clear()
        seen = _deletions(server)
        world.phase("team-a", "long", "Succeeded", completed=True)
        await world.until(lambda: gone(world, "team-a"))
    order = [kind for kind, _ in seen]
    assert sorted(order) == sorted([*(kind for kind, _ in SIX), "Pod", "Lease", "WorkflowController"])
    assert order.index("Pod") < order.index("Deployment")
    last_of_child = max(order.index("Pod"), order.index("Deployment"))
    assert set(order[: last_of_child + 1]) == {"Pod", "Deployment"}
    assert order[-1] == "WorkflowController"
    deletions = [each for each in server.audit.select(verb="delete") if each.resource != "controllerrevisions"]
    assert [entry.code for entry in deletions] == [200] * 8
    assert all((entry.body or {}).get("preconditions", {}).get("uid") for entry in deletions)


async def test_the_childs_configuration_stays_until_its_last_pod_is_gone(world: World, server: FakeApiServer) -> None:
    """A child that loses its ConfigMap or its permissions dies in the middle of its work: they outlive its pods."""
    async with world.operator():
        await served(world, "team-a")
        pod = server.select("Pod", "team-a")[0]["metadata"]["name"]
        server.patch("Pod", "team-a", pod, {"metadata": {"finalizers": ["example.com/slow-kubelet"]}})
        world.opt_out("team-a")
        await world.until(lambda: "deletionTimestamp" in (_get(server, "Pod", pod)["metadata"]))
        await asyncio.sleep(300)
        assert {kind for kind, _ in world.child("team-a")} >= {"ConfigMap", "RoleBinding", "ServiceAccount", "Service"}
        assert world.condition("team-a") == ("False", "Removing")
        held = f"Pod/team-a/{pod} (held by its finalizers example.com/slow-kubelet)"
        assert held in world.message("team-a")
        server.patch("Pod", "team-a", pod, {"metadata": {"finalizers": None}})
        await world.until(lambda: gone(world, "team-a"), 30)


async def test_a_workflow_submitted_while_the_last_one_ends_is_waited_for(world: World, server: FakeApiServer) -> None:
    """Zero unfinished Workflows is confirmed by the API server itself before anything is removed."""
    async with world.operator():
        await served(world, "team-a")
        late = server.faults.drop_events(resource="workflows", times=10**6)
        world.workflow("team-a", "unseen")
        world.opt_out("team-a")
        await world.until(lambda: world.condition("team-a", "Reconciling") == ("True", "Draining"))
        await asyncio.sleep(200)
        assert world.whole("team-a")
        late.release()
        world.phase("team-a", "unseen", "Failed", completed=True)
        await world.until(lambda: gone(world, "team-a"), 130)


async def test_opting_out_and_in_again_within_a_second_keeps_the_child(world: World, server: FakeApiServer) -> None:
    """The label is gone for a moment while work runs: not one object is written or deleted (R23 E)."""
    async with world.operator():
        await served(world, "team-a")
        world.workflow("team-a", "running")
        await asyncio.sleep(5)
        uids = _uids(server)
        world.opt_out("team-a")
        await asyncio.sleep(0.5)
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a") and world.condition("team-a", "Reconciling")[0] == "False")
        await asyncio.sleep(60)
    assert _uids(server) == uids


async def test_opting_in_during_the_removal_makes_the_child_anew(world: World, server: FakeApiServer) -> None:
    """Whatever was removed so far comes back, and the end is one whole child."""
    rng = random.Random(1)
    async with world.operator():
        await served(world, "team-a")
        for _ in range(12):
            world.opt_out("team-a")
            await asyncio.sleep(rng.choice([0.0, 0.001, 0.01, 0.11, 0.12, 0.15, 0.3]))
            world.opt_in("team-a")
            await asyncio.sleep(rng.choice([0.0, 0.05, 0.12, 0.5]))
        await world.until(lambda: world.ready("team-a") and world.whole("team-a"), 180)


async def test_opted_out_while_the_operator_was_down(world: World) -> None:
    """No event ever told of it: the child is found by its mark at start and leaves (R23 D)."""
    async with world.nature():
        first = world.start()
        await served(world, "team-a", "team-b")
        await first.stop()
        world.opt_out("team-a")
        world.start()
        await world.until(lambda: gone(world, "team-a"))
        await asyncio.sleep(60)
        assert world.ready("team-b")
        assert world.whole("team-b")


async def test_orphans_leave_whose_label_and_row_vanished_while_the_operator_was_down(
    world: World, server: FakeApiServer
) -> None:
    """Neither label nor WorkflowController is left: the objects' own mark is memory enough, and work is drained."""
    async with world.nature():
        first = world.start()
        await served(world, "team-a")
        world.workflow("team-a", "running")
        await first.stop()
        world.opt_out("team-a")
        server.delete("WorkflowController", "team-a", "workflow-controller")
        world.start()
        await asyncio.sleep(120)
        assert world.whole("team-a")
        (waiting,) = world.events("Orphaned")
        assert (waiting["type"], waiting["regarding"]["kind"], waiting["regarding"]["name"]) == (
            "Warning",
            "Namespace",
            "team-a",
        )
        assert "unfinished Workflows with ID team-a" in waiting["note"]
        assert "Deployment/workflow-controller" in waiting["note"]
        world.phase("team-a", "running", "Succeeded", completed=True)
        await world.until(lambda: gone(world, "team-a"))
        assert len(world.events("Orphaned")) == 2


async def test_copies_in_a_namespace_that_was_never_opted_in_are_none_of_ours(
    world: World, server: FakeApiServer
) -> None:
    """Copies of our objects, mark and all, under the UID of where they come from: no Event, no write, no read."""
    async with world.operator():
        await served(world, "team-a")
        world.namespace("team-b")
        for kind, name in SIX:
            if kind == "Deployment":
                continue
            live = _get(server, kind, name)
            kept = {key: live["metadata"][key] for key in ("name", "labels", "annotations")} | {"namespace": "team-b"}
            body = {key: value for key, value in live.items() if key != "status"} | {"metadata": kept}
            server.create(body, manager="metaoperator")
        await asyncio.sleep(30)
        server.audit.clear()
        for i in range(30):
            world.workflow("team-b", f"w-{i}")
            await asyncio.sleep(3)
        assert [entry for entry in world.ours() if entry.verb in ("get", "list")] == []
        copies = server.select("ConfigMap", "team-b")
        world.opt_in("team-b")
        await world.until(lambda: world.condition("team-b") == ("False", "Conflict"), 10)
        world.opt_out("team-b")
        await world.until(lambda: world.wfc("team-b") is None, 130)
        await asyncio.sleep(120)
        assert server.select("ConfigMap", "team-b") == copies
    assert world.events("Orphaned") == []
    assert [
        entry for entry in world.writes() if entry.verb == "delete" and entry.resource != "workflowcontrollers"
    ] == []


async def test_a_workflow_whose_artifacts_only_the_child_collects_keeps_the_child(
    world: World, server: FakeApiServer
) -> None:
    """It is being deleted and held by Argo's finalizer: the child goes last, and READY names both (R27)."""
    async with world.operator():
        await served(world, "team-a")
        world.workflow("team-a", "keep-my-artifacts", **{names.COMPLETED_LABEL: "true"})
        world.workflow("team-a", "kept", **{names.COMPLETED_LABEL: "true"})
        hold = {"metadata": {"finalizers": ["workflows.argoproj.io/artifact-gc"]}}
        for name in ("keep-my-artifacts", "kept"):
            server.patch("Workflow", "team-a", name, hold)
        server.delete("Workflow", "team-a", "keep-my-artifacts")
        world.opt_out("team-a")
        await world.until(lambda: world.condition("team-a", "Reconciling") == ("True", "Draining"), 10)
        told = world.message("team-a", "Reconciling")
        assert "Workflow/team-a/keep-my-artifacts (held by its finalizers workflows.argoproj.io/artifact-gc)" in told
        assert "Workflow/team-a/kept" not in told
        await asyncio.sleep(300)
        assert world.whole("team-a")
        server.patch("Workflow", "team-a", "keep-my-artifacts", {"metadata": {"finalizers": None}})
        await world.until(lambda: gone(world, "team-a"), 130)


async def test_only_marked_objects_of_this_namespace_leave(world: World, server: FakeApiServer) -> None:
    """A tenant's objects, one with our label alone, and a copy with another UID stay at opt-out (R25)."""
    async with world.operator():
        await served(world, "team-a")
        theirs = [
            _config_map(world, "plain", {}, {}),
            _config_map(world, "labelled", {names.MANAGED_BY_LABEL: names.MANAGED_BY}, {}),
            _config_map(
                world,
                "copied",
                {names.MANAGED_BY_LABEL: names.MANAGED_BY},
                {names.NAMESPACE_UID_ANNOTATION: "another-uid"},
            ),
        ]
        await asyncio.sleep(5)
        world.opt_out("team-a")
        await world.until(lambda: world.wfc("team-a") is None)
        await asyncio.sleep(120)
    for each in theirs:
        assert server.get("ConfigMap", "team-a", each["metadata"]["name"]) == each
    assert {name for _, name in world.child("team-a")} == {"labelled", "copied"}


async def test_what_was_there_before_is_there_after(world: World, server: FakeApiServer) -> None:
    """Report R25 to the letter: before the opt-in, over an upgrade and after the opt-out, byte for byte the same."""
    world.namespace("team-a")
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::000000000000:role/example"}
    theirs = [
        _config_map(world, "workflow-controller-configmap", {}, {"note": "made-by-hand"}),
        world.make(
            "ServiceAccount", "team-a", "argo", metadata={"name": "argo", "namespace": "team-a", "annotations": role}
        ),
        world.make(
            "Role",
            "team-a",
            "copied",
            api="rbac.authorization.k8s.io/v1",
            metadata={"name": "copied", "namespace": "team-a", "labels": {names.MANAGED_BY_LABEL: names.MANAGED_BY}},
            rules=[],
        ),
    ]

    def untouched() -> bool:
        return all(server.get(each["kind"], "team-a", each["metadata"]["name"]) == each for each in theirs)

    async with world.operator() as one:
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a") == ("False", "Conflict"))
        world.spec("team-a", values={"workers": {"workflow": 7}})
        await asyncio.sleep(60)
        assert untouched()
        await one.stop()
        world.start()
        world.opt_out("team-a")
        await world.until(lambda: world.wfc("team-a") is None, 130)
        await asyncio.sleep(60)
    assert untouched()
    left = [each for kind in (*dict(SIX), "Role") for each in server.select(kind, "team-a")]
    assert sorted(map(str, left)) == sorted(map(str, theirs))


async def test_a_workflow_controller_made_by_a_person_survives_and_says_that_it_rests(world: World) -> None:
    """At opt-out the child goes, the person's object stays with its values and says NotOptedIn."""
    world.namespace("team-a")
    spec = {"values": {"workers": {"workflow": 3}}}
    world.make("WorkflowController", "team-a", "workflow-controller", api=names.API_VERSION, spec=spec)
    async with world.operator():
        await world.until(lambda: world.condition("team-a") == ("False", "NotOptedIn"))
        assert world.child("team-a") == []
        await served(world, "team-a")
        world.opt_out("team-a")
        await world.until(lambda: world.empty("team-a"))
        await world.until(lambda: world.condition("team-a") == ("False", "NotOptedIn"))
        await asyncio.sleep(60)
    wfc = world.wfc("team-a")
    assert wfc is not None
    assert wfc["spec"]["values"] == spec["values"]


async def test_deleting_one_namespace_writes_to_no_other(world: World, server: FakeApiServer) -> None:
    """One of twelve namespaces goes: the other eleven see not one write (R24)."""
    spaces = [f"team-{i}" for i in range(12)]
    async with world.operator():
        await served(world, *spaces)
        server.delete("Namespace", None, "team-7")
        await world.until(lambda: server.get("Namespace", None, "team-7") is None)
        await asyncio.sleep(120)
    assert [entry for entry in world.writes() if entry.namespace not in (None, "team-7")] == []


async def test_an_empty_answer_removes_nothing(world: World, server: FakeApiServer) -> None:
    """Lists of Namespaces that come empty, fail or end early never shrink what is wanted (R24)."""
    spaces = [f"team-{i}" for i in range(5)]
    async with world.nature():
        first = world.start()
        await served(world, *spaces)
        await first.kill()
        # What an API server behind a broken cache would tell: there are no opted-in Namespaces.
        real = server._answer

        def answer(asked: Any) -> Any:
            if asked.verb == "list" and asked.kind.kind == "Namespace":
                return 200, asked.view.many([], {"resourceVersion": str(server.history.version)})
            return real(asked)

        server._answer = answer  # type: ignore[method-assign]
        world.start(timing=ALONE)
        await asyncio.sleep(700)
        assert world.whole(*spaces)
        assert [entry for entry in world.writes() if entry.verb == "delete"] == []
        server._answer = real  # type: ignore[method-assign]
        await world.until(lambda: world.ready(*spaces))


async def test_unseen_workflows_are_not_taken_for_no_workflows(world: World, server: FakeApiServer) -> None:
    """While Workflows cannot be listed, an opt-out waits: errors never count as `nothing runs`."""
    async with world.operator():
        await served(world, "team-a")
        fault = server.faults.answer(503, verb="list", resource="workflows", namespace="team-a", times=10**6)
        world.opt_out("team-a")
        await asyncio.sleep(200)
        assert world.whole("team-a")
        fault.release()
        await world.until(lambda: gone(world, "team-a"), 310)


async def test_without_argos_kinds_an_opt_out_ends(world: World, server: FakeApiServer) -> None:
    """No Workflow CRD, no Workflow: the child leaves without waiting for what cannot exist."""
    async with world.operator():
        await served(world, "team-a")
        server.withdraw("Workflow")
        await asyncio.sleep(60)
        world.opt_out("team-a")
        await world.until(lambda: gone(world, "team-a"))


@pytest.mark.parametrize("down", [False, True], ids=["running", "restarted"])
async def test_an_id_that_a_person_wrote_is_not_the_one_that_is_drained(
    world: World, server: FakeApiServer, *, down: bool
) -> None:
    """The row names another instance ID than the child runs under: the child's own Workflows and Lease count."""
    async with world.operator() as one:
        await served(world, "team-a")
        server.delete("WorkflowController", "team-a", "workflow-controller")
        spec = {"instanceID": "old-id"}
        world.make("WorkflowController", "team-a", "workflow-controller", api=names.API_VERSION, spec=spec)
        await world.until(lambda: world.condition("team-a") == ("False", "InstanceIDChanged"))
        other = world.make("Lease", "team-a", "workflow-controller-old-id", api="coordination.k8s.io/v1", spec={})
        world.workflow("team-a", "running")
        world.workflow("team-a", "of-another", **{names.INSTANCE_ID_LABEL: "old-id"})
        await asyncio.sleep(5)
        if down:
            await one.stop()
        world.opt_out("team-a")
        if down:
            world.start()
        await world.until(lambda: world.condition("team-a", "Reconciling") == ("True", "Draining"))
        await asyncio.sleep(300)
        assert world.whole("team-a")
        assert server.audit.select(verb="delete") == []
        world.phase("team-a", "running", "Succeeded", completed=True)
        await world.until(lambda: world.empty("team-a"), 130)
        await world.until(lambda: world.condition("team-a") == ("False", "NotOptedIn"))
    assert server.get("Lease", "team-a", "workflow-controller-old-id") == other


def _hand_made(world: World, space: str) -> dict[str, Any]:
    """Install Argo by hand, with the ID that ours would have, and hand out what has to stay as it is."""
    world.namespace(space)
    labels = {"app": "workflow-controller"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "argo:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}
    world.make("Deployment", space, "workflow-controller", api="apps/v1", spec=spec)
    world.controller._sync(space, "workflow-controller")
    return {kind: world.server.select(kind, space) for kind in ("Deployment", "ReplicaSet", "Pod")}


@pytest.mark.parametrize("label", ["enabled", "enabeld"], ids=["a conflict", "a typo"])
async def test_a_hand_made_argo_with_the_same_id_keeps_its_lease(
    world: World, server: FakeApiServer, label: str
) -> None:
    """In: told, and nothing of it touched. Out: ours goes, and its Deployment, pods and Lease are left alone."""
    theirs = _hand_made(world, "team-a")
    lease = _get(server, "Lease", "workflow-controller-team-a")
    reason = "Conflict" if label == "enabled" else "TemplateNotFound"
    async with world.operator():
        world.opt_in("team-a", label)
        await world.until(lambda: world.condition("team-a") == ("False", reason))
        await asyncio.sleep(200)
        world.opt_out("team-a")
        await world.until(lambda: world.wfc("team-a") is None and not world.child("team-a"), 130)
        await asyncio.sleep(200)
    assert _get(server, "Lease", "workflow-controller-team-a")["metadata"]["uid"] == lease["metadata"]["uid"]
    assert {kind: server.select(kind, "team-a") for kind in theirs} == theirs
    assert server.audit.select(verb="delete", resource="leases") == []


async def test_a_typo_beside_an_argo_that_works_under_a_name_of_its_own(world: World, server: FakeApiServer) -> None:
    """A Lease that moves and whose holder is no pod of our kind of name is somebody's, found as a pod or not."""
    world.namespace("team-a")
    spec = {"holderIdentity": "argo-server-7", "leaseDurationSeconds": 1000, "renewTime": micro(server.now())}
    lease = world.make("Lease", "team-a", "workflow-controller-team-a", api="coordination.k8s.io/v1", spec=spec)
    async with world.operator():
        world.opt_in("team-a", "enabeld")
        await world.until(lambda: world.condition("team-a") == ("False", "TemplateNotFound"))
        world.opt_out("team-a")
        await world.until(lambda: world.wfc("team-a") is None, 130)
    assert server.get("Lease", "team-a", "workflow-controller-team-a") == lease


async def test_our_own_childs_lease_goes_with_its_uid(world: World, server: FakeApiServer) -> None:
    """The Lease is deleted by its UID, so that one that took its name meanwhile stays."""
    async with world.operator():
        await served(world, "team-a")
        uid = _get(server, "Lease", "workflow-controller-team-a")["metadata"]["uid"]
        world.opt_out("team-a")
        await world.until(lambda: gone(world, "team-a"))
    (deleted,) = server.audit.select(verb="delete", resource="leases", namespace="team-a")
    assert (deleted.body or {})["preconditions"] == {"uid": uid}


def _deletions(server: FakeApiServer) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []

    def notice(kind: Any, event: Any) -> None:
        if event.type == "DELETED" and kind.kind not in ("ReplicaSet", "ControllerRevision"):
            seen.append((kind.kind, event.obj["metadata"]["name"]))

    server.store.listeners.append(notice)
    return seen


def _get(server: FakeApiServer, kind: str, name: str) -> dict[str, Any]:
    found = server.get(kind, "team-a", name)
    assert found is not None
    return found


def _uids(server: FakeApiServer) -> list[str]:
    return [_get(server, kind, name)["metadata"]["uid"] for kind, name in SIX]


def _config_map(world: World, name: str, labels: dict[str, str], annotations: dict[str, str]) -> dict[str, Any]:
    meta = {"name": name, "namespace": "team-a", "labels": labels, "annotations": annotations}
    return world.make("ConfigMap", "team-a", name, metadata=meta, data={"a": "b"})
