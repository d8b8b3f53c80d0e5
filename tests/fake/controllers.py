"""The cluster around the API server, as far as a test switches it on: Deployments that become Available."""

import asyncio
import hashlib
import json
from typing import Self

import yaml

from .history import DELETED, Event
from .kinds import Kind, Manifest
from .problems import ApiError
from .server import FakeApiServer
from .values import micro

MANAGER = "kube-controller-manager"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class DeploymentController:
    """Gives every Deployment a ReplicaSet, Running Pods and, unless told otherwise, the Lease of an Argo child.

    Works at each change while it is on; `broken` names Deployments (as `namespace/name`), or registries (as the host of
    an image), whose pods never become ready, `leaderless` those whose pods never take their Lease. Pods start within
    `startup` seconds. Those that the API server refuses are tried again ever later, and only a condition tells of them.
    """

    def __init__(self, server: FakeApiServer, *, leases: bool = True) -> None:
        self._server = server
        self._leases = leases
        self._dirty: set[tuple[str, str]] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._refusals: dict[tuple[str, str], int] = {}
        self._started: dict[tuple[str, str], str] = {}
        self.broken: set[str] = set()
        self.leaderless: set[str] = set()
        self.startup = 0.0

    async def __aenter__(self) -> Self:
        self.switch_on()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.switch_off()

    def switch_on(self) -> None:
        """Start working, beginning with what is already there."""
        self._server.store.listeners.append(self._notice)
        for obj in self._server.select("Deployment"):
            self._dirty.add((obj["metadata"]["namespace"], obj["metadata"]["name"]))
        self._wake.set()
        self._task = asyncio.create_task(self._run(), name="fake-deployments")

    async def switch_off(self) -> None:
        """Stop at once; what was made stays."""
        self._server.store.listeners.remove(self._notice)
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def renew(self) -> None:
        """Renew the Lease of every child whose holder still runs."""
        pods = {pod["metadata"]["name"] for pod in self._server.select("Pod")}
        for lease in self._server.select("Lease"):
            if lease["spec"].get("holderIdentity") in pods:
                where = lease["metadata"]["namespace"], lease["metadata"]["name"]
                self._server.patch(
                    "Lease", *where, {"spec": {"renewTime": micro(self._server.now())}}, manager="workflow-controller"
                )

    def crash(self, *what: str) -> None:
        """Let running pods crash from now on, and never come back: of Deployments or registries, as in `broken`."""
        self.broken.update(what)
        for pod in self._server.select("Pod"):
            name = pod["metadata"].get("annotations", {}).get("fake/deployment")
            if name and self._marked(self.broken, pod["metadata"]["namespace"], name, pod["spec"]):
                self._tell(pod, waiting="CrashLoopBackOff")
                self._ask(pod["metadata"]["namespace"], name)

    @staticmethod
    def _marked(marks: set[str], namespace: str, name: str, spec: Manifest) -> bool:
        hosts = {each.get("image", "").partition("/")[0] for each in spec.get("containers", ())}
        return bool(marks & {f"{namespace}/{name}", *hosts})

    def _ask(self, namespace: str, name: str) -> None:
        self._dirty.add((namespace, name))
        self._wake.set()

    def _notice(self, kind: Kind, event: Event) -> None:
        metadata = event.obj["metadata"]
        if kind.kind == "Deployment":
            self._dirty.add((metadata["namespace"], metadata["name"]))
        elif kind.kind in ("Pod", "ReplicaSet") and event.type == DELETED:
            name = metadata.get("annotations", {}).get("fake/deployment")
            if name:
                self._dirty.add((metadata["namespace"], name))
        if self._dirty:
            self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(0)
            while self._dirty:
                self._sync(*self._dirty.pop())

    def _sync(self, namespace: str, name: str) -> None:
        home = self._server.get("Namespace", None, namespace)
        deployment = self._server.get("Deployment", namespace, name)
        if (
            not deployment
            or not home
            or {"deletionTimestamp"} & (deployment["metadata"].keys() | home["metadata"].keys())
        ):
            return
        template = deployment["spec"]["template"]
        digest = _hash(template)
        replica_set = f"{name}-{digest}"
        wanted = deployment["spec"].get("replicas", 1)
        labels = {**template.get("metadata", {}).get("labels", {}), "pod-template-hash": digest}
        for old in self._server.select("ReplicaSet", namespace):
            owned = old["metadata"].get("annotations", {}).get("fake/deployment") == name
            if owned and old["metadata"]["name"] != replica_set:
                self._server.delete("ReplicaSet", namespace, old["metadata"]["name"], propagationPolicy="Background")
        owner = self._server.get("ReplicaSet", namespace, replica_set) or self._make_set(
            deployment, replica_set, labels
        )
        pods = [pod for pod in self._server.select("Pod", namespace) if _owned_by(pod, owner)]
        for extra in pods[wanted:]:
            self._server.delete("Pod", namespace, extra["metadata"]["name"])
        pods = pods[:wanted]
        refusal = ""
        while len(pods) < wanted and not refusal:
            try:
                pods.append(self._make_pod(owner, name, template, labels))
            except ApiError as error:
                refusal = str(error)
                self._later(namespace, name)
        if not refusal:
            self._refusals.pop((namespace, name), None)
        running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
        ready = 0 if self._marked(self.broken, namespace, name, template["spec"]) else len(running)
        self._publish(deployment, wanted, len(pods), ready, refusal)
        leads = self._leases and not self._marked(self.leaderless, namespace, name, template["spec"])
        if leads and ready:
            self._hold_lease(namespace, name, template, running[0]["metadata"]["name"])

    def _later(self, namespace: str, name: str) -> None:
        count = self._refusals[namespace, name] = self._refusals.get((namespace, name), -1) + 1
        asyncio.get_running_loop().call_later(min(2.0**count, 1000.0), self._ask, namespace, name)

    def _make_set(self, deployment: Manifest, name: str, labels: dict[str, str]) -> Manifest:
        spec = {**deployment["spec"], "selector": {"matchLabels": labels}}
        spec["template"] = {**spec["template"], "metadata": {"labels": labels}}
        kept = {key: spec[key] for key in ("replicas", "selector", "template") if key in spec}
        metadata = {
            **_meta(deployment, name, labels),
            # The real controller copies the Deployment's annotations too.
            "annotations": {
                **(deployment["metadata"].get("annotations") or {}),
                "fake/deployment": deployment["metadata"]["name"],
            },
        }
        made = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": kept}
        return self._server.create(made, manager=MANAGER)

    def _make_pod(self, owner: Manifest, name: str, template: Manifest, labels: dict[str, str]) -> Manifest:
        metadata = {**_meta(owner, "", labels), "generateName": f"{owner['metadata']['name']}-"}
        metadata["annotations"] = {**template.get("metadata", {}).get("annotations", {}), "fake/deployment": name}
        del metadata["name"]
        pod = self._server.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}, manager=MANAGER
        )
        if self._marked(self.broken, metadata["namespace"], name, template["spec"]):
            return self._tell(pod, waiting="ImagePullBackOff")
        if not self.startup:
            return self._tell(pod)
        asyncio.get_running_loop().call_later(self.startup, self._start, pod, name)
        return self._tell(pod, waiting="ContainerCreating")

    def _start(self, pod: Manifest, deployment: str) -> None:
        live = self._server.get("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
        if live and live["metadata"]["uid"] == pod["metadata"]["uid"] and "deletionTimestamp" not in live["metadata"]:
            self._tell(live)
            self._ask(live["metadata"]["namespace"], deployment)

    def _tell(self, pod: Manifest, *, waiting: str = "") -> Manifest:
        """Publish how a pod does: it runs, or its containers wait for something."""
        status = {
            "phase": "Pending" if waiting and waiting != "CrashLoopBackOff" else "Running",
            "conditions": [_condition("Ready", on=not waiting, now=self._server.store.clock())],
            "containerStatuses": [
                {
                    "name": each["name"],
                    "ready": not waiting,
                    "restartCount": 0,
                    "image": each.get("image", ""),
                    "state": {"waiting": {"reason": waiting}}
                    if waiting
                    else {"running": {"startedAt": self._server.store.clock()}},
                }
                for each in pod["spec"].get("containers", ())
            ],
        }
        where = pod["metadata"]["namespace"], pod["metadata"]["name"]
        return self._server.patch("Pod", *where, {"status": status}, sub="status", manager="kubelet")

    def _publish(self, deployment: Manifest, wanted: int, there: int, ready: int, refusal: str) -> None:
        metadata, now = deployment["metadata"], self._server.store.clock()
        available = ready >= wanted
        progress = ("Progressing", "NewReplicaSetAvailable" if available else "ReplicaSetUpdated")
        status: Manifest = {
            "observedGeneration": metadata["generation"],
            "replicas": there or None,
            "updatedReplicas": there or None,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": wanted - ready or None,
            "conditions": [
                _condition("Available", on=available, now=now),
                _condition(progress[0], on=True, now=now, reason=progress[1]),
                *([_condition("ReplicaFailure", on=True, now=now, reason="FailedCreate", why=refusal)] * bool(refusal)),
            ],
        }
        before = deployment.get("status", {})
        if [c["status"] for c in before.get("conditions", ())] == [c["status"] for c in status["conditions"]]:
            # A condition that did not change keeps its time, and its message: the first refusal's stays for all.
            status["conditions"] = before["conditions"]
        self._server.patch(
            "Deployment", metadata["namespace"], metadata["name"], {"status": status}, sub="status", manager=MANAGER
        )

    def _hold_lease(self, namespace: str, name: str, template: Manifest, holder: str) -> None:
        # A controller reads its configuration when it starts; what is edited later changes nothing of who it is.
        lease = self._started.setdefault((namespace, holder), self._lease_name(name, namespace, template))
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": micro(self._server.now())}
        found = self._server.get("Lease", namespace, lease)
        if found is None:
            metadata = {"name": lease, "namespace": namespace}
            self._server.create(
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": metadata,
                    "spec": {**spec, "acquireTime": micro(self._server.now()), "leaseTransitions": 0},
                },
                manager="workflow-controller",
            )
        elif found["spec"].get("holderIdentity") != holder:
            moved = {
                **spec,
                "acquireTime": micro(self._server.now()),
                "leaseTransitions": found["spec"].get("leaseTransitions", 0) + 1,
            }
            self._server.patch("Lease", namespace, lease, {"spec": moved}, manager="workflow-controller")

    def _lease_name(self, name: str, namespace: str, template: Manifest) -> str:
        """Name the Lease that a child takes after the instance ID that it reads, if it reads any configuration."""
        arguments = [each for box in template["spec"].get("containers", ()) for each in box.get("args", ())]
        for argument in arguments:
            if argument.startswith("--configmap="):
                found = self._server.get("ConfigMap", namespace, argument.partition("=")[2])
                if found is None:
                    break  # the real one ends, and starts anew until it is there
                instance = yaml.safe_load((found.get("data") or {}).get("config", "{}")).get("instanceID")
                return f"workflow-controller-{instance}" if instance else "workflow-controller"
        suffix = name.removeprefix("workflow-controller")
        return f"workflow-controller-{namespace}{suffix}"


def _meta(owner: Manifest, name: str, labels: dict[str, str]) -> Manifest:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {"name": name, "namespace": owner["metadata"]["namespace"], "labels": labels, "ownerReferences": [reference]}


def _owned_by(pod: Manifest, owner: Manifest) -> bool:
    return any(each["uid"] == owner["metadata"]["uid"] for each in pod["metadata"].get("ownerReferences", ()))


def _condition(name: str, *, on: bool, now: str, reason: str = "", why: str = "") -> Manifest:
    reason = reason or ("MinimumReplicasAvailable" if on else "MinimumReplicasUnavailable")
    return {"type": name, "status": str(on), "reason": reason, "lastTransitionTime": now, "message": why}


def _hash(template: Manifest) -> str:
    number = int(hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest(), 16)
    return "".join(_ALPHABET[number // len(_ALPHABET) ** place % len(_ALPHABET)] for place in range(10))
