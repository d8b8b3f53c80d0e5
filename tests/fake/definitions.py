"""CustomResourceDefinitions: creating one serves its kinds, deleting one takes the objects along."""

from .history import DELETED, Event, place
from .kinds import Kind, Manifest
from .store import Store

_ARGO, _OURS = "argoproj.io", "metaoperator.dev"
_PRESENT = (
    (_ARGO, "Workflow", "workflows", "Namespaced", False, ("wf",)),
    (_ARGO, "CronWorkflow", "cronworkflows", "Namespaced", False, ("cwf", "cronwf")),
    (_OURS, "WorkflowController", "workflowcontrollers", "Namespaced", True, ("wfc",)),
    (_OURS, "ControllerTemplate", "controllertemplates", "Cluster", True, ("wct",)),
)


def stand_ins() -> list[Manifest]:
    """Return definitions that take anything, for the kinds whose real ones a test may put in their place."""
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "scope": scope,
                "names": {"kind": kind, "plural": plural, "shortNames": list(short)},
                "versions": [
                    {
                        "name": "v1alpha1",
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}} if status else {},
                        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                ],
            },
        }
        for group, kind, plural, scope, status, short in _PRESENT
    ]


def kinds_of(definition: Manifest) -> list[Kind]:
    """Read the served kinds out of a definition."""
    spec = definition["spec"]
    return [
        Kind(
            group=spec["group"],
            version=version["name"],
            kind=spec["names"]["kind"],
            plural=spec["names"]["plural"],
            namespaced=spec["scope"] == "Namespaced",
            status="status" in version.get("subresources", {}),
            generation=True,
            custom=True,
            blind_put=False,
            short_names=tuple(spec["names"].get("shortNames", ())),
            categories=tuple(spec["names"].get("categories", ())),
            schema=version.get("schema", {}).get("openAPIV3Schema", {}),
        )
        for version in spec["versions"]
        if version.get("served")
    ]


class Definitions:
    """Keeps the served kinds in step with the definitions in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.listeners.append(self._notice)

    def _notice(self, kind: Kind, event: Event) -> None:
        if kind.kind != "CustomResourceDefinition":
            return
        if event.type == DELETED:
            for each in kinds_of(event.obj):
                self.withdraw(each)
            return
        for each in kinds_of(event.obj):
            self._store.registry.add(each)
        if not event.obj.get("status"):
            now = self._store.clock()
            conditions = [
                {"type": name, "status": "True", "reason": reason, "message": "", "lastTransitionTime": now}
                for name, reason in (("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted"))
            ]
            name = event.obj["metadata"]["name"]
            status = {"status": {"conditions": conditions, "acceptedNames": event.obj["spec"]["names"]}}
            self._store.merge(kind, None, name, status, manager="kube-apiserver", sub="status")

    def withdraw(self, kind: Kind) -> None:
        """Stop serving a kind: its objects go, and its watches end."""
        for obj in self._store.select(kind):
            self._store.remove(kind, obj)
        self._store.registry.remove(kind)
        for watch in self._store.history.watchers(place(kind)):
            watch.end()
