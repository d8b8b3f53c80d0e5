"""How to create by apply without ever touching an object that is already there."""

import asyncio

import pytest

from .builders import config_map, deployment, managers, owned, widget
from .client import Api, Manifest, manifest

MADE_UP = "00000000-0000-4000-8000-000000000000"
NEVER = "1"  # etcd's first write is revision 2, so that no object ever has this resourceVersion


def _named(body: Manifest, **metadata: str) -> Manifest:
    return {**body, "metadata": {**body["metadata"], **metadata}}


async def test_a_made_up_uid_does_not_create(api: Api, namespace: str) -> None:
    """An apply that names a uid is refused when there is no object, so the uid is no create-only mark."""
    answer = await api.apply(namespace, config_map(uid=MADE_UP), force=True)
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert (
        f"uid mismatch: the provided object specified uid {MADE_UP}, and no existing object was found" in answer.message
    )
    assert (await api.get("ConfigMap", namespace, "one")).code == 404


async def test_a_made_up_uid_does_not_touch(api: Api, namespace: str) -> None:
    """An apply that names another uid is refused when there is an object, even by force: invalid, not a conflict."""
    before = await api.create(namespace, config_map(data={"a": "theirs"}))
    answer = await api.apply(namespace, config_map(data={"a": "ours"}, uid=MADE_UP), force=True)
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert f'metadata.uid: Invalid value: "{MADE_UP}": field is immutable' in answer.message
    assert (await api.get("ConfigMap", namespace, "one")).body == before.body


async def test_the_right_uid_is_a_precondition_that_holds(api: Api, namespace: str) -> None:
    """An apply that names the uid of the object is taken, and does not own the uid."""
    before = await api.create(namespace, config_map(data={"a": "1"}))
    uid = before.body["metadata"]["uid"]
    answer = await api.apply(namespace, config_map(data={"b": "2"}, uid=uid))
    assert answer.code == 200
    assert owned(answer.body, "us") == {"f:data": {"f:b": {}}}


@pytest.mark.parametrize("body", [config_map(data={"a": "1"}), deployment()], ids=["ConfigMap", "Deployment"])
async def test_an_impossible_version_creates_what_is_not_there(api: Api, namespace: str, body: Manifest) -> None:
    """An apply with resourceVersion 1 creates, and the entry is that of an ordinary apply."""
    answer = await api.apply(namespace, _named(body, resourceVersion=NEVER))
    assert answer.code == 201
    assert answer.version != NEVER
    assert managers(answer.body) == [("us", "Apply", "")]
    assert "f:resourceVersion" not in owned(answer.body, "us").get("f:metadata", {})


async def test_an_impossible_version_is_for_every_kind(api: Api, namespace: str) -> None:
    """Create-only works for all kinds that a child consists of, also for those that PUT would create."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    for body in (
        manifest("ServiceAccount", "one"),
        manifest("Service", "one", spec={"ports": [{"port": 80}]}),
        manifest("Role", "one", rules=[]),
        manifest("RoleBinding", "one", roleRef=role),
        manifest("Lease", "one", spec={"holderIdentity": "x"}),
        manifest("ControllerRevision", "one", revision=1, data={}),
        manifest("PodDisruptionBudget", "one", spec={"maxUnavailable": 1}),
        manifest("NetworkPolicy", "one", spec={"podSelector": {}}),
    ):
        only = _named(body, resourceVersion=NEVER)
        codes = [(await api.apply(namespace, only, force=True)).code for _ in range(2)]
        assert codes == [201, 409], body["kind"]


async def test_an_impossible_version_respects_what_is_being_deleted(api: Api, namespace: str) -> None:
    """An object that waits for a finalizer is still there, and refused like any other."""
    await api.create(namespace, config_map(finalizers=["x.example/a"]))
    await api.delete("ConfigMap", namespace, "one")
    assert (await api.apply(namespace, config_map(resourceVersion=NEVER), force=True)).code == 409
    await api.merge("ConfigMap", namespace, "one", {"metadata": {"finalizers": None}})
    assert (await api.apply(namespace, config_map(resourceVersion=NEVER), force=True)).code == 201


@pytest.mark.usefixtures("widgets")
async def test_an_impossible_version_creates_a_custom_resource(api: Api, namespace: str) -> None:
    """The same holds for custom resources."""
    answer = await api.apply(namespace, widget(size=2, metadata={"resourceVersion": NEVER}))
    assert answer.code == 201
    assert managers(answer.body) == [("us", "Apply", "")]


@pytest.mark.parametrize("force", [False, True], ids=["polite", "forced"])
@pytest.mark.parametrize("body", [config_map(data={"a": "1"}), deployment()], ids=["ConfigMap", "Deployment"])
async def test_an_impossible_version_never_touches_what_is_there(
    api: Api, namespace: str, body: Manifest, *, force: bool
) -> None:
    """An apply with resourceVersion 1 is refused when there is an object, even without a difference."""
    assert (await api.create(namespace, body, fieldManager="them")).code == 201
    answer = await api.apply(namespace, _named(body, resourceVersion=NEVER), force=force)
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert "the object has been modified" in answer.message
    after = await api.get(body["kind"], namespace, "one")
    assert ("us", "Apply", "") not in managers(after.body)


@pytest.mark.usefixtures("widgets")
async def test_an_impossible_version_never_touches_a_custom_resource(api: Api, namespace: str) -> None:
    """The same holds for custom resources."""
    before = await api.create(namespace, widget(size=1), fieldManager="them")
    answer = await api.apply(namespace, widget(size=2, metadata={"resourceVersion": NEVER}), force=True)
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert (await api.get("Widget", namespace, "one")).body == before.body


async def test_of_many_creators_one_wins(api: Api, namespace: str) -> None:
    """Applied by many at once, one creates and all others are refused."""
    bodies = [config_map(data={"by": str(number)}, resourceVersion=NEVER) for number in range(8)]
    answers = await asyncio.gather(*(api.apply(namespace, body, force=True) for body in bodies))
    assert sorted(answer.code for answer in answers) == [201, *[409] * 7]
    (winner,) = (answer for answer in answers if answer.code == 201)
    assert (await api.get("ConfigMap", namespace, "one")).body == winner.body


async def test_an_impossible_version_works_in_a_dry_run(api: Api, namespace: str) -> None:
    """A dry run tells beforehand which of the two it would be."""
    body = config_map(data={"a": "1"}, resourceVersion=NEVER)
    assert (await api.apply(namespace, body, dryRun="All")).code == 201
    assert (await api.apply(namespace, body)).code == 201
    assert (await api.apply(namespace, body, dryRun="All")).code == 409


@pytest.mark.parametrize("version", ["0", ""], ids=["zero", "empty"])
async def test_version_zero_is_no_precondition(api: Api, namespace: str, version: str) -> None:
    """An apply with resourceVersion 0 or an empty one changes an existing object: it says nothing."""
    await api.create(namespace, config_map(data={"a": "theirs"}), fieldManager="them")
    answer = await api.apply(namespace, config_map(data={"b": "ours"}, resourceVersion=version))
    assert answer.code == 200
    assert answer.body["data"] == {"a": "theirs", "b": "ours"}


async def test_a_stale_version_is_refused_and_the_right_one_taken(api: Api, namespace: str) -> None:
    """An apply that names a resourceVersion holds only for that version."""
    first = await api.apply(namespace, config_map(data={"a": "1"}))
    second = await api.apply(namespace, config_map(data={"a": "2"}))
    stale = await api.apply(namespace, config_map(data={"a": "3"}, resourceVersion=first.version))
    assert (stale.code, stale.body["reason"]) == (409, "Conflict")
    assert (await api.apply(namespace, config_map(data={"a": "3"}, resourceVersion=second.version))).code == 200


async def test_a_create_and_an_apply_of_one_manager_own_twice(api: Api, namespace: str) -> None:
    """POST with a fieldManager followed by an apply leaves an Update entry that keeps dropped fields alive.

    That is why POST is no way to create what is applied later.
    """
    await api.create(namespace, config_map(data={"a": "1", "b": "2"}), fieldManager="us")
    applied = await api.apply(namespace, config_map(data={"a": "1", "b": "2"}))
    assert managers(applied.body) == [("us", "Apply", ""), ("us", "Update", "")]
    dropped = await api.apply(namespace, config_map(data={"a": "1"}))
    assert dropped.body["data"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize("body", [config_map(data={"a": "1"}), deployment()], ids=["ConfigMap", "Deployment"])
async def test_a_creation_is_rehearsed_as_it_is_done(api: Api, namespace: str, body: Manifest) -> None:
    """A dry-run with that version answers 201 with a UID and stores nothing; on what is there it is a 409 too."""
    only = _named(body, resourceVersion=NEVER)
    answer = await api.apply(namespace, only, dryRun="All")
    assert (answer.code, bool(answer.body["metadata"]["uid"])) == (201, True)
    assert (await api.get(body["kind"], namespace, "one")).code == 404
    assert (await api.apply(namespace, only)).code == 201
    assert (await api.apply(namespace, only, dryRun="All")).code == 409
