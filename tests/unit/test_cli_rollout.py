"""`metaoperator rollout` from the command line to the exit code, against the fake API server."""

import io
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from metaoperator.commands.rollout import progress, view
from metaoperator.core import names, recorded, revision
from metaoperator.core.revision import SetHead
from tests.unit.test_cli import Run, run
from tests.unit.test_cli_cluster import Served

__all__ = ["run"]

CRDS = Path(__file__).parents[2] / "manifests" / "fleet" / "crds"
OLD, NEW = "0000000000", "1111111111"
WAITING = {
    "phase": "Waiting",
    "target": NEW,
    "source": NEW,
    "stable": OLD,
    "wave": "early",
    "waves": [
        {"name": "canary", "total": 2, "updated": 2, "ready": 2, "apart": 0},
        {"name": "early", "total": 5, "updated": 0, "ready": 0, "apart": 1},
        {"name": "rest", "total": 0, "updated": 0, "ready": 0, "apart": 0},
    ],
    "updated": "2/7",
    "waiting": 4,
    "message": "wave early begins when somebody approves it",
}
TEXT = """\
ControllerTemplate/default: Waiting, 2/7 namespaces updated: wave early begins when somebody approves it

target   1111111111   (source)
source   1111111111
stable   0000000000

WAVE     UPDATED   READY   APART
canary   2/2       2       0
early    0/5       0       1
rest     0/0       0       0

WAITS FOR          COUNT   NAMESPACES
WaitsForApproval   4       team-1, team-2, team-3 and 1 more

FAILING   REASON       MESSAGE
team-0    PodFailing   its pod \\x1b[31mdies
"""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Serve a cluster with our kinds and one ControllerTemplate, which the environment names."""
    made = Served(tmp_path)
    monkeypatch.setenv("KUBECONFIG", made.kubeconfig)

    async def define() -> None:
        for each in ("controllertemplates", "workflowcontrollers"):
            made.server.define(yaml.safe_load((CRDS / f"{each}.yaml").read_text()))

    made._do(define())
    made.namespace(names.OPERATOR_NAMESPACE)
    yield made
    made.stop()


def condition(kind: str, reason: str, message: str, status: str = "True") -> dict[str, str]:
    """Write a condition."""
    time = "2026-11-30T10:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time}


def template(served: Served, rollout: dict[str, Any], *, reason: str = "WaitsForApproval", seen: int = 1) -> None:
    """Create the ControllerTemplate, as the operator has looked at it."""
    status = {
        "observedGeneration": seen,
        "conditions": [condition("Ready", "Loaded", "x"), condition("Reconciling", reason, "x")],
        "rollout": rollout,
    }
    spec = {"source": {"directory": "a"}, "rollout": {"waves": [{"name": "early", "percent": 10, "approval": True}]}}
    meta = {"name": "default"}
    body = {"apiVersion": names.API_VERSION, "kind": "ControllerTemplate", "metadata": meta, "spec": spec}
    served.object(body, status=status)


def row(served: Served, namespace: str, *conditions: dict[str, str]) -> None:
    """Create a WorkflowController of the ControllerTemplate `default`."""
    served.namespace(namespace)
    meta = {"name": names.WORKFLOW_CONTROLLER, "namespace": namespace}
    body = {"apiVersion": names.API_VERSION, "kind": "WorkflowController", "metadata": meta, "spec": {}}
    served.object(body, status={"observedGeneration": 1, "template": "default", "conditions": list(conditions)})


def record(served: Served, number: int, of: str, files: dict[str, str], **more: Any) -> None:
    """Record a set revision."""
    packed = recorded.set_content("a", files, {"level": number})
    since = datetime(2026, 11, 30, 10, number, tzinfo=UTC)
    name = revision.set_name("default", of)
    head = SetHead(name=name, uid="", template="default", set_revision=of, number=number, since=since, **more)
    served.object(dict(revision.manifest(head, packed, home=names.OPERATOR_NAMESPACE)))


def test_what_a_rollout_waits_for_is_told(run: Run, served: Served) -> None:
    """As people see it, in whichever way the ControllerTemplate is named; and not done is a no."""
    template(served, WAITING)
    row(served, "team-0", condition("Ready", "PodFailing", "its pod \x1b[31mdies", "False"))
    for each in range(1, 5):
        waits = condition("Reconciling", "WaitsForApproval", "wave early begins when somebody approves it")
        row(served, f"team-{each}", condition("Ready", "Leading", "fine"), waits)
    for name in ((), ("default",), ("controllertemplate/default",), ("wct/default",)):
        ran = run("rollout", "status", *name)
        assert (ran.code, ran.out, ran.err) == (1, TEXT, "")
    ran = run("rollout", "status", "-o", "json")
    told = json.loads(ran.out)
    assert (ran.code, told["phase"], told["waits"][0]["namespaces"]) == (
        1,
        "Waiting",
        [f"team-{i}" for i in range(1, 5)],
    )


@pytest.mark.parametrize(
    ("told", "seen", "code", "said"),
    [
        ({"phase": "Done", "updated": "7/7", "message": "all namespaces have it"}, 1, 0, "Done, 7/7 namespaces"),
        ({"phase": "Failed", "failed": {"at": "2026-11-30T10:00:00Z", "reason": "it fails"}}, 1, 1, "failed at 2026"),
        ({"phase": "RolledBack"}, 1, 1, "RolledBack"),
        ({"phase": "Progressing"}, 1, 1, "Progressing"),
        ({"phase": "Done"}, 0, 1, "Unseen: no operator has looked at the newest spec yet"),
    ],
)
def test_only_done_is_done(run: Run, served: Served, told: dict[str, Any], seen: int, code: int, said: str) -> None:
    """What an operator said of an older spec is no answer."""
    template(served, told, seen=seen)
    ran = run("rollout", "status")
    assert (ran.code, ran.err) == (code, "")
    assert said in ran.out


def test_watching_ends_when_it_is_done(run: Run, served: Served) -> None:
    """A line for each change where nobody could see one drawn over, then all of it."""
    template(served, {"phase": "Progressing", "updated": "1/7", "message": "on its way"})

    def done() -> None:
        async def do() -> None:
            status = {"rollout": {"phase": "Done", "updated": "7/7", "message": "all have it"}}
            served.server.patch("ControllerTemplate", None, "default", {"status": status}, sub="status")

        served._do(do())

    timer = threading.Timer(1.5, done)
    timer.start()
    ran = run("rollout", "status", "--watch", "--timeout", "5m")
    timer.join()
    assert (ran.code, ran.err) == (0, "")
    first, second, *_ = ran.out.splitlines()
    assert first == "ControllerTemplate/default: Progressing, 1/7 namespaces updated: on its way"
    assert second == "ControllerTemplate/default: Done, 7/7 namespaces updated: all have it"


def test_watching_ends_with_its_time(run: Run, served: Served) -> None:
    """Whatever it waits for."""
    template(served, WAITING)
    ran = run("rollout", "status", "-w", "--timeout", "1s")
    assert (ran.code, ran.err) == (1, "error: the rollout of ControllerTemplate/default was not done within 1s\n")


@pytest.mark.parametrize("width", [20, 59, 60, 200])
def test_a_bar_fits_the_terminal(width: int) -> None:
    """Whatever a message holds: a line that wraps could not be drawn over."""
    now = {**WAITING, "message": "\x1b[2J" + "long " * 90}
    line = progress.bar(now, width)
    assert len(line) <= width
    assert line.isprintable()
    assert line.startswith(
        "[######------------------] 2/7 Waiting early: " if width > 60 else "[" if width == 60 else "2/7"
    )
    assert progress.bar({**now, "updated": ""}, width).isprintable()


def test_a_terminal_sees_one_line() -> None:
    """Each is drawn over the one before, and none is left."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    shown = progress.Progress(stream)
    for _ in range(2):
        shown.show(WAITING)
    shown.end()
    assert stream.getvalue().count("\r\x1b[K") == 2
    assert stream.getvalue().endswith("\r\x1b[K")
    assert "\n" not in stream.getvalue()


def test_a_set_that_cannot_be_used_ends_the_watch() -> None:
    """Nothing goes on until a person mends it, whatever the rollout said before."""
    status = {"observedGeneration": 1, "conditions": [condition("Ready", "TemplateInvalid", "line 3", "False")]}
    live = {"metadata": {"name": "default", "generation": 1}, "spec": {}, "status": {**status, "rollout": WAITING}}
    seen = view.of(live)
    assert (seen["phase"], seen["message"]) == ("Stalled", "TemplateInvalid: line 3")
    assert seen["phase"] in view.ENDS


def test_history_shows_what_is_recorded(run: Run, served: Served) -> None:
    """The newest first; one of them whole, or against the one before it."""
    template(served, WAITING)
    assert "nothing is recorded" in run("rollout", "history").out
    stable = datetime(2026, 11, 30, 11, tzinfo=UTC)
    record(served, 1, OLD, {"one.yaml.j2": "a\n"}, stable=stable)
    record(served, 2, NEW, {"one.yaml.j2": "b\n"}, failed=stable, why="fails")
    ran = run("rollout", "history")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "NUMBER   REVISION     SINCE                  STABLE                 FAILED                 NAMESPACES   WHY",
        "2        1111111111   2026-11-30T10:02:00Z                          2026-11-30T11:00:00Z   0            fails",
        "1        0000000000   2026-11-30T10:01:00Z   2026-11-30T11:00:00Z                          0",
    ]
    whole = run("rollout", "history", "--revision", NEW).out
    assert whole == "# ---- one.yaml.j2\nb\n# ---- values of the ControllerTemplate\nlevel: 2\n"
    changed = run("rollout", "history", "--revision", NEW, "--diff").out
    assert "-a\n+b\n" in changed
    assert "-level: 1\n+level: 2\n" in changed
    told = json.loads(run("rollout", "history", "--revision", OLD, "-o", "json").out)
    assert (told["number"], told["files"]["one.yaml.j2"]) == (1, "a\n")
    missing = run("rollout", "history", "--revision", "2222222222")
    assert (missing.code, "is not recorded; there are: 1111111111, 0000000000" in missing.err) == (1, True)


def test_what_is_written_is_told(run: Run, served: Served) -> None:
    """Each by one line; a no by one sentence."""
    record(served, 1, OLD, {}, stable=datetime(2026, 11, 30, 11, tzinfo=UTC))
    record(served, 2, NEW, {})
    template(served, WAITING)
    ran = run("rollout", "approve")
    assert (ran.code, ran.out, ran.err) == (0, f"wave early of ControllerTemplate/default is approved for {NEW}\n", "")
    for command, said in (("pause", "is paused"), ("undo", f"is pinned to {OLD}; it is paused")):
        ran = run("rollout", command)
        assert (ran.code, ran.err) == (0, "")
        assert said in ran.out
        ran = run("rollout", command)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.startswith("error: ")
        assert "already" in ran.err
    ran = run("rollout", "resume", "--unpin")
    assert (ran.code, ran.err) == (0, "")
    assert "no longer paused, and is no longer pinned" in ran.out


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (("status", "deployment/default"), 2, "is no ControllerTemplate"),
        (("status", "A B"), 2, "is no name of a ControllerTemplate"),
        (("status", "other"), 1, "ControllerTemplate/other is not there"),
        (("pause", "other"), 1, "ControllerTemplate/other is not there"),
        (("history", "other"), 1, "ControllerTemplate/other is not there"),
        (("status", "--timeout", "soon", "-w"), 2, "give a time such as"),
        (("status", "--timeout", "5m"), 2, "belongs to --watch"),
        (("history", "--diff"), 2, "belongs to --revision"),
        (("start",), 2, "No such command"),
    ],
)
def test_a_wrong_call_is_told(run: Run, served: Served, given: tuple[str, ...], code: int, said: str) -> None:
    """In a sentence, by the exit code of every command, and nothing is written."""
    ran = run("rollout", *given)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert "Traceback" not in ran.err
