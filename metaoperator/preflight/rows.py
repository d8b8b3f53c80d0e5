"""One row of what was found: a check, its result, what is so, and what to do about it."""

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from metaoperator.core.errors import Forbidden, Gone, Rejected


class Result(StrEnum):
    """How it is, worst first: only what is missing makes the answer a no."""

    MISSING = "missing"
    UNKNOWN = "not known"
    WARNING = "warning"
    OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The fields are the columns of the table, and the shape of `-o json`."""

    check: str
    result: Result
    what: str
    cure: str = ""


_RANK: Final = list(Result)


def worst_first(rows: Iterable[Row]) -> list[Row]:
    """Sort by result; the rest stays in the order in which it was asked, which is that of an installation."""
    return sorted(rows, key=lambda row: _RANK.index(row.result))


async def asked(check: str, question: Awaitable[list[Row]]) -> list[Row]:
    """Answer a question, or say why it cannot be: a right that is lacking, or a kind that is not served."""
    try:
        return await question
    except Forbidden as exc:
        return [Row(check=check, result=Result.UNKNOWN, what=f"not known: {exc}", cure="ask somebody who may")]
    except (Rejected, Gone) as exc:
        return [Row(check=check, result=Result.UNKNOWN, what=f"not known: {exc}")]
