"""The objects that the demo brings along: which are there already, which of those are its own.

Its own carry a label, so that a demo that was killed is taken away by the next one, and nothing else ever is.
"""

from dataclasses import dataclass

import yaml

from .telling import Kubectl, Object, Stop, a_list, labels

OURS = ("metaoperator.dev/demo", "yes")
TEMPLATE = "metaoperator-demo"
FLEET = "manifests/fleet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """One object that is there before the demo begins."""

    name: str
    ours: bool
    equal: bool


def objects(kubectl: Kubectl) -> list[Object]:
    """Build `manifests/fleet`, but for the ControllerTemplate `default`: the demo has one of its own."""
    built = yaml.safe_load_all(kubectl.quietly("kustomize", FLEET))
    return [marked(each) for each in built if each["kind"] != "ControllerTemplate"]


def template(values: Object) -> Object:
    """Build the ControllerTemplate of the demo's namespaces."""
    return marked(
        {
            "apiVersion": "metaoperator.dev/v1alpha1",
            "kind": "ControllerTemplate",
            "metadata": {"name": TEMPLATE},
            "spec": {"source": {"directory": "workflow-controller"}, "values": values},
        }
    )


def namespace(name: str) -> Object:
    """Build a namespace of the demo."""
    return marked({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def marked(item: Object) -> Object:
    """Label an object as the demo's own."""
    meta = item["metadata"]
    return {**item, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), OURS[0]: OURS[1]}}}


def is_ours(live: Object) -> bool:
    """Tell whether the demo made an object."""
    return labels(live).get(OURS[0]) == OURS[1]


def find(kubectl: Kubectl, item: Object) -> Object | None:
    """Read an object as it is now; `None` where it, or its whole kind, is not there."""
    group, _, version = item["apiVersion"].rpartition("/")
    kind = f"{item['kind']}.{version}.{group}" if group else item["kind"]
    found = kubectl.tried("get", kind, item["metadata"]["name"], "-o", "yaml", "--ignore-not-found")
    if found.returncode != 0 and "the server doesn't have a resource type" in found.stderr:
        return None
    if found.returncode != 0:
        # What cannot be read is not taken for absent.
        raise Stop(found.stderr.strip())
    live: Object | None = yaml.safe_load(found.stdout)
    return live


def present(kubectl: Kubectl, items: list[Object]) -> list[Present]:
    """Look which of the objects are there, whose they are, and whether they are what the demo would make."""
    found = []
    for item in items:
        live = find(kubectl, item)
        if live is not None:
            ours = is_ours(live)
            name = f"{item['kind']}/{item['metadata']['name']}"
            found.append(Present(name=name, ours=ours, equal=ours or _equal(kubectl, item)))
    return found


def _equal(kubectl: Kubectl, item: Object) -> bool:
    """Ask the server what an apply would change, our own label apart."""
    meta = item["metadata"]
    bare = {**item, "metadata": {**meta, "labels": {k: v for k, v in meta["labels"].items() if k != OURS[0]}}}
    return kubectl.tried("diff", "--server-side", "--force-conflicts", "-f", "-", stdin=bare).returncode == 0


def remove(kubectl: Kubectl, items: list[Object]) -> None:
    """Delete those objects that are there and the demo's own, the last made first."""
    mine = [item for item in reversed(items) if (live := find(kubectl, item)) is not None and is_ours(live)]
    if mine:
        print(kubectl.quietly("delete", "--ignore-not-found", "--timeout=120s", "-f", "-", stdin=a_list(mine)), end="")
