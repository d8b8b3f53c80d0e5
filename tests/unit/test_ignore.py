"""Fields left to others: how they are named, when they are theirs, and what is never left to anybody."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from metaoperator.core import ignore, names, ownership, paths, plan
from metaoperator.core.drift import differences
from metaoperator.core.ignore import Ignored
from metaoperator.core.model import CONFIG_MAP, DEPLOYMENT, Manifest, Ref
from metaoperator.core.names import Reason
from metaoperator.core.plan import Step, Verb
from tests.unit.builders import UID, live, rendered

MAIN: dict[str, Any] = {
    "name": "main",
    "image": "i:1",
    "args": ["a", "b"],
    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
    "ports": [{"name": "metrics", "containerPort": 9090}],
    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}},
}
WANTED = rendered(
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "workflow-controller", "annotations": {"example.com/role": "a"}},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [MAIN], "tolerations": [{"key": "a"}]}}},
    }
)
POD = "spec.template.spec"
C = 'k:{"name":"main"}'


def container(tree: dict[str, Any]) -> dict[str, Any]:
    """Write what a manager owns in our container."""
    return {"f:spec": {"f:template": {"f:spec": {"f:containers": {C: tree}}}}}


def found(manager: str, tree: dict[str, Any], *, subresource: str = "") -> dict[str, Any]:
    """Store the object with what another manager owns in it."""
    stored = copy.deepcopy(live(WANTED))
    stored["metadata"]["managedFields"].append({"manager": manager, "subresource": subresource, "fieldsV1": tree})
    return stored


def edited(stored: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Change fields of our container."""
    stored["spec"]["template"]["spec"]["containers"][0] |= copy.deepcopy(fields)
    return stored


def planned(stored: Manifest, *listed: str, kind: str = "Deployment", name: str = "") -> Step:
    """Plan with paths left to others."""
    ignored = [Ignored(kind=kind, api_version="", name=name, paths=listed)]
    (only,) = plan.build([WANTED], {Ref.of(stored): stored}, namespace_uid=UID, answers={}, ignored=ignored)
    return only


@pytest.mark.parametrize(
    ("path", "way"),
    [
        ("spec.replicas", ("spec", "replicas")),
        (f"{POD}.containers[main]", ("spec", "template", "spec", "containers", "[main]")),
        (f"{POD}.containers[main].image", ("spec", "template", "spec", "containers", "[main]", "image")),
        (f"{POD}.containers[main].env[A].value", (*POD.split("."), "containers", "[main]", "env", "[A]", "value")),
        (f"{POD}.containers[main].ports[metrics]", (*POD.split("."), "containers", "[main]", "ports", "[metrics]")),
        (f"{POD}.containers[main].args", (*POD.split("."), "containers", "[main]", "args")),
        ("metadata.annotations.example.com/role", ("metadata", "annotations", "example.com/role")),
        ("metadata.annotations[example.com/role]", ("metadata", "annotations", "example.com/role")),
        # Nothing of that name
        ("spec.replica", None),
        ("spec.replicas.more", None),
        ("spec", ("spec",)),
        ("spe", None),
        (f"{POD}.containers[other].image", None),
        (f"{POD}.containers.main.image", None),
        (f"{POD}.containers[main].args[0]", None),
        (f"{POD}.tolerations[0]", None),
        ("", None),
        (".", None),
        ("[spec]x", None),
    ],
)
def test_a_path_names_what_messages_call_by_the_same_words(path: str, way: paths.Keys | None) -> None:
    """Dots between keys, brackets for an item of a merged list; a list that is one value has no items."""
    assert paths.locate(WANTED, path) == way


def test_every_word_of_a_message_can_be_listed() -> None:
    """What a difference is called is what `ignoreFields` takes, but for an item of a list that is one value."""
    for path, _ in differences(WANTED, {}):
        assert paths.nearest(WANTED, path), path
        if not path.endswith("]"):
            assert paths.locate(WANTED, path) is not None, path


def test_the_definition_takes_every_word_of_a_message() -> None:
    """Its pattern is no narrower than what differences are called."""
    path = Path(__file__).parents[2] / "manifests" / "fleet" / "crds" / "controllertemplates.yaml"
    (version,) = yaml.safe_load(path.read_text())["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    listed = spec["ignoreFields"]["items"]["properties"]["paths"]["items"]
    for word, _ in differences(WANTED, {}):
        assert re.search(listed["pattern"], word), word
    for bad in ("", ".spec", "a b", "[a]"):
        assert not re.search(listed["pattern"], bad), bad


THEIRS = {"f:resources": {"f:limits": {"f:cpu": {}}}}


def test_a_listed_field_that_another_owns_is_theirs() -> None:
    """Neither compared nor applied; without the list it is drift."""
    stored = edited(
        found("vpa", container(THEIRS)), resources=MAIN["resources"] | {"limits": {"cpu": "4", "memory": "1Gi"}}
    )
    assert planned(stored, f"{POD}.containers[main].resources").verb is Verb.KEEP
    assert planned(stored, f"{POD}.containers[main].resources.limits.cpu").verb is Verb.KEEP
    for path in (f"{POD}.containers[main].resources.limits.memory", f"{POD}.containers[main].image"):
        only = planned(stored, path)
        assert (only.verb, only.reason) == (Verb.APPLY, Reason.DRIFT)
        assert only.writers == ("vpa",)
    assert planned(stored, f"{POD}.containers[main].resources", kind="StatefulSet").verb is Verb.APPLY
    assert planned(stored, f"{POD}.containers[main].resources", name="other").verb is Verb.APPLY


def test_what_nobody_else_owns_stays_as_rendered() -> None:
    """Only the leaf that is theirs is left out: an apply without the others would take them away."""
    stored = edited(found("vpa", container(THEIRS)), image="i:0")
    only = planned(stored, f"{POD}.containers[main].resources")
    assert only.manifest is not None
    (left,) = only.manifest["spec"]["template"]["spec"]["containers"]
    assert left["resources"] == {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1"}}
    assert left["image"] == "i:1"


def test_without_another_owner_a_listed_field_is_compared() -> None:
    """Listed and nobody's: a difference is drift, and is put back."""
    stored = edited(copy.deepcopy(live(WANTED)), image="i:0")
    assert planned(stored, f"{POD}.containers[main].image").verb is Verb.APPLY


@pytest.mark.parametrize(
    ("tree", "path", "left"),
    [
        pytest.param(
            {"f:env": {'k:{"name":"A"}': {"f:value": {}}}}, "env[A]", [{"name": "A"}, MAIN["env"][1]], id="value"
        ),
        pytest.param(
            {"f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}}}, "env[A]", [MAIN["env"][1]], id="item"
        ),
        pytest.param(
            {"f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}}}, "env[B]", MAIN["env"], id="other"
        ),
    ],
)
def test_items_of_a_merged_list_are_left_one_by_one(tree: dict[str, Any], path: str, left: Any) -> None:
    """An item that is applied in part keeps its key."""
    stored = edited(found("x", container(tree)), image="i:0")
    only = planned(stored, f"{POD}.containers[main].{path}")
    assert only.manifest is not None
    assert only.manifest["spec"]["template"]["spec"]["containers"][0]["env"] == left


def test_a_port_is_found_by_the_keys_of_the_api_server() -> None:
    """Messages call it by its name, managedFields by number and protocol."""
    tree = {"f:ports": {'k:{"containerPort":9090,"protocol":"TCP"}': {"f:hostPort": {}, "f:name": {}}}}
    stored = edited(found("x", container(tree)), ports=[{"name": "theirs", "containerPort": 9090, "protocol": "TCP"}])
    assert planned(stored).verb is Verb.APPLY
    only = planned(stored, f"{POD}.containers[main].ports[metrics]")
    assert only.verb is Verb.APPLY  # the name was the item's word for us: what is left of ours is its number
    assert only.manifest is not None


def test_a_list_that_is_one_value_is_left_whole() -> None:
    """Tolerations have one owner as a whole."""
    tree = {"f:spec": {"f:template": {"f:spec": {"f:tolerations": {}}}}}
    stored = found("policy", tree)
    stored["spec"]["template"]["spec"]["tolerations"] = [{"key": "a"}, {"key": "b"}]
    assert planned(stored, f"{POD}.tolerations").verb is Verb.KEEP
    assert planned(stored).verb is Verb.APPLY


@pytest.mark.parametrize(
    ("manager", "subresource", "verb"),
    [
        ("kube-controller-manager", "scale", Verb.KEEP),
        ("kubectl", "scale", Verb.APPLY),
        ("kube-controller-manager", "", Verb.APPLY),
        ("kubectl-edit", "", Verb.APPLY),
    ],
)
def test_replicas_are_left_to_an_autoscaler_alone(manager: str, subresource: str, verb: Verb) -> None:
    """It writes through `scale` from the controller manager; a person's `kubectl scale` is drift."""
    stored = found(manager, {"f:spec": {"f:replicas": {}}}, subresource=subresource)
    stored["spec"]["replicas"] = 5
    assert planned(stored).verb is verb


def test_what_is_left_stays_out_of_a_change() -> None:
    """New bytes are applied without what is theirs, or the upgrade would take it back."""
    stored = found("kube-controller-manager", {"f:spec": {"f:replicas": {}}}, subresource="scale")
    stored["metadata"]["annotations"][names.RENDERED_ANNOTATION] = "older"
    only = planned(stored)
    assert (only.verb, only.reason) == (Verb.APPLY, Reason.CHANGED)
    assert only.manifest is not None
    assert "replicas" not in only.manifest["spec"]
    assert only.manifest["metadata"] == WANTED["metadata"]


def test_a_created_object_is_created_whole() -> None:
    """Listed fields are rendered at first."""
    ignored = [Ignored(kind="Deployment", api_version="", name="", paths=("spec.replicas",))]
    (only,) = plan.build([WANTED], {}, namespace_uid=UID, answers={}, ignored=ignored)
    assert only.manifest == WANTED


def test_writers_are_named_with_the_way_they_write() -> None:
    """The other manager of what differs, and no others."""
    stored = found("kubectl", {"f:spec": {"f:replicas": {}}}, subresource="scale")
    stored["metadata"]["managedFields"].append({"manager": "mesh", "fieldsV1": {"f:metadata": {"f:labels": {}}}})
    stored["metadata"]["managedFields"].append({"manager": "kube-controller-manager"})
    assert ownership.writers(WANTED, stored, ["spec.replicas"]) == ("kubectl through scale",)
    assert ownership.writers(WANTED, stored, [f"{POD}.tolerations[0].key"]) == ()


# What is refused


def faults(*listed: str, kind: str = "Deployment", api: str = "") -> list[str]:
    """Check paths against a set that renders Deployments and ConfigMaps."""
    ignored = [Ignored(kind=kind, api_version=api, name="", paths=listed)]
    return [str(each) for each in ignore.faults(ignored, {DEPLOYMENT, CONFIG_MAP})]


@pytest.mark.parametrize(
    "path",
    [
        "kind",
        "apiVersion",
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "metadata.labels",
        "metadata.annotations",
        f"metadata.labels.{names.MANAGED_BY_LABEL}",
        f"metadata.labels[{names.MANAGED_BY_LABEL}]",
        f"metadata.annotations.{names.NAMESPACE_UID_ANNOTATION}",
        f"metadata.annotations[{names.RENDERED_ANNOTATION}]",
    ],
)
def test_our_mark_is_left_to_nobody(path: str) -> None:
    """Nor is anything that it is in: an object that loses it is no longer ours."""
    (only,) = faults("spec.replicas", path)
    assert only.startswith(f"spec.ignoreFields[0]: {path} ")


@pytest.mark.parametrize(
    "path", ["metadata.labels.team", "metadata.annotations.example.com/role", "spec", "data", "kinds"]
)
def test_anything_else_may_be_left(path: str) -> None:
    """Labels and annotations one by one."""
    assert faults(path) == []


def test_a_kind_that_the_set_does_not_render_is_refused() -> None:
    """With those that it does."""
    (only,) = faults("spec", kind="Deploymnet")
    assert "one of ConfigMap, Deployment" in only
    assert faults("spec", api="apps/v1") == []
    assert len(faults("spec", api="apps/v1beta1")) == 1


def test_a_path_that_matches_nothing_rendered_is_told_with_what_is_near() -> None:
    """A typo would leave nothing to anybody, in silence."""

    def unmatched(*listed: str, **which: str) -> list[str]:
        ignored = [Ignored(**{"kind": "Deployment", "api_version": "", "name": "", **which}, paths=listed)]
        return [str(each) for each in ignore.unmatched(ignored, [WANTED])]

    assert unmatched("spec.replicas", f"{POD}.containers[main].resources") == []
    (only,) = unmatched(f"{POD}.containers[mian].resources")
    assert "containers[mian].resources names no field that is rendered in Deployment" in only
    assert f"rendered is {POD}.containers" in only
    (only,) = unmatched("spec.replicas", name="other")
    assert "Deployment/other is not rendered" in only
