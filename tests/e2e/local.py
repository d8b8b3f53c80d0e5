"""How tests speak to the cluster: `kubectl` for what a person would type, one HTTP connection for watching closely."""

import http.client
import json
import os
import ssl
import subprocess
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, TypeVar
from urllib.parse import urlsplit

CHECKOUT = Path(__file__).resolve().parents[2]
METAOPERATOR = CHECKOUT / ".venv" / "bin" / "metaoperator"
KUBECONFIG = CHECKOUT / ".cluster" / "kubeconfig"
AUDIT_LOG = CHECKOUT / ".cluster" / "audit.log"
LOGS = CHECKOUT / ".cluster" / "e2e-logs"
MANIFESTS = Path("tests/e2e/manifests")

OPT_IN = "metaoperator.dev/workflow-controller"
INSTANCE_ID = "workflows.argoproj.io/controller-instanceid"
NAMESPACE_UID = "metaoperator.dev/namespace-uid"
OPERATOR = "metaoperator"

FULL = os.environ.get("E2E") == "full"
"""What takes minutes has a short form, for every run; `make long` sets this (docs/local-cluster.md)."""

Object = dict[str, Any]
T = TypeVar("T")


class Refused(Exception):
    """kubectl ended with an error; the text is its own."""


class Kubectl:
    """Runs kubectl from the checkout, so that paths are those that the README shows."""

    def __init__(self, program: str, kubeconfig: Path) -> None:
        """Nothing is run yet."""
        self.program = program
        self.environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}

    def __call__(self, *arguments: str | Path, stdin: str | Object | None = None, timeout: float = 180) -> str:
        """Run one command and return what it prints; `Refused` when it fails."""
        text = json.dumps(stdin) if isinstance(stdin, dict) else stdin
        command = [self.program, *map(str, arguments)]
        done = subprocess.run(
            command,
            cwd=CHECKOUT,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode != 0:
            raise Refused(f"kubectl {' '.join(command[1:])}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def json(self, *arguments: str | Path, stdin: str | Object | None = None) -> Any:
        """Run one command with `-o json`."""
        return json.loads(self(*arguments, "-o", "json", stdin=stdin))


def metaoperator(*arguments: str, timeout: float = 60) -> "subprocess.CompletedProcess[str]":
    """Run our own command against the cluster, as somebody at a terminal does."""
    return subprocess.run([METAOPERATOR, *arguments], capture_output=True, text=True, timeout=timeout, check=False)


class Api:
    """Reads from the API server over one connection: cheap enough to look several times a second."""

    def __init__(self, kubectl: Kubectl) -> None:
        """Take address and credentials from the kubeconfig."""
        config = json.loads(kubectl("config", "view", "--raw", "--flatten", "--minify", "-o", "json"))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.authority = b64decode(cluster["certificate-authority-data"]).decode()
        self._address = urlsplit(cluster["server"])
        self.headers = {"Authorization": f"Bearer {user['token']}", "Accept": "application/json"}
        self.tls = ssl.create_default_context(cadata=self.authority)
        self._connection: http.client.HTTPSConnection | None = None
        self.server = cluster["server"]

    def get(self, path: str) -> Object | None:
        """Return the answer's body; `None` for 404."""
        for attempt in (1, 2):
            try:
                return self._get(path)
            except (http.client.HTTPException, OSError):  # an idle connection was closed
                self._close()
                if attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def _get(self, path: str) -> Object | None:
        if self._connection is None:
            host, port = self._address.hostname or "", self._address.port or 443
            self._connection = http.client.HTTPSConnection(host, port, context=self.tls, timeout=30)
        self._connection.request("GET", path, headers=self.headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise AssertionError(f"GET {path}: {answer.status} {body[:500]!r}")
        return json.loads(body)  # type: ignore[no-any-return]

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Close the connection."""
        self._close()

    def ask(
        self,
        method: str,
        path: str,
        body: Object | list[Object] | None = None,
        *,
        token: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, str]:
        """Send one request as the holder of `token`, or as ourselves; returns the code and the Status's message."""
        host, port = self._address.hostname or "", self._address.port or 443
        connection = http.client.HTTPSConnection(host, port, context=self.tls, timeout=30)
        who = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            connection.request(
                method, path, json.dumps(body) if body is not None else None,
                {**self.headers, "Content-Type": "application/json", **who, **(headers or {})},
            )  # fmt: skip
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        finally:
            connection.close()
        try:
            return answer.status, str(json.loads(text).get("message", ""))
        except ValueError:
            return answer.status, text

    def object(self, resource: str, namespace: str, name: str) -> Object | None:
        """Read one namespaced object; `resource` as in a path: `apps/v1/deployments` or `v1/pods`."""
        return self.get(f"{collection(resource, namespace)}/{name}")

    def objects(self, resource: str, namespace: str = "", *, query: str = "") -> list[Object]:
        """List objects; an empty list where the kind is not there."""
        found = self.get(collection(resource, namespace) + (f"?{query}" if query else ""))
        return [] if found is None else found["items"]

    def bearer_kubeconfig(self, token: str) -> Path:
        """Write a kubeconfig for the holder of `token`; the caller removes it."""
        authority = b64encode(self.authority.encode()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "e2e",
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
            "clusters": [{"name": "e2e", "cluster": {"server": self.server, "certificate-authority-data": authority}}],
            "users": [{"name": "e2e", "user": {"token": token}}],
        }
        with NamedTemporaryFile("w", suffix=".kubeconfig", delete=False) as file:
            json.dump(config, file)
        return Path(file.name)


def collection(resource: str, namespace: str) -> str:
    """Build the path of a collection from `group/version/plural`, or `v1/plural`."""
    version, _, plural = resource.rpartition("/")
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"


def eventually(check: Callable[[], T], *, seconds: float = 120, every: float = 0.3) -> T:
    """Call `check` until it returns without an AssertionError; its last one tells what was missing."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        time.sleep(every)


def condition(of: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Find one condition of an object; empty where it is not there."""
    found = (of.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == kind), {})
