"""The bridge that pods hang on, and the address of the API server inside the cluster.

The API server listens on the `kubernetes` Service's own address, put on the loopback device: so pods reach
it with neither kube-proxy nor NAT. There is no DNS and no other Service address: packets to those are
refused here at once, instead of leaving by the machine's default route.
"""

import subprocess
from pathlib import Path

from . import debian, places
from .errors import ClusterError

SERVICE_RANGE = "10.96.0.0/16"
API_ADDRESS = "10.96.0.1"
POD_RANGE = "10.244.0.0/22"
NODE_ADDRESS = "10.244.0.1"

_BRIDGE_MAC = "0a:58:0a:f4:00:01"

# How we know our own again: a label on the address, a protocol number on the route.
_LABEL = "lo:mo"
_ROUTE_PROTOCOL = "177"


def set_up() -> None:
    """Make the bridge, the address and the route; they must not be there yet."""
    if _ip("-o", "addr", "show", "to", POD_RANGE).strip():
        raise ClusterError(f"an address in {POD_RANGE} is already in use on this machine: see `ip addr`")
    if f" {API_ADDRESS}/32" in _ip("-o", "addr", "show"):
        raise ClusterError(f"{API_ADDRESS} is already an address of this machine: see `ip addr`")
    # An address of its own: a bridge otherwise takes the lowest of its ports', which changes as pods come and go, and
    # all pods then send to the old one until their neighbour entries expire: 40 s without an API server.
    _ip("link", "add", places.BRIDGE, "address", _BRIDGE_MAC, "type", "bridge")
    _ip("addr", "add", f"{NODE_ADDRESS}/{POD_RANGE.split('/')[1]}", "dev", places.BRIDGE)
    _ip("link", "set", places.BRIDGE, "up")
    _ip("addr", "add", f"{API_ADDRESS}/32", "dev", "lo", "label", _LABEL)
    _ip("route", "add", "unreachable", SERVICE_RANGE, "proto", _ROUTE_PROTOCOL)


def tear_down() -> None:
    """Remove what `set_up` made and what CNI hung on it; nothing there is fine."""
    if (Path("/sys/class/net") / places.BRIDGE).exists():
        for port in sorted((Path("/sys/class/net") / places.BRIDGE / "brif").glob("*")):
            _ip("link", "del", port.name, lenient=True)
        _ip("link", "del", places.BRIDGE, lenient=True)
    if _LABEL in _ip("-o", "addr", "show", "dev", "lo"):
        _ip("addr", "del", f"{API_ADDRESS}/32", "dev", "lo", "label", _LABEL)
    if _ip("route", "show", "type", "unreachable", "proto", _ROUTE_PROTOCOL).strip():
        _ip("route", "flush", "type", "unreachable", "proto", _ROUTE_PROTOCOL)


def leftovers() -> list[str]:
    """Say what of ours is still there."""
    found = []
    if (Path("/sys/class/net") / places.BRIDGE).exists():
        found.append(f"bridge {places.BRIDGE}")
    if _LABEL in _ip("-o", "addr", "show", "dev", "lo"):
        found.append(f"address {API_ADDRESS}")
    if _ip("route", "show", "type", "unreachable", "proto", _ROUTE_PROTOCOL).strip():
        found.append(f"route {SERVICE_RANGE}")
    return found


def _ip(*arguments: str, lenient: bool = False) -> str:
    done = subprocess.run([debian.find("ip"), *arguments], capture_output=True, text=True)
    if done.returncode != 0 and not lenient:
        raise ClusterError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
