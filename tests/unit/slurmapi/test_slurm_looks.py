"""A look at a job asks for no more than it needs to know where the tasks are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slurmapi import Job, SlurmClient, SlurmGarbled
from tests.unit.slurmapi.server import Server, ok

LOOK = "GET job/5"


def record(**fields: Any) -> dict[str, Any]:
    return {"job_id": 5, "job_state": ["RUNNING"], "cpus_per_task": 2} | fields


def cores(**cpus: int) -> dict[str, Any]:
    nodes = [{"name": name, "cpus": {"count": count}} for name, count in cpus.items()]
    return {"nodes": {"allocation": nodes}}


@pytest.mark.parametrize(
    "fields",
    [
        {"nodes": "n1", "tasks": 1},
        {"nodes": "n[1-200]", "tasks": 200, "tasks_per_node": 1},
        {"nodes": "n1", "tasks": 6, "cpus": 12},
        {"job_state": ["PENDING"], "nodes": "", "tasks": 6},
    ],
    ids=str,
)
async def test_cores_are_not_requested(
    server: Server, client: SlurmClient, fields: dict[str, Any]
) -> None:
    server.on(LOOK, ok({"jobs": [record(**fields)]}))
    job = await client.job(5)
    assert sum(job.tasks_by_node.values()) == (job.tasks if job.nodes else 0)
    assert [seen.query for seen in server.calls(LOOK)] == ["flags=ALL"]


async def test_cores_are_requested_of_tasks_that_slurm_has_dealt_out(
    server: Server, client: SlurmClient
) -> None:
    packed = record(nodes="n[1-2]", tasks=3)
    # It has changed, so that the second answer is not read with what the first has told.
    moved = record(nodes="n[2-3]", tasks=3, job_resources=cores(n2=4, n3=2))
    server.on(LOOK, ok({"jobs": [packed]}), ok({"jobs": [moved]}))
    job = await client.job(5)
    assert (job.laid_out, job.tasks_by_node) == (False, {})
    job = await client.laid_out(job)
    assert (job.nodes, job.tasks_by_node) == (("n2", "n3"), {"n2": 2, "n3": 1})
    assert job.laid_out
    assert [seen.query for seen in server.calls(LOOK)] == ["flags=ALL", ""]


@pytest.mark.parametrize(("nodes", "mebibytes"), [(8, 9), (10_000, 64)])
async def test_cores_of_more_nodes_may_take_more_bytes(
    server: Server, client: SlurmClient, nodes: int, mebibytes: int
) -> None:
    packed = record(nodes=f"n[1-{nodes}]", tasks=nodes + 1)
    body = len(json.dumps({"errors": [], "warnings": [], "jobs": [packed | {"extra": ""}]}))
    most = {"extra": "x" * (mebibytes * 2**20 - body)}
    more = {"extra": most["extra"] + "x"}
    records = (packed, packed | most, packed | more)
    server.on(LOOK, *(ok({"jobs": [it]}) for it in records))
    job = await client.job(5)
    assert not (await client.laid_out(job)).laid_out
    with pytest.raises(SlurmGarbled, match="the limit is"):
        await client.laid_out(job)


PACKED = record(nodes="n[1-3]", tasks=6, start_time=100, submit_time=90)


async def known(server: Server, client: SlurmClient, *later: dict[str, Any]) -> Job:
    """The packed job with the CPUs of its nodes; afterwards it is as these records say."""
    whole = PACKED | {"job_resources": cores(n1=2, n2=4, n3=6)}
    server.on(LOOK, *(ok({"jobs": [it]}) for it in (whole, *later)))
    return await client.job(5)


@pytest.mark.parametrize(
    ("nodes", "tasks"), [("n[1-3]", {"n1": 1, "n2": 2, "n3": 3}), ("n[2-3]", {"n2": 2, "n3": 3})]
)
async def test_what_is_known_of_the_nodes_stays_true_while_the_job_runs(
    server: Server, client: SlurmClient, nodes: str, tasks: dict[str, int]
) -> None:
    earlier = await known(server, client, PACKED | {"nodes": nodes})
    assert (await client.job(5)).laid_out_as(earlier).tasks_by_node == tasks


@pytest.mark.parametrize(
    "changed",
    [
        *({"nodes": "n[1-4]"}, {"start_time": 101}, {"submit_time": 91}, {"restart_cnt": 1}),
        {"job_state": ["COMPLETED"]},
    ],
    ids=str,
)
async def test_what_is_known_of_another_run_of_the_job_does_not_count(
    server: Server, client: SlurmClient, changed: dict[str, Any]
) -> None:
    earlier = await known(server, client, PACKED | changed)
    job = (await client.job(5)).laid_out_as(earlier)
    assert job.tasks_by_node == {}
    assert job.laid_out is job.state.ended


async def test_cores_of_components_are_known_from_before(
    server: Server, client: SlurmClient
) -> None:
    parts = [
        record(het_job_id=5, het_job_offset=0, nodes="n9", start_time=100),
        record(job_id=6, het_job_id=5, het_job_offset=1, nodes="n[1-2]", tasks=3, start_time=100),
    ]
    whole = [parts[0], parts[1] | {"job_resources": cores(n1=2, n2=4)}]
    server.on(LOOK, ok({"jobs": whole}), ok({"jobs": parts}))
    earlier, later = await client.job(5), await client.job(5)
    assert not later.laid_out
    assert later.laid_out_as(earlier).tasks_by_node == {"n9": 1, "n1": 1, "n2": 2}


async def test_listed_job_is_the_one_of_that_id(server: Server, client: SlurmClient) -> None:
    """The answer about an array has all its tasks, and each is asked about by its own id."""
    tasks = [record(job_id=6), record(user_name="alice", tres_req_str="cpu=2"), {"job_id": None}]
    server.on(LOOK, ok({"jobs": tasks}))
    (listed,) = await client.listed(5)
    assert (listed.job.job_id, listed.user, listed.tres_requested) == (5, "alice", "cpu=2")


async def test_all_components_of_a_job_are_listed(server: Server, client: SlurmClient) -> None:
    parts = [record(het_job_id=5), record(job_id=6, het_job_id=5, het_job_offset=1)]
    server.on(LOOK, ok({"jobs": parts}))
    assert [it.job.job_id for it in await client.listed(5)] == [5, 6]


@pytest.mark.parametrize("jobs", [None, [], [record(job_id=6)]], ids=str)
async def test_answer_without_the_job_lists_nothing(
    server: Server, client: SlurmClient, jobs: Any
) -> None:
    server.on(LOOK, ok({"jobs": jobs}))
    with pytest.raises(SlurmGarbled, match="does not hold it"):
        await client.listed(5)
