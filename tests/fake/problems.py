"""What goes wrong, as the Status objects that a real API server answers with."""

from .kinds import Kind, Manifest


class ApiError(Exception):
    """An answer other than success: the HTTP code and the Status body."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Manifest | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.plain = False  # the body is the message alone
        self.body: Manifest = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": details or {},
            "code": code,
        }
        if retry_after is not None:
            self.body["details"]["retryAfterSeconds"] = retry_after


def _details(kind: Kind, name: str, **more: object) -> Manifest:
    group = {"group": kind.group} if kind.group else {}
    return {"name": name, **group, "kind": kind.plural, **more}


def no_such_group() -> ApiError:
    """Answer for a group or version that is not served: plain text, as the real server's."""
    error = ApiError(404, "NotFound", "404 page not found")
    error.plain = True
    return error


def no_such_resource() -> ApiError:
    """Answer for a kind or subresource that its group does not serve; clients read it as `the CRD is not there`."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def not_found(kind: Kind, name: str) -> ApiError:
    """Answer for an object that is not there."""
    return ApiError(404, "NotFound", f'{kind.resource} "{name}" not found', details=_details(kind, name))


def already_exists(kind: Kind, name: str) -> ApiError:
    """Answer for a create of what exists."""
    return ApiError(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', details=_details(kind, name))


def conflict(kind: Kind, name: str, why: str) -> ApiError:
    """Answer for a precondition that does not hold."""
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return ApiError(409, "Conflict", message, details=_details(kind, name))


def wrong_uid(kind: Kind, name: str, asked: str, have: str) -> ApiError:
    """Answer for a PUT that names another object's uid."""
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{kind.plural}/{name}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {asked}, UID in object meta: {have}"
    )
    return conflict(kind, name, why)


def delete_refused(kind: Kind, name: str, label: str, asked: str, have: str) -> ApiError:
    """Answer for a delete whose precondition does not hold; it names the kind where others name the resource."""
    fate = "deleted and then recreated" if label == "UID" else "modified"
    message = (
        f'Operation cannot be fulfilled on {kind.kind} "{name}": the {label} in the precondition ({asked}) does not '
        f"match the {label} in record ({have}). The object might have been {fate}"
    )
    return ApiError(409, "Conflict", message, details={**_details(kind, name), "kind": kind.kind})


def from_the_future(version: int, current: int) -> ApiError:
    """Answer for a list at a version that does not exist yet."""
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return ApiError(504, "Timeout", message, details={"causes": causes}, retry_after=1)


def stale(kind: Kind, name: str) -> ApiError:
    """Answer for a write that was based on an older resourceVersion."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def bad_request(message: str) -> ApiError:
    """Answer for a request that cannot be understood."""
    return ApiError(400, "BadRequest", message)


def invalid(kind: Kind, name: str, field: str, why: str) -> ApiError:
    """Answer for an object that breaks a rule of its kind."""
    subject = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = _details(kind, name, causes=[{"reason": "FieldValueInvalid", "message": why, "field": field}])
    return ApiError(
        422, "Invalid", f'{subject} "{name}" is invalid: {field}: {why}', details={**details, "kind": kind.kind}
    )


def required(kind: Kind, name: str, fields: list[str], why: str = "") -> ApiError:
    """Answer for an object that lacks what its kind cannot be without."""
    subject = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    why = f"Required value: {why}" if why else "Required value"
    causes = [{"reason": "FieldValueRequired", "message": why, "field": field} for field in fields]
    message = f'{subject} "{name}" is invalid: ' + ", ".join(f"{field}: {why}" for field in fields)
    return ApiError(422, "Invalid", message, details={**_details(kind, name, causes=causes), "kind": kind.kind})


def terminating(kind: Kind, name: str, namespace: str) -> ApiError:
    """Answer for a create in a namespace that is being deleted."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    message = f'{kind.resource} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, details=_details(kind, name, causes=[cause]))


def forbidden(kind: Kind, name: str | None, why: str) -> ApiError:
    """Answer for what somebody may not do, or what a plugin of the admission refuses."""
    subject = f'{kind.resource} "{name}"' if name else kind.resource
    details = _details(kind, name) if name else {"kind": kind.plural, **({"group": kind.group} if kind.group else {})}
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {why}", details=details)


def expired(message: str) -> ApiError:
    """Answer for a resourceVersion or continue token from before the history begins."""
    return ApiError(410, "Expired", message)


def unauthorized() -> ApiError:
    """Answer for a token that is not, or no longer, accepted."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def unsupported(content_type: str) -> ApiError:
    """Answer for a patch type that is not spoken here."""
    return ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {content_type}")


def field_conflicts(owners: list[tuple[str, list[str]]]) -> ApiError:
    """Answer for a server-side apply that would change fields of other managers, named as the server names them."""
    count = sum(len(fields) for _, fields in owners)
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": field}
        for owner, fields in owners
        for field in fields
    ]
    if count == 1:
        text = f"Apply failed with 1 conflict: conflict with {owners[0][0]}: {owners[0][1][0]}"
    else:
        lines = []
        for owner, fields in owners:
            lines += [f"conflicts with {owner}:", *(f"- {field}" for field in fields)]
        text = f"Apply failed with {count} conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", text, details={"causes": causes})
