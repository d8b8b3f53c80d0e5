"""Why a Workflow that is deleted does not go: Argo keeps it by a finalizer until pods have deleted its artifacts."""

from collections.abc import Sequence
from typing import Any, Final

from metaoperator.core import names, paths
from metaoperator.core.model import Manifest

FINALIZER: Final = f"workflows.argoproj.io/{names.ARTIFACT_GC}"
FINISHED: Final = frozenset({"Succeeded", "Failed", "Error"})
_ON_DELETION: Final = "OnWorkflowDeletion"
_AGAIN: Final = '{"status":{"artifactGCStatus":{"strategiesProcessed":null}}}'
_LET_GO: Final = '{"metadata":{"finalizers":null}}'


def by_artifacts(workflow: Manifest) -> bool:
    """Tell whether it has ended, is deleted and kept by that finalizer. One that goes on is deleted only then."""
    meta = workflow["metadata"]
    if str(paths.mapping(workflow, "status").get("phase")) not in FINISHED:
        return False
    return "deletionTimestamp" in meta and FINALIZER in (meta.get("finalizers") or ())


def why(workflow: Manifest, pods: Sequence[Manifest]) -> tuple[str, str]:
    """Say how far its controller is, by the Workflow's own pods, and what to do; no cure where it goes on by itself."""
    collectors = [each for each in pods if _labels(each).get(names.COMPONENT_LABEL) == names.ARTIFACT_GC]
    if collectors:
        return _pod(workflow, min(collectors, key=_urgency))
    if not paths.mapping(workflow, "status", "artifactGCStatus", "strategiesProcessed").get(_ON_DELETION):
        return "its controller has not begun to delete its artifacts yet", ""
    name, kubectl = workflow["metadata"]["name"], f"kubectl -n {workflow['metadata']['namespace']}"
    told = (
        "no pod deletes its artifacts: Argo tries once to make it, and was refused, for example because the "
        "ServiceAccount in artifactGC.serviceAccountName is not there"
    )
    cure = (
        f"mend that; delete its {name}-artgc-… in {kubectl} get workflowartifactgctasks; then: {kubectl} patch "
        f"workflow {name} --type=merge -p '{_AGAIN}'"
    )
    return told, cure


def _pod(workflow: Manifest, pod: Manifest) -> tuple[str, str]:
    meta, name = workflow["metadata"], pod["metadata"]["name"]
    ref, kubectl = f"Pod/{meta['namespace']}/{name}", f"kubectl -n {meta['namespace']}"
    match paths.mapping(pod, "status").get("phase"):
        case "Failed":
            cure = (
                f"see: {kubectl} logs {name} -c main; delete what is left by hand, then: {kubectl} patch workflow "
                f"{meta['name']} --type=merge -p '{_LET_GO}'"
            )
            return f"{ref}, which deletes its artifacts, has failed", cure
        case "Succeeded":
            found, wanted = (_labels(each).get(names.INSTANCE_ID_LABEL) for each in (pod, workflow))
            if found == wanted:
                return f"its artifacts are deleted, and its controller has not taken note of {ref} yet", ""
            label = f"{names.INSTANCE_ID_LABEL}={wanted}" if wanted else f"{names.INSTANCE_ID_LABEL}-"
            told = f"its artifacts are deleted, and its controller does not see {ref} without its own instance ID"
            cure = (
                f"the operator puts it on where there is none, within seconds; else: {kubectl} label pod {name} "
                f"--overwrite {label}"
            )
            return told, cure
    return f"{ref} deletes its artifacts", ""


def _labels(manifest: Manifest) -> Any:
    return manifest["metadata"].get("labels") or {}


def _urgency(pod: Manifest) -> tuple[int, str]:
    """Sort what a person has to do something about before the rest."""
    phase = str(paths.mapping(pod, "status").get("phase"))
    return {"Failed": 0, "Succeeded": 2}.get(phase, 1), str(pod["metadata"]["name"])
