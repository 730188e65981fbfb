from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from groundwork.retry import retry_policy
from scheduler.core.gang_objects import BatchJob, Unserved
from scheduler.core.gang_sources import GroupRef
from scheduler.kube import errors
from scheduler.kube.api import (
    AlreadyBound,
    Bound,
    Condition,
    DeletionAccepted,
    Gone,
    Held,
    KubeApi,
    Patched,
    Refused,
)
from scheduler.kube.session import KubeSession
from tests.unit.kube.server import ApiStub, Handler, cut, late, ok, pod, raw, status

POD = "/api/v1/namespaces/ns/pods/p"
BINDING = f"{POD}/binding"
STATUS = f"{POD}/status"

# messages as seen on kube-apiserver 1.36.3
WRONG_UID = "Precondition failed: UID in precondition: u, UID in object meta: v"
IMMUTABLE_UID = 'Pod "p" is invalid: metadata.uid: Invalid value: "u": field is immutable'
ASSIGNED = (
    'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
)


@pytest.fixture
def api(session: KubeSession) -> KubeApi:
    return KubeApi(session, policy=retry_policy(errors.KubeError))


async def test_binding_names_pod_uid_node_and_annotations(stub: ApiStub, api: KubeApi) -> None:
    stub.answer("POST", BINDING, ok({"kind": "Status", "status": "Success"}, 201))
    outcome = await api.bind("ns", "p", "u", node="n1", annotations={"a": "b"})
    assert outcome == Bound()
    assert stub.seen[0].body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "uid": "u", "annotations": {"a": "b"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


UNKNOWN = [
    pytest.param(status(409, reason="Conflict", message=ASSIGNED), id="409"),
    pytest.param(cut(), id="cut"),
    pytest.param(status(500, message="etcdserver: request timed out"), id="500"),
    pytest.param(status(504), id="504"),
]


@pytest.mark.parametrize("answer", UNKNOWN)
@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (ok(pod("p", uid="u", spec={"nodeName": "n1"})), Bound()),
        (ok(pod("p", uid="u", spec={"nodeName": "n2"})), AlreadyBound("n2")),
        (ok(pod("p", uid="another", spec={"nodeName": "n1"})), Gone()),
        (ok(pod("p", uid="u", metadata={"deletionTimestamp": "2026-11-21T08:00:00Z"})), Gone()),
        (status(404), Gone()),
    ],
    ids=["bound here", "bound elsewhere", "another uid", "going", "gone"],
)
async def test_unknown_outcome_of_a_binding_is_read_and_not_written_again(
    stub: ApiStub, api: KubeApi, answer: Handler, found: Handler, outcome: object
) -> None:
    stub.answer("POST", BINDING, answer)
    stub.answer("GET", POD, found)
    assert await api.bind("ns", "p", "u", node="n1") == outcome
    assert len(stub.requests("POST")) == 1


@pytest.mark.parametrize("answer", [status(409), status(503), cut()])
async def test_binding_that_was_not_applied_raises_what_went_wrong(
    stub: ApiStub, api: KubeApi, answer: Handler
) -> None:
    stub.answer("POST", BINDING, answer)
    stub.answer("GET", POD, ok(pod("p", uid="u")))
    with pytest.raises((errors.KubeRefused, errors.KubeInterrupted)):
        await api.bind("ns", "p", "u", node="n1")
    assert len(stub.requests("POST")) == 1


WEBHOOK = 'admission webhook "pods.example.com" denied the request: not at night'
DEAD_WEBHOOK = 'Internal error occurred: failed calling webhook "pods.example.com": no route'
REFUSALS = [
    pytest.param(400, WEBHOOK, id="webhook"),
    pytest.param(403, "pods is forbidden: exceeded quota", id="quota or right"),
    pytest.param(404, WEBHOOK, id="webhook that says 404"),
    pytest.param(409, WEBHOOK, id="webhook that says 409"),
    pytest.param(413, "too large", id="size"),
    pytest.param(422, "ValidatingAdmissionPolicy 'a' denied request: b", id="policy"),
    pytest.param(429, WEBHOOK, id="webhook that says 429"),
    pytest.param(500, DEAD_WEBHOOK, id="webhook that is away"),
]


@pytest.mark.parametrize(("code", "message"), REFUSALS)
async def test_binding_that_the_server_will_not_take_is_refused_in_its_words(
    stub: ApiStub, api: KubeApi, code: int, message: str
) -> None:
    stub.answer("POST", BINDING, status(code, message=message))
    stub.answer("GET", POD, ok(pod("p", uid="u")))
    outcome = await api.bind("ns", "p", "u", node="n1")
    assert isinstance(outcome, Refused)
    assert message in outcome.why
    assert len(stub.requests("POST")) == 1


@pytest.mark.parametrize(("code", "message"), REFUSALS)
async def test_status_that_the_server_will_not_take_is_refused_in_its_words(
    stub: ApiStub, api: KubeApi, code: int, message: str
) -> None:
    stub.answer("PATCH", STATUS, status(code, message=message))
    outcome = await api.patch_pod_status("ns", "p", "u", annotations={"a": "b"})
    assert isinstance(outcome, Refused)
    assert message in outcome.why


async def test_pod_with_the_name_of_a_field_is_not_gone(stub: ApiStub, api: KubeApi) -> None:
    """Else it would never be deleted where a policy refuses its status."""
    name, path = "metadata.uid", "/api/v1/namespaces/ns/pods/metadata.uid/status"
    stub.answer("PATCH", path, status(422, message=f'pods "{name}" is forbidden: not at night'))
    assert isinstance(await api.patch_pod_status("ns", name, "u"), Refused)


async def test_words_of_a_refusal_are_bounded_in_bytes(stub: ApiStub, api: KubeApi) -> None:
    stub.answer("POST", BINDING, status(422, message="é" * 10_000))
    outcome = await api.bind("ns", "p", "u", node="n1")
    assert isinstance(outcome, Refused)
    assert 400 < len(outcome.why.encode()) <= 512


async def test_server_that_fails_for_one_pod_refuses_its_binding(
    stub: ApiStub, api: KubeApi
) -> None:
    stub.answer("POST", BINDING, status(500, message="runtime error"))
    stub.answer("GET", POD, ok(pod("p", uid="u")))
    assert isinstance(await api.bind("ns", "p", "u", node="n1"), Refused)


async def test_binding_of_a_pod_that_is_gone(stub: ApiStub, api: KubeApi) -> None:
    stub.answer("POST", BINDING, status(404))
    assert await api.bind("ns", "p", "u", node="n1") == Gone()


@pytest.mark.parametrize("code", [401, 429])
async def test_binding_that_was_not_judged_raises_without_a_look(
    stub: ApiStub, api: KubeApi, code: int
) -> None:
    stub.answer("POST", BINDING, status(code))
    with pytest.raises(errors.KubeRefused):
        await api.bind("ns", "p", "u", node="n1")
    assert len(stub.seen) == 1


@pytest.mark.parametrize(
    ("grace", "sent"),
    [(None, {}), (0, {"gracePeriodSeconds": 0}), (20, {"gracePeriodSeconds": 20})],
)
async def test_deletion_carries_uid_and_grace(
    stub: ApiStub, api: KubeApi, grace: int | None, sent: dict[str, int]
) -> None:
    stub.answer("DELETE", POD, ok(pod("p")))
    assert await api.delete_pod("ns", "p", "u", grace_seconds=grace) == DeletionAccepted()
    assert stub.seen[0].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        **sent,
    }


@pytest.mark.parametrize("answer", [status(404), status(409, message=WRONG_UID)])
async def test_deletion_of_a_pod_that_is_gone(stub: ApiStub, api: KubeApi, answer: Handler) -> None:
    stub.answer("DELETE", POD, answer)
    assert await api.delete_pod("ns", "p", "u") == Gone()


async def test_other_conflict_of_a_deletion_is_raised(stub: ApiStub, api: KubeApi) -> None:
    stub.answer("DELETE", POD, status(409, message="the storage is busy"))
    with pytest.raises(errors.Conflict):
        await api.delete_pod("ns", "p", "u")


async def test_deletion_whose_answer_was_lost_is_repeated(stub: ApiStub, api: KubeApi) -> None:
    stub.answer("DELETE", POD, status(503), cut(), status(404))
    assert await api.delete_pod("ns", "p", "u") == Gone()


EVICTION = f"{POD}/eviction"


@pytest.mark.parametrize(("grace", "sent"), [(None, {}), (7, {"gracePeriodSeconds": 7})])
async def test_eviction_names_the_pods_uid(
    stub: ApiStub, api: KubeApi, grace: int | None, sent: dict[str, int]
) -> None:
    stub.answer("POST", EVICTION, ok({"kind": "Status", "status": "Success"}))
    assert await api.evict_pod("ns", "p", "u", grace_seconds=grace) == DeletionAccepted()
    assert stub.seen[0].body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "ns"},
        "deleteOptions": {"preconditions": {"uid": "u"}, **sent},
    }


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (status(404), Gone()),
        (status(409, message=WRONG_UID), Gone()),
        (status(429, message="Cannot evict pod as it would violate the budget."), Held()),
    ],
)
async def test_eviction_that_does_not_come_about(
    stub: ApiStub, api: KubeApi, answer: Handler, outcome: object
) -> None:
    stub.answer("POST", EVICTION, answer)
    assert await api.evict_pod("ns", "p", "u") == outcome
    assert len(stub.seen) == 1, "a budget is asked again later, not at once"


async def test_other_conflict_of_an_eviction_is_raised(stub: ApiStub, api: KubeApi) -> None:
    stub.answer("POST", EVICTION, status(409, message="the storage is busy"))
    with pytest.raises(errors.Conflict):
        await api.evict_pod("ns", "p", "u")


async def test_status_patch_is_one_strategic_merge(stub: ApiStub, api: KubeApi) -> None:
    stub.answer("PATCH", STATUS, ok(pod("p")))
    since = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
    outcome = await api.patch_pod_status(
        "ns",
        "p",
        "u",
        conditions=[Condition("PodScheduled", "False", "Unschedulable", "why", since)],
        annotations={"job": "1", "old": None},
    )
    assert outcome == Patched()
    seen = stub.seen[0]
    assert seen.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert seen.body == {
        "metadata": {"uid": "u", "annotations": {"job": "1", "old": None}},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "why",
                    "lastTransitionTime": "2026-11-21T08:00:00Z",
                }
            ]
        },
    }


async def test_status_patch_sends_only_what_it_changes(stub: ApiStub, api: KubeApi) -> None:
    stub.answer("PATCH", STATUS, ok(pod("p")))
    await api.patch_pod_status("ns", "p", "u", annotations={"job": "1"})
    assert stub.seen[0].body == {"metadata": {"uid": "u", "annotations": {"job": "1"}}}


@pytest.mark.parametrize(
    "answer",
    [status(404), status(422, message=IMMUTABLE_UID), status(409, message=WRONG_UID)],
)
async def test_status_patch_of_a_pod_that_is_gone(
    stub: ApiStub, api: KubeApi, answer: Handler
) -> None:
    stub.answer("PATCH", STATUS, answer)
    assert await api.patch_pod_status("ns", "p", "u", annotations={"a": "b"}) == Gone()


@pytest.mark.looptime
async def test_writes_outlast_a_webhook_that_hangs(stub: ApiStub, api: KubeApi) -> None:
    """The API server waits ten seconds for it, and goes on without it if its policy is Ignore. Else
    a pod whose job has ended would not be deleted before somebody repairs the webhook.
    """
    stored = late(ok(pod("p", uid="u")), 10.5)
    stub.answer("PATCH", STATUS, stored)
    stub.answer("DELETE", POD, stored)
    stub.answer("POST", BINDING, late(status(500, message='failed calling webhook "x"'), 10.5))
    stub.answer("GET", POD, ok(pod("p", uid="u")))
    assert await api.patch_pod_status("ns", "p", "u", annotations={"a": "b"}) == Patched()
    assert await api.delete_pod("ns", "p", "u") == DeletionAccepted()
    refused = await api.bind("ns", "p", "u", node="n1")
    assert isinstance(refused, Refused)
    assert "failed calling webhook" in refused.why


async def test_pod_is_read(stub: ApiStub, api: KubeApi) -> None:
    stub.answer("GET", POD, status(500), ok(pod("p", uid="u", spec={"nodeName": "n1"})))
    found = await api.get_pod("ns", "p")
    assert found is not None
    assert (found.metadata.uid, found.spec.node_name) == ("u", "n1")


async def test_garbled_pod_is_garbled(stub: ApiStub, api: KubeApi) -> None:
    stub.answer("GET", POD, raw(b'{"metadata": []}'))
    with pytest.raises(errors.KubeGarbled):
        await api.get_pod("ns", "p")


JOB = GroupRef("batch/v1", "jobs", "ns", "train", "u1")
JOB_PATH = "/apis/batch/v1/namespaces/ns/jobs/train"
JOB_BODY = {"metadata": {"name": "train", "uid": "u1"}, "spec": {"parallelism": 4}}


async def test_object_of_a_gang_is_read(stub: ApiStub, api: KubeApi) -> None:
    stub.answer("GET", JOB_PATH, status(500), ok(JOB_BODY))
    found = await api.get_group(JOB)
    assert isinstance(found, BatchJob)
    assert found.spec.parallelism == 4


async def test_object_of_a_gang_that_is_gone_or_replaced_is_none(
    stub: ApiStub, api: KubeApi
) -> None:
    stub.answer("GET", JOB_PATH, status(404))
    assert await api.get_group(JOB) is None
    stub.answer("GET", JOB_PATH, ok(JOB_BODY))
    assert await api.get_group(replace(JOB, uid="u2")) is None
    assert await api.get_group(replace(JOB, uid="")) is not None


NO_SUCH_PATH = raw(b"404 page not found\n", 404)


def apis(*served: str) -> Handler:
    """The answer at /apis of a server with these versions."""
    groups = [{"name": it.split("/")[0], "versions": [{"groupVersion": it}]} for it in served]
    return ok({"kind": "APIGroupList", "groups": groups})


async def test_kind_that_the_server_does_not_have_is_told(stub: ApiStub, api: KubeApi) -> None:
    stub.answer("GET", JOB_PATH, NO_SUCH_PATH)
    stub.answer("GET", "/apis", apis("apps/v1", "batch/v2"))
    assert await api.get_group(JOB) == Unserved("batch/v1", "jobs")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (apis("apps/v1", "batch/v1"), errors.KubeRefused),
        (NO_SUCH_PATH, errors.KubeRefused),
        (ok({"kind": "Other"}), errors.KubeGarbled),
    ],
    ids=["served", "no answer", "garbled"],
)
async def test_answer_that_is_none_of_the_apis_says_nothing_about_a_gang(
    stub: ApiStub, api: KubeApi, answer: Handler, error: type[errors.KubeError]
) -> None:
    stub.answer("GET", JOB_PATH, NO_SUCH_PATH)
    stub.answer("GET", "/apis", answer)
    with pytest.raises(error):
        await api.get_group(JOB)


async def test_object_of_a_gang_that_may_not_be_read_is_forbidden(
    stub: ApiStub, api: KubeApi
) -> None:
    stub.answer("GET", JOB_PATH, status(403))
    with pytest.raises(errors.Forbidden):
        await api.get_group(JOB)


@pytest.mark.parametrize(
    ("answer", "uid"),
    [
        (ok({"kind": "Namespace", "metadata": {"name": "kube-system", "uid": "1234"}}), "1234"),
        (status(403), None),
        (status(404), None),
    ],
)
async def test_namespace_uid(stub: ApiStub, api: KubeApi, answer: Handler, uid: str | None) -> None:
    stub.answer("GET", "/api/v1/namespaces/kube-system", answer)
    assert await api.get_namespace_uid("kube-system") == uid
