"""Sets in ConfigMaps: what is put together, whose fault is whose, and what the examples come to."""

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from metaoperator import packed, sources
from metaoperator.core import names
from metaoperator.core.errors import TemplateError
from tests.cluster import places
from tests.unit.builders import SHIPPED, write_set
from tests.unit.test_cli import Run, run

__all__ = ["run"]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "gitops"


def texts(tmp_path: Path, **files: str) -> dict[str, str]:
    """Write a set, and read its files."""
    return sources.texts(write_set(tmp_path / "mine", **files))


def faults(found: packed.Found) -> list[str]:
    """Tell what is wrong."""
    with pytest.raises(TemplateError) as caught:
        packed.program("mine", found)
    return [str(problem) for problem in caught.value.problems]


def test_a_set_in_configmaps_is_the_set_of_the_folder(tmp_path: Path) -> None:
    """However its files are spread, and what else is there: the same digest, so no rollout."""
    files = texts(tmp_path)
    split = {"a": {"data": {"values.yaml": files["values.yaml"], "README.md": "x"}}, "b": {"data": dict(files)}}
    del split["b"]["data"]["values.yaml"]
    found = packed.program("mine", split)
    assert found.template_set == sources.template_set(tmp_path / "mine")
    assert packed.program("mine", {"a": {"data": files}}, found) is found
    assert packed.program("mine", {"a": {"data": {**files, "two.yaml.j2": ""}}}, found) is not found


def test_every_fault_is_told_at_once_with_its_configmap(tmp_path: Path) -> None:
    """One look at the message is enough."""
    files = texts(tmp_path)
    binary = {"x.yaml.j2": base64.b64encode(b"\xff").decode(), "y.j2": "!", "z.j2": "YQ==", "logo.png": "!"}
    told = faults({"a": {"data": files}, "b": None, "c": {}, "d": {"data": {"values.yaml": ""}, "binaryData": binary}})
    assert [each.partition(" (")[0] for each in told] == [
        "b: is not there",
        "c: is empty",
        "d: holds values.yaml, and so does a",
        "d/x.yaml.j2: cannot be read: byte 1 is not UTF-8",
        "d/y.j2: cannot be read: it is not base64",
        "d/z.j2: stands in binaryData",
    ]


def test_faults_of_files_are_told_where_the_file_is(tmp_path: Path) -> None:
    """Data files and templates alike; what no ConfigMap holds is told of all."""
    files = texts(tmp_path, one_yaml_j2="a: {{\n", values_yaml="a: [")
    broken = {"a": {"data": {"values.yaml": files.pop("values.yaml")}}, "b": {"data": files}}
    assert faults(broken)[0].startswith("a/values.yaml:")
    broken["a"]["data"]["values.yaml"] = "a: 1\n"
    assert faults(broken)[0].startswith("b/one.yaml.j2:")
    del files["values.schema.json"]
    assert faults(broken)[0] == "a, b: values.schema.json is missing"


def test_a_set_that_could_not_be_recorded_is_refused(tmp_path: Path) -> None:
    """By its size when compressed: what is a text of any length can be small."""
    files = texts(tmp_path)
    noise = json.dumps([(index * 2654435761) % 2**32 for index in range(250_000)])
    small = "x" * 1_400_000
    assert packed.program(
        "mine", {"a": {"data": files}, "b": {"data": {"more.schema.json": f'{{"title": "{small}"}}'}}}
    )
    (told,) = faults({"a": {"data": files}, "b": {"data": {"more.schema.json": f'{{"enum": {noise}}}'}}})
    assert "compressed, over the limit of 921600" in told


@pytest.mark.parametrize("version", [("1", "2"), ("1", None)])
def test_configmaps_of_two_versions_are_not_taken(tmp_path: Path, version: tuple[str | None, str | None]) -> None:
    """Where one says which, all do."""
    files = texts(tmp_path)
    rest = {"one.yaml.j2": files.pop("one.yaml.j2")}

    def of(data: dict[str, str], said: str | None) -> dict[str, Any]:
        return {"data": data, "metadata": {"annotations": {names.SET_VERSION_ANNOTATION: said} if said else None}}

    assert packed.program("mine", {"a": of(files, "1"), "b": of(rest, "1")})
    (told,) = faults({"a": of(files, version[0]), "b": of(rest, version[1])})
    assert told.startswith(f"{names.SET_VERSION_ANNOTATION}: differs: a 1, b {version[1] or 'none'}")


def test_a_bundle_with_one_object_twice_is_refused(run: Run, tmp_path: Path) -> None:
    """R09: the last one wins where it is applied, and an empty one would take the place of the good one."""
    source = {"source": {"configMap": {"names": ["mine"]}}}
    template = {"apiVersion": names.API_VERSION, "kind": "ControllerTemplate", "metadata": {"name": "mine"}}
    one = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": texts(tmp_path)}
    bundle = tmp_path / "bundle.yaml"
    bundle.write_text(yaml.safe_dump_all([template | {"spec": source}, one, {**one, "data": {}}]))
    ran = run("validate", bundle)
    assert ran.code == 1
    assert "ConfigMap/mine metadata: is there twice, first on line" in ran.out
    assert "ConfigMap/mine: is empty" in ran.out
    bundle.write_text(yaml.safe_dump_all([template | {"spec": source}, one]))
    assert run("validate", bundle).code == 0
    bundle.write_text(yaml.safe_dump_all([template | {"spec": source}, one, template | {"spec": source}]))
    assert "ControllerTemplate/mine metadata: is there twice" in run("validate", bundle).out


# ---- the examples


def fleet(tmp_path: Path) -> Path:
    """Copy the example and the shipped set, as docs/gitops.md says."""
    shutil.copytree(EXAMPLES / "kustomize", tmp_path / "fleet")
    shutil.copytree(SHIPPED, tmp_path / "fleet" / "set", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "fleet"


def test_the_example_lists_every_file_of_the_shipped_set() -> None:
    """One that is forgotten would be missing from the cluster."""
    kustomization = yaml.safe_load((EXAMPLES / "kustomize" / "kustomization.yaml").read_text())
    listed = [file for each in kustomization["configMapGenerator"] for file in each["files"]]
    assert sorted(listed) == [f"set/{path.name}" for path in sources.parts(SHIPPED)]


def test_the_example_is_valid_before_and_after_kustomize(run: Run, tmp_path: Path) -> None:
    """From the kustomization, whose files are read, and from what it comes to, with the suffix in the names."""
    folder = fleet(tmp_path)
    ran = run("validate", folder)
    assert ran.code == 0, ran.out
    assert "not among the files" not in ran.out
    (folder / "controllertemplate.yaml").write_text(
        (folder / "controllertemplate.yaml").read_text().replace("values: {}", "values: {metrics: 1}")
    )
    ran = run("validate", folder)
    assert ran.code == 1
    assert "controllertemplate.yaml" in ran.out
    assert "metrics" in ran.out


def kubectl() -> str:
    """Find one with kustomize in it."""
    found = shutil.which("kubectl") or next(map(str, places.cache().glob("tools/*/kubectl")), None)
    if found is None:
        pytest.skip("no kubectl here; `make cluster` builds one")
    return found


def built(folder: Path) -> list[dict[str, Any]]:
    """Build a kustomization."""
    ran = subprocess.run([kubectl(), "kustomize", folder], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return [each for each in yaml.safe_load_all(ran.stdout) if each]


def test_kustomize_makes_the_shipped_set_of_the_example(run: Run, tmp_path: Path) -> None:
    """The names carry the suffix on both sides, the files are byte for byte, and `validate` reads what comes out."""
    folder = fleet(tmp_path)
    objects = built(folder)
    maps = {each["metadata"]["name"]: each for each in objects if each["kind"] == "ConfigMap"}
    (template,) = [each for each in objects if each["kind"] == "ControllerTemplate"]
    assert sorted(template["spec"]["source"]["configMap"]["names"]) == sorted(maps)
    assert all(each["metadata"]["namespace"] == names.OPERATOR_NAMESPACE for each in maps.values())
    assert not {"fleet-templates", "fleet-values"} & set(maps)
    assert packed.program("fleet", maps).template_set.digest == sources.template_set(SHIPPED).digest
    whole = tmp_path / "built.yaml"
    whole.write_text(yaml.safe_dump_all(objects))
    assert run("validate", whole).code == 0
    whole.write_text(yaml.safe_dump_all([each for each in objects if each["kind"] != "ConfigMap"]))
    ran = run("validate", whole)
    assert ran.code == 0
    assert "is not among the files" in ran.out


@pytest.mark.parametrize("name", ["git-sync", "image-volume"])
def test_the_operators_overlays_build(name: str) -> None:
    """And give the operator a directory that it mounts."""
    (deployment,) = [each for each in built(EXAMPLES / name) if each["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    (operator,) = spec["containers"]
    (directory,) = [arg.removeprefix("--templates=") for arg in operator["args"] if arg.startswith("--templates=")]
    (mount,) = [each for each in operator["volumeMounts"] if directory.startswith(each["mountPath"])]
    assert mount["readOnly"]
    assert mount["name"] in {each["name"] for each in spec["volumes"]}


def test_the_gitops_controllers_examples_name_the_same_folder() -> None:
    """Flux prunes after it applied, Argo CD is told to."""
    flux = list(yaml.safe_load_all((EXAMPLES / "flux.yaml").read_text()))
    argocd = yaml.safe_load((EXAMPLES / "argocd.yaml").read_text())
    assert [each["kind"] for each in flux] == ["GitRepository", "Kustomization"]
    assert flux[1]["spec"]["sourceRef"] == {"kind": "GitRepository", "name": flux[0]["metadata"]["name"]}
    assert Path(flux[1]["spec"]["path"]) == Path(argocd["spec"]["source"]["path"])
    assert {"ServerSideApply=true", "PruneLast=true"} <= set(argocd["spec"]["syncPolicy"]["syncOptions"])
