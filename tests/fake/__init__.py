"""A Kubernetes API server in memory, for tests: `async with FakeApiServer() as server: ... server.url ...`."""

from .controllers import DeploymentController
from .kinds import Kind
from .server import FakeApiServer

__all__ = ["DeploymentController", "FakeApiServer", "Kind"]
