"""The API server's own record of who did what."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
POD = "authentication.kubernetes.io/pod-name"
OPERATOR = "system:serviceaccount:metaoperator:metaoperator"

Entry = dict[str, Any]

COMPARED = frozenset({"namespaces", "workflowcontrollers", "controllertemplates"})
"""What kopf watches and loses deletions of: the operator may list these every ten minutes, metadata only."""
WATCHED = COMPARED | {
    "configmaps", "cronworkflows", "deployments", "leases", "networkpolicies", "poddisruptionbudgets", "pods",
    "rolebindings", "serviceaccounts", "services", "workflows",
}  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Tally:
    """What one user asked of the API server in some stretch of the log, by what a settled fleet may cost."""

    writes: list[Entry] = field(default_factory=list)
    lists: list[Entry] = field(default_factory=list)
    compares: int = 0
    dry_runs: int = 0
    leases: int = 0
    gets: int = 0
    watches: Counter[str] = field(default_factory=Counter)


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

    def tally(self, mark: int, user: str = OPERATOR) -> Tally:
        """Count what a user did since the mark."""
        return tally(entry for entry in self.since(mark, f'"username":"{user}"') if entry["user"]["username"] == user)

    def watched(self, mark: int, user: str = OPERATOR) -> dict[str, set[str]]:
        """Name the resources that each pod of a user, or the one process that is no pod, began to watch."""
        found: dict[str, set[str]] = {}
        for entry in self.since(mark, f'"username":"{user}"'):
            if entry["verb"] == "watch" and entry["stage"] == "ResponseStarted" and code(entry) == 200:
                found.setdefault(pod(entry), set()).add(target(entry)[0])
        return found


def tally(entries: Iterable[Entry]) -> Tally:
    """Sort requests: a write that the server only tried out is none, and the operator's own Lease is apart."""
    found = Tally()
    for entry in entries:
        resource, namespace, name = target(entry)
        if entry["verb"] == "watch":
            found.watches[resource] += entry["stage"] == "ResponseStarted"
        elif entry["stage"] != "ResponseComplete":
            continue
        elif entry["verb"] == "get":
            found.gets += 1
        elif entry["verb"] == "list":
            if resource in COMPARED and entry.get("userAgent", "").startswith("metaoperator/"):
                found.compares += 1
            else:
                found.lists.append(entry)
        elif "dryRun=All" in entry["requestURI"]:
            found.dry_runs += 1
        elif (resource, namespace, name) == ("leases", "metaoperator", "metaoperator"):
            found.leases += 1
        else:
            found.writes.append(entry)
    return found


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
