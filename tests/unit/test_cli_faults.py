"""Every command against every fault of its surroundings: a sentence and an exit code, never a traceback."""

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.unit.test_cli import Ran, Run, run, write

__all__ = ["run"]

WITH_CLUSTER = (
    ["status"],
    ["status", "-n", "team-a"],
    ["env", "team-a"],
    ["diff", "team-a"],
    ["diff", "--all"],
    ["diff", "--fleet"],
    ["preflight", "team-a"],
    ["explain", "workflow", "team-a/w"],
    ["rollout", "status"],
    ["rollout", "status", "--watch"],
    ["rollout", "history"],
    ["rollout", "pause"],
    ["rollout", "resume"],
    ["rollout", "approve"],
    ["rollout", "undo"],
)
WITH_NAMESPACE = (["render"], ["env"], ["diff"], ["preflight"], ["status", "-n"], ["run", "--deny"])
WITH_VALUES = (
    ["render", "team-a", "--values"],
    ["render", "team-a", "--fleet-values"],
    ["diff", "team-a", "--values"],
    ["diff", "team-a", "--fleet-values"],
    ["diff", "--fleet", "--fleet-values"],
    ["validate", "--values"],
    ["validate", "--fleet-values"],
    ["preflight", "--fleet-values"],
)
commands = pytest.mark.parametrize("command", WITH_CLUSTER, ids=" ".join)


def told(ran: Ran) -> str:
    """Hold an outcome to what all have in common, and return its sentence."""
    assert ran.out == ""
    assert "Traceback" not in ran.err
    (line,) = ran.err.splitlines()
    assert line.startswith("error: ")
    return line


def kubeconfig(path: Path, port: int, **user: object) -> Path:
    """Write a kubeconfig for a server on this machine."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "x", "user": user or {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "current-context": "x",
    }
    return write(path, yaml.safe_dump(config))


# the cluster


def status_body(code: int, reason: str, message: str) -> str:
    """Write a Status as an API server sends it."""
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message})


ANSWERS = {
    "expired token": (401, status_body(401, "Unauthorized", "Unauthorized"), "the cluster did not answer: "),
    "forbidden": (
        403,
        status_body(403, "Forbidden", 'wfc is forbidden: User "eve" cannot get resource "wfc"'),
        'the cluster refused: wfc is forbidden: User "eve" cannot get resource "wfc"',
    ),
    "broken": (500, "panic: everything", "the cluster did not answer: "),
    "busy": (429, status_body(429, "TooManyRequests", "later"), "the cluster did not answer: "),
    "no such kind": (404, status_body(404, "NotFound", "not found"), "the cluster refused: "),
    "a login page": (200, "<html><h1>Please log in</h1></html>", "the cluster did not answer: "),
    "JSON of something else": (200, "[]", "the cluster did not answer: "),
    "an empty object": (200, "{}", "the cluster "),
    "nothing": (200, "", "the cluster did not answer: "),
    "JSON without end": (200, "[" * 200_000, "the cluster did not answer: "),
    "a fault without end": (503, "[" * 200_000, "the cluster did not answer: "),
    "kinds of something else": (
        200,
        json.dumps({"gitVersion": "v1.36.0", "resources": [1, None, {}], "items": [1], "metadata": {}}),
        "the cluster did not answer: ",
    ),
    "details of something else": (
        403,
        json.dumps({"kind": "Status", "message": "no", "details": {"causes": [1], "retryAfterSeconds": "x"}}),
        "the cluster refused: no",
    ),
    "a proxy that says no": (403, "<h1>Denied</h1>", "the cluster refused: GET /"),
    "binary": (502, "\udc80\x00\x1b[2J", "the cluster did not answer: "),
}


@pytest.fixture(params=ANSWERS)
def answer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Serve one answer to every question; a kubeconfig for it, and how the sentence begins."""
    code, body, told = ANSWERS[request.param]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            raw = body.encode(errors="surrogateescape")
            self.send_response(code)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_POST = do_PATCH = do_GET  # noqa: N815 - the library's names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield kubeconfig(tmp_path / "kubeconfig", server.server_port), told
        server.shutdown()


@commands
def test_an_answer_that_helps_nobody_is_told(run: Run, answer: tuple[Path, str], command: list[str]) -> None:
    """Exit code 3, with what the server said, and nothing in it that moves a terminal."""
    path, start = answer
    ran = run(*command, "--kubeconfig", path)
    assert ran.code == 3
    assert told(ran).startswith(f"error: {start}")
    assert "\x1b" not in ran.err


@commands
def test_no_cluster_is_told(run: Run, tmp_path: Path, command: list[str]) -> None:
    """Exit code 3, with the address that was tried."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # taken, and nobody listens
        port = taken.getsockname()[1]
        ran = run(*command, "--kubeconfig", kubeconfig(tmp_path / "kubeconfig", port))
    assert ran.code == 3
    assert str(port) in told(ran)


# the kubeconfig

KUBECONFIGS: dict[str, bytes | None] = {
    "missing": None,
    "empty": b"",
    "no YAML": b"a: [",
    "a list": b"- a\n",
    "text": b"hello\n",
    "binary": bytes(range(256)),
    "no context": b"apiVersion: v1\nkind: Config\nclusters: []\nusers: []\ncontexts: []\n",
    "a context that is not there": b"apiVersion: v1\nkind: Config\nclusters: []\nusers: []\ncontexts: []\n"
    b"current-context: gone\n",
}


@commands
@pytest.mark.parametrize("content", KUBECONFIGS.values(), ids=KUBECONFIGS)
def test_a_kubeconfig_that_cannot_work_is_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, command: list[str]
) -> None:
    """Exit code 2: nothing was asked. The same for the option and for the variable."""
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("HOME", str(tmp_path))
    for env, args in (("", ["--kubeconfig", str(path)]), (str(path), [])):
        monkeypatch.setenv("KUBECONFIG", env)
        ran = run(*command, *args)
        assert ran.code == 2
        assert "set KUBECONFIG or --kubeconfig" in told(ran)


ENTRIES: dict[str, tuple[dict[str, object], dict[str, object], int, str]] = {
    "no address": ({"server": ""}, {}, 2, "server '' is no address"),
    "words for an address": ({"server": "not a url"}, {}, 2, "server 'not a url' is no address"),
    "another protocol": ({"server": "ftp://127.0.0.1"}, {}, 2, "is no address"),
    "no such port": ({"server": "http://127.0.0.1:99999"}, {}, 2, "is no address"),
    "half an address": ({"server": "http://[::1"}, {}, 2, "is no address"),
    "a host that is no name": ({"server": f"http://{'a' * 300}:1"}, {}, 3, "the cluster did not answer: "),
    "an authority that is none": (
        {"server": "https://127.0.0.1:1", "certificate-authority-data": "AAAA"},
        {},
        2,
        "no access to a cluster: its certificate or key",
    ),
    "a certificate that is none": (
        {"server": "https://127.0.0.1:1"},
        {"client-certificate-data": "AAAA", "client-key-data": "AAAA"},
        2,
        "no access to a cluster: its certificate or key",
    ),
    "a token of two lines": ({"server": "http://127.0.0.1:1"}, {"token": "a\nb"}, 3, "holds a line break"),
}


@commands
@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_an_entry_of_a_kubeconfig_that_cannot_work_is_told(
    run: Run, tmp_path: Path, entry: tuple[dict[str, object], dict[str, object], int, str], command: list[str]
) -> None:
    """By what is wrong with it: not as an output that cannot be written, and never as a traceback."""
    cluster, user, code, says = entry
    path = kubeconfig(tmp_path / "kubeconfig", 1, **user)
    config = yaml.safe_load(path.read_text())
    config["clusters"][0]["cluster"] = cluster
    ran = run(*command, "--kubeconfig", write(path, yaml.safe_dump(config)))
    assert ran.code == code
    assert says in told(ran)


def test_the_operator_is_not_started_without_credentials(tmp_path: Path) -> None:
    """Exit code 2, the sentence last, after what the log says."""
    done = spawn(["run", "--kubeconfig", str(tmp_path / "gone")], stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("error: no access to a cluster: ")
    assert "Traceback" not in done.stderr


def test_a_kubeconfig_that_is_a_folder_is_told(run: Run, tmp_path: Path) -> None:
    """The client library's own error names no path."""
    ran = run("status", "--kubeconfig", tmp_path)
    assert ran.code == 2
    assert str(tmp_path) in told(ran)


@commands
@pytest.mark.parametrize("extra", ["", "/nowhere/kubeconfig"], ids=["all there", "one missing"])
def test_several_kubeconfigs_are_merged(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], extra: str
) -> None:
    """As kubectl does: the cluster from one file, the context from another, and a file that is missing is none."""
    whole = yaml.safe_load(kubeconfig(tmp_path / "whole", 1).read_text())
    first, second = dict(whole), dict(whole)
    first |= {"users": [], "contexts": []}
    second |= {"clusters": []}
    paths = [str(write(tmp_path / "a", yaml.safe_dump(first))), str(write(tmp_path / "b", yaml.safe_dump(second)))]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([*filter(None, [extra]), *paths]))
    ran = run(*command)
    assert ran.code == 3
    assert "127.0.0.1:1" in told(ran)


# names and files


@pytest.mark.parametrize("command", WITH_NAMESPACE, ids=" ".join)
@pytest.mark.parametrize("name", ["Team", "team_a", "a/b", "..", "$(id)", "", "a" * 64, "-a", "é", "a\x1b[2J"])
def test_a_name_that_no_namespace_has_is_a_wrong_call(run: Run, command: list[str], name: str) -> None:
    """Exit code 2, before any cluster is asked: such a name would be part of a path, or of a shell's input."""
    ran = run(*command, "--", name) if not command[-1].startswith("-") else run(*command, name)
    assert ran.code == 2
    assert "is no name of a namespace" in told(ran)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"a: " + b"x" * 2_000_000, b"\x00", b"a: 1\n---\na: 2\n"])
@pytest.mark.parametrize("command", WITH_VALUES, ids=" ".join)
def test_a_file_that_is_no_values_is_told_with_its_path(
    run: Run, tmp_path: Path, command: list[str], content: bytes
) -> None:
    """Binary, far too long, or several documents: exit code 1, and the path."""
    path = tmp_path / "values.yaml"
    path.write_bytes(content)
    ran = run(*command, path)
    assert ran.code == 1
    assert str(path) in told(ran)


# the output


def spawn(command: list[str], **how: object) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own."""
    line = [sys.executable, "-m", "metaoperator", *command]
    return subprocess.run(line, stderr=subprocess.PIPE, text=True, check=False, timeout=60, **how)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize(
    "command", [["render", "team-a"], ["validate"], ["--help"], ["render", "--help"]], ids=" ".join
)
def test_an_output_that_nobody_reads_is_no_error(command: list[str]) -> None:
    """As in `| head`: exit code 141, as other programs end there, and not a word."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = spawn(command, stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_an_output_that_cannot_be_written_is_told() -> None:
    """A full disk: exit code 2."""
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        done = spawn(["render", "team-a"], stdout=full)
    assert (done.returncode, done.stderr) == (2, "error: the output cannot be written: No space left on device\n")


def test_a_closed_output_is_no_traceback() -> None:
    """`>&-`: there is nothing to write to."""
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m metaoperator render team-a >&-"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_any_locale_prints_the_same() -> None:
    """What is printed is data for other programs: UTF-8, whatever the terminal claims to be."""
    command = ["render", "team-a", "--label", "a=é", "-o", "json"]
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "PYTHON"))}
    outputs = {
        spawn(command, stdout=subprocess.PIPE, env=plain | more, encoding="utf-8").stdout
        for more in ({}, {"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"})
    }
    assert len(outputs) == 1
    assert outputs != {""}


def test_a_wrong_call_in_any_locale_is_told() -> None:
    """A character that the locale cannot write is no reason to end in a traceback."""
    done = spawn(["render", "é"], env={**os.environ, "PYTHONIOENCODING": "ascii"}, stdout=subprocess.PIPE)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@commands
def test_ctrl_c_ends_in_silence(tmp_path: Path, command: list[str]) -> None:
    """Exit code 130 while the cluster has not answered yet."""
    with closing(socket.socket()) as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        mute.settimeout(60)
        # A shell that starts something in the background has it ignore SIGINT, and all that it starts.
        line = ["env", "--default-signal=INT", sys.executable, "-m", "metaoperator", *command, "--kubeconfig"]
        path = str(kubeconfig(tmp_path / "kubeconfig", mute.getsockname()[1]))
        with subprocess.Popen([*line, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            accepted, _ = mute.accept()  # it is waiting for an answer
            process.send_signal(2)
            out, err = process.communicate(timeout=60)
            accepted.close()
    assert (process.returncode, out, err.strip()) == (130, "", "")
