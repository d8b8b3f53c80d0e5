"""Which namespaces are served, by what, and under which instance ID."""

import pytest

from metaoperator.core import names, optin, shard
from tests.unit.builders import namespace

REFUSED = [
    ("kube-system", "belongs to the system"),
    ("kube-anything", "belongs to the system"),
    ("openshift-monitoring", "belongs to the system"),
    ("metaoperator", "is the operator's own"),
    ("secret-lab", "is on the operator's deny-list"),
]


def stage(name: str = "team-a", value: str | None = None, *, terminating: bool = False) -> optin.Stage:
    """Judge a namespace by its name and the value of its label."""
    labels = {} if value is None else {names.OPT_IN_LABEL: value}
    found = namespace(name, labels=labels | {"other": "enabled"}, terminating=terminating)
    return optin.stage(found, own_namespace="metaoperator", denied=frozenset({"secret-lab"}))


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, optin.OptedOut()),
        ("", optin.OptedOut()),
        ("disabled", optin.OptedOut()),
        ("enabled", optin.Served(template="default")),
        ("default", optin.Served(template="default")),
        ("gold", optin.Served(template="gold")),
        ("true", optin.Served(template="true")),
        ("Enabled", optin.Served(template="Enabled")),
        ("Disabled", optin.Served(template="Disabled")),
    ],
)
def test_the_label_alone_decides(value: str | None, found: optin.Stage) -> None:
    """`enabled` means the template `default`; any other value is a template's name, a typo included."""
    assert stage(value=value) == found


@pytest.mark.parametrize(("name", "why"), REFUSED)
@pytest.mark.parametrize("value", ["enabled", "gold"])
def test_some_namespaces_are_refused_with_a_reason(name: str, why: str, value: str) -> None:
    """The message names the namespace, the rule and the label to remove."""
    assert stage(name, value) == optin.Refused(
        message=f"namespace {name} {why}: remove the label metaoperator.dev/workflow-controller"
    )


@pytest.mark.parametrize(("name", "_why"), REFUSED)
@pytest.mark.parametrize("value", [None, "", "disabled"])
def test_a_refused_namespace_without_the_label_is_nobodys_business(name: str, _why: str, value: str | None) -> None:
    """No reason is shown where nobody asked; what of ours is there leaves."""
    assert stage(name, value) == optin.OptedOut()


@pytest.mark.parametrize("name", ["kube", "kubernetes", "my-kube-system", "openshift", "default", "metaoperator-2"])
def test_names_that_only_look_alike_are_served(name: str) -> None:
    """The rules are prefixes and whole names."""
    assert stage(name, "enabled") == optin.Served(template="default")


@pytest.mark.parametrize("value", [None, "enabled", "disabled"])
@pytest.mark.parametrize("name", ["team-a", "kube-system"])
def test_a_namespace_that_goes_is_absent(name: str, value: str | None) -> None:
    """Its contents go with it, whatever it is called and says: nothing is written there."""
    assert stage(name, value, terminating=True) == optin.Absent()


def test_a_namespace_that_is_not_there_is_absent() -> None:
    """The same stage as one that goes."""
    assert optin.stage(None, own_namespace="metaoperator", denied=frozenset()) == optin.Absent()


@pytest.mark.parametrize("name", ["team-a", "null", "0123", "on", "1e3", "n" * 63])
def test_the_instance_id_is_the_namespaces_name(name: str) -> None:
    """The same text that the stamping policy puts on Workflows, and in the Lease's name."""
    only = shard.only_shard(name)
    assert (only.index, only.name, only.instance_id) == (0, "workflow-controller", name)
    assert shard.lease_name(only.instance_id) == f"workflow-controller-{name}"
