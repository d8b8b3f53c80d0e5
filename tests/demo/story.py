"""Two namespaces opt in, a Workflow runs in each, and the cluster is shown."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from .telling import CHECKOUT, Kubectl, Object, Stop, heading, note

LABEL = "metaoperator.dev/workflow-controller"
WORKFLOW = "tests/e2e/manifests/three-steps.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Where it is told: namespaces, the label's value, and the image of the Workflow's steps (`None`: as written)."""

    namespaces: Sequence[str]
    label: str = "enabled"
    image: str | None = None

    def use(self, kubectl: Kubectl) -> dict[str, str]:
        """Opt the namespaces in and run a Workflow in each; returns the Workflows' names."""
        heading("Two namespaces opt in")
        kubectl("label", "--overwrite", "namespace", *self.namespaces, f"{LABEL}={self.label}")
        for name in self.namespaces:
            kubectl("wait", "--for=create", "--timeout=60s", "wfc/workflow-controller", "-n", name)
        for name in self.namespaces:
            kubectl("wait", "--for=condition=Ready", "--timeout=180s", "wfc/workflow-controller", "-n", name)
        heading("A Workflow of three steps in each; its manifest does not say which controller it is for")
        made = {name: self._submit(kubectl, name) for name in self.namespaces}
        for name, workflow in made.items():
            try:
                kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=180s", workflow, "-n", name)
            except Stop as stop:
                found = kubectl.quietly(
                    "get", workflow, "-n", name, "-o", "jsonpath={.status.phase}: {.status.message}"
                )
                raise Stop(f"{name}/{workflow} has not Succeeded, but is {found}") from stop
        return {name: workflow.rpartition("/")[2] for name, workflow in made.items()}

    def _submit(self, kubectl: Kubectl, namespace: str) -> str:
        if self.image is None:
            return kubectl("create", "-n", namespace, "-f", WORKFLOW, "-o", "name").strip()
        manifest: Object = yaml.safe_load((CHECKOUT / WORKFLOW).read_text())
        for template in manifest["spec"]["templates"]:
            if "container" in template:
                template["container"]["image"] = self.image
        note(f"{WORKFLOW}, its steps in image {self.image}:")
        return kubectl("create", "-n", namespace, "-f", "-", "-o", "name", stdin=manifest).strip()


def show(kubectl: Kubectl, workflows: dict[str, str]) -> None:
    """Show what there is, and that the value of step 1 arrived at step 3."""
    heading("What there is now")
    kubectl("get", "workflowcontrollers", "-A")
    print()
    kubectl("get", "workflows", "-A", "-L", "workflows.argoproj.io/controller-instanceid")
    print()
    for name, workflow in workflows.items():
        command = ["logs", "-n", name, "-l", f"workflows.argoproj.io/workflow={workflow}", "-c", "main"]
        print(f"$ kubectl {shlex.join(command)} | grep 'step 3'")
        lines = [
            line for line in kubectl.quietly(*command).splitlines() if re.match(r"step 3 received [0-9a-f]{16}$", line)
        ]
        if not lines:
            raise Stop(f"step 3 of Workflow {name}/{workflow} did not print the value that step 1 drew.")
        print(*lines, sep="\n")
    print()
