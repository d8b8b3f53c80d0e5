"""A fleet that is moved in waves, and a journal of it: what the tests of rollouts share."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from metaoperator.core import names
from tests.fake.audit import Entry
from tests.fake.history import Event
from tests.fake.kinds import Kind

from .world import Manifest, World

BY_LABEL: list[Manifest] = [
    {"name": each, "selector": {"matchLabels": {"wave": each}}} for each in ("canary", "1", "2")
]
NOWHERE = "nowhere.example"
"""A registry that has no image."""
_DEPLOYMENT = "workflow-controller"


def policy(world: World, *, template: str = "default", **rollout: Any) -> None:
    """Say how a fleet is moved; `None` takes a field out."""
    world.server.patch("ControllerTemplate", None, template, {"spec": {"rollout": rollout}}, manager="kubectl")


def source(world: World, turn: str, *, template: str = "default", registry: str = "", **values: Any) -> None:
    """Change the source, and with it the pods of everybody; of a registry, if any, come the images."""
    changed = {"podAnnotations": {"turn": turn}, "images": {"registry": registry}, **values}
    world.server.patch("ControllerTemplate", None, template, {"spec": {"values": changed}}, manager="kubectl")


def phase(world: World, template: str = "default") -> str:
    """Read the phase of a rollout."""
    return str(world.rollout(template).get("phase", ""))


def waits(world: World, *namespaces: str) -> set[tuple[str, str]]:
    """Read what namespaces wait for."""
    return {world.condition(each, "Reconciling") for each in namespaces}


async def fleet(world: World, waves: Mapping[str, Sequence[str]], seconds: float = 600) -> None:
    """Install a whole fleet, by the label of its waves (empty: none), and wait until it has proved itself."""
    for wave, members in waves.items():
        for name in members:
            world.namespace(name, {"wave": wave} if wave else {})
            world.opt_in(name)
    every = [name for members in waves.values() for name in members]
    broken = {each.partition("/")[0] for each in world.controller.broken}
    await world.until(lambda: world.ready(*(each for each in every if each not in broken)), seconds)
    await world.proven()


def of(world: World, *namespaces: str) -> list[Entry]:
    """List what the operator wrote to children, and of their records."""
    kinds = {"configmaps", "deployments", "rolebindings", "services", "serviceaccounts"}
    uids = {world.server.get("Namespace", None, each)["metadata"]["uid"]: each for each in namespaces}  # type: ignore[index]
    return [
        entry
        for entry in (*world.writes(), *world.books())
        if (entry.resource in kinds and entry.namespace in namespaces)
        or (entry.resource == "controllerrevisions" and any(uid in (entry.name or "") for uid in uids))
    ]


class Journal:
    """Every move of a fleet in its order, seen at the API server: whoever makes a mistake for a moment is told.

    `turn` is the revision that is looked at, `unavailable` how many with it may be down at once. A Deployment that gets
    another pod template has a record for it by then, or a mistake is noted.
    """

    def __init__(self, world: World, *, unavailable: int | None = None) -> None:
        """Begin with the fleet as it is."""
        self._world = world
        self._unavailable = unavailable
        self.moves: list[tuple[str, str]] = []
        self.times: dict[tuple[str, str], float] = {}
        self.mistakes: list[str] = []
        self.most = 0
        self._turns = {each["metadata"]["namespace"]: _turn(each) for each in self._deployments()}
        self._templates = {each["metadata"]["namespace"]: each["spec"]["template"] for each in self._deployments()}
        self._given: dict[str, str] = {name: self._head(name) for name in self._turns}
        self._was: dict[str, bool] = {each["metadata"]["namespace"]: _available(each) for each in self._deployments()}
        world.server.store.listeners.append(self._notice)

    def close(self) -> None:
        """Look no more."""
        self._world.server.store.listeners.remove(self._notice)

    def moved(self, turn: str) -> list[str]:
        """List who was moved to a turn, in order, each time that it was."""
        return [name for name, to in self.moves if to == turn]

    def __str__(self) -> str:
        """Show it for messages."""
        return f"{self.moves} {self.mistakes}"

    def in_order(self, turn: str, waves: Iterable[Sequence[str]], *, soak: float = 0) -> None:
        """Hold that each wave began when all before it had been moved, and had soaked."""
        waves = list(waves)
        for at, wave in enumerate(waves):
            before = [self.times[name, turn] for each in waves[:at] for name in each if (name, turn) in self.times]
            missing = [name for each in waves[:at] for name in each if (name, turn) not in self.times]
            times = [self.times[name, turn] for name in wave if (name, turn) in self.times]
            if times and waves[:at]:
                assert not missing, f"wave {at} began without {missing}: {self}"
                assert min(times) >= max(before) + soak, f"wave {at} began too early: {self}"

    def _deployments(self) -> list[Manifest]:
        return [each for each in self._world.server.select("Deployment") if each["metadata"]["name"] == _DEPLOYMENT]

    def _head(self, namespace: str) -> str:
        """Read the revision that is recorded last of a namespace."""
        mine = [
            each
            for each in self._world.server.select("ControllerRevision", names.OPERATOR_NAMESPACE)
            if each["metadata"]["labels"].get(names.RECORDED_NAMESPACE_LABEL) == namespace
        ]
        newest = max(mine, key=lambda each: int(each["metadata"]["annotations"][names.NUMBER_ANNOTATION]), default=None)
        return "" if newest is None else str(newest["metadata"]["labels"][names.REVISION_LABEL])

    def _notice(self, kind: Kind, event: Event) -> None:
        if kind.kind != "Deployment" or event.obj["metadata"]["name"] != _DEPLOYMENT:
            return
        name = event.obj["metadata"]["namespace"]
        if event.type == "DELETED":
            self._templates.pop(name, None)
            self._was.pop(name, None)
            return
        template = event.obj["spec"]["template"]
        if self._templates.get(name) != template:
            head, turn = self._head(name), _turn(event.obj)
            if not head or (name in self._given and head == self._given[name]):
                self.mistakes.append(f"{name}: {turn} was applied without a record ({head})")
            self._given[name], self._templates[name] = head, template
            self.moves.append((name, turn))
            self.times[name, turn] = asyncio.get_running_loop().time()
        down = [
            space
            for each in self._deployments()
            if (space := each["metadata"]["namespace"]) in self._was and self._was[space] and not _available(each)
        ]
        self.most = max(self.most, len(down))
        if self._unavailable is not None and len(down) > self._unavailable:
            self.mistakes.append(f"{len(down)} are down: {sorted(down)}")


def _turn(deployment: Manifest) -> str:
    return str((deployment["spec"]["template"]["metadata"].get("annotations") or {}).get("turn", ""))


def _available(deployment: Manifest) -> bool:
    status = deployment.get("status") or {}
    seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    return bool(seen and (status.get("availableReplicas") or 0) >= deployment["spec"].get("replicas", 1))


class Statuses:
    """Counts the writes of the statuses of WorkflowControllers, and collects what they say."""

    def __init__(self, world: World) -> None:
        """Begin now."""
        self._world = world
        self.told: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self.writes: dict[str, int] = defaultdict(int)
        world.server.store.listeners.append(self._notice)

    def _notice(self, kind: Kind, event: Event) -> None:
        if kind.kind != "WorkflowController" or event.type == "DELETED":
            return
        name = event.obj["metadata"]["namespace"]
        self.writes[name] += 1
        for each in (event.obj.get("status") or {}).get("conditions", ()):
            if each["type"] == "Reconciling" and each["status"] == "True" and each["reason"] in names.TURNS:
                said = each["reason"], each["message"]
                if said not in self.told[name]:
                    self.told[name].append(said)

    def close(self) -> None:
        """Count no more."""
        self._world.server.store.listeners.remove(self._notice)


def upgraded(world: World, turn: str) -> Callable[[], bool]:
    """Tell whether a rollout has ended well, and everybody has the turn."""
    return lambda: (
        phase(world) == "Done"
        and all(
            _turn(each) == turn
            for each in world.server.select("Deployment")
            if each["metadata"]["name"] == _DEPLOYMENT and names.MANAGED_BY_LABEL in each["metadata"]["labels"]
        )
    )


def turns(world: World, *namespaces: str) -> set[str]:
    """Read what children have now."""
    found = [world.server.get("Deployment", each, _DEPLOYMENT) for each in namespaces]
    return {_turn(each) if each else "" for each in found}
