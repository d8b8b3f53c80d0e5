"""Whatever templates, values, labels and names there are: a set of objects or an error for people, and the same again.

Templates are grown from pieces of the grammar, honest and hostile ones alike; `make soak` grows 10,000 of each sort.
"""
# ruff: noqa: E501 - tables: a row is a line

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from metaoperator import sources
from metaoperator.core import filters, kubernetes, names, render, shard
from metaoperator.core.errors import Problem, TemplateError, ValuesError
from metaoperator.core.model import CONFIG_MAP, DEPLOYMENT, ROLE_BINDING, Namespace
from tests.unit.builders import JSON, TEXT, document, namespace, object_text, template_set

KINDS = frozenset({CONFIG_MAP, DEPLOYMENT, ROLE_BINDING})
DEFINITIONS = sources.definitions(KINDS)

NAMES = st.sampled_from([
    "values", "values.a", "values.a.b", "values['a']", "namespace", "namespace.name", "namespace.labels", "shard.index",
    "namespace.annotations.x", "template", "x", "y", "loop", "loop.index", "self", "caller", "m", "range", "dict",
    "workflow.name", "values.a.__class__", "values._x", "''.__class__.__mro__", "varargs", "kwargs", "cycler", "namespace.uid",
])  # fmt: skip
CONSTANTS = st.sampled_from(
    ["1", "0", "-1", "1.5", "99999", "'a'", "'%s'", "''", "true", "none", "[]", "{}", "()", "'\\n'"]
)
METHODS = st.sampled_from([
    "upper()", "items()", "keys()", "values()", "get('a')", "split('a')", "join(['a'])", "replace('a', 'aaaa')", "format(1)",
    "append(1)", "update({})", "__init__", "center(99999)", "splitlines()", "cycle(1, 2)", "changed(x)", "mro()", "encode()",
])  # fmt: skip
OPERATORS = st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "~", "==", "<", ">=", "in", "not in", "and", "or"])
FILTERS = st.sampled_from([
    *(name for name in filters.FILTERS if name.isidentifier()), "map('upper')", "map(attribute='a')", "selectattr('a')",
    "join('aaaa')", "indent(9999)", "replace('a', 'bb')", "default(1)", "batch(3)", "slice(3)", "attr('a')", "round(99)",
    "groupby('a')", "sum(start=[])", "merge({'a': 1})", "center", "xmlattr", "random", "dictsort(by='value')", "int(0, 36)",
])  # fmt: skip
TESTS = st.sampled_from(
    ["defined", "none", "odd", "mapping", "divisibleby(0)", "in [1]", "sameas 1", "string", "nothing"]
)


def _more(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return (
        st.builds("({} {} {})".format, inner, OPERATORS, inner)
        | st.builds("({} | {})".format, inner, FILTERS)
        | st.builds("({}).{}".format, inner, METHODS)
        | st.builds("({} is {})".format, inner, TESTS)
        | st.builds("[{}, {}]".format, inner, inner)
        | st.builds("{{'a': {}, 'b': {}}}".format, inner, inner)
        | st.builds("{}[{}]".format, inner, inner)
        | st.builds("{}[{}:{}]".format, inner, inner, inner)
        | st.builds("({} if {} else {})".format, inner, inner, inner)
        | st.builds("range({})".format, inner)
        | st.builds("{}({})".format, NAMES, inner)
        | st.builds("(-{})".format, inner)
        | st.builds("(not {})".format, inner)
    )


EXPRESSIONS = st.recursive(NAMES | CONSTANTS, _more, max_leaves=6)
LEAVES = (
    st.builds("{{{{ {} }}}}".format, EXPRESSIONS)
    | st.builds("{{{{ {} | q }}}}".format, EXPRESSIONS)
    | st.builds("{{% set x = {} %}}".format, EXPRESSIONS)
    | st.builds("{{% set x, y = {} %}}".format, EXPRESSIONS)
    | st.sampled_from([
        "a: b\n", "- c\n", "  ", "\n", "---\n", "'", '"', "{", "}", "#", "${#x}", "{#", "#}", "{% raw %}{{x}}{% endraw %}",
        "{% include '_part.j2' %}", "{% include 'one.yaml.j2' %}", "{% import '_part.j2' as m %}", "{% extends '_part.j2' %}",
        "{% from '_part.j2' import m %}", "{% include x %}", "{% break %}", "{% endif %}", "{{ x", "%}", "&a ", "*a", "!!x ",
        "data:\n", "  name: ", "spec: {replicas: 1}\n", "metadata: {}\n",
    ])
    | TEXT
)  # fmt: skip


def _blocks(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return (
        st.builds("{}{}".format, inner, inner)
        | st.builds("{{% if {} %}}{}{{% else %}}{}{{% endif %}}".format, EXPRESSIONS, inner, inner)
        | st.builds("{{% for x in {} %}}{}{{% endfor %}}".format, EXPRESSIONS, inner)
        | st.builds("{{% for x in range(999) %}}{}{{% endfor %}}".format, inner)
        | st.builds("{{% for x, y in {} if {} recursive %}}{}{{{{ loop({}) }}}}{{% endfor %}}".format, *[EXPRESSIONS] * 2, inner, EXPRESSIONS)
        | st.builds("{{% macro m(x) %}}{}{{% endmacro %}}{}{{{{ m({}) }}}}".format, inner, inner, EXPRESSIONS)
        | st.builds("{{% call m({}) %}}{}{{% endcall %}}".format, EXPRESSIONS, inner)
        | st.builds("{{% set x %}}{}{{% endset %}}{{{{ x }}}}".format, inner)
        | st.builds("{{% filter {} %}}{}{{% endfilter %}}".format, FILTERS, inner)
        | st.builds("{{% with x = {} %}}{}{{% endwith %}}".format, EXPRESSIONS, inner)
        | st.builds("{{% block b %}}{}{{% endblock %}}".format, inner)
        | st.builds("{{% autoescape true %}}{}{{% endautoescape %}}".format, inner)
    )  # fmt: skip


BODIES = st.recursive(LEAVES, _blocks, max_leaves=8)
TEXTS = st.dictionaries(TEXT, TEXT, max_size=3)
NAMESPACES = st.builds(
    Namespace, name=TEXT | st.sampled_from(["null", "0123", "1e3", "on"]), uid=TEXT, labels=TEXTS, annotations=TEXTS
)
VALUES = st.dictionaries(st.sampled_from(["a", "b", "x", "items"]) | TEXT, JSON, max_size=3)

Outcome = tuple[Any, ...] | tuple[Problem, ...]


def outcome(files: Mapping[str, str], where: Namespace, own: Any) -> Outcome:
    """Compile and render anew; what came out, or what was told."""
    whole = template_set(files, kinds=KINDS, definitions=DEFINITIONS)
    try:
        desired = render.Program(whole).desired(
            where, shard.only_shard(where.name), template_name="default", fleet_values=own, namespace_values={}
        )
    except (TemplateError, ValuesError) as exc:
        return exc.problems
    return desired.documents


def hold(files: Mapping[str, str], where: Namespace, own: Any) -> None:
    """Render twice: the same each time, told for people, and nothing but what the set declares."""
    first, second = outcome(files, where, own), outcome(files, where, own)
    assert first == second
    for each in first:
        if isinstance(each, Problem):
            assert each.what
            assert each.where
            assert " at 0x" not in str(each)
            continue
        assert list(json.loads(json.dumps(each))) == list(each)
        assert (each["kind"], each["metadata"]["namespace"]) == ("ConfigMap", where.name)
        assert each["metadata"]["annotations"][names.NAMESPACE_UID_ANNOTATION] == where.uid
        assert list(kubernetes.faults(each, "core.v1.ConfigMap", DEFINITIONS)) == []


@given(BODIES, BODIES, NAMESPACES, VALUES)
def test_any_template_renders_the_same_again_or_tells_why_not(body: str, part: str, where: Namespace, own: Any) -> None:
    """No crash, no escape, no hang, no unequal re-render: also of a partial, of whatever values, labels and names."""
    hold({"one.yaml.j2": object_text(body), "_part.j2": part}, where, own)


@given(EXPRESSIONS, NAMESPACES, VALUES)
def test_any_expression_gives_the_same_again_or_tells_why_not(expression: str, where: Namespace, own: Any) -> None:
    """Written by q into data, where most of them may stand."""
    hold({"one.yaml.j2": object_text(f"data: {{a: {{{{ ({expression}) | q }}}}}}\n")}, where, own)


@given(TEXT, TEXT, TEXT, NAMESPACES)
def test_any_text_of_a_file_renders_the_same_again_or_tells_why_not(
    one: str, two: str, three: str, where: Namespace
) -> None:
    """No template at all, most often."""
    hold({"one.yaml.j2": one, "two.yaml.j2": object_text(two), "_part.j2": three}, where, {})


@given(st.dictionaries(TEXT, TEXT, max_size=5))
def test_no_order_of_what_is_given_shows(texts: dict[str, str]) -> None:
    """Labels and annotations in another order are the same namespace."""
    text = object_text(
        "data: {a: {% set t %}{% for k in namespace.labels %}{{ k | q }}{% endfor %}{% endset %}{{ t | q }}}\n"
    )
    one = document(text, namespace(labels=texts))
    assert one == document(text, namespace(labels=dict(reversed(texts.items()))))
