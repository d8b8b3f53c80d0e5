"""What the server fills in and rewrites: the differences that are no drift."""

import pytest

from .builders import config_map, container, deployment, widget
from .client import Api, Manifest, manifest


async def test_a_deployment_is_filled_in(api: Api, namespace: str) -> None:
    """Everything that a Deployment gets beyond what was applied, leaf by leaf."""
    probe = {"httpGet": {"path": "/healthz", "port": 6060}}
    body = deployment(
        containers=[
            container(
                ports=[{"containerPort": 9090}],
                env=[
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "E", "value": ""},
                ],
                resources={"limits": {"cpu": "0.5", "memory": "1024Mi"}},
                livenessProbe=probe,
                volumeMounts=[{"name": "v", "mountPath": "/v"}],
            )
        ],
        pod={"serviceAccountName": "some", "volumes": [{"name": "v", "configMap": {"name": "c"}}]},
    )
    answer = await api.apply(namespace, body)
    assert answer.code == 201, answer
    assert answer.body["spec"] == {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "one"}},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        "template": {
            "metadata": {"labels": {"app": "one"}},
            "spec": {
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "serviceAccount": "some",
                "serviceAccountName": "some",
                "volumes": [{"name": "v", "configMap": {"name": "c", "defaultMode": 420}}],
                "containers": [
                    {
                        "name": "main",
                        "image": "example.invalid/image:1",
                        "imagePullPolicy": "IfNotPresent",
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                        "ports": [{"containerPort": 9090, "protocol": "TCP"}],
                        "env": [
                            {
                                "name": "POD",
                                "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
                            },
                            {"name": "E"},
                        ],
                        "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
                        "livenessProbe": {
                            "httpGet": {"path": "/healthz", "port": 6060, "scheme": "HTTP"},
                            "timeoutSeconds": 1,
                            "periodSeconds": 10,
                            "successThreshold": 1,
                            "failureThreshold": 3,
                        },
                        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                    }
                ],
            },
        },
    }


async def test_a_recreated_deployment_has_no_rolling_update(api: Api, namespace: str) -> None:
    """`Recreate` gets no `rollingUpdate`."""
    answer = await api.apply(namespace, deployment(strategy={"type": "Recreate"}))
    assert answer.body["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a.invalid/x", "Always"),
        ("a.invalid/x:latest", "Always"),
        ("a.invalid:5000/x", "Always"),
        ("a.invalid/x:1", "IfNotPresent"),
        ("a.invalid/x@sha256:" + "0" * 64, "IfNotPresent"),
    ],
)
async def test_the_tag_decides_the_pull_policy(api: Api, namespace: str, image: str, policy: str) -> None:
    """No tag and `latest` are always pulled."""
    answer = await api.apply(namespace, deployment(containers=[container(image=image)]), dryRun="All")
    assert answer.body["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1.5", "1500m"),
        (2, "2"),
        ("100Mi", "100Mi"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("1000M", "1G"),
        ("1e3", "1e3"),
        ("128974848", "128974848"),
        ("0", "0"),
        ("0.1", "100m"),
    ],
)
async def test_quantities_are_canonical(api: Api, namespace: str, written: str, stored: str) -> None:
    """The server rewrites quantities to its own spelling."""
    resources = {"requests": {"memory": written}}
    answer = await api.apply(namespace, deployment(containers=[container(resources=resources)]), dryRun="All")
    assert answer.code == 201, answer
    assert answer.body["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] == stored


async def test_a_service_is_filled_in(api: Api, namespace: str) -> None:
    """A Service gets a type, an address and target ports."""
    answer = await api.apply(
        namespace, manifest("Service", "one", spec={"selector": {"a": "b"}, "ports": [{"port": 80}]})
    )
    spec: Manifest = answer.body["spec"]
    assert spec["clusterIP"].count(".") == 3
    assert spec == {
        "selector": {"a": "b"},
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
        "ipFamilyPolicy": "SingleStack",
        "ipFamilies": ["IPv4"],
        "clusterIP": spec["clusterIP"],
        "clusterIPs": [spec["clusterIP"]],
    }
    assert answer.body["status"] == {"loadBalancer": {}}


async def test_a_headless_service_keeps_none(api: Api, namespace: str) -> None:
    """`clusterIP: None` is not replaced."""
    spec = {"clusterIP": "None", "ports": [{"port": 9090, "targetPort": "metrics"}], "selector": {"a": "b"}}
    answer = await api.apply(namespace, manifest("Service", "one", spec=spec))
    assert (answer.body["spec"]["clusterIP"], answer.body["spec"]["clusterIPs"]) == ("None", ["None"])
    assert answer.body["spec"]["ports"][0]["targetPort"] == "metrics"


async def test_subjects_get_their_group(api: Api, namespace: str) -> None:
    """Users and groups get an apiGroup, service accounts do not."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subjects = [{"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s", "namespace": namespace}]
    answer = await api.apply(namespace, manifest("RoleBinding", "one", roleRef=role, subjects=subjects))
    assert answer.body["subjects"] == [
        {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "g"},
        {"kind": "ServiceAccount", "name": "s", "namespace": namespace},
    ]


async def test_empty_things_vanish_from_typed_objects(api: Api, namespace: str) -> None:
    """Nulls, and empty maps where Go says omitempty, are not stored."""
    answer = await api.create(namespace, config_map(data={}, labels={}, annotations={}))
    assert set(answer.body) == {"kind", "apiVersion", "metadata"}
    assert not {"labels", "annotations"} & answer.body["metadata"].keys()


@pytest.mark.usefixtures("widgets")
async def test_a_custom_schema_defaults_and_prunes(api: Api, namespace: str) -> None:
    """Schema defaults are filled in where the parent is there; fields unknown to a POST go without a word."""
    made = await api.create(namespace, widget(notes=["a"], nonsense="x"))
    assert made.body["spec"] == {"notes": ["a"], "size": 1}
    without = await api.apply(namespace, widget("two"))
    assert "spec" not in without.body
