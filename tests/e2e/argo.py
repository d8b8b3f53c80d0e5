"""The real Argo CLI and a real argo-server, as a person uses them who may use Argo in one namespace and no more."""

import http.client
import json
import re
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .local import MANIFESTS, METAOPERATOR, Api, Kubectl, Object
from .namespaces import MADE_BY_TESTS

TEMPLATE = MANIFESTS / "served" / "controllertemplate.yaml"
LABEL = "served"
"""Namespaces with this opt-in label get an argo-server."""
SERVER = "argo-server"

# What Argo's own aggregated role for users gives, beside Kubernetes' `edit`.
ROLE: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "e2e-argo-user", "labels": {MADE_BY_TESTS: "yes"}},
    "rules": [
        {
            "apiGroups": ["argoproj.io"],
            "resources": ["workflows", "workflowtemplates", "cronworkflows"],
            "verbs": ["create", "get", "list", "watch", "update", "patch", "delete"],
        }
    ],
}


class Failed(Exception):
    """The CLI ended with an error; the text is its own."""


class Argo:
    """Runs the CLI in an environment that holds the setting, and nothing else of Argo's."""

    def __init__(self, program: str, environment: Mapping[str, str]) -> None:
        """Nothing is run yet."""
        self.program = program
        self.environment = environment

    def __call__(self, *arguments: str | Path, timeout: float = 120) -> str:
        """Run one command and return what it prints; `Failed` when it ends with an error."""
        command = [self.program, *map(str, arguments)]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode != 0:
            raise Failed(f"argo {' '.join(command[1:])}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def submit(self, *arguments: str | Path) -> str:
        """Submit, and return the Workflow's name."""
        return self("submit", "-o", "name", *arguments).strip()


def plain(program: str, kubeconfig: Path, home: Path) -> dict[str, str]:
    """Build the environment of somebody who has the CLI, and set nothing of Argo's."""
    return {"PATH": f"{Path(program).parent}:/usr/bin:/bin", "HOME": str(home), "KUBECONFIG": str(kubeconfig)}


def with_setting(environment: Mapping[str, str], *arguments: str) -> dict[str, str]:
    """Do what is documented, in a shell: eval "$(metaoperator env …)"."""
    script = f'eval "$({METAOPERATOR} env {" ".join(arguments)})" && env -0'
    done = subprocess.run(
        ["sh", "-c", script], env=dict(environment), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return dict(each.partition("=")[::2] for each in done.stdout.split("\0") if each)


def person(kubectl: Kubectl, api: Api, name: str, namespace: str, *roles: str) -> tuple[str, Path]:
    """Make somebody with these ClusterRoles in one namespace; returns token and kubeconfig: the caller removes it."""
    kubectl("create", "serviceaccount", name, "-n", namespace)
    subject = f"--serviceaccount={namespace}:{name}"
    for role in roles:
        kubectl("create", "rolebinding", f"{name}-{role}", f"--clusterrole={role}", subject, "-n", namespace)
    token = kubectl("create", "token", name, "-n", namespace, "--duration=1h").strip()
    return token, api.bearer_kubeconfig(token)


@contextmanager
def forwarded(kubectl: Kubectl, kubeconfig: Path, namespace: str) -> Iterator[str]:
    """Reach the server as people do from outside of the cluster; yields host and port."""
    command = [kubectl.program, "port-forward", f"service/{SERVER}", ":2746", "-n", namespace]
    environment = {**kubectl.environment, "KUBECONFIG": str(kubeconfig)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.match(r"Forwarding from 127\.0\.0\.1:([0-9]+) ", line)
            assert found, line
            yield f"127.0.0.1:{found[1]}"
        finally:
            process.terminate()


class Rest:
    """Speaks to the server's HTTP API, as curl does."""

    def __init__(self, address: str, token: str) -> None:
        """Verify no certificate: the server signed it itself."""
        self._address = address
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE

    @contextmanager
    def _sent(self, method: str, path: str, body: Any) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPSConnection(self._address, context=self._tls, timeout=60)
        try:
            connection.request(method, f"/api/v1/{path}", None if body is None else json.dumps(body), self._headers)
            with connection.getresponse() as answer:
                yield answer
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send one request; returns the code and the body."""
        with self._sent(method, path, body) as answer:
            return answer.status, json.loads(answer.read() or b"null")

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request that has to succeed."""
        code, answer = self.ask(method, path, body)
        assert code == 200, f"{method} {path}: {code} {answer}"
        return answer

    @contextmanager
    def stream(self, path: str) -> Iterator[Iterator[Any]]:
        """Read the answers of a stream, one JSON text a line, until the server ends it or the reader has enough."""
        with self._sent("GET", path, None) as answer:
            assert answer.status == 200, answer.read()
            yield (json.loads(line)["result"] for line in answer)


class Files:
    """Manifests as files, which is how the CLI takes them."""

    def __init__(self, folder: Path) -> None:
        """Nothing is written yet."""
        self._folder = folder

    def write(self, name: str, manifest: Object) -> Path:
        """Write one, as JSON."""
        path = self._folder / f"{name}.json"
        path.write_text(json.dumps(manifest))
        return path
