"""Which ID a policy gives, what admission puts on Workflows, and that the two never part in silence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaoperator.core import names, shard, stamping
from metaoperator.core.names import Reason
from metaoperator.core.shard import Policy
from metaoperator.core.stamping import Stamps

POLICIES = st.sampled_from(Policy)
STAMPINGS = st.builds(Stamps, policy=st.none() | POLICIES, pinned=st.booleans())
IDS = st.sampled_from(["team-a", "team-b", names.FLEET_INSTANCE_ID, "blue", ""])


@pytest.mark.parametrize(
    ("policy", "instance", "lease"),
    [
        (Policy.PER_NAMESPACE, "team-a", "workflow-controller-team-a"),
        (Policy.FLEET, "metaoperator", "workflow-controller-metaoperator"),
        (Policy.NONE, "", "workflow-controller"),
    ],
)
def test_each_policy_gives_an_id_and_a_lease(policy: Policy, instance: str, lease: str) -> None:
    """The Lease is named as Argo names it: without an ID it has no suffix."""
    assert shard.instance_id("team-a", policy) == instance
    assert shard.lease_name(instance) == lease


def test_a_template_without_a_policy_is_per_namespace() -> None:
    """Objects that were stored before the field existed go on as they were."""
    assert shard.policy({"spec": {}}) is Policy.PER_NAMESPACE
    assert shard.policy({"spec": {"instanceIDPolicy": "Fleet"}}) is Policy.FLEET


@given(STAMPINGS, IDS)
def test_a_child_that_another_id_is_stamped_beside_is_a_fault_and_any_other_is_none(
    found: Stamps, instance: str
) -> None:
    """Either new Workflows get the child's ID, or none, which others judge, or it is a fault that names the stamp."""
    stamped = found.puts("team-a", instance)
    fault = stamping.fault("team-a", instance, child=None, stamps=found)
    if stamped in {"", instance}:
        assert fault is None
    else:
        assert fault is not None
        assert fault.reason is Reason.INSTANCE_ID_UNSUPPORTED
        assert stamped in fault.message


@given(STAMPINGS, IDS, IDS)
def test_a_child_never_gets_another_id(found: Stamps, instance: str, child: str) -> None:
    """Whatever admission does: its Workflows carry the one that it has."""
    fault = stamping.fault("team-a", instance, child=child, stamps=found)
    if child != instance:
        assert fault is not None
        assert fault.reason is Reason.INSTANCE_ID_CHANGED
    else:
        assert fault == stamping.fault("team-a", instance, child=None, stamps=found)


@pytest.mark.parametrize("instance", ["blue", "team-b"])
def test_the_pinned_policy_serves_every_id(instance: str) -> None:
    """It reads the WorkflowController, whatever the general one would put there."""
    for policy in (None, *Policy):
        assert stamping.fault("team-a", instance, child=None, stamps=Stamps(policy=policy, pinned=True)) is None


def test_each_fault_names_a_cure_that_exists() -> None:
    """The components are the ones in `manifests/components`."""
    told = {
        instance: stamping.fault("team-a", instance, child=None, stamps=Stamps(policy=policy))
        for instance, policy in (("", Policy.FLEET), ("team-a", Policy.FLEET), ("metaoperator", Policy.PER_NAMESPACE))
    }
    told["blue"] = stamping.fault("team-a", "blue", child=None, stamps=Stamps(policy=Policy.PER_NAMESPACE))
    for instance, component in (("", "none"), ("team-a", "pinned"), ("metaoperator", "fleet"), ("blue", "pinned")):
        note = told[instance]
        assert note is not None
        assert f"manifests/components/instance-id-{component}" in note.message
