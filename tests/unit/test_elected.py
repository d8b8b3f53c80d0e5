"""Whatever a set renders, its controllers elect a leader: by their Lease they are judged, and kept apart."""

import pytest

from metaoperator.core import names
from metaoperator.core.errors import TemplateError
from metaoperator.core.model import DEPLOYMENT, TemplateSet
from tests.unit.builders import document, object_text, template_set

REST = """\
spec:
  selector:
    matchLabels: {{app: a}}
  template:
    metadata:
      labels: {{app: a}}
    spec:
      serviceAccountName: workflow-controller
      containers:
        - name: beside
          image: i
        - name: main
          image: i
          env:
            - name: OTHER
              value: "true"
            - name: {variable}
              {value}
"""
SWITCH = "LEADER_ELECTION_DISABLE"


def deployment(variable: str, value: str, name: str = names.WORKFLOW_CONTROLLER) -> TemplateSet:
    """Write a set of one Deployment with one environment variable."""
    text = object_text(REST.format(variable=variable, value=value), kind=DEPLOYMENT, name=name)
    return template_set({"one.yaml.j2": text}, kinds=frozenset({DEPLOYMENT}))


@pytest.mark.parametrize("value", ['value: "true"', "valueFrom: {fieldRef: {fieldPath: metadata.name}}"])
@pytest.mark.parametrize("name", ["workflow-controller", "workflow-controller-1"])
def test_a_child_without_leader_election_is_refused(name: str, value: str) -> None:
    """With its line, why, and what to do."""
    with pytest.raises(TemplateError) as caught:
        document(deployment(SWITCH, value, name))
    (problem,) = caught.value.problems
    assert problem.line == 21
    assert problem.path == "spec.template.spec.containers[1].env[1]"
    assert "keeps two pods of it apart" in str(problem)
    assert problem.cure == "leave it out"


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        (SWITCH, 'value: "false"', "workflow-controller"),
        (SWITCH, 'value: ""', "workflow-controller"),
        (SWITCH, 'value: "true"', "something-else"),
        ("LEADER_ELECTION_IDENTITY", 'value: "true"', "workflow-controller"),
    ],
)
def test_nothing_else_is(variable: str, value: str, name: str) -> None:
    """Argo reads one word as yes, and other Deployments are none of Argo's controllers."""
    assert document(deployment(variable, value, name))["metadata"]["name"] == name
