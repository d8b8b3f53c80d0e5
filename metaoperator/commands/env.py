"""`metaoperator env`: what the Argo CLI needs to speak to one namespace's controller, or to its argo-server."""

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click

from metaoperator.cluster import Cluster, Selection
from metaoperator.commands import asking, options, telling
from metaoperator.core import names, shard
from metaoperator.core.errors import ConfigError, Rejected
from metaoperator.core.model import DEPLOYMENT, WORKFLOW_CONTROLLER, Manifest, Ref

_PORT: Final = 2746
# By the CLI itself and before the server is named: ARGO_SERVER stands for its flag --server too, the address of
# Kubernetes, and then it finds no token in the kubeconfig. Where that has none, what was set stays.
_AUTH: Final = '"$(env -u ARGO_TOKEN -u ARGO_SERVER argo auth token || printf %s "$ARGO_TOKEN")"'
_CERTIFICATE: Final = "--tls-certificate-secret-name="
_HELP: Final = """\
Print what the Argo CLI needs for NAMESPACE: eval "$(metaoperator env NAMESPACE)".

\b
ARGO_NAMESPACE   the namespace
ARGO_INSTANCEID  its instance ID. The CLI without one still submits, for admission puts the ID on, but
                 takes `list` and `get` for questions about Workflows that have none. Unset where the
                 ControllerTemplate's instanceIDPolicy is None.
ARGO_SERVER      unset, and ARGO_TOKEN too: the CLI asks Kubernetes itself

With --server the ID is the server's own, and the CLI refuses to be told one. It is the namespace's own server, or
else one of all namespaces with this instance ID (manifests/components/argo-server-fleet):

\b
ARGO_SERVER                host and port of the argo-server; ARGO_INSTANCEID is unset
ARGO_TOKEN                 what `argo auth token` finds in the kubeconfig, else what was there
ARGO_SECURE                whether it speaks TLS
ARGO_INSECURE_SKIP_VERIFY  true where it signs its certificate itself (server.tlsSecret is empty)

The server acts with your own token; do it again when that has expired. Where the kubeconfig has none (client
certificates), set ARGO_TOKEN="Bearer $(kubectl create token ...)" before.
"""


@click.command("env", help=_HELP)
@click.argument("namespace", type=options.NAMESPACE)
@click.option(
    "--server", is_flag=True, help="Speak to the namespace's argo-server (value server.enabled) and not to Kubernetes."
)
@click.option(
    "--at",
    metavar="HOST:PORT",
    help="Where that server is reached: localhost:2746 after kubectl port-forward service/argo-server 2746, or an "
    "Ingress. Without it, its Service, which only pods reach.",
)
@options.kubeconfig
def command(*, namespace: str, server: bool, at: str | None, kubeconfig: str | None) -> int:
    """Print what the Argo CLI needs for one namespace, as lines for a shell."""
    if at is not None:
        server = True
        _checked(at)

    async def found(cluster: Cluster) -> tuple[str | None, Manifest | None]:
        wfc = await cluster.get(Ref(WORKFLOW_CONTROLLER, namespace, names.WORKFLOW_CONTROLLER))
        instance = None if wfc is None else (wfc.get("spec") or {}).get("instanceID")
        if wfc is not None and not instance:  # it has none, or is not there yet: the child tells
            child = await cluster.get(Ref(DEPLOYMENT, namespace, names.WORKFLOW_CONTROLLER))
            instance = None if child is None else shard.recorded(child)
        return instance, await _server(cluster, namespace, instance or "") if server else None

    instance, deployment = asking.reading(kubeconfig, found)
    if instance is None:
        click.echo(
            f"error: namespace {namespace} has no workflow-controller of ours: "
            f"kubectl label namespace {namespace} {names.OPT_IN_LABEL}=enabled",
            err=True,
        )
        return telling.NO
    if not server:
        # The CLI without an ID takes the label off what it submits, and sees only unlabelled Workflows. Of what an
        # earlier `env --server` set, the server would make it refuse the ID, and the token stands for --token here,
        # which it is not: it begins with "Bearer".
        mine = _export("ARGO_INSTANCEID", instance) if instance else "unset ARGO_INSTANCEID"
        lines = [mine, "unset ARGO_SERVER ARGO_TOKEN"]
    elif deployment is None and at is not None:
        # Somebody knows of it, and may not see Deployments elsewhere.
        click.echo(
            "note: no argo-server can be seen: taken for one with TLS and a certificate to be verified", err=True
        )
        lines = list(_through(at, (f"{_CERTIFICATE}of-its-own",)))
    elif deployment is None:
        click.echo(
            f"error: namespace {namespace} has no argo-server, and none of all namespaces with its instance ID can be "
            "seen: set the value server.enabled in its ControllerTemplate, or say where one is (--at)",
            err=True,
        )
        return telling.NO
    else:
        service = f"{names.ARGO_SERVER}.{deployment['metadata']['namespace']}.svc:{_PORT}"
        lines = list(_through(at or service, _arguments(deployment)))
    # Quoted, because what is printed here is run by a shell.
    click.echo("\n".join([_export("ARGO_NAMESPACE", namespace), *lines]))
    return 0


async def _server(cluster: Cluster, namespace: str, instance: str) -> Manifest | None:
    """Find the namespace's own, or else one that shows all namespaces of its ID; somebody may see only the former."""
    own = await cluster.get(Ref(DEPLOYMENT, namespace, names.ARGO_SERVER))
    if own is not None or not instance:
        return own
    ours = f"app.kubernetes.io/name={names.ARGO_SERVER},{names.MANAGED_BY_LABEL}={names.MANAGED_BY}"
    with contextlib.suppress(Rejected):
        async for page in cluster.list_pages(Selection(kind=DEPLOYMENT, label_selector=ours)):
            found: Sequence[Manifest] = page["items"]
            for each in found:
                shows = "--namespaced" not in _arguments(each) and shard.recorded(each) == instance
                if shows and "deletionTimestamp" not in each["metadata"] and await _rendered(cluster, each):
                    return each
    return None


async def _rendered(cluster: Cluster, deployment: Manifest) -> bool:
    """Tell whether the operator made it, as the row of its namespace says, which no tenant writes.

    Marks anybody can set in a namespace of his own, and whoever speaks to a server hands it his token.
    """
    wfc = await cluster.get(Ref(WORKFLOW_CONTROLLER, deployment["metadata"]["namespace"], names.WORKFLOW_CONTROLLER))
    inventory = ((wfc or {}).get("status") or {}).get("inventory") or ()
    return f"{DEPLOYMENT.kind}/{deployment['metadata']['name']}" in inventory


def _through(server: str, arguments: Sequence[str]) -> Iterator[str]:
    yield "unset ARGO_INSTANCEID"
    yield f"export ARGO_TOKEN={_AUTH}"
    yield _export("ARGO_SERVER", server)
    secure = "--secure=false" not in arguments
    known = any(each.startswith(_CERTIFICATE) for each in arguments)
    yield _export("ARGO_SECURE", str(secure).lower())
    yield _export("ARGO_INSECURE_SKIP_VERIFY", str(secure and not known).lower())


def _arguments(deployment: Manifest) -> Sequence[str]:
    containers: Sequence[Any] = deployment["spec"]["template"]["spec"]["containers"]
    return [argument for each in containers for argument in each.get("args") or ()]


def _export(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}"


def _checked(at: str) -> None:
    host, _, port = at.rpartition(":")
    if not host or "/" in host or not port.isascii() or not port.isdigit():
        raise ConfigError(f"--at {at}: give host and port, without https://, for example localhost:{_PORT}")
