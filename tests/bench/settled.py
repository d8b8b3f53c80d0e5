"""What a settled fleet costs: counted from the audit log, from the moment that all watches are in sync."""

import time

from tests.e2e.audit import Tally, told
from tests.e2e.simulated import Children

from . import process, stage
from .burst import NAMESPACES
from .report import Figure

QUIET_SECONDS = 20
"""Longer than the operator may put off a write that is due: counts wait up to 15 s, roll-ups 5 s."""


def opted_in(minutes: float, namespaces: int = NAMESPACES) -> list[Figure]:
    """After the opt-in, by the operator that did it."""
    return _measure(minutes, namespaces, mirror=False, restart=False)


def restarted(minutes: float, namespaces: int = NAMESPACES) -> list[Figure]:
    """After a restart: nothing is remembered, and everything is looked at anew."""
    return _measure(minutes, namespaces, mirror=False, restart=True)


def mirrored(minutes: float, namespaces: int = NAMESPACES) -> list[Figure]:
    """The same where a policy rewrites images: what is read back is never what was sent."""
    return _measure(minutes, namespaces, mirror=True, restart=True)


def _measure(minutes: float, namespaces: int, *, mirror: bool, restart: bool) -> list[Figure]:
    stage.require_none_running()
    with stage.fresh(namespaces, mirror=mirror) as on, Children(on.api):
        with on.operator:
            on.opt_in()
            on.wait_ready()
            time.sleep(QUIET_SECONDS)
            if not restart:
                return _settled(on, minutes)
        with on.operator:
            return _settled(on, minutes)


def _settled(on: stage.Stage, minutes: float) -> list[Figure]:
    """Count from now on, which is when all watches are in sync."""
    mark, cpu = on.audit.mark(), on.operator.cpu()
    time.sleep(minutes * 60)
    found, spent = on.audit.tally(mark), on.operator.cpu() - cpu
    on.wait_ready(seconds=1)
    for entry in (*found.writes, *found.lists)[:20]:
        print(told(entry), flush=True)
    for line in process.troubles()[:10]:
        print(line, flush=True)
    return [
        Figure(what="namespaces READY at the end", value=len(on.namespaces)),
        Figure(what="minutes", value=minutes),
        *_counts(found, minutes),
        Figure(what="CPU of the operator", value=spent / minutes, unit="s a minute"),
        Figure(what="memory resident at the end", value=on.operator.resident(), unit="MB"),
        Figure(what="most memory resident", value=on.operator.peak(), unit="MB", most=150),
    ]


def _counts(found: Tally, minutes: float) -> list[Figure]:
    # Every ten minutes, give or take a tenth, and once at the start of a term; three kinds, one page each here.
    compares = 3 * (2 + minutes // 9)
    return [
        Figure(what="writes", value=len(found.writes), most=0),
        Figure(what="lists but the compares", value=len(found.lists), most=0),
        Figure(what="lists of the compares", value=found.compares, most=compares),
        Figure(what="dry-runs", value=found.dry_runs),
        Figure(what="reads of single objects", value=found.gets),
        Figure(what="writes of its own Lease", value=found.leases),
        Figure(what="watches begun anew", value=sum(found.watches.values())),
    ]
