"""What can go wrong, drawn as a tree.

::

    MetaoperatorError
    ├── TerminalError         nothing changes until the input does: Stalled, no quick retry
    │   ├── TemplateError     a template set cannot be loaded or rendered
    │   ├── ValuesError       values break the schema or are not a namespace's to set
    │   ├── PolicyError       a ControllerTemplate says something of rollouts that cannot be followed
    │   ├── Stalled           one namespace waits for a person: reason and message of the condition
    │   ├── Rejected          the API server says no: a policy, a webhook, a size
    │   │   ├── Invalid       it says that the object itself is wrong
    │   │   ├── OverQuota     a ResourceQuota of the namespace has no room
    │   │   └── Forbidden     the operator's own permissions do not suffice
    │   └── ConfigError       the operator itself is started wrongly
    ├── RetryableError        later, with backoff: server errors, timeouts, conflicts
    │   ├── Throttled         the API server says when
    │   ├── Conflict          somebody else was faster: read anew, decide anew
    │   ├── Expired           a resource version or continue token is too old: list anew
    │   ├── Unauthorized      our credentials are not accepted
    │   ├── Fenced            a policy of ours says that we do not belong there
    │   └── NotLeading        the write gate is closed: another replica writes
    └── Gone                  the thing we asked about is not there (an answer more than an error)

Anything else is a bug and shows its traceback.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from metaoperator.core.names import Reason


class MetaoperatorError(Exception):
    """Every error that we raise on purpose."""


class TerminalError(MetaoperatorError):
    """Retrying changes nothing until the input changes."""


class ConfigError(TerminalError):
    """The operator or a command was started with something that cannot work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fault a person can mend: where it is, what it is, what to do.

    `line` is that of the file that a person edits; `path` leads to the place in the rendered object.
    """

    where: str
    what: str
    cure: str = ""
    line: int | None = None
    path: str = ""

    def __str__(self) -> str:
        place = self.where if self.line is None else f"{self.where}:{self.line}"
        what = f"{self.path} {self.what}" if self.path else self.what
        return f"{place}: {what}" + (f" ({self.cure})" if self.cure else "")


class _Problems(TerminalError):
    """Several problems, all told at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class TemplateError(_Problems):
    """A template set cannot be loaded, or does not render to what it declares."""


class ValuesError(_Problems):
    """Values break the set's schema, or touch what a namespace may not set."""


class PolicyError(_Problems):
    """What a ControllerTemplate says of rollouts cannot be followed."""


class Rejected(TerminalError):
    """The API server refused a request for a reason that a person has to mend: its own sentence, and what to do."""

    reason: ClassVar[Reason] = Reason.REJECTED
    cure: ClassVar[str] = "change what it names, or what refuses it; it is tried again by itself"

    @property
    def told(self) -> str:
        """The sentence with its cure, for conditions and Events."""
        return f"{self} ({self.cure})"


class Invalid(Rejected):
    """The object that a request would lead to is not valid (422, and 500 for what does not fit its type)."""

    cure = "correct the values or the template that it comes from"


class OverQuota(Rejected):
    """A ResourceQuota of the namespace has no room for the object (403)."""

    reason = Reason.QUOTA_EXCEEDED
    cure = "raise the quota or free what it counts; it is tried again by itself"


class Forbidden(Rejected):
    """The operator's own permissions do not suffice (403): its set-up is at fault, not the namespace."""

    reason = Reason.OPERATOR_FORBIDDEN
    cure = (
        "the operator's own set-up lacks this permission, for every namespace: apply manifests/fleet and "
        "manifests/operator of its version again, or grant it what the template set needs; it is tried again by itself"
    )


class Stalled(TerminalError):
    """A namespace waits for a person; reason and message are those of its condition."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class RetryableError(MetaoperatorError):
    """The same request may succeed later."""


class Throttled(RetryableError):
    """The API server asked us to wait `after` seconds."""

    def __init__(self, message: str, *, after: float) -> None:
        super().__init__(message)
        self.after = after


class Fenced(RetryableError):
    """A fence of ours denied a write by where it goes, not for what it is: read anew, decide anew.

    Either the label went a moment ago and we are the late ones, or it came a moment ago and the API server is.
    """


class NotLeading(RetryableError):
    """A write was about to be sent without, or after the end of, our term as leader."""


class Expired(RetryableError):
    """The resource version or continue token is too old (410): list anew."""


class Conflict(RetryableError):
    """Somebody else was faster, or owns the fields (409): read anew, decide anew."""


class Unauthorized(RetryableError):
    """Our credentials are not accepted (401), also after reading them anew."""


class Gone(MetaoperatorError):
    """The object, or its whole kind, does not exist; `kind_missing` tells which."""

    def __init__(self, message: str, *, kind_missing: bool = False) -> None:
        super().__init__(message)
        self.kind_missing = kind_missing
