"""The thinnest client that can speak to both back ends: a path, a body, the code and the answer."""

import asyncio
import base64
import io
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

Manifest = dict[str, Any]

GROUP = "contract.metaoperator.dev"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_PATHS = {
    "Namespace": ("/api/v1", "namespaces", "v1"),
    "ConfigMap": ("/api/v1", "configmaps", "v1"),
    "Service": ("/api/v1", "services", "v1"),
    "Pod": ("/api/v1", "pods", "v1"),
    "ResourceQuota": ("/api/v1", "resourcequotas", "v1"),
    "LimitRange": ("/api/v1", "limitranges", "v1"),
    "ServiceAccount": ("/api/v1", "serviceaccounts", "v1"),
    "Deployment": ("/apis/apps/v1", "deployments", "apps/v1"),
    "ControllerRevision": ("/apis/apps/v1", "controllerrevisions", "apps/v1"),
    "Role": (_RBAC, "roles", "rbac.authorization.k8s.io/v1"),
    "RoleBinding": (_RBAC, "rolebindings", "rbac.authorization.k8s.io/v1"),
    "ClusterRole": (_RBAC, "clusterroles", "rbac.authorization.k8s.io/v1"),
    "ClusterRoleBinding": (_RBAC, "clusterrolebindings", "rbac.authorization.k8s.io/v1"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases", "coordination.k8s.io/v1"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets", "policy/v1"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies", "networking.k8s.io/v1"),
    "CustomResourceDefinition": (
        "/apis/apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "apiextensions.k8s.io/v1",
    ),
    "Widget": (f"/apis/{GROUP}/v1", "widgets", f"{GROUP}/v1"),
    "Gadget": (f"/apis/{GROUP}/v1", "gadgets", f"{GROUP}/v1"),
}
CLUSTER_SCOPED = {"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}
APPLY, MERGE, JSON = "application/apply-patch+yaml", "application/merge-patch+json", "application/json"
JSON_PATCH = "application/json-patch+json"
METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said."""

    code: int
    body: Manifest

    @property
    def message(self) -> str:
        """The message of a Status."""
        return str(self.body.get("message", ""))

    @property
    def version(self) -> str:
        """The resourceVersion of an object or a list."""
        return str(self.body["metadata"]["resourceVersion"])

    def spec(self, *path: str) -> Any:
        """Read a value by its field names."""
        value: Any = self.body
        for name in path:
            value = value[name]
        return value


def path_of(kind: str, namespace: str | None = None, name: str | None = None, sub: str = "") -> str:
    """Return the URL path of a collection or an object."""
    base, plural, _ = _PATHS[kind]
    inside = f"/namespaces/{namespace}" if namespace else ""
    return base + inside + "/" + "/".join(part for part in (plural, name, sub) if part)


def manifest(kind: str, name: str | None = None, /, **rest: Any) -> Manifest:
    """Build a manifest; `metadata` adds to the name."""
    metadata = {"name": name} if name else {}
    return {"apiVersion": _PATHS[kind][2], "kind": kind, **rest, "metadata": {**metadata, **rest.get("metadata", {})}}


class Api:
    """One API server, real or fake."""

    def __init__(self, session: aiohttp.ClientSession, url: str, *, real: bool) -> None:
        self._session = session
        self._url = url
        self.real = real
        self.compact: Callable[[], None] | None = None  # only the fake can
        self.user = ""  # who is impersonated

    async def call(
        self, method: str, path: str, body: Any = None, *, content: str = JSON, accept: str = JSON, **query: str
    ) -> Answer:
        """Send one request."""
        # Not as text: aiohttp warns of more than a MiB of it.
        data = None if body is None else io.BytesIO(json.dumps(body).encode())
        headers = {"Accept": accept, "Content-Type": content}
        if self.user:
            headers |= {"Impersonate-User": self.user, "Impersonate-Group": "system:authenticated"}
        async with self._session.request(
            method, self._url + path, data=data, headers=headers, params=query
        ) as response:
            text = await response.text()
            return Answer(response.status, json.loads(text) if text[:1] == "{" else {"message": text})

    @contextmanager
    def being(self, user: str) -> Iterator[None]:
        """Be somebody else for a while."""
        before, self.user = self.user, user
        yield
        self.user = before

    async def get(
        self, kind: str, namespace: str | None, name: str | None = None, *, accept: str = JSON, **query: str
    ) -> Answer:
        """Get an object or list a collection."""
        return await self.call("GET", path_of(kind, namespace, name), accept=accept, **query)

    async def create(self, namespace: str | None, obj: Manifest, **query: str) -> Answer:
        """Create by POST."""
        return await self.call("POST", path_of(obj["kind"], namespace), obj, **query)

    async def put(self, namespace: str | None, obj: Manifest, *, sub: str = "", **query: str) -> Answer:
        """Update by PUT."""
        return await self.call("PUT", path_of(obj["kind"], namespace, obj["metadata"]["name"], sub), obj, **query)

    async def merge(
        self, kind: str, namespace: str | None, name: str, patch: Manifest, *, sub: str = "", **query: str
    ) -> Answer:
        """Patch by merging."""
        return await self.call("PATCH", path_of(kind, namespace, name, sub), patch, content=MERGE, **query)

    async def apply(
        self,
        namespace: str | None,
        obj: Manifest,
        *,
        manager: str = "us",
        force: bool = False,
        sub: str = "",
        **query: str,
    ) -> Answer:
        """Apply server-side."""
        query |= {"fieldManager": manager} | ({"force": "true"} if force else {})
        path = path_of(obj["kind"], namespace, obj["metadata"]["name"], sub)
        return await self.call("PATCH", path, obj, content=APPLY, **query)

    async def delete(self, kind: str, namespace: str | None, name: str, **options: Any) -> Answer:
        """Delete an object."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **options} if options else None
        return await self.call("DELETE", path_of(kind, namespace, name), body)

    @asynccontextmanager
    async def watch(
        self, kind: str, namespace: str | None, *, accept: str = JSON, **query: str
    ) -> AsyncIterator["Stream"]:
        """Open a watch."""
        query = {"watch": "true", "timeoutSeconds": "20", **query}
        async with self._session.get(
            self._url + path_of(kind, namespace), headers={"Accept": accept}, params=query
        ) as response:
            yield Stream(response)


class Stream:
    """The events of an open watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.code = response.status
        self._response = response

    async def next(self, seconds: float = 10) -> tuple[str, Manifest]:
        """Wait for one event; an ended stream gives `END`."""
        async with asyncio.timeout(seconds):
            line = await self._response.content.readline()
        if not line:
            return "END", {}
        event = json.loads(line)
        return event["type"], event["object"]

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Wait for some events and return their types and names."""
        found = []
        for _ in range(count):
            kind, obj = await self.next()
            found.append((kind, obj["metadata"]["name"]))
        return found


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = 20) -> None:
    """Wait for what a controller does in its own time."""
    async with asyncio.timeout(seconds):
        while not await check():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@asynccontextmanager
async def connect(path: str) -> AsyncIterator[Api]:
    """Open the API server that a kubeconfig's current context names."""
    kubeconfig = Path(path)
    config = yaml.safe_load(kubeconfig.read_text())  # noqa: ASYNC240
    context = next(each["context"] for each in config["contexts"] if each["name"] == config["current-context"])
    cluster = next(each["cluster"] for each in config["clusters"] if each["name"] == context["cluster"])
    user = next(each["user"] for each in config["users"] if each["name"] == context["user"])
    authority = _data(cluster, "certificate-authority", kubeconfig)
    tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
    certificate, key = _data(user, "client-certificate", kubeconfig), _data(user, "client-key", kubeconfig)
    if certificate and key:
        with tempfile.NamedTemporaryFile(suffix=".pem") as both:  # ssl reads client certificates from files only
            both.write(certificate + b"\n" + key)
            both.flush()
            tls.load_cert_chain(both.name)
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=tls)) as session:
        yield Api(session, cluster["server"].rstrip("/"), real=True)


def _data(holder: dict[str, str], name: str, kubeconfig: Path) -> bytes | None:
    if inline := holder.get(f"{name}-data"):
        return base64.b64decode(inline)
    return (kubeconfig.parent / holder[name]).read_bytes() if name in holder else None
