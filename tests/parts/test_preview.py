"""`diff` and the operator are held to each other: what is foretold is written next, and nothing else."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from metaoperator import preview, sources
from metaoperator.core import names, unified
from metaoperator.core.errors import ConfigError, MetaoperatorError, Rejected, RetryableError
from metaoperator.core.model import Ref
from metaoperator.pretence import Assumed
from metaoperator.preview import Preview
from metaoperator.rehearsal import Rehearsal
from metaoperator.settings import Settings
from tests.fake import FakeApiServer

from .world import KINDS, SIX, World

CONFIG, SERVICE = "workflow-controller-configmap", "workflow-controller-metrics"
PLURALS = {
    "ConfigMap": "configmaps",
    "Deployment": "deployments",
    "RoleBinding": "rolebindings",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "WorkflowController": "workflowcontrollers",
}


async def foretell(world: World, namespace: str = "team-a", **assumed: Any) -> Preview:
    """Look ahead, and hold the looking to writing nothing."""
    before, told = world.server.history.version, len(world.server.audit)
    cluster = Rehearsal(kubeconfig=str(world.kubeconfig))
    await cluster.connect()
    try:
        programs = sources.programs((sources.shipped(),))
        found = await preview.of(cluster, namespace, Assumed(programs=programs, **assumed), Settings())
    finally:
        await cluster.close()
    assert world.server.history.version == before
    assert [entry for entry in world.server.audit[told:] if entry in world.server.audit.writes()] == []
    return found


def whats(found: Preview) -> dict[tuple[str, str], str]:
    """Tell what becomes of each object that does not stay as it is."""
    return {(c.ref.kind.kind, c.ref.name): c.what for c in found.changes if c.what != "unchanged"}


def foretold(found: Preview) -> set[tuple[str, str, str]]:
    """Tell the writes that are foretold, as the audit record tells writes."""
    verbs = {"created": "apply", "changed": "apply", "pruned": "delete"}
    return {
        (verbs[change.what], PLURALS[change.ref.kind.kind], change.ref.name)
        for change in found.changes
        if change.what in verbs
    }


def written(world: World, namespace: str) -> set[tuple[str, str, str]]:
    """Tell the writes of the operator in a namespace, but for status and Events, and for what met a taken name."""
    return {
        ("apply" if entry.verb == "patch" else entry.verb, entry.resource, str(entry.name))
        for entry in world.writes()
        if entry.namespace == namespace and not entry.subresource and entry.resource != "events" and entry.code < 400
    }


def live(server: FakeApiServer, ref: Ref) -> dict[str, Any]:
    """Show an object as people see it, without what nobody can know before: the UID of an account that is made."""
    found = server.get(ref.kind.kind, ref.namespace, ref.name)
    assert found is not None
    return without_account(unified.shown(found))


def without_account(shown: dict[str, Any]) -> dict[str, Any]:
    """Take the account's UID off a pod template."""
    annotations = ((shown.get("spec") or {}).get("template") or {}).get("metadata", {}).get("annotations", {})
    annotations.pop(names.ACCOUNT_ANNOTATION, None)
    return shown


async def settled(world: World, *namespaces: str) -> None:
    """Bring children up, and take the operator away."""
    async with world.operator():
        for each in namespaces:
            world.opt_in(each)
        await world.until(lambda: world.ready(*namespaces) and world.whole(*namespaces))
        await asyncio.sleep(60)
    world.server.audit.clear()


# What is done to a settled namespace while the operator is away, and what it would then write.


def _nothing(world: World) -> None:
    pass


def _drift(world: World) -> None:
    world.server.delete("Service", "team-a", SERVICE)
    patch = {"spec": {"replicas": 0}}
    world.server.patch("Deployment", "team-a", "workflow-controller", patch, manager="kubectl")


def _other_words(world: World) -> None:
    world.server.patch("ConfigMap", "team-a", CONFIG, {"data": {"theirs": "x"}}, manager="kubectl")


def _fleet_values(world: World) -> None:
    patch = {"spec": {"values": {"log": {"level": "debug"}}}}
    world.server.patch("ControllerTemplate", None, "default", patch, manager="kubectl")


def _own_values(world: World) -> None:
    world.spec("team-a", values={"config": {"parallelism": 3}})


def _no_longer_rendered(world: World) -> None:
    patch = {"spec": {"values": {"metrics": {"enabled": False}}}}
    world.server.patch("ControllerTemplate", None, "default", patch, manager="kubectl")


def _new_account(world: World) -> None:
    world.server.delete("ServiceAccount", "team-a", "workflow-controller")


def _row_deleted(world: World) -> None:
    world.server.delete("WorkflowController", "team-a", "workflow-controller")


def _opted_out(world: World) -> None:
    # Its pod ends slowly, so that one pass of the way out can be told from the next.
    pod = world.server.select("Pod", "team-a")[0]["metadata"]["name"]
    world.server.patch("Pod", "team-a", pod, {"metadata": {"finalizers": ["example.com/slow-kubelet"]}})
    world.opt_out("team-a")


def _typo(world: World) -> None:
    world.label("team-a", "gold")


def _paused(world: World) -> None:
    world.spec("team-a", paused=True)
    _drift(world)


def _bad_values(world: World) -> None:
    world.spec("team-a", values={"images": {"controller": "evil"}})


def _taken_name(world: World) -> None:
    world.server.delete("Service", "team-a", SERVICE)
    world.make("Service", "team-a", SERVICE, spec={"ports": [{"port": 80}], "selector": {"x": "y"}})


ROW = ("WorkflowController", "workflow-controller")
CASES: dict[str, tuple[Callable[[World], None], dict[tuple[str, str], str], str]] = {
    "nothing": (_nothing, {}, ""),
    "drift": (_drift, {("Service", SERVICE): "created", ("Deployment", "workflow-controller"): "changed"}, ""),
    "a field of others": (_other_words, {}, ""),
    "values of the fleet": (_fleet_values, {("Deployment", "workflow-controller"): "changed"}, ""),
    "values of the namespace": (
        _own_values,
        {("ConfigMap", CONFIG): "changed", ("Deployment", "workflow-controller"): "changed"},
        "",
    ),
    "an object that is no longer rendered": (
        _no_longer_rendered,
        {
            ("ConfigMap", CONFIG): "changed",
            ("Deployment", "workflow-controller"): "changed",
            ("Service", SERVICE): "pruned",
        },
        "",
    ),
    "an account that is made anew": (
        _new_account,
        {("ServiceAccount", "workflow-controller"): "created", ("Deployment", "workflow-controller"): "changed"},
        "",
    ),
    "a row that was deleted": (_row_deleted, {ROW: "created"}, ""),
    "an opt-out": (_opted_out, {("Deployment", "workflow-controller"): "changed"}, ""),
    "a typo in the label": (_typo, {}, "TemplateNotFound: "),
    "a pause": (_paused, {}, ""),
    "values that it may not set": (_bad_values, {}, "ValuesInvalid: "),
    "a name that somebody took": (_taken_name, {("Service", SERVICE): "conflict"}, "Conflict: "),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
async def test_what_is_foretold_is_what_the_operator_writes_next(
    world: World, server: FakeApiServer, case: str
) -> None:
    """The same objects, and each as it then is; nothing else is written, and then nothing is foretold any more."""
    disturb, expected, stalled = CASES[case]
    await settled(world, "team-a")
    disturb(world)
    found = await foretell(world)
    assert whats(found) == expected
    assert found.stalled.startswith(stalled)
    assert found.settled == (not expected and not stalled)
    server.audit.clear()
    async with world.operator() as replica:
        await world.until(lambda: replica.leading, 300)
        await asyncio.sleep(30)
        assert written(world, "team-a") == foretold(found)
        for change in found.changes:
            if change.what in {"created", "changed"}:
                assert change.write is not None
                assert change.write.after is not None
                assert change.write.asked
                assert without_account(unified.shown(change.write.after)) == live(server, change.ref)
        await asyncio.sleep(60)
    if not stalled and case != "an opt-out":
        assert (await foretell(world)).settled


async def test_an_opt_in_is_foretold_before_the_label_is_set(world: World, server: FakeApiServer) -> None:
    """All six objects and the row, as they will be; and it is told that the namespace is not opted in yet."""
    world.namespace("team-a")
    found = await foretell(world)
    assert whats(found) == dict.fromkeys([*SIX, ROW], "created")
    assert found.notes == (f"not opted in: this is what the label {names.OPT_IN_LABEL}=enabled would do",)
    await settled(world, "team-a")
    for change in found.changes:
        assert change.write is not None
        assert change.write.after is not None
        if change.ref.kind.kind != "WorkflowController":
            assert without_account(unified.shown(change.write.after)) == live(server, change.ref)
    assert (await foretell(world)).settled


async def test_a_conflict_before_the_label_is_set_is_foretold(world: World, server: FakeApiServer) -> None:
    """What stands in the way is named, and that the Deployment is not begun before."""
    world.namespace("team-a")
    world.make("ConfigMap", "team-a", CONFIG, data={"a": "b"})
    found = whats(await foretell(world))
    assert found[("ConfigMap", CONFIG)] == "conflict"
    assert found[("Deployment", "workflow-controller")] == "held"
    assert found[("ServiceAccount", "workflow-controller")] == "created"


async def test_values_at_hand_are_taken_for_those_in_the_cluster(world: World, server: FakeApiServer) -> None:
    """Of the fleet and of the namespace; the cluster's stay as they are, and it is said whose were taken."""
    await settled(world, "team-a")
    found = await foretell(world, fleet_values={"log": {"level": "debug"}}, values={"workers": {"workflow": 7}})
    (changed,) = [change for change in found.changes if change.what == "changed"]
    assert changed.write is not None
    text = unified.diff(changed.ref, changed.write.before, changed.write.after)
    assert "-        - --loglevel=info\n" in text
    assert "+        - --loglevel=debug\n" in text
    assert "+        - --workflow-workers=7\n" in text
    assert len(found.notes) == 2
    assert (await foretell(world)).settled


@pytest.mark.parametrize(
    "message",
    [
        'services "x" is forbidden: User "eve" cannot patch resource "services" in API group "" in the namespace "x"',
        "x is forbidden: ValidatingAdmissionPolicy 'metaoperator-child-workloads' with binding 'b' denied request: no",
    ],
    ids=["roles", "a fence of ours"],
)
@pytest.mark.parametrize("fresh", [True, False], ids=["opt-in", "drift"])
async def test_who_may_not_write_gets_the_comparison_of_values(
    world: World, server: FakeApiServer, message: str, *, fresh: bool
) -> None:
    """A tenant may read only: what would change is told all the same, and that the API server was not asked."""
    if fresh:
        world.namespace("team-a")
    else:
        await settled(world, "team-a")
        _drift(world)
    server.faults.answer(403, verb="apply", times=99, message=message)
    found = await foretell(world)
    expected = dict.fromkeys([*SIX, ROW], "created") if fresh else CASES["drift"][1]
    assert whats(found) == expected
    assert [change.write.asked for change in found.changes if change.write is not None] == [False] * len(expected)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            'pods "x" is forbidden: exceeded quota: q, requested: count/services=1, used: count/services=1, limited: 1',
            "QuotaExceeded",
        ),
        ("admission webhook says no", "Rejected"),
    ],
    ids=["quota", "webhook"],
)
async def test_a_refusal_that_the_operator_would_meet_too_is_foretold(
    world: World, server: FakeApiServer, message: str, reason: str
) -> None:
    """Quota, Pod Security, a policy: in the API server's own words, with the cure; and the Deployment that waits."""
    world.namespace("team-a")
    server.faults.answer(403, verb="apply", resource="services", times=9, message=message)
    found = await foretell(world)
    (why,) = {c.why for c in found.changes if c.what == "refused"}
    assert why.startswith(f"{message} (")
    assert found.stalled.startswith(f"{reason}: ")
    assert not found.settled


async def test_a_cluster_without_our_kinds_is_looked_at_too(world: World, server: FakeApiServer) -> None:
    """Before anything is installed: what the shipped set would make, and what was assumed."""
    world.namespace("team-a")
    for kind in ("WorkflowController", "ControllerTemplate"):
        server.withdraw(kind)
    found = await foretell(world)
    assert whats(found) == dict.fromkeys(SIX, "created")
    assert [note.partition(" ")[0] for note in found.notes] == ["not", "there", "the"]


@pytest.mark.parametrize(
    ("name", "reason"), [("kube-system", "NamespaceRefused"), ("metaoperator", "NamespaceRefused")]
)
async def test_a_namespace_that_is_never_served_says_so(world: World, name: str, reason: str) -> None:
    """Nothing would be made there, whatever its label says."""
    if name != "metaoperator":
        world.namespace(name)
    found = await foretell(world, name)
    assert (found.changes, found.stalled.partition(":")[0]) == ((), reason)


async def test_a_namespace_that_is_not_there_is_a_wrong_call(world: World) -> None:
    """With the command that makes it."""
    with pytest.raises(ConfigError, match="there is no namespace nowhere: kubectl create namespace nowhere"):
        await foretell(world, "nowhere")


async def test_who_may_not_even_read_is_told_what_is_missing(world: World, server: FakeApiServer) -> None:
    """An empty list would be taken for an empty namespace."""
    world.namespace("team-a")
    message = 'configmaps is forbidden: User "eve" cannot list resource "configmaps"'
    server.faults.answer(403, verb="list", resource="configmaps", times=9, message=message)
    with pytest.raises(Rejected, match="cannot list resource"):
        await foretell(world)


async def test_all_that_are_opted_in_are_found(world: World) -> None:
    """By their label, sorted."""
    for each in ("team-b", "team-a"):
        world.namespace(each, {names.OPT_IN_LABEL: "enabled"})
    cluster = Rehearsal(kubeconfig=str(world.kubeconfig))
    await cluster.connect()
    try:
        assert await preview.served(cluster) == ["team-a", "team-b"]
    finally:
        await cluster.close()


# Several namespaces


async def several(world: World, *wanted: str) -> list[Preview | MetaoperatorError]:
    """Look at several namespaces as `diff` does."""
    cluster = Rehearsal(kubeconfig=str(world.kubeconfig))
    await cluster.connect()
    try:
        return await preview.each(cluster, wanted, Assumed(programs=sources.programs((sources.shipped(),))), Settings())
    finally:
        await cluster.close()


async def test_namespaces_are_looked_at_together_but_not_all_at_once(world: World, server: FakeApiServer) -> None:
    """Eight that get no answer are all asked about; the ninth waits for a place. The order is that of the names."""
    wanted = [f"team-{number:02}" for number in range(preview.AT_ONCE + 4)]
    for each in wanted:
        world.namespace(each)
    slow = server.faults.hang(verb="list", resource="configmaps", times=len(wanted))
    looking = asyncio.create_task(several(world, *wanted))
    await world.until(lambda: slow.hits == preview.AT_ONCE, 10)
    await asyncio.sleep(5)
    assert slow.hits == preview.AT_ONCE
    assert not looking.done()
    slow.release()
    found = await looking
    assert [each.namespace for each in found if isinstance(each, Preview)] == wanted
    assert all(whats(each) == dict.fromkeys([*SIX, ROW], "created") for each in found if isinstance(each, Preview))


@pytest.mark.parametrize("code", [500, 403])
async def test_what_goes_wrong_with_one_namespace_is_its_own(world: World, server: FakeApiServer, code: int) -> None:
    """The others are shown, and what went wrong stands in its place."""
    for each in ("team-a", "team-b", "team-c"):
        world.namespace(each)
    server.faults.answer(code, namespace="team-b", resource="deployments", times=99)
    found = await several(world, "team-a", "nowhere", "team-b", "team-c")
    assert [type(each) for each in found] == [
        Preview,
        ConfigError,
        RetryableError if code == 500 else Rejected,
        Preview,
    ]


async def test_a_namespace_is_told_the_same_beside_others(world: World, server: FakeApiServer) -> None:
    """Also of what is assumed once for all of them: here, that there is a ControllerTemplate."""
    for each in ("team-a", "team-b"):
        world.namespace(each)
    server.delete("ControllerTemplate", None, "default")
    alone = [await foretell(world, each) for each in ("team-a", "team-b")]
    together = await several(world, "team-a", "team-b")
    for one, other in zip(alone, together, strict=True):
        assert isinstance(other, Preview)
        assert (other.notes, whats(other), other.stalled) == (one.notes, whats(one), one.stalled)
        assert "there is no ControllerTemplate default yet: the shipped one is assumed" in other.notes


def test_every_kind_of_a_child_is_compared() -> None:
    """The table of this file knows the kinds that the shipped set renders."""
    assert set(KINDS) < set(PLURALS)
