"""What exists and lacks the instance ID of its namespace's child: what may be given it, and in which order.

An ID goes on only where no living controller serves what is there now (decision 0014). What another one began stays as
it is, for that one may come back; so does every ID that somebody chose. A CronWorkflow follows its Workflows: a
controller drops from its status each child that it does not serve itself, and would start a second one beside it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from metaoperator.core import carried, names, serving, shard
from metaoperator.core.model import WORKFLOW, Manifest
from metaoperator.core.serving import Controller
from metaoperator.core.shard import Policy
from metaoperator.core.status import Note
from metaoperator.core.strays import Work

_ALLOW: Final = "Allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The child of one namespace, to which goes what nobody serves."""

    namespace: str
    instance_id: str

    @property
    def label(self) -> str | None:
        """The label that it serves; `None` for none."""
        return self.instance_id or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a namespace stands: from which labels objects are taken, how many Workflows wait for that, how many have it.

    `kept` says of each object, by its UID, why it stays as it is; `fault` what hinders all of them.
    """

    open: frozenset[str | None] = frozenset()
    kept: Mapping[str, str] = field(default_factory=dict)
    schedules: Sequence[Work] = ()
    waiting: int = 0
    swept: int = 0
    fault: Note | None = None

    def takes(self, work: Work) -> bool:
        """Tell whether an object that nobody serves is about to be given to the child."""
        return work.label in self.open and not work.started and work.uid not in self.kept


def loose(goal: Goal) -> frozenset[str | None]:
    """Name the labels that nobody chose: none, an empty one, and the IDs that admission gives to a whole namespace."""
    given = {shard.instance_id(goal.namespace, policy) for policy in (Policy.PER_NAMESPACE, Policy.FLEET)}
    return frozenset({None, serving.NO_ID, *given} - {goal.label})


def open_labels(goal: Goal, controllers: Collection[Controller]) -> frozenset[str | None]:
    """Name the labels from which objects may be taken: loose ones that no living controller serves, or might serve.

    None at all while another controller beside the child acts on what it would be given.
    """
    if any(not each.ours for each in serving.claimants(goal.namespace, goal.label, controllers)):
        return frozenset()
    return frozenset(label for label in loose(goal) if not serving.claimants(goal.namespace, label, controllers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What may be moved, in order.

    `begun` are the Workflows that somebody began who is gone, `others` those of schedules with an ID that is not taken.
    """

    order: tuple[Work, ...] = ()
    begun: tuple[Work, ...] = ()
    others: tuple[Work, ...] = ()

    @property
    def held(self) -> dict[str, list[str]]:
        """Name of each schedule those of its Workflows that it cannot take along."""
        found: dict[str, list[str]] = {}
        for each in (*self.begun, *self.others):
            if each.schedule:
                found.setdefault(each.schedule, []).append(each.name)
        return found


def plan(
    goal: Goal,
    work: Collection[Work],
    schedules: Iterable[Work],
    *,
    open_: Collection[str | None],
    begun: Callable[[Work], bool],
) -> Plan:
    """Order what carries open labels: the Workflows of each schedule and then the schedule, then the rest by age."""
    others = tuple(each for each in work if each.schedule and each.label not in {*open_, goal.label})
    there = sorted((each for each in work if each.label in open_), key=lambda each: (each.created, each.name))
    held = tuple(each for each in there if each.started or begun(each))
    kept = {each.uid for each in held}
    free = [each for each in there if each.uid not in kept]
    of: dict[str, list[Work]] = {}
    for each in free:
        if each.schedule:
            of.setdefault(each.schedule, []).append(each)
    order: list[Work] = []
    for cron in sorted((each for each in schedules if each.label in open_), key=lambda each: each.name):
        order += [*of.pop(cron.name, ()), cron]
    alone = {each.uid for each in order}
    order += [each for each in free if each.uid not in alone]
    return Plan(order=tuple(order), begun=held, others=others)


def refusal(cron: Manifest, goal: Goal, unfinished: Collection[str]) -> str:
    """Say why a CronWorkflow stays as it is, empty where nothing stands against it.

    `unfinished` names those of its Workflows that cannot be given to the child.
    """
    spec: Mapping[str, Any] = cron.get("spec") or {}
    for said in carried.ids(cron):
        if said is None or said != goal.label:
            what = "(computed)" if said is None else said
            return (
                f"its workflowMetadata puts {names.INSTANCE_ID_LABEL}: {what} on its Workflows, and the controller of "
                "this namespace would serve none of them: take that out of it"
            )
    policy = spec.get("concurrencyPolicy") or _ALLOW
    if unfinished and policy != _ALLOW:
        return (
            f"its Workflow {', '.join(sorted(unfinished)[:5])} was begun by a controller that is gone, or is one of "
            f"another instance ID, and concurrencyPolicy {policy} allows none beside it: bring that controller back, "
            "or stop or delete the Workflow"
        )
    return ""


def owners(live: Manifest) -> Iterator[str]:
    """Name the Workflows that an object belongs to, by UID."""
    for each in live["metadata"].get("ownerReferences") or ():
        if each.get("kind") == WORKFLOW.kind:
            yield each["uid"]


BEGUN: Final = (
    "the controller that began it (it has pods, a task set or volume claims) is gone: bring that one back, or delete "
    "the Workflow and submit it anew"
)
"""Why a Workflow without a phase stays as it is."""
