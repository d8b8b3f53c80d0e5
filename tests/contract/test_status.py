"""The status subresource: what it lets through, and whose it is."""

import pytest

from .builders import managers, owned, widget
from .client import Api, manifest

READY = {"conditions": [{"type": "Ready", "status": "True"}]}


@pytest.mark.usefixtures("widgets")
async def test_a_status_of_nothing_is_not_found(api: Api, namespace: str) -> None:
    """An apply to `/status` creates nothing."""
    answer = await api.apply(namespace, widget(status=READY), sub="status")
    assert (answer.code, answer.body["reason"]) == (404, "NotFound")
    missing = await api.apply(namespace, manifest("Deployment", "one", status={"replicas": 1}), sub="status")
    assert missing.code == 404


@pytest.mark.usefixtures("widgets")
async def test_a_kind_without_status_has_no_such_path(api: Api, namespace: str) -> None:
    """`/status` of a kind that has none is another 404."""
    await api.create(namespace, widget(kind="Gadget", size=1))
    answer = await api.apply(namespace, widget(kind="Gadget", status=READY), sub="status")
    assert answer.code == 404


@pytest.mark.usefixtures("widgets")
async def test_the_main_resource_ignores_status(api: Api, namespace: str) -> None:
    """Neither create nor apply nor update of the object writes status."""
    made = await api.apply(namespace, widget(size=2, status=READY))
    assert "status" not in made.body
    assert "f:status" not in owned(made.body, "us")
    updated = await api.put(namespace, {**made.body, "status": READY})
    assert "status" not in updated.body


@pytest.mark.usefixtures("widgets")
async def test_the_subresource_ignores_the_rest(api: Api, namespace: str) -> None:
    """An apply to `/status` changes status only: no spec, no label, no generation."""
    made = await api.apply(namespace, widget(size=2))
    body = widget(size=3, status=READY, metadata={"labels": {"x": "y"}})
    answer = await api.apply(namespace, body, sub="status")
    assert answer.code == 200
    assert answer.body["spec"] == {"size": 2}
    assert "labels" not in answer.body["metadata"]
    assert answer.body["status"] == READY
    assert answer.body["metadata"]["generation"] == made.body["metadata"]["generation"]


@pytest.mark.usefixtures("widgets")
async def test_status_has_its_own_entry(api: Api, namespace: str) -> None:
    """One manager has one entry for the object and one for its status."""
    await api.apply(namespace, widget(size=2))
    answer = await api.apply(namespace, widget(status=READY), sub="status")
    assert managers(answer.body) == [("us", "Apply", ""), ("us", "Apply", "status")]
    assert owned(answer.body, "us") == {"f:spec": {"f:size": {}}}
    assert owned(answer.body, "us", sub="status") == {
        "f:status": {"f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:status": {}, "f:type": {}}}}
    }


@pytest.mark.usefixtures("widgets")
async def test_the_same_status_again_changes_nothing(api: Api, namespace: str) -> None:
    """A no-op on `/status` keeps the resourceVersion."""
    await api.apply(namespace, widget(size=2))
    first = await api.apply(namespace, widget(status=READY), sub="status")
    again = await api.apply(namespace, widget(status=READY), sub="status")
    assert again.body == first.body


@pytest.mark.usefixtures("widgets")
async def test_conditions_merge_by_type_and_leave_when_dropped(api: Api, namespace: str) -> None:
    """Each manager has its own conditions."""
    await api.apply(namespace, widget(size=2))
    theirs = {"conditions": [{"type": "Theirs", "status": "True"}]}
    await api.apply(namespace, widget(status=theirs), sub="status", manager="them")
    both = await api.apply(namespace, widget(status={**READY, "phase": "x"}), sub="status")
    assert [each["type"] for each in both.body["status"]["conditions"]] == ["Theirs", "Ready"]
    left = await api.apply(namespace, widget(status={"phase": "x"}), sub="status")
    assert left.body["status"] == {**theirs, "phase": "x"}


@pytest.mark.usefixtures("widgets")
async def test_a_merge_patch_of_status(api: Api, namespace: str) -> None:
    """A patch of `/status` owns what it changed, as an Update of the subresource."""
    await api.apply(namespace, widget(size=2))
    patch = {"status": {"phase": "x"}, "spec": {"size": 9}}
    answer = await api.merge("Widget", namespace, "one", patch, sub="status", fieldManager="them")
    assert answer.body["spec"] == {"size": 2}
    assert answer.body["status"] == {"phase": "x"}
    assert ("them", "Update", "status") in managers(answer.body)
