"""A Kubernetes API server in memory, for tests.

    async with FakeApiServer() as server, DeploymentController(server):
        server.define(yaml.safe_load(our_definition))         # in place of the stand-in that takes anything
        server.create({... "kind": "Namespace" ...})
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig", "token")   # or connect to server.url
        server.faults.answer(429, verb="apply", resource="deployments", retry_after=1)
        server.cut_watches(); server.compact()                # what informers must survive
        ...
        assert server.audit.writes() == []                    # after `server.audit.clear()`

It is held to a real API server by `tests/contract`. Not played: RBAC and other admission, CEL, schemas of built-in
kinds, strategic merge and JSON patches, `scale`, watch-list, conversion between versions.
"""

from .controllers import DeploymentController
from .kinds import Kind
from .server import FakeApiServer

__all__ = ["DeploymentController", "FakeApiServer", "Kind"]
