"""Somebody else's object of a name that we need is shown and never touched."""

import pytest

from tests.e2e.conftest import Held
from tests.e2e.local import Api, condition, eventually
from tests.e2e.namespaces import Namespaces


def test_a_foreign_object_holds_the_child_and_stays_as_it_is(
    held: Held, namespaces: Namespaces, api: Api, request: pytest.FixtureRequest
) -> None:
    """The condition names the object, and no Deployment runs under somebody else's account."""
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
    assert api.object("apps/v1/deployments", name, "workflow-controller") is None

    # Now already, because the test of what comes of it waits for minutes.
    request.getfixturevalue("freed")
