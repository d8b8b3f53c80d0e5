"""Watches: what arrives, in which order, and how they end."""

import pytest

from .builders import config_map, widget
from .client import METADATA, Api, manifest

OURS = {"ours": "yes"}


async def _now(api: Api, namespace: str) -> str:
    return (await api.get("ConfigMap", namespace)).version


async def test_a_watch_continues_from_a_list(api: Api, namespace: str) -> None:
    """From a list's resourceVersion every later change arrives once, in order, with its new version."""
    since = await _now(api, namespace)
    first = await api.create(namespace, config_map("a", labels=OURS))
    await api.merge("ConfigMap", namespace, "a", {"data": {"x": "1"}})
    await api.delete("ConfigMap", namespace, "a")
    async with api.watch("ConfigMap", namespace, resourceVersion=since, labelSelector="ours") as stream:
        events = [await stream.next() for _ in range(3)]
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[0][1] == first.body
    versions = [int(obj["metadata"]["resourceVersion"]) for _, obj in events]
    assert versions == sorted(set(versions))
    assert events[2][1]["data"] == {"x": "1"}


async def test_a_watch_without_a_version_begins_with_what_is_there(api: Api, namespace: str) -> None:
    """Without resourceVersion, or with 0, existing objects arrive as ADDED."""
    await api.create(namespace, config_map("a", labels=OURS))
    for version in ({}, {"resourceVersion": "0"}):
        async with api.watch("ConfigMap", namespace, labelSelector="ours", **version) as stream:
            assert await stream.take(1) == [("ADDED", "a")]


async def test_leaving_the_selector_is_a_deletion(api: Api, namespace: str) -> None:
    """An object that no longer matches arrives as DELETED: the old labels, the new resourceVersion."""
    made = await api.create(namespace, config_map("a", labels=OURS, data={"x": "old"}))
    async with api.watch("ConfigMap", namespace, resourceVersion=made.version, labelSelector="ours") as stream:
        patch = {"metadata": {"labels": {"ours": None}}, "data": {"x": "new"}}
        left = await api.merge("ConfigMap", namespace, "a", patch)
        kind, obj = await stream.next()
    assert kind == "DELETED"
    assert obj["metadata"]["labels"] == OURS
    assert obj["data"] == {"x": "old"}
    assert obj["metadata"]["resourceVersion"] == left.version


async def test_entering_the_selector_is_an_addition(api: Api, namespace: str) -> None:
    """An object that starts to match arrives as ADDED; what happens outside does not arrive."""
    made = await api.create(namespace, config_map("a"))
    async with api.watch("ConfigMap", namespace, resourceVersion=made.version, labelSelector="ours") as stream:
        await api.merge("ConfigMap", namespace, "a", {"data": {"x": "1"}})
        await api.merge("ConfigMap", namespace, "a", {"metadata": {"labels": OURS}})
        kind, obj = await stream.next()
    assert (kind, obj["data"]) == ("ADDED", {"x": "1"})


async def test_a_deletion_outside_the_selector_does_not_arrive(api: Api, namespace: str) -> None:
    """Only objects that matched last are reported as DELETED."""
    made = await api.create(namespace, config_map("a"))
    async with api.watch("ConfigMap", namespace, resourceVersion=made.version, labelSelector="ours") as stream:
        await api.delete("ConfigMap", namespace, "a")
        await api.create(namespace, config_map("b", labels=OURS))
        assert await stream.take(1) == [("ADDED", "b")]


async def test_a_watch_of_one_name(api: Api, namespace: str) -> None:
    """`fieldSelector=metadata.name=` narrows a watch."""
    since = await _now(api, namespace)
    selector = {"fieldSelector": "metadata.name=b", "resourceVersion": since}
    async with api.watch("ConfigMap", namespace, **selector) as stream:
        await api.create(namespace, config_map("a"))
        await api.create(namespace, config_map("b"))
        assert await stream.take(1) == [("ADDED", "b")]


async def test_a_finalizer_shows_as_a_modification(api: Api, namespace: str) -> None:
    """A held delete is MODIFIED with a deletionTimestamp; DELETED comes when the finalizer goes."""
    made = await api.create(namespace, config_map("a", finalizers=["x.example/a"]))
    async with api.watch("ConfigMap", namespace, resourceVersion=made.version) as stream:
        await api.delete("ConfigMap", namespace, "a")
        kind, obj = await stream.next()
        assert kind == "MODIFIED"
        assert obj["metadata"]["deletionTimestamp"]
        await api.merge("ConfigMap", namespace, "a", {"metadata": {"finalizers": None}})
        assert await stream.take(1) == [("DELETED", "a")]


async def test_a_write_without_a_change_is_no_event(api: Api, namespace: str) -> None:
    """A no-op apply wakes nobody."""
    made = await api.apply(namespace, config_map("a", data={"x": "1"}))
    async with api.watch("ConfigMap", namespace, resourceVersion=made.version) as stream:
        await api.apply(namespace, config_map("a", data={"x": "1"}))
        await api.create(namespace, config_map("b"))
        assert await stream.take(1) == [("ADDED", "b")]


async def test_a_dry_run_is_no_event(api: Api, namespace: str) -> None:
    """What would be is not announced."""
    since = await _now(api, namespace)
    async with api.watch("ConfigMap", namespace, resourceVersion=since) as stream:
        await api.apply(namespace, config_map("a"), dryRun="All")
        await api.create(namespace, config_map("b"))
        assert await stream.take(1) == [("ADDED", "b")]


async def test_metadata_only_watches(api: Api, namespace: str) -> None:
    """Events carry PartialObjectMetadata when the Accept header asks for it, deletions too."""
    since = await _now(api, namespace)
    accept = METADATA.format("")
    async with api.watch("ConfigMap", namespace, accept=accept, resourceVersion=since) as stream:
        await api.create(namespace, config_map("a", data={"x": "1"}))
        await api.delete("ConfigMap", namespace, "a")
        for expected in ("ADDED", "DELETED"):
            kind, obj = await stream.next()
            assert (kind, obj["kind"], obj["apiVersion"]) == (expected, "PartialObjectMetadata", "meta.k8s.io/v1")
            assert set(obj) == {"kind", "apiVersion", "metadata"}


async def test_bookmarks_tell_how_far_the_watch_has_come(api: Api, namespace: str) -> None:
    """A bookmark carries a resourceVersion past what happened elsewhere, and nothing else of use."""
    since = await _now(api, namespace)
    query = {"resourceVersion": since, "allowWatchBookmarks": "true", "timeoutSeconds": "10", "labelSelector": "ours"}
    async with api.watch("ConfigMap", namespace, **query) as stream:
        other = await api.create(namespace, config_map("unseen"))
        while True:
            kind, obj = await stream.next(15)
            assert kind == "BOOKMARK"
            assert obj["kind"] == "ConfigMap"
            if int(obj["metadata"]["resourceVersion"]) >= int(other.version):
                break


async def test_a_watch_ends_after_its_timeout(api: Api, namespace: str) -> None:
    """`timeoutSeconds` ends the stream without a word."""
    since = await _now(api, namespace)
    async with api.watch("ConfigMap", namespace, resourceVersion=since, timeoutSeconds="1") as stream:
        assert (await stream.next(5))[0] == "END"


async def test_a_watch_from_before_the_history_is_gone(api: Api, namespace: str) -> None:
    """A version that was compacted gives 200 and one ERROR event with code 410, reason Expired."""
    if api.compact is not None:
        await api.create(namespace, config_map("a"))
        api.compact()
    async with api.watch("ConfigMap", namespace, resourceVersion="1", timeoutSeconds="3") as stream:
        assert stream.code == 200
        kind, obj = await stream.next()
        if api.real and kind != "ERROR":
            pytest.skip("the real server still remembers everything")
        assert (kind, obj["kind"], obj["code"], obj["reason"]) == ("ERROR", "Status", 410, "Expired")
        assert obj["message"].startswith("too old resource version: 1 (")
        assert (await stream.next())[0] == "END"


async def test_a_watch_of_namespaces_follows_a_label(api: Api, namespace: str) -> None:
    """Opting out by label looks like a deletion; the namespace itself is still there."""
    label = f"contract/{namespace}"
    await api.merge("Namespace", None, namespace, {"metadata": {"labels": {label: "on"}}})
    async with api.watch("Namespace", None, labelSelector=label) as stream:
        assert await stream.take(1) == [("ADDED", namespace)]
        await api.merge("Namespace", None, namespace, {"metadata": {"labels": {label: None}}})
        kind, obj = await stream.next()
    assert (kind, obj["metadata"]["labels"][label]) == ("DELETED", "on")
    live = await api.get("Namespace", None, namespace)
    assert (live.code, live.body["status"]["phase"]) == (200, "Active")


@pytest.mark.usefixtures("widgets")
async def test_custom_resources_are_watched_alike(api: Api, namespace: str) -> None:
    """A change of status is MODIFIED, and so is one of spec."""
    made = await api.create(namespace, widget(size=1))
    async with api.watch("Widget", namespace, resourceVersion=made.version) as stream:
        await api.apply(namespace, widget(status={"phase": "x"}), sub="status")
        await api.merge("Widget", namespace, "one", {"spec": {"size": 2}})
        assert await stream.take(2) == [("MODIFIED", "one"), ("MODIFIED", "one")]


async def test_a_kind_that_is_not_served_cannot_be_watched(api: Api) -> None:
    """A watch of a missing kind is a plain 404."""
    answer = await api.call("GET", "/apis/apps/v1/things", watch="true")
    assert answer.code == 404


async def test_only_the_namespace_asked_for_arrives(api: Api, namespace: str) -> None:
    """A watch inside a namespace does not see others."""
    since = await _now(api, namespace)
    async with api.watch("ConfigMap", namespace, resourceVersion=since) as stream:
        elsewhere = manifest("ConfigMap", namespace, metadata={"labels": OURS})
        assert (await api.create("default", elsewhere)).code == 201
        await api.delete("ConfigMap", "default", namespace)
        await api.create(namespace, config_map("b"))
        assert await stream.take(1) == [("ADDED", "b")]
