"""Field ownership: server-side apply, and how every other write moves the owners.

The rules are those of structured-merge-diff: merge, drop what the manager no longer says and nobody else owns,
then compare with the live object to find the conflicts.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

from . import fieldsets, problems
from .fieldsets import Fields, Path
from .kinds import Kind, Manifest
from .values import clone

APPLY, UPDATE = "Apply", "Update"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who an entry of managedFields belongs to; an applier keeps its entry across API versions."""

    manager: str
    operation: str
    api_version: str
    subresource: str = ""

    def shown(self) -> str:
        """Name the owner as conflict messages do."""
        name = f'"{self.manager}"'
        if self.subresource:
            name += f' with subresource "{self.subresource}"'
        return name if self.operation == APPLY else f"{name} using {self.api_version}"


@dataclass(slots=True)
class Entry:
    """What an owner owns, and since when."""

    fields: Fields
    time: str


Managed = dict[Owner, Entry]


def read(obj: Manifest | None) -> Managed:
    """Read the managedFields of an object."""
    entries = (obj or {}).get("metadata", {}).get("managedFields") or []
    return {
        Owner(entry.get("manager", ""), entry["operation"], entry["apiVersion"], entry.get("subresource", "")): Entry(
            fieldsets.decode(entry.get("fieldsV1", {})), entry.get("time", "")
        )
        for entry in entries
        if entry
    }


def write(obj: Manifest, managed: Managed) -> None:
    """Put the owners into an object, in the server's order."""
    entries = []
    for owner, entry in managed.items():
        if not entry.fields:
            continue
        wire = {
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": owner.api_version,
            "time": entry.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fieldsets.encode(entry.fields),
        }
        if owner.subresource:
            wire["subresource"] = owner.subresource
        entries.append(wire)
    entries.sort(key=lambda wire: (wire["operation"], wire["time"], wire["manager"], wire.get("subresource", "")))
    obj["metadata"].pop("managedFields", None)
    if entries:
        obj["metadata"]["managedFields"] = entries


def apply(kind: Kind, live: Manifest | None, config: Manifest, owner: Owner, now: str, *, force: bool) -> Manifest:
    """Return the live object with the configuration applied, before defaulting."""
    managed = read(live)
    base: Manifest = live or {"apiVersion": config["apiVersion"], "kind": config["kind"], "metadata": {}}
    if live and not managed:
        everything = fieldsets.compare(kind, {"metadata": {}}, live).added
        managed[Owner("before-first-apply", UPDATE, kind.api_version)] = Entry(everything, now)
    mine = next((each for each in managed if replace(each, api_version="") == replace(owner, api_version="")), None)
    last = managed.pop(mine) if mine else None

    wanted = fieldsets.applied(kind, config)
    merged = _merge(kind, (), base, config)
    managed[owner] = Entry(wanted, last.time if last else now)
    if last:
        owned = set().union(*(entry.fields for entry in managed.values()))
        dropped = fieldsets.with_parents(last.fields) - fieldsets.with_parents(owned) - fieldsets.UNOWNED
        merged = cast("Manifest", _without(kind, (), merged, dropped))

    change = fieldsets.compare(kind, base, merged)
    touched = change.added | change.modified
    lost = {other: entry.fields & touched for other, entry in managed.items() if other != owner}
    if not force and any(lost.values()):
        raise problems.field_conflicts(
            sorted(
                (other.shown(), [fieldsets.show(path) for path in sorted(paths)])
                for other, paths in lost.items()
                if paths
            )
        )
    for other, paths in lost.items():
        managed[other].fields -= paths | change.removed
    if touched or change.removed:
        managed[owner].time = now
    write(merged, managed)
    return merged


def track(kind: Kind, live: Manifest | None, new: Manifest, owner: Owner, now: str) -> None:
    """Give the fields that a create, update or patch changed to its manager, in `new` itself."""
    given = new["metadata"].get("managedFields")
    managed = read(live)
    if given is not None and not owner.subresource:
        # An explicit reset: tracking stops until the next apply.
        managed = {} if not given or given == [{}] else read(new)
    if live and not managed:
        new["metadata"].pop("managedFields", None)
        return
    change = fieldsets.compare(kind, live or {"metadata": {}}, new)
    taken = change.added | change.modified
    for entry in managed.values():
        entry.fields -= taken | change.removed
    if taken:
        before = managed.get(owner)
        managed[owner] = Entry(taken | (before.fields if before else set()), now)
    write(new, managed)


def _merge(kind: Kind, path: Path, live: Any, config: Any) -> Any:
    before, after = fieldsets.children(kind, path, live), fieldsets.children(kind, path, config)
    if before is None or after is None or not before:
        return clone(config)
    if isinstance(config, dict):
        merged = dict(live)
        for name, value in config.items():
            inner = (*path, f"f:{name}")
            merged[name] = _merge(kind, inner, live[name], value) if name in live else clone(value)
        return merged
    return [
        _merge(kind, (*path, key), before[key], after[key])
        if key in before and key in after
        else clone(after[key])
        if key in after
        else before[key]
        for key in _order(list(before), list(after))
    ]


def _order(live: list[str], config: list[str]) -> list[str]:
    """Order a merged list as structured-merge-diff does: ours as applied, others' about where they were."""
    shared = iter([key for key in config if key in live])
    wanted, result, left, right = next(shared, None), [], 0, 0
    while left < len(live) or right < len(config):
        if left < len(live) and right < len(config):
            if live[left] == config[right]:
                result.append(live[left])
                left, right, wanted = left + 1, right + 1, next(shared, None)
                continue
            if live[left] in config and wanted not in (None, live[left]):
                left += 1  # its turn comes with the applied list
                continue
        if left < len(live):
            if live[left] not in config:
                result.append(live[left])
                left += 1
                continue
            if live[left] in result:
                left += 1
        if right < len(config):
            result.append(config[right])
            if config[right] == wanted:
                wanted = next(shared, None)
            right += 1
    return result


def _without(kind: Kind, path: Path, value: Any, dropped: Fields) -> Any:
    inside = fieldsets.children(kind, path, value)
    if not inside:
        return value
    kept: dict[str, Any] = {}
    for key, inner in inside.items():
        here = (*path, key)
        if here in dropped:
            continue
        kept[key] = _without(kind, here, inner, dropped) if any(p[: len(here)] == here for p in dropped) else inner
    if not kept:
        return None  # as structured-merge-diff does, to the surprise of custom resources
    if isinstance(value, dict):
        return {key[2:]: inner for key, inner in kept.items()}
    return list(kept.values())
