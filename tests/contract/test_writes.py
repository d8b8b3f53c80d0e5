"""Create, update, delete and dry run: preconditions, generations, answers."""

from typing import Any

import pytest

from .builders import config_map, deployment, managers, widget
from .client import JSON_PATCH, Answer, Api, Manifest, eventually, manifest, path_of

MADE_UP = "00000000-0000-4000-8000-000000000000"


async def test_a_create_of_what_exists_is_refused(api: Api, namespace: str) -> None:
    """POST answers 409 AlreadyExists, with the name in the details."""
    await api.create(namespace, config_map())
    answer = await api.create(namespace, config_map())
    assert (answer.code, answer.body["reason"]) == (409, "AlreadyExists")
    assert answer.message == 'configmaps "one" already exists'
    assert answer.body["details"] == {"name": "one", "kind": "configmaps"}


async def test_a_create_invents_a_name(api: Api, namespace: str) -> None:
    """`generateName` is a prefix."""
    answer = await api.create(namespace, manifest("ConfigMap", metadata={"generateName": "some-"}))
    assert answer.code == 201
    assert answer.body["metadata"]["name"].startswith("some-")
    assert len(answer.body["metadata"]["name"]) == len("some-") + 5


async def test_a_create_owns_as_update(api: Api, namespace: str) -> None:
    """POST makes an Update entry, defaults included."""
    answer = await api.create(namespace, deployment(), fieldManager="us")
    (entry,) = answer.body["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("us", "Update")
    assert "f:revisionHistoryLimit" in entry["fieldsV1"]["f:spec"]


async def test_missing_objects_are_named(api: Api, namespace: str) -> None:
    """404 carries resource, group and name."""
    answer = await api.get("Deployment", namespace, "nope")
    assert answer.code == 404
    assert answer.message == 'deployments.apps "nope" not found'
    assert answer.body["details"] == {"name": "nope", "group": "apps", "kind": "deployments"}


async def test_a_missing_kind_is_another_404(api: Api, namespace: str) -> None:
    """A kind that no CRD defines answers 404: plain text for a group, a Status inside a group that exists."""
    group = await api.call("GET", "/apis/nobody.example/v1/things")
    assert (group.code, group.message.strip()) == (404, "404 page not found")
    kind = await api.call("GET", f"/apis/apps/v1/namespaces/{namespace}/things")
    assert (kind.code, kind.message) == (404, "the server could not find the requested resource")


async def test_a_stale_update_is_refused(api: Api, namespace: str) -> None:
    """PUT with an old resourceVersion answers 409 Conflict; without one it is taken for a ConfigMap."""
    first = await api.create(namespace, config_map(data={"a": "1"}))
    await api.merge("ConfigMap", namespace, "one", {"data": {"a": "2"}})
    answer = await api.put(namespace, first.body)
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert answer.message.endswith("please apply your changes to the latest version and try again")
    assert (await api.put(namespace, config_map(data={"a": "3"}))).code == 200


async def test_a_stale_merge_patch_is_refused(api: Api, namespace: str) -> None:
    """A resourceVersion in a merge patch is a precondition."""
    await api.create(namespace, config_map(data={"a": "1"}))
    patch = {"metadata": {"resourceVersion": "1"}, "data": {"a": "2"}}
    assert (await api.merge("ConfigMap", namespace, "one", patch)).code == 409


@pytest.mark.usefixtures("widgets")
async def test_some_kinds_want_a_version(api: Api, namespace: str) -> None:
    """Leases and custom resources refuse a PUT without resourceVersion."""
    await api.create(namespace, manifest("Lease", "one", spec={"holderIdentity": "a"}))
    answer = await api.put(namespace, manifest("Lease", "one", spec={"holderIdentity": "b"}))
    assert answer.code == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.message
    await api.create(namespace, widget(size=1))
    assert (await api.put(namespace, widget(size=2))).code == 422


async def test_a_put_creates_leases_only(api: Api, namespace: str) -> None:
    """Leases are created by PUT, ConfigMaps are not."""
    assert (await api.put(namespace, manifest("Lease", "one", spec={"holderIdentity": "a"}))).code == 201
    assert (await api.put(namespace, config_map())).code == 404


async def test_a_put_that_changes_nothing_keeps_the_version(api: Api, namespace: str) -> None:
    """A no-op PUT writes nothing."""
    first = await api.create(namespace, config_map(data={"a": "1"}))
    assert (await api.put(namespace, first.body)).version == first.version


async def test_a_put_with_another_uid_is_a_conflict(api: Api, namespace: str) -> None:
    """PUT calls a wrong uid 409, where patches call it 422."""
    await api.create(namespace, config_map())
    put = await api.put(namespace, config_map(uid=MADE_UP))
    assert (put.code, put.body["reason"]) == (409, "Conflict")
    assert f"UID in precondition: {MADE_UP}" in put.message
    merge = await api.merge("ConfigMap", namespace, "one", {"metadata": {"uid": MADE_UP}})
    assert merge.code == 422


@pytest.mark.parametrize("precondition", [{"uid": MADE_UP}, {"resourceVersion": "1"}], ids=["uid", "version"])
async def test_a_delete_holds_to_its_preconditions(api: Api, namespace: str, precondition: Manifest) -> None:
    """A delete that names another object or state answers 409 and deletes nothing."""
    await api.create(namespace, config_map())
    answer = await api.delete("ConfigMap", namespace, "one", preconditions=precondition)
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert "in the precondition" in answer.message
    assert (await api.get("ConfigMap", namespace, "one")).code == 200


async def test_a_delete_answers_with_the_uid(api: Api, namespace: str) -> None:
    """What is gone at once is answered by a Status that names it; the second delete is 404."""
    made = await api.create(namespace, config_map())
    uid = made.body["metadata"]["uid"]
    answer = await api.delete("ConfigMap", namespace, "one", preconditions={"uid": uid})
    assert (answer.code, answer.body["status"]) == (200, "Success")
    assert answer.body["details"] == {"name": "one", "kind": "configmaps", "uid": uid}
    assert (await api.delete("ConfigMap", namespace, "one")).code == 404


async def test_a_finalizer_holds_an_object(api: Api, namespace: str) -> None:
    """A delete marks it and bumps nothing but the version; it goes when the last finalizer goes."""
    await api.create(namespace, config_map(finalizers=["x.example/a"]))
    answer = await api.delete("ConfigMap", namespace, "one")
    assert answer.code == 200
    assert answer.body["metadata"]["deletionTimestamp"]
    assert answer.body["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (await api.create(namespace, config_map())).body["reason"] == "AlreadyExists"
    assert (await api.merge("ConfigMap", namespace, "one", {"metadata": {"finalizers": []}})).code == 200
    assert (await api.get("ConfigMap", namespace, "one")).code == 404


@pytest.mark.usefixtures("widgets")
async def test_a_mark_for_deletion_counts_as_a_generation(api: Api, namespace: str) -> None:
    """`generation` grows when a custom resource starts to go."""
    await api.create(namespace, widget(size=1, metadata={"finalizers": ["x.example/a"]}))
    answer = await api.delete("Widget", namespace, "one")
    assert answer.body["metadata"]["generation"] == 2
    await api.merge("Widget", namespace, "one", {"metadata": {"finalizers": None}})


async def test_generations_count_changes_of_spec(api: Api, namespace: str) -> None:
    """A Deployment's generation grows with its spec, not with its labels."""
    await api.apply(namespace, deployment())
    labelled = await api.merge("Deployment", namespace, "one", {"metadata": {"labels": {"x": "y"}}})
    assert labelled.body["metadata"]["generation"] == 1
    scaled = await api.merge("Deployment", namespace, "one", {"spec": {"paused": True}})
    assert scaled.body["metadata"]["generation"] == 2


async def test_some_kinds_have_no_generation(api: Api, namespace: str) -> None:
    """ConfigMaps, Services, Leases and RBAC do not count."""
    binding = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}}
    for body in (
        config_map(),
        manifest("Service", "one", spec={"ports": [{"port": 80}]}),
        manifest("Lease", "one", spec={}),
        manifest("ServiceAccount", "one"),
        manifest("Role", "one", rules=[]),
        manifest("RoleBinding", "one", **binding),
        manifest("ControllerRevision", "one", revision=1, data={}),
    ):
        made = await api.apply(namespace, body)
        assert made.code == 201, made
        assert "generation" not in made.body["metadata"], body["kind"]


async def test_what_stands_around_a_workload_counts_its_generations(api: Api, namespace: str) -> None:
    """Budgets and network policies begin at 1, and a change of spec is 2."""
    for body, change in (
        (manifest("PodDisruptionBudget", "one", spec={"maxUnavailable": 1}), {"maxUnavailable": 2}),
        (manifest("NetworkPolicy", "one", spec={"podSelector": {}}), {"policyTypes": ["Egress"]}),
    ):
        made = await api.apply(namespace, body)
        assert made.body["metadata"]["generation"] == 1, made
        changed = await api.apply(namespace, {**body, "spec": {**body["spec"], **change}})
        assert changed.body["metadata"]["generation"] == 2, changed


@pytest.mark.usefixtures("widgets")
async def test_generations_of_custom_resources(api: Api, namespace: str) -> None:
    """With the subresource status does not count; without it everything but metadata does."""
    for kind, after_status in (("Widget", 1), ("Gadget", 2)):
        await api.create(namespace, widget(kind=kind, size=1))
        sub = "status" if kind == "Widget" else ""
        answer = await api.merge(kind, namespace, "one", {"status": {"phase": "x"}}, sub=sub)
        assert answer.body["metadata"]["generation"] == after_status
        labelled = await api.merge(kind, namespace, "one", {"metadata": {"labels": {"a": "b"}}})
        assert labelled.body["metadata"]["generation"] == after_status
        changed = await api.merge(kind, namespace, "one", {"spec": {"size": 2}})
        assert changed.body["metadata"]["generation"] == after_status + 1


async def test_a_dry_run_returns_what_would_be(api: Api, namespace: str) -> None:
    """A dry run of a create or a change answers as the real one and leaves no trace."""
    made = await api.apply(namespace, config_map(data={"a": "1"}), dryRun="All")
    assert (made.code, made.body["data"]) == (201, {"a": "1"})
    assert made.body["metadata"]["uid"]
    assert (await api.get("ConfigMap", namespace, "one")).code == 404
    first = await api.apply(namespace, config_map(data={"a": "1"}))
    would = await api.apply(namespace, config_map(data={"a": "2"}), dryRun="All")
    assert (would.code, would.body["data"], would.version) == (200, {"a": "2"}, first.version)
    assert (await api.get("ConfigMap", namespace, "one")).body == first.body


async def test_a_dry_run_fills_in_defaults(api: Api, namespace: str) -> None:
    """The would-be object of a dry run is defaulted: that is how drift is told from defaulting."""
    answer = await api.apply(namespace, deployment(), dryRun="All")
    assert answer.body["spec"]["revisionHistoryLimit"] == 10
    assert (await api.get("Deployment", namespace, "one")).code == 404


async def test_a_dry_run_reports_conflicts(api: Api, namespace: str) -> None:
    """A dry run without force finds the conflicts of the real apply."""
    await api.apply(namespace, config_map(data={"a": "1"}), manager="them")
    assert (await api.apply(namespace, config_map(data={"a": "2"}), dryRun="All")).code == 409


async def test_a_dry_run_deletes_nothing(api: Api, namespace: str) -> None:
    """`dryRun` in the options of a delete."""
    await api.create(namespace, config_map())
    assert (await api.delete("ConfigMap", namespace, "one", dryRun=["All"])).code == 200
    assert (await api.get("ConfigMap", namespace, "one")).code == 200


async def test_what_is_immutable_is_refused(api: Api, namespace: str) -> None:
    """A Deployment's selector, a RoleBinding's roleRef and a ControllerRevision's data answer 422."""
    await api.apply(namespace, deployment())
    other = {"matchLabels": {"app": "other"}}
    pod = {"metadata": {"labels": {"app": "other"}}, "spec": deployment()["spec"]["template"]["spec"]}
    selector = await api.apply(namespace, deployment(selector=other, template=pod), force=True)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    await api.apply(namespace, manifest("RoleBinding", "one", roleRef=role))
    binding = await api.apply(namespace, manifest("RoleBinding", "one", roleRef={**role, "name": "edit"}), force=True)
    await api.apply(namespace, manifest("ControllerRevision", "one", revision=1, data={"a": 1}))
    data = await api.apply(namespace, manifest("ControllerRevision", "one", revision=1, data={"a": 2}), force=True)
    for answer, field in ((selector, "spec.selector"), (binding, "roleRef"), (data, "data")):
        assert (answer.code, answer.body["reason"]) == (422, "Invalid")
        assert field in [cause["field"] for cause in answer.body["details"]["causes"]]


async def test_owned_objects_go_with_their_owner(api: Api, namespace: str) -> None:
    """A background delete removes the owner at once and its dependents soon."""
    owner = await api.create(namespace, config_map("owner"))
    await api.create(namespace, config_map("owned", ownerReferences=[_reference(owner.body)]))
    await api.delete("ConfigMap", namespace, "owner", propagationPolicy="Background")
    assert (await api.get("ConfigMap", namespace, "owner")).code == 404
    await _gone(api, namespace, "owned")


async def test_a_foreground_delete_goes_from_the_leaves(api: Api, namespace: str) -> None:
    """The owner waits, marked, until a dependent that blocks it is gone."""
    owner = await api.create(namespace, config_map("owner"))
    held = config_map("held", ownerReferences=[_reference(owner.body)], finalizers=["x.example/a"])
    await api.create(namespace, held)
    answer = await api.delete("ConfigMap", namespace, "owner", propagationPolicy="Foreground")
    assert answer.code == 200
    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def marked() -> bool:
        return "deletionTimestamp" in (await api.get("ConfigMap", namespace, "held")).body["metadata"]

    await eventually(marked)
    assert (await api.get("ConfigMap", namespace, "owner")).code == 200
    await api.merge("ConfigMap", namespace, "held", {"metadata": {"finalizers": None}})
    await _gone(api, namespace, "held")
    await _gone(api, namespace, "owner")


async def test_an_orphaning_delete_leaves_dependents(api: Api, namespace: str) -> None:
    """With Orphan the dependents stay and lose the reference."""
    owner = await api.create(namespace, config_map("owner"))
    await api.create(namespace, config_map("owned", ownerReferences=[_reference(owner.body)]))

    async def let_go() -> bool:
        return "ownerReferences" not in (await api.get("ConfigMap", namespace, "owned")).body["metadata"]

    await api.delete("ConfigMap", namespace, "owner", propagationPolicy="Orphan")
    await _gone(api, namespace, "owner")
    await eventually(let_go)


async def test_an_owner_that_never_was_takes_its_dependents(api: Api, namespace: str) -> None:
    """An ownerReference to a uid that does not exist gets the object collected."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": MADE_UP}
    await api.create(namespace, config_map("lost", ownerReferences=[reference]))
    await _gone(api, namespace, "lost")


async def test_an_update_keeps_what_the_server_set(api: Api, namespace: str) -> None:
    """uid, creationTimestamp and owners survive a PUT that does not carry them."""
    first = await api.create(namespace, config_map(data={"a": "1"}), fieldManager="us")
    answer = await api.put(namespace, config_map(data={"a": "2"}), fieldManager="us")
    for field in ("uid", "creationTimestamp"):
        assert answer.body["metadata"][field] == first.body["metadata"][field]
    assert managers(answer.body) == [("us", "Update", "")]


def _reference(owner: Manifest) -> Manifest:
    metadata = owner["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


async def _gone(api: Api, namespace: str, name: str) -> None:
    async def absent() -> bool:
        return (await api.get("ConfigMap", namespace, name)).code == 404

    await eventually(absent)


async def test_a_json_patch_holds_to_what_it_tests(api: Api, namespace: str) -> None:
    """Adds and removes by path, as kopf writes finalizers; a test that fails changes nothing and is Invalid."""
    made = await api.create(namespace, config_map(data={"k": "v"}))
    path = path_of("ConfigMap", namespace, "one")

    async def patch(*operations: Manifest) -> Answer:
        return await api.call("PATCH", path, list(operations), content=JSON_PATCH)

    same = {"op": "test", "path": "/metadata/resourceVersion", "value": made.version}
    added = await patch(same, {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/a"]})
    assert added.body["metadata"]["finalizers"] == ["example.com/a"]
    more = await patch({"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/b"})
    assert more.body["metadata"]["finalizers"] == ["example.com/a", "example.com/b"]
    stale = await patch(same, {"op": "remove", "path": "/metadata/finalizers/0"})
    absent = await patch({"op": "remove", "path": "/data/nothing"})
    assert [stale.code, absent.code] == [422, 422]
    less = await patch(
        {"op": "remove", "path": "/metadata/finalizers"}, {"op": "replace", "path": "/data/k", "value": "w"}
    )
    assert "finalizers" not in less.body["metadata"]
    assert less.body["data"] == {"k": "w"}


def _service(name: str, **spec: Any) -> Manifest:
    return manifest("Service", name, spec={"ports": [{"name": "m", "port": 1, "targetPort": 1}], **spec})


async def test_a_services_address_is_given_once(api: Api, namespace: str) -> None:
    """One that has an address never becomes headless, nor the other way round; who says nothing of it keeps it."""
    given = await api.apply(namespace, _service("one"))
    address = given.spec("spec", "clusterIP")
    assert address not in ("", "None")
    refused = await api.apply(namespace, _service("one", clusterIP="None"), force=True)
    assert refused.code == 422
    assert "may not change once set" in refused.message
    headless = await api.apply(namespace, _service("two", clusterIP="None"))
    assert headless.spec("spec", "clusterIP") == "None"
    silent = await api.apply(namespace, _service("two"))
    assert silent.code == 200
    assert silent.spec("spec", "clusterIP") == "None"


async def test_a_successor_is_asked_for_under_another_name(api: Api, namespace: str) -> None:
    """A dry-run that creates leaves nothing behind, and is refused as the creation itself would be."""
    body = deployment("one-next")
    trial = {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}
    assert (await api.apply(namespace, trial, dryRun="All")).code == 201
    assert (await api.get("Deployment", namespace, "one-next")).code == 404
    body["spec"]["template"]["spec"]["containers"][0]["image"] = ""
    trial = {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}
    assert (await api.apply(namespace, trial, dryRun="All")).code == 422
