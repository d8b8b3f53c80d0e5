"""The parent of all pods' cgroups: by its name every process of a pod is known as ours.

Tried on cgroup v1 (hybrid). On v2 there is one hierarchy and the same code makes one folder; untested.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from . import places
from .processes import Process, find


def make() -> None:
    """Make the parent in every hierarchy; the kubelet refuses to start without it."""
    for hierarchy in _hierarchies():
        folder = hierarchy / places.CGROUP
        folder.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            # In v1 a new cpuset is empty, and nothing can run in a child of an empty one.
            source, destination = hierarchy / name, folder / name
            if source.exists() and destination.exists() and not destination.read_text().strip():
                destination.write_text(source.read_text())


def members() -> list[Process]:
    """Return every process in a cgroup of ours."""
    pids = set()
    for folder in _ours():
        with contextlib.suppress(OSError):
            pids.update(int(pid) for pid in (folder / "cgroup.procs").read_text().split())
    return sorted(process for pid in pids if (process := find(pid)))


def remove() -> None:
    """Remove the parent and all below it; a cgroup whose last process just left needs a moment."""
    deadline = time.monotonic() + 5
    while folders := _ours():
        for folder in folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
        if time.monotonic() > deadline:
            return
        if _ours():
            time.sleep(0.05)


def leftovers() -> list[str]:
    """Say what of ours is still there."""
    return [f"cgroup {folder}" for folder in _ours()]


def _ours() -> list[Path]:
    """Return our cgroups, children before their parents."""
    found = []
    for hierarchy in _hierarchies():
        top = hierarchy / places.CGROUP
        if top.is_dir():
            found += [*(entry for entry in top.rglob("*") if entry.is_dir()), top]
    return sorted(found, key=lambda folder: -len(folder.parts))


def _hierarchies() -> Iterator[Path]:
    seen = set()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ", 1)
        if right.split()[0] in ("cgroup", "cgroup2"):
            seen.add(Path(left.split()[4]))
    yield from sorted(seen)
