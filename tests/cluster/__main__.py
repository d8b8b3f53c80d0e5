"""The commands: `python3 -m tests.cluster <command>`, run from the repository root."""

import argparse
import sys
from pathlib import Path

from . import build, debian, images, lifecycle, node, say
from .errors import ClusterError


def main(arguments: list[str] | None = None) -> int:
    """Run one command; answers go to stdout, progress to stderr."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("build", help="build all programs into the cache")
    commands.add_parser("images", help="write the test workloads' images into the cache, print their names")
    commands.add_parser("up", help="start the cluster, print its kubeconfig's path")
    commands.add_parser("down", help="stop the cluster and leave nothing behind")
    simulate = commands.add_parser("simulate", help="have so many simulated nodes in the running cluster")
    simulate.add_argument("nodes", type=int)
    commands.add_parser("running", help="exit 0 if this checkout's cluster runs, 1 if not")
    load = commands.add_parser("load", help="import an image archive into the running cluster")
    load.add_argument("file", type=Path)
    crds = commands.add_parser("crds", help="print the folder of Argo's CRDs")
    crds.add_argument("kind", choices=["full", "minimal"])
    program = commands.add_parser("path", help="print the path of a built program, such as kubectl")
    program.add_argument("program")
    image = commands.add_parser("image", help="write the operator's image as an OCI archive")
    image.add_argument("--out", type=Path, required=True)
    image.add_argument("--tag", required=True, help="the image's whole name, such as registry.example/operator:1.0")
    image.add_argument("--name", choices=["operator"], default="operator")
    try:
        return _run(parser.parse_args(arguments))
    except ClusterError as exc:
        print(exc, file=sys.stderr)
        return exc.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace) -> int:
    match options.command:
        case "build":
            build.everything()
            say.line("everything is built")
        case "images":
            debian.for_node()
            for reference, archive in images.archives().items():
                print(reference, archive)
        case "up":
            print(lifecycle.up())
        case "down":
            lifecycle.down()
        case "simulate":
            lifecycle.simulate(options.nodes)
        case "running":
            lifecycle.require_running()
        case "load":
            lifecycle.require_root()
            lifecycle.require_running()
            for name in node.load([options.file]):
                print(name)
        case "crds":
            print(build.argo_crds(options.kind))
        case "path":
            print(build.program(options.program))
        case "image":
            from . import operator_image

            print(operator_image.build(options.out, reference=options.tag))
    return 0


if __name__ == "__main__":
    sys.exit(main())
