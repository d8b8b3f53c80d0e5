"""How a look at a fleet is told, as people see it: one invented fleet in three forms, and what no form may do.

`GOLDEN=write` (or `make golden`) writes the files of `forecast`, and the diff is what gets reviewed.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metaoperator.commands import forecast
from metaoperator.core import unified
from metaoperator.core.errors import RetryableError
from metaoperator.core.model import CONFIG_MAP, Ref
from metaoperator.core.move import Cause, Severity
from metaoperator.core.skew import Finding
from metaoperator.outlook import Group, Outlook, Part

HERE = Path(__file__).parent / "forecast"
FORMS: dict[str, Callable[[Outlook], str]] = {
    "text.txt": forecast.text,
    "markdown.md": forecast.markdown,
    "json.json": lambda found: json.dumps(forecast.as_json(found), indent=2) + "\n",
}


def config(level: str) -> dict[str, Any]:
    """Build an object as a mask leaves it."""
    meta = {"name": "workflow-controller-configmap", "namespace": "<namespace>"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"level": level}}


def part(kind: str, what: str, why: str = "", *, diff: str = "", asked: bool = True, widening: str = "") -> Part:
    """Build what becomes of one object."""
    told = (widening,) if widening else ()
    return Part(kind=kind, name="workflow-controller", what=what, why=why, diff=diff, asked=asked, widening=told)


def group(
    *namespaces: str,
    parts: tuple[Part, ...] = (),
    notes: tuple[str, ...] = (),
    stalled: str = "",
    leaving: bool = False,
    restarts: bool = False,
    companions: int = 0,
    deletions: int = 0,
    child_goes: bool = False,
) -> Group:
    """Build a group."""
    return Group(
        parts=parts,
        notes=notes,
        stalled=stalled,
        leaving=leaving,
        restarts=restarts,
        companions=companions,
        deletions=deletions,
        child_goes=child_goes,
        namespaces=list(namespaces),
    )


def fleet() -> Outlook:
    """Invent a fleet in which everything happens."""
    ref = Ref(CONFIG_MAP, "<namespace>", "workflow-controller-configmap")
    diff = unified.diff(ref, config("info"), config("debug"))
    gains = "RoleBinding/workflow-controller: gives the rights of ClusterRole edit to ServiceAccount x as well"
    return Outlook(
        groups=[
            group("broken", stalled="TemplateInvalid: service.yaml.j2:1: values.nothing | is <undefined>"),
            group(
                *(f"team-{number:03}" for number in range(300)),
                parts=(part("ConfigMap", "changed", diff=diff), part("RoleBinding", "changed", widening=gains)),
                restarts=True,
                companions=1,
            ),
            group(
                "idle",
                parts=(part("Deployment", "pruned", "no longer rendered"), part("Service", "held", "waits")),
                child_goes=True,
                deletions=1,
            ),
            group("reader", parts=(part("ConfigMap", "changed", diff=diff, asked=False),)),
            group("gone", notes=("Draining: opted out; 3 Workflows are unfinished",), leaving=True, child_goes=True),
            group("same", "other"),
        ],
        failed={"slow": RetryableError("GET /api: no answer within 20 s")},
        versions=Counter({("v4.0.5", "v4.1.2"): 300, ("v4.1.2", "v4.1.2"): 2}),
        skew=[
            Finding(
                severity=Severity.ONE_FIRST,
                reason=Cause.DATABASE_MIGRATION,
                message="config.persistence has a database",
                cure="one first",
                namespaces=tuple(f"team-{number:03}" for number in range(300)),
            )
        ],
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_fleet_is_told_as_it_was_reviewed(form: str) -> None:
    """A change of the words is seen in the diff of the file."""
    shown = FORMS[form](fleet())
    path = HERE / form
    if os.environ.get("GOLDEN") == "write":
        path.write_text(shown)
    assert path.read_text() == shown


HOSTILE = "</details>`|x|` @everyone [a](http://b) #1 **b** \x1b[2J"


def test_what_people_named_is_nothing_but_text_in_a_comment() -> None:
    """No tag, no mention, no link, and no fence is ended by what stands in a diff."""
    diff = "+ ```\n+ </details>\n+ ````\n"
    found = Outlook(groups=[group(HOSTILE, parts=(part("ConfigMap", "changed", diff=diff),), stalled=HOSTILE)])
    told = forecast.markdown(found)
    outside = re.sub(r"(?ms)^`````diff$.*?^`````$", "", told)
    assert outside != told
    assert outside.count("</details>") == 1
    assert not {"@", "[a]", "**b**", "\x1b", "`"} & {
        each for each in ("@", "[a]", "**b**", "\x1b", "`") if each in outside
    }
    assert "\x1b" not in forecast.text(found)


def large(groups: int, lines: int) -> Outlook:
    """Invent a fleet in which every namespace is another case."""
    diff = "".join(f"+ line {number}\n" for number in range(lines))
    parts = (part("ConfigMap", "changed", diff=diff),)
    return Outlook(groups=[group(f"team-{number:04}", parts=parts, notes=(str(number),)) for number in range(groups)])


@pytest.mark.parametrize(("groups", "lines"), [(1, 100_000), (5_000, 30), (50, 150), (20, 150)])
def test_what_is_told_has_an_end(groups: int, lines: int) -> None:
    """However large a fleet is: diffs are cut, then left out, then groups are counted."""
    found = large(groups, lines)
    markdown, text, shown = forecast.markdown(found), forecast.text(found), forecast.as_json(found)
    assert len(markdown) <= forecast.MARKDOWN_LIMIT
    assert len(text) <= forecast.TEXT_LIMIT
    assert len(shown["groups"]) + shown["groupsLeftOut"] == groups
    assert len(json.dumps(shown)) < 20_000_000
    assert markdown.count("<details>") == markdown.count("</details>")
    assert (f"… {lines - forecast.DIFF_LINES} more lines" in markdown) == (lines > 1000)
    assert ("more groups with" in markdown) == (groups == 5_000)
    assert ("left out for their size" in markdown) == (groups >= 50)


def test_a_head_without_end_is_cut_too() -> None:
    """A thousand findings, or errors, are as long as any diff."""
    failed = {f"team-{number:04}": RetryableError("x" * 100) for number in range(1000)}
    told = forecast.markdown(Outlook(failed=dict(failed)))
    assert len(told) <= forecast.MARKDOWN_LIMIT
    assert told.endswith("…\n")
