"""Namespaces that the tests make, label and take away again."""

from collections.abc import Iterable
from typing import Any

from .local import NAMESPACE_UID, OPT_IN, Api, Kubectl, Object, condition, eventually
from .snapshot import resources

MADE_BY_TESTS = "metaoperator-e2e"
WORKFLOW_CONTROLLERS = "metaoperator.dev/v1alpha1/workflowcontrollers"
CHILD = "workflow-controller"

OBJECTS = {
    ("v1/serviceaccounts", "workflow-controller"),
    ("v1/configmaps", "workflow-controller-configmap"),
    ("v1/services", "workflow-controller-metrics"),
    ("rbac.authorization.k8s.io/v1/rolebindings", "workflow-controller"),
    ("rbac.authorization.k8s.io/v1/rolebindings", "workflow-executor"),
    ("apps/v1/deployments", "workflow-controller"),
}
"""What the shipped set renders for a namespace."""


class Namespaces:
    """Makes namespaces, and remembers them for the end."""

    def __init__(self, kubectl: Kubectl, api: Api) -> None:
        """Nothing is made yet."""
        self._kubectl = kubectl
        self._api = api
        self._made: set[str] = set()

    def make(self, *names: str, opt_in: str | None = None) -> None:
        """Create namespaces in one request each, with the label if given; one that is there is kept.

        One of the same name that is still being deleted is waited for.
        """
        for name in names:
            eventually(lambda name=name: self._stays_or_is_gone(name), seconds=170)  # type: ignore[misc]
        new = [name for name in names if self.get(name) is None]
        labels = {MADE_BY_TESTS: "yes"} | ({OPT_IN: opt_in} if opt_in else {})
        items = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}} for name in new
        ]
        self._made.update(names)
        if items:
            self._kubectl("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": items})

    def _stays_or_is_gone(self, name: str) -> None:
        live = self.get(name) or {"metadata": {}}
        assert "deletionTimestamp" not in live["metadata"], f"namespace {name} is still being deleted: {live['status']}"

    def get(self, name: str) -> Object | None:
        """Read one."""
        return self._api.get(f"/api/v1/namespaces/{name}")

    def uid(self, name: str) -> str:
        """Return the UID that our marks must carry."""
        found = self.get(name)
        assert found is not None, f"no namespace {name}"
        return str(found["metadata"]["uid"])

    def label(self, name: str, value: str | None) -> None:
        """Set the opt-in label, or take it off, as a person does."""
        self._kubectl("label", "--overwrite", "namespace", name, f"{OPT_IN}={value}" if value else f"{OPT_IN}-")

    def remove(self, *names: str, wait: bool = False) -> None:
        """Delete namespaces with all they hold; to `wait` is for those of whom something that comes next depends."""
        if names:
            self._kubectl("delete", "namespace", "--ignore-not-found", f"--wait={str(wait).lower()}", *sorted(names))

    def remove_all(self) -> None:
        """Delete everything that tests made, also by a session that was killed, and wait until it is gone."""
        self._kubectl(
            "delete", "namespace", "--ignore-not-found", "--wait=true", "--timeout=170s", "-l", f"{MADE_BY_TESTS}=yes"
        )
        self._made.clear()

    def row(self, name: str) -> Object | None:
        """Read a namespace's WorkflowController."""
        return self._api.object(WORKFLOW_CONTROLLERS, name, CHILD)

    def ready(self, name: str, *, seconds: float = 120) -> Object:
        """Wait until a namespace's child is READY for its newest spec."""

        def check() -> Object:
            row = self.row(name)
            assert row is not None, f"{name} has no WorkflowController"
            told = condition(row, "Ready")
            assert told.get("status") == "True", f"{name} is not READY: {dict(told)}"
            assert told["observedGeneration"] == row["metadata"]["generation"]
            return row

        return eventually(check, seconds=seconds)

    def gone(self, name: str, *, seconds: float = 120) -> None:
        """Wait until nothing of ours is left in a namespace."""

        def check() -> None:
            row = self.row(name)
            assert row is None, f"{name}: {dict(condition(row or {}, 'Reconciling'))}"
            assert not any(self.objects(name).values()), f"{name}: objects of the set are left"
            assert not self.marked(name), f"{name} still has {sorted(self.marked(name))}"

        eventually(check, seconds=seconds)

    def marked(self, name: str) -> dict[tuple[str, str], Object]:
        """List what carries the mark of this namespace, of all kinds, by resource and name."""
        uid = self.uid(name)
        found = {}
        for resource in resources(self._api):
            for item in self._api.objects(resource):
                meta = item["metadata"]
                if meta.get("namespace") == name and (meta.get("annotations") or {}).get(NAMESPACE_UID) == uid:
                    found[resource, meta["name"]] = item
        return found

    def objects(self, name: str) -> dict[tuple[str, str], Object | None]:
        """Read what the shipped set renders, by resource and name."""
        return {(resource, each): self._api.object(resource, name, each) for resource, each in sorted(OBJECTS)}

    def events(self, reason: str, about: str) -> list[Object]:
        """List Events with a reason about an object of a name."""
        found = self._api.objects("events.k8s.io/v1/events")
        return [each for each in found if each.get("reason") == reason and each["regarding"].get("name") == about]


def rendered(item: Object | None) -> Any:
    """Reduce an object to what somebody wants of it: no status, and none of what the API server counts and stamps."""
    if item is None:
        return None
    meta = {key: item["metadata"].get(key) for key in ("name", "namespace", "labels")}
    annotations = dict(item["metadata"].get("annotations") or {})
    annotations.pop("deployment.kubernetes.io/revision", None)  # the Deployment controller counts its rollouts here
    return {
        **{key: value for key, value in item.items() if key not in ("metadata", "status")},
        "metadata": {**meta, "annotations": annotations},
    }


def versions(items: Iterable[Object]) -> dict[tuple[str, str], tuple[str, str]]:
    """Reduce objects to UID and resourceVersion: equal means that nobody wrote to them in between."""
    return {
        (item.get("kind", ""), item["metadata"]["name"]): (item["metadata"]["uid"], item["metadata"]["resourceVersion"])
        for item in items
    }
