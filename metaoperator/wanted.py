"""What a namespace should hold: which row and which instance ID it has, and what is rendered for it."""

from collections.abc import Sequence

from metaoperator import publish, recent
from metaoperator.adopt import Adopter
from metaoperator.core import names, shard
from metaoperator.core.errors import Rejected, Stalled, TemplateError, ValuesError
from metaoperator.core.ignore import Ignored
from metaoperator.core.model import Desired, Manifest, Namespace
from metaoperator.core.names import Reason
from metaoperator.core.shard import Policy
from metaoperator.core.status import Note
from metaoperator.fleet import Fleet
from metaoperator.recent import Recent
from metaoperator.recorder import Recorder
from metaoperator.row import Row
from metaoperator.templates import Templates, ignored


class Wanted:
    """Finds out, and says `Stalled` where a person has to mend something first."""

    def __init__(self, fleet: Fleet, recorder: Recorder, *, row: Row, adopter: Adopter, templates: Templates) -> None:
        """Remember only what was rendered last: a cache."""
        self._fleet = fleet
        self._recorder = recorder
        self._row = row
        self._adopter = adopter
        self._templates = templates
        self._recent = Recent()

    def forget(self, namespace: str) -> None:
        """Drop what is remembered of one namespace."""
        self._recent.forget(namespace)

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
    ) -> tuple[Desired, Sequence[Ignored], Note | None]:
        """Say what the namespace should hold, what of it is left to others, and what a person should know.

        `Stalled` when a person has to mend something first.
        """
        if found is None or instance is None:
            raise Stalled(
                Reason.TEMPLATE_NOT_FOUND,
                f"no ControllerTemplate is named {template}: nothing is created, changed "
                f"or removed; correct the label {names.OPT_IN_LABEL} or create the ControllerTemplate",
            )
        child = self._fleet.observe(namespace.name, instance).rendered_for(namespace)
        remark = self._fleet.around.check(namespace.name, instance, child=child)
        desired, left = self._desired(namespace, found, wfc, instance)
        await self._row.spec_found(namespace, wfc, desired)
        return desired, left, remark

    def _desired(
        self, namespace: Namespace, template: Manifest, wfc: Manifest, instance: str
    ) -> tuple[Desired, tuple[Ignored, ...]]:
        """Render what the namespace should hold, and find what of it is left to others.

        `Stalled` when a person has to mend something first.
        """
        try:
            program = self._templates.program(template)
            desired = self._recent.desired(
                namespace.name,
                (program, namespace, instance, recent.spec_of(template), recent.spec_of(wfc)),
                lambda: program.desired(
                    namespace,
                    shard.only_shard(instance),
                    template_name=template["metadata"]["name"],
                    fleet_values=template["spec"].get("values") or {},
                    namespace_values=wfc["spec"].get("values") or {},
                ),
            )
        except ValuesError as exc:
            raise Stalled(Reason.VALUES_INVALID, str(exc)) from exc
        except TemplateError as exc:
            raise Stalled(Reason.TEMPLATE_INVALID, str(exc)) from exc
        return desired, ignored(template, program)
