"""`metaoperator status`: every opted-in namespace, whether its controller is ready, and if not, why."""

from collections.abc import Mapping
from typing import Any

import click

from metaoperator.cluster import Cluster, Selection
from metaoperator.commands import asking, options, tables, telling
from metaoperator.core import names, optin
from metaoperator.core.model import NAMESPACE, WORKFLOW_CONTROLLER, Manifest, Namespace, Ref
from metaoperator.core.names import Condition, Reason
from metaoperator.core.status import condition


@click.command("status")
@options.kubeconfig
@click.option("-n", "--namespace", type=options.NAMESPACE, help="Only this namespace.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def command(*, kubeconfig: str | None, namespace: str | None, output: str) -> int:
    """Show every opted-in namespace: is its controller ready, and if not, why.

    Exit code 1 if any is not, or if the one that was asked for is not opted in.
    """
    rows = asking.reading(kubeconfig, lambda cluster: _rows(cluster, namespace))
    if output == "json":
        tables.show_json(rows)
    elif not rows:
        which = f"namespace {namespace} is not" if namespace else "no namespace is"
        click.echo(f"{which} opted in: kubectl label namespace {namespace or 'NAME'} {names.OPT_IN_LABEL}=enabled")
    else:
        click.echo(tables.text(rows), nl=False)
    resting = str(Reason.NOT_OPTED_IN)
    unready = any(row["READY"] != "True" and row["REASON"] != resting for row in rows)
    return telling.NO if unready or (namespace and not rows) else 0


async def _rows(cluster: Cluster, only: str | None) -> list[dict[str, str]]:
    labelled: dict[str, Namespace] = {}
    found: dict[str, Manifest] = {}
    if only:  # two objects: a tenant may read no more
        if (raw := await cluster.get(Ref(NAMESPACE, "", only))) is not None:
            labelled[only] = Namespace.of(raw)
        if (wfc := await cluster.get(Ref(WORKFLOW_CONTROLLER, only, names.WORKFLOW_CONTROLLER))) is not None:
            found[only] = wfc
    else:
        labels = Selection(kind=NAMESPACE, label_selector=names.OPT_IN_LABEL, metadata_only=True)
        async for page in cluster.list_pages(labels):
            labelled |= {item["metadata"]["name"]: Namespace.of(item) for item in page["items"]}
        async for page in cluster.list_pages(Selection(kind=WORKFLOW_CONTROLLER)):
            found |= {item["metadata"]["namespace"]: item for item in page["items"]}
    rows = [row(name, labelled.get(name), found.get(name)) for name in sorted({*labelled, *found})]
    return [row for row in rows if row is not None]


def row(name: str, namespace: Namespace | None, wfc: Manifest | None) -> dict[str, str] | None:
    """Tell how one namespace does; `None` for one that is not opted in and has no row of its own."""
    value = "" if namespace is None else namespace.labels.get(names.OPT_IN_LABEL, "")
    if wfc is None:
        if value in {"", names.OPTED_OUT}:
            return None
        why = optin.refusal(name, own_namespace=names.OPERATOR_NAMESPACE, denied=frozenset())
        reason, message = (
            ("NamespaceRefused", f"{why}: remove the label") if why else ("Unseen", "no operator has looked yet")
        )
        return _columns(name, "False", reason, {}, message)
    published: Mapping[str, Any] = wfc.get("status") or {}
    ready = condition(published, Condition.READY)
    stale = published.get("observedGeneration") != wfc["metadata"]["generation"]
    if not ready or stale:
        return _columns(name, "Unknown", "Unseen", published, "no operator has looked at the newest spec yet")
    shown = ready
    for kind in (Condition.STALLED, Condition.RECONCILING):
        other = condition(published, kind)
        if other.get("status") == "True":
            shown = other
            break
    message = shown["message"]
    strays = condition(published, Condition.ORPHANED_WORKFLOWS)
    if strays.get("status") == "True":
        message = f"{message}; Workflows wait in vain: {strays['message']}"
    if unswept := (published.get("workflows") or {}).get("unswept"):
        message = f"{message}; {unswept} Workflows that nobody serves are about to get its instance ID"
    return _columns(name, ready["status"], shown["reason"], published, message)


def _columns(name: str, ready: str, reason: str, published: Mapping[str, Any], message: str) -> dict[str, str]:
    work = published.get("workflows") or {}
    return {
        "NAMESPACE": name,
        "READY": ready,
        "REASON": reason,
        "TEMPLATE": published.get("template", ""),
        "REVISION": published.get("revision", ""),
        "VERSION": published.get("version", ""),
        "RUNNING": str(work.get("running", "")),
        "PENDING": str(work.get("pending", "")),
        "UNLABELLED": str(work.get("unlabelled", 0) if work else ""),
        "IN VAIN": str(work.get("orphaned", 0) + work.get("overdue", 0) if work else ""),
        "MESSAGE": message,
    }
