"""What is suspicious in a template set, though it may render: told by `validate`, never refused.

- A placeholder that begins a scalar and is not written by `q`: the value `1.10` becomes a number there, `true` a truth
  value. What would break out of the scalar is refused when it is rendered.
- A name that looks like Argo's (`{{workflow.name}}`): it may stand in a branch that no namespace has taken yet.
"""

import re
from collections.abc import Iterator
from typing import Final

import jinja2
import jinja2.parser
from jinja2 import nodes

from metaoperator.core import causes, metered, sandbox
from metaoperator.core.errors import Problem
from metaoperator.core.model import TemplateSet

_BEGINS: Final = re.compile(r"(?:^|:\s+|-\s+|[\[{,]\s*)$")
_KEY: Final = re.compile(r"""([\w./-]+)["']?:\s+$""")
_WRITES: Final = frozenset({"digest", "q", "to_yaml", "tojson"})
_KEEPS: Final = frozenset({"indent", "trim"})
_DATA: Final = frozenset({"namespace", "shard", "template", "values"})
_QUOTED: Final = "write it with the filter q: `{}: {{{{ … | q }}}}`"
_ARGO: Final = "if it is Argo's, write it as a value or between {% raw %} and {% endraw %}"


def lint(template_set: TemplateSet) -> tuple[Problem, ...]:
    """List what is suspicious in a set, by file and line. What cannot be compiled is passed by: that is an error."""
    environment = sandbox.environment(template_set)
    found: list[Problem] = []
    for name, source in sorted(template_set.files.items()):
        if len(source) > metered.MAX_SOURCE:
            continue
        try:
            tree = jinja2.parser.Parser(environment, source, name, name).parse()
            problems = [*_placeholders(name, tree), *_argo(name, tree)]
        except (jinja2.TemplateSyntaxError, RecursionError, ValueError):
            continue
        found += sorted(problems, key=lambda problem: (problem.line or 0, problem.what))
    return tuple(found)


def _placeholders(file: str, tree: nodes.Template) -> Iterator[Problem]:
    # What a block, a macro or an import made is the template's own text, quoted where it was made.
    made = {node.target.name for node in tree.find_all(nodes.AssignBlock) if isinstance(node.target, nodes.Name)}
    inside = {
        id(output)
        for holder in tree.find_all((nodes.AssignBlock, nodes.Macro))
        for output in holder.find_all(nodes.Output)
    }
    for output in tree.find_all(nodes.Output):
        before = ""
        for piece in output.nodes:
            if isinstance(piece, nodes.TemplateData):
                before = piece.data[piece.data.rfind("\n") + 1 :]
                continue
            begins = _BEGINS.search(before) and (before.strip() or id(output) not in inside)
            if begins and not _is_written(piece, made):
                key = _KEY.search(before)
                what = "a placeholder without quotes: its value may be read as a number, a truth value or null"
                cure = _QUOTED.format(key[1] if key else "key")
                yield Problem(where=file, line=piece.lineno, what=what, cure=cure)
            before = "…"


def _is_written(piece: nodes.Expr, made: set[str]) -> bool:
    if isinstance(piece, nodes.Filter):
        if piece.name in _WRITES:
            return True
        return piece.name in _KEEPS and piece.node is not None and _is_written(piece.node, made)
    if isinstance(piece, nodes.CondExpr):
        return _is_written(piece.expr1, made) and (piece.expr2 is None or _is_written(piece.expr2, made))
    if isinstance(piece, nodes.Concat):
        return _is_written(piece.nodes[0], made)
    if isinstance(piece, nodes.Call):
        return _is_macro(piece.node)
    return isinstance(piece, nodes.Const) or (isinstance(piece, nodes.Name) and piece.name in made)


def _is_macro(called: nodes.Expr) -> bool:
    """Tell `m()` and `module.m()` from a method of a value."""
    if isinstance(called, nodes.Getattr):
        return isinstance(called.node, nodes.Name) and called.node.name not in _DATA
    return isinstance(called, nodes.Name)


def _argo(file: str, tree: nodes.Template) -> Iterator[Problem]:
    own = {node.name for node in tree.find_all(nodes.Name) if node.ctx in {"store", "param"}}
    for node in tree.find_all(nodes.Name):
        if node.ctx == "load" and node.name in causes.ARGO - own:
            what = f"{node.name!r} looks like an Argo variable, and no template has it"
            yield Problem(where=file, line=node.lineno, what=what, cure=_ARGO)
