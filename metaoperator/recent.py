"""What was rendered last. Rendering is pure: while its inputs are what they were, so is what comes of it.

A namespace that opts in is looked at several times, once for each thing that happens to its child, and rendering was a
third of what these looks cost. Kept as compact JSON text, 8 KiB a namespace: reading it back is twenty times faster.
"""

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from metaoperator.core.model import Desired, Manifest

KEPT: Final = 1000
"""Namespaces; those that nobody looked at for longest go first."""


class Recent:
    """The latest renders, by namespace."""

    def __init__(self, *, kept: int = KEPT) -> None:
        """Nothing is rendered yet."""
        self._kept = kept
        self._found: OrderedDict[str, tuple[Any, Desired, str]] = OrderedDict()

    def desired(self, namespace: str, inputs: Any, render: Callable[[], Desired]) -> Desired:
        """Hand out what `render` gives for these inputs; what it raises is never remembered."""
        found = self._found.pop(namespace, None)
        if found is not None and found[0] == inputs:
            self._found[namespace] = found
            return replace(found[1], documents=tuple(json.loads(found[2])))
        desired = render()
        text = json.dumps(desired.documents, separators=(",", ":"))
        self._found[namespace] = inputs, replace(desired, documents=()), text
        while len(self._found) > self._kept:
            self._found.popitem(last=False)
        return desired

    def forget(self, namespace: str) -> None:
        """Drop what was rendered for one namespace."""
        self._found.pop(namespace, None)


def spec_of(live: Manifest) -> tuple[Any, ...]:
    """Name one state of an object's spec: the API server counts `generation` up at each change of it.

    Not the values themselves: to Python `1`, `1.0` and `True` are equal, and they do not render alike. An object that
    nobody has written yet is like no other.
    """
    meta = live["metadata"]
    return meta.get("uid"), meta.get("generation", object())
