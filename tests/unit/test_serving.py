"""One truth of who serves what: one controller, several, or nobody."""

import itertools

import pytest

from metaoperator.core import serving
from metaoperator.core.foreign import Foreign
from metaoperator.core.model import DEPLOYMENT, Ref
from metaoperator.core.serving import Controller


def controller(namespace: str, instance: str, sees: str = "", *, alive: bool = True) -> Controller:
    """Build a foreign controller."""
    return Controller(ref=Ref(DEPLOYMENT, namespace, "wc"), instance_id=instance, sees=sees, alive=alive)


CHILD = serving.child(Ref(DEPLOYMENT, "team-a", "workflow-controller"), "team-a", alive=True)
PLAIN = serving.child(Ref(DEPLOYMENT, "team-b", "workflow-controller"), "", alive=True)
WIDE = controller("argo", "")
LOCAL = controller("team-a", "", "team-a")
SAME = controller("argo2", "team-a")
DEAD = controller("argo3", "team-a", alive=False)
ELSEWHERE = controller("team-c", "team-a", "team-c")
EVERYBODY = (CHILD, PLAIN, WIDE, LOCAL, SAME, DEAD, ELSEWHERE)


@pytest.mark.parametrize(
    ("namespace", "label", "there", "expected"),
    [
        ("team-a", "team-a", (CHILD, WIDE), [CHILD]),
        ("team-a", None, (CHILD, WIDE), [WIDE]),
        ("team-a", None, (CHILD,), []),
        ("team-a", "other", (CHILD, WIDE), []),
        ("team-a", "", EVERYBODY, []),
        ("team-a", "team-a", EVERYBODY, [SAME, CHILD]),
        ("team-a", None, EVERYBODY, [WIDE, LOCAL]),
        ("team-b", None, EVERYBODY, [WIDE, PLAIN]),
        ("team-b", "team-a", EVERYBODY, [SAME]),
        ("team-c", "team-a", EVERYBODY, [SAME, ELSEWHERE]),
        ("team-a", "team-a", (DEAD,), []),
    ],
)
def test_who_serves_is_decided_by_id_and_namespace_alone(
    namespace: str, label: str | None, there: tuple[Controller, ...], expected: list[Controller]
) -> None:
    """A label is served by its equals, no label by those without an ID, an empty one by nobody; the dead serve none."""
    for order in itertools.islice(itertools.permutations(there), 24):
        assert list(serving.servers(namespace, label, order)) == expected


def test_an_overlap_is_another_with_the_same_id_that_sees_the_namespace() -> None:
    """Not the dead, not those elsewhere, not oneself; and no ID at all is an ID in this."""
    assert serving.overlapping(CHILD, EVERYBODY) == (SAME,)
    assert serving.overlapping(PLAIN, EVERYBODY) == (WIDE,)
    assert serving.overlapping(CHILD, (CHILD, WIDE, LOCAL, DEAD, ELSEWHERE)) == ()


def test_a_foreign_controller_lives_while_it_has_pods_or_its_lease_moves() -> None:
    """Scaled to 0, it goes on until its last pod ends; its Lease tells."""
    gone = Foreign(ref=Ref(DEPLOYMENT, "argo", "wc"), instance_id="", sees="", replicas=0)
    assert not serving.foreign(gone).alive
    assert serving.foreign(gone, leads=True).alive
    there = Foreign(ref=Ref(DEPLOYMENT, "argo", "wc"), instance_id="", sees="", replicas=1)
    assert serving.foreign(there).alive
    assert str(serving.foreign(there)) == "Deployment/argo/wc (no instance ID, all namespaces)"


def test_the_id_of_an_object_may_be_none() -> None:
    """No labels, no such label, an empty one: the last is no absence."""
    assert serving.instance_id_of({"metadata": {}}) is None
    assert serving.instance_id_of({"metadata": {"labels": {"a": "b"}}}) is None
    key = "workflows.argoproj.io/controller-instanceid"
    assert serving.instance_id_of({"metadata": {"labels": {key: ""}}}) == ""
