"""Workflows come in through every door while a namespace opts in, out and in again beside a cluster-wide controller.

Two real workflow-controllers and a real argo-server; nobody who submits says an instance ID. Most pods run on a
simulated node; every fifth Workflow's, and those that create Workflows, run the real executor. Who made which pod, and
how often, is read from what the API server wrote down, not from what is left.

The short form is for every run: each door is used at least three times in each chapter, for each way that it has. In
full (`make long`) it is used twice as often.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import beside, workflows
from tests.e2e.argo import ROLE, SERVER, Argo, Files, Rest, forwarded, person, plain
from tests.e2e.audit import Audit, code, target
from tests.e2e.beside import ARGO
from tests.e2e.doors import Door, Doors
from tests.e2e.install import Installation, cluster_command
from tests.e2e.local import FULL, INSTANCE_ID, KUBECONFIG, MANIFESTS, Api, Kubectl, Object, eventually, metaoperator
from tests.e2e.namespaces import CHILD, Namespaces

CRONS = "argoproj.io/v1alpha1/cronworkflows"
CRON = "workflows.argoproj.io/cron-workflow"
FOREIGN_SERVER = MANIFESTS / "foreign-server.yaml"
OUTSIDE, INSIDE = "made-outside", "made-inside"
"""CronWorkflows: of a time when the namespace was not opted in, and of one when it was."""
MANY = 200 if FULL else 80
EVERY_SECONDS = 2.0
"""Between two Workflows of one door: two cores carry two controllers, a node, and whoever submits."""
GAP_SECONDS = 60.0
"""No schedule of every few seconds is silent for so long, whoever takes it over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A namespace beside a cluster-wide controller and its server, and somebody who may use Argo in it."""

    namespace: str
    doors: dict[str, Door]


def placed(number: int) -> Object:
    """Say where the pods of a Workflow run: every fifth on the real node."""
    if number % 5 == 4:
        return {}
    taint = {"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}
    return {"nodeSelector": {"type": "kwok"}, "tolerations": [taint]}


def workflow(number: int, **metadata: Any) -> Object:
    """Build a Workflow of one pod, or of two that follow each other; nobody deletes it."""
    made = workflows.one_step(metadata.pop("name", "any"), **metadata)
    made["spec"] |= {"ttlStrategy": {"secondsAfterCompletion": 3600}} | placed(number)
    if number % 2:
        steps = [[{"name": name, "template": "main"}] for name in ("first", "second")]
        made["spec"]["templates"].append({"name": "twice", "steps": steps})
        made["spec"]["entrypoint"] = "twice"
    return made


def creator(number: int) -> Object:
    """Build a Workflow whose one step creates another: a real pod, with the rights of its account."""
    made = workflow(4, generateName="creator-")
    inner = json.dumps(workflow(number * 2, generateName="created-"))
    made["spec"]["templates"] = [{"name": "main", "resource": {"action": "create", "manifest": inner}}]
    return made


def cron(name: str) -> Object:
    """Build one that fires every few seconds, never two at a time, and keeps all that it fired."""
    made = workflows.one_step(name, kind="CronWorkflow")
    made["spec"] = {
        "schedules": ["@every 8s"],
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 1000,
        "failedJobsHistoryLimit": 1000,
        "workflowSpec": workflow(0)["spec"],
    }
    return made


@pytest.fixture(scope="module")
def shared(simulated_nodes: None, namespaces: Namespaces, kubectl: Kubectl, api: Api) -> Iterator[str]:
    """Run a cluster-wide controller and server beside simulated nodes; yields the server's address."""
    del simulated_nodes
    beside.install(namespaces, kubectl, api)
    kubectl("apply", "--server-side", "-f", FOREIGN_SERVER)
    kubectl("apply", "--server-side", "-f", "-", stdin=ROLE)
    kubectl("rollout", "status", f"deployment/{SERVER}", "-n", ARGO, "--timeout=120s")
    try:
        with forwarded(kubectl, KUBECONFIG, ARGO) as address:
            yield address
    finally:
        kubectl("delete", "--ignore-not-found", "--wait=false", "-f", FOREIGN_SERVER)
        kubectl("delete", "clusterrole", ROLE["metadata"]["name"])
        beside.remove(namespaces, kubectl)


@pytest.fixture(params=["with the operator", "without the operator"])
def scene(
    request: pytest.FixtureRequest,
    shared: str,
    namespaces: Namespaces,
    kubectl: Kubectl,
    api: Api,
    installation: Installation,
    tmp_path: Path,
) -> Iterator[Scene]:
    """Have the doors of a namespace; where there will be no operator, the namespace has opted in before."""
    here = f"e2e-doors-{request.param.split()[0]}"
    stopped = request.param == "without the operator"
    namespaces.make(here, opt_in="enabled" if stopped else None)
    token, kubeconfig = person(kubectl, api, "user", here, "edit", ROLE["metadata"]["name"])
    beside.lets_executors_report(kubectl, here)
    kubectl(
        "create", "rolebinding", "creator", "-n", here, f"--clusterrole={ROLE['metadata']['name']}",
        f"--serviceaccount={here}:default",
    )  # fmt: skip
    cli = Argo(cluster_command("path", "argo"), {})
    cli.environment = plain(cli.program, kubeconfig, tmp_path) | {"ARGO_NAMESPACE": here}
    rest, files = Rest(shared, token), Files(tmp_path)
    kubectl("apply", "-n", here, "-f", "-", stdin=workflow(1, name="source") | {"kind": "WorkflowTemplate"})

    def by_kubectl(number: int) -> str:
        # An empty ID that comes while nothing stamps is nobody's, until the sweep after an opt-in.
        odd = ({}, {"labels": None}, {"labels": {INSTANCE_ID: ""}})
        labels = odd[number % (2 if stopped else 3)]
        made = workflows.submit(kubectl, here, workflow(number, generateName="kubectl-", **labels))
        return str(made["metadata"]["name"])

    def by_cli(number: int) -> str:
        if number % 3 == 2:
            return cli.submit("--from", "workflowtemplate/source", "--generate-name", "from-")
        return cli.submit(files.write(f"cli-{number}", workflow(number, generateName="cli-")))

    def by_server(number: int) -> str:
        made = rest("POST", f"workflows/{here}", {"workflow": workflow(number, generateName="server-")})
        return str(made["metadata"]["name"])

    def by_step(number: int) -> str:
        return str(workflows.submit(kubectl, here, creator(number))["metadata"]["name"])

    if stopped:
        namespaces.ready(here)
        installation.scale(0)
    try:
        yield Scene(
            namespace=here,
            doors={"kubectl": by_kubectl, "argo": by_cli, "argo-server": by_server, "a step": by_step},
        )
    finally:
        kubeconfig.unlink()
        if stopped:
            installation.scale(2)
        namespaces.remove(here)


def owner(namespace: str, name: str) -> str:
    """Ask who a Workflow belongs to, as a person asks."""
    done = metaoperator("explain", "workflow", f"{namespace}/{name}")
    assert done.returncode in {0, 1}, done.stderr
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("controller:")]
    return line


def pods_of(live: Object) -> Iterator[str]:
    """Name the pods that the nodes of a Workflow had (argo-workflows `workflow/util/pod_name.go`, v2)."""
    name = live["metadata"]["name"]
    for node in live["status"]["nodes"].values():
        if node["type"] == "Pod":
            number = str(node["id"]).rpartition("-")[2]
            yield name if node["id"] == name else f"{name}-{node['templateName']}-{number}"


def creations(audit: Audit, mark: int, namespace: str) -> Iterator[tuple[str, str]]:
    """Read who made which pod in a namespace since the mark, but for Kubernetes itself, which makes the child's own."""
    for entry in audit.since(mark, '"resource":"pods"'):
        resource, where, name = target(entry)
        asked = (entry["verb"], entry["stage"], resource, where)
        user = entry["user"]["username"].removeprefix("system:serviceaccount:")
        ours = asked == ("create", "ResponseComplete", "pods", namespace) and not user.startswith("kube-system:")
        if ours and code(entry) == 201:
            yield name, user


def fires(api: Api, namespace: str, name: str) -> None:
    """Wait until a schedule has fired once more."""
    query = f"labelSelector={CRON}={name}"
    before = {each["metadata"]["name"] for each in api.objects(workflows.WORKFLOWS, namespace, query=query)}

    def another() -> None:
        now = {each["metadata"]["name"] for each in api.objects(workflows.WORKFLOWS, namespace, query=query)}
        assert now - before, f"CronWorkflow {name} does not fire"

    eventually(another, seconds=90)


def submitted(doors: Doors, more: int) -> None:
    """Wait until so many more Workflows have come in, through every door."""
    goal = Counter(doors.names.values())

    def enough() -> None:
        now = Counter(doors.names.values())
        assert not doors.failures, doors.failures[:3]
        assert all(now[door] - goal[door] >= more for door in ("kubectl", "argo", "argo-server", "a step")), now

    eventually(enough, seconds=180)


def all_succeeded(api: Api, namespace: str) -> dict[str, Object]:
    """Wait until every Workflow has, and return them by name."""

    def check() -> dict[str, Object]:
        found = {each["metadata"]["name"]: each for each in api.objects(workflows.WORKFLOWS, namespace)}
        phases = {name: (each.get("status") or {}).get("phase") for name, each in found.items()}
        waiting = {
            name: (workflows.instance_id(found[name]), phase) for name, phase in phases.items() if phase != "Succeeded"
        }
        assert not waiting, waiting
        return found

    return eventually(check, seconds=120)


def silent(ran: Iterable[Object], name: str) -> float:
    """Measure the longest time between two Workflows of a schedule, in seconds."""
    fired = [each["metadata"] for each in ran if (each["metadata"].get("labels") or {}).get(CRON) == name]
    times = sorted(datetime.fromisoformat(each["creationTimestamp"]) for each in fired)
    return max((after - before).total_seconds() for before, after in pairwise(times))


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A namespace that opts in, out and in again, while Workflows come in."""

    namespaces: Namespaces
    kubectl: Kubectl
    api: Api
    here: str
    operated: bool

    def label(self, value: str | None) -> None:
        """Opt in or out, and wait for the operator to have done all that it does, where there is one."""
        self.namespaces.label(self.here, value)
        if self.operated and value:
            assert self.namespaces.ready(self.here)["status"]["instanceID"] == self.here
        elif self.operated:
            self.namespaces.gone(self.here, seconds=180)

    def schedule(self, name: str) -> None:
        """Make a CronWorkflow."""
        workflows.submit(self.kubectl, self.here, cron(name))

    def owners(self, names: Iterable[str]) -> dict[str, str]:
        """Ask who each of these Workflows belongs to."""
        return {name: owner(self.here, name) for name in names}

    def play(self, doors: Doors) -> dict[str, str]:
        """Return whom some Workflows of each chapter were said to belong to while they were new."""
        named: dict[str, str] = {}

        def chapter(more: int) -> None:
            submitted(doors, more)
            whose = [name for name, door in doors.names.items() if door != "kubectl"]
            named.update(self.owners(whose[-2:]))

        if self.operated:
            self.schedule(OUTSIDE)
            chapter(4 if FULL else 3)
            self.label("enabled")
        self.schedule(INSIDE)
        chapter(8 if FULL else 3)
        fires(self.api, self.here, INSIDE)
        self.label(None)
        if not self.operated:
            self.schedule(OUTSIDE)
        chapter(6 if FULL else 3)
        self.label("enabled")
        chapter(6 if FULL else 3)

        def many() -> None:
            found = len(self.api.objects(workflows.WORKFLOWS, self.here))
            assert found >= MANY, found

        eventually(many, seconds=180)
        for each in (OUTSIDE, INSIDE):
            fires(self.api, self.here, each)
            patch = '{"spec":{"suspend":true}}'
            self.kubectl("patch", "cronworkflow", each, "-n", self.here, "--type=merge", "-p", patch)
        return named


def test_each_runs_exactly_once(
    scene: Scene, installation: Installation, namespaces: Namespaces, kubectl: Kubectl, api: Api, audit: Audit
) -> None:
    """None waits for ever, none runs twice, each ran under the controller that was named, and no schedule stopped."""
    here = scene.namespace
    operated = bool(installation.pods())
    mark = audit.mark()

    with Doors(scene.doors, every=EVERY_SECONDS) as doors:
        story = Story(namespaces=namespaces, kubectl=kubectl, api=api, here=here, operated=operated)
        named = story.play(doors)

    assert not doors.failures
    ran = all_succeeded(api, here)
    through = Counter(doors.names.values())
    assert doors.names.keys() <= ran.keys()
    assert len([name for name in ran if name.startswith("created-")]) == through["a step"]

    made = list(creations(audit, mark, here))
    assert Counter(pod for pod, _ in made) == Counter(pod for each in ran.values() for pod in pods_of(each))
    nodes = (node for each in ran.values() for node in each["status"]["nodes"].values())
    assert not [node for node in nodes if "pod deleted" in node.get("message", "")]
    makers = dict(made)
    users = {name: {makers[pod] for pod in pods_of(each)} for name, each in ran.items()}
    assert not [name for name, found in users.items() if len(found) > 1], "some changed hands"
    by = Counter(user for found in users.values() for user in found)
    assert by.keys() == {f"{here}:{CHILD}", f"{ARGO}:argo"}
    for name, line in named.items():
        (user,) = users[name]
        assert f"Deployment/{user.partition(':')[0]}/{CHILD}" in line, (name, line, user)
    longest = {name: silent(ran.values(), name) for name in (OUTSIDE, INSIDE)}
    assert max(longest.values()) < GAP_SECONDS, longest
    print(json.dumps({"workflows": len(ran), "pods": len(made), "by": by, "through": through, "silent": longest}))
