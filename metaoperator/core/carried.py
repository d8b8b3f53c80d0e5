"""Instance IDs that an object would give its Workflows by `workflowMetadata`, after their pods exist."""

from collections.abc import Iterator, Mapping
from typing import Any

from metaoperator.core import names
from metaoperator.core.model import Manifest


def places(live: Manifest) -> Iterator[str]:
    """Name the fields of a template or CronWorkflow that hold the label; those that the shipped policy refuses anew."""
    for path, part, _ in _found(live):
        yield f"{path}.workflowMetadata.{part}"


def ids(live: Manifest) -> Iterator[str | None]:
    """Name the IDs themselves, `None` for one that Argo computes: a Workflow gets them at once or at its first pass."""
    for _, part, value in _found(live):
        if part == "labelsFrom":
            yield None
        else:
            yield "" if value is None else str(value)  # Argo reads null as an empty text


def _found(live: Manifest) -> Iterator[tuple[str, str, Any]]:
    """Find the label by path and part, with what it holds there."""
    spec = live.get("spec")
    for path, holder in (("spec", spec), ("spec.workflowSpec", _inside(spec, "workflowSpec"))):
        metadata = _inside(holder, "workflowMetadata")
        for part in ("labels", "labelsFrom"):
            held = _inside(metadata, part)
            if names.INSTANCE_ID_LABEL in held:
                yield path, part, held[names.INSTANCE_ID_LABEL]


def _inside(value: Any, key: str) -> Mapping[str, Any]:
    # Argo's minimal CRDs let anything through.
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}
