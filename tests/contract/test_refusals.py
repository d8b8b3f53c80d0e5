"""What is refused although it was written well: quotas, ranges, Pod Security, roles, sizes and names."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from .builders import config_map, container, deployment
from .client import Answer, Api, Manifest, eventually, manifest

RBAC = "rbac.authorization.k8s.io"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(resources: Manifest | None = None, security: Manifest | None = None, **spec: Any) -> Manifest:
    """Build a pod that no node will take."""
    more: dict[str, Any] = {"resources": resources} if resources else {}
    more |= {"securityContext": security} if security else {}
    chosen = {"nodeSelector": {"kubernetes.io/os": "none"}, "containers": [container(**more)], **spec}
    return manifest("Pod", "one", spec=chosen)


async def quota(api: Api, namespace: str, **hard: str) -> None:
    """Make a ResourceQuota and wait until it counts."""
    spec = {"hard": {key.replace("__", "/").replace("_", "."): value for key, value in hard.items()}}
    answer = await api.create(namespace, manifest("ResourceQuota", "q", spec=spec))
    assert answer.code == 201, answer
    if api.real:

        async def counted() -> bool:
            return bool((await api.get("ResourceQuota", namespace, "q")).body.get("status", {}).get("hard"))

        await eventually(counted)


def refused(answer: Answer) -> str:
    """Return the message of a 403."""
    assert (answer.code, answer.body["reason"]) == (403, "Forbidden"), answer
    assert "causes" not in answer.body["details"]
    return answer.message


async def test_a_count_quota_refuses_objects_in_every_way_of_writing(api: Api, namespace: str) -> None:
    """Create, apply and dry-run alike; an update of what is there passes."""
    await quota(api, namespace, count__deployments_apps="1")
    assert (await api.apply(namespace, deployment("first"))).code == 201
    told = (
        'deployments.apps "one" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, '
        "used: count/deployments.apps=1, limited: count/deployments.apps=1"
    )

    async def full() -> bool:  # the real server keeps book a moment later
        return (await api.apply(namespace, deployment(), dryRun="All")).code == 403

    await eventually(full)
    assert refused(await api.apply(namespace, deployment())) == told
    assert refused(await api.create(namespace, deployment())) == told
    assert refused(await api.apply(namespace, deployment(), dryRun="All")) == told
    assert (await api.apply(namespace, deployment("first", paused=True))).code == 200


async def test_a_quota_of_amounts_wants_them_said(api: Api, namespace: str) -> None:
    """A pod that does not say what it needs is refused, and so is one that needs too much."""
    await quota(api, namespace, requests_cpu="1", limits_memory="1Gi")
    assert refused(await api.create(namespace, pod())) == (
        'pods "one" is forbidden: failed quota: q: must specify limits.memory for: main; requests.cpu for: main'
    )
    much = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    assert refused(await api.create(namespace, pod(much))) == (
        'pods "one" is forbidden: exceeded quota: q, requested: limits.memory=2Gi,requests.cpu=2, '
        "used: limits.memory=0,requests.cpu=0, limited: limits.memory=1Gi,requests.cpu=1"
    )
    assert (await api.apply(namespace, deployment())).code == 201, "the Deployment itself is taken"


async def test_a_limit_range_fills_in_and_refuses(api: Api, namespace: str) -> None:
    """Defaults for who says nothing; a sentence with every bound for who says too little or too much."""
    limit = {
        "type": "Container",
        "min": {"memory": "512Mi"},
        "max": {"cpu": "50m"},
        "default": {"cpu": "50m", "memory": "512Mi"},
    }
    await api.create(namespace, manifest("LimitRange", "l", spec={"limits": [limit]}))
    amounts = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}}

    async def known() -> bool:
        return (await api.create(namespace, pod(amounts), dryRun="All")).code == 403

    await eventually(known)
    assert refused(await api.create(namespace, pod(amounts))) == (
        'pods "one" is forbidden: [minimum memory usage per Container is 512Mi, but request is 64Mi, '
        "maximum cpu usage per Container is 50m, but limit is 500m]"
    )
    filled = await api.create(namespace, pod(), dryRun="All")
    both = {"cpu": "50m", "memory": "512Mi"}
    assert filled.body["spec"]["containers"][0]["resources"] == {"limits": both, "requests": both}


async def test_pod_security_refuses_the_pod_and_not_the_deployment(api: Api, namespace: str) -> None:
    """The sentence lists every fault; who keeps the level's rules passes."""
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await api.merge("Namespace", None, namespace, labels)

    async def known() -> bool:
        return (await api.create(namespace, pod(), dryRun="All")).code == 403

    await eventually(known)
    assert refused(await api.create(namespace, pod())) == (
        'pods "one" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false '
        '(container "main" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities '
        '(container "main" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true '
        '(pod or container "main" must set securityContext.runAsNonRoot=true), seccompProfile '
        '(pod or container "main" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
    )
    assert (await api.apply(namespace, deployment())).code == 201
    if api.real:  # where the controller makes the namespace's default ServiceAccount in its own time

        async def account() -> bool:
            return (await api.get("ServiceAccount", namespace, "default")).code == 200

        await eventually(account)
    assert (await api.create(namespace, pod(security=RESTRICTED), dryRun="All")).code == 201


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"serviceAccountName": "nope"},
            'error looking up service account {}/nope: serviceaccount "nope" not found',
        ),
    ],
    ids=["PriorityClass", "ServiceAccount"],
)
async def test_a_pod_that_names_what_is_not_there_is_refused(
    api: Api, namespace: str, spec: Manifest, why: str
) -> None:
    """And so is never seen; only who made it is told."""
    assert refused(await api.create(namespace, pod(**spec))) == f'pods "one" is forbidden: {why.format(namespace)}'


# ---- roles


@pytest.fixture
async def nobody(api: Api, namespace: str) -> AsyncIterator[str]:
    """Name a ServiceAccount that may patch ConfigMaps and write RoleBindings, and make a role that may more."""
    user = f"system:serviceaccount:{namespace}:nobody"
    own = [
        {"apiGroups": [RBAC], "resources": ["rolebindings"], "verbs": ["create", "get", "patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch"]},
    ]
    more = [
        {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
        {"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]
    for name, rules in ((f"{namespace}-own", own), (f"{namespace}-more", more)):
        await api.create(None, manifest("ClusterRole", name, rules=rules))
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"{namespace}-own"}
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": "nobody"}
    await api.create(None, manifest("ClusterRoleBinding", f"{namespace}-own", roleRef=ref, subjects=[subject]))

    async def known() -> bool:
        with api.being(user):
            return (await api.get("ConfigMap", namespace)).code == 403 and (
                await api.get("ConfigMap", namespace, "none")
            ).code == 404

    await eventually(known)
    yield user
    await api.delete("ClusterRoleBinding", None, f"{namespace}-own")
    for name in (f"{namespace}-own", f"{namespace}-more"):
        await api.delete("ClusterRole", None, name)


async def test_what_no_role_allows_names_the_missing_rule(api: Api, namespace: str, nobody: str) -> None:
    """User, verb, resource, group and namespace; an apply that creates needs `create` besides `patch`."""
    with api.being(nobody):
        listed = await api.get("ConfigMap", namespace)
        applied = await api.apply(namespace, config_map())
        status = await api.merge("Deployment", namespace, "one", {"status": {}}, sub="status")
        home = await api.get("Namespace", None, namespace)
    inside = f'in the namespace "{namespace}"'
    assert refused(listed) == (
        f'configmaps is forbidden: User "{nobody}" cannot list resource "configmaps" in API group "" {inside}'
    )
    assert refused(applied) == (
        f'configmaps "one" is forbidden: User "{nobody}" cannot create resource "configmaps" in API group "" {inside}'
    )
    assert refused(status) == (
        f'deployments.apps "one" is forbidden: User "{nobody}" cannot patch resource "deployments/status" '
        f'in API group "apps" {inside}'
    )
    assert refused(home) == (
        f'namespaces "{namespace}" is forbidden: User "{nobody}" cannot get resource "namespaces" '
        f'in API group "" {inside}'
    )


async def test_a_right_on_one_name_is_one_to_list_and_watch_that_name(api: Api, namespace: str, nobody: str) -> None:
    """A field selector on the name counts as that name; without it, or with another one, the list is refused."""
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["one"],
        "verbs": ["get", "list", "watch"],
    }
    own = await api.get("ClusterRole", None, f"{namespace}-own")
    await api.merge("ClusterRole", None, f"{namespace}-own", {"rules": [*own.body["rules"], rule]})

    async def granted() -> bool:
        with api.being(nobody):
            return (await api.get("ConfigMap", namespace, fieldSelector="metadata.name=one")).code == 200

    await eventually(granted)
    with api.being(nobody):
        whole = await api.get("ConfigMap", namespace)
        other = await api.get("ConfigMap", namespace, fieldSelector="metadata.name=two")
        none = await api.get("ConfigMap", namespace, fieldSelector="metadata.name!=one")
    inside = f'in the namespace "{namespace}"'
    told = f'User "{nobody}" cannot list resource "configmaps" in API group "" {inside}'
    assert refused(whole) == f"configmaps is forbidden: {told}"
    assert refused(other) == f'configmaps "two" is forbidden: {told}'
    assert refused(none) == f"configmaps is forbidden: {told}"


async def test_nobody_grants_what_they_do_not_hold(api: Api, namespace: str, nobody: str) -> None:
    """The sentence names each missing rule; the verb `bind` on the role makes it pass."""
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"{namespace}-more"}
    binding = manifest("RoleBinding", "one", roleRef=ref)
    with api.being(nobody):
        answer = await api.apply(namespace, binding)
        absent = await api.apply(namespace, {**binding, "roleRef": {**ref, "name": f"{namespace}-none"}})
    who, _, rules = refused(answer).partition(" is attempting to grant RBAC permissions not currently held:\n")
    assert who.startswith(f'rolebindings.{RBAC} "one" is forbidden: user "{nobody}" (groups=[')
    assert rules.splitlines() == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}',
        '{APIGroups:[""], Resources:["pods/log"], Verbs:["get" "list"]}',
        '{APIGroups:["argoproj.io"], Resources:["workflows"], Verbs:["get" "patch"]}',
    ]
    assert absent.code == 404
    assert absent.body["details"]["name"] == f"{namespace}-none"
    bind = {
        "apiGroups": [RBAC],
        "resources": ["clusterroles"],
        "resourceNames": [f"{namespace}-more"],
        "verbs": ["bind"],
    }
    own = await api.get("ClusterRole", None, f"{namespace}-own")
    await api.merge("ClusterRole", None, f"{namespace}-own", {"rules": [*own.body["rules"], bind]})

    async def granted() -> bool:
        with api.being(nobody):
            return (await api.apply(namespace, binding)).code in (200, 201)

    await eventually(granted)


# ---- sizes and names


@pytest.mark.parametrize("over", [False, True], ids=["at the limit", "one byte over"])
async def test_sizes_are_limited(api: Api, namespace: str, *, over: bool) -> None:
    """1 MiB of values in a ConfigMap; 256 KiB of annotations, on objects and on pod templates."""
    data = await api.apply(namespace, config_map("data", {"key": "x" * (1048576 + over)}))
    noted = {"key": "x" * (262144 - 3 + over)}
    own = await api.apply(namespace, config_map("own", annotations=noted))
    template = {"metadata": {"labels": {"app": "one"}, "annotations": noted}, "spec": {"containers": [container()]}}
    pods = await api.apply(namespace, deployment(template=template), dryRun="All")
    if not over:
        assert [data.code, own.code, pods.code] == [201, 201, 201]
        return
    assert [data.code, own.code, pods.code] == [422, 422, 422]
    assert data.message == 'ConfigMap "data" is invalid: []: Too long: may not be more than 1048576 bytes'
    noted_at = "annotations: Too long: may not be more than 262144 bytes"
    assert own.message == f'ConfigMap "own" is invalid: metadata.{noted_at}'
    assert pods.message == f'Deployment.apps "one" is invalid: spec.template.{noted_at}'


async def test_an_object_too_large_for_the_store_is_a_500(api: Api, namespace: str) -> None:
    """Also one whose list of owned fields makes it so: 900 KB of keys. Its message alone tells it from trouble."""
    keys = await api.apply(namespace, config_map("keys", {f"{index:0200}": "" for index in range(4500)}))
    args = await api.apply(namespace, deployment(containers=[container(args=["x" * 100_000] * 17)]))
    for answer in (keys, args):
        assert (answer.code, answer.message) == (500, "etcdserver: request is too large")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (config_map("A"), 'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of'),
        (config_map("a" * 254), "must be no more than 253 characters"),
        (config_map("one", labels={"k": "x" * 64}), "must be no more than 63 bytes"),
        (config_map("one", labels={"k": "a b"}), 'metadata.labels: Invalid value: "a b": a valid label must be'),
    ],
    ids=["capital", "254 characters", "a label of 64", "a label with a space"],
)
async def test_names_and_labels_are_limited(api: Api, namespace: str, body: Manifest, why: str) -> None:
    """422 with the field and the rule."""
    answer = await api.apply(namespace, body)
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert why in answer.message


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            deployment(replicass=1),
            "(/one; apps/v1, Kind=Deployment): .spec.replicass: field not declared in schema",
        ),
        (
            deployment(replicas="many"),
            "(/one; apps/v1, Kind=Deployment): .spec.replicas: expected numeric (int or float), got string",
        ),
        (
            manifest("ConfigMap", "one", data={"k": 1}),
            "(/one; /v1, Kind=ConfigMap): .data.k: expected string, got &value.valueUnstructured{Value:1}",
        ),
    ],
    ids=["unknown field", "text for a number", "number for a text"],
)
async def test_what_does_not_fit_its_type_is_a_500(api: Api, namespace: str, body: Manifest, why: str) -> None:
    """A typo in a template is answered like trouble of the server; the message tells that it is none."""
    answer = await api.apply(namespace, body)
    assert (answer.code, answer.message) == (500, f"failed to create typed patch object {why}")
