"""The fences, held to the names in the code and to the bundles. What only an API server can judge is in tests/e2e."""

import re
from pathlib import Path
from typing import Any

import pytest

from metaoperator.core import names, shard, strictyaml, trial

ROOT = Path(__file__).parents[2]
FLEET = ROOT / "manifests" / "fleet"
OPERATOR = ROOT / "manifests" / "operator"
ALL = [strictyaml.load(path.read_text()) for path in sorted((FLEET / "fences").glob("*.yaml"))]
POLICIES = {each["metadata"]["name"]: each["spec"] for each in ALL if each["kind"] == "ValidatingAdmissionPolicy"}
BINDINGS = {
    each["metadata"]["name"]: each["spec"] for each in ALL if each["kind"] == "ValidatingAdmissionPolicyBinding"
}

ACCOUNT = f"system:serviceaccount:{names.OPERATOR_NAMESPACE}:metaoperator"
CHILD = [name for name in names.FENCES if "-child-" in name]
OF_THE_OPERATOR = [name for name in names.FENCES if "-operator-" in name]


def expressions(spec: Any) -> dict[str, str]:
    """Read every CEL text of a policy, by where it stands."""
    found = {f"condition {each['name']}": each["expression"] for each in spec.get("matchConditions", [])}
    found |= {each["name"]: each["expression"] for each in spec.get("variables", [])}
    for index, each in enumerate(spec["validations"]):
        found[f"validation {index}"] = each["expression"]
        found[f"message {index}"] = each.get("messageExpression", "")
    return found


def text(name: str) -> str:
    """Join all CEL of one policy."""
    return "\n".join(expressions(POLICIES[name]).values())


def test_the_fences_are_those_that_the_code_names() -> None:
    """What `metaoperator preflight` looks for, and what answers are told apart by, is what is installed."""
    assert tuple(sorted(POLICIES)) == names.FENCES
    assert set(names.FENCES_BY_PLACE) < set(names.FENCES)


@pytest.mark.parametrize("name", names.FENCES)
def test_a_fence_denies_and_closes_when_it_breaks(name: str) -> None:
    """A binding of its name puts it in force; it fails closed, and says no with 403 and a sentence for people."""
    spec = POLICIES[name]
    assert spec["failurePolicy"] == "Fail"
    assert BINDINGS[name]["policyName"] == name
    for each in spec["validations"]:
        assert each["reason"] == "Forbidden"
        assert len(each.get("message") or each["messageExpression"]) > 60


@pytest.mark.parametrize("name", sorted(BINDINGS))
def test_every_binding_binds_a_fence_and_denies(name: str) -> None:
    """Its name begins with its policy's, so that the message of a denial leads to both."""
    spec = BINDINGS[name]
    assert spec["policyName"] in POLICIES
    assert name.startswith(spec["policyName"])
    assert spec["validationActions"] == ["Deny"]


@pytest.mark.parametrize("name", OF_THE_OPERATOR)
def test_the_operators_fences_are_for_its_account_and_nobody_else(name: str) -> None:
    """They ask for the ServiceAccount of manifests/operator, before anything else is evaluated."""
    (condition,) = POLICIES[name]["matchConditions"]
    assert condition["expression"] == f"request.userInfo.username == '{ACCOUNT}'"
    account = strictyaml.load((OPERATOR / "serviceaccount.yaml").read_text())
    namespace = strictyaml.load((OPERATOR / "kustomization.yaml").read_text())["namespace"]
    assert f"system:serviceaccount:{namespace}:{account['metadata']['name']}" == ACCOUNT


@pytest.mark.parametrize("name", names.FENCES)
def test_labels_annotations_and_accounts_are_those_of_the_code(name: str) -> None:
    """Whatever looks like a key of ours or of Argo's is one that the operator reads, and so is every account."""
    known = {
        names.OPT_IN_LABEL,
        names.MANAGED_BY_LABEL,
        names.NAMESPACE_UID_ANNOTATION,
        names.ACCOUNT_ANNOTATION,
        names.ADOPTED_ANNOTATION,
        names.INSTANCE_ID_LABEL,
        names.COMPLETED_LABEL,
        names.COMPONENT_LABEL,
    }
    quoted = set(re.findall(r"'([a-z.]+\.(?:dev|io)/[^' =]+)'", text(name)))
    keys = {each for each in quoted if not each.startswith(("kubernetes.io/", "coordination.k8s.io/"))}
    assert keys - {f"{names.GROUP}/workflowcontrollers"} <= known
    accounts = set(re.findall(r"'(system:serviceaccount:[^']+)'", text(name)))
    assert {each for each in accounts if ":kube-system:" not in each} <= {ACCOUNT}


def test_opted_in_means_the_same_to_the_operator_and_to_its_fence() -> None:
    """Label, word for no, own namespace, refused prefixes and mark are those of core/optin and core/plan."""
    variables = expressions(POLICIES["metaoperator-operator-writes"])
    others = expressions(POLICIES["metaoperator-accounts"])
    assert f"[?'{names.OPT_IN_LABEL}'].orValue('') in ['', '{names.OPTED_OUT}']" in others["served"]
    assert variables["own"] == f"variables.place == '{names.OPERATOR_NAMESPACE}'"
    assert f"[?'{names.OPT_IN_LABEL}'].orValue('') in ['', '{names.OPTED_OUT}']" in variables["optedIn"]
    assert tuple(re.findall(r"startsWith\('([^']*)'\)", variables["optedIn"])) == names.REFUSED_PREFIXES
    for mark in (each[name] for each in (variables, others) for name in ("isOurs", "wasOurs")):
        assert f"[?'{names.MANAGED_BY_LABEL}'].orValue('') == '{names.MANAGED_BY}'" in mark
        assert f"[?'{names.NAMESPACE_UID_ANNOTATION}'].orValue('') == variables.uid" in mark


def test_every_namespace_is_opted_in_or_not_for_the_bindings_too() -> None:
    """The children's bindings select by the label what the operator serves; the Workflows' select the rest."""
    label = names.OPT_IN_LABEL
    served = [
        {"key": label, "operator": "Exists"},
        {"key": label, "operator": "NotIn", "values": ["", names.OPTED_OUT]},
    ]
    for name in CHILD:
        assert BINDINGS[name]["matchResources"]["namespaceSelector"]["matchExpressions"] == served
    rest = [
        BINDINGS[f"metaoperator-operator-workflows{suffix}"]["matchResources"]["namespaceSelector"]["matchExpressions"]
        for suffix in ("", "-disabled")
    ]
    assert rest == [
        [{"key": label, "operator": "DoesNotExist"}],
        [{"key": label, "operator": "In", "values": ["", names.OPTED_OUT]}],
    ]


def test_accounts_are_found_by_our_label() -> None:
    """The children's second bindings bring each ServiceAccount with it, the operator's brings each without it."""
    for name in CHILD:
        reference = BINDINGS[f"{name}-marked"]["paramRef"]
        assert reference == {
            "selector": {
                "matchExpressions": [{"key": names.MANAGED_BY_LABEL, "operator": "In", "values": [names.MANAGED_BY]}]
            },
            "parameterNotFoundAction": "Allow",
        }
        assert "paramRef" not in BINDINGS[name]
    (without,) = BINDINGS["metaoperator-operator-accounts"]["paramRef"]["selector"]["matchExpressions"]
    assert without == {"key": names.MANAGED_BY_LABEL, "operator": "NotIn", "values": [names.MANAGED_BY]}


@pytest.mark.parametrize("name", [*CHILD, "metaoperator-accounts"])
def test_the_names_of_children_are_fenced(name: str) -> None:
    """The pattern takes what core/shard names, with and without a number, and no other account."""
    (pattern,) = set(re.findall(r"(?:account|name\.orValue\(''\))\.matches\('([^']+)'\)", text(name)))
    own = shard.only_shard("team-a").name
    for account in (
        own,
        names.WORKFLOW_CONTROLLER,
        f"{names.WORKFLOW_CONTROLLER}-1",
        f"{names.WORKFLOW_CONTROLLER}-12",
    ):
        assert re.search(pattern, account)
    for account in ("default", f"my-{own}", f"{own}-x", f"{own}s", "argo"):
        assert not re.search(pattern, account)


@pytest.mark.parametrize("name", [*CHILD, "metaoperator-accounts", "metaoperator-platform-fields"])
def test_the_platform_is_let_through_by_a_verb_that_it_is_granted(name: str) -> None:
    """The fences ask the authorizer for what ClusterRole metaoperator-administer holds, and no tenant's role does."""
    asked = f".group('{names.GROUP}').resource('workflowcontrollers').namespace(request.namespace)"
    assert asked in text(name)
    assert f".check('{names.ADMINISTER}').allowed()" in text(name)
    holders = {}
    for path in (*FLEET.glob("clusterrole-*.yaml"), OPERATOR / "clusterrole.yaml"):
        role = strictyaml.load(path.read_text())
        verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
        holders[role["metadata"]["name"]] = names.ADMINISTER in verbs
        if names.ADMINISTER in verbs:
            assert not any("aggregate" in label for label in role["metadata"].get("labels", {}))
    assert [name for name, holds in holders.items() if holds] == ["metaoperator-administer"]


def test_no_cluster_admin_lifts_the_operators_fences() -> None:
    """Whatever else its account is given, it stays inside."""
    for name in OF_THE_OPERATOR:
        assert "authorizer" not in text(name)


def test_whoever_may_write_values_may_write_nothing_else() -> None:
    """Fields of a WorkflowController are the platform's unless they are listed, also those to come."""
    schema = strictyaml.load((FLEET / "crds" / "workflowcontrollers.yaml").read_text())
    fields = schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    free = set(re.findall(r"'(\w+)'", expressions(POLICIES["metaoperator-platform-fields"])["free"]))
    assert free == {"values"}
    assert free < set(fields)
    # A default that the policy does not know would count as something that its creator asked for.
    defaults = {field["default"] for field in fields.values() if "default" in field}
    assert defaults == {False, "Never"}
    assert text("metaoperator-platform-fields").count("in [dyn(false), dyn('Never')])") == 2


def test_the_operator_may_take_over_what_the_shipped_set_calls_so() -> None:
    """Every name that is rendered, and no other; a ServiceAccount, which pods may run under, is never deleted."""
    variables = expressions(POLICIES["metaoperator-operator-writes"])
    (pattern,) = re.findall(r"matches\('([^']+)'\)", variables["takesOver"])
    files = [ROOT / "tests" / "golden" / name / "expected.yaml" for name in ("everything-server", "with-server")]
    rendered = [each for path in files for each in strictyaml.documents(path.read_text())]
    assert len(rendered) > 20
    for each in rendered:
        assert re.search(pattern, each["metadata"]["name"]), each["metadata"]["name"]
    for name in ("argo", "nginx", "my-workflow-controller", "workflow-controllers"):
        assert not re.search(pattern, name)
    assert "serviceaccounts" not in variables["takesOver"]
    assert trial.UID in variables["takesOver"]


def test_the_roles_that_the_operator_may_bind_are_those_that_its_fence_lets_through() -> None:
    """RBAC's list and the fence's beginnings are one."""
    (pattern,) = re.findall(r"roleRef\.name\.matches\('([^']+)'\)", text("metaoperator-operator-rolebindings"))
    rules = strictyaml.load((OPERATOR / "clusterrole.yaml").read_text())["rules"]
    bound = [name for rule in rules if "bind" in rule["verbs"] for name in rule["resourceNames"]]
    assert bound
    assert all(re.search(pattern, name) for name in bound)
    assert not re.search(pattern, "x-metaoperator-workflow-controller-v1")


@pytest.mark.parametrize(
    ("pod", "free"),
    [
        ("argo-server-6b7f9c5d44-x2x9z", True),
        ("workflow-controller-6b7f9c5d44-x2x9z", False),
        ("argo-server", False),
        ("my-argo-server-6b7f9c5d44-x2x9z", False),
    ],
)
def test_the_port_of_an_argo_server_is_free(pod: str, free: bool) -> None:  # noqa: FBT001
    """By the name that the set renders: people reach it by `kubectl port-forward`."""
    variable = expressions(POLICIES["metaoperator-child-access"])["isAServersPort"]
    assert "in ['portforward', 'proxy']" in variable
    (pattern,) = re.findall(r"request\.name\.matches\('([^']+)'\)", variable)
    assert names.ARGO_SERVER in pattern
    assert (re.search(pattern, pod) is not None) is free


def test_the_fence_around_the_operators_writes_leaves_out_only_what_another_one_has_or_nobody_minds() -> None:
    """A right that is granted later is fenced from its first day."""
    rules = POLICIES["metaoperator-operator-writes"]["matchConstraints"]
    (every,) = rules["resourceRules"]
    assert every == {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}
    left_out = {
        (group, resource)
        for rule in rules["excludeResourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert left_out == {
        ("", "events"),
        ("events.k8s.io", "events"),
        ("*", "*/status"),
        ("authentication.k8s.io", "*"),
        ("authorization.k8s.io", "*"),
        ("argoproj.io", "*"),
    }
    granted = strictyaml.load((OPERATOR / "clusterrole.yaml").read_text())["rules"]
    statuses = {each for rule in granted for each in rule["resources"] if each.endswith("/status")}
    assert statuses == {"controllertemplates/status", "workflowcontrollers/status"}


def test_the_ids_that_the_operator_may_take_off_are_those_that_policies_give() -> None:
    """A namespace's name and the fleet's constant: whatever else a Workflow carries is somebody else's."""
    expression = expressions(POLICIES["metaoperator-operator-workflows"])["isOurs"]
    assert f"[variables.id] in [request.namespace, '{names.FLEET_INSTANCE_ID}']" in expression
    assert [shard.instance_id("team-a", each) for each in shard.Policy] == ["team-a", names.FLEET_INSTANCE_ID, ""]
