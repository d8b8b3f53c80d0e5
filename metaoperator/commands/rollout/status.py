"""`metaoperator rollout status`: how far a rollout is, and what it waits for."""

import asyncio
import sys
from typing import Any, Final

import click

from metaoperator.cluster import Cluster, Selection
from metaoperator.commands import asking, options, tables, telling
from metaoperator.commands.rollout import facts, view
from metaoperator.commands.rollout.progress import Progress
from metaoperator.core import durations
from metaoperator.core.errors import ConfigError, RetryableError, Unauthorized
from metaoperator.core.model import WORKFLOW_CONTROLLER
from metaoperator.core.rollout import Phase

_EVERY: Final = 1.0
_PATIENCE: Final = 60.0
"""Seconds for which a rollout is followed without an answer: API servers are restarted, too."""


@click.command("status")
@facts.template_argument
@click.option("-w", "--watch", is_flag=True, help="Follow it until it is done, has failed, or was rolled back.")
@click.option("--timeout", metavar="TIME", help="Follow it for no longer than this, such as 30m.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@options.kubeconfig
def command(*, template: str, watch: bool, timeout: str | None, output: str, kubeconfig: str | None) -> int:
    """Show how far a rollout is, wave by wave, and who waits for what.

    Exit code 0 when it is done, 1 when it is not: it goes on, waits for a person, has failed or was rolled back.
    """
    limit = durations.read(timeout)
    if timeout is not None and not limit:
        raise ConfigError(f"--timeout {timeout}: give a time such as 90s, 30m or 1h30m")
    if limit and not watch:
        raise ConfigError("--timeout belongs to --watch")
    # With JSON the output is for a program, which wants one value; a person may look on.
    progress = Progress(sys.stderr if output == "json" else sys.stdout) if watch else None
    seconds = limit.total_seconds() if limit else None
    found, over = asking.reading(kubeconfig, lambda cluster: follow(cluster, template, progress, seconds))
    if output == "json":
        tables.show_json(found)
    else:
        click.echo(view.text(found), nl=False)
    if over:
        click.echo(f"error: the rollout of ControllerTemplate/{template} was not done within {timeout}", err=True)
    return 0 if found["phase"] == Phase.DONE else telling.NO


async def follow(
    cluster: Cluster, template: str, progress: Progress | None, limit: float | None
) -> tuple[dict[str, Any], bool]:
    """Look once, or with `progress` until it ends; tells what is seen last, and whether the time was over."""
    loop = asyncio.get_running_loop()
    began = answered = loop.time()
    over = False
    while progress is not None:
        try:
            now = view.of(await facts.find(cluster, template))
            answered = loop.time()
        except Unauthorized:
            raise
        except RetryableError:
            if answered == began or loop.time() - answered > _PATIENCE:
                progress.end()
                raise
        else:
            progress.show(now)
            if now["phase"] in view.ENDS:
                break
        if over := limit is not None and loop.time() - began >= limit:
            break
        await asyncio.sleep(_EVERY)
    if progress is not None:
        progress.end()
    live = await facts.find(cluster, template)
    rows = [row async for page in cluster.list_pages(Selection(kind=WORKFLOW_CONTROLLER)) for row in page["items"]]
    return view.of(live, rows), over
