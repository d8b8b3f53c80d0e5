"""Send recorded writes again, as fast as the API server takes them: `python -m tests.bench.replay FILE`, DOOR on stdin.

A process of its own, like the operator. As many requests are under way as the operator had on average. Those of one
namespace go in their order, since a status needs its object; namespaces are worked on side by side, each from the
moment of its label on, as the operator's were.
"""

import asyncio
import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import aiohttp

from tests.e2e import simulated
from tests.e2e.local import OPT_IN

from . import record, wire
from .record import Write

_FENCE = "ValidatingAdmissionPolicy 'metaoperator-operator-writes'"


class _Namespace:
    """The writes of one namespace, with its own UIDs in the place of the recorded ones."""

    def __init__(self, name: str, writes: list[Write], uids: dict[str, str]) -> None:
        self.name = name
        self.labelled = asyncio.Event()
        self._writes = writes
        self._uids = uids

    async def replay(self, session: aiohttp.ClientSession, other: list[str]) -> None:
        """Send them one after the other; answers that differ from the recorded ones are told."""
        await self.labelled.wait()
        for write in self._writes:
            body = write.body
            for old, now in self._uids.items():
                body = body.replace(old, now)
            request = wire.Request(method=write.method, path=write.uri, body=body, content_type=write.content_type)
            code, answer = await wire.send(session, request)
            while code == 403 and _FENCE in str(answer.get("message")):
                # The label is set, and the API server's own copy of the namespace does not have it yet; the operator
                # loses as much time on reading the namespace first.
                await asyncio.sleep(0.01)
                code, answer = await wire.send(session, request)
            if code != write.code:
                other.append(f"{write.method} {write.uri}: {code}, recorded {write.code}: {answer.get('message')}")
            if write.uid and (new := (answer.get("metadata") or {}).get("uid")):
                self._uids[write.uid] = new


async def _run(writes: list[Write], old: dict[str, str], told: dict[str, Any]) -> dict[str, Any]:
    of: defaultdict[str, list[Write]] = defaultdict(list)
    for write in writes:
        of[write.namespace].append(write)
    new: dict[str, str] = told["uids"]
    spaces = [_Namespace(name, mine, {old[name]: new[name]}) for name, mine in sorted(of.items())]
    other: list[str] = []
    admin = wire.Door(**told["admin"])
    async with wire.Door(**told["door"]).session() as session, admin.session() as labeller:

        async def label(space: _Namespace) -> None:
            await wire.send(labeller, wire.labels(space.name, {OPT_IN: simulated.LABEL}))
            space.labelled.set()

        labelling = asyncio.create_task(wire.each(spaces, label, at_once=32))
        await wire.each(spaces, lambda space: space.replay(session, other), at_once=told["at_once"])
        await labelling
    return {"other": other, "cpu": time.process_time()}


def main() -> None:
    """Replay, and print what came of it as JSON."""
    writes, uids = record.load(Path(sys.argv[1]))
    print(json.dumps(asyncio.run(_run(writes, uids, json.load(sys.stdin)))))


if __name__ == "__main__":
    main()
