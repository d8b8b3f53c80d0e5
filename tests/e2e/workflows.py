"""Workflows as people submit them: nothing in their manifests says which controller they are for."""

from typing import Any

from .local import INSTANCE_ID, MANIFESTS, Api, Kubectl, Object, eventually

THREE_STEPS = MANIFESTS / "three-steps.yaml"
BUSYBOX = "metaoperator.local/busybox:1"
WORKFLOWS = "argoproj.io/v1alpha1/workflows"


def one_step(name: str, *, suspended: bool = False, kind: str = "Workflow", **metadata: Any) -> Object:
    """Build the smallest Workflow with a real pod; `suspended` ones start nothing until that is taken back."""
    meta = {"name": name} | metadata
    if "generateName" in meta:
        del meta["name"]
    spec: Object = {
        "entrypoint": "main",
        "templates": [
            {
                "name": "main",
                "container": {
                    "image": BUSYBOX,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["echo", "done"],
                },
            }
        ],
    }
    if kind == "CronWorkflow":
        spec = {"schedules": ["0 0 1 1 *"], "suspend": True, "workflowSpec": spec}
    elif suspended:
        spec["suspend"] = True
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}


def submit(kubectl: Kubectl, namespace: str, manifest: Object) -> Object:
    """Create it, as `argo submit` and `kubectl create` do."""
    made: Object = kubectl.json("create", "-n", namespace, "-f", "-", stdin=manifest)
    return made


def submit_three_steps(kubectl: Kubectl, namespace: str) -> Object:
    """Create the Workflow of the demo."""
    made: Object = kubectl.json("create", "-n", namespace, "-f", THREE_STEPS)
    return made


def instance_id(live: Object) -> str | None:
    """Read the instance ID of an object; `None` for one without."""
    found: str | None = (live["metadata"].get("labels") or {}).get(INSTANCE_ID)
    return found


def succeeded(api: Api, workflow: Object, *, seconds: float = 120) -> Object:
    """Wait until a Workflow has Succeeded, and return it."""
    meta = workflow["metadata"]

    def check() -> Object:
        live = api.object(WORKFLOWS, meta["namespace"], meta["name"])
        assert live is not None, f"Workflow {meta['name']} is gone"
        status = live.get("status") or {}
        phase = status.get("phase", "")
        assert phase == "Succeeded", (
            f"Workflow {meta['namespace']}/{meta['name']}: {phase or 'no phase'} {status.get('message', '')}"
        )
        return live

    return eventually(check, seconds=seconds)


def ran_once(api: Api, workflow: Object) -> list[Object]:
    """Hold that each step of a Workflow had one pod, and kept it; returns the pods."""
    meta = workflow["metadata"]
    query = f"labelSelector=workflows.argoproj.io/workflow={meta['name']}"
    pods = api.objects("v1/pods", meta["namespace"], query=query)
    nodes = workflow["status"]["nodes"].values()
    assert len(pods) == len([node for node in nodes if node["type"] == "Pod"]), meta["name"]
    assert not [node for node in nodes if "pod deleted" in node.get("message", "")], meta["name"]
    return pods


def log_of_step(kubectl: Kubectl, api: Api, workflow: Object, step: str) -> str:
    """Read what the step itself printed in its pod's main container, where Argo's executor logs as well."""
    meta = workflow["metadata"]
    pods = api.objects(
        "v1/pods", meta["namespace"], query=f"labelSelector=workflows.argoproj.io/workflow={meta['name']}"
    )
    names = [
        pod["metadata"]["name"]
        for pod in pods
        if pod["metadata"]["annotations"]["workflows.argoproj.io/node-name"].endswith(f".{step}")
    ]
    assert len(names) == 1, f"pods of step {step}: {names}"
    lines = kubectl("logs", "-n", meta["namespace"], names[0], "-c", "main").splitlines()
    return "\n".join(line for line in lines if not line.startswith("time="))
