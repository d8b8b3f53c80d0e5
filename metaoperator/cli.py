"""The command `metaoperator`.

Exit codes: 0 done · 1 the answer is no (a namespace is not ready, a template is at fault) · 2 called wrongly or
started with something that cannot work · 3 the cluster did not answer. Imports of kopf and kubernetes stay inside the
commands that need a cluster: `render` is used in commit hooks.
"""

import json
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from metaoperator import __version__, sources
from metaoperator.core import names, optin, shard, strictyaml
from metaoperator.core.errors import ConfigError, MetaoperatorError, RetryableError, TemplateError, ValuesError
from metaoperator.core.model import NAMESPACE, WORKFLOW_CONTROLLER, Manifest, Namespace, Ref
from metaoperator.core.names import Condition, Reason
from metaoperator.core.render import Program
from metaoperator.core.status import condition

if TYPE_CHECKING:
    from metaoperator.cluster import Cluster

NO: Final = 1
WRONG: Final = 2
UNREACHABLE: Final = 3

T = TypeVar("T")

_templates_option = click.option(
    "--templates",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A directory of further template sets; repeatable. A set of the same name replaces the shipped one.",
)
_kubeconfig_option = click.option("--kubeconfig", envvar="KUBECONFIG", help="The kubeconfig to use.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def metaoperator() -> None:
    """One Argo workflow-controller in every namespace that opts in."""


def main() -> None:
    """Run the command; what a person can mend ends in a sentence, never in a traceback."""
    try:
        metaoperator(standalone_mode=False)
    except click.exceptions.Exit as exc:
        sys.exit(exc.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as exc:
        exc.show()
        sys.exit(WRONG)
    except (TemplateError, ValuesError) as exc:
        _fail(*(f"error: {problem}" for problem in exc.problems))
    except ConfigError as exc:
        _fail(f"error: {exc}", code=WRONG)
    except RetryableError as exc:
        _fail(f"error: the cluster did not answer: {exc}", code=UNREACHABLE)
    except MetaoperatorError as exc:
        _fail(f"error: {exc}")


def _fail(*lines: str, code: int = NO) -> None:
    for line in lines:
        click.echo(line, err=True)
    sys.exit(code)


# ---- run


@metaoperator.command()
@_kubeconfig_option
@_templates_option
@click.option(
    "--namespace",
    envvar="POD_NAMESPACE",
    default=names.OPERATOR_NAMESPACE,
    show_default=True,
    help="The operator's own namespace: its Lease lives there, and it is never served.",
)
@click.option("--deny", multiple=True, metavar="NAMESPACE", help="A namespace that is never served; repeatable.")
@click.option("--port", default=8080, show_default=True, help="/healthz, /readyz and /metrics; 0 turns them off.")
@click.option(
    "--workers",
    default=16,
    show_default=True,
    type=click.IntRange(1, 256),
    help="Namespaces that are worked on at the same time.",
)
@click.option(
    "--log-level", default="info", show_default=True, type=click.Choice(["debug", "info", "warning", "error"])
)
@click.option("--log-format", type=click.Choice(["json", "text"]), help="Text on a terminal, otherwise JSON.")
def run(
    *,
    kubeconfig: str | None,
    templates: Sequence[Path],
    namespace: str,
    deny: Sequence[str],
    port: int,
    workers: int,
    log_level: str,
    log_format: str | None,
) -> None:
    """Run the operator until it is told to stop."""
    from metaoperator import logs, operator  # noqa: PLC0415 - kopf and kubernetes take 0.5 s to import
    from metaoperator.settings import Settings  # noqa: PLC0415

    logs.configure(level=log_level, text=log_format == "text" or (log_format is None and sys.stderr.isatty()))
    operator.run(
        Settings(
            kubeconfig=kubeconfig,
            namespace=namespace,
            templates=tuple(templates),
            deny=frozenset(deny),
            port=port,
            workers=workers,
        )
    )


# ---- render


@metaoperator.command()
@click.argument("namespace")
@_templates_option
@click.option("--set", "set_name", default="workflow-controller", show_default=True, help="The template set.")
@click.option(
    "--fleet-values",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Values as in a ControllerTemplate's spec.values.",
)
@click.option(
    "--values",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Values as in a WorkflowController's spec.values.",
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label of the namespace; repeatable.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def render(
    *,
    namespace: str,
    templates: Sequence[Path],
    set_name: str,
    fleet_values: Path | None,
    values: Path | None,
    labels: Sequence[str],
    output: str,
) -> None:
    """Show what NAMESPACE would get; no cluster is needed."""
    if (why := optin.misnamed(namespace)) is not None:
        raise ConfigError(f"{namespace!r} is no name of a namespace: {why}")
    if (why := optin.refusal(namespace, own_namespace=names.OPERATOR_NAMESPACE, denied=frozenset())) is not None:
        raise ConfigError(f"namespace {namespace} {why}, and is never served")
    programs = sources.programs((sources.shipped(), *templates))
    program = programs.get(set_name)
    if program is None:
        raise ConfigError(f"no template set {set_name}; there are: {', '.join(sorted(programs)) or 'none'}")
    if not isinstance(program, Program):
        raise program
    found = Namespace(name=namespace, uid="00000000-0000-0000-0000-000000000000", labels=_pairs(labels))
    desired = program.desired(
        found,
        shard.only_shard(found),
        template_name=names.DEFAULT_TEMPLATE,
        fleet_values=sources.values_file(fleet_values) if fleet_values else {},
        namespace_values=sources.values_file(values) if values else {},
    )
    if output == "json":
        items = {"apiVersion": "v1", "kind": "List", "items": list(desired.documents)}
        click.echo(json.dumps(items, indent=2))
    else:
        click.echo("---\n".join(strictyaml.dump_plain(document) for document in desired.documents), nl=False)


def _pairs(labels: Sequence[str]) -> dict[str, str]:
    pairs = [label.partition("=") for label in labels]
    if wrong := [label for label, (key, sign, _) in zip(labels, pairs, strict=True) if not (key and sign)]:
        raise ConfigError(f"--label wants KEY=VALUE, not {wrong[0]}")
    return {key: value for key, _, value in pairs}


# ---- status and env


@metaoperator.command()
@_kubeconfig_option
@click.option("-n", "--namespace", default="", help="Only this namespace.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def status(*, kubeconfig: str | None, namespace: str, output: str) -> None:
    """Show every opted-in namespace: is its controller ready, and if not, why.

    Exit code 1 if any is not, or if the one that was asked for is not opted in.
    """
    rows = _with_cluster(kubeconfig, lambda cluster: _rows(cluster, namespace))
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
    elif not rows:
        which = f"namespace {namespace} is not" if namespace else "no namespace is"
        click.echo(f"{which} opted in: kubectl label namespace {namespace or 'NAME'} {names.OPT_IN_LABEL}=enabled")
    else:
        click.echo(_table(rows), nl=False)
    resting = str(Reason.NOT_OPTED_IN)
    if any(row["READY"] != "True" and row["REASON"] != resting for row in rows) or (namespace and not rows):
        sys.exit(NO)


async def _rows(cluster: "Cluster", only: str) -> list[dict[str, str]]:
    from metaoperator.cluster import Selection  # noqa: PLC0415

    labelled: dict[str, Namespace] = {}
    found: dict[str, Manifest] = {}
    if only:  # two objects: a tenant may read no more
        if (raw := await cluster.get(Ref(NAMESPACE, "", only))) is not None:
            labelled[only] = Namespace.of(raw)
        if (wfc := await cluster.get(Ref(WORKFLOW_CONTROLLER, only, names.WORKFLOW_CONTROLLER))) is not None:
            found[only] = wfc
    else:
        labels = Selection(kind=NAMESPACE, label_selector=names.OPT_IN_LABEL, metadata_only=True)
        async for page in cluster.list_pages(labels):
            labelled |= {item["metadata"]["name"]: Namespace.of(item) for item in page["items"]}
        async for page in cluster.list_pages(Selection(kind=WORKFLOW_CONTROLLER)):
            found |= {item["metadata"]["namespace"]: item for item in page["items"]}
    rows = [_row(name, labelled.get(name), found.get(name)) for name in sorted({*labelled, *found})]
    return [row for row in rows if row is not None]


def _row(name: str, namespace: Namespace | None, wfc: Manifest | None) -> dict[str, str] | None:
    value = "" if namespace is None else namespace.labels.get(names.OPT_IN_LABEL, "")
    if wfc is None:
        if value in {"", names.OPTED_OUT}:
            return None
        why = optin.refusal(name, own_namespace=names.OPERATOR_NAMESPACE, denied=frozenset())
        reason, message = (
            ("NamespaceRefused", f"{why}: remove the label") if why else ("Unseen", "no operator has looked yet")
        )
        return _columns(name, "False", reason, {}, message)
    published: Mapping[str, Any] = wfc.get("status") or {}
    ready = condition(published, Condition.READY)
    stale = published.get("observedGeneration") != wfc["metadata"]["generation"]
    if not ready or stale:
        return _columns(name, "Unknown", "Unseen", published, "no operator has looked at the newest spec yet")
    shown = ready
    for kind in (Condition.STALLED, Condition.RECONCILING):
        other = condition(published, kind)
        if other.get("status") == "True":
            shown = other
            break
    return _columns(name, ready["status"], shown["reason"], published, shown["message"])


def _columns(name: str, ready: str, reason: str, published: Mapping[str, Any], message: str) -> dict[str, str]:
    work = published.get("workflows") or {}
    return {
        "NAMESPACE": name,
        "READY": ready,
        "REASON": reason,
        "TEMPLATE": published.get("template", ""),
        "REVISION": published.get("revision", ""),
        "VERSION": published.get("version", ""),
        "RUNNING": str(work.get("running", "")),
        "PENDING": str(work.get("pending", "")),
        "MESSAGE": message,
    }


def _table(rows: Sequence[Mapping[str, str]]) -> str:
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "".join(
        "   ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"
        for line in lines
    )


@metaoperator.command()
@click.argument("namespace")
@_kubeconfig_option
def env(*, namespace: str, kubeconfig: str | None) -> None:
    """Print what the Argo CLI needs for NAMESPACE: eval "$(metaoperator env NAMESPACE)"."""

    async def instance(cluster: "Cluster") -> str | None:
        wfc = await cluster.get(Ref(WORKFLOW_CONTROLLER, namespace, names.WORKFLOW_CONTROLLER))
        return None if wfc is None else (wfc.get("spec") or {}).get("instanceID")

    found = _with_cluster(kubeconfig, instance)
    if not found:
        _fail(
            f"error: namespace {namespace} has no workflow-controller of ours: "
            f"kubectl label namespace {namespace} {names.OPT_IN_LABEL}=enabled"
        )
    # The CLI without an ID takes the label off what it submits, and sees only unlabelled Workflows.
    click.echo(f"export ARGO_NAMESPACE={namespace}\nexport ARGO_INSTANCEID={found}")


def _with_cluster(kubeconfig: str | None, ask: "Callable[[Cluster], Coroutine[Any, Any, T]]") -> T:
    import asyncio  # noqa: PLC0415 - a third of what `render` would take to start

    from metaoperator.cluster import RECURSION_LIMIT, Cluster  # noqa: PLC0415
    from metaoperator.gate import Gate  # noqa: PLC0415

    sys.setrecursionlimit(RECURSION_LIMIT)

    async def main() -> T:
        cluster = Cluster(kubeconfig=kubeconfig, gate=Gate())  # its gate stays closed: these commands only read
        await cluster.connect()
        try:
            return await ask(cluster)
        finally:
            await cluster.close()

    return asyncio.run(main())
