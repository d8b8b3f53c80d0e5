"""Workflow-controllers that are not ours: which Workflows each of them serves, read from how it is started.

Read as Argo reads it (argo-workflows `cmd/workflow-controller/main.go`, `config/controller.go`): a flag wins over its
variable `ARGO_…`, and the instance ID stands in a ConfigMap. What cannot be told counts as a controller that sees every
namespace and serves what has no ID: nothing may then be taken for served by nobody.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from metaoperator.core import shard
from metaoperator.core.model import CONFIG_MAP, LEASE, POD, Manifest, Ref
from metaoperator.core.rules import Right

PROGRAM: Final = "workflow-controller"
CONFIGURATION: Final = "workflow-controller-configmap"
"""The ConfigMap that is read where no flag names another one."""

_FLAGS_OF_ONE_WORD: Final = frozenset(
    {
        "--namespaced",
        "--executor-plugins",
        "--workflow-level-executor-plugins",
        "--insecure-skip-tls-verify",
        "--disable-compression",
        "--help",
        "-h",
    }
)
"""Every other flag takes the next word, whatever that looks like (pflag)."""
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_REFERENCE: Final = re.compile(r"\$(\$|\(([-._a-zA-Z][-._a-zA-Z0-9]*)\))")
_SAME_TEXT: Final = re.compile(r"0|[1-9][0-9]{0,17}|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_RETYPED: Final = re.compile(r"[-+.]?[0-9].*|[-+]?\.(?:inf|nan)|y|n|yes|no|on|off|true|false", re.IGNORECASE)
_NOTHING: Final = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Foreign:
    """One controller that is not ours. `sees` is empty for all namespaces, `instance_id` for Workflows without one.

    `home` is where its Lease and its ConfigMap are. `unsure` says what of it could not be told; it is then judged by
    the most that it may be.
    """

    ref: Ref
    instance_id: str
    sees: str
    replicas: int
    home: str = ""
    unsure: str = ""

    @property
    def lease(self) -> Ref:
        """Name the Lease by which its pods elect a leader, unless they are told not to."""
        return Ref(LEASE, self.home or self.ref.namespace, shard.lease_name(self.instance_id))

    def __str__(self) -> str:
        which = f"instance ID {self.instance_id}" if self.instance_id else "no instance ID"
        where = f"namespace {self.sees}" if self.sees else "all namespaces"
        return f"{self.ref} ({'; '.join(filter(None, (f'{which}, {where}', self.unsure)))})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """How a container starts a controller: where it lives, what it watches by its flags, and what it reads.

    `configuration` is `None` where it cannot be told which ConfigMap that is.
    """

    ref: Ref
    sees: str
    configuration: Ref | None
    replicas: int
    account: str
    unsure: str = ""

    @property
    def needs(self) -> Right:
        """Name the right without which it can do nothing: it lists what it watches, or waits for ever."""
        return Right(self.sees, "argoproj.io", "workflows", "", "list")


class _UntoldError(Exception):
    """A word that only the running container knows."""


def started(workload: Manifest) -> tuple[Started, ...]:
    """Read a Deployment, or anything else with a pod template, or a Pod; empty for what runs no controller."""
    spec = workload.get("spec") or {}
    ref = Ref.of(workload)
    pod = spec if ref.kind == POD else (spec.get("template") or {}).get("spec") or {}
    return tuple(
        _started(ref, container, replicas(workload), account=str(pod.get("serviceAccountName") or "default"))
        for container in pod.get("containers") or ()
        if _runs_a_controller(container)
    )


def replicas(workload: Manifest) -> int:
    """Count the pods that are wanted or still there: one that is being ended goes on working to its last moment."""
    status: Mapping[str, Any] = workload.get("status") or {}
    there = max(int(status.get(key) or 0) for key in ("replicas", "terminatingReplicas"))
    if workload["kind"] == POD.kind:
        return 0 if status.get("phase") in {"Succeeded", "Failed"} else 1
    wanted = (workload.get("spec") or {}).get("replicas")
    return max(there, 1 if wanted is None else int(wanted))


def judge(how: Started, configuration: Manifest | None, *, unread: str = "") -> Foreign:
    """Judge a controller by its ConfigMap as it is now, `None` where there is none; `unread` says why it is unknown."""
    doubt = how.unsure or unread
    if not doubt and how.configuration is None:
        doubt = "which ConfigMap it reads cannot be told"
    elif not doubt and configuration is None:
        doubt = f"{how.configuration} is not there"
    instance, only = "", ""
    if not doubt and configuration is not None:
        try:
            config = _config(configuration.get("data") or {})
            instance, only = _text(config, "instanceID"), _text(config, "namespace")
        except (yaml.YAMLError, ValueError, RecursionError) as exc:
            doubt = f"{how.configuration} cannot be read: {' '.join(str(exc).split()) or type(exc).__name__}"
            instance = only = ""
    home = how.configuration.namespace if how.configuration is not None else how.ref.namespace
    return Foreign(
        ref=how.ref, instance_id=instance, sees=how.sees or only, replicas=how.replicas, home=home, unsure=doubt
    )


# ---- the container


def _runs_a_controller(container: Mapping[str, Any]) -> bool:
    image = str(container.get("image", "")).partition("@")[0].rpartition("/")[2].partition(":")[0]
    return image == PROGRAM or any(_is_program(word) for word in _words(container))


def _words(container: Mapping[str, Any]) -> list[str]:
    return [str(word) for key in ("command", "args") for word in container.get(key) or ()]


def _is_program(word: str) -> bool:
    return word.rpartition("/")[2] == PROGRAM


def _started(ref: Ref, container: Mapping[str, Any], wanted: int, *, account: str) -> Started:
    try:
        environment = _environment(container, ref.namespace)
        flags = _flags(_arguments(container, environment))
        home = _setting(flags, ("--namespace", "-n"), environment, "POD_NAMESPACE") or ref.namespace
        name = _setting(flags, ("--configmap",), environment, "ARGO_CONFIGMAP") or CONFIGURATION
        namespaced = _setting(flags, ("--namespaced",), environment, "ARGO_NAMESPACED")
        if namespaced not in _TRUE | _FALSE | {""}:
            raise _UntoldError(f"--namespaced={namespaced}")
        sees = ""
        if namespaced in _TRUE:
            sees = _setting(flags, ("--managed-namespace",), environment, "ARGO_MANAGED_NAMESPACE") or home
        return Started(ref=ref, sees=sees, configuration=Ref(CONFIG_MAP, home, name), replicas=wanted, account=account)
    except _UntoldError as exc:
        doubt = f"how it is started cannot be told ({exc})"
        return Started(ref=ref, sees="", configuration=None, replicas=wanted, account=account, unsure=doubt)


def _arguments(container: Mapping[str, Any], environment: Mapping[str, str | None]) -> list[str]:
    """Find the words after the program, with `$(VARIABLE)` as the kubelet expands it."""
    command, words = container.get("command") or (), _words(container)
    at = next((at for at, word in enumerate(words) if _is_program(word)), None)
    if at is None and command:
        raise _UntoldError(f"command {' '.join(map(str, command))[:60]}")
    # Without a command the image's own entry point runs, which is the program.
    return [_expanded(word, environment) for word in words[0 if at is None else at + 1 :]]


def _environment(container: Mapping[str, Any], namespace: str) -> dict[str, str | None]:
    """Read the variables; `None` for one whose value stands elsewhere."""
    found: dict[str, str | None] = {}
    for each in container.get("env") or ():
        source = each.get("valueFrom") or {}
        if not source:
            try:
                found[each["name"]] = _expanded(str(each.get("value") or ""), found)
            except _UntoldError:
                found[each["name"]] = None
        else:
            here = (source.get("fieldRef") or {}).get("fieldPath") == "metadata.namespace"
            found[each["name"]] = namespace if here else None
    return found


def _expanded(word: str, environment: Mapping[str, str | None]) -> str:
    def read(found: re.Match[str]) -> str:
        if found[1] == "$":
            return "$"
        if found[2] not in environment:
            return found[0]
        if (value := environment[found[2]]) is None:
            raise _UntoldError(word[:60])
        return value

    return _REFERENCE.sub(read, word)


def _flags(words: Sequence[str]) -> dict[str, str]:
    """Read flags as pflag does; of one that is given twice the last counts."""
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if word == "--":
            break
        if not word.startswith("-"):
            continue
        name, equals, value = word.partition("=")
        if name.startswith("-n") and not name.startswith("--") and name != "-n":
            found["-n"] = word[2:].removeprefix("=")
        elif equals:
            found[name] = value
        elif name in _FLAGS_OF_ONE_WORD:
            found[name] = "true"
        else:
            found[name] = next(rest, "")
    return found


def _setting(
    flags: Mapping[str, str], spelled: Sequence[str], environment: Mapping[str, str | None], variable: str
) -> str:
    """Read one setting, empty where it is not given: an empty variable is one that is not set (viper, client-go)."""
    for flag in spelled:
        if flag in flags:
            return flags[flag]
    value = environment.get(variable, "")
    if value is None:
        raise _UntoldError(f"variable {variable}")
    return value


# ---- the ConfigMap


def _config(data: Mapping[str, str]) -> dict[str, yaml.Node]:
    """Read the keys of a configuration as Argo's loader puts them together."""
    if "config" in data and len(data) > 1:
        raise ValueError("it has key config and others besides, which Argo refuses")
    text = data["config"] if "config" in data else "".join(_entry(name, value) for name, value in sorted(data.items()))
    root = yaml.compose(text, Loader=yaml.CSafeLoader)
    if root is None or (isinstance(root, yaml.ScalarNode) and root.value in _NOTHING):
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise ValueError("it holds no mapping")  # noqa: TRY004 - of the ConfigMap, not of ours
    return dict(_keys(root))


def _keys(root: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node]]:
    for key, value in root.value:
        if isinstance(key, yaml.ScalarNode):
            yield key.value, value


def _entry(name: str, value: str) -> str:
    if "\n" in value:
        return f"{name}:\n  " + "\n  ".join(value.strip("\n").split("\n")) + "\n"
    return f"{name}: {value}\n"


def _text(config: Mapping[str, yaml.Node], key: str) -> str:
    """Read one text as go-yaml does, which retypes bare words that PyYAML takes for text, and the other way round."""
    node = config.get(key)
    if node is None:
        return ""
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError(f"{key} is no text")  # noqa: TRY004 - of the ConfigMap, not of ours
    if node.style:
        return str(node.value)
    if node.value in _NOTHING:
        return ""
    if _RETYPED.fullmatch(node.value) and not _SAME_TEXT.fullmatch(node.value):
        raise ValueError(f"{key}: {node.value} is another value to Argo than it is written: put it in quotes")
    return str(node.value)
