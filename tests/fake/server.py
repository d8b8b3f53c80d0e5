"""The HTTP side: one handler for all paths, and the handles that a test holds."""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from . import kinds, problems, requests, selectors
from .admission import Admission
from .audit import Audit
from .collector import Collector
from .definitions import Definitions, stand_ins
from .faults import Faults
from .history import History, place
from .kinds import Kind, Manifest
from .rbac import Authorizer
from .requests import ApiRequest
from .store import Store
from .values import clone, timestamp, utc_now
from .views import Lister
from .watching import Watch

TEST = "test"  # the field manager of what a test does directly
_VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3",
    "gitCommit": "fake",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "python",
    "compiler": "none",
    "platform": "linux/amd64",
}


class FakeApiServer:
    """An API server on a free port of 127.0.0.1, with its store, faults and audit record at hand."""

    def __init__(
        self,
        *,
        window: int = 10_000,
        bookmark_every: float = 60.0,
        namespaces: tuple[str, ...] = ("default",),
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.registry = kinds.Registry()
        self.history = History(window)
        self.now = now  # what every timestamp says
        self.store = Store(self.registry, self.history, lambda: timestamp(now()))
        self.store.admit = Admission(self.store).create
        self.faults = Faults()
        self.history.drops = self.faults.drops
        self.audit = Audit()
        self.tokens: set[str] | None = None  # the accepted bearer tokens; `None` accepts everybody
        self.users: dict[str, str] = {}  # who a bearer token is; who is held to the roles in the store
        self.authorizer = Authorizer(self.store)
        self.bookmark_every = bookmark_every
        self.withdrawn = False  # whether any kind ever was
        self.url = ""
        self.definitions = Definitions(self.store)
        self.collector = Collector(self.store)
        self._lister = Lister(self.store, self.history)
        self._tasks: list[asyncio.Task[None]] = []
        for each in stand_ins():
            self.create(each)
        for name in namespaces:
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def __aenter__(self) -> Self:
        # A client that hangs up ends its watch at once, instead of at the next write.
        server = web.Server(self._handle, handler_cancellation=True)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = "http://{}:{}".format(*self._runner.addresses[0][:2])
        self._tasks.append(asyncio.create_task(self.collector.run(), name="fake-collector"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.faults.clear()
        self.cut_watches()
        await self._runner.cleanup()

    # For tests: objects

    def create(self, obj: Manifest, *, manager: str = TEST) -> Manifest:
        """Create an object directly; its namespace must be there."""
        kind = self.registry.named(obj["kind"], obj.get("apiVersion"))
        return clone(self.store.create(kind, obj["metadata"].get("namespace"), obj, manager=manager))

    def get(self, kind: str, namespace: str | None, name: str) -> Manifest | None:
        """Return an object, or `None`."""
        return clone(self.store.find(self.registry.named(kind), namespace, name))

    def select(self, kind: str, namespace: str | None = None, labels: str | None = None) -> list[Manifest]:
        """Return the objects of a kind."""
        return clone(self.store.select(self.registry.named(kind), namespace, selectors.labels(labels)))

    def patch(
        self, kind: str, namespace: str | None, name: str, patch: Manifest, *, sub: str = "", manager: str = TEST
    ) -> Manifest:
        """Change an object by a merge patch."""
        return clone(self.store.merge(self.registry.named(kind), namespace, name, patch, manager=manager, sub=sub))

    def delete(self, kind: str, namespace: str | None, name: str, **options: Any) -> None:
        """Delete an object; options are those of the API, such as `propagationPolicy`."""
        self.store.delete(self.registry.named(kind), namespace, name, options)

    def write_kubeconfig(self, path: Path, token: str) -> str:
        """Write a kubeconfig for clients that want a file, and return its path."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "test"}}],
            "current-context": "fake",
        }
        path.write_text(json.dumps(config))
        return str(path)

    def define(self, definition: Manifest) -> None:
        """Serve a custom kind, or serve it in another way, by its CustomResourceDefinition."""
        kind = self.registry.named("CustomResourceDefinition")
        name = definition["metadata"]["name"]
        if live := self.store.find(kind, None, name):
            version = live["metadata"]["resourceVersion"]
            metadata = {**definition["metadata"], "resourceVersion": version}
            self.store.replace(kind, None, name, {**definition, "metadata": metadata}, manager=TEST)
        else:
            self.create(definition)

    def withdraw(self, kind: str) -> Manifest:
        """Delete the definition of a custom kind, and all its objects; `define` takes it back."""
        name = self.registry.named(kind).resource
        definition = self.get("CustomResourceDefinition", None, name)
        if definition is None:
            raise LookupError(f"{kind} is not a custom kind")
        self.delete("CustomResourceDefinition", None, name)
        self.withdrawn = True
        for field in ("resourceVersion", "uid", "generation", "managedFields"):
            definition["metadata"].pop(field, None)
        return definition

    # For tests: watches

    def compact(self) -> None:
        """Forget the history: who watches from before, or continues a list, gets a 410."""
        self.history.compact()

    def cut_watches(self, kind: str | None = None) -> int:
        """Break the open watches, of one kind or of all, and say how many there were."""
        watches = self._watches(kind)
        for each in watches:
            each.end()
        return len(watches)

    def fail_watches(
        self, code: int = 500, *, kind: str | None = None, message: str = "etcdserver: leader changed"
    ) -> int:
        """End the open watches with an ERROR event; 410 is `Expired`, anything else what the code says."""
        reason = {410: "Expired", 500: "InternalError"}.get(code, "ServiceUnavailable")
        status = problems.ApiError(code, reason, message).body
        watches = self._watches(kind)
        for each in watches:
            each.fail(status)
        return len(watches)

    def _watches(self, kind: str | None) -> list[Any]:
        return self.history.watchers(place(self.registry.named(kind)) if kind else None)

    # HTTP

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            self._authenticate(request)
            if document := self._discovery(request):
                return _json(200, document)
            asked = await requests.read(request, self.registry)
        except problems.ApiError as error:
            return _refusal(error)
        entry = asked.entry(request.headers.get("User-Agent", ""), request.headers.get("Accept", ""))
        self.audit.append(entry)
        faults = self.faults.take(entry)
        try:
            self._authorize(self._user(request), asked)
            for fault in faults:
                await fault.play()
            if any(fault.cut == "before" for fault in faults):
                return _cut(request)
            if asked.verb == "watch":
                entry.code = 200
                watch = Watch(self.store, asked.view, *self._scope(asked), every=self.bookmark_every)
                return await watch.serve(request, _cut)
            before = self.history.version
            code, body = self._answer(asked)
            entry.changed = self.history.version != before
        except problems.ApiError as error:
            entry.code = error.code
            return _refusal(error)
        if any(fault.cut == "after" for fault in faults):
            return _cut(request)
        entry.code = code
        return _json(code, body)

    def _authenticate(self, request: web.BaseRequest) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if self.tokens is not None and token not in self.tokens:
            raise problems.unauthorized()

    def _user(self, request: web.BaseRequest) -> str | None:
        """Name who is held to the roles; `None` may do everything."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        return request.headers.get("Impersonate-User") or self.users.get(token)

    def _authorize(self, user: str | None, asked: ApiRequest) -> None:
        if user is None:
            return
        who, kind, space, name = self.authorizer, asked.kind, asked.namespace, asked.name
        if not name and asked.verb in ("list", "watch", "deletecollection"):
            name = selectors.only_name(asked.query.get("fieldSelector"))
        if kind.kind == "Namespace":
            space = name  # a Namespace counts as inside itself
        who.check(user, kind, asked.verb, space, name, asked.sub)
        if asked.verb == "apply" and not asked.sub and name:
            who.check_creation(user, kind, space, name, self.store.find(kind, asked.namespace, name))
        if asked.verb in ("apply", "create", "update") and not asked.sub:
            who.check_grant(user, kind, space, asked.body)

    def _discovery(self, request: web.BaseRequest) -> Manifest | None:
        path = request.path.rstrip("/")
        if path in ("/healthz", "/readyz", "/livez"):
            return {"status": "ok"}
        if path == "/version":
            return _VERSION
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            return kinds.group_list(self.registry)
        parts = path.strip("/").split("/")
        if (parts[0] == "api" and len(parts) == 2) or (parts[0] == "apis" and len(parts) == 3):
            served = [kind for kind in self.registry if kind.base == path]
            if not served:
                raise problems.no_such_group()
            return kinds.resource_list(served, served[0].api_version)
        if parts[0] == "apis" and len(parts) == 2:
            for group in kinds.group_list(self.registry)["groups"]:
                if group["name"] == parts[1]:
                    return {"kind": "APIGroup", "apiVersion": "v1", **group}
            raise problems.no_such_group()
        return None

    @staticmethod
    def _scope(asked: ApiRequest) -> tuple[str | None, dict[str, str]]:
        # A watch on one name is a list with a field selector.
        if asked.name:
            return asked.namespace, {**asked.query, "fieldSelector": f"metadata.name={asked.name}"}
        return asked.namespace, asked.query

    def _answer(self, asked: ApiRequest) -> tuple[int, Manifest]:
        kind, namespace, name, body = asked.kind, asked.namespace, asked.name or "", asked.body
        how: dict[str, Any] = {"manager": asked.manager, "dry_run": asked.dry_run}
        if asked.verb == "list":
            return 200, self._lister.answer(asked.view, namespace, asked.query)
        if asked.verb == "deletecollection":
            return 200, self._delete_collection(asked)
        if asked.verb == "delete":
            options = {"propagationPolicy": asked.query.get("propagationPolicy"), **(body or {})}
            gone, obj = self.store.delete(kind, namespace, name, options, dry_run=asked.dry_run)
            return 200, _deleted(kind, obj) if gone else obj
        if asked.verb == "get":
            code, obj = 200, self.store.get(kind, namespace, name)
        elif asked.verb == "create" and kind.kind == "SubjectAccessReview":
            code, obj = 201, {**body, "status": {"allowed": self.authorizer.review(body["spec"])}}
        elif asked.verb == "create":
            code, obj = 201, self.store.create(kind, namespace, body, **how)
        elif asked.verb == "update":
            code, obj = self.store.replace(kind, namespace, name, body, sub=asked.sub, **how)
        elif asked.verb == "patch":
            code, obj = 200, self.store.merge(kind, namespace, name, body, sub=asked.sub, **how)
        else:
            force = asked.query.get("force") == "true"
            code, obj = self.store.apply(kind, namespace, name, body, force=force, sub=asked.sub, **how)
        return code, asked.view.one(obj)

    def _delete_collection(self, asked: ApiRequest) -> Manifest:
        predicate = selectors.both(asked.query.get("labelSelector"), asked.query.get("fieldSelector"))
        found = self.store.select(asked.kind, asked.namespace, predicate)
        for obj in found:
            metadata = obj["metadata"]
            self.store.delete(
                asked.kind, metadata.get("namespace"), metadata["name"], asked.body, dry_run=asked.dry_run
            )
        return asked.view.many(found, {"resourceVersion": str(self.history.version)})


def _deleted(kind: Kind, obj: Manifest) -> Manifest:
    details = {"name": obj["metadata"]["name"], "kind": kind.plural, "uid": obj["metadata"]["uid"]}
    if kind.group:
        details["group"] = kind.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _json(code: int, body: Manifest) -> web.Response:
    return web.Response(
        status=code, body=json.dumps(body, separators=(",", ":")).encode(), content_type="application/json"
    )


def _refusal(error: problems.ApiError) -> web.Response:
    if error.plain:
        return web.Response(status=error.code, text=f"{error}\n")
    response = _json(error.code, error.body)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _cut(request: web.BaseRequest) -> web.Response:
    """Break the connection; what is returned can no longer be sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
