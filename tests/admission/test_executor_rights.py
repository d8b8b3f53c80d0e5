"""R06: pods of Workflows may report whatever account they run under, and whatever an older Role lets it do."""

import subprocess

import pytest
import yaml

from tests.e2e.local import CHECKOUT, Object

from .world import World

NS = "team-reports"
OLD: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "executor", "namespace": NS},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"]}],
}


@pytest.fixture
def bound(world: World) -> None:
    """Have the RoleBindings that the shipped set renders, beside a Role that knows nothing of task results."""
    world.namespace(NS)
    command = [str(CHECKOUT / ".venv" / "bin" / "metaoperator"), "render", NS]
    rendered = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    bindings = [each for each in yaml.safe_load_all(rendered) if each and each["kind"] == "RoleBinding"]
    world.kubectl("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": [OLD, *bindings]})
    subject = f"--serviceaccount={NS}:runs-steps"
    world.kubectl("delete", "rolebinding", "old", "-n", NS, "--ignore-not-found")
    world.kubectl("create", "rolebinding", "old", "-n", NS, "--role=executor", subject)


@pytest.mark.parametrize("account", ["default", "runs-steps", "made-later"])
@pytest.mark.parametrize(
    ("resource", "verb", "allowed"),
    [
        ("workflowtaskresults", "create", True),
        ("workflowtaskresults", "patch", True),
        ("workflowtasksets", "watch", True),
        ("workflowartifactgctasks", "list", True),
        ("workflows", "patch", False),
        ("workflowtaskresults", "delete", False),
    ],
)
def test_each_account_of_the_namespace_may_report_and_no_more(
    account: str, resource: str, verb: str, *, allowed: bool, bound: None, world: World
) -> None:
    """Those of other namespaces may not."""
    del bound
    for home in (NS, "another"):
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{home}:{account}",
                "groups": ["system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated"],
                "resourceAttributes": {"namespace": NS, "group": "argoproj.io", "resource": resource, "verb": verb},
            },
        }
        code, answer = world.send("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        assert code == 201, answer
        assert answer["status"].get("allowed", False) == (allowed and home == NS), (home, answer["status"])
