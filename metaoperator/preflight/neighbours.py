"""Who else runs workflow-controllers: cluster-wide, or in a namespace that is to be opted in."""

from collections.abc import Collection
from typing import Any

import yaml

from metaoperator.cluster import Cluster, Selection
from metaoperator.core import names
from metaoperator.core.errors import MetaoperatorError
from metaoperator.core.model import CONFIG_MAP, DEPLOYMENT, Manifest, Ref
from metaoperator.preflight.rows import Result, Row

CHECK = "other controllers"


async def of(cluster: Cluster, namespaces: Collection[str]) -> list[Row]:
    """Find every Deployment of a workflow-controller that is not ours, and what it serves."""
    rows = []
    async for page in cluster.list_pages(Selection(kind=DEPLOYMENT)):
        for deployment in page["items"]:
            labels = deployment["metadata"].get("labels") or {}
            if labels.get(names.MANAGED_BY_LABEL) != names.MANAGED_BY:
                for container in _controllers(deployment):
                    rows += await _judge(cluster, deployment, container, namespaces)
    return rows or [Row(check=CHECK, result=Result.OK, what="none that is not ours")]


def _controllers(deployment: Manifest) -> list[Manifest]:
    containers = deployment["spec"]["template"]["spec"].get("containers") or ()
    return [each for each in containers if "workflow-controller" in (each.get("command") or []) or _image(each)]


def _image(container: Manifest) -> bool:
    name = str(container.get("image", "")).partition("@")[0].rpartition("/")[2].partition(":")[0]
    return name == "workflow-controller"


async def _judge(cluster: Cluster, deployment: Manifest, container: Manifest, wanted: Collection[str]) -> list[Row]:
    meta = deployment["metadata"]
    name, words = f"Deployment/{meta['namespace']}/{meta['name']}", [str(each) for each in container.get("args") or ()]
    instance = await _instance(cluster, meta["namespace"], words)
    if "--namespaced" in words:
        where = next((w.partition("=")[2] for w in words if w.startswith("--managed-namespace=")), meta["namespace"])
        if where in wanted:
            how = f"kubectl -n {meta['namespace']} delete deployment {meta['name']}"
            cure = f"remove it once its Workflows have ended: {how}"
            what = f"{name} serves namespace {where} with instance ID {instance or '(none)'}"
            return [Row(check=CHECK, result=Result.MISSING, what=what, cure=cure)]
        return []
    if instance is None:
        what = f"{name} is cluster-wide; its instance ID cannot be read"
        return [Row(check=CHECK, result=Result.UNKNOWN, what=what, cure="compare it with the namespaces' names")]
    if instance in wanted:
        what, cure = f"{name} is cluster-wide with instance ID {instance}, a namespace's name", "give it another one"
        return [Row(check=CHECK, result=Result.MISSING, what=what, cure=cure)]
    if not instance:
        what = f"{name} is cluster-wide without an instance ID"
        cure = "it goes on with Workflows that have no ID: those from before an opt-in; new ones are stamped"
        return [Row(check=CHECK, result=Result.WARNING, what=what, cure=cure)]
    return [Row(check=CHECK, result=Result.OK, what=f"{name} is cluster-wide with its own instance ID {instance}")]


async def _instance(cluster: Cluster, namespace: str, words: list[str]) -> str | None:
    """Read a controller's instance ID from its ConfigMap, empty for none; `None` where it cannot be read."""
    named = [word.partition("=")[2] for word in words if word.startswith("--configmap=")]
    after = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--configmap"]
    name = next(iter([*named, *after]), "workflow-controller-configmap")
    try:
        live = await cluster.get(Ref(CONFIG_MAP, namespace, name))
        data: dict[str, Any] = {} if live is None else live.get("data") or {}
        text = data.get("config")
        config = yaml.safe_load(text) if text is not None else data
        return str(config.get("instanceID") or "")
    except (MetaoperatorError, yaml.YAMLError, AttributeError):
        return None
