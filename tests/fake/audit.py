"""The record of requests, for claims such as `no write without a difference`."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from .kinds import Manifest

WRITES = frozenset({"create", "update", "patch", "apply", "delete", "deletecollection"})


@dataclass(slots=True, kw_only=True)
class Entry:
    """One request and its answer; `code` 0 means that the connection broke or is still open."""

    verb: str  # get list watch create update patch apply delete deletecollection
    resource: str
    subresource: str
    namespace: str | None
    name: str | None
    user_agent: str
    query: dict[str, str]
    accept: str = ""
    body: Manifest | None = None
    dry_run: bool = False
    code: int = 0
    changed: bool = False  # the store's version moved

    @property
    def digest(self) -> str:
        """Identify the body that was sent."""
        return hashlib.sha256(json.dumps(self.body, sort_keys=True).encode()).hexdigest()[:12]

    def __str__(self) -> str:
        where = "/".join(part for part in (self.resource, self.subresource, self.namespace, self.name) if part)
        return f"{self.verb} {where} → {self.code}{' (dry run)' if self.dry_run else ''}"


class Audit(list[Entry]):
    """All requests since the start or the last `clear`."""

    def select(
        self,
        *,
        verb: str | Iterable[str] | None = None,
        resource: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
    ) -> list[Entry]:
        """Return the requests that match what is given."""
        verbs = {verb} if isinstance(verb, str) else set(verb or ())
        return [
            entry
            for entry in self
            if (not verbs or entry.verb in verbs)
            and resource in (None, entry.resource)
            and namespace in (None, entry.namespace)
            and name in (None, entry.name)
        ]

    def writes(self) -> list[Entry]:
        """Return the requests that could have changed something: no dry runs, no questions, refused ones included."""
        written = [entry for entry in self if entry.verb in WRITES and not entry.dry_run]
        return [entry for entry in written if entry.resource != "subjectaccessreviews"]

    def creations(self) -> list[Entry]:
        """Return the writes that made an object."""
        return [entry for entry in self.writes() if entry.code == 201]
