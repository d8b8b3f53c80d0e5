"""Two states of an object → a unified diff in kubectl's manner, of what people and templates decide about."""

import difflib
from typing import Any, Final

from metaoperator.core import strictyaml
from metaoperator.core.model import Manifest, Ref

_KEPT_BY_THE_SERVER: Final = frozenset(
    {"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"}
)


def diff(ref: Ref, before: Manifest | None, after: Manifest | None) -> str:
    """Write the diff of one object; empty where only the API server's own fields differ."""
    name = ".".join(filter(None, (*ref.kind.api_version.split("/"), ref.kind.kind, ref.namespace, ref.name)))
    lines = list(
        difflib.unified_diff(_lines(before), _lines(after), f"LIVE/{name}", f"MERGED/{name}", lineterm="", n=3)
    )
    return "\n".join([f"diff -u -N LIVE/{name} MERGED/{name}", *lines, ""]) if lines else ""


def _lines(manifest: Manifest | None) -> list[str]:
    return [] if manifest is None else strictyaml.dump_plain(shown(manifest)).splitlines()


def shown(manifest: Manifest) -> dict[str, Any]:
    """Leave out what is the API server's own business, and sort the rest."""
    meta = {key: value for key, value in manifest["metadata"].items() if key not in _KEPT_BY_THE_SERVER}
    kept = {key: value for key, value in manifest.items() if key != "status"} | {"metadata": meta}
    return _sorted(kept)  # type: ignore[no-any-return]


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value
