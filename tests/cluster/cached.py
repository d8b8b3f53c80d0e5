"""Folders in the cache that are made once: keyed by a digest of what they are made from, whole or absent.

A folder is made under a temporary name and renamed, so that an interrupted build is never taken as done.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from . import places, say


def path(name: str, inputs: Iterable[bytes]) -> Path:
    """Return where the folder made from these inputs is, or would be."""
    digest = hashlib.sha256()
    for item in inputs:
        digest.update(hashlib.sha256(item).digest())
    return places.cache() / name / digest.hexdigest()[:16]


def folder(name: str, inputs: Iterable[bytes], make: Callable[[Path], None], *, what: str) -> Path:
    """Return the finished folder, calling `make(temporary folder)` first if there is none.

    Two commands that want the same folder do not collide: the second waits and finds it made.
    """
    final = path(name, inputs)
    if final.is_dir():
        return final
    with locked(name):
        if final.is_dir():
            return final
        final.parent.mkdir(parents=True, exist_ok=True)
        # What interrupted commands left; the lock says that nobody works there now.
        for abandoned in final.parent.glob("*.making-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        # A name of its own: a compiler that outlived its killed parent still writes under the old one.
        temporary = Path(tempfile.mkdtemp(prefix=f"{final.name}.making-", dir=final.parent))
        temporary.chmod(0o755)
        with say.task(what):
            make(temporary)
        temporary.rename(final)
    return final


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the right to make or remove what the cache has under this name."""
    place = places.cache() / "locks" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(place, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say.line(f"another command makes {name}: waiting for it")
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
