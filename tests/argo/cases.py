"""Questions to a workflow-controller v4.0.5, with the answers that the real one gave. The stub has to give them too."""

import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from . import tables
from .tables import BOOL, DURATION, FLOAT, INT, STR, TTL, ListOf, MapOf, Pointer, Struct, Type

VERSION: Final = "v4.0.5"
IDENTITY: Final = {"LEADER_ELECTION_IDENTITY": "me"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One start. `starts`: whether it does; `lease`: the Lease that it asks for then."""

    name: str
    data: Mapping[str, str]
    starts: bool | None = None
    lease: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: IDENTITY)


def _one(name: str, text: str, *, starts: bool, lease: str = "") -> Case:
    return Case(name=name, data={"config": text}, starts=starts, lease=lease)


def _glued(name: str, value: str, *, starts: bool, lease: str = "") -> Case:
    return Case(
        name=f"glued {name}", data={"instanceID": value}, starts=starts, lease=lease and f"workflow-controller-{lease}"
    )


NONE: Final = "workflow-controller"

READING: Final = (
    _one("nothing", "", starts=True, lease=NONE),
    Case(name="no data", data={}, starts=True, lease=NONE),
    _one("null", "null", starts=True, lease=NONE),
    _one("a word", "word", starts=False),
    _one("a list", "[1]", starts=False),
    _one("a tab", "parallelism:\t1\n\tx: 1", starts=False),
    _one("open brace", "{", starts=False),
    _one("twice", "parallelism: 1\nparallelism: 1", starts=False),
    _one("twice in another case", "parallelism: 1\nParallelism: 2", starts=True, lease=NONE),
    _one("another case", "instanceid: a", starts=True, lease="workflow-controller-a"),
    _one("a capital that is missing", "persistence: {nodeStatusOffload: true}", starts=True),
    _one("a second document", "parallelism: 1\n---\nbogus: 1", starts=True, lease=NONE),
    _one("top level of another place", "semaphoreLimitCacheSeconds: 1", starts=False),
    _one("of v3.3", "containerRuntimeExecutor: pns", starts=False),
    _one("of v4.1", "initlessPod: {enabled: true}", starts=False),
    _one("of v4.1, inside", "persistence: {connectionTimeoutSeconds: 5}", starts=False),
    _one("a list where a mapping is", "executor: [a]", starts=False),
    _one("deep down", "workflowDefaults: {spec: {templates: [{container: {imag: a}}]}}", starts=False),
    _one("deep and right", "workflowDefaults: {spec: {templates: [{container: {image: a}}]}}", starts=True, lease=NONE),
    _one(
        "steps", "workflowDefaults: {spec: {templates: [{steps: [[{name: a, template: b}]]}]}}", starts=True, lease=NONE
    ),
    _one("steps, misspelt", "workflowDefaults: {spec: {templates: [{steps: [[{nam: a}]]}]}}", starts=False),
    _one("parallelism as text", 'parallelism: "10"', starts=False),
    _one("parallelism as 1e1", "parallelism: 1e1", starts=True, lease=NONE),
    _one("parallelism as 1.5", "parallelism: 1.5", starts=False),
    _one("parallelism as yes", "parallelism: yes", starts=False),
    _one("a truth as yes", "nodeEvents: {enabled: yes}", starts=True, lease=NONE),
    _one("a truth as text", 'nodeEvents: {enabled: "true"}', starts=False),
    _one("a truth as 1", "nodeEvents: {enabled: 1}", starts=False),
    _one("host as a number", "persistence: {postgresql: {host: 123}}", starts=False),
    _one("cluster as a number", "persistence: {clusterName: 123}", starts=True),
    _one("colour as a truth", "navColor: on", starts=True, lease=NONE),
    _one("ttl 30d", "metricsConfig: {metricsTTL: 30d}", starts=True, lease=NONE),
    _one("ttl 1h30m", "metricsConfig: {metricsTTL: 1h30m}", starts=False),
    _one("ttl 100ms", "metricsConfig: {metricsTTL: 100ms}", starts=False),
    _one("ttl 1.5h", "metricsConfig: {metricsTTL: 1.5h}", starts=False),
    _one("ttl null", "metricsConfig: {metricsTTL: null}", starts=False),
    _one("ttl nothing", 'metricsConfig: {metricsTTL: ""}', starts=True, lease=NONE),
    _one("delay 1h30m", "initialDelay: 1h30m", starts=True, lease=NONE),
    _one("delay 5", "initialDelay: 5", starts=False),
    _one("delay 5d", "initialDelay: 5d", starts=False),
    _one("delay null", "initialDelay: null", starts=False),
    _one("pointer null", "podGCDeleteDelayDuration: null", starts=True, lease=NONE),
    Case(name="config and more", data={"config": "", "parallelism": "1"}, starts=False),
    Case(name="glued block", data={"nodeEvents": "enabled: true\nsendAsPod: false\n"}, starts=True, lease=NONE),
    Case(name="glued block, misspelt", data={"nodeEvents": "enabld: true\nsendAsPod: false"}, starts=False),
    Case(name="glued line with a colon", data={"nodeEvents": "enabled: true"}, starts=False),
    Case(name="glued line in braces", data={"nodeEvents": "{enabled: true}"}, starts=True, lease=NONE),
    Case(name="glued number", data={"parallelism": "10"}, starts=True, lease=NONE),
    Case(name="glued number in quotes", data={"parallelism": '"10"'}, starts=False),
    Case(name="glued unknown", data={"bogus": "1"}, starts=False),
)
IDS: Final = (
    _glued("team-a", "team-a", starts=True, lease="team-a"),
    _glued("0123", "0123", starts=True, lease="83"),
    _glued("08", "08", starts=True, lease="8"),
    _glued("0x1f", "0x1f", starts=True, lease="31"),
    _glued("0b11", "0b11", starts=True, lease="3"),
    _glued("0o17", "0o17", starts=True, lease="15"),
    _glued("1e3", "1e3", starts=True, lease="1000"),
    _glued("123", "123", starts=True, lease="123"),
    _glued("date", "2024-01-01", starts=True, lease="2024-01-01"),
    _glued("on", "on", starts=True, lease="true"),
    _glued("y", "y", starts=True, lease="true"),
    _glued("no", "no", starts=True, lease="false"),
    _glued("n", "n", starts=True, lease="false"),
    Case(name="glued null", data={"instanceID": "null"}, starts=True, lease=NONE),
    Case(name="glued nothing", data={"instanceID": ""}, starts=True, lease=NONE),
    _glued("comment", "a #b", starts=True, lease="a"),
    _glued("a: b", "a: b", starts=False),
    _glued("a list", "[a]", starts=False),
    *(
        _glued(f"quoted {name}", json.dumps(name), starts=True, lease=name)
        for name in ("0123", "08", "1e3", "on", "n", "null", "2024-01-01", "0x1f")
    ),
)


def _start(name: str, *args: str, starts: bool, **env: str) -> Case:
    told = {"LEADER_ELECTION_IDENTITY": "me"} | env
    instance = re.sub("[^a-z0-9]+", "-", name)  # of its own, so that no two wait for one Lease
    data = {"config": f"instanceID: {instance}"}
    lease = f"workflow-controller-{instance}" if starts else ""
    return Case(
        name=name,
        data=data,
        args=args,
        starts=starts,
        lease=lease,
        env={key: each for key, each in told.items() if each},
    )


def _timing(lease: str, renew: str, retry: str, *, starts: bool) -> Case:
    return _start(
        f"timing {lease} {renew} {retry}",
        starts=starts,
        LEADER_ELECTION_LEASE_DURATION=lease,
        LEADER_ELECTION_RENEW_DEADLINE=renew,
        LEADER_ELECTION_RETRY_PERIOD=retry,
    )


STARTING: Final = (
    _start("an unknown flag", "--bogus", starts=False),
    _start("a flag of v4.1", "--workflow-level-executor-plugins", starts=False),
    _start("plugins", "--executor-plugins", starts=True),
    _start("workers", "--workflow-workers=8", "--qps=12.5", "--burst=30", "--gloglevel=3", starts=True),
    _start("workers as text", "--workflow-workers=many", starts=False),
    _start("burst with a fraction", "--burst=1.5", starts=False),
    *(
        _start(f"level {each}", f"--loglevel={each}", starts=True)
        for each in ("debug", "warn", "error", "trace", "fatal")
    ),
    *(_start(f"level {each}", f"--loglevel={each}", starts=False) for each in ("warning", "verbose")),
    _start("format json", "--log-format=json", starts=True),
    _start("format xml", "--log-format=xml", starts=False),
    _start("nobody", starts=False, LEADER_ELECTION_IDENTITY=""),
    _timing("30s", "20s", "10s", starts=True),
    _timing("15s", "15s", "5s", starts=False),
    _timing("15s", "12s", "10s", starts=False),
    _timing("15s", "12100ms", "10s", starts=True),
    _timing("15s", "10s", "0s", starts=False),
    _timing("15", "10s", "5s", starts=False),
)


# ---- generated ones: every key, right, misspelt, and of a wrong type


def _right(told: Type) -> Any:
    told = tables.opened(told)
    match told:
        case Pointer():
            return _right(told.to)
        case Struct():
            return {}
        case ListOf():
            return [_right(told.of)]
        case MapOf():
            return {"k": _right(told.of)}
    return {STR: "a", INT: 1, FLOAT: 1.5, BOOL: True, DURATION: "5s", TTL: "5d"}.get(told, {})


def _wrong(told: Type) -> Any:
    told = tables.opened(told)
    match told:
        case Pointer():
            return _wrong(told.to)
        case Struct() | MapOf():
            return "text"
        case ListOf():
            return {"a": 1}
    return {STR: {"a": 1}, INT: "a", FLOAT: "a", BOOL: "true", DURATION: 5, TTL: 5}[told]


def _paths(told: Type, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Type]]:
    """Name every key of the configuration, down to where Argo's and Kubernetes' own types begin."""
    if isinstance(told, Struct):
        for key, each in told.keys.items():
            yield (*path, key), each
            yield from _paths(each, (*path, key))


def _nested(path: tuple[str, ...], value: Any) -> dict[str, str]:
    for step in reversed(path):
        value = {step: value}
    return {"config": json.dumps(value)}


def every_key(version: str = VERSION) -> Iterator[Case]:
    """Ask for each key of the configuration: right, misspelt, of a wrong type, and nothing at all."""
    for path, told in _paths(tables.knowledge(version).config):
        name = ".".join(path)
        yield Case(name=f"{name} right", data=_nested(path, _right(told)), starts=True)
        yield Case(name=f"{name} misspelt", data=_nested((*path[:-1], f"{path[-1]}x"), _right(told)), starts=False)
        if told != tables.ANY:
            yield Case(name=f"{name} wrong", data=_nested(path, _wrong(told)), starts=False)
        yield Case(name=f"{name} null", data=_nested(path, None))


def by_dice(seed: int, count: int, version: str = VERSION) -> Iterator[Case]:
    """Make whole configurations at random, of which about half have one fault somewhere."""
    dice = random.Random(seed)
    config = tables.knowledge(version).config
    for number in range(count):
        text = json.dumps(_any(dice, config, depth=0), indent=dice.choice([None, 2]))
        yield Case(name=f"dice {seed}.{number}", data={"config": text})


def _any(dice: random.Random, told: Type, depth: int) -> Any:
    if tables.opened(told) is not told:
        return {}  # what scalars Argo's and Kubernetes' own types hold is in no table
    if dice.random() < 0.02:
        return dice.choice([None, 0, -1, 2.5, 1e21, True, "", "text", "5s", [], {}, [None], {"a": None}])
    match told:
        case Pointer():
            return _any(dice, told.to, depth)
        case ListOf():
            return [_any(dice, told.of, depth + 1) for _ in range(dice.randint(0, 2))]
        case MapOf():
            return {dice.choice("abc"): _any(dice, told.of, depth + 1) for _ in range(dice.randint(0, 2))}
        case Struct():
            keys = sorted(told.keys)
            picked = dice.sample(keys, min(len(keys), dice.randint(0, 4 if depth else 8) if depth < 4 else 0))
            made = {key: _any(dice, told.keys[key], depth + 1) for key in picked}
            if dice.random() < 0.03:
                made[dice.choice(["bogus", "Enabled", "x", ""])] = 1
            return made
    return _right(told) if told != tables.ANY else "a"
