"""Somebody else's object is gone: the child comes by itself."""

from tests.e2e.namespaces import Namespaces


def test_a_held_child_is_installed_once_the_foreign_object_is_gone(freed: str, namespaces: Namespaces) -> None:
    """Objects without our label are not watched, or the operator would read a cluster full of ConfigMaps.

    So it looks again at what is held, within two minutes.
    """
    namespaces.ready(freed, seconds=240)
