"""The whole operator against the fake API server: what one label brings about."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from metaoperator.core import names
from tests.fake import FakeApiServer

from .world import MARK, SIX, World

APPS = "apps/v1"
RBAC = "rbac.authorization.k8s.io/v1"

DRIFT: dict[tuple[str, str], dict[str, Any]] = {
    ("ConfigMap", "workflow-controller-configmap"): {"data": {"config": "instanceID: somebody-elses\n"}},
    ("Deployment", "workflow-controller"): {"spec": {"replicas": 3}},
    ("RoleBinding", "workflow-controller"): {"subjects": []},
    ("RoleBinding", "workflow-executor"): {"subjects": None},
    ("Service", "workflow-controller-metrics"): {"spec": {"selector": {"app.kubernetes.io/instance": "else"}}},
    ("ServiceAccount", "workflow-controller"): {
        "metadata": {"annotations": {names.RENDERED_ANNOTATION: "0123456789abcdef"}}
    },
}


async def test_one_label_creates_the_six_objects_once_each(world: World, server: FakeApiServer) -> None:
    """Six objects and one WorkflowController come of a label, each by one request, and READY says that it leads."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(120)
    made = Counter((e.resource, e.name) for e in server.audit.creations() if e.namespace == "team-a")
    made = Counter({key: count for key, count in made.items() if key[0] != "events"})
    assert made == {
        **{(f"{kind.lower()}s", name): 1 for kind, name in SIX},
        ("workflowcontrollers", "workflow-controller"): 1,
    }
    assert world.whole("team-a")
    assert world.ready("team-a")


async def test_the_workflow_controller_tells_what_is_served(world: World) -> None:
    """Status holds template, version, instance ID, leader and inventory; spec.instanceID is filled in."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
    wfc = world.wfc("team-a")
    assert wfc is not None
    assert wfc["spec"]["instanceID"] == "team-a"
    status = wfc["status"]
    assert status["template"] == "default"
    assert status["version"] == "v4.1.2"
    assert status["inventory"] == [f"{kind}/{name}" for kind, name in SIX]
    assert status["leader"].startswith("workflow-controller-")
    assert status["observedGeneration"] == wfc["metadata"]["generation"]


async def test_nothing_is_ever_written_to_a_namespace(world: World, server: FakeApiServer) -> None:
    """In and out again: the Namespace carries what people put there, and nobody else is among its managers."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        world.opt_out("team-a")
        await world.until(lambda: world.empty("team-a") and world.wfc("team-a") is None)
    assert not [entry for entry in server.audit.writes() if entry.resource == "namespaces"]
    live = server.get("Namespace", None, "team-a")
    assert live is not None
    assert {each["manager"] for each in live["metadata"]["managedFields"]} <= {"kubectl"}
    assert "finalizers" not in live["metadata"]
    assert "annotations" not in live["metadata"]


async def test_changed_objects_are_repaired_at_once(world: World, server: FakeApiServer) -> None:
    """Somebody edits each object of ours: the rendered fields are back within seconds, by one forced apply."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        for (kind, name), drift in DRIFT.items():
            before = server.get(kind, "team-a", name)
            await asyncio.sleep(30)
            server.audit.clear()
            server.patch(kind, "team-a", name, drift, manager="kubectl-edit")
            assert _rendered(server.get(kind, "team-a", name)) != _rendered(before)
            await world.until(lambda: _rendered(server.get(kind, "team-a", name)) == _rendered(before), 5, what=kind)  # noqa: B023
            await asyncio.sleep(30)
            written = [entry for entry in server.audit.writes() if entry.resource == f"{kind.lower()}s"]
            assert [(entry.verb, entry.query["force"]) for entry in written] == [("apply", "true")], kind


async def test_deleted_objects_are_made_anew_at_once(world: World, server: FakeApiServer) -> None:
    """Somebody deletes each object of ours: it is back within seconds, made once."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        for kind, name in SIX:
            await asyncio.sleep(30)
            server.audit.clear()
            server.delete(kind, "team-a", name)
            await world.until(lambda: server.get(kind, "team-a", name) is not None, 5, what=kind)  # noqa: B023
            await world.until(lambda: world.ready("team-a"))
            await asyncio.sleep(30)
            assert world.whole("team-a")
            made = [entry for entry in server.audit.creations() if entry.resource == f"{kind.lower()}s"]
            assert len(made) == 1, kind


async def test_fields_that_we_do_not_render_are_left_to_others(world: World, server: FakeApiServer) -> None:
    """Annotations and labels that others add, and a ServiceAccount's cloud role, are no drift and stay (R25)."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(30)
        server.audit.clear()
        role = {"metadata": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}}}
        server.patch("ServiceAccount", "team-a", "workflow-controller", role, manager="terraform")
        server.patch("Deployment", "team-a", "workflow-controller", {"metadata": {"labels": {"team": "a"}}})
        await asyncio.sleep(60)
    assert world.writes() == []
    live = server.get("ServiceAccount", "team-a", "workflow-controller")
    assert live is not None
    assert "eks.amazonaws.com/role-arn" in live["metadata"]["annotations"]


async def test_foreign_objects_of_our_names_are_left_alone_and_shown_as_conflicts(
    world: World, server: FakeApiServer
) -> None:
    """A tenant's object that has the name of ours is never written, in and out, and READY names it (R25)."""
    theirs = {}
    for number, (kind, name) in enumerate(SIX):
        world.namespace(f"team-{number}")
        theirs[f"team-{number}"] = _foreign(world, f"team-{number}", kind, name)
    async with world.operator():
        for space in theirs:
            world.opt_in(space)
        await world.until(lambda: all(world.condition(each) == ("False", "Conflict") for each in theirs))
        await asyncio.sleep(300)
        for space, live in theirs.items():
            kind, name = live["kind"], live["metadata"]["name"]
            assert server.get(kind, space, name) == live
            assert f"{kind}/{space}/{name}" in world.message(space)
            assert "tenant" in world.message(space)
            world.opt_out(space)
        await world.until(lambda: all(world.wfc(each) is None and not world.child(each) for each in theirs))
        await asyncio.sleep(120)
    for space, live in theirs.items():
        assert server.get(live["kind"], space, live["metadata"]["name"]) == live


async def test_a_foreign_object_that_goes_away_makes_room_within_two_minutes(
    world: World, server: FakeApiServer
) -> None:
    """No event tells of an object without our mark, so the namespace is looked at again after a while."""
    world.namespace("team-a")
    _foreign(world, "team-a", "Service", "workflow-controller-metrics")
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a") == ("False", "Conflict"))
        server.delete("Service", "team-a", "workflow-controller-metrics")
        await world.until(lambda: world.ready("team-a") and world.whole("team-a"), 125)


async def test_an_unknown_template_changes_nothing_until_it_is_there(world: World, server: FakeApiServer) -> None:
    """A label value that names no ControllerTemplate is Stalled; creating the template serves the namespace."""
    async with world.operator():
        world.opt_in("team-a", "gpu")
        await world.until(lambda: world.condition("team-a") == ("False", "TemplateNotFound"))
        assert world.condition("team-a", "Stalled") == ("True", "TemplateNotFound")
        assert world.child("team-a") == []
        world.template("gpu")
        await world.until(lambda: world.ready("team-a"), 10)
        assert world.status("team-a")["template"] == "gpu"


@pytest.mark.parametrize("value", ["Enabled", "true", "enabledd"])
async def test_a_typo_in_the_label_of_a_served_namespace_takes_nothing_down(
    world: World, server: FakeApiServer, value: str
) -> None:
    """Production goes on as it is: not one object changes, and the status says what is wrong (R23 C)."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        before = _all(server, "team-a")
        world.label("team-a", value)
        await world.until(lambda: world.condition("team-a", "Stalled") == ("True", "TemplateNotFound"))
        await asyncio.sleep(300)
        assert _all(server, "team-a") == before
        world.label("team-a", "enabled")
        await world.until(lambda: world.ready("team-a"))
    assert _all(server, "team-a") == before


async def test_a_deleted_template_removes_no_child(world: World, server: FakeApiServer) -> None:
    """The ControllerTemplate deleted by mistake: a dozen children stand as they are, all say so (R24)."""
    spaces = [f"team-{i}" for i in range(12)]
    async with world.operator():
        for each in spaces:
            world.opt_in(each)
        await world.until(lambda: world.ready(*spaces))
        before = [_all(server, each) for each in spaces]
        server.delete("ControllerTemplate", None, "default")
        await world.until(
            lambda: all(world.condition(each, "Stalled") == ("True", "TemplateNotFound") for each in spaces)
        )
        await asyncio.sleep(120)
        assert [_all(server, each) for each in spaces] == before
        world.template("default")
        await world.until(lambda: world.ready(*spaces))
    assert [_all(server, each) for each in spaces] == before


async def test_a_value_that_breaks_the_schema_stalls_and_changes_nothing(world: World, server: FakeApiServer) -> None:
    """A bad value in a WorkflowController is told by its path; the child stays; a good value serves again."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        before = _all(server, "team-a")
        world.spec("team-a", values={"workers": {"workflow": "many"}})
        await world.until(lambda: world.condition("team-a") == ("False", "ValuesInvalid"))
        assert "workers.workflow" in world.message("team-a")
        assert _all(server, "team-a") == before
        world.spec("team-a", values={"workers": {"workflow": 7}})
        await world.until(lambda: world.ready("team-a"))
        deployment = server.get("Deployment", "team-a", "workflow-controller")
        assert deployment is not None
        assert "--workflow-workers=7" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


async def test_a_value_that_is_not_a_namespaces_to_set_is_refused(world: World, server: FakeApiServer) -> None:
    """No tenant value reaches an image: the path is named, and nothing changes."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        before = _all(server, "team-a")
        world.spec("team-a", values={"images": {"controller": "evil.example/controller"}})
        await world.until(lambda: world.condition("team-a") == ("False", "ValuesInvalid"))
        assert "images.controller" in world.message("team-a")
        await asyncio.sleep(60)
        assert _all(server, "team-a") == before


async def test_one_bad_namespace_does_not_harm_the_others(world: World, server: FakeApiServer) -> None:
    """Of 30 namespaces one hangs, one is refused, one has bad values: 27 are ready at once, and none waits for them."""
    spaces = [f"team-{i:02}" for i in range(30)]
    world.namespace("team-02")
    bad = {"instanceID": "team-02", "values": {"workers": {"workflow": -1}}}
    world.make("WorkflowController", "team-02", "workflow-controller", api=names.API_VERSION, spec=bad)
    server.faults.hang(namespace="team-00", times=10**6)
    server.faults.answer(422, message="no", verb="apply", resource="deployments", namespace="team-01", times=10**6)
    async with world.operator():
        for each in spaces:
            world.opt_in(each)
        await world.until(lambda: world.ready(*spaces[3:]), 10)
        assert world.condition("team-02") == ("False", "ValuesInvalid")
        await world.until(lambda: world.condition("team-01") == ("False", "Rejected"), 5)
        server.faults.clear()
        await world.until(lambda: world.ready(*spaces[:2]), 330)


async def test_a_template_change_reaches_every_namespace(world: World, server: FakeApiServer) -> None:
    """New fleet values in the ControllerTemplate change each child once, and nothing else."""
    spaces = [f"team-{i}" for i in range(12)]
    async with world.operator():
        for each in spaces:
            world.opt_in(each)
        await world.until(lambda: world.ready(*spaces))
        await asyncio.sleep(30)
        server.audit.clear()
        server.patch("ControllerTemplate", None, "default", {"spec": {"values": {"log": {"level": "debug"}}}})

        def changed() -> bool:
            found = server.select("Deployment", None, MARK)
            return all("--loglevel=debug" in d["spec"]["template"]["spec"]["containers"][0]["args"] for d in found)

        await world.until(lambda: changed() and world.ready(*spaces))
        await asyncio.sleep(30)
    applied = Counter(e.namespace for e in server.audit.writes() if e.resource == "deployments")
    assert applied == dict.fromkeys(spaces, 1)


async def test_template_status_counts_its_namespaces(world: World, server: FakeApiServer) -> None:
    """The ControllerTemplate says how many namespaces chose it and how many are ready."""

    def counts() -> Any:
        live = server.get("ControllerTemplate", None, "default")
        return ((live or {}).get("status") or {}).get("namespaces")

    async with world.operator():
        for i in range(3):
            world.opt_in(f"team-{i}")
        await world.until(lambda: counts() == {"total": 3, "ready": 3})
        world.opt_out("team-0")
        await world.until(lambda: counts() == {"total": 2, "ready": 2})


def _counts(server: FakeApiServer, name: str) -> Any:
    live = server.get("ControllerTemplate", None, name)
    return ((live or {}).get("status") or {}).get("namespaces")


async def test_both_templates_count_right_after_a_namespace_moves(world: World, server: FakeApiServer) -> None:
    """One loses what the other gains, within seconds, however often; so it is at an opt-out and at a deletion."""
    world.template("gpu")
    async with world.operator():
        for i in range(3):
            world.opt_in(f"team-{i}")
        await world.until(lambda: _counts(server, "default") == {"total": 3, "ready": 3}, 20)
        assert _counts(server, "gpu") == {"total": 0, "ready": 0}
        for there, left in (("gpu", 2), ("enabled", 3), ("gpu", 2)):
            world.label("team-0", there)
            wanted = {"default": {"total": left, "ready": left}, "gpu": {"total": 3 - left, "ready": 3 - left}}
            await world.until(lambda: {each: _counts(server, each) for each in wanted} == wanted, 15, what=there)  # noqa: B023
        world.opt_out("team-0")
        await world.until(lambda: _counts(server, "gpu") == {"total": 0, "ready": 0}, 30)
        server.delete("Namespace", None, "team-1")
        await world.until(lambda: _counts(server, "default") == {"total": 1, "ready": 1}, 30)


async def test_paused_writes_nothing_and_says_so(world: World, server: FakeApiServer) -> None:
    """With spec.paused drift stays as it is; without it, it is repaired at once."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        world.spec("team-a", paused=True)
        await world.until(lambda: world.condition("team-a")[1] == "Paused")
        server.patch("Deployment", "team-a", "workflow-controller", {"spec": {"replicas": 0}})
        server.delete("ServiceAccount", "team-a", "workflow-controller")
        await asyncio.sleep(120)
        assert not world.whole("team-a")
        world.spec("team-a", paused=None)
        await world.until(lambda: world.whole("team-a") and world.ready("team-a"))


async def test_a_deleted_row_comes_back_and_the_child_does_not_notice(world: World, server: FakeApiServer) -> None:
    """Somebody deletes the WorkflowController of a served namespace: made anew, and no object of the child moves."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        before = _all(server, "team-a")
        server.delete("WorkflowController", "team-a", "workflow-controller")
        await world.until(lambda: world.ready("team-a"), 5)
        await asyncio.sleep(60)
        assert _all(server, "team-a") == before


async def test_a_lost_status_is_written_again_and_nothing_else(world: World, server: FakeApiServer) -> None:
    """Status is a view: losing it loses nothing."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(60)
        server.audit.clear()
        server.patch("WorkflowController", "team-a", "workflow-controller", {"status": None}, sub="status")
        await world.until(lambda: world.ready("team-a"), 5)
        await asyncio.sleep(60)
    assert {(e.resource, e.subresource) for e in world.writes()} <= {("workflowcontrollers", "status"), ("events", "")}
    assert len([e for e in world.writes() if e.subresource]) == 1


async def test_a_workflow_controller_made_by_a_person_is_filled_in_and_served(world: World) -> None:
    """The person's values count from the first pod on, and the object does not become ours."""
    world.namespace("team-a")
    spec = {"values": {"workers": {"workflow": 3}}}
    world.make("WorkflowController", "team-a", "workflow-controller", api=names.API_VERSION, spec=spec)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
    wfc = world.wfc("team-a")
    assert wfc is not None
    assert wfc["spec"] == {**spec, "instanceID": "team-a", "paused": False, "adopt": "Never"}
    assert names.MANAGED_BY_LABEL not in wfc["metadata"].get("labels", {})


@pytest.mark.parametrize("name", ["kube-public", "openshift-logging", "metaoperator", "denied"])
async def test_a_refused_namespace_gets_an_event_and_nothing_else(
    world: World, server: FakeApiServer, name: str
) -> None:
    """System namespaces, the operator's own and the deny-list are never served; a Warning says why."""
    async with world.operator(deny=frozenset({"denied"})):
        world.opt_in(name)
        await world.until(world.events)
        await asyncio.sleep(60)
    assert {entry.resource for entry in world.writes() if "status" not in entry.subresource} == {"events"}
    assert world.child(name) == []
    assert [event["type"] for event in world.events("NamespaceRefused")] == ["Warning"]


async def test_a_terminating_namespace_is_not_written_to(world: World, server: FakeApiServer) -> None:
    """A namespace that a finalizer keeps Terminating sees no create and no error loop (R26)."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        world.make("ConfigMap", "team-a", "hold")
        server.patch("ConfigMap", "team-a", "hold", hold)
        await asyncio.sleep(30)
        server.audit.clear()
        server.delete("Namespace", None, "team-a")
        await asyncio.sleep(10)
        # The children may be seen to go before the Namespace is seen to: each is then asked for once, and refused.
        tried = Counter((entry.resource, entry.subresource, entry.name) for entry in world.writes())
        del tried["controllertemplates", "status", "default"]  # it counts one namespace less
        assert set(tried.values()) <= {1}
        assert world.server.audit.creations() == []
        server.audit.clear()
        for i in range(10):
            server.patch("Namespace", None, "team-a", {"metadata": {"labels": {"x": str(i)}}})
            await asyncio.sleep(12)
        assert world.writes() == []
        server.patch("ConfigMap", "team-a", "hold", {"metadata": {"finalizers": None}})
        await world.until(lambda: server.get("Namespace", None, "team-a") is None)


async def test_what_holds_a_terminating_namespace_is_in_the_log(
    world: World, server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Kubernetes says in the Namespace which finalizers are left (R27): our log repeats it, and nothing is written."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        world.make("ConfigMap", "team-a", "hold")
        server.patch("ConfigMap", "team-a", "hold", {"metadata": {"finalizers": ["example.com/hold"]}})
        server.delete("Namespace", None, "team-a")
        await asyncio.sleep(30)
        server.audit.clear()
        told = "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        remaining = {"type": "NamespaceFinalizersRemaining", "status": "True", "message": told}
        server.patch("Namespace", None, "team-a", {"status": {"conditions": [remaining]}}, sub="status")
        await asyncio.sleep(30)
        assert world.writes() == []
        server.patch("ConfigMap", "team-a", "hold", {"metadata": {"finalizers": None}})
        await world.until(lambda: server.get("Namespace", None, "team-a") is None)
    (said,) = [record for record in caplog.records if record.getMessage() == "namespace is being deleted, and held"]
    assert vars(said)["by"] == [told]


async def test_create_label_delete_in_a_moment_leaves_nothing(world: World, server: FakeApiServer) -> None:
    """Namespaces that live for milliseconds leave no object and no endless errors (R26)."""
    async with world.operator():
        await world.until(lambda: server.audit.select(verb="watch", resource="namespaces"))
        for i in range(25):
            world.opt_in(f"brief-{i}")
            await asyncio.sleep(0.001 * (i % 5))
            server.delete("Namespace", None, f"brief-{i}")
        await world.until(lambda: len(server.select("Namespace")) == 2)
        await asyncio.sleep(60)
        server.audit.clear()
        await asyncio.sleep(300)
        assert world.writes() == []
    assert server.select("Deployment") == []


async def test_a_recreated_namespace_is_a_new_one(world: World, server: FakeApiServer) -> None:
    """The name comes back with another UID: it is served anew, and marked with its own UID."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        old = server.get("Namespace", None, "team-a")
        server.delete("Namespace", None, "team-a")
        await world.until(lambda: server.get("Namespace", None, "team-a") is None)
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a") and world.whole("team-a"))
    new = server.get("Namespace", None, "team-a")
    assert old is not None
    assert new is not None
    assert old["metadata"]["uid"] != new["metadata"]["uid"]
    for kind, name in SIX:
        live = server.get(kind, "team-a", name)
        assert live is not None
        assert live["metadata"]["annotations"][names.NAMESPACE_UID_ANNOTATION] == new["metadata"]["uid"]


async def test_a_namespace_copied_with_our_objects_is_a_conflict(world: World, server: FakeApiServer) -> None:
    """Objects that were copied from another namespace carry its UID: they are not ours here, and stay (R48, R25)."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        world.namespace("team-b")
        copied = server.get("ConfigMap", "team-a", "workflow-controller-configmap")
        assert copied is not None
        meta = {key: copied["metadata"][key] for key in ("name", "labels", "annotations")} | {"namespace": "team-b"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": copied["data"]}
        copy = server.create(body, manager="metaoperator")
        await asyncio.sleep(60)
        world.opt_in("team-b")
        await world.until(lambda: world.condition("team-b") == ("False", "Conflict"))
        assert server.get("ConfigMap", "team-b", "workflow-controller-configmap") == copy


async def test_without_argos_kinds_the_child_is_installed_and_says_what_is_missing(
    world: World, server: FakeApiServer
) -> None:
    """No Workflow CRD: Stalled with ArgoCRDsMissing; once it is installed the namespace becomes ready by itself."""
    definition = server.withdraw("Workflow")
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a", "Stalled") == ("True", "ArgoCRDsMissing"))
        server.define(definition)
        await world.until(lambda: world.ready("team-a"), 180)


async def test_a_child_whose_pod_fails_is_told_with_the_pods_reason(world: World) -> None:
    """READY is False with PodFailing and the pod's own words, and True once the pod runs."""
    world.controller.broken.add("team-a/workflow-controller")
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a") == ("False", "PodFailing"))
        assert "ImagePullBackOff" in world.message("team-a")


async def test_an_argo_server_that_fails_is_told_of_and_leaves_ready_as_it_is(world: World) -> None:
    """READY speaks of the controller; REASON, message and a Warning speak of the server, until it is switched off."""
    world.template("served", {"server": {"enabled": True}})
    world.controller.broken.add("team-a/argo-server")
    async with world.operator():
        world.opt_in("team-a", "served")
        await world.until(lambda: world.condition("team-a") == ("True", "CompanionFailing"))
        assert "argo-server" in world.message("team-a")
        assert "ImagePullBackOff" in world.message("team-a")
        assert [each["type"] for each in world.events("CompanionFailing")] == ["Warning"]
        world.workflow("team-a", "unfinished", **{names.INSTANCE_ID_LABEL: "team-a"})
        world.server.patch("ControllerTemplate", None, "served", {"spec": {"values": {"server": {"enabled": False}}}})
        # Though a Workflow is unfinished: nothing of it is the server's.
        await world.until(lambda: world.condition("team-a") == ("True", "Leading"))
        assert {name for _, name in world.child("team-a") if name.startswith("argo-server")} == set()


def _foreign(world: World, space: str, kind: str, name: str) -> dict[str, Any]:
    api = {"Deployment": APPS, "RoleBinding": RBAC}.get(kind, "v1")
    more: dict[str, Any] = {"metadata": {"name": name, "namespace": space, "annotations": {"owner": space}}}
    if kind == "RoleBinding":
        more["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    if kind == "Deployment":
        labels = {"app": "theirs"}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "x", "image": "x:1"}]}}
        more["spec"] = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
    if kind == "Service":
        more["spec"] = {"ports": [{"port": 80}], "selector": {"app": "theirs"}}
    world.make(kind, space, name, api=api, **more)
    if kind == "Deployment":
        world.controller._sync(space, name)  # its status is there, and does not change any more
    found = world.server.get(kind, space, name)
    assert found is not None
    return found


def _rendered(live: dict[str, Any] | None) -> Any:
    assert live is not None
    kept = {key: value for key, value in live.items() if key not in ("status", "metadata")}
    return kept, live["metadata"]["labels"], live["metadata"]["annotations"]


def _all(server: FakeApiServer, namespace: str) -> list[Any]:
    """Take everything of ours in a namespace but the WorkflowController, for comparing."""
    return [server.get(kind, namespace, name) for kind, name in SIX]
