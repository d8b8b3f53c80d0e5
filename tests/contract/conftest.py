"""Back ends for the contract: always the fake, and a real API server when `METAOPERATOR_KUBECONFIG` names one."""

import asyncio
import contextlib
import os
import secrets
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fake import FakeApiServer

from .client import GROUP, Api, connect, eventually, manifest, path_of

KINDS = (("Widget", True), ("Gadget", False))  # and whether they have a status subresource
_ARRAY = {"type": "array", "items": {"type": "string"}}
_NAMED = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "size": {"type": "string"}},
}
_STATUS = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
            },
        },
    },
}
_SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "default": 1},
        "notes": _ARRAY,
        "tags": {**_ARRAY, "x-kubernetes-list-type": "set"},
        "parts": {
            "type": "array",
            "items": _NAMED,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "options": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def _kubeconfig() -> str | None:
    return os.environ.get("METAOPERATOR_KUBECONFIG") or None


def pytest_report_header() -> str:
    """Say at the top which back ends take part."""
    found = _kubeconfig()
    if found:
        return f"contract: fake and the real API server of {found}"
    return "contract: FAKE ONLY, real API server deselected (set METAOPERATOR_KUBECONFIG to include it)"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every claim against every back end."""
    if "api" in metafunc.fixturenames:
        metafunc.parametrize("api", ["fake", "real"], indirect=True)


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark of claims that compare both back ends."""
    config.addinivalue_line("markers", "needs_real: compares the fake with a real API server")


def _wants_real(item: pytest.Item) -> bool:
    back_end = item.callspec.params.get("api") if hasattr(item, "callspec") else None
    return back_end == "real" or item.get_closest_marker("needs_real") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the real back end when there is none, so that nobody takes it for passed."""
    if _kubeconfig():
        return
    absent = [item for item in items if _wants_real(item)]
    config.hook.pytest_deselected(items=absent)
    items[:] = [item for item in items if item not in absent]


@pytest.fixture
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """One API server."""
    if request.param == "real":
        async with connect(os.environ["METAOPERATOR_KUBECONFIG"]) as real:
            yield real
        return
    async with FakeApiServer(bookmark_every=0.1) as server, aiohttp.ClientSession() as session:
        fake = Api(session, server.url, real=False)
        fake.compact = server.compact
        yield fake


@pytest.fixture
async def namespace(api: Api) -> AsyncIterator[str]:
    """Make a namespace of its own for each test."""
    name = f"contract-{secrets.token_hex(4)}"
    answer = await api.create(None, manifest("Namespace", name, metadata={"labels": {"contract": "yes"}}))
    assert answer.code == 201, answer
    if api.real:
        # A controller puts a ConfigMap into every namespace, which would turn up in watches.
        async def furnished() -> bool:
            return (await api.get("ConfigMap", name, "kube-root-ca.crt")).code == 200

        await eventually(furnished)
    yield name
    await api.delete("Namespace", None, name)


@pytest.fixture
async def widgets(api: Api) -> None:
    """Serve Widget (with a status subresource) and Gadget (without)."""
    for kind, status in KINDS:
        body = definition(kind, status=status)
        answer = await api.apply(None, body, force=True)
        assert answer.code in (200, 201), answer
    for kind in ("Widget", "Gadget"):

        async def served(kind: str = kind) -> bool:
            return (await api.get(kind, None)).code == 200

        await eventually(served)


def definition(kind: str, *, status: bool) -> dict[str, object]:
    """Build the definition of a kind that has a list of every type."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if status:
        version["subresources"] = {"status": {}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    return manifest("CustomResourceDefinition", f"{plural}.{GROUP}", spec=spec)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say it again at the end, where `-q` shows it."""
    if not _kubeconfig():
        terminalreporter.write_line(pytest_report_header(), yellow=True)


def pytest_sessionfinish() -> None:
    """Take the definitions off the real server again."""
    found = _kubeconfig()
    if found:
        asyncio.run(_remove_definitions(found))


async def _remove_definitions(kubeconfig: str) -> None:
    # A server that went away has nothing left to tidy.
    with contextlib.suppress(aiohttp.ClientError):
        async with connect(kubeconfig) as api:
            for plural in ("widgets", "gadgets"):
                await api.call("DELETE", path_of("CustomResourceDefinition", None, f"{plural}.{GROUP}"))
