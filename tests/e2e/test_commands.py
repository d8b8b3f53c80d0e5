"""The commands that ask a cluster, asked of a real one: what they foretell is what comes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from metaoperator import bundle
from metaoperator.core.model import Manifest, Ref
from tests.e2e.install import Installation
from tests.e2e.local import CHECKOUT, KUBECONFIG, Kubectl, eventually
from tests.e2e.namespaces import OBJECTS, Namespaces

NAME = "e2e-commands"


def run(*args: str) -> tuple[int, Any]:
    """Run a command that answers in JSON."""
    line = [sys.executable, "-m", "metaoperator", *args, "-o", "json"]
    env = {**os.environ, "KUBECONFIG": str(KUBECONFIG)}
    done = subprocess.run(line, capture_output=True, text=True, env=env, check=False, timeout=300)
    assert done.stdout, done.stderr
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def changes(found: Any) -> dict[str, list[str]]:
    """Sort the objects of one namespace by what becomes of them."""
    (only,) = found
    by_change: dict[str, list[str]] = {}
    for each in only["objects"]:
        by_change.setdefault(each["change"], []).append(f"{each['kind']}/{each['name']}")
    return by_change


def test_an_opt_in_is_foretold_and_then_nothing_is(installation: Installation, namespaces: Namespaces) -> None:
    """All objects are created in a dry-run of the real server; once they are there, it sees no difference."""
    namespaces.make(NAME)
    code, found = run("diff", NAME)
    assert code == 1
    assert set(changes(found)) == {"created"}, found
    assert len(changes(found)["created"]) == len(OBJECTS) + 1
    assert all(each["asked"] for each in found[0]["objects"])
    assert not any(namespaces.objects(NAME).values())
    assert namespaces.row(NAME) is None

    namespaces.label(NAME, "enabled")
    namespaces.ready(NAME)

    def settled() -> None:
        code, found = run("diff", NAME)
        assert (code, set(changes(found))) == (0, {"unchanged"}), found

    eventually(settled)


def test_nothing_is_missing_for_another_namespace(installation: Installation, namespaces: Namespaces) -> None:
    """Every check is answered, the operator's rights included; the pod would be admitted."""
    namespaces.make(f"{NAME}-next")
    code, rows = run("preflight", f"{NAME}-next")
    told = [row for row in rows if row["result"] != "ok"]
    assert (code, told) == (0, [])
    assert [row["what"] for row in rows if row["check"] == f"namespace {NAME}-next"] == [
        f"{len(OBJECTS) + 1} objects would be made, and the controller's pod admitted"
    ]
    assert namespaces.row(f"{NAME}-next") is None


def test_a_namespace_of_the_system_is_told_to_be_one(installation: Installation) -> None:
    """Exit code 1, and the reason."""
    code, rows = run("preflight", "kube-system")
    assert code == 1
    assert [row["what"].partition(":")[0] for row in rows if row["result"] == "missing"] == ["NamespaceRefused"]


def test_an_overlay_that_sets_a_namespace_moves_the_operator_whole(kubectl: Kubectl, tmp_path: Path) -> None:
    """Its rights go with it, as `preflight --operator-namespace` expects them: bindings name the account that moved."""
    (tmp_path / "operator").symlink_to(CHECKOUT / "manifests" / "operator")
    overlay = {"kind": "Kustomization", "namespace": "platform", "resources": ["operator"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    built = list(yaml.safe_load_all(kubectl("kustomize", tmp_path)))
    expected = [bundle.moved(each, "platform") for each in bundle.objects(bundle.OPERATOR)]
    assert places(built) == places(expected)
    assert {place for place, _ in places(built).values()} == {"", "platform"}


def places(manifests: list[Manifest]) -> dict[Ref, tuple[str, Any]]:
    """Tell where objects are, and whom they bind."""
    return {Ref.of(each): (each["metadata"].get("namespace", ""), each.get("subjects")) for each in manifests}
