"""Jinja, fenced in: what templates may reach, and what that costs them.

Everything that is not allowed is refused: attributes and methods by a list of what is there, filters and tests too.
Values are texts, numbers, lists and mappings, and nothing changes them. The sandbox is the second line of defence, not
the wall: templates are an administrator's.
"""

import re
from collections.abc import Collection, Iterable, Iterator, MutableMapping
from types import CodeType
from typing import Any, Final

import jinja2
import jinja2.exceptions
import jinja2.runtime
import jinja2.sandbox
from jinja2 import nodes
from jinja2.environment import TemplateModule

from metaoperator.core import filters, meter, metered
from metaoperator.core.meter import Refused
from metaoperator.core.model import TemplateSet
from metaoperator.core.writing import Made, text

_ITERABLE: Final = (dict, list, tuple, str)
NULLS: Final = frozenset({"", "null", "~"})
_LOOP: Final = frozenset(
    {"depth", "depth0", "first", "index", "index0", "last", "length", "nextitem", "previtem", "revindex", "revindex0"}
)
_UNTAMED: Final = re.compile(
    # What ends a scalar, or begins something else, somewhere in YAML.
    r"""[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff"'\\{}\[\],`]|:\s|:$|\s\#|^[&*!|>%@\#]|^[-?:](?:\s|$)|^\s|\s$"""
)


class _Missing(jinja2.StrictUndefined):
    """Says of what it is missing, by the name that the template has for it."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        if self._undefined_hint or not isinstance(self._undefined_obj, dict):
            return super()._undefined_message
        place = _place(meter.current().roots, self._undefined_obj)
        return super()._undefined_message if place is None else f"{place} has no {self._undefined_name!r}"


def _place(roots: dict[str, Any], wanted: Any) -> str | None:
    waiting = list(roots.items())
    while waiting:
        path, value = waiting.pop()
        if value is wanted:
            return path
        if isinstance(value, dict):
            waiting += [(f"{path}.{key}", below) for key, below in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}[{at}]", below) for at, below in enumerate(value)]
    return None


class _Template(jinja2.Template):
    """A template whose import is rendered, and paid for, each time."""

    @classmethod
    def _from_namespace(
        cls,
        environment: jinja2.Environment,
        namespace: MutableMapping[str, Any],
        globals: MutableMapping[str, Any],  # noqa: A002 - Jinja's name
    ) -> jinja2.Template:
        found = super()._from_namespace(environment, namespace, globals)
        root = found.root_render_func

        def counted(*args: Any, **kwargs: Any) -> Iterator[str]:
            now = meter.current()
            now.enter()  # until the templates that it extends have ended, too
            yield from root(*args, **kwargs)
            now.leave()

        found.root_render_func = counted
        return found

    def _get_default_module(self, ctx: jinja2.runtime.Context | None = None) -> TemplateModule:
        self._module = None
        return super()._get_default_module(ctx)


class _Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Nothing is reachable but data; whatever makes, reads or compares values pays for it."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})
    intercepted_unops = frozenset({"+", "-"})
    code_generator_class = metered.CodeGenerator
    template_class = _Template
    codes: MutableMapping[str, CodeType]

    def compile(self, source: str | nodes.Template, name: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """Compile what is not compiled yet."""
        if name is None:
            return super().compile(source, name, *args, **kwargs)
        if name not in self.codes:
            self.codes[name] = super().compile(source, name, *args, **kwargs)
        return self.codes[name]

    def _load_template(self, name: Any, globals: MutableMapping[str, Any] | None) -> jinja2.Template:  # noqa: A002 - Jinja's name
        if not isinstance(name, str):
            if isinstance(name, jinja2.Undefined):
                str(name)
            raise Refused("names a template by what is no text", "templates are named by their files")
        return super()._load_template(name, globals)

    def select_template(self, names: Any, *args: Any, **kwargs: Any) -> jinja2.Template:
        """Find the first of several templates that is there; each look is paid for."""
        meter.current().spend(10 * len(self.turns(names, 0)))
        return super().select_template(names, *args, **kwargs)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return metered.parse(self, source, name, filename)

    # What compiled templates ask the environment for

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """Put the pieces of a template, a macro or a block together."""
        return Made(meter.join(parts))

    @staticmethod
    def spend(steps: int) -> None:
        """Pay for a body."""
        meter.current().spend(steps)

    @staticmethod
    def turns(items: Any, steps: int) -> Any:
        """Pay for all turns of a loop."""
        if not isinstance(items, _ITERABLE):
            iter(items)  # what is missing says so
            raise Refused(f"loops over {type(items).__name__}", "loop over a list or a mapping")
        meter.current().spend(len(items) * steps)
        return items

    @staticmethod
    def weighed(value: Any) -> Any:
        """Pay for a value that is made or compared."""
        meter.current().weigh(value)
        return value

    @staticmethod
    def made(value: str) -> Made:
        """Mark a text as the template's own."""
        return Made(value)

    @staticmethod
    def joined(*parts: Any) -> str:
        """Work out `~`."""
        texts = [text(part) for part in parts]
        whole = meter.join(texts)
        return Made(whole) if all(isinstance(each, Made) for each in texts) else whole

    @staticmethod
    def sliced(value: Any, start: Any, stop: Any, step: Any) -> Any:
        """Work out `[a:b:c]`."""
        if not isinstance(value, list | tuple | str):
            iter(value)
            raise Refused(f"cannot be sliced: {type(value).__name__}", "slice a list or a text")
        return filters.kept(value[start:stop:step])

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        """Reckon with numbers; `+` also joins two texts or two lists."""
        if isinstance(left, int | float) and isinstance(right, int | float) and operator != "**":
            return meter.number(super().call_binop(context, operator, left, right))
        for side in (left, right):
            if isinstance(side, jinja2.Undefined):
                str(side)
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            return self.joined(left, right)
        if operator == "+" and isinstance(left, list | tuple) and type(left) is type(right):
            meter.current().weigh(left, right)
            return left + right  # type: ignore[operator]
        raise Refused(
            f"operator {operator!r} works on numbers only, and ** not at all",
            "join texts with ~, lists with +; for a format, see the filters round and replace",
        )

    def call_unop(self, context: jinja2.runtime.Context, operator: str, arg: Any) -> Any:
        """Turn a number's sign."""
        if isinstance(arg, int | float):
            return super().call_unop(context, operator, arg)
        if isinstance(arg, jinja2.Undefined):
            str(arg)
        raise Refused(f"operator {operator!r} works on numbers only")

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Read `obj.attribute`: an item of a mapping, or one of the few methods that are allowed."""
        if (run := filters.method(obj, attribute)) is not None:
            return run
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        if isinstance(obj, jinja2.runtime.LoopContext) and attribute in {"changed", "cycle"}:
            return filters.Method(getattr(jinja2.runtime.LoopContext, attribute), obj)
        if isinstance(obj, jinja2.runtime.TemplateReference):
            return super().getattr(obj, attribute)
        return getattr(obj, attribute) if attribute in _public(obj) else self._nothing(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Read `obj[argument]`: an item, never an attribute."""
        meter.current().spend(1)  # filters read items for as long as a path is
        if isinstance(obj, _ITERABLE) and isinstance(argument, str | int):
            holder: Any = obj
            try:
                return holder[argument]
            except (TypeError, LookupError):
                pass
        if not isinstance(argument, str | int):
            if isinstance(argument, jinja2.Undefined):
                str(argument)
            raise Refused("looks something up by what is no name", "mappings are read by a text, lists by a number")
        return self._nothing(obj, argument)

    def _nothing(self, obj: Any, name: Any) -> jinja2.Undefined:
        if isinstance(obj, jinja2.Undefined):
            str(obj)
        if isinstance(obj, Made):
            obj = str(obj)  # a text to whoever reads the error
        if isinstance(name, str) and hasattr(obj, name):
            return self.unsafe_undefined(obj, name)
        return self.undefined(obj=obj, name=name)

    def call(self, context: jinja2.runtime.Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a macro, a block, a loop that recurs, or a function of ours."""
        now = meter.current()
        now.spend(10 + len(args) + len(kwargs))
        if isinstance(obj, jinja2.runtime.Macro | jinja2.runtime.BlockReference | jinja2.runtime.LoopContext):
            if isinstance(obj, jinja2.runtime.LoopContext):
                args = tuple(self.turns(each, 1) for each in args)
            now.enter()
            found = context.call(obj, *args, **kwargs)
            now.leave()
            return found
        kwargs.pop("_loop_vars", None)
        kwargs.pop("_block_vars", None)
        if isinstance(obj, filters.Method):
            return obj(*args, **kwargs)
        if obj in filters.FUNCTIONS.values():
            now.weigh(args, kwargs)
            return filters.kept(obj(*args, **kwargs))
        if isinstance(obj, jinja2.Undefined):
            return obj(*args, **kwargs)
        cure = "Jinja's namespace() is hidden by our `namespace`: build lists with map and selectattr instead"
        raise Refused(f"{type(obj).__name__!r} object is not callable", cure if isinstance(obj, dict) else "")


def _public(obj: Any) -> Collection[str]:
    """Name what templates may read of what Jinja itself hands to them."""
    if isinstance(obj, jinja2.runtime.LoopContext):
        return _LOOP
    if isinstance(obj, TemplateModule):
        return [name for name in vars(obj) if not name.startswith("_")]
    if isinstance(obj, jinja2.runtime.BlockReference):
        return ("super",)
    if isinstance(obj, jinja2.runtime.Macro):
        return ("arguments", "caller", "name")
    return getattr(obj, "_fields", ()) if isinstance(obj, tuple) else ()  # groupby's pairs


@jinja2.pass_context  # needs the context, so that nothing is printed while compiling
def _printed(_: jinja2.runtime.Context, value: Any) -> str:
    """Print a value bare. Data must be tame: a tenant's text may end no scalar and begin no document."""
    found = text(value)
    if isinstance(found, Made):
        return found
    if found in NULLS:
        meter.current().nulls = True
    elif _UNTAMED.search(found):
        shown = found if len(found) <= 40 else found[:40] + "…"
        raise Refused(f"prints {shown!r} bare: in YAML that is more than one text", "write it with the filter q")
    return found


def environment(template_set: TemplateSet, codes: MutableMapping[str, CodeType] | None = None) -> jinja2.Environment:
    """Build the environment that a set's templates, and nothing else, are compiled and rendered in.

    `codes` holds what is compiled already, by name; what is missing comes in.
    """

    def source(name: str) -> tuple[str, str, None] | None:
        found = template_set.files.get(name)
        # The name in place of a path makes the traceback's frame, and so the error's line, the template's own.
        return None if found is None else (found, name, None)

    env = _Sandbox(
        undefined=_Missing,
        finalize=_printed,
        loader=jinja2.FunctionLoader(source),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        optimized=False,
        cache_size=-1,
    )
    env.codes = {} if codes is None else codes
    env.filters = dict(filters.FILTERS)
    env.tests = dict(filters.TESTS)
    env.globals = dict(filters.FUNCTIONS)
    return env
