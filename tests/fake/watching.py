"""One watch stream: backlog, events, bookmarks, and every way in which it can end."""

import asyncio
import json
from collections.abc import Callable

from aiohttp import web

from . import problems, selectors
from .history import ADDED, Subscription
from .kinds import Manifest
from .store import Store
from .views import View


class Watch:
    """Serves one watch request from start to end."""

    def __init__(self, store: Store, view: View, namespace: str | None, query: dict[str, str], *, every: float) -> None:
        self._store = store
        self._view = view
        self._namespace = namespace
        self._predicate = selectors.both(query.get("labelSelector"), query.get("fieldSelector"))
        self._bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self._seconds = float(query.get("timeoutSeconds") or 1800)
        self._every = every
        self._since = int(query["resourceVersion"]) if query.get("resourceVersion") not in (None, "", "0") else None

    async def serve(
        self, request: web.BaseRequest, cut: Callable[[web.BaseRequest], web.Response]
    ) -> web.StreamResponse:
        """Stream until the time is over, the client leaves or somebody cuts."""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        try:
            subscription = self._store.history.subscribe(self._view.kind, self._since)
        except problems.ApiError as error:
            # The answer is 200: the error is an event in the stream.
            await response.prepare(request)
            await response.write(_line("ERROR", error.body))
            return response
        try:
            await response.prepare(request)
            await self._stream(response, subscription)
            if subscription.cut:
                cut(request)
        finally:
            self._store.history.unsubscribe(subscription)
        return response

    async def _stream(self, response: web.StreamResponse, subscription: Subscription) -> None:
        loop = asyncio.get_running_loop()
        end, next_bookmark = loop.time() + self._seconds, loop.time() + self._every
        sent = self._since or 0
        if self._since is None:
            sent = self._store.history.version
            for obj in self._store.select(self._view.kind, self._namespace, self._predicate):
                await response.write(_line(ADDED, self._view.one(obj)))
        while True:
            now = loop.time()
            if self._bookmarks and (now >= next_bookmark or now >= end):
                await response.write(
                    _line(
                        "BOOKMARK", self._view.bookmark(sent if subscription.behind() else self._store.history.version)
                    )
                )
                next_bookmark = now + self._every
            if now >= end:
                return
            # A virtual clock may round a shorter wait down to nothing, and would then stand still for ever.
            due = min(end, next_bookmark if self._bookmarks else end)
            events = await subscription.wait(max(due - now, 0.001))
            if subscription.cut:
                return
            for event in events:
                sent = event.version
                if seen := event.seen(self._namespace, self._predicate):
                    await response.write(_line(seen[0], self._view.one(seen[1])))
            if subscription.error:
                await response.write(_line("ERROR", subscription.error))
                return


def _line(event: str, obj: Manifest) -> bytes:
    return json.dumps({"type": event, "object": obj}, separators=(",", ":")).encode() + b"\n"
