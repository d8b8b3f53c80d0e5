"""What a person sees while something takes long."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

_HEARTBEAT_SECONDS = 20.0


def line(message: str) -> None:
    """Print one line of progress.

    Progress goes to stderr: stdout carries only answers, such as the kubeconfig's path.
    """
    print(message, file=sys.stderr, flush=True)


def elapsed(seconds: float) -> str:
    """Return a duration as a person says it."""
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{seconds:.1f} s"


@contextlib.contextmanager
def task(what: str) -> Iterator[None]:
    """Announce a task, show that it is alive while it runs, and say how long it took.

    On a terminal the clock runs on one line; elsewhere a line every 20 seconds keeps a log, and whoever
    ends jobs that say nothing, content.
    """
    started = time.monotonic()
    done = threading.Event()
    live = sys.stderr.isatty()

    def beat() -> None:
        while not done.wait(1.0 if live else _HEARTBEAT_SECONDS):
            took = elapsed(time.monotonic() - started)
            if live:
                print(f"\r{what} … {took} ", end="", file=sys.stderr, flush=True)
            else:
                line(f"{what} … {took}")

    line(f"{what} …")
    pulse = threading.Thread(target=beat, daemon=True)
    pulse.start()
    try:
        yield
    except BaseException:
        done.set()
        pulse.join()
        line(f"{chr(13) if live else ''}{what}: failed after {elapsed(time.monotonic() - started)}")
        raise
    done.set()
    pulse.join()
    line(f"{chr(13) if live else ''}{what}: {elapsed(time.monotonic() - started)}")
