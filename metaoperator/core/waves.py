"""Waves: which one claims a namespace. Each namespace is in exactly one, whatever labels it has.

Waves with a selector claim first, in their order; those with a percentage share what is left, in the order of a hash of
the namespace's UID, so that a namespace stays where it is while others come and go. What nobody claims is in `rest`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final, Protocol, TypeVar

REST: Final = "rest"
"""The last wave, which is always there; no other may have its name."""


class Operator(StrEnum):
    """How an expression looks at a label, in the words of Kubernetes' selectors."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One requirement on one label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether labels meet it; one that is absent meets `NotIn`, as in Kubernetes."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A label selector: all that it says has to hold."""

    labels: Mapping[str, str] = field(default_factory=dict)
    expressions: tuple[Expression, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether it selects what has these labels."""
        return all(labels.get(key) == value for key, value in self.labels.items()) and all(
            each.matches(labels) for each in self.expressions
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many, or so many percent of all."""

    amount: int
    percent: bool = False

    def of(self, total: int, *, least: int = 0) -> int:
        """Count it, rounded down: a limit is never more than what was written."""
        return max(least, total * self.amount // 100 if self.percent else self.amount)

    def __str__(self) -> str:
        return f"{self.amount}%" if self.percent else str(self.amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """A wave: whom it claims, and what is its own of the policy. The rest claims by neither selector nor percentage."""

    name: str
    selector: Selector | None = None
    percent: int | None = None
    max_unavailable: Share | None = None
    soak_seconds: float | None = None
    approval: bool = False


class Claimant(Protocol):
    """Who may be claimed."""

    @property
    def uid(self) -> str:
        """The UID of the namespace."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""


M = TypeVar("M", bound=Claimant)


def claim(members: Sequence[M], waves: Sequence[Wave]) -> list[tuple[Wave, list[M]]]:
    """Give each member to its wave; the waves in their order, `rest` last, each wave's members in the order given."""
    found: list[list[M]] = [[] for _ in range(len(waves) + 1)]
    selecting = [(at, wave.selector) for at, wave in enumerate(waves) if wave.selector is not None]
    sharing = [(at, wave.percent) for at, wave in enumerate(waves) if wave.percent is not None]
    left: list[M] = []
    for member in members:
        at = next((at for at, selector in selecting if selector.matches(member.labels)), None)
        (left if at is None else found[at]).append(member)
    if sharing:
        place = {member.uid: rank for rank, member in enumerate(sorted(left, key=lambda each: _hash(each.uid)))}
        bounds, taken = [], 0
        for at, percent in sharing:
            taken += -(-len(members) * percent // 100)
            bounds.append((taken, at))
        for member in left:
            rank = place[member.uid]
            found[next((at for bound, at in bounds if rank < bound), len(waves))].append(member)
    else:
        found[-1] = left
    return list(zip((*waves, Wave(name=REST)), found, strict=True))


@lru_cache(maxsize=16_384)
def _hash(uid: str) -> str:
    return hashlib.sha256(uid.encode()).hexdigest()
