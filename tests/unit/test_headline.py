"""The bench of what the product exists for: its figures, its picture, and that it counts each Workflow once."""

import json
import re
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path

import pytest

from tests.bench import controllers, load, plot, turns
from tests.bench.report import RESULTS, Figure
from tests.bench.turns import ARMS, SETTINGS, TOLD, Round, Turn
from tests.e2e.audit import Audit


def round_of(neighbour: float, rate: float) -> Round:
    """Build a round whose fleet is ten times as good."""
    names = [field.name for field in fields(Turn)]
    shared = Turn(**(dict.fromkeys(names, 1.0) | {"neighbour": neighbour, "rate": rate}))
    fleet = Turn(**(dict.fromkeys(names, 1.0) | {"neighbour": neighbour / 10, "rate": rate * 10}))
    return {(setting, arm): {"shared controller": shared, "fleet": fleet}[arm] for setting in SETTINGS for arm in ARMS}


def test_each_figure_of_a_turn_has_a_name() -> None:
    """And no name is left without its figure."""
    assert set(TOLD) == {field.name for field in fields(Turn)}


def test_rounds_are_summed_up_by_their_median_and_from_where_to_where() -> None:
    """Ratios are those of pairs within a round, not of medians."""
    of = {each.what: each.value for each in turns.told([round_of(100, 200), round_of(90, 300), round_of(140, 250)])}

    assert of["rounds"] == 3
    what = "stock flags, shared controller: neighbour's first Workflow, submit → done"
    assert [of[f"{what}; {name}"] for name in ("median", "least", "most")] == [100, 90, 140]
    assert of["default set: neighbour's first Workflow, shared / fleet; median"] == 10
    assert of["default set: Workflows a minute, fleet / shared; least"] == 10


def test_the_picture_draws_bars_as_long_as_the_medians_and_a_dot_for_each_round() -> None:
    """On one scale within each half."""
    drawn = turns.picture(turns.told([round_of(100, 200), round_of(90, 300), round_of(140, 250)]))

    ours, theirs = (
        [float(width) for width in re.findall(rf'class="{kind}".* width="([0-9.]+)" height="18"', drawn)]
        for kind in ("ours", "theirs")
    )
    assert len(ours) == len(theirs) == 4
    assert theirs[0] == pytest.approx(10 * ours[0], abs=1)
    assert ours[2] == pytest.approx(10 * theirs[2], abs=1)
    assert drawn.count("<circle") == 2 * 4 * 3
    assert re.findall(r'class="value".*>(.*)</text>', drawn) == [
        "100 s", "10.0 s", "100 s", "10.0 s", "250", "2,500", "250", "2,500",
    ]  # fmt: skip


def test_text_in_a_picture_is_text() -> None:
    """What XML would take for its own is written as it reads."""
    bar = plot.Bar(kind="ours", values=[1])
    panel = plot.Panel(title="a < b", note="c & d", unit="", groups=[("<g>", [bar])])

    drawn = plot.draw([panel], keys=[("ours", "<us>")], note="&", described="<svg>")

    assert [word for word in ("a &lt; b", "c &amp; d", "&lt;g&gt;", "&lt;us&gt;", "&amp;<") if word not in drawn] == []


def test_the_picture_that_is_shown_is_drawn_from_the_figures_that_are_kept() -> None:
    """Neither is touched by hand; `python -m tests.bench --only headline` writes both."""
    content = json.loads((RESULTS / "headline.json").read_text())

    drawn = turns.picture([Figure(**each) for each in content["figures"]])

    assert (RESULTS / "headline.svg").read_text() == drawn


@pytest.mark.parametrize("setting", [controllers.STOCK, {}], ids=["stock", "default"])
def test_the_shared_controller_has_the_flags_of_a_child(setting: dict[str, object]) -> None:
    """But that it sees the whole cluster, has no ID, and no limit of CPU or memory."""
    settings, deployment = controllers.shared(setting)

    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--namespaced" not in container["args"]
    assert {"--qps=20", "--burst=30", "--workflow-workers=32"} <= set(container["args"])
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert environment["DEFAULT_REQUEUE_TIME"] == ("10s" if setting else "1s")
    assert environment["LEADER_ELECTION_LEASE_DURATION"] == ("15s" if setting else "30s")
    assert "limits" not in container["resources"]
    assert '"instanceID": ""' in settings["data"]["config"]


def pod_made(workflow: str, code: int = 201) -> str:
    """Build the line of the audit log that tells of a pod of a Workflow."""
    entry = {
        "verb": "create",
        "stage": "ResponseComplete",
        "objectRef": {"resource": "pods", "namespace": "team-a"},
        "responseStatus": {"code": code},
        "requestObject": {"metadata": {"labels": {"workflows.argoproj.io/workflow": workflow}}},
    }
    return json.dumps(entry, separators=(",", ":")) + "\n"


@pytest.mark.parametrize("made", [1, 2, 3])
def test_a_workflow_with_a_pod_too_few_or_too_many_spoils_the_run(tmp_path: Path, made: int) -> None:
    """What was refused is no pod, and pods of others do not count."""
    log = tmp_path / "audit.log"
    log.write_text(pod_made("two") * made + pod_made("two", code=409) + pod_made("other"))
    runs = [load.Run(namespace="team-a", name="two", pods=2, sent=0.0)]

    with nullcontext() if made == 2 else pytest.raises(AssertionError, match="other pods than they ask for"):
        load.require_ran_once(Audit(log), 0, runs)
