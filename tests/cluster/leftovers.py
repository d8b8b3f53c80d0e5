"""The way back to a clean machine: after `down`, and after a crash that left anything at all.

What is removed is ours by its name or path (`places`), by the environment that we gave a process, or by the
record of what we changed. Another containerd, kubelet or bridge is never touched. Every step is fine with
finding nothing, so that the same code runs whatever is left.
"""

import contextlib
import json
import shutil
import subprocess
import time
from pathlib import Path

from . import build, cgroups, debian, network, node, places, processes, recipes, record, say
from .record import Record

_FIRST = ("kubelet", "kube-scheduler", "kube-controller-manager")


def found() -> list[str]:
    """Say what is there of a cluster, ours or another checkout's, running or not."""
    paths = [str(path) for path in (places.RUN, places.VAR) if path.exists()]
    return [
        *(f"process {process.pid}" for process, _ in processes.marked()),
        *(f"mount {mount}" for mount in _mounts()),
        *network.leftovers(),
        *cgroups.leftovers(),
        *paths,
    ]


def clean(last: Record | None) -> list[str]:
    """Remove everything of a cluster; return what could not be removed."""
    running = last.running() if last else {}
    # First who would start pods anew, then the pods, then what they stand on.
    processes.stop([p for name, p in running.items() if name in _FIRST], grace=3)
    # Before the containers go, and with them the only files that name the sockets; a shim that is killed on
    # its way out leaves its socket behind.
    sockets = _shim_sockets()
    if "containerd" in running:
        _remove_containers()
    _kill_pods()
    processes.stop(running.values(), grace=1)
    # Shims, and whatever was started right before a crash and not recorded.
    processes.stop([process for process, _ in processes.marked()], grace=0)
    _kill_pods()
    _unmount()
    network.tear_down()
    cgroups.remove()
    for path in sockets:
        path.unlink(missing_ok=True)
    for result in places.CNI_RESULTS.glob(f"{places.CNI_NETWORK}-*"):
        result.unlink(missing_ok=True)
    if last:
        _put_back(last)
    # The record goes last: until here a second try knows as much as the first.
    left = [f"mount {mount}" for mount in _mounts()]
    if not left:
        for folder in (places.VAR, places.ETCD, places.RUN):
            shutil.rmtree(folder, ignore_errors=True)
        record.forget()
    return [*left, *(item for item in found() if item not in left)]


def _remove_containers() -> None:
    """Let containerd end pods itself, so that shims unmount and exit; best effort, the rest is swept."""
    if recipes.by_family("containerd") in build.missing():
        return
    with contextlib.suppress(subprocess.TimeoutExpired, OSError):
        if tasks := node.ctr("tasks", "ls", "-q", timeout=10).stdout.split():
            node.ctr("tasks", "rm", "--force", *tasks, timeout=60)


def _shim_sockets() -> list[Path]:
    """Return the sockets of our shims: they lie in a folder that all containerds share, named by a hash."""
    found = []
    for bootstrap in (places.CONTAINERD_STATE / "io.containerd.runtime.v2.task").glob("*/*/bootstrap.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            found.append(Path(json.loads(bootstrap.read_text())["address"].removeprefix("unix://")))
    return found


def _kill_pods() -> None:
    """Kill what runs in our cgroups until nothing does: a fork between two looks is caught by the next."""
    deadline = time.monotonic() + 10
    while (members := cgroups.members()) and time.monotonic() < deadline:
        processes.stop(members, grace=0)


def _mounts() -> list[str]:
    """Return the mounts below our folders, the last made first."""
    inside = (f"{places.RUN}/", f"{places.VAR}/")
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in reversed(points) if point.startswith(inside)]


def _unmount() -> None:
    for options in ([], ["--lazy"]):
        if mounts := _mounts():
            subprocess.run([debian.find("umount"), *options, "--", *mounts], capture_output=True)


def _put_back(last: Record) -> None:
    """Restore kernel settings, and remove the folders that a component made at a place of its own choice."""
    if last.boot == record.boot_id():
        for name, value in last.sysctls.items():
            with contextlib.suppress(OSError):
                (Path("/proc/sys") / name).write_text(value)
    for link in Path("/var/log/containers").glob("*.log"):
        if str(link.readlink() if link.is_symlink() else link).startswith(f"{places.VAR}/"):
            link.unlink(missing_ok=True)
    if str(places.KUBELET_COMPILED_IN) in last.made and not processes.named("kubelet"):
        shutil.rmtree(places.KUBELET_COMPILED_IN / "device-plugins", ignore_errors=True)
    for path in map(Path, last.made):
        # Only if nobody has put something there since: another runtime may have come to the machine.
        with contextlib.suppress(OSError):
            path.rmdir()


def report(items: list[str]) -> None:
    """Print what could not be removed."""
    for item in items:
        say.line(f"left behind: {item}")
