"""A change is foretold for a whole fleet: equal ones together, each as `diff` tells it for one namespace alone."""

import asyncio
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from metaoperator import outlook, preview, skew, sources
from metaoperator.commands import forecast
from metaoperator.core import definitions, names
from metaoperator.core.errors import Rejected, RetryableError
from metaoperator.core.model import Manifest
from metaoperator.outlook import Group, Outlook
from metaoperator.pretence import Assumed
from metaoperator.rehearsal import Rehearsal
from metaoperator.settings import Settings
from tests.fake import FakeApiServer

from .test_preflight import definition
from .world import SIX, World

DEPLOYMENT = ("Deployment", "workflow-controller")
CONFIG, SERVICE = ("ConfigMap", "workflow-controller-configmap"), ("Service", "workflow-controller-metrics")
PLAIN = [f"team-{number:02}" for number in range(40)]
SILVER = [f"silver-{number:02}" for number in range(10)]
GOLD = [f"gold-{number:02}" for number in range(10)]


def template(name: str, values: Mapping[str, Any], directory: str = sources.DEFAULT_SET) -> Manifest:
    """Write a ControllerTemplate as it stands in git."""
    spec = {"source": {"directory": directory}, "values": values}
    return {"apiVersion": names.API_VERSION, "kind": "ControllerTemplate", "metadata": {"name": name}, "spec": spec}


async def foretell(world: World, *directories: Path, **assumed: Any) -> Outlook:
    """Look at the fleet, and hold the looking to writing nothing."""
    before = world.server.history.version
    cluster = Rehearsal(kubeconfig=str(world.kubeconfig))
    await cluster.connect()
    try:
        programs = sources.programs((sources.shipped(), *directories))
        found = await outlook.of(cluster, Assumed(programs=programs, **assumed), Settings())
        assert (cluster.writes, cluster.statuses) == ({}, {})  # of nobody anything is kept
    finally:
        await cluster.close()
    assert world.server.history.version == before
    return found


async def settled(world: World, **namespaces: str) -> None:
    """Bring children up, by namespace and label, and take the operator away."""
    async with world.operator():
        for name, value in namespaces.items():
            world.opt_in(name.replace("_", "-"), value)
        wanted = [each.replace("_", "-") for each in namespaces]
        await world.until(lambda: world.ready(*wanted) and world.whole(*wanted), 600)
        await asyncio.sleep(60)
    world.server.audit.clear()


def whats(group: Group) -> dict[tuple[str, str], str]:
    """Tell what becomes of each object of a group."""
    return {(part.kind, part.name): part.what for part in group.parts}


def of(found: Outlook, namespace: str) -> Group:
    """Find the group of a namespace."""
    (group,) = [each for each in found.groups if namespace in each.namespaces]
    return group


def changed_set(folder: Path) -> Path:
    """Copy the shipped set, log at another level by default, and fail for one namespace."""
    there = folder / "sets" / sources.DEFAULT_SET
    shutil.copytree(sources.shipped() / sources.DEFAULT_SET, there)
    values = there / "values.yaml"
    text = values.read_text()
    assert "  level: info\n" in text
    values.write_text(text.replace("  level: info\n", "  level: debug\n"))
    service = there / "service-metrics.yaml.j2"
    service.write_text('{% if namespace.name == "team-07" %}{{ values.nothing }}{% endif %}\n' + service.read_text())
    return there.parent


async def sixty(world: World) -> None:
    """Have sixty namespaces of three ControllerTemplates; one is paused, one leaves, one has values of its own."""
    world.template("silver")
    world.template("gold", directory="gold")
    shutil.copytree(sources.shipped() / sources.DEFAULT_SET, world.folder / "gold" / "gold")
    for each in (*PLAIN, *SILVER):
        world.namespace(each, {names.OPT_IN_LABEL: "silver" if each in SILVER else "enabled"})
    async with world.operator(templates=(world.folder / "gold",)):
        for each in GOLD:
            world.opt_in(each, "gold")
        everyone = (*PLAIN, *SILVER, *GOLD)
        await world.until(lambda: world.ready(*everyone) and world.whole(*everyone), 900)
        world.spec("team-03", values={"config": {"parallelism": 3}})
        world.spec("team-05", paused=True)
        world.workflow("team-09", "busy")
        world.phase("team-09", "busy", "Running")
        await asyncio.sleep(60)
        world.opt_out("team-09")
        await asyncio.sleep(60)
    world.server.audit.clear()


async def test_a_fleet_is_told_in_as_many_groups_as_there_are_changes(world: World, server: FakeApiServer) -> None:
    """Sixty namespaces: what is rendered otherwise, what is deleted, who stays, who cannot be rendered, who rests."""
    await sixty(world)
    directories = (changed_set(world.folder), world.folder / "gold")
    found = await foretell(
        world, *directories, templates={"silver": template("silver", {"metrics": {"enabled": False}})}
    )
    assert (found.total, found.settled) == (60, False)

    plain = of(found, "team-00")
    left_out = {"team-05", "team-07", "team-09"}
    assert plain.namespaces == [
        each for each in PLAIN if each not in left_out
    ]  # team-03's own values are no part of it
    assert whats(plain) == {DEPLOYMENT: "changed"}
    assert (plain.restarts, plain.amiss, plain.by_value, plain.widening) == (True, False, False, ())
    (part,) = plain.parts
    assert "-        - --loglevel=info\n" in part.diff
    assert "+        - --loglevel=debug\n" in part.diff
    assert "team-" not in part.diff
    fewer = of(found, "silver-00")
    assert fewer.namespaces == SILVER
    assert whats(fewer) == {CONFIG: "changed", DEPLOYMENT: "changed", SERVICE: "pruned"}
    assert (fewer.restarts, fewer.deletions, fewer.child_goes) == (True, 1, False)
    assert (of(found, "gold-00").namespaces, of(found, "gold-00").changes) == (GOLD, False)

    fails, rests, leaves = (of(found, each) for each in ("team-07", "team-05", "team-09"))
    assert (fails.namespaces, fails.changes) == (["team-07"], False)
    assert fails.stalled.startswith("TemplateInvalid: ")
    assert (rests.namespaces, rests.changes, rests.amiss) == (["team-05"], False, False)
    assert [note.partition(":")[0] for note in rests.notes][-1:] == ["Paused"]
    assert (leaves.namespaces, leaves.leaving, leaves.changes) == (["team-09"], True, False)
    assert any(note.startswith("Draining: ") for note in leaves.notes)

    assert forecast.summary(found) == [
        ("namespaces", "60"),
        ("change", "47, in 2 ways"),
        ("stay as they are", "12"),
        ("wait for a person", "1"),
        ("controllers that restart", "47"),
        ("other Deployments that restart", "0"),
        ("controllers that go", "0"),
        ("objects deleted", "10"),
        ("namespaces that gain permissions", "0"),
        ("are on their way out already", "1"),
    ]
    assert len(forecast.markdown(found)) < forecast.MARKDOWN_LIMIT
    assert json.loads(json.dumps(forecast.as_json(found)))["changed"] == 47
    await _as_one_alone(world, directories, plain)


async def _as_one_alone(world: World, directories: tuple[Path, ...], group: Group) -> None:
    cluster = Rehearsal(kubeconfig=str(world.kubeconfig))
    await cluster.connect()
    try:
        programs = sources.programs((sources.shipped(), *directories))
        one = await preview.of(cluster, group.namespaces[0], Assumed(programs=programs), Settings())
    finally:
        await cluster.close()
    assert {(c.ref.kind.kind, c.ref.name): c.what for c in one.changes if c.what != "unchanged"} == whats(group)


async def test_each_kind_is_read_once_for_the_whole_fleet(world: World, server: FakeApiServer) -> None:
    """A namespace costs a dry-run for each object that changes there, and no read; one that drains asks for itself."""
    await sixty(world)
    await foretell(world, world.folder / "gold", fleet_values={"log": {"level": "debug"}})
    asked = [entry for entry in server.audit if entry.verb in {"get", "list"}]
    lists = [entry.resource for entry in asked if entry.verb == "list" and not entry.namespace]
    assert max(map(lists.count, lists)) <= 2  # Deployments: ours, and other people's
    assert {entry.namespace for entry in asked if entry.namespace} == {"team-09"}
    assert sum(entry.verb == "apply" for entry in server.audit) == 58  # neither who rests nor who leaves


async def test_a_fleet_that_stays_as_it_is_is_settled(world: World) -> None:
    """No diff, no group to show; also with an everyday word for a name, and one that YAML quotes."""
    await settled(world, team_a="enabled", info="enabled")
    found = await foretell(world)
    assert found.settled
    assert (found.total, len(found.groups)) == (2, 1)
    assert (found.versions, found.skew) == ({}, [])  # nobody moves, so nothing is asked of Argo's definitions
    assert "Nothing changes." in forecast.markdown(found)
    assert forecast.as_json(found)["groups"] == []


async def test_everyday_words_and_numbers_are_names_as_any(world: World) -> None:
    """`info` stands in the Deployment's arguments too, and `0123` is text in one place and digits in another."""
    names_of_people = {"team_a": "enabled", "team_b": "enabled", "info": "enabled", "0123": "enabled"}
    await settled(world, **names_of_people)
    found = await foretell(world, fleet_values={"log": {"level": "debug"}})
    (group,) = found.groups
    assert group.namespaces == ["0123", "info", "team-a", "team-b"]


async def test_a_child_that_would_go_is_counted(world: World, server: FakeApiServer) -> None:
    """A set without a Deployment takes the controllers away, at once where they are idle: the brake's number."""
    await settled(world, team_a="enabled", team_b="enabled")
    world.workflow("team-b", "busy")
    empty = world.folder / "sets" / "empty"
    shutil.copytree(sources.shipped() / sources.DEFAULT_SET, empty)
    for each in (*empty.glob("deployment*"), *empty.glob("poddisruption*")):
        each.unlink()
    found = await foretell(world, empty.parent, sets={"default": "empty"})
    assert {each.namespaces[0]: whats(each).get(DEPLOYMENT) for each in found.groups} == {
        "team-a": "pruned",
        "team-b": "held",
    }
    assert dict(forecast.summary(found))["controllers that go"] == "2"
    assert any("for --set" in note for note in of(found, "team-a").notes)


async def test_what_gains_rights_is_named(world: World) -> None:
    """Another role for the controller, in words; the same in all namespaces, so it is told once."""
    await settled(world, team_a="enabled", team_b="enabled")
    wide = world.folder / "sets" / "wide"
    shutil.copytree(sources.shipped() / sources.DEFAULT_SET, wide)
    file = wide / "rolebinding-controller.yaml.j2"
    mine, other = "metaoperator-workflow-controller-v1", "metaoperator-workflow-executor-v1"
    file.write_text(file.read_text().replace(mine, other))
    found = await foretell(world, wide.parent, templates={"default": template("default", {}, "wide")})
    ((told, number),) = forecast.widenings(found)
    assert number == 2
    gives = f"gives the rights of ClusterRole {other} in place of ClusterRole {mine} to "
    assert told.startswith(f"RoleBinding/workflow-controller: {gives}")
    assert "team-" not in told


async def test_who_may_only_read_gets_the_comparison_of_values(world: World, server: FakeApiServer) -> None:
    """And is told, in every form."""
    await settled(world, team_a="enabled", team_b="enabled")
    message = 'deployments "x" is forbidden: User "eve" cannot patch resource "deployments" in the namespace "x"'
    server.faults.answer(403, verb="apply", times=99, message=message)
    found = await foretell(world, fleet_values={"log": {"level": "debug"}})
    (group,) = found.groups
    assert (group.namespaces, whats(group), group.by_value) == (["team-a", "team-b"], {DEPLOYMENT: "changed"}, True)
    for told in (forecast.text(found), forecast.markdown(found)):
        assert "compared by value only" in told
    assert forecast.as_json(found)["groups"][0]["byValue"] is True


async def test_what_stands_in_the_way_is_told_with_its_reason(world: World) -> None:
    """A name that somebody took, a label that names nothing, a new namespace: each by its own group."""
    await settled(world, team_a="enabled")
    world.server.delete("Service", "team-a", SERVICE[1])
    world.make("Service", "team-a", SERVICE[1], spec={"ports": [{"port": 80}], "selector": {"x": "y"}})
    world.namespace("team-b", {names.OPT_IN_LABEL: "nothing"})
    world.namespace("team-c", {names.OPT_IN_LABEL: "enabled"})
    found = await foretell(world)
    assert whats(of(found, "team-a")) == {SERVICE: "conflict"}
    assert of(found, "team-a").stalled.startswith("Conflict: ")
    assert of(found, "team-b").stalled.startswith("TemplateNotFound: ")
    new = of(found, "team-c")
    row = ("WorkflowController", "workflow-controller")
    assert (whats(new), new.restarts) == (dict.fromkeys([*SIX, row], "created"), False)
    assert dict(forecast.summary(found))["wait for a person"] == "2"


async def test_what_the_operator_said_already_is_said_again(world: World) -> None:
    """A status that says it is not written anew: who waits for a person waits, however long the operator has known."""
    await settled(world, team_a="enabled")
    async with world.operator():
        world.label("team-a", "nothing")
        await world.until(lambda: world.condition("team-a", "Stalled")[1] == "TemplateNotFound", 300)
        await asyncio.sleep(30)
        (group,) = (await foretell(world)).groups
    assert group.stalled.startswith("TemplateNotFound: ")


async def test_who_may_not_list_is_told(world: World, server: FakeApiServer) -> None:
    """A fleet of which a kind cannot be seen would look as if it were to be made anew."""
    await settled(world, team_a="enabled")
    message = 'configmaps is forbidden: User "eve" cannot list resource "configmaps"'
    server.faults.answer(403, verb="list", resource="configmaps", times=9, message=message)
    with pytest.raises(Rejected, match="cannot list resource"):
        await foretell(world)


async def test_what_goes_wrong_with_one_namespace_is_its_own(world: World, server: FakeApiServer) -> None:
    """The others are told, and it is counted as not looked at."""
    await settled(world, team_a="enabled", team_b="enabled")
    server.faults.answer(500, verb="apply", namespace="team-b", times=99)
    found = await foretell(world, fleet_values={"log": {"level": "debug"}})
    assert [group.namespaces for group in found.groups if group.changes] == [["team-a"]]
    assert [group.namespaces for group in found.groups if group.amiss] == [["team-b"]]
    assert whats(of(found, "team-b")) == {DEPLOYMENT: "unknown"}
    assert not found.settled
    server.faults.answer(500, verb="list", resource="workflows", times=99)
    with pytest.raises(RetryableError):
        await foretell(world)


# Versions of Argo


def argo(world: World, *, full: bool, without: str = "") -> None:
    """Define Argo's kinds as a cluster has them."""
    for plural in definitions.ARGO:
        if plural != without:
            world.server.define(definition(plural, full=full))
            status = {"conditions": [{"type": "Established", "status": "True"}]}
            where = ("CustomResourceDefinition", None, f"{plural}.argoproj.io")
            world.server.patch(*where, {"status": status}, sub="status")


async def asked(world: World, moves: dict[str, tuple[str, str, dict[str, Any]]]) -> list[tuple[str, str]]:
    """Ask what moves need."""
    async with world.cluster() as cluster:
        return [(str(each.severity), str(each.reason)) for each in await skew.skew_findings(cluster, moves)]


async def test_a_kind_that_the_target_needs_is_missed_before_anything_moves(world: World) -> None:
    """R08: a child of a newer version would run, and do nothing."""
    argo(world, full=False, without="workflowartifactgctasks")
    assert await asked(world, {"team-a": ("v4.0.5", "v4.1.2", {})}) == [("refuse", "DefinitionMissing")]
    argo(world, full=False)
    assert await asked(world, {"team-a": ("v4.0.5", "v4.1.2", {})}) == []


async def test_full_definitions_refuse_a_way_back_to_v3_and_any_move_of_one(world: World) -> None:
    """R08: they cut off what only v3 knows; minimal ones suit every version."""
    argo(world, full=True)
    assert ("refuse", "DefinitionsFull") in await asked(world, {"team-a": ("v4.0.5", "v3.7.1", {})})
    assert await asked(world, {"team-a": ("v4.0.5", "v4.1.2", {})}) == []
    world.namespace("team-b")
    world.make("WorkflowController", "team-b", "workflow-controller", api=names.API_VERSION, spec={})
    where = ("WorkflowController", "team-b", "workflow-controller")
    world.server.patch(*where, {"status": {"version": "v3.7.1"}}, sub="status")
    assert await asked(world, {"team-a": ("v4.0.5", "v4.1.2", {})}) == [("remark", "DefinitionsFull")]
    assert ("refuse", "DefinitionsFull") in await asked(world, {"team-b": ("v3.7.1", "v4.0.5", {})})


async def test_full_definitions_are_told_from_minimal_ones_by_what_tells(world: World) -> None:
    """From v4.0 on the minimal definition of task sets knows its fields too."""
    argo(world, full=False)
    world.server.define(definition("workflowtasksets", full=True))
    found = await asked(world, {"team-a": ("v4.0.5", "v3.7.1", {})})
    assert "DefinitionsFull" not in {reason for _, reason in found}


async def test_crons_that_would_stop_are_named(world: World) -> None:
    """Those of the namespaces that move alone, and what they lose."""
    argo(world, full=False)
    specs = {
        "old": {
            "schedule": "* * * * *",
            "workflowSpec": {"templates": [{"synchronization": {"mutex": {"name": "m"}}}]},
        },
        "both": {"schedule": "* * * * *", "schedules": ["* * * * *"]},
        "new": {"schedules": ["* * * * *"]},
    }
    for space in ("team-a", "team-b"):
        world.namespace(space)
        for name, spec in specs.items():
            world.make("CronWorkflow", space, name, api="argoproj.io/v1alpha1", spec=spec)
    async with world.cluster() as cluster:
        found = await skew.skew_findings(cluster, {"team-a": ("v3.7.1", "v4.0.5", {})})
    removed = [each for each in found if each.reason == "FieldsRemoved"]
    assert [each.objects for each in removed] == [("team-a/old",), ("team-a/old",)]
    assert sorted(each.message.split()[2] for each in removed) == ["mutex,", "schedule,"]


async def test_how_a_child_compresses_is_read_from_its_deployment(world: World) -> None:
    """What is in the cluster counts, whatever the values of tomorrow say."""
    argo(world, full=False)
    await settled(world, team_a="enabled", team_b="enabled")
    env = {"name": "WORKFLOW_COMPRESSION_ALGORITHM", "value": "zstd"}
    live = world.server.get("Deployment", "team-a", "workflow-controller")
    assert live is not None
    pod = live["spec"]["template"]["spec"]
    pod["containers"][0]["env"].append(env)
    patch = {"spec": {"template": {"spec": {"containers": pod["containers"]}}}}
    world.server.patch("Deployment", "team-a", "workflow-controller", patch, manager="kubectl")
    moves: dict[str, tuple[str, str, dict[str, Any]]] = {
        name: ("v4.1.2", "v4.0.5", {}) for name in ("team-a", "team-b")
    }
    async with world.cluster() as cluster:
        worst, *_ = await skew.skew_findings(cluster, moves)
    assert (worst.reason, worst.namespaces) == ("StatusUnreadable", ("team-a",))


async def test_nothing_is_asked_where_nothing_moves(world: World, server: FakeApiServer) -> None:
    """And what may not be read is told, not guessed."""
    server.audit.clear()
    assert await asked(world, {}) == []
    assert list(server.audit) == []
    message = 'customresourcedefinitions "x" is forbidden: User "eve" cannot get resource'
    server.faults.answer(403, resource="customresourcedefinitions", times=9, message=message)
    assert await asked(world, {"team-a": ("v4.0.5", "v4.1.2", {})}) == [("remark", "DefinitionsUnread")]


async def test_a_fleet_that_moves_to_another_version_is_held_to_the_table(world: World) -> None:
    """From what the rows tell to what is rendered; the gains of a new version are told with the rest."""
    argo(world, full=False, without="workflowtaskresults")
    world.server.patch(
        "ControllerTemplate", None, "default", {"spec": {"values": {"version": "v4.0.5"}}}, manager="kubectl"
    )
    await settled(world, team_a="enabled", team_b="enabled")
    found = await foretell(world, fleet_values={"version": "v4.1.2"})
    assert found.versions == {("v4.0.5", "v4.1.2"): 2}
    assert [(each.severity, each.reason, each.namespaces) for each in found.skew] == [
        ("refuse", "DefinitionMissing", ("team-a", "team-b"))
    ]
    assert "refuse: DefinitionMissing: " in forecast.text(found)
    assert dict(forecast.summary(found))["Argo v4.0.5 to v4.1.2"] == "2 namespaces"
