"""Template sets in ConfigMaps of the operator's own namespace: the keys of all that one source names are the files.

Versions of ConfigMaps are watched, their texts are not kept: what a ControllerTemplate names is read when it changes.
What cannot be read in whole is a fault of that source, and the set that was there before is no answer to it.
"""

import asyncio
import contextlib
import logging
import random
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from metaoperator import packed, shelves
from metaoperator.cluster import Cluster, Selection
from metaoperator.core.errors import MetaoperatorError, Problem, Rejected, RetryableError, TemplateError
from metaoperator.core.model import CONFIG_MAP, Kind, Manifest, Ref
from metaoperator.core.render import Program
from metaoperator.informer import Informer
from metaoperator.shelves import Found

log = logging.getLogger(__name__)

REST_SECONDS: Final = 0.2
"""Several ConfigMaps are written one after the other: they are read once none of them was for so long."""
LONGEST_UNREST: Final = 5
"""So many times in a row at most."""
PATIENCE: Final = 2.0
"""Seconds for which all looks at namespaces wait for a set, since the first of them; then others get their places."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
REFUSED_SECONDS: Final = 30.0
"""What may not be read is tried again: no event tells of a right that was granted."""


@dataclass(slots=True)
class _Parcel:
    """The ConfigMaps that one ControllerTemplate names, and what came of them."""

    names: tuple[str, ...]
    until: float
    """Whoever asks before this moment waits; it is in the past once reading has failed."""
    tried: asyncio.Event = field(default_factory=asyncio.Event)
    versions: dict[str, str] = field(default_factory=dict)
    found: Found | None = None
    stale: bool = True
    refused: bool = False
    task: asyncio.Task[None] | None = None


class Parcels:
    """Reads what ControllerTemplates name, and reads it again when any of it changes."""

    def __init__(self, cluster: Cluster, *, namespace: str, changed: Callable[[str], None], patience: float) -> None:
        """Read nothing before the first is asked for; `changed` is told the name of its ControllerTemplate."""
        self._cluster = cluster
        self._namespace = namespace
        self._changed = changed
        self._patience = patience
        self._parcels: dict[str, _Parcel] = {}
        self._asked = asyncio.Event()
        self.informer = Informer(
            cluster,
            Selection(kind=CONFIG_MAP, namespace=namespace, metadata_only=True),
            project=_version_only,
            changed=self._moved,
        )

    def get(self, template: str, wanted: tuple[str, ...]) -> Found | None:
        """Find the set of a ControllerTemplate; `None` while it is not read yet."""
        parcel = self._parcels.get(template)
        return parcel.found if parcel is not None and parcel.names == wanted else None

    async def load(self, template: str, wanted: tuple[str, ...]) -> None:
        """Read the set of a ControllerTemplate unless it is known; `RetryableError` when that takes long."""
        parcel = self._parcels.get(template)
        if parcel is None or parcel.names != wanted:
            self.forget(template)
            parcel = self._parcels[template] = _Parcel(wanted, until=self._now() + self._patience)
            parcel.task = asyncio.create_task(self._read(template, parcel, pause=0.0))
            self._asked.set()
        if parcel.found is None and parcel.until > self._now():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(parcel.tried.wait(), parcel.until - self._now())
        if parcel.found is None:
            raise RetryableError(f"ControllerTemplate/{template}: its ConfigMaps are still being read")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def forget(self, template: str) -> None:
        """Drop what is known of a ControllerTemplate."""
        parcel = self._parcels.pop(template, None)
        if parcel is not None and parcel.task is not None:
            parcel.task.cancel()
            parcel.tried.set()

    @property
    def kinds(self) -> frozenset[Kind]:
        """List the kinds that the sets declare."""
        found = (each.found for each in self._parcels.values())
        return frozenset().union(*(each.template_set.kinds for each in found if isinstance(each, Program)))

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """Hand out what has to run."""
        return [self._watch(), self._look_again()]

    async def _watch(self) -> None:
        """Watch once anything is asked for: most fleets take their sets from directories."""
        try:
            await self._asked.wait()
            await self.informer.run()
        finally:
            for template in list(self._parcels):
                self.forget(template)

    async def _look_again(self) -> None:
        """Read again what was refused, and everything while nothing may be watched."""
        while True:
            await asyncio.sleep(REFUSED_SECONDS * (0.5 + random.random()))
            for template, parcel in self._parcels.items():
                if self.informer.refused or parcel.refused:
                    self._begin(template, parcel)

    def _moved(self, ref: Ref, _before: Manifest | None, after: Manifest | None) -> None:
        version = "" if after is None else after["metadata"]["resourceVersion"]
        for template, parcel in self._parcels.items():
            if ref.name in parcel.names and parcel.versions.get(ref.name) != version:
                self._begin(template, parcel)

    def _begin(self, template: str, parcel: _Parcel) -> None:
        parcel.stale = True
        if parcel.task is None or parcel.task.done():
            parcel.task = asyncio.create_task(self._read(template, parcel, pause=REST_SECONDS))

    async def _read(self, template: str, parcel: _Parcel, *, pause: float) -> None:
        """Read until what was read last is not stale any more."""
        while parcel.stale:
            for _ in range(LONGEST_UNREST):
                parcel.stale = False
                await asyncio.sleep(pause)
                if not parcel.stale:
                    break
            parcel.stale = False
            found: Found
            try:
                lives = await self._lives(parcel)
                found = await shelves.apart(packed.program, template, lives, parcel.found)
            except TemplateError as exc:
                found = exc
            except MetaoperatorError as exc:
                log.warning("ConfigMaps cannot be read yet", extra={"template": template, "error": str(exc)})
                pause = min(max(1.0, 2 * pause), REFUSED_SECONDS) * (0.5 + random.random() / 2)
                parcel.stale, parcel.until = True, 0.0
                parcel.tried.set()
                continue
            except Exception:
                log.exception("ConfigMaps cannot be read", extra={"template": template})
                parcel.refused, parcel.until = True, 0.0  # looked at again, in its time
                parcel.tried.set()
                return
            pause = REST_SECONDS
            self._take(template, parcel, found)

    async def _lives(self, parcel: _Parcel) -> dict[str, Manifest | None]:
        lives: dict[str, Manifest | None] = {}
        parcel.refused = False
        for name in parcel.names:
            ref = Ref(CONFIG_MAP, self._namespace, name)
            if not _NAME.fullmatch(name):
                # The CRD takes none such. It would lead to another place than the operator's namespace.
                problem = Problem(where=str(ref), what="cannot be read: it is no name", cure="correct spec.source")
                raise TemplateError([problem])
            try:
                lives[str(ref)] = live = await self._cluster.get(ref)
            except Rejected as exc:
                parcel.refused = True
                cure = f"whoever reads it needs get, list and watch on ConfigMaps in namespace {self._namespace}"
                raise TemplateError([Problem(where=str(ref), what=f"cannot be read: {exc}", cure=cure)]) from exc
            parcel.versions[name] = "" if live is None else live["metadata"]["resourceVersion"]
        return lives

    def _take(self, template: str, parcel: _Parcel, found: Found) -> None:
        before, parcel.found = parcel.found, found
        parcel.tried.set()
        if found is before or (isinstance(found, TemplateError) and str(found) == str(before)):
            return
        about = {"template": template, "configmaps": list(parcel.names)}
        if isinstance(found, TemplateError):
            log.error("template set cannot be used", extra={**about, "error": str(found)})
        else:
            log.info("template set read", extra={**about, "digest": found.template_set.digest})
        self._changed(template)


def _version_only(live: Manifest) -> Manifest:
    meta = live["metadata"]
    return {"metadata": {key: meta[key] for key in ("name", "namespace", "resourceVersion")}}
