"""Who serves a Workflow or CronWorkflow: one controller, several, or nobody. The one place where that is decided.

A controller acts on what lies in a namespace that it sees and carries its own instance ID, or none where it has none
(argo-workflows `workflow/util.InstanceIDRequirement`). An empty label is an ID of its own that nobody can have.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from metaoperator.core import names
from metaoperator.core.foreign import Foreign
from metaoperator.core.model import Manifest, Ref

NO_ID: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Controller:
    """One controller, ours or not. `sees` is empty for all namespaces, `instance_id` for Workflows without one.

    One that is not `sure` may serve less than that: it counts where two would be one too many, and not where one is
    needed.
    """

    ref: Ref
    instance_id: str
    sees: str
    alive: bool
    ours: bool = False
    sure: bool = True
    told: str = field(default="", compare=False)

    def serves(self, namespace: str, instance_id: str) -> bool:
        """Tell whether it acts on what carries this ID there, or did when it was last alive."""
        return self.instance_id == instance_id and self.sees in {"", namespace}

    def __str__(self) -> str:
        return self.told or str(self.ref)


def foreign(found: Foreign, *, leads: bool = False) -> Controller:
    """Take a foreign controller: alive while a pod of it is wanted or there, or while its Lease moves."""
    return Controller(
        ref=found.ref,
        instance_id=found.instance_id,
        sees=found.sees,
        alive=found.replicas > 0 or leads,
        sure=not found.unsure,
        told=str(found),
    )


def child(deployment: Ref, instance_id: str, *, alive: bool) -> Controller:
    """Take one of our own, which sees its namespace alone."""
    return Controller(ref=deployment, instance_id=instance_id, sees=deployment.namespace, alive=alive, ours=True)


def instance_id_of(live: Manifest) -> str | None:
    """Read the ID that an object carries; `None` for one that carries none."""
    found: Mapping[str, str] = live["metadata"].get("labels") or {}
    return found.get(names.INSTANCE_ID_LABEL)


def servers(namespace: str, label: str | None, controllers: Iterable[Controller]) -> tuple[Controller, ...]:
    """Name the living controllers that act on what carries this label (`None`: no label) in a namespace, in order.

    More than one is an overlap: each makes the pods of the same Workflow. None: it waits for ever.
    """
    if label == NO_ID:
        return ()
    wanted = NO_ID if label is None else label
    return tuple(sorted(each for each in controllers if each.alive and each.serves(namespace, wanted)))


def claimants(namespace: str, label: str | None, controllers: Iterable[Controller]) -> tuple[Controller, ...]:
    """Name the living controllers that act on what carries this label, and those of which it cannot be told."""
    there = [each for each in controllers if each.alive]
    doubtful = {each for each in there if not each.sure and each.sees in {"", namespace}}
    return tuple(sorted({*servers(namespace, label, there), *doubtful}))


def overlapping(mine: Controller, controllers: Collection[Controller]) -> tuple[Controller, ...]:
    """Name the living controllers that would act on the same Workflows as one of ours."""
    return tuple(each for each in servers(mine.sees, mine.instance_id or None, controllers) if each.ref != mine.ref)
