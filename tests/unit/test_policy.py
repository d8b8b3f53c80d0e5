"""`spec.rollout`: what it means, and that all that is wrong with it is told."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from metaoperator.core import strictyaml, values
from metaoperator.core.errors import PolicyError
from metaoperator.core.policy import Approval, OnFailure, Policy, Workflows
from metaoperator.core.waves import Expression, Operator, Selector, Share, Wave
from metaoperator.core.windows import Window


def test_without_any_the_defaults_hold() -> None:
    """One wave, a tenth at a time, a minute of soaking, ten of patience, no failure, and a person after one."""
    for spec in ({}, {"rollout": {}}, {"rollout": None}):
        assert Policy.read(spec) == Policy()
    policy = Policy()
    assert (policy.waves, str(policy.max_unavailable), policy.soak_seconds) == ((), "10%", 60)
    assert (policy.progress_deadline_seconds, str(policy.failure_threshold)) == (600, "0")
    assert (policy.on_failure, policy.workflows, policy.paused) == (OnFailure.PAUSE, Workflows.IGNORE, False)
    assert (str(policy.deletion_limit), policy.history_limit) == ("10%", 10)


WHOLE: dict[str, Any] = {
    "rollout": {
        "waves": [
            {
                "name": "canary",
                "selector": {
                    "matchLabels": {"tier": "canary"},
                    "matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}],
                },
                "maxUnavailable": 1,
                "soakSeconds": 0,
                "approval": True,
            },
            {"name": "early", "percent": 10},
        ],
        "maxUnavailable": "20%",
        "soakSeconds": 30,
        "progressDeadlineSeconds": 300,
        "failureThreshold": "5%",
        "onFailure": "Rollback",
        "windows": [{"cron": "0 22 * * 1-5", "duration": "6h", "timeZone": "Europe/Berlin"}],
        "workflows": "Wait",
        "workflowsTimeoutSeconds": 60,
        "paused": True,
        "revision": "0123456789",
        "approvals": [{"revision": "0123456789", "wave": "canary", "at": "2026-11-30T10:00:00+01:00"}],
        "resumedAt": "2026-11-30T10:00:00Z",
    },
    "deletionLimit": 3,
    "revisionHistoryLimit": 5,
}


def test_all_of_it_is_read() -> None:
    """As the CRD has it."""
    expression = Expression(key="zone", operator=Operator.NOT_IN, values=frozenset({"a"}))
    assert Policy.read(WHOLE) == Policy(
        waves=(
            Wave(
                name="canary",
                selector=Selector(labels={"tier": "canary"}, expressions=(expression,)),
                max_unavailable=Share(amount=1),
                soak_seconds=0,
                approval=True,
            ),
            Wave(name="early", percent=10),
        ),
        max_unavailable=Share(amount=20, percent=True),
        soak_seconds=30,
        progress_deadline_seconds=300,
        failure_threshold=Share(amount=5, percent=True),
        on_failure=OnFailure.ROLLBACK,
        windows=(Window(cron="0 22 * * 1-5", duration=timedelta(hours=6), zone="Europe/Berlin"),),
        workflows=Workflows.WAIT,
        workflows_timeout_seconds=60,
        paused=True,
        revision="0123456789",
        approvals=(Approval(revision="0123456789", wave="canary", at=datetime(2026, 11, 30, 9, tzinfo=UTC)),),
        resumed_at=datetime(2026, 11, 30, 10, tzinfo=UTC),
        deletion_limit=Share(amount=3),
        history_limit=5,
    )


def as_json_schema(schema: Any) -> Any:
    """Read a schema of a CRD as the API server does with kubectl's strict validation: unknown fields are refused."""
    if isinstance(schema, list):
        return [as_json_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    read = {key: as_json_schema(value) for key, value in schema.items() if key != "format"}
    if schema.get("x-kubernetes-int-or-string"):
        read["type"] = ["integer", "string"]
    if "properties" in schema and isinstance(schema.get("type"), str):
        read["additionalProperties"] = False
    return read


def crd() -> jsonschema_rs.Validator:
    """Compile what the CRD says of the fields that are read here."""
    path = Path(__file__).parents[2] / "manifests" / "fleet" / "crds" / "controllertemplates.yaml"
    whole = strictyaml.load(path.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields = whole["properties"]["spec"]["properties"]
    kept = {key: fields[key] for key in ("rollout", "deletionLimit", "revisionHistoryLimit")}
    return values.validator(as_json_schema({"type": "object", "properties": kept}))


CRD = crd()
KNOWN_HERE_ALONE = re.compile(
    # Rules of CEL, and list keys, of which JSON Schema knows nothing; and what no API server knows.
    r"two waves|last wave|either|belong to|need some|must be a moment|^hour$|Europe/Berlin|at most 31 days"
)


def test_the_crd_has_the_same_fields_and_takes_what_is_read() -> None:
    """A field that only one of them knows would be dropped, or ignored, without a word."""
    assert [each.message for each in CRD.iter_errors(WHOLE)] == []


def waves(*found: Any) -> dict[str, Any]:
    """Write waves."""
    return {"waves": list(found)}


def window(**fields: Any) -> dict[str, Any]:
    """Write one window."""
    return {"windows": [{"cron": "0 22 * * *", "duration": "6h"} | fields]}


@pytest.mark.parametrize(
    ("rollout", "path", "what"),
    [
        ({"maxUnavaliable": 1}, "maxUnavaliable", "did you mean maxUnavailable?"),
        ([], "", "is not a mapping"),
        ({"waves": {}}, "waves", "is not a list"),
        ({"waves": ["canary"]}, "waves[0]", "is not a mapping"),
        (waves(*({"name": f"w{at}", "percent": 1} for at in range(17))), "waves", "at most 16"),
        (waves({"percent": 1}), "waves[0].name", "is missing"),
        (waves({"name": "Canary", "percent": 1}), "waves[0].name", "a-z, 0-9 and -"),
        (waves({"name": "rest", "percent": 1}), "waves[0].name", "last wave"),
        (waves({"name": "a", "percent": 1}, {"name": "a", "percent": 1}), "waves[1].name", "two waves"),
        (waves({"name": "a"}), "waves[0]", "either a selector or a percent"),
        (waves({"name": "a", "percent": 1, "selector": {"matchLabels": {"a": "b"}}}), "waves[0]", "either"),
        (waves({"name": "a", "percent": 0}), "waves[0].percent", "from 1 to 100"),
        (waves({"name": "a", "percent": 101}), "waves[0].percent", "from 1 to 100"),
        (waves({"name": "a", "percent": "10%"}), "waves[0].percent", "whole number"),
        (waves({"name": "a", "percent": True}), "waves[0].percent", "whole number"),
        (waves({"name": "a", "selector": {}}), "waves[0].selector", "selects every namespace"),
        (waves({"name": "a", "selector": {"tier": "x"}}), "waves[0].selector.tier", "is no field"),
        (waves({"name": "a", "selector": {"matchLabels": {"a": 1}}}), "waves[0].selector.matchLabels.a", "not text"),
        (
            waves({"name": "a", "selector": {"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}}),
            "waves[0].selector.matchExpressions[0].operator",
            "In, NotIn, Exists, DoesNotExist",
        ),
        (
            waves(
                {"name": "a", "selector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}}
            ),
            "waves[0].selector.matchExpressions[0].values",
            "belong to In and NotIn",
        ),
        (
            waves({"name": "a", "selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            "waves[0].selector.matchExpressions[0].values",
            "need some",
        ),
        ({"maxUnavailable": 0}, "maxUnavailable", "from 1"),
        ({"maxUnavailable": "0%"}, "maxUnavailable", "from 1"),
        ({"maxUnavailable": "101%"}, "maxUnavailable", "to 100%"),
        ({"maxUnavailable": "10"}, "maxUnavailable", "for example 3, or 10%"),
        ({"maxUnavailable": -1}, "maxUnavailable", "from 1"),
        ({"failureThreshold": "1.5%"}, "failureThreshold", "whole number"),
        ({"soakSeconds": -1}, "soakSeconds", "from 0 to 86400"),
        ({"progressDeadlineSeconds": 0}, "progressDeadlineSeconds", "from 1"),
        ({"onFailure": "rollback"}, "onFailure", "Pause, Rollback"),
        ({"workflows": "No"}, "workflows", "Ignore, Wait"),
        ({"paused": "true"}, "paused", "true or false"),
        ({"revision": 1234567890}, "revision", "in quotes"),
        ({"revision": "latest"}, "revision", "ten hexadecimal digits"),
        ({"approvals": [{"wave": "a"}]}, "approvals[0]", "the revision and the wave"),
        ({"resumedAt": "now"}, "resumedAt", "must be a moment"),
        ({"resumedAt": "2026-11-30T10:00:00"}, "resumedAt", "must be a moment"),
        (window(cron="0 25 * * *"), "windows[0].cron", "hour"),
        (window(cron=None), "windows[0].cron", "is missing"),
        (window(cron=5), "windows[0].cron", "must be text"),
        (window(timeZone="Europe/Berln"), "windows[0].timeZone", "Europe/Berlin"),
        (window(duration="6"), "windows[0].duration", "like 6h or 1h30m"),
        (window(duration="0h"), "windows[0].duration", "at most 31 days"),
        (window(duration="745h"), "windows[0].duration", "at most 31 days"),
        (window(durationn="1h"), "windows[0].durationn", "did you mean duration?"),
    ],
)
def test_what_cannot_be_followed_is_told_with_its_path(rollout: Any, path: str, what: str) -> None:
    """Whatever it is: the API server refuses most of it, and `validate` has no API server."""
    with pytest.raises(PolicyError) as caught:
        Policy.read({"rollout": rollout})
    assert KNOWN_HERE_ALONE.search(what) or not CRD.is_valid({"rollout": rollout}), "the API server would take it"
    found = [each for each in caught.value.problems if what in str(each)]
    assert [each.where for each in found] == [".".join(filter(None, ("spec.rollout", path)))]


def test_every_fault_is_told_at_once() -> None:
    """A person corrects them in one go."""
    with pytest.raises(PolicyError) as caught:
        Policy.read({"rollout": {"paused": 1, "soakSeconds": "1"}, "deletionLimit": "x", "revisionHistoryLimit": 0})
    assert [each.where for each in caught.value.problems] == [
        "spec.rollout.soakSeconds",
        "spec.rollout.paused",
        "spec.deletionLimit",
        "spec.revisionHistoryLimit",
    ]


def test_the_newest_approval_of_a_wave_counts() -> None:
    """One that says when is newer than one that does not."""
    moment = datetime(2026, 11, 30, tzinfo=UTC)
    one, two = Approval(revision="a", wave="w"), Approval(revision="a", wave="w", at=moment)
    assert Policy(approvals=(two, one, Approval(revision="b", wave="w"))).approved("a", "w") == two
    assert Policy(approvals=(one, one)).approved("a", "w") == one
    assert Policy(approvals=(one,)).approved("a", "v") is None
