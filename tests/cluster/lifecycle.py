"""Up and down.

Up: build what is missing → make the machine clean → network, cgroups, credentials, configuration → etcd and
containerd → API server, images meanwhile → controller-manager, scheduler, kubelet → wait until all are well.
Down: `leftovers.clean`, which is also what up begins with.
"""

import os
import shutil
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from . import (
    build,
    cgroups,
    configs,
    controlplane,
    credentials,
    debian,
    images,
    leftovers,
    network,
    node,
    places,
    processes,
    record,
    say,
    simulated,
)
from .credentials import Credentials
from .errors import ClusterError, NotRoot
from .record import Record

_COMPONENTS = ("etcd", "containerd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
# Set by the kubelet and by CNI's bridge plugin, for the whole machine.
_SYSCTLS = (
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
_NEEDS_ROOT = f"""\
the local cluster needs root, because it would:
  - install Debian packages that are missing (runc, containernetworking-plugins, busybox-static, …)
  - run etcd, a Kubernetes control plane, containerd and a kubelet on this machine
  - make the bridge {places.BRIDGE}, put {network.API_ADDRESS} on the loopback device, and a route for {network.SERVICE_RANGE}
  - make the cgroup /{places.CGROUP}, and the folders {places.RUN} and {places.VAR}
`python3 -m tests.cluster down` takes all of it (but the packages) away again.
Without root, use a cluster of your own: `make demo CLUSTER=current`."""


def up() -> Path:
    """Have a healthy cluster of this checkout; return its admin kubeconfig."""
    require_root()
    with record.exclusive():
        last = record.load()
        _refuse_foreign(last)
        if last and last.ready and _healthy(last):
            say.line("the local cluster is up already")
            return places.KUBECONFIG
        started = time.monotonic()
        build.everything()
        debian.for_node()
        archives = images.archives()
        if items := leftovers.found():
            say.line(f"cleaning what an earlier cluster left: {len(items)} items")
            leftovers.report(leftovers.clean(last))
        current = record.new()
        try:
            _start(current, list(archives.values()))
        except BaseException:
            leftovers.clean(current)
            raise
        say.line(f"the local cluster is up: {say.elapsed(time.monotonic() - started)}")
        return places.KUBECONFIG


def down() -> None:
    """Stop the cluster and take away all that it put on the machine."""
    require_root()
    with record.exclusive():
        last = record.load()
        _refuse_foreign(last)
        if not leftovers.found():
            say.line("no local cluster is running")
            record.forget()
            return
        with say.task("stopping the local cluster"):
            left = leftovers.clean(last)
        places.KUBECONFIG.unlink(missing_ok=True)
        if left:
            leftovers.report(left)
            raise ClusterError("the machine is not clean: see above, and try `down` again")


def simulate(count: int) -> None:
    """Have so many simulated nodes beside the real one."""
    require_root()
    require_running()
    # The first time it takes minutes, and needs no right to the machine.
    if count:
        build.program(simulated.COMPONENT)
    with record.exclusive():
        current = require_running()
        who = credentials.load()
        if who is None:
            raise ClusterError("the local cluster has not come up: `python3 -m tests.cluster up`")
        with say.task(f"  {count} simulated nodes"):
            simulated.have(count, current, who)


def require_running() -> Record:
    """Return the record of this checkout's running cluster."""
    last = record.load()
    if last is None or last.checkout != str(places.CHECKOUT) or "containerd" not in last.running():
        raise ClusterError("no local cluster of this checkout is running: `python3 -m tests.cluster up`")
    return last


def require_root() -> None:
    """Refuse, before anything is changed, to go on without root."""
    if os.geteuid() != 0:
        raise NotRoot(_NEEDS_ROOT)


def _refuse_foreign(last: Record | None) -> None:
    """Leave another checkout's running cluster alone, unless that checkout is gone and nobody else can stop it."""
    owners = {checkout for _, checkout in processes.marked()}
    if last and last.running():
        owners.add(last.checkout)
    for owner in sorted(owners - {str(places.CHECKOUT)}):
        if Path(owner, "tests", "cluster").is_dir():
            raise ClusterError(
                f"the cluster of another checkout runs on this machine: {owner}\n"
                f"stop it with: cd {owner} && python3 -m tests.cluster down"
            )
        say.line(f"the running cluster belongs to {owner}, which is gone: it is taken away")


def _healthy(last: Record, seconds: float = 10) -> bool:
    """Tell whether every component runs, answers within some seconds, and the node is Ready.

    Patient, since the answer "no" costs a running cluster its life, and a busy machine is slow to answer.
    """
    who = credentials.load()
    deadline = time.monotonic() + seconds
    while who is not None and set(last.running()) >= set(_COMPONENTS):
        if (
            controlplane.api_ready()
            and controlplane.controllers_ready()
            and node.containerd_ready()
            and node.ready(who)
        ):
            return True
        if time.monotonic() > deadline:
            break
        time.sleep(0.5)
    return False


def _require_free_ports() -> None:
    """Say which port is taken, before a component dies of it."""
    for address in (*controlplane.PORTS, (network.API_ADDRESS, 443), (network.NODE_ADDRESS, 10250)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as exc:
                raise ClusterError(
                    f"{address[0]}:{address[1]} cannot be had ({exc.strerror}): see `ss -ltnp`"
                ) from None


def _start(current: Record, archives: list[Path]) -> None:
    shutil.rmtree(places.LOGS, ignore_errors=True)
    for path in (places.HOME, places.RUN, places.VAR, places.LOGS):
        path.mkdir(mode=0o700 if path in (places.RUN, places.VAR) else 0o755, parents=True, exist_ok=True)
    for old in places.HOME.glob("audit*.log"):
        old.unlink()
    # Before anything changes: what to put back.
    current.made = [str(path) for path in places.COMPILED_IN if not path.exists()]
    for name in _SYSCTLS:
        if (place := Path("/proc/sys") / name).exists():
            current.sysctls[name] = place.read_text().strip()
    current.save()

    network.set_up()
    _require_free_ports()
    cgroups.make()
    who = credentials.make()
    configs.write_all()

    _spawn(current, "etcd", controlplane.etcd)
    _spawn(current, "containerd", node.containerd)
    _wait(current, "etcd", controlplane.etcd_ready)
    _spawn(current, "kube-apiserver", controlplane.api_server)
    _wait(current, "containerd", node.containerd_ready)
    importing = _Import(archives)
    _wait(current, "kube-apiserver", controlplane.api_ready)
    who.kubeconfig("system:kube-controller-manager", places.RUN / "controller-manager.kubeconfig")
    who.kubeconfig("system:kube-scheduler", places.RUN / "scheduler.kubeconfig")
    who.kubeconfig(f"system:node:{credentials.NODE}", places.RUN / "kubelet.kubeconfig")
    _spawn(current, "kube-controller-manager", controlplane.controller_manager)
    _spawn(current, "kube-scheduler", controlplane.scheduler)
    _spawn(current, "kubelet", node.kubelet)
    importing.finish()
    _wait(current, "kube-controller-manager", controlplane.controllers_ready)
    _wait(current, "kubelet", lambda: node.ready(who))
    # Without it no pod of that namespace can be created: the controllers have done their first round.
    _wait(
        current,
        "kube-controller-manager",
        lambda: controlplane.get("/api/v1/namespaces/default/serviceaccounts/default", who) is not None,
    )
    who.kubeconfig("admin", places.KUBECONFIG)
    current.ready = True
    current.save()


def _spawn(current: Record, name: str, command: Callable[[Path], list[str]]) -> None:
    program = build.program(name)
    path = f"{program.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    # Nothing of the caller's environment: a proxy setting or a KUBECONFIG must not change a component.
    environment = {"PATH": path, "HOME": str(places.RUN)}
    current.processes[name] = processes.spawn(name, command(program), environment=environment)
    current.save()


def _wait(current: Record, name: str, ready: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    with say.task(f"  {name}"):
        while not ready():
            if not processes.alive(current.processes[name]):
                raise ClusterError(f"{name} stopped; the end of {places.LOGS / name}.log:\n{processes.log_tail(name)}")
            if time.monotonic() > deadline:
                raise ClusterError(f"{name} is not ready; the end of its log:\n{processes.log_tail(name)}")
            time.sleep(0.1)


class _Import:
    """Images go into containerd while the API server starts."""

    def __init__(self, archives: list[Path]) -> None:
        self._archives = archives
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            node.load(self._archives)
        except BaseException as exc:
            self._failure = exc

    def finish(self) -> None:
        with say.task("  images"):
            self._thread.join()
        if self._failure:
            raise self._failure
