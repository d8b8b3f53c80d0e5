"""The operator's image, as an OCI archive, without a container engine.

Three layers, so that a changed line of the project costs a second: Debian's minimal file system with Python,
the pinned dependencies, the project. The first two lie in the cache. Two builds of the same source with the
same cache give the same digest: owners, times and order are fixed, and compiled files hold no time.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from . import cached, debian, lifecycle, oci, places, say
from .errors import ClusterError
from .oci import Layer

_SUITE = "bookworm"
# The Python of that Debian: what is installed and compiled here must be for it.
_PYTHON = (3, 11)
_PACKAGES = "python3-minimal,libpython3-stdlib,ca-certificates"
_LIBRARY = "opt/metaoperator/lib"
# Also what debootstrap copied from this machine: its name, its resolver, where its packages come from.
_PRUNED = (
    "etc/apt/sources.list",
    "etc/hostname",
    "etc/machine-id",
    "etc/resolv.conf",
    "usr/share/bash-completion",
    "usr/share/bug",
    "usr/share/common-licenses",
    "usr/share/doc",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
)
_EMPTIED = ("dev", "proc", "run", "sys", "tmp", "var/cache", "var/lib/apt/lists", "var/log")
# Raised when the way of building changes while the inputs do not.
_HOW = b"1"

_CONFIG: dict[str, object] = {
    "User": "65534:65534",
    "Env": [
        "PATH=/usr/local/bin:/usr/bin:/bin",
        f"PYTHONPATH=/{_LIBRARY}",
        "PYTHONDONTWRITEBYTECODE=1",
        "PYTHONUNBUFFERED=1",
    ],
    "Entrypoint": ["python3", "-m", "metaoperator"],
    "WorkingDir": "/",
}


def build(out: Path, *, reference: str) -> str:
    """Write the image of this checkout to `out`; return its digest."""
    if sys.version_info[:2] != _PYTHON:
        raise ClusterError(f"the image holds Python {_PYTHON[0]}.{_PYTHON[1]}: build it with that version")
    if lacking := [name for name in ("pip", "hatchling") if importlib.util.find_spec(name) is None]:
        raise ClusterError(
            f"this Python lacks {' and '.join(lacking)}: run the command with .venv/bin/python, made by `make`"
        )
    lock = places.CHECKOUT / "requirements.lock"
    base = _base()
    dependencies = _cached_layer(
        "image-dependencies",
        [_HOW, sys.version.encode(), lock.read_bytes()],
        lambda place: _install_dependencies(lock, place),
        prefix=_LIBRARY,
        what="operator image: dependencies",
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    with say.task("operator image: project"), tempfile.TemporaryDirectory(prefix="metaoperator-image-") as scratch:
        tree, path = Path(scratch, "tree"), Path(scratch, "layer.tar.gz")
        _install_project(tree)
        project = oci.layer_of_tree(tree, path, prefix=_LIBRARY)
        return oci.oci_archive(out, reference=reference, layers=[base, dependencies, project], config=_CONFIG)


def _base() -> Layer:
    return _cached_layer(
        "image-base",
        [_HOW, _SUITE.encode(), _PACKAGES.encode(), repr((_PRUNED, _EMPTIED)).encode()],
        _bootstrap,
        keep_owner=True,
        what=f"operator image: Debian {_SUITE} with Python",
    )


def _cached_layer(
    name: str,
    inputs: Iterable[bytes],
    make_tree: Callable[[Path], None],
    *,
    what: str,
    prefix: str = "",
    keep_owner: bool = False,
) -> Layer:
    def make(place: Path) -> None:
        tree = place / "tree"
        make_tree(tree)
        layer = oci.layer_of_tree(tree, place / "layer.tar.gz", prefix=prefix, keep_owner=keep_owner)
        (place / "layer.json").write_text(json.dumps(layer.describe()))
        shutil.rmtree(tree)

    folder = cached.folder(name, inputs, make, what=what)
    return Layer(path=folder / "layer.tar.gz", **json.loads((folder / "layer.json").read_text()))


def _bootstrap(tree: Path) -> None:
    lifecycle.require_root()
    debian.for_operator_image()
    command = [debian.find("debootstrap"), "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(tree)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise ClusterError(f"debootstrap failed:\n{(done.stdout + done.stderr)[-3000:]}")
    for name in _PRUNED:
        path = tree / name
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    for name in _EMPTIED:
        for entry in (tree / name).iterdir() if (tree / name).is_dir() else ():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    # Debian's compiled files hold the sources' times, which the layer does not keep: Python would compile
    # its library anew at every start.
    _compile(tree / "usr/lib/python3.11", "/usr/lib/python3.11")


def _install_dependencies(lock: Path, tree: Path) -> None:
    _pip(tree, "--require-hashes", "--only-binary=:all:", "-r", str(lock))


def _install_project(tree: Path) -> None:
    _pip(tree, "--no-deps", "--no-build-isolation", "--no-index", str(places.CHECKOUT))


def _pip(tree: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(tree), *arguments]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "315532800", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, env=environment, cwd=places.CHECKOUT, capture_output=True, text=True)
    if done.returncode != 0:
        raise ClusterError(f"pip install failed:\n{(done.stdout + done.stderr)[-3000:]}")
    # Scripts name this machine's Python; the rest says where and how it was installed.
    shutil.rmtree(tree / "bin", ignore_errors=True)
    for name in ("direct_url.json", "INSTALLER", "RECORD", "REQUESTED"):
        for path in tree.glob(f"*.dist-info/{name}"):
            path.unlink()
    _compile(tree, f"/{_LIBRARY}")


def _compile(tree: Path, seen_as: str) -> None:
    """Compile all modules in place; the results are trusted without looking at the sources again."""
    for stale in tree.rglob("__pycache__"):
        shutil.rmtree(stale)
    command = [sys.executable, "-m", "compileall", "-q", "-f", "--invalidation-mode=unchecked-hash"]
    # One process, one order, no hash seed: constants come out the same each time.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    # Failures are files that no Python of this version can read, kept by some packages as test data.
    subprocess.run([*command, "-s", str(tree), "-p", seen_as, str(tree)], env=environment, capture_output=True)
