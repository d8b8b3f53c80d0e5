"""`metaoperator render`: what a namespace would get, without a cluster."""

import json
from collections.abc import Sequence
from pathlib import Path

import click

from metaoperator import sources
from metaoperator.commands import options
from metaoperator.core import names, shard, strictyaml
from metaoperator.core.model import Namespace


@click.command("render")
@click.argument("namespace", type=options.NAMESPACE)
@options.templates
@click.option("--set", "set_name", default=sources.DEFAULT_SET, show_default=True, help="The template set.")
@click.option("--fleet-values", type=options.FILE, help="Values as in a ControllerTemplate's spec.values.")
@click.option("--values", type=options.FILE, help="Values as in a WorkflowController's spec.values.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label of the namespace; repeatable.")
@click.option("--instance-id", metavar="ID", help="The instance ID; by default NAMESPACE, empty for none.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def command(
    *,
    namespace: str,
    templates: Sequence[Path],
    set_name: str,
    fleet_values: Path | None,
    values: Path | None,
    labels: Sequence[str],
    instance_id: str | None,
    output: str,
) -> None:
    """Show what NAMESPACE would get; no cluster is needed."""
    options.refuse_unserved(namespace)
    found = Namespace(name=namespace, uid="00000000-0000-0000-0000-000000000000", labels=options.pairs(labels))
    desired = options.program(set_name, templates).desired(
        found,
        shard.only_shard(namespace if instance_id is None else instance_id),
        template_name=names.DEFAULT_TEMPLATE,
        fleet_values=sources.values_file(fleet_values) if fleet_values else {},
        namespace_values=sources.values_file(values) if values else {},
    )
    if output == "json":
        items = {"apiVersion": "v1", "kind": "List", "items": list(desired.documents)}
        click.echo(json.dumps(items, indent=2))
    else:
        click.echo("---\n".join(strictyaml.dump_plain(document) for document in desired.documents), nl=False)
