"""The start of a workflow-controller: flags, configuration, election. It ends at the first thing that is not right."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from . import go_yaml, tables
from .tables import ANY, BOOL, DURATION, FLOAT, INT, STR, TTL, ListOf, MapOf, Pointer, Struct, Type

_GO_DURATION: Final = re.compile(r"[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)")
_PART: Final = re.compile(r"([0-9]*\.?[0-9]*)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_BOOLS: Final = {"1": True, "t": True, "T": True, "true": True, "TRUE": True, "True": True} | {
    "0": False, "f": False, "F": False, "false": False, "FALSE": False, "False": False,
}  # fmt: skip


class Refused(Exception):
    """The controller ends, with this error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A controller that runs: what it read, and the Lease that it asks for (`None` with the election off)."""

    config: Mapping[str, Any]
    lease: str | None


def start(version: str, *, args: Sequence[str], env: Mapping[str, str], data: Mapping[str, str]) -> Started:
    """Start the controller of a version on a ConfigMap's `data`; `Refused` says why it ends instead."""
    known = tables.knowledge(version)
    flags = _flags(known, args, env)
    if flags.get("loglevel", "info").lower() not in known.levels:
        raise Refused(f"invalid log level: {flags['loglevel']}")
    if flags.get("log-format", "text") not in {"text", "json"}:
        raise Refused(f"invalid log format: {flags['log-format']}")
    config = read(known, data)
    if env.get("LEADER_ELECTION_DISABLE") == "true":
        return Started(config=config, lease=None)
    if "LEADER_ELECTION_IDENTITY" not in env:
        raise Refused("LEADER_ELECTION_IDENTITY must be set so that the workflow controllers can elect a leader")
    _election(env)
    instance = config.get("instanceID") or ""
    return Started(config=config, lease=f"workflow-controller-{instance}" if instance else "workflow-controller")


# ---- flags


def _flags(known: tables.Knowledge, args: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for arg in args:
        if not arg.startswith("--"):
            raise Refused(f"unknown command {arg!r}")
        name, equals, value = arg[2:].partition("=")
        if name not in known.flags:
            raise Refused(f"unknown flag: --{name}")
        if not equals:
            if known.flags[name] != BOOL:
                raise Refused(f"flag needs an argument: --{name}")
            value = "true"
        given[name] = value
    for name in known.flags:
        given.setdefault(name, env.get(f"ARGO_{name.upper().replace('-', '_')}", ""))
    given = {name: value for name, value in given.items() if value}
    for name, value in given.items():
        _flag(name, value, known.flags[name])
    return given


def _flag(name: str, value: str, kind: Type) -> None:
    try:
        if kind == INT:
            int(value, 0)
        elif kind == FLOAT:
            float(value)
        elif kind == BOOL:
            _BOOLS[value]
    except (KeyError, ValueError):
        raise Refused(f'invalid argument "{value}" for "--{name}" flag') from None


def _election(env: Mapping[str, str]) -> None:
    lease, renew, retry = (
        _seconds(env.get(f"LEADER_ELECTION_{name}") or default)
        for name, default in (("LEASE_DURATION", "15s"), ("RENEW_DEADLINE", "10s"), ("RETRY_PERIOD", "5s"))
    )
    if lease <= renew:
        raise Refused("leaseDuration must be greater than renewDeadline")
    if renew <= 1.2 * retry:
        raise Refused("renewDeadline must be greater than retryPeriod*JitterFactor")
    if retry <= 0:
        raise Refused("retryPeriod must be greater than zero")
    if not env["LEADER_ELECTION_IDENTITY"]:
        raise Refused("Lock identity is empty")


def _seconds(text: str) -> float:
    if not _GO_DURATION.fullmatch(text):
        raise Refused("failed to parse")
    sign = -1 if text[0] == "-" else 1
    return sign * sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


# ---- the configuration


def read(known: tables.Knowledge, data: Mapping[str, str]) -> dict[str, Any]:
    """Read a ConfigMap's `data`: one key `config`, or each entry pasted below the others."""
    if "config" in data and len(data) != 1:
        raise Refused("if you have an item in your config map named 'config', you must only have one item")
    text = data.get("config")
    if text is None:
        text = "".join(_pasted(key, value) for key, value in sorted(data.items()))
    try:
        found = go_yaml.load(text)
    except go_yaml.Unreadable as exc:
        raise Refused(str(exc)) from exc
    return _decode(found, known.config, "Config", bare=True) or {}


def _pasted(key: str, value: str) -> str:
    if "\n" in value:
        return f"{key}:\n  " + "\n  ".join(value.strip("\n").split("\n")) + "\n"
    return f"{key}: {value}\n"


def _wrong(value: Any, path: str, wanted: str) -> Refused:
    names = {bool: "bool", int: "number", float: "number", str: "string", dict: "object", list: "array"}
    told = f"cannot unmarshal {names[type(value)]} into Go struct field {path} of type {wanted}"
    return Refused(f"error unmarshaling JSON: while decoding JSON: json: {told}")


def _decode(value: Any, told: Type, path: str, *, bare: bool) -> Any:
    """Read one value into its Go type. While `bare`, numbers become text where that is wanted."""
    told = tables.opened(told)
    if isinstance(told, Pointer):
        return None if value is None else _decode(value, told.to, path, bare=bare)
    if told in (DURATION, TTL):
        return _time(value, told)
    if value is None or told == ANY:
        return value
    match told:
        case Struct():
            return _struct(value, told, path, bare=bare)
        case ListOf():
            if not isinstance(value, list):
                raise _wrong(value, path, "[]")
            return [_decode(each, told.of, path, bare=bare) for each in value]
        case MapOf():
            if not isinstance(value, dict):
                raise _wrong(value, path, "map")
            return {key: _decode(each, told.of, f"{path}.{key}", bare=bare) for key, each in value.items()}
    return _scalar(value, told, path, bare=bare)


def _struct(value: Any, told: Struct, path: str, *, bare: bool) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(value, path, "struct")
    names = {key.lower(): key for key in told.keys}
    found: dict[str, Any] = {}
    for key, each in value.items():
        # Go takes a key in any case.
        name = key if key in told.keys else names.get(key.lower())
        if name is None:
            raise Refused(f'error unmarshaling JSON: while decoding JSON: json: unknown field "{key}"')
        found[name] = _decode(each, told.keys[name], f"{path}.{name}", bare=bare and not told.inner)
    return found


def _scalar(value: Any, told: Type, path: str, *, bare: bool) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if told == BOOL and isinstance(value, bool):
        return value
    if told == FLOAT and number:
        return value
    if told == INT and number and value == int(value) and abs(value) < 2**63:
        return int(value)
    if told == STR and (isinstance(value, str) or bare):
        text = go_yaml.as_text(value) if not isinstance(value, dict | list) else None
        if text is not None:
            return text
    raise _wrong(value, path, str(told))


def _time(value: Any, told: Type) -> str:
    text = value if isinstance(value, str) else ""
    fine = _GO_DURATION.fullmatch(text) if told == DURATION else re.fullmatch(r"([-+]?[0-9]+[dhms])?", text)
    if not isinstance(value, str) or not fine:
        raise Refused(f"error unmarshaling JSON: while decoding JSON: invalid {told} {value!r}")
    return text
