"""A child is told by its Lease to work, and two pods of it are kept apart by it: nothing rendered may do without."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from metaoperator.core import paths, plan
from metaoperator.core.kubernetes import Fault
from metaoperator.core.model import Manifest, Ref

_SWITCH: Final = "LEADER_ELECTION_DISABLE"


def faults(manifest: Manifest) -> Iterator[Fault]:
    """Name what switches a child's leader election off, or may: its Lease is none then, and its rollouts overlap."""
    if not plan.is_child(Ref.of(manifest)):
        return
    containers = paths.mapping(manifest, "spec", "template", "spec").get("containers")
    for number, container in enumerate(_items(containers)):
        for index, each in enumerate(_items(container.get("env"))):
            # Argo's controller compares with this one word.
            if each.get("name") == _SWITCH and (each.get("value") == "true" or "valueFrom" in each):
                yield Fault(
                    path=("spec", "template", "spec", "containers", number, "env", index),
                    what=f"{_SWITCH} leaves the controller without a Lease, by which it is told to work, and nothing "
                    "keeps two pods of it apart",
                    cure="leave it out",
                )


def _items(found: Any) -> list[Mapping[str, Any]]:
    """Read a list of mappings; what is none of either is told elsewhere."""
    return [each if isinstance(each, Mapping) else {} for each in found] if isinstance(found, list) else []
