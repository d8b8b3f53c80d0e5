"""Instance IDs that an object would give its Workflows by `workflowMetadata`, after their pods exist."""

from collections.abc import Iterator, Mapping
from typing import Any

from metaoperator.core import names
from metaoperator.core.model import Manifest


def places(live: Manifest) -> Iterator[str]:
    """Name the fields of a template or CronWorkflow that hold the label; those that the shipped policy refuses anew."""
    spec = live.get("spec")
    for path, holder in (("spec", spec), ("spec.workflowSpec", _inside(spec, "workflowSpec"))):
        metadata = _inside(holder, "workflowMetadata")
        for part in ("labels", "labelsFrom"):
            if names.INSTANCE_ID_LABEL in _inside(metadata, part):
                yield f"{path}.workflowMetadata.{part}"


def ids(live: Manifest) -> Iterator[str | None]:
    """Name the IDs themselves, `None` for one that Argo computes: a Workflow gets them at once or at its first pass."""
    spec = live.get("spec")
    for holder in (spec, _inside(spec, "workflowSpec")):
        metadata = _inside(holder, "workflowMetadata")
        labels = _inside(metadata, "labels")
        if names.INSTANCE_ID_LABEL in labels:
            found = labels[names.INSTANCE_ID_LABEL]
            yield "" if found is None else str(found)  # Argo reads null as an empty text
        if names.INSTANCE_ID_LABEL in _inside(metadata, "labelsFrom"):
            yield None


def _inside(value: Any, key: str) -> Mapping[str, Any]:
    # Argo's minimal CRDs let anything through.
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}
