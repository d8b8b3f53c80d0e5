"""What a request asks for: the URL and the headers, read once."""

import json
from dataclasses import dataclass
from typing import Any

import yaml
from aiohttp import web

from . import problems
from .audit import Entry
from .kinds import Kind, Registry
from .views import View

APPLY_PATCH, MERGE_PATCH = "application/apply-patch+yaml", "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
_SUBRESOURCES = ("", "status")


@dataclass(slots=True, kw_only=True)
class ApiRequest:
    """One request for objects of one kind."""

    kind: Kind
    namespace: str | None
    name: str | None
    sub: str
    verb: str
    query: dict[str, str]
    view: View
    manager: str
    body: Any

    @property
    def dry_run(self) -> bool:
        """Tell whether nothing may change."""
        return self.query.get("dryRun") == "All" or (
            self.verb == "delete" and (self.body or {}).get("dryRun") == ["All"]
        )

    def entry(self, user_agent: str, accept: str) -> Entry:
        """Start the record of this request."""
        return Entry(
            verb=self.verb,
            resource=self.kind.plural,
            subresource=self.sub,
            namespace=self.namespace,
            name=self.name or ((self.body or {}).get("metadata") or {}).get("name"),
            user_agent=user_agent,
            query=self.query,
            accept=accept,
            body=self.body,
            dry_run=self.dry_run,
        )


async def read(request: web.BaseRequest, registry: Registry) -> ApiRequest:
    """Read a request, or raise the error that it deserves."""
    kind, namespace, name, sub = _locate(request.path, registry)
    query = dict(request.query)
    accept = request.headers.get("Accept", "")
    agent = request.headers.get("User-Agent", "")
    verb = _verb(request, name, query)
    if sub not in _SUBRESOURCES or (sub == "status" and not kind.status):
        raise problems.no_such_resource()
    return ApiRequest(
        kind=kind,
        namespace=namespace,
        name=name,
        sub=sub,
        verb=verb,
        query=query,
        view=View(kind, metadata_only="as=PartialObjectMetadata" in accept),
        manager=query.get("fieldManager") or agent.partition("/")[0],
        body=_parse(await request.content.read(), verb),
    )


def _locate(path: str, registry: Registry) -> tuple[Kind, str | None, str | None, str]:
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise problems.no_such_group()
    namespace = None
    # `namespaces/x/pods` is inside a namespace, `namespaces/x/status` is the namespace itself.
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    kind = registry.at(group, version, rest[0])
    if kind is None and not any((each.group, each.version) == (group, version) for each in registry):
        raise problems.no_such_group()
    if kind is None or (namespace is not None and not kind.namespaced):
        raise problems.no_such_resource()
    name = rest[1] if len(rest) > 1 else None
    if kind.namespaced and name and namespace is None:
        raise problems.no_such_resource()
    return kind, namespace, name, "/".join(rest[2:])


def _verb(request: web.BaseRequest, name: str | None, query: dict[str, str]) -> str:
    method = request.method
    if method == "GET":
        if query.get("watch") in ("true", "1", "True"):
            return "watch"
        return "get" if name else "list"
    if method == "POST" and not name:
        return "create"
    if method == "PUT" and name:
        return "update"
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    if method == "PATCH" and name:
        content_type = request.headers.get("Content-Type", "").partition(";")[0].strip()
        if content_type == APPLY_PATCH:
            if not query.get("fieldManager"):
                raise problems.ApiError(
                    422,
                    "Invalid",
                    'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
                )
            return "apply"
        if content_type in (MERGE_PATCH, JSON_PATCH):
            return "patch"
        raise problems.unsupported(content_type)
    raise problems.ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def _parse(raw: bytes, verb: str) -> Any:
    if not raw:
        if verb in ("create", "update", "patch", "apply"):
            raise problems.bad_request("the body of the request is empty")
        return None
    if len(raw) > 3 * 1024 * 1024:
        raise problems.ApiError(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
    try:
        body = json.loads(raw) if raw.lstrip()[:1] in (b"{", b"[") else yaml.safe_load(raw)
    except (ValueError, yaml.YAMLError) as exc:
        raise problems.bad_request(f"error parsing the body of the request: {exc}") from exc
    if not isinstance(body, dict) and (verb != "patch" or not isinstance(body, list)):
        raise problems.bad_request("the body of the request is not an object")
    return body
