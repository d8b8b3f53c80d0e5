"""The stub as a process: `python -m tests.argo VERSION DATA.json [flags]`, where DATA.json is a ConfigMap's `data`.

It logs as Argo does, ends with 1 and an error where Argo does, and else runs until it is told to end.
"""

import json
import os
import signal
import sys
from pathlib import Path

from . import controller


def main(version: str, data: str, args: list[str]) -> int:
    """Start, and stay."""
    try:
        started = controller.start(version, args=args, env=os.environ, data=json.loads(Path(data).read_text()))
    except controller.Refused as exc:
        print(f'level=ERROR msg="{exc}"', file=sys.stderr)
        return 1
    print('level=INFO msg="Configuration updated"', flush=True)
    if started.lease:
        print(
            f'level=INFO msg="new leader" leader={os.environ["LEADER_ELECTION_IDENTITY"]} lease={started.lease}',
            flush=True,
        )
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
