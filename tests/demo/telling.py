"""kubectl, and what a person sees of it: each command as he could repeat it, and what it said."""

import ctypes
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]

Object = dict[str, Any]


def _end_with_parent() -> None:
    """Ask the kernel to end this process when the demo is killed and can end nothing itself."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


_PR_SET_PDEATHSIG = 1
END_WITH_PARENT = _end_with_parent if sys.platform == "linux" else None


class Stop(Exception):
    """Something a person has to look at; the text says what."""


class Kubectl:
    """Runs kubectl, and prints each command so that a person can repeat it."""

    def __init__(self, program: str, kubeconfig: str | Path) -> None:
        """Every command goes to the current context of this kubeconfig."""
        self.program = program
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}

    def __call__(self, *arguments: str, stdin: Object | None = None) -> str:
        """Print the command, run it, and print what it says."""
        print(f"$ kubectl {shlex.join(arguments)}")
        told = self.quietly(*arguments, stdin=stdin)
        print(told, end="")
        return told

    def until(self, *arguments: str, seconds: float = 60) -> None:
        """Print the command once, and repeat it until it succeeds."""
        print(f"$ until kubectl {shlex.join(arguments)}; do sleep 1; done")
        ends = time.monotonic() + seconds
        while True:
            try:
                self.quietly(*arguments)
            except Stop:
                if time.monotonic() > ends:
                    raise
                time.sleep(1)
            else:
                return

    def quietly(self, *arguments: str, stdin: Object | None = None) -> str:
        """Run a command and return what it says."""
        done = self.tried(*arguments, stdin=stdin)
        if done.returncode != 0:
            print(done.stdout, end="")
            raise Stop(f"kubectl {shlex.join(arguments)} failed.\n{done.stderr.strip()}")
        return done.stdout

    def tried(self, *arguments: str, stdin: Object | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command, whatever comes of it."""
        return subprocess.run(
            [self.program, *arguments],
            cwd=CHECKOUT,
            env=self._environment,
            input=None if stdin is None else json.dumps(stdin),
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=END_WITH_PARENT,
        )

    def raw(self, path: str) -> Object | None:
        """Read a path of the API server; `None` where there is nothing."""
        done = self.tried("get", "--raw", path)
        if done.returncode == 0:
            found: Object = json.loads(done.stdout)
            return found
        if "NotFound" in done.stderr or "not find the requested resource" in done.stderr:
            return None
        raise Stop(f"the cluster does not answer {path}: {done.stderr.strip()}")


def a_list(items: list[Object]) -> Object:
    """Make one document of several objects, as kubectl reads it."""
    return {"apiVersion": "v1", "kind": "List", "items": items}


def labels(of: Mapping[str, Any]) -> Mapping[str, str]:
    """Read an object's labels."""
    return of["metadata"].get("labels") or {}


def heading(text: str) -> None:
    """Begin a part."""
    print(f"\n== {text}")


def note(text: str) -> None:
    """Say something between commands."""
    print(f"# {text}")
