"""`make demo`: on a Kubernetes on this machine, or on the one that the kubeconfig names."""

import argparse
import os
import sys
import time
from pathlib import Path

from . import current, local
from .telling import CHECKOUT, Stop


def main() -> int:
    """Run the demo; 0 done, 1 something failed, 2 it cannot run here and nothing was done."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo", description=__doc__)
    parser.add_argument("--cluster", choices=["local", "current"], default="local")
    parser.add_argument("--yes", action="store_true", help="do not ask (current)")
    parser.add_argument("--values", type=Path, default=current.VALUES, help="values and image (current)")
    parser.add_argument("--down", action="store_true", help="only take away what a killed demo left (current)")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    started = time.monotonic()
    values = options.values.absolute()
    os.chdir(CHECKOUT)
    try:
        if options.cluster == "local":
            print(local.PLAN)
            if os.geteuid() != 0:
                print(local.NO_ROOT, end="")
                return 2
            last = local.run()
        elif options.down:
            last = current.down()
        else:
            last = current.run(values=values, sure=options.yes)
    except current.Refused as refused:
        print(refused)
        return 2
    except Stop as stop:
        print(f"\nThe demo stopped: {stop}\n\n{local.AGAIN if options.cluster == 'local' else current.AGAIN}")
        return 1
    except KeyboardInterrupt:
        print(f"\nInterrupted. {local.INTERRUPTED if options.cluster == 'local' else current.AGAIN}")
        return 130
    took = round(time.monotonic() - started)
    print(f"Done in {took // 60} min {took % 60:02} s.\n\n{last}", end="" if last.endswith("\n") else "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
