"""What puts instance IDs on new Workflows: the stamping policies and their bindings, watched by name."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from metaoperator import informer
from metaoperator.cluster import Cluster, Selection
from metaoperator.core import names
from metaoperator.core.model import Kind, Manifest
from metaoperator.core.shard import Policy
from metaoperator.core.stamping import Stamps
from metaoperator.informer import Informer

GROUP: Final = "admissionregistration.k8s.io"
VERSIONS: Final = ("v1", "v1beta1")
"""The newer first: v1 came with Kubernetes 1.36, and v1beta1 has to be switched on in 1.34 and 1.35."""
KINDS: Final = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")


class Stamping:
    """Watches them, metadata only; `changed` is called when one comes, goes, or says another policy."""

    def __init__(self, cluster: Cluster, changed: Callable[[], None]) -> None:
        """Nothing is sent before `runs` run. An older version is watched only where the newer is not served."""
        self._pairs = [
            tuple(
                Informer(
                    cluster,
                    Selection(kind=Kind(f"{GROUP}/{version}", kind), metadata_only=True),
                    project=_ours,
                    changed=lambda *_: changed(),
                    absent_pause=informer.ABSENT_PAUSE,
                )
                for kind in KINDS
            )
            for version in VERSIONS
        ]

    @property
    def informers(self) -> tuple[Informer, ...]:
        """Those that matter: of the newest version that is served."""
        newer, older = self._pairs
        return newer if not all(each.kind_missing for each in newer) else (*newer, *older)

    @property
    def known(self) -> bool:
        """Tell whether an answer came, if only that we may not ask."""
        return all(each.synced or each.refused for each in self.informers)

    def now(self) -> Stamps:
        """Tell what is in force. A policy without its binding, and a binding without its policy, do nothing."""
        for policies, bindings in self._pairs:
            general, pinned = (
                policies.get("", name) if bindings.get("", name) else None
                for name in (names.STAMPING_POLICY, names.STAMPING_PINNED)
            )
            if general is not None or pinned is not None:
                return Stamps(policy=None if general is None else _policy(general), pinned=pinned is not None)
        return Stamps()

    def lacks(self) -> str:
        """Say why new Workflows get no ID; empty where they do."""
        served = [pair for pair in self._pairs if not any(each.kind_missing for each in pair)]
        if any(all(each.get("", names.STAMPING_POLICY) is not None for each in pair) for pair in served):
            return ""
        if refused := [each.refused for each in self.informers if each.refused]:
            return f"whether policy {names.STAMPING_POLICY} is there cannot be seen ({refused[0]})"
        newest = served[0] if served else ()
        missing = [each.selection.kind.kind for each in newest if each.get("", names.STAMPING_POLICY) is None]
        if not missing:
            return f"the cluster serves no {KINDS[0]} (Kubernetes 1.36 does, 1.34 with v1beta1 switched on)"
        return f"{' and '.join(f'{kind} {names.STAMPING_POLICY}' for kind in missing)} not there"

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """Hand out what has to run."""
        newer, older = self._pairs
        return [*(each.run() for each in newer), *(self._older(each, newer) for each in older)]

    async def read_once(self) -> None:
        """Look without watching."""
        for pair in self._pairs:
            await asyncio.gather(*(each.read_once() for each in pair))
            if not any(each.kind_missing for each in pair):
                return

    async def _older(self, each: Informer, newer: tuple[Informer, ...]) -> None:
        for one in newer:
            await one.wait_absent()
        await each.run()


def _policy(live: Manifest) -> Policy:
    said = (live["metadata"].get("annotations") or {}).get(names.INSTANCE_ID_POLICY_ANNOTATION)
    return Policy(said) if said in set(Policy) else Policy.PER_NAMESPACE  # the first ones said nothing


def _ours(live: Manifest) -> Manifest | None:
    """Keep the name of ours, and which policy it follows."""
    meta = live["metadata"]
    if meta["name"] not in {names.STAMPING_POLICY, names.STAMPING_PINNED}:
        return None
    said = (meta.get("annotations") or {}).get(names.INSTANCE_ID_POLICY_ANNOTATION)
    annotations = {} if said is None else {names.INSTANCE_ID_POLICY_ANNOTATION: said}
    return {**_kind(live), "metadata": {"name": meta["name"], "annotations": annotations}}


def _kind(live: Manifest) -> Manifest:
    return {key: live[key] for key in ("apiVersion", "kind")}
