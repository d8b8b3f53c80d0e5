"""The API server and what it has to serve: its version, admission policies, Argo's kinds."""

from typing import Final

from metaoperator.cluster import Cluster
from metaoperator.core import definitions
from metaoperator.core.errors import Forbidden, RetryableError
from metaoperator.core.model import CRD, Kind, Ref
from metaoperator.preflight.rows import Result, Row

_POLICIES: Final = "admissionregistration.k8s.io"
_INSTALL: Final = (
    'kubectl apply --server-side -k "https://github.com/argoproj/argo-workflows/manifests/base/crds/full?ref={version}"'
)


async def version(cluster: Cluster) -> list[Row]:
    """Reach the server at all."""
    found = (await cluster.server_version()).get("gitVersion")
    if not isinstance(found, str):
        raise RetryableError("GET /version: no version came: is this a Kubernetes API?")
    return [Row(check="API server", result=Result.OK, what=f"Kubernetes {found}")]


async def policies(cluster: Cluster) -> list[Row]:
    """Look for the policy API that stamps instance IDs; v1 came with Kubernetes 1.36."""
    check = "admission policies"
    rows = []
    if await cluster.serves(Kind(f"{_POLICIES}/v1", "MutatingAdmissionPolicy")):
        rows.append(
            Row(check=check, result=Result.OK, what="MutatingAdmissionPolicy v1: Workflows get their instance ID")
        )
    else:
        older = [
            each
            for each in ("v1beta1", "v1alpha1")
            if await cluster.serves(Kind(f"{_POLICIES}/{each}", "MutatingAdmissionPolicy"))
        ]
        if "v1beta1" in older:
            what = "MutatingAdmissionPolicy v1beta1: Workflows get their instance ID by component kubernetes-1.34"
            rows.append(Row(check=check, result=Result.OK, what=what))
        else:
            what = f"MutatingAdmissionPolicy v1 is not served{f', only {older[0]}' if older else ''}"
            cure = (
                "upgrade to Kubernetes 1.36 or newer: without it nothing stamps instance IDs on Workflows; "
                "1.34 and 1.35 do with what manifests/components/kubernetes-1.34 says"
            )
            rows.append(Row(check=check, result=Result.MISSING, what=what, cure=cure))
    if not await cluster.serves(Kind(f"{_POLICIES}/v1", "ValidatingAdmissionPolicy")):
        what, cure = "ValidatingAdmissionPolicy v1 is not served: no fences", "upgrade to Kubernetes 1.30 or newer"
        rows.append(Row(check=check, result=Result.MISSING, what=what, cure=cure))
    return rows


async def argo_kinds(cluster: Cluster, wanted_version: str) -> list[Row]:
    """Look at Argo's CRDs: all there, established, serving, and whether they check what is in a Workflow."""
    check, cure = "Argo CRDs", _INSTALL.format(version=wanted_version)
    try:
        found = {name: await cluster.get(Ref(CRD, "", definitions.named(name))) for name in definitions.ARGO}
    except Forbidden:
        # Whoever may not read definitions can still see what is served.
        served = await cluster.serves(Kind("argoproj.io/v1alpha1", "Workflow"))
        what = "Workflows are served; whether the definitions are whole is not known" if served else "no Workflows"
        return [Row(check=check, result=Result.UNKNOWN if served else Result.MISSING, what=what, cure=cure)]
    missing = [name for name, crd in found.items() if crd is None]
    if missing:
        what = f"not there: {', '.join(missing)}"
        return [Row(check=check, result=Result.MISSING, what=what, cure=cure)]
    idle = [name for name, crd in found.items() if crd is not None and not definitions.established(crd)]
    if idle:
        what = f"not established: {', '.join(idle)}"
        return [
            Row(check=check, result=Result.MISSING, what=what, cure=f"wait, or look: kubectl describe crd {idle[0]}")
        ]
    unserved = [
        name for name, crd in found.items() if crd is not None and definitions.VERSION not in definitions.served(crd)
    ]
    if unserved:
        return [Row(check=check, result=Result.MISSING, what=f"v1alpha1 not served: {', '.join(unserved)}", cure=cure)]
    workflows = found["workflows"]
    assert workflows is not None
    full = "full" if definitions.is_full(workflows) else "minimal"
    what = f"all {len(definitions.ARGO)} there, {full} (workflows), serving v1alpha1"
    if full == "full" and wanted_version.startswith("v3."):
        old = f"{what}: full definitions of v4 cut fields off that only v3 knows"
        return [Row(check=check, result=Result.WARNING, what=old, cure="install the minimal ones while v3 is in use")]
    return [Row(check=check, result=Result.OK, what=what)]
