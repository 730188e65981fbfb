"""A look at a job asks for no more than it needs to know where the tasks are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slurmapi import SlurmClient, SlurmGarbled
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
    # It has grown, so that the second answer is not read with what the first has told.
    moved = record(nodes="n[2-3]", tasks=3, job_resources=cores(n2=4, n3=2))
    server.on(LOOK, ok({"jobs": [packed]}), ok({"jobs": [moved]}))
    job = await client.job(5)
    assert (job.nodes, job.tasks_by_node) == (("n2", "n3"), {"n2": 2, "n3": 1})
    assert [seen.query for seen in server.calls(LOOK)] == ["flags=ALL", ""]


@pytest.mark.parametrize(("nodes", "mebibytes"), [(8, 9), (10_000, 64)])
async def test_cores_of_more_nodes_may_take_more_bytes(
    server: Server, client: SlurmClient, nodes: int, mebibytes: int
) -> None:
    packed = record(nodes=f"n[1-{nodes}]", tasks=nodes + 1)
    body = len(json.dumps({"errors": [], "warnings": [], "jobs": [packed | {"extra": ""}]}))
    most = {"extra": "x" * (mebibytes * 2**20 - body)}
    more = {"extra": most["extra"] + "x"}
    short = ok({"jobs": [packed]})
    server.on(LOOK, short, ok({"jobs": [packed | most]}), short, ok({"jobs": [packed | more]}))
    assert (await client.job(5)).dealt_out
    with pytest.raises(SlurmGarbled, match="the limit is"):
        await client.job(5)
