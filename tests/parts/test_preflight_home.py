"""An operator in a namespace of another name: what does not hold there of what is shipped, and how it is mended."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from metaoperator import bundle
from metaoperator.core import strictyaml
from metaoperator.core.model import Ref
from metaoperator.preflight import home
from metaoperator.preflight.rows import Result, Row

from .test_preflight import look, told, whole
from .world import World

__all__ = ["whole"]

HOME = "platform"
FENCES = "manifests/fleet/fences"


def move(world: World, *names_of_bundles: str) -> None:
    """Install what names the operator's namespace as somebody does who edited it."""
    for name in names_of_bundles:
        for shipped in bundle.objects(name):
            moved = bundle.moved(shipped, HOME)
            if moved != shipped:
                ref, old = Ref.of(moved), Ref.of(shipped)
                if world.server.get(old.kind.kind, old.namespace or None, old.name) and old.kind.kind != "Namespace":
                    world.server.delete(old.kind.kind, old.namespace or None, old.name)
                world.server.create(dict(moved), manager="kubectl")
                assert world.server.get(ref.kind.kind, ref.namespace or None, ref.name)


def of_home(rows: list[Row]) -> dict[str, str]:
    """Tell what does not hold, with its cure."""
    return {row.what: row.cure for row in rows if row.check == home.CHECK and row.result is Result.WARNING}


async def test_an_operator_that_moved_alone_is_warned_of_each_thing_that_does_not_hold(whole: World) -> None:
    """The usual overlay moves the operator's bundle, and nothing of the fleet's: nothing lacks, but not all holds."""
    namespace = next(each for each in bundle.objects(bundle.FLEET) if each["kind"] == "Namespace")
    whole.server.create(dict(bundle.moved(namespace, HOME)), manager="kubectl")
    move(whole, bundle.OPERATOR)
    rows = await look(whole, "team-a", home=HOME)
    assert told(rows) == []
    assert {row.check for row in rows if row.result is Result.WARNING} == {home.CHECK}
    found = of_home(rows)
    assert [what.removeprefix("platform: ").partition(",")[0] for what in found] == [
        "policies about instance IDs do not spare the operator's own namespace",
        "fences let ServiceAccount metaoperator/metaoperator pass",
        "fences do not hold the operator",
    ]
    stamping, stranger, unfenced = found.values()
    assert stamping.endswith(
        " manifests/fleet/instance-id-policy.yaml manifests/fleet/instance-id-metadata-policy.yaml"
    )
    assert stranger.endswith(f" {FENCES}/child-workloads.yaml {FENCES}/platform-fields.yaml")
    operators = ("accounts", "pods", "rolebindings", "workflows", "writes")
    assert unfenced.endswith('" ' + " ".join(f"{FENCES}/operator-{each}.yaml" for each in operators))


async def test_a_policy_that_names_the_right_namespace_is_left_out(whole: World) -> None:
    """Also where it differs in something else, which is told of its bundle; and one that names a third one is not."""
    move(whole, bundle.FLEET, bundle.OPERATOR)
    rows = await look(whole, "team-a", home=HOME)
    assert {row.result for row in rows} == {Result.OK}
    assert ("operator's namespace", "platform, and all that is installed names it") in told(rows, Result.OK)

    other = {"spec": {"failurePolicy": "Ignore"}}
    whole.server.patch("ValidatingAdmissionPolicy", None, "metaoperator-operator-pods", other)
    conditions = bundle.moved(dict(bundle.files(bundle.FLEET))[f"{FENCES}/operator-writes.yaml"], "third")["spec"]
    spec = {"spec": {"matchConditions": conditions["matchConditions"]}}
    whole.server.patch("ValidatingAdmissionPolicy", None, "metaoperator-operator-writes", spec)
    rows = await look(whole, "team-a", home=HOME)
    (cure,) = of_home(rows).values()
    assert cure.endswith(f'" {FENCES}/operator-writes.yaml')
    (changed,) = [what for check, what in told(rows, Result.WARNING) if check == "fleet bundle"]
    assert "metaoperator-operator-pods (spec.failurePolicy)" in changed


async def test_an_operator_that_runs_elsewhere_is_found(whole: World) -> None:
    """Whoever does not say where it runs is told of the one that does, and how to ask about it."""
    whole.namespace(HOME)
    deployment = next(each for each in bundle.objects(bundle.OPERATOR) if each["kind"] == "Deployment")
    whole.server.create(dict(bundle.moved(deployment, HOME)), manager="kubectl")
    rows = await look(whole)
    assert told(rows) == []
    ((what, cure),) = of_home(rows).items()
    assert what == "Deployment/platform/metaoperator runs an operator in namespace platform, not in metaoperator"
    assert "metaoperator preflight --operator-namespace platform" in cure


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a copy of the manifests, with these as what is shipped still."""
    shutil.copytree(bundle.folder(bundle.FLEET).parent, tmp_path / "manifests")
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_the_cures_are_commands_that_mend_the_files(world: World, checkout: Path) -> None:
    """Run as they stand, each bundle is what an operator there needs, and nothing else in it has changed."""
    world.namespace("team-a")
    for command in of_home(await look(world, home=HOME)).values():
        subprocess.run(command, shell=True, check=True, cwd=checkout)  # noqa: S602, ASYNC221 - what people paste
    expected = {name: [bundle.moved(each, HOME) for each in bundle.objects(name)] for name in ("fleet",)}
    found = {
        name: [strictyaml.load((checkout / file).read_text()) for file, _ in bundle.files(name)] for name in expected
    }
    assert found == expected
    kustomization: dict[str, Any] = strictyaml.load((checkout / "manifests/operator/kustomization.yaml").read_text())
    assert kustomization["namespace"] == HOME


def test_no_text_of_the_bundles_names_the_namespace_in_words_that_are_not_known() -> None:
    """Other mentions in policies are the mark's, the account's and the product's own name."""
    known = (
        "serviceaccount metaoperator`",
        "managed-by=metaoperator ",
        ".orValue('') == 'metaoperator'",
        "[request.namespace, 'metaoperator']",
    )
    for file, shipped in bundle.files(bundle.FLEET):
        if "Policy" not in shipped["kind"] or shipped["kind"].endswith("Binding"):
            continue
        text = strictyaml.dump_plain(bundle.moved(shipped, HOME))
        left = re.findall(r".{0,40}(?<![\w./-])metaoperator(?![\w./-]).{0,20}", " ".join(text.split()))
        left = [each for each in left if not any(words.strip() in each for words in known)]
        assert [each for each in left if f":{HOME}:metaoperator" not in each] == [], file
