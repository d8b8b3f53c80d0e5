"""The policies about instance IDs, held to the code and to each other; what they do is asked in tests/admission."""

import re
from pathlib import Path
from typing import Any

import pytest

from metaoperator import bundle
from metaoperator.core import names, shard, strictyaml

ROOT = Path(__file__).parents[2]
COMPONENTS = ROOT / "manifests" / "components"
FILES = [
    *sorted((ROOT / "manifests" / "fleet").glob("instance-id-*.yaml")),
    *(path for path in sorted(COMPONENTS.rglob("*.yaml")) if path.name != "kustomization.yaml"),
]
ALL = [strictyaml.load(path.read_text()) for path in FILES]
_OF_ADMISSION = [each for each in ALL if each["apiVersion"].startswith("admissionregistration.k8s.io/")]
POLICIES: dict[str, Any] = {
    each["metadata"]["name"]: each for each in _OF_ADMISSION if not each["kind"].endswith("Binding")
}
BINDINGS: dict[str, Any] = {
    each["metadata"]["name"]: each for each in _OF_ADMISSION if each["kind"].endswith("Binding")
}
PART_OF = {"app.kubernetes.io/part-of": "metaoperator"}


def texts(policy: Any) -> str:
    """Join all CEL of one policy."""
    spec = policy["spec"]
    found = [
        each["expression"] for part in ("matchConditions", "variables", "validations") for each in spec.get(part, ())
    ]
    found += [each.get("messageExpression", "") for each in spec.get("validations", ())]
    return "\n".join([*found, *(each["jsonPatch"]["expression"] for each in spec.get("mutations", ()))])


def test_they_are_those_that_the_code_names() -> None:
    """Each has a binding of its name."""
    assert POLICIES.keys() == BINDINGS.keys()
    assert POLICIES.keys() == {
        names.STAMPING_POLICY,
        names.STAMPING_PINNED,
        names.INSTANCE_ID_METADATA,
        names.INSTANCE_ID_STARTED,
    }
    assert all(BINDINGS[name]["spec"]["policyName"] == name for name in POLICIES)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_opted_in_means_the_same_to_each_of_them_and_to_the_operator(name: str) -> None:
    """Label, word for no, own namespace and refused prefixes are those of core/optin."""
    spec = POLICIES[name]["spec"]
    label = names.OPT_IN_LABEL
    assert spec["matchConstraints"]["namespaceSelector"]["matchExpressions"] == [
        {"key": label, "operator": "Exists"},
        {"key": label, "operator": "NotIn", "values": ["", names.OPTED_OUT]},
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [names.OPERATOR_NAMESPACE]},
    ]
    first = spec["matchConditions"][0]
    assert first["name"] == "namespace-may-opt-in"
    assert tuple(re.findall(r"startsWith\('([^']*)'\)", first["expression"])) == names.REFUSED_PREFIXES


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_keys_are_argos_and_those_of_the_code(name: str) -> None:
    """A typo would stamp what nobody selects."""
    cron = {"workflows.argoproj.io/cron-workflow", "workflows.argoproj.io/scheduled-time"}
    keys = set(re.findall(r"['\"](\w+\.argoproj\.io/[a-z-]+)", texts(POLICIES[name])))
    assert names.INSTANCE_ID_LABEL in keys
    assert keys - cron <= {names.INSTANCE_ID_LABEL, names.PHASE_LABEL}


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_they_close_when_they_break(name: str) -> None:
    """A refusal is seen and repeated; a Workflow without its ID waits in silence."""
    assert POLICIES[name]["spec"]["failurePolicy"] == "Fail"
    if POLICIES[name]["kind"] == "ValidatingAdmissionPolicy":
        assert BINDINGS[name]["spec"]["validationActions"] == ["Deny"]


def test_none_is_asked_at_updates_of_workflows_but_the_guard() -> None:
    """Each write of their controller is one, and large ones cost the API server."""
    asked = {
        name
        for name, policy in POLICIES.items()
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        if "workflows" in rule["resources"] and "UPDATE" in rule["operations"]
    }
    assert asked == {names.INSTANCE_ID_STARTED}


def test_the_stamping_policy_says_which_id_it_gives() -> None:
    """The operator and preflight compare it with what ControllerTemplates say."""
    assert POLICIES[names.STAMPING_POLICY]["metadata"]["annotations"] == {
        names.INSTANCE_ID_POLICY_ANNOTATION: "PerNamespace"
    }


def test_a_chosen_id_takes_the_place_of_each_that_the_fleet_gives() -> None:
    """The pinned policy knows them all, because policies run in no order."""
    (condition,) = [
        each["expression"]
        for each in POLICIES[names.STAMPING_PINNED]["spec"]["matchConditions"]
        if each["name"] == "has-no-id-of-its-own"
    ]
    assert f"in ['', request.namespace, '{names.FLEET_INSTANCE_ID}']" in condition
    fleet = (COMPONENTS / "instance-id-fleet" / "kustomization.yaml").read_text()
    assert f"value: \"'{names.FLEET_INSTANCE_ID}'\"" in fleet


def test_its_parameter_is_the_namespaces_own_workflow_controller() -> None:
    """By its fixed name, and nothing is refused where it is not."""
    assert POLICIES[names.STAMPING_PINNED]["spec"]["paramKind"] == {
        "apiVersion": names.API_VERSION,
        "kind": "WorkflowController",
    }
    reference = BINDINGS[names.STAMPING_PINNED]["spec"]["paramRef"]
    assert reference == {"name": names.WORKFLOW_CONTROLLER, "parameterNotFoundAction": "Allow"}


def test_the_guard_lets_every_child_through() -> None:
    """Its pattern takes what core/shard names, with and without a number, and no other account."""
    own = shard.only_shard("team-a").name
    (expression,) = [
        each["expression"]
        for each in POLICIES[names.INSTANCE_ID_STARTED]["spec"]["matchConditions"]
        if each["name"] == "is-neither-the-controller-nor-the-operator"
    ]
    (left, right) = re.findall(r"'([^']*)' \+ request\.namespace \+ '([^']*)'", expression)[0]
    pattern = f"{left}team-a{right}"
    for account in (
        own,
        names.WORKFLOW_CONTROLLER,
        f"{names.WORKFLOW_CONTROLLER}-1",
        f"{names.WORKFLOW_CONTROLLER}-12",
    ):
        assert re.search(pattern, f"system:serviceaccount:team-a:{account}")
    for user in (
        "system:serviceaccount:team-a:default",
        f"system:serviceaccount:team-b:{own}",
        f"system:serviceaccount:team-a:{own}-x",
        f"x-system:serviceaccount:team-a:{own}",
    ):
        assert not re.search(pattern, user)


def test_what_components_add_is_marked_as_part_of_the_bundle() -> None:
    """The bundle's own label does not reach what a component brings."""
    for path in FILES:
        if COMPONENTS in path.parents:
            assert PART_OF.items() <= strictyaml.load(path.read_text())["metadata"]["labels"].items()


@pytest.mark.parametrize("place", sorted(COMPONENTS.iterdir()), ids=lambda place: place.name)
def test_a_component_says_at_its_head_how_it_is_used(place: Path) -> None:
    """By one line, which names it."""
    text = (place / "kustomization.yaml").read_text()
    assert strictyaml.load(text)["kind"] == "Component"
    head = text[: text.index("apiVersion:")]
    assert f"components: [<here>/manifests/components/{place.name}]" in head
    assert bundle.folder(f"components/{place.name}").is_dir()
