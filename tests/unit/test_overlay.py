"""What an object would be after a write, by value."""

from typing import Any

import pytest
from hypothesis import given

from metaoperator.core import drift, overlay, ownership, unified
from metaoperator.core.model import Ref
from tests.unit.builders import JSON_OBJECTS, UID, config_map, deployment, live


def test_an_object_that_is_not_there_is_what_is_rendered() -> None:
    """With the mark that makes it ours, and a UID that nobody takes for one."""
    would = overlay.applied(config_map(data={"a": "1"}), None)
    assert unified.shown(would) == unified.shown(config_map(data={"a": "1"}))
    assert ownership.is_ours(would, UID)
    assert would["metadata"]["uid"] == overlay.UNKNOWN_UID


def test_fields_and_items_of_others_stay() -> None:
    """A sidecar, a key of somebody's, a manager: an apply takes none of them away."""
    rendered: Any = deployment()
    theirs = live(rendered)
    theirs["spec"]["paused"] = True
    theirs["spec"]["template"]["spec"]["containers"].append({"name": "mesh", "image": "m"})
    theirs["spec"]["template"]["spec"]["containers"][0]["image"] = "edited"
    theirs["metadata"]["managedFields"].append({"manager": "istio"})
    would = overlay.applied(rendered, theirs)
    assert would["spec"]["paused"] is True
    assert [(c["name"], c["image"]) for c in would["spec"]["template"]["spec"]["containers"]] == [
        ("main", "i"),
        ("mesh", "m"),
    ]
    assert [each["manager"] for each in would["metadata"]["managedFields"]] == ["istio", "metaoperator"]


def test_an_applied_object_is_the_newer_one() -> None:
    """Readers go by the version."""
    found = live(config_map())
    assert int(overlay.applied(config_map(), found)["metadata"]["resourceVersion"]) > int(
        found["metadata"]["resourceVersion"]
    )


@given(JSON_OBJECTS, JSON_OBJECTS)
def test_nothing_rendered_differs_after_an_apply(before: dict[str, Any], after: dict[str, Any]) -> None:
    """The law that makes it an overlay, whatever stood there before."""
    rendered = config_map(data=after)
    would = overlay.applied(rendered, live(config_map(data=before)))
    assert list(drift.differences(rendered, would)) == []


# diffs


def test_a_diff_is_like_kubectls() -> None:
    """Names with group and version, both sides, three lines around; nothing that the API server keeps for itself."""
    before, after = live(config_map(data={"a": "1"})), live(config_map(data={"a": "2"}), uid="other")
    lines = unified.diff(Ref.of(before), before, after).splitlines()
    assert lines[:3] == [
        "diff -u -N LIVE/v1.ConfigMap.team-a.one MERGED/v1.ConfigMap.team-a.one",
        "--- LIVE/v1.ConfigMap.team-a.one",
        "+++ MERGED/v1.ConfigMap.team-a.one",
    ]
    assert {"-  a: '1'", "+  a: '2'"} <= set(lines)
    assert not [line for line in lines if "uid:" in line and "namespace-uid" not in line]


@pytest.mark.parametrize(("before", "after", "sign"), [(False, True, "+"), (True, False, "-")])
def test_an_object_that_comes_or_goes_is_shown_whole(before: bool, after: bool, sign: str) -> None:  # noqa: FBT001
    """Each line once."""
    found = live(config_map(data={"a": "1"}))
    lines = unified.diff(Ref.of(found), found if before else None, found if after else None).splitlines()
    assert all(line.startswith(sign) for line in lines[4:])
    assert f"{sign}kind: ConfigMap" in lines


def test_what_only_the_server_wrote_is_no_difference() -> None:
    """Status, versions and managers are none of ours."""
    before, after = live(config_map()), live(config_map(), uid="2")
    after["status"] = {"a": 1}
    after["metadata"]["resourceVersion"] = "9"
    assert unified.diff(Ref.of(before), before, after) == ""
