"""Somebody else's object of a name that we need is shown and never touched."""

from tests.e2e.conftest import Held
from tests.e2e.local import Api, Kubectl, condition, eventually
from tests.e2e.namespaces import Namespaces


def test_a_foreign_object_holds_the_child_and_stays_as_it_is(
    held: Held, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """The condition names the object and says what to do; once it is gone, the child comes by itself."""
    name = held.namespace

    def stalled() -> str:
        row = namespaces.row(name)
        assert row is not None, f"{name} has no WorkflowController"
        found = condition(row, "Stalled")
        assert (found.get("status"), found.get("reason")) == ("True", "Conflict"), dict(found)
        ready = condition(row, "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "Conflict")
        return str(found["message"])

    message = eventually(stalled)
    assert f"ServiceAccount/{name}/workflow-controller" in message
    live = api.object("v1/serviceaccounts", name, "workflow-controller")
    assert live is not None
    assert live["metadata"] == held.foreign["metadata"]

    kubectl("delete", "serviceaccount", "workflow-controller", "-n", name)

    # Objects without our label are not watched, so that the operator need not read a cluster full of ConfigMaps: it
    # looks again at what is held, within two minutes.
    namespaces.ready(name, seconds=200)
