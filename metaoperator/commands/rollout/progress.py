"""How a rollout is shown while it goes on: a bar that is drawn over on a terminal, a line for each change elsewhere."""

import shutil
from collections.abc import Mapping
from typing import Any, Final, TextIO

from metaoperator.commands import telling
from metaoperator.commands.rollout import view

_BAR: Final = 24
_NARROW: Final = 60


class Progress:
    """Says how it stands on one stream, and says nothing twice."""

    def __init__(self, stream: TextIO) -> None:
        """Find out whether anybody could see a line being drawn over."""
        self._stream = stream
        self._drawn = stream.isatty()
        self._last = ""

    def show(self, now: Mapping[str, Any]) -> None:
        """Say how it stands, if that is new."""
        line = bar(now, shutil.get_terminal_size().columns - 1) if self._drawn else view.headline(now)
        if line != self._last:
            self._stream.write(f"\r\x1b[K{line}" if self._drawn else f"{line}\n")
            self._stream.flush()
        self._last = line

    def end(self) -> None:
        """Leave the cursor at the beginning of a line."""
        if self._drawn and self._last:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
        self._last = ""


def bar(now: Mapping[str, Any], width: int) -> str:
    """Draw a bar of what is updated, then what goes on, in so many columns at most."""
    done, _, total = str(now["updated"] or "0/0").partition("/")
    share = int(done) / int(total) if int(total or 0) else 0.0
    filled = int(_BAR * share)
    drawn = f"[{'#' * filled}{'-' * (_BAR - filled)}] " if width >= _NARROW else ""
    wave = f" {now['wave']}" if now["wave"] else ""
    line = f"{drawn}{done}/{total} {now['phase']}{wave}: {telling.printable(now['message'])}"
    return line if len(line) <= width else line[: max(0, width - 3)] + "..."
