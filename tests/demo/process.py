"""The operator as a process of this machine, with a person's own credentials. It ends with the demo."""

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from .telling import CHECKOUT, END_WITH_PARENT

STOP_SECONDS = 30


class Operator:
    """Runs while it is entered."""

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        """Nothing is started yet."""
        self._kubeconfig = kubeconfig
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it, in a session of its own: Ctrl-C is for the demo, which then needs it to clean up."""
        command = [sys.executable, "-m", "metaoperator", "run", f"--kubeconfig={self._kubeconfig}", "--port=0"]
        environment = {key: value for key, value in os.environ.items() if key not in ("POD_NAME", "POD_NAMESPACE")}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--log-format=text"],
                cwd=CHECKOUT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=END_WITH_PARENT,  # noqa: PLW1509 - there are no threads
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop it: told first, so that it gives its Lease back."""
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def trouble(self) -> str:
        """Tell how it ended, if it did."""
        assert self._process is not None
        if self._process.poll() is None:
            return ""
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-10:])
        return f"The operator ended with exit code {self._process.returncode}; the end of its log:\n{tail}"
