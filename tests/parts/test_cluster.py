"""The one door to Kubernetes: answers become our errors, writes pass the gate, and no secret leaves it."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from metaoperator.cluster import PAGE_BYTES, Cluster, Selection, crd_exists
from metaoperator.core.errors import (
    ConfigError,
    Conflict,
    Expired,
    Gone,
    Invalid,
    MetaoperatorError,
    NotLeading,
    Rejected,
    RetryableError,
    Throttled,
    Unauthorized,
)
from metaoperator.core.model import CONFIG_MAP, NAMESPACE, WORKFLOW, Kind, Ref
from metaoperator.gate import Gate
from tests.fake import FakeApiServer

from . import stub
from .world import OTHER_TOKEN, TOKEN, World, write_kubeconfig

REF = Ref(CONFIG_MAP, "default", "a")
BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"k": "v"}}
MAPS = Selection(kind=CONFIG_MAP)


@pytest.fixture
async def cluster(world: World) -> AsyncIterator[Cluster]:
    """A client with an open gate."""
    async with world.cluster() as made:
        yield made


@pytest.fixture(autouse=True)
def no_secrets(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No log record of any test here holds a token."""
    caplog.set_level(logging.DEBUG)
    yield
    assert TOKEN not in caplog.text
    assert OTHER_TOKEN not in caplog.text


# ---- answers


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, Rejected),
        (401, Unauthorized),
        (403, Rejected),
        (409, Conflict),
        (410, Expired),
        (422, Invalid),
        (429, Throttled),
        (500, RetryableError),
        (503, RetryableError),
        (504, RetryableError),
    ],
)
@pytest.mark.parametrize("verb", ["get", "apply"])
async def test_each_code_is_one_of_our_errors(
    cluster: Cluster, server: FakeApiServer, code: int, error: type[Exception], verb: str
) -> None:
    """The table of answers; every error names the request or repeats the API server's own sentence."""
    server.faults.answer(code, message="the server's own words", verb=verb, times=10)
    with pytest.raises(error) as caught:
        await (cluster.get(REF) if verb == "get" else cluster.apply(BODY, force=False))
    assert type(caught.value) is error
    assert "the server's own words" in str(caught.value)
    assert TOKEN not in repr(caught.value)


async def test_an_object_that_is_not_there_is_none_and_a_kind_that_is_not_there_is_gone(
    cluster: Cluster, server: FakeApiServer
) -> None:
    """404 means two things: `None` for the object; `Gone` with `kind_missing` for its kind or group."""
    assert await cluster.get(REF) is None
    server.withdraw("Workflow")
    for kind in (WORKFLOW, Kind("v1", "Nonsense"), Kind("nonsense.example/v1", "Nonsense")):
        with pytest.raises(Gone) as caught:
            await cluster.get(Ref(kind, "default", "a"))
        assert caught.value.kind_missing
        assert kind.kind in str(caught.value) or kind.api_version in str(caught.value)


async def test_a_kind_that_vanishes_after_it_was_known_is_gone_too(cluster: Cluster, server: FakeApiServer) -> None:
    """Discovery is remembered; the answer to the request itself then tells, for reads and lists."""
    assert await cluster.get(Ref(WORKFLOW, "default", "a")) is None
    server.withdraw("Workflow")
    with pytest.raises(Gone) as caught:
        await cluster.get(Ref(WORKFLOW, "default", "a"))
    assert caught.value.kind_missing
    with pytest.raises(Gone) as caught:
        async for _ in cluster.list_pages(Selection(kind=WORKFLOW)):
            pass
    assert caught.value.kind_missing
    assert not await crd_exists(cluster, "workflows.argoproj.io")


async def test_a_kind_installed_later_is_found(cluster: Cluster, server: FakeApiServer) -> None:
    """Absence is asked for anew each time."""
    definition = server.withdraw("Workflow")
    with pytest.raises(Gone):
        await cluster.get(Ref(WORKFLOW, "default", "a"))
    server.define(definition)
    assert await cluster.get(Ref(WORKFLOW, "default", "a")) is None
    assert await crd_exists(cluster, "workflows.argoproj.io")


async def test_a_write_into_a_terminating_namespace_is_gone(cluster: Cluster, world: World) -> None:
    """R26: the 403 that says `being terminated` is final for this namespace, not a lack of rights."""
    world.namespace("leaving")
    world.make("ConfigMap", "leaving", "hold", data={"a": "b"})
    world.server.patch("ConfigMap", "leaving", "hold", {"metadata": {"finalizers": ["example.com/x"]}})
    world.server.delete("Namespace", None, "leaving")
    with pytest.raises(Gone) as caught:
        await cluster.apply({**BODY, "metadata": {"name": "a", "namespace": "leaving"}}, force=False)
    assert not caught.value.kind_missing


@pytest.mark.parametrize(
    ("headers", "body", "after"),
    [
        ({"Retry-After": "7"}, {"message": "busy"}, 7.0),
        ({}, {"message": "busy", "details": {"retryAfterSeconds": 9}}, 9.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, {}, 1.0),
        ({}, {}, 1.0),
    ],
    ids=["header", "body", "a date", "nothing"],
)
async def test_throttled_says_for_how_long(world: World, headers: Any, body: Any, after: float) -> None:
    """R49: header or body name the seconds; without either it is one."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(body, status=429, headers=headers)

    async with stubbed(world, answer) as cluster:
        with pytest.raises(Throttled) as caught:
            await cluster.get(REF)
    assert caught.value.after == after


async def test_a_server_error_that_names_a_pause_is_throttled(world: World) -> None:
    """503 with Retry-After comes from an API server that is starting or full."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=503, text="not ready", headers={"Retry-After": "3"})

    async with stubbed(world, answer) as cluster:
        with pytest.raises(Throttled) as caught:
            await cluster.get(REF)
    assert caught.value.after == 3.0
    assert "not ready" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "<html>502 Bad Gateway</html>", "[1]", '"x"', "null", '{"details": null}', '{"code": "x"}']
)
@pytest.mark.parametrize("code", [404, 422, 502])
async def test_errors_in_other_words_are_errors_all_the_same(world: World, text: str, code: int) -> None:
    """Proxies and load balancers answer in HTML or nothing: never a traceback of ours."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=code, text=text)

    async with stubbed(world, answer) as cluster:
        with pytest.raises(MetaoperatorError):
            await cluster.get(REF)


@pytest.mark.parametrize("text", ["", "<html>login</html>", '{"kind": "ConfigM'], ids=["empty", "html", "truncated"])
async def test_a_success_that_is_no_json_is_tried_again(world: World, text: str) -> None:
    """200 with something else than an object is a proxy's page or a cut: later, with backoff."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=text, content_type="application/json")

    async with stubbed(world, answer) as cluster:
        with pytest.raises(RetryableError):
            await cluster.get(REF)


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
async def test_a_cut_connection_is_tried_again_later(
    cluster: Cluster, server: FakeApiServer, *, after_effect: bool
) -> None:
    """Whether the write was done is unknown: an error that asks for a new look, no repetition of our own."""
    server.faults.cut(after_effect=after_effect, verb="apply")
    with pytest.raises(RetryableError):
        await cluster.apply(BODY, force=False)
    assert (server.get("ConfigMap", "default", "a") is not None) is after_effect
    assert len(server.audit.select(verb="apply")) == 1


async def test_no_server_at_all_is_tried_again_later(world: World) -> None:
    """A refused connection is an error of ours that names the request."""
    write_kubeconfig(world.kubeconfig, "http://127.0.0.1:1")
    async with world.cluster() as cluster:
        with pytest.raises(RetryableError):
            await cluster.get(REF)


async def test_a_request_that_hangs_is_given_up(cluster: Cluster, server: FakeApiServer) -> None:
    """Reads and writes end after 20 seconds, whatever the API server does."""
    loop = asyncio.get_running_loop()
    server.faults.hang(times=2)
    for request in (cluster.get(REF), cluster.apply(BODY, force=False)):
        started = loop.time()
        with pytest.raises(RetryableError, match="20 s"):
            await request
        assert 20 <= loop.time() - started < 21


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "a: [b",
        "- a\n",
        "kind: Config\ncurrent-context: x\n",
        "kind: Config\nclusters: []\ncontexts: []\nusers: []\n",
    ],
    ids=["missing", "empty", "no yaml", "a list", "half", "without a context"],
)
async def test_a_kubeconfig_that_is_none_is_a_sentence(tmp_path: Path, text: str | None) -> None:
    """What is missing and what to do, in place of a traceback."""
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match="KUBECONFIG"):
        await Cluster(kubeconfig=str(path), gate=Gate()).connect()


# ---- credentials


async def test_a_rotated_token_is_read_anew_and_the_request_repeated(
    world: World, cluster: Cluster, server: FakeApiServer
) -> None:
    """401 with a stale token: the kubeconfig is read again, and the caller notices nothing."""
    server.tokens = {OTHER_TOKEN}
    write_kubeconfig(world.kubeconfig, server.url, OTHER_TOKEN)
    await asyncio.sleep(10)
    made, created = await cluster.apply(BODY, force=False)
    assert created
    assert made["data"] == {"k": "v"}
    assert await cluster.get(REF) is not None


async def test_many_refused_at_once_read_the_credentials_once(
    world: World, cluster: Cluster, server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A burst of 401 is one renewal, not one for each request."""
    reads = 0
    real = cluster._client

    async def counted() -> Any:
        nonlocal reads
        reads += 1
        return await real()

    monkeypatch.setattr(cluster, "_client", counted)
    await cluster.get(REF)
    server.tokens = {OTHER_TOKEN}
    write_kubeconfig(world.kubeconfig, server.url, OTHER_TOKEN)
    await asyncio.sleep(10)
    assert await asyncio.gather(*(cluster.get(REF) for _ in range(20))) == [None] * 20
    assert reads == 1


async def test_a_token_that_stays_refused_is_unauthorized_and_told_without_it(
    cluster: Cluster, server: FakeApiServer
) -> None:
    """After one renewal the 401 stands; the message never repeats what was sent."""
    server.tokens = set()
    with pytest.raises(Unauthorized) as caught:
        await cluster.get(REF)
    chain: BaseException | None = caught.value
    while chain is not None:
        assert TOKEN not in str(chain) + repr(chain)
        chain = chain.__cause__ or chain.__context__


async def test_a_watch_that_is_refused_renews_too(world: World, cluster: Cluster, server: FakeApiServer) -> None:
    """Long streams outlive tokens: the next one starts with the new token."""
    await cluster.get(REF)
    server.tokens = {OTHER_TOKEN}
    write_kubeconfig(world.kubeconfig, server.url, OTHER_TOKEN)
    await asyncio.sleep(10)
    stream = watch(cluster, str(server.history.version))
    server.create(BODY)
    event = await anext(stream)
    assert event["type"] == "ADDED"
    await stream.aclose()


async def test_kopf_is_handed_the_same_credentials(cluster: Cluster, server: FakeApiServer) -> None:
    """Host and bare token, without its scheme."""
    found = await cluster.credentials()
    assert found["server"] == server.url
    assert found["token"] == TOKEN


async def test_a_netrc_of_the_user_is_none_of_our_business(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A developer's ~/.netrc names a login for every host: the kubeconfig's token is what counts."""
    (tmp_path / "netrc").write_text("default login somebody password something\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    world.server.tokens = {TOKEN}
    async with world.cluster() as cluster:
        assert await cluster.get(REF) is None


# ---- the gate


async def test_a_closed_gate_refuses_every_write_and_sends_nothing(world: World, server: FakeApiServer) -> None:
    """Apply, status, delete, create, replace, events: NotLeading, and the API server hears nothing."""
    live = server.create(BODY)
    server.audit.clear()
    event = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}}
    async with world.cluster(open_for=-1) as cluster:
        writes = (
            cluster.apply(BODY, force=True),
            cluster.apply(BODY, force=True, dry_run=True),
            cluster.apply(BODY, force=True, subresource="status"),
            cluster.delete(REF, uid=live["metadata"]["uid"]),
            cluster.create(BODY),
            cluster.replace(live),
            cluster.post_event(event),
            cluster.post_event({**event, "series": {"count": 2}}),
        )
        for write in writes:
            with pytest.raises(NotLeading):
                await write
        assert list(server.audit) == []
        assert await cluster.get(REF) is not None


async def test_a_gate_starts_closed(world: World) -> None:
    """Nobody writes before having been elected."""
    async with world.cluster(open_for=0) as cluster:
        cluster.gate = Gate()
        with pytest.raises(NotLeading):
            await cluster.create(BODY)


async def test_the_end_of_a_term_cuts_a_write_under_way(world: World, server: FakeApiServer) -> None:
    """A write that hangs is given up at the moment at which the gate closes, and has no effect later."""
    held = server.faults.hang(verb="apply")
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with world.cluster(open_for=3.0) as cluster:
        with pytest.raises(RetryableError):
            await cluster.apply(BODY, force=False)
        assert loop.time() - started == pytest.approx(3.0, abs=0.01)
        await asyncio.sleep(0.1)
        held.release()
        await asyncio.sleep(1)
    assert server.get("ConfigMap", "default", "a") is None


async def test_a_gate_that_closes_early_cuts_a_write_under_way(cluster: Cluster, server: FakeApiServer) -> None:
    """Somebody else was seen to lead: what hangs on the wire is given up at once."""
    held = server.faults.hang(verb="apply")
    write = asyncio.create_task(cluster.apply(BODY, force=False))
    await held.entered()
    cluster.gate.open_until(0.0)
    await asyncio.sleep(0.5)
    held.release()
    with pytest.raises(RetryableError):
        await write
    assert server.get("ConfigMap", "default", "a") is None


async def test_a_term_that_ends_while_a_write_is_made_ready_sends_nothing_of_it(
    cluster: Cluster, server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is frozen between the gate and the wire wakes into a closed gate, wherever it stood.

    No timer tells it so first: what it had begun is what the event loop turns to first. So the moment passes unheard
    here, after each possible number of turns.
    """
    sent: list[bool] = []
    write = asyncio.selector_events._SelectorSocketTransport.write  # type: ignore[attr-defined]

    def noted(transport: Any, data: bytes) -> None:
        if bytes(data[:6]) == b"PATCH ":
            sent.append(cluster.gate.remaining() > 0)
        write(transport, data)

    monkeypatch.setattr(asyncio.selector_events._SelectorSocketTransport, "write", noted)  # type: ignore[attr-defined]
    await cluster.apply(BODY, force=False)  # a connection is at hand, and discovery was asked
    passed_and_unsent = 0
    for turns in range(30):
        cluster.gate.open_until(asyncio.get_running_loop().time() + 60)
        begun, sent[:] = asyncio.create_task(cluster.apply({**BODY, "data": {"k": str(turns)}}, force=False)), []
        for _ in range(turns):
            await asyncio.sleep(0)
        passed = bool(cluster.gate._under_way)
        cluster.gate._until = 0.0
        with contextlib.suppress(NotLeading):
            await begun
        assert sent in ([], [True]), f"sent after the gate was closed, after {turns} turns"
        live = server.get("ConfigMap", "default", "a")
        assert live is not None
        assert (live["data"]["k"] == str(turns)) is bool(sent)
        passed_and_unsent += passed and not sent
    assert passed_and_unsent
    cluster.gate.open_until(asyncio.get_running_loop().time() + 60)
    await cluster.apply(BODY, force=False)


async def test_unfenced_writes_are_the_electors_alone(world: World, server: FakeApiServer) -> None:
    """The Lease has to be written before anybody leads."""
    async with world.cluster(open_for=-1) as cluster:
        await cluster.create(BODY, fenced=False)
    assert server.get("ConfigMap", "default", "a") is not None


# ---- writes


async def test_apply_on_the_wire(cluster: Cluster, server: FakeApiServer) -> None:
    """Server-side apply as `metaoperator`; forced only where asked; a dry run changes nothing."""
    _, created = await cluster.apply(BODY, force=False)
    assert created
    _, created = await cluster.apply({**BODY, "data": {"k": "w"}}, force=True, dry_run=True)
    assert not created
    first, second = server.audit.select(verb="apply")
    assert first.query == {"fieldManager": "metaoperator", "force": "false"}
    assert second.query == {"fieldManager": "metaoperator", "force": "true", "dryRun": "All"}
    live = server.get("ConfigMap", "default", "a")
    assert live is not None
    assert live["data"] == {"k": "v"}


async def test_an_apply_with_a_uid_never_recreates_or_hits_a_successor(cluster: Cluster, server: FakeApiServer) -> None:
    """The object is gone: a Conflict. Another has its name: Invalid. Nothing is made or changed."""
    body = {**BODY, "metadata": {**BODY["metadata"], "uid": "of-the-one-before"}}  # type: ignore[dict-item]
    with pytest.raises(Conflict):
        await cluster.apply(body, force=True)
    assert server.get("ConfigMap", "default", "a") is None
    live = server.create(BODY)
    with pytest.raises(Invalid):
        await cluster.apply({**body, "data": {"k": "w"}}, force=True)
    assert server.get("ConfigMap", "default", "a") == live


async def test_a_delete_spares_a_successor_and_is_content_with_nothing(cluster: Cluster, server: FakeApiServer) -> None:
    """Another UID: left as it is. Not there: done already. The right UID: deleted, in the way that was asked for."""
    live = server.create(BODY)
    await cluster.delete(REF, uid="of-the-one-before")
    assert server.get("ConfigMap", "default", "a") == live
    await cluster.delete(REF, uid=live["metadata"]["uid"], foreground=True)
    assert server.get("ConfigMap", "default", "a") is None
    await cluster.delete(REF, uid=live["metadata"]["uid"])
    policies = [(entry.body or {})["propagationPolicy"] for entry in server.audit.select(verb="delete")]
    assert policies == ["Background", "Foreground", "Background"]


async def test_create_and_replace_conflict_with_what_came_first(cluster: Cluster, server: FakeApiServer) -> None:
    """A taken name and a version that moved on are both `Conflict`."""
    live = await cluster.create(BODY)
    with pytest.raises(Conflict):
        await cluster.create(BODY)
    server.patch("ConfigMap", "default", "a", {"data": {"k": "moved"}})
    with pytest.raises(Conflict):
        await cluster.replace({**live, "data": {"k": "late"}})


# ---- lists and watches


async def test_an_empty_list_with_null_items_is_an_empty_list(world: World) -> None:
    """Metadata-only lists come with `null` in place of `[]` (v1.36.3)."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"kind": "List", "metadata": {"resourceVersion": "7"}, "items": None})

    async with stubbed(world, answer) as cluster:
        pages = [page async for page in cluster.list_pages(MAPS)]
    assert [page["items"] for page in pages] == [[]]


async def test_pages_follow_the_token(cluster: Cluster, world: World, server: FakeApiServer) -> None:
    """Each page is one request; the selector is repeated; every object comes once."""
    for i in range(7):
        world.make("ConfigMap", "default", f"m-{i}", metadata=_labelled(f"m-{i}"), data={"a": "b"})
    selection = Selection(kind=CONFIG_MAP, namespace="default", label_selector="x=y", metadata_only=True)
    pages = [page["items"] async for page in cluster.list_pages(selection, limit=3)]
    assert [len(page) for page in pages] == [3, 3, 1]
    asked = server.audit.select(verb="list", resource="configmaps")
    assert [(entry.namespace, entry.query["labelSelector"]) for entry in asked] == [("default", "x=y")] * 3
    assert all("as=PartialObjectMetadataList" in entry.accept for entry in asked)


async def test_an_expired_page_is_expired(cluster: Cluster, world: World, server: FakeApiServer) -> None:
    """K3: paging that took too long asks for a new list."""
    for i in range(4):
        world.make("ConfigMap", "default", f"m-{i}", data={"a": "b"})
    pages = cluster.list_pages(MAPS, limit=2)
    await anext(pages)
    world.make("ConfigMap", "default", "later", data={"a": "b"})
    server.compact()
    with pytest.raises(Expired):
        await anext(pages)


async def test_a_watch_from_too_long_ago_is_expired(cluster: Cluster, world: World, server: FakeApiServer) -> None:
    """410 as an ERROR event in a stream that began with 200."""
    since = str(server.history.version)
    world.make("ConfigMap", "default", "later", data={"a": "b"})
    server.compact()
    with pytest.raises(Expired):
        await anext(watch(cluster, since))


@pytest.mark.parametrize(
    "lines",
    [
        ['{"type": "ADDED", "object": {"meta'],
        ["<html>a proxy</html>\n"],
        [{"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcdserver: leader changed"}}],
        [{"type": "ERROR", "object": {"kind": "Status"}}],
    ],
    ids=["truncated", "html", "error event", "error event without a code"],
)
async def test_a_watch_that_ends_badly_is_tried_again(world: World, lines: list[Any]) -> None:
    """R44: half a line, somebody's page or an ERROR event end the stream with an error of ours."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return await stub.stream(request, *lines)

    async with stubbed(world, answer) as cluster:
        with pytest.raises(RetryableError):
            async for _ in watch(cluster, "1"):
                pass


async def test_a_connection_that_goes_between_two_lines_is_a_cut(
    cluster: Cluster, world: World, server: FakeApiServer
) -> None:
    """Aiohttp says RuntimeError then; it is no bug of ours, and the watch goes on where it was."""
    stream = watch(cluster, str(server.history.version))
    world.make("ConfigMap", "default", "one", data={"a": "b"})
    assert (await anext(stream))["type"] == "ADDED"
    await cluster.close()
    with pytest.raises(RetryableError, match="was cut"):
        await anext(stream)


async def test_a_silent_watch_is_given_up(world: World) -> None:
    """R44: neither data nor an end: the read timeout decides."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = await stub.stream(request)
        await asyncio.sleep(1e6)
        return response

    loop = asyncio.get_running_loop()
    async with stubbed(world, answer) as cluster:
        started = loop.time()
        with pytest.raises(RetryableError):
            await anext(watch(cluster, "1", read_timeout=30))
        assert loop.time() - started == pytest.approx(30, abs=0.1)


async def test_names_are_quoted(cluster: Cluster) -> None:
    """A name cannot leave its place in the path."""
    assert await cluster.get(Ref(NAMESPACE, "", "a/../b?c")) is None


def watch(cluster: Cluster, since: str, read_timeout: float = 75) -> Any:
    """Watch ConfigMaps."""
    return cluster.watch(MAPS, resource_version=since, server_timeout=300, read_timeout=read_timeout)


@contextlib.asynccontextmanager
async def stubbed(world: World, answer: stub.Answer) -> AsyncIterator[Cluster]:
    """Connect a client to a server that answers as told."""
    async with stub.stub(answer) as url:
        write_kubeconfig(world.kubeconfig, url)
        async with world.cluster() as cluster:
            yield cluster


def _labelled(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": "default", "labels": {"x": "y"}}


async def test_pages_stay_small_whatever_the_objects_are(cluster: Cluster, server: FakeApiServer) -> None:
    """Five hundred of a tenant's at 1 MB would be all the memory there is: each comes once, a few at a time."""
    for number in range(80):
        data = {"k": "x" * (400_000 if 10 <= number < 60 else 1)}
        meta = {"name": f"m-{number:03}", "namespace": "default"}
        server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    pages = [page["items"] async for page in cluster.list_pages(MAPS, limit=60)]
    found = [item["metadata"]["name"] for page in pages for item in page if item["metadata"]["name"].startswith("m-")]
    assert found == [f"m-{number:03}" for number in range(80)]
    assert all(sum(len(item["data"]["k"]) for item in page if "k" in item["data"]) <= PAGE_BYTES for page in pages)
    assert 4 <= len(pages) <= 12
    assert max(map(len, pages[:-1])) < 60
