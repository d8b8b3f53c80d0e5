"""The API server's own record of who did what."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
POD = "authentication.kubernetes.io/pod-name"
OPERATOR = "system:serviceaccount:metaoperator:metaoperator"

Entry = dict[str, Any]


class Audit:
    """Reads `.cluster/audit.log` from a mark on. The server writes each line before it ends the request."""

    def __init__(self, path: Path) -> None:
        """Remember the path."""
        self._path = path

    def mark(self) -> int:
        """Return the place where the log ends now."""
        return self._path.stat().st_size

    def since(self, mark: int, needle: str = "") -> Iterator[Entry]:
        """Yield whole entries after the mark; only lines with `needle` are parsed."""
        wanted = needle.encode()
        with self._path.open("rb") as file:
            file.seek(mark)
            for line in file:
                if line.endswith(b"\n") and wanted in line:
                    yield json.loads(line)

    def writes(self, mark: int, user: str = OPERATOR) -> Iterator[Entry]:
        """Yield what a user wrote or tried to write since the mark; dry-runs write nothing."""
        for entry in self.since(mark, f'"username":"{user}"'):
            if (
                entry["user"]["username"] == user
                and entry["verb"] in WRITES
                and entry["stage"] == "ResponseComplete"
                and "dryRun=All" not in entry["requestURI"]
            ):
                yield entry


def pod(entry: Entry) -> str:
    """Name the pod that sent a request; empty for one that no pod sent."""
    found = (entry["user"].get("extra") or {}).get(POD) or [""]
    return str(found[0])


def code(entry: Entry) -> int:
    """Return the answer's HTTP code."""
    return int(entry["responseStatus"]["code"])


def target(entry: Entry) -> tuple[str, str, str]:
    """Name what was written: resource with its subresource, namespace, name."""
    ref = entry.get("objectRef") or {}
    resource = "/".join(filter(None, (ref.get("resource"), ref.get("subresource"))))
    name = ref.get("name") or ((entry.get("responseObject") or {}).get("metadata") or {}).get("name", "")
    return resource, ref.get("namespace", ""), name


def told(entry: Entry) -> str:
    """Describe one entry in a line, for a failing test."""
    who = pod(entry) or entry["user"]["username"]
    return f"{entry['requestReceivedTimestamp']} {who} {entry['verb']} {'/'.join(target(entry))} → {code(entry)}"
