"""A set on trial: what cannot be shown by a set's files alone."""

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from metaoperator.core import trial
from metaoperator.core.model import Desired
from metaoperator.core.render import Program
from metaoperator.core.trial import Layers
from tests.unit.builders import template_set


class Restless(Program):
    """A program that renders something else each time: what the sandbox is there to prevent."""

    _count = itertools.count()

    def desired(self, *args: Any, **options: Any) -> Desired:
        """Render, and count."""
        found = super().desired(*args, **options)
        documents = tuple({**each, "data": {"n": str(next(self._count))}} for each in found.documents)
        return Desired(documents=documents, revision=str(documents), version=found.version)


def test_a_set_that_renders_something_else_each_time_is_told() -> None:
    """Every look would roll every child."""
    _, (problem,) = trial.run(Restless(template_set()), trial.ORDINARY, Layers())
    assert problem.what == "ConfigMap one is rendered differently each time"


def test_a_set_that_renders_the_same_is_fine() -> None:
    """For every sample there is."""
    program = Program(template_set())
    assert [trial.run(program, each, Layers())[1] for each in trial.SAMPLES] == [()] * len(trial.SAMPLES)


@given(st.text())
def test_any_configuration_is_read_without_an_error(text: str) -> None:
    """What the child would stumble over is told, and nothing is raised."""
    document = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"config": text}}
    trial._instance_id(document)
