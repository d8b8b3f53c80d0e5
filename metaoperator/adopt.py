"""Hand-made installs that the platform wants taken over: read and judged before anything of them is touched."""

from collections.abc import Iterator, Mapping
from typing import Any

from metaoperator import publish
from metaoperator.cluster import Cluster, Selection
from metaoperator.core import adopt, foreign, names, ownership, paths, takeover, ties
from metaoperator.core.errors import Gone, Rejected, Stalled
from metaoperator.core.foreign import Foreign, Started
from metaoperator.core.model import DEPLOYMENT, ROLE_BINDING, Desired, Manifest, Namespace, Ref
from metaoperator.core.names import Reason
from metaoperator.core.plan import Step
from metaoperator.core.serving import Controller
from metaoperator.core.shard import Policy
from metaoperator.fleet import Fleet, Observed
from metaoperator.mirror import Mirror

_NOTHING: Mapping[Ref, Step] = {}


class Adopter:
    """Looks at what is there under the names that we render. What is wholly ours costs no request."""

    def __init__(self, cluster: Cluster, mirror: Mirror, fleet: Fleet) -> None:
        """Remember nothing."""
        self._cluster = cluster
        self._mirror = mirror
        self._fleet = fleet

    async def instance_id(self, namespace: Namespace, policy: Policy | None) -> str | None:
        """Read the instance ID of the install that is to be taken over, empty for none; `None` where there is none.

        `Stalled` where it may not be.
        """
        wfc = await self._mirror.get(publish.wfc_ref(namespace.name))
        if policy is None or wfc is None or not adopt.asked(wfc):
            return None
        seen = self._fleet.observe(namespace.name, None)
        if seen.deployment(namespace.uid) is not None:
            return None
        written = str((wfc.get("spec") or {}).get("instanceID") or "")
        ref = Ref(DEPLOYMENT, namespace.name, names.WORKFLOW_CONTROLLER)
        live = await self._cluster.get(ref)
        if live is not None and ownership.is_ours(live, namespace.uid):
            self._fleet.learn(live)
            return None
        asked = bool(written) or seen.rendered_for(namespace) is not None  # one without an ID is written nowhere else
        if asked and (live is None or "deletionTimestamp" in live["metadata"]):
            return None  # nothing to take over, or what is being replaced: which ID it has was asked before
        found = [] if live is None else [await self._judged(how) for how in foreign.started(live)]
        others = sorted(self._others(ref))
        why = adopt.refusal(live, found, others, namespace=namespace.name, written=written, policy=policy)
        if why:
            raise Stalled(Reason.ADOPTION_REFUSED, f"nothing is taken over: {why}")
        return found[0].instance_id if found else None

    async def steps(self, namespace: Namespace, wfc: Manifest, desired: Desired, seen: Observed) -> Mapping[Ref, Step]:
        """Plan what becomes of each object of a name that we render and that is not ours.

        `Stalled` where one of them may not be taken over: then none is.
        """
        ours = seen.ours(namespace.uid)
        wanted = [ref for each in desired.documents if (ref := Ref.of(each)) not in ours]
        if not wanted or not adopt.asked(wfc):
            return _NOTHING
        found: dict[Ref, Manifest] = {}
        for ref in wanted:
            live = await self._cluster.get(ref)
            if live is not None and not ownership.is_ours(live, namespace.uid):
                found[ref] = live
        if faults := list(takeover.faults(found, namespace.uid)):
            raise Stalled(Reason.ADOPTION_REFUSED, f"nothing is taken over: {'; '.join(faults)}")
        child = found.get(Ref(DEPLOYMENT, namespace.name, names.WORKFLOW_CONTROLLER))
        return takeover.steps(
            desired.documents,
            found,
            child_is_ours=seen.deployment(namespace.uid) is not None,
            beside=[] if child is None else await self._beside(child, {Ref.of(each) for each in desired.documents}),
        )

    async def _judged(self, how: Started) -> Foreign:
        if how.configuration is None:
            return foreign.judge(how, None)
        try:
            return foreign.judge(how, await self._cluster.get(how.configuration))
        except (Rejected, Gone) as exc:
            return foreign.judge(how, None, unread=f"{how.configuration} cannot be read: {exc}")

    def _others(self, child: Ref) -> Iterator[Controller]:
        """Name the other controllers that live in the namespace and serve it alone."""
        for each in self._fleet.around.foreigners.controllers():
            if each.alive and each.ref.namespace == each.sees == child.namespace and each.ref != child:
                yield each

    async def _beside(self, child: Manifest, wanted: set[Ref]) -> list[str]:
        """Name what an install consists of besides, under names that we do not render: it is left to people."""
        account = ties.account_of(child)
        found = (
            {f"{account.kind.kind}/{account.name}"} if account not in wanted and account.name != "default" else set()
        )
        for how in foreign.started(child):
            if how.configuration is not None and how.configuration not in wanted:
                found.add(f"{how.configuration.kind.kind}/{how.configuration.name}")
        for binding in await self._within(ROLE_BINDING, account.namespace):
            subjects = binding.get("subjects") or ()
            if Ref.of(binding) not in wanted and any(_is(each, account) for each in subjects):
                role = binding["roleRef"]
                found.add(f"{ROLE_BINDING.kind}/{binding['metadata']['name']} (to {role['kind']} {role['name']})")
        for other in await self._within(DEPLOYMENT, account.namespace):
            if Ref.of(other) not in wanted and _serves_people(other):
                found.add(f"{DEPLOYMENT.kind}/{other['metadata']['name']}")
        return sorted(found)

    async def _within(self, kind: Any, namespace: str) -> list[Manifest]:
        selection = Selection(kind=kind, namespace=namespace)
        return [
            {**item, "apiVersion": kind.api_version, "kind": kind.kind}
            async for page in self._cluster.list_pages(selection)
            for item in page["items"]
        ]


def _is(subject: Manifest, account: Ref) -> bool:
    home = subject.get("namespace") or account.namespace
    return (subject.get("kind"), home, subject.get("name")) == (account.kind.kind, account.namespace, account.name)


def _serves_people(deployment: Manifest) -> bool:
    """Tell an argo-server by its image or by its first argument."""
    containers = paths.mapping(deployment, "spec", "template", "spec").get("containers") or ()
    return any("/argocli" in str(each.get("image")) or (each.get("args") or [""])[0] == "server" for each in containers)
