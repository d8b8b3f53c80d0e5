"""What is running, and what it changed on the machine: `.cluster/state.json`.

The same record lies in `/run/metaoperator-cluster`, for another checkout that wants the machine.
It is written before or right after each change, so that a crash at any point can be cleaned up.
"""

import dataclasses
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from . import places
from .errors import ClusterError
from .processes import Process, alive


def boot_id() -> str:
    """Return what tells this boot of the machine from every other: start times count from it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(slots=True, kw_only=True)
class Record:
    """One cluster: whose it is, its processes by name, and what must be put back when it goes."""

    checkout: str
    boot: str
    processes: dict[str, Process] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    sysctls: dict[str, str] = field(default_factory=dict)
    ready: bool = False

    def running(self) -> dict[str, Process]:
        """Return the recorded processes that are still there."""
        if self.boot != boot_id():
            return {}
        return {name: process for name, process in self.processes.items() if alive(process)}

    def save(self) -> None:
        """Write the record to both its places, each atomically."""
        text = json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"
        for place in (places.STATE, places.MACHINE_STATE):
            place.parent.mkdir(parents=True, exist_ok=True)
            temporary = place.with_suffix(".tmp")
            temporary.write_text(text)
            temporary.rename(place)


def new() -> Record:
    """Return the record of a cluster of this checkout that has nothing yet."""
    return Record(checkout=str(places.CHECKOUT), boot=boot_id())


def load() -> Record | None:
    """Return the record of the machine's cluster, whichever checkout started it; `None` if there is none."""
    for place in (places.MACHINE_STATE, places.STATE):
        try:
            data = json.loads(place.read_text())
            data["processes"] = {n: Process(**p) for n, p in data["processes"].items()}
            return Record(**data)
        except FileNotFoundError:
            continue
        except (ValueError, TypeError, KeyError):
            # Not ours to understand, or from another version: what it named is found by our marks.
            continue
    return None


def forget() -> None:
    """Remove the record: nothing of the cluster is left."""
    for place in (places.STATE, places.MACHINE_STATE):
        place.unlink(missing_ok=True)


@contextmanager
def exclusive() -> Iterator[None]:
    """Hold the machine: only one command at a time starts or stops a cluster.

    The lock is on a folder that every machine has, because a lock file of our own would be left behind.
    """
    fd = os.open("/run/lock" if os.path.isdir("/run/lock") else "/run", os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(
                "another command is starting or stopping a cluster on this machine: wait for it"
            ) from None
        yield
    finally:
        os.close(fd)
