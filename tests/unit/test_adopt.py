"""What of a hand-made install may be taken over, as the pure core decides it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaoperator.core import adopt, immutable, keepers, names, plan, takeover, ties, trial
from metaoperator.core.foreign import Foreign
from metaoperator.core.model import CONFIG_MAP, DEPLOYMENT, POD, SERVICE_ACCOUNT, Manifest, Ref
from metaoperator.core.names import Reason
from metaoperator.core.plan import Verb
from metaoperator.core.serving import Controller
from metaoperator.core.shard import Policy
from tests.unit import builders

NS = "team-a"
CHILD = Ref(DEPLOYMENT, NS, names.WORKFLOW_CONTROLLER)


def deployment(**spec: Any) -> dict[str, Any]:
    """Build the Deployment of an install as the API server shows it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": CHILD.name, "namespace": NS, "uid": "live"},
        "spec": spec,
    }


def install(**fields: Any) -> Foreign:
    """Build what was read of an install."""
    known: dict[str, Any] = {"ref": CHILD, "instance_id": NS, "sees": NS, "home": NS, "replicas": 1}
    return Foreign(**known | fields)


def refusal(*found: Foreign, live: Manifest | None = None, others: tuple[Controller, ...] = (), **more: Any) -> str:
    """Ask whether an install may be taken over."""
    asked: dict[str, Any] = {"namespace": NS, "written": "", "policy": Policy.PER_NAMESPACE} | more
    return adopt.refusal(deployment() if live is None else live, found, others, **asked)


def test_what_is_asked_is_asked_in_the_row() -> None:
    """Absent and `Never` are one."""
    assert adopt.asked({"spec": {"adopt": "Adopt"}})
    assert not any(map(adopt.asked, (None, {}, {"spec": {}}, {"spec": {"adopt": "Never"}})))


def test_nothing_there_is_nothing_to_refuse() -> None:
    """An opt-in like any other."""
    assert adopt.refusal(None, [], [], namespace=NS, written="", policy=Policy.PER_NAMESPACE) == ""


@pytest.mark.parametrize("policy", Policy)
def test_an_id_is_taken_over_under_any_policy(policy: Policy) -> None:
    """Which one is stamped is asked elsewhere, in the words of every other opt-in."""
    for instance in (NS, "blue", "metaoperator"):
        assert refusal(install(instance_id=instance), policy=policy) == ""
        assert refusal(install(instance_id=instance), policy=policy, written=instance) == ""


def test_without_an_id_an_install_goes_on_only_where_the_child_has_none() -> None:
    """Its Workflows carry none: a child with one would serve none of them."""
    none = install(instance_id="")
    assert refusal(none, policy=Policy.NONE) == ""
    for policy, written in ((Policy.PER_NAMESPACE, ""), (Policy.FLEET, ""), (Policy.NONE, "blue")):
        told = refusal(none, policy=policy, written=written)
        assert "has no instance ID" in told
        assert ("delete workflowcontroller" in told) == bool(written)


SECOND = Controller(ref=Ref(DEPLOYMENT, NS, "argo"), instance_id="x", sees=NS, alive=True)
REFUSED: dict[str, tuple[str, str]] = {
    "what runs no controller": (refusal(), "runs no workflow-controller, as far as can be told"),
    "two containers": (refusal(install(), install()), "runs 2 workflow-controllers"),
    "one of which little is known": (refusal(install(unsure="which ConfigMap?")), "which ConfigMap?"),
    "one of all namespaces": (refusal(install(sees="")), "serves all namespaces"),
    "one of another namespace": (refusal(install(sees="b")), "serves namespace b"),
    "one whose home is elsewhere": (refusal(install(home="b")), "in namespace b"),
    "one that is stopped": (refusal(install(), live=deployment(replicas=0)), "is scaled to 0"),
    "another one beside": (refusal(install(), others=(SECOND,)), "Deployment/team-a/argo as well"),
    "another ID in the row": (refusal(install(), written="blue"), "spec.instanceID is blue"),
    "an ID in capitals": (refusal(install(instance_id="Blue")), "instance ID Blue"),
    "an ID that ends in a dash": (refusal(install(instance_id="blue-")), "instance ID blue-"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_says_what_and_why(case: str) -> None:
    """In a sentence that names the object and the cure."""
    told, words = REFUSED[case]
    assert words in told
    assert len(told) > 60


def test_one_of_another_name_alone_is_told_too() -> None:
    """Whoever asks for an adoption expects one."""
    told = adopt.refusal(None, [], [SECOND], namespace=NS, written="", policy=Policy.PER_NAMESPACE)
    assert told.startswith("the workflow-controller that serves this namespace is Deployment/team-a/argo, and only")


def test_a_deployment_that_goes_is_waited_for() -> None:
    """With its finalizers, for they may keep it."""
    live = deployment()
    live["metadata"] |= {"deletionTimestamp": "now", "finalizers": ["example.com/x"]}
    assert "is being deleted (held by its finalizers example.com/x)" in refusal(install(), live=live)


# ---- who keeps an object


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({"labels": {"app.kubernetes.io/managed-by": "Helm"}}, "Helm (label app.kubernetes.io/managed-by)"),
        ({"annotations": {"meta.helm.sh/release-name": "x"}}, "Helm (annotation meta.helm.sh/release-name)"),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "x"}}, "Argo CD"),
        ({"labels": {"argocd.argoproj.io/instance": "x"}}, "Argo CD"),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}, "Flux"),
        ({"labels": {"helm.toolkit.fluxcd.io/name": "x", "app.kubernetes.io/managed-by": "Helm"}}, "Flux"),
        ({"ownerReferences": [{"kind": "Argo", "name": "x", "controller": True}]}, "Argo/x, which owns it"),
    ],
)
def test_tools_are_known_by_what_they_write(meta: dict[str, Any], words: str) -> None:
    """And how each lets go is said."""
    told = keepers.keeper({"metadata": meta})
    assert told is not None
    assert words in told
    assert told.count("take") >= 1


def test_who_has_let_go_keeps_nothing() -> None:
    """A name in managedFields stays for ever; with Argo CD's label by name it counts."""
    let_go = [{"manager": each} for each in ("helm", "argocd-controller", "kustomize-controller", "kubectl")]
    meta: dict[str, Any] = {"managedFields": let_go, "labels": {"team": "a"}, "ownerReferences": [{"name": "x"}]}
    assert keepers.keeper({"metadata": meta}) is None
    labelled = {**meta, "labels": {"app.kubernetes.io/instance": "argo"}}
    assert "Argo CD (label app.kubernetes.io/instance)" in str(keepers.keeper({"metadata": labelled}))
    people = {**labelled, "managedFields": [{"manager": "kubectl"}]}
    assert keepers.keeper({"metadata": people}) is None


# ---- its objects


def foreign(manifest: Manifest, *, manager: str = "kubectl-client-side-apply", **fields: Any) -> dict[str, Any]:
    """Store what somebody else made under the name of a rendered object."""
    live = builders.live(manifest, manager=manager)
    live["metadata"]["labels"] = {}
    live["metadata"]["annotations"] = {}
    live["metadata"]["managedFields"] = [{"manager": manager, "operation": "Update", "fieldsV1": {"f:data": {}}}]
    return live | fields


def test_faults_of_one_are_told_with_its_name() -> None:
    """And the mark of `metaoperator render`, or of this namespace, is none."""
    one = builders.config_map()
    ref = Ref.of(one)
    for uid, fault in ((trial.UID, False), (builders.UID, False), ("another", True)):
        live = foreign(one)
        live["metadata"]["annotations"] = {names.NAMESPACE_UID_ANNOTATION: uid}
        assert bool(list(takeover.faults({ref: live}, builders.UID))) == fault
    untold = foreign(one, data={"a": "b"})
    del untold["metadata"]["managedFields"]
    (told,) = takeover.faults({ref: untold}, builders.UID)
    assert str(ref) in told


def test_an_object_becomes_ours_by_one_patch_of_its_metadata() -> None:
    """Guarded by what was judged; fields of people are ours, those of Kubernetes and labels stay their writers'."""
    one = builders.config_map(data={"a": "b"})
    live = foreign(one)
    notes = {f"f:{names.LAST_APPLIED_ANNOTATION}": {}, "f:theirs": {}}
    live["metadata"]["managedFields"] = [
        {"manager": "kubectl", "fieldsV1": {"f:data": {"f:a": {}}, "f:metadata": {"f:annotations": notes}}},
        {"manager": "helm", "fieldsV1": {"f:data": {"f:z": {}}}},
        {"manager": "kube-controller-manager", "fieldsV1": {"f:secrets": {}}},
        {"manager": "kube-controller-manager", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
    ]
    meta = takeover.taking(one, live)["metadata"]
    assert (meta["uid"], meta["resourceVersion"]) == (live["metadata"]["uid"], live["metadata"]["resourceVersion"])
    assert meta["labels"] == {names.MANAGED_BY_LABEL: names.MANAGED_BY}
    assert meta["annotations"][names.NAMESPACE_UID_ANNOTATION] == builders.UID
    assert meta["annotations"][names.RENDERED_ANNOTATION] is None, "the next look has to apply"
    *others, mine = meta["managedFields"]
    assert [each["manager"] for each in others] == ["kubectl", "kube-controller-manager", "kube-controller-manager"]
    assert others[0]["fieldsV1"] == {"f:metadata": {"f:annotations": {"f:theirs": {}}}}
    last = {"f:annotations": {f"f:{names.LAST_APPLIED_ANNOTATION}": {}}}
    assert mine["fieldsV1"] == {"f:data": {"f:a": {}, "f:z": {}}, "f:metadata": last}
    assert (mine["manager"], mine["operation"]) == (names.FIELD_MANAGER, "Apply")


def test_labels_and_annotations_of_pods_stay_their_writers() -> None:
    """To take one away would restart the pods for nothing."""
    template = {"f:metadata": {"f:labels": {"f:team": {}}}, "f:spec": {"f:containers": {}}}
    live = foreign(builders.deployment())
    live["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:template": template}}}]
    other, mine = takeover.taking(builders.deployment(), live)["metadata"]["managedFields"]
    assert mine["fieldsV1"] == {"f:spec": {"f:template": {"f:spec": {"f:containers": {}}}}}
    assert other["fieldsV1"] == {"f:spec": {"f:template": {"f:metadata": {"f:labels": {"f:team": {}}}}}}


TREES = st.recursive(
    st.just({}), lambda inner: st.dictionaries(st.sampled_from(["f:a", "f:spec", "f:metadata"]), inner, max_size=3)
)


@given(st.lists(TREES, max_size=3))
def test_no_field_is_lost_or_owned_twice_by_being_taken_over(trees: list[dict[str, Any]]) -> None:
    """Whatever somebody owned is owned by somebody afterwards; what is not metadata, by us alone."""
    live = foreign(builders.config_map())
    live["metadata"]["managedFields"] = [{"manager": f"m{n}", "fieldsV1": tree} for n, tree in enumerate(trees)]
    after = takeover.taking(builders.config_map(), live)["metadata"]["managedFields"]
    ours = [leaf for each in after if each["manager"] == names.FIELD_MANAGER for leaf in leaves(each["fieldsV1"])]
    theirs = [leaf for each in after if each["manager"] != names.FIELD_MANAGER for leaf in leaves(each["fieldsV1"])]
    assert {leaf for tree in trees for leaf in leaves(tree)} <= {*ours, *theirs} | prefixes([*ours, *theirs])
    assert all(leaf[0] == "f:metadata" for leaf in theirs)


def leaves(tree: dict[str, Any], at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """List the ways to all fields that are owned as a whole."""
    if not tree:
        return [at] if at else []
    return [leaf for key, below in tree.items() for leaf in leaves(below, (*at, key))]


def prefixes(found: list[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """List what is around these fields."""
    return {each[:number] for each in found for number in range(len(each))}


def test_what_an_install_loses_is_named() -> None:
    """By name and never by value; what is the same, and what only its writer says otherwise, is not lost."""
    container = {"name": "main", "image": "i", "args": ["--a"], "env": [{"name": "A", "value": "1"}]}
    rendered = builders.deployment(containers=[container])
    mine = {**container, "args": ["--a", "--b"], "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "secret"}]}
    live = builders.live(
        builders.deployment(containers=[mine, {"name": "sidecar", "image": "x"}], volumes=[{"name": "v"}])
    )
    at = "spec.template.spec"
    assert sorted(takeover.lost(rendered, live)) == [
        f"{at}.containers[main].args --b",
        f"{at}.containers[main].env[B]",
        f"{at}.containers[sidecar]",
        f"{at}.volumes[v]",
    ]
    assert list(takeover.lost(rendered, builders.live(rendered))) == []


def test_steps_are_planned_for_what_is_not_ours_alone() -> None:
    """In place where it can be, anew where it has to be, not at all while it is being deleted; the cost is told."""
    config, child = builders.config_map(data={"a": "b"}), builders.deployment()
    there = foreign(child)
    there["spec"] = {**there["spec"], "selector": {"matchLabels": {"app": "x"}}}
    found = {Ref.of(config): foreign(config, data={"a": "c", "z": "1"}), Ref.of(child): there}
    planned = takeover.steps([config, child], found, child_is_ours=False, beside=["ServiceAccount/argo"])
    assert [step.verb for step in planned.values()] == [Verb.ADOPT, Verb.REPLACE]
    assert {step.reason for step in planned.values()} == {Reason.ADOPTED}
    assert planned[Ref.of(config)].message.endswith(
        ": taken over from kubectl-client-side-apply; no longer in it: data.z"
    )
    told = planned[Ref.of(child)].message
    assert "spec.selector cannot be changed from" in told
    assert "the controller is away until" in told
    assert told.endswith("left as they are: ServiceAccount/argo")
    there["metadata"]["deletionTimestamp"] = "now"
    (held,) = takeover.steps([child], found, child_is_ours=False, beside=()).values()
    assert (held.verb, held.reason) == (Verb.HOLD, Reason.REMOVING)


def test_an_account_is_taken_over_only_before_the_child_is_ours() -> None:
    """Whoever may make one later would otherwise be given a controller's rights."""
    account = builders.rendered({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}})
    found = {Ref.of(account): foreign(account)}
    (before,) = takeover.steps([account], found, child_is_ours=False, beside=()).values()
    (after,) = takeover.steps([account], found, child_is_ours=True, beside=()).values()
    assert before.verb is Verb.ADOPT
    assert (after.verb, after.reason, after.uid) == (Verb.HOLD, Reason.CONFLICT, ""), "nothing is begun on it"
    assert "spec.adopt" not in after.message, "it says so already"


def test_a_volume_claim_is_not_made_anew() -> None:
    """What holds data is a person's to delete."""
    claim = builders.rendered(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {"volumeName": "a"}}
    )
    there = foreign(claim, spec={"volumeName": "b"})
    (step,) = takeover.steps([claim], {Ref.of(claim): there}, child_is_ours=False, beside=()).values()
    assert (step.verb, step.reason) == (Verb.HOLD, Reason.IMMUTABLE)
    assert immutable.change(claim, there) is not None


# ---- in the plan


def test_a_plan_takes_over_what_it_is_told_and_tells_of_the_way_where_it_is_not() -> None:
    """What is ours by then is an object like any other."""
    one = builders.config_map(data={"a": "b"})
    ref, there = Ref.of(one), foreign(one)
    steps = takeover.steps([one], {ref: there}, child_is_ours=False, beside=())

    def verb(observed: dict[Ref, Manifest], **more: Any) -> plan.Step:
        (step,) = plan.build([one], observed, namespace_uid=builders.UID, answers={}, **more)
        return step

    assert verb({}, adoptions=steps).verb is Verb.ADOPT
    assert verb({ref: there}, adoptions=steps).verb is Verb.ADOPT
    assert verb({ref: builders.live(one)}, adoptions=steps).verb is Verb.KEEP
    assert "spec.adopt: Adopt" in verb({ref: there}).message


def test_pods_that_were_taken_over_stay_untied_while_they_are_what_is_rendered() -> None:
    """Another revision, another ReplicaSet, or none of its pods: tied."""
    manifest = builders.deployment(serviceAccountName="w")
    live = builders.live(manifest)
    account: dict[str, Any] = {
        "metadata": {"uid": "u", "annotations": {names.ADOPTED_ANNOTATION: "workflow-controller-1"}}
    }
    observed: dict[Ref, Manifest] = {Ref(SERVICE_ACCOUNT, NS, "w"): account}
    assert ties.run_on(manifest, live, observed, [pod("workflow-controller-1")])
    for pods in ([], [pod("workflow-controller-2")], [pod("workflow-controller-1", deletionTimestamp="now")]):
        assert not ties.run_on(manifest, live, observed, pods)
    assert not ties.run_on(manifest, live, {}, [pod("workflow-controller-1")])
    other = builders.deployment(serviceAccountName="w", hostname="x")
    assert not ties.run_on(other, live, observed, [pod("workflow-controller-1")])
    tied = ties.tied(manifest, observed)
    assert not ties.run_on(tied, builders.live(tied), observed, [pod("workflow-controller-1")])
    assert Ref.of(manifest).kind == DEPLOYMENT
    assert ties.tied(builders.config_map(), observed)["kind"] == CONFIG_MAP.kind


def pod(owner: str, **meta: Any) -> Manifest:
    """Build a pod of a ReplicaSet."""
    owners = [{"kind": "ReplicaSet", "name": owner}]
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": {"name": "p", "ownerReferences": owners} | meta,
    }
