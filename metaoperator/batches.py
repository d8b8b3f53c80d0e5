"""Writes to many objects, some at a time: what one of them is answered is its own, what says no to all ends them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from metaoperator.core.errors import Conflict, Gone, Rejected, RetryableError

T = TypeVar("T")

AT_ONCE: Final = 10
"""Writes that are under way at a time."""


async def each(items: Iterable[T], write: Callable[[T], Awaitable[bool]]) -> int:
    """Write to each, some at a time, and count what came true; the first fault that is not the object's own ends it."""
    left, done = iter(items), 0
    faults: list[RetryableError | Rejected] = []

    async def work() -> None:
        nonlocal done
        for item in left:
            if faults:
                return
            try:
                came = await write(item)
            except (Conflict, Gone):
                continue  # changed or gone meanwhile: read anew at the next look
            except (RetryableError, Rejected) as exc:
                faults.append(exc)
            else:
                done += came  # not before the wait: others count meanwhile

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
    if faults:
        raise faults[0]
    return done
