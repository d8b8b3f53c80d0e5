"""Label and field selectors: text in, predicate out."""

import re
from collections.abc import Callable

from .kinds import Manifest
from .problems import ApiError, bad_request

Predicate = Callable[[Manifest], bool]

_SET = re.compile(r"^(?P<key>[^\s!=,()]+)\s+(?P<op>in|notin)\s*\(\s*(?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s!=,()]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s!=,()]*)$")
_EXISTS = re.compile(r"^(?P<not>!\s*)?(?P<key>[^\s!=,()]+)$")


def labels(text: str | None) -> Predicate | None:
    """Read a label selector; `None` means that everything matches."""
    if not text or not text.strip():
        return None
    terms = [_label_term(term.strip()) for term in re.split(r",(?![^(]*\))", text)]

    def matches(obj: Manifest) -> bool:
        have = obj["metadata"].get("labels") or {}
        return all(term(have) for term in terms)

    return matches


def _label_term(term: str) -> Callable[[dict[str, str]], bool]:
    if found := _SET.match(term):
        key, wanted = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["op"] == "in":
            return lambda have: have.get(key) in wanted
        return lambda have: have.get(key) not in wanted
    if found := _EQUAL.match(term):
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return lambda have: have.get(key) != value
        return lambda have: have.get(key) == value
    if found := _EXISTS.match(term):
        key = found["key"]
        return (lambda have: key not in have) if found["not"] else (lambda have: key in have)
    raise bad_request(f"unable to parse requirement: {term!r}")


_FIELDS: dict[str, Callable[[Manifest], str]] = {
    "metadata.name": lambda obj: obj["metadata"].get("name", ""),
    "metadata.namespace": lambda obj: obj["metadata"].get("namespace", ""),
    "spec.nodeName": lambda obj: (obj.get("spec") or {}).get("nodeName", ""),
    "status.phase": lambda obj: (obj.get("status") or {}).get("phase", ""),
}


def fields(text: str | None) -> Predicate | None:
    """Read a field selector; `None` means that everything matches."""
    if not text or not text.strip():
        return None
    terms = []
    for term in text.split(","):
        found = _EQUAL.match(term.strip())
        if not found:
            raise bad_request(f"invalid selector: {text!r}; can't understand {term!r}")
        if found["key"] not in _FIELDS:
            raise _unknown_field(found["key"])
        terms.append((_FIELDS[found["key"]], found["op"] != "!=", found["value"]))
    return lambda obj: all((read(obj) == value) is wanted for read, wanted, value in terms)


def only_name(text: str | None) -> str | None:
    """Read the one name that a field selector asks for: a role that names objects allows such a list."""
    for term in (text or "").split(","):
        found = _EQUAL.match(term.strip())
        if found and found["key"] == "metadata.name" and found["op"] != "!=":
            return found["value"]
    return None


def _unknown_field(key: str) -> ApiError:
    only = ", ".join(f'"{name}"' for name in _FIELDS)
    return bad_request(f'"{key}" is not a known field selector: only {only}')


def both(label_selector: str | None, field_selector: str | None) -> Predicate | None:
    """Join the two selectors of a request."""
    wanted = [predicate for predicate in (labels(label_selector), fields(field_selector)) if predicate]
    if not wanted:
        return None
    return lambda obj: all(predicate(obj) for predicate in wanted)
