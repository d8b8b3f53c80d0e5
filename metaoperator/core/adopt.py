"""Whether the controller of a hand-made install may be taken over, and under which instance ID it goes on."""

import re
from collections.abc import Collection, Sequence
from typing import Final

from metaoperator.core import names, ownership
from metaoperator.core.foreign import Foreign
from metaoperator.core.model import Manifest, Ref
from metaoperator.core.serving import Controller
from metaoperator.core.shard import Policy

_LEGAL_ID: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def asked(wfc: Manifest | None) -> bool:
    """Tell whether the platform wants what is there to be taken over."""
    return wfc is not None and (wfc.get("spec") or {}).get("adopt") == "Adopt"


def refusal(
    deployment: Manifest | None,
    found: Sequence[Foreign],
    others: Collection[Controller],
    *,
    namespace: str,
    written: str,
    policy: Policy,
) -> str:
    """Say why the controller of an install is not taken over, and what to do; empty where it is, or there is none.

    `deployment` is the one of the child's name, `found` what runs in it, `others` further controllers that live in the
    namespace, and `written` the instance ID that the WorkflowController says already.
    """
    if others:
        told = ", ".join(map(str, sorted(others)))
        beside = " as well" if deployment is not None else ""
        return (
            f"the workflow-controller that serves this namespace is {told}{beside}, and only a Deployment named "
            f"{names.WORKFLOW_CONTROLLER} is taken over: rename or remove that one first"
        )
    if deployment is None:
        return ""
    ref = Ref.of(deployment)
    if "deletionTimestamp" in deployment["metadata"]:
        return f"{ref} is being deleted{ownership.held(deployment)}: nothing is taken over meanwhile"
    if len(found) != 1:
        what = "no workflow-controller, as far as can be told" if not found else f"{len(found)} workflow-controllers"
        return f"{ref} runs {what}: one is what can be taken over; delete the Deployment, and ours is installed"
    return (
        _mismatch(found[0], namespace)
        or _stopped(deployment)
        or _wrong_id(found[0].instance_id, written, policy, namespace)
    )


def _mismatch(found: Foreign, namespace: str) -> str:
    if found.unsure:
        return f"{found.ref}: {found.unsure}, so its instance ID is not known: mend that, and it is looked at again"
    if found.sees != namespace:
        where = f"namespace {found.sees}" if found.sees else "all namespaces"
        return (
            f"{found.ref} serves {where}, and taken over it would serve {namespace} alone: install another one for the "
            "rest first, and start this one with --namespaced"
        )
    if found.home != namespace:
        return f"{found.ref} reads its configuration in namespace {found.home}: give it one in {namespace} first"
    return ""


def _stopped(deployment: Manifest) -> str:
    if (deployment.get("spec") or {}).get("replicas") != 0:
        return ""
    ref = Ref.of(deployment)
    return f"{ref} is scaled to 0, and taking it over would start it: scale it to 1 if that is wanted, or delete it"


def _wrong_id(instance: str, written: str, policy: Policy, namespace: str) -> str:
    anew = (
        f"kubectl -n {namespace} delete workflowcontroller {names.WORKFLOW_CONTROLLER}, and create it anew with "
        "spec.adopt: Adopt and no instanceID"
    )
    if not instance:
        if policy is Policy.NONE and not written:
            return ""
        # With an ID the child would serve none of them, and what the old one begins to its last moment is stranded.
        return (
            "the install has no instance ID, and taken over it would have one: what it has begun, without one, would "
            "be left to nobody; when none of its Workflows runs, delete the Deployment: ours is installed, and gives "
            "its ID to CronWorkflows and to Workflows that wait; or go on without an ID, by instanceIDPolicy: None in "
            "the ControllerTemplate (manifests/components/instance-id-none)" + (f", and: {anew}" if written else "")
        )
    if written and written != instance:
        return (
            f"spec.instanceID is {written}, but the install has {instance}, and so have its Workflows; nothing of ours "
            f"is here yet, so: {anew}"
        )
    if not _LEGAL_ID.fullmatch(instance):
        return (
            f"the install has the instance ID {instance}, of which Argo cannot make the name of a Lease: it has to be "
            "lower-case letters, digits and dashes, 63 at most"
        )
    return ""
