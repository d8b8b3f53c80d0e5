"""How the content of a record is kept: canonical JSON, compressed, as text in an object that never changes."""

import base64
import binascii
import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from metaoperator.core.errors import Problem, TemplateError

KEY: Final = "gzip"
MAX_COMPRESSED: Final = 900 * 1024
"""As base64 and with its metadata, an object of that size is within the 1.5 MiB that etcd takes."""
MAX_CONTENT: Final = 64 * 2**20
"""What compresses better than this is refused before it is written, and never unpacked."""
_GZIP: Final = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """Content as it is kept: `data` of a ControllerRevision, and a digest that changes with it."""

    data: Mapping[str, str]
    digest: str


def pack(content: Mapping[str, Any], *, where: str, cure: str) -> Packed:
    """Write content down; `TemplateError`, with the place and the cure given, for what is too large to be kept.

    Equal content has one digest, whichever version of the compressor made its bytes.
    """
    try:
        text = _text(content)
    except (TypeError, ValueError, RecursionError) as exc:
        raise TemplateError([Problem(where=where, what=f"cannot be recorded: {exc}", cure=cure)]) from exc
    if len(text) > MAX_CONTENT:
        what = f"its record would hold {len(text)} bytes, over the limit of {MAX_CONTENT}"
        raise TemplateError([Problem(where=where, what=what, cure=cure)])
    body = gzip.compress(text, mtime=0)
    if len(body) > MAX_COMPRESSED:
        what = f"its record would be {len(body)} bytes long, compressed, over the limit of {MAX_COMPRESSED}"
        raise TemplateError([Problem(where=where, what=what, cure=cure)])
    return Packed(data={KEY: base64.b64encode(body).decode()}, digest=_digest(text))


def unpack(data: Any) -> tuple[Mapping[str, Any] | None, str]:
    """Read `data` of a ControllerRevision; `None`, and why, for what nobody packed or what was damaged since."""
    text, why = _inflated(data)
    if text is None:
        return None, why
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as exc:
        return None, f"its data holds no JSON that can be read: {exc}"
    return (found, "") if isinstance(found, dict) else (None, "its data holds no object")


def same(data: Any, packed: Packed) -> bool:
    """Tell whether `data` of a ControllerRevision holds what was packed, and all of it."""
    text, _ = _inflated(data)
    return text is not None and _digest(text) == packed.digest


def _inflated(data: Any) -> tuple[bytes | None, str]:
    text = data.get(KEY) if isinstance(data, Mapping) else None
    if not isinstance(text, str) or not text.isascii():
        return None, f"its data holds no base64 under {KEY!r}"
    stream = zlib.decompressobj(_GZIP)
    try:
        content = stream.decompress(base64.b64decode(text, validate=True), MAX_CONTENT + 1)
    except (binascii.Error, zlib.error) as exc:
        return None, f"its data is damaged: {exc}"
    if len(content) > MAX_CONTENT:
        return None, f"its data unpacks to more than {MAX_CONTENT} bytes"
    return (content, "") if stream.eof else (None, "its data is damaged: it ends too early")


def _text(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:10]
