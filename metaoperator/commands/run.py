"""`metaoperator run`: the operator, until it is told to stop."""

import gc
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from metaoperator import logs, operator
from metaoperator.commands import options
from metaoperator.core import names
from metaoperator.settings import Settings


@click.command("run")
@options.kubeconfig
@options.templates
@click.option(
    "--namespace",
    envvar="POD_NAMESPACE",
    default=names.OPERATOR_NAMESPACE,
    show_default=True,
    type=options.NAMESPACE,
    help="The operator's own namespace: its Lease lives there, and it is never served.",
)
@options.deny
@click.option(
    "--port",
    default=8080,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="/healthz, /readyz and /metrics; 0 turns them off.",
)
@click.option(
    "--workers",
    default=16,
    show_default=True,
    type=click.IntRange(1, 256),
    help="Namespaces that are worked on at the same time.",
)
@click.option(
    "--pending-seconds",
    default=600,
    show_default=True,
    type=click.IntRange(10, 86400),
    help="A Workflow that a ready controller has not taken up for so long is told of.",
)
@click.option(
    "--log-level", default="info", show_default=True, type=click.Choice(["debug", "info", "warning", "error"])
)
@click.option("--log-format", type=click.Choice(["json", "text"]), help="Text on a terminal, otherwise JSON.")
def command(
    *,
    kubeconfig: str | None,
    templates: Sequence[Path],
    namespace: str,
    deny: Sequence[str],
    port: int,
    workers: int,
    pending_seconds: int,
    log_level: str,
    log_format: str | None,
) -> None:
    """Run the operator until it is told to stop."""
    gc.enable()
    logs.configure(level=log_level, text=log_format == "text" or (log_format is None and sys.stderr.isatty()))
    operator.run(
        Settings(
            kubeconfig=kubeconfig,
            namespace=namespace,
            templates=tuple(templates),
            deny=frozenset(deny),
            port=port,
            workers=workers,
            pending_seconds=float(pending_seconds),
        )
    )
