"""The table of what moves between versions of Argo need: invented fleets, and versions that no shipped set supports."""

from typing import Any

import pytest

from metaoperator.core import definitions, skew
from metaoperator.core.move import Cause, Cron, Facts, Move, Severity

DATABASE = {"config": {"persistence": {"postgresql": {"host": "db"}}}}
SECURE = {"metrics": {"secure": False}}
FULL = frozenset({"workflows"})


def judged(before: str, after: str, values: dict[str, Any] | None = None, **facts: Any) -> list[tuple[str, str]]:
    """Judge one namespace's move, and tell severity and cause of what is found."""
    found = skew.judge({"team-a": Move(before, after, values or SECURE)}, Facts(**facts))
    assert all(each.namespaces == ("team-a",) and each.message and each.cure for each in found)
    return [(str(each.severity), str(each.reason)) for each in found]


TABLE: dict[str, tuple[tuple[Any, ...], dict[str, Any], list[tuple[str, str]]]] = {
    "a patch release": (("v4.1.1", "v4.1.2"), {}, []),
    "nothing moves": (("v4.1.2", "v4.1.2"), {}, []),
    "a first install": (("", "v4.1.2"), {}, []),
    "the next branch": (("v4.0.5", "v4.1.2"), {}, []),
    "minimal definitions suit v4": (("v4.0.5", "v4.1.2"), {"fleet": {"team-b": "v3.7.1"}}, []),
    "a kind that is missing": (
        ("v4.0.5", "v4.1.2"),
        {"missing": frozenset({"workflowartifactgctasks"})},
        [("refuse", "DefinitionMissing")],
    ),
    "a kind that is missing, at a first install": (
        ("", "v4.1.2"),
        {"missing": frozenset({"workflowtaskresults"})},
        [("refuse", "DefinitionMissing")],
    ),
    "a kind that the version does not know": (
        ("v3.2.0", "v3.3.1"),
        {"missing": frozenset({"workflowartifactgctasks"})},
        [("remark", "VersionUnknown"), ("remark", "VersionUnknown")],
    ),
    "event bindings are the server's": (
        ("v4.0.5", "v4.1.2"),
        {"missing": frozenset({"workfloweventbindings"})},
        [],
    ),
    "event bindings, and a server": (
        ("v4.0.5", "v4.1.2", {"server": {"enabled": True}}),
        {"missing": frozenset({"workfloweventbindings"})},
        [("remark", "DefinitionMissing")],
    ),
    "definitions that nobody may read": (
        ("v4.0.5", "v4.1.2"),
        {"unread": "eve may not"},
        [("remark", "DefinitionsUnread")],
    ),
    "full definitions, all of v4": (("v4.0.5", "v4.1.2"), {"full": FULL, "fleet": {"team-a": "v4.0.5"}}, []),
    "full definitions, and v3 elsewhere": (
        ("v4.0.5", "v4.1.2"),
        {"full": FULL, "fleet": {"team-a": "v4.0.5", "team-b": "v3.7.1"}},
        [("remark", "DefinitionsFull")],
    ),
    "full definitions, and v3 moves within v3": (
        ("v3.7.1", "v3.7.2"),
        {"full": FULL, "fleet": {"team-a": "v3.7.1"}},
        [("refuse", "DefinitionsFull")],
    ),
    "full definitions, and a first install of v3": (("", "v3.7.2"), {"full": FULL}, [("refuse", "DefinitionsFull")]),
    "full definitions, and v3 stays as it is": (
        ("v3.7.2", "v3.7.2"),
        {"full": FULL},
        [("remark", "DefinitionsFull")],
    ),
    "a downgrade to v3 under full definitions": (
        ("v4.0.5", "v3.7.2"),
        {"full": FULL, "fleet": {"team-a": "v4.0.5"}},
        [("refuse", "DefinitionsFull"), ("remark", "Downgrade")],
    ),
    "v3 to v4": (("v3.7.2", "v4.0.5"), {}, [("remark", "TemplatesUnread")]),
    "a status that the older cannot read": (
        ("v4.1.2", "v4.0.5"),
        {"compression": {"team-a": "zstd"}},
        [("refuse", "StatusUnreadable"), ("remark", "Downgrade")],
    ),
    "gzip is read by all": (("v4.1.2", "v4.0.5"), {"compression": {"team-a": "gzip"}}, [("remark", "Downgrade")]),
    "zstd within v4.1": (("v4.1.2", "v4.1.1"), {"compression": {"team-a": "zstd"}}, []),
    "another's compression": (("v4.1.2", "v4.0.5"), {"compression": {"team-b": "zstd"}}, [("remark", "Downgrade")]),
    "nodes in a database, back": (
        ("v4.1.2", "v4.0.5", {"config": {"persistence": {"nodeStatusOffLoad": True, "mysql": {}}}}),
        {},
        [("wait-for-workflows", "OffloadedNodes"), ("remark", "Downgrade")],
    ),
    "nodes in a database, back within a branch": (
        ("v4.1.2", "v4.1.1", {"config": {"persistence": {"nodeStatusOffLoad": True, "mysql": {}}}}),
        {},
        [],
    ),
    "an old executor": (("v3.5.1", "v3.5.5"), {}, [("wait-for-workflows", "ExecutorJump")]),
    "an older executor": (
        ("v3.4.9", "v3.6.2"),
        {},
        [("wait-for-workflows", "ExecutorJump"), ("remark", "BranchesSkipped")],
    ),
    "a step between": (("v3.5.1", "v3.5.4"), {}, []),
    "and on from there": (("v3.5.4", "v3.5.8"), {}, []),
    "branches skipped": (("v3.6.2", "v4.0.5"), {}, [("remark", "BranchesSkipped"), ("remark", "TemplatesUnread")]),
    "schedules that would stop": (
        ("v3.7.2", "v4.0.5"),
        {"crons": {"team-a": (Cron(name="nightly", uses=frozenset({"schedule"})),)}},
        [("refuse", "FieldsRemoved"), ("remark", "TemplatesUnread")],
    ),
    "locks that would be lost": (
        ("v3.7.2", "v4.0.5"),
        {"crons": {"team-a": (Cron(name="nightly", uses=frozenset({"mutex", "semaphore", "schedules"})),)}},
        [("refuse", "FieldsRemoved"), ("refuse", "FieldsRemoved"), ("remark", "TemplatesUnread")],
    ),
    "another's schedules": (
        ("v3.7.2", "v4.0.5"),
        {"crons": {"team-b": (Cron(name="nightly", uses=frozenset({"schedule"})),)}},
        [("remark", "TemplatesUnread")],
    ),
    "schedules that v3.5 does not know": (
        ("v3.6.2", "v3.5.9"),
        {"crons": {"team-a": (Cron(name="nightly", uses=frozenset({"schedules"})),)}},
        [("refuse", "FieldsRemoved"), ("remark", "Downgrade")],
    ),
    "CronWorkflows that nobody may list": (
        ("v3.7.2", "v4.0.5"),
        {"crons_unread": "eve may not"},
        [("remark", "FieldsRemoved"), ("remark", "TemplatesUnread")],
    ),
    "metrics with TLS": (("v3.5.9", "v3.6.2", {"log": {}}), {}, [("remark", "MetricsTLS")]),
    "metrics as somebody said": (("v3.5.9", "v3.6.2", {"config": {"metricsConfig": {"secure": True}}}), {}, []),
    "a database": (("v4.0.5", "v4.1.2", DATABASE), {}, [("one-first", "DatabaseMigration")]),
    "a database, and a patch release": (("v4.1.1", "v4.1.2", DATABASE), {}, []),
    "a database, at a first install": (("", "v4.1.2", DATABASE), {}, []),
    "a database that nobody migrates": (
        ("v4.0.5", "v4.1.2", {"config": {"synchronization": {"mysql": {}, "skipMigration": True}}}),
        {},
        [("remark", "DatabaseMigration")],
    ),
    "two databases": (
        ("v4.0.5", "v4.1.2", {"config": {"persistence": {"mysql": {}}, "synchronization": {"mysql": {}}}}),
        {},
        [("one-first", "DatabaseMigration"), ("one-first", "DatabaseMigration")],
    ),
    "outputs of skipped nodes": (("v4.0.5", "v4.0.7"), {}, [("remark", "SkippedOutputs")]),
    "outputs of skipped nodes, as before": (("v4.0.7", "v4.0.8"), {}, []),
    "a version to come": (("v4.1.2", "v5.0.0"), {}, [("remark", "VersionUnknown")]),
    "no version at all": (("latest", "v4.1.2"), {}, [("remark", "VersionUnknown")]),
}


@pytest.mark.parametrize("case", TABLE)
def test_a_move_needs_what_the_table_says(case: str) -> None:
    """And nothing else: worst first."""
    move, facts, expected = TABLE[case]
    found = judged(*move, **facts)
    assert found == sorted(expected, key=lambda each: [list(Severity).index(Severity(each[0]))])


def test_every_row_is_tried() -> None:
    """A row without a case may be dead."""
    assert {Cause(cause) for _, _, expected in TABLE.values() for _, cause in expected} == set(Cause)


def test_the_same_finding_is_told_once() -> None:
    """With every namespace that it concerns, and what it is about, in order."""
    crons = {name: (Cron(name="nightly", uses=frozenset({"schedule"})),) for name in ("team-a", "team-b")}
    moves = {name: Move("v3.7.2", "v4.0.5", SECURE) for name in ("team-b", "team-a", "team-c")}
    removed, unread = skew.judge(moves, Facts(crons=crons))
    assert removed.namespaces == ("team-a", "team-b")
    assert removed.what.endswith(": they stop: team-a/nightly, team-b/nightly")
    assert unread.namespaces == ("team-a", "team-b", "team-c")
    assert unread.who == "3 namespaces: team-a, team-b, team-c"


def test_a_thousand_names_are_counted() -> None:
    """Conditions and comments have an end."""
    assert skew.shortened(map(str, range(1000)), 3) == "0, 1, 2 and 997 more"


def test_the_kinds_that_are_needed_are_argos() -> None:
    """A typo would refuse every move."""
    assert set(skew.NEEDED) == set(definitions.ARGO) - {"workfloweventbindings"}
