"""The write gate: what keeps a replica that no longer leads from writing."""

import asyncio


class Gate:
    """Lets writes through until a moment of the event loop's clock that the elector moves forward.

    The check stands directly before each write, and a write that is under way when the gate closes is given up:
    a replica that was frozen for longer than its term wakes into a closed gate.
    """

    def __init__(self) -> None:
        """Start closed."""
        self._until = 0.0

    def open_until(self, moment: float) -> None:
        """Let writes through until `moment`; a moment in the past closes the gate."""
        self._until = moment

    def remaining(self) -> float:
        """Seconds for which writes may still be sent; 0 or less when closed."""
        return self._until - asyncio.get_running_loop().time()
