"""What a template raised, in words for a person: where in the templates, what, and what to do."""

import dataclasses
import re
from typing import Final

import jinja2
import jinja2.exceptions

from metaoperator.core import filters
from metaoperator.core.errors import Problem
from metaoperator.core.meter import OverBudget, Refused

MAX_WHAT: Final = 400
"""Characters of what a template raised: a text of its own may be in it."""
_ADDRESS: Final = re.compile(r"<[^<>]{1,200} at 0x[0-9a-f]+>")
_RAW: Final = "write it between {% raw %} and {% endraw %}, or as a value"
ARGO: Final = frozenset(
    {"cronworkflow", "inputs", "item", "lastRetry", "node", "outputs", "pod", "retries", "steps", "tasks", "workflow"}
)


def problem(exc: BaseException, file: str) -> Problem:
    """Say for a person what a template raised, where in the templates, and what to do. The same always reads alike."""
    found = _problem(exc, file)
    return dataclasses.replace(found, what=_brief(found.what))


def _brief(what: str) -> str:
    # Python names a function by where it lies in memory, and Jinja shows texts whole.
    what = _ADDRESS.sub("a function", what)
    return what if len(what) <= MAX_WHAT else f"{what[:MAX_WHAT]}…"


def _problem(exc: BaseException, file: str) -> Problem:
    if isinstance(exc, jinja2.TemplateSyntaxError):
        what = exc.message or "syntax error"
        return Problem(where=exc.name or file, line=exc.lineno, what=what, cure=_syntax_cure(what))
    where, line = _frame(exc, file)
    if isinstance(exc, jinja2.UndefinedError):
        what = str(exc.message)
        return Problem(where=where, line=line, what=what, cure=_undefined_cure(what))
    if isinstance(exc, OverBudget):
        cure = "no honest template is near this: look for a loop or a macro that feeds itself"
        return Problem(where=where, line=line, what=str(exc.message), cure=cure)
    if isinstance(exc, Refused):
        return Problem(where=where, line=line, what=str(exc.message), cure=exc.cure)
    if isinstance(exc, jinja2.exceptions.SecurityError):
        cure = "templates reach items of values, and the methods of texts and lists that change nothing"
        return Problem(where=where, line=line, what=str(exc.message), cure=cure)
    return Problem(where=where, line=line, what=f"{type(exc).__name__}: {exc}")


def _undefined_cure(what: str) -> str:
    missing = re.match(r"'(\w+)' is undefined", what)
    if missing is None:
        return "mend the name; if it may be missing, use default()"
    if missing[1] in ARGO:
        return (
            "if this is an Argo variable, write it as a value or between {% raw %} and {% endraw %}; "
            "if it may be missing, use default()"
        )
    return "a template sees namespace, shard, values and template; if it may be missing, use default()"


def _syntax_cure(what: str) -> str:
    if (unknown := re.match(r"No (filter|test) named '(\w+)'", what)) is not None:
        have = filters.FILTERS if unknown[1] == "filter" else filters.TESTS
        return f"there are: {', '.join(sorted(name for name in have if name.isalpha()))}"
    if "hides that a value is missing" in what:
        return "write the default into values.yaml, where people see it and the schema checks it"
    if "comment" in what:
        return f"if this is a shell's ${{#NAME}}, {_RAW}"
    if "unknown tag" in what or "unexpected '='" in what or "unexpected '%'" in what:
        return f"if this is Argo's or a shell's own text, {_RAW}"
    return ""


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
