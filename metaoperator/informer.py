"""List and watch one selection, kept true across every kind of cut.

What kopf's own watching gets wrong stands in its place here: objects deleted while nobody watched are found by
comparing the store with each new list; 410 comes as a status and as an event; any other error backs off and goes
on; a stream that falls silent is cut by a read timeout, since bookmarks come about once a minute.

The store keeps compact JSON text and decodes on demand: a Deployment costs 2 KiB in place of 18.
"""

import asyncio
import json
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from metaoperator.cluster import Cluster, Selection
from metaoperator.core import names
from metaoperator.core.errors import Expired, Gone, Rejected, RetryableError, Throttled
from metaoperator.core.model import Manifest, Ref

log = logging.getLogger(__name__)

Project = Callable[[Manifest], Manifest | None]
"""Cut an object down to what is needed; `None` leaves it out of the store altogether."""

Changed = Callable[[Ref, Manifest | None, Manifest | None], None]
"""Told of each change: before and after, `None` for absent. It must not raise and must not wait."""

READ_TIMEOUT: Final = 75.0
LONGEST_BACKOFF: Final = 30.0
ABSENT_PAUSE: Final = 150.0
"""Seconds at most after which a kind that is not installed, and that nothing rests on, is looked for again. Below the
silence after which the operator counts as unhealthy."""
LONGEST_GAP: Final = 15.0
"""Seconds of silence after which it was we who were cut off: what changed meanwhile comes in its own time."""
PATIENCE: Final = 2
"""So many watches in a row may end without a word before everything is listed anew."""


class Informer:
    """One selection, mirrored. `synced` once a whole list was read; never unsynced again, only late."""

    def __init__(
        self,
        cluster: Cluster,
        selection: Selection,
        *,
        project: Project,
        changed: Changed,
        read_timeout: float = READ_TIMEOUT,
        absent_pause: float = LONGEST_BACKOFF,
    ) -> None:
        """Nothing is sent before `run`; a kind that is not installed is looked for every `absent_pause` seconds."""
        self.selection = selection
        self.kind_missing = False
        self.refused = ""
        self.heard_at = 0.0
        self.resumed_at = 0.0
        self._cluster = cluster
        self._project = project
        self._changed = changed
        self._read_timeout = read_timeout
        self._absent_pause = absent_pause
        self._synced = asyncio.Event()
        self._was_absent = asyncio.Event()
        self._texts: dict[str, dict[str, tuple[int, str]]] = {}
        self._version = ""
        self._highest = 0
        self._silences = 0

    @property
    def synced(self) -> bool:
        """Tell whether the store holds at least one whole list (or the kind is proven absent)."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return once `synced`."""
        await self._synced.wait()

    async def wait_absent(self) -> None:
        """Return once the kind was found not to be installed."""
        await self._was_absent.wait()

    # ---- reading

    def get(self, namespace: str, name: str) -> Manifest | None:
        """Decode one object of the store."""
        found = self._texts.get(namespace, {}).get(name)
        return None if found is None else json.loads(found[1])

    def version(self, namespace: str, name: str) -> int | None:
        """Tell the newest resource version that was seen of an object."""
        found = self._texts.get(namespace, {}).get(name)
        return None if found is None else found[0]

    def within(self, namespace: str) -> Iterator[Manifest]:
        """Decode the objects of one namespace, sorted by name."""
        for _, (_, text) in sorted(self._texts.get(namespace, {}).items()):
            yield json.loads(text)

    def holds(self, namespace: str) -> bool:
        """Tell whether there is any object of this namespace."""
        return namespace in self._texts

    def namespaces(self) -> frozenset[str]:
        """Name the namespaces that hold at least one object."""
        return frozenset(self._texts)

    def learn(self, live: Manifest) -> None:
        """Take over what a write answered, so that the next look sees it before its watch event arrives."""
        self._store(live)

    # ---- running

    async def run(self) -> None:
        """Keep the store true until cancelled."""
        delay = 1.0
        while True:
            started, after = asyncio.get_running_loop().time(), 0.0
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except Expired:
                self._version = ""
            except Gone as gone:
                self._absent(gone)
                delay = self._absent_pause
            except Rejected as exc:
                # A person has to grant the verb, or to take the kind out of the template set.
                log.error("may not watch", extra={"selection": str(self.selection), "error": str(exc)})  # noqa: TRY400
                self.refused = str(exc)
                delay = LONGEST_BACKOFF
            except Throttled as told:
                log.warning("asked to wait", extra={"selection": str(self.selection), "error": str(told)})
                after = min(told.after, ABSENT_PAUSE)
            except RetryableError as exc:
                log.warning("watch interrupted", extra={"selection": str(self.selection), "error": str(exc)})
                self._count_silence(started)
            except Exception:
                # A bug or an answer nobody thought of: the store only gets late, and the log says why.
                log.exception("watch failed", extra={"selection": str(self.selection)})
                self._version = ""
            if asyncio.get_running_loop().time() - started > 2 * LONGEST_BACKOFF:
                delay = 1.0
            await asyncio.sleep(max(after + random.random(), delay * (0.5 + random.random() / 2)))
            delay = min(delay * 2, LONGEST_BACKOFF)

    async def read_once(self) -> None:
        """List without watching. A kind that is not there is one without objects; a refusal is kept in `refused`."""
        try:
            await self._list()
        except Gone as gone:
            self._absent(gone)
        except Rejected as exc:
            self.refused = str(exc)

    async def _list(self) -> None:
        """Read everything, then tell what changed since the last whole list, deletions included."""
        seen: dict[str, set[str]] = {}
        version = ""
        kind = self.selection.kind
        async for page in self._cluster.list_pages(self.selection):
            version = page["metadata"]["resourceVersion"]
            if int(version) < self._highest:
                self._distrust()
            self._highest = int(version)
            for item in page["items"]:
                # Items of a list carry no kind of their own.
                live = {**item, "apiVersion": kind.api_version, "kind": kind.kind}
                seen.setdefault(live["metadata"].get("namespace", ""), set()).add(live["metadata"]["name"])
                self._store(live)
            self._heard()
        for namespace, texts in list(self._texts.items()):
            for name in [name for name in texts if name not in seen.get(namespace, ())]:
                self._drop(namespace, name, at=int(version))
        self.kind_missing = False
        self.refused = ""
        self._version = version
        self._synced.set()

    async def _watch(self) -> None:
        server_timeout = 300 + random.uniform(0, 300)
        stream = self._cluster.watch(
            self.selection,
            resource_version=self._version,
            server_timeout=server_timeout,
            read_timeout=self._read_timeout,
        )
        kind = self.selection.kind
        async for event in stream:
            self._heard()
            live = event["object"]
            meta = live["metadata"]
            if int(meta["resourceVersion"]) < int(self._version):
                raise Expired(f"watch of {self.selection}: versions went back")  # etcd was restored: list anew
            self._version = meta["resourceVersion"]
            self._highest = max(self._highest, int(meta["resourceVersion"]))
            if event["type"] == "BOOKMARK":
                continue
            if event["type"] == "DELETED":
                self._drop(meta.get("namespace", ""), meta["name"], at=int(meta["resourceVersion"]))
            else:
                self._store({**live, "apiVersion": kind.api_version, "kind": kind.kind})

    def _count_silence(self, started: float) -> None:
        """List anew after watches without a word: not even a bookmark comes to who asks for a version yet to come."""
        self._silences += asyncio.get_running_loop().time() - started >= self._read_timeout
        if self._silences > PATIENCE:
            self._version = ""

    def _distrust(self) -> None:
        """Take every answer for newer than what is stored: etcd was restored, and versions begin again from below."""
        log.warning("versions went back", extra={"selection": str(self.selection)})
        for texts in self._texts.values():
            for name, (_, text) in texts.items():
                texts[name] = (0, text)

    def _absent(self, gone: Gone) -> None:
        """Take the whole kind for absent; its objects cannot exist without it."""
        if not self.kind_missing:
            log.warning("kind is not installed", extra={"selection": str(self.selection), "error": str(gone)})
        self.kind_missing = True
        self._was_absent.set()
        self._version = ""
        self._heard()
        for namespace, texts in list(self._texts.items()):
            for name in list(texts):
                self._drop(namespace, name)
        self._synced.set()

    def _heard(self) -> None:
        now = asyncio.get_running_loop().time()
        if self.heard_at and now - self.heard_at > LONGEST_GAP:
            self.resumed_at = now
        self.heard_at = now
        self._silences = 0

    # ---- the store

    def _store(self, live: Manifest) -> None:
        meta = live["metadata"]
        namespace, name, version = meta.get("namespace", ""), meta["name"], int(meta["resourceVersion"])
        known = self._texts.get(namespace, {}).get(name)
        if known is not None and known[0] >= version:
            return  # an older event than the answer to our own write
        projected = self._project(live)
        if projected is None:
            self._drop(namespace, name)
            return
        text = json.dumps(projected, separators=(",", ":"), ensure_ascii=False)
        if known is not None and known[1] == text:
            self._texts[namespace][name] = (version, text)
            return
        self._texts.setdefault(namespace, {})[name] = (version, text)
        self._changed(Ref.of(live), None if known is None else json.loads(known[1]), projected)

    def _drop(self, namespace: str, name: str, *, at: int | None = None) -> None:
        texts = self._texts.get(namespace, {})
        known = texts.get(name)
        if known is None or (at is not None and known[0] > at):
            return  # created anew by us after what this tells
        del texts[name]
        if not texts:
            del self._texts[namespace]
        self._changed(Ref(self.selection.kind, namespace, name), json.loads(known[1]), None)


# ---- projections


def without_noise(live: Manifest) -> Manifest:
    """Keep an object whole but for managedFields, of which only what other managers own beside the status is of use."""
    meta: dict[str, Any] = {
        key: value
        for key, value in live["metadata"].items()
        if key not in {"managedFields", "resourceVersion", "selfLink"}
    }
    entries = [_owner(entry) for entry in live["metadata"].get("managedFields") or ()]
    meta["managedFields"] = sorted(
        (entry for number, entry in enumerate(entries) if entry not in entries[:number]),
        key=lambda entry: (entry["manager"], entry.get("subresource", ""), json.dumps(entry, sort_keys=True)),
    )
    return {**live, "metadata": meta}


def _owner(entry: Mapping[str, Any]) -> dict[str, Any]:
    manager, subresource = entry.get("manager", ""), entry.get("subresource", "")
    if manager == names.FIELD_MANAGER or subresource == "status":
        return {"manager": manager}
    owner = {"manager": manager, "fieldsV1": entry.get("fieldsV1") or {}}
    return owner | ({"subresource": subresource} if subresource else {})


def pod(live: Manifest) -> Manifest:
    """Keep what tells whose a pod is and how it fares."""
    status: Mapping[str, Any] = live.get("status") or {}
    keep = ("phase", "conditions", "containerStatuses", "initContainerStatuses")
    meta = ("name", "namespace", "uid", "labels", "ownerReferences", "deletionTimestamp", "finalizers")
    return {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {key: live["metadata"][key] for key in meta if key in live["metadata"]},
        "status": {key: status[key] for key in keep if key in status},
    }


def labels_only(live: Manifest) -> Manifest:
    """Keep name and labels."""
    meta = live["metadata"]
    return {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {key: meta[key] for key in ("name", "namespace", "labels") if key in meta},
    }


def work(live: Manifest) -> Manifest:
    """Keep of a Workflow what tells who has to serve it, since when, and whether anybody does."""
    meta = live["metadata"]
    labels = meta.get("labels") or {}
    told = (names.INSTANCE_ID_LABEL, names.PHASE_LABEL, names.CRON_WORKFLOW_LABEL)
    kept = {key: labels[key] for key in told if key in labels}
    return {
        "metadata": {key: meta[key] for key in ("name", "uid", "creationTimestamp") if key in meta} | {"labels": kept}
    }
