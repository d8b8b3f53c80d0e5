"""What the operator would write in a namespace now: its own pass over it, rehearsed.

The same reconcile, planner and actor run on the same reads, so that preview and operator cannot disagree. What they
would write is dry-run; what they would tell in the status is kept.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final
from weakref import WeakKeyDictionary

from metaoperator import pretence, publish
from metaoperator.act import Actor
from metaoperator.cluster import Selection
from metaoperator.core import immutable, names, optin, ownership, plan, status
from metaoperator.core.errors import ConfigError, Gone, MetaoperatorError, Rejected, RetryableError
from metaoperator.core.model import NAMESPACE, Kind, Namespace, Ref
from metaoperator.core.names import Condition, Reason
from metaoperator.core.outcome import Outcome
from metaoperator.core.plan import Step, Verb
from metaoperator.fleet import Fleet
from metaoperator.mirror import Mirror
from metaoperator.pretence import Assumed
from metaoperator.reconcile import Reconciler
from metaoperator.recorder import Recorder
from metaoperator.rehearsal import Rehearsal, Write
from metaoperator.settings import Settings
from metaoperator.surroundings import Surroundings
from metaoperator.templates import Templates

AT_ONCE: Final = 8
"""So many namespaces are looked at together. Each asks for one thing at a time, so this is what an API server feels."""

_WORDS: Final = {
    Verb.CREATE: "created",
    Verb.APPLY: "changed",
    Verb.ADOPT: "adopted",
    Verb.PRUNE: "pruned",
    Verb.KEEP: "unchanged",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What would become of one object.

    `what` is created, changed, replaced, adopted, pruned or unchanged; or conflict, held, refused or unknown with a
    reason. `leaves` where it is no longer rendered: it goes, at once or once nothing holds it any more.
    """

    ref: Ref
    what: str
    why: str = ""
    write: Write | None = None
    leaves: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """One namespace: what would become of each object, and what a person should know besides.

    `version` is the one that is wanted, `before` the one that its row tells of now. `leaving` where it is not opted in,
    and what is there drains and goes.
    """

    namespace: str
    uid: str = ""
    instance_id: str = ""
    before: str = ""
    version: str = ""
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    stalled: str = ""
    leaving: bool = False

    @property
    def settled(self) -> bool:
        """Tell whether the operator would write nothing, and misses nothing."""
        return not self.stalled and all(change.what == "unchanged" for change in self.changes)


class _Noting(Actor):
    """An actor that remembers what became of each step."""

    def __init__(self, cluster: Rehearsal, fleet: Fleet) -> None:
        super().__init__(cluster, fleet)
        self.noted: dict[Ref, Change] = {}

    async def step(self, step: Step, outcome: Outcome) -> None:
        alone = Outcome()
        await super().step(step, alone)
        self.noted[step.ref] = _change(step, alone)
        for each in fields(Outcome):
            mine, all_of_them = getattr(alone, each.name), getattr(outcome, each.name)
            setattr(outcome, each.name, [*all_of_them, *mine] if isinstance(mine, list) else mine or all_of_them)

    async def _replace(self, step: Step) -> Step:
        """Look past the pause in which the pods of a workload end: what comes after it is what people ask about."""
        done = await super()._replace(step)
        assert step.manifest is not None
        if done.verb is Verb.REPLACE and immutable.runs_pods(step.manifest):
            await self._cluster.apply(step.manifest, force=False)
        return done


def _change(step: Step, outcome: Outcome) -> Change:
    if outcome.later is not None:
        return Change(ref=step.ref, what="unknown", why=str(outcome.later))
    if outcome.refused:
        return Change(ref=step.ref, what="refused", why=outcome.refused[0].message.removeprefix(f"{step.ref}: "))
    if outcome.held:
        (held,) = outcome.held
        what = "conflict" if held.reason is Reason.CONFLICT else "held"
        return Change(ref=step.ref, what=what, why=held.message, leaves=_leaves(held))
    (done,) = outcome.done
    why = "" if done.verb is Verb.KEEP else done.message.removeprefix(f"{step.ref}: ")
    if done.verb is Verb.REPLACE:
        assert step.manifest is not None
        pods = ", with its pods," if immutable.runs_pods(step.manifest) else ""
        why += f"; it is deleted{pods} and created anew"
    return Change(ref=step.ref, what=_WORDS.get(done.verb, f"{done.verb}d"), why=why, leaves=_leaves(done))


def _leaves(step: Step) -> bool:
    return step.verb in {Verb.PRUNE, Verb.HOLD} and plan.UNRENDERED in step.message


async def served(cluster: Rehearsal) -> list[str]:
    """Name every namespace that is opted in, sorted."""
    found: list[str] = []
    selection = Selection(kind=NAMESPACE, label_selector=names.OPT_IN_LABEL, metadata_only=True)
    async for page in cluster.list_pages(selection):
        found += [item["metadata"]["name"] for item in page["items"]]
    return sorted(found)


async def each(
    cluster: Rehearsal, wanted: Sequence[str], assumed: Assumed, settings: Settings
) -> list[Preview | MetaoperatorError]:
    """Rehearse several namespaces, `AT_ONCE` at a time, and answer in the order in which they are named.

    What goes wrong with one is the answer for it, and keeps no other from its own.
    """
    places = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> Preview | MetaoperatorError:
        async with places:
            try:
                return await of(cluster, name, assumed, settings)
            except MetaoperatorError as exc:
                return exc

    return await asyncio.gather(*map(one, wanted))


async def of(
    cluster: Rehearsal, name: str, assumed: Assumed, settings: Settings, fleet: Fleet | None = None
) -> Preview:
    """Rehearse the operator's next pass over one namespace; `fleet` is a look at all of them, if there was one."""
    live = await cluster.get(Ref(NAMESPACE, "", name))
    if live is None:
        raise ConfigError(f"there is no namespace {name}: kubectl create namespace {name}")
    namespace = Namespace.of(live)
    catalogue = await pretence.catalogue(cluster, assumed, own_namespace=settings.namespace)
    fleet = fleet or await look(cluster, catalogue.kinds, name)
    ours = any(ownership.is_ours(each, namespace.uid) for each in fleet.observe(name, None).objects.values())
    notes = await pretence.set_up(cluster, live, assumed, ours=ours, own_namespace=settings.namespace)
    if fleet.workflows.refused:
        notes.append(f"unfinished Workflows are not counted: {fleet.workflows.refused}")
    if unseen := fleet.around.foreigners.deployments.refused:
        notes.append(f"other workflow-controllers are not known: {unseen}")
    actor = _Noting(cluster, fleet)
    mirror = Mirror(cluster, lambda _ref: None)
    reconciler = Reconciler(
        cluster,
        mirror,
        fleet,
        Recorder(cluster, instance="preview"),
        Templates(mirror, catalogue),
        settings,
        actor=actor,
    )
    try:
        await reconciler.namespace(name)
    except (RetryableError, Rejected) as exc:
        if not actor.noted:
            raise
        notes.append(str(exc))
    published = await _published(cluster, name)
    # What the status says already is not told again.
    told = cluster.statuses.get(publish.wfc_ref(name), published)
    return Preview(
        namespace=name,
        uid=namespace.uid,
        instance_id=told.get("instanceID") or "",
        before=str(published.get("version") or ""),
        version=told.get("version") or "",
        leaving=_opted_out(namespace, settings) and ours,
        changes=tuple(_changes(actor.noted, cluster.writes, name)),
        notes=(*notes, *_under_way(told)),
        stalled=_stalled(namespace, told, settings),
    )


async def _around(cluster: Rehearsal) -> Surroundings:
    """Look around once for all namespaces of one run: it is the whole cluster that is read."""

    async def look() -> Surroundings:
        found = Surroundings(
            cluster,
            lambda _name, _delay: None,
            leads=lambda _found: False,
            holder=lambda _lease: "",
            everyone=tuple,
        )
        await found.read_once()
        return found

    if cluster not in _LOOKED:
        _LOOKED[cluster] = asyncio.ensure_future(look())
    return await _LOOKED[cluster]


_LOOKED: Final[WeakKeyDictionary[Rehearsal, asyncio.Future[Surroundings]]] = WeakKeyDictionary()


async def _published(cluster: Rehearsal, name: str) -> Mapping[str, Any]:
    """Read the status of a row as it stands in the cluster."""
    try:
        row = await cluster.really(publish.wfc_ref(name))
    except Gone:
        return {}
    return (row or {}).get("status") or {}


def _opted_out(namespace: Namespace, settings: Settings) -> bool:
    stage = optin.stage(namespace, own_namespace=settings.namespace, denied=settings.deny)
    return isinstance(stage, optin.OptedOut)


async def look(cluster: Rehearsal, kinds: frozenset[Kind], name: str = "", *, kept: bool = False) -> Fleet:
    """Look at the children of one namespace, or of all; what is `kept` is read once for all that follows."""
    fleet = Fleet(
        cluster,
        kinds,
        lambda _name, _delay: None,
        opted_in=lambda _name: True,
        around=await _around(cluster),
        namespace=name,
    )
    if kept:
        cluster.keep(each.selection for each in fleet.objects.values())
    await fleet.read_once()
    if refused := [each.refused for each in fleet.objects.values() if each.refused]:
        raise Rejected("; ".join(sorted(refused)))
    return fleet


def _changes(noted: Mapping[Ref, Change], writes: Mapping[Ref, Write], name: str) -> Iterator[Change]:
    for ref in sorted({*noted, *(ref for ref in writes if ref.namespace == name)}):
        write = writes.get(ref)
        change = noted.get(ref)
        if change is None:  # the namespace's row: nobody plans it
            change = Change(ref=ref, what="created" if write is not None and write.before is None else "changed")
        yield replace(change, write=write)


def _stalled(namespace: Namespace, told: Mapping[str, Any], settings: Settings) -> str:
    if namespace.terminating:
        return f"Terminating: namespace {namespace.name} is being deleted, and nothing is written to it"
    if why := optin.refusal(namespace.name, own_namespace=settings.namespace, denied=settings.deny):
        return f"{Reason.NAMESPACE_REFUSED}: namespace {namespace.name} {why}, and is never served"
    stalled = status.condition(told, Condition.STALLED)
    return f"{stalled['reason']}: {stalled['message']}" if stalled.get("status") == "True" else ""


def _under_way(told: Mapping[str, Any]) -> list[str]:
    """Say that a child leaves, or is left alone; that one is begun is in the changes."""
    conditions = [status.condition(told, each) for each in (Condition.READY, Condition.RECONCILING)]
    resting = {Reason.DRAINING, Reason.REMOVING, Reason.PAUSED}
    return sorted({f"{each['reason']}: {each['message']}" for each in conditions if each.get("reason") in resting})
