"""Every flag and variable of `metaoperator run`, documented under its field."""

import os
import socket
from dataclasses import dataclass, field
from pathlib import Path

from metaoperator.core import names
from metaoperator.election import Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `run` is started with. A flag wins over its variable."""

    kubeconfig: str | None = None
    """`--kubeconfig`, `KUBECONFIG`: a path; without it the pod's ServiceAccount is used."""

    namespace: str = names.OPERATOR_NAMESPACE
    """`POD_NAMESPACE`: where the operator's own Lease lives, and the one namespace that it never serves."""

    identity: str = ""
    """`POD_NAME`: names this replica in the Lease and in Events; host name and process id where it is not set."""

    templates: tuple[Path, ...] = ()
    """`--templates` (repeatable): directories of further template sets, which win over shipped ones of their name."""

    deny: frozenset[str] = frozenset()
    """`--deny` (repeatable): namespaces that are never served, whatever their label says."""

    port: int = 8080
    """`--port`: /healthz, /readyz and /metrics; 0 turns them off."""

    workers: int = 16
    """`--workers`: namespaces that are worked on at the same time."""

    pending_seconds: float = 600.0
    """`--pending-seconds`: a Workflow that a ready child has not taken up for so long is told of."""

    timing: Timing = field(default_factory=Timing)
    """The operator's own Lease, in seconds: 15 to expire, 10 to renew, 2 between tries."""

    @staticmethod
    def default_identity() -> str:
        """Name this process uniquely enough for a Lease."""
        return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}"
