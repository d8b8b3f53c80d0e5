"""The commands that ask a cluster, whole: from the command line to the exit code, against the fake API server."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from metaoperator.core import names
from metaoperator.core.render import Program
from metaoperator.sources import template_set
from tests.fake import FakeApiServer
from tests.unit.builders import SHIPPED, desired
from tests.unit.test_cli import Ran, Run, run

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

    def create(self, kind: str, namespace: str, name: str, *, api: str = names.API_VERSION, **fields: Any) -> None:
        """Create an object, of ours if nothing else is said."""

        async def do() -> None:
            meta = {"name": name, "namespace": namespace}
            self.server.create({"apiVersion": api, "kind": kind, "metadata": meta, **fields})

        self._do(do())

    def object(self, body: dict[str, Any], *, status: dict[str, Any] | None = None) -> None:
        """Create any object, with its status."""

        async def do() -> None:
            made = self.server.create(body)
            if status is not None:
                meta = made["metadata"]
                self.server.patch(made["kind"], meta.get("namespace"), meta["name"], {"status": status}, sub="status")

        self._do(do())

    def patch_status(self, status: dict[str, Any]) -> None:
        """Write the status of team-a's WorkflowController."""

        async def do() -> None:
            where = "WorkflowController", "team-a", names.WORKFLOW_CONTROLLER
            self.server.patch(*where, {"status": status}, sub="status")

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
    written = made.server.audit.writes()
    made.stop()
    assert written == []


@pytest.mark.parametrize(("instance", "shown"), [("team-a", "team-a"), ("$(id); x", "'$(id); x'")])
def test_what_a_shell_is_given_is_quoted(run: Run, served: Served, instance: str, shown: str) -> None:
    """Whatever stands in the object: the output is run by `eval`."""
    served.namespace("team-a")
    served.create("WorkflowController", "team-a", names.WORKFLOW_CONTROLLER, spec={"instanceID": instance})
    ran = run("env", "team-a")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"export ARGO_NAMESPACE=team-a\nexport ARGO_INSTANCEID={shown}\nunset ARGO_SERVER ARGO_TOKEN\n"


@pytest.mark.parametrize(
    ("options", "values", "printed"),
    [
        (["--server"], {}, {"SERVER": "argo-server.team-a.svc:2746", "SECURE": "true", "INSECURE_SKIP_VERIFY": "true"}),
        (
            ["--at", "argo.example:443"],
            {"tlsSecret": "tls"},
            {"SERVER": "argo.example:443", "SECURE": "true", "INSECURE_SKIP_VERIFY": "false"},
        ),
        (
            ["--server", "--at", "[::1]:2746"],
            {"secure": False},
            {"SERVER": "'[::1]:2746'", "SECURE": "false", "INSECURE_SKIP_VERIFY": "false"},
        ),
    ],
    ids=["its Service", "a certificate", "no TLS"],
)
def test_through_a_server_the_id_is_the_servers(
    run: Run, served: Served, options: list[str], values: dict[str, Any], printed: dict[str, str]
) -> None:
    """The CLI refuses an ID beside a server; how the server speaks is read from its Deployment."""
    served.namespace("team-a")
    served.create("WorkflowController", "team-a", names.WORKFLOW_CONTROLLER, spec={"instanceID": "team-a"})
    fleet = {"server": {"enabled": True, **values}}
    (server,) = [each for each in desired(Program(template_set(SHIPPED)), fleet=fleet).documents if _is_server(each)]
    served.create("Deployment", "team-a", names.ARGO_SERVER, api="apps/v1", spec=server["spec"])
    ran = run("env", "team-a", *options)
    assert (ran.code, ran.err) == (0, "")
    namespace, no_id, token, *exports = ran.out.splitlines()
    assert (namespace, no_id) == ("export ARGO_NAMESPACE=team-a", "unset ARGO_INSTANCEID")
    assert token.startswith("export ARGO_TOKEN=")
    assert exports == [f"export ARGO_{name}={value}" for name, value in printed.items()]


@pytest.mark.parametrize(
    ("cli", "before", "token"),
    [
        ('[ -z "$ARGO_TOKEN$ARGO_SERVER" ] && echo "Bearer new"', "Bearer old", "Bearer new"),
        ("exit 1", "Bearer old", "Bearer old"),
        ("exit 1", "", ""),
    ],
    ids=["of the kubeconfig", "what was there", "none"],
)
def test_the_token_is_what_the_cli_finds_where_no_server_is_named(
    run: Run, served: Served, tmp_path: Path, cli: str, before: str, token: str
) -> None:
    """With ARGO_SERVER or an old ARGO_TOKEN it would not look into the kubeconfig."""
    served.namespace("team-a")
    served.create("WorkflowController", "team-a", names.WORKFLOW_CONTROLLER, spec={"instanceID": "team-a"})
    pod = {"spec": {"containers": [{"name": "argo-server", "image": "i", "args": []}]}}
    served.create("Deployment", "team-a", names.ARGO_SERVER, api="apps/v1", spec={"template": pod})
    program = tmp_path / "argo"
    program.write_text(f"#!/bin/sh\n{cli}\n")
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ARGO_SERVER": "of:1", "ARGO_TOKEN": before}
    script = f'{run("env", "team-a", "--at", "a:1").out}printf "%s|%s" "$ARGO_TOKEN" "$ARGO_SERVER"'
    done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{token}|a:1"


def _is_server(document: Any) -> bool:
    return (document["kind"], document["metadata"]["name"]) == ("Deployment", names.ARGO_SERVER)


def test_a_namespace_without_an_argo_server_says_how_to_have_one(run: Run, served: Served) -> None:
    """Exit code 1 and nothing for the shell."""
    served.namespace("team-a")
    served.create("WorkflowController", "team-a", names.WORKFLOW_CONTROLLER, spec={"instanceID": "team-a"})
    ran = run("env", "team-a", "--server")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "error: namespace team-a has no argo-server, and none of all namespaces with its instance ID can be seen: set "
        "the value server.enabled in its ControllerTemplate, or say where one is (--at)\n"
    )


@pytest.mark.parametrize(
    ("where", "recorded", "more", "inventory"),
    [
        ("argo-server", "metaoperator", (), ["Deployment/argo-server"]),
        ("team-b", "metaoperator", ("--namespaced",), ["Deployment/argo-server"]),
        ("argo-server", "team-b", (), ["Deployment/argo-server"]),
        ("team-b", "metaoperator", (), ["Deployment/workflow-controller"]),
        ("team-b", "metaoperator", (), None),
    ],
    ids=["of the fleet", "of another namespace", "of another ID", "marked by a tenant", "where nobody opted in"],
)
def test_a_server_of_all_namespaces_with_its_id_is_a_namespaces_too(
    run: Run, served: Served, where: str, recorded: str, more: tuple[str, ...], inventory: list[str] | None
) -> None:
    """Found by what it is told; one that shows only its own namespace, or another ID, shows nothing of this one.

    Nor is one that a tenant marked as ours: it would be handed the token of whoever asks for another namespace.
    """
    served.namespace("team-a")
    served.namespace(where)
    if inventory is not None:
        row = {"name": names.WORKFLOW_CONTROLLER, "namespace": where}
        body = {"apiVersion": names.API_VERSION, "kind": "WorkflowController", "metadata": row, "spec": {}}
        served.object(body, status={"inventory": inventory})
    served.create("WorkflowController", "team-a", names.WORKFLOW_CONTROLLER, spec={"instanceID": "metaoperator"})
    labels = {"app.kubernetes.io/name": names.ARGO_SERVER, names.MANAGED_BY_LABEL: names.MANAGED_BY}
    container = {"name": names.ARGO_SERVER, "image": "i", "args": ["server", *more]}
    served.object(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": names.ARGO_SERVER,
                "namespace": where,
                "labels": labels,
                "annotations": {names.INSTANCE_ID_ANNOTATION: recorded},
            },
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
    )
    ran = run("env", "team-a", "--server")
    if where == "argo-server" and recorded == "metaoperator":
        assert (ran.code, ran.err) == (0, "")
        assert "export ARGO_NAMESPACE=team-a\n" in ran.out
        assert "export ARGO_SERVER=argo-server.argo-server.svc:2746\n" in ran.out
    else:
        assert (ran.code, ran.out) == (1, "")


def test_a_server_that_cannot_be_seen_is_taken_for_one_to_be_verified(run: Run, served: Served) -> None:
    """Who was told where it is need not be let to read Deployments elsewhere."""
    served.namespace("team-a")
    served.create("WorkflowController", "team-a", names.WORKFLOW_CONTROLLER, spec={"instanceID": "team-a"})
    ran = run("env", "team-a", "--at", "argo.example:443")
    assert ran.code == 0
    assert ran.err.startswith("note: no argo-server can be seen")
    assert "export ARGO_SECURE=true\nexport ARGO_INSECURE_SKIP_VERIFY=false\n" in ran.out


@pytest.mark.parametrize("at", ["https://argo.example", "argo.example", ":2746", "argo.example:", "a/b:1"])
def test_an_address_is_host_and_port(run: Run, served: Served, at: str) -> None:
    """As the CLI wants it; nothing is asked of the cluster."""
    del served
    ran = run("env", "team-a", "--at", at)
    assert (ran.code, ran.out) == (2, "")
    assert "give host and port, without https://, for example localhost:2746" in ran.err


def test_a_controller_without_an_id_needs_none(run: Run, served: Served) -> None:
    """Policy `None`: the row has no ID, and the child says that it has none; before it is there, nobody knows."""
    served.namespace("team-a")
    served.create("WorkflowController", "team-a", names.WORKFLOW_CONTROLLER, spec={})
    assert run("env", "team-a").code == 1
    meta = {"name": names.WORKFLOW_CONTROLLER, "namespace": "team-a"}
    (child,) = [each for each in desired(Program(template_set(SHIPPED))).documents if each["kind"] == "Deployment"]
    annotations = {names.INSTANCE_ID_ANNOTATION: ""}
    served.object({**child, "metadata": {**meta, "annotations": annotations}})
    ran = run("env", "team-a")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "export ARGO_NAMESPACE=team-a\nunset ARGO_INSTANCEID\nunset ARGO_SERVER ARGO_TOKEN\n"


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


def test_a_diff_of_a_fleet_is_a_preview_not_a_no(run: Run, served: Served) -> None:
    """Exit code 0 although everything changes; with --exit-code it answers as `diff` does."""
    for name in ("team-a", "team-b"):
        served.namespace(name, **{names.OPT_IN_LABEL: "enabled"})
    ran = run("diff", "--fleet")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[:2] == [
        "namespaces                        2",
        "change                            2",
    ]
    assert "# 2 namespaces: team-a, team-b\n" in ran.out
    assert "+++ MERGED/apps.v1.Deployment.<namespace>.workflow-controller\n" in ran.out
    assert run("diff", "--fleet", "--exit-code").code == 1
    shown = json.loads(run("diff", "--fleet", "-o", "json").out)
    assert [group["namespaces"] for group in shown["groups"]] == [["team-a", "team-b"]]
    assert run("diff", "--fleet", "-o", "markdown").out.startswith("### Preview of the fleet\n")


def test_what_parts_of_the_operator_log_is_no_output(served: Served) -> None:
    """Most clusters have no PodMonitor: that is a line in the operator's log, and none on anybody's terminal."""
    served.namespace("team-a", **{names.OPT_IN_LABEL: "enabled"})
    for command in (["diff", "--fleet"], ["diff", "team-a"]):
        whole = [sys.executable, "-m", "metaoperator", *command, "--kubeconfig", served.kubeconfig]
        assert subprocess.run(whole, capture_output=True, text=True, check=False).stderr == ""


def test_a_fleet_of_nobody_is_settled(run: Run, served: Served) -> None:
    """No namespace, nothing to change, and nothing amiss."""
    served.namespace("team-a")
    ran = run("diff", "--fleet", "--exit-code")
    assert (ran.code, ran.err) == (0, "")
    assert "namespaces                        0\n" in ran.out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "name the namespaces to look at, or give --all or --fleet: one of the three"),
        (["--all", "--fleet"], "name the namespaces to look at, or give --all or --fleet: one of the three"),
        (["team-a", "--fleet"], "name the namespaces to look at, or give --all or --fleet: one of the three"),
        (["--fleet", "--adopt"], "--adopt is for namespaces that are named, and --fleet looks at all of them"),
        (["--fleet", "-o", "diff"], "-o diff goes without --fleet"),
        (["--all", "-o", "markdown"], "-o markdown goes with --fleet"),
        (
            ["--all", "--exit-code"],
            "--exit-code goes with --fleet: without it diff answers with its exit code in any case",
        ),
        (["--fleet", "--set", "gold"], "--set wants TEMPLATE=SET, not gold"),
    ],
)
def test_options_that_do_not_go_together_are_a_wrong_call(
    run: Run, served: Served, options: list[str], sentence: str
) -> None:
    """Exit code 2, before anything is asked."""
    assert run("diff", *options) == Ran(2, "", f"error: {sentence}\n")


def test_a_controller_template_is_taken_from_its_manifest(run: Run, served: Served, tmp_path: Path) -> None:
    """As it stands in git; a file that holds none, or one of another source, is a fault of that file."""
    served.namespace("team-a", **{names.OPT_IN_LABEL: "gold"})
    file = tmp_path / "gold.yaml"
    body = {
        "apiVersion": names.API_VERSION,
        "kind": "ControllerTemplate",
        "metadata": {"name": "gold"},
        "spec": {"source": {"directory": "workflow-controller"}, "values": {"log": {"level": "debug"}}},
    }
    file.write_text(json.dumps(body))
    ran = run("diff", "--fleet", "--controller-template", str(file))
    assert (ran.code, ran.err) == (0, "")
    assert "# ControllerTemplate gold is taken from a file\n" in ran.out
    assert "+        - --loglevel=debug\n" in ran.out
    file.write_text(json.dumps({**body, "spec": {"source": {"configMap": "gold"}}}))
    ran = run("diff", "--fleet", "--controller-template", str(file))
    assert (ran.code, ran.out) == (1, "")
    assert "ControllerTemplate gold has no spec.source.directory" in ran.err
    file.write_text("a: 1\n")
    assert "holds no ControllerTemplate" in run("diff", "--fleet", "--controller-template", str(file)).err


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


# explain


ARGO = "argoproj.io/v1alpha1"


def submit(served: Served, name: str, status: Any = None, **labels: str) -> None:
    """Create a Workflow in team-a."""
    meta = {"name": name, "namespace": "team-a", "labels": labels}
    served.object({"apiVersion": ARGO, "kind": "Workflow", "metadata": meta, "spec": {}, "status": status or {}})


def child(served: Served, ready: str = "True", reason: str = "Leading") -> None:
    """Opt team-a in, as far as objects tell."""
    served.namespace("team-a", **{names.OPT_IN_LABEL: "enabled"})
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": reason,
        "message": "so it is",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"instanceID": "team-a", "conditions": [condition], "inventory": ["Deployment/workflow-controller"]}
    meta = {"name": names.WORKFLOW_CONTROLLER, "namespace": "team-a"}
    body = {"apiVersion": names.API_VERSION, "kind": "WorkflowController", "metadata": meta, "spec": {}}
    served.object(body, status=status)


def test_a_workflow_that_runs_is_explained_with_0(run: Run, served: Served) -> None:
    """Its controller by name; nothing to do."""
    child(served)
    submit(served, "w", {"phase": "Running"}, **{names.INSTANCE_ID_LABEL: "team-a"})
    ran = run("explain", "workflow", "team-a/w")
    assert (ran.code, ran.err) == (0, "")
    assert [line.partition(":")[0] for line in ran.out.splitlines()] == [
        "workflow",
        "phase",
        "instance ID",
        "controller",
        "Running",
    ]
    assert "Deployment/team-a/workflow-controller" in ran.out


def test_a_workflow_that_waits_is_explained_with_1(run: Run, served: Served) -> None:
    """Why, and what to do; the same for programs."""
    child(served)
    submit(served, "w", **{names.INSTANCE_ID_LABEL: "lost"})
    ran = run("explain", "workflow", "team-a/w")
    assert (ran.code, ran.err) == (1, "")
    assert "NoController:" in ran.out
    assert f"kubectl label workflow w --overwrite {names.INSTANCE_ID_LABEL}=team-a" in ran.out
    told = run("explain", "workflow", "team-a/w", "-o", "json")
    assert told.code == 1
    found = json.loads(told.out)
    assert (found["answer"], found["waits"], found["controllers"]) == ("NoController", True, [])
    assert (found["instanceID"], found["notKnown"]) == ("lost", [])


def test_a_controller_that_is_not_ready_explains_its_workflows(run: Run, served: Served) -> None:
    """Its own reason and message, where the Workflow is asked about."""
    child(served, "False", "PodFailing")
    submit(served, "w", **{names.INSTANCE_ID_LABEL: "team-a"})
    ran = run("explain", "workflow", "team-a/w")
    assert ran.code == 1
    assert "ControllerNotReady:" in ran.out
    assert "PodFailing: so it is" in ran.out


def test_a_foreign_controller_is_found_and_named(run: Run, served: Served) -> None:
    """A cluster-wide one without an ID goes on with what has none."""
    child(served)
    rules = [{"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["list"]}]
    rbac = "rbac.authorization.k8s.io"
    served.namespace("argo")
    served.object({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": "argo"}, "rules": rules})
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": "argo"}]
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "argo"}
    binding = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "argo"}}
    served.object({**binding, "roleRef": role, "subjects": subjects})
    meta = {"name": "workflow-controller-configmap", "namespace": "argo"}
    served.object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {}})
    labels = {"app": "wc"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "workflow-controller"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    served.object(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "wc", "namespace": "argo"}, "spec": spec}
    )
    submit(served, "w", {"phase": "Running"})
    ran = run("explain", "workflow", "team-a/w")
    assert ran.code == 0
    assert "Deployment/argo/wc (no instance ID, all namespaces)" in ran.out


def test_what_may_not_be_read_is_told_and_left_out(run: Run, served: Served) -> None:
    """A tenant reads its own namespace: the answer holds as far as it goes, and says how far."""
    child(served)
    submit(served, "w", **{names.INSTANCE_ID_LABEL: "lost"})
    served.server.faults.answer(403, resource="deployments", verb="list", times=10**6)
    ran = run("explain", "workflow", "team-a/w", "-o", "json")
    found = json.loads(ran.out)
    assert (ran.code, found["answer"]) == (1, "NotKnown")
    assert len(found["notKnown"]) == 2
    submit(served, "mine", {"phase": "Running"}, **{names.INSTANCE_ID_LABEL: "team-a"})
    ran = run("explain", "workflow", "team-a/mine")
    assert ran.code == 0
    assert "not known:" in ran.out


def test_a_workflow_that_is_not_there_is_no_answer(run: Run, served: Served) -> None:
    """Exit code 1, on standard error."""
    served.namespace("team-a")
    ran = run("explain", "workflow", "team-a/w")
    assert (ran.code, ran.out, ran.err) == (1, "", "error: there is no Workflow team-a/w\n")


@pytest.mark.parametrize("name", ["w", "team-a/", "/w", "team-a/w/x", "Team/w"])
def test_a_name_that_is_none_is_a_wrong_call(run: Run, served: Served, name: str) -> None:
    """Before anything is asked."""
    ran = run("explain", "workflow", name)
    assert (ran.code, ran.out) == (2, "")
    assert "names no Workflow" in ran.err or "is no name of a namespace" in ran.err


def test_the_table_shows_what_others_serve_and_what_waits_in_vain(run: Run, served: Served) -> None:
    """Counts in columns of their own, and the cause in the message."""
    child(served)
    live = served.server.get("WorkflowController", "team-a", names.WORKFLOW_CONTROLLER)
    assert live is not None
    strays = {
        "type": "OrphanedWorkflows",
        "status": "True",
        "reason": "WorkflowOrphaned",
        "message": "such as Workflow w: nobody",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    work = {"running": 1, "pending": 2, "unlabelled": 3, "orphaned": 4, "overdue": 1}
    conditions = [*live["status"]["conditions"], strays]
    served.patch_status({"conditions": conditions, "workflows": work, "observedGeneration": 1})
    ran = run("status", "-o", "json")
    (shown,) = json.loads(ran.out)
    assert (shown["UNLABELLED"], shown["IN VAIN"], shown["READY"]) == ("3", "5", "True")
    assert shown["MESSAGE"] == "so it is; Workflows wait in vain: such as Workflow w: nobody"


def test_the_table_tells_how_many_wait_for_the_operator(run: Run, served: Served) -> None:
    """Nobody serves them, and nobody has to do anything."""
    child(served)
    work = {"running": 0, "pending": 0, "unlabelled": 7, "unswept": 7}
    served.patch_status({"workflows": work, "observedGeneration": 1})
    (shown,) = json.loads(run("status", "-o", "json").out)
    assert shown["MESSAGE"] == "so it is; 7 Workflows that nobody serves are about to get its instance ID"


def test_a_workflow_that_the_operator_is_about_to_label_says_so(run: Run, served: Served) -> None:
    """In place of a command that would do the same."""
    child(served)
    submit(served, "w")
    ran = run("explain", "workflow", "team-a/w")
    assert ran.code == 1
    assert "Unswept:" in ran.out
    assert "the operator puts team-a on it as soon as the controller here is ready" in ran.out
