"""The tool with which `make test` runs what needs a cluster beside what does not."""

import signal
import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "side-by-side"


@pytest.mark.parametrize(("aside", "front", "code"), [(0, 0, 0), (3, 0, 3), (0, 4, 4), (3, 4, 3)])
def test_it_fails_if_either_does(aside: int, front: int, code: int) -> None:
    """And both run to their end, the words of the first after those of the second."""
    done = subprocess.run(
        [TOOL, f"echo one; exit {aside}", f"echo two; exit {front}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code
    assert done.stdout == f"two\n== echo one; exit {aside}\none\n"


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ended_by_a_signal_it_lets_both_clean_up(sent: signal.Signals, code: int, tmp_path: Path) -> None:
    """As Ctrl-C does at the terminal, in the background too."""
    # For a minute at most, should the test itself be killed.
    waits = "trap 'echo cleaned >>{0}; exit 130' INT; echo ready >>{0}; for _ in $(seq 600); do sleep 0.1; done"
    aside, front = tmp_path / "aside", tmp_path / "front"
    with subprocess.Popen(
        [TOOL, waits.format(aside), waits.format(front)],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    ) as process:
        while not (aside.exists() and front.exists()):
            assert process.poll() is None
        process.send_signal(sent)
        process.communicate(timeout=60)
    assert process.returncode == code
    assert aside.read_text() == front.read_text() == "ready\ncleaned\n"
