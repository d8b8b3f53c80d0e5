"""kopf: an event becomes a name in the queue, nothing else. A handler cannot fail and returns nothing.

Only `on.event` is used. Every other kind of handler (create, update, delete, resume, timer, daemon) makes kopf write
annotations or finalizers on the objects it watches: on other people's Namespaces.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

import kopf

from metaoperator.core import names
from metaoperator.core.model import CONTROLLER_TEMPLATE, NAMESPACE, WORKFLOW_CONTROLLER, Kind, Ref
from metaoperator.mirror import Mirror
from metaoperator.templates import ROLL_UP_SECONDS

Ask = Callable[[str, float], None]

TEMPLATE_KEY: Final = "template/"
"""Prefix of the queue's names that mean a ControllerTemplate; a namespace's name holds no slash."""


class _NoDiffBase(kopf.DiffBaseStorage):
    """kopf would store a copy of each object in an annotation of it."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None


class _NoProgress(kopf.ProgressStorage):
    """kopf would store handlers' progress in annotations."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None

    def purge(self, **_: Any) -> None:
        return None

    def touch(self, **_: Any) -> None:
        return None

    def clear(self, *, essence: Any) -> Any:
        return essence


class JitteredForever:
    """An endless series of seconds: kopf's own ends after 54 and takes the operator with it."""

    def __init__(self, first: float, longest: float) -> None:
        """Double from `first` up to `longest`, each spread by half."""
        self._first = first
        self._longest = longest

    def __iter__(self) -> Iterator[float]:
        """Begin anew."""
        delay = self._first
        while True:
            yield delay * (0.5 + random.random() / 2)
            delay = min(delay * 2, self._longest)


def settings() -> kopf.OperatorSettings:
    """Make settings in which each line answers a fault that was seen, in kopf 1.45 or in other operators."""
    made = kopf.OperatorSettings()
    # kopf takes away any finalizer of this name, and its default is shared by all kopf operators.
    made.persistence.finalizer = f"{names.GROUP}/never-used"
    made.persistence.diffbase_storage = _NoDiffBase()
    made.persistence.progress_storage = _NoProgress()
    made.persistence.consistency_timeout = 0
    made.posting.enabled = False
    made.peering.standalone = True  # somebody's peering object `default` would pause us
    # The key must be a tuple; the spelling of kopf's own docs matches nothing, in silence.
    made.watching.label_selectors["v1", "namespaces"] = names.OPT_IN_LABEL
    made.watching.initial_streaming = False
    made.watching.server_timeout = 290 + random.randint(0, 60)
    made.watching.inactivity_timeout = 75
    made.networking.connect_timeout = 10
    made.networking.request_timeout = 30
    made.networking.error_backoffs = JitteredForever(1, 30)
    made.queueing.idle_timeout = 0.5
    made.scanning.disabled = True  # kopf would watch all CustomResourceDefinitions, which we need not see
    made.process.ultimate_exiting_timeout = None
    return made


def registry(mirror: Mirror, ask: Ask, login: Callable[..., Any]) -> kopf.OperatorRegistry:
    """Register the handlers on a registry of their own: importing this module changes nothing."""
    made = kopf.OperatorRegistry()
    counted: dict[str, str] = {}

    @kopf.on.event("v1", "namespaces", id="namespace", registry=made)
    async def namespace(event: Any, **_: Any) -> None:
        if (ref := _news(mirror, NAMESPACE, event)) is not None:
            ask(ref.name, 0.0)

    @kopf.on.event(names.GROUP, "v1alpha1", "workflowcontrollers", id="workflow-controller", registry=made)
    async def workflow_controller(event: Any, **_: Any) -> None:
        if (ref := _news(mirror, WORKFLOW_CONTROLLER, event)) is not None:
            ask(ref.namespace, 0.0)
        # Both that it counts for now and that it counted for: one loses what the other gains. The mirror cannot tell
        # the latter: it knows our own write before its event comes.
        where = event["object"]["metadata"]["namespace"]
        now = (event["object"].get("status") or {}).get("template", "")
        before = counted.pop(where, "")
        if event.get("type") != "DELETED" and now:
            counted[where] = now
        for template in sorted({now, before} - {""}):
            ask(f"{TEMPLATE_KEY}{template}", ROLL_UP_SECONDS)

    @kopf.on.event(names.GROUP, "v1alpha1", "controllertemplates", id="controller-template", registry=made)
    async def controller_template(event: Any, **_: Any) -> None:
        if (ref := _news(mirror, CONTROLLER_TEMPLATE, event)) is not None:
            ask(f"{TEMPLATE_KEY}{ref.name}", 0.0)
            for name in mirror.opted_in():
                ask(name, 0.0)

    kopf.on.login(id="login", registry=made)(login)
    return made


def _news(mirror: Mirror, kind: Kind, event: Any) -> Ref | None:
    meta = event["object"]["metadata"]
    ref = Ref(kind, meta.get("namespace", ""), meta["name"])
    # DELETED says only that it left the selector, and comes with its previous body: a live GET decides.
    version = "" if event.get("type") == "DELETED" else meta["resourceVersion"]
    return ref if mirror.saw(ref, version) else None
