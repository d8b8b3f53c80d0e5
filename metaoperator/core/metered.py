"""Templates compiled so that they pay: the syntax tree is changed before Python code is made of it.

A loop pays for its body's nodes with each turn; macros, blocks and whole templates when they begin. What makes or
compares values goes through the environment, which weighs them. Nothing is computed while compiling.

The tree is changed where a cost is told, and the code is written anew where one is asked for: each node that stands in
a tree is visited a dozen times until it is code.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import jinja2
import jinja2.compiler
import jinja2.parser
from jinja2 import nodes

from metaoperator.core import meter
from metaoperator.core.writing import Made

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
_SOUGHT: Final = (nodes.Extends, nodes.Block, nodes.ImportedName)
"""What Jinja's compiler searches a whole template for, once for each."""


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
    # Not by `parse`, which tells each node the environment: nothing is computed while compiling, so none asks for it.
    tree = nodes.Template(jinja2.parser.Parser(environment, source, name, filename).subparse(), lineno=1)
    change = _Change(name, filename)
    cost = change.below(tree, 0)
    tree.body = [_order("spend", 1, nodes.Const(cost + 20)), *tree.body]
    _answer_searches(tree, change.sought)
    return tree


def expressions(environment: jinja2.Environment, sources: Sequence[str]) -> nodes.Template:
    """Parse expressions into one template that pays, and leaves their values in its context as `answer` names them.

    One at a time, each costs what a small template does.
    """
    body: list[nodes.Node] = []
    for at, source in enumerate(sources):
        parser = jinja2.parser.Parser(environment, source, state="variable")
        body.append(nodes.Assign(nodes.Name(answer(at), "store"), parser.parse_expression(), lineno=1))
        if not parser.stream.eos:
            raise jinja2.TemplateSyntaxError("more follows after the expression", parser.stream.current.lineno)
        _Change(None, None).below(nodes.Template([body[-1]], lineno=1), 0)
    return nodes.Template(body, lineno=1)


def answer(at: int) -> str:
    """Name the value of an expression, as no expression can name it."""
    return str(at)


def _answer_searches(tree: nodes.Template, sought: Sequence[nodes.Node]) -> None:
    """Let the compiler find in a list what was met on the way, in place of three more walks through the tree."""

    def find_all(kind: Any) -> Iterable[Any]:
        if kind in _SOUGHT:
            return [node for node in sought if isinstance(node, kind)]
        return nodes.Node.find_all(tree, kind)

    tree.find_all = find_all  # type: ignore[assignment, method-assign]  # Jinja lets nobody define a node of their own


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
        self.sought: list[nodes.Node] = []

    def _fail(self, what: str, node: nodes.Node) -> None:
        raise jinja2.TemplateSyntaxError(what, node.lineno, self._name, self._filename)

    def below(self, node: nodes.Node, depth: int) -> int:
        """Change everything below a node, and count it and that."""
        self._count += 1
        if depth > MAX_TREE:
            self._fail("is nested too deeply", node)
        if self._count > MAX_NODES:
            self._fail(f"holds more than {MAX_NODES} statements and expressions", node)
        if isinstance(node, nodes.Const) and isinstance(node.value, int | float) and abs(node.value) > meter.MAX_NUMBER:
            self._fail("holds a number beyond 64 bits", node)
        if isinstance(node, _SOUGHT):
            self.sought.append(node)
        cost = 1
        for field in node.fields:
            value = getattr(node, field, None)
            if isinstance(value, nodes.Node):
                cost += self._changed(value, depth + 1)
                if not isinstance(node, _NAMING):
                    _own(value)
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
            cost += self._changed(value, depth)
            if pieces:
                changed.append(_text(value))
            elif isinstance(value, nodes.Output):
                self._check_names(value)
                # One output for each piece: in what is rendered, each line is then known by its line in the template.
                changed += [nodes.Output([piece], lineno=piece.lineno) for piece in value.nodes]
            else:
                _own(value)
                changed.append(value)
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

    def _changed(self, node: nodes.Node, depth: int) -> int:
        once = _size(node.iter) + _size(node.target) if isinstance(node, nodes.For) else 0
        cost = self.below(node, depth)
        line = node.lineno
        if isinstance(node, nodes.For):
            if node.recursive:  # what it calls itself with is not what it began with
                node.body.insert(0, _order("spend", line, nodes.Const(cost)))
            items: Any = node.iter
            node.iter = _ask("turns", items.lineno, items, nodes.Const(cost - once))
        elif isinstance(node, _BODIES):
            node.body.insert(0, _order("spend", line, nodes.Const(cost)))
        elif isinstance(node, nodes.ScopedEvalContextModifier):
            self._fail("autoescape is for HTML: take it out", node)
        return cost


def _size(node: nodes.Node) -> int:
    return 1 + sum(1 for _ in node.find_all(nodes.Node))


# What the author wrote out as a text is the author's, whatever characters are in it.


def _text(piece: nodes.Node) -> nodes.Node:
    """Print it as if it stood outside of the braces."""
    if isinstance(piece, nodes.Const) and isinstance(piece.value, str):
        return nodes.TemplateData(piece.value, lineno=piece.lineno)
    return piece


def _own(part: nodes.Node) -> None:
    """Mark it, so that it is still known where it is printed."""
    if isinstance(part, nodes.Const) and isinstance(part.value, str):
        part.value = Made(part.value)


class CodeGenerator(jinja2.compiler.CodeGenerator):
    """Write what pays as calls of the environment's own functions, and each piece of output with its line."""

    @contextmanager
    def _asking(self, name: str) -> Iterator[None]:
        self.write(f"environment.{name}(")
        yield
        self.write(")")

    def _ask(self, name: str, args: Iterable[nodes.Node], frame: jinja2.compiler.Frame) -> None:
        with self._asking(name):
            for arg in args:
                self.visit(arg, frame)
                self.write(", ")

    # The names and signatures are Jinja's.

    def visit_Call(self, node: nodes.Call, frame: jinja2.compiler.Frame, forward_caller: bool = False) -> None:  # noqa: FBT001, FBT002, N802
        """Call the environment itself, not through the sandbox's gate for templates' calls."""
        if isinstance(node.node, nodes.EnvironmentAttribute):
            self._ask(node.node.name, node.args, frame)
        else:
            super().visit_Call(node, frame, forward_caller=forward_caller)

    def visit_Const(self, node: nodes.Const, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        """Keep known what is the template's own text."""
        if isinstance(node.value, Made):
            self.write(f"environment.made({str(node.value)!r}, )")
        else:
            super().visit_Const(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        """Join what is paid for."""
        self._ask("joined", node.nodes, frame)

    def visit_Compare(self, node: nodes.Compare, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        """Weigh the first side of a comparison."""
        self.write("(")
        self._ask("weighed", (node.expr,), frame)
        for other in node.ops:
            self.visit(other, frame)
        self.write(")")

    def visit_Operand(self, node: nodes.Operand, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        """Weigh the other side."""
        self.write(f" {jinja2.compiler.operators[node.op]} ")
        self._ask("weighed", (node.expr,), frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        """Slice what is paid for."""
        if isinstance(node.arg, nodes.Slice):
            ends = (node.arg.start, node.arg.stop, node.arg.step)
            self._ask("sliced", (node.node, *(nodes.Const(None) if end is None else end for end in ends)), frame)
        else:
            super().visit_Getitem(node, frame)

    def visit_List(self, node: nodes.List, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        """Weigh a new list."""
        with self._asking("weighed"):
            super().visit_List(node, frame)
            self.write(", ")

    def visit_Dict(self, node: nodes.Dict, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        """Weigh a new mapping."""
        with self._asking("weighed"):
            super().visit_Dict(node, frame)
            self.write(", ")

    def visit_Tuple(self, node: nodes.Tuple, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        """Weigh a new list; what is stored into makes none."""
        if node.ctx != "load":
            super().visit_Tuple(node, frame)
            return
        with self._asking("weighed"):
            super().visit_Tuple(node, frame)
            self.write(", ")

    def visit_Output(self, node: nodes.Output, frame: jinja2.compiler.Frame) -> None:  # noqa: N802
        """Note the line also where the piece is constant."""
        self.newline(node)
        super().visit_Output(node, frame)
