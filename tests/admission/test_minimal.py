"""With Argo's minimal CRDs, which keep whatever they get: the policies meet null and fields of any shape."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import build
from tests.e2e.local import INSTANCE_ID, Object, eventually
from tests.e2e.workflows import one_step

from .test_stamping import ALL_PLACES, KINDS, NS, REFUSALS, _carrying
from .world import PLURALS, World, id_of


@pytest.fixture(scope="module")
def minimal(world: World) -> Iterator[World]:
    """Have the other set of CRDs, and put the first one back."""
    world.namespace(NS)
    _have(world, "minimal", kept=True)
    yield world
    _have(world, "full", kept=False)


def _have(world: World, which: str, *, kept: bool) -> None:
    world.kubectl("apply", "--server-side", "--force-conflicts", "-f", build.argo_crds(which))

    def in_use() -> None:
        for kind in PLURALS:
            manifest = one_step("probe", kind=kind)
            manifest["spec"]["nobodyKnows"] = "this"
            code, answer = world.send("POST", world.path(kind, NS) + "?dryRun=All", manifest)
            assert code == 201, answer
            assert ("nobodyKnows" in answer["spec"]) == kept

    eventually(in_use, seconds=60)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", [None, {}, {INSTANCE_ID: None}, {"team": "a"}], ids=str)
def test_it_is_stamped(labels: Any, kind: str, minimal: World) -> None:
    """Metadata are the API server's own, whatever the CRD says."""
    assert id_of(minimal.create(NS, one_step("raw", kind=kind, labels=labels), dry=True)) == NS


@pytest.mark.parametrize(("kind", "place"), ALL_PLACES)
def test_an_id_in_workflow_metadata_is_refused(kind: str, place: str, minimal: World) -> None:
    """By the policy's own words, and not because an expression broke."""
    code, answer = minimal.send("POST", minimal.path(kind, NS), _carrying(kind, place))

    assert code == 403, answer
    assert REFUSALS in answer["message"]
    assert f"{place}: take the label" in answer["message"]


@pytest.mark.parametrize("kind", list(PLURALS))
@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"workflowMetadata": None, "workflowSpec": None},
        {"workflowMetadata": {}, "workflowSpec": {}},
        {"workflowMetadata": {"labels": None, "labelsFrom": None}, "workflowSpec": {"workflowMetadata": None}},
        {"workflowMetadata": {"labels": {}}, "workflowSpec": {"workflowMetadata": {"labels": None, "labelsFrom": {}}}},
        {"workflowMetadata": {"labels": {"team": "a"}}},
    ],
    ids=str,
)
def test_nothing_in_workflow_metadata_is_nothing_to_refuse(spec: Object, kind: str, minimal: World) -> None:
    """Clients write empty mappings and null for what is not there."""
    manifest = one_step("plain", kind=kind)
    manifest["spec"] |= spec

    minimal.create(NS, manifest, dry=True)


@pytest.mark.parametrize("kind", list(PLURALS))
def test_a_spec_that_is_null_is_nothing_to_refuse(kind: str, minimal: World) -> None:
    """Whether Argo can run it is Argo's to say."""
    manifest = one_step("plain", kind=kind) | {"spec": None}

    code, answer = minimal.send("POST", minimal.path(kind, NS) + "?dryRun=All", manifest)

    assert code == 201 or REFUSALS not in answer["message"], answer
