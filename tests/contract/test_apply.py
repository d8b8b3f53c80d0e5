"""Server-side apply: who owns what, what merges, what conflicts, what goes."""

import pytest

from .builders import config_map, container, deployment, managers, owned, widget
from .client import Api, Manifest, manifest


def _containers(answer: Manifest) -> dict[str, Manifest]:
    return {each["name"]: each for each in answer["spec"]["template"]["spec"]["containers"]}


async def test_the_first_apply_creates(api: Api, namespace: str) -> None:
    """What is not there is created with 201, and the manager owns the leaves that it sent."""
    answer = await api.apply(namespace, config_map(data={"a": "1"}, labels={"l": "x"}))
    assert answer.code == 201
    assert owned(answer.body, "us") == {"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}
    (entry,) = answer.body["metadata"]["managedFields"]
    assert {key: entry[key] for key in ("operation", "apiVersion", "fieldsType")} == {
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
    }


async def test_the_same_apply_again_changes_nothing(api: Api, namespace: str) -> None:
    """A no-op answers 200 and keeps the resourceVersion and the time of the entry."""
    first = await api.apply(namespace, config_map(data={"a": "1"}))
    again = await api.apply(namespace, config_map(data={"a": "1"}))
    assert (again.code, again.body) == (200, first.body)


@pytest.mark.usefixtures("widgets")
async def test_the_same_apply_of_a_custom_resource_changes_nothing(api: Api, namespace: str) -> None:
    """The same holds for custom resources with defaults."""
    first = await api.apply(namespace, widget(notes=["a", "b"], parts=[{"name": "x"}]))
    again = await api.apply(namespace, widget(notes=["a", "b"], parts=[{"name": "x"}]))
    assert (first.code, again.code, again.body) == (201, 200, first.body)


async def test_a_quantity_in_other_words_is_no_change(api: Api, namespace: str) -> None:
    """`0.5` of a CPU is stored as `500m`, and applying `0.5` again leaves the generation alone."""
    body = deployment(containers=[container(resources={"limits": {"cpu": "0.5", "memory": "1024Mi"}})])
    first = await api.apply(namespace, body)
    assert _containers(first.body)["main"]["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi"}
    again = await api.apply(namespace, body)
    assert again.body["metadata"]["generation"] == 1
    assert owned(again.body, "us") == owned(first.body, "us")


async def test_another_value_is_a_conflict(api: Api, namespace: str) -> None:
    """Without force a field of another manager is refused, and the cause names both."""
    await api.apply(namespace, config_map(data={"a": "1"}), manager="them")
    answer = await api.apply(namespace, config_map(data={"a": "2"}))
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert answer.message == 'Apply failed with 1 conflict: conflict with "them": .data.a'
    assert answer.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "them"', "field": ".data.a"}
    ]


async def test_several_conflicts_name_each_manager(api: Api, namespace: str) -> None:
    """Each cause carries its own manager; one that updated is named with its API version."""
    await api.create(namespace, config_map(data={"a": "1"}), fieldManager="editor")
    await api.apply(namespace, config_map(data={"b": "1"}), manager="them")
    answer = await api.apply(namespace, config_map(data={"a": "2", "b": "2"}))
    assert answer.message.startswith("Apply failed with 2 conflicts: ")
    causes = sorted((cause["field"], cause["message"]) for cause in answer.body["details"]["causes"])
    assert causes == [(".data.a", 'conflict with "editor" using v1'), (".data.b", 'conflict with "them"')]


async def test_a_conflict_in_a_list_names_the_item(api: Api, namespace: str) -> None:
    """The field of a cause names list items by their keys."""
    ports = [{"containerPort": 80, "name": "web"}]
    await api.apply(namespace, deployment(containers=[container(ports=ports)]), manager="them")
    ports = [{"containerPort": 80, "name": "other"}]
    answer = await api.apply(namespace, deployment(containers=[container(ports=ports)]))
    path = '.spec.template.spec.containers[name="main"].ports[containerPort=80,protocol="TCP"].name'
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == [path]


async def test_force_takes_the_field(api: Api, namespace: str) -> None:
    """By force the value changes and the other manager loses the field, not its other fields."""
    await api.apply(namespace, config_map(data={"a": "1", "b": "1"}), manager="them")
    answer = await api.apply(namespace, config_map(data={"a": "2"}), force=True)
    assert answer.body["data"] == {"a": "2", "b": "1"}
    assert owned(answer.body, "us") == {"f:data": {"f:a": {}}}
    assert owned(answer.body, "them") == {"f:data": {"f:b": {}}}


async def test_a_manager_without_fields_leaves(api: Api, namespace: str) -> None:
    """Who loses the last field loses the entry."""
    await api.apply(namespace, config_map(data={"a": "1"}), manager="them")
    answer = await api.apply(namespace, config_map(data={"a": "2"}), force=True)
    assert managers(answer.body) == [("us", "Apply", "")]


async def test_the_same_value_is_shared(api: Api, namespace: str) -> None:
    """Two managers that say the same both own it; the object changes, because its owners do."""
    first = await api.apply(namespace, config_map(data={"a": "1"}), manager="them")
    answer = await api.apply(namespace, config_map(data={"a": "1"}))
    assert answer.code == 200
    assert answer.version != first.version
    assert owned(answer.body, "us") == owned(answer.body, "them") == {"f:data": {"f:a": {}}}


async def test_a_field_that_is_no_longer_applied_goes(api: Api, namespace: str) -> None:
    """What a manager drops is removed from the object."""
    await api.apply(namespace, config_map(data={"a": "1", "b": "2"}, labels={"x": "1"}))
    answer = await api.apply(namespace, config_map(data={"a": "1"}))
    assert answer.body["data"] == {"a": "1"}
    assert "labels" not in answer.body["metadata"]


async def test_a_shared_field_stays_until_the_last_owner_drops_it(api: Api, namespace: str) -> None:
    """What another manager owns too is not removed."""
    await api.apply(namespace, config_map(data={"a": "1"}), manager="them")
    await api.apply(namespace, config_map(data={"a": "1"}))
    answer = await api.apply(namespace, config_map())
    assert answer.body["data"] == {"a": "1"}
    gone = await api.apply(namespace, config_map(), manager="them")
    assert "data" not in gone.body


async def test_a_merge_patch_takes_the_fields_it_changes(api: Api, namespace: str) -> None:
    """Every other write takes ownership without asking; the next apply conflicts."""
    await api.apply(namespace, config_map(data={"a": "1", "b": "1"}))
    patched = await api.merge("ConfigMap", namespace, "one", {"data": {"a": "2"}}, fieldManager="editor")
    assert owned(patched.body, "us") == {"f:data": {"f:b": {}}}
    assert owned(patched.body, "editor", "Update") == {"f:data": {"f:a": {}}}
    answer = await api.apply(namespace, config_map(data={"a": "1", "b": "1"}))
    assert answer.body["details"]["causes"][0]["message"] == 'conflict with "editor" using v1'


async def test_an_update_of_the_same_manager_is_another_owner(api: Api, namespace: str) -> None:
    """Apply and Update entries of one name conflict with each other."""
    await api.apply(namespace, config_map(data={"a": "1"}), manager="us")
    await api.merge("ConfigMap", namespace, "one", {"data": {"a": "2"}}, fieldManager="us")
    answer = await api.apply(namespace, config_map(data={"a": "3"}), manager="us")
    assert answer.code == 409


async def test_a_new_list_item_joins_those_of_others(api: Api, namespace: str) -> None:
    """Containers merge by name: each manager keeps its own."""
    await api.apply(namespace, deployment(containers=[container("theirs")]), manager="them")
    answer = await api.apply(namespace, deployment(containers=[container("ours")]))
    assert list(_containers(answer.body)) == ["theirs", "ours"]
    answer = await api.apply(namespace, deployment(containers=[container("ours", image="example.invalid/image:2")]))
    assert _containers(answer.body)["ours"]["image"] == "example.invalid/image:2"
    assert _containers(answer.body)["theirs"]["image"] == "example.invalid/image:1"


async def test_a_dropped_list_item_goes_with_its_defaults(api: Api, namespace: str) -> None:
    """An item that its only owner drops is removed as a whole."""
    await api.apply(namespace, deployment(containers=[container("a"), container("b")]))
    answer = await api.apply(namespace, deployment(containers=[container("a")]))
    assert list(_containers(answer.body)) == ["a"]


async def test_the_order_of_the_applied_list_wins(api: Api, namespace: str) -> None:
    """Items that are applied again come in the order of the last apply."""
    await api.apply(namespace, deployment(containers=[container("a"), container("b"), container("c")]))
    answer = await api.apply(namespace, deployment(containers=[container("c"), container("a"), container("b")]))
    assert list(_containers(answer.body)) == ["c", "a", "b"]


async def test_items_of_others_stay_about_where_they_were(api: Api, namespace: str) -> None:
    """A merged list keeps others' items in place and puts ours in our order around them."""
    await api.apply(namespace, deployment(containers=[container(name) for name in "abc"]), manager="them")
    for ours, merged in (("cb", "acb"), ("xb", "acxb"), ("bx", "acbx"), ("xcya", "bxcya")):
        answer = await api.apply(namespace, deployment(containers=[container(name) for name in ours]))
        assert "".join(_containers(answer.body)) == merged


async def test_a_dropped_item_goes_even_when_an_editor_changed_it(api: Api, namespace: str) -> None:
    """An Update that took one field of an item does not keep the item."""
    made = await api.apply(namespace, deployment(containers=[container("a"), container("b")]))
    containers = [container("a"), container("b", image="example.invalid/image:9")]
    template = {**made.body["spec"]["template"], "spec": {"containers": containers}}
    await api.merge("Deployment", namespace, "one", {"spec": {"template": template}}, fieldManager="editor")
    answer = await api.apply(namespace, deployment(containers=[container("a")]))
    assert list(_containers(answer.body)) == ["a"]


async def test_an_item_twice_is_refused(api: Api, namespace: str) -> None:
    """Two items of one key cannot be applied."""
    answer = await api.apply(namespace, deployment(containers=[container("a"), container("a")]))
    assert answer.code == 500
    assert answer.message.endswith('.spec.template.spec.containers: duplicate entries for key [name="a"]')


@pytest.mark.usefixtures("widgets")
async def test_an_unknown_field_cannot_be_applied(api: Api, namespace: str) -> None:
    """Where POST prunes, an apply answers 500: the schema does not declare the field."""
    answer = await api.apply(namespace, widget(nonsense="x"))
    assert answer.code == 500
    assert answer.message.endswith(".spec.nonsense: field not declared in schema")


async def test_environment_merges_by_name_and_mounts_by_path(api: Api, namespace: str) -> None:
    """`env`, `volumes` and `volumeMounts` are associative too."""
    volumes = [{"name": "v", "emptyDir": {}}]
    first = container(env=[{"name": "A", "value": "1"}], volumeMounts=[{"name": "v", "mountPath": "/a"}])
    second = container(env=[{"name": "B", "value": "2"}], volumeMounts=[{"name": "v", "mountPath": "/b"}])
    await api.apply(namespace, deployment(containers=[first], pod={"volumes": volumes}), manager="them")
    answer = await api.apply(namespace, deployment(containers=[second]))
    assert answer.code == 200, answer
    main = _containers(answer.body)["main"]
    assert [each["name"] for each in main["env"]] == ["A", "B"]
    assert [each["mountPath"] for each in main["volumeMounts"]] == ["/a", "/b"]


async def test_an_atomic_list_has_one_owner(api: Api, namespace: str) -> None:
    """`args` is replaced as a whole, and a second manager conflicts."""
    await api.apply(namespace, deployment(containers=[container(args=["a", "b"])]), manager="them")
    refused = await api.apply(namespace, deployment(containers=[container(args=["c"])]))
    path = '.spec.template.spec.containers[name="main"].args'
    assert [cause["field"] for cause in refused.body["details"]["causes"]] == [path]
    answer = await api.apply(namespace, deployment(containers=[container(args=["c"])]), force=True)
    assert _containers(answer.body)["main"]["args"] == ["c"]


async def test_rules_and_subjects_are_atomic(api: Api, namespace: str) -> None:
    """The lists of RBAC have one owner."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    answer = await api.apply(namespace, manifest("Role", "one", rules=rules))
    assert owned(answer.body, "us") == {"f:rules": {}}


async def test_service_ports_merge_by_port_and_protocol(api: Api, namespace: str) -> None:
    """The protocol counts with its default, so that naming it is the same item."""
    one = manifest("Service", "one", spec={"selector": {"a": "b"}, "ports": [{"name": "x", "port": 80}]})
    two = manifest("Service", "one", spec={"ports": [{"name": "y", "port": 81, "protocol": "TCP"}]})
    await api.apply(namespace, one, manager="them")
    answer = await api.apply(namespace, two)
    assert [(each["port"], each["name"]) for each in answer.body["spec"]["ports"]] == [(80, "x"), (81, "y")]
    assert 'k:{"port":81,"protocol":"TCP"}' in owned(answer.body, "us")["f:spec"]["f:ports"]


@pytest.mark.usefixtures("widgets")
async def test_custom_lists_merge_as_their_schema_says(api: Api, namespace: str) -> None:
    """`x-kubernetes-list-type` decides: map and set merge, without it a list is atomic."""
    await api.apply(namespace, widget(parts=[{"name": "a"}], tags=["a"], options={"a": "1"}), manager="them")
    body = widget(parts=[{"name": "b"}], tags=["b"], options={"b": "2"}, notes=["n"])
    answer = await api.apply(namespace, body)
    spec = answer.body["spec"]
    assert [part["name"] for part in spec["parts"]] == ["a", "b"]
    assert spec["tags"] == ["a", "b"]
    assert spec["options"] == {"a": "1", "b": "2"}
    assert owned(answer.body, "us")["f:spec"]["f:notes"] == {}
    assert owned(answer.body, "us")["f:spec"]["f:tags"] == {'v:"b"': {}}
    refused = await api.apply(namespace, widget(notes=["m"]), manager="third")
    assert [cause["field"] for cause in refused.body["details"]["causes"]] == [".spec.notes"]


@pytest.mark.usefixtures("widgets")
async def test_emptied_custom_maps_go(api: Api, namespace: str) -> None:
    """Dropping everything in a map drops the map."""
    await api.apply(namespace, widget(size=2, options={"a": "1"}, parts=[{"name": "a"}]))
    answer = await api.apply(namespace, widget(size=2))
    assert answer.body["spec"] == {"size": 2}


@pytest.mark.usefixtures("widgets")
async def test_emptying_what_somebody_else_made_leaves_an_invalid_null(api: Api, namespace: str) -> None:
    """A trap: the node belongs to who created it, so dropping its last item leaves `null`, and the apply is refused.

    Built-in kinds drop the null.
    """
    await api.create(namespace, widget(options={"a": "theirs"}), fieldManager="editor")
    assert (await api.apply(namespace, widget(options={"a": "ours"}), force=True)).code == 200
    answer = await api.apply(namespace, widget(), force=True)
    assert answer.code == 422
    assert 'spec.options: Invalid value: "null": spec.options in body must be of type object: "null"' in answer.message
    await api.create(namespace, config_map(data={"a": "theirs"}), fieldManager="editor")
    assert (await api.apply(namespace, config_map(data={"a": "ours"}), force=True)).code == 200
    emptied = await api.apply(namespace, config_map(), force=True)
    assert emptied.code == 200
    assert "data" not in emptied.body


async def test_what_existed_before_belongs_to_its_writers(api: Api, namespace: str) -> None:
    """An apply onto an object without managedFields names the old state `before-first-apply`."""
    await api.create(namespace, config_map(data={"a": "1"}))
    reset = await api.merge("ConfigMap", namespace, "one", {"metadata": {"managedFields": [{}]}})
    assert managers(reset.body) == []
    answer = await api.apply(namespace, config_map(data={"b": "2"}))
    assert managers(answer.body) == [("before-first-apply", "Update", ""), ("us", "Apply", "")]


async def test_an_apply_needs_a_manager(api: Api, namespace: str) -> None:
    """Without `fieldManager` an apply is refused."""
    answer = await api.apply(namespace, config_map(), manager="")
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")


async def test_an_apply_may_not_carry_owners(api: Api, namespace: str) -> None:
    """`managedFields` in the body are refused, as when somebody applies what was read."""
    answer = await api.apply(namespace, {**config_map(), "metadata": {"name": "one", "managedFields": []}})
    assert (answer.code, answer.message) == (400, "metadata.managedFields must be nil")


async def test_names_and_namespaces_must_agree_with_the_path(api: Api, namespace: str) -> None:
    """A body for another place is refused."""
    answer = await api.apply(namespace, config_map(namespace="default"))
    assert answer.code == 400
    assert answer.message == "the namespace of the provided object does not match the namespace sent on the request"


async def test_a_finalizer_is_one_item_of_a_set(api: Api, namespace: str) -> None:
    """Finalizers merge as a set, each with its owner."""
    await api.apply(namespace, config_map(finalizers=["x.example/a"]), manager="them")
    answer = await api.apply(namespace, config_map(finalizers=["x.example/b"]))
    assert answer.body["metadata"]["finalizers"] == ["x.example/a", "x.example/b"]
    await api.merge("ConfigMap", namespace, "one", {"metadata": {"finalizers": None}})
