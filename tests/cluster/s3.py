"""An S3 server for the artifacts of Workflows: moto's, on an address that pods reach, for as long as somebody wants it.

Its packages are in the cache and on no import path but its own (decision 0016). What it holds is in its memory.
"""

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from xml.etree import ElementTree

from . import alone, cached, network, places, wheels
from .errors import ClusterError

LOCK = places.TOOLS / "s3" / "requirements.lock"
KEYS = ("anybody", "anything")
"""An access key and its secret: it asks for some, and takes any."""
_SPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


@dataclass(frozen=True, slots=True)
class S3:
    """One that runs."""

    endpoint: str

    def make(self, bucket: str, *, versioned: bool = False) -> None:
        """Make a bucket; a versioned one remembers what was deleted."""
        self._ask("PUT", bucket)
        if versioned:
            status = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
            self._ask("PUT", f"{bucket}?versioning", status)

    def keys(self, bucket: str, *, deleted: bool = False) -> list[str]:
        """List the objects in a bucket, in order; with `deleted`, those that it ever had, if it is versioned."""
        query, each = ("versions", "Version") if deleted else ("list-type=2", "Contents")
        answer = ElementTree.fromstring(self._ask("GET", f"{bucket}?{query}"))
        return sorted({found.findtext(f"{_SPACE}Key") or "" for found in answer.iter(f"{_SPACE}{each}")})

    def _ask(self, method: str, path: str, body: str = "") -> bytes:
        connection = http.client.HTTPConnection(self.endpoint, timeout=30)
        try:
            connection.request(method, f"/{path}", body or None, {"Content-Type": "application/xml"})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise ClusterError(f"S3 server: {method} /{path}: {answer.status} {content[:300]!r}")
        return content


@contextmanager
def running(address: str = network.NODE_ADDRESS) -> Iterator[S3]:
    """Have one at a free port of this address; its objects are gone with it."""
    site = _installed()
    (port,) = alone.free_ports(1, address)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "moto.server", "-H", address, "-p", str(port)]
    with TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=log,
            stderr=log,
            preexec_fn=alone.end_with_parent,
        )
        made = S3(f"{address}:{port}")
        try:
            _wait(made, process)
            yield made
        except ClusterError as exc:
            log.seek(0)
            raise ClusterError(f"{exc}; the end of its log:\n{log.read().decode(errors='replace')[-2000:]}") from exc
        finally:
            process.kill()
            process.wait()


def _installed() -> Path:
    locked = LOCK.read_text()
    # Some of them are compiled, for one version of Python.
    inputs = [locked.encode(), f"python{sys.version_info.major}.{sys.version_info.minor}".encode()]

    def install(place: Path) -> None:
        wheels.install(place / "site", locked)

    return cached.folder("s3", inputs, install, what="S3 server from PyPI (moto)") / "site"


def _wait(made: S3, process: "subprocess.Popen[bytes]", seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            made.make("answers")
        except (OSError, http.client.HTTPException) as exc:
            if process.poll() is not None or time.monotonic() > deadline:
                raise ClusterError(f"the S3 server does not answer ({exc})") from exc
            time.sleep(0.1)
        else:
            return
