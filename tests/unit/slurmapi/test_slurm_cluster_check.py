"""Answers of another Slurm say nothing, and nothing is written there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slurmapi import JobSubmission, SlurmClient, SlurmInterrupted, SlurmStranger
from slurmapi.cluster_check import ClusterCheck
from slurmapi.http1 import Response
from tests.unit.slurmapi.server import Server, error, fail, ok

SUBMIT = "POST job/submit"
STATES = "GET jobs/state/"
CANCEL = "DELETE jobs/"
PING = "GET ping/"


def of(cluster: str, **more: Any) -> dict[str, Any]:
    body = {"meta": {"slurm": {"cluster": cluster}}, "errors": [], "warnings": []}
    return body | more


def up(cluster: str) -> dict[str, Any]:
    return of(cluster, pings=[{"responding": True, "status": "UP"}])


@pytest.fixture
def ours(server: Server, client_of: Callable[..., SlurmClient]) -> SlurmClient:
    return client_of(server, cluster="ours")


async def test_answer_of_another_slurm_is_no_answer(server: Server, ours: SlurmClient) -> None:
    server.on(PING, ok(up("ours")))
    server.on(STATES, ok(of("theirs", jobs=[])))
    with pytest.raises(SlurmStranger, match="'theirs', expected 'ours'"):
        await ours.job_states([1])


async def test_refusal_of_another_slurm_is_none(server: Server, ours: SlurmClient) -> None:
    server.on(PING, ok(up("ours")))
    server.on("GET job/7", error(2017, status=404, **of("theirs") | {"errors": []}))
    with pytest.raises(SlurmStranger):
        await ours.job(7)


async def test_first_answer_tells_which_slurm_is_meant(server: Server, client: SlurmClient) -> None:
    assert client.cluster == ""
    server.on(PING, ok(up("first")))
    server.on(STATES, ok(of("first", jobs=[])), ok(of("second", jobs=[])))
    assert await client.job_states([1]) == {}
    assert client.cluster == "first"
    with pytest.raises(SlurmStranger):
        await client.job_states([1])


async def test_answers_that_name_no_cluster_are_taken(server: Server, ours: SlurmClient) -> None:
    server.on(STATES, ok({"jobs": []}))
    assert await ours.job_states([1]) == {}


async def test_nothing_is_written_to_another_slurm(
    server: Server, ours: SlurmClient, placeholder: JobSubmission
) -> None:
    server.on(PING, ok(up("ours")), ok(up("theirs")), ok(up("theirs")), ok(up("theirs")))
    server.on(STATES, ok(of("theirs", jobs=[])))
    with pytest.raises(SlurmStranger):
        await ours.job_states([1])
    with pytest.raises(SlurmStranger):
        await ours.submit(placeholder)
    assert set(map(type, (await ours.cancel([7])).values())) == {SlurmStranger}
    with pytest.raises(SlurmStranger):
        await ours.update_job(7, comment="ours")
    assert {seen.method for seen in server.seen} == {"GET"}


async def test_job_that_another_slurm_has_made_is_ended_there(
    server: Server, ours: SlurmClient, placeholder: JobSubmission
) -> None:
    server.on(PING, ok(up("ours")))
    server.on(SUBMIT, ok(of("theirs", job_id=7)))
    server.on(CANCEL, ok(of("theirs", status=[{"job_id": "7", "error": {"code": 0}}])))
    with pytest.raises(SlurmStranger):
        await ours.submit(placeholder)
    assert [seen.json for seen in server.seen if seen.method == "DELETE"] == [{"jobs": ["7"]}]


async def test_job_that_another_slurm_keeps_is_told(
    server: Server, ours: SlurmClient, placeholder: JobSubmission
) -> None:
    server.on(PING, ok(up("ours")))
    server.on(SUBMIT, ok(of("theirs", job_id=7)))
    server.on(CANCEL, fail(500, "no"))
    with pytest.raises(SlurmInterrupted, match=r"'theirs'.* job 7"):
        await ours.submit(placeholder)


def test_write_follows_an_answer_of_this_moment() -> None:
    now = [100.0]
    identity = ClusterCheck("ours", clock=lambda: now[0])
    assert not identity.seen_within(1.0)
    identity.check(Response(status=200, headers={}, body=b'{"meta":{"slurm":{"cluster":"ours"}}}'))
    assert identity.seen_within(1.0)
    now[0] = 102.0
    assert not identity.seen_within(1.0)


@pytest.mark.parametrize("body", [b"", b"no", b"{", b'{"meta": 7}', b'{"meta":{"slurm":null}}'])
def test_answer_that_cannot_be_read_is_for_its_reader_to_refuse(body: bytes) -> None:
    identity = ClusterCheck("ours", clock=lambda: 1.0)
    identity.check(Response(status=200, headers={}, body=body))
    assert not identity.seen_within(1e9)
