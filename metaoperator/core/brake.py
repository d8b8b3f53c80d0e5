"""The deletion brake, decided: how many children may go at once, and by which word a person lets more of them go.

Every peer that removes what is no longer wanted has once removed all of it: a selector changed, labels were taken off
in bulk, a list came empty. So what is no longer wanted is counted over the fleet before the first of it goes.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from metaoperator.core import names, ownership, plan
from metaoperator.core.model import Manifest, Ref

FLOOR: Final = 5
"""So many may go in any case: who has a few namespaces is not asked."""
DEFAULT: Final = "10%"
WINDOW_SECONDS: Final = 3600.0
"""What was removed so long ago no longer counts."""

_PERCENT: Final = re.compile(r"(?P<share>[0-9]{1,3})%")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Member:
    """A namespace with a child of ours that is to go; a re-created one of its name is another."""

    namespace: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """What is known of all children of one ControllerTemplate.

    `there` are all namespaces with a child. `leaving` are those of them where nobody wants it any more, and nothing of
    it was removed yet; `recent` those whose removal began within the hour without a confirmation. `confirmed` ones may
    go whatever the limit says.
    """

    there: frozenset[Member] = frozenset()
    leaving: frozenset[Member] = frozenset()
    recent: frozenset[Member] = frozenset()
    confirmed: frozenset[Member] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Who may not go, and who is confirmed now. `word` confirms the removal of exactly those that are `held`."""

    total: int
    limit: int
    count: int = 0
    held: frozenset[Member] = frozenset()
    confirmed: frozenset[Member] = frozenset()
    word: str = ""


def limit(spec: Mapping[str, Any], total: int) -> int:
    """Read how many of `total` children may go within an hour; what cannot be read is the default."""
    said = spec.get("deletionLimit")
    if isinstance(said, int) and not isinstance(said, bool):
        return max(FLOOR, said)
    found = _PERCENT.fullmatch(str(said)) or _PERCENT.fullmatch(DEFAULT)
    assert found is not None
    return max(FLOOR, total * int(found["share"]) // 100)


def word(members: Iterable[Member]) -> str:
    """Name a set of namespaces, so that whoever confirms it confirms no other."""
    lines = "".join(f"{each.namespace} {each.uid}\n" for each in sorted(members))
    return hashlib.sha256(lines.encode()).hexdigest()[:12]


def decide(census: Census, spec: Mapping[str, Any], said: Collection[str]) -> Decision:
    """Hold all of them or none: which of them somebody meant cannot be told. `said` are the words of people.

    Whoever joins a confirmed set later is not part of it, and is counted anew with the others that joined.
    """
    total = len(census.there | census.leaving | census.recent)
    allowed = limit(spec, total)
    asking = census.leaving - census.confirmed
    confirmed = census.confirmed & census.leaving
    if not asking:
        return Decision(total=total, limit=allowed, confirmed=confirmed)
    count, named = len(asking | census.recent), word(asking)
    if count <= allowed:
        return Decision(total=total, limit=allowed, count=count, confirmed=confirmed)
    if named in said:
        return Decision(total=total, limit=allowed, count=count, confirmed=confirmed | asking)
    return Decision(total=total, limit=allowed, count=count, held=asking, confirmed=confirmed, word=named)


def removed(desired: Iterable[Manifest], observed: Mapping[Ref, Manifest], *, namespace_uid: str) -> bool:
    """Tell whether a child is there which would not be rendered any more."""
    wanted = {Ref.of(each) for each in desired}
    return any(
        plan.is_child(ref) and ref not in wanted and ownership.is_ours(live, namespace_uid)
        for ref, live in observed.items()
    )


def sentence(decision: Decision) -> str:
    """Say what is too much; for a namespace that is held, and for a change that is refused before it begins."""
    return (
        f"{decision.count} of {decision.total} children would be removed within an hour, and spec.deletionLimit of the "
        f"ControllerTemplate allows {decision.limit}: nothing is drained or removed"
    )


def for_namespace(decision: Decision, template: str, *, there: bool = True) -> str:
    """Say to one namespace that it is held, and where the command stands: there it is always of now."""
    gone = "" if there else f"create ControllerTemplate {template} again, and "
    return (
        f"{sentence(decision)}; label the namespace again to keep its child, or {gone}see what to confirm: kubectl "
        f"describe controllertemplate {template}"
    )


def for_template(decision: Decision, template: str) -> str:
    """Say which namespaces are held, and the command that confirms them and no others."""
    return _held(decision, template, "label those again whose child is to stay")


def for_change(decision: Decision, template: str) -> str:
    """Say the same of a change of the template set, before anything of it is begun."""
    return _held(decision, template, "let the template set render the child again")


def _held(decision: Decision, template: str, cure: str) -> str:
    held = sorted(each.namespace for each in decision.held)
    more = f" and {len(held) - 10} more" if len(held) > 10 else ""
    return (
        f"{sentence(decision)} ({', '.join(held[:10])}{more}); {cure}, or confirm "
        f"these {len(held)}: kubectl annotate controllertemplate {template} "
        f"{names.CONFIRM_REMOVAL_ANNOTATION}={decision.word} --overwrite"
    )
