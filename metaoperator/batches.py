"""Writes to many objects, some at a time: what one of them is answered is its own, what says no to all ends them.

What keeps on failing for one, such as a webhook that falls over it, must not keep the others back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from metaoperator.core.errors import Conflict, Gone, Invalid, Rejected, RetryableError

T = TypeVar("T")

AT_ONCE: Final = 10
"""Writes that are under way at a time."""


async def each(items: Iterable[T], write: Callable[[T], Awaitable[bool]]) -> int:
    """Write to each, some at a time, and count what came true.

    What may be the object's own fault is raised when all were tried, any other at once; so is the last of as many
    server errors in a row as are under way at a time.
    """
    left, done, failing = iter(items), 0, 0
    faults: list[RetryableError | Rejected] = []
    end: RetryableError | Rejected | None = None

    async def work() -> None:
        nonlocal done, failing, end
        for item in left:
            if end is not None:
                return
            try:
                came = await write(item)
            except (Conflict, Gone):
                continue  # changed or gone meanwhile: read anew at the next look
            except (RetryableError, Rejected) as exc:
                faults.append(exc)
                failing += isinstance(exc, RetryableError)
                if not (may_be_its_own(exc) or type(exc) in {Rejected, Invalid}) or failing >= AT_ONCE:
                    end = exc
            else:
                failing = 0
                done += came  # not before the wait: others count meanwhile

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
    if faults:
        raise end or faults[0]
    return done


def may_be_its_own(exc: Exception) -> bool:
    """Tell whether an error that passes may come again and again for one object alone: a server error, no answer."""
    return type(exc) is RetryableError
