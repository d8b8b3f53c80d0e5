"""What a move from one version of Argo to another needs: the table, and what it finds for a fleet.

Upstream does not follow semantic versioning: a minor release may break, the two newest are supported, and nothing is
promised of a controller beside other definitions or older executors (docs/releases.md). Each row of `_ROWS` names where
its fact comes from: pages and issues of argo-workflows. A row that knows nothing of a version says nothing; that the
table does not know it is a row itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from metaoperator.core import paths, versions
from metaoperator.core.move import Cause, Facts, Move, Severity, Step, Told, Version

BRANCHES: Final = ((3, 4), (3, 5), (3, 6), (3, 7), (4, 0), (4, 1))
"""The branches that the table knows, in their order."""

NEEDED: Final[Mapping[str, Version]] = MappingProxyType(
    {
        "workflows": (2, 0, 0),
        "workflowtemplates": (2, 4, 0),
        "cronworkflows": (2, 5, 0),
        "clusterworkflowtemplates": (2, 8, 0),
        "workflowtasksets": (3, 2, 0),
        "workflowtaskresults": (3, 3, 0),
        "workflowartifactgctasks": (3, 4, 0),
    }
)
"""Since which version a controller waits at its start, without end, for each kind. Event bindings are the server's."""

COMPRESSION: Final = "WORKFLOW_COMPRESSION_ALGORITHM"
"""The child's environment variable, from v4.1 on, that says how it compresses a status."""
_READABLE: Final = frozenset({"", "gzip"})
_SKIPPED_OUTPUTS: Final = ((3, 7, 16), (4, 0, 7))
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that moves need, and the namespaces whose moves need it; `objects` are those that it is about."""

    severity: Severity
    reason: Cause
    message: str
    cure: str
    namespaces: tuple[str, ...]
    objects: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.what} ({self.cure})"

    @property
    def what(self) -> str:
        """Say what it is about, with the objects concerned."""
        return f"{self.message}: {shortened(self.objects)}" if self.objects else self.message

    @property
    def who(self) -> str:
        """Count the namespaces concerned, and name the first."""
        return counted(self.namespaces)


_Check = Callable[[Step, Facts], Iterator[Told]]


def judge(moves: Mapping[str, Move], facts: Facts) -> list[Finding]:
    """Hold each namespace's move to the table; the same finding is told once, worst first."""
    together: dict[tuple[Cause, Severity, str, str], tuple[list[str], list[str]]] = {}
    for namespace, move in sorted(moves.items()):
        step = Step.of(namespace, move)
        for cause, check in _ROWS:
            for told in check(step, facts):
                names, objects = together.setdefault((cause, told.severity, told.message, told.cure), ([], []))
                names.append(namespace)
                objects += told.objects
    found = [
        Finding(
            severity=severity,
            reason=cause,
            message=message,
            cure=cure,
            namespaces=tuple(names),
            objects=tuple(dict.fromkeys(objects)),
        )
        for (cause, severity, message, cure), (names, objects) in together.items()
    ]
    ranks, causes = list(Severity), list(Cause)
    return sorted(
        found, key=lambda each: (ranks.index(each.severity), causes.index(each.reason), each.message, each.namespaces)
    )


def shortened(names: Iterable[str], most: int = _SHOWN) -> str:
    """List names, so many at most."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return f"{', '.join(listed[:most])}{more}"


def counted(namespaces: Sequence[str], most: int = 10) -> str:
    """Count namespaces, and name so many at most."""
    return f"{len(namespaces)} namespace{'s' * (len(namespaces) != 1)}: {shortened(namespaces, most)}"


# ---- the rows


def _definition_missing(step: Step, facts: Facts) -> Iterator[Told]:
    """Look for kinds that Argo's caches would wait for without end: pod Running, healthz 200, no work (#8121)."""
    if step.after is None:
        return
    wanting = sorted(each for each in facts.missing if step.after >= NEEDED.get(each, (9999, 0, 0)))
    if wanting:
        what = f"{step.move.after} needs kinds that the cluster does not serve: {', '.join(wanting)}"
        yield Told(
            Severity.REFUSE,
            f"{what}; its controller would run and do nothing",
            f"install Argo's definitions of {step.move.after} first, server-side: kubectl apply --server-side",
        )
    server = paths.mapping(step.move.values, "server").get("enabled") is True
    if server and "workfloweventbindings" in facts.missing:
        yield Told(
            Severity.REMARK,
            "the argo-server serves no events: the cluster has no workfloweventbindings",
            "install Argo's definition of them, or leave events alone",
        )


def _definitions_full(step: Step, facts: Facts) -> Iterator[Told]:
    """Look for definitions that cut off what only v3 knows (docs/upgrading.md, 4.0; argo-helm#4037)."""
    olds = sorted(name for name, version in facts.fleet.items() if _is_old(versions.parse(version)))
    if not facts.full or not (olds or _is_old(step.after) or _is_old(step.before)):
        return
    concerned = step.moves and (_is_old(step.after) or _is_old(step.before))
    yield Told(
        Severity.REFUSE if concerned else Severity.REMARK,
        f"the cluster has full definitions ({', '.join(sorted(facts.full))}), which cut off fields that only v3 knows "
        "(a CronWorkflow's schedule, mutex, semaphore), and a controller of v3 lives or would live",
        "apply Argo's minimal definitions, server-side, as long as any controller is of v3: "
        'kubectl apply --server-side -k "https://github.com/argoproj/argo-workflows/manifests/base/crds/minimal'
        '?ref=VERSION"',
    )


def _definitions_unread(step: Step, facts: Facts) -> Iterator[Told]:
    """Say what nobody read: it is not known to be right."""
    if facts.unread and step.moves:
        yield Told(
            Severity.REMARK,
            f"whether Argo's definitions suit {step.move.after} is not known: {facts.unread}",
            "ask somebody who may read CustomResourceDefinitions",
        )


def _status_unreadable(step: Step, facts: Facts) -> Iterator[Told]:
    """Look at the algorithm, a choice since 4.1; older ones read gzip alone (docs/environment-variables.md)."""
    algorithm = facts.compression.get(step.namespace, "")
    if step.leaves((4, 1, 0)) and algorithm not in _READABLE:
        yield Told(
            Severity.REFUSE,
            f"{step.move.after} cannot read what {step.move.before} compressed with {algorithm}: a Workflow's status",
            f"set {COMPRESSION} to gzip, wait until the Workflows of now have ended and are deleted, then go back",
        )


def _offloaded_nodes(step: Step, facts: Facts) -> Iterator[Told]:
    """Look at what is in a database, whose migrations lead forward only (docs/database-migrations.md)."""
    del facts
    persistence = paths.mapping(step.move.values, "config", "persistence")
    if step.down and step.another_branch and persistence.get("nodeStatusOffLoad") is True:
        yield Told(
            Severity.WAIT,
            f"going back from {step.move.before} to {step.move.after} with nodeStatusOffLoad: the nodes of unfinished "
            "Workflows stand in a database whose schema is newer than the controller, and no migration leads back",
            "wait until no Workflow is unfinished, and have a backup of the database",
        )


def _executor_jump(step: Step, facts: Facts) -> Iterator[Told]:
    """Find jumps past executors that do not write the mark newer controllers wait for (#12103, #13335, #3633)."""
    del facts
    if step.before is not None and step.after is not None and step.before <= (3, 5, 1) and step.after >= (3, 5, 5):
        yield Told(
            Severity.WAIT,
            f"pods that {step.move.before} started never report all that {step.move.after} waits for: Workflows that "
            "run across this step stay Running for ever",
            "wait until no Workflow is unfinished: spec.rollout.workflows: Wait",
        )


def _fields_removed(step: Step, facts: Facts) -> Iterator[Told]:
    """Name users of what 4.0 took away, and of what 3.5 does not know yet (docs/upgrading.md, docs/deprecations.md)."""
    forward, back = step.reaches((4, 0, 0)), step.leaves((3, 6, 0))
    if not forward and not back:
        return
    if facts.crons_unread:
        yield Told(
            Severity.REMARK,
            f"whether CronWorkflows use fields that {step.move.after} does not know is not known: {facts.crons_unread}",
            "ask somebody who may list CronWorkflows",
        )
    gone = frozenset({"schedule", "mutex", "semaphore"}) if forward else frozenset({"schedules"})
    for each in sorted(gone):
        used = tuple(
            f"{step.namespace}/{cron.name}" for cron in facts.crons.get(step.namespace, ()) if each in cron.uses
        )
        if used:
            cure = (
                "argo convert, while the controller is of v3.6 or v3.7, which know both"
                if forward
                else ("write spec.schedule, in place of schedules, before going back")
            )
            effect = "stop" if each.startswith("schedule") else "lose their lock"
            message = f"CronWorkflows use {each}, which {step.move.after} does not know: they {effect}"
            yield Told(Severity.REFUSE, message, cure, used)


def _templates_unread(step: Step, facts: Facts) -> Iterator[Told]:
    """Say that the same fields stand where the operator has no right to read."""
    del facts
    if step.reaches((4, 0, 0)):
        yield Told(
            Severity.REMARK,
            "v4.0 took mutex, semaphore and podPriority away, and WorkflowTemplates, ClusterWorkflowTemplates and "
            "Workflows are not looked into",
            "argo lint with the CLI of the new version; argo convert writes them anew",
        )


def _database_migration(step: Step, facts: Facts) -> Iterator[Told]:
    """Find databases: who leads migrates them at its start, and ends where that fails (docs/workflow-archive.md)."""
    del facts
    if not step.another_branch or step.down:
        return
    for part in ("persistence", "synchronization"):
        config = paths.mapping(step.move.values, "config", part)
        if not any(database in config for database in ("postgresql", "mysql")):
            continue
        if config.get("skipMigration") is True:
            yield Told(
                Severity.REMARK,
                f"config.{part} has a database and skipMigration: no child brings its schema to {step.move.after}",
                "migrate it before: with one child that does, or by hand (docs/database-migrations.md of Argo)",
            )
            continue
        slow = " (rewriting a PostgreSQL archive as jsonb locks it: long above 100,000 rows)"
        yield Told(
            Severity.ONE_FIRST,
            f"config.{part} has a database, which each child brings to the schema of {step.move.after} at its start"
            f"{slow if part == 'persistence' and step.reaches((3, 6, 0)) else ''}",
            f"a first wave of one namespace, then config.{part}.skipMigration: true for the others",
        )


def _distance(step: Step, facts: Facts) -> Iterator[Told]:
    """Find jumps: upstream describes steps from one branch to the next alone (docs/upgrading.md)."""
    del facts
    if step.before is None or step.after is None or not {step.before[:2], step.after[:2]} <= set(BRANCHES):
        return
    far = abs(BRANCHES.index(step.after[:2]) - BRANCHES.index(step.before[:2]))
    if far > 1:
        yield Told(
            Severity.REMARK,
            f"{step.move.before} to {step.move.after} skips {far - 1} branch{'es' * (far > 2)}: what is known of each "
            "step is told here, of all together nothing is known",
            "go from one branch to the next, or try it on one namespace first",
        )


def _downgrade(step: Step, facts: Facts) -> Iterator[Told]:
    """Find ways back: upstream describes upgrades alone."""
    del facts
    if step.down and step.another_branch:
        yield Told(
            Severity.REMARK,
            f"{step.move.before} to {step.move.after} goes back: nobody promises that what the newer one wrote is read",
            "try it on one namespace first",
        )


def _version_unknown(step: Step, facts: Facts) -> Iterator[Told]:
    """Say what this table does not know: it is as old as the release it came with."""
    del facts
    for told, parsed in ((step.move.before, step.before), (step.move.after, step.after)):
        if told and (parsed is None or parsed[:2] not in BRANCHES) and step.moves:
            newest = ".".join(map(str, BRANCHES[-1]))
            yield Told(
                Severity.REMARK,
                f"nothing is known here of {told}: the table goes from v{'.'.join(map(str, BRANCHES[0]))} to v{newest}",
                "read Argo's upgrading guide",
            )


def _metrics_tls(step: Step, facts: Facts) -> Iterator[Told]:
    """Find metrics that begin to be served with TLS (docs/upgrading.md, 3.6)."""
    del facts
    told = paths.mapping(step.move.values, "metrics"), paths.mapping(step.move.values, "config", "metricsConfig")
    if step.reaches((3, 6, 0)) and all(each.get("secure") is None for each in told):
        yield Told(
            Severity.REMARK,
            "from v3.6 on metrics come with TLS, by a certificate that nobody can verify, and some have new names",
            "set metrics.secure, and look through dashboards and alerts",
        )


def _skipped_outputs(step: Step, facts: Facts) -> Iterator[Told]:
    """Find two patch releases that changed what expressions may refer to (release notes 3.7.16, 4.0.7)."""
    del facts
    if not _fails_skipped(step.after) or _fails_skipped(step.before) or step.before is None or step.down:
        return
    yield Told(
        Severity.REMARK,
        f"{step.move.after} fails Workflows that use outputs of skipped nodes, or expressions that give nil",
        "give such parameters a default",
    )


def _fails_skipped(version: Version | None) -> bool:
    return version is not None and any(first <= version and version[:2] == first[:2] for first in _SKIPPED_OUTPUTS)


def _is_old(version: Version | None) -> bool:
    return version is not None and version < (4, 0, 0)


_ROWS: Final[tuple[tuple[Cause, _Check], ...]] = (
    (Cause.DEFINITION_MISSING, _definition_missing),
    (Cause.DEFINITIONS_FULL, _definitions_full),
    (Cause.DEFINITIONS_UNREAD, _definitions_unread),
    (Cause.STATUS_UNREADABLE, _status_unreadable),
    (Cause.FIELDS_REMOVED, _fields_removed),
    (Cause.OFFLOADED_NODES, _offloaded_nodes),
    (Cause.EXECUTOR_JUMP, _executor_jump),
    (Cause.DATABASE_MIGRATION, _database_migration),
    (Cause.DOWNGRADE, _downgrade),
    (Cause.BRANCHES_SKIPPED, _distance),
    (Cause.VERSION_UNKNOWN, _version_unknown),
    (Cause.METRICS_TLS, _metrics_tls),
    (Cause.SKIPPED_OUTPUTS, _skipped_outputs),
    (Cause.TEMPLATES_UNREAD, _templates_unread),
)
