"""The ways by which Workflows come into a namespace, all used at once until somebody says that it is enough."""

import threading
from collections.abc import Callable, Mapping
from typing import Self

Door = Callable[[int], str]
"""Submits the Workflow of a number, and returns its name."""


class Doors:
    """While it is entered, each door lets one Workflow in every few seconds; no submission is tried twice."""

    def __init__(self, doors: Mapping[str, Door], *, every: float) -> None:
        """Nothing is submitted yet; `every` in seconds, for each door."""
        self._every = every
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._use, args=item, daemon=True) for item in doors.items()]
        self.names: dict[str, str] = {}
        """By Workflow, the door that it came through, in the order of submission."""
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        """Open all doors."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        """Shut them, and wait for what is being submitted."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _use(self, name: str, door: Door) -> None:
        number = 0
        while True:
            # Whatever goes wrong is a Workflow that a person would miss.
            try:
                self.names[door(number)] = name
            except Exception as exc:  # noqa: BLE001
                self.failures.append(f"{name}, number {number}: {exc}")
            number += 1
            if self._stop.wait(self._every):
                return
