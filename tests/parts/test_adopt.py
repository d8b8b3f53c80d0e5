"""The whole operator and hand-made installs: taken over whole, with their ID and their pods, or left alone whole."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from metaoperator import sources
from metaoperator.core import names, shard, unified
from metaoperator.core.model import Desired, Namespace
from metaoperator.core.render import Program
from tests.fake import FakeApiServer

from .test_overlap import may_list
from .test_preview import foretell, without_account
from .test_replaced import dies_at
from .world import ARGO, SIX, World

NAME, CONFIG = "workflow-controller", "workflow-controller-configmap"
HAND = "kubectl-client-side-apply"
KEPT = {kind: name for kind, name in SIX if kind != "RoleBinding"}
RBAC = "rbac.authorization.k8s.io/v1"


def rendered(world: World, instance: str) -> Desired:
    """Render what the operator would, for a namespace that is there."""
    live = world.server.get("Namespace", None, "team-a")
    assert live is not None
    (program,) = [
        each for name, each in sources.programs((sources.shipped(),)).items() if name == "workflow-controller"
    ]
    assert isinstance(program, Program)
    return program.desired(
        Namespace.of(live),
        shard.only_shard(instance),
        template_name="default",
        fleet_values={},
        namespace_values={},
    )


def by_hand(world: World, manifest: Any) -> dict[str, Any]:
    """Apply a manifest as `kubectl apply` does, without any mark of ours."""
    body = json.loads(json.dumps(manifest))
    meta = body["metadata"]
    meta.get("labels", {}).pop(names.MANAGED_BY_LABEL, None)
    meta["annotations"] = {
        key: value for key, value in (meta.get("annotations") or {}).items() if not key.startswith(names.GROUP)
    }
    meta["annotations"][names.LAST_APPLIED_ANNOTATION] = "{}"
    return world.server.create(body, manager=HAND)


def the_same(world: World, instance: str = "team-a") -> None:
    """Install by hand what the operator would render, pods and all; the labels of people are on it."""
    world.namespace("team-a")
    for document in rendered(world, instance).documents:
        labels = {**(document["metadata"].get("labels") or {}), "team": "a"}
        by_hand(world, {**document, "metadata": {**document["metadata"], "labels": labels}})


def stock(world: World, instance: str = "team-a", *args: str, **spec: Any) -> None:
    """Install Argo's own namespaced manifests."""
    world.namespace("team-a")
    data = {"parallelism": "5"} | ({"instanceID": instance} if instance else {})
    may_list(world, "team-a", "argo")
    world.make("ServiceAccount", "team-a", "argo")
    by_hand(world, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(CONFIG), "data": data})
    for name, subject in (("argo-binding", "argo"), (NAME, "argo")):
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "argo-role"}
        subjects = [{"kind": "ServiceAccount", "name": subject}]
        body = {"apiVersion": RBAC, "kind": "RoleBinding", "metadata": _meta(name), "roleRef": role}
        by_hand(world, {**body, "subjects": subjects})
    container = {
        "name": NAME,
        "image": "quay.io/argoproj/workflow-controller:v4.0.5",
        "command": ["workflow-controller"],
        "args": ["--namespaced", *args],
        "env": [{"name": "THEIRS", "value": "x"}],
    }
    labels = {"app": NAME}
    pod = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": "argo", "containers": [container]}}
    deployment = {"selector": {"matchLabels": labels}, "template": pod, "replicas": 1} | spec
    by_hand(world, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _meta(NAME), "spec": deployment})


def _meta(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": "team-a"}


def row(world: World, **spec: Any) -> None:
    """Write the WorkflowController before the opt-in, as the platform does."""
    meta = {"name": NAME, "namespace": "team-a"}
    body = {"apiVersion": names.API_VERSION, "kind": "WorkflowController", "metadata": meta}
    world.server.create({**body, "spec": {"adopt": "Adopt"} | spec}, manager="kubectl")


def uids(server: FakeApiServer) -> dict[tuple[str, str], str]:
    """Take the UID of each of the six objects that is there, and of the pods."""
    found = {(kind, name): server.get(kind, "team-a", name) for kind, name in SIX}
    pods = {("Pod", pod["metadata"]["name"]): pod for pod in server.select("Pod", "team-a")}
    return {key: live["metadata"]["uid"] for key, live in (found | pods).items() if live is not None}


def get(server: FakeApiServer, kind: str, name: str) -> dict[str, Any]:
    """Read an object that has to be there."""
    found = server.get(kind, "team-a", name)
    assert found is not None, (kind, name)
    return found


def told(world: World) -> str:
    """Read all that Events say of what was taken over."""
    return " ".join(event["note"] for event in world.events("Adopted"))


# Taken over


async def test_an_install_like_ours_goes_on_with_its_pod(world: World, server: FakeApiServer) -> None:
    """Each object keeps its UID, and so does the pod; a look ahead said so; then nothing is written any more."""
    the_same(world)
    async with world.nature():
        await world.until(lambda: server.select("Pod", "team-a"))
        before = uids(server)
        row(world)
        found = await foretell(world)
        assert {change.what for change in found.changes if change.ref.kind.kind != "WorkflowController"} == {"adopted"}
        assert found.stalled == ""
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        assert uids(server) == before
        assert world.whole("team-a")
        await asyncio.sleep(60)
        server.audit.clear()
        await asyncio.sleep(4000)
        assert world.writes() == []
        assert uids(server) == before
    for change in found.changes:
        if change.ref.kind.kind in KEPT:
            assert change.write is not None
            assert change.write.after is not None
            live = get(server, change.ref.kind.kind, change.ref.name)
            assert unified.diff(change.ref, change.write.after, live) == ""
            assert live["metadata"]["labels"]["team"] == "a"
            assert names.LAST_APPLIED_ANNOTATION not in live["metadata"]["annotations"]
    assert told(world).count(f"taken over from {HAND}") == len(SIX)


async def test_pods_that_were_taken_over_are_tied_with_the_next_revision(world: World, server: FakeApiServer) -> None:
    """As long as nothing differs they run untied; a drift of the template is put right without a tie as well."""
    the_same(world)
    row(world)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        (pod,) = server.select("Pod", "team-a")
        account = get(server, "ServiceAccount", NAME)
        (owner,) = pod["metadata"]["ownerReferences"]
        assert account["metadata"]["annotations"][names.ADOPTED_ANNOTATION] == owner["name"]
        patch = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 9}}}}
        server.patch("Deployment", "team-a", NAME, patch, manager="kubectl-edit")
        await world.until(lambda: template(server)["spec"]["terminationGracePeriodSeconds"] == 2)
        assert names.ACCOUNT_ANNOTATION not in template(server)["metadata"]["annotations"]
        world.spec("team-a", values={"workers": {"workflow": 7}})
        await world.until(lambda: names.ACCOUNT_ANNOTATION in template(server)["metadata"]["annotations"])
        assert template(server)["metadata"]["annotations"][names.ACCOUNT_ANNOTATION] == account["metadata"]["uid"]
        await world.until(lambda: world.ready("team-a"))


def template(server: FakeApiServer) -> dict[str, Any]:
    """Read the child's pod template."""
    return get(server, "Deployment", NAME)["spec"]["template"]  # type: ignore[no-any-return]


async def test_pods_that_were_taken_over_are_tied_once_they_are_gone(world: World, server: FakeApiServer) -> None:
    """A node died: the pods that follow are new ones anyway."""
    the_same(world)
    row(world)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        (pod,) = server.select("Pod", "team-a")
        await world.controller.switch_off()
        server.delete("Pod", "team-a", pod["metadata"]["name"])
        await world.until(lambda: names.ACCOUNT_ANNOTATION in template(server)["metadata"]["annotations"])
        world.controller.switch_on()
        await world.until(lambda: world.ready("team-a"))


async def test_argos_own_install_is_replaced_where_it_has_to_be(world: World, server: FakeApiServer) -> None:
    """Deployment and roleRef are made anew, the ConfigMap is taken over and holds nothing of before."""
    stock(world, "blue")
    pinned(world)
    async with world.nature():
        await world.until(lambda: server.select("Pod", "team-a"))
        before = uids(server)
        row(world)
        found = await foretell(world)
        whats = {(change.ref.kind.kind, change.ref.name): change.what for change in found.changes}
        assert whats == {
            ("ConfigMap", CONFIG): "adopted",
            ("Deployment", NAME): "replaced",
            ("RoleBinding", NAME): "replaced",
            ("RoleBinding", "workflow-executor"): "created",
            ("Service", "workflow-controller-metrics"): "created",
            ("ServiceAccount", NAME): "created",
            ("WorkflowController", NAME): "changed",
        }
    alive: list[int] = []
    watch_births(server, alive)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"), 120)
        await asyncio.sleep(200)
        assert world.whole("team-a")
        assert world.condition("team-a") == ("True", "Leading")
    after = uids(server)
    same = {key for key in before if before[key] == after.get(key)}
    assert same == {("ConfigMap", CONFIG)}
    assert alive == [0], "the new Deployment was made while a pod of the old one was there"
    assert get(server, "WorkflowController", NAME)["spec"]["instanceID"] == "blue"
    (document,) = [each for each in rendered(world, "blue").documents if each["kind"] == "ConfigMap"]
    assert get(server, "ConfigMap", CONFIG)["data"] == document["data"]
    assert "no longer in it: data.instanceID, data.parallelism" in told(world)
    assert "spec.selector cannot be changed from" in told(world)
    assert "the controller is away until its pods have ended" in told(world)
    left = "left as they are: RoleBinding/argo-binding (to Role argo-role), ServiceAccount/argo"
    assert told(world).count(left) == 1
    assert get(server, "RoleBinding", "argo-binding")["metadata"]["managedFields"][0]["manager"] == HAND
    for change in found.changes:
        if change.what in {"adopted", "replaced"}:
            assert change.write is not None
            assert change.write.after is not None
            shown = without_account(unified.shown(change.write.after))
            assert shown == without_account(unified.shown(get(server, change.ref.kind.kind, change.ref.name)))


def pinned(world: World) -> None:
    """Install the policy that stamps what WorkflowControllers say."""
    meta = {"name": names.STAMPING_PINNED}
    for kind in ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"):
        api = "admissionregistration.k8s.io/v1"
        if world.server.get(kind, None, names.STAMPING_PINNED) is None:
            world.server.create({"apiVersion": api, "kind": kind, "metadata": meta, "spec": {}}, manager="kubectl")


def watch_births(server: FakeApiServer, alive: list[int]) -> None:
    """Count the pods that are there whenever a Deployment is made."""

    def notice(kind: Any, event: Any) -> None:
        if kind.kind == "Deployment" and event.type == "ADDED":
            alive.append(len(server.select("Pod", "team-a")))

    server.store.listeners.append(notice)


async def test_a_predecessor_that_ends_slowly_is_waited_for(world: World, server: FakeApiServer) -> None:
    """Its pod goes on for minutes: nothing is made, nothing is refused, and then it goes on by itself."""
    stock(world)
    row(world)
    async with world.operator():
        await world.until(lambda: server.select("Pod", "team-a"))
        (pod,) = server.select("Pod", "team-a")
        slow = {"metadata": {"finalizers": ["example.com/slow-kubelet"]}}
        server.patch("Pod", "team-a", pod["metadata"]["name"], slow)
        world.opt_in("team-a")
        await world.until(lambda: "deletionTimestamp" in get(server, "Deployment", NAME)["metadata"])
        await asyncio.sleep(300)
        assert "deletionTimestamp" in get(server, "Deployment", NAME)["metadata"]
        assert world.condition("team-a") == ("False", "Installing")
        assert world.condition("team-a", "Stalled")[0] == "False"
        server.patch("Pod", "team-a", pod["metadata"]["name"], {"metadata": {"finalizers": None}})
        await world.until(lambda: world.ready("team-a"), 60)
    assert world.events("AdoptionRefused") == world.events("Conflict") == []


async def test_what_is_not_rendered_goes_and_is_named(world: World, server: FakeApiServer) -> None:
    """A variable, a container and an argument: what was taken over is what is rendered, and nothing beside."""
    the_same(world)
    live = get(server, "Deployment", NAME)
    (container,) = live["spec"]["template"]["spec"]["containers"]
    container["args"].append("--theirs")
    container["env"].append({"name": "LEADER_ELECTION_DISABLE", "value": "true"})
    sidecar = {"name": "sidecar", "image": "envoy"}
    patch = {"spec": {"template": {"spec": {"containers": [container, sidecar]}}}}
    server.patch("Deployment", "team-a", NAME, patch, manager="kubectl-edit")
    row(world)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
    (only,) = template(server)["spec"]["containers"]
    assert "--theirs" not in only["args"]
    assert "LEADER_ELECTION_DISABLE" not in {each["name"] for each in only["env"]}
    for each in ("[sidecar]", "env[LEADER_ELECTION_DISABLE]", "args --theirs"):
        assert each in told(world), each


async def test_never_afterwards_changes_nothing(world: World, server: FakeApiServer) -> None:
    """What is ours stays ours; what somebody makes from then on is a conflict."""
    the_same(world)
    row(world)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        before = uids(server)
        world.spec("team-a", adopt="Never")
        await asyncio.sleep(200)
        assert uids(server) == before
        server.delete("ConfigMap", "team-a", CONFIG)
        world.make("ConfigMap", "team-a", CONFIG, data={})
        await world.until(lambda: world.condition("team-a") == ("False", "Conflict"))
        assert "spec.adopt: Adopt" in world.message("team-a")


async def test_an_account_that_comes_later_is_not_taken_over(world: World, server: FakeApiServer) -> None:
    """Whoever may make one could have it given a controller's rights: any other object is taken over at any time."""
    the_same(world)
    row(world)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        server.delete("ConfigMap", "team-a", CONFIG)
        world.make("ConfigMap", "team-a", CONFIG, data={})
        await world.until(lambda: world.whole("team-a"), 300)
        server.delete("ServiceAccount", "team-a", NAME)
        world.make("ServiceAccount", "team-a", NAME)
        await world.until(lambda: world.condition("team-a") == ("False", "Conflict"))
        assert "an account is taken over only with" in world.message("team-a")
        server.delete("ServiceAccount", "team-a", NAME)
        await world.until(lambda: world.ready("team-a"), 300)


async def test_a_child_that_was_taken_over_is_kept_like_any_other(world: World, server: FakeApiServer) -> None:
    """Its Deployment is made anew although the field still says `Adopt`, and another controller came beside it."""
    the_same(world)
    row(world)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        may_list(world, "team-a", "argo")
        words = ["workflow-controller", "--namespaced", "--configmap=theirs"]
        container = {"name": "c", "image": "i", "command": words}
        labels = {"app": "argo"}
        pod = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": "argo", "containers": [container]}}
        world.make("ConfigMap", "team-a", "theirs", data={})
        world.make("ServiceAccount", "team-a", "argo")
        spec = {"selector": {"matchLabels": labels}, "template": pod}
        world.make("Deployment", "team-a", "argo", api="apps/v1", spec=spec)
        await world.until(lambda: world.condition("team-a") == ("True", "Neighbour"))
        server.delete("Deployment", "team-a", NAME)
        await world.until(lambda: server.get("Deployment", "team-a", NAME) is not None, 30)
        await world.until(lambda: world.condition("team-a") == ("True", "Neighbour"), 120)


async def test_without_a_row_diff_shows_it_too(world: World, server: FakeApiServer) -> None:
    """`--adopt`: nothing has to be written to look; and without it the names are taken."""
    the_same(world)
    async with world.nature():
        await world.until(lambda: server.select("Pod", "team-a"))
        plain, assumed = await foretell(world), await foretell(world, adopt=True)
    assert plain.stalled.startswith("Conflict: ")
    assert {c.what for c in assumed.changes if c.ref.kind.kind != "WorkflowController"} == {"adopted"}
    assert "spec.adopt is Adopt for --adopt" in assumed.notes


def blue_stock(world: World) -> None:
    """Install Argo's own manifests with an ID of their own."""
    stock(world, "blue")
    pinned(world)


def blue(world: World) -> None:
    """Install what the operator would render, with an ID of its own."""
    the_same(world, "blue")
    pinned(world)


@pytest.mark.parametrize("install", [blue, blue_stock])
async def test_cut_off_anywhere_it_is_taken_over_all_the_same(
    world: World, server: FakeApiServer, install: Callable[[World], None]
) -> None:
    """Killed after the first, second, … request about the objects: the next one goes on; so does a pod that may."""
    number, killed = 0, True
    while killed:
        number += 1
        install(world)
        row(world)
        async with world.nature():
            await world.until(lambda: server.select("Pod", "team-a"))
            before = uids(server)
            died = dies_at(one := world.start(), number, sent=True)
            world.opt_in("team-a")
            await world.until(lambda: died.is_set() or done(world), 300)  # noqa: B023
            killed = died.is_set()
            if killed:
                await one.kill()
                world.start()
            await world.until(lambda: done(world), 300, what=f"{number}")
            assert len(server.select("Pod", "team-a")) == 1
            if install is blue:
                assert uids(server) == before, number
            else:
                assert get(server, "ConfigMap", CONFIG)["metadata"]["uid"] == before["ConfigMap", CONFIG]
                assert list(get(server, "ConfigMap", CONFIG)["data"]) == ["config"]
        server.delete("Namespace", None, "team-a")
        for each in ("ClusterRole", "ClusterRoleBinding"):
            if server.get(each, None, "argo-team-a") is not None:
                server.delete(each, None, "argo-team-a")
        await world.until(lambda: server.get("Namespace", None, "team-a") is None)
    assert number > 15, "looks, dry runs and two writes for most objects were cut"


def done(world: World) -> bool:
    """Tell whether all is ours, and works."""
    return world.ready("team-a") and world.whole("team-a")


# Left alone


def _helm(world: World) -> None:
    notes = {"meta.helm.sh/release-name": "argo"}
    world.server.patch("ConfigMap", "team-a", CONFIG, {"metadata": {"annotations": notes}}, manager="helm")


def _argocd(world: World) -> None:
    notes = {"argocd.argoproj.io/tracking-id": "app:apps/Deployment:team-a/workflow-controller"}
    world.server.patch("Deployment", "team-a", NAME, {"metadata": {"annotations": notes}}, manager="argocd")


def _flux(world: World) -> None:
    labels = {"kustomize.toolkit.fluxcd.io/name": "apps"}
    world.server.patch("Deployment", "team-a", NAME, {"metadata": {"labels": labels}}, manager="kustomize-controller")


def _owned(world: World) -> None:
    uid = get(world.server, "ConfigMap", CONFIG)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": CONFIG, "uid": uid, "controller": True}
    patch = {"metadata": {"ownerReferences": [owner]}}
    world.server.patch("Deployment", "team-a", NAME, patch, manager="operator")


def _marked(world: World) -> None:
    notes = {names.NAMESPACE_UID_ANNOTATION: "another"}
    world.server.patch("ConfigMap", "team-a", CONFIG, {"metadata": {"annotations": notes}}, manager="velero")


def _stopped(world: World) -> None:
    world.server.patch("Deployment", "team-a", NAME, {"spec": {"replicas": 0}}, manager="kubectl")


def _wide(world: World) -> None:
    live = get(world.server, "Deployment", NAME)
    (container,) = live["spec"]["template"]["spec"]["containers"]
    patch = {"spec": {"template": {"spec": {"containers": [{**container, "args": ["--namespaced=false"]}]}}}}
    world.server.patch("Deployment", "team-a", NAME, patch, manager="kubectl")


def _unread(world: World) -> None:
    world.server.delete("ConfigMap", "team-a", CONFIG)


def _second(world: World) -> None:
    live = get(world.server, "Deployment", NAME)
    by_hand(world, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _meta("argo"), "spec": live["spec"]})


def _no_id(world: World) -> None:
    world.server.delete("ConfigMap", "team-a", CONFIG)
    world.make("ConfigMap", "team-a", CONFIG, data={})


def _illegal(world: World) -> None:
    world.server.patch("ConfigMap", "team-a", CONFIG, {"data": {"instanceID": "Team_A"}}, manager="kubectl")


REFUSED: dict[str, tuple[Callable[[World], None], tuple[str, ...]]] = {
    "Helm": (_helm, ("is kept by Helm (annotation meta.helm.sh/release-name)", "helm.sh/resource-policy: keep")),
    "Argo CD": (_argocd, ("is kept by Argo CD", "--cascade=false")),
    "Flux": (_flux, ("is kept by Flux", "prune: disabled")),
    "an owner": (_owned, ("is kept by ConfigMap/workflow-controller-configmap, which owns it",)),
    "a copy of another namespace's": (_marked, ("carries the mark of another namespace, with UID another",)),
    "scaled to 0": (_stopped, ("is scaled to 0",)),
    "one of all namespaces": (_wide, ("serves all namespaces",)),
    "one whose ConfigMap is not there": (_unread, (f"ConfigMap/team-a/{CONFIG} is not there",)),
    "two": (_second, ("Deployment/team-a/argo", "as well")),
    "one without an ID": (_no_id, ("has no instance ID", "instance-id-none")),
    "an ID that names no Lease": (_illegal, ("has the instance ID Team_A",)),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_may_not_be_taken_over_is_left_alone_whole(world: World, server: FakeApiServer, case: str) -> None:
    """One object that may not be keeps all others from it; nothing is made beside; the cure is told, once."""
    spoil, words = REFUSED[case]
    stock(world)
    spoil(world)
    async with world.nature():
        await asyncio.sleep(5)
    row(world)
    before = server.select("Deployment", "team-a"), server.select("ConfigMap", "team-a")
    found = await foretell(world)
    assert found.stalled.startswith("AdoptionRefused: nothing is taken over: ")
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a") == ("False", "AdoptionRefused"))
        for each in words:
            assert each in world.message("team-a")
        await asyncio.sleep(200)
        assert world.child("team-a") == []
        assert [without_status(each) for each in server.select("Deployment", "team-a")] == list(
            map(without_status, before[0])
        )
        assert server.select("ConfigMap", "team-a") == before[1]
        assert len(world.events("AdoptionRefused")) == 1


def without_status(live: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the Deployment controller writes."""
    meta = {
        key: live["metadata"][key]
        for key in ("name", "uid", "labels", "annotations", "generation")
        if key in live["metadata"]
    }
    return {"metadata": meta, "spec": live["spec"]}


async def test_an_id_that_was_filled_in_before_is_told_with_the_way_out(world: World, server: FakeApiServer) -> None:
    """Opted in first, adopt later: the row has the namespace's name by then, and nobody may change it."""
    stock(world, "blue")
    pinned(world)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a") == ("False", "Conflict"))
        world.spec("team-a", adopt="Adopt")
        await world.until(lambda: world.condition("team-a") == ("False", "AdoptionRefused"))
        assert "spec.instanceID is team-a, but the install has blue" in world.message("team-a")
        assert "kubectl -n team-a delete workflowcontroller workflow-controller" in world.message("team-a")


async def test_an_id_that_admission_would_not_stamp_is_not_taken_over(world: World, server: FakeApiServer) -> None:
    """New Workflows would be nobody's: nothing is touched until the component is there."""
    stock(world, "blue")
    row(world)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a") == ("False", "InstanceIDUnsupported"))
        await asyncio.sleep(100)
        assert get(server, "Deployment", NAME)["spec"]["selector"] == {"matchLabels": {"app": NAME}}
        pinned(world)
        await world.until(lambda: world.ready("team-a"), 300)


async def test_an_install_without_an_id_goes_on_without_one_under_that_policy(
    world: World, server: FakeApiServer
) -> None:
    """Its Workflows carry none, and neither does the child; nothing is stamped."""
    stock(world, "")
    patch = {"spec": {"instanceIDPolicy": "None"}}
    server.patch("ControllerTemplate", None, "default", patch, manager="kubectl")
    server.delete("MutatingAdmissionPolicy", None, names.STAMPING_POLICY)
    row(world)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"), 120)
        assert "instanceID" not in get(server, "WorkflowController", NAME)["spec"]


async def test_an_install_without_an_id_gives_way_when_it_is_deleted(world: World, server: FakeApiServer) -> None:
    """The way that its refusal names: ours follows with an ID, takes the rest over, and its schedules get that ID."""
    stock(world, "")
    world.make("CronWorkflow", "team-a", "nightly", api=ARGO, spec={"schedules": ["0 0 * * *"]})
    row(world)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.condition("team-a") == ("False", "AdoptionRefused"))
        assert "delete the Deployment" in world.message("team-a")
        await asyncio.sleep(100)
        assert names.INSTANCE_ID_LABEL not in (get(server, "CronWorkflow", "nightly")["metadata"].get("labels") or {})
        server.delete("Deployment", "team-a", NAME)
        await world.until(lambda: world.ready("team-a") and world.whole("team-a"), 200)
        assert list(get(server, "ConfigMap", CONFIG)["data"]) == ["config"]

        def labelled() -> bool:
            labels = get(server, "CronWorkflow", "nightly")["metadata"].get("labels") or {}
            return labels.get(names.INSTANCE_ID_LABEL) == "team-a"

        await world.until(labelled, 120)


async def test_adopt_where_there_is_nothing_is_an_opt_in_like_any_other(world: World, server: FakeApiServer) -> None:
    """Nothing to take over: all is made, with the ID that the policy gives."""
    world.namespace("team-a")
    row(world)
    async with world.operator():
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"))
        assert get(server, "WorkflowController", NAME)["spec"]["instanceID"] == "team-a"
        assert world.events("Adopted") == []
