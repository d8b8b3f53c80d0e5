"""Records written down and read back: whole, under valid names, and never an exception for what somebody garbled."""

import base64
import gzip
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from metaoperator.core import names, packing, recorded, revision
from metaoperator.core.errors import TemplateError
from metaoperator.core.model import Desired
from metaoperator.core.revision import Head, Inputs, SetHead
from tests.unit.builders import JSON, JSON_OBJECTS, TEXT

SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
HEX = st.text("0123456789abcdef", min_size=10, max_size=10)
SPACES = st.text("az09-", min_size=1, max_size=63).map(lambda name: name.strip("-") or "a")
NAMES = st.lists(SPACES, min_size=1, max_size=3).map(".".join)
TIMES = st.datetimes(datetime(2026, 1, 1), datetime(2126, 1, 1)).map(  # noqa: DTZ001 - a zone is given next
    lambda time: time.replace(microsecond=0, tzinfo=UTC)
)
UIDS = st.uuids().map(str)
DOCUMENTS = st.lists(
    st.builds(
        lambda name, rest: {**rest, "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}},
        TEXT,
        JSON_OBJECTS,
    ),
    max_size=3,
).map(tuple)
MAPS = st.dictionaries(TEXT, TEXT, max_size=3)
HEADS = st.builds(
    Head,
    name=NAMES,
    uid=UIDS,
    namespace=SPACES,
    namespace_uid=UIDS,
    template=NAMES,
    set_revision=HEX,
    revision=HEX,
    number=st.integers(0, 10**17),
    version=TEXT,
    before=st.sampled_from([revision.NEW, revision.OWN, revision.READY, *names.Reason]).map(str),
    since=TIMES,
    proven=st.none() | TIMES,
    earlier=st.lists(HEX, max_size=3).map(tuple),
)
SET_HEADS = st.builds(
    SetHead,
    name=NAMES,
    uid=UIDS,
    template=NAMES,
    set_revision=HEX,
    number=st.integers(0, 10**17),
    since=TIMES,
    stable=st.none() | TIMES,
    failed=st.none() | TIMES,
    why=TEXT,
)
PACKED = packing.pack({}, where="", cure="")
HEAD = Head(
    name="one",
    uid="uid",
    namespace="team-a",
    namespace_uid="uid-a",
    template="default",
    set_revision="0123456789",
    revision="9876543210",
    number=7,
    version="4.0.5",
    before=revision.READY,
    since=datetime(2026, 11, 30, tzinfo=UTC),
)


def sent(head: Head | SetHead, uid: str = "uid") -> dict[str, Any]:
    """Write a record as an API server has it: through JSON, and with a UID."""
    live = json.loads(json.dumps(revision.manifest(head, PACKED, home="metaoperator")))
    live["metadata"]["uid"] = uid
    return live  # type: ignore[no-any-return]


def content_of(text: bytes) -> dict[str, str]:
    """Pack bytes as a record does."""
    return {packing.KEY: base64.b64encode(gzip.compress(text)).decode()}


# ---- heads


@given(HEADS | SET_HEADS)
def test_a_head_comes_back_from_metadata_alone(head: Head | SetHead) -> None:
    """Neither `data` nor `revision` is needed for it."""
    live = sent(head, head.uid)
    del live["data"], live["revision"]
    assert revision.head(live) == (head, "")


@given(HEADS | SET_HEADS)
def test_what_is_written_is_valid(head: Head | SetHead) -> None:
    """Labels are labels, times are RFC 3339 with seconds in UTC, and nothing is null."""
    live = sent(head)
    for key, value in live["metadata"]["labels"].items():
        assert re.fullmatch(LABEL, value), key
        assert len(value) <= 63
    annotations = live["metadata"]["annotations"]
    assert all(isinstance(value, str) for value in annotations.values())
    for key in (names.SINCE_ANNOTATION, names.PROVEN_ANNOTATION, names.STABLE_ANNOTATION, names.FAILED_ANNOTATION):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", annotations.get(key, "2026-01-01T00:00:00Z"))
    assert live["revision"] == head.number
    assert (live["apiVersion"], live["kind"]) == ("apps/v1", "ControllerRevision")
    assert live["metadata"]["labels"][names.MANAGED_BY_LABEL] == "metaoperator"
    assert live["metadata"]["namespace"] == "metaoperator"


@given(HEADS, HEADS)
def test_a_merge_of_what_a_head_says_leaves_nothing_of_the_one_before(one: Head, two: Head) -> None:
    """What it does not say is taken away."""
    live, said = sent(one), revision.metadata(replace(two, name=one.name))
    live["metadata"]["labels"] |= said["labels"]
    merged = live["metadata"]["annotations"] | said["annotations"]
    live["metadata"]["annotations"] = {key: value for key, value in merged.items() if value is not None}
    assert revision.head(live)[0] == replace(two, name=one.name, uid="uid")


@pytest.mark.parametrize(
    ("where", "key", "value", "told"),
    [
        ("labels", names.RECORD_LABEL, "pod", "its label metaoperator.dev/record is 'pod'"),
        ("labels", names.RECORD_LABEL, None, "its label metaoperator.dev/record is None"),
        ("labels", names.RECORDED_UID_LABEL, None, "metaoperator.dev/recorded-uid is missing"),
        ("labels", names.REVISION_LABEL, 7, "metaoperator.dev/revision is no text"),
        ("annotations", names.NUMBER_ANNOTATION, "-1", "metaoperator.dev/number is '-1', which is no number"),
        ("annotations", names.NUMBER_ANNOTATION, "٣", "metaoperator.dev/number is '٣', which is no number"),
        ("annotations", names.NUMBER_ANNOTATION, "9" * 5000, "which is no number"),
        ("annotations", names.SINCE_ANNOTATION, "soon", "which is no time like 2026-01-31T12:00:00Z"),
        ("annotations", names.SINCE_ANNOTATION, "2026-02-30T00:00:00Z", "which is no time"),
        ("annotations", names.PROVEN_ANNOTATION, "", "metaoperator.dev/proven is '', which is no time"),
    ],
)
def test_what_was_edited_by_hand_is_told(where: str, key: str, value: Any, told: str) -> None:
    """No head, and a sentence with the object, the place and what to do."""
    live = sent(HEAD)
    live["metadata"][where][key] = value
    found, why = revision.head(live)
    assert found is None
    assert why.startswith("ControllerRevision one is no record that can be used: ")
    assert told in why
    assert why.endswith("(restore it as it was, or delete it)")


@given(
    JSON_OBJECTS, st.dictionaries(st.sampled_from([key for key in vars(names).values() if isinstance(key, str)]), JSON)
)
def test_reading_a_head_never_raises(other: dict[str, Any], marks: dict[str, Any]) -> None:
    """Whatever stands there: a head, or a sentence."""
    for live in (other, {"metadata": other}, {"metadata": {**other, "labels": marks, "annotations": marks}}):
        found, why = revision.head(live)
        assert (found is None) == bool(why)


# ---- content


@given(MAPS, MAPS, JSON_OBJECTS, TEXT, NAMES, JSON_OBJECTS, DOCUMENTS)
def test_what_a_namespace_was_given_comes_back_whole(
    labels: dict[str, str],
    annotations: dict[str, str],
    values: dict[str, Any],
    instance_id: str,
    template: str,
    spec: dict[str, Any],
    documents: tuple[Any, ...],
) -> None:
    """Inputs, spec and documents in their order; numbers, nulls and every character as they were."""
    inputs = Inputs(labels=labels, annotations=annotations, values=values, instance_id=instance_id, template=template)
    desired = Desired(documents=documents, revision=HEAD.revision, version=HEAD.version)
    packed = recorded.namespace_content("team-a", inputs, spec, desired)
    found, why = recorded.record(HEAD, json.loads(json.dumps(packed.data)))
    assert why == ""
    assert found is not None
    assert (found.inputs, found.spec, found.desired) == (inputs, spec, desired)
    assert packing.same(packed.data, packed)


@given(MAPS, JSON_OBJECTS)
def test_a_set_comes_back_whole(files: dict[str, str], values: dict[str, Any]) -> None:
    """Its name, its files and the fleet's values."""
    head = SetHead(name="set", uid="uid", template="default", set_revision="0", number=1, since=HEAD.since)
    packed = recorded.set_content("mine", files, values)
    assert recorded.set_parts(head, packed.data) == (("mine", files, values), "")


@given(JSON_OBJECTS, JSON_OBJECTS)
def test_equal_content_has_one_digest_and_other_content_another(one: dict[str, Any], two: dict[str, Any]) -> None:
    """However its keys are ordered, and whichever compressor made the bytes."""
    packed = packing.pack(one, where="", cure="")
    assert packing.pack(dict(reversed(one.items())), where="", cure="") == packed
    text = gzip.decompress(base64.b64decode(packed.data[packing.KEY]))
    assert packing.same({packing.KEY: base64.b64encode(gzip.compress(text, 1)).decode()}, packed)
    if json.dumps(one, sort_keys=True) != json.dumps(two, sort_keys=True):
        assert packing.pack(two, where="", cure="").digest != packed.digest
        assert not packing.same(packing.pack(two, where="", cure="").data, packed)


WHOLE = json.loads(
    gzip.decompress(
        base64.b64decode(
            recorded.namespace_content("team-a", Inputs(), {}, Desired(documents=(), revision="", version="")).data[
                packing.KEY
            ]
        )
    )
)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (None, "its data holds no base64 under 'gzip'"),
        ({}, "its data holds no base64 under 'gzip'"),
        ({"gzip": 7}, "its data holds no base64 under 'gzip'"),
        ({"gzip": "ü"}, "its data holds no base64 under 'gzip'"),
        ({"gzip": "?"}, "its data is damaged: "),
        ({"gzip": "AAAA"}, "its data is damaged: "),
        ({"gzip": ""}, "its data is damaged: it ends too early"),
        ({"gzip": base64.b64encode(gzip.compress(b"{}")[:-9]).decode()}, "its data is damaged: it ends too early"),
        (content_of(b"{"), "its data holds no JSON that can be read"),
        (content_of(b"\xff"), "its data holds no JSON that can be read"),
        (content_of(b"[" * 100_000), "its data holds no JSON that can be read"),
        (content_of(b"[]"), "its data holds no object"),
        (content_of(b"{}"), "inputs is no mapping"),
        (content_of(json.dumps(WHOLE | {"spec": []}).encode()), "spec is no mapping"),
        (content_of(json.dumps(WHOLE | {"documents": {}}).encode()), "documents is no list"),
        (content_of(json.dumps(WHOLE | {"documents": [7]}).encode()), "one of its documents is no object"),
        (content_of(json.dumps(WHOLE | {"documents": [{"kind": "x"}]}).encode()), "metadata is no mapping"),
        (content_of(json.dumps(WHOLE | {"documents": [{"metadata": {}}]}).encode()), "apiVersion is missing"),
    ],
)
def test_garbled_content_is_told(data: Any, told: str) -> None:
    """No record, and a sentence."""
    found, why = recorded.record(HEAD, data)
    assert found is None
    assert told in why
    assert not packing.same(data, PACKED) or told == "inputs is no mapping"


@given(JSON)
def test_reading_content_never_raises(other: Any) -> None:
    """Whatever was put there, packed or not."""
    for data in (other, {packing.KEY: other}, content_of(json.dumps(other).encode())):
        found, why = recorded.record(HEAD, data)
        assert (found is None) == bool(why)


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 255))
def test_damage_is_noticed(noise: bytes, place: int, byte: int) -> None:
    """A byte of the compressed content that is another: nothing else is read for it."""
    packed = packing.pack({"noise": noise.hex()}, where="", cure="")
    body = bytearray(base64.b64decode(packed.data[packing.KEY]))
    assume(place < len(body) and body[place] != byte)
    body[place] = byte
    data = {packing.KEY: base64.b64encode(body).decode()}
    found, why = packing.unpack(data)
    assert (found is None) == bool(why)
    assert found in (None, {"noise": noise.hex()})


# ---- sizes


def incompressible(size: int) -> str:
    """Make text of which so many bytes are left when it is compressed, about."""
    return "".join(f"{number * number * 2654435761 % 2**64:016x}" for number in range(size // 8))


def test_a_record_over_the_limit_is_refused_with_size_limit_and_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit itself is within it; a byte more is not."""
    content = {"a": incompressible(2000)}
    size = len(base64.b64decode(packing.pack(content, where="", cure="").data[packing.KEY]))
    monkeypatch.setattr(packing, "MAX_COMPRESSED", size)
    packing.pack(content, where="", cure="")
    monkeypatch.setattr(packing, "MAX_COMPRESSED", size - 1)
    with pytest.raises(TemplateError) as caught:
        packing.pack(content, where="set mine", cure="make it smaller")
    assert str(caught.value) == (
        f"set mine: its record would be {size} bytes long, compressed, over the limit of {size - 1} (make it smaller)"
    )


def test_the_limit_leaves_room_in_what_etcd_takes() -> None:
    """As base64, with all metadata that the API server takes at most, it is below 1.5 MiB."""
    assert packing.MAX_COMPRESSED == 900 * 1024
    assert packing.MAX_COMPRESSED * 4 / 3 + 262_144 + 10_000 < 1.5 * 2**20


def test_what_unpacks_to_far_more_is_neither_written_nor_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes may stand for any number of them."""
    monkeypatch.setattr(packing, "MAX_CONTENT", 10_000)
    with pytest.raises(TemplateError, match="its record would hold 10008 bytes, over the limit of 10000"):
        packing.pack({"a": "x" * 10_000}, where="set", cure="")
    text = json.dumps({"a": "x" * 9992}, separators=(",", ":")).encode()
    assert packing.unpack(content_of(text)) == ({"a": "x" * 9992}, "")
    assert packing.unpack(content_of(text + b" ")) == (None, "its data unpacks to more than 10000 bytes")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"bytes"])
def test_what_is_no_json_is_refused(value: Any) -> None:
    """A fault of the template set's, not a traceback."""
    with pytest.raises(TemplateError, match="set mine: cannot be recorded"):
        packing.pack({"a": value}, where="set mine", cure="")


# ---- names


@given(UIDS, HEX, JSON_OBJECTS, st.integers(1, 9))
def test_names_of_namespaces_records_are_valid_and_tell_content_apart(
    uid: str, digest: str, content: dict[str, Any], attempt: int
) -> None:
    """By UID, revision and content: the same each time, another for any other."""
    packed = packing.pack(content, where="", cure="")
    name = revision.namespace_name(uid, digest, packed, attempt)
    assert re.fullmatch(SUBDOMAIN, name)
    assert len(name) <= 253
    assert name == revision.namespace_name(uid, digest, packed, attempt)
    assert f"-{uid}-{digest}-{packed.digest}" in name
    other = packing.pack({**content, "more": content}, where="", cure="")
    assert name != revision.namespace_name(uid, digest, other, attempt)
    assert name != revision.namespace_name(uid, digest, packed, attempt + 1)


@given(NAMES | st.text("a.", min_size=200, max_size=253), HEX, st.integers(1, 9))
def test_names_of_sets_records_are_valid_however_long_the_templates_is(
    template: str, digest: str, attempt: int
) -> None:
    """A ControllerTemplate's name may be as long as any."""
    assume(re.fullmatch(SUBDOMAIN, template))
    name = revision.set_name(template, digest, attempt)
    assert re.fullmatch(SUBDOMAIN, name)
    assert len(name) <= 253
    assert digest in name


def test_long_names_of_templates_are_told_apart() -> None:
    """Two that begin alike have records of their own."""
    one, two = (revision.set_name("a" * 250 + end, "0123456789") for end in ("b", "c"))
    assert one != two
    assert one.startswith("set-" + "a" * 150)
    assert revision.set_name("default", "0123456789") == "set-default-0123456789"
