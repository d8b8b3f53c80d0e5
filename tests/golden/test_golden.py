"""What a namespace gets from the shipped set: input beside output, one folder for each case.

`namespace.yaml` is the Namespace, `fleet.yaml` the ControllerTemplate's `spec.values`, `values.yaml` the
WorkflowController's; what is not there is empty. `GOLDEN=write` (or `make golden`) writes `expected.yaml`, and the
diff is what gets reviewed.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from metaoperator import sources
from metaoperator.core import names, shard, strictyaml, values
from metaoperator.core.model import Desired, Namespace
from metaoperator.core.render import Program

HERE = Path(__file__).parent
CASES = sorted(path.parent for path in HERE.glob("*/namespace.yaml"))
SET = sources.template_set(sources.shipped() / "workflow-controller")
PROGRAM = Program(SET)
HEADER = "# Written by `make golden`. Do not edit: change the template, the values or the input beside.\n"


def read(case: Path, name: str) -> dict[str, Any]:
    """Read one input of a case."""
    path = case / name
    return sources.values_file(path) if path.exists() else {}


def render(case: Path) -> Desired:
    """Render a case as the operator would."""
    namespace = Namespace.of(read(case, "namespace.yaml"))
    return PROGRAM.desired(
        namespace,
        shard.only_shard(namespace.name),
        template_name=names.DEFAULT_TEMPLATE,
        fleet_values=read(case, "fleet.yaml"),
        namespace_values=read(case, "values.yaml"),
    )


def only(kind: str, case: Path) -> Any:
    """Find the one document of a kind."""
    (found,) = [document for document in render(case).documents if document["kind"] == kind]
    return found


cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@cases
def test_a_namespace_gets_what_was_reviewed(case: Path) -> None:
    """A change of rendered bytes is seen in the diff of `expected.yaml`, and nowhere else."""
    shown = HEADER + "---\n".join(strictyaml.dump_plain(document) for document in render(case).documents)
    path = case / "expected.yaml"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(shown)
    assert path.read_text() == shown


@cases
def test_a_golden_file_is_the_objects_that_are_sent(case: Path) -> None:
    """What people review, read by any YAML reader, is what goes to the API server."""
    shown = list(yaml.safe_load_all((case / "expected.yaml").read_text()))
    assert shown == json.loads(json.dumps(render(case).documents))


@cases
def test_the_child_reads_the_instance_id_as_text(case: Path) -> None:
    """Read as Argo does, one YAML 1.1 document under the one key `config`: the ID is the namespace's name."""
    name = read(case, "namespace.yaml")["metadata"]["name"]
    data = only("ConfigMap", case)["data"]
    assert list(data) == ["config"]
    config = yaml.safe_load(data["config"])
    labels = config["workflowDefaults"]["spec"]["artifactGC"]["podMetadata"]["labels"]
    assert (config["instanceID"], labels[names.INSTANCE_ID_LABEL]) == (name, name)


@cases
def test_names_stay_text_for_every_reader(case: Path) -> None:
    """No name, label, annotation, argument or environment variable is a number, a boolean or nothing to a reader."""
    name = read(case, "namespace.yaml")["metadata"]["name"]
    for document in yaml.safe_load_all((case / "expected.yaml").read_text()):
        meta = document["metadata"]
        assert meta["namespace"] == name
        texts = [meta["name"], *meta["labels"].values(), *meta["annotations"].values()]
        for subject in document.get("subjects", ()):
            texts += [subject["name"], subject.get("namespace", "")]
        if document["kind"] == "Deployment":
            pod = document["spec"]["template"]
            (container,) = pod["spec"]["containers"]
            texts += [*pod["metadata"]["labels"].values(), *pod["metadata"]["annotations"].values(), *container["args"]]
            texts += [variable["value"] for variable in container.get("env", ()) if "value" in variable]
        assert all(isinstance(text, str) for text in texts)


def test_everything_set_sets_everything() -> None:
    """Each value of the set, and each key of Argo's configuration, that its version knows differs from its default."""
    layers = values.merge(read(HERE / "everything-set", "fleet.yaml"), read(HERE / "everything-set", "values.yaml"))
    schema: Any = SET.schema
    assert SET.argo_versions is not None
    later = {path for path, since in SET.argo_versions.since.items() if since > layers["version"]}
    assert set(layers) == set(schema["properties"]) - later
    for key in layers:
        default = SET.defaults[key]
        assert layers[key] != default
        if isinstance(default, dict) and "properties" in schema["properties"][key]:
            known = {name for name in schema["properties"][key]["properties"] if f"{key}.{name}" not in later}
            assert set(layers[key]) == known


def test_every_odd_name_has_a_case() -> None:
    """Names that YAML takes for something else, and the longest there is."""
    found = {read(case, "namespace.yaml")["metadata"]["name"] for case in CASES}
    assert {"null", "0123", "1e3", "on"} <= found
    assert 63 in map(len, found)
