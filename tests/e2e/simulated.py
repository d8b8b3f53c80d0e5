"""The one thing that a simulated child cannot do by itself: hold its Lease.

Its pod is an object that kwok calls Running, and no controller runs in it. So that the product needs no exemption, what
the controller would do for its Lease is done from here: acquired by the pod's name as soon as the pod runs, renewed
every few seconds, let go when the pod goes. All of it under a user agent of its own.
"""

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import aiohttp
import yaml

from .local import MANIFESTS, Api, Kubectl, Object

TEMPLATE = MANIFESTS / "simulated" / "controllertemplate.yaml"
MIRROR = MANIFESTS / "simulated" / "mirror-policy.yaml"
LABEL = "simulated"
"""Namespaces with this opt-in label get a child on a simulated node."""
AGENT = "simulated-children"
LOOK_SECONDS = 1.0
_IMAGE = "jsonpath={.spec.template.spec.containers[0].image}"
_PODS = "/api/v1/pods?labelSelector=app.kubernetes.io%2Fname%3Dworkflow-controller&resourceVersion=0"


@dataclass(slots=True, kw_only=True)
class _Child:
    """One pod that leads; `due` on the loop's clock."""

    namespace: str
    holder: str
    lease: str
    duration: float
    due: float = 0.0


class Children:
    """Plays the controllers of all simulated children while it is entered."""

    def __init__(self, api: Api, *, at_once: int = 16) -> None:
        """Take address and credentials from `api`; at most so many requests are under way at once."""
        self._server = api.server
        self._headers = {**api.headers, "User-Agent": AGENT}
        self._tls = api.tls
        self._at_once = asyncio.Semaphore(at_once)
        self._children: dict[str, _Child] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop; nobody renews any more."""
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        async with aiohttp.ClientSession(self._server, headers=self._headers, connector=connector) as session:
            while not self._stop.is_set():
                # Also a cluster that is going away: the next look finds it, or somebody stops us.
                try:
                    await self._look(session)
                except (aiohttp.ClientError, TimeoutError) as exc:
                    self.failures.append(repr(exc))
                await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, session: aiohttp.ClientSession) -> None:
        async with session.get(_PODS) as answer:
            answer.raise_for_status()
            pods = {pod["metadata"]["uid"]: pod for pod in (await answer.json())["items"] if _runs_simulated(pod)}
        for uid in self._children.keys() - pods.keys():
            del self._children[uid]
        new = [pod for uid, pod in pods.items() if uid not in self._children]
        await asyncio.gather(*(self._begin(session, pod) for pod in new))
        now = asyncio.get_running_loop().time()
        await asyncio.gather(*(self._renew(session, each) for each in self._children.values() if each.due <= now))

    async def _begin(self, session: aiohttp.ClientSession, pod: Object) -> None:
        """Read what the controller would read: its ID from the ConfigMap, its Lease's duration from the environment."""
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/configmaps/workflow-controller-configmap"
        async with self._at_once, session.get(path) as answer:
            if answer.status == 404:
                return
            answer.raise_for_status()
            instance = yaml.safe_load((await answer.json())["data"]["config"])["instanceID"]
        environment = {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}
        self._children[meta["uid"]] = _Child(
            namespace=meta["namespace"],
            holder=meta["name"],
            lease=f"workflow-controller-{instance}",
            duration=float(environment["LEADER_ELECTION_LEASE_DURATION"].removesuffix("s")),
        )

    async def _renew(self, session: aiohttp.ClientSession, child: _Child) -> None:
        """Renew, or acquire; a namespace on its way out takes no new Lease, and that is nobody's fault."""
        collection = f"/apis/coordination.k8s.io/v1/namespaces/{child.namespace}/leases"
        spec = {
            "holderIdentity": child.holder,
            "leaseDurationSeconds": int(child.duration),
            "renewTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        async with self._at_once:
            status = await _send(session, "PATCH", f"{collection}/{child.lease}", {"spec": spec})
            if status == 404:
                lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
                await _send(session, "POST", collection, {**lease, "metadata": {"name": child.lease}, "spec": spec})
        child.due = asyncio.get_running_loop().time() + child.duration / 3


async def _send(session: aiohttp.ClientSession, method: str, path: str, body: Mapping[str, Any]) -> int:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    async with session.request(method, path, data=json.dumps(body), headers={"Content-Type": kind}) as answer:
        if answer.status >= 500:
            answer.raise_for_status()
        return answer.status


def _runs_simulated(pod: Object) -> bool:
    return (
        pod["spec"].get("nodeName", "").startswith("simulated-")
        and pod["status"].get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
    )


def mirrored(kubectl: Kubectl, namespace: str) -> None:
    """Check that the policy in `MIRROR` is at work in a namespace: the API server takes a moment to load it."""
    made = kubectl("create", "deployment", "probe", "--image=probe", "--dry-run=server", "-n", namespace, "-o", _IMAGE)
    assert made == "mirror.invalid/probe", made
