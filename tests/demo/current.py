"""The story on the cluster of the kubeconfig's current context, without root; the operator runs on this machine.

Nothing that is there is changed: whatever stands in the way is refused before anything is done, and all that the demo
makes carries its label and goes when it ends.
"""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from . import bundle, checks
from .process import Operator
from .story import LABEL, Story, show
from .telling import CHECKOUT, Kubectl, Object, Stop, a_list, heading, note

NAMESPACES = ("metaoperator-demo-a", "metaoperator-demo-b")
VALUES = Path(__file__).with_name("current.yaml")

PLAN = """\
This demo runs the meta-operator against the cluster of your kubeconfig's current context:

  context {context}, {server}

It would, with your own credentials and without root,
  - run the operator as a process of this machine, which ends with the demo;
  - make the namespaces metaoperator (its Lease), {namespaces};
  - make, where they are not there yet, the CRDs, ClusterRoles, PriorityClass and admission policies of manifests/fleet,
    and a ControllerTemplate {template};
  - run a workflow-controller and one Workflow in each of its two namespaces.
All that it makes is labelled {label} and taken away when it ends. It changes nothing that is there:
what stands in its way is named, and then nothing is done at all.
"""
NOT_ASKED = (
    "Nothing was done: there is no terminal to ask on. To go on without being asked: make demo CLUSTER=current YES=1"
)
AGAIN = "What it made was taken away again; `make demo-down` does it once more."


class Refused(Exception):
    """The cluster is not fit; nothing was done."""


def run(*, values: Path, sure: bool) -> str:
    """Tell the story; returns the last words."""
    settings = _settings(values)
    with _own_kubeconfig() as (kubectl, kubeconfig):
        print(_plan(kubectl))
        try:
            found = list(checks.problems(kubectl, values=settings["values"], namespaces=NAMESPACES))
        except Stop as stop:
            raise Refused(f"Nothing was done: {stop}") from stop
        if found:
            raise Refused("\n".join(["Nothing was done, because of this cluster:", *(f"  - {each}" for each in found)]))
        if not sure:
            _ask()
        made = [*bundle.objects(kubectl), bundle.template(settings["values"]), *map(bundle.namespace, NAMESPACES)]
        with _signals_end(), _cleaned(kubectl, made), Operator(kubeconfig, kubeconfig.with_name("operator.log")) as on:
            try:
                _make(kubectl, made)
                story = Story(namespaces=NAMESPACES, label=bundle.TEMPLATE, image=settings["image"])
                show(kubectl, story.use(kubectl))
                if sys.stdin.isatty() and not sure:
                    _linger()
            except Stop as stop:
                kept = shutil.copy(on.log, Path(tempfile.gettempdir()) / "metaoperator-demo-operator.log")
                raise Stop(f"{stop}\n{on.trouble() or f'The log of the operator: {kept}'}") from stop
            finally:
                _opt_out(kubectl)
    return "Nothing of it is left on the cluster."


def down() -> str:
    """Take away what a demo that was killed has left."""
    with _own_kubeconfig() as (kubectl, _):
        made = [*bundle.objects(kubectl), bundle.template({}), *map(bundle.namespace, NAMESPACES)]
        # No operator: a namespace takes along all that is in it.
        with _cleaned(kubectl, made):
            pass
    return "Nothing of the demo is left on the cluster."


def _settings(place: Path) -> Object:
    try:
        read: Any = yaml.safe_load(place.read_text())
    except (OSError, yaml.YAMLError) as exc:
        raise Refused(f"{place} cannot be read: {exc}") from exc
    if not isinstance(read, dict) or not isinstance(read.get("image"), str) or not isinstance(read.get("values"), dict):
        raise Refused(f"{place} must have `values` (a mapping) and `image` (a text), as {VALUES.relative_to(CHECKOUT)}")
    return read


@contextmanager
def _own_kubeconfig() -> Iterator[tuple[Kubectl, Path]]:
    """Keep to one cluster: a copy of the current context, so that nobody's switch of it moves us to another."""
    program = shutil.which("kubectl")
    if program is None:
        raise Refused("There is no kubectl on PATH: https://kubernetes.io/docs/tasks/tools/")
    usual = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    done = Kubectl(program, usual).tried("config", "view", "--raw", "--minify", "--flatten")
    if done.returncode != 0:
        raise Refused(f"The kubeconfig ({usual}) has no current context to use: {done.stderr.strip()}")
    with tempfile.TemporaryDirectory(prefix="metaoperator-demo-") as folder:
        place = Path(folder) / "kubeconfig"
        place.touch(mode=0o600)
        place.write_text(done.stdout)
        yield Kubectl(program, place), place


def _plan(kubectl: Kubectl) -> str:
    config = yaml.safe_load(kubectl.quietly("config", "view", "--raw"))
    return PLAN.format(
        context=config["current-context"],
        server=config["clusters"][0]["cluster"]["server"],
        namespaces=", ".join(NAMESPACES),
        template=bundle.TEMPLATE,
        label="=".join(bundle.OURS),
    )


def _ask() -> None:
    if not sys.stdin.isatty():
        raise Refused(NOT_ASKED)
    if _line("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
        raise Refused("Nothing was done.")


def _line(prompt: str) -> str:
    """Read a line; a terminal that is closed has said nothing."""
    try:
        return input(prompt)
    except EOFError:
        return ""


def _make(kubectl: Kubectl, made: list[Object]) -> None:
    heading("What children of the meta-operator live on")
    for each in bundle.present(kubectl, made):
        note(f"{each.name} is {'left from a demo before' if each.ours else 'there, and left as it is'}")
    early = [each for each in made if each["kind"] in ("Namespace", "CustomResourceDefinition")]
    _apply(kubectl, early)
    kubectl.until("get", "workflowcontrollers,controllertemplates", "-A")
    _apply(kubectl, [each for each in made if each not in early])


def _apply(kubectl: Kubectl, items: list[Object]) -> None:
    """Make what is missing, and bring up to date what an earlier demo left; nothing else."""
    mine = [each for each in items if (live := bundle.find(kubectl, each)) is None or bundle.is_ours(live)]
    if mine:
        kubectl("apply", "--server-side", "-f", "-", stdin=a_list(mine))


def _linger() -> None:
    """Leave the cluster to the person until he has seen enough."""
    print(f"""\
The operator goes on running until you press Enter; then everything is taken away. Meanwhile, in another terminal:
  kubectl get workflowcontrollers -A
  kubectl get workflowcontroller workflow-controller -n {NAMESPACES[0]} -o yaml
  kubectl delete configmap workflow-controller-configmap -n {NAMESPACES[0]}     # and look: it is there again""")
    _line("")


def _opt_out(kubectl: Kubectl) -> None:
    """Opt the demo's namespaces out while the operator runs, so that it takes its own away."""
    heading("Opting out")
    for name in NAMESPACES:
        live = bundle.find(kubectl, bundle.namespace(name))
        if live is not None and bundle.is_ours(live):
            kubectl.tried("label", "namespace", name, f"{LABEL}-")
            kubectl.tried("wait", "--for=delete", "--timeout=60s", "wfc/workflow-controller", "-n", name)
            print(f"{name} is opted out")


@contextmanager
def _cleaned(kubectl: Kubectl, made: list[Object]) -> Iterator[None]:
    """Take everything away that is the demo's own, however the story ends."""
    try:
        yield
    finally:
        heading("Taking everything away")
        mine = [each for each in made if each["metadata"]["name"] in NAMESPACES]
        bundle.remove(kubectl, mine)
        if left := kubectl.tried("get", "workflowcontrollers", "-A", "--no-headers").stdout.strip():
            # CRDs would take these along, and with them what somebody else opted in meanwhile.
            raise Stop(f"the fleet bundle stays, for somebody opted in meanwhile:\n{left}")
        bundle.remove(kubectl, [each for each in made if each not in mine])


@contextmanager
def _signals_end() -> Iterator[None]:
    """Take SIGTERM for Ctrl-C: both end the demo by its clean-up."""

    def interrupt(number: int, _: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
