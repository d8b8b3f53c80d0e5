"""What the admission policies cost, and what they refuse while an API server comes back: on an API server of its own.

Cost: Workflows of three sizes, created and updated, without the policies and with them in turn (off, on, on, off), by
the API server's own CPU. Outage: a Workflow every 50 ms while the API server is killed and started anew and Argo's CRDs
are replaced by their other set, in each round once without the stamping policy and once for each way of having it.
"""

import http.client
import json
import ssl
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from metaoperator.core import names
from tests.cluster import alone, build
from tests.cluster.alone import ApiServer
from tests.e2e.local import CHECKOUT, Kubectl, Object, Refused, eventually

from . import machine
from .report import Figure

NAMESPACE = "team-a"
ARGO = f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}"
WORKFLOWS = f"{ARGO}/workflows"
CRON_WORKFLOWS = f"{ARGO}/cronworkflows"
GROUP = "admissionregistration.k8s.io"

SIZES = {"4 KB": (4_000, 200, 200), "100 KB": (100_000, 60, 40), "1 MB": (1_000_000, 15, 4)}
"""How large, how many creations in one turn (or updates of CronWorkflows: they cost no more), and how many updates."""

CYCLES = 2
"""How often each is measured off, on, on, off."""

SECONDS_AFTER = 6
"""How long submissions go on after the last step: admission looks for new schemas of CRDs every five seconds."""


class Server:
    """The API server with the fleet bundle, and who speaks to it."""

    def __init__(self, api_server: ApiServer) -> None:
        """Read what is shipped; nothing is installed."""
        self.api_server = api_server
        self.kubectl = Kubectl(str(build.program("kubectl")), api_server.kubeconfig)
        self._connection: http.client.HTTPSConnection | None = None
        self._has: Sequence[Object] | None = None
        self.shipped = {
            (each["kind"], each["metadata"]["name"]): each
            for each in self.built("instance-id-pinned", "started-guard")
            if each["apiVersion"].startswith(GROUP) and "instance-id" in each["metadata"]["name"]
        }

    def built(self, *components: str) -> list[Object]:
        """Build the fleet bundle with components, as a person does."""
        folder = CHECKOUT / ".cluster" / "bench-overlay"
        folder.mkdir(parents=True, exist_ok=True)
        overlay = {
            "resources": ["../../manifests/fleet"],
            "components": [f"../../manifests/components/{each}" for each in components],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
        return [each for each in yaml.safe_load_all(self.kubectl("kustomize", folder)) if each]

    def install(self) -> None:
        """Install Argo's CRDs, the fleet bundle and one opted-in namespace."""
        self.crds("full")
        self.kubectl("apply", "--server-side", "-k", "manifests/fleet/crds")

        def served() -> None:
            try:
                self.kubectl("get", "workflowcontrollers,controllertemplates,workflows", "-A")
            except Refused as exc:
                raise AssertionError(str(exc)) from exc

        eventually(served)
        self.kubectl("apply", "--server-side", "-k", "manifests/fleet")
        labels = {names.OPT_IN_LABEL: "enabled"}
        self.kubectl("create", "-f", "-", stdin=_object("v1", "Namespace", NAMESPACE, labels=labels))
        row = _object(names.API_VERSION, "WorkflowController", names.WORKFLOW_CONTROLLER) | {
            "spec": {"instanceID": "pinned"}
        }
        self.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=row)

    def crds(self, which: str) -> None:
        """Apply one of Argo's two sets of CRDs, by force, as an upgrade does."""
        command: list[str | Path] = [
            "apply",
            "--server-side",
            "--force-conflicts",
            "--validate=false",
            "-f",
            build.argo_crds(which),
        ]

        def applied() -> None:
            try:
                self.kubectl(*command)
            except Refused as exc:  # an API server that has just started on a busy machine may be too slow
                raise AssertionError(str(exc)) from exc

        eventually(applied, seconds=120)

    def have(self, wanted: Sequence[Object]) -> None:
        """Have just these policies about instance IDs, and wait until they are what counts."""
        if wanted == self._has:
            return
        bindings = [each for each in wanted if each["kind"].endswith("Binding")]
        policies = [each for each in wanted if not each["kind"].endswith("Binding")]
        kept = {(each["kind"], each["metadata"]["name"]) for each in wanted}
        gone = [
            f"{kind.lower()}/{name}" for kind, name in sorted(self.shipped.keys() - kept) if kind.endswith("Binding")
        ]
        if gone:
            self.kubectl("delete", "--ignore-not-found", *gone)
        if wanted:
            items = {"apiVersion": "v1", "kind": "List", "items": [*policies, *bindings]}
            self.kubectl("apply", "--server-side", "--force-conflicts", "--validate=false", "-f", "-", stdin=items)
        self._has = wanted
        time.sleep(2.5)  # the API server looks at its policies once a second, and reads parameters before it is asked

    def settle(self) -> None:
        """Wait until the API server does nothing: it works on for a while after CRDs and policies have changed."""

        def idle() -> None:
            before = machine.seconds(self.api_server.pid)
            time.sleep(1)
            spent = machine.seconds(self.api_server.pid) - before
            assert spent <= 0.05, f"{spent} s of CPU in a second"

        eventually(idle, seconds=120, every=0.1)

    def send(self, method: str, path: str, body: str = "") -> tuple[int, Object]:
        """Send one request over a connection that stays open."""
        if self._connection is None:
            self._connection = _connect(self.api_server)
        self._connection.request(method, path, body or None, HEADERS)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


HEADERS = {"Authorization": f"Bearer {alone.TOKEN}", "Content-Type": "application/json", "Accept": "application/json"}


def costs() -> list[Figure]:
    """Measure what they cost."""
    with _server() as server:
        return _costs(server)


def outages(rounds: int) -> list[Figure]:
    """Count what they refuse."""
    with _server() as server:
        return _outages(server, rounds)


@contextmanager
def _server() -> Iterator[Server]:
    with alone.running() as api_server:
        server = Server(api_server)
        try:
            server.install()
            yield server
        finally:
            server.close()


def _connect(api_server: ApiServer) -> http.client.HTTPSConnection:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = int(api_server.url.rpartition(":")[2])
    return http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)


def _object(version: str, kind: str, name: str, **meta: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **meta}}


# ---- what they cost


def workflow(size: int, *, nodes: bool) -> Object:
    """Write a Workflow of about that size: in its templates, as it is submitted, or in its nodes, as it has run."""
    count = max(1, min(150, size // 1000))
    pad = 200 if nodes else max(100, size // count - 250)
    templates = [
        {
            "name": f"step-{index}",
            "script": {
                "image": "example.invalid/a:1",
                "command": ["sh"],
                "source": f"echo {index}\n" + "# x\n" * (pad // 4),
            },
        }
        for index in range(1 if nodes else count)
    ]
    found: Object = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": "cost-"},
        "spec": {"entrypoint": "step-0", "templates": templates},
    }
    if nodes:
        found["metadata"]["labels"] = {names.INSTANCE_ID_LABEL: NAMESPACE, names.PHASE_LABEL: "Running"}
        found["status"] = {"phase": "Running", "nodes": {}}
        each = len(json.dumps(_node(0))) + 24
        for index in range(max(1, (size - len(json.dumps(found))) // each)):
            found["status"]["nodes"][f"cost-{index:010}"] = _node(index)
    return found


def _cron_workflow(size: int) -> Object:
    """Write a CronWorkflow of about that size, as it is once it has its ID."""
    made = workflow(size, nodes=False)
    made["metadata"]["labels"] = {names.INSTANCE_ID_LABEL: NAMESPACE}
    spec = {"schedules": ["0 0 1 1 *"], "suspend": True, "workflowSpec": made["spec"]}
    return made | {"kind": "CronWorkflow", "spec": spec}


def _node(index: int) -> Object:
    return {
        "id": f"cost-{index:010}", "name": f"cost.step-{index}", "displayName": f"step-{index}", "type": "Pod",
        "templateName": "step-0", "templateScope": "local/cost", "phase": "Succeeded", "boundaryID": "cost-0000000000",
        "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:10Z", "progress": "1/1",
        "resourcesDuration": {"cpu": 3, "memory": 30}, "hostNodeName": "node-1",
        "outputs": {"exitCode": "0", "parameters": [{"name": "result", "value": "x" * 60}]},
    }  # fmt: skip


def _costs(server: Server) -> list[Figure]:
    shipped = [
        each
        for (_, name), each in server.shipped.items()
        if name in (names.STAMPING_POLICY, names.INSTANCE_ID_METADATA)
    ]
    guarded = [each for each in server.shipped.values() if each["metadata"]["name"] != names.STAMPING_PINNED]
    pinned = [each for each in server.shipped.values() if each["metadata"]["name"] != names.INSTANCE_ID_STARTED]
    figures = []
    for what, (size, creations, updates) in SIZES.items():
        create = partial(_creates, server, workflow(size, nodes=False), creations)
        update = partial(_updates, server, workflow(size, nodes=True), updates)
        keep = partial(_cron_updates, server, _cron_workflow(size), creations, drop=False)
        drop = partial(_cron_updates, server, _cron_workflow(size), creations, drop=True)
        figures += [
            *_paired(server, f"create {what}, shipped policies", shipped, create, creations),
            *_paired(server, f"create {what}, pinned IDs too", pinned, create, creations),
            *_paired(server, f"update {what}, shipped policies", shipped, update, updates),
            *_paired(server, f"update {what}, refusals at updates too", _at_updates(shipped), update, updates),
            *_paired(server, f"update {what}, started-guard too", guarded, update, updates),
            *_paired(server, f"update CronWorkflow {what}, shipped policies", shipped, keep, creations),
            *_paired(
                server, f"update CronWorkflow {what} without its label, shipped policies", shipped, drop, creations
            ),
        ]
    return figures


def _at_updates(shipped: Sequence[Object]) -> list[Object]:
    """Ask the refusals at updates of Workflows as well, which they are not."""
    copies: list[Object] = json.loads(json.dumps(shipped))
    for each in copies:
        if each["kind"] == "ValidatingAdmissionPolicy":
            each["spec"]["matchConstraints"]["resourceRules"][0]["operations"] = ["CREATE", "UPDATE"]
    return copies


def _paired(
    server: Server, name: str, policies: Sequence[Object], turn: Callable[[], None], count: int
) -> list[Figure]:
    """Measure off, on, on, off, again and again; the ratio of each neighbouring pair, and of them the median."""
    turn()  # warm
    spent: dict[bool, list[float]] = {False: [], True: []}
    for on in (False, True, True, False) * CYCLES:
        server.have(policies if on else ())
        server.settle()
        before = machine.seconds(server.api_server.pid)
        turn()
        spent[on].append(1000 * (machine.seconds(server.api_server.pid) - before) / count)
    ratios = [with_them / without for with_them, without in zip(spent[True], spent[False], strict=True)]
    print(f"{name}: off {_listed(spent[False])} on {_listed(spent[True])}", flush=True)
    return [
        Figure(what=f"{name}: CPU without", value=statistics.median(spent[False]), unit="ms"),
        Figure(what=f"{name}: CPU with", value=statistics.median(spent[True]), unit="ms"),
        Figure(what=f"{name}: with / without, median of {len(ratios)} pairs", value=statistics.median(ratios)),
    ]


def _listed(values: Sequence[float]) -> str:
    return " ".join(f"{each:.2f}" for each in values)


def _creates(server: Server, workflow: Object, count: int) -> None:
    body = json.dumps(workflow)
    for _ in range(count):
        code, answer = server.send("POST", WORKFLOWS, body)
        assert code == 201, answer
    _clean(server)


def _updates(server: Server, workflow: Object, count: int) -> None:
    code, live = server.send("POST", WORKFLOWS, json.dumps(workflow))
    assert code == 201, live
    path = f"{WORKFLOWS}/{live['metadata']['name']}"
    for index in range(count):
        live["status"]["message"] = str(index)
        code, live = server.send("PUT", path, json.dumps(live))
        assert code == 200, live
    _clean(server)


def _cron_updates(server: Server, cron: Object, count: int, *, drop: bool) -> None:
    """Update as the controller does, or as clients do that send the manifest of old."""
    code, live = server.send("POST", CRON_WORKFLOWS, json.dumps(cron))
    assert code == 201, live
    path = f"{CRON_WORKFLOWS}/{live['metadata']['name']}"
    for index in range(count):
        live["metadata"]["annotations"] = {"index": str(index)}
        if drop:
            live["metadata"].pop("labels", None)
        code, live = server.send("PUT", path, json.dumps(live))
        assert code == 200, live
    _clean(server, CRON_WORKFLOWS)


def _clean(server: Server, collection: str = WORKFLOWS) -> None:
    code, answer = server.send("DELETE", collection)
    assert code == 200, answer


# ---- what they refuse while an API server comes back


@dataclass(slots=True)
class Count:
    """What came of the submissions of one way."""

    sent: int = 0
    unreached: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    unstamped: int = 0


def _outages(server: Server, rounds: int) -> list[Figure]:
    of = server.shipped
    stamping = [each for (_, name), each in of.items() if name == names.STAMPING_POLICY]
    ways: Mapping[str, Sequence[Object]] = {
        "no policy": (),
        "failurePolicy Fail": stamping,
        "failurePolicy Ignore": _ignoring(stamping),
    }
    counts = {way: Count() for way in ways}
    for number in range(rounds):
        # Each way is first as often as last, and gets each set of CRDs as often as the other.
        turned = list(ways) if number % 2 == 0 else [*ways][::-1]
        for place, way in enumerate(turned):
            server.settle()
            server.have(ways[way])
            _outage(server, counts[way], crds="minimal" if (number // 2 + place) % 2 == 0 else "full")
            told = counts[way]
            print(f"round {number + 1}, {way}: {told}", flush=True)
    figures = [Figure(what="outages of each way", value=rounds)]
    for way, count in counts.items():
        figures += [
            Figure(what=f"{way}: submissions", value=count.sent),
            Figure(what=f"{way}: API server not reached", value=count.unreached),
            Figure(what=f"{way}: answered with an error", value=count.refused.total()),
            *(Figure(what=f"{way}: … {each}", value=number) for each, number in sorted(count.refused.items())),
        ]
        if ways[way]:
            figures.append(Figure(what=f"{way}: accepted without an ID", value=count.unstamped))
    return figures


def _ignoring(policies: Sequence[Object]) -> list[Object]:
    copies: list[Object] = json.loads(json.dumps(policies))
    for each in copies:
        if each["kind"] == "MutatingAdmissionPolicy":
            each["spec"]["failurePolicy"] = "Ignore"
    return copies


def _outage(server: Server, count: Count, *, crds: str) -> None:
    """Submit while the API server is killed, is back, and gets other CRDs."""
    server.close()
    over = threading.Event()
    submitting = threading.Thread(target=_submit, args=(server.api_server, count, over))
    submitting.start()
    try:
        time.sleep(1)
        server.api_server.stop()
        server.api_server.start()
        server.crds(crds)
        time.sleep(SECONDS_AFTER)
    finally:
        over.set()
        submitting.join()
    eventually(lambda: _emptied(server))


def _emptied(server: Server) -> None:
    try:
        _clean(server)
    except (OSError, http.client.HTTPException) as exc:
        server.close()
        raise AssertionError(str(exc)) from exc


def _submit(api_server: ApiServer, count: Count, over: threading.Event) -> None:
    body = json.dumps(workflow(2_000, nodes=False))
    while not over.wait(0.05):
        count.sent += 1
        connection = _connect(api_server)
        try:
            connection.request("POST", WORKFLOWS, body, HEADERS)
            answer = connection.getresponse()
            content = json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            count.unreached += 1
            continue
        finally:
            connection.close()
        if answer.status != 201:
            count.refused[f"{answer.status} {_brief(content)}"] += 1
        elif names.INSTANCE_ID_LABEL not in content["metadata"].get("labels", {}):
            count.unstamped += 1


def _brief(status: Object) -> str:
    """Cut the message of an error to what is the same each time."""
    text = str(status.get("message", ""))
    return text.rpartition(": ")[2].partition(". ")[0].partition(", please")[0][:90]
