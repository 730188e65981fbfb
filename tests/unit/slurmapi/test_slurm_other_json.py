"""JSON that is valid and none of slurmrestd's, in answer to each call: it says nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from slurmapi import (
    JobSubmission,
    SlurmClient,
    SlurmError,
    SlurmGarbled,
    SlurmInterrupted,
    SlurmUnreachable,
)
from tests.unit.slurmapi.server import Server, ok, other

OTHER: dict[str, Any] = {
    "object": {},
    "list": [],
    "null": None,
    "string": "x",
    "list of jobs that is null": {"jobs": None, "nodes": None, "partitions": None},
    "list of errors that is null": {"jobs": [], "nodes": [], "pings": [], "errors": None},
    "lists without a frame": {"jobs": [], "nodes": [], "partitions": [], "status": []},
    "job without a frame": {"job_id": 5, "jobs": [{"job_id": 5, "job_state": ["CANCELLED"]}]},
    "Status of Kubernetes": {"kind": "Status", "metadata": {}, "status": "Failure", "code": 404},
}
READS: dict[str, Callable[[SlurmClient], Awaitable[object]]] = {
    "GET ping/": lambda it: it.ping(),
    "GET conf": lambda it: it.config(),
    "GET nodes/": lambda it: it.nodes(),
    "GET node/n1": lambda it: it.node("n1"),
    "GET partitions/": lambda it: it.partitions(),
    "GET job/5": lambda it: it.job(5),
    "GET jobs/state/": lambda it: it.job_states([5]),
}
WRITES: dict[str, Callable[[SlurmClient, JobSubmission], Awaitable[object]]] = {
    "POST job/submit": lambda it, job: it.submit(job),
    "POST job/5": lambda it, _job: it.update_job(5, comment="x"),
}


@pytest.mark.parametrize("body", OTHER.values(), ids=OTHER)
@pytest.mark.parametrize("call", READS)
async def test_read_is_garbled(server: Server, client: SlurmClient, call: str, body: Any) -> None:
    await client.negotiate()
    server.on(call, other(body))
    with pytest.raises(SlurmGarbled):
        await READS[call](client)


@pytest.mark.parametrize("call", READS)
async def test_frame_alone_is_no_answer(server: Server, client: SlurmClient, call: str) -> None:
    await client.negotiate()
    server.on(call, ok({}))
    with pytest.raises(SlurmGarbled):
        await READS[call](client)


@pytest.mark.parametrize("body", OTHER.values(), ids=OTHER)
@pytest.mark.parametrize("call", WRITES)
async def test_outcome_of_a_write_is_open(
    server: Server, client: SlurmClient, placeholder: JobSubmission, call: str, body: Any
) -> None:
    server.on(call, other(body))
    with pytest.raises(SlurmInterrupted):
        await WRITES[call](client, placeholder)


@pytest.mark.parametrize("body", OTHER.values(), ids=OTHER)
async def test_job_may_live_on_after_such_an_answer_to_its_cancel(
    server: Server, client: SlurmClient, body: Any
) -> None:
    server.on("DELETE jobs/", other(body))
    failures = await client.cancel([5, 6])
    assert {job_id: type(error) for job_id, error in failures.items()} == {
        5: SlurmInterrupted,
        6: SlurmInterrupted,
    }


@pytest.mark.parametrize("body", OTHER.values(), ids=OTHER)
async def test_no_version_is_agreed_on(server: Server, client: SlurmClient, body: Any) -> None:
    server.on("GET ping/", other(body))
    with pytest.raises(SlurmUnreachable):
        await client.negotiate()


@pytest.mark.parametrize("body", OTHER.values(), ids=OTHER)
async def test_node_is_not_counted(server: Server, client: SlurmClient, body: Any) -> None:
    server.on("GET nodes/", other(body))
    server.on("GET node/n1", ok({"nodes": [{"name": "n1"}]}))
    with pytest.raises(SlurmError):
        await client.counted_node("n1")
