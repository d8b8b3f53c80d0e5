"""Jinja, fenced in: what templates may do, the filters they have, and where in a template an error arose."""

import hashlib
import json
import re
from typing import Any, Final

import jinja2
import jinja2.exceptions
import jinja2.sandbox

from metaoperator.core import strictyaml, values
from metaoperator.core.errors import Problem
from metaoperator.core.model import TemplateSet

_REMOVED_FILTERS: Final = frozenset(
    # Unbounded output, randomness, or attribute access by name (facts: Jinja's sandbox does not limit these).
    {"attr", "center", "format", "indent", "map", "pprint", "random", "urlize", "wordwrap", "xmlattr"}
)
_REMOVED_GLOBALS: Final = frozenset({"cycler", "joiner", "lipsum", "namespace"})
_TEXT_OR_EXPONENT: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|(?<![.\d])(-?\d+)(e[-+]\d+)')
_UNREADABLE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_NOT_YAML: Final = re.compile(rf"{_UNREADABLE.pattern}|[0-9]e[-+]")


class _Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Immutable data, no dunder access, and no operator that turns a byte of template into a gigabyte."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" or not isinstance(left, int | float) or not isinstance(right, int | float):
            raise jinja2.exceptions.SecurityError(f"operator {operator!r} works on numbers only, and ** not at all")
        return super().call_binop(context, operator, left, right)


def q(value: Any) -> str:
    """Write any value as JSON, which is YAML too: the one way to put data into a manifest."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return _TEXT_OR_EXPONENT.sub(_as_yaml, text) if _NOT_YAML.search(text) else text


def _as_yaml(found: re.Match[str]) -> str:
    # Where JSON is not YAML: characters that YAML takes for line breaks or refuses, and 1e-05, which is text to it.
    if found[1] is not None:
        return f"{found[1]}.0{found[2]}"
    return _UNREADABLE.sub(lambda char: f"\\u{ord(char[0]):04x}", found[0])


def digest(text: str) -> str:
    """Shorten a text to 16 hex digits that change with it."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def environment(template_set: TemplateSet) -> jinja2.Environment:
    """Build the environment that a set's templates, and nothing else, are compiled and rendered in."""

    def source(name: str) -> tuple[str, str, None] | None:
        text = template_set.files.get(name)
        # The name in place of a path makes the traceback's frame, and so the error's line, the template's own.
        return None if text is None else (text, name, None)

    env = _Sandbox(
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(source),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        optimized=False,
        cache_size=-1,
    )
    for name in _REMOVED_FILTERS:
        env.filters.pop(name, None)
    for name in _REMOVED_GLOBALS:
        env.globals.pop(name, None)
    env.filters |= {"q": q, "to_yaml": strictyaml.dump, "digest": digest, "merge": values.merge}
    return env


def problem(exc: BaseException, file: str) -> Problem:
    """Say for a person what a template raised, and where in the templates."""
    if isinstance(exc, jinja2.TemplateSyntaxError):
        return Problem(where=exc.name or file, line=exc.lineno, what=exc.message or "syntax error")
    where, line = _frame(exc, file)
    if isinstance(exc, jinja2.UndefinedError):
        cure = (
            "if this is an Argo variable, write it as a value or between {% raw %} and {% endraw %}; "
            "if it may be missing, use default()"
        )
        return Problem(where=where, line=line, what=str(exc.message), cure=cure)
    return Problem(where=where, line=line, what=f"{type(exc).__name__}: {exc}")


def _frame(exc: BaseException, file: str) -> tuple[str, int | None]:
    """Find the innermost frame that is a template: Jinja rewrites its file name and line to the template's own."""
    where: str = file
    line: int | None = None
    trace = exc.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.endswith(".j2"):
            where, line = name, trace.tb_lineno
        trace = trace.tb_next
    return where, line
