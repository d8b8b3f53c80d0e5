"""Acting on plans: what took a name since we looked is never written to, and one refusal keeps nothing else back."""

import asyncio
from typing import Any

from metaoperator.act import Actor
from metaoperator.core import names
from metaoperator.core.model import SERVICE, Manifest, Ref
from metaoperator.core.names import Reason
from metaoperator.core.outcome import Outcome
from metaoperator.core.plan import Step, Verb
from metaoperator.fleet import Fleet
from tests.fake import FakeApiServer

from .world import World

UID = "uid-of-the-namespace"


def rendered(name: str = "a", **spec: Any) -> Manifest:
    """Render a Service as a set would."""
    meta = {
        "name": name,
        "namespace": "default",
        "labels": {names.MANAGED_BY_LABEL: names.MANAGED_BY},
        "annotations": {names.NAMESPACE_UID_ANNOTATION: UID, names.RENDERED_ANNOTATION: "0"},
    }
    spec = {"selector": {"a": "b"}, "ports": [{"name": "metrics", "port": 9090}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def deployment() -> Manifest:
    """Render a Deployment whose CPU the API server writes in other words."""
    labels = {"app": "a"}
    pod = {"containers": [{"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "1000m"}}}]}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": rendered()["metadata"], "spec": spec}


def step(verb: Verb, manifest: Manifest, *, uid: str = "", reason: Reason = Reason.CHANGED) -> Step:
    """Make one step."""
    return Step(verb=verb, ref=Ref.of(manifest), reason=reason, manifest=manifest, uid=uid)


async def act(world: World, *steps: Step) -> tuple[Outcome, Actor]:
    """Carry steps out."""
    async with world.cluster() as cluster:
        actor = Actor(cluster, Fleet(cluster, (), lambda _name, _delay: None, opted_in=lambda _name: True))
        return await actor.install(steps, lambda: steps), actor


async def test_a_name_that_is_taken_is_a_conflict_and_left_alone(world: World, server: FakeApiServer) -> None:
    """What somebody else made is invisible to the informers: it is looked for before anything is made."""
    theirs = world.make("Service", "default", "a", spec={"ports": [{"port": 80}], "selector": {"x": "y"}})
    outcome, _ = await act(world, step(Verb.CREATE, rendered()))
    assert [each.reason for each in outcome.held] == [Reason.CONFLICT]
    assert outcome.stalled is not None
    assert server.get("Service", "default", "a") == theirs
    assert [entry for entry in server.audit.writes() if entry.changed] == []


async def test_a_name_taken_between_look_and_write_is_not_overwritten(world: World, server: FakeApiServer) -> None:
    """A tenant is faster by a moment, with the very same fields: a conflict, and nothing of theirs changes."""
    held = server.faults.hang(verb="apply", resource="services")

    acting = asyncio.create_task(act(world, step(Verb.CREATE, rendered())))
    await held.entered()
    spec = {"ports": [{"name": "metrics", "port": 9090}], "selector": {"x": "y", "a": "theirs"}}
    theirs = world.make("Service", "default", "a", spec=spec)
    held.release()
    outcome, _ = await acting
    assert [each.reason for each in outcome.held] == [Reason.CONFLICT]
    assert server.get("Service", "default", "a") == theirs


async def test_an_object_that_took_the_name_is_not_overruled(world: World, server: FakeApiServer) -> None:
    """Ours was deleted and a tenant's took its name since we looked: the apply carries our UID, and nothing changes."""
    theirs = world.make("Service", "default", "a", spec={"ports": [{"port": 80}], "selector": {"x": "y"}})
    for reason in (Reason.CHANGED, Reason.DRIFT):
        await act(world, step(Verb.APPLY, rendered(), uid="of-the-one-before", reason=reason))
        assert server.get("Service", "default", "a") == theirs


async def test_an_object_that_is_gone_is_not_made_by_an_apply(world: World, server: FakeApiServer) -> None:
    """Deleted since we looked: the next look decides whether it is to be made anew."""
    outcome, _ = await act(world, step(Verb.APPLY, rendered(), uid="of-the-one-before"))
    assert outcome.later is not None
    assert server.get("Service", "default", "a") is None


async def test_a_workload_is_not_begun_on_what_is_not_ours(world: World, server: FakeApiServer) -> None:
    """A Deployment that is not there yet waits while anything it rests on is refused or somebody else's."""
    world.make("Service", "default", "a", spec={"ports": [{"port": 80}]})
    outcome, _ = await act(world, step(Verb.CREATE, deployment()), step(Verb.CREATE, rendered()))
    assert sorted(each.reason for each in outcome.held) == [Reason.CONFLICT, Reason.WAITING]
    assert server.get("Deployment", "default", "a") is None


async def test_an_account_that_somebody_else_made_gets_no_rights(world: World, server: FakeApiServer) -> None:
    """A pod may be running under it already; who is bound besides it has to wait, others do not."""
    world.make("ServiceAccount", "default", "a")
    account = {**rendered(), "kind": "ServiceAccount"}
    del account["spec"]
    role = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "metaoperator-workflow-controller-v1",
    }
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts:default"}
    bindings = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {**rendered()["metadata"], "name": name},
            "roleRef": role,
            "subjects": subjects,
        }
        for name, subjects in (
            ("account", [{"kind": "ServiceAccount", "name": "a", "namespace": "default"}]),
            ("both", [group, {"kind": "ServiceAccount", "name": "a", "namespace": "default"}]),
            ("group", [group]),
        )
    ]
    outcome, _ = await act(world, *(step(Verb.CREATE, each) for each in (*bindings, account)))
    assert {str(each.ref): each.reason for each in outcome.held} == {
        "ServiceAccount/default/a": Reason.CONFLICT,
        "RoleBinding/default/account": Reason.WAITING,
        "RoleBinding/default/both": Reason.WAITING,
    }
    made = [name for name in ("account", "both", "group") if server.get("RoleBinding", "default", name) is not None]
    assert made == ["group"]


async def test_one_refusal_keeps_nothing_else_back(world: World, server: FakeApiServer) -> None:
    """Of three objects one is refused and one fails: the third is made, and both are told."""
    server.faults.answer(403, message="quota", verb="apply", name="a", times=9)
    server.faults.answer(503, verb="apply", name="b", times=9)
    outcome, _ = await act(world, *(step(Verb.CREATE, rendered(name)) for name in "abc"))
    assert server.get("Service", "default", "c") is not None
    assert outcome.later is not None
    assert outcome.stalled is not None
    assert outcome.stalled.reason is Reason.REJECTED
    assert "quota" in outcome.stalled.message


async def test_a_prune_spares_a_successor(world: World, server: FakeApiServer) -> None:
    """The object that we planned to delete is gone already, and another has its name."""
    theirs = world.make("Service", "default", "a", spec={"ports": [{"port": 80}]})
    done = Step(verb=Verb.PRUNE, ref=Ref(SERVICE, "default", "a"), reason=Reason.PRUNED, uid="of-the-one-before")
    outcome, _ = await act(world, done)
    assert outcome.done == [done]
    assert server.get("Service", "default", "a") == theirs


async def test_drift_in_other_words_is_asked_for_once_and_remembered(world: World, server: FakeApiServer) -> None:
    """`1000m` is kept as `1` by the API server: one dry run tells that it is the same, and no write follows."""
    wanted = deployment()
    outcome, actor = await act(world, step(Verb.CREATE, wanted))
    assert outcome.later is None
    assert list(actor.answers) == [Ref.of(wanted)]
    live = server.get("Deployment", "default", "a")
    assert live is not None
    server.audit.clear()
    outcome, actor = await act(world, step(Verb.APPLY, wanted, uid=live["metadata"]["uid"], reason=Reason.DRIFT))
    assert [each.verb for each in outcome.done] == [Verb.KEEP]
    assert list(actor.answers) == [Ref.of(wanted)]
    assert server.audit.writes() == []


async def test_a_port_edited_under_its_name_is_put_right(world: World, server: FakeApiServer) -> None:
    """Merging by (port, protocol) would leave two ports of one name: our list is put in place whole."""
    await act(world, step(Verb.CREATE, rendered()))
    live = server.get("Service", "default", "a")
    assert live is not None
    server.patch(
        "Service", "default", "a", {"spec": {"ports": [{"name": "metrics", "port": 1}]}}, manager="kubectl-edit"
    )
    # The fake does not know that two ports of one name are invalid; a real API server says so.
    server.faults.answer(422, message="Duplicate value: metrics", verb="apply", resource="services")
    outcome, _ = await act(world, step(Verb.APPLY, rendered(), uid=live["metadata"]["uid"], reason=Reason.DRIFT))
    assert outcome.stalled is None
    live = server.get("Service", "default", "a")
    assert live is not None
    assert [port["port"] for port in live["spec"]["ports"]] == [9090]


async def test_a_revision_that_is_invalid_is_not_applied_in_part(world: World, server: FakeApiServer) -> None:
    """422 for what is new: told as Rejected, and neither our own lists nor another manager's sidecar move."""
    await act(world, step(Verb.CREATE, deployment()))
    sidecar = {"name": "mesh", "image": "mesh:1"}
    live = server.get("Deployment", "default", "a")
    assert live is not None
    containers = [*live["spec"]["template"]["spec"]["containers"], sidecar]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    before = server.patch("Deployment", "default", "a", patch, manager="mesh")
    new = deployment()
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "i:2"
    server.faults.answer(422, message="image is not allowed", verb="apply", resource="deployments", times=9)
    outcome, _ = await act(world, step(Verb.APPLY, new, uid=live["metadata"]["uid"], reason=Reason.CHANGED))
    assert outcome.stalled is not None
    assert outcome.stalled.reason is Reason.REJECTED
    assert "image is not allowed" in outcome.stalled.message
    assert server.get("Deployment", "default", "a") == before


async def test_drift_that_is_invalid_to_merge_leaves_others_items(world: World, server: FakeApiServer) -> None:
    """Our image was edited and the merge is refused: ours is put in place, the sidecar of another manager stays."""
    await act(world, step(Verb.CREATE, deployment()))
    live = server.get("Deployment", "default", "a")
    assert live is not None
    (ours,) = live["spec"]["template"]["spec"]["containers"]
    edited = {**ours, "image": "other", "env": [{"name": "THEIRS", "value": "x"}]}
    containers = [edited, {"name": "mesh", "image": "mesh:1"}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    server.patch("Deployment", "default", "a", patch, manager="mesh")
    server.faults.answer(422, message="no", verb="apply", resource="deployments", times=1)
    outcome, _ = await act(world, step(Verb.APPLY, deployment(), uid=live["metadata"]["uid"], reason=Reason.DRIFT))
    assert outcome.stalled is None
    live = server.get("Deployment", "default", "a")
    assert live is not None
    found = {each["name"]: each for each in live["spec"]["template"]["spec"]["containers"]}
    assert found["c"]["image"] == "i:1"
    assert found["c"]["env"] == [{"name": "THEIRS", "value": "x"}]
    assert found["mesh"]["image"] == "mesh:1"
