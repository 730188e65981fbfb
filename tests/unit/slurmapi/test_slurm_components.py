"""The components of a heterogeneous job are submitted, looked at and watched as one job."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from slurmapi import ApiVersion, BaseState, Job, JobState, JobSubmission, SlurmClient, SlurmInvalid
from slurmapi.submission import encode_submission
from tests.unit.slurmapi.server import Server, ok

NEW = ApiVersion(45)
LOOK = "GET job/5"
STATES = "GET jobs/state/"


def record(job_id: int, offset: int, **fields: Any) -> dict[str, Any]:
    plain = {"job_id": job_id, "het_job_id": 5, "het_job_offset": offset, "tasks": 1}
    return plain | {"job_state": ["RUNNING"], "admin_comment": f"c{offset}"} | fields


async def look(server: Server, client: SlurmClient, *records: dict[str, Any]) -> Job:
    server.on(LOOK, ok({"jobs": list(records)}))
    return await client.job(5)


def state(text: str) -> JobState:
    return JobState.parse(text)


def test_components_are_sent_in_order(placeholder: JobSubmission) -> None:
    worker = replace(placeholder, cpus=8, nodes=4, tasks_per_node=2)
    body = json.loads(encode_submission(placeholder, NEW, others=[worker]))
    alone = [json.loads(encode_submission(it, NEW))["job"] for it in (placeholder, worker)]
    assert body == {"jobs": alone}


def test_each_component_is_checked(placeholder: JobSubmission) -> None:
    script = replace(placeholder, external=False, script="#!/bin/sh\n")
    with pytest.raises(SlurmInvalid, match="component 1: cpus is 0"):
        encode_submission(placeholder, NEW, others=[replace(placeholder, cpus=0)])
    with pytest.raises(SlurmInvalid, match="external: expected the same"):
        encode_submission(placeholder, NEW, others=[script])


async def test_components_are_submitted_at_once(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    server.on("POST job/submit", ok({"job_id": 5}))
    submitted = await client.submit(placeholder, others=[placeholder])
    (seen,) = server.calls("POST job/submit")
    assert (submitted.job_id, len(seen.json["jobs"])) == (5, 2)


async def test_record_is_that_of_all_components(server: Server, client: SlurmClient) -> None:
    job = await look(
        server,
        client,
        record(7, 2, nodes="n4", tasks=3, tasks_per_node=3, preempt_time=1_800_000_050),
        record(5, 0, nodes="n9", start_time=1_800_000_000),
        record(6, 1, nodes="n[1-2]", tasks=4, tasks_per_node=2, start_time=1_800_000_001),
    )
    assert (job.job_id, job.ids, job.admin_comment) == (5, (5, 6, 7), "c0")
    assert job.nodes == ("n9", "n1", "n2", "n4")
    assert list(job.tasks_by_node.items()) == [("n9", 1), ("n1", 2), ("n2", 2), ("n4", 3)]
    assert (job.tasks, job.start_time, job.preempt_time) == (8, 1_800_000_001, 1_800_000_050)
    assert [part.nodes for part in job.parts] == [("n9",), ("n1", "n2"), ("n4",)]


@pytest.mark.parametrize(
    ("last", "reason", "description"),
    [
        ({"state_reason": "None"}, "ReqNodeNotAvail", "May be reserved"),
        ({"state_reason": "JobHeldUser", "hold": True}, "JobHeldUser", ""),
    ],
    ids=["none is held", "one is held"],
)
async def test_reason_is_that_of_the_component_that_holds_all_back(
    server: Server, client: SlurmClient, last: dict[str, Any], reason: str, description: str
) -> None:
    pending = {"job_state": ["PENDING"]}
    busy = {"state_reason": "ReqNodeNotAvail", "state_description": "May be reserved"}
    job = await look(
        server,
        client,
        record(5, 0, state_reason="None", **pending),
        record(6, 1, **pending, **busy),
        record(7, 2, **pending, **last),
    )
    assert (job.state_reason, job.state_description) == (reason, description)


async def test_cores_of_a_component_are_requested_where_they_tell_its_tasks(
    server: Server, client: SlurmClient
) -> None:
    first, packed = record(5, 0, nodes="n9"), record(6, 1, nodes="n[1-2]", tasks=3)
    nodes = [{"name": name, "cpus": {"count": count}} for name, count in (("n1", 2), ("n2", 1))]
    whole = packed | {"job_resources": {"nodes": {"allocation": nodes}}}
    server.on(LOOK, ok({"jobs": [first, packed]}), ok({"jobs": [first, whole]}))
    job = await client.laid_out(await client.job(5))
    assert job.tasks_by_node == {"n9": 1, "n1": 2, "n2": 1}
    assert [seen.query for seen in server.calls(LOOK)] == ["flags=ALL", ""]


async def test_component_asked_for_by_its_own_id_is_itself(
    server: Server, client: SlurmClient
) -> None:
    server.on("GET job/6", ok({"jobs": [record(6, 1, nodes="n1")]}))
    job = await client.job(6)
    assert (job.ids, job.parts, job.nodes) == ((6,), (), ("n1",))


async def test_records_of_other_jobs_are_no_components(server: Server, client: SlurmClient) -> None:
    strangers = ({"job_id": 6, "nodes": "n2"}, record(7, 1, het_job_id=4, nodes="n3"))
    job = await look(server, client, record(5, 0, nodes="n1"), *strangers)
    assert (job.ids, job.nodes) == ((5,), ("n1",))


async def test_reason_is_that_of_the_component_that_waits(
    server: Server, client: SlurmClient
) -> None:
    pending = {"job_state": ["PENDING"]}
    waits = record(6, 1, state_reason="Resources", priority=0, **pending)
    job = await look(server, client, record(5, 0, state_reason="None", **pending), waits)
    assert (job.state_reason, job.held, job.nodes) == ("Resources", True, ())


@pytest.mark.parametrize(
    ("states", "joint"),
    [
        (["RUNNING", "RUNNING"], "RUNNING"),
        (["RUNNING", "RUNNING,CONFIGURING"], "RUNNING,CONFIGURING"),
        (["PENDING", "RUNNING"], "RUNNING,CONFIGURING"),
        (["RUNNING", "SUSPENDED"], "SUSPENDED"),
        (["RUNNING", "FROZEN"], "FROZEN"),
        (["CANCELLED", "CANCELLED,COMPLETING"], "CANCELLED,COMPLETING"),
        (["RUNNING", "NODE_FAIL"], "NODE_FAIL,PARTIAL"),
        (["PENDING", "CANCELLED"], "CANCELLED,PARTIAL"),
        (["FROZEN", "CANCELLED"], "CANCELLED,PARTIAL,FROZEN"),
        (["TIMEOUT", "CANCELLED"], "TIMEOUT"),
    ],
)
async def test_state_is_told_of_all_components(
    server: Server, client: SlurmClient, states: list[str], joint: str
) -> None:
    jobs = [{"job_id": f"{5 + n}+{n}", "state": it.split(",")} for n, it in enumerate(states)]
    server.on(STATES, ok({"jobs": jobs}))
    found = await client.job_states([5])
    assert found == {5: state(joint)}
    assert found[5].partial == ("PARTIAL" in joint)
    both = (record(5 + n, n, job_state=it.split(",")) for n, it in enumerate(states))
    assert (await look(server, client, *both)).state == found[5]


async def test_states_of_several_jobs_stay_apart(server: Server, client: SlurmClient) -> None:
    listed = {
        "3": "RUNNING",
        "5+0": "RUNNING",
        "6+1": "CANCELLED",
        "8+0": "PENDING",
        "9+1": "PENDING",
        "10+2": "PENDING",
        "12+1": "RUNNING",
        "14_3": "RUNNING",
    }
    server.on(STATES, ok({"jobs": [{"job_id": it, "state": [was]} for it, was in listed.items()]}))
    assert await client.job_states([3, 5, 8, 12, 14]) == {
        3: JobState(BaseState.RUNNING),
        5: state("CANCELLED,PARTIAL"),
        8: JobState(BaseState.PENDING),
        # Asked for by its own id, as the other components are not in the answer.
        12: JobState(BaseState.RUNNING),
        14: JobState(BaseState.RUNNING),
    }
