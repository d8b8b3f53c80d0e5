"""The token of the pod's ServiceAccount: rotated, expired, gone for a while. As inside a pod, but for TLS."""

import asyncio
import logging
from pathlib import Path

import pytest
from kubernetes.aio.config import incluster_config

from tests.fake import FakeApiServer

from .world import World


@pytest.fixture
def token(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Mount a token and a CA as the kubelet does, and name the API server as it does."""
    file, authority = tmp_path / "token", tmp_path / "ca.crt"
    file.write_text("one")
    authority.write_text("a certificate that nobody looks at")
    host, _, port = world.server.url.removeprefix("http://").partition(":")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(file))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))
    loader = incluster_config.InClusterConfigLoader
    load = loader._load_config

    def plain(self: incluster_config.InClusterConfigLoader) -> None:
        load(self)
        self.host, self.ssl_ca_cert = world.server.url, None

    monkeypatch.setattr(loader, "_load_config", plain)
    return file


def write(token: Path, text: str | None) -> None:
    """Write the token anew, or take its file away."""
    if text is None:
        token.unlink()
    else:
        token.write_text(text)


async def test_a_rotated_token_is_read_from_its_file(world: World, server: FakeApiServer, token: Path) -> None:
    """The kubelet writes a new one, the old one expires: what comes afterwards is done, within a minute."""
    server.tokens = {"one"}
    async with world.operator(kubeconfig=None) as one:
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"), 20)
        for number in range(3):
            write(token, f"rotated-{number}")
            server.tokens = {f"rotated-{number}"}
            server.cut_watches()
            world.opt_in(f"team-{number}")
            await world.until(lambda: world.ready(f"team-{number}"), 60)  # noqa: B023
        assert not one.task.done()


@pytest.mark.parametrize("text", [None, ""], ids=["gone", "empty"])
async def test_a_token_file_that_cannot_be_read_is_waited_for(
    world: World, server: FakeApiServer, token: Path, caplog: pytest.LogCaptureFixture, text: str | None
) -> None:
    """The old token has expired and no new one is there: sentences in the log, no traceback, and it heals."""
    caplog.set_level(logging.INFO)
    server.tokens = {"one"}
    async with world.operator(kubeconfig=None) as one:
        world.opt_in("team-a")
        await world.until(lambda: world.ready("team-a"), 20)
        write(token, text)
        server.tokens = {"two"}
        server.cut_watches()
        world.opt_in("team-b")
        await asyncio.sleep(180)
        assert world.child("team-b") == []
        write(token, "two")
        await world.until(lambda: world.ready("team-a", "team-b"), 120)
        assert not one.task.done()
    told = [str(getattr(each, "error", "")) for each in caplog.records]
    assert any("credentials cannot be read" in each for each in told)
    assert [each.getMessage() for each in caplog.records if each.exc_info] == []
