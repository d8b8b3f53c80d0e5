"""What the node takes from the distribution; installed as root, said out loud first, only when missing."""

import os
import shutil
import subprocess
from pathlib import Path

from . import places, say
from .errors import ClusterError, NotRoot

# A file that shows that a package is there → the package. Files, not dpkg: another distribution's runc,
# or one from elsewhere on PATH, will do.
_NODE = {
    "runc": "runc",
    "ip": "iproute2",
    "openssl": "openssl",
    "umount": "mount",
    str(places.CNI_BIN / "bridge"): "containernetworking-plugins",
}
_IMAGES = {
    "/bin/busybox": "busybox-static",
    "gcc": "gcc",
    "/usr/include/stdio.h": "libc6-dev",
}
_OPERATOR_IMAGE = {"debootstrap": "debootstrap"}


def for_node() -> None:
    """Have what the node and the test images need."""
    _have(_NODE | _IMAGES)


def for_operator_image() -> None:
    """Have what the operator's base file system is made with."""
    _have(_OPERATOR_IMAGE)


def find(program: str) -> str:
    """Return a system program's path; root's PATH may lack the sbin folders."""
    found = shutil.which(program, path=_search_path())
    if not found:
        raise ClusterError(f"{program} is not installed")
    return found


def _search_path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin:/sbin:/bin"


def _there(what: str) -> bool:
    if what == "/bin/busybox":
        # Debian's other busybox is linked dynamically and would not start in an image of its own.
        return Path(what).exists() and _is_static(Path(what))
    return Path(what).exists() if what.startswith("/") else shutil.which(what, path=_search_path()) is not None


def _is_static(program: Path) -> bool:
    """Tell whether an ELF file names no interpreter."""
    return b"/ld-linux" not in program.read_bytes()[:4096]


def _have(wanted: dict[str, str]) -> None:
    packages = sorted(package for what, package in wanted.items() if not _there(what))
    if not packages:
        return
    if os.geteuid() != 0:
        raise NotRoot(f"Debian packages are missing; as root: apt-get install {' '.join(packages)}")
    if shutil.which("apt-get") is None:
        raise ClusterError(f"install what these Debian packages hold, then try again: {' '.join(packages)}")
    say.line(f"as root: apt-get install --no-install-recommends {' '.join(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    with say.task(f"Debian packages: {', '.join(packages)}"):
        for attempt in (["apt-get", "update", "-qq"], install):
            done = subprocess.run(attempt, env=environment, capture_output=True, text=True)
            # A failed update may be one broken list among many: the install tells.
            if done.returncode != 0 and attempt is install:
                raise ClusterError(f"{' '.join(attempt)} failed:\n{(done.stdout + done.stderr)[-2000:]}")
