"""Through the real CLI and a real argo-server everything works with the one setting that `metaoperator env` prints."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import workflows
from tests.e2e.argo import (
    LABEL,
    ROLE,
    SERVER,
    TEMPLATE,
    Argo,
    Failed,
    Files,
    Rest,
    forwarded,
    person,
    plain,
    with_setting,
)
from tests.e2e.install import cluster_command
from tests.e2e.local import INSTANCE_ID, Api, Kubectl, Object, Refused, condition, eventually
from tests.e2e.namespaces import Namespaces

HERE = "e2e-argo-cli"
CRONS = "argoproj.io/v1alpha1/cronworkflows"
NOT_OURS = "is not managed by the current Argo Server"
"""What Argo says of a Workflow with another instance ID than the one that it was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A served namespace, and somebody who may use Argo in it."""

    program: str
    environment: dict[str, str]
    kubeconfig: Path
    token: str
    stranger: str
    address: str
    files: Files


def spec(template: Object) -> Object:
    """Write a Workflow's spec around one template; `code` is what its container ends with."""
    code = {"parameters": [{"name": "code", "value": "0"}]}
    return {"entrypoint": "main", "arguments": code, "templates": [{"name": "main", **template}]}


SAYING = spec(
    {
        "container": {
            "image": workflows.BUSYBOX,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c"],
            "args": ["echo hello from {{workflow.name}}; exit {{workflow.parameters.code}}"],
        }
    }
)
WAITING = spec({"suspend": {}})
"""It needs no pod: it runs until somebody resumes or ends it."""


def manifest(kind: str, content: Object, **metadata: Any) -> Object:
    """Write an object of Argo's; nothing in it says which controller it is for."""
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": content}


def cron(name: str, schedule: str = "0 0 1 1 *") -> Object:
    """Write a CronWorkflow whose hour never comes."""
    return manifest("CronWorkflow", {"schedules": [schedule], "workflowSpec": SAYING}, name=name)


@pytest.fixture(scope="module")
def scene(
    namespaces: Namespaces, kubectl: Kubectl, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """Have a namespace with an argo-server, reached by `kubectl port-forward` with the rights of its user."""
    folder = tmp_path_factory.mktemp("argo")
    files = Files(folder)
    program = cluster_command("path", "argo")
    kubectl("apply", "-f", TEMPLATE)
    kubectl("apply", "-f", "-", stdin=ROLE)
    namespaces.make(HERE, opt_in=LABEL)
    token, kubeconfig = person(kubectl, api, "user", HERE, "edit", "e2e-argo-user")
    stranger, other = person(kubectl, api, "stranger", HERE)
    other.unlink()
    try:
        namespaces.ready(HERE)
        kubectl("rollout", "status", f"deployment/{SERVER}", "-n", HERE, "--timeout=120s")
        workflows.submit(kubectl, HERE, manifest("WorkflowTemplate", SAYING, name="saying"))
        files.write("saying", manifest("Workflow", SAYING, generateName="saying-"))
        files.write("waiting", manifest("Workflow", WAITING, generateName="waiting-"))
        with forwarded(kubectl, kubeconfig, HERE) as address:
            yield Scene(
                program=program,
                environment=plain(program, kubeconfig, folder),
                kubeconfig=kubeconfig,
                token=token,
                stranger=stranger,
                address=address,
                files=files,
            )
    finally:
        kubeconfig.unlink()
        namespaces.remove(HERE)
        kubectl("delete", "-f", TEMPLATE)
        kubectl("delete", "clusterrole", ROLE["metadata"]["name"])


@pytest.fixture(scope="module", params=["Kubernetes", "server"])
def argo(scene: Scene, request: pytest.FixtureRequest) -> Argo:
    """Run the CLI with the documented setting: against Kubernetes, and against the argo-server."""
    more = ("--at", scene.address) if request.param == "server" else ()
    return Argo(scene.program, with_setting(scene.environment, HERE, *more))


@pytest.fixture(scope="module")
def unset(scene: Scene) -> Argo:
    """Run the CLI as somebody who has never heard of instance IDs; the namespace is the only thing they give."""
    return Argo(scene.program, scene.environment | {"ARGO_NAMESPACE": HERE})


def path(scene: Scene, name: str) -> Path:
    """Find a manifest that the scene wrote."""
    return Path(scene.environment["HOME"]) / f"{name}.json"


def workflow(api: Api, name: str) -> Object:
    """Read a Workflow."""
    found = api.object(workflows.WORKFLOWS, HERE, name)
    assert found is not None, f"no Workflow {name}"
    return found


def phase(api: Api, name: str, wanted: str) -> Object:
    """Wait until a Workflow has a phase."""

    def check() -> Object:
        live = workflow(api, name)
        told = live.get("status") or {}
        assert told.get("phase") == wanted, f"{name}: {told.get('phase')} {told.get('message', '')}, not {wanted}"
        return live

    return eventually(check)


def stamped(live: Object) -> bool:
    """Tell whether an object carries the namespace's ID."""
    return bool(live["metadata"].get("labels", {}).get(INSTANCE_ID) == HERE)


def test_what_is_submitted_runs_and_is_seen(argo: Argo, scene: Scene, api: Api) -> None:
    """Submit, watch to the end, get, list, logs: a real pod of the real executor."""
    name = argo.submit(path(scene, "saying"))

    watched = argo("watch", name)

    assert "Succeeded" in watched
    assert stamped(phase(api, name, "Succeeded"))
    assert name in argo("get", name)
    assert f"hello from {name}" in argo("logs", name)

    def listed() -> None:
        # The server lists from a copy of its own, which may be a moment behind.
        assert name in argo("list", "-o", "name").split()

    eventually(listed, seconds=60)


@pytest.mark.parametrize("source", ["workflowtemplate/saying", "cronwf/source"])
def test_what_is_submitted_from_something_that_is_there_runs(
    argo: Argo, kubectl: Kubectl, api: Api, source: str
) -> None:
    """From a WorkflowTemplate, which has no ID, and from a CronWorkflow; parameters are passed on."""
    kubectl("apply", "-n", HERE, "-f", "-", stdin=cron("source"))

    name = argo.submit("--from", source, "-p", "code=3")

    live = phase(api, name, "Failed")
    assert stamped(live)
    assert "exit code 3" in live["status"]["message"]


@pytest.mark.parametrize("how", ["stop", "terminate"])
def test_what_runs_is_ended(argo: Argo, scene: Scene, api: Api, how: str) -> None:
    """By the person's own hand."""
    name = argo.submit(path(scene, "waiting"))
    phase(api, name, "Running")

    argo(how, name)

    assert phase(api, name, "Failed")["spec"]["shutdown"].lower().startswith(how)


def test_what_runs_is_suspended_and_resumed(argo: Argo, scene: Scene, api: Api) -> None:
    """And a Workflow that waits for somebody goes on."""
    name = argo.submit(path(scene, "waiting"))
    phase(api, name, "Running")
    argo("suspend", name)
    assert workflow(api, name)["spec"]["suspend"] is True

    argo("resume", name)

    assert "suspend" not in phase(api, name, "Succeeded")["spec"]


def test_what_failed_is_retried_and_resubmitted(argo: Argo, scene: Scene, api: Api) -> None:
    """Retried, it is the same Workflow; resubmitted, it is another one, which the same controller serves."""
    name = argo.submit(path(scene, "saying"), "-p", "code=1")
    before = phase(api, name, "Failed")

    again = argo("resubmit", name, "-p", "code=0", "-o", "name").strip()
    argo("retry", name, "-p", "code=0")

    after = phase(api, name, "Succeeded")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert again != name
    assert stamped(phase(api, again, "Succeeded"))


def test_a_finished_workflow_is_deleted(argo: Argo, scene: Scene, api: Api) -> None:
    """And nobody sees it any more."""
    name = argo.submit(path(scene, "waiting"))

    argo("delete", name)

    def gone() -> None:
        assert api.object(workflows.WORKFLOWS, HERE, name) is None

    eventually(gone)


def test_a_schedule_is_made_seen_changed_and_taken_away(argo: Argo, scene: Scene, api: Api) -> None:
    """The update is from a file that names no ID: admission gives it back, and the schedule goes on."""
    name = f"cron-{time.monotonic_ns()}"

    argo("cron", "create", scene.files.write(name, cron(name)))

    live = api.object(CRONS, HERE, name)
    assert live is not None
    assert stamped(live)
    assert name in argo("cron", "list", "-o", "name")
    assert name in argo("cron", "get", name)
    argo("cron", "suspend", name)
    assert (api.object(CRONS, HERE, name) or {})["spec"]["suspend"] is True
    argo("cron", "resume", name)
    assert not (api.object(CRONS, HERE, name) or {})["spec"].get("suspend")
    argo("cron", "update", scene.files.write(name, cron(name, "0 0 2 1 *")))
    live = api.object(CRONS, HERE, name)
    assert live is not None
    assert live["spec"]["schedules"] == ["0 0 2 1 *"]
    assert stamped(live)
    argo("cron", "delete", name)
    assert api.object(CRONS, HERE, name) is None


def test_without_the_setting_what_is_submitted_runs_and_is_not_seen(unset: Argo, scene: Scene, api: Api) -> None:
    """The CLI takes the label off and admission puts it on; then the CLI takes the Workflow for somebody else's."""
    name = unset.submit(path(scene, "saying"))

    assert stamped(phase(api, name, "Succeeded"))
    assert name not in unset("list", "-o", "name")
    for command in ("get", "logs", "stop", "retry", "resubmit", "delete"):
        with pytest.raises(Failed, match=NOT_OURS):
            unset(command, name)
    assert stamped(workflow(api, name))


def test_without_the_setting_a_schedule_is_served_and_cannot_be_changed(unset: Argo, scene: Scene, api: Api) -> None:
    """Nothing is lost: the CLI refuses what it takes for somebody else's, and says so."""
    file = scene.files.write("unset", cron("unset"))
    unset("cron", "create", file)
    live = api.object(CRONS, HERE, "unset")
    assert live is not None
    assert stamped(live)

    assert "unset" not in unset("cron", "list", "-o", "name").split()
    with pytest.raises(Failed, match=NOT_OURS):
        unset("cron", "update", file)

    assert api.object(CRONS, HERE, "unset") == live


def test_the_servers_http_api_serves_whoever_may(scene: Scene, api: Api) -> None:
    """Submit, list, get, watch, logs, stop, retry and an update of a schedule, as curl would send them."""
    rest = Rest(scene.address, scene.token)
    saying = manifest("Workflow", SAYING, generateName="rest-", labels={INSTANCE_ID: "somebody-else"})

    made = rest("POST", f"workflows/{HERE}", {"workflow": saying})

    name = made["metadata"]["name"]
    assert stamped(made), "the server writes its own ID over any"
    selected = f"listOptions.fieldSelector=metadata.name={name}"
    with rest.stream(f"workflow-events/{HERE}?{selected}") as seen:
        assert next(each for each in seen if each["object"].get("status", {}).get("phase") == "Succeeded")
    assert rest("GET", f"workflows/{HERE}/{name}")["metadata"]["uid"] == made["metadata"]["uid"]
    with rest.stream(f"workflows/{HERE}/{name}/log?logOptions.container=main") as log:
        assert f"hello from {name}" in [each["content"] for each in log]

    def listed() -> None:
        assert name in {each["metadata"]["name"] for each in rest("GET", f"workflows/{HERE}")["items"]}

    eventually(listed, seconds=60)

    submitted = {"resourceKind": "WorkflowTemplate", "resourceName": "saying"}
    options = {"submitOptions": {"parameters": ["code=1"]}}
    failing = rest("POST", f"workflows/{HERE}/submit", submitted | options)["metadata"]["name"]
    phase(api, failing, "Failed")
    rest("PUT", f"workflows/{HERE}/{failing}/retry", {"parameters": ["code=0"]})
    phase(api, failing, "Succeeded")

    waiting = manifest("Workflow", WAITING, generateName="rest-")
    held = rest("POST", f"workflows/{HERE}", {"workflow": waiting})["metadata"]["name"]
    phase(api, held, "Running")
    rest("PUT", f"workflows/{HERE}/{held}/stop", {})
    phase(api, held, "Failed")

    rest("POST", f"cron-workflows/{HERE}", {"cronWorkflow": cron("rest")})
    live = api.object(CRONS, HERE, "rest")
    assert live is not None
    changed = cron("rest", "0 0 2 1 *")
    changed["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
    updated = rest("PUT", f"cron-workflows/{HERE}/rest", {"cronWorkflow": changed})
    assert updated["spec"]["schedules"] == ["0 0 2 1 *"]
    assert stamped(updated)


def test_the_server_lends_its_own_rights_to_nobody(scene: Scene) -> None:
    """Without a token nothing is answered, and with one only what its holder may see."""
    for token, codes in (("", {401}), (scene.stranger, {403})):
        code, told = Rest(scene.address, token).ask("GET", f"workflows/{HERE}")
        assert code in codes, told
        code, told = Rest(scene.address, token).ask(
            "POST", f"workflows/{HERE}", {"workflow": manifest("Workflow", WAITING, generateName="no-")}
        )
        assert code in codes | {500}, told  # Argo tells some refusals of the API server as its own
        assert "forbidden" in str(told) or code == 401


def test_nobody_runs_anything_as_the_server_or_gets_into_it(
    scene: Scene, argo: Argo, kubectl: Kubectl, api: Api
) -> None:
    """Its account and pod are fenced like the child's, but for its port, by which this module reaches it."""
    name = argo.submit(path(scene, "saying"), "--serviceaccount", SERVER)

    message = phase(api, name, "Error")["status"]["message"]
    assert "metaoperator-child-pods" in message, message
    (pod,) = _server_pods(api)
    for command in (["exec", pod, "--", "argo", "version"], ["attach", pod]):
        with pytest.raises(Refused, match="metaoperator-child-access"):
            kubectl("--kubeconfig", scene.kubeconfig, "-n", HERE, *command)
    with pytest.raises(Refused, match="metaoperator-child-credentials"):
        kubectl("--kubeconfig", scene.kubeconfig, "-n", HERE, "create", "token", SERVER)


def _server_pods(api: Api) -> list[str]:
    found = api.objects("v1/pods", HERE, query=f"labelSelector=app.kubernetes.io%2Fname%3D{SERVER}")
    return [each["metadata"]["name"] for each in found]


def test_the_servers_rights_suffice(scene: Scene, api: Api, kubectl: Kubectl) -> None:
    """After all of the above, its log tells of nothing that it may not do as itself."""
    del scene
    (pod,) = _server_pods(api)
    log = kubectl("logs", pod, "-n", HERE)
    assert f"instanceID={HERE}" in log, log[:2000]
    denied = [line for line in log.splitlines() if f"serviceaccount:{HERE}:{SERVER}" in line]
    assert denied == []


def test_a_server_that_fails_is_told_of_and_the_child_stays_ready(
    scene: Scene, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """REASON, message and an Event say what is wrong with it; the old server goes on until the new one can."""
    del scene
    images = "/spec/values/images/server"
    kubectl("patch", "wct", LABEL, "--type=json", "-p", f'[{{"op":"replace","path":"{images}","value":"nowhere/cli"}}]')

    def told(reason: str) -> Object:
        row = namespaces.row(HERE)
        assert row is not None
        ready = condition(row, "Ready")
        assert (ready["status"], ready["reason"]) == ("True", reason), ready
        return dict(ready)

    message = eventually(lambda: told("CompanionFailing"))["message"]
    assert SERVER in message
    assert "nowhere/cli:v4.0.5" in message
    assert namespaces.events("CompanionFailing", "workflow-controller")
    kubectl("apply", "--server-side", "--force-conflicts", "-f", TEMPLATE)
    eventually(lambda: told("Leading"))
