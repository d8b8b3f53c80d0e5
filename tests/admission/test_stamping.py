"""What is created in an opted-in namespace carries its instance ID, whoever creates it and however."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.local import INSTANCE_ID, Kubectl, Object, Refused
from tests.e2e.workflows import one_step

from .world import PLURALS, World, id_of

KINDS = ("Workflow", "CronWorkflow")
NS = "team-a"
ODD = ("null", "0123", "1e3", "on", "n" * 63)
"""Names that are something else than text in careless YAML, and the longest one."""

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


def _kubectl_create(kubectl: Kubectl, manifest: Object) -> Any:
    return kubectl.json("create", "-n", NS, "-f", "-", stdin=manifest)


def _kubectl_apply(kubectl: Kubectl, manifest: Object) -> Any:
    return kubectl.json("apply", "-n", NS, "-f", "-", stdin=manifest)


def _kubectl_apply_server_side(kubectl: Kubectl, manifest: Object) -> Any:
    return kubectl.json("apply", "--server-side", "-n", NS, "-f", "-", stdin=manifest)


def _kubectl_replace(kubectl: Kubectl, manifest: Object) -> Any:
    return kubectl.json("replace", "--force", "-n", NS, "-f", "-", stdin=manifest)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "how", [_kubectl_create, _kubectl_apply, _kubectl_apply_server_side, _kubectl_replace], ids=lambda how: how.__name__
)
def test_whatever_kubectl_command_creates_it(
    how: Callable[[Kubectl, Object], Any], kind: str, world: World, tmp_path: Path
) -> None:
    """The answer that the person gets carries the ID, and so does what is stored."""
    world.namespace(NS)

    made = how(world.kubectl, one_step("by-kubectl", kind=kind))

    stored = world.send("GET", world.path(kind, NS, "by-kubectl"))[1]
    world.empty(NS)
    assert id_of(made) == id_of(stored) == NS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("metadata", "others"),
    [
        pytest.param({}, {}, id="no labels"),
        pytest.param({"labels": None}, {}, id="labels null"),
        pytest.param({"labels": {}}, {}, id="empty labels"),
        pytest.param({"labels": {"team": "a"}}, {"team": "a"}, id="other labels"),
        pytest.param({"labels": {INSTANCE_ID: ""}}, {}, id="empty label"),
        pytest.param({"labels": {INSTANCE_ID: None}}, {}, id="label null"),
        pytest.param({"labels": {INSTANCE_ID: None, "team": "a"}}, {"team": "a"}, id="label null beside others"),
        pytest.param({"generateName": "made-"}, {}, id="generateName"),
        pytest.param({"generateName": "made-", "labels": {"team": "a"}}, {"team": "a"}, id="generateName and labels"),
    ],
)
def test_whatever_labels_it_comes_with(
    metadata: dict[str, Any], others: dict[str, str], kind: str, world: World
) -> None:
    """Labels that were there stay, and nothing else is added."""
    world.namespace(NS)

    made = world.create(NS, one_step("raw", kind=kind, **metadata), dry=True)

    assert made["metadata"]["labels"] == {**others, INSTANCE_ID: NS}


@pytest.mark.parametrize("name", ODD)
def test_whatever_the_namespace_is_called(name: str, world: World) -> None:
    """The ID is text, the namespace's name to the letter."""
    world.namespace(name)

    for kind in KINDS:
        assert id_of(world.create(name, one_step("odd", kind=kind), dry=True)) == name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("not-opted-in", None),
        ("opted-out", "disabled"),
        ("labelled-with-nothing", ""),
        ("kube-system", "enabled"),
        ("openshift-a", "enabled"),
        ("metaoperator", "enabled"),
    ],
)
def test_what_is_created_elsewhere_stays_as_it_was_written(
    name: str, label: str | None, kind: str, world: World
) -> None:
    """Neither without the label nor in namespaces that are refused whatever their label."""
    world.namespace(name, label)

    made = world.create(name, one_step("elsewhere", kind=kind), dry=True)

    world.label(name, None)
    assert "labels" not in made["metadata"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_that_is_there_is_kept(kind: str, world: World) -> None:
    """It is some other controller's, and taking work away from that would run it twice."""
    world.namespace(NS)

    made = world.create(NS, one_step("foreign", kind=kind, labels={INSTANCE_ID: "theirs"}), dry=True)

    assert made["metadata"]["labels"] == {INSTANCE_ID: "theirs"}


# ---- what a schedule fires


def _fired(*, without: str = "", **more: Any) -> Object:
    """Write what a controller creates when a schedule is due, or all of it but one thing."""
    owner = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "name": "cron",
        "uid": "u",
        "controller": True,
    }
    parts: dict[str, Any] = {
        "name": "cron-1767225600",
        "labels": {"workflows.argoproj.io/cron-workflow": "cron"},
        "annotations": {"workflows.argoproj.io/scheduled-time": "2026-01-01T00:00:00Z"},
        "ownerReferences": [owner],
    }
    if without == "controller":
        parts["ownerReferences"] = [owner | {"controller": False}]
    elif without == "argo":
        parts["ownerReferences"] = [owner | {"apiVersion": "example.org/v1"}]
    elif without:
        del parts[without]
    found = one_step("fired")
    found["metadata"] = parts | more
    return found


def test_what_an_unlabelled_schedule_fires_stays_unlabelled(world: World) -> None:
    """Its controller would forget it, and fire again where the schedule forbids that."""
    world.namespace(NS)

    assert id_of(world.create(NS, _fired(), dry=True)) is None


@pytest.mark.parametrize("instance_id", [NS, "theirs"])
def test_what_a_labelled_schedule_fires_keeps_its_schedules_id(instance_id: str, world: World) -> None:
    """Argo copies it."""
    world.namespace(NS)
    labels = {"workflows.argoproj.io/cron-workflow": "cron", INSTANCE_ID: instance_id}

    assert id_of(world.create(NS, _fired(labels=labels), dry=True)) == instance_id


@pytest.mark.parametrize("without", ["labels", "annotations", "ownerReferences", "controller", "argo"])
def test_what_only_looks_fired_is_stamped(without: str, world: World) -> None:
    """All of it has to be there: a person's Workflow without its ID would wait for ever."""
    world.namespace(NS)

    assert id_of(world.create(NS, _fired(without=without), dry=True)) == NS


def test_what_a_person_submits_from_a_schedule_is_stamped(world: World) -> None:
    """`argo submit --from cronwf/cron` and `argo cron backfill` write all of that, and ask for a generated name."""
    world.namespace(NS)

    assert id_of(world.create(NS, _fired(without="name", generateName="cron-"), dry=True)) == NS


# ---- updates


def _replace(world: World, live: Object) -> tuple[int, Object]:
    meta = {key: live["metadata"][key] for key in ("name", "resourceVersion")}
    return world.send("PUT", _at(world, live), live | {"metadata": meta})


def _merge(world: World, live: Object) -> tuple[int, Object]:
    return world.send("PATCH", _at(world, live), {"metadata": {"labels": {INSTANCE_ID: None}}}, kind=MERGE)


def _no_labels(world: World, live: Object) -> tuple[int, Object]:
    return world.send("PATCH", _at(world, live), [{"op": "remove", "path": "/metadata/labels"}], kind=JSON_PATCH)


def _emptied(world: World, live: Object) -> tuple[int, Object]:
    return world.send("PATCH", _at(world, live), {"metadata": {"labels": {INSTANCE_ID: ""}}}, kind=MERGE)


def _at(world: World, live: Object) -> str:
    return world.path(live["kind"], NS, live["metadata"]["name"])


REMOVALS = [_replace, _merge, _no_labels, _emptied]


@pytest.mark.parametrize("how", REMOVALS, ids=lambda how: how.__name__)
def test_a_schedule_that_loses_its_label_gets_it_back(
    how: Callable[[World, Object], tuple[int, Object]], world: World
) -> None:
    """It would stop without a word."""
    world.namespace(NS)
    live = world.create(NS, one_step("cron", kind="CronWorkflow"))

    code, answer = how(world, live)

    world.empty(NS)
    assert code == 200, answer
    assert id_of(answer) == NS


def test_kubectl_replace_of_a_schedule_brings_its_label_back(world: World) -> None:
    """As a deployer does that knows nothing of instance IDs."""
    world.namespace(NS)
    manifest = one_step("cron", kind="CronWorkflow")
    world.kubectl("create", "-n", NS, "-f", "-", stdin=manifest)

    made = world.kubectl.json("replace", "-n", NS, "-f", "-", stdin=manifest)

    world.empty(NS)
    assert id_of(made) == NS


@pytest.mark.parametrize("how", [["apply"], ["apply", "--server-side"]], ids=" ".join)
def test_a_schedule_that_is_applied_again_without_the_label_that_it_had_keeps_it(how: list[str], world: World) -> None:
    """Whoever wrote the label by hand may stop doing so."""
    world.namespace(NS)
    world.kubectl(*how, "-n", NS, "-f", "-", stdin=one_step("cron", kind="CronWorkflow", labels={INSTANCE_ID: NS}))

    made = world.kubectl.json(*how, "-n", NS, "-f", "-", stdin=one_step("cron", kind="CronWorkflow"))

    world.empty(NS)
    assert id_of(made) == NS


@pytest.mark.parametrize("instance_id", [None, "theirs"])
def test_a_schedule_that_was_not_ours_stays_as_it_is_updated(instance_id: str | None, world: World) -> None:
    """What exists when a namespace opts in may be served by somebody: the operator judges that, admission does not."""
    name = world.namespace("team-late", None)
    labels: dict[str, Any] = {} if instance_id is None else {"labels": {INSTANCE_ID: instance_id}}
    live = world.create(name, one_step("cron", kind="CronWorkflow", **labels))
    world.label(name, "enabled")

    code, answer = world.send(
        "PATCH", world.path("CronWorkflow", name, "cron"), {"metadata": {"labels": {INSTANCE_ID: None}}}, kind=MERGE
    )

    world.empty(name)
    assert id_of(live) == instance_id
    assert (code, id_of(answer)) == (200, None)


@pytest.mark.parametrize("how", REMOVALS, ids=lambda how: how.__name__)
def test_updates_of_workflows_are_not_looked_at(
    how: Callable[[World, Object], tuple[int, Object]], world: World
) -> None:
    """Each write of their controller is one, and the ID of what exists is not admission's to choose."""
    world.namespace(NS)
    live = world.create(NS, one_step("running"))

    code, answer = how(world, live)

    world.empty(NS)
    assert code == 200, answer
    assert not id_of(answer)


# ---- refusals

PLACES = {
    "Workflow": ["spec.workflowMetadata.labels", "spec.workflowMetadata.labelsFrom"],
    "WorkflowTemplate": ["spec.workflowMetadata.labels", "spec.workflowMetadata.labelsFrom"],
    "CronWorkflow": [
        "spec.workflowMetadata.labels",
        "spec.workflowSpec.workflowMetadata.labels",
        "spec.workflowSpec.workflowMetadata.labelsFrom",
    ],
}
ALL_PLACES = [(kind, place) for kind, places in PLACES.items() for place in places]
REFUSALS = "metaoperator-instance-id-metadata"


def _carrying(kind: str, place: str, key: str = INSTANCE_ID) -> Object:
    found = one_step("carrying", kind=kind)
    within = found
    *path, last = place.split(".")
    for each in path:
        within = within.setdefault(each, {})
    within[last] = {key: {"expression": "'x'"} if last == "labelsFrom" else "x"}
    return found


@pytest.mark.parametrize(("kind", "place"), ALL_PLACES)
def test_an_id_in_workflow_metadata_is_refused_and_the_cure_is_said(kind: str, place: str, world: World) -> None:
    """It would take the Workflow away from its controller after its pods exist."""
    world.namespace(NS)

    with pytest.raises(Refused) as refused:
        world.kubectl("create", "-n", NS, "-f", "-", stdin=_carrying(kind, place))

    told = str(refused.value)
    assert f"ValidatingAdmissionPolicy '{REFUSALS}'" in told
    assert f"denied request: {place}: take the label {INSTANCE_ID} out" in told
    assert "metadata.labels, and in namespace team-a admission puts it there" in told


@pytest.mark.parametrize(("kind", "place"), ALL_PLACES)
def test_other_labels_there_are_nobodys_business(kind: str, place: str, world: World) -> None:
    """And neither are instance IDs in namespaces that did not opt in."""
    world.namespace(NS)
    world.namespace("not-opted-in", None)

    world.create(NS, _carrying(kind, place, key="team"), dry=True)
    world.create("not-opted-in", _carrying(kind, place), dry=True)


@pytest.mark.parametrize("what", [None, {}, {"labels": None}, {"labels": {}, "labelsFrom": None}], ids=json.dumps)
@pytest.mark.parametrize("kind", list(PLURALS))
def test_nothing_in_workflow_metadata_is_nothing_to_refuse(kind: str, what: Any, world: World) -> None:
    """Clients write empty mappings and null for what is not there."""
    world.namespace(NS)
    manifest = one_step("plain", kind=kind)
    manifest["spec"]["workflowMetadata"] = what
    if kind == "CronWorkflow":
        manifest["spec"]["workflowSpec"]["workflowMetadata"] = what

    code, answer = world.send("POST", world.path(kind, NS) + "?dryRun=All", manifest)

    assert code == 201 or REFUSALS not in answer["message"], answer


@pytest.mark.parametrize(("kind", "place"), [each for each in ALL_PLACES if each[0] != "Workflow"])
def test_an_update_that_brings_an_id_in_is_refused_and_one_of_what_carries_it_is_not(
    kind: str, place: str, world: World
) -> None:
    """What was there before the opt-in goes on being written, by its controller above all."""
    name = world.namespace("team-before", None)
    world.create(name, _carrying(kind, place))
    plain = one_step("plain", kind=kind)
    world.create(name, plain)
    world.label(name, "enabled")
    patch = {"metadata": {"annotations": {"a": "b"}}}

    touched = world.send("PATCH", world.path(kind, name, "carrying"), patch, kind=MERGE)
    brought = world.send("PATCH", world.path(kind, name, "plain"), {"spec": _carrying(kind, place)["spec"]}, kind=MERGE)

    world.empty(name)
    assert touched[0] == 200, touched[1]
    assert brought[0] == 403, brought[1]
    assert REFUSALS in brought[1]["message"]
