"""What templates may call: filters, tests, methods. Each pays for what goes in before it runs, and for what comes out.

Left out: what makes text of unbounded size from a number (`center`, `format`, `wordwrap`), what reaches attributes by
name (`attr`), what is random (`random`, `lipsum`), what is for HTML (`escape`, `urlize`, `xmlattr`), and what tells
objects apart by where they lie in memory (`sameas`, `pprint`). Iterators become lists, so that none is left over.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import jinja2
import jinja2.filters
import jinja2.tests
from jinja2.utils import pass_environment

from metaoperator.core import meter, strictyaml, values
from metaoperator.core.meter import Refused
from metaoperator.core.writing import Made, digest, q, text

_CALL: Final = 10
"""Steps that a call costs beyond its values."""


def _made(write: Callable[..., str]) -> Callable[..., str]:
    def run(value: Any) -> str:
        if isinstance(value, jinja2.Undefined):
            str(value)  # a sentence about what is missing, not about texts
        return Made(write(value))

    return run


def _indent(value: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:  # noqa: FBT001, FBT002 - Jinja's signature
    margin = width if isinstance(width, str) else " " * min(width, meter.MAX_TEXT)
    lines = text(value).splitlines()
    meter.text_of(len(value) + len(margin) * (len(lines) + 1))
    rows = [margin + line if (line or blank) and (first or at) else line for at, line in enumerate(lines)]
    whole = "\n".join(rows) + ("\n" if value.endswith("\n") else "")
    return whole if isinstance(width, str) and not isinstance(width, Made) else _like(value, whole)


def _trim(value: str, chars: str | None = None) -> str:
    found = text(value)
    _stripping(found, chars)
    # What `q` wrote is safe by its quotes: without them it is whoever's text it was.
    return _like(value, found.strip(chars)) if chars is None else found.strip(chars)


def _stripping(value: str, chars: str | None = None) -> None:
    """Pay for a search among `chars` at each end, which may lie at every letter."""
    meter.text_of(len(value))
    meter.current().spend(len(value) * len(chars or "") >> meter.TEXT_STEP)


def _searching(value: str, wanted: str | None = None, *_: Any) -> None:
    """Pay for a search from the end: Python compares the whole text at each letter, only forward it knows better."""
    meter.current().spend(len(value) * len(wanted or "") >> meter.TEXT_STEP)


def _letters(value: Any) -> None:
    """Pay for the letters of a text that is gone over one by one."""
    if isinstance(value, str):
        meter.current().spend(len(value))


def _like(one: str, other: str) -> str:
    return Made(other) if isinstance(one, Made) else other


def _replace(value: str, old: str, new: str, count: int | None = None) -> str:
    value, old, new = text(value), text(old), text(new)
    found = value.count(old)
    found = found if count is None or count < 0 else min(found, count)
    meter.text_of(len(value) + found * max(0, len(new) - len(old)))
    return value.replace(old, new, found)


@pass_environment
def _join(environment: jinja2.Environment, value: Any, d: str = "", attribute: str | int | None = None) -> str:
    if attribute is not None:
        value = map(jinja2.filters.make_attrgetter(environment, attribute), value)
    return _joined(d, value)


def _joined(between: str, value: Any) -> str:
    _letters(value)
    parts = [text(part) for part in value]
    meter.text_of(sum(map(len, parts)) + len(between) * len(parts))
    whole = text(between).join(parts)
    ours = all(isinstance(part, Made) for part in parts) and (isinstance(between, Made) or not between)
    return Made(whole) if parts and ours else whole


# Reckoning and lists


@pass_environment
def _sum(environment: jinja2.Environment, value: Any, attribute: str | int | None = None, start: float = 0) -> Any:
    if attribute is not None:
        value = map(jinja2.filters.make_attrgetter(environment, attribute), value)
    total = start
    for item in value:
        if not isinstance(item, int | float) or not isinstance(total, int | float):
            raise Refused("sum adds numbers only")
        total = meter.number(total + item)
    return total


def _round(value: float, precision: int = 0, method: Any = "common") -> float:
    if not isinstance(precision, int) or not -30 <= precision <= 30:  # 10 ** precision
        raise Refused("round takes a precision from -30 to 30")
    return jinja2.filters.do_round(value, precision, method)


def _batch(value: Any, linecount: int, fill_with: Any = None) -> Any:
    meter.current().spend(linecount)
    return jinja2.filters.do_batch(value, linecount, fill_with)


def _slice(value: Any, slices: int, fill_with: Any = None) -> Any:
    meter.current().spend(slices)
    return jinja2.filters.sync_do_slice(value, slices, fill_with)


def _list(value: Any) -> Any:
    return list(value)


def _range(*ends: int) -> list[int]:
    found = range(*map(meter.number, ends))
    if len(found) > jinja2.sandbox.MAX_RANGE:
        raise meter.OverBudget(f"Range too big: more than {jinja2.sandbox.MAX_RANGE} numbers")
    return list(found)


def _mapping(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    return dict(*args, **kwargs)


def kept(result: Any) -> Any:
    """Pay for what came out. Nothing that reads on later, or that is written in no fixed order, comes out."""
    if isinstance(result, str):
        meter.text_of(len(result))
        return result
    if result is None or isinstance(result, bool | jinja2.Undefined):
        return result
    if isinstance(result, int | float):
        return meter.number(result)
    if not isinstance(result, dict | list | tuple):
        result = list(result)
    meter.current().weigh(result)
    return result


def paid(run: Any) -> Callable[..., Any]:
    """Make a filter or a test pay."""
    skip = 0 if getattr(run, "jinja_pass_arg", None) is None else 1

    @functools.wraps(run)
    def paying(*args: Any, **kwargs: Any) -> Any:
        now = meter.current()
        now.spend(_CALL)
        now.weigh(*args[skip:], *kwargs.values())
        return kept(run(*args, **kwargs))

    return paying


def _sorting(run: Callable[..., Any]) -> Callable[..., Any]:
    """Make what sorts pay for its comparisons: each item is read as often as a number of its rank has digits."""
    skip = 0 if getattr(run, "jinja_pass_arg", None) is None else 1

    @functools.wraps(run)
    def paying(*args: Any, **kwargs: Any) -> Any:
        items = args[skip]
        if isinstance(items, dict | list | tuple):
            for _ in range(len(items).bit_length()):
                meter.current().weigh(items)
        return run(*args, **kwargs)

    return paying


def _over(run: Callable[..., Any]) -> Callable[..., Any]:
    """Make what goes over items pay for letters as for items, and for each name on the way to an attribute."""
    skip = 0 if getattr(run, "jinja_pass_arg", None) is None else 1

    @functools.wraps(run)
    def paying(*args: Any, **kwargs: Any) -> Any:
        for each in (*args[skip:], *kwargs.values()):
            _letters(each)
        return run(*args, **kwargs)

    return paying


def _after(pay: Callable[..., None], run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    def paying(*args: Any, **kwargs: Any) -> Any:
        pay(*args, **kwargs)
        return run(*args, **kwargs)

    return paying


_JINJA: Final = jinja2.filters.FILTERS
_AS_THEY_ARE: Final = (
    "abs",
    "capitalize",
    "count",
    "d",
    "default",
    "filesizeformat",
    "first",
    "float",
    "int",
    "items",
    "last",
    "length",
    "lower",
    "reverse",
    "truncate",
    "upper",
)
_BY_ITEM: Final = (
    "map", "reject", "rejectattr", "select", "selectattr", "title", "urlencode", "wordcount",
)  # fmt: skip
_SORTING: Final = ("dictsort", "groupby", "max", "min", "sort", "unique")

FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    name: paid(run)
    for name, run in {
        **{name: _JINJA[name] for name in _AS_THEY_ARE},
        **{name: _over(_JINJA[name]) for name in _BY_ITEM},
        **{name: _sorting(_over(_JINJA[name])) for name in _SORTING},
        "batch": _over(_batch),
        "indent": _indent,
        "join": _over(_join),
        "list": _over(_list),
        "replace": _replace,
        "round": _round,
        "slice": _over(_slice),
        "string": text,
        "sum": _over(_sum),
        "trim": _trim,
        "digest": _made(digest),
        "merge": values.merge,
        "q": _made(q),
        "to_yaml": _made(strictyaml.dump),
        "tojson": _made(q),
    }.items()
}
TESTS: Final[Mapping[str, Callable[..., Any]]] = {
    name: paid(run) for name, run in jinja2.tests.TESTS.items() if name not in {"callable", "escaped", "sameas"}
}
FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {"range": _range, "dict": _mapping}

_METHODS: Final[Mapping[type, Mapping[str, Callable[..., Any]]]] = {
    str: {
        name: getattr(str, name)
        for name in (
            "capitalize", "casefold", "count", "endswith", "find", "index", "isalnum", "isalpha", "isdecimal",
            "isdigit", "islower", "isnumeric", "isspace", "istitle", "isupper", "lower", "partition", "removeprefix",
            "removesuffix", "split", "splitlines", "startswith", "swapcase", "title", "upper",
        )
    }
    | {name: _after(_stripping, getattr(str, name)) for name in ("lstrip", "rstrip", "strip")}
    | {name: _after(_searching, getattr(str, name)) for name in ("rfind", "rindex", "rpartition", "rsplit")}
    | {"join": _joined, "replace": _replace},
    dict: {name: getattr(dict, name) for name in ("get", "items", "keys", "values")},
    list: {name: getattr(list, name) for name in ("count", "index")},
    tuple: {name: getattr(tuple, name) for name in ("count", "index")},
}  # fmt: skip


class Method:
    """A method of a value, ready to be called, and nothing else."""

    __slots__ = ("_of", "_run")

    def __init__(self, run: Callable[..., Any], of: Any) -> None:
        self._run = run
        self._of = of

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Pay, run, pay."""
        now = meter.current()
        now.weigh(self._of, args, kwargs)
        return kept(self._run(self._of, *args, **kwargs))


def method(of: Any, name: str) -> Method | None:
    """Find the method of a value that templates may call by that name."""
    for kind, methods in _METHODS.items():
        if isinstance(of, kind):
            run = methods.get(name)
            return None if run is None else Method(run, of)
    return None
