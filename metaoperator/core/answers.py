"""What an API server answers with 400 and above → our error tree. Pure: code, body and header in, an error out."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from metaoperator.core import names, paths
from metaoperator.core.errors import (
    Conflict,
    Expired,
    Fenced,
    Forbidden,
    Gone,
    Invalid,
    OverQuota,
    Rejected,
    RetryableError,
    Throttled,
    Unauthorized,
)

# Kubernetes tells these apart in no other way than by its sentences (tests/contract/test_refusals.py). Anchored to what
# the API server itself writes before them: a webhook may say anything in its own words.
_QUOTA: Final = re.compile(r"^[^:]* is forbidden: (exceeded|failed|insufficient|status unknown for) quota\b")
_PERMISSION: Final = re.compile(
    r'^[^:]* is forbidden: (User ".*" cannot [a-z]+ (resource|path) |user ".*" \(groups=.*\) is attempting to grant )',
    re.DOTALL,
)
_FENCE: Final = re.compile(r"^[^:]* is forbidden: ValidatingAdmissionPolicy '([^']*)' ")
_SENTENCE: Final = re.compile(r"^[^:]* is forbidden: ")
_MISFIT: Final = "failed to create typed patch object"
_TOO_LARGE: Final = re.compile(r"etcdserver: request is too large|trying to send message larger than max")
"""Both are answered with 500, and stay as they are however often they are tried."""


def status(body: bytes) -> Mapping[str, Any]:
    """Read the Status that came with an error; what is not one becomes its message."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {"message": body.decode(errors="replace").strip()[:500]}
    return found if isinstance(found, dict) else {}


def error(code: int, status: Mapping[str, Any], what: str, retry_after: str | None) -> Exception:
    """Translate an answer of 400 and above into our error tree."""
    details = paths.mapping(status, "details")
    message = f"{what}: {status.get('message') or f'HTTP {code}'}"
    listed = details.get("causes")
    causes = [paths.mapping(cause).get("reason") for cause in (listed if isinstance(listed, list) else ())]
    wanted = details.get("retryAfterSeconds")
    after = wanted if isinstance(wanted, int) and wanted else retry_after if (retry_after or "").isdecimal() else None
    if code == 401:
        return Unauthorized(message)
    if code == 404:
        return Gone(message, kind_missing=not details.get("name"))
    if code == 409:
        return Conflict(message)
    if code == 410:
        return Expired(message)
    if code == 403 and "NamespaceTerminating" in causes:
        return Gone(message)
    if code == 429 or (code >= 500 and after):
        return Throttled(message, after=float(after or 1))
    if code == 500 or 400 <= code < 500:
        told = str(status.get("message") or message)
        refusal = _fenced(code, told) or _refusal(code, told, message)
        # Kubernetes' own sentence says what was asked; a proxy's words do not.
        foreign = type(refusal) is Rejected and "kind" not in status and not _SENTENCE.match(told)
        return Rejected(message) if foreign else refusal
    return RetryableError(message)


def _fenced(code: int, told: str) -> Exception | None:
    """Recognise our own fences; those that judge the object itself are refusals like any other."""
    # 422 is what a policy answers that stumbled: it fails closed, and is no judgement of the object.
    fence = _FENCE.match(told) if code in {403, 422} else None
    if fence is not None and fence[1] in names.FENCES_BY_PLACE:
        return Fenced(told)
    if fence is not None and fence[1] in names.FENCES_BY_PERSON:
        return Forbidden(told)
    return None


def _refusal(code: int, told: str, message: str) -> Exception:
    """Tell refusals apart, in the API server's own sentence: it names the object and the reason for people."""
    if code == 500:
        if told.startswith(_MISFIT):
            return Invalid(told)
        if _TOO_LARGE.search(told):
            return Rejected(f"{told}: the object is larger than the API server can store")
        return RetryableError(message)
    if code == 422:
        return Invalid(told)
    if code == 403 and _QUOTA.search(told):
        return OverQuota(told)
    if code == 403 and _PERMISSION.search(told):
        return Forbidden(told)
    return Rejected(told)
