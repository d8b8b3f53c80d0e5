"""How the command line answers: exit codes, and text that is nothing but text."""

import re
from typing import Final

NO: Final = 1
WRONG: Final = 2
UNREACHABLE: Final = 3
STOPPED: Final = 130
UNREAD: Final = 141

EXIT_CODES: Final = """
\b
Exit codes, the same for every command:
  0    done; nothing is amiss
  1    the answer is no: a set, values or manifests at fault (render, validate),
       differences (diff), something missing (preflight), a namespace not ready
       (status) or not opted in (env), a Workflow that waits (explain), a rollout
       that is not done, or cannot be steered so now (rollout)
  2    called wrongly, or something on this side cannot work: an option, a file,
       the kubeconfig, the output
  3    the cluster did not answer, or refused to: out of reach, no valid
       credentials, forbidden, a kind that is not installed
  130  stopped by Ctrl-C
  141  nobody reads the output any more
"""

_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Write control characters out: what a tenant wrote into the cluster must not move somebody's terminal."""
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
