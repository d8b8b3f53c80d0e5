"""A signal reaches exactly the process it is meant for."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cluster import processes
from tests.cluster.processes import Process


def found(pid: int) -> Process:
    """Find a process that is there."""
    process = processes.find(pid)
    assert process is not None
    return process


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that sleeps until it is told to go."""
    command = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as popen:
        assert popen.stdout is not None
        popen.stdout.readline()
        yield popen
        popen.kill()


def test_a_process_is_found_by_its_pid_and_is_alive(child: subprocess.Popen[bytes]) -> None:
    """Pid and start time together are the identity."""
    process = processes.find(child.pid)
    assert process is not None
    assert processes.alive(process)


def test_another_start_time_is_another_process_and_gets_no_signal(child: subprocess.Popen[bytes]) -> None:
    """The pid was given to somebody else since it was recorded."""
    now = found(child.pid)
    recorded = Process(child.pid, now.started - 1)
    assert not processes.alive(recorded)
    assert not processes.send(recorded, signal.SIGKILL)
    assert processes.stop([recorded], grace=0) == []
    assert processes.alive(now)


def test_stopping_ends_a_process_that_ignores_sigterm() -> None:
    """SIGTERM first, SIGKILL when that was not enough."""
    command = [
        sys.executable,
        "-c",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as popen:
        assert popen.stdout is not None
        popen.stdout.readline()
        assert processes.stop([found(popen.pid)], grace=0.1) == []
        assert popen.wait() == -signal.SIGKILL


def test_a_zombie_counts_as_gone(child: subprocess.Popen[bytes]) -> None:
    """A daemon's parent may never reap it, and waiting for its exit must end all the same."""
    process = found(child.pid)
    assert processes.stop([process], grace=5) == []
    assert processes.find(child.pid) is None


def test_a_pid_that_nobody_has_is_not_found() -> None:
    """No process, no identity, no signal."""
    assert processes.find(2**22 + 1) is None
