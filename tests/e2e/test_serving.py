"""A labelled namespace gets a working controller."""

import json
import os
import re
import subprocess

import pytest

from tests.e2e import workflows
from tests.e2e.conftest import ODD_NAMES, Held
from tests.e2e.local import (
    INSTANCE_ID,
    METAOPERATOR,
    NAMESPACE_UID,
    OPERATOR,
    Api,
    Kubectl,
    condition,
    eventually,
    metaoperator,
)
from tests.e2e.namespaces import CHILD, Namespaces, rendered


def columns(table: str) -> list[dict[str, str]]:
    """Read a kubectl table by the places of its headings, since cells may be empty."""
    head, *lines = table.splitlines()
    places = [(match.group().strip(), match.start()) for match in re.finditer(r"\S+(?: \S+)*\s*", head)]
    ends = [start for _, start in places[1:]] + [None]
    return [{name: line[start:end].strip() for (name, start), end in zip(places, ends, strict=True)} for line in lines]


def test_a_label_brings_a_controller_that_leads(
    held: Held, main: str, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """Every object of the set is there with our mark, and the Lease is held by a live pod of the Deployment."""
    del held  # made now, so that the operator meets it while the other tests run
    uid = namespaces.uid(main)

    for key, item in namespaces.objects(main).items():
        assert item is not None, f"{key} is missing"
        assert item["metadata"]["labels"]["app.kubernetes.io/managed-by"] == OPERATOR
        assert item["metadata"]["annotations"][NAMESPACE_UID] == uid
        assert "ownerReferences" not in item["metadata"], "deleting our CRDs would take the fleet with them"
    lease = api.object("coordination.k8s.io/v1/leases", main, f"{CHILD}-{main}")
    assert lease is not None
    pod = api.object("v1/pods", main, lease["spec"]["holderIdentity"])
    assert pod is not None
    assert pod["status"]["phase"] == "Running"
    assert pod["metadata"]["generateName"].startswith(CHILD)

    row = next(r for r in columns(kubectl("get", "wfc", "-A")) if r["NAMESPACE"] == main)
    assert row.pop("AGE")
    assert re.fullmatch(r"[0-9a-f]{10,}", row.pop("REVISION"))
    assert row == {
        "NAMESPACE": main,
        "NAME": CHILD,
        "READY": "True",
        "REASON": "Leading",
        "TEMPLATE": "default",
        "VERSION": "v4.0.5",
        "RUNNING": "0",
        "PENDING": "0",
    }


def test_nothing_is_written_to_the_namespace_itself(main: str, namespaces: Namespaces) -> None:
    """No annotation, no finalizer, no label: the Namespace belongs to somebody else."""
    live = namespaces.get(main)
    assert live is not None

    managers = {entry["manager"] for entry in live["metadata"]["managedFields"]}
    assert not any(OPERATOR in manager for manager in managers), managers
    assert "finalizers" not in live["metadata"]
    assert "annotations" not in live["metadata"]


def test_a_workflow_without_any_label_passes_a_random_value_through_three_steps(
    main: str, kubectl: Kubectl, api: Api
) -> None:
    """The real controller and the real executor: what step 1 drew stands in the log of step 3's pod."""
    made = workflows.submit_three_steps(kubectl, main)

    live = workflows.succeeded(api, made)

    drawn = workflows.log_of_step(kubectl, api, made, "draw")
    assert re.fullmatch(r"[0-9a-f]{16}", drawn)
    assert workflows.log_of_step(kubectl, api, made, "show") == f"step 3 received {drawn}"
    outputs = {
        node["displayName"]: node["outputs"]["parameters"][0]["value"]
        for node in live["status"]["nodes"].values()
        if (node.get("outputs") or {}).get("parameters")
    }
    assert outputs == {"draw": drawn, "pass": drawn}
    kubectl("delete", "workflow", made["metadata"]["name"], "-n", main)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_that_yaml_takes_for_something_else_is_served(
    name: str, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """The child reads its ID as the same text that admission puts on its Workflows, and runs them."""
    row = namespaces.ready(name)
    assert row["spec"]["instanceID"] == name

    made = workflows.submit(kubectl, name, workflows.one_step("odd"))

    assert made["metadata"]["labels"][INSTANCE_ID] == name
    workflows.succeeded(api, made)


@pytest.mark.parametrize("kind", ["Workflow", "CronWorkflow"])
@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({}, id="no labels"),
        pytest.param({"labels": {"team": "a"}}, id="other labels"),
        pytest.param({"labels": {}}, id="empty labels"),
        pytest.param({"generateName": "stamped-"}, id="generateName"),
    ],
)
def test_what_is_created_in_an_opted_in_namespace_carries_its_id(
    kind: str, metadata: dict[str, object], main: str, kubectl: Kubectl
) -> None:
    """Labels that were there stay."""
    manifest = workflows.one_step("stamped", suspended=True, kind=kind, **metadata)

    made = workflows.submit(kubectl, main, manifest)

    kubectl("delete", kind, made["metadata"]["name"], "-n", main)
    before = metadata.get("labels") or {}
    # A controller may have added labels of its own before kubectl read the answer: it did not, this is the answer.
    assert made["metadata"]["labels"] == {**before, INSTANCE_ID: main}  # type: ignore[dict-item]


@pytest.mark.parametrize("kind", ["Workflow", "CronWorkflow"])
def test_what_is_created_elsewhere_stays_as_it_was_written(kind: str, namespaces: Namespaces, kubectl: Kubectl) -> None:
    """A namespace without the label, and one that opted out by a word, are none of our business."""
    namespaces.make("e2e-elsewhere")
    for value in (None, "disabled"):
        namespaces.label("e2e-elsewhere", value)
        made = workflows.submit(kubectl, "e2e-elsewhere", workflows.one_step("own", suspended=True, kind=kind))
        kubectl("delete", kind, "own", "-n", "e2e-elsewhere")

        assert "labels" not in made["metadata"]


def test_an_id_that_a_workflow_brings_is_kept(main: str, kubectl: Kubectl) -> None:
    """It is some other controller's, and taking work away from that would run it twice."""
    manifest = workflows.one_step("foreign", suspended=True, labels={INSTANCE_ID: "somebody-else"})

    made = workflows.submit(kubectl, main, manifest)

    kubectl("delete", "workflow", "foreign", "-n", main)
    assert made["metadata"]["labels"] == {INSTANCE_ID: "somebody-else"}


def test_a_cron_workflow_that_is_replaced_without_its_label_gets_it_back(main: str, kubectl: Kubectl) -> None:
    """`kubectl replace` and many a deployer drop labels, and its schedule would stop in silence."""
    manifest = workflows.one_step("cron", kind="CronWorkflow")
    workflows.submit(kubectl, main, manifest)

    made = kubectl.json("replace", "-n", main, "-f", "-", stdin=manifest)

    kubectl("delete", "cronworkflow", "cron", "-n", main)
    assert made["metadata"]["labels"] == {INSTANCE_ID: main}


def test_status_shows_every_opted_in_namespace(main: str, namespaces: Namespaces) -> None:
    """A table for people with a message for whatever is not ready, JSON for programs, and the answer as exit code."""
    namespaces.ready("e2e-neighbour")

    whole = metaoperator("status")
    one = metaoperator("status", "-n", main)
    listed = metaoperator("status", "-n", main, "-o", "json")

    rows = {row["NAMESPACE"]: row for row in columns(whole.stdout)}
    assert {main, "e2e-neighbour", *ODD_NAMES} <= rows.keys(), whole.stdout + whole.stderr
    assert rows[main]["READY"] == "True"
    assert rows[main]["REASON"] == "Leading"
    assert rows[main]["VERSION"] == "v4.0.5"
    assert (one.returncode, one.stderr) == (0, "")
    assert [row["NAMESPACE"] for row in columns(one.stdout)] == [main]
    assert [(row["NAMESPACE"], row["READY"]) for row in json.loads(listed.stdout)] == [(main, "True")]


@pytest.mark.parametrize("name", ["e2e-main", "0123", "null"])
def test_env_prints_what_a_shell_can_eval(name: str, main: str, namespaces: Namespaces) -> None:
    """After it, the Argo CLI speaks of this namespace and this instance ID."""
    del main
    namespaces.ready(name)
    script = f'eval "$({METAOPERATOR} env {name})" && env'

    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    seen = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    assert seen["ARGO_NAMESPACE"] == name
    assert seen["ARGO_INSTANCEID"] == name
    assert seen["KUBECONFIG"] == os.environ["KUBECONFIG"], "nothing else is changed"


def test_env_says_what_to_do_for_a_namespace_that_did_not_opt_in(main: str) -> None:
    """It prints nothing that `eval` could take, and ends with 1."""
    del main
    done = metaoperator("env", "default")

    assert (done.returncode, done.stdout) == (1, "")
    assert "kubectl label namespace default metaoperator.dev/workflow-controller=enabled" in done.stderr


def test_a_deleted_namespace_goes_at_once_and_a_new_one_of_its_name_is_new(
    namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """No finalizer of ours holds it, and nothing remembered of the old one is taken for the new one's."""
    name = "e2e-again"
    namespaces.make(name, opt_in="enabled")
    before = namespaces.ready(name)
    old = namespaces.uid(name)
    content = {key: rendered(item) for key, item in namespaces.objects(name).items()}

    namespaces.remove(name, wait=True)
    namespaces.make(name, opt_in="enabled")

    after = namespaces.ready(name)
    new = namespaces.uid(name)
    assert new != old
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["metadata"]["annotations"][NAMESPACE_UID] == new
    for key, item in namespaces.objects(name).items():
        assert item is not None
        assert item["metadata"]["annotations"].pop(NAMESPACE_UID) == new
        assert content[key]["metadata"]["annotations"].pop(NAMESPACE_UID) == old
        assert rendered(item)["kind"] == content[key]["kind"]
    workflows.succeeded(api, workflows.submit(kubectl, name, workflows.one_step("after")))
    namespaces.remove(name)


def test_a_person_sees_counts_of_running_and_pending_workflows(
    main: str, namespaces: Namespaces, kubectl: Kubectl
) -> None:
    """A suspended Workflow counts until it is gone."""
    workflows.submit(kubectl, main, workflows.one_step("counted", suspended=True))

    def counted(wanted: int) -> None:
        row = namespaces.row(main)
        assert row is not None
        found = row["status"]["workflows"]
        assert found["running"] + found["pending"] == wanted, found

    eventually(lambda: counted(1))
    kubectl("delete", "workflow", "counted", "-n", main)
    eventually(lambda: counted(0))
    assert condition(namespaces.row(main) or {}, "Ready")["status"] == "True"
