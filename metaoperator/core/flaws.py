"""What versions of Argo are known to get wrong where a controller has an instance ID, as every child of a fleet has."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from metaoperator.core import versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """What goes wrong, and the first release of each branch that does it right; older branches never do."""

    what: str
    mended: Mapping[tuple[int, int], int]

    @property
    def cure(self) -> str:
        """Say which versions do it right."""
        told = ", ".join(f"v{major}.{minor}.{patch}" for (major, minor), patch in sorted(self.mended.items()))
        return f"choose a version that does: {told} or newer on its branch"

    def hits(self, version: tuple[int, int, int]) -> bool:
        """Tell whether a release has it; a branch above all that are listed began without it."""
        major, minor, patch = version
        first = self.mended.get((major, minor))
        return patch < first if first is not None else (major, minor) < max(self.mended)


TASK_SETS: Final = Flaw(
    what="steps with HTTP templates or plugins wait for ever in a namespace whose controller has an instance ID "
    "(argo-workflows#15219)",
    mended=MappingProxyType({(3, 6): 19, (3, 7): 10, (4, 0): 1}),
)
_ALL: Final = (TASK_SETS,)


def of(version: object) -> Iterator[Flaw]:
    """Name what a version is known for; nothing is known of what is no version."""
    parsed = versions.parse(version)
    if parsed is not None:
        yield from (flaw for flaw in _ALL if flaw.hits(parsed))
