"""A small cluster in memory, and the operator in it: what the tests of this folder share."""

import asyncio
import contextlib
import functools
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import REGISTRY

from metaoperator.cluster import Cluster
from metaoperator.core import names
from metaoperator.core.errors import RetryableError
from metaoperator.core.model import EVENT
from metaoperator.election import Timing
from metaoperator.gate import Gate
from metaoperator.operator import Operator
from metaoperator.settings import Settings
from tests.fake import DeploymentController, FakeApiServer
from tests.fake.audit import Entry

from . import processes

Manifest = dict[str, Any]
TOKEN = "s3cr3t-t0ken-of-the-operator"  # noqa: S105 - a token for the fake
OTHER_TOKEN = "s3cr3t-t0ken-after-rotation"  # noqa: S105
SIX = (
    ("ConfigMap", "workflow-controller-configmap"),
    ("Deployment", "workflow-controller"),
    ("RoleBinding", "workflow-controller"),
    ("RoleBinding", "workflow-executor"),
    ("Service", "workflow-controller-metrics"),
    ("ServiceAccount", "workflow-controller"),
)
AROUND = ("NetworkPolicy", "PodDisruptionBudget", "PodMonitor")
KINDS = ("ConfigMap", "Deployment", "RoleBinding", "Service", "ServiceAccount")
ARGO = "argoproj.io/v1alpha1"
MARK = f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY}"
ALONE = Timing(duration=60, renew=40, retry=10)
"""For a replica without rivals: hours of virtual time cost a fifth of the renewals."""
_MANIFESTS = Path(__file__).parents[2] / "manifests"


@functools.cache
def bundled(path: str) -> Manifest:
    """Read one manifest of a bundle, by its path without the ending."""
    return yaml.safe_load((_MANIFESTS / f"{path}.yaml").read_text())  # type: ignore[no-any-return]


def write_kubeconfig(path: Path, url: str, token: str = TOKEN) -> Path:
    """Write a kubeconfig with a bearer token."""
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "fake", "cluster": {"server": url}}],
                "users": [{"name": "operator", "user": {"token": token}}],
                "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "operator"}}],
                "current-context": "fake",
            }
        )
    )
    return path


class Replica:
    """One running operator."""

    def __init__(self, operator: Operator, identity: str) -> None:
        """Start it in a process of its own."""
        self.operator = operator
        self.identity = identity
        self.task = processes.start(identity, operator.run())

    @property
    def leading(self) -> bool:
        """Tell whether its writes pass."""
        return self.operator._elector.leading

    def show(self) -> str:
        """Tell what the replica does, for messages of failed tests."""
        return f"{self.identity}: leading={self.leading} ended={self.task.done()}"

    async def stop(self) -> None:
        """Ask it to stop, as SIGTERM does, and wait until it has."""
        if not self.task.done():
            self.operator._stop.set()
        await asyncio.wait({self.task}, timeout=60)
        await processes.end(self.identity)
        self.task.result()

    async def kill(self) -> None:
        """End it as SIGKILL does, as far as others can see: nothing more is sent, not even a good-bye.

        What is left of it ends in the background, in the orderly way in which kopf closes its connections.
        """
        self.operator._cluster._send = _dead  # type: ignore[method-assign]
        await self.operator._cluster.close()
        self.operator._stop.set()

    async def bury(self) -> None:
        """Wait until nothing is left of a replica that was killed."""
        await asyncio.wait({self.task}, timeout=60)
        await processes.end(self.identity)


async def _dead(*_: Any, **__: Any) -> Any:
    raise RetryableError("this process was killed")


class World:
    """The fake API server with what the fleet bundle installs, and hands to move it."""

    def __init__(self, server: FakeApiServer, folder: Path) -> None:
        """Install the CRDs, the operator's namespace, what pods need and the ControllerTemplate `default`."""
        self.server = server
        self.folder = folder
        self.kubeconfig = write_kubeconfig(folder / "kubeconfig", server.url)
        self.controller = DeploymentController(server)
        self._count = itertools.count(1)
        self._replicas: list[Replica] = []
        for each in ("controllertemplates", "workflowcontrollers"):
            server.define(bundled(f"fleet/crds/{each}"))
        for each in ("priorityclass", "instance-id-policy", "instance-id-policybinding"):
            server.create(bundled(f"fleet/{each}"))
        self.namespace("metaoperator")
        self.template("default")

    # ---- what people do

    def namespace(self, name: str, labels: Mapping[str, str] | None = None) -> Manifest:
        """Create a namespace."""
        meta = {"name": name, "labels": dict(labels or {})}
        return self.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta}, manager="kubectl")

    def template(self, name: str, values: Manifest | None = None, directory: str = "workflow-controller") -> Manifest:
        """Create a ControllerTemplate."""
        # What is new proves itself at once: a write when all of a fleet has done so would come a minute later.
        spec: Manifest = {"source": {"directory": directory}, "rollout": {"soakSeconds": 0}}
        spec |= {"values": values} if values else {}
        body = {"apiVersion": names.API_VERSION, "kind": "ControllerTemplate", "metadata": {"name": name}, "spec": spec}
        return self.server.create(body, manager="kubectl")

    def opt_in(self, name: str, value: str = "enabled") -> None:
        """Label a namespace, making it first where it is not there."""
        if self.server.get("Namespace", None, name) is None:
            self.namespace(name)
        self.label(name, value)

    def opt_out(self, name: str) -> None:
        """Take the label off."""
        self.label(name, None)

    def label(self, name: str, value: str | None) -> None:
        """Set the opt-in label."""
        patch = {"metadata": {"labels": {names.OPT_IN_LABEL: value}}}
        self.server.patch("Namespace", None, name, patch, manager="kubectl")

    def workflow(self, namespace: str, name: str, **labels: str) -> Manifest:
        """Submit a Workflow that the child of the namespace serves."""
        meta = {"name": name, "namespace": namespace, "labels": {names.INSTANCE_ID_LABEL: namespace, **labels}}
        return self.server.create({"apiVersion": ARGO, "kind": "Workflow", "metadata": meta, "spec": {}})

    def phase(self, namespace: str, name: str, phase: str, *, completed: bool = False) -> None:
        """Let the child move a Workflow."""
        labels = {names.PHASE_LABEL: phase} | ({names.COMPLETED_LABEL: "true"} if completed else {})
        self.server.patch("Workflow", namespace, name, {"metadata": {"labels": labels}})

    def make(self, kind: str, namespace: str, name: str, *, api: str = "v1", **more: Any) -> Manifest:
        """Create any object as a tenant would."""
        body = {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **more}
        return self.server.create(body, manager="tenant")

    def spec(self, namespace: str, **spec: Any) -> None:
        """Change the spec of a WorkflowController."""
        self.server.patch("WorkflowController", namespace, "workflow-controller", {"spec": spec}, manager="kubectl")

    # ---- what is there

    def wfc(self, namespace: str) -> Manifest | None:
        """Get the WorkflowController of a namespace."""
        return self.server.get("WorkflowController", namespace, "workflow-controller")

    def status(self, namespace: str) -> Manifest:
        """Get its status; empty where there is none."""
        return (self.wfc(namespace) or {}).get("status") or {}

    def condition(self, namespace: str, kind: str = "Ready") -> tuple[str, str]:
        """Get status and reason of one condition."""
        return _condition(self.status(namespace), kind)

    def message(self, namespace: str, kind: str = "Ready") -> str:
        """Get the message of one condition."""
        return next((c["message"] for c in self.status(namespace).get("conditions", ()) if c["type"] == kind), "")

    def ready(self, *namespaces: str) -> bool:
        """Tell whether the children of all these namespaces are there and lead."""
        return all(self.condition(each) == ("True", "Leading") for each in namespaces)

    def child(self, namespace: str) -> list[tuple[str, str]]:
        """List the objects in a namespace that carry our mark, the WorkflowController not counted."""
        served = {kind.kind for kind in self.server.registry}
        kinds = [kind for kind in (*KINDS, *AROUND) if kind in served]
        return [(kind, o["metadata"]["name"]) for kind in kinds for o in self.server.select(kind, namespace, MARK)]

    def whole(self, *namespaces: str) -> bool:
        """Tell whether the six objects, and no others of ours, are in each namespace."""
        return all(sorted(self.child(each)) == sorted(SIX) for each in namespaces)

    def empty(self, namespace: str) -> bool:
        """Tell whether nothing of a child is left in a namespace."""
        lease = self.server.get("Lease", namespace, f"workflow-controller-{namespace}")
        return not self.child(namespace) and not self.server.select("Pod", namespace, MARK) and lease is None

    def ours(self) -> list[Entry]:
        """List the recorded requests of the operator, kopf's included, but for its own Lease."""
        return [
            entry
            for entry in self.server.audit
            if entry.user_agent.startswith(("metaoperator", "kopf"))
            and (entry.resource, entry.namespace) != ("leases", "metaoperator")
        ]

    def writes(self) -> list[Entry]:
        """List the recorded writes of the operator, but for its own books: its Lease, and the records of revisions."""
        written = self.server.audit.writes()
        return [entry for entry in self.ours() if entry in written and entry.resource != "controllerrevisions"]

    def books(self) -> list[Entry]:
        """List the recorded writes of records."""
        written = self.server.audit.writes()
        return [entry for entry in self.ours() if entry in written and entry.resource == "controllerrevisions"]

    def unrecord(self, namespace: str) -> None:
        """Take away what is recorded of a namespace."""
        for live in self.server.select("ControllerRevision", names.OPERATOR_NAMESPACE):
            if live["metadata"]["labels"].get(names.RECORDED_NAMESPACE_LABEL) == namespace:
                self.server.delete("ControllerRevision", names.OPERATOR_NAMESPACE, live["metadata"]["name"])

    def rollout(self, template: str = "default") -> Manifest:
        """Read how far the rollout of a ControllerTemplate is."""
        live = self.server.get("ControllerTemplate", None, template)
        assert live is not None
        found: Manifest = (live.get("status") or {}).get("rollout") or {}
        return found

    async def proven(self, template: str = "default") -> None:
        """Wait until the whole fleet has its revision, and has proved itself."""
        await self.until(lambda: self.rollout(template).get("stable") == self.rollout(template).get("target", ""), 300)

    def events(self, reason: str = "") -> list[Manifest]:
        """List the Events for people."""
        kind = self.server.registry.named(EVENT.kind, EVENT.api_version)
        return [event for event in self.server.store.select(kind) if reason in ("", event["reason"])]

    # ---- time

    async def until(self, true: Callable[[], Any], seconds: float = 60.0, *, what: str = "") -> None:
        """Wait until a condition holds, at most some seconds of the loop's clock."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        while not true():
            if loop.time() > started + seconds:
                raise AssertionError(f"still not true after {seconds:.0f} s: {what or _source(true)}\n{self.show()}")
            await asyncio.sleep(0.1 if loop.time() < started + 5 else 0.5)

    def show(self) -> str:
        """Tell the state, for messages of failed tests."""
        lines = []
        for wfc in self.server.select("WorkflowController"):
            space = wfc["metadata"]["namespace"]
            lines.append(f"{space}: {self.condition(space)} {self.message(space)} {self.child(space)}")
        return "\n".join([*lines, *map(str, self.server.audit[-20:])])

    # ---- the operator

    def settings(self, identity: str, **more: Any) -> Settings:
        """Make settings for a replica."""
        return Settings(**{"kubeconfig": str(self.kubeconfig), "identity": identity, "port": 0, **more})

    def start(self, identity: str = "", **more: Any) -> Replica:
        """Start a replica of the operator; the caller stops or kills it."""
        unregister_metrics()
        identity = identity or f"operator-{next(self._count)}"
        replica = Replica(Operator(self.settings(identity, **more)), identity)
        self._replicas.append(replica)
        return replica

    @contextlib.asynccontextmanager
    async def operator(self, identity: str = "", **more: Any) -> AsyncIterator[Replica]:
        """Run one replica of the operator, beside the cluster's own controllers."""
        more.setdefault("timing", ALONE)
        async with self.nature():
            replica = self.start(identity, **more)
            yield replica
            if replica.task.done():
                replica.task.result()

    @contextlib.asynccontextmanager
    async def nature(self) -> AsyncIterator[None]:
        """Run what a cluster does by itself: Deployments become available, children renew their Leases."""
        async with self.controller:
            beat = asyncio.create_task(self._beat())
            try:
                yield
            finally:
                await end(beat)
                for replica in self._replicas:
                    await replica.kill()
                for replica in self._replicas:
                    await replica.bury()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(10)
            self.controller.renew()

    @contextlib.asynccontextmanager
    async def cluster(self, *, open_for: float = 1e9, **more: Any) -> AsyncIterator[Cluster]:
        """Connect a client of our own, its gate open unless told otherwise."""
        made = Cluster(kubeconfig=str(self.kubeconfig), gate=Gate(), **more)
        await made.connect()
        made.gate.open_until(asyncio.get_running_loop().time() + open_for)
        try:
            yield made
        finally:
            await made.close()


def _condition(status: Mapping[str, Any], kind: str) -> tuple[str, str]:
    for each in status.get("conditions", ()):
        if each["type"] == kind:
            return each["status"], each["reason"]
    return "", ""


def _source(true: Callable[[], Any]) -> str:
    code = true.__code__
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"


def unregister_metrics() -> None:
    """Forget the metrics of operators before: in one process each name exists once."""
    for collector in {c for name, c in REGISTRY._names_to_collectors.items() if name.startswith("metaoperator_")}:
        REGISTRY.unregister(collector)


async def running(*runs: Awaitable[Any]) -> list[asyncio.Task[Any]]:
    """Start coroutines as tasks."""
    return [asyncio.ensure_future(run) for run in runs]


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait for them."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
