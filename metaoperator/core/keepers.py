"""Tools that keep an object as they have it written down: one that is taken over from them is fought for, or deleted.

Labels and annotations tell, because a tool that lets go leaves its name in managedFields.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from metaoperator.core.model import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    """A tool, the keys by which it knows its objects, and how it lets go of one."""

    name: str
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    cure: str


_TOOLS: Final = (
    _Tool(
        name="Argo CD",
        labels=("argocd.argoproj.io/instance",),
        annotations=("argocd.argoproj.io/tracking-id",),
        cure="take it out of its Application without deleting it (argocd app delete --cascade=false, or annotation "
        "argocd.argoproj.io/sync-options: Delete=false,Prune=false, and then out of Git)",
    ),
    _Tool(
        name="Flux",
        labels=("kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name"),
        cure="give it annotation kustomize.toolkit.fluxcd.io/prune: disabled in Git, or helm.sh/resource-policy: keep "
        "in a chart, let that be applied, and then take it out of Git",
    ),
    _Tool(
        name="Helm",
        annotations=("meta.helm.sh/release-name",),
        cure="give it annotation helm.sh/resource-policy: keep by an upgrade of the release, and then uninstall the "
        "release, or have a later version of the chart leave the object out",
    ),
)
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_INSTANCE: Final = "app.kubernetes.io/instance"
_ARGO_CD: Final = frozenset({"argocd-controller", "argocd-application-controller"})


def keeper(live: Manifest) -> str | None:
    """Say which tool still keeps an object, and how it lets go; `None` for one that nobody keeps."""
    meta = live["metadata"]
    labels: Mapping[str, str] = meta.get("labels") or {}
    annotations: Mapping[str, str] = meta.get("annotations") or {}
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            who = f"{owner.get('kind')}/{owner.get('name')}"
            return f"is kept by {who}, which owns it: have that let go of it, and take its ownerReference off"
    for tool in _TOOLS:
        keys = [f"label {key}" for key in tool.labels if key in labels]
        keys += [f"annotation {key}" for key in tool.annotations if key in annotations]
        if tool.name == "Helm" and labels.get(_MANAGED_BY) == "Helm":
            keys.append(f"label {_MANAGED_BY}")
        if tool.name == "Argo CD" and _INSTANCE in labels and _ARGO_CD & _managers(live):
            keys.append(f"label {_INSTANCE}")
        if keys:
            them = "it" if len(keys) == 1 else "them"
            return f"is kept by {tool.name} ({', '.join(keys)}): {tool.cure}; take {them} off when that is done"
    return None


def _managers(live: Manifest) -> set[str]:
    return {entry.get("manager", "") for entry in live["metadata"].get("managedFields") or ()}
