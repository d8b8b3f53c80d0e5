"""Compiled templates of the shipped sets, kept where Python keeps the compiled modules of this package.

Whoever may write there may change the package itself, so nothing is trusted that was not trusted before. Of any other
set nothing is kept: its folder is somebody's. Why, and what was refused: docs/decisions/0010.
"""

import contextlib
import hashlib
import importlib.util
import marshal
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import Final

import jinja2

from metaoperator.core.model import TemplateSet

Codes = dict[str, CodeType]

_COMPILERS: Final = (Path(__file__).parent / "core", Path(jinja2.__file__).parent)
"""What decides, beside Python itself and the set, which code a template becomes."""
_DIGEST: Final = 32


@contextlib.contextmanager
def codes(template_set: TemplateSet) -> Iterator[Codes]:
    """Hand out what is kept of a shipped set, nothing at first, and keep what was added to it."""
    place, key = _place(template_set.name), _key(template_set)
    kept = _read(place, key)
    known = len(kept)
    yield kept
    if len(kept) > known and not sys.dont_write_bytecode:
        with contextlib.suppress(OSError):  # installed where nobody writes: it is compiled each time
            _write(place, key, kept)


def _place(name: str) -> Path:
    return Path(importlib.util.cache_from_source(str(Path(__file__).parent / f"templates-{name}.py")))


def _key(template_set: TemplateSet) -> bytes:
    """Digest all that the code depends on: modules by time and size, as Python knows its own."""
    digest = hashlib.sha256(importlib.util.MAGIC_NUMBER + template_set.digest.encode())
    for folder in _COMPILERS:
        for path in sorted(folder.glob("*.py")):
            about = path.stat()
            digest.update(f"{path} {about.st_mtime_ns} {about.st_size}\n".encode())
    return digest.digest()


def _read(place: Path, key: bytes) -> Codes:
    with contextlib.suppress(OSError, EOFError, TypeError, ValueError):
        content = place.read_bytes()
        body = content[2 * _DIGEST :]
        if content.startswith(key + hashlib.sha256(body).digest()):
            return dict(marshal.loads(body))  # noqa: S302 - as trusted as the module that reads it, and whole
    return {}


def _write(place: Path, key: bytes, kept: Mapping[str, CodeType]) -> None:
    body = marshal.dumps(dict(kept))
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_suffix(f".{os.getpid()}")
    try:
        beside.write_bytes(key + hashlib.sha256(body).digest() + body)
        beside.replace(place)  # whoever reads meanwhile sees the old one or the new one
    finally:
        beside.unlink(missing_ok=True)
