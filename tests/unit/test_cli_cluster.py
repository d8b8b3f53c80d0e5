"""The commands that ask a cluster, whole: from the command line to the exit code, against the fake API server."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_cli import Ran, Run, run

from metaoperator.core import names
from tests.fake import FakeApiServer

__all__ = ["run"]


class Served:
    """A fake API server in a thread of its own; what is done to it is done there."""

    def __init__(self, folder: Path) -> None:
        """Start it, and wait until it answers."""
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.server: FakeApiServer = self._do(self._start())
        self.kubeconfig = self.server.write_kubeconfig(folder / "kubeconfig", "token")

    async def _start(self) -> FakeApiServer:
        return await FakeApiServer().__aenter__()

    def _do(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(60)

    def namespace(self, name: str, **labels: str) -> None:
        """Create a namespace."""

        async def do() -> None:
            meta = {"name": name, "labels": labels}
            self.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})

        self._do(do())

    def create(self, kind: str, namespace: str, name: str, **fields: Any) -> None:
        """Create an object of ours."""

        async def do() -> None:
            meta = {"name": name, "namespace": namespace}
            self.server.create({"apiVersion": names.API_VERSION, "kind": kind, "metadata": meta, **fields})

        self._do(do())

    def stop(self) -> None:
        """End it."""
        self._do(self.server.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Serve an empty cluster, which the environment names."""
    made = Served(tmp_path)
    monkeypatch.setenv("KUBECONFIG", made.kubeconfig)
    yield made
    written = [entry for entry in made.server.audit.writes() if entry.resource != "subjectaccessreviews"]
    made.stop()
    assert written == []


@pytest.mark.parametrize(("instance", "shown"), [("team-a", "team-a"), ("$(id); x", "'$(id); x'")])
def test_what_a_shell_is_given_is_quoted(run: Run, served: Served, instance: str, shown: str) -> None:
    """Whatever stands in the object: the output is run by `eval`."""
    served.namespace("team-a")
    served.create("WorkflowController", "team-a", names.WORKFLOW_CONTROLLER, spec={"instanceID": instance})
    ran = run("env", "team-a")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"export ARGO_NAMESPACE=team-a\nexport ARGO_INSTANCEID={shown}\n"


def test_a_namespace_without_a_controller_has_no_environment(run: Run, served: Served) -> None:
    """Exit code 1, nothing for the shell, and what to do."""
    ran = run("env", "team-a")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith(f"kubectl label namespace team-a {names.OPT_IN_LABEL}=enabled\n")


def test_a_diff_ends_with_1_where_anything_differs(run: Run, served: Served) -> None:
    """The diffs as kubectl writes them, then the counts; what opting in would make, with the reason why it is shown."""
    served.namespace("team-a")
    ran = run("diff", "team-a")
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.startswith("diff -u -N LIVE/")
    assert "+++ MERGED/apps.v1.Deployment.team-a.workflow-controller\n" in ran.out
    assert f"# team-a: not opted in: this is what the label {names.OPT_IN_LABEL}=enabled would do\n" in ran.out
    assert ran.out.splitlines()[-1] == "# team-a: 7 created"
    (shown,) = json.loads(run("diff", "team-a", "-o", "json").out)
    assert {each["change"] for each in shown["objects"]} == {"created"}


def test_a_diff_of_all_is_empty_where_nobody_is_opted_in(run: Run, served: Served) -> None:
    """And says so, to people and to programs."""
    served.namespace("team-a")
    assert run("diff", "--all") == Ran(0, "# no namespace is opted in\n", "")
    assert json.loads(run("diff", "--all", "-o", "json").out) == []


def test_a_diff_of_all_shows_every_one_that_is(run: Run, served: Served) -> None:
    """By the label, sorted; one whose template is missing waits for a person."""
    served.namespace("team-b", **{names.OPT_IN_LABEL: "enabled"})
    served.namespace("team-a", **{names.OPT_IN_LABEL: "gold"})
    ran = run("diff", "--all")
    assert ran.code == 1
    comments = [line for line in ran.out.splitlines() if line.startswith("# team-")]
    assert [line.partition(":")[0] for line in comments][:1] == ["# team-a"]
    assert any(line.startswith("# team-a: TemplateNotFound: ") for line in comments)
    assert "# team-b: 7 created" in comments


def test_a_diff_of_a_namespace_that_is_not_there_is_a_wrong_call(run: Run, served: Served) -> None:
    """Exit code 2, and how it is made."""
    ran = run("diff", "nowhere")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: there is no namespace nowhere: kubectl create namespace nowhere\n"


def test_one_namespace_at_fault_keeps_no_other_from_being_shown(run: Run, served: Served) -> None:
    """Its error comes last, and is the exit code."""
    served.namespace("team-a")
    ran = run("diff", "nowhere", "team-a")
    assert ran.out.splitlines()[-1] == "# team-a: 7 created"
    assert (ran.code, ran.err) == (2, "error: there is no namespace nowhere: kubectl create namespace nowhere\n")


def test_each_namespace_at_fault_is_told_of(run: Run, served: Served) -> None:
    """One line for each; the exit code is that of the first."""
    served.namespace("team-a")
    ran = run("diff", "nowhere", "neither", "team-a")
    assert ran.out.splitlines()[-1] == "# team-a: 7 created"
    assert ran.code == 2
    assert sorted(line.partition(": ")[2].partition(":")[0] for line in ran.err.splitlines()) == [
        "there is no namespace neither",
        "there is no namespace nowhere",
    ]


@pytest.mark.parametrize("command", ["diff", "preflight"])
def test_a_namespace_on_the_deny_list_is_refused_here_too(run: Run, served: Served, command: str) -> None:
    """As by the operator that is run with it."""
    served.namespace("team-a", **{names.OPT_IN_LABEL: "enabled"})
    ran = run(command, "team-a", "--deny", "team-a")
    assert ran.code == 1
    assert "NamespaceRefused: namespace team-a is on the operator's deny-list, and is never served" in ran.out


def test_a_preflight_is_a_table_with_the_worst_first(run: Run, served: Served) -> None:
    """Exit code 1 as long as anything is missing; as JSON the same rows."""
    served.namespace("team-a")
    ran = run("preflight", "team-a")
    assert (ran.code, ran.err) == (1, "")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["CHECK", "RESULT", "WHAT", "CURE"]
    assert lines[1].startswith("Argo CRDs")
    assert lines[-1].startswith("namespace team-a ")
    shown = json.loads(run("preflight", "team-a", "-o", "json").out)
    assert [list(row) for row in shown] == [["check", "result", "what", "cure"]] * (len(lines) - 1)
    assert [row["result"] for row in shown] == sorted(
        (row["result"] for row in shown), key=["missing", "not known", "warning", "ok"].index
    )


def test_an_operator_elsewhere_is_warned_of(run: Run, served: Served) -> None:
    """The bundles and the fences name its namespace: what does not hold there is told before anything is installed."""
    rows = json.loads(run("preflight", "--operator-namespace", "elsewhere", "-o", "json").out)
    found = [row for row in rows if row["check"] == "operator's namespace"]
    assert [row["result"] for row in found] == ["warning"] * 5
    assert all(row["cure"].startswith('sed -i.bak "s/') and "elsewhere" in row["cure"] for row in found)
