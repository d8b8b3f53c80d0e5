"""`metaoperator preflight`: what a cluster lacks before the first label."""

import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from metaoperator import bundle, pretence, sources
from metaoperator.catalogue import Catalogue
from metaoperator.commands import asking, options, tables, telling
from metaoperator.preflight import argo, carriers, home, ids, images, installed, neighbours, rows, server, spaces
from metaoperator.preflight.rows import Result, Row
from metaoperator.pretence import Assumed
from metaoperator.rehearsal import Rehearsal
from metaoperator.settings import Settings


@click.command("preflight")
@click.argument("namespaces", nargs=-1, metavar="[NAMESPACE]...", type=options.NAMESPACE)
@options.kubeconfig
@options.templates
@click.option("--fleet-values", type=options.FILE, help="Values as in a ControllerTemplate's spec.values.")
@options.operator_namespace
@options.deny
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def command(
    *,
    namespaces: Sequence[str],
    kubeconfig: str | None,
    templates: Sequence[Path],
    fleet_values: Path | None,
    operator_namespace: str,
    deny: Sequence[str],
    output: str,
) -> int:
    """Show what the cluster lacks before the first label, and before each NAMESPACE is opted in.

    Nothing is written: objects are tried by dry-run. What you may not ask is shown as not known.

    Exit code 0 if nothing is missing, 1 if anything is.
    """
    assumed = Assumed(
        programs=sources.programs((sources.shipped(), *templates)),
        fleet_values=sources.values_file(fleet_values) if fleet_values else None,
    )
    settings = Settings(kubeconfig=kubeconfig, namespace=operator_namespace, deny=frozenset(deny))
    wanted = sorted(set(namespaces))
    found = rows.worst_first(
        asking.run(
            lambda: Rehearsal(kubeconfig=kubeconfig), lambda cluster: checked(cluster, wanted, assumed, settings)
        )
    )
    if output == "json":
        tables.show_json([asdict(row) for row in found])
    else:
        shown = [{key.upper(): str(value) for key, value in asdict(row).items()} for row in found]
        click.echo(tables.text(shown), nl=False)
    return telling.NO if any(row.result is Result.MISSING for row in found) else 0


async def checked(cluster: Rehearsal, namespaces: Sequence[str], assumed: Assumed, settings: Settings) -> list[Row]:
    """Ask every question, in the order of an installation."""
    programs = assumed.programs

    async def catalogue() -> Catalogue:
        return await pretence.catalogue(cluster, assumed, own_namespace=settings.namespace)

    async def templates() -> list[Row]:
        return await installed.templates(cluster, await catalogue())

    async def versions() -> list[Row]:
        return await argo.of(cluster, assumed, await catalogue())

    questions: list[tuple[str, Callable[[], Awaitable[list[Row]]]]] = [
        ("admission policies", lambda: server.policies(cluster)),
        (
            "Argo CRDs",
            lambda: server.argo_kinds(
                cluster, argo.asked_for(assumed, sources.DEFAULT_SET, assumed.fleet_values or {})
            ),
        ),
        ("fleet bundle", lambda: installed.of(cluster, bundle.FLEET, settings.namespace)),
        ("operator bundle", lambda: installed.of(cluster, bundle.OPERATOR, settings.namespace)),
        (home.CHECK, lambda: home.of(cluster, settings.namespace)),
        ("operator's permissions", lambda: installed.permissions(cluster, programs, settings.namespace)),
        ("ControllerTemplates", templates),
        (ids.CHECK, lambda: ids.of(cluster)),
        (argo.CHECK, versions),
        ("other controllers", lambda: neighbours.of(cluster, namespaces)),
        (carriers.CHECK, lambda: carriers.of(cluster, namespaces)),
        ("images", lambda: images.of(cluster, assumed)),
        *((f"namespace {name}", functools.partial(spaces.of, cluster, name, assumed, settings)) for name in namespaces),
    ]
    found = await server.version(cluster)  # whoever cannot even ask this gets no table
    for check, question in questions:
        found += await rows.asked(check, question())
    return found
