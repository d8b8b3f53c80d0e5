"""How much of the machine others took meanwhile: a round on a busy machine says little, and now it says so."""

import os
import resource
import time
from pathlib import Path

from tests.cluster import record

_TICKS = os.sysconf("SC_CLK_TCK")


class Others:
    """Measures from its making on."""

    def __init__(self, *pids: int) -> None:
        """`pids` are ours besides this process, those it has waited for, and the cluster's."""
        self._pids = pids
        self._ours, self._all, self._at = self._own(), _busy(), time.monotonic()

    def share(self) -> float:
        """Percent of all CPUs that went to processes of others, what the hypervisor took included."""
        ours, everything = self._own() - self._ours, _busy() - self._all
        return 100 * max(0.0, everything - ours) / ((time.monotonic() - self._at) * (os.cpu_count() or 1))

    def _own(self) -> float:
        last = record.load()
        pids = [*self._pids, *(process.pid for process in (last.running() if last else {}).values())]
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(map(seconds, pids)) + sum(each.ru_utime + each.ru_stime for each in used)


def seconds(pid: int) -> float:
    """Seconds of CPU of one process since it started, user and system; 0 when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    fields = stat[stat.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _busy() -> float:
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS
