"""What the audit log tells of one burst: which writes, from when to when, how many under way at once."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.e2e.audit import OPERATOR, WRITES, Entry, code, target

CHILD = frozenset({"configmaps", "deployments", "rolebindings", "serviceaccounts", "services", "workflowcontrollers"})
"""The resources that a child is made of, its WorkflowController included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write as it was sent, and as it was answered."""

    namespace: str
    method: str
    uri: str
    content_type: str
    body: str
    code: int
    uid: str
    """Of the object as it was answered: bodies that follow may name it."""

    @classmethod
    def of(cls, entry: Entry) -> "Write":
        """Take one entry of the log, whose level must hold the request's body."""
        method = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}[entry["verb"]]
        kind = "application/json"
        if method == "PATCH":
            applied = "force=" in entry["requestURI"]
            kind = "application/apply-patch+yaml" if applied else "application/merge-patch+json"
        meta = (entry.get("responseObject") or {}).get("metadata") or {}
        return cls(
            namespace=entry["objectRef"]["namespace"],
            method=method,
            uri=entry["requestURI"],
            content_type=kind,
            body=json.dumps(entry["requestObject"]),
            code=code(entry),
            uid=meta.get("uid", ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """From the first write to the moment when the last object of a child was there."""

    writes: tuple[Write, ...]
    seconds: float
    ready_seconds: float
    begun: float
    under_way: float
    codes: Counter[int]

    @property
    def rate(self) -> float:
        """Writes a second."""
        return len(self.writes) / self.seconds


def burst(entries: Iterable[Entry], namespaces: Sequence[str]) -> Burst:
    """Cut the burst out of what one user wrote; entries are writes, in the order of the log."""
    mine = set(namespaces)
    wrote = [each for each in entries if (each.get("objectRef") or {}).get("namespace") in mine]
    begun = min(_at(each["requestReceivedTimestamp"]) for each in wrote)
    made = [each for each in wrote if code(each) == 201 and target(each)[0] in CHILD]
    objects = {target(each) for each in made}
    if len(objects) != 7 * len(mine):
        raise AssertionError(f"{len(objects)} objects were made in {len(mine)} namespaces, expected 7 each")
    ended = max(_at(each["stageTimestamp"]) for each in made)
    within = [each for each in wrote if _at(each["stageTimestamp"]) <= ended]
    within.sort(key=lambda each: each["requestReceivedTimestamp"])
    ready = {target(each)[1]: _at(each["stageTimestamp"]) for each in reversed(wrote) if _says_ready(each)}
    return Burst(
        writes=tuple(map(Write.of, within)),
        seconds=ended - begun,
        ready_seconds=max(ready.values()) - begun if len(ready) == len(mine) else float("nan"),
        begun=begun,
        under_way=sum(map(_took, within)) / (ended - begun),
        codes=Counter(map(code, within)),
    )


def beside(entries: Iterable[Entry], burst: Burst) -> int:
    """Count what everybody else wrote meanwhile: the cluster's controllers work on what the burst makes."""
    return sum(
        entry["verb"] in WRITES
        and entry["stage"] == "ResponseComplete"
        and entry["user"]["username"] != OPERATOR
        and burst.begun <= _at(entry["stageTimestamp"]) <= burst.begun + burst.seconds
        for entry in entries
    )


def save(writes: Sequence[Write], uids: dict[str, str], place: Path) -> None:
    """Write down what is to be replayed, with the UIDs that the namespaces had."""
    place.write_text(json.dumps({"uids": uids, "writes": [asdict(each) for each in writes]}))


def load(place: Path) -> tuple[list[Write], dict[str, str]]:
    """Read it back."""
    content: dict[str, Any] = json.loads(place.read_text())
    return [Write(**each) for each in content["writes"]], content["uids"]


def _says_ready(entry: Entry) -> bool:
    if target(entry)[0] != "workflowcontrollers/status" or code(entry) >= 300:
        return False
    conditions = entry["requestObject"]["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _took(entry: Entry) -> float:
    return _at(entry["stageTimestamp"]) - _at(entry["requestReceivedTimestamp"])


def _at(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
