"""The template sets of all ControllerTemplates, and news of them: from directories and from ConfigMaps."""

from collections.abc import Callable, Coroutine
from typing import Any

from metaoperator import packed, sources
from metaoperator.cluster import Cluster
from metaoperator.core.errors import Problem, TemplateError
from metaoperator.core.model import Kind, Manifest
from metaoperator.informer import Informer
from metaoperator.parcels import PATIENCE, Parcels
from metaoperator.shelves import Found, Shelves

Changed = Callable[[frozenset[str]], None]
"""Told the names of the ControllerTemplates whose set is another one now. It must not raise and must not wait."""


class Catalogue:
    """Knows which set each ControllerTemplate means, compiled.

    The name of a set in ConfigMaps is that of its ControllerTemplate: theirs change with their contents.
    """

    def __init__(
        self,
        cluster: Cluster,
        shelves: Shelves,
        *,
        namespace: str,
        changed: Changed = lambda _templates: None,
        patience: float = PATIENCE,
    ) -> None:
        """`namespace` is the operator's own: ConfigMaps of no other are read."""
        self._shelves = shelves
        self._changed = changed
        self._parcels = Parcels(
            cluster,
            namespace=namespace,
            changed=lambda template: changed(frozenset({template})),
            patience=patience,
        )
        self._directories: dict[str, str] = {}
        shelves.listen(self._shelves_changed)

    async def load(self, template: Manifest) -> None:
        """See to it that the set of a ControllerTemplate is known; `RetryableError` when that takes long."""
        name, wanted = template["metadata"]["name"], packed.names_of(template["spec"])
        if wanted is None:
            self._parcels.forget(name)
            self._directories[name] = template["spec"]["source"]["directory"]
        else:
            self._directories.pop(name, None)
            await self._parcels.load(name, wanted)

    def get(self, template: Manifest) -> Found | None:
        """Find the set of a ControllerTemplate, or why it cannot be used; `None` for one that has to be loaded."""
        name, wanted = template["metadata"]["name"], packed.names_of(template["spec"])
        if wanted is not None:
            return self._parcels.get(name, wanted)
        directory = template["spec"]["source"]["directory"]
        found = self._shelves.get(directory)
        if found is None:
            there = ", ".join(self._shelves.names) or "none"
            what = f"no template set {directory} at hand (there: {there})"
            cure = f"correct spec.source.directory, or give the set with --templates; {sources.NOTHING}"
            return TemplateError([Problem(where=f"ControllerTemplate/{name}", what=what, cure=cure)])
        return found

    def forget(self, template: str) -> None:
        """Drop what is known of a ControllerTemplate that is gone."""
        self._parcels.forget(template)
        self._directories.pop(template, None)

    @property
    def kinds(self) -> frozenset[Kind]:
        """List the kinds that all known sets declare."""
        return self._shelves.kinds | self._parcels.kinds

    @property
    def informers(self) -> tuple[Informer, ...]:
        """Every informer, for probes."""
        return (self._parcels.informer,)

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """Hand out what has to run."""
        return [*self._shelves.runs(), *self._parcels.runs()]

    def _shelves_changed(self, sets: frozenset[str]) -> None:
        # Also where nobody is concerned: a set may declare kinds that are to be watched before it is chosen.
        self._changed(frozenset(name for name, each in self._directories.items() if each in sets))
