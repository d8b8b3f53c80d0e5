"""Which versions of Argo a template set is for, and since which version each of its values is known.

A child refuses to start on a key or a flag that its version does not know; the set's own table tells that first.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from metaoperator.core.errors import Problem
from metaoperator.core.model import ArgoVersions

_VERSION: Final = re.compile(r"v([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})(?:-[0-9A-Za-z.-]+)?")
ABSENT: Final = object()


def parse(text: object) -> tuple[int, int, int] | None:
    """Read `v4.1.2`; a pre-release counts as the release that it precedes. `None` for anything else."""
    found = _VERSION.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def faults(about: object, where: str) -> Iterator[Problem]:
    """Tell what is wrong with `argoVersions` of a template.yaml."""
    shape = "min and below as versions like v4.1.2, and since as dotted paths of values with a version each"
    if not isinstance(about, Mapping) or set(about) - {"min", "below", "since"}:
        yield Problem(where=where, what="argoVersions is not what it has to be", cure=f"give it {shape}")
        return
    since = about.get("since") or {}
    named = [about.get("min"), about.get("below"), *(since.values() if isinstance(since, Mapping) else [None])]
    wrong = [str(each) for each in named if parse(each) is None]
    if wrong:
        yield Problem(where=where, what=f"argoVersions: {', '.join(wrong)} is no version", cure=f"give it {shape}")


def read(about: Mapping[str, Any]) -> ArgoVersions:
    """Read `argoVersions`, which has no faults."""
    return ArgoVersions(min=about["min"], below=about["below"], since=dict(about.get("since") or {}))


def problems(supported: ArgoVersions, merged: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[Problem]:
    """Hold merged values to their own `version`. A value that stands as the set has it is always known."""
    told = merged.get("version")
    version = parse(told)
    if version is None:
        yield Problem(where="values.version", what=f"{told!r} is no version", cure="write it like v4.1.2")
        return
    low, high = parse(supported.min), parse(supported.below)
    assert low is not None
    assert high is not None
    if not low <= version < high:
        yield Problem(
            where="values.version",
            what=f"{told} is not supported",
            cure=f"choose one from {supported.min} on and before {supported.below}",
        )
        return
    for path, first in sorted(supported.since.items()):
        needed = parse(first)
        assert needed is not None
        steps = path.split(".")
        found = at(merged, steps)
        if version < needed and found is not ABSENT and found != at(defaults, steps):
            yield Problem(
                where=f"values.{path}",
                what=f"needs Argo v{needed[0]}.{needed[1]} or newer, and version is {told}",
                cure="leave it out, or raise version",
            )


def at(values: Any, steps: list[str]) -> Any:
    """Find the value at a path; `ABSENT`, which equals nothing else, where it leads nowhere."""
    for step in steps:
        if not isinstance(values, Mapping) or step not in values:
            return ABSENT
        values = values[step]
    return values
