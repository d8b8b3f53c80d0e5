"""ControllerRevisions as records: content that never changes, and metadata that says what is true of it now."""

import base64
import hashlib
from typing import Any

from metaoperator.core import packing

from .client import METADATA, Answer, Api, Manifest, manifest

NEVER = "1"  # no object ever has this resourceVersion: an apply that names it only creates
CONTENT = {"gzip": "H4sI+/=="}


def record(name: str = "one", /, *, data: Any = CONTENT, revision: int = 1, **metadata: Any) -> Manifest:
    """Build a record."""
    more = {} if data is None else {"data": data}
    return manifest("ControllerRevision", name, metadata={"labels": {"a": "b"}, **metadata}, revision=revision, **more)


async def made(api: Api, namespace: str, **how: Any) -> Answer:
    """Create a record as the operator does."""
    answer = await api.apply(namespace, record(resourceVersion=NEVER, **how))
    assert answer.code == 201, answer
    return answer


def refused(answer: Answer, field: str, why: str) -> None:
    """Hold an answer to be the 422 that names a field."""
    assert (answer.code, answer.body["reason"]) == (422, "Invalid"), answer
    assert 'ControllerRevision.apps "one" is invalid: ' in answer.message
    assert f"{field}: " in answer.message
    assert why in answer.message


async def test_a_record_is_created_and_never_touched_by_creating_it_again(api: Api, namespace: str) -> None:
    """201 once, then 409 whatever is sent, and what is there stays as it is."""
    before = await made(api, namespace)
    assert (before.body["data"], before.body["revision"]) == (CONTENT, 1)
    for data in (CONTENT, {"gzip": "other"}):
        again = await api.apply(namespace, record(resourceVersion=NEVER, data=data, revision=7))
        assert (again.code, again.body["reason"]) == (409, "Conflict")
    assert (await api.get("ControllerRevision", namespace, "one")).body == before.body


async def test_what_is_said_of_a_record_changes_by_a_merge(api: Api, namespace: str) -> None:
    """Labels, annotations and number; a null takes an annotation away; the content is not sent for it."""
    first = await made(api, namespace, annotations={"proven": "yes", "since": "1"})
    patch = {"metadata": {"annotations": {"proven": None, "since": "2"}, "labels": {"a": "c"}}, "revision": 7}
    answer = await api.merge("ControllerRevision", namespace, "one", patch)
    assert answer.code == 200
    assert answer.body["metadata"]["annotations"] == {"since": "2"}
    assert answer.body["metadata"]["labels"] == {"a": "c"}
    assert (answer.body["revision"], answer.body["data"]) == (7, CONTENT)
    assert answer.body["metadata"]["uid"] == first.body["metadata"]["uid"]


async def test_a_merge_is_held_to_the_object_and_the_version_that_it_names(api: Api, namespace: str) -> None:
    """409 for another version, and for another UID: it is not the record that was looked at."""
    first = await made(api, namespace)
    meta = {"uid": first.body["metadata"]["uid"], "resourceVersion": first.version}
    assert (await api.merge("ControllerRevision", namespace, "one", {"metadata": meta, "revision": 2})).code == 200
    stale = await api.merge("ControllerRevision", namespace, "one", {"metadata": meta, "revision": 3})
    assert (stale.code, stale.body["reason"]) == (409, "Conflict")


async def test_the_content_of_a_record_never_changes(api: Api, namespace: str) -> None:
    """However it is written: 422. A real one compares bytes, so even white space in a PUT is another content."""
    before = await made(api, namespace)
    other = {"gzip": "other"}
    why = "field is immutable"
    refused(await api.merge("ControllerRevision", namespace, "one", {"data": other}), "data", why)
    refused(await api.apply(namespace, record(data=other), force=True), "data", why)
    version: Any = {"resourceVersion": before.version}
    refused(await api.put(namespace, record(data=other, **version)), "data", why)
    assert (await api.get("ControllerRevision", namespace, "one")).body == before.body


async def test_an_apply_without_the_content_would_take_it_away(api: Api, namespace: str) -> None:
    """And is refused: what is said of a record has to be merged into it."""
    await made(api, namespace)
    refused(await api.apply(namespace, record(data=None, revision=2)), "data", "field is immutable")


async def test_a_record_has_content_and_a_number(api: Api, namespace: str) -> None:
    """Without content, or with a number below zero, it is refused."""
    refused(await api.create(namespace, record(data=None)), "data", "Required value: data is mandatory")
    told = "Invalid value: -1: must be greater than or equal to 0"
    refused(await api.create(namespace, record(revision=-1)), "revision", told)
    assert (await api.create(namespace, record(revision=0))).code == 201


async def test_metadata_alone_is_listed_and_answered(api: Api, namespace: str) -> None:
    """No content crosses the wire for whoever asks for none."""
    await made(api, namespace, labels={"metaoperator.dev/record": "set"})
    found = await api.get("ControllerRevision", namespace, accept=METADATA.format("List"))
    (item,) = found.body["items"]
    assert item["metadata"]["labels"] == {"metaoperator.dev/record": "set"}
    assert not {"data", "revision"} & set(item)
    chosen = await api.get("ControllerRevision", namespace, labelSelector="metaoperator.dev/record")
    assert len(chosen.body["items"]) == 1


async def test_a_record_of_the_size_that_is_allowed_is_stored(api: Api, namespace: str) -> None:
    """With annotations beside it; the store takes it, and the answer holds all of it."""
    noise = b"".join(hashlib.sha256(str(i).encode()).digest() for i in range(packing.MAX_COMPRESSED // 32))
    data = {packing.KEY: base64.b64encode(noise).decode()}
    answer = await made(api, namespace, data=data, annotations={"why": "x" * 4096})
    assert answer.body["data"] == data
