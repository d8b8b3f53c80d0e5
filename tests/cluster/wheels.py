"""Packages from PyPI into a folder of their own, by their hashes: tools, whose dependencies are nobody else's business."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from . import places
from .errors import ClusterError


def install(site: Path, locked: str, otherwise: str = "") -> None:
    """Put what a lock file names into `site`, and nothing else; `otherwise` tells what would do as well."""
    hint = f" ({otherwise})" if otherwise else ""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.write(locked)
        requirements.flush()
        arguments = ["--require-hashes", "--no-deps", "--target", str(site), "-r", requirements.name]
        environment = {**os.environ, "PIP_ROOT_USER_ACTION": "ignore", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        done = subprocess.run([_python(hint), "-m", "pip", "--quiet", "install", *arguments], env=environment)
    if done.returncode != 0:
        raise ClusterError(f"pip could not install {_names(locked)}: see above{hint}")


def _python(hint: str) -> str:
    """Find a Python with pip: this one, else that of a venv; Debian's comes with neither."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return sys.executable
    venv = places.cache() / "pip-venv"
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], capture_output=True)
    if made.returncode != 0:
        raise ClusterError(f"pip is needed: run `apt-get install python3-venv` (as root) and try again{hint}")
    return str(venv / "bin" / "python3")


def _names(locked: str) -> str:
    return ", ".join(line.split()[0] for line in locked.splitlines() if "==" in line)
