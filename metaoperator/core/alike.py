"""What of a change is a namespace's own, and what it has in common with others: by that, equal changes are found.

Its name, its UID, its instance ID, digests of what is rendered for it and addresses that the API server gave are
replaced by placeholders. Names that are everyday words (`info`, `default`) then stand for more than they should:
`expanded` tells whether two texts are the same all the same.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from metaoperator.core import names
from metaoperator.core.model import Manifest

NAME: Final = "<namespace>"
UID: Final = "<uid>"
INSTANCE_ID: Final = "<instance-id>"
ADDRESS: Final = "<address>"
REVISION: Final = "<revision>"

_OWN: Final = re.compile(r"[0-9a-f]{16}|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
"""Digests as templates make them, and UIDs: in annotations they differ from one namespace to the next."""
_ADDRESSES: Final = frozenset({"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"})
_ROLLOUTS: Final = "deployment.kubernetes.io/revision"


class Mask:
    """One namespace's placeholders. Digests are counted in the order in which they are met."""

    def __init__(self, namespace: str, uid: str, instance_id: str = "") -> None:
        """Give it placeholders; an instance ID that a whole fleet has is nobody's own."""
        own = [(namespace, NAME), (uid, UID)]
        if instance_id not in {"", namespace, names.FLEET_INSTANCE_ID}:
            own.append((instance_id, INSTANCE_ID))
        # The longest first: a UID or an ID may begin with the name.
        own = sorted(((each, mark) for each, mark in own if each), key=lambda pair: -len(pair[0]))
        self._marks = dict(own)
        self._texts = {mark: each for each, mark in own}
        found = "|".join(re.escape(each) for each in self._marks)
        self._pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{found})(?![A-Za-z0-9])")
        self._digests: dict[str, str] = {}

    def text(self, text: str) -> str:
        """Replace what is the namespace's own."""
        return self._pattern.sub(lambda match: self._marks[match[0]], text)

    def expanded(self, text: str) -> str:
        """Put the namespace's own back into a text, whoever's it is."""
        for mark, each in self._texts.items():
            text = text.replace(mark, each)
        return text

    def manifest(self, manifest: Manifest | None) -> dict[str, Any] | None:
        """Replace it in an object, keys excepted."""
        return None if manifest is None else self._value(dict(manifest), "", annotated=False)

    def _value(self, value: Any, key: str, *, annotated: bool) -> Any:
        if isinstance(value, Mapping):
            inside = key == "annotations"
            return {each: self._value(below, each, annotated=inside) for each, below in value.items()}
        if isinstance(value, list):
            return [self._value(each, key, annotated=annotated) for each in value]
        if key in _ADDRESSES and value not in {None, "None", ""}:
            return ADDRESS
        if not isinstance(value, str):
            return value
        if annotated and key == _ROLLOUTS:
            return REVISION
        if annotated and value not in self._marks and _OWN.fullmatch(value):
            return self._digests.setdefault(value, f"<digest {len(self._digests) + 1}>")
        return self.text(value)
