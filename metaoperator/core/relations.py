"""Values that have to be right together, as a template set states them: a JSON Schema sees each value alone."""

import re
from collections.abc import Mapping, MutableMapping
from types import CodeType
from typing import Any, Final

import jinja2

from metaoperator.core import causes, filters, meter, metered
from metaoperator.core.errors import Problem
from metaoperator.core.model import Relation

_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
MAX_TOGETHER: Final = 4 * meter.MAX_STEPS
"""Steps of all relations, when one of them fails and each is asked alone."""
_CODE: Final = "relations"
"""Among the codes of a set's templates, whose names all end in .j2."""
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Read a duration as Go writes it, `1m30s`; a `ValueError` for anything else."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration like 1m30s")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


class Relations:
    """The relations of one set, compiled once."""

    def __init__(
        self, env: jinja2.Environment, relations: tuple[Relation, ...], codes: MutableMapping[str, CodeType]
    ) -> None:
        """Compile every expression that `codes` lacks; a `jinja2.TemplateSyntaxError` tells the one that is none."""
        env.filters["seconds"] = filters.paid(seconds)
        self._env = env
        self._relations = relations
        if _CODE not in codes:
            codes[_CODE] = env.compile(metered.expressions(env, [each.holds for each in relations]))
        self._all = env.template_class.from_code(env, codes[_CODE], env.make_globals(None))

    def problems(self, values: Mapping[str, Any]) -> list[Problem]:
        """Tell each relation that the values, which satisfy the set's schema, break."""
        try:
            with meter.metered({"values": values}):
                answers = _answers(self._all, values)
        except Exception:  # noqa: BLE001 - which one it was, and what the others say, is found out below
            answers = None
        found: list[Problem] = []
        spent = 0
        for at, relation in enumerate(self._relations):
            try:
                with meter.metered({"values": values}) as budget:
                    holds = bool(self._alone(relation, values) if answers is None else answers[metered.answer(at)])
            except Exception as exc:  # noqa: BLE001 - whatever an expression manages to raise is its own fault
                fault = causes.problem(exc, "template.yaml")
                found.append(Problem(where="template.yaml", what=f"relation {relation.holds!r}: {fault.what}"))
            else:
                if not holds:
                    found.append(Problem(where=f"values.{relation.at}", what=relation.otherwise, cure=relation.cure))
            spent += meter.MAX_STEPS - budget.left
            if spent > MAX_TOGETHER:
                what = (
                    f"the relations do more than {MAX_TOGETHER} steps, those after {relation.holds!r} are not looked at"
                )
                found.append(Problem(where="template.yaml", what=what, cure="make them simpler"))
                break
        return found

    def _alone(self, relation: Relation, values: Mapping[str, Any]) -> Any:
        alone = self._env.from_string(metered.expressions(self._env, [relation.holds]))
        return _answers(alone, values)[metered.answer(0)]


def _answers(compiled: jinja2.Template, values: Mapping[str, Any]) -> Mapping[str, Any]:
    context = compiled.new_context({"values": values})
    for _ in compiled.root_render_func(context):
        pass
    return context.vars
