"""What is recorded of revisions: for each namespace what it was given, for each set what it was made of.

A record is a ControllerRevision. All that decisions rest on stands in its labels and annotations (`Head`, `SetHead`),
so that nobody has to hold the content to decide. The content never changes; what the metadata says of it does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

from metaoperator.core import names, paths, shapes
from metaoperator.core.model import CONTROLLER_REVISION, Desired, Manifest
from metaoperator.core.packing import Packed
from metaoperator.core.writing import digest, q

NEW: Final = "New"
"""`Head.before` of the first install in a namespace, and of one for which another ControllerTemplate was chosen."""
OWN: Final = "Own"
"""`Head.before` of a namespace that was moved because its own values changed."""
READY: Final = "Ready"
"""`Head.before` of a namespace whose child was well when it was moved; of any other it is the reason why not."""
MAX_EARLIER: Final = 20
MAX_WHY: Final = 4096
"""Characters of `SetHead.why`."""
_LONGEST: Final = 253
"""Characters of a name."""
_CURE: Final = "restore it as it was, or delete it"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a namespace's documents were rendered from, beside its name, its UID and the set."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    instance_id: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What one record says of a namespace, without the documents. The highest number is the current one.

    `earlier` are set revisions before `set_revision` for which the same was recorded, the newest last. `spec` is the
    digest of what the row said.
    """

    name: str
    uid: str
    namespace: str
    namespace_uid: str
    template: str
    set_revision: str
    revision: str
    number: int
    version: str
    before: str
    since: datetime
    proven: datetime | None = None
    earlier: tuple[str, ...] = ()
    spec: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A head with what was given to the namespace: its row's whole spec, and its documents in their order."""

    head: Head
    inputs: Inputs
    spec: Mapping[str, Any]
    documents: tuple[Manifest, ...]

    @property
    def desired(self) -> Desired:
        """What the namespace should hold, as it was rendered then."""
        return Desired(documents=self.documents, revision=self.head.revision, version=self.head.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetHead:
    """What one record says of a template set with its fleet's values, without its files."""

    name: str
    uid: str
    template: str
    set_revision: str
    number: int
    since: datetime
    stable: datetime | None = None
    failed: datetime | None = None
    why: str = ""


def namespace_name(namespace_uid: str, revision: str, packed: Packed, attempt: int = 1) -> str:
    """Name the record of a namespace: another content is another name, for the content of an object never changes.

    What stands at the name of one attempt without being that content is left to the next.
    """
    return f"{names.NAMESPACE_RECORD}-{namespace_uid}-{revision}-{packed.digest}" + _tried(attempt)


def set_name(template: str, set_revision: str, attempt: int = 1) -> str:
    """Name the record of a set; a ControllerTemplate's name may be as long as any."""
    room = _LONGEST - len(names.SET_RECORD) - len(set_revision) - 30
    if len(template) > room:
        template = f"{template[:room].rstrip('-.')}-{digest(template)}"
    return f"{names.SET_RECORD}-{template}-{set_revision}" + _tried(attempt)


def _tried(attempt: int) -> str:
    return f"-{attempt}" if attempt > 1 else ""


def metadata(head: Head | SetHead) -> dict[str, Any]:
    """Write down what a head says, as labels and annotations; `None` is what a merge takes away."""
    labels = {names.MANAGED_BY_LABEL: names.MANAGED_BY, names.SET_REVISION_LABEL: head.set_revision}
    annotations: dict[str, str | None] = {
        names.TEMPLATE_ANNOTATION: head.template,
        names.NUMBER_ANNOTATION: str(head.number),
        names.SINCE_ANNOTATION: shapes.stamp(head.since),
    }
    if isinstance(head, Head):
        labels |= {
            names.RECORD_LABEL: names.NAMESPACE_RECORD,
            names.RECORDED_NAMESPACE_LABEL: head.namespace,
            names.RECORDED_UID_LABEL: head.namespace_uid,
            names.REVISION_LABEL: head.revision,
        }
        annotations |= {
            names.VERSION_ANNOTATION: head.version,
            names.BEFORE_ANNOTATION: head.before,
            names.PROVEN_ANNOTATION: _stamp(head.proven),
            names.EARLIER_SETS_ANNOTATION: ",".join(head.earlier) or None,
            names.ROW_SPEC_ANNOTATION: head.spec or None,
        }
    else:
        labels |= {names.RECORD_LABEL: names.SET_RECORD}
        annotations |= {
            names.STABLE_ANNOTATION: _stamp(head.stable),
            names.FAILED_ANNOTATION: _stamp(head.failed),
            names.WHY_ANNOTATION: head.why or None,
        }
    return {"labels": labels, "annotations": annotations}


def manifest(head: Head | SetHead, packed: Packed, *, home: str) -> Manifest:
    """Write the whole record, to be created in the operator's namespace."""
    said = metadata(head)
    annotations = {key: value for key, value in said["annotations"].items() if value is not None}
    return {
        "apiVersion": CONTROLLER_REVISION.api_version,
        "kind": CONTROLLER_REVISION.kind,
        "metadata": {"name": head.name, "namespace": home, "labels": said["labels"], "annotations": annotations},
        "revision": head.number,
        "data": dict(packed.data),
    }


def head(live: Manifest) -> tuple[Head | SetHead | None, str]:
    """Read what the metadata of a record says; `None`, and a sentence, where it says nothing that can be used."""
    meta = paths.mapping(live, "metadata")
    labels, annotations = paths.mapping(meta, "labels"), paths.mapping(meta, "annotations")

    def read() -> Head | SetHead:
        what = labels.get(names.RECORD_LABEL)
        common: dict[str, Any] = {
            "name": shapes.text(meta, "name"),
            "uid": shapes.text(meta, "uid"),
            "template": shapes.text(annotations, names.TEMPLATE_ANNOTATION),
            "set_revision": shapes.text(labels, names.SET_REVISION_LABEL),
            "number": shapes.number(annotations, names.NUMBER_ANNOTATION),
            "since": shapes.time(annotations, names.SINCE_ANNOTATION),
        }
        if what == names.SET_RECORD:
            return SetHead(
                **common,
                stable=_time(annotations, names.STABLE_ANNOTATION),
                failed=_time(annotations, names.FAILED_ANNOTATION),
                why=shapes.text(annotations, names.WHY_ANNOTATION) if names.WHY_ANNOTATION in annotations else "",
            )
        if what != names.NAMESPACE_RECORD:
            raise ValueError(f"its label {names.RECORD_LABEL} is {what!r}")
        earlier = annotations.get(names.EARLIER_SETS_ANNOTATION)
        return Head(
            **common,
            namespace=shapes.text(labels, names.RECORDED_NAMESPACE_LABEL),
            namespace_uid=shapes.text(labels, names.RECORDED_UID_LABEL),
            revision=shapes.text(labels, names.REVISION_LABEL),
            version=shapes.text(annotations, names.VERSION_ANNOTATION),
            before=shapes.text(annotations, names.BEFORE_ANNOTATION),
            proven=_time(annotations, names.PROVEN_ANNOTATION),
            earlier=tuple(earlier.split(",")) if isinstance(earlier, str) and earlier else (),
            spec=str(annotations.get(names.ROW_SPEC_ANNOTATION) or ""),
        )

    return told(str(meta.get("name")), read)


def told(name: str, read: Callable[[], T]) -> tuple[T | None, str]:
    """Read a part of a record; `None`, and a sentence for people, where it is not what was written."""
    try:
        return read(), ""
    except ValueError as exc:
        return None, f"ControllerRevision {name} is no record that can be used: {exc} ({_CURE})"


def _time(found: Mapping[str, Any], key: str) -> datetime | None:
    return None if found.get(key) is None else shapes.time(found, key)


def _stamp(moment: datetime | None) -> str | None:
    return None if moment is None else shapes.stamp(moment)


def spec_digest(spec: Mapping[str, Any]) -> str:
    """Name what a row says, for comparing."""
    return digest(q(spec))[:16]
