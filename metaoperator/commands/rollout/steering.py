"""`metaoperator rollout pause|resume|approve|undo`: a person's word on a rollout, written into `spec.rollout`."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from metaoperator.cluster import Cluster
from metaoperator.commands import asking, options
from metaoperator.commands.rollout import facts, written
from metaoperator.commands.rollout.facts import Books, Refused
from metaoperator.commands.rollout.written import Ours
from metaoperator.core import shapes, target, waves
from metaoperator.core.model import Manifest
from metaoperator.core.names import Reason
from metaoperator.core.policy import Policy
from metaoperator.core.target import Target

_APPROVABLE: Final = frozenset({str(Reason.WAITS_FOR_APPROVAL), str(Reason.WAVE_EMPTY)})
_UNSEEN: Final = "no operator has looked at the newest spec yet: ask again in a moment"


@click.command("pause")
@facts.template_argument
@options.kubeconfig
def pause_command(*, template: str, kubeconfig: str | None) -> int:
    """Let nobody be moved, neither on nor back, until it is resumed.

    What was moved is still proved, and every namespace is repaired at what it has.
    """
    click.echo(asking.reading(kubeconfig, lambda cluster: pause(cluster, template)))
    return 0


@click.command("resume")
@facts.template_argument
@click.option("--unpin", is_flag=True, help="Go back to what the source says, after `undo`.")
@options.operator_namespace
@options.kubeconfig
def resume_command(*, template: str, unpin: bool, operator_namespace: str, kubeconfig: str | None) -> int:
    """Let a rollout go on that is paused, has failed, or was rolled back.

    Failures up to now are forgiven: who failed is not waited for, and proves nothing.
    """

    async def ask(cluster: Cluster) -> str:
        books = await facts.books(cluster, operator_namespace, template)
        return await resume(cluster, template, books, unpin=unpin, now=datetime.now(UTC))

    click.echo(asking.reading(kubeconfig, ask))
    return 0


@click.command("approve")
@facts.template_argument
@click.option("--wave", help="The wave that may begin; without it, the one that waits for an approval now.")
@click.option("--revision", help="For this set revision; without it, for the one that is rolled out.")
@options.operator_namespace
@options.kubeconfig
def approve_command(
    *, template: str, wave: str | None, revision: str | None, operator_namespace: str, kubeconfig: str | None
) -> int:
    """Let a wave begin that waits for a person: for its approval, for its proof, or because it is empty."""

    async def ask(cluster: Cluster) -> str:
        books = await facts.books(cluster, operator_namespace, template)
        return await approve(cluster, template, books, wave=wave, revision=revision, now=datetime.now(UTC))

    click.echo(asking.reading(kubeconfig, ask))
    return 0


@click.command("undo")
@facts.template_argument
@click.option("--to-revision", metavar="REVISION", help="Go to this one; `rollout history` lists them.")
@options.operator_namespace
@options.kubeconfig
def undo_command(*, template: str, to_revision: str | None, operator_namespace: str, kubeconfig: str | None) -> int:
    """Pin the last revision before the present one that the whole fleet had, or another that is recorded.

    One that all of the fleet had once is gone back to without waves, windows and approvals.
    """

    async def ask(cluster: Cluster) -> str:
        books = await facts.books(cluster, operator_namespace, template)
        return await undo(cluster, template, books, to=to_revision, now=datetime.now(UTC))

    click.echo(asking.reading(kubeconfig, ask))
    return 0


async def pause(cluster: Cluster, template: str) -> str:
    """Set `paused`; `Refused` where it is set."""

    def edit(live: Manifest, ours: Ours) -> None:
        if facts.said(live).get("paused"):
            raise Refused(f"the rollout of ControllerTemplate/{template} is paused already")
        ours["paused"] = True

    await written.change(cluster, template, edit)
    return f"the rollout of ControllerTemplate/{template} is paused; metaoperator rollout resume {template} ends that"


async def resume(cluster: Cluster, template: str, books: Books, *, unpin: bool, now: datetime) -> str:
    """Take `paused` out, the pin with `unpin`, and forgive what failed; `Refused` where there is none of it."""
    done: list[str] = []

    def edit(live: Manifest, ours: Ours) -> None:
        done.clear()
        said = facts.said(live)
        failed = None if unpin and said.get("revision") else _failure(live, books, now)
        if said.get("paused"):
            written.let_go(live, ours, "paused")
            done.append("is no longer paused")
        if unpin and (pin := said.get("revision")):
            written.let_go(live, ours, "revision")
            done.append(f"is no longer pinned to {pin}: it goes to what the source says")
        if failed is not None:
            ours["resumedAt"] = shapes.stamp(max(now, failed + timedelta(seconds=1)))
            done.append("goes on: failures up to now are forgiven")
        if not done:
            raise Refused(_nothing(live, template))

    await written.change(cluster, template, edit)
    return f"the rollout of ControllerTemplate/{template} {', and '.join(done)}"


def _failure(live: Manifest, books: Books, now: datetime) -> datetime | None:
    """Tell when that failed which keeps the rollout from going on; `None` for nothing that could be forgiven."""
    aim = _aim(live, books, now)
    failed = books.sets.get(facts.said(live).get("revision") or facts.told(live).get("source") or "")
    if aim.failed is not None and failed is not None and failed.failed is not None:
        return failed.failed
    # Children that had proved themselves, and stragglers at what the whole fleet has, are not on record.
    return now if facts.reason(live) in {str(Reason.PROVEN_FAILING), str(Reason.ROLLOUT_FAILED)} else None


def _nothing(live: Manifest, template: str) -> str:
    if pin := facts.said(live).get("revision"):
        return (
            f"the rollout of ControllerTemplate/{template} is pinned to {pin}, and has neither been paused nor failed: "
            f"metaoperator rollout resume {template} --unpin goes back to what the source says"
        )
    what = f"the rollout of ControllerTemplate/{template} has neither been paused nor failed"
    if facts.reason(live) in _APPROVABLE:
        return f"{what}: it waits for an approval (metaoperator rollout approve {template})"
    message = facts.told(live).get("message")
    return f"{what}, so there is nothing to resume" + (f": {message}" if message else "")


async def approve(
    cluster: Cluster, template: str, books: Books, *, wave: str | None, revision: str | None, now: datetime
) -> str:
    """Add an approval, and take out ours of revisions that are recorded no more; `Refused` where nothing waits."""
    given: list[str] = []

    def edit(live: Manifest, ours: Ours) -> None:
        told = facts.told(live)
        to = revision or told.get("target")
        if not to:
            raise Refused(f"nothing is rolled out by ControllerTemplate/{template}: {told.get('message') or _UNSEEN}")
        books.recorded(template, to)
        which = wave or _waiting(live, template)
        there = [*(each.name for each in Policy.read(live["spec"]).waves), waves.REST]
        if which not in there:
            raise Refused(f"ControllerTemplate/{template} has no wave {which}; there are: {', '.join(there)}")
        if revision is None and told.get("phase") == "Done" and not facts.stale(live):
            raise Refused(f"nothing waits for an approval: {told.get('message')}")
        if any((each["revision"], each["wave"]) == (to, which) for each in facts.said(live).get("approvals") or ()):
            raise Refused(f"wave {which} is approved for {to} already")
        kept: list[Any] = [each for each in ours.get("approvals", ()) if each["revision"] in books.sets]
        ours["approvals"] = [*kept, {"revision": to, "wave": which, "at": shapes.stamp(now)}]
        given[:] = [which, to]

    await written.change(cluster, template, edit)
    return f"wave {given[0]} of ControllerTemplate/{template} is approved for {given[1]}"


def _waiting(live: Manifest, template: str) -> str:
    """Name the wave that waits for a person now."""
    if facts.stale(live):
        raise Refused(f"ControllerTemplate/{template}: {_UNSEEN}")
    told = facts.told(live)
    if facts.reason(live) not in _APPROVABLE or not told.get("wave"):
        raise Refused(
            f"no wave of ControllerTemplate/{template} waits for an approval now: {told.get('message') or _UNSEEN} "
            "(one that is to come is approved by --wave NAME)"
        )
    return str(told["wave"])


async def undo(cluster: Cluster, template: str, books: Books, *, to: str | None, now: datetime) -> str:
    """Pin a recorded revision; `Refused` where there is none to go back to."""
    pinned: list[str] = []

    def edit(live: Manifest, ours: Ours) -> None:
        chosen = books.recorded(template, to).set_revision if to else _earlier(live, template, books, now)
        if facts.said(live).get("revision") == chosen:
            raise Refused(f"ControllerTemplate/{template} is pinned to {chosen} already")
        ours["revision"] = chosen
        paused = facts.said(live).get("paused")
        more = f"; it is paused: metaoperator rollout resume {template} lets it go" if paused else ""
        pinned[:] = [chosen, more]

    await written.change(cluster, template, edit)
    back = f"metaoperator rollout resume {template} --unpin goes back to what the source says"
    return f"ControllerTemplate/{template} is pinned to {pinned[0]}{pinned[1]}; {back}"


def _earlier(live: Manifest, template: str, books: Books, now: datetime) -> str:
    aim = _aim(live, books, now)
    present = facts.told(live).get("target") or aim.set_revision
    had = [(at, books.sets[each].number, each) for each, at in aim.stable.items() if each != present]
    if not had:
        there = ", ".join(books.sets) or "none"
        what = f"no revision before {present} is recorded that all namespaces of ControllerTemplate/{template} had"
        raise Refused(f"{what}: choose one with --to-revision, of {there}")
    return max(had)[2]


def _aim(live: Manifest, books: Books, now: datetime) -> Target:
    source = facts.told(live).get("source") or None
    return target.choose(source, list(books.sets.values()), Policy.read(live["spec"]), now=now)
