"""Objects that are nested very deeply are seen, and hide no others."""

from __future__ import annotations

import json

import pytest

from scheduler.core.gang_sources import GroupRef
from scheduler.kube.api import DeletionAccepted, KubeApi, Patched
from scheduler.kube.depth import MOST_LEVELS, shallow, shallow_in_turns
from scheduler.kube.session import KubeSession
from scheduler.kube.wire import PODS
from tests.support.loop_turns import beside
from tests.unit.kube.server import ApiStub, event, page, pieces, pod, raw, until, watch
from tests.unit.kube.test_large_lists import PATH, running

# By default Python 3.11 gives up at 1000 levels, and 3.13 at 10 000. The API server does at 10 000.
DEPTHS = pytest.mark.parametrize("levels", [1200, 9990])


def deep(name: str, levels: int, *, version: str = "1") -> bytes:
    """A pod in whose managedFields the author has written so many levels."""
    entry = b'{"manager":"x","fieldsType":"FieldsV1","fieldsV1":%s}' % nested(levels)
    plain = json.dumps(pod(name, version=version)).encode()
    return plain.replace(b'"metadata": {', b'"metadata": {"managedFields":[%s],' % entry, 1)


def nested(levels: int) -> bytes:
    return b'{"f:a\\"}":[' * (levels // 2) + b"1" + b"]}" * (levels // 2)


@DEPTHS
async def test_deep_object_hides_no_other_of_its_list(
    stub: ApiStub, session: KubeSession, levels: int
) -> None:
    listed = b'{"metadata":{"resourceVersion":"10"},"items":[%s,%s]}'
    good = json.dumps(pod("good")).encode()
    stub.answer("GET", PATH, raw(listed % (deep("evil", levels), good)))
    stub.answer("WATCH", PATH, watch())
    async with running(session, PODS) as reflector:
        await reflector.synced.wait()
        assert {it.metadata.name for it in reflector.store} == {"good", "evil"}


@DEPTHS
async def test_deep_object_ends_no_watch(stub: ApiStub, session: KubeSession, levels: int) -> None:
    stub.answer("GET", PATH, page(pod("good")))
    came = b'{"type":"ADDED","object":%s}\n' % deep("evil", levels, version="20")
    later = json.dumps(event("ADDED", pod("later", version="21"))).encode() + b"\n"
    stub.answer("WATCH", PATH, pieces(came, later))
    async with running(session, PODS) as reflector:
        await until(lambda: len(reflector.store) == 3)
    assert (len(stub.requests("GET")), len(stub.requests("WATCH"))) == (1, 1)


@DEPTHS
async def test_deep_pod_is_written_read_and_deleted(
    stub: ApiStub, session: KubeSession, levels: int
) -> None:
    """Else it would never get the condition that comes before its deletion, and keep its node."""
    api, path, stored = KubeApi(session), "/api/v1/namespaces/ns/pods/evil", deep("evil", levels)
    stub.answer("PATCH", f"{path}/status", raw(stored))
    stub.answer("DELETE", path, raw(stored))
    stub.answer("GET", path, raw(stored))
    patched = await api.patch_pod_status("ns", "evil", "u", annotations={"a": "b"})
    assert isinstance(patched, Patched)
    assert isinstance(await api.delete_pod("ns", "evil", "u"), DeletionAccepted)
    found = await api.get_pod("ns", "evil")
    assert found is not None
    assert found.metadata.name == "evil"


@DEPTHS
async def test_deep_object_of_a_gang_is_read(
    stub: ApiStub, session: KubeSession, levels: int
) -> None:
    stub.answer("GET", "/apis/batch/v1/namespaces/ns/jobs/evil", raw(deep("evil", levels)))
    found = await KubeApi(session).get_group(GroupRef("batch/v1", "jobs", "ns", "evil"))
    assert found is not None


@DEPTHS
def test_deep_object_is_shown_with_the_others_of_a_page(levels: int) -> None:
    data = b'{"metadata":{"resourceVersion":"1"},"items":[%s]}' % deep("evil", levels)
    (found,) = PODS.page(data).items or ()
    assert found.metadata.name == "evil"


def test_what_is_not_too_deep_is_left_as_it_is() -> None:
    data = json.dumps({"a": [{"b": 'c]}"{'}, [], {}, "d\\", 1.5, None]}).encode()
    assert shallow(data) == data
    just = b"[" * MOST_LEVELS + b"]" * MOST_LEVELS
    assert shallow(b'{"x":[%s]}' % just[1:-1]) != b'{"x":[%s]}' % just[1:-1]
    assert shallow(just) == just


@pytest.mark.parametrize("data", [b'{"a":"no end [{[', b"]]]", b"[[[", b"", b'"\\', b"{" * 9000])
def test_what_is_no_json_stays_none(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json says it in many words
        json.loads(shallow(data))


async def test_others_get_their_turns_while_a_long_text_is_cut() -> None:
    data = b"[%s]" % b",".join([nested(1000)] * 200)
    async with beside() as turns:
        cut = await shallow_in_turns(data)
    assert len(json.loads(cut)) == 200
    assert turns.count >= 10, "of 400 000 brackets, 20 000 in each"
