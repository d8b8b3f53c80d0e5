"""The command line: what it prints, and that what a person can mend ends in a sentence and an exit code."""

import functools
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from metaoperator import __version__, cli, sources
from metaoperator.commands import diff, status, tables
from metaoperator.core import names
from metaoperator.core.model import Namespace, Ref
from metaoperator.core.render import Program
from metaoperator.preview import Change, Preview
from metaoperator.rehearsal import Write
from tests.unit.builders import SHIPPED, config_map, live, object_text, write_set


@dataclass(frozen=True)
class Ran:
    """What came of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


_compiled = sources.compiled


@functools.cache
def _once(folder: Path) -> Program:
    return _compiled(folder)


def _shipped_once(folder: Path, **options: bool) -> Program:
    """Load a set; one that travels with the package is the same each time, and loaded once."""
    whole = folder.resolve()
    return _once(whole) if sources.shipped().resolve() in whole.parents else _compiled(folder, **options)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process, as `python -m metaoperator` would."""
    monkeypatch.setattr(sources, "compiled", _shipped_once)

    def ran(*args: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["metaoperator", *map(str, args)])
        codes: list[int] = []

        def call() -> None:
            try:
                cli.main()
            except SystemExit as exc:
                codes.append(int(exc.code or 0))

        # In a thread: commands that ask a cluster bring an event loop of their own, and this one has pytest's.
        limit = sys.getrecursionlimit()
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        sys.setrecursionlimit(limit)
        (code,) = codes
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return ran


def write(path: Path, text: str) -> Path:
    """Write a file and return its path."""
    path.write_text(text)
    return path


# render


def test_render_shows_the_objects_of_a_namespace(run: Run) -> None:
    """As YAML that kubectl takes, all in that namespace and with our mark."""
    ran = run("render", "team-a")
    assert (ran.code, ran.err) == (0, "")
    documents = list(yaml.safe_load_all(ran.out))
    assert [each["kind"] for each in documents][-1] == "Deployment"
    assert {each["metadata"]["namespace"] for each in documents} == {"team-a"}
    assert {each["metadata"]["labels"][names.MANAGED_BY_LABEL] for each in documents} == {names.MANAGED_BY}


def test_render_shows_the_same_as_json(run: Run) -> None:
    """A List, which kubectl takes too."""
    shown = json.loads(run("render", "team-a", "-o", "json").out)
    assert (shown["apiVersion"], shown["kind"]) == ("v1", "List")
    assert shown["items"] == list(yaml.safe_load_all(run("render", "team-a").out))


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_render_is_the_same_each_time(run: Run, output: str) -> None:
    """Commit hooks compare it."""
    assert run("render", "team-a", "-o", output) == run("render", "team-a", "-o", output)


def test_render_takes_fleet_values_namespace_values_and_labels(run: Run, tmp_path: Path) -> None:
    """The namespace's values lie above the fleet's; a label reaches the templates; `=` may stand in its value."""
    write_set(
        tmp_path / "sets" / "mine",
        template_yaml="kinds: [{apiVersion: v1, kind: ConfigMap}]\nnamespaceValues: [a]\n",
        one_yaml_j2=object_text("data: {a: '{{ values.a }}', b: '{{ values.b }}', t: {{ namespace.labels.t | q }}}\n"),
    )
    ran = run(
        *("render", "team-a", "--templates", tmp_path / "sets", "--set", "mine", "--label", "t=x=y"),
        *("--fleet-values", write(tmp_path / "fleet.yaml", "a: 2\nb: 2\n")),
        *("--values", write(tmp_path / "own.yaml", "a: 3\n")),
    )
    assert yaml.safe_load(ran.out)["data"] == {"a": "3", "b": "2", "t": "x=y"}


def test_render_needs_neither_kopf_nor_a_kubernetes_client() -> None:
    """It is used in commit hooks: half a second of imports, and a cluster, are for other commands."""
    code = (
        "import sys\nfrom metaoperator import cli\n"
        "sys.argv = ['metaoperator', 'render', 'team-a']\n"
        "try:\n    cli.main()\nexcept SystemExit as exc:\n    assert not exc.code\n"
        "heavy = {'kopf', 'kubernetes', 'aiohttp', 'prometheus_client'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_the_module_is_the_command() -> None:
    """`python -m metaoperator` works without a kubeconfig, a home or a locale, and prints UTF-8."""
    env = {key: value for key, value in os.environ.items() if key in {"PATH", "VIRTUAL_ENV"}}
    command = [sys.executable, "-m", "metaoperator", "render", "team-a"]
    done = subprocess.run(command, capture_output=True, env=env, check=True)
    assert done.stderr == b""
    assert yaml.safe_load_all(done.stdout.decode())


def test_a_command_that_ends_at_once_collects_nothing() -> None:
    """Neither while it imports and renders nor when the interpreter ends; what it prints is whole."""
    code = (
        "import gc, sys\nfrom metaoperator import __main__\n"
        "sys.argv = ['metaoperator', 'render', 'team-a']\n"
        "before = [each['collections'] for each in gc.get_stats()]\n"
        "try:\n    __main__.main()\nexcept SystemExit as exc:\n    assert not exc.code\n"
        "after = [each['collections'] for each in gc.get_stats()]\n"
        "print(before == after, len(gc.get_objects()) < 1000 < gc.get_freeze_count(), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "True True\n"
    assert len(list(yaml.safe_load_all(done.stdout))) == 6


# Errors


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (["render", "kube-system"], 2, "error: namespace kube-system belongs to the system, and is never served"),
        (["render", "metaoperator"], 2, "error: namespace metaoperator is the operator's own, and is never served"),
        (["render", "team-a", "--set", "gold"], 2, "error: no template set gold; there are: workflow-controller"),
        (["render", "team-a", "--label", "team"], 2, "error: --label wants KEY=VALUE, not team"),
        (["render"], 2, "Missing argument 'NAMESPACE'"),
        (["render", "team-a", "-o", "xml"], 2, "'xml' is not one of"),
        (["render", "team-a", "--values", "nowhere.yaml"], 2, "nowhere.yaml"),
        (["render", "team-a", "--templates", "nowhere"], 2, "nowhere"),
        (["diff"], 2, "error: name the namespaces to look at, or give --all or --fleet: one of the three"),
        (
            ["diff", "team-a", "--all"],
            2,
            "error: name the namespaces to look at, or give --all or --fleet: one of the three",
        ),
        (["diff", "team-a", "--templates", "nowhere"], 2, "nowhere"),
        (["validate", "nowhere"], 2, "nowhere"),
        (["rendr", "team-a"], 2, "No such command 'rendr'"),
        (["render", "team-a", "--nope"], 2, "--nope"),
    ],
)
def test_a_wrong_call_is_told_in_a_sentence(run: Run, args: list[str], code: int, told: str) -> None:
    """Exit code 2, nothing on standard output, never a traceback."""
    ran = run(*args)
    assert (ran.code, ran.out) == (code, "")
    assert told in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("option", "text", "told"),
    [
        ("--values", "a: 1\na: 2\n", ["error: {path}:2: duplicate key 'a', first on line 1"]),
        ("--values", "- a\n", ["error: {path}: must hold a mapping"]),
        ("--values", "a: [\n", ["error: {path}:2: "]),
        ("--fleet-values", "a: *x\n", ["error: {path}:1: "]),
        (
            "--values",
            "images: {controller: evil}\n",
            ["error: spec.values: images.controller is not a namespace's to set (ask the platform team"],
        ),
        (
            "--fleet-values",
            "workers: {ttl: none}\nlog: {level: loud}\nversion: latest\n",
            [
                'error: values.log.level: "loud" is not one of',
                "error: values.version: 'latest' is no version (write it like v4.1.2)",
                'error: values.workers.ttl: "none" is not of type "integer"',
            ],
        ),
    ],
    ids=str,
)
def test_values_at_fault_are_told_one_to_a_line(
    run: Run, tmp_path: Path, option: str, text: str, told: list[str]
) -> None:
    """Exit code 1, every fault at once, with the path to the value or to the line in the file."""
    path = write(tmp_path / "values.yaml", text)
    ran = run("render", "team-a", option, path)
    assert (ran.code, ran.out) == (1, "")
    lines = ran.err.splitlines()
    assert len(lines) == len(told)
    for line, start in zip(lines, told, strict=True):
        assert line.startswith(start.format(path=path))


def test_a_values_file_that_is_no_text_is_told_in_a_sentence(run: Run, tmp_path: Path) -> None:
    """Binary content is a fault of the file, not of the program."""
    path = tmp_path / "values.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    ran = run("render", "team-a", "--values", path)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"error: {path}: cannot be read: ")


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"one_yaml_j2": "{{\n"}, "error: one.yaml.j2:"),
        ({"one_yaml_j2": object_text("# {{ workflow.name }}\n")}, "error: one.yaml.j2:5: 'workflow' is undefined"),
        ({"one_yaml_j2": object_text("  labels: [a]\n")}, "error: one.yaml.j2:5: metadata.labels is not a mapping"),
        ({"values_yaml": "a: 1\na: 1\n"}, "error: mine/values.yaml:2: duplicate key"),
        ({"template_yaml": "kinds: []\n"}, "error: mine/template.yaml: kinds must list"),
    ],
    ids=str,
)
def test_a_template_set_at_fault_is_told_with_its_file(
    run: Run, tmp_path: Path, files: dict[str, str], told: str
) -> None:
    """Exit code 1: the answer is no."""
    write_set(tmp_path / "mine", **files)
    ran = run("render", "team-a", "--templates", tmp_path, "--set", "mine")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(told)
    assert "Traceback" not in ran.err


def test_a_set_at_fault_keeps_no_other_from_being_rendered(run: Run, tmp_path: Path) -> None:
    """Only the one that is asked for has to work."""
    write_set(tmp_path / "mine", one_yaml_j2="{{\n")
    assert run("render", "team-a", "--templates", tmp_path).code == 0


# The rest


def test_help_and_version_are_no_errors(run: Run) -> None:
    """Exit code 0, on standard output."""
    assert __version__ in run("--version").out
    for args in (
        ["-h"],
        ["render", "--help"],
        ["run", "--help"],
        ["status", "-h"],
        ["env", "-h"],
        ["diff", "-h"],
        ["validate", "-h"],
        ["preflight", "-h"],
    ):
        ran = run(*args)
        assert (ran.code, ran.err) == (0, "")
        assert "Usage: " in ran.out


@pytest.mark.parametrize(
    ("value", "wfc", "row"),
    [
        (None, None, None),
        ("disabled", None, None),
        ("enabled", None, ("False", "Unseen", "no operator has looked yet")),
        ("enabled", {}, ("Unknown", "Unseen", "no operator has looked at the newest spec yet")),
        (
            "enabled",
            {"Ready": ("True", "Leading", "p1 leads")},
            ("True", "Leading", "p1 leads"),
        ),
        (
            "typo",
            {"Ready": ("False", "PodFailing", "crash"), "Stalled": ("True", "TemplateNotFound", "no such")},
            ("False", "TemplateNotFound", "no such"),
        ),
        (
            None,
            {"Ready": ("True", "Draining", "d"), "Reconciling": ("True", "Draining", "3 left")},
            ("True", "Draining", "3 left"),
        ),
    ],
    ids=str,
)
def test_a_row_of_status_tells_what_is_up(
    value: str | None, wfc: dict[str, tuple[str, str, str]] | None, row: tuple[str, str, str] | None
) -> None:
    """An opted-in namespace has a row before any operator saw it; Stalled and Reconciling are told before Ready."""
    labels = {} if value is None else {names.OPT_IN_LABEL: value}
    found = Namespace(name="team-a", uid="u", labels=labels)
    live = None if wfc is None else {"metadata": {"generation": 1}, "status": published(wfc)}
    shown = status.row("team-a", found, live)
    assert (None if shown is None else (shown["READY"], shown["REASON"], shown["MESSAGE"])) == row


def published(conditions: dict[str, tuple[str, str, str]]) -> dict[str, object]:
    """Build a published status of these conditions; none at all where there are none."""
    if not conditions:
        return {}
    written = [
        {"type": kind, "status": status, "reason": reason, "message": message}
        for kind, (status, reason, message) in conditions.items()
    ]
    return {"observedGeneration": 1, "conditions": written}


def test_a_status_of_an_older_spec_is_not_taken_for_the_newest() -> None:
    """Until the operator looked, what it said is about something else."""
    live = {"metadata": {"generation": 2}, "status": published({"Ready": ("True", "Leading", "p1 leads")})}
    shown = status.row("team-a", Namespace(name="team-a", uid="u"), live)
    assert shown is not None
    assert (shown["READY"], shown["REASON"]) == ("Unknown", "Unseen")


def test_a_table_lines_its_columns_up() -> None:
    """As kubectl does, with no blanks at the end of a line."""
    rows = [{"NAME": "a", "MESSAGE": "long enough"}, {"NAME": "a-long-name", "MESSAGE": ""}]
    assert tables.text(rows) == "NAME          MESSAGE\na             long enough\na-long-name\n"


def test_a_table_moves_no_terminal() -> None:
    """What a tenant wrote into the cluster is text to whoever reads it: one line, no control characters."""
    shown = tables.text([{"NAME": "a", "MESSAGE": "one\ntwo\x1b[2J\x07"}])
    assert shown == "NAME   MESSAGE\na      one two\\x1b[2J\\x07\n"


def test_the_commit_hook_calls_a_command_that_there_is(run: Run) -> None:
    """For every file of a set and every manifest, and for nothing else."""
    (hook,) = yaml.safe_load((SHIPPED.parents[1] / ".pre-commit-hooks.yaml").read_text())
    program, command = hook["entry"].split()
    assert (program, run(command, "--help").code) == ("metaoperator", 0)
    names_of_files = [
        "sets/a/template.yaml",
        "sets/a/values.schema.json",
        "sets/a/one.yaml.j2",
        "sets/a/_p.j2",
        "m.yml",
    ]
    assert all(re.search(hook["files"], each) for each in names_of_files)
    assert not any(re.search(hook["files"], each) for each in ("README.md", "package.json", "a.py"))


# diff


def previewed(**fields: Any) -> Preview:
    """Build a preview of one changed ConfigMap."""
    before, after = live(config_map(data={"a": "1"})), live(config_map(data={"a": "2"}))
    write = Write(before=before, after=after, asked=fields.pop("asked", True))
    change = Change(ref=Ref.of(before), what=fields.pop("what", "changed"), why=fields.pop("why", ""), write=write)
    return Preview(namespace="team-a", changes=(change,), **fields)


def test_a_diff_ends_in_comments_that_tell_the_rest() -> None:
    """Whatever reads diffs reads over them: why, what was not asked, what a person has to mend, how many."""
    shown = diff.text(previewed(notes=("a note\x1b[2J",), stalled="Conflict: x", why="data.a", asked=False))
    assert shown.startswith("diff -u -N LIVE/v1.ConfigMap.team-a.one MERGED/v1.ConfigMap.team-a.one\n--- LIVE/")
    assert shown.splitlines()[-5:] == [
        "# team-a: a note\\x1b[2J",
        "# team-a: Conflict: x",
        "# ConfigMap/team-a/one: changed: data.a",
        "# ConfigMap/team-a/one: compared by value only, for you may not write it",
        "# team-a: 1 changed",
    ]


def test_a_diff_as_json_holds_the_same() -> None:
    """For programs: each object with what becomes of it, why, and its diff."""
    shown = diff.as_json(previewed(stalled="Conflict: x"))
    (each,) = shown["objects"]
    assert (shown["namespace"], shown["settled"], shown["stalled"]) == ("team-a", False, "Conflict: x")
    assert {key: each[key] for key in ("apiVersion", "kind", "name", "change", "why", "asked")} == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "one",
        "change": "changed",
        "why": "",
        "asked": True,
    }
    assert "+  a: '2'\n" in each["diff"]


def test_nothing_to_do_is_one_line() -> None:
    """And exit code 0."""
    found = previewed(what="unchanged")
    same = Preview(namespace="team-a", changes=(Change(ref=found.changes[0].ref, what="unchanged"),))
    assert (diff.text(same), same.settled) == ("# team-a: 1 unchanged\n", True)


# what others wrote into the cluster


def _group(group: str, **kinds: str) -> Any:
    resources = [{"name": name, "kind": kind, "namespaced": kind != "Namespace"} for name, kind in kinds.items()]
    return {"kind": "APIResourceList", "groupVersion": group, "resources": resources}


@pytest.fixture
def deep_cluster(tmp_path: Path) -> Iterator[Path]:
    """An API server with one WorkflowController whose values are 9,000 levels deep; a kubeconfig for it."""
    meta = '{"name": "%s", "namespace": "team-a", "resourceVersion": "1", "uid": "u", "generation": 1}'
    values = '{"a": ' + "[" * 9000 + "]" * 9000 + "}"
    condition = '{"type": "Ready", "status": "False", "reason": "ValuesInvalid", "message": "too deep"}'
    status = f'{{"observedGeneration": 1, "conditions": [{condition}]}}'
    wfc = f'{{"metadata": {meta % "workflow-controller"}, "spec": {{"values": {values}}}, "status": {status}}}'
    namespace = f'{{"metadata": {meta % "team-a"}}}'
    answers = {
        "/api/v1": json.dumps(_group("v1", namespaces="Namespace")),
        "/apis/metaoperator.dev/v1alpha1": json.dumps(
            _group(names.API_VERSION, workflowcontrollers="WorkflowController")
        ),
        "/api/v1/namespaces": f'{{"metadata": {{}}, "items": [{namespace}]}}',
        "/apis/metaoperator.dev/v1alpha1/workflowcontrollers": f'{{"metadata": {{}}, "items": [{wfc}]}}',
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers[self.path.partition("?")[0]].encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "users": [{"name": "x", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "current-context": "x",
        }
        yield write(tmp_path / "kubeconfig", yaml.safe_dump(config))
        server.shutdown()


def test_status_shows_everybody_although_ones_values_are_too_deep(deep_cluster: Path) -> None:
    """What one tenant wrote keeps nobody from reading about the others: a row like any other, no traceback."""
    command = [sys.executable, "-m", "metaoperator", "status", "--kubeconfig", str(deep_cluster)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert "ValuesInvalid" in ran.stdout
    assert (ran.returncode, ran.stderr) == (1, "")
