"""`make compat` on the local cluster, by somebody without root: each step, and nothing is left."""

import pytest

from tests.cluster import images, recipes
from tests.e2e.install import cluster_command
from tests.e2e.local import Kubectl

from .conftest import Person

pytestmark = pytest.mark.timeout(420)


def test_every_step_is_gone_through(person: Person, kubectl: Kubectl) -> None:
    """With the version that runs here; without Argo's CRDs it says what it needs, and does nothing."""
    program, executor = (image.rpartition(":")[0] for image in (images.WORKFLOW_CONTROLLER, images.ARGOEXEC))
    call = (
        "compat",
        f"VERSION={recipes.ARGO}",
        f"IMAGE={program}",
        f"EXECUTOR={executor}",
        f"POD_IMAGE={images.BUSYBOX}",
    )
    code, told = person.makes(*call)
    assert code != 0
    assert "with Argo's CRDs" in told

    folder = cluster_command("crds", "full")
    kubectl("apply", "--server-side", "-f", folder)
    try:
        code, told = person.makes(*call)
    finally:
        kubectl("delete", "--ignore-not-found", "--timeout=120s", "-f", folder)

    assert code == 0, told
    assert told.count("compat: ") >= 10
    assert f"compat: {recipes.ARGO} works here" in told
    left = kubectl("get", "namespaces,customresourcedefinitions", "-o", "name")
    assert "metaoperator" not in left
