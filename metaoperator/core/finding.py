"""What `validate` found: one thing, in one place, for a person, an editor or a program."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final


class Severity(StrEnum):
    """How bad: an error fails, a warning fails with `--strict`, a note never does."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing and its place. The fields and their names are the shape of `-o json`."""

    file: str
    line: int | None = None
    object: str = ""
    path: str = ""
    what: str
    cure: str = ""
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        about = " ".join(filter(None, (self.object, self.path)))
        told = f"{place}: {self.severity}: {about + ': ' if about else ''}{self.what}"
        return told + (f" ({self.cure})" if self.cure else "")

    @property
    def place(self) -> tuple[Any, ...]:
        """Tell where it is, in a form that is the same for the same fault in another namespace."""
        return self.file, self.line, self.path, self.cure, self.severity


_RANK: Final = list(Severity)


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by file and line, each finding once."""
    return sorted(
        set(findings), key=lambda each: (each.file, each.line or 0, _RANK.index(each.severity), each.path, each.what)
    )


def as_json(finding: Finding) -> dict[str, Any]:
    """Write every field, in order; what is not known is null or empty."""
    return asdict(finding)
