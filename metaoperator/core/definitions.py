"""Argo's kinds as a cluster defines them: which there are, whether they serve, and how strict they are."""

from typing import Any, Final

from metaoperator.core.model import Manifest

ARGO: Final = (
    "clusterworkflowtemplates",
    "cronworkflows",
    "workflowartifactgctasks",
    "workfloweventbindings",
    "workflows",
    "workflowtaskresults",
    "workflowtasksets",
    "workflowtemplates",
)
GROUP: Final = "argoproj.io"
VERSION: Final = "v1alpha1"
TELLING: Final = ("workflows", "cronworkflows")
"""Those by which full definitions are told from minimal ones. From v4.0 on even the minimal workflowtasksets knows its
fields, so the others say nothing."""


def named(plural: str) -> str:
    """Name the definition of a kind."""
    return f"{plural}.{GROUP}"


def established(crd: Manifest) -> bool:
    """Tell whether the API server took a definition into use."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Established" and each.get("status") == "True" for each in conditions)


def served(crd: Manifest) -> list[str]:
    """Name the versions that are served."""
    return [each["name"] for each in crd["spec"]["versions"] if each.get("served")]


def works(crd: Manifest | None) -> bool:
    """Tell whether objects of a kind can be listed and watched as a controller does at its start."""
    return crd is not None and established(crd) and VERSION in served(crd)


def is_full(crd: Manifest) -> bool:
    """Tell whether the schema knows the fields of a spec; a minimal one keeps whatever it gets."""
    schema: Any = crd["spec"]["versions"][0].get("schema") or {}
    properties = (schema.get("openAPIV3Schema") or {}).get("properties") or {}
    return bool((properties.get("spec") or {}).get("properties"))
