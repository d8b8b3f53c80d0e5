"""What the operator puts on existing objects passes the policies of a real API server, and stays as it was put."""

import pytest

from metaoperator.core import names
from tests.e2e.local import INSTANCE_ID, Object
from tests.e2e.workflows import one_step

from .test_components import OPERATOR
from .test_stamping import MERGE
from .world import World, id_of

NS = "swept"
LABELS: dict[str, Object] = {
    "bare": {},
    "empty": {INSTANCE_ID: ""},
    "by-namespace": {INSTANCE_ID: NS},
    "by-fleet": {INSTANCE_ID: names.FLEET_INSTANCE_ID},
}


@pytest.mark.parametrize("kind", ["Workflow", "CronWorkflow"])
@pytest.mark.parametrize("components", [(), ("started-guard",), ("instance-id-pinned", "started-guard")])
def test_what_the_sweep_writes_is_what_is_stored(kind: str, components: tuple[str, ...], shipped: World) -> None:
    """Stamping gives back only what was an object's own, and the guard looks at what was started."""
    shipped.namespace(NS, None)
    role = ["create", "clusterrolebinding", "--dry-run=client", "-o", "json", "operator-sweeps"]
    binding = shipped.kubectl(*role, "--clusterrole=cluster-admin", "--serviceaccount=metaoperator:metaoperator")
    shipped.kubectl("apply", "--server-side", "-f", "-", stdin=binding)
    for name, labels in LABELS.items():
        shipped.create(NS, one_step(name, kind=kind, labels=labels))
    wanted = "mine" if "instance-id-pinned" in components else NS
    shipped.pin(NS, wanted)
    shipped.have(*components)
    shipped.namespace(NS, "enabled")
    try:
        for name in LABELS:
            _, live = shipped.send("GET", shipped.path(kind, NS, name))
            guard = {key: live["metadata"][key] for key in ("uid", "resourceVersion")}
            patch = {"metadata": {**guard, "labels": {INSTANCE_ID: wanted}}}
            code, answer = shipped.send("PATCH", shipped.path(kind, NS, name), patch, who=OPERATOR, kind=MERGE)
            assert code == 200, answer
            assert id_of(answer) == wanted
            code, answer = shipped.send("PATCH", shipped.path(kind, NS, name), patch, who=OPERATOR, kind=MERGE)
            assert id_of(live) == wanted or code == 409, "an older version of it was written"
    finally:
        shipped.empty(NS)
        shipped.pin(NS, None)
