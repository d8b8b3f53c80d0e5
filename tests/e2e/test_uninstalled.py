"""Children live on the fleet bundle: the operator may go."""

from tests.e2e import workflows
from tests.e2e.install import OPERATOR_BUNDLE, Installation
from tests.e2e.local import INSTANCE_ID, OPERATOR, Api, Kubectl, eventually
from tests.e2e.namespaces import Namespaces, versions


def test_without_the_operator_new_workflows_still_succeed(
    main: str, installation: Installation, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """Taking manifests/operator away removes no child, and admission goes on stamping."""
    before = versions(item for item in namespaces.objects(main).values() if item)
    kubectl("delete", "-k", OPERATOR_BUNDLE)
    try:
        eventually(lambda: _no_pods(installation))
        assert api.object("v1/serviceaccounts", OPERATOR, OPERATOR) is None

        made = workflows.submit_three_steps(kubectl, main)

        assert made["metadata"]["labels"][INSTANCE_ID] == main
        workflows.succeeded(api, made)
        drawn = workflows.log_of_step(kubectl, api, made, "draw")
        assert workflows.log_of_step(kubectl, api, made, "show") == f"step 3 received {drawn}"
        assert versions(item for item in namespaces.objects(main).values() if item) == before
    finally:
        installation.operator_up()
    namespaces.ready(main)
    assert versions(item for item in namespaces.objects(main).values() if item) == before


def _no_pods(installation: Installation) -> None:
    assert not installation.pods(), "the operator's pods are still there"
