"""`metaoperator rollout`: how a fleet is moved to another revision, looked at and steered, in kubectl's manner.

=============  =========================================================================
`status`       how far it is, and what it waits for; `--watch` follows it
`steering`     pause, resume, approve, undo: each writes fields of `spec.rollout`, as a person
`history`      the set revisions that are recorded
`written`      how such a field is written beside a GitOps tool, and taken out again
`view`         what is said of a rollout
`progress`     how it is said while it goes on
`facts`        what is read of a ControllerTemplate and its records
=============  =========================================================================
"""

import click

from metaoperator.commands import telling
from metaoperator.commands.rollout import history, status, steering


@click.group("rollout", epilog=telling.EXIT_CODES)
def command() -> None:
    """Look at how a fleet is moved to another revision, and steer it.

    TEMPLATE is a ControllerTemplate, as `default` or as `controllertemplate/default`. What is written is written by
    your own rights: fields of spec.rollout, as field manager metaoperator-cli.
    """


for each in (
    status.command,
    steering.pause_command,
    steering.resume_command,
    steering.approve_command,
    steering.undo_command,
    history.command,
):
    each.epilog = telling.EXIT_CODES
    command.add_command(each)
