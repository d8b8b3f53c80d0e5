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


def _inside(value: Any, key: str) -> Mapping[str, Any]:
    # Argo's minimal CRDs let anything through.
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}
