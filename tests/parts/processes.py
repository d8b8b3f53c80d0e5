"""Several operators in one event loop, each as if alone in a process of its own.

kopf cancels every task of the loop that is younger than itself when it ends. In one process these are the operator's
own; here they would be those of the fake API server and of the other replicas. So each task is booked on the process
that created it, and kopf is shown those of its own process only.
"""

import asyncio
import contextvars
import weakref
from collections.abc import Coroutine
from typing import Any

import kopf._cogs.aiokits.aiotasks as kopf_tasks
import pytest

_PROCESS: contextvars.ContextVar[str] = contextvars.ContextVar("process", default="")
_OWNERS: weakref.WeakKeyDictionary[asyncio.Task[Any], str] = weakref.WeakKeyDictionary()


def install(patch: pytest.MonkeyPatch) -> None:
    """Book the tasks of the running loop, and let kopf see only its own."""
    asyncio.get_running_loop().set_task_factory(_factory)
    patch.setattr(kopf_tasks, "all_tasks", _kopf_all_tasks)


def start(process: str, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Run a coroutine as the main task of a process."""
    context = contextvars.copy_context()
    context.run(_PROCESS.set, process)
    return asyncio.get_running_loop().create_task(coro, context=context)


def tasks(process: str) -> set[asyncio.Task[Any]]:
    """Find the living tasks of a process."""
    return {task for task in asyncio.all_tasks() if _OWNERS.get(task) == process}


async def end(process: str) -> None:
    """Cancel whatever is left of a process, and again what is left after that, until nothing is."""
    while left := tasks(process):
        for task in left:
            task.cancel()
        # Long enough for an orderly end: a second cancellation would leave connections open.
        await asyncio.wait(left, timeout=30.0)


def _factory(
    loop: asyncio.AbstractEventLoop,
    coro: Any,  # a generator as well, says the protocol; nobody has any
    context: contextvars.Context | None = None,
) -> asyncio.Task[Any]:
    task = asyncio.Task(coro, loop=loop, context=context)
    _OWNERS[task] = (context or contextvars.copy_context()).get(_PROCESS, "")
    return task


async def _kopf_all_tasks(*, ignored: Any = frozenset()) -> set[asyncio.Task[Any]]:
    current = asyncio.current_task()
    return {task for task in tasks(_PROCESS.get()) if task is not current and task not in ignored}
