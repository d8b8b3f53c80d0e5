"""Which instance ID a namespace gets, and that admission and child never go apart in silence."""

import asyncio
from typing import Any

import pytest
import yaml

from metaoperator.core import names
from tests.fake import FakeApiServer

from .world import World, bundled

ID = names.INSTANCE_ID_LABEL


def policy(world: World, chosen: str, *, name: str = "default") -> None:
    """Choose a policy in a ControllerTemplate."""
    world.server.patch("ControllerTemplate", None, name, {"spec": {"instanceIDPolicy": chosen}}, manager="kubectl")


def stamps(world: World, chosen: str | None) -> None:
    """Install the stamping policy of a component in place of the bundle's; `None` takes it away."""
    for kind in ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"):
        if chosen is None:
            world.server.delete(kind, None, names.STAMPING_POLICY)
        elif kind == "MutatingAdmissionPolicy":
            patch = {"metadata": {"annotations": {names.INSTANCE_ID_POLICY_ANNOTATION: chosen}}}
            world.server.patch(kind, None, names.STAMPING_POLICY, patch)


def pinned(world: World) -> None:
    """Install what stamps pinned IDs."""
    for each in ("instance-id-policy", "instance-id-policybinding"):
        live = bundled(f"fleet/{each}")
        world.server.create({**live, "metadata": {**live["metadata"], "name": names.STAMPING_PINNED}})


def served_id(server: FakeApiServer, namespace: str) -> Any:
    """Read the ID as the child does."""
    live = server.get("ConfigMap", namespace, "workflow-controller-configmap")
    return None if live is None else yaml.safe_load(live["data"]["config"]).get("instanceID")


def touched(world: World) -> list[str]:
    """List the writes to anything but rows, templates and Events."""
    beside = ("workflowcontrollers", "controllertemplates", "events")
    return [str(entry) for entry in world.writes() if entry.resource not in beside]


async def test_one_id_for_the_whole_fleet(world: World, server: FakeApiServer) -> None:
    """Policy `Fleet`: the same ID in each row, each configuration and each Lease's name; opting out knows it too."""
    policy(world, "Fleet")
    stamps(world, "Fleet")
    async with world.operator():
        for each in ("team-a", "team-b"):
            world.opt_in(each)
        await world.until(lambda: world.ready("team-a", "team-b"))
        for each in ("team-a", "team-b"):
            assert served_id(server, each) == names.FLEET_INSTANCE_ID
            assert world.status(each)["instanceID"] == names.FLEET_INSTANCE_ID
            assert server.get("Lease", each, f"workflow-controller-{names.FLEET_INSTANCE_ID}") is not None
        world.workflow("team-a", "running", **{ID: names.FLEET_INSTANCE_ID, names.PHASE_LABEL: "Running"})
        await world.until(lambda: world.status("team-a").get("workflows") == {"running": 1, "pending": 0})
        world.opt_out("team-a")
        await world.until(lambda: world.condition("team-a", "Reconciling") == ("True", "Draining"))
        world.phase("team-a", "running", "Succeeded", completed=True)
        await world.until(lambda: world.wfc("team-a") is None, 130)
        assert not world.child("team-a")
        assert server.get("Lease", "team-a", f"workflow-controller-{names.FLEET_INSTANCE_ID}") is None


async def test_no_id_at_all(world: World, server: FakeApiServer) -> None:
    """Policy `None`: the child serves what has no label, its Lease has Argo's plain name, and nothing is stamped."""
    policy(world, "None")
    stamps(world, None)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        assert not served_id(server, "team-a")
        assert "instanceID" not in (world.wfc("team-a") or {}).get("spec", {})
        assert server.get("Lease", "team-a", "workflow-controller") is not None
        world.make("Workflow", "team-a", "plain", api="argoproj.io/v1alpha1", spec={})
        world.workflow("team-a", "of-another", **{ID: "other"})
        await world.until(lambda: world.status("team-a").get("workflows") == {"running": 0, "pending": 1})
        world.opt_out("team-a")
        await world.until(lambda: world.condition("team-a", "Reconciling") == ("True", "Draining"))
        world.phase("team-a", "plain", "Succeeded", completed=True)
        await world.until(lambda: world.wfc("team-a") is None, 130)
        assert server.get("Lease", "team-a", "workflow-controller") is None


@pytest.mark.parametrize(
    ("chosen", "stamped", "cure"),
    [
        ("Fleet", "PerNamespace", "instance-id-fleet"),
        ("PerNamespace", "Fleet", "as it is"),
        ("None", "PerNamespace", "instance-id-none"),
    ],
)
async def test_a_policy_that_admission_does_not_follow_starts_nothing(
    world: World, chosen: str, stamped: str, cure: str
) -> None:
    """Every new Workflow would wait for ever: nothing is installed, the cure is named; once it fits, it comes."""
    policy(world, chosen)
    stamps(world, stamped)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a") == ("False", "InstanceIDUnsupported"))
        assert cure in world.message("team-a")
        await asyncio.sleep(30)
        assert not world.child("team-a")
        stamps(world, None if chosen == "None" else chosen)
        await world.until(lambda: world.ready("team-a"))


async def test_a_child_keeps_its_id_when_the_policy_changes(world: World, server: FakeApiServer) -> None:
    """Its Workflows carry it: the child goes on untouched, and the row says what to do."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(20)
        server.audit.clear()
        policy(world, "Fleet")
        stamps(world, "Fleet")
        await world.until(lambda: world.condition("team-a") == ("False", "InstanceIDUnsupported"))
        assert "instance-id-pinned" in world.message("team-a")
        pinned(world)
        await world.until(lambda: world.ready("team-a"))
        world.opt_in("team-b")
        await world.until(lambda: world.ready("team-b"))
        assert served_id(server, "team-a") == "team-a"
        assert served_id(server, "team-b") == names.FLEET_INSTANCE_ID
        assert [each for each in touched(world) if "team-a" in each] == []


async def test_a_row_that_is_lost_gets_the_id_of_the_child(world: World, server: FakeApiServer) -> None:
    """A pinned ID is on the child, not only in the object that people can delete."""
    pinned(world)
    async with world.operator():
        world.namespace("team-a")
        spec = {"instanceID": "blue"}
        world.make("WorkflowController", "team-a", "workflow-controller", api=names.API_VERSION, spec=spec)
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        assert served_id(server, "team-a") == "blue"
        await asyncio.sleep(20)
        server.audit.clear()
        server.delete("WorkflowController", "team-a", "workflow-controller")
        await world.until(lambda: (world.wfc("team-a") or {}).get("spec", {}).get("instanceID") == "blue")
        await world.until(lambda: world.ready("team-a"))
        assert touched(world) == []


async def test_an_id_written_over_a_running_child_changes_nothing(world: World, server: FakeApiServer) -> None:
    """Delete and write anew gets around the CRD's rule; the child's own ID stands, and the row says so."""
    pinned(world)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        world.workflow("team-a", "running", **{names.PHASE_LABEL: "Running"})
        server.delete("WorkflowController", "team-a", "workflow-controller")
        server.audit.clear()
        spec = {"instanceID": "green"}
        world.make("WorkflowController", "team-a", "workflow-controller", api=names.API_VERSION, spec=spec)
        await world.until(lambda: world.condition("team-a") == ("False", "InstanceIDChanged"))
        await asyncio.sleep(30)
        assert served_id(server, "team-a") == "team-a"
        assert touched(world) == []
        server.delete("WorkflowController", "team-a", "workflow-controller")
        await world.until(lambda: world.ready("team-a"))


async def test_a_pinned_id_that_nothing_stamps_starts_nothing(world: World) -> None:
    """The general policy would put the namespace's name on Workflows; with the pinned one the child comes."""
    async with world.operator():
        world.namespace("team-a")
        spec = {"instanceID": "blue"}
        world.make("WorkflowController", "team-a", "workflow-controller", api=names.API_VERSION, spec=spec)
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a") == ("False", "InstanceIDUnsupported"))
        assert "instance-id-pinned" in world.message("team-a")
        assert not world.child("team-a")
        pinned(world)
        await world.until(lambda: world.ready("team-a"))


async def test_without_the_stamping_policy_the_row_says_so(world: World, server: FakeApiServer) -> None:
    """The child works, and whoever looks learns why new Workflows wait; nothing of the child is written for it."""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        await asyncio.sleep(20)
        server.audit.clear()
        server.delete("MutatingAdmissionPolicyBinding", None, names.STAMPING_POLICY)
        await world.until(lambda: world.condition("team-a") == ("True", "StampingMissing"))
        assert "manifests/fleet" in world.message("team-a")
        server.create(bundled("fleet/instance-id-policybinding"))
        await world.until(lambda: world.ready("team-a"))
        assert touched(world) == []


async def test_an_operator_that_may_not_look_at_policies_says_so(world: World, server: FakeApiServer) -> None:
    """Rights of an older bundle: namespaces are served as before, with a remark, and no fault is made up."""
    server.faults.answer(403, message="forbidden", resource="mutatingadmissionpolicies", times=10**6)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a") == ("True", "StampingMissing"))
        assert "cannot be seen" in world.message("team-a")


async def test_a_template_that_is_not_there_yet_decides_the_id_when_it_comes(
    world: World, server: FakeApiServer
) -> None:
    """The row is made without an ID, and gets the one of the policy that the template has."""
    stamps(world, "Fleet")
    async with world.operator():
        world.opt_in("team-a", "gold")
        await world.until(lambda: world.condition("team-a") == ("False", "TemplateNotFound"))
        assert "instanceID" not in ((world.wfc("team-a") or {}).get("spec") or {})
        spec = {"source": {"directory": "workflow-controller"}, "instanceIDPolicy": "Fleet"}
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "ControllerTemplate",
            "metadata": {"name": "gold"},
            "spec": spec,
        }
        server.create(body, manager="kubectl")
        await world.until(lambda: world.ready("team-a"))
        wfc = world.wfc("team-a") or {}
        assert wfc["spec"]["instanceID"] == names.FLEET_INSTANCE_ID
        assert wfc["metadata"]["labels"][names.MANAGED_BY_LABEL] == names.MANAGED_BY
