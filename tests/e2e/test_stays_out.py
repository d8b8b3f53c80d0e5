"""What the label cannot do."""

import time

import pytest

from tests.e2e import workflows
from tests.e2e.local import OPERATOR, Api, Kubectl, condition, eventually
from tests.e2e.namespaces import Namespaces, versions


def _stalled(namespaces: Namespaces, name: str, reason: str) -> str:
    def check() -> str:
        row = namespaces.row(name)
        assert row is not None, f"{name} has no WorkflowController"
        found = condition(row, "Stalled")
        assert (found.get("status"), found.get("reason")) == ("True", reason), dict(found)
        return str(found["message"])

    return eventually(check)


def test_an_unknown_template_takes_nothing_down(main: str, namespaces: Namespaces) -> None:
    """A typo in the label of a served namespace creates, changes and removes nothing, and is named."""
    before = versions(item for item in namespaces.objects(main).values() if item)

    namespaces.label(main, "defualt")

    message = _stalled(namespaces, main, "TemplateNotFound")
    assert "defualt" in message
    assert versions(item for item in namespaces.objects(main).values() if item) == before
    assert len(before) == 6
    namespaces.label(main, "enabled")
    namespaces.ready(main)
    assert versions(item for item in namespaces.objects(main).values() if item) == before


def test_an_unknown_template_creates_nothing(namespaces: Namespaces) -> None:
    """Until the label is corrected; then the child comes."""
    name = "e2e-typo"
    namespaces.make(name, opt_in="defualt")

    _stalled(namespaces, name, "TemplateNotFound")
    assert not any(namespaces.objects(name).values())

    namespaces.label(name, "enabled")
    namespaces.ready(name)
    namespaces.remove(name)


@pytest.mark.parametrize("name", ["kube-system", "kube-public", OPERATOR])
def test_namespaces_of_the_system_and_our_own_are_refused_with_a_reason(
    name: str, namespaces: Namespaces, kubectl: Kubectl, api: Api
) -> None:
    """An Event about the Namespace says why, nothing is made in it, and Workflows there get no ID."""
    del api
    before = {event["metadata"]["uid"] for event in namespaces.events("NamespaceRefused", name)}
    namespaces.label(name, "enabled")
    try:

        def refused() -> None:
            found = namespaces.events("NamespaceRefused", name)
            new = [each for each in found if each["metadata"]["uid"] not in before or "series" in each]
            assert new, f"no Event tells that {name} is refused"
            assert new[-1]["type"] == "Warning"
            assert "remove the label" in new[-1]["note"]

        eventually(refused)
        time.sleep(2)  # anything that it did all the same would be there by now
        assert namespaces.row(name) is None
        assert not any(namespaces.objects(name).values())
        made = kubectl.json(
            "create", "-n", name, "--dry-run=server", "-f", "-", stdin=workflows.one_step("refused", suspended=True)
        )
        assert "labels" not in made["metadata"]
    finally:
        namespaces.label(name, None)
