"""The command `metaoperator`: the door. What each command does stands in `commands`, one module each.

Only the module of the command that is called is imported: kopf and kubernetes take half a second, and `render` and
`validate` are used in commit hooks. What a person can mend ends in a sentence on standard error, and in one of these
exit codes, the same for every command (`telling.EXIT_CODES`, shown below each `--help`).
"""

import contextlib
import importlib
import os
import sys
from typing import Final

import click

from metaoperator import __version__
from metaoperator.commands import telling
from metaoperator.core.errors import (
    ConfigError,
    Gone,
    MetaoperatorError,
    Rejected,
    RetryableError,
    TemplateError,
    Unauthorized,
    ValuesError,
)

COMMANDS: Final = {
    "run": "Run the operator until it is told to stop.",
    "render": "Show what a namespace would get; no cluster is needed.",
    "validate": "Find every fault of template sets, values and manifests; no cluster is needed.",
    "diff": "Show what would change in the cluster if the operator applied sets and values now.",
    "preflight": "Show what a cluster lacks before the first label.",
    "status": "Show every opted-in namespace: is its controller ready, and if not, why.",
    "rollout": "Show how the fleet is moved to another revision, and steer it: pause, resume, approve, undo.",
    "explain": "Say which controller a Workflow belongs to, why it waits, and what to do.",
    "env": "Print what the Argo CLI needs for a namespace.",
}


class _Door(click.Group):
    """Knows its commands by name, and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"metaoperator.commands.{cmd_name}").command
        command.epilog = telling.EXIT_CODES
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Door, epilog=telling.EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def metaoperator() -> None:
    """One Argo workflow-controller in every namespace that opts in."""


def main() -> None:
    """Run the command; what a person can mend ends in a sentence, never in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        # Whatever the locale says: what we print is data for other programs, and names hold any character.
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = _run()
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        code = telling.UNREAD
    except OSError as exc:
        # Ours are errors of our own tree by now: what is left is an output that cannot be written.
        code = _tell(f"the output cannot be written: {exc.strerror or exc}", code=telling.WRONG)
    if code in {telling.UNREAD, telling.WRONG}:
        _drop_output()
    sys.exit(code)


def _run() -> int:
    if "_METAOPERATOR_COMPLETE" in os.environ:  # a shell asks for completions
        metaoperator.main(standalone_mode=False)
    try:
        # Not by click's own `main`, which ends with 1 where nobody reads the output: that would be a "no".
        with metaoperator.make_context("metaoperator", sys.argv[1:]) as context:
            done = metaoperator.invoke(context)
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except (EOFError, KeyboardInterrupt):
        return telling.STOPPED
    except click.Abort:
        return telling.STOPPED
    except click.ClickException as exc:
        exc.show()
        return telling.WRONG
    except MetaoperatorError as exc:
        return _answer(exc)
    return done if isinstance(done, int) else 0


def _answer(error: MetaoperatorError) -> int:
    match error:
        case TemplateError() | ValuesError():
            return _tell(*map(str, error.problems), code=telling.NO)
        case ConfigError():
            return _tell(str(error), code=telling.WRONG)
        case Unauthorized():
            cure = "it does not take the credentials: renew those that the kubeconfig names"
            return _tell(f"the cluster did not answer: {error} ({cure})", code=telling.UNREACHABLE)
        case RetryableError():
            return _tell(f"the cluster did not answer: {error}", code=telling.UNREACHABLE)
        case Rejected() | Gone():
            return _tell(f"the cluster refused: {error}", code=telling.UNREACHABLE)
    return _tell(str(error), code=telling.NO)


def _tell(*messages: str, code: int) -> int:
    for message in messages:
        click.echo(f"error: {telling.printable(message)}", err=True)
    return code


def _drop_output() -> None:
    """Let the interpreter's last flush succeed: otherwise it complains, in words of its own, of what was told."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
