"""A process is a pid and a start time; a pid alone may by now be somebody else's.

Every signal in this package is sent from here, through a pidfd whose start time was checked: between the
check and the signal the pid cannot change hands.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import places

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True, order=True)
class Process:
    """One process for ever: `started` is in clock ticks since the machine's boot."""

    pid: int
    started: int


def find(pid: int) -> Process | None:
    """Return the process that has this pid now; a zombie counts as gone."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in parentheses, may hold spaces and parentheses: fields are counted after the last one.
    fields = stat[stat.rindex(")") + 2 :].split()
    state, started = fields[0], int(fields[19])
    return None if state in "ZX" else Process(pid, started)


def alive(process: Process) -> bool:
    """Tell whether exactly this process still runs."""
    return find(process.pid) == process


def send(process: Process, number: signal.Signals) -> bool:
    """Signal exactly this process; false if it is gone, whoever has its pid now."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not alive(process):
            return False
        signal.pidfd_send_signal(fd, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)


def wait_gone(processes: Iterable[Process], seconds: float) -> list[Process]:
    """Wait until these have exited; return those that have not."""
    left = list(processes)
    deadline = time.monotonic() + seconds
    while (left := [p for p in left if alive(p)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def stop(processes: Iterable[Process], *, grace: float) -> list[Process]:
    """End these: SIGTERM, then SIGKILL for those that need longer than `grace`; return what survives."""
    asked = list(processes)
    if grace > 0:
        asked = [p for p in asked if send(p, signal.SIGTERM)]
        asked = wait_gone(asked, grace)
    for process in asked:
        send(process, signal.SIGKILL)
    return wait_gone(asked, 10.0)


def marked() -> Iterator[tuple[Process, str]]:
    """Yield every process that descends from one we started, recorded or not, and the checkout it is of.

    Shims above all. Pods' processes are not among them, since a container gets its image's environment: they
    are found by cgroup.
    """
    needle = f"\0{places.PROCESS_MARK}=".encode()
    for entry in _PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        process = find(int(entry.name))
        try:
            environment = b"\0" + (entry / "environ").read_bytes()
        except (OSError, ProcessLookupError):
            continue
        if process and needle in environment:
            yield process, environment.split(needle, 1)[1].split(b"\0", 1)[0].decode()


def named(name: str) -> bool:
    """Tell whether any process of the machine has this name, whoever started it."""
    for entry in _PROC.glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if entry.read_text().strip() == name and find(int(entry.parent.name)):
                return True
    return False


def spawn(name: str, command: list[str], *, environment: dict[str, str]) -> Process:
    """Start a daemon that outlives this command, its output in `.cluster/logs/<name>.log`."""
    places.LOGS.mkdir(parents=True, exist_ok=True)
    with (places.LOGS / f"{name}.log").open("wb") as log:
        child = subprocess.Popen(
            command,
            cwd=places.RUN,
            env={**environment, places.PROCESS_MARK: str(places.CHECKOUT)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    # Before exec is done the start time is already the final one.
    process = find(child.pid)
    return process or Process(child.pid, -1)


def log_tail(name: str, lines: int = 15) -> str:
    """Return the end of a component's log, for an error message."""
    try:
        text = (places.LOGS / f"{name}.log").read_text(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
