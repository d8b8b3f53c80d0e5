"""What the policies rest on, with real workflow-controllers: one of all namespaces without an ID, beside it a child.

They run as processes, and nothing that is asked of them needs a pod.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from metaoperator.core import names
from tests.cluster import alone, build
from tests.e2e.local import INSTANCE_ID, Object, eventually
from tests.e2e.workflows import one_step

from .world import World, id_of

NS, ARGO = "team-run", "argo"
CONFIG = "metricsConfig:\n  enabled: false\ntelemetryConfig:\n  enabled: false\n"


@contextmanager
def _controller(folder: Path, name: str, namespace: str, kubeconfig: Path, *more: str) -> Iterator[Path]:
    """Run one, and return where it logs."""
    log = folder / f"{name}.log"
    command = [str(build.program("workflow-controller")), f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]
    environment = {"PATH": "/usr/bin:/bin", "LEADER_ELECTION_DISABLE": "true", "DEFAULT_REQUEUE_TIME": "1s"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--executor-image=none", *more],
            env=environment,
            stdout=out,
            stderr=out,
            preexec_fn=alone.end_with_parent,  # noqa: PLW1509
        )
    try:
        yield log
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def child(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Have both, in a namespace that is opted in; returns the child's log."""
    folder = Path(tmp_path_factory.mktemp("controllers"))
    world.namespace(ARGO, None)
    world.namespace(NS)
    for namespace, data in ((ARGO, CONFIG), (NS, f"{CONFIG}instanceID: {NS}\n")):
        body = {"metadata": {"name": "workflow-controller-configmap"}, "data": {"config": data}}
        code, answer = world.send("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
        assert code == 201, answer
    account = names.WORKFLOW_CONTROLLER
    world.kubectl("create", "serviceaccount", account, "-n", NS)
    world.kubectl(
        "create", "rolebinding", account, "-n", NS, "--clusterrole=metaoperator-workflow-controller-v1",
        f"--serviceaccount={NS}:{account}",
    )  # fmt: skip
    config = json.loads(world.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": world.kubectl("create", "token", account, "-n", NS).strip()}
    own = folder / "child.kubeconfig"
    own.write_text(json.dumps(config))
    with ExitStack() as both:
        both.enter_context(_controller(folder, "cluster-wide", ARGO, world.kubeconfig))
        yield both.enter_context(_controller(folder, "child", NS, own, "--namespaced"))
        world.empty(NS)


def _schedule(name: str) -> Object:
    """Write a schedule that fires every five seconds, but only what has ended lets it fire again."""
    cron = one_step(name, kind="CronWorkflow")
    templates = [{"name": "main", "suspend": {}}]
    cron["spec"] = {
        "schedules": ["@every 5s"],
        "concurrencyPolicy": "Forbid",
        "workflowSpec": {"entrypoint": "main", "templates": templates},
    }
    return cron


@pytest.mark.parametrize(("before", "instance_id"), [(None, None), ("enabled", NS)], ids=["theirs", "ours"])
def test_a_schedule_and_what_it_fires_are_of_one_controller(
    before: str | None, instance_id: str | None, child: Path, world: World
) -> None:
    """Else its controller forgets what it fired, and `Forbid` forbids nothing."""
    world.label(NS, before)
    world.create(NS, _schedule("cron") | {"metadata": {"name": "cron"}})
    world.label(NS, "enabled")

    def fired() -> list[Object]:
        found: list[Object] = world.send("GET", world.path("Workflow", NS))[1]["items"]
        return found

    def first() -> None:
        found = fired()
        assert found, f"nothing was fired: {child.with_name('cluster-wide.log').read_text()[-600:]}"
        (only,) = found
        assert only.get("status", {}).get("phase") == "Running", only.get("status")

    eventually(first, seconds=60)
    # Time for several schedules, and for the controller to compare what it holds, as it does every ten seconds.
    until = time.monotonic() + 30
    while time.monotonic() < until:
        (only,) = fired()
        time.sleep(1)
    live = world.send("GET", world.path("CronWorkflow", NS, "cron"))[1]
    world.empty(NS)
    assert (id_of(live), id_of(only)) == (instance_id, instance_id)
    assert [each["name"] for each in live["status"]["active"]] == [only["metadata"]["name"]]


def test_the_guard_never_denies_the_child_anything(child: Path, shipped: World) -> None:
    """It writes its phases from the first one on, and all of them again when it is retried as Argo does that."""
    shipped.label(NS, "enabled")
    shipped.have("started-guard")
    manifest = one_step("retried")
    steps = [[{"name": "a", "template": "wait", "withParam": "no list"}]]
    templates = [{"name": "main", "steps": steps}, {"name": "wait", "suspend": {"duration": "0"}}]
    manifest["spec"] = {"entrypoint": "main", "templates": templates}
    shipped.create(NS, manifest)
    place = shipped.path("Workflow", NS, "retried")

    def ended(after: str = "") -> Object:
        live = shipped.send("GET", place)[1]
        assert live.get("status", {}).get("phase") == "Failed", live.get("status")
        assert live["metadata"]["labels"].get(names.COMPLETED_LABEL) == "true"
        assert live["status"]["finishedAt"] > after
        return live

    first = eventually(ended, seconds=60)
    del first["metadata"]["labels"][names.COMPLETED_LABEL]
    finished = first["status"]["finishedAt"]
    time.sleep(1.1)  # it is told in whole seconds
    first["status"] |= {"phase": "", "nodes": {}, "message": "", "finishedAt": None}
    code, answer = shipped.send("PUT", place, first)
    assert code == 200, answer
    second = eventually(lambda: ended(finished), seconds=60)

    shipped.empty(NS)
    assert second["metadata"]["labels"][INSTANCE_ID] == NS
    assert names.INSTANCE_ID_STARTED not in child.read_text()
