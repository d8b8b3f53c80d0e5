"""What a namespace should hold: which row and which instance ID it has, and what is rendered for it."""

from collections.abc import Sequence
from dataclasses import dataclass

from metaoperator import publish
from metaoperator.adopt import Adopter
from metaoperator.core import names, shard
from metaoperator.core.errors import Rejected, Stalled, TemplateError, ValuesError
from metaoperator.core.ignore import Ignored
from metaoperator.core.model import Desired, Manifest, Namespace
from metaoperator.core.names import Reason
from metaoperator.core.shard import Policy
from metaoperator.core.status import Note
from metaoperator.fleet import Fleet
from metaoperator.holding import Holder, Holding
from metaoperator.recorder import Recorder
from metaoperator.row import Row
from metaoperator.templates import Templates


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What is to be in place now, what of it is left to others, and what a person should know besides.

    `desired` is `None` where nothing may be written. `waits` says what the next revision waits for, `fault` what a
    person has to mend before there is one.
    """

    desired: Desired | None = None
    ignored: Sequence[Ignored] = ()
    remark: Note | None = None
    waits: Note | None = None
    fault: Note | None = None


class Wanted:
    """Finds out, and says `Stalled` where a person has to mend something first."""

    def __init__(
        self,
        fleet: Fleet,
        recorder: Recorder,
        *,
        row: Row,
        adopter: Adopter,
        templates: Templates,
        holder: Holder | None = None,
    ) -> None:
        """Without a `holder`, everybody's turn is now, and nothing is recorded: that is how a preview looks."""
        self._fleet = fleet
        self._recorder = recorder
        self._row = row
        self._adopter = adopter
        self._templates = templates
        self._holder = holder

    async def ensure(self, namespace: Namespace, policy: Policy | None) -> tuple[Manifest, str | None, Stalled | None]:
        """Make sure of the row; when not even that may be, there is no status to tell it: an Event does.

        Where an install that is to be taken over may not be, its row gets no instance ID, and the refusal is handed on.
        """
        try:
            taken_over, refused = await self._adopter.instance_id(namespace, policy), None
        except Stalled as exc:
            taken_over, refused, policy = None, exc, None
        try:
            return *await self._row.ensure(namespace, policy, taken_over=taken_over), refused
        except Rejected as exc:
            meta = {"name": namespace.name, "uid": namespace.uid}
            message = f"{publish.wfc_ref(namespace.name)}: {exc.told}"
            about = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
            await self._recorder.tell(about, exc.reason, message, warning=True)
            raise

    async def of(
        self, namespace: Namespace, template: str, found: Manifest | None, wfc: Manifest, instance: str | None
    ) -> Want:
        """Say what the namespace should hold; `Stalled` when a person has to mend something first."""
        if found is None or instance is None:
            raise Stalled(
                Reason.TEMPLATE_NOT_FOUND,
                f"no ControllerTemplate is named {template}: nothing is created, changed "
                f"or removed; correct the label {names.OPT_IN_LABEL} or create the ControllerTemplate",
            )
        child = self._fleet.observe(namespace.name, instance).rendered_for(namespace)
        remark = self._fleet.around.check(namespace.name, instance, child=child)
        left = self._templates.ignored(found)
        if self._holder is None:
            holding = Holding(desired=self._rendered(namespace, found, wfc, instance))
        else:
            holding = await self._holder.hold(namespace, found, wfc, instance)
        if holding.desired is not None:
            await self._row.spec_found(namespace, wfc, holding.desired)
        fault = holding.fault
        return Want(
            desired=holding.desired,
            ignored=left,
            remark=remark or holding.remark,
            waits=holding.waits,
            fault=None if fault is None else Note(reason=fault.reason, message=fault.message),
        )

    def _rendered(self, namespace: Namespace, template: Manifest, wfc: Manifest, instance: str) -> Desired:
        try:
            return self._templates.program(template).desired(
                namespace,
                shard.only_shard(instance),
                template_name=template["metadata"]["name"],
                fleet_values=template["spec"].get("values") or {},
                namespace_values=(wfc.get("spec") or {}).get("values") or {},
            )
        except ValuesError as exc:
            raise Stalled(Reason.VALUES_INVALID, str(exc)) from exc
        except TemplateError as exc:
            raise Stalled(Reason.TEMPLATE_INVALID, str(exc)) from exc
