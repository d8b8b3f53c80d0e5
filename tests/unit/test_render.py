"""Rendering: the same bytes each time, our mark on each document, and faults that say where and what to do."""

import re
from typing import Any

import pytest
from hypothesis import example, given

from metaoperator.core import names, render, strictyaml, writing
from metaoperator.core.document import without_nulls
from metaoperator.core.errors import Problem, TemplateError
from metaoperator.core.model import CONFIG_MAP, DEPLOYMENT, ROLE_BINDING, Kind, TemplateSet
from tests.unit.builders import JSON, TEXT, UID, desired, document, namespace, object_text, template_set

LONE_SURROGATE = '"\\ud800"'


def problems(source: str | TemplateSet, **layers: Any) -> tuple[Problem, ...]:
    """Render what must fail, and return what was told."""
    with pytest.raises(TemplateError) as caught:
        desired(source, **layers)
    return caught.value.problems


def problem(source: str | TemplateSet, **layers: Any) -> Problem:
    """Render what must fail for one reason."""
    (only,) = problems(source, **layers)
    return only


# What comes out


def test_equal_input_gives_equal_bytes() -> None:
    """Two programs of the same set, with files and values in another order, render the same."""
    one = template_set({"b.yaml.j2": object_text(name="b"), "a.yaml.j2": object_text("data: {{ values | q }}\n")})
    two = template_set(dict([*one.files.items()][::-1]))
    first = desired(one, fleet={"x": "1", "y": {"b": "2", "a": "3"}})
    second = desired(two, fleet={"y": {"a": "3", "b": "2"}, "x": "1"})
    assert list(map(writing.q, first.documents)) == list(map(writing.q, second.documents))
    assert first.revision == second.revision


def test_every_document_carries_our_mark_and_its_namespace() -> None:
    """Manager label, the namespace's UID and instance ID, the digest of what was rendered; other labels stay."""
    text = object_text("  labels: {team: a, app.kubernetes.io/managed-by: helm}\n  annotations: {note: b}\n")
    meta = document(text)["metadata"]
    digest = meta["annotations"].pop(names.RENDERED_ANNOTATION)
    assert re.fullmatch("[0-9a-f]{16}", digest)
    assert meta == {
        "name": "one",
        "namespace": "team-a",
        "labels": {"team": "a", names.MANAGED_BY_LABEL: names.MANAGED_BY},
        "annotations": {"note": "b", names.NAMESPACE_UID_ANNOTATION: UID, names.INSTANCE_ID_ANNOTATION: "team-a"},
    }


def test_workloads_come_after_what_their_pods_rest_on() -> None:
    """ConfigMap and RoleBinding are applied before the Deployment that needs them, whatever the files are called."""
    files = {
        "1.yaml.j2": object_text(kind=DEPLOYMENT),
        "2.yaml.j2": object_text(kind=ROLE_BINDING),
        "3.yaml.j2": object_text(kind=CONFIG_MAP),
    }
    kinds = [manifest["kind"] for manifest in desired(template_set(files)).documents]
    assert kinds == ["RoleBinding", "ConfigMap", "Deployment"]


@pytest.mark.parametrize("text", ["", "  \n", "# nothing\n", "{% if false %}x{% endif %}", "---\n", "null\n"], ids=repr)
def test_a_template_may_render_nothing(text: str) -> None:
    """A file whose condition does not hold stands for no object."""
    assert desired(text).documents == ()


def test_partials_render_only_where_they_are_included() -> None:
    """A file that begins with `_` is no object of its own, and neither is one that does not end in `.yaml.j2`."""
    files = {
        "_part.yaml.j2": "data: {who: {{ namespace.name | q }}}\n",
        "notes.j2": "no object",
        "one.yaml.j2": object_text('{% include "_part.yaml.j2" %}'),
    }
    (only,) = desired(template_set(files)).documents
    assert only["data"] == {"who": "team-a"}


def test_nulls_are_left_out() -> None:
    """The API server drops nulls: rendered, they would differ from the live object for ever."""
    text = object_text("  labels:\ndata: {a: null, b: {c: ~, d: [{e: , f: 1}]}}\n")
    found = document(text)
    assert found["data"] == {"b": {"d": [{"f": 1}]}}
    assert None not in found["metadata"].values()


def test_a_template_sees_namespace_shard_values_and_template_and_nothing_else() -> None:
    """These four, and what Jinja itself brings along."""
    where = namespace(labels={"team": "x"}, annotations={"note": "y"})
    text = object_text(
        "data: {{ {'n': namespace, 's': shard, 'v': values, 't': template} | q }}\n"
        "{% for name in ['self_', 'config', 'request', 'environ', 'os', 'secrets'] %}"
        "{% if name is in [] %}{{ 1 }}{% endif %}{% endfor %}"
    )
    assert document(text, where, fleet={"a": 1})["data"] == {
        "n": {"name": "team-a", "uid": UID, "labels": {"team": "x"}, "annotations": {"note": "y"}},
        "s": {"index": 0, "name": "workflow-controller", "instance_id": "team-a"},
        "v": {"a": 1},
        "t": {"name": "default", "set": "set"},
    }


# The digests


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("data: {a: x}\n", "data: {a: y}\n"),
        ("data: {a: x}\n", "data: {b: x}\n"),
        ("data: {a: '1'}\n", "data: {a: 1}\n"),
        ("data: {a: true}\n", "data: {a: 1}\n"),
        ("data: {a: x}\n", "data: {a: x, b: {}}\n"),
        ("data: {a: [x, y]}\n", "data: {a: [y, x]}\n"),
        ("  labels: {a: x}\n", "  labels: {a: y}\n"),
        ("  annotations: {a: x}\n", "  annotations: {a: y}\n"),
    ],
    ids=str,
)
def test_the_digest_on_an_object_changes_with_what_is_rendered(one: str, two: str) -> None:
    """Any rendered difference shows, also one that comparing live objects would miss."""
    digests = {document(object_text(rest))["metadata"]["annotations"][names.RENDERED_ANNOTATION] for rest in (one, two)}
    assert len(digests) == 2
    assert desired(object_text(one)).revision != desired(object_text(two)).revision


def test_the_digest_stays_where_the_object_does() -> None:
    """Comments, quoting, key order, nulls and another object's change do not roll an object."""
    spellings = [
        "data: {a: x, b: 1}\n",
        "data: {b: 1, a: 'x'}\n",
        "# why\ndata:\n  a: x\n  b: 1\n",
        "data: {a: x, b: 1, c: null}\n",
        "{# a comment #}data: {a: {{ 'x' | q }}, b: {{ 1 | q }}}\n",
    ]
    marks = [document(object_text(rest))["metadata"]["annotations"] for rest in spellings]
    assert all(each == marks[0] for each in marks)
    beside = template_set({"one.yaml.j2": object_text(spellings[0]), "two.yaml.j2": object_text(name="two")})
    assert marks[0] in [each["metadata"]["annotations"] for each in desired(beside).documents]


def test_a_recreated_namespace_gets_other_bytes() -> None:
    """The UID is part of the mark, so the digest tells one incarnation from the next."""
    one, two = (document(object_text(), namespace(uid=uid))["metadata"]["annotations"] for uid in ("u1", "u2"))
    assert one[names.RENDERED_ANNOTATION] != two[names.RENDERED_ANNOTATION]


def test_a_sets_revision_changes_with_its_bytes_and_the_fleets_values() -> None:
    """It is what all namespaces have in common."""
    base = render.Program(template_set()).revision({"a": 1})
    assert render.Program(template_set()).revision({"a": 1}) == base
    assert render.Program(template_set()).revision({"a": 2}) != base
    assert render.Program(template_set(digest="other")).revision({"a": 1}) != base
    assert render.Program(template_set(name="other")).revision({"a": 1}) != base, "templates may read its name"


def test_a_sets_revision_changes_with_what_renders_it_and_a_namespaces_does_not() -> None:
    """An operator that renders otherwise has another revision of the set; the same bytes are the same revision."""
    one, two = (render.Program(template_set(), identity=identity) for identity in (lambda: "one", lambda: "two"))
    assert one.revision({}) != two.revision({})
    assert desired(one) == desired(two)


# Values are data


@given(TEXT)
@example("{{ 7 * 7 }}")
@example("bob\n---\napiVersion: v1\nkind: Secret\n")
@example('"; } spec: {hostNetwork: true} #')
@example("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}")
@example("{# gone #}")
@example("\x85\u2028\x7f\ufffe")
def test_what_a_tenant_writes_arrives_unchanged(text: str) -> None:
    """A label's, annotation's or value's text adds no structure, is not rendered, and loses no character."""
    where = namespace(labels={"l": text}, annotations={"a": text})
    found = document(
        object_text("data: {{ {'l': namespace.labels.l, 'a': namespace.annotations.a, 'v': values.v} | q }}\n"),
        where,
        fleet={"v": text},
    )
    assert found["data"] == {"l": text, "a": text, "v": text}
    assert set(found) == {"apiVersion", "kind", "metadata", "data"}


@given(JSON)
def test_any_value_survives_the_filter_q(value: Any) -> None:
    """Whole trees pass through a template unchanged, but for nulls below mappings, which manifests do not hold."""
    text = object_text("data: {got: {{ [values.v] | q }}}\n")
    assert document(text, fleet={"v": [value]})["data"]["got"] == without_nulls([[value]])


ARGO = [
    "{{workflow.name}}",
    "{{workflow.creationTimestamp.Y}}/{{pod.name}}",
    "{{=sprig.trim(workflow.name)}}",
    "n=${#HOME}; echo #}",
    "printf '{%s}\\n' x",
    "https://logs.example/?ns=${metadata.namespace}",
    "{{item}} {{retries}}",
]


@pytest.mark.parametrize("text", ARGO)
def test_argos_own_placeholders_pass_as_values(text: str) -> None:
    """What Argo or a shell expands later is just text here: in equals out, also through the child's YAML."""
    found = document(
        object_text("data: {q: {{ values.v | q }}, yaml: {{ {'v': values.v} | to_yaml | q }}}\n"), fleet={"v": text}
    )
    assert found["data"]["q"] == text
    assert strictyaml.load(found["data"]["yaml"]) == {"v": text}


@pytest.mark.parametrize("text", ARGO)
def test_argos_own_placeholders_pass_between_raw_marks(text: str) -> None:
    """The cure that the error tells works."""
    quoted = text.replace("'", "''")
    found = document(object_text(f"data:\n  v: '{{% raw %}}{quoted}{{% endraw %}}'\n"))
    assert found["data"] == {"v": text}


# Faults that say where


def test_an_undefined_variable_names_file_line_and_cure() -> None:
    """An Argo variable in a template's text is the likeliest reason, so the error says how to write it."""
    files = {"one.yaml.j2": object_text("data:\n  key: '{{workflow.name}}'\n")}
    told = problem(template_set(files))
    assert (told.where, told.line, told.what) == ("one.yaml.j2", 6, "'workflow' is undefined")
    assert "{% raw %}" in told.cure
    assert str(told).startswith("one.yaml.j2:6: 'workflow' is undefined (if this is an Argo variable")


@pytest.mark.parametrize(
    "expression",
    [
        "{{ suffx }}",
        "{{ values.nope | q }}",
        "{{ namespace.annotations.owner | q }}",
        "{{ namespace.labels['team'] | q }}",
        "{% if features %}{% endif %}",
        "{% for x in nope %}{% endfor %}",
        "{{ nope ~ '' }}",
        "{{ [nope] | q }}",
    ],
)
def test_no_typo_becomes_an_empty_text(expression: str) -> None:
    """Nothing that is missing is rendered as nothing: not in output, condition, loop or inside a list."""
    told = problem(object_text(f"# {expression}\n"))
    assert told.line == 5


def test_a_fault_in_a_partial_is_told_with_the_partials_line() -> None:
    """The innermost template is where a person has to look."""
    files = {"_part.j2": "\n\n{{ nope }}", "one.yaml.j2": object_text('# {% include "_part.j2" %}\n')}
    told = problem(template_set(files))
    assert (told.where, told.line) == ("_part.j2", 3)


def test_syntax_errors_of_all_files_are_told_at_once() -> None:
    """Compiling needs no namespace: every file is looked at, partials too."""
    files = {
        "a.yaml.j2": object_text("# {% if %}\n"),
        "b.yaml.j2": object_text("# n=${#HOME}\n"),
        "_c.j2": "\n{{ x | no_such_filter }}",
        "d.yaml.j2": object_text("# {%s}"),
        "e.yaml.j2": "{{ " + "(" * 3000 + ")" * 3000 + " }}",
        "fine.yaml.j2": object_text(),
    }
    with pytest.raises(TemplateError) as caught:
        render.Program(template_set(files))
    told = [(each.where, each.line) for each in caught.value.problems]
    assert told == [("_c.j2", 2), ("a.yaml.j2", 5), ("b.yaml.j2", 5), ("d.yaml.j2", 5), ("e.yaml.j2", None)]


def test_faults_of_all_documents_are_told_at_once() -> None:
    """One render tells everything that is wrong with a set for a namespace."""
    files = {
        "a.yaml.j2": object_text("status: {}\n"),
        "b.yaml.j2": "{{ nope }}",
        "c.yaml.j2": object_text("  namespace: kube-system\nstatus: {}\n"),
    }
    assert [each.where for each in problems(template_set(files))] == [
        "a.yaml.j2",
        "b.yaml.j2",
        "c.yaml.j2",
        "c.yaml.j2",
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (object_text("  namespace: team-b\n"), "the object is for namespace 'team-b', not for 'team-a'"),
        (object_text("  namespace: ''\n"), "the object is for namespace '', not for 'team-a'"),
        (object_text("  namespace:\n"), "the object is for namespace None, not for 'team-a'"),
        (object_text(kind=Kind("v1", "Secret")), "v1 Secret is not among the kinds that the set declares"),
        (object_text(kind=Kind("v2", "ConfigMap")), "v2 ConfigMap is not among the kinds that the set declares"),
        (object_text("status: {}\n"), "renders a status"),
        (object_text("status:\n"), "renders a status"),
        (object_text(name=""), "apiVersion, kind and metadata.name must be text"),
        (object_text(name='""'), "apiVersion, kind and metadata.name must be text"),
        (object_text(name="1"), "apiVersion, kind and metadata.name must be text"),
        ("kind: ConfigMap\nmetadata: {name: x}\n", "apiVersion, kind and metadata.name must be text"),
        ("apiVersion: v1\nkind: ConfigMap\n", "apiVersion, kind and metadata.name must be text"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: x\n", "apiVersion, kind and metadata.name must be text"),
        (object_text("  labels: [a]\n"), "is not a mapping"),
        (object_text("  annotations: text\n"), "is not a mapping"),
        (object_text("  labels: {build: 1.10}\n"), "is not text but 1.1"),
        (object_text("  annotations: {a: {b: c}}\n"), 'is not text but {"b": "c"}'),
        ("- a\n", "renders to something that is not an object"),
        ("just text\n", "renders to something that is not an object"),
        (object_text("---\n" + object_text(name="two")), "rendered YAML: expected a single document in the stream"),
        (object_text("data: {a: 1}\ndata: {b: 2}\n"), "rendered YAML: duplicate key 'data', first on line 5"),
        (object_text(f"data: {{a: {{{{ {LONE_SURROGATE} | q }}}}}}\n"), "rendered YAML: found invalid Unicode"),
        (object_text("# {% include 'gone.j2' %}"), "TemplateNotFound: gone.j2"),
        (object_text("# {% include 'one.yaml.j2' %}"), "stand more than 40 deep in one another"),
        (object_text("# {{ 1 // 0 }}"), "ZeroDivisionError"),
        (object_text("# {% for a in range(99999) %}0123456789{% endfor %}"), "over the limit of 900000"),
    ],
)
def test_a_document_at_fault_is_refused(text: str, what: str) -> None:
    """Whatever is wrong is a `TemplateError` that names the file and starts with the fault."""
    told = problem(text)
    assert told.where == "one.yaml.j2"
    assert told.what.startswith(what) or what in told.what


def test_a_fault_in_rendered_yaml_shows_the_lines_around_it() -> None:
    """The rendered text is nowhere to be seen otherwise."""
    told = problem("apiVersion: v1\nkind: {{ 'a: b: c' }}\nmetadata: {}\n")
    assert told.what.splitlines()[1:] == [
        "       1 | apiVersion: v1",
        "  >    2 | kind: a: b: c",
        "       3 | metadata: {}",
    ]


def test_a_long_line_at_fault_is_shown_by_its_beginning() -> None:
    """A terminal and a condition have to hold it."""
    told = problem(object_text("data: {a: " + "x" * 100_000 + ": [}\n"))
    assert "rendered YAML" in told.what
    assert len(told.what) < 1_000


def test_an_object_that_is_rendered_twice_is_refused() -> None:
    """One would silently win over the other."""
    told = problem(template_set({"a.yaml.j2": object_text(), "b.yaml.j2": object_text("data: {a: b}\n")}))
    assert (told.where, told.what) == ("b.yaml.j2", "ConfigMap/team-a/one is rendered twice")


# The sandbox


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("{{ ''.__class__.__mro__ }}", "access to attribute '__class__' of 'str' object is unsafe"),
        ("{{ values['__class__'].__init__ }}", "unsafe"),
        ("{{ q.__globals__ }}", "'q' is undefined"),
        ("{{ self.__init__.__globals__ }}", "unsafe"),
        ("{{ namespace.labels.update({'a': 1}) }}", "unsafe"),
        ("{{ values.clear() }}", "unsafe"),
        ("{{ values.list.append(1) }}", "unsafe"),
        ("{% for x in range(100001) %}{% endfor %}", "Range too big"),
        ("{{ 'a' * 100000000 }}", "operator '*' works on numbers only"),
        ("{{ 100000000 * 'a' }}", "operator '*' works on numbers only"),
        ("{{ [1] * 100000000 }}", "operator '*' works on numbers only"),
        ("{{ 9 ** 999 }}", "** not at all"),
        ("{{ '%100000000d' % 1 }}", "operator '%' works on numbers only"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "stand more than 40 deep in one another"),
        *[
            (f"{{{{ 'a' | {name} }}}}", f"No filter named '{name}'")
            for name in ("attr", "center", "format", "pprint", "random", "safe", "urlize", "wordwrap", "xmlattr")
        ],
        *[(f"{{{{ {name}() }}}}", f"'{name}' is undefined") for name in ("cycler", "joiner", "lipsum")],
        ("{% set ns = namespace(a=1) %}", "'dict' object is not callable"),
    ],
)
def test_a_template_cannot_reach_out_or_blow_up(expression: str, what: str) -> None:
    """Neither Python's insides, nor other namespaces' data, nor a gigabyte from one line."""
    told = problem(object_text(f"# {expression}\n"), fleet={"list": [1]})
    assert what in told.what
    assert told.line == 5


def test_numbers_may_still_be_reckoned_with() -> None:
    """The refused operators work where they are harmless."""
    assert document(object_text("data: {{ [6 * 7, 7 % 4, 0.5 * 4] | q }}\n"))["data"] == [42, 3, 2.0]


def test_rendering_changes_nothing_that_was_handed_in() -> None:
    """The filter `merge` makes a new mapping: the set's defaults are every namespace's."""
    defaults = {"a": {"b": "1"}}
    whole = template_set(
        {"one.yaml.j2": object_text("data: {{ values.a | merge({'c': '2'}) | q }}\n")}, defaults=defaults
    )
    assert document(whole)["data"] == {"b": "1", "c": "2"}
    assert defaults == {"a": {"b": "1"}}
