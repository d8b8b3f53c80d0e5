"""The kustomize components do what their heads say, alone and together, and leave the rest of the bundle as it is."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from metaoperator.core import names
from tests.e2e.local import INSTANCE_ID, Object, eventually
from tests.e2e.workflows import one_step

from .test_stamping import JSON_PATCH, MERGE, NS, _fired
from .world import World, id_of, spec_of

COMPONENTS = (
    "instance-id-fleet",
    "instance-id-none",
    "instance-id-pinned",
    "started-guard",
    "kubernetes-1.34",
    "argo-server-fleet",
)
MAP = "MutatingAdmissionPolicy"


def keys(objects: list[Object]) -> set[tuple[str, str]]:
    """Name objects."""
    return {(each["kind"], each["metadata"]["name"]) for each in objects}


def test_components_change_nothing_but_what_they_are_about(world: World) -> None:
    """By one line each, on top of the bundle."""
    plain = {key: each for each in world.built() for key in keys([each])}
    gone: dict[str, set[Any]] = {}
    new: dict[str, set[Any]] = {}
    changed: dict[str, set[Any]] = {}
    for component in COMPONENTS:
        built = {key: each for each in world.built(component) for key in keys([each])}
        gone[component], new[component] = plain.keys() - built.keys(), built.keys() - plain.keys()
        changed[component] = {key for key in plain.keys() & built.keys() if plain[key] != built[key]}

    stamping = {(MAP, names.STAMPING_POLICY), (f"{MAP}Binding", names.STAMPING_POLICY)}
    pinned = {(MAP, names.STAMPING_PINNED), (f"{MAP}Binding", names.STAMPING_PINNED)}
    guard = {(f"ValidatingAdmissionPolicy{each}", names.INSTANCE_ID_STARTED) for each in ("", "Binding")}
    assert gone == {each: stamping if each == "instance-id-none" else set() for each in COMPONENTS}
    server = {
        ("Namespace", names.ARGO_SERVER),
        ("ControllerTemplate", names.ARGO_SERVER),
        ("ClusterRole", "metaoperator-argo-server-fleet-v1"),
        ("ClusterRoleBinding", "metaoperator-argo-server-fleet"),
    }
    more = {"instance-id-pinned": pinned, "started-guard": guard, "argo-server-fleet": server}
    assert new == {each: more.get(each, set()) for each in COMPONENTS}
    assert changed == {
        "instance-id-fleet": {(MAP, names.STAMPING_POLICY)},
        "instance-id-none": set(),
        "instance-id-pinned": {("ValidatingAdmissionPolicy", "metaoperator-operator-workflows")},
        "started-guard": set(),
        "kubernetes-1.34": stamping,
        "argo-server-fleet": set(),
    }


def test_every_policy_says_which_id_it_stamps(world: World) -> None:
    """The operator and preflight read it there."""
    for component, said in (((), "PerNamespace"), (("instance-id-fleet",), "Fleet")):
        policy = spec_of(world.built(*component), MAP, names.STAMPING_POLICY)
        assert policy["metadata"]["annotations"][names.INSTANCE_ID_POLICY_ANNOTATION] == said


# ---- one ID for all


def test_the_fleet_has_one_id(shipped: World) -> None:
    """In every namespace, and a schedule that loses it gets it back."""
    shipped.namespace(NS)
    shipped.namespace("team-b")
    shipped.have("instance-id-fleet")

    found = {name: shipped.instance_id(name) for name in (NS, "team-b")}
    cron = shipped.create(NS, one_step("cron", kind="CronWorkflow"))
    remove = [{"op": "remove", "path": "/metadata/labels"}]
    answer = shipped.send("PATCH", shipped.path("CronWorkflow", NS, "cron"), remove, kind=JSON_PATCH)[1]

    shipped.empty(NS)
    assert found == {NS: names.FLEET_INSTANCE_ID, "team-b": names.FLEET_INSTANCE_ID}
    assert id_of(cron) == id_of(answer) == names.FLEET_INSTANCE_ID


def test_without_ids_nothing_is_stamped(shipped: World) -> None:
    """And the refusals stay."""
    shipped.namespace(NS)
    shipped.have("instance-id-none")

    assert shipped.instance_id(NS) is None
    manifest = one_step("carrying")
    manifest["spec"]["workflowMetadata"] = {"labels": {INSTANCE_ID: "x"}}
    code, answer = shipped.send("POST", shipped.path("Workflow", NS), manifest)
    assert code == 403, answer


# ---- IDs that people choose


@pytest.fixture
def pinned(shipped: World) -> Iterator[World]:
    """Have a namespace whose ID was chosen, one whose WorkflowController says nothing, and one without."""
    for name, instance_id in (("team-pinned", "chosen"), ("team-unpinned", ""), ("team-none", None)):
        shipped.namespace(name)
        shipped.pin(name, instance_id)
    yield shipped
    for name in ("team-pinned", "team-unpinned"):
        shipped.pin(name, None)


@pytest.mark.parametrize(
    ("component", "otherwise"),
    [("", {}), ("instance-id-fleet", dict.fromkeys(("team-unpinned", "team-none"), "metaoperator")),
     ("instance-id-none", dict.fromkeys(("team-unpinned", "team-none")))],
    ids=["PerNamespace", "Fleet", "None"],
)  # fmt: skip
@pytest.mark.parametrize("place", ["listed first", "listed last"])
def test_a_chosen_id_wins_over_each_policy(
    component: str, otherwise: dict[str, str | None], place: str, pinned: World
) -> None:
    """In whatever order the components are listed; where none is chosen it is as if the component were not there."""
    chosen = [each for each in (component, "instance-id-pinned") if each]
    pinned.have(*(chosen if place == "listed last" else reversed(chosen)))

    def found() -> None:
        assert {name: pinned.instance_id(name) for name in ("team-pinned", "team-unpinned", "team-none")} == {
            "team-pinned": "chosen",
            "team-unpinned": otherwise.get("team-unpinned", "team-unpinned") if component else "team-unpinned",
            "team-none": otherwise.get("team-none", "team-none") if component else "team-none",
        }

    eventually(found, seconds=60)  # the API server begins to read WorkflowControllers when the policy comes


def test_both_orders_of_the_two_policies_give_the_same(pinned: World) -> None:
    """The API server calls policies in the order of a map, drawn anew whenever it reads them: both are waited for."""
    policies = [each for each in pinned.built("instance-id-pinned") if each["apiVersion"].startswith("admissionreg")]
    for name, mark in ((names.STAMPING_POLICY, "constant "), (names.STAMPING_PINNED, "pinned ")):
        spec_of(policies, MAP, name)["spec"]["mutations"].append(_trace(mark))
    orders: dict[str, set[str | None]] = {}

    def both() -> None:
        pinned.put(policies)
        made = pinned.create("team-pinned", one_step("ordered"), dry=True)
        trace = made["metadata"].get("annotations", {}).get("trace", "")
        orders.setdefault(trace, set()).add(id_of(made))
        assert len(orders) > 1, orders

    eventually(both, seconds=240, every=0)

    # The constant first: both acted. The other first: nothing was left to do.
    assert orders == {"constant pinned ": {"chosen"}, "pinned ": {"chosen"}}


def _trace(mark: str) -> Object:
    """Write down who was called, in order."""
    expression = (
        'Object{metadata: Object.metadata{annotations: {"trace": '
        "(has(object.metadata.annotations) && 'trace' in object.metadata.annotations "
        f"? object.metadata.annotations['trace'] : '') + '{mark}'}}}}}}"
    )
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def test_a_chosen_id_leaves_alone_what_schedules_fire_and_what_has_an_id(pinned: World) -> None:
    """A schedule and what it fires are of one controller."""
    pinned.have("instance-id-pinned")
    eventually(lambda: _is(pinned, "chosen"), seconds=60)
    by = "workflows.argoproj.io/cron-workflow"

    for instance_id in (None, "team-pinned", "metaoperator", "theirs"):
        labels = {by: "cron"} | ({INSTANCE_ID: instance_id} if instance_id else {})
        assert id_of(pinned.create("team-pinned", _fired(labels=labels), dry=True)) == instance_id
    assert pinned.instance_id("team-pinned", labels={INSTANCE_ID: "theirs"}) == "theirs"
    submitted = _fired(without="name", generateName="cron-")
    assert id_of(pinned.create("team-pinned", submitted, dry=True)) == "chosen"


def _is(world: World, instance_id: str) -> None:
    assert world.instance_id("team-pinned") == instance_id


@pytest.mark.parametrize("had", ["chosen", "team-pinned", "theirs", None])
def test_a_schedule_of_a_chosen_id_gets_that_back_and_no_other_is_moved(had: str | None, pinned: World) -> None:
    """An update that drops the label restores what was ours, to what it was."""
    pinned.label("team-pinned", None)
    labels: dict[str, Any] = {} if had is None else {"labels": {INSTANCE_ID: had}}
    pinned.create("team-pinned", one_step("cron", kind="CronWorkflow", **labels))
    pinned.label("team-pinned", "enabled")
    pinned.have("instance-id-pinned")
    eventually(lambda: _is(pinned, "chosen"), seconds=60)

    place = pinned.path("CronWorkflow", "team-pinned", "cron")
    touched = pinned.send("PATCH", place, {"spec": {"suspend": False}}, kind=MERGE)[1]
    dropped = pinned.send("PATCH", place, {"metadata": {"labels": {INSTANCE_ID: None}}}, kind=MERGE)[1]

    pinned.empty("team-pinned")
    assert id_of(touched) == had
    assert id_of(dropped) == (had if had in ("chosen", "team-pinned") else None)


def test_an_id_whose_object_goes_is_no_longer_stamped(pinned: World) -> None:
    """The fleet's own takes its place, and nothing is refused."""
    pinned.have("instance-id-pinned")
    eventually(lambda: _is(pinned, "chosen"), seconds=60)

    pinned.pin("team-pinned", None)

    eventually(lambda: _is(pinned, "team-pinned"), seconds=60)


# ---- Kubernetes 1.34


@pytest.mark.parametrize("more", [(), ("instance-id-fleet",), ("instance-id-pinned",)], ids=" ".join)
def test_the_policies_are_the_same_in_v1beta1(more: tuple[str, ...], shipped: World) -> None:
    """An API server that serves both versions takes it, stamps by it, and shows the same object in v1."""
    shipped.namespace(NS)
    wanted = shipped.have(*more, "kubernetes-1.34")

    mutating = [each for each in wanted if each["kind"].startswith(MAP)]
    assert len(mutating) == 2 * (1 + ("instance-id-pinned" in more))
    assert {each["apiVersion"] for each in mutating} == {"admissionregistration.k8s.io/v1beta1"}
    assert shipped.instance_id(NS) == ("metaoperator" if "instance-id-fleet" in more else NS)
    for each in shipped.built(*more):
        if each["kind"].startswith(MAP):
            plural = each["kind"].lower().replace("policybinding", "policybindings").removesuffix("y")
            plural = plural if plural.endswith("s") else f"{plural}ies"
            path = f"/apis/{each['apiVersion']}/{plural}/{each['metadata']['name']}"
            code, live = shipped.send("GET", path)
            assert code == 200, live
            assert live["spec"].get("matchConditions") == each["spec"].get("matchConditions")


# ---- the guard on started Workflows

CHILD = "system:serviceaccount:{}:workflow-controller"
OPERATOR = "system:serviceaccount:metaoperator:metaoperator"
GUARDED = "team-guarded"


@pytest.fixture(scope="module")
def guarded(world: World) -> Iterator[World]:
    """Have the guard, and people who hold rights on Workflows, one of them the verb too."""
    world.namespace(GUARDED)
    rules = [{"apiGroups": ["argoproj.io"], "resources": ["*"], "verbs": ["*"]}]
    argo = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "argo"},
        "rules": rules,
    }
    world.kubectl("apply", "-f", "-", stdin=argo)
    everybody = [f"--user={each}" for each in ("tenant", "platform", CHILD.format(GUARDED), CHILD.format(NS), OPERATOR)]
    world.kubectl("create", "clusterrolebinding", "argo", "--clusterrole=argo", *everybody)
    world.kubectl(
        "create", "rolebinding", "platform", "-n", GUARDED, "--clusterrole=metaoperator-administer", "--user=platform"
    )
    world.have("started-guard")
    yield world
    world.empty(GUARDED)
    world.have()


counter = itertools.count()


# What a Workflow says in its phase label, and in its status. A retried one is as Argo leaves it for a moment:
# `completed` is gone, the phase label is kept, and status.phase is empty.
NEW, RUNNING, RETRIED = ("", ""), ("Running", "Running"), ("Failed", "")


def _started(world: World, state: tuple[str, str]) -> str:
    name = f"started-{next(counter)}"
    label, phase = state
    manifest = one_step(name, labels={INSTANCE_ID: GUARDED} | ({names.PHASE_LABEL: label} if label else {}))
    manifest["status"] = {"phase": phase}
    world.create(GUARDED, manifest)
    return name


def _relabel(world: World, name: str, who: str, value: str | None) -> tuple[int, Object]:
    patch = {"metadata": {"labels": {INSTANCE_ID: value}}}
    return world.send("PATCH", world.path("Workflow", GUARDED, name), patch, who=who, kind=MERGE)


@pytest.mark.parametrize("value", ["other", None, ""])
@pytest.mark.parametrize("state", [RUNNING, RETRIED], ids=["running", "retried"])
@pytest.mark.parametrize("who", ["tenant", CHILD.format(NS)], ids=["a tenant", "another namespace's controller"])
def test_nobody_moves_a_started_workflow(who: str, state: tuple[str, str], value: str | None, guarded: World) -> None:
    """Neither by another ID nor by none."""
    code, answer = _relabel(guarded, _started(guarded, state), who, value)

    assert code == 403, answer
    assert f"ValidatingAdmissionPolicy '{names.INSTANCE_ID_STARTED}'" in answer["message"]
    assert "has started" in answer["message"]
    assert "metaoperator-administer" in answer["message"]


@pytest.mark.parametrize("who", ["platform", OPERATOR, CHILD.format(GUARDED), "", f"{CHILD.format(GUARDED)}-1"])
def test_the_platform_the_operator_and_the_child_are_let_through(who: str, guarded: World) -> None:
    """By the verb, or by who they are; cluster admins hold every verb."""
    if who.endswith("-1"):
        guarded.kubectl("create", "clusterrolebinding", "argo-1", "--clusterrole=argo", f"--user={who}")

    code, answer = _relabel(guarded, _started(guarded, RUNNING), who, "other")

    assert code == 200, answer


def test_a_workflow_that_has_not_started_may_be_moved(guarded: World) -> None:
    """No controller has looked at it."""
    code, answer = _relabel(guarded, _started(guarded, NEW), "tenant", "other")

    assert code == 200, answer


@pytest.mark.parametrize("who", ["tenant", CHILD.format(GUARDED)], ids=["a tenant", "the child"])
@pytest.mark.parametrize("state", [NEW, RUNNING, RETRIED], ids=["new", "running", "just retried"])
def test_all_other_writes_pass(state: tuple[str, str], who: str, guarded: World) -> None:
    """The child writes its phase, also right after a retry; a person labels, stops, suspends."""
    name = _started(guarded, state)
    patch = {
        "metadata": {"labels": {names.PHASE_LABEL: "Running", names.COMPLETED_LABEL: "false"}},
        "status": {"phase": "Running"},
    }

    code, answer = guarded.send("PATCH", guarded.path("Workflow", GUARDED, name), patch, who=who, kind=MERGE)

    assert code == 200, answer
    assert id_of(answer) == GUARDED


# ---- the fence that holds the operator to its own IDs


@pytest.mark.parametrize(
    ("components", "instance_id", "answer"),
    [((), "out", 200), ((), "metaoperator", 200), ((), "theirs", 403), (("instance-id-pinned",), "chosen", 200)],
)
def test_the_operator_takes_ids_of_its_own_off_where_it_serves_nobody(
    components: tuple[str, ...], instance_id: str, answer: int, shipped: World
) -> None:
    """Under each policy, and no others."""
    shipped.namespace("out", None)
    shipped.create("out", one_step("left", labels={INSTANCE_ID: instance_id}))
    role = ["create", "clusterrolebinding", f"operator-{instance_id}", "--clusterrole=cluster-admin"]
    shipped.kubectl(*role, "--serviceaccount=metaoperator:metaoperator")
    shipped.have(*components)

    remove = [{"op": "remove", "path": "/metadata/labels"}]
    code, told = shipped.send("PATCH", shipped.path("Workflow", "out", "left"), remove, who=OPERATOR, kind=JSON_PATCH)

    shipped.empty("out")
    assert code == answer, told
