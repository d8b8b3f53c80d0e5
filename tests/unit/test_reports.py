"""What happened to other people's templates, played through: retyped names, injected documents, braces, and typos."""
# ruff: noqa: E501 - tables: a row is a line

from typing import Any

import pytest
from hypothesis import example, given

from metaoperator import sources
from metaoperator.core import names, strictyaml
from metaoperator.core.errors import Problem, TemplateError
from metaoperator.core.lint import lint
from metaoperator.core.model import CONFIG_MAP, ROLE_BINDING, SERVICE_ACCOUNT, Namespace, TemplateSet
from tests.unit.builders import TEXT, UID, desired, document, namespace, object_text, template_set

KINDS = frozenset({CONFIG_MAP, ROLE_BINDING, SERVICE_ACCOUNT})


def checked(text: str) -> TemplateSet:
    """Make a set of one template that is held to Kubernetes' schema, as the operator does."""
    return template_set({"one.yaml.j2": text}, kinds=KINDS, definitions=sources.definitions(KINDS))


def problems(text: str, where: Namespace | None = None, **layers: Any) -> tuple[Problem, ...]:
    """Render what must fail."""
    with pytest.raises(TemplateError) as caught:
        desired(checked(text), where, **layers)
    return caught.value.problems


# R32: names and label values that are not text to YAML

RETYPED = [
    "123", "0123", "08", "0x1f", "0b11", "0o17", "1e3", "3240286e-210077", "null", "yes", "no", "on", "off", "true",
    "false", "y", "n", "2024-01-01", "nan", "inf", "12345678901234567890", "1-0", "x", "1.10",
]  # fmt: skip
BARE = """apiVersion: v1
kind: ConfigMap
metadata:
  name: cm-{{ namespace.name }}
  namespace: {{ namespace.name }}
  labels:
    team: {{ namespace.name }}
  annotations:
    team: {{ namespace.name }}
data:
  who: {{ namespace.name }}
"""


@pytest.mark.parametrize("name", RETYPED)
def test_text_without_quotes_is_the_text_or_an_error(name: str) -> None:
    """For each name: every field holds exactly it, or each field that YAML made something else of is told."""
    where = namespace(name)
    if isinstance(strictyaml.load(name), str):
        found = document(checked(BARE), where)
        assert found["metadata"]["name"] == f"cm-{name}"
        texts = [found["metadata"]["namespace"], found["metadata"]["labels"]["team"], found["data"]["who"]]
        assert texts == [name] * 3
    else:
        told = {(each.line, each.path) for each in problems(BARE, where)}
        assert told >= {(5, "metadata.namespace"), (7, "metadata.labels.team"), (9, "metadata.annotations.team")}
        assert (11, "data.who") in told


@pytest.mark.parametrize("name", RETYPED)
def test_text_that_is_written_by_q_is_always_the_text(name: str) -> None:
    """The cure that errors and lint tell works for every one of them."""
    found = document(
        checked(BARE.replace(".name }}", ".name | q }}").replace("cm-{{ namespace.name | q }}", "cm")), namespace(name)
    )
    meta = found["metadata"]
    assert [meta["namespace"], meta["labels"]["team"], meta["annotations"]["team"], found["data"]["who"]] == [name] * 4


def test_the_lint_names_each_placeholder_without_quotes() -> None:
    """Also before a namespace comes by whose name is one of those."""
    assert [each.line for each in lint(checked(BARE))] == [5, 7, 9, 11]


@pytest.mark.parametrize("key", ["on", "yes", "no", "null", "true", "1", "1.5", "~"])
def test_a_key_is_text_or_an_error(key: str) -> None:
    """`on:` is no truth value here; what is not text is told."""
    text = object_text(f"data:\n  {key}: 'x'\n")
    if key in {"on", "yes", "no"}:
        assert document(checked(text))["data"] == {key: "x"}
    else:
        (only,) = problems(text)
        assert (only.line, f"key {key!r} is not a string" in only.what) == (6, True)


# R33: what a tenant writes into labels, annotations and values

SLY = [
    "bob\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: gift}\n",
    "bob\n  more: data",
    "bob\r\nmore: data",
    "bob\u2028more: data",
    "bob\u0085more: data",
    '"; } spec: {hostNetwork: true} #',
    '", "more": "data',
    "', more: 'data",
    "x}, more: {y: z",
    "x, more: data",
    "x # gone",
    "more: data",
    "more:",
    "&a x",
    "*a",
    "!!str x",
    "| x",
    "> x",
    "- x",
    "? x",
    "@x",
    "%x",
    "`x`",
    "\\",
    "[x]",
    "{x: y}",
    " x",
    "x ",
]
PLACES = {
    "a plain scalar": "data:\n  who: {}\n  last: x\n",
    "double quotes": 'data:\n  who: "{}"\n  last: x\n',
    "single quotes": "data:\n  who: '{}'\n  last: x\n",
    "a flow mapping": "data: {{who: {}, last: x}}\n",
    "the middle of a text": "data:\n  who: a-{}-b\n  last: x\n",
    "a block of text": "data:\n  who: |\n    a {} b\n  last: x\n",
    "a comment": "data:\n  # {}\n  who: x\n  last: x\n",
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("source", ["namespace.annotations.x", "namespace.labels.x", "values.x"])
@given(TEXT)
@example(SLY[0])
def test_no_text_of_a_tenants_adds_structure(place: str, source: str, sly: str) -> None:
    """Printed bare, wherever: it stays one text in its place, or it is refused at its line; nothing is ever added."""
    text = object_text(place.format(f"{{{{ {source} }}}}"))
    try:
        found = desired(checked(text), namespace(labels={"x": sly}, annotations={"x": sly}), fleet={"x": sly}).documents
    except TemplateError as exc:
        assert {each.where for each in exc.problems} == {"one.yaml.j2"}  # noqa: PT017 - either may be right
    else:
        (only,) = found
        assert set(only) == {"apiVersion", "kind", "metadata", "data"}
        assert set(only["data"]) == {"who", "last"}
        assert only["data"]["last"] == "x"


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("sly", SLY, ids=repr)
def test_text_that_breaks_out_is_refused_with_the_cure(place: str, sly: str) -> None:
    """An honest text in the same place is taken; with the filter q each of them is."""
    text = object_text(place)
    told = problems(text.format("{{ namespace.annotations.x }}"), namespace(annotations={"x": sly}))
    assert all(each.line is not None for each in told)
    assert (told[0].what.endswith("bare: in YAML that is more than one text"), told[0].cure) == (
        True,
        "write it with the filter q",
    )
    assert document(
        checked(text.format("{{ namespace.annotations.x }}")), namespace(annotations={"x": "team-a/b.c:d=e+f"})
    )
    found = document(
        checked(object_text("data: {who: {{ namespace.annotations.x | q }}}\n")), namespace(annotations={"x": sly})
    )
    assert found["data"]["who"] == sly


def test_text_that_templates_made_is_theirs() -> None:
    """Macros, blocks and includes hold what they like; what they print of a tenant's is checked where it is printed."""
    files = {
        "_part.j2": "  a: {{ namespace.annotations.x | q }}\n",
        "one.yaml.j2": object_text(
            "data:\n{% macro row(k) %}  {{ k }}: \"'{}\"\n{% endmacro %}\n{{ row('b') }}{% set more %}{% include '_part.j2' %}"
            "{% endset %}\n{{ more }}{{ more | replace('a:', 'c:') | q if false else '' }}"
        ),
    }
    found = document(template_set(files), namespace(annotations={"x": SLY[0]}))
    assert found["data"] == {"a": SLY[0], "b": "'{}"}
    files["_part.j2"] = "  a: {{ namespace.annotations.x }}\n"
    with pytest.raises(TemplateError) as caught:
        desired(template_set(files), namespace(annotations={"x": SLY[0]}))
    assert [(each.where, each.line) for each in caught.value.problems] == [("_part.j2", 1)]


@pytest.mark.parametrize("nothing", ["", "null", "~"])
def test_a_text_that_yaml_reads_as_nothing_does_not_vanish(nothing: str) -> None:
    """Not from data, labels or a list; where it is a part of a text it stays one; a null that is meant is left out."""
    text = object_text(
        "data:\n  who: {{ values.x }}\n  what: {{ values.x }} # why\n  rest: a{{ values.x }}b\n  none: null\n"
    )
    told = problems(text, fleet={"x": nothing})
    assert [(each.line, each.path) for each in told] == [(6, "data.who"), (7, "data.what")]
    fine = text.replace("who: {{ values.x }}", "who: {{ values.x | q }}").replace(
        "what: {{ values.x }}", "what: '{{ values.x }}'"
    )
    assert document(checked(fine), fleet={"x": nothing})["data"] == {
        "who": nothing,
        "what": nothing,
        "rest": f"a{nothing}b",
    }


# R34: Argo's braces against Jinja's

ARGO = [
    "{{workflow.name}}", "{{workflow.namespace}}/{{workflow.creationTimestamp.Y}}/{{workflow.name}}/{{pod.name}}",
    "echo {{workflow.status}} {{retries}} {{=sprig.trim(workflow.name)}}; n=${#HOME}; printf '{%s}\\n' x",
    "{{item}}", "{{inputs.parameters.x}}", "{{=expr}}", "${metadata.name}", "{#", "#}", "{% x %}", "{%", "%}", "}}", "{{",
    "{{ '{{workflow.name}}' }}",
]  # fmt: skip


@pytest.mark.parametrize("text", ARGO)
@pytest.mark.parametrize(
    "place", ["data: {v: {{ values.v | q }}}\n", "data:\n  v: {{ {'v': values.v} | to_yaml | q }}\n"]
)
def test_argos_text_goes_through_as_a_value(text: str, place: str) -> None:
    """In equals out, straight and through the YAML that the child reads."""
    found = document(checked(object_text(place)), fleet={"v": text})["data"]["v"]
    assert (found if found == text else strictyaml.load(found)["v"]) == text


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ("{{workflow.name}}", "'workflow' is undefined"),
        ("{{item}}", "'item' is undefined"),
        ("{{retries}}", "'retries' is undefined"),
        ("{{ pod.name | default('') }}", "'pod' is undefined"),
        ("{{=sprig.trim(workflow.name)}}", "unexpected '='"),
        ("n=${#HOME}", "`${#` begins a comment for Jinja"),
        ("n=${#HOME} # #}", "`${#` begins a comment for Jinja"),
        ("printf '{%s}'", "unknown tag 's'"),
    ],
)
def test_argos_text_in_a_template_is_an_error_that_says_how_to_write_it(written: str, what: str) -> None:
    """Never silently empty, and never a comment that swallows the lines below."""
    (only,) = problems(object_text(f"data:\n  # {written}\n  secret: gone\n# #}}\n"))
    assert what in only.what
    assert "{% raw %}" in only.cure
    assert only.line == 6


def test_a_jinja_comment_is_still_one() -> None:
    """Only behind a dollar it is somebody else's; in a raw block it is text."""
    text = object_text("{# ${HOME} and $ #}data:\n  v: {% raw %}'${#HOME}'{% endraw %}\n")
    assert document(checked(text))["data"] == {"v": "${#HOME}"}


# R35: typos that give an empty name


def test_every_typo_is_told_at_its_line() -> None:
    """In text, a condition, a loop, an argument: never nothing instead of something."""
    files = {
        "a.yaml.j2": object_text('  labels: {a: "argo{{ suffx }}"}\n'),
        "b.yaml.j2": object_text("{% if features.extra %}\n{% endif %}\n"),
        "c.yaml.j2": object_text("data: {a: {{ values.images.controler | q }}}\n"),
        "d.yaml.j2": object_text("data: {a: {{ namespace.annotations.owner | q }}, b: {{ namespace.label | q }}}\n"),
        "e.yaml.j2": object_text("data:\n{% for x in values.lst %}\n{% endfor %}\n"),
    }
    with pytest.raises(TemplateError) as caught:
        desired(template_set(files), fleet={"images": {"controller": "x"}})
    assert [(each.where, each.line, each.what) for each in caught.value.problems] == [
        ("a.yaml.j2", 5, "'suffx' is undefined"),
        ("b.yaml.j2", 5, "'features' is undefined"),
        ("c.yaml.j2", 5, "values.images has no 'controler'"),
        ("d.yaml.j2", 5, "namespace.annotations has no 'owner'"),
        ("e.yaml.j2", 6, "values has no 'lst'"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "name: {{ values.role | default('cluster-admin') | q }}",
        "name: {{ values.role | d('cluster-admin') | q }}",
        "name: \"{{ values.role | default('cluster-admin') }}\"",
        "name: argo-{{ values.role | default('x') }}",
        "- name: {{ ('argo-' ~ (values.role | default('x'))) | q }}",
        "{kind: Role, name: {{ values.role | default('x') | q }}}",
        "namespace: {{ values.role | default('kube-system') | q }}",
        "serviceAccountName: {{ values.role | default('default') | q }}",
    ],
)
def test_no_name_comes_from_a_default(line: str) -> None:
    """Whom rights are given to does not depend on what somebody forgot: defaults stand in values.yaml."""
    (only,) = problems(object_text(f"# {{% if false %}}\n{line}\n# {{% endif %}}\n"))
    assert "comes from default(), which hides that a value is missing" in only.what
    assert (only.line, "values.yaml" in only.cure) == (6, True)


def test_defaults_are_for_all_else() -> None:
    """A label that may be missing is no fault."""
    text = object_text(
        "  labels: {team: {{ namespace.labels.team | default('none') | q }}}\ndata: {name-of: {{ values.x | default('y') | q }}}\n"
    )
    found = document(checked(text))
    assert (found["metadata"]["labels"]["team"], found["data"]) == ("none", {"name-of": "y"})


def test_empty_names_are_refused() -> None:
    """Name, role, subject: what came out empty is somebody else's."""
    binding = object_text(
        "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ values.role | q }}}\n"
        "subjects: [{kind: ServiceAccount, name: {{ values.name | q }}, namespace: {{ values.space | q }}}]\n",
        kind=ROLE_BINDING,
    )
    told = [(each.line, each.path) for each in problems(binding, fleet={"role": "", "name": "", "space": ""})]
    assert told == [(5, "roleRef.name"), (6, "subjects[0].name"), (6, "subjects[0].namespace")]
    (only,) = problems(object_text(name="{{ values.name | q }}"), fleet={"name": ""})
    assert only.what == "apiVersion, kind and metadata.name must be text"


def test_one_object_per_file() -> None:
    """A second document is told at the line where it begins."""
    (only,) = problems(object_text("---\n" + object_text(name="two")))
    assert (only.line, "expected a single document" in only.what) == (5, True)
    assert only.cure.startswith("one object per file")


def test_what_is_rendered_carries_no_other_namespace() -> None:
    """The mark is put on by us, whatever a template writes."""
    text = object_text(
        "  annotations: {metaoperator.dev/namespace-uid: stolen}\n  labels: {app.kubernetes.io/managed-by: helm}\n"
    )
    meta = document(checked(text))["metadata"]
    assert meta["annotations"][names.NAMESPACE_UID_ANNOTATION] == UID
    assert meta["labels"][names.MANAGED_BY_LABEL] == names.MANAGED_BY
