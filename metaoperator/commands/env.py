"""`metaoperator env`: what the Argo CLI needs to speak to one namespace's controller."""

import shlex

import click

from metaoperator.cluster import Cluster
from metaoperator.commands import asking, options, telling
from metaoperator.core import names
from metaoperator.core.model import WORKFLOW_CONTROLLER, Ref


@click.command("env")
@click.argument("namespace", type=options.NAMESPACE)
@options.kubeconfig
def command(*, namespace: str, kubeconfig: str | None) -> int:
    """Print what the Argo CLI needs for NAMESPACE: eval "$(metaoperator env NAMESPACE)"."""

    async def instance(cluster: Cluster) -> str | None:
        wfc = await cluster.get(Ref(WORKFLOW_CONTROLLER, namespace, names.WORKFLOW_CONTROLLER))
        return None if wfc is None else (wfc.get("spec") or {}).get("instanceID")

    found = asking.reading(kubeconfig, instance)
    if not found:
        click.echo(
            f"error: namespace {namespace} has no workflow-controller of ours: "
            f"kubectl label namespace {namespace} {names.OPT_IN_LABEL}=enabled",
            err=True,
        )
        return telling.NO
    # The CLI without an ID takes the label off what it submits, and sees only unlabelled Workflows. Quoted, because
    # what is printed here is run by a shell.
    click.echo(f"export ARGO_NAMESPACE={namespace}\nexport ARGO_INSTANCEID={shlex.quote(found)}")
    return 0
