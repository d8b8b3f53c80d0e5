"""Ours and not ours on a real API server: what an autoscaler and a policy write, and fields that cannot be changed.

The planner and the actor themselves run here: what the API server answers decides, and the fake could only repeat it.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from metaoperator import informer
from metaoperator.act import Actor
from metaoperator.cluster import Cluster
from metaoperator.core import drift, names, ownership, plan, render, shard
from metaoperator.core.model import Namespace, Ref
from metaoperator.core.names import Reason
from metaoperator.core.outcome import Outcome
from metaoperator.core.plan import Step, Verb
from metaoperator.fleet import Fleet
from metaoperator.gate import Gate

from .client import JSON, MERGE, Api, Manifest, connect, eventually, manifest, path_of

pytestmark = pytest.mark.needs_real

POLICIES = "/apis/admissionregistration.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io"
LABELS = {"app": "one"}


@pytest.fixture
async def real() -> AsyncIterator[Api]:
    """Open the real API server."""
    async with connect(os.environ["METAOPERATOR_KUBECONFIG"]) as api:
        yield api


@pytest.fixture
async def space(real: Api) -> AsyncIterator[Namespace]:
    """Make a namespace."""
    name = f"ours-{secrets.token_hex(4)}"
    made = await real.create(None, manifest("Namespace", name))
    yield Namespace.of(made.body)
    await real.delete("Namespace", None, name)


class Hands:
    """The operator's own planner and actor, for one namespace and a few rendered objects."""

    def __init__(self, cluster: Cluster, space: Namespace) -> None:
        self.cluster = cluster
        self.space = space
        self.restart()

    def restart(self) -> None:
        """Forget what only memory holds."""
        fleet = Fleet(self.cluster, (), lambda _name, _delay: None, opted_in=lambda _name: True)
        self.actor = Actor(self.cluster, fleet)
        self.dry_runs = 0

    async def plan(self, *documents: Manifest) -> tuple[Step, ...]:
        """Look, and plan."""
        found = {}
        for each in documents:
            live = await self.cluster.get(Ref.of(each))
            if live is not None:
                found[Ref.of(each)] = informer.without_noise(live)
        return plan.build(documents, found, namespace_uid=self.space.uid, answers=self.actor.answers)

    async def act(self, *documents: Manifest) -> Outcome:
        """Look, plan and act, once."""
        steps = await self.plan(*documents)
        return await self.actor.install(steps, lambda: steps)

    async def bring(self, *documents: Manifest) -> list[Step]:
        """Act until there is nothing left to do, and hand out what was done."""
        done: list[Step] = []

        async def kept() -> bool:
            outcome = await self.act(*documents)
            assert outcome.stalled is None, outcome.stalled
            done.extend(step for step in outcome.done if step.verb is not Verb.KEEP)
            return {step.verb for step in outcome.done} == {Verb.KEEP} and len(outcome.done) == len(documents)

        await eventually(kept, 60)
        return done


@pytest.fixture
async def hands(space: Namespace) -> AsyncIterator[Hands]:
    """Give the operator's hands to a test, with a client that counts dry-runs and writes."""
    cluster = Cluster(kubeconfig=os.environ["METAOPERATOR_KUBECONFIG"], gate=Gate())
    await cluster.connect()
    cluster.gate.open_until(asyncio.get_running_loop().time() + 1e9)
    yield Hands(cluster, space)
    await cluster.close()


def rendered(space: Namespace, kind: str, name: str, **fields: Any) -> Manifest:
    """Render an object as a set would, mark included."""
    return dict(render.mark(manifest(kind, name, **fields), space, shard.only_shard(space.name)))


def deployment(space: Namespace, *, labels: dict[str, str] = LABELS, replicas: int = 1, **container: Any) -> Manifest:
    """Render a Deployment whose pods no node takes."""
    main = {"name": "main", "image": "example.invalid/image:1", **container}
    tolerations = [{"key": "ours", "operator": "Exists"}]
    pod = {"containers": [main], "nodeSelector": {"example.com/none": "such"}, "tolerations": tolerations}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return rendered(space, "Deployment", "workflow-controller", spec=spec)


def entries(live: Manifest) -> set[tuple[str, str, str]]:
    """Tell who owns replicas."""
    return {
        (each["manager"], each["operation"], each.get("subresource", ""))
        for each in live["metadata"]["managedFields"]
        if "f:replicas" in each["fieldsV1"].get("f:spec", {})
    }


async def test_an_autoscalers_replicas_are_told_from_a_persons(real: Api, space: Namespace, hands: Hands) -> None:
    """A HorizontalPodAutoscaler without any metrics still raises to its minimum: through `scale`, by its manager."""
    wanted = deployment(space)
    await hands.bring(wanted)
    name = wanted["metadata"]["name"]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 3},
    }
    scalers = f"/apis/autoscaling/v2/namespaces/{space.name}/horizontalpodautoscalers"
    assert (await real.call("POST", scalers, scaler)).code == 201

    async def replicas(number: int) -> bool:
        return bool((await real.get("Deployment", space.name, name)).spec("spec", "replicas") == number)

    await eventually(lambda: replicas(2), 60)
    live = (await real.get("Deployment", space.name, name)).body
    assert entries(live) == {("kube-controller-manager", "Update", "scale")}
    (step,) = await hands.plan(wanted)
    assert step.verb is Verb.KEEP
    upgraded = deployment(space, image="example.invalid/image:2")
    assert [step.reason for step in await hands.bring(upgraded)] == [Reason.CHANGED]
    assert await replicas(2)
    assert (await real.call("DELETE", f"{scalers}/{name}")).code == 200
    scale = path_of("Deployment", space.name, name, "scale")
    scaled = await real.call("PATCH", scale, {"spec": {"replicas": 3}}, content=MERGE, fieldManager="kubectl")
    assert scaled.code == 200
    live = (await real.get("Deployment", space.name, name)).body
    assert entries(live) == {("kubectl", "Update", "scale")}
    (step,) = await hands.plan(upgraded)
    assert (step.verb, step.reason, step.writers) == (Verb.APPLY, Reason.DRIFT, ("kubectl through scale",))
    await hands.bring(upgraded)
    assert await replicas(1)


# One item at a time: a patch whose value is a list of objects makes the API server panic (cel-go 0.26 in v1.36.3).
POLICY = """
[JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/image",
  value: object.spec.template.spec.containers[0].image.startsWith("mirror.invalid/")
    ? object.spec.template.spec.containers[0].image
    : "mirror.invalid/" + object.spec.template.spec.containers[0].image}]
+ (object.spec.template.spec.tolerations.exists(t, t.key == "added") ? [] :
 [JSONPatch{op: "add", path: "/spec/template/spec/tolerations/-",
  value: Object.spec.template.spec.tolerations{key: "added", operator: "Exists"}}])
+ (object.spec.template.spec.containers.exists(c, c.name == "mesh") ? [] :
 [JSONPatch{op: "add", path: "/spec/template/spec/containers/-",
  value: Object.spec.template.spec.containers{name: "mesh", image: "mirror.invalid/mesh:1"}}])
"""


async def _policy(real: Api, space: Namespace) -> Callable[[], Awaitable[None]]:
    """Rewrite every Deployment of the namespace at admission; hands out how to end it."""
    name = f"{space.name}.example.com"
    selector = {"matchLabels": {"kubernetes.io/metadata.name": space.name}}
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "resources": ["deployments"],
        "operations": ["CREATE", "UPDATE"],
    }
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"namespaceSelector": selector, "resourceRules": [rule]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": POLICY}}],
    }
    for plural, kind, body in (
        ("mutatingadmissionpolicies", "MutatingAdmissionPolicy", spec),
        ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", {"policyName": name}),
    ):
        made = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": body,
        }
        answer = await real.call("POST", f"{POLICIES}/{plural}", made)
        assert answer.code == 201, answer

    async def end() -> None:
        for plural in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
            await real.call("DELETE", f"{POLICIES}/{plural}/{name}", content=JSON)

    return end


async def test_what_a_policy_rewrites_settles_and_its_end_is_noticed(real: Api, space: Namespace, hands: Hands) -> None:
    """Image, a sidecar, a toleration and `0.5` in other words: no write, one dry-run after a restart."""
    wanted = deployment(space, resources={"limits": {"cpu": "0.5"}})
    end = await _policy(real, space)

    async def rewrites(*, really: bool) -> bool:
        trial = {**wanted, "metadata": {**wanted["metadata"], "name": f"trial-{secrets.token_hex(3)}"}}
        answer = await real.apply(space.name, trial, dryRun="All")
        image = answer.spec("spec", "template", "spec", "containers")[0]["image"]
        return image.startswith("mirror.invalid/") == really

    try:
        await eventually(lambda: rewrites(really=True), 60)
        await hands.bring(wanted)
        live = (await real.get("Deployment", space.name, "workflow-controller")).body
        pod = live["spec"]["template"]["spec"]
        assert [each["image"] for each in pod["containers"]] == [
            "mirror.invalid/example.invalid/image:1",
            "mirror.invalid/mesh:1",
        ]
        assert [each["key"] for each in pod["tolerations"]] == ["ours", "added"]
        assert any(drift.differences(wanted, live))
        (step,) = await hands.plan(wanted)
        assert step.verb is Verb.KEEP
        hands.restart()
        (step,) = await hands.plan(wanted)
        assert (step.verb, step.reason) == (Verb.APPLY, Reason.DRIFT)
        outcome = await hands.act(wanted)
        assert [step.verb for step in outcome.done] == [Verb.KEEP]
        (step,) = await hands.plan(wanted)
        assert step.verb is Verb.KEEP
        after = (await real.get("Deployment", space.name, "workflow-controller")).body
        assert after["metadata"]["generation"] == live["metadata"]["generation"]
    finally:
        await end()
    await eventually(lambda: rewrites(really=False), 60)
    hands.restart()  # as when the answer is too old to be relied on
    done = await hands.bring(wanted)
    assert [step.reason for step in done] == [Reason.DRIFT]
    live = (await real.get("Deployment", space.name, "workflow-controller")).body
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "example.invalid/image:1"


def version(space: Namespace, number: int) -> list[Manifest]:
    """Render what report R29 changes, and the other immutable fields of a child."""
    old = number == 1
    role = {"apiGroup": RBAC, "kind": "Role" if old else "ClusterRole", "name": "view"}
    subject = {"kind": "ServiceAccount", "name": "argo"}
    ports = [{"name": "metrics", "port": 9090, "protocol": "TCP", "targetPort": 9090}]
    labels = LABELS if old else LABELS | {"app.kubernetes.io/instance": space.name}
    return [
        rendered(space, "ServiceAccount", "argo"),
        rendered(space, "RoleBinding", "argo", roleRef=role, subjects=[subject]),
        rendered(space, "Service", "metrics", spec={"ports": ports} | ({} if old else {"clusterIP": "None"})),
        rendered(space, "Service", "headless", spec={"ports": ports} | ({"clusterIP": "None"} if old else {})),
        rendered(space, "ConfigMap", "frozen", immutable=True, data={"version": str(number)}),
        deployment(space, labels=labels, image=f"example.invalid/image:{number}"),
    ]


async def test_an_upgrade_over_immutable_fields_goes_through(real: Api, space: Namespace, hands: Hands) -> None:
    """R29: a selector, a roleRef, addresses and a frozen ConfigMap; forth and back, each object replaced once."""
    await hands.bring(*version(space, 1))
    for number in (2, 1):
        wanted = version(space, number)
        before = {Ref.of(each): await hands.cluster.get(Ref.of(each)) for each in wanted}
        for each in wanted[1:2] + wanted[4:]:
            assert (await real.apply(space.name, each, force=True, manager="metaoperator", dryRun="All")).code == 422
        done = await hands.bring(*wanted)
        replaced = {step.ref for step in done if step.verb is Verb.REPLACE}
        assert {ref.name for ref in replaced} == {"argo", "metrics", "headless", "frozen", "workflow-controller"}
        assert {step.reason for step in done} <= {Reason.REPLACED, Reason.CREATED}
        for ref, old in before.items():
            live = await hands.cluster.get(ref)
            assert old is not None
            assert live is not None
            assert (old["metadata"]["uid"] != live["metadata"]["uid"]) == (ref in replaced), str(ref)
    for name, headless in (("metrics", False), ("headless", True)):
        live = await hands.cluster.get(Ref.of(manifest("Service", name, metadata={"namespace": space.name})))
        assert live is not None
        assert (live["spec"]["clusterIP"] == "None") == headless


async def test_what_somebody_froze_is_not_deleted(real: Api, space: Namespace, hands: Hands) -> None:
    """Edited and made immutable by hand: told with the cure, also when other bytes are rendered."""
    wanted = rendered(space, "ConfigMap", "one", data={"a": "1"})
    await hands.bring(wanted)
    patch = {"data": {"a": "theirs"}, "immutable": True}
    frozen = await real.merge("ConfigMap", space.name, "one", patch, fieldManager="kubectl-edit")
    for each in (wanted, rendered(space, "ConfigMap", "one", data={"a": "2"})):
        outcome = await hands.act(each)
        assert outcome.stalled is not None
        assert outcome.stalled.reason is Reason.IMMUTABLE
        assert "delete it: it is made anew" in outcome.stalled.message
    live = await real.get("ConfigMap", space.name, "one")
    assert live.body == frozen.body
    assert not ownership.owns(live.body, names.FIELD_MANAGER, ("immutable",))


TEMPLATES = f"/apis/{names.API_VERSION}/controllertemplates"


@pytest.fixture
async def templates(real: Api) -> AsyncIterator[None]:
    """Serve ControllerTemplates as shipped."""
    path = Path(__file__).parents[2] / "manifests" / "fleet" / "crds" / "controllertemplates.yaml"
    definition = yaml.safe_load(path.read_text())
    answer = await real.apply(None, definition, force=True, manager="kubectl")
    assert answer.code in (200, 201), answer

    async def served() -> bool:
        return (await real.call("GET", TEMPLATES)).code == 200

    await eventually(served)
    yield
    if answer.code == 201:
        await real.delete("CustomResourceDefinition", None, definition["metadata"]["name"])


async def test_the_api_server_takes_paths_as_messages_write_them(real: Api, templates: None) -> None:
    """And refuses what is left to nobody, empty lists, and what is no path; `ignoreFields` in 32 x 32 at most."""

    async def code(*listed: Any) -> int:
        spec = {"source": {"directory": "workflow-controller"}, "ignoreFields": list(listed)}
        body = {"apiVersion": names.API_VERSION, "kind": "ControllerTemplate", "metadata": {"name": "x"}, "spec": spec}
        return (await real.call("POST", TEMPLATES, body, dryRun="All")).code

    def of(*paths: str) -> dict[str, Any]:
        return {"kind": "Deployment", "paths": list(paths)}

    good = (
        "spec.template.spec.containers[workflow-controller].resources",
        "metadata.annotations[example.com/a]",
        "spec",
    )
    assert await code(of(*good), {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "paths": ["data"]}) == 201
    assert await code(*(of(*(f"spec.f{number}" for number in range(32))) for _ in range(32))) == 201
    for bad in (
        "metadata",
        "metadata.name",
        "metadata.labels",
        "kind",
        "status",
        "status.replicas",
        "",
        "a b",
        ".spec",
    ):
        assert await code(of(bad)) == 422, bad
    assert await code(of()) == 422
    assert await code({"paths": ["spec"]}) == 422
    assert await code(of("spec", "spec")) == 422
