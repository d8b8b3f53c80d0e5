"""The overlay that points the fleet at the local node's images."""

from pathlib import Path

import yaml

from tests.cluster import images
from tests.e2e import workflows
from tests.e2e.local import CHECKOUT, MANIFESTS


def test_the_overlay_names_the_images_that_the_node_holds() -> None:
    """Otherwise every pod would wait for an image that nobody can pull."""
    patch = yaml.safe_load((CHECKOUT / MANIFESTS / "local" / "controllertemplate.yaml").read_text())
    values = patch["spec"]["values"]

    assert f"{values['images']['controller']}:{values['version']}" == images.WORKFLOW_CONTROLLER
    assert f"{values['images']['executor']}:{values['version']}" == images.ARGOEXEC
    assert f"{values['images']['server']}:{values['version']}" == images.ARGOCLI


def test_the_workflow_of_the_demo_uses_an_image_that_the_node_holds() -> None:
    """And it carries no label at all: finding its controller is the cluster's business."""
    manifest = yaml.safe_load(Path(CHECKOUT / workflows.THREE_STEPS).read_text())

    used = {each["container"]["image"] for each in manifest["spec"]["templates"] if "container" in each}
    assert used == {images.BUSYBOX} == {workflows.BUSYBOX}
    assert "labels" not in manifest["metadata"]
