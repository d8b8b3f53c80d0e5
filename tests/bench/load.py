"""Workflows on simulated pods: who submitted which, when, and when a watch told that it was done."""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp

from metaoperator.core import names
from tests.cluster.simulated import SELECTOR, TAINT
from tests.e2e.audit import Audit, code, target
from tests.e2e.local import Object

from .wire import Door, Request, each, send

DEADLINE = 1200
"""Seconds that all of a scenario may take; after them it tells what is not done."""
PROBE_EVERY = 10
"""Seconds between two Workflows of the neighbour, where they do not take longer."""

_DONE = "/apis/argoproj.io/v1alpha1/workflows?labelSelector=workflows.argoproj.io%2Fcompleted%3Dtrue"
_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
_NAME = "workflows.argoproj.io/workflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One Workflow that was accepted; `sent` on the clock of `time.monotonic`."""

    namespace: str
    name: str
    pods: int
    sent: float


def workflow(pods: int) -> Object:
    """Write a Workflow of so many pods, all at once, on simulated nodes; nothing in it says who is to run it."""
    step = {"name": "step", "container": {"image": "nowhere.invalid/step", "command": ["true"]}}
    group = [{"name": f"step-{index}", "template": "step"} for index in range(pods)]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": "bench-"},
        "spec": {
            "entrypoint": "step" if pods == 1 else "main",
            "nodeSelector": SELECTOR,
            "tolerations": [{"key": TAINT["key"], "operator": "Exists"}],
            "templates": [step] if pods == 1 else [{"name": "main", "steps": [group]}, step],
        },
    }


class Load:
    """Submits, and sees what is done, while it is entered."""

    def __init__(self, door: Door) -> None:
        """Nothing is opened yet."""
        self._door = door
        self._phases: dict[tuple[str, str], tuple[float, str]] = {}
        self._news = asyncio.Event()
        self._ends = time.monotonic() + DEADLINE

    async def __aenter__(self) -> Self:
        """Open the watch first: nothing that is done is missed."""
        self._session = self._door.session()
        try:
            version = await self._list()
        except BaseException:
            await self._session.close()
            raise
        self._watching = asyncio.create_task(self._watch(version))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close everything."""
        self._watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._watching
        await self._session.close()
        # TLS connections end a moment after aiohttp has let go of them, and an event loop that is gone cannot end them.
        await asyncio.sleep(0.25)

    async def submit(self, namespaces: Iterable[str], *, pods: int, at_once: int = 32) -> list[Run]:
        """Create one Workflow for each name, as fast as the API server takes them."""
        body, runs = json.dumps(workflow(pods)), []

        async def one(namespace: str) -> None:
            path = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows"
            sent = time.monotonic()
            status, made = await send(self._session, Request(method="POST", path=path, body=body))
            assert status == 201, f"POST {path}: {status} {made.get('message')}"
            runs.append(Run(namespace=namespace, name=made["metadata"]["name"], pods=pods, sent=sent))

        await each(namespaces, one, at_once=at_once)
        return runs

    async def done(self, runs: Sequence[Run]) -> None:
        """Wait until all have Succeeded; one that ended otherwise ends the wait."""
        while late := [run for run in runs if (run.namespace, run.name) not in self._phases]:
            self._news.clear()
            waiting = asyncio.create_task(self._news.wait())
            left = self._ends - time.monotonic()
            await asyncio.wait((waiting, self._watching), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if self._watching.done():
                self._watching.result()
            assert time.monotonic() < self._ends, f"{len(late)} of {len(runs)} Workflows are not done, {late[0]} is one"
        phases = Counter(self._phases[run.namespace, run.name][1] for run in runs)
        assert set(phases) <= {"Succeeded"}, f"not all Workflows Succeeded: {dict(phases)}"

    def at(self, run: Run) -> float:
        """Tell when a Workflow was done, on the clock of its `sent`."""
        return self._phases[run.namespace, run.name][0]

    def took(self, run: Run) -> float:
        """Tell the seconds from submit to done."""
        return self.at(run) - run.sent

    async def _list(self) -> str:
        async with self._session.get(_DONE, headers={"Accept": _METADATA.format("List")}) as answer:
            answer.raise_for_status()
            found = await answer.json(content_type=None)
        for item in found["items"] or ():
            self._see(item)
        return str(found["metadata"]["resourceVersion"])

    async def _watch(self, version: str) -> None:
        """Read what becomes done: for this selector, that is what is added."""
        forever = aiohttp.ClientTimeout(total=None)
        while True:
            path = f"{_DONE}&watch=true&timeoutSeconds=3600&resourceVersion={version}"
            headers = {"Accept": _METADATA.format("")}
            async with self._session.get(path, headers=headers, timeout=forever) as answer:
                answer.raise_for_status()
                async for line in answer.content:
                    event = json.loads(line)
                    assert event["type"] != "ERROR", event["object"]
                    if event["type"] != "DELETED":
                        self._see(event["object"])
            version = await self._list()

    def _see(self, item: dict[str, Any]) -> None:
        """The first time counts: a Workflow is done once."""
        meta = item["metadata"]
        self._phases.setdefault(
            (meta["namespace"], meta["name"]), (time.monotonic(), meta["labels"].get(names.PHASE_LABEL, ""))
        )
        self._news.set()


# ---- the two scenarios


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """How long the neighbour's Workflows took beside the backlog, in order, and how long the backlog itself."""

    neighbour: list[float]
    backlog: float
    runs: list[Run]


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """How many Workflows a minute were done, all namespaces together, from the first submit to the last done."""

    rate: float
    runs: list[Run]


def beside(door: Door, *, busy: str, neighbour: str, backlog: int, pods: int = 4) -> Beside:
    """Submit the backlog, then one-pod Workflows of a neighbour, one after the other, until the backlog is done."""

    async def main() -> Beside:
        async with Load(door) as load:
            runs = await load.submit([busy] * backlog, pods=pods)
            emptied = asyncio.create_task(load.done(runs))
            probes: list[Run] = []
            while not emptied.done():
                probes += await load.submit([neighbour], pods=1)
                await load.done(probes[-1:])
                await asyncio.wait((emptied,), timeout=max(0.0, PROBE_EVERY - load.took(probes[-1])))
            await emptied
            return Beside(
                neighbour=[load.took(probe) for probe in probes],
                backlog=max(map(load.at, runs)) - min(run.sent for run in runs),
                runs=[*runs, *probes],
            )

    return asyncio.run(main())


def together(door: Door, namespaces: Sequence[str], *, count: int) -> Together:
    """Submit one-pod Workflows to all namespaces in turn, and wait until all are done."""

    async def main() -> Together:
        async with Load(door) as load:
            runs = await load.submit([namespaces[index % len(namespaces)] for index in range(count)], pods=1)
            await load.done(runs)
            seconds = max(map(load.at, runs)) - min(run.sent for run in runs)
            return Together(rate=60 * count / seconds, runs=runs)

    return asyncio.run(main())


def require_ran_once(audit: Audit, mark: int, runs: Iterable[Run]) -> None:
    """Hold that each Workflow had just the pods that it asks for, by the API server's log since the mark."""
    wanted = {(run.namespace, run.name): run.pods for run in runs}
    made: Counter[tuple[str, str]] = Counter()
    for entry in audit.since(mark, '"resource":"pods"'):
        resource, namespace, _ = target(entry)
        if (entry["verb"], entry["stage"], resource) == ("create", "ResponseComplete", "pods") and code(entry) == 201:
            owner = (entry["requestObject"]["metadata"].get("labels") or {}).get(_NAME, "")
            made[namespace, owner] += (namespace, owner) in wanted
    wrong = {key: (made[key], pods) for key, pods in wanted.items() if made[key] != pods}
    assert not wrong, f"{len(wrong)} Workflows with other pods than they ask for (made, asked for): {wrong}"
