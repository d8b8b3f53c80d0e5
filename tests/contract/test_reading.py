"""Get and list: selectors, pages, metadata only."""

import pytest

from .builders import config_map, deployment, widget
from .client import APPLY, METADATA, Api, Manifest, path_of

LABELS = {"a": {"env": "dev", "tier": "web"}, "b": {"env": "prod"}, "c": {"tier": "web", "solo": ""}}


async def _fill(api: Api, namespace: str) -> None:
    for name, labels in LABELS.items():
        # The mark keeps out what a real cluster puts into every namespace.
        assert (await api.create(namespace, config_map(name, labels={**labels, "ours": "yes"}))).code == 201


def _names(listed: Manifest) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("env=dev", "a"),
        ("env==dev", "a"),
        ("env!=dev", "bc"),
        ("env in (dev, prod)", "ab"),
        ("env notin (dev)", "bc"),
        ("env", "ab"),
        ("!env", "c"),
        ("solo=", "c"),
        ("env,tier=web", "a"),
        ("env in (dev,prod),!tier", "b"),
        ("nothing", ""),
    ],
)
async def test_label_selectors(api: Api, namespace: str, selector: str, expected: str) -> None:
    """Every form selects what the real server selects."""
    await _fill(api, namespace)
    answer = await api.get("ConfigMap", namespace, labelSelector=f"ours,{selector}")
    assert _names(answer.body) == list(expected)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name!=a", "bc"),
        ("metadata.name=zz", ""),
        ("metadata.namespace=default", ""),
    ],
)
async def test_field_selectors(api: Api, namespace: str, selector: str, expected: str) -> None:
    """Name and namespace can be selected."""
    await _fill(api, namespace)
    answer = await api.get("ConfigMap", namespace, labelSelector="ours", fieldSelector=selector)
    assert _names(answer.body) == list(expected)


async def test_selectors_that_cannot_be_read(api: Api, namespace: str) -> None:
    """Nonsense and unknown fields answer 400."""
    assert (await api.get("ConfigMap", namespace, labelSelector="a=b=c")).code == 400
    unknown = await api.get("ConfigMap", namespace, fieldSelector="spec.nothing=x")
    assert (unknown.code, unknown.body["reason"]) == (400, "BadRequest")


async def test_all_namespaces_are_one_list(api: Api, namespace: str) -> None:
    """Without a namespace the list holds every namespace's objects."""
    await _fill(api, namespace)
    answer = await api.get("ConfigMap", None, labelSelector="ours", fieldSelector=f"metadata.namespace={namespace}")
    assert _names(answer.body) == ["a", "b", "c"]


async def test_version_zero_lists_what_the_cache_has(api: Api, namespace: str) -> None:
    """`resourceVersion=0` is allowed for lists, and a limit does not cut them."""
    await _fill(api, namespace)
    answer = await api.get("ConfigMap", namespace, labelSelector="ours", resourceVersion="0")
    assert answer.code == 200
    assert set(_names(answer.body)) <= set("abc")


async def test_a_list_of_the_future_is_refused(api: Api, namespace: str) -> None:
    """A resourceVersion that does not exist yet answers 504 with a hint to wait."""
    answer = await api.get("ConfigMap", namespace, resourceVersion="999999999999")
    assert (answer.code, answer.body["reason"]) == (504, "Timeout")
    assert "Too large resource version" in answer.message


@pytest.mark.usefixtures("widgets")
async def test_typed_items_do_not_repeat_their_kind(api: Api, namespace: str) -> None:
    """Items of built-in lists have no kind and apiVersion, those of custom resources have."""
    await _fill(api, namespace)
    listed = await api.get("ConfigMap", namespace, labelSelector="ours")
    assert (listed.body["kind"], listed.body["apiVersion"]) == ("ConfigMapList", "v1")
    assert all("kind" not in item and "apiVersion" not in item for item in listed.body["items"])
    await api.create(namespace, widget(size=1))
    listed = await api.get("Widget", namespace)
    assert listed.body["kind"] == "WidgetList"
    assert [item["kind"] for item in listed.body["items"]] == ["Widget"]


async def test_pages_are_of_one_moment(api: Api, namespace: str) -> None:
    """Later pages show the state of the first, with its resourceVersion."""
    await _fill(api, namespace)
    first = await api.get("ConfigMap", namespace, labelSelector="ours", limit="2")
    assert _names(first.body) == ["a", "b"]
    await api.delete("ConfigMap", namespace, "c")
    token = first.body["metadata"]["continue"]
    second = await api.get("ConfigMap", namespace, labelSelector="ours", limit="2", **{"continue": token})
    assert _names(second.body) == ["c"]
    assert second.version == first.version
    assert not second.body["metadata"].get("continue")


@pytest.mark.usefixtures("widgets")
async def test_a_page_says_what_remains(api: Api, namespace: str) -> None:
    """`remainingItemCount` is there without a selector, and absent with one."""
    for name in "abc":
        await api.create(namespace, widget(name, size=1))
    assert (await api.get("Widget", namespace, limit="1")).body["metadata"]["remainingItemCount"] == 2
    selected = await api.get("Widget", namespace, limit="1", labelSelector="!x")
    assert "remainingItemCount" not in selected.body["metadata"]


async def test_a_bogus_token_is_a_bad_request(api: Api, namespace: str) -> None:
    """A continue token that nobody made answers 400, not 410."""
    answer = await api.get("ConfigMap", namespace, limit="1", **{"continue": "bogus"})
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")


async def test_a_page_after_compaction_has_expired(api: Api, namespace: str) -> None:
    """A continue token from before the history answers HTTP 410 Expired."""
    if api.compact is None:
        pytest.skip("a real server compacts in its own time")
    await _fill(api, namespace)
    first = await api.get("ConfigMap", namespace, limit="1")
    await api.create(namespace, config_map("d"))
    api.compact()
    answer = await api.get("ConfigMap", namespace, limit="1", **{"continue": first.body["metadata"]["continue"]})
    assert (answer.code, answer.body["reason"]) == (410, "Expired")


async def test_metadata_only_lists(api: Api, namespace: str) -> None:
    """The Accept header cuts everything but metadata; each item says what it is."""
    await api.create(namespace, config_map(data={"a": "1"}, labels={"ours": "yes"}))
    answer = await api.get("ConfigMap", namespace, accept=METADATA.format("List"), labelSelector="ours")
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    (item,) = answer.body["items"]
    assert (item["kind"], item["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert set(item) == {"kind", "apiVersion", "metadata"}
    assert item["metadata"]["labels"] == {"ours": "yes"}


async def test_metadata_only_answers_to_get_and_apply(api: Api, namespace: str) -> None:
    """One object can be asked for in the same way."""
    await api.apply(namespace, deployment())
    answer = await api.get("Deployment", namespace, "one", accept=METADATA.format(""))
    assert answer.body["kind"] == "PartialObjectMetadata"
    assert set(answer.body) == {"kind", "apiVersion", "metadata"}
    path, query = path_of("Deployment", namespace, "one"), {"fieldManager": "us"}
    applied = await api.call("PATCH", path, deployment(), content=APPLY, accept=METADATA.format(""), **query)
    assert applied.body["kind"] == "PartialObjectMetadata"
