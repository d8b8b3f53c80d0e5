"""What is suspicious in a set: told by file and line, with what to write instead."""

import pytest
from hypothesis import given

from metaoperator import sources
from metaoperator.core.lint import lint
from tests.unit.builders import SHIPPED, TEXT, object_text, template_set


def lines(text: str) -> list[int | None]:
    """Lint one template and return the lines at fault."""
    return [problem.line for problem in lint(template_set({"one.yaml.j2": text}))]


@pytest.mark.parametrize(
    "text",
    [
        "a: {{ values.x }}",
        "a:   {{ values.x | upper }}",
        "- {{ values.x }}",
        "a: [{{ values.x }}]",
        "a: [1, {{ values.x }}]",
        "a: {b: {{ values.x }}}",
        "{{ values.x }}: a",
        "a: {{ values.x }}.{{ values.y }}",
        "a: {{ values.x ~ values.y }}",
        "a: {{ values.x if values.y else 'z' }}",
        "a: {{ values.x | default('1') }}",
        "{% if values.x %}\na: {{ values.x }}\n{% endif %}",
        "{% macro m() %}\na: {{ values.x }}\n{% endmacro %}",
        "a: {{ values.get('x') }}",
        "'a': {{ values.x }}",
    ],
)
def test_a_placeholder_that_yaml_may_read_as_something_else_is_told(text: str) -> None:
    """Wherever a scalar begins with it."""
    (only,) = lint(template_set({"one.yaml.j2": text}))
    assert "its value may be read as a number, a truth value or null" in only.what
    assert "| q }}" in only.cure


@pytest.mark.parametrize(
    "text",
    [
        "a: {{ values.x | q }}",
        "a: {{ values.x | to_yaml | indent(2) }}",
        "a: {{ values.x | tojson }}",
        "a: {{ values.x | string | q }}",
        "a: '{{ values.x }}'",
        'a: "{{ values.x }}"',
        "a: x-{{ values.x }}",
        "a: 'x' # {{ values.x }}",
        "a: {{ 'x' }}",
        "a: {{ 'x-' ~ values.x }}",
        "a: {{ values.x | q if values.y else none | q }}",
        "{% set t %}x{% endset %}\na: {{ t }}",
        "{% macro m() %}x{% endmacro %}\na: {{ m() }}",
        "{% import '_m.j2' as m %}\na: {{ m.m() }}",
        "{% macro m(x) %}{{ x }}{% endmacro %}",
        "{% raw %}a: {{ values.x }}{% endraw %}",
        "{# a: {{ values.x }} #}",
    ],
)
def test_a_placeholder_that_is_written_safely_is_not_told(text: str) -> None:
    """Quoted, in the middle of a text, or made by the template itself."""
    assert lines(text) == []


@pytest.mark.parametrize(
    "name", ["workflow.name", "item", "retries", "pod.name", "inputs.parameters.x", "lastRetry.exitCode"]
)
def test_argos_variables_are_told_also_where_no_namespace_comes_by(name: str) -> None:
    """A branch that is not taken hides an undefined name until somebody takes it."""
    problems = lint(template_set({"one.yaml.j2": f"{{% if false %}}\n\na: 'x{{{{{name}}}}}'\n{{% endif %}}"}))
    assert [(problem.line, problem.what) for problem in problems] == [
        (3, f"{name.partition('.')[0]!r} looks like an Argo variable, and no template has it")
    ]
    assert "{% raw %}" in problems[0].cure


def test_a_templates_own_names_are_not_argos() -> None:
    """A loop may call its variable `item`."""
    assert lines("{% for item in values.x %}\n- {{ item | q }}\n{% endfor %}") == []
    assert lines("{% macro m(item) %}x{{ item }}{% endmacro %}") == []


def test_problems_stand_in_the_order_of_files_and_lines() -> None:
    """Of every file, partials too."""
    files = {"b.yaml.j2": "a: {{ values.x }}\nb: {{ values.x }}\n", "_a.j2": "a: {{ values.x }}"}
    assert [(each.where, each.line) for each in lint(template_set(files))] == [
        ("_a.j2", 1),
        ("b.yaml.j2", 1),
        ("b.yaml.j2", 2),
    ]


def test_the_shipped_set_is_clean() -> None:
    """Nothing in it is suspicious."""
    assert lint(sources.template_set(SHIPPED)) == ()


@given(TEXT)
def test_no_text_makes_it_fail(text: str) -> None:
    """What cannot be compiled is an error elsewhere, and passed by here."""
    lint(template_set({"one.yaml.j2": object_text(text), "two.yaml.j2": "{{" + text, "three.yaml.j2": "{%" + text}))
