"""Recipes → programs in the cache. Minutes of work, once: a family that is there is never built again."""

import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from . import cached, places, recipes, say, toolchain
from .errors import ClusterError
from .recipes import Recipe

# Raised when the way of building changes while the pins do not.
_HOW = b"trimpath, stripped, vendored copies; 1"


def everything() -> None:
    """Build every family that a cluster needs and the cache lacks."""
    for recipe in recipes.RECIPES:
        family(recipe)
    _drop_scratch()


def _drop_scratch() -> None:
    """Drop Go's build cache, which nothing needs any more."""
    # A few GB. Modules stay: they are what another version's build would fetch again.
    scratch = places.cache() / "go" / "build"
    if scratch.exists() and toolchain.environment()["GOCACHE"] == str(scratch):
        with cached.locked("tools"):
            shutil.rmtree(scratch, ignore_errors=True)


def program(name: str) -> Path:
    """Return a built program's path."""
    recipe = next(r for r in (*recipes.RECIPES, *recipes.ON_DEMAND) if name in r.programs)
    place = family(recipe) / name
    if recipe in recipes.ON_DEMAND:
        _drop_scratch()
    return place


def argo_crds(kind: str) -> Path:
    """Return the folder of Argo's CRDs, `full` or `minimal`, as they are in Argo's module."""
    return family(recipes.by_family("argo")) / "crds" / kind


def missing() -> list[Recipe]:
    """Return the families that are still to be built."""
    return [recipe for recipe in recipes.RECIPES if not cached.path("tools", _inputs(recipe)).is_dir()]


def family(recipe: Recipe) -> Path:
    """Return the folder with a family's programs, building them if the cache has none."""
    what = f"build: {recipe.family} ({', '.join(recipe.programs)})"
    if recipe in recipes.RECIPES:
        number = recipes.RECIPES.index(recipe) + 1
        what = f"build {number} of {len(recipes.RECIPES)}: {recipe.family} ({', '.join(recipe.programs)})"
    if not cached.path("tools", _inputs(recipe)).is_dir():
        # Here, so that installing a toolchain is a task of its own and not part of the first build.
        toolchain.find()
    return cached.folder("tools", _inputs(recipe), lambda place: _build(recipe, place), what=what)


def _inputs(recipe: Recipe) -> list[bytes]:
    return [_HOW, *recipe.inputs()]


def _build(recipe: Recipe, place: Path) -> None:
    go = toolchain.find()
    source = place / "source"
    shutil.copytree(places.TOOLS / recipe.family, source)
    vendor = source / "vendor"
    vendored = bool(recipe.vendored_copies or recipe.vendored_files)
    if vendored:
        # A complaint about an embed pattern whose files the archive lacks is expected: they are written below.
        _go(go, ["mod", "vendor"], source, lenient=True)
        for destination, origin in recipe.vendored_copies.items():
            shutil.copyfile(vendor / origin, vendor / destination)
        for destination, content in recipe.vendored_files.items():
            (vendor / destination).parent.mkdir(parents=True, exist_ok=True)
            (vendor / destination).write_text(content)
    for name, (module, pattern) in recipe.kept.items():
        _keep(go, module, pattern, source, place / name)
    flags = ["-trimpath", "-buildvcs=false", "-ldflags", _link_flags(recipe.variables.items())]
    if vendored:
        flags.append("-mod=vendor")
    if len(recipe.programs) == 1:
        ((name, package),) = recipe.programs.items()
        # Named, because a main package at a module's root would be called after the version: `v3`.
        _go(go, ["build", *flags, "-o", str(place / name), package], source)
    else:
        _go(go, ["build", *flags, "-o", f"{place}/", *recipe.programs.values()], source)
    lacking = [name for name in recipe.programs if not (place / name).is_file()]
    if lacking:
        raise ClusterError(f"go build of {recipe.family} left out {', '.join(lacking)}")
    shutil.rmtree(source)


def _link_flags(variables: Iterable[tuple[str, str]]) -> str:
    return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in variables)])


def _keep(go: Path, module: str, pattern: str, source: Path, destination: Path) -> None:
    listed = subprocess.run(
        [go, "mod", "download", "-json", module],
        cwd=source,
        env=toolchain.environment(),
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0:
        raise ClusterError(f"{module} cannot be had: {listed.stdout}{listed.stderr}")
    destination.mkdir(parents=True)
    for file in sorted(Path(json.loads(listed.stdout)["Dir"]).glob(pattern)):
        # Content only: in the module cache files are read-only, and `rm -r` of our cache should just work.
        shutil.copyfile(file, destination / file.name)


def _go(go: Path, arguments: list[str], folder: Path, *, lenient: bool = False) -> None:
    done = subprocess.run(
        [go, *arguments],
        cwd=folder,
        env=toolchain.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0 and not lenient:
        raise ClusterError(f"go {arguments[0]} failed in {folder.parent.name}:\n{done.stdout[-4000:]}")
    if done.returncode != 0:
        say.line(f"  go {arguments[0]}: {done.stdout.strip()[-400:]}")
