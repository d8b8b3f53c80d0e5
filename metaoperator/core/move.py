"""The nouns of a move from one version of Argo to another: what is asked for, what is known, and what a row may say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from metaoperator.core import versions

Version = tuple[int, int, int]

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Severity(StrEnum):
    """What a finding asks for, worst first."""

    REFUSE = "refuse"
    WAIT = "wait-for-workflows"
    ONE_FIRST = "one-first"
    REMARK = "remark"


class Cause(StrEnum):
    """What a finding is about, in one word."""

    DEFINITION_MISSING = "DefinitionMissing"
    DEFINITIONS_FULL = "DefinitionsFull"
    DEFINITIONS_UNREAD = "DefinitionsUnread"
    STATUS_UNREADABLE = "StatusUnreadable"
    FIELDS_REMOVED = "FieldsRemoved"
    OFFLOADED_NODES = "OffloadedNodes"
    EXECUTOR_JUMP = "ExecutorJump"
    DATABASE_MIGRATION = "DatabaseMigration"
    DOWNGRADE = "Downgrade"
    BRANCHES_SKIPPED = "BranchesSkipped"
    VERSION_UNKNOWN = "VersionUnknown"
    METRICS_TLS = "MetricsTLS"
    SKIPPED_OUTPUTS = "SkippedOutputs"
    TEMPLATES_UNREAD = "TemplatesUnread"


class Move(NamedTuple):
    """One namespace's step: the version there now, empty for none; the one that is wanted, and its merged values."""

    before: str
    after: str
    values: Mapping[str, Any] = _NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """A CronWorkflow, and which of the fields that came or went with a version it uses."""

    name: str
    uses: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the cluster says. What could not be read has its reason, and is not guessed.

    `missing` are kinds without a working definition; `full` those whose definition knows the fields of a spec. `fleet`
    is the version of each child there is, by its namespace; `compression` the algorithm that a child has set, `crons`
    the CronWorkflows that use a field in question.
    """

    missing: frozenset[str] = frozenset()
    full: frozenset[str] = frozenset()
    unread: str = ""
    fleet: Mapping[str, str] = field(default_factory=dict)
    compression: Mapping[str, str] = field(default_factory=dict)
    crons: Mapping[str, tuple[Cron, ...]] = field(default_factory=dict)
    crons_unread: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A move whose versions were read; `None` for what is no version, or not there."""

    namespace: str
    move: Move
    before: Version | None
    after: Version | None

    @classmethod
    def of(cls, namespace: str, move: Move) -> "Step":
        """Read the versions of a namespace's move."""
        before, after = versions.parse(move.before), versions.parse(move.after)
        return cls(namespace=namespace, move=move, before=before, after=after)

    @property
    def moves(self) -> bool:
        """Tell whether the version changes at all."""
        return self.move.before != self.move.after

    @property
    def down(self) -> bool:
        """Tell whether it goes back."""
        return self.before is not None and self.after is not None and self.after < self.before

    @property
    def another_branch(self) -> bool:
        """Tell whether it goes to another minor release."""
        return self.before is not None and self.after is not None and self.before[:2] != self.after[:2]

    def reaches(self, first: Version) -> bool:
        """Tell whether the move goes from before a version to it, or beyond."""
        return self.before is not None and self.after is not None and self.before < first <= self.after

    def leaves(self, first: Version) -> bool:
        """Tell whether the move goes back to before a version."""
        return self.before is not None and self.after is not None and self.after < first <= self.before


class Told(NamedTuple):
    """What a row says of one step."""

    severity: Severity
    message: str
    cure: str
    objects: tuple[str, ...] = ()
