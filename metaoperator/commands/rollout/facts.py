"""What the commands on rollouts read: a ControllerTemplate, and what is recorded of its revisions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import click

from metaoperator.cluster import Cluster, Selection
from metaoperator.core import names, optin, revision
from metaoperator.core.errors import ConfigError, MetaoperatorError
from metaoperator.core.model import CONTROLLER_REVISION, CONTROLLER_TEMPLATE, Manifest, Ref
from metaoperator.core.revision import Head, SetHead
from metaoperator.core.status import condition

_KINDS: Final = frozenset({"controllertemplate", "controllertemplates", "wct"})
_SELECTOR: Final = f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY},{names.RECORD_LABEL}"


class Refused(MetaoperatorError):
    """What was asked for cannot be done as things stand; nothing was written."""


class TemplateName(click.ParamType[str]):
    """The name of a ControllerTemplate, with its kind before it or without, as kubectl takes it."""

    name = "template"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        """Take the kind off; another kind, or no name, is a wrong call."""
        kind, slash, name = str(value).rpartition("/")
        if slash and kind.removesuffix(f".{names.GROUP}").lower() not in _KINDS:
            raise ConfigError(f"{value!r} is no ControllerTemplate: give NAME, or controllertemplate/NAME")
        if not name or any(optin.misnamed(part) is not None for part in name.split(".")):
            raise ConfigError(f"{name!r} is no name of a ControllerTemplate")
        return name


template_argument = click.argument("template", type=TemplateName(), default=names.DEFAULT_TEMPLATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What is recorded: sets by their revision, the newest first, and the current head of each namespace."""

    sets: Mapping[str, SetHead] = field(default_factory=dict)
    heads: tuple[Head, ...] = ()

    def recorded(self, template: str, wanted: str) -> SetHead:
        """Find one set revision; `Refused` lists those that there are."""
        if wanted not in self.sets:
            there = ", ".join(self.sets) or "none"
            raise Refused(f"revision {wanted} of ControllerTemplate/{template} is not recorded; there are: {there}")
        return self.sets[wanted]


async def find(cluster: Cluster, name: str) -> Manifest:
    """Read a ControllerTemplate; `Refused` where it is not there."""
    live = await cluster.get(Ref(CONTROLLER_TEMPLATE, "", name))
    if live is None:
        raise Refused(f"ControllerTemplate/{name} is not there: kubectl get controllertemplates lists them")
    return live


async def books(cluster: Cluster, home: str, template: str) -> Books:
    """Read what is recorded of a ControllerTemplate in the operator's namespace, without any content."""
    sets: dict[str, SetHead] = {}
    heads: dict[str, Head] = {}
    selection = Selection(kind=CONTROLLER_REVISION, label_selector=_SELECTOR, metadata_only=True, namespace=home)
    async for page in cluster.list_pages(selection):
        for item in page["items"]:
            head, _ = revision.head(item)
            if isinstance(head, SetHead) and head.template == template:
                known = sets.get(head.set_revision)
                sets[head.set_revision] = head if known is None or known.number < head.number else known
            elif isinstance(head, Head):
                last = heads.get(head.namespace_uid)
                heads[head.namespace_uid] = head if last is None or last.number < head.number else last
    newest = sorted(sets.values(), key=lambda each: each.number, reverse=True)
    return Books(
        sets={each.set_revision: each for each in newest},
        heads=tuple(head for head in heads.values() if head.template == template),
    )


def told(live: Manifest) -> Mapping[str, Any]:
    """Hand out what the operator said last of the rollout; empty for nothing."""
    found: Mapping[str, Any] = (live.get("status") or {}).get("rollout") or {}
    return found


def stale(live: Manifest) -> bool:
    """Tell whether the operator has yet to look at the newest spec."""
    seen = (live.get("status") or {}).get("observedGeneration")
    return bool(seen != live["metadata"].get("generation"))


def reason(live: Manifest) -> str:
    """Name what goes on, or what keeps it from going on, in the operator's one word; empty for nothing."""
    for kind in (names.Condition.STALLED, names.Condition.RECONCILING):
        found = condition(live.get("status") or {}, kind)
        if found.get("status") == "True":
            return str(found.get("reason", ""))
    return ""


def said(live: Manifest) -> Mapping[str, Any]:
    """Hand out `spec.rollout`; empty for none."""
    found: Mapping[str, Any] = live["spec"].get("rollout") or {}
    return found
