"""Immutable fields: what is replaced for which rendered change, what never is, and whose edit counts for nothing."""

import copy
from typing import Any

import pytest

from metaoperator.core import immutable, names, plan
from metaoperator.core.model import Manifest, Ref
from metaoperator.core.names import Reason
from metaoperator.core.plan import Step, Verb
from tests.unit.builders import UID, live, rendered

APPS, RBAC = "apps/v1", "rbac.authorization.k8s.io/v1"


def made(api: str, kind: str, **fields: Any) -> Manifest:
    """Render one object."""
    return rendered({"apiVersion": api, "kind": kind, "metadata": {"name": "one"}} | fields)


def selecting(**labels: str) -> dict[str, Any]:
    """Write what selects pods."""
    return {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}


def ref_to(kind: str, name: str = "r") -> dict[str, str]:
    """Write a roleRef."""
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}


def planned(wanted: Manifest, found: Manifest) -> Step:
    """Plan one object that is there."""
    (only,) = plan.build([wanted], {Ref.of(found): found}, namespace_uid=UID, answers={})
    return only


A, B = selecting(app="a"), selecting(app="a", more="b")
REPLACED: dict[str, tuple[Manifest, Manifest, str]] = {
    "a Deployment's selector": (made(APPS, "Deployment", spec=A), made(APPS, "Deployment", spec=B), "spec.selector"),
    "a selector with fewer labels": (
        made(APPS, "Deployment", spec=B),
        made(APPS, "Deployment", spec=A),
        "spec.selector",
    ),
    "a DaemonSet's selector": (made(APPS, "DaemonSet", spec=A), made(APPS, "DaemonSet", spec=B), "spec.selector"),
    "a StatefulSet's service": (
        made(APPS, "StatefulSet", spec=A | {"serviceName": "x"}),
        made(APPS, "StatefulSet", spec=A | {"serviceName": "y"}),
        "spec.serviceName",
    ),
    "a Job's template": (
        made("batch/v1", "Job", spec={"template": {"spec": {"restartPolicy": "Never"}}}),
        made("batch/v1", "Job", spec={"template": {"spec": {"restartPolicy": "OnFailure"}}}),
        "spec.template",
    ),
    "a RoleBinding's role": (
        made(RBAC, "RoleBinding", roleRef=ref_to("Role")),
        made(RBAC, "RoleBinding", roleRef=ref_to("ClusterRole")),
        "roleRef",
    ),
    "a Service that becomes headless": (
        made("v1", "Service", spec={"clusterIP": "10.0.0.7"}),
        made("v1", "Service", spec={"clusterIP": "None"}),
        "spec.clusterIP",
    ),
    "a Service that was headless": (
        made("v1", "Service", spec={"clusterIP": "None"}),
        made("v1", "Service", spec={"ports": []}),
        "spec.clusterIP",
    ),
    "a Service of the other family": (
        made("v1", "Service", spec={"ipFamilies": ["IPv4"]}),
        made("v1", "Service", spec={"ipFamilies": ["IPv6"]}),
        "spec.ipFamilies",
    ),
    "an immutable ConfigMap": (
        made("v1", "ConfigMap", immutable=True, data={"a": "1"}),
        made("v1", "ConfigMap", immutable=True, data={"a": "2"}),
        "data.a",
    ),
    "an immutable ConfigMap that loses a key": (
        made("v1", "ConfigMap", immutable=True, data={"a": "1", "b": "2"}),
        made("v1", "ConfigMap", immutable=True, data={"a": "1"}),
        "data.b",
    ),
    "a ConfigMap that is no longer immutable": (
        made("v1", "ConfigMap", immutable=True),
        made("v1", "ConfigMap"),
        "immutable",
    ),
    "an immutable Secret": (
        made("v1", "Secret", immutable=True, data={"a": "MQ=="}),
        made("v1", "Secret", immutable=True, data={"a": "Mg=="}),
        "data.a",
    ),
    "a Secret's type": (made("v1", "Secret", type="a"), made("v1", "Secret", type="b"), "type"),
}


@pytest.mark.parametrize("case", REPLACED)
def test_what_cannot_be_changed_is_replaced_and_the_message_names_the_field(case: str) -> None:
    """For rendered bytes that are new: one step with the object's UID, that says from what to what."""
    before, after, field = REPLACED[case]
    only = planned(after, live(before))
    assert (only.verb, only.reason, only.uid) == (Verb.REPLACE, Reason.REPLACED, "live-1")
    assert only.manifest == after
    assert only.message.startswith(f"{only.ref}: {field} cannot be changed from ")


@pytest.mark.parametrize("case", REPLACED)
def test_what_somebody_else_made_is_never_replaced(case: str) -> None:
    """The same bytes are rendered as ever, and the object is another: whoever re-created it, we delete nothing."""
    other, wanted, _ = REPLACED[case]
    found = live(other)
    found["metadata"]["annotations"] = dict(wanted["metadata"]["annotations"])
    only = planned(wanted, found)
    assert (only.verb, only.reason, only.manifest) == (Verb.HOLD, Reason.IMMUTABLE, None)
    assert "delete it: it is made anew" in only.message


@pytest.mark.parametrize("case", REPLACED)
def test_an_object_without_our_mark_is_a_conflict_and_not_replaced(case: str) -> None:
    """Re-created under our name by somebody who did not copy the mark."""
    other, wanted, _ = REPLACED[case]
    only = planned(wanted, live(other, manager="kubectl"))
    assert (only.verb, only.reason) == (Verb.HOLD, Reason.CONFLICT)


CHANGED: dict[str, tuple[Manifest, Manifest]] = {
    "an image": (
        made(APPS, "Deployment", spec=A),
        made(APPS, "Deployment", spec=A | {"replicas": 2}),
    ),
    "an address that is no longer rendered": (
        made("v1", "Service", spec={"clusterIP": "10.0.0.7", "ports": []}),
        made("v1", "Service", spec={"ports": []}),
    ),
    "a second family": (
        made("v1", "Service", spec={"ipFamilies": ["IPv4"]}),
        made("v1", "Service", spec={"ipFamilies": ["IPv4", "IPv6"]}),
    ),
    "a Service that becomes another's name": (
        made("v1", "Service", spec={"clusterIP": "None"}),
        made("v1", "Service", spec={"type": "ExternalName", "externalName": "x"}),
    ),
    "a ConfigMap that becomes immutable": (
        made("v1", "ConfigMap", data={"a": "1"}),
        made("v1", "ConfigMap", data={"a": "2"}, immutable=True),
    ),
    "the labels of an immutable ConfigMap": (
        made("v1", "ConfigMap", data={"a": "1"}, immutable=True),
        rendered(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "one", "labels": {"x": "y"}},
                "data": {"a": "1"},
                "immutable": True,
            }
        ),
    ),
    "the budget of a PodDisruptionBudget": (
        made("policy/v1", "PodDisruptionBudget", spec={"selector": {"matchLabels": {"a": "b"}}}),
        made("policy/v1", "PodDisruptionBudget", spec={"selector": {"matchLabels": {"a": "c"}}}),
    ),
}


@pytest.mark.parametrize("case", CHANGED)
def test_what_can_be_changed_is_applied(case: str) -> None:
    """Nothing is replaced that an update can bring about."""
    before, after = CHANGED[case]
    assert (planned(after, live(before)).verb, planned(after, live(before)).reason) == (Verb.APPLY, Reason.CHANGED)


def test_what_the_api_server_fills_in_is_no_change() -> None:
    """An address, families and a roleRef's group are defaults: the pass after the creation keeps everything."""
    service = made("v1", "Service", spec={"ports": [{"port": 1}]})
    found = live(service)
    found["spec"] |= {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ipFamilies": ["IPv4"]}
    assert planned(service, found).verb is Verb.KEEP
    binding = made(RBAC, "RoleBinding", roleRef={"kind": "Role", "name": "r"})
    assert planned(binding, live({**binding, "roleRef": ref_to("Role")})).verb is Verb.KEEP


def test_what_holds_data_is_never_deleted() -> None:
    """A claim's volume may go with it, and so may those of a StatefulSet that says so: a person decides."""
    before, after = (made("v1", "PersistentVolumeClaim", spec={"storageClassName": name}) for name in "ab")
    claim = planned(after, live(before))
    assert (claim.verb, claim.reason) == (Verb.HOLD, Reason.IMMUTABLE)
    assert "spec.storageClassName cannot be changed from a to b" in claim.message
    policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}
    before, after = (made(APPS, "StatefulSet", spec=A | policy | {"serviceName": name}) for name in "xy")
    assert planned(after, live(before)).reason is Reason.IMMUTABLE
    kept = live(before)
    kept["spec"]["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Retain"}
    assert planned(after, kept).verb is Verb.REPLACE


def owning(found: Manifest, **fields: Any) -> dict[str, Any]:
    """Write whole managedFields: what each manager owns."""
    copied = copy.deepcopy(dict(found))
    copied["metadata"]["managedFields"] = [{"manager": name, "fieldsV1": tree} for name, tree in fields.items()]
    return copied


def test_a_configmap_that_somebody_froze_is_not_ours_to_replace() -> None:
    """They edited it, made it immutable and forged the digest: what is in the way was not written by us."""
    wanted = made("v1", "ConfigMap", data={"a": "1"})
    found = live(made("v1", "ConfigMap", data={"a": "theirs"}, immutable=True))
    change = immutable.change(wanted, found)
    assert change is not None
    ours = {names.FIELD_MANAGER: {"f:data": {"f:a": {}}}}
    assert not immutable.ours_to_replace(owning(found, **ours, kubectl={"f:immutable": {}}), change)
    assert immutable.ours_to_replace(owning(found, **{names.FIELD_MANAGER: {"f:immutable": {}}}), change)


def test_an_address_that_the_api_server_gave_is_ours_to_replace() -> None:
    """Nobody owns it; one that somebody wrote when they re-created the object is not."""
    wanted = made("v1", "Service", spec={"clusterIP": "None"})
    found = live(made("v1", "Service", spec={"clusterIP": "10.0.0.7"}))
    change = immutable.change(wanted, found)
    assert change is not None
    ports = {"f:spec": {"f:ports": {}}}
    assert immutable.ours_to_replace(owning(found, metaoperator=ports), change)
    assert not immutable.ours_to_replace(
        owning(found, metaoperator=ports, kubectl={"f:spec": {"f:clusterIP": {}}}), change
    )


def test_keys_of_others_in_an_immutable_configmap_are_no_reason_to_replace_it() -> None:
    """Somebody added a key before it was frozen: only our own are compared."""
    before = made("v1", "ConfigMap", data={"a": "1"}, immutable=True)
    after = rendered(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "one", "labels": {"x": "y"}},
            "data": {"a": "1"},
            "immutable": True,
        }
    )
    found = owning(live(before), metaoperator={}, kubectl={"f:data": {"f:theirs": {}}})
    found["data"]["theirs"] = "x"
    assert planned(after, found).verb is Verb.APPLY


def test_a_workload_waits_for_pods_that_it_would_not_select() -> None:
    """Its predecessor's pods may outlive it, orphaned or slow: two of one ID are not run on purpose."""
    wanted = rendered(
        {"apiVersion": APPS, "kind": "Deployment", "metadata": {"name": "workflow-controller"}, "spec": B}
    )

    def pod(name: str, labels: dict[str, str], owner: str = "workflow-controller-abc") -> Manifest:
        owners = [{"kind": "ReplicaSet", "name": owner}]
        return {"metadata": {"name": name, "labels": labels, "ownerReferences": owners}}

    def verb(*pods: Manifest) -> Step:
        (only,) = plan.build([wanted], {}, namespace_uid=UID, answers={}, pods=pods)
        return only

    assert verb(pod("p", {"app": "a", "more": "b", "hash": "x"})).verb is Verb.CREATE
    assert verb(pod("q", {"app": "a"}, owner="other-abc")).verb is Verb.CREATE
    held = verb(pod("p", {"app": "a"}))
    assert (held.verb, held.reason) == (Verb.HOLD, Reason.REMOVING)
    assert "gone: p" in held.message
