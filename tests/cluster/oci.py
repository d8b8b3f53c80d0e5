"""Layers and image archives that come out byte for byte the same from the same input.

No time of day, no user of this machine, no order of a directory gets in.
"""

import gzip
import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

EPOCH = 0
_CREATED = "1970-01-01T00:00:00Z"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_NAME = "io.containerd.image.name"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One compressed layer on disk, with the digests of both its forms."""

    path: Path
    digest: str
    diff_id: str

    def describe(self) -> dict[str, str]:
        """Return what a cache keeps beside the file."""
        return {"digest": self.digest, "diff_id": self.diff_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One member of a layer: a file's bytes, a folder, or a symlink."""

    name: str
    data: bytes | None = None
    link: str | None = None
    mode: int = 0o755


def tar_of(entries: Iterable[Entry]) -> bytes:
    """Return a tar of a few entries, in the order given."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in entries:
            info = tarfile.TarInfo(entry.name)
            info.mode, info.mtime = entry.mode, EPOCH
            if entry.link is not None:
                info.type, info.linkname = tarfile.SYMTYPE, entry.link
                tar.addfile(info)
            elif entry.data is None:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            else:
                info.size = len(entry.data)
                tar.addfile(info, io.BytesIO(entry.data))
    return buffer.getvalue()


def layer_of_tree(root: Path, path: Path, *, prefix: str = "", keep_owner: bool = False) -> Layer:
    """Write a folder as a compressed layer; its content appears under `prefix` in the image.

    Owners become root unless `keep_owner`; sockets and devices are left out, since a runtime makes its own.
    """
    raw = hashlib.sha256()
    with path.open("wb") as out:
        packed = _Hashing(out)
        with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=6, mtime=EPOCH) as zipped:
            plain = _Hashing(zipped, raw)
            with tarfile.open(fileobj=cast(IO[bytes], plain), mode="w", format=tarfile.PAX_FORMAT) as tar:
                for parent in _parents(prefix):
                    info = tarfile.TarInfo(parent)
                    info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o755, EPOCH
                    tar.addfile(info)
                for entry in sorted(root.rglob("*")):
                    _add(tar, root, entry, prefix, keep_owner)
    return Layer(path=path, digest=f"sha256:{packed.digest.hexdigest()}", diff_id=f"sha256:{raw.hexdigest()}")


def _add(tar: tarfile.TarFile, root: Path, entry: Path, prefix: str, keep_owner: bool) -> None:
    name = "/".join(part for part in (prefix, str(entry.relative_to(root))) if part)
    info = tar.gettarinfo(entry, name)
    if info is None or info.isdev():
        return
    info.mtime, info.uname, info.gname = EPOCH, "", ""
    if not keep_owner:
        info.uid = info.gid = 0
    if info.islnk():
        # Which of two names is the file and which the link depends on what was read first: not here,
        # where names are sorted.
        tar.addfile(info)
    elif info.isreg():
        with entry.open("rb") as file:
            tar.addfile(info, file)
    else:
        tar.addfile(info)


def _parents(prefix: str) -> Iterator[str]:
    parts = [part for part in prefix.split("/") if part]
    for count in range(1, len(parts) + 1):
        yield "/".join(parts[:count])


def oci_archive(path: Path, *, reference: str, layers: list[Layer], config: dict[str, object]) -> str:
    """Write an OCI image layout as a tar that `ctr images import` and `skopeo` accept; return the digest."""
    image = {
        "created": _CREATED,
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [{"created": _CREATED, "created_by": "metaoperator"} for _ in layers],
    }
    config_blob = _json(image)
    manifest_blob = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, config_blob),
            "layers": [
                {"mediaType": _LAYER, "digest": layer.digest, "size": layer.path.stat().st_size} for layer in layers
            ],
        }
    )
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [
            {
                **_descriptor(_MANIFEST, manifest_blob),
                "platform": {"architecture": "amd64", "os": "linux"},
                # The first is what the standard says, the second the name that containerd gives the image.
                "annotations": {
                    "org.opencontainers.image.ref.name": reference,
                    _NAME: reference,
                },
            }
        ],
    }
    with tarfile.open(path, mode="w", format=tarfile.PAX_FORMAT) as tar:
        _put(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _put(tar, "index.json", _json(index))
        for blob in (config_blob, manifest_blob):
            _put(tar, _blob_name(_sha256(blob)), blob)
        for layer in sorted(layers, key=lambda layer: layer.digest):
            info = tarfile.TarInfo(_blob_name(layer.digest))
            info.size, info.mode, info.mtime = layer.path.stat().st_size, 0o644, EPOCH
            with layer.path.open("rb") as file:
                tar.addfile(info, file)
    return _sha256(manifest_blob)


def with_files(archive: Path, path: Path, *, reference: str, entries: Iterable[Entry]) -> None:
    """Write an OCI archive's image anew, under another name, with one layer more that lays files over it."""
    with tarfile.open(archive) as tar, tempfile.TemporaryDirectory(prefix="metaoperator-image-") as scratch:
        (described,) = json.loads(_member(tar, "index.json"))["manifests"]
        image = json.loads(_member(tar, _blob_name(described["digest"])))
        content = json.loads(_member(tar, _blob_name(image["config"]["digest"])))
        layers = []
        for number, (each, diff_id) in enumerate(zip(image["layers"], content["rootfs"]["diff_ids"], strict=True)):
            blob = Path(scratch, str(number))
            blob.write_bytes(_member(tar, _blob_name(each["digest"])))
            layers.append(Layer(path=blob, digest=each["digest"], diff_id=diff_id))
        plain = tar_of(entries)
        packed = gzip.compress(plain, mtime=EPOCH)
        over = Path(scratch, "over")
        over.write_bytes(packed)
        layers.append(Layer(path=over, digest=_sha256(packed), diff_id=_sha256(plain)))
        oci_archive(path, reference=reference, layers=layers, config=content["config"])


def docker_archive(path: Path, *, reference: str, layer: bytes, config: dict[str, object]) -> None:
    """Write an image of one uncompressed layer, the form that imports fastest."""
    image = {
        "created": _CREATED,
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [_sha256(layer)]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": ["layer.tar"]}]
    with tarfile.open(path, mode="w", format=tarfile.PAX_FORMAT) as tar:
        _put(tar, "config.json", _json(image))
        _put(tar, "layer.tar", layer)
        _put(tar, "manifest.json", _json(manifest))


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    found = tar.extractfile(name)
    assert found is not None, f"{name} is no file"
    return found.read()


def names(archive: Path) -> list[str]:
    """Return the names that an OCI or docker archive gives to its images."""
    with tarfile.open(archive) as tar:
        members = set(tar.getnames())
        if "index.json" in members:
            manifests = json.loads(_member(tar, "index.json"))["manifests"]
            marks = [manifest.get("annotations", {}) for manifest in manifests]
            return [mark[_NAME] for mark in marks if _NAME in mark]
        return [tag for image in json.loads(_member(tar, "manifest.json")) for tag in image["RepoTags"] or ()]


class _Hashing:
    """A file to write to that hashes what passes."""

    def __init__(self, out: io.BufferedIOBase | gzip.GzipFile, digest: "hashlib._Hash | None" = None) -> None:
        self._out = out
        self._written = 0
        self.digest = digest or hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self._written += len(data)
        self._out.write(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        self._out.flush()


def _put(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), 0o644, EPOCH
    tar.addfile(info, io.BytesIO(data))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _sha256(blob), "size": len(blob)}


def _blob_name(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")
