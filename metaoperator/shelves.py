"""Template sets in directories, looked at again and again: a set is taken whole, in one version, once it rests.

What a directory held and holds no more is a fault of that set, and never a reason to take another one in its place:
neither an earlier directory's set of that name nor nothing at all.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from metaoperator import sources
from metaoperator.core.errors import Problem, TemplateError
from metaoperator.core.model import Kind
from metaoperator.core.render import Program

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.5
REST_SECONDS: Final = 0.1
"""A set that was written to is looked at again after so long, and taken if nothing of it was touched meanwhile."""

Found = Program | TemplateError
Signature = tuple[Any, ...]
"""What tells whether anything of a set was touched: where its files really are, and each one's name, times and size."""

_WHOLE: Final = ""
"""In place of a set's name: the directory, where that cannot be read."""

apart = asyncio.to_thread
"""Disks may hang, and compiling takes its time: neither holds up the event loop."""


class Shelves:
    """Every set at hand, by its name; a later directory's set stands in front of an earlier one's of that name."""

    def __init__(self, fixed: Mapping[str, Found], watched: Iterable[Path] = ()) -> None:
        """Read each directory now; `fixed` are those that stay as they are, such as the shipped ones."""
        self._fixed = fixed
        self._watched = [_Shelf(directory) for directory in dict.fromkeys(watched)]
        self._told: Callable[[frozenset[str]], None] = lambda _names: None

    def listen(self, told: Callable[[frozenset[str]], None]) -> None:
        """Tell the names of the sets that changed, whenever any did."""
        self._told = told

    def get(self, name: str) -> Found | None:
        """Find a set; `None` where no directory holds one of this name.

        While a directory cannot be read, or is empty, since the start, it may well hold a set that stands in front of
        the one that is known: its fault is the answer.
        """
        for shelf in reversed(self._watched):
            if name in shelf.sets:
                return shelf.sets[name]
            if shelf.fault is not None:
                return shelf.fault
        return self._fixed.get(name)

    @property
    def names(self) -> list[str]:
        """Name every set, sorted."""
        return sorted({*self._fixed, *(name for shelf in self._watched for name in shelf.sets)})

    @property
    def kinds(self) -> frozenset[Kind]:
        """List the kinds that the sets declare."""
        every = (*self._fixed.values(), *(each for shelf in self._watched for each in shelf.sets.values()))
        return frozenset().union(*(each.template_set.kinds for each in every if isinstance(each, Program)))

    @property
    def faults(self) -> dict[str, TemplateError]:
        """Tell what is wrong, by set or directory."""
        found = {name: each for name in self.names if isinstance(each := self.get(name), TemplateError)}
        return found | {str(each.directory): each.fault for each in self._watched if each.fault is not None}

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """Hand out what has to run."""
        return [self._look()] if self._watched else []

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(REST_SECONDS if any(each.restless for each in self._watched) else POLL_SECONDS)
            for shelf in self._watched:
                try:
                    changed = await shelf.look()
                except Exception:
                    # A bug or an answer nobody thought of: the sets only get old, and the log says why.
                    log.exception("template sets cannot be looked at", extra={"directory": str(shelf.directory)})
                    continue
                if changed:
                    self._told(frozenset(changed))


class _Shelf:
    """One directory of sets."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.fault: TemplateError | None = None
        self.sets: dict[str, Found] = {}
        self.restless = False
        self._taken: dict[str, Signature] = {}
        self._last: dict[str, Signature] = {}
        try:
            empty = not sources.folders(directory)
        except TemplateError as exc:
            self.fault = exc
        else:
            self.sets = {} if empty else dict(sources.programs((directory,)))
            self.fault = _empty(directory) if empty else None

    async def look(self) -> list[str]:
        """Take what changed and rests, and name it: one look finds a change, and the next one that it rests."""
        found = await apart(_signatures, self.directory)
        now = {_WHOLE: (str(found),)} if isinstance(found, TemplateError) else found
        before, self._last = self._last, now
        resting = {name for name in now if now[name] == before.get(name)}
        self.restless = len(resting) < len({*now, *before})
        if isinstance(found, TemplateError):
            if _WHOLE not in resting:
                return []
            self.fault = None if self.sets else found
            self._taken.clear()
            return [name for name in self.sets if self._set(name, found)]
        if self.fault is not None and not self.restless:
            self.fault = None if now else _empty(self.directory)
        gone = {*self.sets} - {*now, *before} if _WHOLE not in before else set()
        changed = [name for name in sorted(gone) if self._set(name, _gone(self.directory / name))]
        self._taken = {name: each for name, each in self._taken.items() if name not in gone}
        for name in sorted(resting):
            if now[name] != self._taken.get(name):
                changed += await self._take(name, now[name])
        return changed

    async def _take(self, name: str, signature: Signature) -> list[str]:
        found = await apart(_read, self.directory / name, signature, self.sets.get(name))
        if found is None:
            return []  # touched while it was read
        self._taken[name] = signature
        if not self._set(name, found):
            return []
        if isinstance(found, TemplateError):
            log.error("template set cannot be used", extra={"set": name, "error": str(found)})
        else:
            log.info("template set changed", extra={"set": name, "digest": found.template_set.digest})
        return [name]

    def _set(self, name: str, found: Found) -> bool:
        """Put a set in its place, and tell whether it is another one than before."""
        before = self.sets.get(name)
        self.sets[name] = found
        if isinstance(found, TemplateError) and isinstance(before, TemplateError):
            return str(found) != str(before)
        return found is not before


def _signatures(directory: Path) -> dict[str, Signature] | TemplateError:
    """Look at each set of a directory, whose own links are followed once for all of them."""
    try:
        return {folder.name: _signature(folder) for folder in sources.folders(directory)}
    except TemplateError as exc:
        return exc


def _signature(folder: Path) -> Signature:
    try:
        home = sources.home(folder)
        return str(home), *((path.name, *_about(path)) for path in sources.parts(home))
    except OSError as exc:
        return (exc.errno,)


def _about(path: Path) -> Signature:
    try:
        about = path.stat()
    except OSError as exc:
        return (exc.errno,)
    # The time of the last change of permissions is among them: a file that nobody may read any more is news.
    return about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino, about.st_mode


def _read(folder: Path, signature: Signature, before: Found | None) -> Found | None:
    """Read and compile a set, unless it is what it was; `None` when it was touched meanwhile."""
    found: Found
    try:
        texts = sources.texts(folder)
        if _signature(folder) != signature:
            return None
        if isinstance(before, Program) and before.template_set.texts == texts:
            return before
        found = sources.from_texts(folder.name, texts)
    except TemplateError as exc:
        found = exc
    return found if _signature(folder) == signature else None


def _empty(directory: Path) -> TemplateError:
    cure = f"put a folder for each set there, or take it out of --templates; {sources.NOTHING}"
    return TemplateError([Problem(where=str(directory), what="holds no template set", cure=cure)])


def _gone(folder: Path) -> TemplateError:
    cure = f"put it back, or name another set in spec.source; {sources.NOTHING}"
    return TemplateError([Problem(where=str(folder), what="is gone", cure=cure)])
