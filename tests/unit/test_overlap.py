"""When a child may not be installed beside others, when that is only told, and when there is nothing to tell."""

import pytest

from metaoperator.core import overlap, serving
from metaoperator.core.model import DEPLOYMENT, Ref
from metaoperator.core.names import Reason
from metaoperator.core.serving import Controller

CHILD = Ref(DEPLOYMENT, "team-a", "workflow-controller")


def controller(instance: str, sees: str = "", *, alive: bool = True, name: str = "wc") -> Controller:
    """Build a foreign controller."""
    return Controller(ref=Ref(DEPLOYMENT, "argo", name), instance_id=instance, sees=sees, alive=alive)


SAME = controller("team-a")
SAME_HERE = controller("team-a", "team-a")
WIDE = controller("")
HERE = controller("", "team-a")
OTHER = controller("other", "team-a")
ELSEWHERE = controller("", "team-b")
DEAD = controller("team-a", alive=False)
LACKS = "the policy is not there"


@pytest.mark.parametrize(
    ("instance", "others", "unstamped", "stalled", "remark"),
    [
        ("team-a", (), "", None, None),
        ("team-a", (), LACKS, None, Reason.STAMPING_MISSING),
        ("team-a", (WIDE,), "", None, None),
        ("team-a", (WIDE,), LACKS, Reason.OVERLAP, None),
        ("team-a", (SAME,), "", Reason.OVERLAP, None),
        ("team-a", (SAME_HERE,), "", Reason.OVERLAP, None),
        ("team-a", (SAME,), LACKS, Reason.OVERLAP, None),
        ("team-a", (DEAD, OTHER, ELSEWHERE), "", None, None),
        ("team-a", (HERE,), "", None, Reason.NEIGHBOUR),
        ("team-a", (HERE,), LACKS, None, Reason.STAMPING_MISSING),
        ("team-a", (HERE, WIDE), LACKS, Reason.OVERLAP, None),
        # policy None: no label is its label
        ("", (), LACKS, None, None),
        ("", (WIDE,), "", Reason.OVERLAP, None),
        ("", (HERE,), "", Reason.OVERLAP, None),
        ("", (SAME, ELSEWHERE), LACKS, None, None),
    ],
)
def test_two_that_would_act_on_one_workflow_are_kept_apart(
    instance: str,
    others: tuple[Controller, ...],
    unstamped: str,
    stalled: Reason | None,
    remark: Reason | None,
) -> None:
    """The same ID, or no ID and nothing that stamps, stops; what serves other Workflows at most is told."""
    mine = serving.child(CHILD, instance, alive=True)
    found = overlap.judge(mine, others, unstamped=unstamped)
    assert (found.stalled and found.stalled.reason) == stalled
    assert (found.remark and found.remark.reason) == remark


def test_the_message_names_the_other_and_the_cure() -> None:
    """What, who, and what to do."""
    mine = serving.child(CHILD, "team-a", alive=True)
    same = overlap.judge(mine, (SAME,), unstamped="").stalled
    assert same is not None
    assert "instance ID team-a" in same.message
    assert "Deployment/argo/wc" in same.message
    wide = overlap.judge(mine, (WIDE,), unstamped=LACKS).stalled
    assert wide is not None
    assert LACKS in wide.message
    assert "apply manifests/fleet" in wide.message
    both = overlap.judge(mine, (HERE,), unstamped=LACKS).remark
    assert both is not None
    assert LACKS in both.message
    assert "status.workflows.unlabelled" in both.message
    alone = overlap.judge(mine, (), unstamped=LACKS).remark
    assert alone is not None
    assert "served by nobody" in alone.message
