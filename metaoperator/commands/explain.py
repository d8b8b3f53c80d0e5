"""`metaoperator explain`: which controller a Workflow belongs to, why it waits, and what to do."""

from collections.abc import Awaitable
from typing import Any, TypeVar

import click

from metaoperator import foreigners
from metaoperator.cluster import Cluster, Selection
from metaoperator.commands import asking, options, tables, telling
from metaoperator.core import explain, foreign, names, optin, serving
from metaoperator.core.errors import ConfigError, Gone, Rejected
from metaoperator.core.explain import Case, Explanation
from metaoperator.core.model import DEPLOYMENT, NAMESPACE, POD, WORKFLOW, WORKFLOW_CONTROLLER, Manifest, Namespace, Ref
from metaoperator.core.serving import Controller

T = TypeVar("T")


@click.group("explain")
def command() -> None:
    """Explain why something is as it is. Nothing is written, and no operator is needed."""


@command.command("workflow", epilog=telling.EXIT_CODES)
@click.argument("workflow", metavar="NAMESPACE/NAME")
@options.kubeconfig
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def workflow(*, workflow: str, kubeconfig: str | None, output: str) -> int:
    """Say which controller a Workflow belongs to, why it waits if it does, and what to do.

    What you may not read is told, and left out of the answer.

    Exit code 0 if it runs or has finished, 1 if it waits or is not there.
    """
    namespace, slash, name = workflow.partition("/")
    if not slash or not name or "/" in name:
        raise ConfigError(f"{workflow!r} names no Workflow: write NAMESPACE/NAME")
    if (why := optin.misnamed(namespace)) is not None:
        raise ConfigError(f"{namespace!r} is no name of a namespace: {why}")
    found = asking.reading(kubeconfig, lambda cluster: gathered(cluster, Ref(WORKFLOW, namespace, name)))
    if found is None:
        click.echo(f"error: there is no Workflow {telling.printable(workflow)}", err=True)
        return telling.NO
    answer = explain.explain(found)
    if output == "json":
        tables.show_json(as_json(found, answer))
    else:
        click.echo(text(found, answer), nl=False)
    return telling.NO if answer.waits else 0


async def gathered(cluster: Cluster, ref: Ref) -> Case | None:
    """Read what there is to know; `None` for a Workflow that is not there."""
    live = await cluster.get(ref)
    if live is None:
        return None
    unknown: list[str] = []

    async def allowed(question: Awaitable[T], otherwise: T) -> T:
        try:
            return await question
        except (Rejected, Gone) as exc:
            unknown.append(str(exc))
            return otherwise

    where = ref.namespace
    space = await allowed(cluster.get(Ref(NAMESPACE, "", where)), None)
    row = await allowed(cluster.get(Ref(WORKFLOW_CONTROLLER, where, names.WORKFLOW_CONTROLLER)), None)
    deployment = await allowed(cluster.get(Ref(DEPLOYMENT, where, names.WORKFLOW_CONTROLLER)), None)
    others = await allowed(_others(cluster, ""), None)
    if others is None:
        others = await allowed(_others(cluster, where), []) or []
    pods = await allowed(_pods(cluster, ref), [])
    child = _child(where, row, deployment)
    served = row is not None or (space is not None and _opted_in(Namespace.of(space)))
    return Case(
        workflow={**live, "metadata": {"namespace": where, **live["metadata"]}},
        instance_id=_instance_id(row, where) if served else None,
        row=row,
        controllers=(*([child] if child else []), *others),
        pods=pods,
        unknown=tuple(unknown),
    )


async def _others(cluster: Cluster, namespace: str) -> list[Controller] | None:
    return [serving.foreign(each) async for each in foreigners.listed(cluster, namespace)]


async def _pods(cluster: Cluster, ref: Ref) -> list[Manifest]:
    label = f"{names.WORKFLOW_LABEL}={ref.name}"
    found: list[Manifest] = []
    # A label holds 63 characters, and a name more: then Argo's own pods cannot be found so either.
    async for page in cluster.list_pages(Selection(kind=POD, namespace=ref.namespace, label_selector=label)):
        found += page["items"]
    return found


def _opted_in(namespace: Namespace) -> bool:
    return namespace.labels.get(names.OPT_IN_LABEL, "") not in {"", names.OPTED_OUT}


def _instance_id(row: Manifest | None, namespace: str) -> str:
    if row is None:
        return namespace
    spec, status = row.get("spec") or {}, row.get("status") or {}
    return str(status.get("instanceID") or spec.get("instanceID") or "")


def _child(namespace: str, row: Manifest | None, deployment: Manifest | None) -> Controller | None:
    """Take the child for alive where its Deployment wants pods, or where that may not be read, by the row's list."""
    ref = Ref(DEPLOYMENT, namespace, names.WORKFLOW_CONTROLLER)
    if deployment is not None:
        labels = deployment["metadata"].get("labels") or {}
        if labels.get(names.MANAGED_BY_LABEL) != names.MANAGED_BY:
            return None
        alive = foreign.replicas({**deployment, "kind": DEPLOYMENT.kind}) > 0
    else:
        alive = f"{ref.kind.kind}/{ref.name}" in ((row or {}).get("status") or {}).get("inventory", ())
    return serving.child(ref, _instance_id(row, namespace), alive=alive) if alive else None


def text(case: Case, found: Explanation) -> str:
    """Write it for people: one line for each thing that is so."""
    meta = case.workflow["metadata"]
    label = serving.instance_id_of(case.workflow)
    lines = [
        ("workflow", f"{meta['namespace']}/{meta['name']}"),
        ("phase", str((case.workflow.get("status") or {}).get("phase") or "(none yet)")),
        ("instance ID", "(none)" if label is None else label),
        ("controller", ", ".join(map(str, found.owners)) or "(nobody)"),
        (str(found.answer), found.why),
        *([("what to do", found.cure)] if found.cure else []),
        *(("not known", each) for each in case.unknown),
    ]
    return "".join(f"{name + ':':20} {telling.printable(' '.join(said.split()))}\n" for name, said in lines)


def as_json(case: Case, found: Explanation) -> dict[str, Any]:
    """Write it for programs."""
    meta = case.workflow["metadata"]
    return {
        "namespace": meta["namespace"],
        "name": meta["name"],
        "phase": (case.workflow.get("status") or {}).get("phase") or "",
        "instanceID": serving.instance_id_of(case.workflow),
        "controllers": [str(each.ref) for each in found.owners],
        "answer": str(found.answer),
        "waits": found.waits,
        "why": found.why,
        "cure": found.cure,
        "notKnown": list(case.unknown),
    }
