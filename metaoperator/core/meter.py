"""What one render may spend: steps, the size of a text, the depth of nesting. No clock: the same always ends alike.

A step is a microsecond or less. Loops, macros and templates pay for the nodes of their bodies, calls and filters for
what goes in and what comes out, *unfolded*: a list that holds another one a thousand times weighs a thousand of it, for
writing or comparing it costs that much.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import jinja2.exceptions

MAX_STEPS: Final = 500_000
"""For one namespace's render of a whole set. The shipped set spends 2 % of it at most (tests hold it to that)."""
MAX_TEXT: Final = 1_500_000
"""Characters of any one text, also one that is never printed. A document may have fewer."""
MAX_DEPTH: Final = 40
"""Macros, includes, recursive loops inside one another. C's stack is finite, and Python's own limit may be set high."""
MAX_NESTING: Final = 100
"""Lists and mappings inside one another: what reads them recurses."""
MAX_NUMBER: Final = 2**63
_LISTS: Final = (list, tuple)
TEXT_STEP: Final = 6
"""Of a text's length, in bits: 64 characters are a step."""


class OverBudget(jinja2.exceptions.SecurityError):
    """A template does more, or makes something larger, than any honest one does."""


class Refused(jinja2.exceptions.SecurityError):
    """A template asks for something that no template may have; `cure` says what to write instead."""

    def __init__(self, what: str, cure: str = "") -> None:
        super().__init__(what)
        self.cure = cure


class Meter:
    """What is left of one render's budget."""

    __slots__ = ("depth", "left", "nulls", "roots")

    def __init__(self, roots: dict[str, Any]) -> None:
        self.left = MAX_STEPS
        self.depth = 0
        self.nulls = False
        """Whether a value was printed bare that YAML reads as nothing."""
        self.roots = roots
        """What the templates see, by name: to tell where something is missing."""

    def spend(self, steps: int) -> None:
        """Pay before it is done."""
        self.left -= steps
        if self.left < 0:
            raise OverBudget(f"does more than {MAX_STEPS} steps")

    def enter(self) -> None:
        """Go one level down into a macro, an include or a recursive loop."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise OverBudget(f"macros, includes or recursive loops stand more than {MAX_DEPTH} deep in one another")

    def leave(self) -> None:
        """Come back up."""
        self.depth -= 1

    def weigh(self, *things: Any) -> None:
        """Pay for everything that the values hold, unfolded."""
        level: list[Any] = list(things)
        self.spend(len(level))
        for _ in range(MAX_NESTING):
            below: list[Any] = []
            for item in level:
                if isinstance(item, str):
                    self.left -= len(item) >> TEXT_STEP
                elif isinstance(item, dict):
                    self.spend(2 * len(item))
                    below += item
                    below += item.values()
                elif isinstance(item, _LISTS):
                    self.spend(len(item))
                    below += item
            if not below:
                return
            level = below
        raise OverBudget(f"lists and mappings stand more than {MAX_NESTING} deep in one another")


_current: ContextVar[Meter] = ContextVar("meter")
current = _current.get


@contextmanager
def metered(roots: dict[str, Any]) -> Iterator[Meter]:
    """Give what is rendered inside a budget of its own."""
    token = _current.set(meter := Meter(roots))
    try:
        yield meter
    finally:
        _current.reset(token)


def text_of(length: int) -> None:
    """Pay for a text before it is made."""
    if length > MAX_TEXT:
        raise OverBudget(f"makes a text of {length} characters, over the limit of {MAX_TEXT}")
    current().spend(length >> TEXT_STEP)


def join(parts: Iterable[str]) -> str:
    """Put texts together, as long as the whole stays within the limit."""
    found: list[str] = []
    length = 0
    for part in parts:
        length += len(part)
        if length > MAX_TEXT:
            break
        found.append(part)
    text_of(length)
    return "".join(found)


def number(value: Any) -> Any:
    """Let a number through that is finite, and not beyond what 64 bits hold."""
    if isinstance(value, float) and not math.isfinite(value):
        raise OverBudget("reckons with what is infinite, or no number")
    if isinstance(value, int) and not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise OverBudget("reckons with a number beyond 64 bits")
    return value
