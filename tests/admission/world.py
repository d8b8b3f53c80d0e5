"""The shipped policies on an API server, whichever components are chosen, and requests of any person."""

import http.client
import json
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from metaoperator.core import names
from tests.cluster import build
from tests.cluster.alone import TOKEN, ApiServer
from tests.e2e.local import CHECKOUT, INSTANCE_ID, OPT_IN, Kubectl, Object, Refused, eventually
from tests.e2e.workflows import one_step

POLICIES = "admissionregistration.k8s.io"
PART_OF = {"app.kubernetes.io/part-of": "metaoperator"}
ARGO = "argoproj.io/v1alpha1"
KINDS = (
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
PLURALS = {"Workflow": "workflows", "CronWorkflow": "cronworkflows", "WorkflowTemplate": "workflowtemplates"}


class World:
    """One API server, with Argo's CRDs and the fleet bundle."""

    def __init__(self, api_server: ApiServer, folder: Path) -> None:
        """Nothing is installed yet."""
        self.kubeconfig = api_server.kubeconfig
        self.kubectl = Kubectl(str(build.program("kubectl")), api_server.kubeconfig)
        self._port = int(api_server.url.rpartition(":")[2])
        self._folder = folder
        self._namespaces: set[str] = set()
        self._probes = 0

    def up(self) -> None:
        """Install, in the order of manifests/fleet/kustomization.yaml."""
        self.kubectl("apply", "--server-side", "-f", build.argo_crds("full"))
        self.kubectl("apply", "--server-side", "-k", "manifests/fleet/crds")

        def served() -> None:
            try:
                self.kubectl("get", "workflowcontrollers,controllertemplates,workflows", "-A")
            except Refused as exc:
                raise AssertionError(str(exc)) from exc

        eventually(served, seconds=60)
        self.kubectl("apply", "--server-side", "-k", "manifests/fleet")

    # ---- policies

    def built(self, *components: str) -> list[Object]:
        """Build the fleet bundle with components, by one line each, as their heads say."""
        overlay = self._folder / "-".join(["overlay", *components])
        overlay.mkdir(exist_ok=True)
        relative = Path(*[".."] * (len(overlay.resolve().parts) - 1)) / CHECKOUT.relative_to("/")
        lines = {
            "resources": [str(relative / "manifests" / "fleet")],
            "components": [str(relative / "manifests" / "components" / each) for each in components],
        }
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump(lines))
        return [each for each in yaml.safe_load_all(self.kubectl("kustomize", overlay)) if each]

    def have(self, *components: str) -> list[Object]:
        """Install the policies of the bundle with these components, take away all others, and wait until they count."""
        wanted = [each for each in self.built(*components) if each["apiVersion"].startswith(POLICIES)]
        self.put(wanted)
        return wanted

    def put(self, wanted: list[Object]) -> None:
        """Have exactly these policies in force."""
        kept = {(each["kind"], each["metadata"]["name"]) for each in wanted}
        for kind in KINDS:
            found = self.kubectl.json("get", kind.lower(), "-l", "app.kubernetes.io/part-of=metaoperator")["items"]
            for each in found:
                if (kind, each["metadata"]["name"]) not in kept | {(kind, "probe")}:
                    self.kubectl("delete", kind.lower(), each["metadata"]["name"])
        self._probes += 1
        items = {
            "apiVersion": "v1",
            "kind": "List",
            "items": [*wanted, *_mutating(self._probes), *_validating(self._probes)],
        }
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=items)
        eventually(self._in_force, seconds=60)

    def _in_force(self) -> None:
        """Ask whether the API server knows the newest policy: it reads all of a kind anew, about once a second."""
        for kind in ("configmaps", "secrets"):
            body = {"metadata": {"name": "probe"}}
            code, answer = self.send("POST", f"/api/v1/namespaces/default/{kind}?dryRun=All", body)
            found = (
                (answer.get("metadata") or {}).get("annotations", {}).get("probe") if code < 300 else answer["message"]
            )
            assert str(self._probes) in str(found), f"{kind}: {found}"

    # ---- requests

    def send(
        self, method: str, path: str, body: Any = None, *, who: str = "", kind: str = "application/json"
    ) -> tuple[int, Object]:
        """Send one request, as the administrator or as somebody else."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=context, timeout=30)
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json", "Content-Type": kind}
        try:
            connection.request(
                method,
                path,
                None if body is None else json.dumps(body),
                headers | ({"Impersonate-User": who} if who else {}),
            )
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def namespace(self, name: str, opt_in: str | None = "enabled") -> str:
        """Have a namespace with this label."""
        labels = {} if opt_in is None else {OPT_IN: opt_in}
        if name not in self._namespaces:
            self._namespaces.add(name)
            body = {"metadata": {"name": name, "labels": labels}}
            code, answer = self.send("POST", "/api/v1/namespaces", body)
            assert code in (201, 409), answer
        self.label(name, opt_in)
        return name

    def label(self, name: str, opt_in: str | None) -> None:
        """Label it as asked, or not at all, and wait until the API server's admission has seen that."""
        merge = "application/merge-patch+json"
        code, answer = self.send(
            "PATCH", f"/api/v1/namespaces/{name}", {"metadata": {"labels": {OPT_IN: opt_in}}}, kind=merge
        )
        assert code == 200, answer
        # Admission reads a copy, which is milliseconds older. The probes carry the label back.
        wanted = opt_in or ""

        def seen() -> None:
            path = f"/api/v1/namespaces/{name}/configmaps?dryRun=All"
            code, answer = self.send("POST", path, {"metadata": {"name": "probe"}})
            assert code == 201, answer
            found = answer["metadata"].get("annotations", {}).get("opt-in", "")
            assert found == wanted, f"admission takes {name} for {found!r}"

        eventually(seen, seconds=60, every=0.05)

    def path(self, kind: str, namespace: str, name: str = "") -> str:
        """Where objects of Argo's are."""
        return f"/apis/{ARGO}/namespaces/{namespace}/{PLURALS[kind]}" + (f"/{name}" if name else "")

    def create(self, namespace: str, manifest: Object, *, who: str = "", dry: bool = False) -> Object:
        """Create it and return what is stored."""
        path = self.path(manifest["kind"], namespace) + ("?dryRun=All" if dry else "")
        code, answer = self.send("POST", path, manifest, who=who)
        assert code == 201, answer.get("message")
        return answer

    def instance_id(self, namespace: str, **metadata: Any) -> str | None:
        """Tell which instance ID a Workflow gets."""
        return id_of(self.create(namespace, one_step("probe", **metadata), dry=True))

    def empty(self, *namespaces: str) -> None:
        """Delete what Argo has there."""
        for namespace in namespaces:
            for kind in PLURALS:
                code, answer = self.send("DELETE", self.path(kind, namespace))
                assert code == 200, answer

    def pin(self, namespace: str, instance_id: str | None) -> None:
        """Have a WorkflowController with this instance ID, or none, and wait until admission has read it."""
        path = f"/apis/{names.API_VERSION}/namespaces/{namespace}/workflowcontrollers"
        self.send("DELETE", f"{path}/{names.WORKFLOW_CONTROLLER}")
        if instance_id is not None:
            body = {
                "apiVersion": names.API_VERSION,
                "kind": "WorkflowController",
                "metadata": {"name": names.WORKFLOW_CONTROLLER},
                "spec": {"instanceID": instance_id} if instance_id else {},
            }
            code, answer = self.send("POST", path, body)
            assert code == 201, answer


def id_of(item: Object) -> str | None:
    """Read the instance ID of an object; `None` where the label is not."""
    found: str | None = (item["metadata"].get("labels") or {}).get(INSTANCE_ID)
    return found


def spec_of(objects: Iterable[Object], kind: str, name: str) -> Any:
    """Find the one policy of that name."""
    (found,) = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def _mutating(number: int) -> list[Object]:
    meta = {"name": "probe", "labels": PART_OF}
    expression = (
        f'Object{{metadata: Object.metadata{{annotations: {{"probe": "{number}", "opt-in": '
        f"has(namespaceObject.metadata.labels) && '{OPT_IN}' in namespaceObject.metadata.labels "
        f"? namespaceObject.metadata.labels['{OPT_IN}'] : ''}}}}}}"
    )
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    version = f"{POLICIES}/v1"
    return [
        {
            "apiVersion": version,
            "kind": "MutatingAdmissionPolicy",
            "metadata": meta,
            "spec": {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "matchConstraints": {"resourceRules": [rule]},
                "matchConditions": [{"name": "is-asked", "expression": "object.metadata.name == 'probe'"}],
                "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
            },
        },
        {
            "apiVersion": version,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": meta,
            "spec": {"policyName": "probe"},
        },
    ]


def _validating(number: int) -> list[Object]:
    meta = {"name": "probe", "labels": PART_OF}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["CREATE"]}
    version = f"{POLICIES}/v1"
    return [
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": meta,
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "matchConditions": [{"name": "is-asked", "expression": "object.metadata.name == 'probe'"}],
                "validations": [{"expression": "false", "message": f"state {number}"}],
            },
        },
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": meta,
            "spec": {"policyName": "probe", "validationActions": ["Deny"]},
        },
    ]
