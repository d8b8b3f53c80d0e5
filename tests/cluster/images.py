"""The images that test workloads run from; their names are what tests import.

The names' first part is no registry's: the kubelet takes them as they are, and with
`imagePullPolicy: IfNotPresent` nothing is ever pulled.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path

from . import build, cached, oci, recipes

PAUSE = "metaoperator.local/pause:1"
BUSYBOX = "metaoperator.local/busybox:1"
WORKFLOW_CONTROLLER = f"metaoperator.local/workflow-controller:{recipes.ARGO}"
ARGOEXEC = f"metaoperator.local/argoexec:{recipes.ARGO}"
ARGOCLI = f"metaoperator.local/argocli:{recipes.ARGO}"

_PAUSE_C = b"""\
/* Holds a pod's namespaces: sleeps until told to go, and reaps what is handed to it. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void leave(int signal) { (void)signal; _exit(0); }
static void reap(int signal) { (void)signal; while (waitpid(-1, 0, WNOHANG) > 0); }
int main(void) {
  signal(SIGINT, leave); signal(SIGTERM, leave); signal(SIGCHLD, reap);
  for (;;) pause();
}
"""
_PASSWD = b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
_GROUP = b"root:x:0:\nnogroup:x:65534:\n"
# The names that busybox answers to in the image: the common ones, so that a script can be written as usual.
_APPLETS = (
    "sh ash awk base64 basename cat chmod cp cut date dd df dirname du echo env expr false find grep gunzip gzip "
    "head hostname id ip ln ls md5sum mkdir mktemp mv nc nslookup od ping printenv printf ps pwd rm rmdir sed seq "
    "sha256sum sleep sort stat tail tar tee test timeout touch tr true uname uniq vi wc wget which xargs yes"
).split()


def archives() -> dict[str, Path]:
    """Return every image's archive by name, writing those that the cache lacks."""
    argo = recipes.by_family("argo")
    programs = {name: build.family(argo) / name for name in argo.programs}
    # The built programs are known by the folder that their recipe's digest names: no need to read 300 MB.
    argo_key = str(build.family(argo).name).encode()
    return {
        PAUSE: _archive(PAUSE, [_PAUSE_C], _pause),
        BUSYBOX: _archive(BUSYBOX, [Path("/bin/busybox").read_bytes()], _busybox),
        WORKFLOW_CONTROLLER: _archive(
            WORKFLOW_CONTROLLER, [argo_key], lambda _: _one_program(programs["workflow-controller"], user="65534")
        ),
        # Root, as the published image: the executor must read what any step's container wrote.
        ARGOEXEC: _archive(ARGOEXEC, [argo_key], lambda _: _one_program(programs["argoexec"], user="")),
        ARGOCLI: _archive(ARGOCLI, [argo_key], lambda _: _one_program(programs["argo"], user="65534")),
    }


_Content = tuple[list[oci.Entry], dict[str, object]]


def _archive(reference: str, inputs: list[bytes], content: Callable[[Path], _Content]) -> Path:
    def make(place: Path) -> None:
        entries, config = content(place)
        oci.docker_archive(place / "image.tar", reference=reference, layer=oci.tar_of(entries), config=config)

    folder = cached.folder(
        "images", [reference.encode(), Path(__file__).read_bytes(), *inputs], make, what=f"image {reference}"
    )
    return folder / "image.tar"


def _base() -> list[oci.Entry]:
    return [
        oci.Entry(name="bin"),
        oci.Entry(name="etc"),
        oci.Entry(name="etc/group", data=_GROUP, mode=0o644),
        oci.Entry(name="etc/passwd", data=_PASSWD, mode=0o644),
        oci.Entry(name="tmp", mode=0o1777),
    ]


def _pause(place: Path) -> _Content:
    source, program = place / "pause.c", place / "pause"
    source.write_bytes(_PAUSE_C)
    subprocess.run(["gcc", "-static", "-Os", "-s", "-o", program, source], check=True)
    entries = [oci.Entry(name="pause", data=program.read_bytes())]
    return entries, {"User": "65535:65535", "Entrypoint": ["/pause"]}


def _busybox(_: Path) -> _Content:
    entries = [*_base(), oci.Entry(name="bin/busybox", data=Path("/bin/busybox").read_bytes())]
    entries += [oci.Entry(name=f"bin/{name}", link="busybox") for name in sorted(_APPLETS)]
    return entries, {"Env": ["PATH=/bin"], "Cmd": ["sh"]}


def _one_program(program: Path, *, user: str) -> _Content:
    entries = [*_base(), oci.Entry(name=f"bin/{program.name}", data=program.read_bytes())]
    return entries, {"User": user, "Env": ["PATH=/bin"], "Entrypoint": [program.name]}
