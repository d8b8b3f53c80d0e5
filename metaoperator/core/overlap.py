"""May a child be installed beside the other controllers that live? Two that act on one Workflow run it twice."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from metaoperator.core import names, serving
from metaoperator.core.names import Reason
from metaoperator.core.serving import Controller
from metaoperator.core.status import Note

_STAMP = "apply manifests/fleet, which holds it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What stands against a child, and what a person should know although nothing does."""

    stalled: Note | None = None
    remark: Note | None = None


def judge(mine: Controller, controllers: Collection[Controller], *, unstamped: str) -> Judgement:
    """Judge one child, there or yet to come; `unstamped` says why new Workflows get no ID, empty where they do.

    Two with the same ID, or a controller of all namespaces without an ID where nothing stamps, may not be: nothing is
    installed then, and what is installed stays as it is. A controller without an ID in the namespace itself is told.
    """
    if same := serving.overlapping(mine, controllers):
        which = f"with instance ID {mine.instance_id}" if mine.instance_id else "without an instance ID"
        return Judgement(
            stalled=Note(
                reason=Reason.OVERLAP,
                message=f"Workflows {which} here are served by {_told(same)} as well, and two controllers would each "
                "run them: nothing is installed or changed here until one of them is gone, or has another instance ID",
            )
        )
    if not mine.instance_id:
        return Judgement()  # nothing needs a stamp
    others = serving.servers(mine.sees, None, controllers)
    wide = [each for each in others if not each.sees]
    if unstamped and wide:
        return Judgement(
            stalled=Note(
                reason=Reason.OVERLAP,
                message=f"{unstamped}, so new Workflows here would go to {_told(wide)}: nothing is installed or "
                f"changed here until they are stamped ({_STAMP}), or until that controller is gone",
            )
        )
    remarks = []
    if unstamped:
        remarks.append(
            Note(
                reason=Reason.STAMPING_MISSING,
                message=f"{unstamped}: new Workflows without the label {names.INSTANCE_ID_LABEL} are served by "
                f"{_told(others) if others else 'nobody'} ({_STAMP})",
            )
        )
    if local := [each for each in others if each.sees]:
        remarks.append(
            Note(
                reason=Reason.NEIGHBOUR,
                message=f"{_told(local)} goes on with the Workflows here that have no instance ID; remove it when "
                "status.workflows.unlabelled is 0",
            )
        )
    if not remarks:
        return Judgement()
    return Judgement(remark=Note(reason=remarks[0].reason, message="; ".join(each.message for each in remarks)))


def _told(controllers: Sequence[Controller]) -> str:
    return ", ".join(map(str, controllers))
