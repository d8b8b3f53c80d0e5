"""The only module that speaks to Kubernetes. Client errors leave it as ours, bodies stay plain mappings.

`kubernetes.aio` brings configuration, authentication, TLS and pooling; the requests themselves are raw, because its
typed models cost four to six times the CPU (decision 0002).
"""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config

from metaoperator import __version__
from metaoperator.core import answers, names, rules
from metaoperator.core.errors import ConfigError, Conflict, Gone, RetryableError, Unauthorized
from metaoperator.core.model import CRD, Kind, Manifest, Ref
from metaoperator.core.rules import Right
from metaoperator.gate import Gate, shut

_METADATA: Final = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
PAGE: Final = 500
PAGE_BYTES: Final = 16 * 2**20
"""A page that is larger is asked for again with fewer objects: anybody's may be 1.5 MB each, and are read for all."""
_REVIEWS: Final = "/apis/authorization.k8s.io/v1"

RECURSION_LIMIT: Final = 60_000
"""For a process that reads objects: the API server takes values that are nested 10,000 levels deep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a list or watch asks the server for."""

    kind: Kind
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False
    namespace: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (str(self.kind), self.namespace, self.label_selector, self.field_selector)))


@dataclass(frozen=True, slots=True)
class _Resource:
    plural: str
    namespaced: bool


class _Gated(aiohttp.ClientRequest):
    """A request that asks the gate once more when its first byte is about to leave.

    Between the check at the beginning of a write and this moment the event loop turns several times. A process that is
    frozen there would send what it had begun when it wakes, long after another replica took over.
    """

    async def write_bytes(
        self, writer: aiohttp.abc.AbstractStreamWriter, conn: Any, content_length: int | None = None
    ) -> None:
        if shut() and conn.protocol is not None:
            # Headers wait for the body (aiohttp writes both at once): nothing at all was sent.
            conn.protocol.set_exception(aiohttp.ClientConnectionError("the write gate closed before anything was sent"))
            return
        await super().write_bytes(writer, conn, content_length)


class Cluster:
    """One API server, reached with one identity."""

    def __init__(self, *, kubeconfig: str | None, gate: Gate, timeout: float = 20.0) -> None:
        """`kubeconfig` is a path, or `None` for the pod's own ServiceAccount or the usual kubeconfig."""
        self.gate = gate
        self._kubeconfig = kubeconfig
        self._timeout = timeout
        self._api: Any = None
        self._retired: list[Any] = []
        self._renewal = asyncio.Lock()
        self._renewed_at = 0.0
        self._known: dict[str, dict[str, _Resource]] = {}

    async def connect(self) -> None:
        """Read the credentials; `ConfigError` says which are missing."""
        self._api = await self._client()

    async def close(self) -> None:
        """Give the connections back."""
        for api in (*self._retired, self._api):
            if api is not None:
                await api.close()

    async def _client(self) -> Any:
        configuration = kubernetes_client.Configuration()
        try:
            if self._kubeconfig is None and _in_pod():
                kubernetes_config.load_incluster_config(client_configuration=configuration)
            else:
                await kubernetes_config.load_kube_config(
                    config_file=self._kubeconfig, client_configuration=configuration, persist_config=False
                )
            configuration.connection_pool_maxsize = 100
            # Only for a proxy: otherwise each request looks for a ~/.netrc, in a thread, and one that names the host
            # wins over our token.
            proxied = any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy"))
            configuration.client_session_kwargs = {"trust_env": proxied, "request_class": _Gated}
            _check_address(configuration.host)
            return kubernetes_client.ApiClient(configuration)
        except Exception as exc:  # the library lets through whatever a broken kubeconfig makes it stumble over
            why = " ".join(str(exc).split())
            if isinstance(exc, ssl.SSLError):
                why = f"its certificate or key, or that of its authority, cannot be used: {why}"
            elif isinstance(exc, TypeError | AttributeError | LookupError):
                why = f"the kubeconfig is not shaped as one ({why})"
            raise ConfigError(
                f"no access to a cluster: {why}; set KUBECONFIG or --kubeconfig, or run inside a pod"
            ) from exc

    async def credentials(self) -> dict[str, Any]:
        """Hand out host, CA and token or client certificate, for kopf's own connections."""
        configuration = self._api.configuration
        return {
            "server": configuration.host,
            "ca_path": configuration.ssl_ca_cert,
            "insecure": not configuration.verify_ssl,
            "certificate_path": configuration.cert_file,
            "private_key_path": configuration.key_file,
            "token": _bare(await _token(self._api)),
        }

    async def renew_credentials(self) -> None:
        """Read the credentials anew, at most once in five seconds however many ask at a time.

        A new token goes into the client in use, so that nothing under way is cut; a new certificate needs a new one.
        """
        async with self._renewal:
            now = asyncio.get_running_loop().time()
            if now - self._renewed_at < 5:
                return
            self._renewed_at = now
            try:
                fresh, old = await self._client(), self._api
            except ConfigError as exc:
                # At the start this is a mistake. Now it is a file that is being written anew.
                raise Unauthorized(f"the credentials cannot be read: {exc}") from exc
            if _identity(fresh.configuration) == _identity(old.configuration):
                old.configuration.api_key = fresh.configuration.api_key
                old.configuration.refresh_api_key_hook = fresh.configuration.refresh_api_key_hook
                await fresh.close()
            else:
                self._api = fresh
                self._retired.append(old)

    # ---- reading

    async def get(self, ref: Ref) -> Manifest | None:
        """Read one object; `None` when it is not there. A kind that is not there raises `Gone`."""
        try:
            return await self._call("GET", await self._path(ref))
        except Gone as gone:
            if gone.kind_missing:
                raise
            return None

    async def server_version(self) -> Manifest:
        """Read what the API server says of itself."""
        return await self._call("GET", "/version")

    async def may(self, right: Right, *, account: str, account_namespace: str) -> bool:
        """Ask whether a ServiceAccount has a right: a question, of which nothing is stored."""
        asked = rules.review(right, account=account, account_namespace=account_namespace)
        path, kind = f"{_REVIEWS}/subjectaccessreviews", "application/json"
        async with _within(f"POST {path}", self._timeout):
            answer, _ = await self._request("POST", path, {}, asked, kind, kind)
        return bool((answer.get("status") or {}).get("allowed"))

    async def serves(self, kind: Kind) -> bool:
        """Tell whether a kind is served at this version."""
        try:
            await self._resource(kind)
        except Gone:
            return False
        return True

    async def plural(self, kind: Kind) -> str:
        """Name the resource of a kind, as permissions do."""
        return (await self._resource(kind)).plural

    async def list_pages(self, selection: Selection, *, limit: int = PAGE) -> AsyncIterator[Manifest]:
        """List page by page; each page is the List as sent. `Expired` when paging took too long."""
        path = await self._collection(selection)
        accept = _METADATA.format("List") if selection.metadata_only else "application/json"
        token, size = "", limit
        while True:
            query = _query(selection) | {"limit": str(size)} | ({"continue": token} if token else {})
            try:
                most = PAGE_BYTES if size > 1 else 0
                page = await self._call("GET", path, query=query, accept=accept, most=most)
            except _TooMuchError:
                size = max(1, size // 8)
                continue
            size = min(limit, size * 2)
            if "items" not in page:
                raise RetryableError(f"GET {path}: no list came: is {self._api.configuration.host} a Kubernetes API?")
            # An empty list of metadata comes with null in place of [] (seen on v1.36.3).
            yield {**page, "items": page["items"] or []}
            token = page["metadata"].get("continue", "")
            if not token:
                return

    async def watch(
        self, selection: Selection, *, resource_version: str, server_timeout: float, read_timeout: float
    ) -> AsyncIterator[Manifest]:
        """Stream watch events from a resource version on, bookmarks included, until either side ends the stream.

        `Expired` for a version that is too old; `RetryableError` for a cut or silent stream and for ERROR events.
        """
        query = _query(selection) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(int(server_timeout)),
        }
        accept = _METADATA.format("") if selection.metadata_only else "application/json"
        timeout = aiohttp.ClientTimeout(total=None, connect=self._timeout, sock_read=read_timeout)
        try:
            response = await self._send("GET", await self._collection(selection), query, None, accept, timeout)
            try:
                async for line in response.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise answers.error(int(status.get("code") or 500), status, f"watch of {selection}", None)
                    yield event
            finally:
                response.close()
        except (aiohttp.ClientError, TimeoutError, ValueError, LookupError, TypeError, RuntimeError) as exc:
            # RuntimeError: aiohttp's word for a connection that went between two lines.
            raise RetryableError(f"watch of {selection} was cut: {exc or type(exc).__name__}") from exc

    # ---- writing

    async def apply(
        self, manifest: Manifest, *, force: bool, dry_run: bool = False, subresource: str = ""
    ) -> tuple[Manifest, bool]:
        """Apply on the server's side as field manager `metaoperator`; tells the object and whether it was created."""
        path = await self._path(Ref.of(manifest))
        query = {"fieldManager": names.FIELD_MANAGER, "force": str(force).lower()} | _dry(dry_run)
        return await self._write(
            "PATCH", f"{path}/{subresource}" if subresource else path, query, manifest, "application/apply-patch+yaml"
        )

    async def apply_for_person(self, manifest: Manifest) -> Manifest:
        """Apply what a person says, by the person's own rights: never by force, and no leader is asked for."""
        query, kind = {"fieldManager": names.PERSON_MANAGER, "force": "false"}, "application/apply-patch+yaml"
        path = await self._path(Ref.of(manifest))
        return (await self._write("PATCH", path, query, manifest, kind, fenced=False))[0]

    async def apply_status(self, live: Manifest, status: Mapping[str, Any]) -> Manifest:
        """Apply the whole status of one object of ours; the UID keeps it from a successor (`Invalid`)."""
        meta = {key: live["metadata"][key] for key in ("name", "namespace", "uid") if key in live["metadata"]}
        body = {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": meta, "status": status}
        return (await self.apply(body, force=True, subresource="status"))[0]

    async def merge(self, ref: Ref, patch: Manifest, *, metadata_only: bool = False) -> Manifest:
        """Merge a patch into an object; lists are replaced whole. `Conflict` if it carries a UID that is not there.

        With `metadata_only` no more than that is answered: a Workflow may be as large as a request.
        """
        query = {"fieldManager": names.FIELD_MANAGER}
        accept = _METADATA.format("") if metadata_only else "application/json"
        kind = "application/merge-patch+json"
        return (await self._write("PATCH", await self._path(ref), query, patch, kind, accept=accept))[0]

    async def delete(self, ref: Ref, *, uid: str, foreground: bool = False) -> None:
        """Delete the object that has this UID; one that is gone already, or was replaced, is left as it is."""
        body: dict[str, Any] = {"propagationPolicy": "Foreground" if foreground else "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            await self._write("DELETE", await self._path(ref), {}, body, "application/json")
        except (Gone, Conflict):
            return

    async def create(self, manifest: Manifest, *, fenced: bool = True) -> Manifest:
        """Create an object; `Conflict` when the name is taken."""
        query = {"fieldManager": names.FIELD_MANAGER}
        return (await self._write("POST", await self._home(manifest), query, manifest, fenced=fenced))[0]

    async def replace(self, manifest: Manifest, *, fenced: bool = True) -> Manifest:
        """Replace an object at the resource version it carries; `Conflict` when it moved on."""
        path = await self._path(Ref.of(manifest))
        return (await self._write("PUT", path, {"fieldManager": names.FIELD_MANAGER}, manifest, fenced=fenced))[0]

    async def post_event(self, event: Manifest) -> None:
        """Record an Event for people, or raise it to its next count."""
        if "series" not in event:
            await self._write("POST", await self._home(event), {}, event)
            return
        path, body = await self._path(Ref.of(event)), {"series": event["series"]}
        await self._write("PATCH", path, {}, body, "application/merge-patch+json")

    async def _write(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Manifest,
        content_type: str = "application/json",
        *,
        accept: str = "application/json",
        fenced: bool = True,
    ) -> tuple[Manifest, bool]:
        what = f"{method} {path}"
        # The elector's own writes are what opens the gate.
        around = self.gate.writing(what, limit=self._timeout) if fenced else _within(what, self._timeout)
        async with around:
            return await self._request(method, path, query, body, accept, content_type)

    # ---- plumbing

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = "application/json",
        most: int = 0,
    ) -> Manifest:
        async with _within(f"{method} {path}", self._timeout):
            return (await self._request(method, path, query or {}, None, accept, "application/json", most=most))[0]

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Manifest | None,
        accept: str,
        content_type: str,
        *,
        most: int = 0,
    ) -> tuple[Manifest, bool]:
        timeout = aiohttp.ClientTimeout(total=None)
        try:
            response = await self._send(method, path, query, body, accept, timeout, content_type)
            async with response:
                found = _object(await _read(response, most))
                if found is None:
                    raise RetryableError(
                        f"{method} {path}: no object came: is {self._api.configuration.host} a Kubernetes API?"
                    )
                return found, response.status == 201
        except (aiohttp.ClientError, ValueError) as exc:  # ValueError: a host that is no name, a header that is no text
            raise RetryableError(f"{method} {path}: {exc or type(exc).__name__}") from exc

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Manifest | None,
        accept: str,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own kind of timeout, handed through
        content_type: str = "application/json",
    ) -> aiohttp.ClientResponse:
        for renewed in (False, True):
            api = self._api
            headers = {"Accept": accept, "Content-Type": content_type, "User-Agent": f"metaoperator/{__version__}"}
            token = await _token(api)
            if token:
                headers["Authorization"] = f"Bearer {_bare(token)}"
            url = f"{api.configuration.host}{path}" + (f"?{urlencode(query)}" if query else "")
            answer = await api.rest_client.request(method, url, headers=headers, body=body, _request_timeout=timeout)
            response: aiohttp.ClientResponse = answer.response
            if response.status < 400:
                return response
            async with response:
                status = answers.status(await response.read())
            if response.status == 401 and not renewed:
                await self.renew_credentials()
                continue
            raise answers.error(response.status, status, f"{method} {path}", response.headers.get("Retry-After"))
        raise AssertionError("unreachable")

    async def _path(self, ref: Ref) -> str:
        return f"{await self._collection(Selection(kind=ref.kind, namespace=ref.namespace))}/{quote(ref.name)}"

    async def _home(self, manifest: Manifest) -> str:
        kind = Kind(manifest["apiVersion"], manifest["kind"])
        return await self._collection(Selection(kind=kind, namespace=manifest["metadata"].get("namespace", "")))

    async def _collection(self, selection: Selection) -> str:
        resource = await self._resource(selection.kind)
        version = selection.kind.api_version
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if resource.namespaced and selection.namespace:
            base += f"/namespaces/{quote(selection.namespace)}"
        return f"{base}/{resource.plural}"

    async def _resource(self, kind: Kind) -> _Resource:
        """Ask discovery once per group and version; a kind that is not there is asked for again each time."""
        known = self._known.get(kind.api_version, {})
        if kind.kind not in known:
            version = kind.api_version
            try:
                found = await self._call("GET", f"/apis/{version}" if "/" in version else f"/api/{version}")
            except Gone as gone:
                raise Gone(f"the API server knows no {version}", kind_missing=True) from gone
            try:
                known = {
                    item["kind"]: _Resource(item["name"], item["namespaced"])
                    for item in found.get("resources") or ()
                    if "/" not in item["name"]
                }
            except (TypeError, LookupError) as exc:
                host = self._api.configuration.host
                raise RetryableError(f"{version}: no list of kinds came: is {host} a Kubernetes API?") from exc
            self._known[version] = known
        if kind.kind not in known:
            raise Gone(f"the API server knows no {kind}", kind_missing=True)
        return known[kind.kind]


@asynccontextmanager
async def _within(what: str, limit: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(limit):
            yield
    except TimeoutError as exc:
        raise RetryableError(f"{what}: no answer within {limit:.0f} s") from exc


def _in_pod() -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and not os.environ.get("KUBECONFIG")


def _identity(configuration: Any) -> tuple[Any, ...]:
    return configuration.host, configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file


async def _token(api: Any) -> str | None:
    """Ask the client library for the token; inside a pod it reads the file each minute, and trips over a bad one."""
    try:
        token: str | None = await api.configuration.get_api_key_with_prefix("BearerToken")
    except Exception as exc:
        raise Unauthorized(f"the credentials cannot be read: {exc}") from exc
    return token


def _bare(token: str | None) -> str | None:
    # The client library hands tokens out with their scheme, in either case.
    if token and token[:7].lower() == "bearer ":
        token = token[7:]
    if token and not token.isprintable():
        raise Unauthorized("the token of the credentials holds a line break, or another character that none has")
    return token


def _check_address(host: str) -> None:
    try:
        address = urlsplit(host)
        whole = address.scheme in {"http", "https"} and address.hostname and address.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise ConfigError(f"server {host!r} is no address like https://kubernetes.example.com:6443")


class _TooMuchError(Exception):
    """An answer is larger than was asked for."""


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Read an answer, of so many bytes at most; 0 for any number."""
    if not most:
        return await response.read()
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        if len(body) > most:
            response.close()
            raise _TooMuchError
    return bytes(body)


def _object(body: bytes) -> Manifest | None:
    """Read an answer; `None` for what is no JSON, or no object: a proxy's page, or another service."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _query(selection: Selection) -> dict[str, str]:
    pairs = {"labelSelector": selection.label_selector, "fieldSelector": selection.field_selector}
    return {key: value for key, value in pairs.items() if value}


def _dry(dry_run: bool) -> dict[str, str]:  # noqa: FBT001
    return {"dryRun": "All"} if dry_run else {}


async def crd_exists(cluster: Cluster, name: str) -> bool:
    """Tell whether a CustomResourceDefinition is there: the proof that no object of its kind can be."""
    return await cluster.get(Ref(CRD, "", name)) is not None
