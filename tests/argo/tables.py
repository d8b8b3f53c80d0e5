"""What each version knows: the keys of its configuration with their types, its flags, its log levels.

From Argo's own types at each tag. Below Kubernetes' and Argo's types only v4.0's keys are known; there `ANY` means that
nothing is checked.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

Type = Any
VERSIONS: Final = ("v3.6.19", "v3.7.18", "v4.0.5", "v4.1.2")

STR, INT, FLOAT, BOOL, DURATION, TTL, ANY = "string", "int", "float", "bool", "duration", "ttl", "any"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of one type."""

    of: Type


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping with any keys."""

    of: Type


@dataclass(frozen=True, slots=True)
class Pointer:
    """A field that may be null, where its type may not."""

    to: Type


@dataclass(frozen=True, slots=True)
class Struct:
    """A mapping with known keys. Of an `inner` one texts are not made from numbers: the YAML reader loses its type."""

    keys: Mapping[str, Type]
    inner: bool = False


@dataclass(frozen=True, slots=True)
class Since:
    """A key that a later version brought."""

    version: str
    what: Type


@dataclass(frozen=True, slots=True)
class Deep:
    """One of Argo's or Kubernetes' own types, by its name in the table of v4.0."""

    name: str


@dataclass(frozen=True, slots=True)
class Knowledge:
    """All that one version knows."""

    version: str
    config: Struct
    flags: Mapping[str, Type] = field(default_factory=dict)
    levels: frozenset[str] = frozenset()


_DEEP: Final = json.loads(
    (Path(__file__).parents[2] / "templates" / "workflow-controller" / "argo-v4.0.schema.json").read_text()
)["$defs"]

_SECRET = Struct({"name": STR, "key": STR, "optional": BOOL})
_INNER_SECRET = Struct({"name": STR, "key": STR, "optional": BOOL}, inner=True)
_AWS = Since("v4.1", Struct({"enabled": BOOL, "region": STR}, inner=True))
_HOST: Final[dict[str, Type]] = {
    "host": STR,
    "port": INT,
    "database": STR,
    "tableName": STR,
    "userNameSecret": _INNER_SECRET,
    "passwordSecret": _INNER_SECRET,
}
_AZURE = Since("v4.1", Struct({"enabled": BOOL, "scope": STR}, inner=True))
_DATABASE: Final[dict[str, Type]] = {
    "postgresql": Struct({**_HOST, "ssl": BOOL, "sslMode": STR, "azureToken": _AZURE, "awsRDSToken": _AWS}, inner=True),
    "mysql": Struct({**_HOST, "options": MapOf(STR), "awsRDSToken": _AWS}, inner=True),
    "connectionPool": Struct({"maxIdleConns": INT, "maxOpenConns": INT, "connMaxLifetime": TTL}, inner=True),
    "reconnectionConfig": Since("v4.1", ANY),
    "connectionTimeoutSeconds": Since("v4.1", INT),
}
_METRICS = Struct(
    {
        "enabled": BOOL,
        "disableLegacy": BOOL,
        "metricsTTL": TTL,
        "path": STR,
        "port": INT,
        "ignoreErrors": BOOL,
        "secure": BOOL,
        "modifiers": MapOf(
            Struct({"disabled": BOOL, "disabledAttributes": ListOf(STR), "histogramBuckets": ListOf(FLOAT)})
        ),
        "temporality": STR,
    }
)
_SSO = Struct(
    {
        "issuer": STR,
        "issuerAlias": STR,
        "clientId": _SECRET,
        "clientSecret": _SECRET,
        "redirectUrl": STR,
        "rbac": Struct({"enabled": BOOL}),
        "scopes": ListOf(STR),
        "sessionExpiry": DURATION,
        "customGroupClaimName": STR,
        "userInfoPath": STR,
        "insecureSkipVerify": BOOL,
        "filterGroupsRegex": ListOf(STR),
        "rootCA": STR,
    }
)
_LOCKS: Final[dict[str, Type]] = {
    **_DATABASE,
    "enableAPI": Since("v4.0", BOOL),
    "controllerName": STR,
    "skipMigration": BOOL,
    "limitTableName": STR,
    "stateTableName": STR,
    "controllerTableName": STR,
    "lockTableName": STR,
    "pollSeconds": INT,
    "heartbeatSeconds": INT,
    "inactiveControllerSeconds": INT,
    "semaphoreLimitCacheSeconds": INT,
}
CONFIG: Final[dict[str, Type]] = {
    "nodeEvents": Struct({"enabled": BOOL, "sendAsPod": BOOL}),
    "workflowEvents": Struct({"enabled": BOOL}),
    "executor": Deep("k8s.Container"),
    "mainContainer": Deep("k8s.Container"),
    "kubeConfig": Struct({"secretName": STR, "secretKey": STR, "volumeName": STR, "mountPath": STR}),
    "artifactRepository": Deep("ArtifactRepository"),
    "namespace": STR,
    "instanceID": STR,
    "metricsConfig": _METRICS,
    "telemetryConfig": _METRICS,
    "parallelism": INT,
    "namespaceParallelism": INT,
    "resourceRateLimit": Struct({"limit": FLOAT, "burst": INT}),
    "persistence": Struct(
        {
            **_DATABASE,
            "nodeStatusOffLoad": BOOL,
            "archive": BOOL,
            "archiveLabelSelector": Deep("k8s.LabelSelector"),
            "archiveTTL": TTL,
            "clusterName": STR,
            "skipMigration": BOOL,
        }
    ),
    "links": ListOf(Struct({"name": STR, "scope": STR, "url": STR, "target": STR})),
    "columns": ListOf(Struct({"name": STR, "type": STR, "key": STR})),
    "workflowDefaults": Deep("Workflow"),
    "podSpecLogStrategy": Struct({"failedPod": BOOL, "allPods": BOOL}),
    "podGCGracePeriodSeconds": INT,
    "podGCDeleteDelayDuration": Pointer(DURATION),
    "workflowRestrictions": Struct({"templateReferencing": STR}),
    "initialDelay": DURATION,
    "images": MapOf(Struct({"entrypoint": ListOf(STR), "cmd": ListOf(STR)})),
    "retentionPolicy": Struct({"completed": INT, "failed": INT, "errored": INT}),
    "navColor": STR,
    "sso": _SSO,
    "synchronization": Since("v3.7", Struct(_LOCKS)),
    "artifactDrivers": Since("v4.0", ListOf(Struct({"name": STR, "image": STR, "connectionTimeoutSeconds": INT}))),
    "failedPodRestart": Since("v4.0", Struct({"enabled": BOOL, "maxRestarts": INT})),
    "initlessPod": Since("v4.1", Struct({"enabled": BOOL})),
    "disableAgentPodCreation": Since("v4.1", BOOL),
}
FLAGS: Final[dict[str, Type]] = {
    "configmap": STR,
    "namespaced": BOOL,
    "managed-namespace": STR,
    "executor-image": STR,
    "executor-image-pull-policy": STR,
    "workflow-workers": INT,
    "workflow-ttl-workers": INT,
    "pod-cleanup-workers": INT,
    "cron-workflow-workers": INT,
    "workflow-archive-workers": INT,
    "qps": FLOAT,
    "burst": INT,
    "loglevel": STR,
    "log-format": STR,
    "gloglevel": INT,
    "executor-plugins": BOOL,
    "workflow-level-executor-plugins": Since("v4.1", BOOL),
    # Of every client of Kubernetes.
    "kubeconfig": STR,
    "namespace": STR,
}
_LOGRUS: Final = frozenset({"panic", "fatal", "error", "warn", "warning", "info", "debug", "trace"})
_SLOG: Final = frozenset({"debug", "info", "warn", "error", "trace", "print", "fatal", "panic"})


def minor(version: str) -> str:
    """Cut `v4.0.5` down to `v4.0`."""
    return version.rpartition(".")[0]


def knowledge(version: str) -> Knowledge:
    """Tell what a version knows."""
    since = minor(version)
    flags = {name: told.what if isinstance(told, Since) else told for name, told in FLAGS.items() if _old(told, since)}
    config = _at(Struct(CONFIG), since)
    return Knowledge(version, config, flags, _SLOG if since >= "v4.0" else _LOGRUS)


def _old(told: Type, since: str) -> bool:
    return not isinstance(told, Since) or told.version <= since


def _at(told: Type, since: str) -> Type:
    """Cut a type down to what a version knows of it."""
    match told:
        case Since():
            return _at(told.what, since)
        case Struct():
            return Struct({key: _at(each, since) for key, each in told.keys.items() if _old(each, since)}, told.inner)
        case ListOf():
            return ListOf(_at(told.of, since))
        case MapOf():
            return MapOf(_at(told.of, since))
        case Deep():
            return _deep(_DEEP[told.name]) if since == "v4.0" else ANY
    return told


def _deep(schema: Any) -> Type:
    """Name one of v4.0's types; it is looked into only where a value leads there, for some hold themselves."""
    return _Lazy(json.dumps(schema))


@dataclass(frozen=True, slots=True)
class _Lazy:
    text: str


def opened(told: Type) -> Type:
    """Look into a type of v4.0's table, one step deep."""
    if not isinstance(told, _Lazy):
        return told
    schema = json.loads(told.text)
    if isinstance(schema, bool):
        return ANY
    if "$ref" in schema:
        return opened(_deep(_DEEP[schema["$ref"].rpartition("/")[2]]))
    if schema["type"] == "array":
        return ListOf(_deep(schema["items"]))
    if "properties" not in schema:
        return MapOf(_deep(schema.get("additionalProperties", True)))
    return Struct({key: _deep(each) for key, each in schema["properties"].items()})
