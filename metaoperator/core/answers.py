"""What an API server answers with 400 and above → our error tree. Pure: code, body and header in, an error out."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from metaoperator.core.errors import (
    Conflict,
    Expired,
    Gone,
    Invalid,
    Rejected,
    RetryableError,
    Throttled,
    Unauthorized,
)

_LACKS_RIGHTS: Final = re.compile(r'User "[^"]*" cannot |is attempting to grant RBAC permissions not currently held')


def status(body: bytes) -> Mapping[str, Any]:
    """Read the Status that came with an error; what is not one becomes its message."""
    try:
        found = json.loads(body)
    except ValueError:
        return {"message": body.decode(errors="replace").strip()[:500]}
    return found if isinstance(found, dict) else {}


def error(code: int, status: Mapping[str, Any], what: str, retry_after: str | None) -> Exception:
    """Translate an answer of 400 and above into our error tree."""
    details = status.get("details") or {}
    message = f"{what}: {status.get('message') or f'HTTP {code}'}"
    causes = {cause.get("reason") for cause in details.get("causes") or ()}
    after = details.get("retryAfterSeconds") or (retry_after if (retry_after or "").isdigit() else None)
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
    if code == 422:
        return Invalid(status.get("message") or message)
    if 400 <= code < 500:
        # For people: the API server's own sentence names the object and the reason.
        return Rejected(status.get("message") or message)
    return RetryableError(message)


def lacks_rights(message: str) -> bool:
    """Tell whether a refusal is about who asks, and not about what was asked for (quota, Pod Security, a policy)."""
    return _LACKS_RIGHTS.search(message) is not None
