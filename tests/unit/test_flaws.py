"""What versions of Argo are known to get wrong."""

import pytest

from metaoperator import sources
from metaoperator.core import flaws


@pytest.mark.parametrize(
    ("version", "hit"),
    [
        ("v3.5.15", True),
        ("v3.6.0", True),
        ("v3.6.18", True),
        ("v3.6.19", False),
        ("v3.6.20", False),
        ("v3.7.9", True),
        ("v3.7.10", False),
        ("v4.0.0", True),
        ("v4.0.0-rc1", True),
        ("v4.0.1", False),
        ("v4.1.0", False),
        ("v5.0.0", False),
        ("latest", False),
        (None, False),
    ],
)
def test_task_sets_are_found_from_one_release_of_each_branch_on(version: object, hit: bool) -> None:  # noqa: FBT001
    """Argo made them without the ID label before (argo-workflows#15219)."""
    assert list(flaws.of(version)) == ([flaws.TASK_SETS] if hit else [])


def test_the_version_that_is_shipped_has_no_known_flaw() -> None:
    """What people get who choose nothing."""
    assert not list(flaws.of(sources.template_set(sources.shipped() / sources.DEFAULT_SET).defaults["version"]))
