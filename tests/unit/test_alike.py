"""What is a namespace's own is told from what it shares with others."""

import pytest

from metaoperator.core import names
from metaoperator.core.alike import Mask

UIDS = {"team-a": "0f0f0f0f-0000-4000-8000-000000000001", "info": "0f0f0f0f-0000-4000-8000-000000000002"}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("team-a", "<namespace>"),
        ("workflow-controller-team-a", "workflow-controller-<namespace>"),
        ("x.team-a.svc", "x.<namespace>.svc"),
        ("team-apple and steam-a", "team-apple and steam-a"),
        ("ID own-7 of 0f0f0f0f-0000-4000-8000-000000000001", "ID <instance-id> of <uid>"),
    ],
)
def test_whole_words_are_replaced(text: str, masked: str) -> None:
    """And can be put back."""
    mask = Mask("team-a", UIDS["team-a"], "own-7")
    assert mask.text(text) == masked
    assert mask.expanded(masked) == text


@pytest.mark.parametrize("instance", ["", "team-a", names.FLEET_INSTANCE_ID])
def test_an_id_of_all_is_nobodys_own(instance: str) -> None:
    """One for the whole fleet is our own name, which stands everywhere."""
    assert Mask("team-a", UIDS["team-a"], instance).text("metaoperator.dev/rendered") == "metaoperator.dev/rendered"


def test_digests_in_annotations_are_counted() -> None:
    """In the order in which they are met, the same for the same; elsewhere they are values as any."""
    mask = Mask("team-a", UIDS["team-a"])
    one, other = "0123456789abcdef", "fedcba9876543210"
    annotations = {"a": one, "b": other, "c": one, "deployment.kubernetes.io/revision": "7", "d": "0123"}
    assert mask.manifest({"metadata": {"annotations": annotations}, "data": {"a": one}}) == {
        "metadata": {
            "annotations": {
                "a": "<digest 1>",
                "b": "<digest 2>",
                "c": "<digest 1>",
                "deployment.kubernetes.io/revision": "<revision>",
                "d": "0123",
            }
        },
        "data": {"a": one},
    }
    assert mask.manifest(None) is None


def test_addresses_are_the_servers() -> None:
    """A headless Service has none, and that is a decision."""
    mask = Mask("team-a", UIDS["team-a"])
    assert mask.manifest({"spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}}) == {
        "spec": {"clusterIP": "<address>", "clusterIPs": ["<address>"]}
    }
    assert mask.manifest({"spec": {"clusterIP": "None"}}) == {"spec": {"clusterIP": "None"}}


def test_an_everyday_word_is_known_by_what_it_stands_for() -> None:
    """A namespace `info` replaces more than its name; filled in, the two texts are the same."""
    info, team = Mask("info", UIDS["info"]), Mask("team-a", UIDS["team-a"])
    texts = {mask: mask.text(f"--loglevel=info -n {name}") for mask, name in ((info, "info"), (team, "team-a"))}
    assert texts[info] != texts[team]
    assert info.expanded(texts[team]) == info.expanded(texts[info])
