"""Stamped by admission, run by a real child: what schedules fire, what Workflows create, what is retried when guarded.

Every way to create one, and each component of the policies, is in tests/admission.
"""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e import workflows
from tests.e2e.local import CHECKOUT, INSTANCE_ID, Api, Kubectl, Object, eventually
from tests.e2e.namespaces import CHILD, Namespaces

LONGEST = "e2e-" + "n" * 59
GUARDED = "e2e-guarded"
COMPLETED = "workflows.argoproj.io/completed"
PHASE = "workflows.argoproj.io/phase"


def test_a_name_of_63_characters_is_served(namespaces: Namespaces, kubectl: Kubectl, api: Api) -> None:
    """The longest that Kubernetes allows, for a namespace and for a label's value."""
    namespaces.make(LONGEST, opt_in="enabled")
    namespaces.ready(LONGEST)

    made = workflows.submit(kubectl, LONGEST, workflows.one_step("longest"))

    assert made["metadata"]["labels"][INSTANCE_ID] == LONGEST
    workflows.succeeded(api, made)
    namespaces.remove(LONGEST)


def test_what_a_schedule_fires_is_run_by_the_child_that_fired_it(main: str, kubectl: Kubectl, api: Api) -> None:
    """It carries its schedule's ID, and the schedule counts it among its own."""
    cron = workflows.one_step("scheduled", kind="CronWorkflow")
    cron["spec"] |= {"schedules": ["@every 5s"], "suspend": False, "concurrencyPolicy": "Forbid"}
    made = workflows.submit(kubectl, main, cron)
    assert made["metadata"]["labels"] == {INSTANCE_ID: main}

    def fired() -> Object:
        query = "labelSelector=workflows.argoproj.io%2Fcron-workflow%3Dscheduled"
        found = api.objects(workflows.WORKFLOWS, main, query=query)
        assert found, "nothing was fired"
        return found[0]

    first = workflows.succeeded(api, eventually(fired))
    kubectl("delete", "cronworkflow", "scheduled", "-n", main)

    assert first["metadata"]["labels"][INSTANCE_ID] == main
    assert "generateName" not in first["metadata"], "Argo fires by a name that says when"
    assert {"cron-workflow"} <= {each.rpartition("/")[2] for each in first["metadata"]["labels"]}
    assert "workflows.argoproj.io/scheduled-time" in first["metadata"]["annotations"]


MAKER: list[Object] = [
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "maker"}},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "maker"},
        "rules": [{"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["create", "get"]}],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "maker"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maker"},
        "subjects": [{"kind": "ServiceAccount", "name": "maker"}],
    },
]


def test_what_a_workflow_creates_by_a_resource_template_is_stamped_and_run(
    main: str, kubectl: Kubectl, api: Api
) -> None:
    """The executor creates it, and knows nothing of instance IDs."""
    items = [each | {"metadata": each["metadata"] | {"namespace": main}} for each in MAKER]
    items[-1]["subjects"][0]["namespace"] = main
    kubectl("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": items})
    inner = workflows.one_step("inner", labels={"made-by": "resource-template"})
    outer = workflows.one_step("outer")
    outer["spec"] |= {
        "serviceAccountName": "maker",
        "templates": [{"name": "main", "resource": {"action": "create", "manifest": json.dumps(inner)}}],
    }

    workflows.succeeded(api, workflows.submit(kubectl, main, outer))
    made = api.object(workflows.WORKFLOWS, main, "inner")

    assert made is not None
    assert made["metadata"]["labels"][INSTANCE_ID] == main
    workflows.succeeded(api, made)
    kubectl("delete", "workflow", "inner", "outer", "-n", main)


# ---- under the guard


@pytest.fixture(scope="module")
def guarded(namespaces: Namespaces, kubectl: Kubectl) -> Iterator[str]:
    """Have the guard's policy under another name, for one namespace: the cluster is everybody's."""
    namespaces.make(GUARDED, opt_in="enabled")
    folder = CHECKOUT / "manifests" / "components" / "started-guard"
    policy, binding = (yaml.safe_load((folder / f"{name}.yaml").read_text()) for name in ("policy", "policybinding"))
    for each in (policy, binding):
        each["metadata"] = {"name": "e2e-started-guard"}
    binding["spec"]["policyName"] = "e2e-started-guard"
    only_here: Any = {"matchLabels": {"kubernetes.io/metadata.name": GUARDED}}
    binding["spec"]["matchResources"] = {"namespaceSelector": only_here}
    kubectl("apply", "--server-side", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": [policy, binding]})
    try:
        namespaces.ready(GUARDED)
        yield GUARDED
    finally:
        kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "e2e-started-guard")
        namespaces.remove(GUARDED)


counter = itertools.count()


def _denied(kubectl: Kubectl, api: Api) -> None:
    """Hold that a person without the verb cannot move a started Workflow: the guard is in force."""
    name = f"probe-{next(counter)}"
    labels = {PHASE: "Running", INSTANCE_ID: "nobody"}
    workflows.submit(kubectl, GUARDED, workflows.one_step(name, labels=labels))
    code, message = api.ask(
        "PATCH",
        f"/apis/argoproj.io/v1alpha1/namespaces/{GUARDED}/workflows/{name}",
        {"metadata": {"labels": {INSTANCE_ID: "other"}}},
        headers={
            "Content-Type": "application/merge-patch+json",
            "Impersonate-User": "system:serviceaccount:kube-system:generic-garbage-collector",
        },
    )
    kubectl("delete", "workflow", name, "-n", GUARDED)
    assert code == 403, message
    assert "e2e-started-guard" in message


def test_a_child_is_never_denied_by_the_guard_right_after_a_retry_either(
    guarded: str, kubectl: Kubectl, api: Api
) -> None:
    """It writes its phases from the first one on, and all of it again when the Workflow is retried as Argo does it."""
    eventually(lambda: _denied(kubectl, api), seconds=60)
    manifest = workflows.one_step("retried")
    manifest["spec"]["templates"][0]["container"]["command"] = ["false"]
    workflows.submit(kubectl, guarded, manifest)

    def failed(after: str = "") -> Object:
        live = api.object(workflows.WORKFLOWS, guarded, "retried")
        assert live is not None
        assert live.get("status", {}).get("phase") == "Failed", live.get("status")
        assert live["metadata"]["labels"].get(COMPLETED) == "true"
        assert (live["status"].get("finishedAt") or "") > after
        return live

    first = eventually(failed)
    kubectl("delete", "pod", "-n", guarded, "-l", "workflows.argoproj.io/workflow=retried", "--wait=true")
    del first["metadata"]["labels"][COMPLETED]
    first["status"] |= {"phase": "", "nodes": {}, "message": "", "conditions": []}
    finished = first["status"].pop("finishedAt")
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{guarded}/workflows/retried"
    code, message = api.ask("PUT", path, first)
    assert code == 200, message
    second = eventually(lambda: failed(finished))

    assert second["metadata"]["labels"][INSTANCE_ID] == guarded
    log = kubectl("logs", f"deployment/{CHILD}", "-n", guarded, "--tail=-1")
    assert "e2e-started-guard" not in log
