"""The schemas that rendered objects are held to are those of the real API server, and what they say is what it does."""
# ruff: noqa: E501 - tables: a row is a line

import copy
import json
from typing import Any

import pytest

from tests.schemas import FOLDER, ask, text_of
from tests.unit.test_kubernetes import WHOLE, faults, manifest
from tests.unit.test_metadata import KEYS, NAMED, NAMES, VALUES

from .client import APPLY, Answer, Api

PLURALS = {
    "ConfigMap": "configmaps", "ControllerRevision": "controllerrevisions", "CronJob": "cronjobs",
    "DaemonSet": "daemonsets", "Deployment": "deployments", "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "Ingress": "ingresses", "Job": "jobs", "Lease": "leases", "LimitRange": "limitranges",
    "NetworkPolicy": "networkpolicies", "PersistentVolumeClaim": "persistentvolumeclaims", "Pod": "pods",
    "PodDisruptionBudget": "poddisruptionbudgets", "PodTemplate": "podtemplates", "ReplicaSet": "replicasets",
    "ReplicationController": "replicationcontrollers", "ResourceQuota": "resourcequotas", "Role": "roles",
    "RoleBinding": "rolebindings", "Service": "services", "ServiceAccount": "serviceaccounts",
    "StatefulSet": "statefulsets",
}  # fmt: skip

pytestmark = pytest.mark.needs_real


@pytest.fixture(autouse=True)
def _only_real(api: Api) -> None:
    """Skip the fake: it has no schemas of its own."""
    if not api.real:
        pytest.skip("the fake API server has no OpenAPI")


async def test_what_is_committed_is_what_the_server_says(api: Api) -> None:
    """Byte for byte: `python -m tests.schemas` writes the files anew where Kubernetes has moved on."""
    files = await ask(api)
    assert {path.stem for path in FOLDER.glob("*.json")} == set(files)
    for name, content in files.items():
        assert (FOLDER / f"{name}.json").read_text() == text_of(content), name


async def dry_run(api: Api, namespace: str, body: dict[str, Any]) -> Answer:
    """Apply as the operator does, without effect."""
    version = body["apiVersion"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    # A name in the path, whatever it holds: what is refused for its path alone is refused too.
    name = body["metadata"]["name"].replace("%", "%25").replace("/", "%2F").replace("\n", "%0A").replace(" ", "%20")
    path = f"{base}/namespaces/{namespace}/{PLURALS[body['kind']]}/{name}"
    query = {"dryRun": "All", "fieldManager": "schemas", "force": "true", "fieldValidation": "Strict"}
    return await api.call("PATCH", path, body, content=APPLY, **query)


@pytest.mark.parametrize("name", WHOLE)
async def test_a_whole_object_is_taken_by_the_server_too(api: Api, namespace: str, name: str) -> None:
    """So that the tests of our own check start from something true."""
    body = manifest(name)
    for subject in body.get("subjects", ()):
        subject["namespace"] = namespace
    answer = await dry_run(api, namespace, body)
    assert answer.code in (200, 201), answer.message


WRONG: dict[str, tuple[str, list[str | int], Any]] = {
    "an unknown field": ("apps/v1 Deployment", ["spec", "unheardOf"], 1),
    "an unknown field deep down": ("apps/v1 Deployment", ["spec", "template", "spec", "hostnetwork"], True),
    "an unknown field of metadata": ("v1 ConfigMap", ["metadata", "label"], {}),
    "text for a number": ("apps/v1 Deployment", ["spec", "replicas"], "1"),
    "a number for a text": ("v1 ConfigMap", ["data", "a"], 1),
    "a truth value for a text": ("v1 ConfigMap", ["data", "a"], True),
    "a fraction for a number": ("apps/v1 Deployment", ["spec", "replicas"], 1.5),
    "a number that is too large": ("apps/v1 Deployment", ["spec", "replicas"], 2**31),
    "a list for a mapping": ("apps/v1 Deployment", ["spec", "selector"], []),
    "a mapping for a list": ("v1 Pod", ["spec", "containers"], {}),
    "no name of a container": ("v1 Pod", ["spec", "containers", 0], {"image": "i"}),
    "a container twice": ("v1 Pod", ["spec", "containers"], [{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]),
    "a port twice": ("v1 Service", ["spec", "ports"], [{"port": 1, "name": "a"}, {"port": 1, "name": "b", "protocol": "TCP"}]),
    "no quantity": ("v1 ResourceQuota", ["spec", "hard", "pods"], "lots"),
    "an unknown policy": ("v1 Pod", ["spec", "restartPolicy"], "always"),
    "no time": ("coordination.k8s.io/v1 Lease", ["spec", "renewTime"], "yesterday"),
    "no base64": ("v1 ConfigMap", ["binaryData", "c"], "not base64!"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
async def test_what_we_refuse_the_server_refuses(api: Api, namespace: str, case: str) -> None:
    """With the strictness that an apply has."""
    name, path, value = WRONG[case]
    body: Any = copy.deepcopy(manifest(name))
    inside: Any = body
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    assert faults(name, body)
    answer = await dry_run(api, namespace, body)
    assert answer.code >= 400, json.dumps(answer.body)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in {".", "..", "a\n"}], ids=repr)
async def test_a_name_is_taken_by_the_kinds_that_may_have_it(api: Api, namespace: str, name: str) -> None:
    """Our rule for each kind of name is the server's."""
    taken = set()
    for short, kind in NAMED.items():
        body = manifest(str(kind))
        body["metadata"]["name"] = name
        for subject in body.get("subjects", ()):
            subject["namespace"] = namespace
        # By POST: a name that is no part of a path is judged as a name.
        version = body["apiVersion"]
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        answer = await api.call("POST", f"{base}/namespaces/{namespace}/{PLURALS[kind.kind]}", body, dryRun="All")
        if answer.code == 201:
            taken.add(short)
    assert taken == NAMES[name]


async def test_keys_and_values_of_labels_are_taken_as_we_take_them(api: Api, namespace: str) -> None:
    """Each key as a label and as an annotation, each value of a label."""
    for key in KEYS:
        for field, fits in (("labels", KEYS[key]), ("annotations", KEYS[key.lower()])):
            body = manifest("v1 ConfigMap")
            body["metadata"][field] = {key: "x"}
            assert ((await dry_run(api, namespace, body)).code < 400) == fits, (field, key)
    for value, fits in VALUES.items():
        body = manifest("v1 ConfigMap")
        body["metadata"]["labels"] = {"k": value}
        assert ((await dry_run(api, namespace, body)).code < 400) == fits, value
