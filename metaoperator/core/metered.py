"""Templates compiled so that they pay: the syntax tree is changed before Python code is made of it.

A loop pays for its body's nodes with each turn; macros, blocks and whole templates when they begin. What makes or
compares values goes through the environment, which weighs them. Nothing is computed while compiling.
"""

import re
from typing import Any, Final

import jinja2
import jinja2.compiler
import jinja2.parser
from jinja2 import nodes
from jinja2.environment import TemplateExpression

MAX_SOURCE: Final = 128 * 1024
MAX_NODES: Final = 12_000
MAX_TREE: Final = 60
"""How deep a template's tree may be: Python's own compiler recurses in C."""

_NAME: Final = re.compile(
    r"""(?:^|[\s{,])["']?(name|namespace|serviceAccountName|kind|apiGroup)["']?:\s*["']?[\w.-]*$"""
)
"""Text that a name follows. Whom rights are given to, and what is replaced, must not depend on what somebody forgot."""
_NAMING: Final = (nodes.Extends, nodes.FromImport, nodes.Import, nodes.Include)
_BODIES: Final = (nodes.Macro, nodes.CallBlock, nodes.Block)


def _ask(name: str, lineno: int, *args: nodes.Expr) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(name), list(args), [], None, None, lineno=lineno)


def _order(name: str, lineno: int, *args: nodes.Expr) -> nodes.ExprStmt:
    return nodes.ExprStmt(_ask(name, lineno, *args), lineno=lineno)


def parse(environment: jinja2.Environment, source: str, name: str | None, filename: str | None) -> nodes.Template:
    """Parse a template and make it pay. What is too large to compile is a syntax error."""
    if len(source) > MAX_SOURCE:
        raise jinja2.TemplateSyntaxError(f"is longer than {MAX_SOURCE} characters", 1, name, filename)
    if "${#" in source:
        _refuse_lengths(environment, source, name, filename)
    tree = jinja2.parser.Parser(environment, source, name, filename).parse()
    change = _Change(name, filename)
    cost = change.below(tree, 0)
    tree.body = [_order("enter", 1, nodes.Const(cost)), *tree.body, _order("leave", 1)]
    return tree


def expression(environment: jinja2.Environment, source: str) -> TemplateExpression:
    """Compile one expression that pays, as `Environment.compile_expression` does for one that does not."""
    parser = jinja2.parser.Parser(environment, source, state="variable")
    value = parser.parse_expression()
    if not parser.stream.eos:
        raise jinja2.TemplateSyntaxError("more follows after the expression", parser.stream.current.lineno)
    tree = nodes.Template([nodes.Assign(nodes.Name("result", "store"), value, lineno=1)], lineno=1)
    _Change(None, None).below(tree, 0)
    tree.set_environment(environment)
    return TemplateExpression(environment.from_string(tree), undefined_to_none=False)


def _refuse_lengths(environment: jinja2.Environment, source: str, name: str | None, filename: str | None) -> None:
    """Refuse a shell's `${#NAME}`: a comment begins in it, and swallows everything up to a `#}` anywhere below."""
    before = ""
    for line, kind, token in environment.lex(source, name, filename):
        if kind == "comment_begin" and before.endswith("$"):
            what = "`${#` begins a comment for Jinja, and what follows would be lost"
            raise jinja2.TemplateSyntaxError(what, line, name, filename)
        before = token


class _Change:
    """Change a tree from below, and count its nodes. Recursion ends at `MAX_TREE`, below any limit of Python's."""

    def __init__(self, name: str | None, filename: str | None) -> None:
        self._name = name
        self._filename = filename
        self._count = 0

    def _fail(self, what: str, node: nodes.Node) -> None:
        raise jinja2.TemplateSyntaxError(what, node.lineno, self._name, self._filename)

    def below(self, node: nodes.Node, depth: int) -> int:
        """Change everything below a node, and count it and that."""
        self._count += 1
        if depth > MAX_TREE:
            self._fail("is nested too deeply", node)
        if self._count > MAX_NODES:
            self._fail(f"holds more than {MAX_NODES} statements and expressions", node)
        cost = 1
        for field in node.fields:
            value = getattr(node, field, None)
            if isinstance(value, nodes.Node):
                new, more = self._changed(value, depth + 1)
                setattr(node, field, new if isinstance(node, _NAMING) else _own(new))
                cost += more
            elif isinstance(value, list) and value:
                cost += self._list(value, depth + 1, pieces=isinstance(node, nodes.Output))
        return cost

    def _list(self, values: list[Any], depth: int, *, pieces: bool) -> int:
        cost = 0
        changed: list[Any] = []
        for value in values:
            if not isinstance(value, nodes.Node):
                changed.append(value)
                continue
            new, more = self._changed(value, depth)
            cost += more
            if pieces:
                changed.append(_text(new))
            elif isinstance(new, nodes.Output):
                self._check_names(new)
                # One output for each piece: in what is rendered, each line is then known by its line in the template.
                changed += [nodes.Output([piece], lineno=piece.lineno) for piece in new.nodes]
            else:
                changed.append(_own(new))
        values[:] = changed
        return cost

    def _check_names(self, output: nodes.Output) -> None:
        before = ""
        for piece in output.nodes:
            if isinstance(piece, nodes.TemplateData):
                before = piece.data[piece.data.rfind("\n") + 1 :]
            elif (key := _NAME.search(before)) is not None and any(
                each.name in {"d", "default"}
                for each in (piece, *piece.find_all(nodes.Filter))
                if isinstance(each, nodes.Filter)
            ):
                self._fail(f"{key[1]} comes from default(), which hides that a value is missing", piece)

    def _changed(self, node: nodes.Node, depth: int) -> tuple[nodes.Node, int]:
        once = _size(node.iter) + _size(node.target) if isinstance(node, nodes.For) else 0
        cost = self.below(node, depth)
        line = node.lineno
        if isinstance(node, nodes.Expr):
            return _paying(node, line), cost
        if isinstance(node, nodes.For):
            if node.recursive:  # what it calls itself with is not what it began with
                node.body.insert(0, _order("spend", line, nodes.Const(cost)))
            items: Any = node.iter
            node.iter = _ask("turns", items.lineno, items, nodes.Const(cost - once))
        elif isinstance(node, _BODIES):
            node.body.insert(0, _order("spend", line, nodes.Const(cost)))
        elif isinstance(node, nodes.Operand):
            node.expr = _ask("weighed", line, node.expr)
        elif isinstance(node, nodes.ScopedEvalContextModifier):
            self._fail("autoescape is for HTML: take it out", node)
        return node, cost


def _size(node: nodes.Node) -> int:
    return 1 + sum(1 for _ in node.find_all(nodes.Node))


def _paying(node: nodes.Expr, line: int) -> nodes.Expr:
    if isinstance(node, nodes.Concat):
        return _ask("joined", line, *node.nodes)
    if isinstance(node, nodes.Compare):
        node.expr = _ask("weighed", line, node.expr)
    elif isinstance(node, nodes.Getitem):
        if isinstance(node.arg, nodes.Slice):
            ends = (node.arg.start, node.arg.stop, node.arg.step)
            return _ask("sliced", line, node.node, *(nodes.Const(None) if end is None else end for end in ends))
    elif isinstance(node, nodes.List | nodes.Dict) or (isinstance(node, nodes.Tuple) and node.ctx == "load"):
        return _ask("weighed", line, node)
    return node


# What the author wrote out as a text is the author's, whatever characters are in it.


def _text(piece: nodes.Node) -> nodes.Node:
    """Print it as if it stood outside of the braces."""
    if isinstance(piece, nodes.Const) and isinstance(piece.value, str):
        return nodes.TemplateData(piece.value, lineno=piece.lineno)
    return piece


def _own(part: nodes.Node) -> nodes.Node:
    """Mark it, so that it is still known where it is printed."""
    return _ask("made", part.lineno, part) if isinstance(part, nodes.Const) and isinstance(part.value, str) else part


class CodeGenerator(jinja2.compiler.CodeGenerator):
    """Write calls of the environment's own functions straight, and each piece of output with its line."""

    def visit_Call(self, node: nodes.Call, frame: jinja2.compiler.Frame, forward_caller: bool = False) -> None:  # noqa: FBT001, FBT002, N802 - Jinja's signature
        """Call the environment itself, not through the sandbox's gate for templates' calls."""
        if not isinstance(node.node, nodes.EnvironmentAttribute):
            super().visit_Call(node, frame, forward_caller=forward_caller)
            return
        self.write(f"environment.{node.node.name}(")
        for arg in node.args:
            self.visit(arg, frame)
            self.write(", ")
        self.write(")")

    def visit_Output(self, node: nodes.Output, frame: jinja2.compiler.Frame) -> None:  # noqa: N802 - Jinja's name
        """Note the line also where the piece is constant."""
        self.newline(node)
        super().visit_Output(node, frame)
