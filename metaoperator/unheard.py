"""Errors that nobody waits for."""

import asyncio
import logging
from typing import Any

log = logging.getLogger(__name__)


def answer(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Answer what nobody waits for: a fault, but for what is cut off while it waits.

    kopf's watches are generators that the end of the loop cuts off, and streams whose session its login closes.
    """
    exc = context.get("exception")
    if "asyncgen" in context or cut_off(exc):
        log.debug("cut off", extra={"error": str(exc)})
    else:
        loop.default_exception_handler(context)


def cut_off(exc: BaseException | None) -> bool:
    """Tell what aiohttp raises when a stream is read whose session was closed meanwhile: kopf takes it for a fault.

    It closes the session at a 401, as when a token is exchanged, and each stream that is about to read ends kopf.
    """
    return isinstance(exc, RuntimeError) and str(exc) == "Connection closed."
