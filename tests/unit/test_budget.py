"""What templates may spend and reach: no template hangs, eats the memory, or gets at anything but its data."""
# ruff: noqa: E501 - tables: a row is a line

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from metaoperator import sources
from metaoperator.core import filters, meter, render
from metaoperator.core.errors import Problem, TemplateError
from tests.unit.builders import SHIPPED, desired, document, namespace, object_text, template_set

ROOT = Path(__file__).parents[2]
DEEP = {
    "a": {"b": {"c": {"d": 1}}},
    "list": [3, 1, 2],
    "text": "a-b",
    "people": [{"n": "x", "a": 2}, {"n": "y", "a": 1}],
}


def problem(body: str, **files: str) -> Problem:
    """Render a body that must fail for one reason."""
    with pytest.raises(TemplateError) as caught:
        desired(template_set({"one.yaml.j2": object_text(f"# {body}\n"), **files}), fleet=DEEP)
    (only,) = caught.value.problems
    return only


def loop(body: str, turns: int = 99_999) -> str:
    """Do something very often."""
    return f"{{% for x in range({turns}) %}}{body}{{% endfor %}}"


STEPS = f"does more than {meter.MAX_STEPS} steps"
TEXT = "makes a text of"
MEGA = "{% set s = 'aaaaaaaaaaaaaaaaaaaaa' %}" + "{% set s = s ~ s %}" * 16
"""More than a million letters."""
HALF = "{% set s = 'aaaaaaaaaaaaaaaaaaaaa' %}" + "{% set s = s ~ s %}" * 14
DEPTH = f"stand more than {meter.MAX_DEPTH} deep in one another"
TENFOLD = "{% set a = [a, a, a, a, a, a, a, a, a, a] %}"

HOSTILE = {
    # for ever, or nearly
    "loops in loops": (loop(loop("")), STEPS),
    "loops over texts": ("{% set a = range(99999) | join %}{% for x in a %}{% for y in a %}{% endfor %}{% endfor %}", STEPS),
    "calls": (loop("{% set y = 'a'.upper() %}"), STEPS),
    "filters": (loop("{% set y = x | abs | abs %}"), STEPS),
    "tests": (loop("{% set y = x is odd %}"), STEPS),
    "attributes": (loop("{% set y = values.a.b.c.d %}"), STEPS),
    "comparisons": (loop("{% if x == x == x == x %}{% endif %}"), STEPS),
    "sums": (loop("{% set y = x + x + x + x %}"), STEPS),
    "texts of one": (loop("{% set y = x ~ x ~ x ~ x %}"), STEPS),
    "lists": (loop("{% set y = [x, x, x, x] %}"), STEPS),
    "mappings": (loop("{% set y = {'a': x, 'b': x} %}"), STEPS),
    "branches": (loop("{% if x %}{% elif x %}{% else %}{% endif %}"), STEPS),
    "blocks": (loop("{% set y %}" + "a" * 99 + "{% endset %}"), STEPS),
    "macros": ("{% macro m() %}{% endmacro %}" + loop("{{ m() }}"), STEPS),
    "call blocks": ("{% macro m() %}{{ caller() }}{% endmacro %}" + loop("{% call m() %}{% endcall %}"), STEPS),
    "filter blocks": (loop("{% filter upper %}a{% endfilter %}"), STEPS),
    "loop variables": (loop("{% if loop.last or loop.changed(x) %}{% endif %}"), STEPS),
    "includes": (loop("{% include '_part.j2' %}"), STEPS),
    "imports": (loop("{% import '_part.j2' as p %}"), STEPS),
    "sorting": ("{% set a = range(99999) %}" + loop("{% set b = a | sort %}", 99), STEPS),
    "searching": ("{% set a = range(99999) %}" + loop("{% set b = -1 in a %}", 99), STEPS),
    "slicing": ("{% set a = range(99999) %}" + loop("{% set b = a[1:] %}", 99), STEPS),
    "splitting": ("{% set a = range(99999) | join(' ') %}" + loop("{% set b = a.split() %}", 99), STEPS),
    "mapping": (loop("{% set y = range(999) | map('string') | list %}", 999), STEPS),
    "selecting": (loop("{% set y = range(999) | select('odd') | list %}", 999), STEPS),
    "grouping": (loop("{% set y = values.people | groupby('n') %}"), STEPS),
    "merging": (loop("{% set y = {'a': 1} | merge({'b': 2}) %}"), STEPS),
    "writing": (loop("{% set y = [x] | to_yaml | digest %}"), STEPS),
    "missing things": ("{% set y = values.no.where | default(1) %}", "values has no 'no'"),
    "defaults": (loop("{% set y = values.no | default(1) %}"), STEPS),
    "a loop that forks": ("{% for x in [1, 2] recursive %}{% if loop.depth < 39 %}{{ loop([1, 2]) }}{% endif %}{% endfor %}", STEPS),
    "a filtered loop": (loop("{% for y in range(999) if y is odd %}{% endfor %}"), STEPS),
    "blocks of a page": ("{% block b %}{{ self.b() }}{% endblock %}", DEPTH),
    "many arguments": ("{% macro m() %}{% if varargs %}{% endif %}{% endmacro %}{% set r = range(90000) %}" + loop("{{ m(*r) }}", 9999), STEPS),
    "many names of templates": ("{% set l = range(30000) | join(' ') %}{% set l = l.split() %}" + loop("{% include l ignore missing %}"), STEPS),
    "searches from the end": (HALF + "{% set y = s.rfind('ab' ~ s[:200000]) %}", STEPS),
    "an index from the end": (HALF + "{% set y = s.rindex('ab' ~ s[:200000]) %}", STEPS),
    "splits from the end": (HALF + "{% set y = s.rsplit('ab' ~ s[:200000]) %}", STEPS),
    "partitions from the end": (HALF + "{% set y = s.rpartition('ab' ~ s[:200000]) %}", STEPS),
    "strips of many letters": (HALF + "{% set y = s.strip(s.replace('a', 'b') ~ 'a') %}", STEPS),
    "strips of one end": (HALF + "{% set y = s.rstrip(s.replace('a', 'b') ~ 'a') %}", STEPS),
    "trims of many letters": (HALF + "{% set y = s | trim(s.replace('a', 'b') ~ 'a') %}", STEPS),
    "long ways to attributes": (HALF + "{% set y = range(9999) | map(attribute=s.replace('a', 'a.')[:99999], default=1) %}", STEPS),
    "long ways into texts": ("{% set n = range(9999) | join('.0.0.0.0.0.') %}{% set y = ['a'] | map(attribute=n, default='a') %}" * 9, STEPS),
    "sorts by many attributes": (loop("{% set y = values.people | sort(attribute='n,a,n,a,n,a,n,a') %}"), STEPS),
    "sorts by very many attributes": (HALF + "{% set y = 'abcdefgh' | sort(attribute=s.replace('a', '0,') ~ '0') %}", STEPS),
    "letters as items": (MEGA + "{% set y = s | list %}", STEPS),
    "letters in batches": (MEGA + "{% set y = s | batch(1) %}", STEPS),
    "letters in slices": (MEGA + "{% set y = s | slice(1) %}", STEPS),
    "letters in joins": (MEGA + "{% set y = s | join %}", STEPS),
    "letters in methods": (MEGA + "{% set y = ''.join(s) %}", STEPS),
    "letters that are selected": (MEGA + "{% set y = s | select %}", STEPS),
    "letters that are unique": (MEGA + "{% set y = s | unique %}", STEPS),
    "words": (MEGA + "{% set y = s | wordcount %}", STEPS),
    "titles": (MEGA + "{% set y = s | title %}", STEPS),
    "links": (MEGA + "{% set y = s | urlencode %}", STEPS),
    # without end
    "a template that extends itself": ("{% extends 'one.yaml.j2' %}", DEPTH),
    "a macro of itself": ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", DEPTH),
    "an include of itself": ("{% include 'one.yaml.j2' %}", DEPTH),
    "an import of itself": ("{% import 'one.yaml.j2' as one %}", DEPTH),
    "a loop of itself": ("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", DEPTH),
    "two macros of each other": ("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}", DEPTH),
    "a caller of itself": ("{% macro m() %}{{ caller() }}{% call m() %}{% endcall %}{% endmacro %}{% call m() %}{% endcall %}", DEPTH),
    # out of nothing
    "doubled texts": ("{% set a = 'aaaaaaaaaaaaaaaa' %}" + "{% set a = a ~ a %}" * 40, TEXT),
    "added texts": ("{% set a = 'aaaaaaaaaaaaaaaa' %}" + "{% set a = a + a %}" * 40, TEXT),
    "replaced texts": ("{% set a = 'aa' %}" + "{% set a = a.replace('a', 'aaaaaaaaaaaaaa') %}" * 20, TEXT),
    "filtered texts": ("{% set a = 'aa' %}" + "{% set a = a | replace('a', 'aaaaaaaaaaaaaa') %}" * 20, TEXT),
    "joined texts": ("{% set a = 'a' * 1 if false else 'aaaaaaaaaa' %}" + "{% set a = a.join([a, a, a]) %}" * 20, TEXT),
    "joined lists": ("{% set y = range(99999) | join('" + "a" * 99 + "') %}", TEXT),
    "blocks in texts": ("{% set a %}aaaaaaaaaa{% endset %}" + "{% set a %}{{ a }}{{ a }}{% endset %}" * 40, TEXT),
    "indents": ("{{ 'a' | indent(999999999) }}", TEXT),
    "indents of texts": ("{% set a = 'a' %}" + "{% set a = (a ~ '\\n' ~ a) | indent(a) %}" * 40, TEXT),
    "lists in lists": ("{% set a = [1] %}" + TENFOLD * 30, STEPS),
    "written lists": ("{% set a = [1] %}" + TENFOLD * 4 + "{{ [a, a, a, a, a, a, a, a, a, a, a, a, a, a] * 1 }}", "works on numbers only"),
    "added lists": ("{% set a = [1] %}" + "{% set a = a + a %}" * 40, STEPS),
    "compared lists": ("{% set a = [1] %}" + TENFOLD * 4 + loop("{% if a == a %}{% endif %}", 99), STEPS),
    "deep lists": ("{% set a = [1] %}" + "{% set a = [a] %}" * 120, "stand more than 100 deep in one another"),
    "squares": ("{% set a = 99999999 %}" + "{% set a = a * a %}" * 60, "beyond 64 bits"),
    "long numbers": ("{% set a = '" + "9" * 400 + "' | int %}", "beyond 64 bits"),
    "hexadecimal numbers": ("{% set a = '" + "f" * 400 + "' | int(0, 16) %}", "beyond 64 bits"),
    "infinity": ("{{ 'inf' | float }}", "infinite, or no number"),
    "no number": ("{{ ['nan' | float, 1] | sort | q }}", "infinite, or no number"),
    "sums without end": ("{% set a = 9000000000000000000.5 %}" + "{% set a = a * a %}" * 9, "infinite, or no number"),
    "powers of ten": ("{{ 1.5 | round(999999999, 'floor') }}", "round takes a precision from -30 to 30"),
    "sums of lists": ("{{ [[1], [2]] | sum(start=[]) }}", "sum adds numbers only"),
    "slices": ("{{ [1] | slice(999999999) | list | q }}", STEPS),
    "batches": ("{{ [1] | batch(999999999, 'x') | list | q }}", STEPS),
    "padded": ("{{ 'a'.ljust(999999999) }}", "unsafe"),
    "centred": ("{{ 'a'.center(999999999) }}", "unsafe"),
    "zero-filled": ("{{ 'a'.zfill(999999999) }}", "unsafe"),
    "tabs": ("{{ '\\t'.expandtabs(999999999) }}", "unsafe"),
    "formatted": ("{{ '{:999999999}'.format(1) }}", "unsafe"),
    "format maps": ("{{ '{a:999999999}'.format_map({'a': 1}) }}", "unsafe"),
    "percents": ("{{ '%999999999d' % 1 }}", "works on numbers only"),
    "repeated": ("{{ 'a' * 999999999 }}", "works on numbers only"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "what"), HOSTILE.values(), ids=HOSTILE)
def test_no_template_goes_on_for_ever_or_makes_something_huge(body: str, what: str) -> None:
    """It ends in an error that names the line, and in the same one each time."""
    told = problem(body, **{"_part.j2": ""})
    assert what in told.what
    assert told.line is not None
    assert told == problem(body, **{"_part.j2": ""})


REACHING = {
    "classes": ("{{ ''.__class__ }}", "unsafe"),
    "classes by item": ("{{ ''['__class__'] }}", "unsafe"),
    "bases": ("{{ values.a.__class__.__mro__ }}", "unsafe"),
    "order of bases": ("{{ values.mro() }}", "values has no 'mro'"),
    "what begins with a line": ("{{ 'a'._x }}", "has no attribute '_x'"),
    "globals of functions": ("{{ range.__globals__ }}", "unsafe"),
    "globals of macros": ("{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}", "unsafe"),
    "environments of macros": ("{% macro m() %}{% endmacro %}{{ m._environment }}", "unsafe"),
    "the context of self": ("{{ self._TemplateReference__context }}", "unsafe"),
    "the caller's frame": ("{% macro m() %}{{ caller._func }}{% endmacro %}{% call m() %}{% endcall %}", "unsafe"),
    "loops": ("{% for x in [1] %}{{ loop._iterator }}{% endfor %}", "unsafe"),
    "loops' functions": ("{% for x in [1] recursive %}{{ loop._recurse }}{% endfor %}", "unsafe"),
    "methods": ("{{ 'a'.upper._run }}", "unsafe"),
    "methods' objects": ("{{ 'a'.upper.__self__ }}", "has no attribute '__self__'"),
    "modules": ("{% import '_part.j2' as p %}{{ p._body_stream }}", "unsafe"),
    "modules' insides": ("{% import '_part.j2' as p %}{{ p.__init__ }}", "unsafe"),
    "private names of modules": ("{% from '_part.j2' import _x %}", "names starting with an underline"),
    "attributes by a map": ("{{ ['a'] | map(attribute='__class__') | q }}", "unsafe"),
    "attributes by a test": ("{{ ['a'] | selectattr('__class__') | list }}", "unsafe"),
    "attributes by a sort": ("{{ ['a', 'b'] | sort(attribute='__class__') }}", "unsafe"),
    "attributes by a format": ("{{ '{0.__class__}'.format(1) }}", "unsafe"),
    "encodings": ("{{ 'a'.encode() }}", "unsafe"),
    "translations": ("{{ 'a'.translate({97: 'b'}) }}", "unsafe"),
    "changes of lists": ("{{ values.list.append(1) }}", "unsafe"),
    "changes by sorting": ("{{ values.list.sort() }}", "unsafe"),
    "changes of mappings": ("{{ values.update({'a': 1}) }}", "unsafe"),
    "taking out": ("{{ values.pop('a') }}", "unsafe"),
    "changes of values": ("{% set values.a = 1 %}", "cannot assign attribute on non-namespace object"),
    "numbers' insides": ("{{ (1).real }}", "unsafe"),
    "autoescape": ("{% autoescape true %}{{ 'a' }}{% endautoescape %}", "autoescape is for HTML"),
    "templates elsewhere": ("{% include '/etc/passwd' %}", "TemplateNotFound"),
    "templates above": ("{% include '../workflow-controller/configmap.yaml.j2' %}", "TemplateNotFound"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "what"), REACHING.values(), ids=REACHING)
def test_a_template_reaches_its_data_and_nothing_else(body: str, what: str) -> None:
    """Neither Python's insides nor Jinja's, and it changes nothing that it was given."""
    assert what in problem(body, **{"_part.j2": "{% set _x = 1 %}"}).what


UNEVEN = {
    "functions": "{{ range }}",
    "methods": "{{ 'a'.upper }}",
    "macros": "{% macro m() %}{% endmacro %}{{ m }}",
    "macros in texts": "{% macro m() %}{% endmacro %}{{ m ~ 'a' }}",
    "modules": "{% import '_part.j2' as p %}{{ p }}",
    "loops": "{% for x in [1] %}{{ loop }}{% endfor %}",
    "self": "{{ self }}",
    "lists": "{{ [1] }}",
    "mappings": "{{ {'a': 1} }}",
    "null": "{{ none }}",
    "lists in texts": "{{ 'a' ~ [1] }}",
    "lists in joins": "{{ [[1]] | join }}",
    "functions as names": "{{ values[range] }}",
    "lists as names": "{{ values[[1]] }}",
    "functions as JSON": "{{ [range] | q }}",
    "methods as YAML": "{{ ['a'.upper] | to_yaml }}",
    "missing things as YAML": "{{ [nope] | to_yaml }}",
    "macros as JSON": "{% macro m() %}{% endmacro %}{{ m | q }}",
    "differences of keys": "{{ (values.keys() - values.a.keys()) | q }}",
    "identity": "{{ 1 is sameas 1 }}",
    "randomness": "{{ [1, 2] | random }}",
    "text of anybody": "{{ lipsum() }}",
    "insides of objects": "{{ range | pprint }}",
    "functions that are sought": "{{ [1].index(range) }}",
    "methods that are sought": "{{ [1].index('a'.upper) }}",
    "functions as filters": "{{ [1] | map(range) | q }}",
    "methods as filters": "{{ [1] | map('a'.upper) | q }}",
    "functions as tests": "{{ [1] | select(range) | q }}",
    "functions as templates": "{% include range %}",
    "methods among templates": "{% include ['a'.upper] %}",
    "functions as parents": "{% extends range %}",
    "functions as modules": "{% import range as p %}",
}


@pytest.mark.parametrize("body", UNEVEN.values(), ids=UNEVEN)
def test_nothing_is_printed_that_differs_from_run_to_run(body: str) -> None:
    """No address of an object, no order of a set, no Python notation."""
    told = problem(body, **{"_part.j2": ""})
    assert "0x" not in str(told)


def test_a_loop_over_a_mapping_goes_by_its_keys() -> None:
    """However somebody wrote the values, labels and annotations down."""
    text = object_text(
        "data:\n{% for k in values %}\n  {{ k }}: {{ loop.index | string | q }}\n{% endfor %}\n"
        "{% for k, v in namespace.labels.items() %}\n  l-{{ k }}: {{ loop.index | string | q }}\n{% endfor %}\n"
    )
    one = document(text, namespace(labels={"x": "1", "y": "2"}), fleet={"b": 1, "a": {"d": 1, "c": 2}})
    two = document(text, namespace(labels={"y": "2", "x": "1"}), fleet={"a": {"c": 2, "d": 1}, "b": 1})
    assert (
        list(one["data"].items()) == list(two["data"].items()) == [("a", "1"), ("b", "2"), ("l-x", "1"), ("l-y", "2")]
    )


HONEST: dict[str, Any] = {
    "values.list | sort": [1, 2, 3],
    "values.list | map('string') | list": ["3", "1", "2"],
    "values.people | map(attribute='n') | join(', ')": "x, y",
    "values.people | map(attribute='z', default='?') | list": ["?", "?"],
    "values.people | selectattr('a', 'gt', 1) | map(attribute='n') | first": "x",
    "values.people | rejectattr('a', 'equalto', 1) | list": [{"n": "x", "a": 2}],
    "values.list | select('odd') | list": [3, 1],
    "values.list | reject('odd')": [2],
    "values.people | groupby('n') | map('first') | list": ["x", "y"],
    "(values.people | groupby('n'))[0].grouper": "x",
    "values.people | sort(attribute='a') | map(attribute='n') | list": ["y", "x"],
    "values.people | sum(attribute='a')": 3,
    "values.list | batch(2) | list": [[3, 1], [2]],
    "values.list | slice(2) | list": [[3, 1], [2]],
    "values.list | unique | list": [3, 1, 2],
    "values.list | min ~ '-' ~ values.list | max": "1-3",
    "values.list | reverse | list": [2, 1, 3],
    "values.list[1:]": [1, 2],
    "values.text[:1]": "a",
    "values.text.split('-')": ["a", "b"],
    "'-'.join(['a', 'b'])": "a-b",
    "values.text.rsplit('-', 1) + values.text.rpartition('-') | list": ["a", "b", "a", "-", "b"],
    "values.text.rfind('-') + values.text.rindex('b')": 3,
    "values.text.strip('ab') ~ values.text.lstrip('a') ~ values.text.rstrip('b')": "--ba-",
    "values.text | trim('ab')": "-",
    "values.text | batch(2) | map('join') | list": ["a-", "b"],
    "0.00001 ~ ''": "1.0e-05",
    "values.text.replace('-', '+')": "a+b",
    "values.text | upper | lower | title | capitalize": "A-b",
    "values.text.startswith('a') and values.text.removeprefix('a-')": "b",
    "values.a.items() | list": [["b", {"c": {"d": 1}}]],
    "values.a | items | list | length": 1,
    "values.get('none', 'x')": "x",
    "values.a.keys() | list": ["b"],
    "values.a | dictsort | first | first": "b",
    "values.none | default('x')": "x",
    "values.none is defined": False,
    "'a' if values.list else 'b'": "a",
    "1 + 2 * 3 - 4 // 2": 5,
    "7 % 4 / 2": 1.5,
    "-1 | abs": 1,
    "1.55 | round(1)": 1.6,
    "'5' | int + 1": 6,
    "'x' | int(7)": 7,
    "['a'] + ['b']": ["a", "b"],
    "'a' ~ 1 ~ true ~ 1.5": "a1true1.5",
    "'a' + 'b'": "ab",
    "'a' in values": True,
    "'a-b c' | replace(' ', '_')": "a-b_c",
    "'  a ' | trim": "a",
    "'a\\nb' | indent(2)": "a\n  b",
    "'a b' | wordcount": 2,
    "'a/b' | urlencode": "a/b",
    "'abcdefghijkl' | truncate(4, true)": "a...",
    "{'a': 1} | merge({'b': 2})": {"a": 1, "b": 2},
    "dict(a=1)": {"a": 1},
    "range(3) | list": [0, 1, 2],
    "{'b': 1, 'a': [2]} | tojson": '{"a": [2], "b": 1}',
    "['x'] | to_yaml": '- "x"\n',
    "1024 | filesizeformat": "1.0 kB",
    "none is none and 1 is number and 'a' is string and {} is mapping": True,
    "values.list is sequence and 4 is divisibleby 2 and 2 is in values.list": True,
}


@pytest.mark.parametrize(("expression", "value"), HONEST.items(), ids=HONEST)
def test_what_authors_want_works(expression: str, value: Any) -> None:
    """Filters, tests, methods and operators, within the budget."""
    found = document(object_text(f"data: {{got: {{{{ [{expression}] | q }}}}}}\n"), fleet=DEEP)
    assert found["data"]["got"] == [value]


def test_every_filter_is_tried() -> None:
    """A filter that comes back is tried above, or is one of those that other tests are about."""
    tried = " ".join(HONEST) + " d count length last float string digest q "
    assert {name for name in filters.FILTERS if name not in tried} == set()


def test_templates_include_import_inherit_and_call_each_other() -> None:
    """Partials, macros with callers, blocks and loops that recur."""
    files = {
        "_macros.j2": "{% macro pair(k) %}  {{ k }}: {{ caller() }}{% endmacro %}",
        "_base.j2": object_text(name="two", rest="data:\n{% block data %}  a: b{% endblock %}\n"),
        "_part.j2": "  part: {{ shard.name | q }}\n",
        "one.yaml.j2": object_text(
            "{% from '_macros.j2' import pair %}\n{% import '_macros.j2' as macros %}\ndata:\n{% include '_part.j2' %}\n"
            "{% call pair('k') %}v{% endcall %}\n\n{% call macros.pair('l') %}w{% endcall %}\n\n"
            "  tree: {% for x in [[[]]] recursive %}<{{ loop(x) }}>{% endfor %}\n\n"
            "{% filter indent(2, true) %}\nf: g\n{% endfilter %}\n"
        ),
        "two.yaml.j2": "{% extends '_base.j2' %}{% block data %}{{ super() }}\n  c: {{ self.more() }}{% endblock %}"
        "{% block more %}n{% endblock %}",
    }
    one, two = desired(template_set(files)).documents
    assert one["data"] == {"part": "workflow-controller", "k": "v", "l": "w", "tree": "<<>>", "f": "g"}
    assert two["data"] == {"a": "b", "c": "n"}


@pytest.mark.parametrize(
    "template",
    [
        "{% set x = '{a: b}' %}data: {{ x }}",
        "{% set x = '{a: b}' if values.a else '{c: d}' %}data: {{ x }}",
        "{% macro m(x, y='b}') %}{{ x }}{{ y }}{% endmacro %}data: {{ m('{a: ') }}",
        "{% for x in ['{a: b}'] %}data: {{ x }}{% endfor %}",
        "data: {{ '{a: ' ~ 'b}' }}",
        "data: {{ {'k': '{a: b}'}['k'] }}",
        "data: {{ values.none | default('{a: b}') }}",
        "data: {% filter trim %} {a: b} {% endfilter %}",
        "data: {{ ['{a: ', 'b}'] | join }}",
        "data: {{ '{' }}{{ ['a', 'b'] | map('q') | join(': ') }}{{ '}' }}",
        "data:{{ '\na: b' | indent(' ') }}",
    ],
)
def test_what_the_author_wrote_out_is_the_authors(template: str) -> None:
    """Its characters are meant, whichever way they go."""
    assert document(object_text(template), fleet=DEEP)["data"] == {"a": "b"}


@pytest.mark.parametrize(
    "expression",
    [
        "values.sly | q | trim('\"')",
        "(values.sly | q)[1:-1]",
        "(values.sly | q).strip('\"')",
        "(values.sly | q) | replace('\"', '')",
        "'a\nb' | indent(values.sly)",
        "['a', 'b'] | join(values.sly)",
        "['a', 'b'] | join(values.space)",
        "values.space.join(['a', 'b'])",
    ],
)
def test_what_q_made_safe_is_safe_only_whole(expression: str) -> None:
    """Taken out of its quotes, or put between what the author wrote, a text is whoever's it was."""
    with pytest.raises(TemplateError, match="bare: in YAML that is more than one text"):
        desired(object_text(f"data: {{k: {{{{ {expression} }}}}}}\n"), fleet={"sly": "a, b: {c}", "space": "\n  "})


@pytest.mark.parametrize("body", ["{{ values[s] }}", "{{ [1].index(s) }}", "{% include s %}"])
def test_no_error_shows_all_of_a_long_text(body: str) -> None:
    """It is told in a condition, and on a terminal."""
    assert len(problem(MEGA + body).what) < 500


HUGE = {
    "a long file": ("# " + "x" * 200_000, "is longer than 131072 characters"),
    "many expressions": ("# " + "{{ 1 }}" * 13_000, "holds more than 12000 statements and expressions"),
    "deep brackets": ("{{ " + "(" * 90 + "1" + ")" * 90 + " }}" + "{{ [" + "[" * 90 + "]" * 90 + "] }}", "is nested too deeply"),
    "deep blocks": ("{% if true %}" * 90 + "{% endif %}" * 90, "is nested too deeply"),
    "many loops in loops": ("{% for x in [] %}" * 30 + "{% endfor %}" * 30, "too many statically nested blocks"),
    "many signs": ("{{ " + "-" * 90 + "1 }}", "is nested too deeply"),
    "a chain of names": ("{{ values" + ".a" * 90 + " }}", "is nested too deeply"),
    "a chain of sums": ("{{ 1" + " + 1" * 90 + " }}", "is nested too deeply"),
    "a number beyond 64 bits": ("{{ 0x" + "f" * 17 + " }}", "holds a number beyond 64 bits"),
    "an infinite number": ("{{ 1e999 }}", "holds a number beyond 64 bits"),
    "a long number": ("{{ " + "9" * 5000 + " }}", "cannot be compiled"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "what"), HUGE.values(), ids=HUGE)
def test_a_template_that_is_too_much_is_refused_before_it_is_compiled(text: str, what: str) -> None:
    """Python's compiler recurses in C, and Jinja's takes its time."""
    with pytest.raises(TemplateError, match=what):
        render.Program(template_set({"one.yaml.j2": text}))


def test_a_set_that_is_too_long_is_refused() -> None:
    """Compiling it would take seconds."""
    files = {f"{index}.yaml.j2": "#" + "x" * 100_000 for index in range(21)}
    with pytest.raises(TemplateError, match="over the limit of 2097152"):
        render.Program(template_set(files))


def test_the_shipped_set_spends_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fortieth of the budget does for it, every value set: the limit is for what goes wrong."""
    monkeypatch.setattr(meter, "MAX_STEPS", meter.MAX_STEPS // 40)
    case = ROOT / "tests" / "golden" / "everything-set"
    layers = {name: sources.values_file(case / f"{name}.yaml") for name in ("fleet", "values")}
    program = render.Program(sources.template_set(SHIPPED))
    assert desired(program, fleet=layers["fleet"], own=layers["values"]).documents


MEMORY = """
import resource, sys
sys.setrecursionlimit(60_000)  # as the operator does
resource.setrlimit(resource.RLIMIT_AS, (600 * 2**20, 600 * 2**20))
sys.path[:0] = ["tests/unit"]
import test_budget
for body, what in test_budget.HOSTILE.values():
    assert what in test_budget.problem(body, **{"_part.j2": ""}).what, body
for text, what in test_budget.HUGE.values():
    try:
        test_budget.render.Program(test_budget.template_set({"one.yaml.j2": text}))
    except test_budget.TemplateError as exc:
        assert what in str(exc), exc
print("all told")
"""


def test_no_template_takes_the_memory_or_the_stack() -> None:
    """All of them in one process with 600 MiB of address space and the operator's recursion limit."""
    ran = subprocess.run([sys.executable, "-c", MEMORY], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "all told\n", "")
