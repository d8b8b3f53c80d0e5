"""Options and arguments that several commands share, and what makes them usable."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from metaoperator import inputs, sources
from metaoperator.core import names, optin, paths
from metaoperator.core.errors import ConfigError, Problem, TemplateError
from metaoperator.core.model import CONTROLLER_TEMPLATE, Kind, Manifest
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


def controller_templates(files: Sequence[Path]) -> dict[str, Manifest]:
    """Read the ControllerTemplates of manifests; `TemplateError` for a file with none, or for one without a source."""
    found: dict[str, Manifest] = {}
    problems: list[Problem] = []
    for file in files:
        read = inputs.read([file])
        problems += [Problem(where=each.file, line=each.line, what=each.what, cure=each.cure) for each in read.findings]
        mine = [each for each in read.documents if _kind(each.body) == CONTROLLER_TEMPLATE]
        if not mine and not read.findings:
            problems.append(Problem(where=str(file), what="holds no ControllerTemplate", cure="name its manifest"))
        for each in mine:
            name = paths.mapping(each.body, "metadata").get("name")
            if isinstance(name, str) and isinstance(paths.mapping(each.body, "spec", "source").get("directory"), str):
                found[name] = each.body
                continue
            what = f"ControllerTemplate {name or 'without a name'} has no spec.source.directory"
            cure = "for another source: leave the file out, and say with --set which set it stands for"
            problems.append(Problem(where=str(file), line=each.place.line, what=what, cure=cure))
    if problems:
        raise TemplateError(problems)
    return found


def _kind(body: Manifest) -> Kind:
    return Kind(str(body["apiVersion"]), str(body["kind"]))


def pairs(given: Sequence[str], option: str = "--label", shape: str = "KEY=VALUE") -> dict[str, str]:
    """Read `--label KEY=VALUE`, or another option like it; the value may hold more `=`, and be empty."""
    split = [each.partition("=") for each in given]
    if wrong := [each for each, (key, sign, _) in zip(given, split, strict=True) if not (key and sign)]:
        raise ConfigError(f"{option} wants {shape}, not {wrong[0]}")
    return {key: value for key, _, value in split}
