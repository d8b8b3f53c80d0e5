"""300 namespaces at once: the operator, then the very same writes raw, in turn, each on a fresh cluster."""

import json
import statistics
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.e2e.audit import Audit
from tests.e2e.local import Api
from tests.e2e.simulated import Children

from . import process, record, stage
from .machine import Others
from .record import Burst
from .report import Figure
from .wire import Door

NAMESPACES = 300


def run(rounds: int = 2, namespaces: int = NAMESPACES, workers: int | None = None) -> list[Figure]:
    """Measure in turn, so that a drifting machine hits both."""
    stage.require_none_running()
    figures: list[Figure] = []
    ratios = []
    with TemporaryDirectory() as folder:
        place = Path(folder) / "writes.json"
        for number in range(1, rounds + 1):
            ours, costs = _operator(namespaces, place, f"round {number}, operator", workers)
            raw, raw_costs = _raw(namespaces, place, round(ours.under_way), f"round {number}, raw replay")
            ratios.append(ours.rate / raw.rate)
            figures += [*costs, *raw_costs]
            figures.append(Figure(what=f"round {number}, operator / raw", value=ratios[-1], least=0.8))
            print(f"round {number}: {ours.rate:.0f} / {raw.rate:.0f} = {ratios[-1]:.2f}", flush=True)
    return [*figures, Figure(what="operator / raw, median", value=statistics.median(ratios), least=0.8)]


def _operator(namespaces: int, place: Path, what: str, workers: int | None) -> tuple[Burst, list[Figure]]:
    with stage.fresh(namespaces, workers=workers) as on, Children(on.api):
        with on.operator as operator:
            begun = operator.cpu()
            others = Others(operator.pid)
            mark = on.audit.mark()
            on.opt_in()
            on.wait_ready()
            cpu, peak, taken = operator.cpu() - begun, operator.peak(), others.share()
        if troubles := process.troubles():
            print(*troubles[:10], sep="\n", flush=True)
        found = record.burst(_writes(on.audit, mark), on.namespaces)
        beside = record.beside(on.audit.since(mark), found)
        record.save(found.writes, _uids(on.api), place)
    return found, [
        *_of(what, found, beside),
        Figure(what=f"{what}: until all are READY", value=found.ready_seconds, unit="s"),
        Figure(what=f"{what}: CPU", value=cpu, unit="s"),
        Figure(what=f"{what}: most memory resident", value=peak, unit="MB", most=150),
        Figure(what=f"{what}: CPU of the machine that others took", value=taken, unit="%"),
        Figure(what=f"{what}: warnings and errors in its log", value=len(troubles)),
    ]


def _raw(namespaces: int, place: Path, at_once: int, what: str) -> tuple[Burst, list[Figure]]:
    with stage.fresh(namespaces) as on, Children(on.api):
        mark = on.audit.mark()
        door = Door(server=on.api.server, authority=on.api.authority, token=on.operator.token, agent="bench-raw")
        told = {"door": asdict(door), "admin": asdict(on.admin), "uids": _uids(on.api), "at_once": at_once}
        others = Others()
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.replay", str(place)],
            input=json.dumps(told),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        answer, taken = json.loads(done.stdout), others.share()
        found = record.burst(_writes(on.audit, mark), on.namespaces)
        beside = record.beside(on.audit.since(mark), found)
    for line in answer["other"][:5]:
        print(line, flush=True)
    return found, [
        *_of(what, found, beside),
        Figure(what=f"{what}: CPU of the client", value=answer["cpu"], unit="s"),
        Figure(what=f"{what}: CPU of the machine that others took", value=taken, unit="%"),
        Figure(what=f"{what}: answers other than recorded", value=len(answer["other"]), most=0),
    ]


def _of(what: str, found: Burst, beside: int) -> list[Figure]:
    return [
        Figure(what=f"{what}: until all objects are applied", value=found.seconds, unit="s"),
        Figure(what=f"{what}: writes in that time", value=len(found.writes)),
        Figure(what=f"{what}: writes a second", value=found.rate),
        Figure(what=f"{what}: writes of everybody else in that time", value=beside),
        Figure(what=f"{what}: writes under way on average", value=found.under_way),
    ]


def _writes(audit: Audit, mark: int) -> list[dict[str, object]]:
    return audit.tally(mark).writes


def _uids(api: Api) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in api.objects("v1/namespaces")}
