"""What the product exists for: one shared controller against the operator's fleet, in turn, each on a fresh cluster.

Both get the same flags, once Argo's own and once the set's defaults. In each turn a neighbour submits one-pod Workflows
while another namespace runs its backlog, and then four namespaces run one-pod Workflows together.
"""

import os
import statistics
import time

from tests.e2e.local import Object

from . import load, process, report, stage, turns
from .controllers import SHARED, STOCK, Controllers, control_plane, install_shared, template
from .machine import Others
from .report import RESULTS, Figure
from .turns import ARMS, DEFAULT_SET, FULL, STOCK_FLAGS, Arm, Round, Sizes, Turn

VALUES: dict[str, Object] = {STOCK_FLAGS: STOCK, DEFAULT_SET: {}}
BUSY, NEIGHBOUR = "team-busy", "team-next"
TOGETHER = ("team-a", "team-b", "team-c", "team-d")
NAMESPACES = (BUSY, NEIGHBOUR, *TOGETHER)
NODES = 20
"""Simulated nodes take 110 pods each: none waits for a place."""
IDLE_SECONDS = 30
SETTLE_SECONDS = 5
PLOT = RESULTS / "headline.svg"


def run(rounds: int = 2) -> list[Figure]:
    """Measure round after round, the order turned each time. Ctrl-C ends it after the rounds that are whole."""
    stage.require_none_running()
    found: list[Round] = []
    for number in range(1, rounds + 1):
        try:
            found.append(_round(number))
        except KeyboardInterrupt:
            if not found:
                raise
            print(f"round {number} is left out", flush=True)
            break
    figures = report.rounded(turns.told(found))
    PLOT.write_text(turns.picture(figures))
    return figures


def _round(number: int) -> Round:
    """Turn the order within a round and from round to round, so that a drifting machine hits both alike."""
    first, last = VALUES
    order = [*((first, arm) for arm in ARMS), *((last, arm) for arm in reversed(ARMS))]
    found: Round = {}
    for setting, arm in order if number % 2 else reversed(order):
        print(f"# round {number}, {setting}, {arm}", flush=True)
        found[setting, arm] = turn(setting, arm)
        print(found[setting, arm], flush=True)
    return found


def turn(setting: str, arm: Arm, sizes: Sizes = FULL) -> Turn:
    """Have a fresh cluster with one arm's controllers, and measure all there is."""
    before = os.getloadavg()[0]
    with stage.fresh(NAMESPACES, nodes=NODES) as on:
        if arm == "shared controller":
            install_shared(on.kubectl, on.api, VALUES[setting])
            return _measure(on, Controllers(on.api, [SHARED], expected=1), sizes, before)
        name = f"bench-{setting.replace(' ', '-')}"
        on.kubectl("apply", "--server-side", "-f", "-", stdin=template(name, VALUES[setting]))
        with on.operator:
            on.opt_in(name)
            on.wait_ready()
            found = _measure(on, Controllers(on.api, on.namespaces, expected=len(on.namespaces)), sizes, before)
        if troubles := process.troubles():
            print(*troubles[:10], sep="\n", flush=True)
        return found


def _measure(on: stage.Stage, controllers: Controllers, sizes: Sizes, before: float) -> Turn:
    operates = on.operator.runs
    time.sleep(SETTLE_SECONDS)
    others = Others(*controllers.pids, *([on.operator.pid] if operates else []))
    mark, operator = on.audit.mark(), on.operator.cpu() if operates else 0.0

    idle = _Spent(controllers)
    time.sleep(IDLE_SECONDS)
    idle_cpu, idle_plane = idle.since()
    memory = controllers.memory()

    beside = _Spent(controllers)
    one = load.beside(on.admin, busy=BUSY, neighbour=NEIGHBOUR, backlog=sizes.backlog)
    beside_cpu, beside_plane = beside.since()
    time.sleep(SETTLE_SECONDS)

    together = _Spent(controllers)
    all_of_them = load.together(on.admin, TOGETHER, count=sizes.count)
    together_cpu, together_plane = together.since()

    found = Turn(
        neighbour=one.neighbour[0],
        neighbour_later=statistics.median(one.neighbour[1:] or one.neighbour),
        backlog=one.backlog,
        rate=all_of_them.rate,
        idle_resident=memory.resident,
        idle_own=memory.own,
        idle_cpu=60 * idle_cpu / IDLE_SECONDS,
        idle_plane_cpu=60 * idle_plane / IDLE_SECONDS,
        peak=controllers.memory().peak,
        beside_cpu=beside_cpu,
        beside_plane_cpu=beside_plane,
        together_cpu=together_cpu,
        together_plane_cpu=together_plane,
        operator_cpu=on.operator.cpu() - operator if operates else 0.0,
        operator_peak=on.operator.peak() if operates else 0.0,
        others=others.share(),
        load=before,
    )
    load.require_ran_once(on.audit, mark, [*one.runs, *all_of_them.runs])
    return found


class _Spent:
    """CPU of the controllers and of the control plane from its making on."""

    def __init__(self, controllers: Controllers) -> None:
        self._controllers = controllers
        self._begun = controllers.cpu(), control_plane()

    def since(self) -> tuple[float, float]:
        return self._controllers.cpu() - self._begun[0], control_plane() - self._begun[1]
