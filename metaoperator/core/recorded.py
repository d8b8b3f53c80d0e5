"""What a record holds: for each namespace what it was given, for each set its files and the fleet's values."""

from collections.abc import Mapping
from typing import Any

from metaoperator.core import packing, revision, shapes
from metaoperator.core.model import Desired, Manifest
from metaoperator.core.packing import Packed
from metaoperator.core.revision import Head, Inputs, Record, SetHead

SetParts = tuple[str, Mapping[str, str], Mapping[str, Any]]
"""A set's name, its files, and the fleet's values."""


def namespace_content(namespace: str, inputs: Inputs, spec: Mapping[str, Any], desired: Desired) -> Packed:
    """Pack what a namespace is given; `TemplateError` for what is too large to be recorded."""
    content = {
        "inputs": {
            "labels": dict(inputs.labels),
            "annotations": dict(inputs.annotations),
            "values": inputs.values,
            "instanceID": inputs.instance_id,
            "template": inputs.template,
        },
        "spec": spec,
        "documents": list(desired.documents),
    }
    cure = (
        "let the template set render less, or say less in the values: what is rendered is kept for repair and rollback"
    )
    return packing.pack(content, where=f"namespace {namespace}", cure=cure)


def set_content(name: str, files: Mapping[str, str], values: Mapping[str, Any]) -> Packed:
    """Pack a template set with the fleet's values; `TemplateError` for one that is too large to be recorded."""
    cure = "make it smaller, or make two sets of it: each revision of a set is kept for rollback"
    return packing.pack({"set": name, "files": dict(files), "values": values}, where=name, cure=cure)


def record(head: Head, data: Any) -> tuple[Record | None, str]:
    """Read the content of a namespace's record; `None`, and a sentence, for what cannot be used."""

    def read() -> Record:
        content = _unpacked(data)
        inputs = shapes.mapping(content, "inputs")
        return Record(
            head=head,
            inputs=Inputs(
                labels=shapes.texts(inputs, "labels"),
                annotations=shapes.texts(inputs, "annotations"),
                values=shapes.mapping(inputs, "values"),
                instance_id=shapes.text(inputs, "instanceID"),
                template=shapes.text(inputs, "template"),
            ),
            spec=shapes.mapping(content, "spec"),
            documents=_documents(content.get("documents")),
        )

    return revision.told(head.name, read)


def set_parts(head: SetHead, data: Any) -> tuple[SetParts | None, str]:
    """Read the content of a set's record: its name, its files and the fleet's values; `None`, and a sentence, else."""

    def read() -> SetParts:
        content = _unpacked(data)
        return shapes.text(content, "set"), shapes.texts(content, "files"), shapes.mapping(content, "values")

    return revision.told(head.name, read)


def _unpacked(data: Any) -> Mapping[str, Any]:
    content, why = packing.unpack(data)
    if content is None:
        raise ValueError(why)
    return content


def _documents(found: Any) -> tuple[Manifest, ...]:
    if not isinstance(found, list):
        raise ValueError("documents is no list")  # noqa: TRY004 - told like every other fault
    for each in found:
        if not isinstance(each, Mapping):
            raise ValueError("one of its documents is no object")  # noqa: TRY004
        for part, key in ((each, "apiVersion"), (each, "kind"), (shapes.mapping(each, "metadata"), "name")):
            shapes.text(part, key)
    return tuple(found)
