"""What was rendered last is handed out only while nothing that decides it has changed."""

import pytest

from metaoperator.core.errors import TemplateError
from metaoperator.core.model import Desired
from metaoperator.recent import Recent, spec_of


def _desired(revision: str) -> Desired:
    document = {"kind": "ConfigMap", "data": {"é": "\U0001f600", "n": 1.5, "b": True, "0": None}}
    return Desired(documents=(document, {}), revision=revision, version="v")


def _never() -> Desired:
    raise AssertionError("rendered again")


def test_equal_inputs_are_rendered_once() -> None:
    """The second look gets what the first one rendered."""
    recent = Recent()
    first = recent.desired("team-a", ("x", 1), lambda: _desired("r1"))
    assert recent.desired("team-a", ("x", 1), _never) == first == _desired("r1")


def test_what_a_look_does_to_its_documents_stays_its_own() -> None:
    """The next look gets what was rendered."""
    recent = Recent()
    recent.desired("team-a", 1, lambda: _desired("r1")).documents[0].clear()  # type: ignore[attr-defined]
    recent.desired("team-a", 1, _never).documents[0].clear()  # type: ignore[attr-defined]
    assert recent.desired("team-a", 1, _never) == _desired("r1")


def test_other_inputs_are_rendered_anew_and_replace_what_was_there() -> None:
    """Going back renders again: only the latest state of a namespace is kept."""
    recent = Recent()
    recent.desired("team-a", 1, lambda: _desired("r1"))
    assert recent.desired("team-a", 2, lambda: _desired("r2")).revision == "r2"
    assert recent.desired("team-a", 1, lambda: _desired("r3")).revision == "r3"


def test_namespaces_do_not_share() -> None:
    """Equal inputs in another namespace are another render: its name is in every document."""
    recent = Recent()
    recent.desired("team-a", 1, lambda: _desired("a"))
    assert recent.desired("team-b", 1, lambda: _desired("b")).revision == "b"


def test_an_error_is_not_remembered() -> None:
    """Nor is what was rendered before it."""
    recent = Recent()
    recent.desired("team-a", 1, lambda: _desired("r1"))

    def broken() -> Desired:
        raise TemplateError([])

    with pytest.raises(TemplateError):
        recent.desired("team-a", 2, broken)
    assert recent.desired("team-a", 2, lambda: _desired("r2")).revision == "r2"


def test_only_the_latest_namespaces_are_kept() -> None:
    """Looking at one keeps it: the one that nobody looked at for longest goes."""
    recent = Recent(kept=2)
    for name in ("a", "b"):
        recent.desired(name, 1, lambda: _desired("old"))
    recent.desired("a", 1, _never)
    recent.desired("c", 1, lambda: _desired("old"))
    recent.desired("a", 1, _never)
    assert recent.desired("b", 1, lambda: _desired("new")).revision == "new"


def test_a_forgotten_namespace_is_rendered_anew() -> None:
    """Its successor of the same name may be anything."""
    recent = Recent()
    recent.desired("team-a", 1, lambda: _desired("old"))
    recent.forget("team-a")
    assert recent.desired("team-a", 1, lambda: _desired("new")).revision == "new"


def test_a_spec_is_named_by_uid_and_generation() -> None:
    """A status that is written anew changes neither; an object of another UID is another, whatever its generation."""

    def live(uid: str, generation: int, version: str) -> dict[str, object]:
        return {"metadata": {"uid": uid, "generation": generation, "resourceVersion": version}}

    assert spec_of(live("u", 1, "5")) == spec_of(live("u", 1, "9"))
    assert spec_of(live("u", 1, "5")) != spec_of(live("u", 2, "5"))
    assert spec_of(live("u", 1, "5")) != spec_of(live("v", 1, "5"))


def test_an_object_that_nobody_has_written_is_like_no_other() -> None:
    """It has no generation to go by."""
    unwritten: dict[str, object] = {"metadata": {"name": "workflow-controller"}}
    assert spec_of(unwritten) != spec_of(unwritten)
