"""What is wrong with a cluster, all of it at once, each with what to do. Only reads; nothing is changed."""

from collections.abc import Iterator
from datetime import UTC, datetime

import yaml

from . import bundle
from .story import LABEL
from .telling import CHECKOUT, Kubectl, Object, a_list, labels

ARGO_KINDS = frozenset(
    {
        "clusterworkflowtemplates", "cronworkflows", "workflowartifactgctasks", "workfloweventbindings", "workflows",
        "workflowtaskresults", "workflowtasksets", "workflowtemplates",
    }
)  # fmt: skip
OPERATOR = "metaoperator"
FRESH_SECONDS = 60


def problems(kubectl: Kubectl, *, values: Object, namespaces: tuple[str, ...]) -> Iterator[str]:
    """Name whatever keeps the demo from running there."""
    yield from _policies(kubectl)
    yield from _argo(kubectl, values)
    refused = list(_rights(kubectl))
    yield from refused
    if refused:
        return  # who may not look cannot tell the rest
    yield from _others(kubectl, namespaces)
    yield from _bundle(kubectl)
    yield from _namespaces(kubectl, namespaces)


def _policies(kubectl: Kubectl) -> Iterator[str]:
    if "mutatingadmissionpolicies" not in _served(kubectl, "admissionregistration.k8s.io/v1"):
        yield "the cluster has no MutatingAdmissionPolicy v1, which stamps Workflows: Kubernetes 1.36 or newer has it"


def _argo(kubectl: Kubectl, values: Object) -> Iterator[str]:
    if missing := sorted(ARGO_KINDS - _served(kubectl, "argoproj.io/v1alpha1")):
        shipped = yaml.safe_load((CHECKOUT / "templates/workflow-controller/values.yaml").read_text())["version"]
        ref = values.get("version", shipped)
        yield (
            f"Argo's CRDs are not installed ({', '.join(missing)}). They belong to the whole cluster, so the demo "
            "does not bring them:\n    kubectl apply --server-side -k "
            f'"https://github.com/argoproj/argo-workflows/manifests/base/crds/full?ref={ref}"'
        )


def _served(kubectl: Kubectl, group_version: str) -> set[str]:
    found = kubectl.raw(f"/apis/{group_version}")
    return set() if found is None else {each["name"] for each in found["resources"]}


def _rights(kubectl: Kubectl) -> Iterator[str]:
    """Ask for all that the demo does and for all that the operator does: it runs with the person's own rights."""
    asked = sorted(_wanted(kubectl))
    reviews = [
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {},
            "spec": {
                "resourceAttributes": {
                    "verb": verb, "group": group, "resource": resource.partition("/")[0],
                    "subresource": resource.partition("/")[2], "name": name, "namespace": namespace,
                }
            },
        }
        for verb, group, resource, name, namespace in asked
    ]  # fmt: skip
    allowed = 'jsonpath={.status.allowed}{"\\n"}'
    answers = kubectl.quietly("create", "-o", allowed, "-f", "-", stdin=a_list(reviews)).split()
    refused: dict[str, set[str]] = {}
    for (verb, group, resource, _, namespace), answer in zip(asked, answers, strict=True):
        if answer != "true":
            what = f"{resource}{'.' if group else ''}{group}" + (f" in {namespace}" if namespace else "")
            refused.setdefault(what, set()).add(verb)
    if refused:
        yield "you may not: " + "; ".join(
            f"{', '.join(sorted(verbs))} {what}" for what, verbs in sorted(refused.items())
        )


def _wanted(kubectl: Kubectl) -> set[tuple[str, str, str, str, str]]:
    """Name (verb, group, resource, name, namespace) of all that is needed."""
    wanted = set()
    for item in [*bundle.objects(kubectl), bundle.template({})]:
        group = item["apiVersion"].rpartition("/")[0]
        wanted |= {(verb, group, _plural(item["kind"]), "", "") for verb in ("get", "create", "patch", "delete")}
    wanted |= {(verb, "argoproj.io", "workflows", "", "") for verb in ("create", "get", "list", "watch")}
    wanted |= {("get", "", "pods/log", "", ""), ("get", "apps", "deployments", "", OPERATOR)}
    for name, namespace in (("clusterrole", ""), ("role", OPERATOR)):
        rules = yaml.safe_load((CHECKOUT / f"manifests/operator/{name}.yaml").read_text())["rules"]
        wanted |= {
            (verb, group, resource, of, namespace)
            for rule in rules
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
            for of in rule.get("resourceNames", [""])
        }
    return wanted


def _plural(kind: str) -> str:
    lower = kind.lower()
    if lower.endswith("y"):
        return f"{lower[:-1]}ies"
    return f"{lower}es" if lower.endswith("s") else f"{lower}s"


def _others(kubectl: Kubectl, namespaces: tuple[str, ...]) -> Iterator[str]:
    """Look for another operator, and for what the demo's operator would take for its work."""
    found = kubectl.raw(f"/apis/apps/v1/namespaces/{OPERATOR}/deployments/{OPERATOR}")
    if found is not None:
        yield (
            f"a meta-operator is installed there (Deployment {OPERATOR} in namespace {OPERATOR}), and needs no demo: "
            f"kubectl label namespace NAME {LABEL}=enabled"
        )
    lease = kubectl.raw(f"/apis/coordination.k8s.io/v1/namespaces/{OPERATOR}/leases/{OPERATOR}")
    spec = {} if lease is None else lease["spec"]
    if found is None and spec.get("holderIdentity") and _age(spec.get("renewTime")) < FRESH_SECONDS:
        yield f"another meta-operator runs there: {spec['holderIdentity']} holds its Lease; stop it and try again"
    listed = kubectl.raw(f"/api/v1/namespaces?labelSelector={LABEL}")
    labelled = {each["metadata"]["name"] for each in (listed or {"items": []})["items"]}
    if others := sorted(labelled - set(namespaces)):
        yield (
            f"these namespaces are opted in already, and the demo's operator would serve them: {', '.join(others)}. "
            f"Take their label {LABEL} off, or use another cluster"
        )


def _age(stamp: str | None) -> float:
    if not stamp:
        return FRESH_SECONDS
    return (datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds()


def _bundle(kubectl: Kubectl) -> Iterator[str]:
    """Refuse to change what somebody else installed."""
    for each in bundle.present(kubectl, [*bundle.objects(kubectl), bundle.template({})]):
        if not each.equal:
            yield (
                f"{each.name} is there already and differs from this checkout's: the demo changes nothing of it. "
                f"Use a checkout that fits, or see: kubectl diff --server-side -k {bundle.FLEET}"
            )


def _namespaces(kubectl: Kubectl, namespaces: tuple[str, ...]) -> Iterator[str]:
    for name in namespaces:
        live = bundle.find(kubectl, bundle.namespace(name))
        if live is not None and bundle.OURS[0] not in labels(live):
            yield f"there is a namespace {name} that is not the demo's: it would have to go first"
