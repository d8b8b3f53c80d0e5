"""What an API server answers, and what it means to us."""

from typing import Any

import pytest

from metaoperator.core import answers, errors, names

CANNOT = 'User "system:serviceaccount:a:b" cannot patch resource "configmaps" in API group "" in the namespace "x"'
GRANTS = (
    'user "system:serviceaccount:a:b" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not '
    'currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'
)


@pytest.mark.parametrize(
    ("code", "status", "retry_after", "kind"),
    [
        (401, {}, None, errors.Unauthorized),
        (404, {"details": {"name": "x"}}, None, errors.Gone),
        (404, {}, None, errors.Gone),
        (409, {}, None, errors.Conflict),
        (410, {}, None, errors.Expired),
        (403, {"details": {"causes": [{"reason": "NamespaceTerminating"}]}}, None, errors.Gone),
        (403, {"message": "exceeded quota"}, None, errors.Rejected),
        (403, {"message": 'configmaps "b" is forbidden: exceeded quota: q, requested: x'}, None, errors.OverQuota),
        (403, {"message": 'pods "b" is forbidden: failed quota: q: must specify x'}, None, errors.OverQuota),
        (403, {"message": 'pods "b" is forbidden: status unknown for quota: q, resources: x'}, None, errors.OverQuota),
        (403, {"message": 'pods "b" is forbidden: violates PodSecurity "restricted:latest"'}, None, errors.Rejected),
        (403, {"message": f'configmaps "b" is forbidden: {CANNOT}'}, None, errors.Forbidden),
        (403, {"message": f"configmaps is forbidden: {CANNOT}"}, None, errors.Forbidden),
        (
            403,
            {"message": f'rolebindings.rbac.authorization.k8s.io "b" is forbidden: {GRANTS}'},
            None,
            errors.Forbidden,
        ),
        (403, {"message": f'admission webhook "w" denied the request: {CANNOT}'}, None, errors.Rejected),
        (403, {"message": 'admission webhook "w" denied the request: exceeded quota: q'}, None, errors.Rejected),
        (413, {"message": "Request entity too large: limit is 3145728"}, None, errors.Rejected),
        (500, {"message": "etcdserver: request is too large"}, None, errors.Rejected),
        (500, {"message": "rpc error: desc = trying to send message larger than max (3 vs. 2)"}, None, errors.Rejected),
        (500, {"message": "failed to create typed patch object (/a; v1, Kind=b): .x: y"}, None, errors.Invalid),
        (500, {"message": "etcdserver: leader changed"}, None, errors.RetryableError),
        (400, {}, None, errors.Rejected),
        (422, {}, None, errors.Invalid),
        (429, {}, None, errors.Throttled),
        (429, {}, "7", errors.Throttled),
        (503, {}, "7", errors.Throttled),
        (500, {"details": {"retryAfterSeconds": 7}}, None, errors.Throttled),
        (500, {}, None, errors.RetryableError),
        (503, {}, "Wed, 21 Oct 2015 07:28:00 GMT", errors.RetryableError),
    ],
    ids=str,
)
def test_an_answer_becomes_one_of_our_errors(
    code: int, status: dict[str, Any], retry_after: str | None, kind: type[Exception]
) -> None:
    """By code, and by what the Status says besides."""
    assert type(answers.error(code, status, "GET x", retry_after)) is kind


def kind_of_fence(policy: str) -> type[Exception]:
    """Say what a denial by one of our policies means."""
    if policy in names.FENCES_BY_PLACE:
        return errors.Fenced
    return errors.Forbidden if policy in names.FENCES_BY_PERSON else errors.Rejected


@pytest.mark.parametrize("policy", names.FENCES)
def test_a_fence_judges_by_place_by_person_or_by_object(policy: str) -> None:
    """The API server may know less of a place than we do: asked again. A person may be another one. An object stays."""
    message = f"x \"y\" is forbidden: ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: no"
    found = answers.error(403, {"message": message}, "PATCH x", None)
    assert type(found) is kind_of_fence(policy)
    assert str(found).startswith(message)


def test_a_fence_that_stumbles_is_no_judgement_of_the_object() -> None:
    """It fails closed with 422, which says of an object elsewhere that it is wrong."""
    message = (
        "x \"y\" is forbidden: ValidatingAdmissionPolicy 'metaoperator-operator-writes' with binding "
        "'metaoperator-operator-writes' denied request: expression 'x' resulted in error: no such key"
    )
    assert type(answers.error(422, {"message": message}, "PATCH x", None)) is errors.Fenced


def test_no_other_refusal_is_a_fence_of_ours() -> None:
    """RBAC, a policy of somebody else, and a webhook that only speaks of one."""
    fence = (
        "ValidatingAdmissionPolicy 'metaoperator-operator-writes' with binding 'metaoperator-operator-writes' denied"
    )
    for message, kind in (
        ('configmaps is forbidden: User "x" cannot create resource "configmaps" in API group ""', errors.Forbidden),
        (f'admission webhook "x" denied the request: y is forbidden: {fence}', errors.Rejected),
        (
            "x is forbidden: ValidatingAdmissionPolicy 'other' with binding 'metaoperator-operator-writes' denied",
            errors.Rejected,
        ),
    ):
        assert type(answers.error(403, {"message": message}, "POST x", None)) is kind


@pytest.mark.parametrize(
    ("status", "retry_after", "seconds"),
    [({}, None, 1), ({}, "7", 7), ({"details": {"retryAfterSeconds": 9}}, "7", 9), ({}, "soon", 1)],
    ids=str,
)
def test_a_throttled_request_waits_as_long_as_it_was_told(
    status: dict[str, Any], retry_after: str | None, seconds: float
) -> None:
    """The body counts more than the header, and a second is the least."""
    found = answers.error(429, status, "GET x", retry_after)
    assert isinstance(found, errors.Throttled)
    assert found.after == seconds


def test_a_missing_kind_is_told_from_a_missing_object() -> None:
    """A 404 for an object names it; one for a kind that is not served names nothing."""
    for details, missing in (({"name": "x"}, False), ({}, True)):
        found = answers.error(404, {"details": details}, "GET x", None)
        assert isinstance(found, errors.Gone)
        assert found.kind_missing is missing


def test_a_refusal_is_told_in_the_api_servers_words() -> None:
    """Its own sentence names the object and the reason; without one the request is named."""
    assert str(answers.error(422, {"message": "spec.x: Invalid"}, "PATCH x", None)) == "spec.x: Invalid"
    assert str(answers.error(400, {}, "PATCH x", None)) == "PATCH x: HTTP 400"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"message": "no"}', {"message": "no"}),
        (b"upstream timed out\n", {"message": "upstream timed out"}),
        (b"\xff", {"message": "\ufffd"}),
        (b"[]", {}),
        (b"x" * 9000, {"message": "x" * 500}),
    ],
    ids=["a Status", "a proxy's text", "no text", "no Status", "a long page"],
)
def test_a_body_that_is_no_status_becomes_its_message(body: bytes, found: dict[str, Any]) -> None:
    """Proxies answer in HTML and plain text."""
    assert answers.status(body) == found


@pytest.mark.parametrize("kind", [errors.Rejected, errors.Invalid, errors.OverQuota, errors.Forbidden])
def test_a_refusal_is_told_with_its_cure(kind: type[errors.Rejected]) -> None:
    """What the API server said, what to do about it, and a reason of its own where the cure is another."""
    assert kind("no").told == f"no ({kind.cure})"
    assert kind.cure
    assert (kind.reason is errors.Rejected.reason) == (kind in (errors.Rejected, errors.Invalid))
