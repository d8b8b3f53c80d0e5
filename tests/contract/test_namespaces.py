"""Namespaces: what needs them, and how they go."""

from .builders import config_map
from .client import Answer, Api, eventually, manifest


async def test_nothing_is_created_in_a_missing_namespace(api: Api) -> None:
    """Create and apply answer 404 with the name of the namespace."""
    for answer in (await api.create("contract-nope", config_map()), await api.apply("contract-nope", config_map())):
        assert (answer.code, answer.message) == (404, 'namespaces "contract-nope" not found')
        assert answer.body["details"] == {"name": "contract-nope", "kind": "namespaces"}


async def test_reading_a_missing_namespace_finds_nothing(api: Api) -> None:
    """A list in a missing namespace is empty, and a get names the object, not the namespace."""
    assert (await api.get("ConfigMap", "contract-nope")).body["items"] == []
    assert (await api.get("ConfigMap", "contract-nope", "one")).message == 'configmaps "one" not found'


async def test_a_namespace_is_labelled_with_its_name(api: Api, namespace: str) -> None:
    """The server sets `kubernetes.io/metadata.name` and puts it back."""
    live = await api.get("Namespace", None, namespace)
    assert live.body["metadata"]["labels"] == {"contract": "yes", "kubernetes.io/metadata.name": namespace}
    assert live.body["spec"]["finalizers"] == ["kubernetes"]
    patch = {"metadata": {"labels": {"kubernetes.io/metadata.name": None}}}
    patched = await api.merge("Namespace", None, namespace, patch)
    assert patched.body["metadata"]["labels"]["kubernetes.io/metadata.name"] == namespace


async def test_nothing_new_in_a_namespace_that_goes(api: Api, namespace: str) -> None:
    """While Terminating, creates and creating applies answer 403; changes of what is there are allowed."""
    await api.create(namespace, config_map("held", finalizers=["x.example/a"]))
    deleted = await api.delete("Namespace", None, namespace)
    assert deleted.body["status"]["phase"] == "Terminating"
    for refused in (
        await api.create(namespace, config_map("new")),
        await api.apply(namespace, config_map("new")),
        await api.apply(namespace, config_map("new"), dryRun="All"),
    ):
        _terminating(refused, namespace)
    changed = await api.merge("ConfigMap", namespace, "held", {"data": {"a": "1"}})
    assert changed.code == 200
    await api.merge("ConfigMap", namespace, "held", {"metadata": {"finalizers": None}})


def _terminating(answer: Answer, namespace: str) -> None:
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    assert (answer.code, answer.body["reason"]) == (403, "Forbidden")
    assert answer.message == f'configmaps "new" is forbidden: {why}'
    (cause,) = answer.body["details"]["causes"]
    assert cause["reason"] == "NamespaceTerminating"


async def test_a_second_delete_changes_nothing(api: Api, namespace: str) -> None:
    """Deleting a namespace that goes answers 200 and the same object."""
    await api.create(namespace, config_map("held", finalizers=["x.example/a"]))
    first = await api.delete("Namespace", None, namespace)
    second = await api.delete("Namespace", None, namespace)
    assert second.code == 200
    assert second.body["metadata"]["deletionTimestamp"] == first.body["metadata"]["deletionTimestamp"]
    await api.merge("ConfigMap", namespace, "held", {"metadata": {"finalizers": None}})


async def test_a_namespace_takes_its_contents_along(api: Api, namespace: str) -> None:
    """Contents go first, the namespace last; the name can be used again, with another uid."""
    await api.create(namespace, config_map())
    first = await api.delete("Namespace", None, namespace)

    async def gone() -> bool:
        return (await api.get("Namespace", None, namespace)).code == 404

    await eventually(gone)
    assert (await api.get("ConfigMap", namespace, "one")).code == 404
    again = await api.create(None, manifest("Namespace", namespace))
    assert again.code == 201
    assert again.body["metadata"]["uid"] != first.body["metadata"]["uid"]
