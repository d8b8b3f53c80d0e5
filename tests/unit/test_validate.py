"""`metaoperator validate`: what is recognised, what is found, where it is told to be, and how it ends."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaoperator.core import grants, strictyaml
from tests.unit.builders import SHIPPED, object_text, write_set
from tests.unit.test_cli import Run, run, write

__all__ = ["run"]


NO_SCHEMA = (
    f"{SHIPPED / 'template.yaml'}: note: not checked against a schema: monitoring.coreos.com/v1 PodMonitor "
    "(its fields are known to the cluster alone: metaoperator diff asks it)"
)
"""What is told of the shipped set, whenever it is looked at."""


def lines(run: Run, *args: object, code: int = 1) -> list[str]:
    """Run it, hold it to an exit code, and return what was found, a line each; `NO_SCHEMA` is no news."""
    ran = run("validate", *args)
    assert (ran.code, ran.err) == (code, "")
    return [line for line in ran.out.splitlines()[:-1] if line != NO_SCHEMA]


def only(run: Run, *args: object, code: int = 1) -> str:
    """Return the one finding."""
    (line,) = lines(run, *args, code=code)
    return line


# What is shipped


def test_what_is_shipped_is_fine(run: Run) -> None:
    """Sets, the fleet bundle and the golden examples: one note, of a kind without a schema, also with `--strict`."""
    root = SHIPPED.parents[1]
    for args in ((), (root / "templates", root / "manifests")):
        ran = run("validate", "--strict", *args)
        assert (ran.code, ran.out.splitlines()[:-1]) == (0, [NO_SCHEMA])


def test_each_kind_without_a_schema_is_noted(run: Run, tmp_path: Path) -> None:
    """By name and sorted, also when nothing of it is rendered; a kind of Kubernetes is none."""
    kinds = [("example.com/v1", "Widget"), ("v1", "ConfigMap"), ("example.com/v1", "Gadget")]
    about = "kinds:\n" + "".join(f"  - apiVersion: {api}\n    kind: {kind}\n" for api, kind in kinds)
    folder = write_set(tmp_path / "sets" / "mine", template_yaml=about)
    told = [line for line in run("validate", folder).out.splitlines() if "not checked" in line]
    assert [line.split(" (")[0] for line in told] == [
        f"{folder / 'template.yaml'}: note: not checked against a schema: example.com/v1 {kind}"
        for kind in ("Gadget", "Widget")
    ]


@pytest.mark.parametrize("case", sorted((SHIPPED.parents[1] / "tests" / "golden").glob("*/namespace.yaml")))
def test_the_golden_examples_are_fine(run: Run, case: Path) -> None:
    """As values of the fleet and of a namespace, and the Namespace as a manifest."""
    options: list[object] = []
    for name, option in (("fleet.yaml", "--fleet-values"), ("values.yaml", "--values")):
        if (case.parent / name).exists():
            options += [option, case.parent / name]
    assert lines(run, case, *options, code=0) == []


def test_it_needs_neither_kopf_nor_a_kubernetes_client() -> None:
    """It is used in commit hooks."""
    code = (
        "import sys\nfrom metaoperator import cli\n"
        "sys.argv = ['metaoperator', 'validate']\n"
        "try:\n    cli.main()\nexcept SystemExit as exc:\n    assert not exc.code\n"
        "heavy = {'kopf', 'kubernetes', 'aiohttp', 'asyncio', 'prometheus_client'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


# A set at fault

FAULTS: dict[str, tuple[dict[str, str], str]] = {
    "syntax": ({"one_yaml_j2": "a\n{{\n"}, "one.yaml.j2:2: error: unexpected 'end of template'"),
    "undefined": (
        {"one_yaml_j2": object_text("# {{ workflow.name }}\n")},
        "one.yaml.j2:5: error: 'workflow' is undefi",
    ),
    "values against the schema": (
        {"values_yaml": "# x\nb: 1\na: x\n", "values_schema_json": '{"properties": {"a": {"type": "integer"}}}'},
        "values.yaml:3: error: values.a: ",
    ),
    "a path that leads nowhere": (
        {"template_yaml": "kinds: [{apiVersion: v1, kind: ConfigMap}]\nnamespaceValues: [a, b.c]\n"},
        "template.yaml: error: namespaceValues: b.c leads nowhere",
    ),
    "a kind that is not declared": (
        {"one_yaml_j2": object_text().replace("ConfigMap", "Service")},
        "one.yaml.j2:2: error: kind: v1 Service is not among the kinds",
    ),
    "another namespace": (
        {"one_yaml_j2": object_text("  namespace: other\n")},
        "one.yaml.j2:5: error: metadata.namespace: the object is for namespace 'other', not for 'team-a'",
    ),
    "a missing file": ({}, "values.yaml: error: is missing"),
    "not text": (
        {"one_yaml_j2": object_text("  labels: {a: 1}\n")},
        "one.yaml.j2:5: error: metadata.labels.a: is not text",
    ),
    "a field that Kubernetes does not know": (
        {"one_yaml_j2": object_text("dta: {a: b}\n")},
        "one.yaml.j2:5: error: dta: is no field that Kubernetes knows (did you mean data?)",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_of_a_set_is_told_once_with_its_place(run: Run, tmp_path: Path, case: str) -> None:
    """As file:line, whichever way the set is named, and not once more for each namespace that is tried."""
    texts, told = FAULTS[case]
    folder = write_set(tmp_path / "sets" / "mine", **texts)
    if case == "a missing file":
        (folder / "values.yaml").unlink()
    ways = [folder, folder.parent, tmp_path, folder / "one.yaml.j2", folder / "template.yaml"]
    for way in ways:
        (line, *more) = lines(run, way)
        assert line.startswith(f"{folder}/{told}")
        assert all(
            re.search("declared, and no template renders one|looks like an Argo variable", each) for each in more
        )
    assert f"{folder}/{told}" in run("validate", "--templates", folder.parent).out


def test_what_is_suspicious_is_a_warning(run: Run, tmp_path: Path) -> None:
    """A placeholder without quotes renders for most namespaces: told with its line and cure, and no error by itself."""
    folder = write_set(tmp_path / "mine", one_yaml_j2=object_text("data:\n  a: {{ 'x' }}\n  b: x{{ values.a }}\n"))
    assert lines(run, folder, code=0) == []
    (folder / "one.yaml.j2").write_text(object_text("data:\n  a: {{ namespace.uid }}\n"))
    told = only(run, folder, code=0)
    assert told.startswith(f"{folder}/one.yaml.j2:6: warning: a placeholder without quotes: ")
    assert told.endswith("(write it with the filter q: `a: {{ … | q }}`)")


def test_all_faults_are_told_at_once_and_sorted(run: Run, tmp_path: Path) -> None:
    """Two sets, data and templates; one that cannot be loaded keeps nothing else from being looked at."""
    write_set(tmp_path / "a", values_yaml="x: [\n", template_yaml="kinds: 1\n")
    write_set(
        tmp_path / "b",
        one_yaml_j2=object_text("# {{ nope }}\n"),
        two_yaml_j2=object_text("# {{ nope }}\n", name="two"),
    )
    (tmp_path / "c").mkdir()
    files = [line.partition(": ")[0].removeprefix(f"{tmp_path}/") for line in lines(run, tmp_path)]
    assert files == ["a/template.yaml", "a/values.yaml:2", "b/one.yaml.j2:5", "b/two.yaml.j2:5", "c/template.yaml"]


def test_a_fault_that_only_odd_names_show_names_one(run: Run, tmp_path: Path) -> None:
    """A namespace `42` is a number where nobody quotes it, and is told; ordinary names are not."""
    folder = write_set(tmp_path / "mine", one_yaml_j2=object_text("  labels: {a: {{ namespace.name }}}\n"))
    number, nothing = (
        f"{folder}/one.yaml.j2:5: error: namespace {name} metadata.labels.a: is" for name in ("42", "null")
    )
    told = lines(run, folder)
    assert any(line.startswith(f"{number} not text but 42") for line in told)
    assert any(line.startswith(f"{nothing} null") for line in told)
    assert not any("namespace on " in line for line in told)


def test_labels_and_annotations_that_are_no_identifiers_are_tried(run: Run, tmp_path: Path) -> None:
    """Text that looks like a number stays text only where it is quoted."""
    text = object_text("  labels: {a: {{ namespace.labels.team | default('x') }}}\n")
    folder = write_set(tmp_path / "mine", one_yaml_j2=text)
    assert any(
        line.startswith(f"{folder}/one.yaml.j2:5: error: namespace team-b metadata.labels.a: is not text")
        for line in lines(run, folder)
    )


def test_the_instance_id_is_read_as_the_child_reads_it(run: Run, tmp_path: Path) -> None:
    """YAML 1.1: without quotes a namespace `on` gets another ID, and serves nobody."""
    deployment = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: x\n"
        "spec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n"
        "      containers:\n"
        "        - name: c\n          image: i\n          command: [workflow-controller]\n"
        "          args: [--configmap=one]\n"
    )
    config = object_text("data:\n  config: {{ ('instanceID: ' ~ shard.instance_id) | q }}\n")
    kinds = "kinds: [{apiVersion: v1, kind: ConfigMap}, {apiVersion: apps/v1, kind: Deployment}]\n"
    folder = write_set(tmp_path / "mine", template_yaml=kinds, one_yaml_j2=config, two_yaml_j2=deployment)
    assert any("the child reads instanceID None from ConfigMap one, not 'null'" in line for line in lines(run, folder))
    (folder / "one.yaml.j2").write_text(config.replace("~ shard.instance_id", "~ (shard.instance_id | q)"))
    assert not any("instanceID" in line for line in run("validate", folder).out.splitlines())
    (folder / "two.yaml.j2").write_text(deployment.replace("=one", "=other"))
    assert any("reads ConfigMap other, which the set does not render" in line for line in lines(run, folder))


def test_a_kind_that_nothing_renders_is_a_warning(run: Run, tmp_path: Path) -> None:
    """Exit code 0, and 1 with `--strict`; not for what a value switches on."""
    kinds = "kinds: [{apiVersion: v1, kind: ConfigMap}, {apiVersion: v1, kind: Service}]\n"
    folder = write_set(tmp_path / "mine", template_yaml=kinds)
    told = f"{folder}/template.yaml: warning: v1 Service is declared, and no template renders one"
    assert only(run, folder, code=0).startswith(told)
    assert only(run, folder, "--strict", code=1).startswith(told)
    (folder / "two.yaml.j2").write_text("{% if false %}\nkind: Service\n{% endif %}\n")
    assert lines(run, folder, "--strict", code=0) == []


STRANGE = {
    "a list for a spec": "spec: [a]\n",
    "a text for a spec": "spec: a\n",
    "a text for a template": "spec: {template: a}\n",
    "a list for a template": "spec: {template: {spec: [a], metadata: [b]}}\n",
    "texts for containers": "spec: {template: {spec: {containers: [a], serviceAccountName: 1}}}\n",
    "numbers for arguments": "spec: {template: {spec: {containers: [{args: 1, command: {a: b}}]}}}\n",
    "a text for a role": "roleRef: a\nrules: b\nsubjects: c\n",
    "a list for rules": "rules: [a]\nroleRef: [b]\n",
    "a text for data": "data: a\nbinaryData: [b]\nselector: c\nports: d\n",
}


@pytest.mark.parametrize("kind", ["Deployment", "RoleBinding", "Role", "ConfigMap", "Service", "Thing"])
@pytest.mark.parametrize("rest", STRANGE.values(), ids=STRANGE)
def test_a_strangers_kind_may_hold_anything(run: Run, tmp_path: Path, kind: str, rest: str) -> None:
    """Also one that is called as one of Kubernetes' own is: its fields mean nothing to us."""
    foreign = f"kinds: [{{apiVersion: example.com/v1, kind: {kind}}}]\n"
    text = f"apiVersion: example.com/v1\nkind: {kind}\nmetadata:\n  name: one\n{rest}"
    folder = write_set(tmp_path / "mine", template_yaml=foreign, one_yaml_j2=text)
    assert not [line for line in lines(run, folder, code=0) if "error" in line]


def test_rights_that_nobody_granted_are_noted_with_their_rules(run: Run, tmp_path: Path) -> None:
    """Kinds, Roles of its own and ClusterRoles that it binds; what the operator is installed with is no news."""
    rbac = "rbac.authorization.k8s.io"
    role = (
        f"apiVersion: {rbac}/v1\nkind: Role\nmetadata:\n  name: r\n"
        "rules: [{apiGroups: [batch], resources: [jobs], verbs: [get]}]\n"
    )
    binding = (
        f"apiVersion: {rbac}/v1\nkind: RoleBinding\nmetadata:\n  name: b\n"
        f"roleRef: {{apiGroup: {rbac}, kind: ClusterRole, name: admin}}\nsubjects: []\n"
    )
    kinds = f"kinds: [{{apiVersion: {rbac}/v1, kind: Role}}, {{apiVersion: {rbac}/v1, kind: RoleBinding}}]\n"
    folder = write_set(tmp_path / "mine", template_yaml=kinds, one_yaml_j2=role, two_yaml_j2=binding)
    line = only(run, folder, "--strict", code=0)
    assert line.startswith(f"{folder}/template.yaml: note: the operator is not installed with the rights")
    rules = json.loads(line[line.index("[") : line.rindex("]") + 1])
    assert rules == [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]},
        {"apiGroups": [rbac], "resources": ["clusterroles"], "resourceNames": ["admin"], "verbs": ["bind"]},
        {
            "apiGroups": [rbac],
            "resources": ["roles"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        },
    ]


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("ConfigMap", "configmaps"),
        ("NetworkPolicy", "networkpolicies"),
        ("Ingress", "ingresses"),
        ("PodMonitor", "podmonitors"),
        ("Gateway", "gateways"),
    ],
)
def test_a_resource_is_named_as_the_api_server_names_it(kind: str, plural: str) -> None:
    """As permissions name it."""
    assert grants.plural(kind) == plural


def test_two_sets_of_one_name_are_told(run: Run, tmp_path: Path) -> None:
    """The later one is used, as in `run`."""
    folder = write_set(tmp_path / "a" / "mine")
    other = write_set(tmp_path / "b" / "mine")
    line = only(run, folder, other, code=0)
    assert line.startswith(f"{other}: warning: is used in place of {folder}, which has the same name")
    assert lines(run, folder, folder, code=0) == []


# Hostile folders


def test_hostile_folders_are_told_or_passed_by(run: Run, tmp_path: Path) -> None:
    """Loops of links, devices, binaries, endless files, sockets of YAML: a sentence each, and it ends."""
    folder = write_set(tmp_path / "sets" / "mine")
    (folder / "loop.yaml.j2").symlink_to("loop.yaml.j2")
    (folder / "zero.yaml.j2").symlink_to("/dev/zero")
    (folder / "binary.yaml.j2").write_bytes(bytes(range(256)))
    (folder / "again").symlink_to(tmp_path)
    (tmp_path / "sets" / "loop").symlink_to(tmp_path / "sets")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "loop").symlink_to(tmp_path)
    (tmp_path / "other" / "big.yaml").write_bytes(b"a: " + b"x" * 10_000_000)
    told = "\n".join(lines(run, tmp_path))
    for each in (
        "binary.yaml.j2: error: cannot be read: byte",
        "loop.yaml.j2: error: ",
        "zero.yaml.j2: error: cannot be read",
    ):
        assert f"mine/{each}" in told
    assert "sets/loop/template.yaml: error: is missing" in told
    assert "big.yaml: error: is longer than" in told


@pytest.mark.parametrize("name", ["empty", "empty/README.md", "empty/notes.yaml"])
def test_what_is_nothing_of_ours_is_told_where_it_is_named(run: Run, tmp_path: Path, name: str) -> None:
    """An empty folder is no success: what was to be looked at is somewhere else."""
    (tmp_path / "empty").mkdir()
    path = tmp_path / name
    if name != "empty":
        write(path, "- just\n- a list\n")
    assert only(run, path).startswith(f"{path}: error: holds neither ")


# Values


@pytest.mark.parametrize("option", ["--fleet-values", None])
def test_values_of_the_fleet_are_tried_with_every_name(run: Run, tmp_path: Path, option: str | None) -> None:
    """As an option or as a path; each fault once, with the line in the file that sets the value."""
    path = write(tmp_path / "fleet.yaml", "# mine\nworkers:\n  ttl: none\nlog:\n  level: loud\n")
    found = lines(run, *([option] if option else []), path)
    assert [line.split(": ")[:3] for line in found] == [
        [f"{path}:3", "error", "values.workers.ttl"],
        [f"{path}:5", "error", "values.log.level"],
    ]


def test_values_of_a_namespace_are_held_to_what_it_may_set(run: Run, tmp_path: Path) -> None:
    """Also on top of each file of the fleet."""
    path = write(tmp_path / "own.yaml", "images: {controller: evil}\n")
    line = only(run, "--values", path)
    assert line.startswith(f"{path}:1: error: spec.values: images.controller is not a namespace's to set")
    fleet = write(tmp_path / "fleet.yaml", "log: {level: debug}\n")
    assert len(lines(run, "--values", path, "--fleet-values", fleet)) == 1


def test_values_belong_to_the_set_that_is_named(run: Run, tmp_path: Path) -> None:
    """The one of PATH, or of `--set`, or the shipped one."""
    schema = '{"properties": {"a": {"type": "integer"}}, "additionalProperties": false}'
    folder = write_set(tmp_path / "sets" / "mine", values_schema_json=schema)
    path = write(tmp_path / "fleet.yaml", "a: 2\n")
    assert lines(run, folder, "--fleet-values", path, code=0) == []
    assert lines(run, "--templates", tmp_path / "sets", "--set", "mine", path, code=0) == []
    assert "additional properties" in only(run, path).lower()
    assert run("validate", "--set", "gold", path).code == 2


# Manifests

SOURCE = "spec:\n  source: {directory: workflow-controller}\n"


def manifest(kind: str, rest: str, *, name: str = "default", api: str = "metaoperator.dev/v1alpha1") -> str:
    """Write a manifest."""
    return f"apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n{rest}"


def row(rest: str = "", name: str = "workflow-controller") -> str:
    """Write a WorkflowController."""
    return manifest("WorkflowController", "  namespace: team-a\n" + rest, name=name)


def labelled(value: str, name: str = "team-a") -> str:
    """Write a labelled Namespace."""
    label = f"  labels:\n    metaoperator.dev/workflow-controller: {value}\n"
    return manifest("Namespace", label, name=name, api="v1")


MANIFESTS: dict[str, tuple[str, list[str]]] = {
    "a whole fleet": (
        "---\n".join([manifest("ControllerTemplate", SOURCE), labelled("enabled"), row("spec: {}\n")]),
        [],
    ),
    "somebody else's": ("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n", []),
    "somebody else's, with anchors and tags": ("a: &x 1\nb: *x\nc: !Ref d\n", ["1: error: "]),
    "values of a ControllerTemplate": (
        manifest("ControllerTemplate", SOURCE + "  values:\n    log: {level: loud}\n"),
        ["8: error: ControllerTemplate/default values.log.level: "],
    ),
    "a set that is not there": (
        manifest("ControllerTemplate", "spec:\n  source: {directory: gold}\n", name="gold"),
        ["6: error: ControllerTemplate/gold spec.source.directory: there is no template set gold"],
    ),
    "a set that is no text": (
        manifest("ControllerTemplate", "spec:\n  source: {directory: 1}\n"),
        ["6: error: ControllerTemplate/default spec.source.directory: "],
    ),
    "a patch of values": (
        manifest("ControllerTemplate", "spec:\n  values: {version: latest}\n"),
        [
            "5: note: ControllerTemplate/default spec: has no spec.source",
            "6: error: ControllerTemplate/default values.ver",
        ],
    ),
    "what a namespace may not set": (
        row("spec:\n  values:\n    images: {controller: evil}\n"),
        ["7: error: WorkflowController/team-a/workflow-controller spec.values: images.controller is not a namespace's"],
    ),
    "another name": (row("spec: {}\n", name="mine"), ["4: error: WorkflowController/team-a/mine metadata.name: "]),
    "another instance ID": (
        row("spec: {instanceID: other}\n"),
        ["6: note: WorkflowController/team-a/workflow-controller spec.instanceID: spec.instanceID is 'other'"],
    ),
    "a label that is no text": (labelled("true"), ["6: error: Namespace/team-a metadata.labels."]),
    "a system namespace": (labelled("enabled", "kube-system"), ["6: error: Namespace/kube-system metadata.labels."]),
    "a rollout that cannot be followed": (
        manifest(
            "ControllerTemplate",
            SOURCE
            + "  rollout:\n    waves:\n      - {name: a, percent: 5}\n      - {name: a, percnt: 5}\n"
            + "    windows: [{cron: 0 25 * * *, duration: 6h, timeZone: Europe/Berln}]\n",
        ),
        [
            "10: error: ControllerTemplate/default spec.rollout.waves.1: must have either a selector or a percent",
            "10: error: ControllerTemplate/default spec.rollout.waves.1.name: a is the name of two waves",
            "10: error: ControllerTemplate/default spec.rollout.waves.1.percnt: is no field of it",
            "11: error: ControllerTemplate/default spec.rollout.windows.0.cron: is no cron expression",
            "11: error: ControllerTemplate/default spec.rollout.windows.0.timeZone: is no time zone",
        ],
    ),
    "an unknown ControllerTemplate": (labelled("gold"), ["6: note: Namespace/team-a metadata.labels."]),
    "no name": ("apiVersion: metaoperator.dev/v1alpha1\nkind: ControllerTemplate\n", ["1: error: metadata: "]),
    "nothing at all": (
        "apiVersion: metaoperator.dev/v1alpha1\nkind: ControllerTemplate\nmetadata: []\nspec: x\n",
        ["3: error: metadata: ControllerTemplate has no name"],
    ),
    "values that are no mapping": (
        manifest("ControllerTemplate", SOURCE + "  values: 1\n"),
        ["7: error: ControllerTemplate/default spec.values: spec.values is not a mapping"],
    ),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_manifests_are_judged_with_the_sets_that_they_name(run: Run, tmp_path: Path, case: str) -> None:
    """Each finding with its line, its object and the path in it; notes alone are no failure."""
    text, told = MANIFESTS[case]
    path = write(tmp_path / "all.yaml", text)
    code = 1 if any("error" in each for each in told) else 0
    found = lines(run, path, code=code)
    assert len(found) == len(told)
    for line, start in zip(found, told, strict=True):
        assert line.startswith(f"{path}:{start}")


def test_manifests_in_a_list_have_their_lines_too(run: Run, tmp_path: Path) -> None:
    """As `kubectl get -o yaml` writes them."""
    body = strictyaml.load(manifest("ControllerTemplate", SOURCE + "  values: {version: latest}\n"))
    shown = strictyaml.dump_plain({"apiVersion": "v1", "kind": "List", "items": [body]})
    path = write(tmp_path / "list.yaml", shown)
    number = next(n for n, line in enumerate(shown.splitlines(), 1) if "version: latest" in line)
    assert only(run, path).startswith(f"{path}:{number}: error: ControllerTemplate/default values.version: ")


def test_a_namespace_is_tried_with_the_values_that_it_gets(run: Run, tmp_path: Path) -> None:
    """Its label names the ControllerTemplate, whose values lie below its own; files are read together."""
    schema = '{"properties": {"a": {"type": "integer", "maximum": 5}}}'
    folder = write_set(
        tmp_path / "sets" / "mine",
        values_schema_json=schema,
        template_yaml="kinds: [{apiVersion: v1, kind: ConfigMap}]\nnamespaceValues: [a]\n",
    )
    more = tmp_path / "manifests"
    more.mkdir()
    text = manifest("ControllerTemplate", "spec:\n  source: {directory: mine}\n", name="gold")
    write(more / "a.yaml", text)
    write(more / "b.yaml", labelled("gold"))
    path = write(more / "c.yaml", row("spec:\n  values: {a: 9}\n"))
    line = only(run, folder, more)
    assert line.startswith(f"{path}:7: error: WorkflowController/team-a/workflow-controller values.a: ")


# How it is told


def test_json_is_a_list_of_seven_fields(run: Run, tmp_path: Path) -> None:
    """The shape that is documented, also where nothing is amiss."""
    path = write(tmp_path / "fleet.yaml", "log: {level: loud}\n")
    ran = run("validate", path, "-o", "json")
    (found,) = json.loads(ran.out)
    assert ran.code == 1
    assert list(found) == ["file", "line", "object", "path", "what", "cure", "severity"]
    assert {key: found[key] for key in ("file", "line", "path", "severity")} == {
        "file": str(path),
        "line": 1,
        "path": "values.log.level",
        "severity": "error",
    }
    (note,) = json.loads(run("validate", "-o", "json").out)
    assert (note["severity"], note["path"], note["line"]) == ("note", "", None)
    assert note["what"] == "not checked against a schema: monitoring.coreos.com/v1 PodMonitor"


def test_a_relative_path_is_told_as_it_was_given(tmp_path: Path) -> None:
    """Editors and hooks know files by it."""
    write_set(tmp_path / "sets" / "mine", one_yaml_j2="{{\n")
    command = [sys.executable, "-m", "metaoperator", "validate"]
    for path, told in (
        ("sets", "sets/mine/one.yaml.j2:"),
        (".", "sets/mine/one.yaml.j2:"),
        ("sets/mine", "sets/mine/o"),
    ):
        done = subprocess.run([*command, path], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stdout.startswith(told)
    done = subprocess.run([*command, "."], cwd=tmp_path / "sets" / "mine", capture_output=True, text=True, check=False)
    assert done.stdout.startswith("one.yaml.j2:")


@given(st.binary(max_size=200))
def test_any_file_ends_in_findings(content: bytes) -> None:
    """Whatever stands in a file that is named, it is judged, and nothing is raised."""
    import tempfile

    from metaoperator import inputs
    from metaoperator.declared import Declared
    from metaoperator.validation import Judge

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.yaml"
        path.write_bytes(content)
        found = inputs.read([path])
        declared = Declared(Judge())
        declared.read(found.documents)
        assert list(declared.judged()) + found.findings + found.values


def test_the_files_of_a_commit_are_taken_as_a_hook_names_them(run: Run, tmp_path: Path) -> None:
    """Several files of one set are that set, once; files beside it are what they are."""
    folder = write_set(tmp_path / "sets" / "mine", one_yaml_j2="{{\n")
    files = sorted(folder.iterdir())
    assert len(lines(run, *files)) == 1
