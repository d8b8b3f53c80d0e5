"""Where a live object is not as rendered: value by value, and in the words that messages use.

Lists that the API server merges are compared by their items' key, all others whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from metaoperator.core.model import Manifest, Ref
from metaoperator.core.ownership import rendered_digest
from metaoperator.core.paths import merge_key

Answers = Mapping[Ref, tuple[str, str]]
"""What applies and dry-runs told: the differences (second) with which a rendered digest (first) is in sync."""

_CONTAINERS: Final = frozenset({"containers", "ephemeralContainers", "initContainers"})


def differences(rendered: Any, live: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Name every rendered leaf that the live object does not hold, with what it holds instead.

    Lists that the API server merges are compared by their items' key, so that another manager's sidecar is no
    drift; other lists are compared whole. Empty mappings and lists equal absent ones: the API server drops them.
    """
    if isinstance(rendered, Mapping):
        below = live if isinstance(live, Mapping) else {}
        for key, value in rendered.items():
            yield from differences(value, below.get(key), f"{path}.{key}" if path else key)
    elif isinstance(rendered, list):
        yield from _list_differences(rendered, live if isinstance(live, list) else [], path)
    elif rendered != live or isinstance(rendered, bool) != isinstance(live, bool):
        yield path, live


def _list_differences(rendered: Sequence[Any], live: Sequence[Any], path: str) -> Iterator[tuple[str, Any]]:
    key = merge_key(path.rpartition(".")[2], rendered)
    if key is not None:
        by_key = {str(item.get(key)): item for item in live if isinstance(item, Mapping)}
        for item in rendered:
            yield from differences(item, by_key.get(str(item[key])), f"{path}[{item[key]}]")
    elif len(rendered) != len(live):
        yield path, live
    else:
        for index, (item, found) in enumerate(zip(rendered, live, strict=True)):
            yield from differences(item, found, f"{path}[{index}]")


def lists_at_odds(rendered: Manifest, live: Manifest) -> dict[str, Any]:
    """Compose the merge patch that puts our items of every list that differs in place; others' items stay.

    Server-side apply merges some lists by keys that an edit may have moved: a port edited under its name is another
    port to it, the apply would add ours beside it, and two ports of one name are invalid.
    """
    patch: dict[str, Any] = {}
    for key, value in rendered.items():
        found = live.get(key)
        if isinstance(value, list) and any(differences(value, found, key)):
            patch[key] = _put_right(value, found if isinstance(found, list) else [], key)
        elif isinstance(value, Mapping):
            below = lists_at_odds(value, found if isinstance(found, Mapping) else {})
            patch |= {key: below} if below else {}
    return patch


def _put_right(rendered: Sequence[Any], live: Sequence[Any], path: str) -> list[Any]:
    key = merge_key(path, rendered)
    if key is None:
        return list(rendered)
    ours = {item[key] for item in rendered}
    by_key = {item.get(key): item for item in live if isinstance(item, Mapping)}
    kept = [item for item in live if not isinstance(item, Mapping) or item.get(key) not in ours]
    if path not in _CONTAINERS:
        # Whole: a variable or volume that was edited into another kind, and ours merged into it, are nothing valid.
        return [*rendered, *kept]
    return [_container_put_right(item, by_key.get(item[key], {})) for item in rendered] + kept


def _container_put_right(rendered: Manifest, live: Manifest) -> dict[str, Any]:
    lists = {
        key: _put_right(value, live[key], key)
        for key, value in rendered.items()
        if isinstance(value, list) and isinstance(live.get(key), list)
    }
    return {**live, **rendered, **lists}


def answer(manifest: Manifest, live: Manifest) -> tuple[str, str]:
    """Describe how `live` differs from `manifest`, in the form in which `Answers` hold it."""
    return rendered_digest(manifest), repr(sorted(differences(manifest, live), key=lambda item: item[0]))
