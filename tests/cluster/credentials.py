"""Keys, tokens and kubeconfigs: made anew at each start, good for this cluster only.

The API server makes its own serving certificate; the same file is the CA that clients check it with.
"""

import base64
import json
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import debian, network, places
from .errors import ClusterError

API_URL = f"https://{network.API_ADDRESS}:443"
NODE = "metaoperator-node"
KWOK = "metaoperator.local:kwok"
PKI = places.RUN / "pki"
API_CERTIFICATE = PKI / "apiserver.crt"

# user → groups. The kubelet's name and group are what the Node authorizer knows it by.
_USERS = {
    "admin": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    f"system:node:{NODE}": "system:nodes",
    # A name of its own, so that the audit log tells its writes from a person's.
    KWOK: "system:masters",
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """A token for each user."""

    tokens: dict[str, str]

    @property
    def admin(self) -> str:
        """Return the token that may do everything."""
        return self.tokens["admin"]

    def kubeconfig(self, user: str, place: Path) -> Path:
        """Write a kubeconfig for one user; the API server must have made its certificate."""
        certificate = base64.b64encode(API_CERTIFICATE.read_bytes()).decode()
        # JSON is YAML, and needs no library to write.
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": {"server": API_URL, "certificate-authority-data": certificate}}],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": user}}],
            "current-context": "local",
        }
        temporary = place.with_name(f"{place.name}.tmp")
        temporary.touch(mode=0o600)
        temporary.write_text(json.dumps(content, indent=2) + "\n")
        temporary.rename(place)
        return place


def make() -> Credentials:
    """Write keys and tokens into the run folder, which only root may enter."""
    PKI.mkdir(parents=True, exist_ok=True)
    _openssl("genrsa", "-out", str(PKI / "service-account.key"), "2048")
    _openssl("rsa", "-in", str(PKI / "service-account.key"), "-pubout", "-out", str(PKI / "service-account.pub"))
    _client_certificate()
    tokens = {user: secrets.token_hex(16) for user in _USERS}
    lines = [f'{tokens[user]},{user},{user},"{groups}"' for user, groups in _USERS.items()]
    (PKI / "tokens.csv").write_text("\n".join(lines) + "\n")
    return Credentials(tokens)


def load() -> Credentials | None:
    """Read the tokens of the cluster that runs; `None` if there is none that came up."""
    try:
        lines = (PKI / "tokens.csv").read_text().splitlines()
    except FileNotFoundError:
        return None
    tokens = {user: token for token, user, *_ in (line.split(",") for line in lines)}
    return Credentials(tokens) if "admin" in tokens and places.KUBECONFIG.exists() else None


def _client_certificate() -> None:
    """Make the certificate by which the kubelet knows the API server, for logs and exec; and its CA."""
    ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    ca, client = PKI / "kubelet-client-ca", PKI / "kubelet-client"
    _openssl("req", "-x509", *ec, "-days", "3650", "-subj", "/CN=metaoperator-kubelet-client-ca",
             "-keyout", f"{ca}.key", "-out", f"{ca}.crt")  # fmt: skip
    _openssl("req", *ec, "-subj", "/O=system:masters/CN=kube-apiserver",
             "-keyout", f"{client}.key", "-out", f"{client}.csr")  # fmt: skip
    _openssl("x509", "-req", "-in", f"{client}.csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key",
             "-set_serial", "1", "-days", "3650", "-out", f"{client}.crt")  # fmt: skip


def _openssl(*arguments: str) -> None:
    done = subprocess.run([debian.find("openssl"), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise ClusterError(f"openssl {arguments[0]} failed:\n{done.stderr}")
