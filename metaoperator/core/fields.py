"""Fields that people write, read one by one: what is wrong is noted with its path, and the default taken instead."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

from metaoperator.core import kubernetes
from metaoperator.core.errors import Problem
from metaoperator.core.waves import Share

_PERCENT: Final = re.compile(r"(0|[1-9][0-9]?|100)%")

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping and where it stands; `problems` is the same list for all that is in it."""

    body: Mapping[str, Any]
    path: str
    problems: list[Problem] = field(default_factory=list)

    def tell(self, key: str, what: str, cure: str = "") -> None:
        """Note a fault of one field."""
        self.problems.append(Problem(where=f"{self.path}.{key}" if key else self.path, what=what, cure=cure))

    def known(self, fields: Sequence[str]) -> None:
        """Tell fields that there are not: the API server would drop them without a word."""
        for key in self.body:
            if key not in fields:
                near = kubernetes.nearest(str(key), fields)
                self.tell(str(key), "is no field of it", f"did you mean {near}?" if near else "")

    def mapping(self, key: str) -> "Fields":
        """Go down; a mapping that is none is told, and empty."""
        found = self.body.get(key)
        if found is not None and not isinstance(found, Mapping):
            self.tell(key, "is not a mapping")
        return Fields(found if isinstance(found, Mapping) else {}, f"{self.path}.{key}", self.problems)

    def items(self, key: str, most: int) -> list["Fields"]:
        """Go through a list of mappings."""
        found = self.body.get(key)
        if found is not None and not isinstance(found, list):
            self.tell(key, "is not a list")
        rows = found if isinstance(found, list) else []
        if len(rows) > most:
            self.tell(key, f"has {len(rows)} items, at most {most} are allowed")
        below = []
        for at, row in enumerate(rows):
            if not isinstance(row, Mapping):
                self.tell(f"{key}[{at}]", "is not a mapping")
            below.append(Fields(row if isinstance(row, Mapping) else {}, f"{self.path}.{key}[{at}]", self.problems))
        return below

    def number(self, key: str, default: int, *, low: int = 0, high: int) -> int:
        """Read a whole number within bounds."""
        found = self.body.get(key, default)
        if not isinstance(found, int) or isinstance(found, bool) or not low <= found <= high:
            self.tell(key, f"must be a whole number from {low} to {high}")
            return default
        return found

    def share(self, key: str, default: Share, *, low: int = 0) -> Share:
        """Read a whole number, or a percentage."""
        found = self.body.get(key)
        if found is None:
            return default
        if isinstance(found, int) and not isinstance(found, bool) and low <= found <= 1_000_000:
            return Share(amount=found)
        if isinstance(found, str) and _PERCENT.fullmatch(found) and int(found[:-1]) >= low:
            return Share(amount=int(found[:-1]), percent=True)
        self.tell(key, f"must be a whole number from {low}, or from {low}% to 100%", "for example 3, or 10%")
        return default

    def word(self, key: str, default: E) -> E:
        """Read one of few words."""
        words: type[E] = type(default)
        try:
            return words(self.body.get(key, default))
        except ValueError:
            self.tell(key, f"must be one of {', '.join(words)}")
            return default

    def flag(self, key: str) -> bool:
        """Read true or false."""
        if not isinstance(found := self.body.get(key, False), bool):
            self.tell(key, "must be true or false", "without quotes")
        return found is True

    def text(self, key: str, form: re.Pattern[str], what: str, default: str = "") -> str:
        """Read a text of one form."""
        found = self.body.get(key)
        if found is None:
            return default
        if not isinstance(found, str) or not form.fullmatch(found):
            self.tell(key, f"must be {what}", "in quotes" if not isinstance(found, str) else "")
            return default
        return found

    def time(self, key: str) -> datetime | None:
        """Read a moment; one without a zone is none."""
        found = self.body.get(key)
        if found is None:
            return None
        try:
            moment = datetime.fromisoformat(found) if isinstance(found, str) else None
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            self.tell(key, "must be a moment", "in quotes, like '2026-01-31T12:00:00Z'")
            return None
        return moment.astimezone(UTC)
