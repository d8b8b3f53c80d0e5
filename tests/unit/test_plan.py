"""Plans: what is created, applied, kept, pruned and held; what is not ours is never touched."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaoperator.core import drift, names, ownership, plan
from metaoperator.core.model import DEPLOYMENT, LEASE, ROLE_BINDING, SERVICE_ACCOUNT, Manifest, Ref
from metaoperator.core.names import Reason
from metaoperator.core.plan import Step, Verb
from tests.unit.builders import TEXT, UID, config_map, deployment, live, namespace, rendered

LEASE_REF = Ref(LEASE, "team-a", "workflow-controller-team-a")


def observed(*objects: Manifest) -> dict[Ref, Manifest]:
    """Index live objects as the informers do."""
    return {Ref.of(each): each for each in objects}


def build(
    desired: Iterable[Manifest], *objects: Manifest, answers: drift.Answers | None = None, uid: str = UID
) -> tuple[Step, ...]:
    """Plan against these live objects."""
    return plan.build(list(desired), observed(*objects), namespace_uid=uid, answers=answers or {})


def step(desired: Manifest, found: Manifest, answers: drift.Answers | None = None) -> Step:
    """Plan one object that is there."""
    (only,) = build([desired], found, answers=answers)
    return only


def told(steps: Iterable[Step]) -> list[tuple[str, str]]:
    """Shorten steps to verb and object."""
    return [(each.verb.value, str(each.ref)) for each in steps]


def changed(manifest: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Copy a manifest with one field set; `...` takes the field away."""
    copied = copy.deepcopy(dict(manifest))
    *parents, last = path.split("/")
    below: Any = copied
    for part in parents:
        below = below[int(part)] if isinstance(below, list) else below.setdefault(part, {})
    if value is ...:
        del below[last]
    elif isinstance(below, list):
        below[int(last)] = value
    else:
        below[last] = value
    return copied


# One object


def test_what_is_not_there_is_created() -> None:
    """The step carries the manifest to create."""
    wanted = config_map()
    (only,) = build([wanted])
    assert only == Step(verb=Verb.CREATE, ref=Ref.of(wanted), reason=Reason.CREATED, manifest=wanted)


def test_what_was_just_applied_is_kept() -> None:
    """No write without a difference."""
    wanted = config_map(data={"a": "x"})
    assert step(wanted, live(wanted)) == Step(verb=Verb.KEEP, ref=Ref.of(wanted), reason=Reason.SETTLED, uid="live-1")


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("data/a", "y", "data.a"),
        ("data/a", ..., "data.a"),
        ("data", ..., "data.a"),
        ("metadata/labels/team", "b", "metadata.labels.team"),
        ("spec/replicas", 2, "spec.replicas"),
        ("spec/on", 1, "spec.on"),
        ("spec/args/0", "y", "spec.args[0]"),
        ("spec/args", ["x", "z"], "spec.args"),
        ("spec/args", ["z", "x"], "spec.args"),
    ],
)
def test_a_field_of_ours_that_somebody_changed_is_drift(path: str, value: Any, named: str) -> None:
    """Put back, with the field's name in the message and the object's UID as guard."""
    wanted = rendered(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "one", "labels": {"team": "a"}},
            "data": {"a": "x"},
            "spec": {"replicas": 1, "on": True, "args": ["x"]},
        }
    )
    assert step(wanted, changed(live(wanted), path, value)) == Step(
        verb=Verb.APPLY,
        ref=Ref.of(wanted),
        reason=Reason.DRIFT,
        message=f"ConfigMap/team-a/one: {named}",
        manifest=wanted,
        uid="live-1",
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata/labels/theirs", "x"),
        ("metadata/annotations/theirs", "x"),
        ("metadata/finalizers", ["theirs/finalizer"]),
        ("metadata/ownerReferences", [{"name": "x"}]),
        ("status", {"replicas": 3}),
        ("spec/revisionHistoryLimit", 10),
        ("spec/template/spec/containers/0/terminationMessagePath", "/dev/termination-log"),
        ("spec/template/spec/containers/0/env", [{"name": "X", "value": "y"}]),
    ],
)
def test_what_others_add_is_no_drift(path: str, value: Any) -> None:
    """Defaults of the API server and other managers' fields stay as they are."""
    wanted = deployment()
    assert step(wanted, changed(live(wanted), path, value)).verb is Verb.KEEP


MAIN = {"name": "main", "image": "i"}
SIDECAR = {"name": "sidecar", "image": "s"}
EVE = {"kind": "User", "name": "eve"}
CHILD = {"kind": "ServiceAccount", "name": "child"}


@pytest.mark.parametrize(
    ("field", "wanted", "found", "apart"),
    [
        # Lists of which several managers own an item each
        ("containers", [MAIN], [MAIN, SIDECAR], []),
        ("containers", [MAIN], [SIDECAR, MAIN], []),
        ("containers", [MAIN], [SIDECAR], ["containers[main].name", "containers[main].image"]),
        ("containers", [MAIN, SIDECAR], [SIDECAR, MAIN], []),
        ("containers", [MAIN], [{**MAIN, "image": "j"}], ["containers[main].image"]),
        ("containers", [MAIN], None, ["containers[main].name", "containers[main].image"]),
        ("env", [{"name": "A", "value": "1"}], [{"name": "B"}, {"name": "A", "value": "1"}], []),
        ("env", [{"name": "A", "value": "1"}], [{"name": "A", "valueFrom": {}}], ["env[A].value"]),
        ("volumeMounts", [{"mountPath": "/a"}], [{"mountPath": "/b"}, {"mountPath": "/a"}], []),
        ("ports", [{"containerPort": 1}], [{"containerPort": 1, "protocol": "TCP"}, {"containerPort": 2}], []),
        ("ports", [{"port": 1}, {"port": 2}], [{"port": 2}, {"port": 1}], []),
        ("imagePullSecrets", [{"name": "a"}], [{"name": "b"}, {"name": "a"}], []),
        # Lists that are one manager's as a whole
        ("subjects", [CHILD], [CHILD], []),
        ("subjects", [CHILD], [CHILD, EVE], ["subjects"]),
        ("subjects", [CHILD], [EVE], ["subjects[0].kind", "subjects[0].name"]),
        ("subjects", [CHILD], [{**CHILD, "namespace": "team-a"}], []),
        ("tolerations", [{"key": "a"}], [{"key": "a"}, {"key": "b"}], ["tolerations"]),
        ("matchExpressions", [{"key": "a"}], [{"key": "b"}, {"key": "a"}], ["matchExpressions"]),
        ("args", ["x", "y"], ["y", "x"], ["args[0]", "args[1]"]),
        ("args", ["x"], ["x", "y"], ["args"]),
        ("args", ["x"], None, ["args"]),
        # Items whose key is no key
        ("ports", [{"port": {"name": "a"}}], [{"port": {"name": "a"}}], []),
        ("ports", [{"port": 53}, {"port": 53}], [{"port": 53}, {"port": 53}], []),
        # Empty equals absent
        ("emptyDir", {}, None, []),
        ("podAnnotations", {"a": {}}, None, []),
        ("tolerations", [], None, []),
        # Values
        ("n", 1, 1.0, []),
        ("n", 1, True, ["n"]),
        ("n", 0, False, ["n"]),
        ("n", 0, None, ["n"]),
        ("n", "1", 1, ["n"]),
        ("n", "", None, ["n"]),
        ("n", {"a": "x"}, "text", ["n.a"]),
        ("n", ["x"], {"0": "x"}, ["n"]),
    ],
)
def test_differences_name_the_leaves_that_are_not_as_rendered(
    field: str, wanted: Any, found: Any, apart: list[str]
) -> None:
    """Lists that the API server merges by their key, all others whole."""
    assert [path for path, _ in drift.differences({field: wanted}, {field: found})] == apart


def test_a_field_that_is_no_longer_rendered_is_a_change() -> None:
    """Nothing that we could compare differs but the digest, and only an apply takes the field away."""
    before, after = config_map(data={"a": "x", "b": "y"}), config_map(data={"a": "x"})
    only = step(after, live(before))
    assert (only.verb, only.reason) == (Verb.APPLY, Reason.CHANGED)
    assert only.message == "ConfigMap/team-a/one: fields no longer rendered"


def test_a_message_names_five_fields_at_most() -> None:
    """A changed ConfigMap of a hundred keys is told in one line."""
    before, after = ({f"k{n}": value for n in range(7)} for value in "xy")
    only = step(config_map(data=after), live(config_map(data=before)))
    assert only.message == "ConfigMap/team-a/one: data.k0, data.k1, data.k2, data.k3, data.k4 …"


# What an apply answered


def test_a_difference_that_an_apply_did_not_end_is_not_applied_again() -> None:
    """Defaulting says `500m` for `0.5`: what the API server made of these bytes is in sync."""
    wanted = config_map(data={"cpu": "0.5"})
    found = changed(live(wanted), "data/cpu", "500m")
    answers = {Ref.of(wanted): drift.answer(wanted, found)}
    assert step(wanted, found).verb is Verb.APPLY
    assert step(wanted, found, answers).verb is Verb.KEEP


@pytest.mark.parametrize("path", ["data/cpu", "data/other"])
def test_an_answer_holds_for_that_difference_only(path: str) -> None:
    """Another value in the same field, or another field, is drift again."""
    wanted = config_map(data={"cpu": "0.5", "other": "x"})
    found = changed(live(wanted), "data/cpu", "500m")
    answers = {Ref.of(wanted): drift.answer(wanted, found)}
    assert step(wanted, changed(found, path, "999"), answers).verb is Verb.APPLY


def test_an_answer_holds_for_those_bytes_only() -> None:
    """Newly rendered bytes are applied, whatever was answered to the ones before."""
    before, after = config_map(data={"cpu": "0.5"}), config_map(data={"cpu": "0.5"}, more="x")
    found = changed(live(before), "data/cpu", "500m")
    assert step(after, found, {Ref.of(before): drift.answer(before, found)}).verb is Verb.APPLY


# Not ours

FOREIGN: dict[str, tuple[str, Any]] = {
    "no label": ("labels", {"team": "a"}),
    "another label": ("labels", {names.MANAGED_BY_LABEL: "helm"}),
    "no labels": ("labels", None),
    "no UID": ("annotations", {"note": "x"}),
    "no annotations": ("annotations", None),
    "another namespace's or time's UID": ("annotations", {names.NAMESPACE_UID_ANNOTATION: "uid-of-another"}),
    "another manager": ("managedFields", [{"manager": "kubectl"}]),
    "no managers": ("managedFields", None),
}


def foreign(wanted: Manifest, case: str) -> dict[str, Any]:
    """Take one part of our mark off a live object."""
    field, value = FOREIGN[case]
    found = live(wanted)
    found["metadata"][field] = value
    return found


@pytest.mark.parametrize("case", FOREIGN)
@pytest.mark.parametrize("terminating", [False, True], ids=["there", "terminating"])
def test_what_is_not_ours_is_held_and_never_applied(case: str, *, terminating: bool) -> None:
    """Each part of the mark counts: an object that lacks one is a conflict, told with who wrote it."""
    wanted = config_map(data={"a": "x"})
    found = foreign(config_map(data={"a": "theirs"}), case)
    if terminating:
        found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    only = step(wanted, found)
    assert (only.verb, only.reason, only.manifest, only.uid) == (Verb.HOLD, Reason.CONFLICT, None, "")
    writers = {"another manager": "kubectl", "no managers": "somebody else"}.get(case, "metaoperator")
    assert f"(written by {writers})" in only.message


@pytest.mark.parametrize("case", FOREIGN)
def test_what_is_not_ours_is_never_pruned(case: str) -> None:
    """Neither while the namespace is served nor on the way out."""
    found = foreign(config_map(), case)
    assert build([], found) == ()
    steps = plan.removal(observed(found), namespace_uid=UID, lease=None, pods=[])
    assert steps == ()


def test_a_copy_of_our_object_that_looks_like_ours_stays() -> None:
    """Somebody copied our manifest, label and all, into another namespace (report R25)."""
    copied = live(rendered({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "copied"}}))
    copied["metadata"]["namespace"] = "team-b"
    assert build([], copied, uid="uid-of-team-b") == ()


# The whole plan


def test_what_is_no_longer_rendered_is_pruned_last_and_in_order() -> None:
    """Desired documents in their order first, then prunes sorted, each with its object's UID as guard."""
    stay, gone, older = config_map("stay"), config_map("gone"), config_map("a-gone")
    steps = build([deployment(), stay], live(stay), live(gone, uid="g"), live(older, uid="o"))
    assert told(steps) == [
        ("create", "Deployment/team-a/workflow-controller"),
        ("keep", "ConfigMap/team-a/stay"),
        ("prune", "ConfigMap/team-a/a-gone"),
        ("prune", "ConfigMap/team-a/gone"),
    ]
    assert [each.uid for each in steps[2:]] == ["o", "g"]


def test_what_is_being_deleted_is_waited_for() -> None:
    """Ours and wanted: made anew once it is gone. Ours and unwanted: on its way already."""
    dying = changed(live(config_map()), "metadata/deletionTimestamp", "2026-01-01T00:00:00Z")
    only = step(config_map(), dying)
    assert (only.verb, only.reason) == (Verb.HOLD, Reason.REMOVING)
    assert build([], dying) == ()


def test_the_order_of_what_is_observed_does_not_show() -> None:
    """Plans are deterministic."""
    objects = [live(config_map(name)) for name in "cab"]
    assert build([config_map("x")], *objects) == build([config_map("x")], *reversed(objects))


TREES = st.recursive(
    TEXT | st.integers() | st.booleans(),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=8,
)
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("pqrs"), "image": TEXT, "args": st.lists(TEXT, max_size=2)}),
    max_size=3,
    unique_by=lambda item: item["name"],
)
SERVER_FIELD = "addedByTheServer"


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    """Make a rendered object with a few containers and fields of any shape."""
    spec = draw(st.dictionaries(st.sampled_from("abcd"), TREES, max_size=3))
    spec["containers"] = draw(CONTAINERS)
    kind = draw(st.sampled_from(["ConfigMap", "Deployment"]))
    name = draw(st.sampled_from(["one", "two"]))
    return rendered({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec})


def with_defaults(value: Any) -> Any:
    """Add to each mapping what a server might: it never changes what was sent."""
    if isinstance(value, Mapping):
        return {key: with_defaults(item) for key, item in value.items()} | {SERVER_FIELD: {"x": [1]}}
    if isinstance(value, list):
        return [with_defaults(item) for item in value]
    return value


@given(desired=st.lists(manifests(), max_size=4, unique_by=Ref.of), injected=st.booleans())
def test_planning_what_was_just_applied_keeps_everything(desired: list[Manifest], *, injected: bool) -> None:
    """Whatever was rendered, and whatever a server and an injector added: the second pass writes nothing."""
    stored = []
    for manifest in desired:
        found = live(manifest)
        if "spec" in found:
            found["spec"] = with_defaults(found["spec"])
            if injected and "containers" in found["spec"]:
                found["spec"]["containers"].insert(0, {"name": "injected"})
        stored.append(found)
    assert {each.verb for each in build(desired, *stored)} <= {Verb.KEEP}


@given(manifests(), manifests())
def test_other_bytes_are_always_applied(one: Manifest, two: Manifest) -> None:
    """What was rendered anew is not taken for settled, however little differs."""
    two = {**two, "kind": one["kind"], "metadata": {**two["metadata"], "name": one["metadata"]["name"]}}
    two = rendered({**two, "metadata": {"name": two["metadata"]["name"]}})
    wanted = rendered({**one, "metadata": {"name": one["metadata"]["name"]}})
    same = ownership.rendered_digest(wanted) == ownership.rendered_digest(two)
    assert (step(wanted, live(two)).verb is Verb.KEEP) == same == (wanted == two)


# The way out


def removal(*objects: Manifest, lease: bool = True, pods: Iterable[str] = ()) -> tuple[Step, ...]:
    """Plan a drained namespace's way out."""
    return plan.removal(
        observed(*objects), namespace_uid=UID, lease=(LEASE_REF, "lease-uid") if lease else None, pods=list(pods)
    )


DYING = changed(live(deployment()), "metadata/deletionTimestamp", "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("objects", "lease", "pods", "steps"),
    [
        pytest.param(
            [live(deployment()), live(config_map())],
            True,
            ["Pod/team-a/p"],
            [("prune", "Deployment/team-a/workflow-controller"), ("hold", "ConfigMap/team-a/one")],
            id="the Deployment first",
        ),
        pytest.param(
            [DYING, live(config_map())],
            True,
            ["Pod/team-a/p"],
            [("hold", "Deployment/team-a/workflow-controller"), ("hold", "ConfigMap/team-a/one")],
            id="while it goes, nothing else",
        ),
        pytest.param(
            [live(config_map())],
            True,
            ["Pod/team-a/p"],
            [("hold", "ConfigMap/team-a/one")],
            id="while a pod lives, nothing else",
        ),
        pytest.param(
            [live(config_map()), live(config_map("two"))],
            True,
            [],
            [
                ("prune", "Lease/team-a/workflow-controller-team-a"),
                ("prune", "ConfigMap/team-a/one"),
                ("prune", "ConfigMap/team-a/two"),
            ],
            id="then the Lease, and then what proves that it was our child's",
        ),
        pytest.param(
            [live(config_map()), changed(live(config_map("two")), "metadata/deletionTimestamp", "x")],
            False,
            [],
            [("prune", "ConfigMap/team-a/one"), ("hold", "ConfigMap/team-a/two")],
            id="what is being deleted is waited for",
        ),
        pytest.param(
            [], True, ["Pod/team-a/p"], [("hold", "Lease/team-a/workflow-controller-team-a")], id="a pod that lingers"
        ),
        pytest.param([], False, [], [], id="nothing is left"),
    ],
)
def test_a_child_leaves_in_an_order_that_survives_an_interruption(
    *,
    objects: list[Manifest],
    lease: bool,
    pods: list[str],
    steps: list[tuple[str, str]],
) -> None:
    """Deployment, its pods, the Lease, the rest: what stays is the proof that more is to be done."""
    assert told(removal(*objects, lease=lease, pods=pods)) == steps


@pytest.mark.parametrize("work", [True, False], ids=["work", "no work"])
def test_a_companion_goes_at_once_and_takes_nothing_of_the_child_along(work: bool) -> None:  # noqa: FBT001
    """No Workflow waits for an argo-server; a child that is no longer rendered stays while there is work."""
    server, own = live(changed(deployment(), "metadata/name", names.ARGO_SERVER)), live(config_map(names.ARGO_SERVER))
    there = observed(live(deployment()), server, own)
    steps = plan.build([deployment()], there, namespace_uid=UID, answers={}, work=work)
    verbs = {each.ref: each.verb for each in steps}
    assert {verbs[Ref.of(each)] for each in (server, own)} == {Verb.PRUNE}
    steps = plan.build([], there, namespace_uid=UID, answers={}, work=work)
    named = {each.ref.name: each.verb for each in steps if each.ref.kind == DEPLOYMENT}
    assert named[names.WORKFLOW_CONTROLLER] is (Verb.HOLD if work else Verb.PRUNE)


def test_a_step_on_the_way_out_says_what_it_waits_for() -> None:
    """The message names Deployment and pods."""
    held = removal(DYING, live(config_map()), pods=["Pod/team-a/p2", "Pod/team-a/p1"])
    assert {each.message for each in held} == {
        "waits for Deployment/team-a/workflow-controller, Pod/team-a/p1, Pod/team-a/p2 to be gone"
    }


def test_removal_by_steps_ends_with_nothing_and_never_loses_the_proof() -> None:
    """Interrupted after any step, the next look still sees something of ours as long as anything is left."""
    there: dict[Ref, Manifest] = observed(live(deployment()), live(config_map()), live(config_map("two")))
    pods, lease, gone = ["Pod/team-a/p"], True, []
    for _ in range(20):
        steps = plan.removal(there, namespace_uid=UID, lease=(LEASE_REF, "lease-uid") if lease else None, pods=pods)
        first = next((each for each in steps if each.verb is Verb.PRUNE), None)
        if first is None and not pods:
            break
        if first is None:
            pods = []  # the kubelet got round to it
            continue
        gone.append(first.ref.kind.kind)
        there.pop(first.ref, None)
        lease = lease and first.ref != LEASE_REF
        assert there or not (pods or lease)
    assert gone == ["Deployment", "Lease", "ConfigMap", "ConfigMap"]
    assert not there


def test_rights_go_before_the_account_that_has_them() -> None:
    """Where the namespace leaves, whoever takes the account's name finds no RoleBinding for it."""
    there = [
        live(config_map(names.WORKFLOW_CONTROLLER, apiVersion=kind.api_version, kind=kind.kind))
        for kind in (SERVICE_ACCOUNT, ROLE_BINDING)
    ]
    gone = [each.ref.kind for each in removal(*there, lease=False)]
    assert gone == [ROLE_BINDING, SERVICE_ACCOUNT]


def test_whose_an_object_is_depends_on_the_incarnation_of_its_namespace() -> None:
    """The same object is ours under one UID and not under the next."""
    found = live(config_map())
    assert ownership.is_ours(found, UID)
    assert not ownership.is_ours(found, namespace(uid="next").uid)


def put_right(rendered: Mapping[str, Any], live: Mapping[str, Any]) -> Any:
    """Compose the patch for a Deployment's pod spec."""
    return drift.lists_at_odds({"spec": rendered}, {"spec": live}).get("spec")


CONTAINER = {
    "name": "c",
    "image": "i:1",
    "env": [{"name": "A", "value": "1"}],
    "ports": [{"name": "m", "containerPort": 1}],
}


@pytest.mark.parametrize(
    ("rendered", "live", "patch"),
    [
        pytest.param([CONTAINER], [CONTAINER, {"name": "sidecar", "image": "s:1"}], None, id="a sidecar is no drift"),
        pytest.param(
            [CONTAINER],
            [{**CONTAINER, "image": "other"}, {"name": "sidecar", "image": "s:1"}],
            [CONTAINER, {"name": "sidecar", "image": "s:1"}],
            id="a sidecar stays",
        ),
        pytest.param(
            [CONTAINER],
            [{**CONTAINER, "image": "other", "env": [{"name": "A", "value": "1"}, {"name": "THEIRS", "value": "x"}]}],
            [{**CONTAINER, "env": [{"name": "A", "value": "1"}, {"name": "THEIRS", "value": "x"}]}],
            id="another's variable in our container stays",
        ),
        pytest.param(
            [CONTAINER],
            [{**CONTAINER, "ports": [{"name": "m", "containerPort": 2, "protocol": "UDP"}], "tty": True}],
            [{**CONTAINER, "tty": True}],
            id="a port of ours is put in place whole, another's field of the container stays",
        ),
        pytest.param(
            [CONTAINER],
            [{**CONTAINER, "env": [{"name": "A", "valueFrom": {"fieldRef": {}}}]}],
            [CONTAINER],
            id="a variable of ours that was edited into another kind is put in place whole",
        ),
        pytest.param(
            [CONTAINER],
            [{"name": "sidecar", "image": "s:1"}],
            [CONTAINER, {"name": "sidecar", "image": "s:1"}],
            id="a container that is gone comes back",
        ),
    ],
)
def test_what_is_put_right_in_a_keyed_list_is_ours_only(rendered: Any, live: Any, patch: Any) -> None:
    """Others' items stay at every depth; an item of ours holds what we render, and no mixture with what was edited."""
    found = put_right({"containers": rendered}, {"containers": live})
    assert found == (None if patch is None else {"containers": patch})


def test_a_volume_edited_into_another_kind_is_put_in_place_whole() -> None:
    """Two sources in one volume are invalid; the volumes of others stay."""
    theirs = {"name": "theirs", "emptyDir": {}}
    live = {"volumes": [{"name": "tmp", "hostPath": {"path": "/"}}, theirs]}
    assert put_right({"volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory"}}]}, live) == {
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory"}}, theirs]
    }
