"""ControllerTemplates: the set that one names, what it leaves to others, and what is wrong with it."""

from typing import Final

from metaoperator.catalogue import Catalogue
from metaoperator.core import ignore, shard
from metaoperator.core.errors import RetryableError, Stalled, TemplateError, ValuesError
from metaoperator.core.ignore import Ignored
from metaoperator.core.model import CONTROLLER_TEMPLATE, Manifest, Namespace, Ref
from metaoperator.core.names import Reason
from metaoperator.core.render import Program
from metaoperator.core.status import Note
from metaoperator.mirror import Mirror

ROLL_UP_SECONDS: Final = 5.0


class Templates:
    """Knows the compiled set of each ControllerTemplate."""

    def __init__(self, mirror: Mirror, catalogue: Catalogue) -> None:
        """Remember nothing of a look."""
        self._mirror = mirror
        self._catalogue = catalogue

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

    def ignored(self, template: Manifest) -> tuple[Ignored, ...]:
        """Read what a ControllerTemplate leaves to others; `Stalled` for what can be left to nobody.

        Where the set cannot be used, its children are kept as they are, and so is what is left of them.
        """
        found = ignore.read(template)
        try:
            kinds = self.program(template).template_set.kinds
        except Stalled:
            return found
        if faults := list(ignore.faults(found, kinds)):
            raise Stalled(Reason.IGNORE_FIELDS_INVALID, "; ".join(map(str, faults)))
        return found

    def judge(self, template: Manifest) -> tuple[str, Note | None]:
        """Name the revision of the set with the fleet's values, empty for none, and what is wrong with it."""
        values = template["spec"].get("values") or {}
        try:
            program = self.program(template)
            program.effective(fleet=values, namespace={})
            return program.revision(values), _unmatched(template, program, self.ignored(template))
        except Stalled as exc:
            return "", Note(reason=exc.reason, message=exc.message)
        except ValuesError as exc:
            return "", Note(reason=Reason.VALUES_INVALID, message=str(exc))


def _unmatched(template: Manifest, program: Program, left: tuple[Ignored, ...]) -> Note | None:
    """Look for typos in `ignoreFields`: namespaces are served with them, but nothing would be left to anybody.

    What a namespace's own values add to its objects is not known here: the fleet's values decide.
    """
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
