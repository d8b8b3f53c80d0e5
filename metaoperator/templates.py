"""ControllerTemplates: the set that one names, what it leaves to others, and its status."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from metaoperator.catalogue import Catalogue
from metaoperator.cluster import Cluster
from metaoperator.core import ignore, names, shard, status
from metaoperator.core.errors import RetryableError, Stalled, TemplateError, ValuesError
from metaoperator.core.ignore import Ignored
from metaoperator.core.model import CONTROLLER_TEMPLATE, WORKFLOW_CONTROLLER, Manifest, Namespace, Ref
from metaoperator.core.names import Reason
from metaoperator.core.render import Program
from metaoperator.core.status import Note
from metaoperator.mirror import Mirror
from metaoperator.recorder import Recorder

ROLL_UP_SECONDS: Final = 5.0


class Templates:
    """Knows the compiled sets by their names, and writes the status of the ControllerTemplates that name them."""

    def __init__(
        self,
        cluster: Cluster,
        mirror: Mirror,
        recorder: Recorder,
        catalogue: Catalogue,
        *,
        wall_clock: Callable[[], datetime],
    ) -> None:
        """Remember nothing of a look."""
        self._cluster = cluster
        self._mirror = mirror
        self._recorder = recorder
        self._catalogue = catalogue
        self._wall_clock = wall_clock

    def program(self, template: Manifest) -> Program:
        """Find the compiled set that a ControllerTemplate names; `Stalled` when it cannot be used."""
        program = self._catalogue.get(template)
        if program is None:
            raise RetryableError(f"ControllerTemplate/{template['metadata']['name']}: its set is still being read")
        if isinstance(program, TemplateError):
            raise Stalled(Reason.TEMPLATE_INVALID, str(program))
        return program

    async def find(self, name: str) -> Manifest | None:
        """Read a ControllerTemplate, and see to it that its set is known; `None` where there is none of that name."""
        live = await self._mirror.get(Ref(CONTROLLER_TEMPLATE, "", name))
        if live is None:
            self._catalogue.forget(name)
        else:
            await self._catalogue.load(live)
        return live

    async def publish(self, name: str) -> float | None:
        """Reconcile the status of one ControllerTemplate."""
        live = await self.find(name)
        if live is None or "deletionTimestamp" in live["metadata"]:
            return None
        if not self._mirror.whole(WORKFLOW_CONTROLLER):
            return ROLL_UP_SECONDS
        fault: Note | None = None
        revision = ""
        try:
            fleet_values = live["spec"].get("values") or {}
            program = self.program(live)
            program.effective(fleet=fleet_values, namespace={})
            revision = program.revision(fleet_values)
            fault = _unmatched(live, program)
        except Stalled as exc:
            fault = Note(reason=exc.reason, message=exc.message)
        except ValuesError as exc:
            fault = Note(reason=Reason.VALUES_INVALID, message=str(exc))
        users = [
            wfc for wfc in self._mirror.copies(WORKFLOW_CONTROLLER) if (wfc.get("status") or {}).get("template") == name
        ]
        ready = [wfc for wfc in users if status.condition(wfc["status"], names.Condition.READY).get("status") == "True"]
        published = status.ours(live.get("status") or {})
        wanted = status.controller_template(
            generation=live["metadata"]["generation"],
            fault=fault,
            revision=revision,
            total=len(users),
            ready=len(ready),
            previous=published,
            now=self._wall_clock(),
        )
        if wanted != published:
            self._mirror.learn(await self._cluster.apply_status(live, wanted))
        if fault is not None and status.condition(published, names.Condition.READY).get("message") != fault.message:
            await self._recorder.tell(live, fault.reason, fault.message, warning=True)
        return None


def ignored(template: Manifest, program: Program) -> tuple[Ignored, ...]:
    """Read what a ControllerTemplate leaves to others; `Stalled` for what can be left to nobody."""
    found = ignore.read(template)
    if faults := list(ignore.faults(found, program.template_set.kinds)):
        raise Stalled(Reason.IGNORE_FIELDS_INVALID, "; ".join(map(str, faults)))
    return found


def _unmatched(template: Manifest, program: Program) -> Note | None:
    """Look for typos in `ignoreFields`: namespaces are served with them, but nothing would be left to anybody.

    What a namespace's own values add to its objects is not known here: the fleet's values decide.
    """
    left = ignored(template, program)
    if not left:
        return None
    sample = Namespace(name="example", uid="example")
    try:
        desired = program.desired(
            sample,
            shard.only_shard(shard.instance_id(sample.name, shard.policy(template))),
            template_name=template["metadata"]["name"],
            fleet_values=template["spec"].get("values") or {},
            namespace_values={},
        )
    except TemplateError:
        return None  # whoever is served with it is told
    faults = list(ignore.unmatched(left, desired.documents))
    return Note(reason=Reason.IGNORE_FIELDS_INVALID, message="; ".join(map(str, faults))) if faults else None
