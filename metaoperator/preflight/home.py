"""The operator's own namespace: what of the shipped manifests names another one, and does not hold where it runs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from metaoperator import bundle
from metaoperator.cluster import Cluster, Selection
from metaoperator.core import names
from metaoperator.core.model import DEPLOYMENT, Manifest, Ref
from metaoperator.preflight import installed
from metaoperator.preflight.rows import Result, Row

CHECK: Final = "operator's namespace"
_SHIPPED: Final = names.OPERATOR_NAMESPACE
_ACCOUNT: Final = f"ServiceAccount {_SHIPPED}/{names.OPERATOR_ACCOUNT}"
_ITS_PODS: Final = "app.kubernetes.io/name=metaoperator"


@dataclass(frozen=True, slots=True)
class _Lost:
    """What does not hold while files name the shipped namespace, `{}` in these words."""

    what: str
    words: tuple[str, ...]
    file: str = ""


_UNFENCED: Final = _Lost(f"fences do not hold the operator, for they know it as {_ACCOUNT}", bundle.HOME_WORDS)
_STRANGER: Final = _Lost(
    f"fences let {_ACCOUNT} pass, and deny the operator what every opt-in needs", bundle.HOME_WORDS[:1]
)
_STAMPED: Final = _Lost(
    "policies about instance IDs do not spare the operator's own namespace, which is never served", ("values: [{}]",)
)
_NAMESPACE: Final = _Lost(
    f"the fleet bundle makes namespace {_SHIPPED} instead, with its Pod Security labels", ("  name: {}",)
)
_BUNDLE: Final = _Lost(
    f"the operator's bundle is for namespace {_SHIPPED} (an overlay that sets `namespace` does as well)",
    ("namespace: {}",),
    f"manifests/{bundle.OPERATOR}/kustomization.yaml",
)


async def of(cluster: Cluster, home: str) -> list[Row]:
    """Look for an operator that runs elsewhere, and for what names another namespace than `home`."""
    return [*await _elsewhere(cluster, home), *await _unmoved(cluster, home)]


async def _elsewhere(cluster: Cluster, home: str) -> list[Row]:
    rows = []
    async for page in cluster.list_pages(Selection(kind=DEPLOYMENT, label_selector=_ITS_PODS, metadata_only=True)):
        for each in page["items"]:
            namespace, name = each["metadata"]["namespace"], each["metadata"]["name"]
            if namespace != home:
                what = f"Deployment/{namespace}/{name} runs an operator in namespace {namespace}, not in {home}"
                cure = (
                    f"if it is the one you mean: metaoperator preflight --operator-namespace {namespace}; "
                    "two operators of one cluster write against each other"
                )
                rows.append(Row(check=CHECK, result=Result.WARNING, what=what, cure=cure))
    return rows


async def _unmoved(cluster: Cluster, home: str) -> list[Row]:
    """Tell what does not hold, with the command that edits the files; what the cluster holds rightly is left out."""
    if home == _SHIPPED:
        return []
    files: dict[_Lost, list[str]] = {}
    for name in (bundle.FLEET, bundle.OPERATOR):
        for file, shipped in bundle.files(name):
            moved = bundle.moved(shipped, home)
            if moved != shipped and not await _holds(cluster, shipped, moved):
                files.setdefault(_lost(shipped, moved), []).append(file)
    rows = [
        Row(
            check=CHECK,
            result=Result.WARNING,
            what=f"{home}: {lost.what}",
            cure=_cure(lost, edited, home),
        )
        for lost, edited in files.items()
    ]
    return rows or [Row(check=CHECK, result=Result.OK, what=f"{home}, and all that is installed names it")]


async def _holds(cluster: Cluster, shipped: Manifest, moved: Manifest) -> bool:
    """Tell whether an object is there and names the right namespace; what else differs is told of its bundle."""
    live = await installed.found(cluster, Ref.of(moved))
    return live is not None and not set(installed.apart(moved, live)) & set(installed.apart(moved, shipped))


def _lost(shipped: Manifest, moved: Manifest) -> _Lost:
    match shipped["kind"]:
        case "ValidatingAdmissionPolicy" if shipped["metadata"]["name"] == names.INSTANCE_ID_METADATA:
            return _STAMPED
        case "ValidatingAdmissionPolicy" if _conditions(shipped) != _conditions(moved):
            return _UNFENCED
        case "ValidatingAdmissionPolicy":
            return _STRANGER
        case "MutatingAdmissionPolicy":
            return _STAMPED
        case "Namespace":
            return _NAMESPACE
        case _:
            return _BUNDLE


def _conditions(policy: Manifest) -> Any:
    return policy["spec"].get("matchConditions")


def _cure(lost: _Lost, files: Iterable[str], home: str) -> str:
    """Write the command that makes files name the namespace `home`."""
    edits = "; ".join(f"s/{_pattern(each.format(_SHIPPED))}/{each.format(home)}/" for each in lost.words)
    return f'sed -i.bak "{edits}" {" ".join(dict.fromkeys([lost.file] if lost.file else files))}'


def _pattern(words: str) -> str:
    return words.replace("[", r"\[").replace("]", r"\]")
