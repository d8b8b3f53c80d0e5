"""`ignoreFields` of a ControllerTemplate: fields that are rendered at first and then left to whoever takes them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from metaoperator.core import names, paths
from metaoperator.core.errors import Problem
from metaoperator.core.model import Kind, Manifest, Ref
from metaoperator.core.paths import Keys

_OURS: Final = (
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    f"metadata.labels.{names.MANAGED_BY_LABEL}",
    f"metadata.annotations.{names.NAMESPACE_UID_ANNOTATION}",
    f"metadata.annotations.{names.RENDERED_ANNOTATION}",
)
"""What identifies an object and what marks it as ours: nobody else's, ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """Paths of one kind of object; an empty `api_version` or `name` means any."""

    kind: str
    api_version: str
    name: str
    paths: tuple[str, ...]

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "Ignored":
        """Read one entry of `spec.ignoreFields`."""
        return cls(
            kind=entry["kind"],
            api_version=entry.get("apiVersion", ""),
            name=entry.get("name", ""),
            paths=tuple(entry["paths"]),
        )

    def concerns(self, kind: Kind, name: str | None = None) -> bool:
        """Tell whether objects of this kind, or the one of this name, are meant."""
        return (
            kind.kind == self.kind
            and self.api_version in ("", kind.api_version)
            and (name is None or self.name in ("", name))
        )

    def __str__(self) -> str:
        return "/".join(filter(None, (self.kind, self.name)))


def read(template: Manifest) -> tuple[Ignored, ...]:
    """Read the list of one ControllerTemplate."""
    return tuple(map(Ignored.of, template["spec"].get("ignoreFields") or ()))


def ways(ignored: Iterable[Ignored], manifest: Manifest) -> list[Keys]:
    """Find the fields of one rendered object that are listed."""
    ref = Ref.of(manifest)
    found = (
        paths.locate(manifest, path) for each in ignored if each.concerns(ref.kind, ref.name) for path in each.paths
    )
    return [way for way in found if way is not None]


def faults(ignored: Sequence[Ignored], kinds: Collection[Kind]) -> Iterator[Problem]:
    """Tell what can never be left to others, and what no object of the set can be meant by."""
    for number, each in enumerate(ignored):
        where = f"spec.ignoreFields[{number}]"
        if not any(each.concerns(kind) for kind in kinds):
            what = f"{' '.join(filter(None, (each.api_version, each.kind)))} is no kind that the template set renders"
            yield Problem(where=where, what=what, cure=f"one of {', '.join(sorted({kind.kind for kind in kinds}))}")
        for path in each.paths:
            plain = path.replace("[", ".").replace("]", "")
            if any(ours == plain or ours.startswith(f"{plain}.") for ours in _OURS):
                what = f"{path} holds what the operator finds its objects by, and is left to nobody"
                yield Problem(
                    where=where, what=what, cure="list the labels or annotations that others write, one by one"
                )


def unmatched(ignored: Sequence[Ignored], documents: Sequence[Manifest]) -> Iterator[Problem]:
    """Tell which paths name nothing that is rendered: a typo would leave nothing to anybody, in silence."""
    for number, each in enumerate(ignored):
        meant = [one for one in documents if each.concerns(Ref.of(one).kind, Ref.of(one).name)]
        where = f"spec.ignoreFields[{number}]"
        if not meant:
            yield Problem(where=where, what=f"{each} is not rendered", cure="correct kind and name, or take it out")
            continue
        for path in each.paths:
            if any(paths.locate(one, path) is not None for one in meant):
                continue
            near = {".".join(paths.nearest(one, path)).replace(".[", "[") for one in meant} - {""}
            cure = f"rendered is {', '.join(sorted(near))}" if near else "write it as messages do"
            yield Problem(where=where, what=f"{path} names no field that is rendered in {each}", cure=cure)
