"""Options and arguments that several commands share, and what makes them usable."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from metaoperator import sources
from metaoperator.core import names, optin
from metaoperator.core.errors import ConfigError
from metaoperator.core.render import Program


class NamespaceName(click.ParamType[str]):
    """A name that a Namespace can have; anything else is a wrong call, before anything is asked."""

    name = "namespace"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        """Hand the name on as it is."""
        if (why := optin.misnamed(str(value))) is not None:
            raise ConfigError(f"{value!r} is no name of a namespace: {why}")
        return str(value)


NAMESPACE: Final = NamespaceName()
DIRECTORY: Final = click.Path(exists=True, file_okay=False, path_type=Path)
FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)

templates = click.option(
    "--templates",
    multiple=True,
    type=DIRECTORY,
    help="A directory of further template sets; repeatable. A set of the same name replaces the shipped one.",
)
kubeconfig = click.option(
    "--kubeconfig", envvar="KUBECONFIG", help="The kubeconfig to use; several, as in $KUBECONFIG, are merged."
)

operator_namespace = click.option(
    "--operator-namespace",
    default=names.OPERATOR_NAMESPACE,
    show_default=True,
    type=NAMESPACE,
    help="The operator's own namespace, which is never served.",
)
deny = click.option(
    "--deny",
    multiple=True,
    metavar="NAMESPACE",
    type=NAMESPACE,
    help="A namespace that is never served; repeatable.",
)


def refuse_unserved(namespace: str) -> None:
    """Raise `ConfigError` for a namespace that the operator never serves."""
    if (why := optin.refusal(namespace, own_namespace=names.OPERATOR_NAMESPACE, denied=frozenset())) is not None:
        raise ConfigError(f"namespace {namespace} {why}, and is never served")


def program(set_name: str, templates: Sequence[Path]) -> Program:
    """Load one template set, or raise why it cannot be used; the others may be as they are."""
    programs = sources.programs((sources.shipped(), *templates), keep=True)
    found = programs.get(set_name)
    if found is None:
        there = sorted(name for name, each in programs.items() if isinstance(each, Program))
        raise ConfigError(f"no template set {set_name}; there are: {', '.join(there) or 'none'}")
    if not isinstance(found, Program):
        raise found
    return found


def pairs(labels: Sequence[str]) -> dict[str, str]:
    """Read `--label KEY=VALUE`; the value may hold more `=`, and be empty."""
    split = [label.partition("=") for label in labels]
    if wrong := [label for label, (key, sign, _) in zip(labels, split, strict=True) if not (key and sign)]:
        raise ConfigError(f"--label wants KEY=VALUE, not {wrong[0]}")
    return {key: value for key, _, value in split}
