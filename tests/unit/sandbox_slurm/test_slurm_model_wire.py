"""What slurmrestd sends, as measured on 26.05.5 and 24.11.5."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from scheduler.sandbox.slurm import SlurmServer, mint_token
from scheduler.sandbox.slurm.hostlist import fold
from scheduler.sandbox.slurm.tokens import user_of_token
from scheduler.sandbox.slurm.wire import memory
from tests.unit.sandbox_slurm.harness import SLEEP, Lab, Wire


def submission(**fields: object) -> dict[str, Any]:
    """An external job of one task as a client sends it."""
    plain = {
        "name": "pod",
        "flags": ["EXTERNAL_JOB"],
        "nodes": "1",
        "tasks": 1,
        "cpus_per_task": 4,
        "minimum_cpus": 4,
        "memory_per_node": {"set": True, "number": 2048},
        "tres_per_node": "gres/gpu:2",
        "current_working_directory": "/tmp",
        "environment": ["PATH=/bin"],
    }
    return {"job": {**plain, **fields}}


def batch(**fields: object) -> dict[str, Any]:
    return {**submission(flags=[], **fields), "script": SLEEP}


async def test_running_job_is_shown_with_all_it_holds(lab: Lab, wire: Wire) -> None:
    sent = await wire("POST", "job/submit", submission(admin_comment="{}"))
    lab.pass_time()
    (job,) = (await wire("GET", f"job/{sent.json['job_id']}")).json["jobs"]
    assert job["job_state"] == ["RUNNING"]
    assert (job["nodes"], job["state_reason"], job["admin_comment"]) == ("n1", "None", "{}")
    assert job["gres_detail"] == ["gpu:h100(CNT:2)"]
    assert job["tres_alloc_str"] == "cpu=4,mem=2G,node=1,billing=4"
    assert job["time_limit"] == {"set": False, "infinite": True, "number": 0}
    assert job["end_time"]["number"] == job["start_time"]["number"] + 365 * 86400
    assert "EXTERNAL_JOB" in job["flags"]
    (node,) = job["job_resources"]["nodes"]["allocation"]
    assert (node["name"], node["cpus"]["count"], node["memory"]["allocated"]) == ("n1", 4, 2048)


async def test_devices_have_indices_on_nodes_with_a_slurmd(old_lab: Lab, old_wire: Wire) -> None:
    await old_wire("POST", "job/submit", batch(tres_per_node="gres/gpu:1"))
    sent = await old_wire("POST", "job/submit", batch())
    old_lab.pass_time()
    (job,) = (await old_wire("GET", f"job/{sent.json['job_id']}")).json["jobs"]
    assert job["gres_detail"] == ["gpu:h100:2(IDX:1-2)"]
    assert job["batch_flag"] is True


async def test_ended_job_keeps_its_nodes_and_loses_its_devices(lab: Lab, wire: Wire) -> None:
    await wire("POST", "job/submit", submission())
    lab.pass_time()
    await wire("DELETE", "job/1")
    (job,) = (await wire("GET", "job/1")).json["jobs"]
    assert (job["job_state"], job["nodes"], job["gres_detail"]) == (["CANCELLED"], "n1", [])


async def test_states_are_of_the_ids_that_exist(wire: Wire) -> None:
    await wire("POST", "job/submit", submission())
    some = await wire("GET", "jobs/state/?job_id=1&job_id=77")
    everything = await wire("GET", "jobs/state/")
    assert some.json["jobs"] == everything.json["jobs"] == [{"job_id": "1", "state": ["PENDING"]}]


async def test_comma_list_of_ids_fails(wire: Wire, old_wire: Wire) -> None:
    new, old = [await w("GET", "jobs/state/?job_id=1,2") for w in (wire, old_wire)]
    assert (new.status, new.body) == (500, b"Unspecified error")
    assert (old.status, old.body) == (400, b"Unable to parse query.")


async def test_too_many_ids_fail(wire: Wire) -> None:
    reply = await wire("GET", "jobs/state/?" + "&".join(f"job_id={n}" for n in range(1, 8001)))
    assert (reply.status, reply.body) == (500, b"Insane message length")


async def test_failed_request_is_answered_twice_by_26_05_and_once_by_24_11(
    wire: Wire, old_wire: Wire
) -> None:
    new, old = await wire("GET", "job/99"), await old_wire("GET", "job/99")
    assert [status for status, *_ in new.answers] == [404, 404]
    assert new.answers[1][2] == b"Invalid job id specified"
    assert new.answers[0][1]["Connection"] == "Close"
    assert len(old.answers) == 1
    assert new.errors == old.errors == [2017]


async def test_good_requests_share_a_connection(wire: Wire) -> None:
    head = f"X-SLURM-USER-TOKEN: {mint_token(wire.key, 'root')}\r\n\r\n"
    request = f"GET /slurm/v0.0.45/ping/ HTTP/1.1\r\n{head}".encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", wire.port)
    writer.write(request * 3)
    writer.write_eof()
    received = await asyncio.wait_for(reader.read(), timeout=10)
    writer.close()
    await writer.wait_closed()
    assert received.count(b"HTTP/1.1 200 OK") == 3


@pytest.mark.parametrize(
    ("fields", "new", "old"),
    [
        ({"partition": "nope"}, (422, [2000]), (500, [2000])),
        ({"tres_per_node": "gres/gpu:9"}, (422, [2014]), (500, [2014])),
        ({"priority": "abc"}, (500, [9202]), (500, [9202])),
        ({"time_limit": "01:00:00"}, (500, [9202]), (500, [9202])),
        ({"environment": "A=b"}, (500, [9208]), (500, [9208])),
        ({"user_id": "nobodyx"}, (422, [2166]), (500, [2166])),
        ({"memory_per_node": "1G", "time_limit": 5, "priority": 7}, (200, []), (200, [])),
    ],
)
async def test_bad_submits_have_the_measured_status_and_number(
    wire: Wire,
    old_wire: Wire,
    fields: dict[str, object],
    new: tuple[int, list[int]],
    old: tuple[int, list[int]],
) -> None:
    first = await wire("POST", "job/submit", submission(**fields))
    second = await old_wire("POST", "job/submit", batch(**fields))
    assert (first.status, first.errors) == new
    assert (second.status, second.errors) == old


async def test_wrong_type_gives_200_and_no_job(lab: Lab, wire: Wire) -> None:
    reply = await wire("POST", "job/submit", submission(minimum_cpus="many"))
    assert (reply.status, reply.errors) == (200, [])
    assert "job_id" not in reply.json
    assert reply.warnings[0].startswith("Expected OpenAPI type=integer format=int32")
    assert not lab.model.cluster.jobs


async def test_unknown_flag_is_an_error_and_the_job_exists(lab: Lab, wire: Wire) -> None:
    reply = await wire("POST", "job/submit", submission(shared=["zzz"]))
    assert (reply.status, reply.errors) == (500, [9207])
    assert reply.json["job_id"] in lab.model.cluster.jobs


async def test_unknown_fields_and_odd_values_are_warnings(wire: Wire) -> None:
    fields = {"zzz": 1, "minimum_cpus": 1.5, "required_nodes": "n1", "user_id": 2001}
    reply = await wire("POST", "job/submit", submission(**fields))
    assert (reply.status, len(reply.warnings)) == (200, 4)
    assert sorted(reply.warnings)[-1].startswith('Ignoring unknown field "zzz" of type 64 bit')


async def test_held_job_is_accepted_with_two_warnings(wire: Wire) -> None:
    reply = await wire("POST", "job/submit", submission(hold=True))
    assert reply.status == 200
    assert [text.split(": ")[-1] for text in reply.warnings] == [
        "Job is in held state, pending scheduler release"
    ] * 2


async def test_external_jobs_need_v0_0_43(wire: Wire) -> None:
    reply = await wire.of(version="v0.0.42")("POST", "job/submit", submission())
    assert (reply.status, reply.errors) == (500, [9207, 9000])
    assert (await wire.of(version="v0.0.43")("POST", "job/submit", submission())).status == 200


@pytest.mark.parametrize(
    ("raw", "headers", "new", "old"),
    [
        (b"{", {}, 400, 400),
        (b"null", {}, 400, 400),
        (b"{}", {}, 422, 422),
        (b"", {}, 422, 422),
        (b"[]", {}, 500, 500),
        (b"{}", {"Content-Type": "text/plain"}, 415, 400),
        (b'{"job":{},"jobs":[]}', {}, 422, 422),
    ],
)
async def test_malformed_bodies_are_refused(
    wire: Wire, old_wire: Wire, raw: bytes, headers: dict[str, str], new: int, old: int
) -> None:
    for client, status in ((wire, new), (old_wire, old)):
        assert (await client("POST", "job/submit", raw=raw, headers=headers)).status == status


async def test_no_token_is_401_in_plain_text(wire: Wire) -> None:
    reply = await wire("GET", "ping/", headers={"X-SLURM-USER-TOKEN": ""})
    assert (reply.status, reply.body) == (401, b"Authentication failure")


async def test_bad_token_is_511_with_an_empty_list(wire: Wire) -> None:
    garbage = {"X-SLURM-USER-TOKEN": "garbage"}
    reply = await wire("GET", "jobs/", headers=garbage)
    ping = await wire("GET", "ping/", headers=garbage)
    assert (reply.status, reply.errors, reply.json["jobs"]) == (511, [1007], [])
    assert ping.status == 200
    assert ping.json["pings"][0]["responding"] is False
    assert ping.json["pings"][0]["status"] == "Protocol authentication error"


async def test_bearer_token_is_taken(wire: Wire) -> None:
    bearer = f"Bearer {mint_token(wire.key, 'root')}"
    headers = {"X-SLURM-USER-TOKEN": "", "Authorization": bearer}
    assert (await wire("GET", "jobs/state/", headers=headers)).status == 200


async def test_only_operators_may_act_for_others(lab: Lab, wire: Wire) -> None:
    named = {"X-SLURM-USER-NAME": "alice"}
    reply = await wire("POST", "job/submit", submission(), headers=named)
    assert lab.model.job(reply.json["job_id"]).asked.user_name == "alice"
    other = await wire.of(user="alice")("GET", "jobs/", headers={"X-SLURM-USER-NAME": "root"})
    assert other.errors == [1007]


@pytest.mark.parametrize("path", ["/nope", "/slurm/v0.0.39/ping/", "job/", "shares/x"])
async def test_unknown_paths_are_404_in_plain_text(wire: Wire, path: str) -> None:
    reply = await wire("GET", path)
    assert reply.status == 404
    assert reply.answers[0][1]["Content-Type"] == "text/plain"


async def test_each_release_serves_its_versions(wire: Wire, old_wire: Wire) -> None:
    new = [(await wire("GET", f"/slurm/v0.0.{n}/ping/")).status for n in range(41, 47)]
    old = [(await old_wire("GET", f"/slurm/v0.0.{n}/ping/")).status for n in range(39, 44)]
    assert new == [404, 200, 200, 200, 200, 404]
    assert old == [404, 200, 200, 200, 404]


async def test_conf_is_only_in_the_newest_version(wire: Wire) -> None:
    conf = (await wire("GET", "conf")).json["slurm_conf"]
    assert (conf["KillWait"], conf["MinJobAge"], conf["ClusterName"]) == (30, 300, "sandbox")
    assert (await wire.of(version="v0.0.44")("GET", "conf")).status == 404


async def test_old_versions_have_their_own_shapes(old_lab: Lab, old_wire: Wire) -> None:
    oldest = old_wire.of(version="v0.0.40")
    sent = await oldest("POST", "job/submit", batch())
    assert sent.json["result"]["job_id"] == sent.json["job_id"]
    old_lab.pass_time()
    (job,) = (await oldest("GET", "job/1")).json["jobs"]
    assert job["job_resources"]["allocated_nodes"][0]["nodename"] == "n1"
    assert "responding" not in (await oldest("GET", "ping/")).json["pings"][0]


async def test_bulk_cancel_tells_each_failure_in_its_status(wire: Wire) -> None:
    for _ in range(2):
        await wire("POST", "job/submit", submission())
    await wire("DELETE", "job/1")
    reply = await wire("DELETE", "jobs/", {"jobs": ["999", "2", "1"]})
    told = {entry["step_id"]: entry["error"]["code"] for entry in reply.json["status"]}
    assert (reply.status, reply.errors, told) == (200, [], {"999": 2017, "1": 2021})


@pytest.mark.parametrize(
    ("body", "status", "errors"),
    [
        ({"jobs": ["1", "zz"]}, 422, [2137]),
        ({}, 422, [2173]),
        ({"jobs": "1"}, 500, [9202]),
        ([], 500, [9209]),
        ({"jobs": [1]}, 200, []),
        ({"job_name": "nothing"}, 200, []),
    ],
)
async def test_bulk_cancel_is_refused_as_a_whole(
    lab: Lab, wire: Wire, body: object, status: int, errors: list[int]
) -> None:
    await wire("POST", "job/submit", submission())
    reply = await wire("DELETE", "jobs/", body)
    assert (reply.status, reply.errors) == (status, errors)
    assert lab.model.job(1).alive is (body != {"jobs": [1]})


async def test_jobs_are_cancelled_by_name_without_their_id(lab: Lab, wire: Wire) -> None:
    for name in ("mine", "other"):
        await wire("POST", "job/submit", submission(name=name))
    await wire("DELETE", "jobs/", {"job_name": "mine"})
    assert [job.alive for job in lab.model.jobs()] == [False, True]


async def test_job_of_another_user_cannot_be_cancelled(wire: Wire, old_wire: Wire) -> None:
    await wire("POST", "job/submit", submission())
    await old_wire("POST", "job/submit", batch())
    new = await wire.of(user="alice")("DELETE", "job/1")
    old = await old_wire.of(user="alice")("DELETE", "jobs/", {"jobs": ["1"]})
    assert (new.status, new.errors, old.status, old.errors) == (403, [1], 500, [1])


async def test_jobs_with_nothing_new_is_an_empty_list_and_a_warning(wire: Wire) -> None:
    reply = await wire("GET", "jobs/?update_time=1999999999")
    assert (reply.json["jobs"], len(reply.warnings)) == ([], 1)
    assert (await wire("GET", "nodes/?update_time=1999999999")).status == 304


async def test_unknown_node_is_error_zero_with_200(wire: Wire) -> None:
    reply = await wire("GET", "node/nope")
    assert (reply.status, reply.errors) == (200, [0])
    assert "nodes" not in reply.json


async def test_node_is_changed_by_post(lab: Lab, wire: Wire) -> None:
    for body in ({"state": ["DRAIN"], "reason": "service"}, {"comment": "hi"}):
        assert (await wire("POST", "node/n1", body)).status == 200
    (node,) = (await wire("GET", "node/n1")).json["nodes"]
    assert (node["state"], node["reason"], node["comment"]) == (
        ["IDLE", "EXTERNAL", "DRAIN"],
        "service",
        "hi",
    )
    assert (await wire("POST", "node/n1", {"state": ["ZZ"]})).errors == [9207, 2180]
    assert (await wire("POST", "node/nope", {"state": ["DRAIN"]})).errors == [2018]
    refused = await wire.of(user="alice")("POST", "node/n1", {"state": ["DRAIN"]})
    assert refused.errors == [2010]


async def test_cluster_is_described(wire: Wire) -> None:
    partitions = (await wire("GET", "partitions/")).json["partitions"]
    assert [p["name"] for p in partitions] == ["main", "high", "capped"]
    assert partitions[0]["nodes"]["configured"] == "n[1-2]"
    assert [p["priority"]["tier"] for p in partitions] == [1, 10, 1]
    assert partitions[2]["maximums"]["time"]["number"] == 60
    nodes = (await wire("GET", "nodes/")).json["nodes"]
    assert [(n["name"], n["gres"], n["cpus"]) for n in nodes] == [
        ("n1", "gpu:h100:4", 16),
        ("n2", "gpu:h100:4", 16),
    ]
    assert (await wire("GET", "diag/")).json["statistics"]["jobs_pending"] == 0
    assert (await wire("GET", "licenses/")).json["licenses"] == []
    assert (await wire("GET", "reservations/")).json["reservations"] == []
    openapi = json.loads((await wire("GET", "/openapi/v3")).body)
    assert openapi["info"]["x-slurm"]["release"] == "26.05.5"


async def test_missing_controller_is_told_differently_by_each_operation(
    lab: Lab, wire: Wire
) -> None:
    lab.model.stop_controller()
    calls = [
        ("POST", "job/submit", submission()),
        ("GET", "nodes/", None),
        ("GET", "job/1", None),
        ("GET", "jobs/state/", None),
        ("DELETE", "jobs/", {"jobs": ["1"]}),
        ("POST", "job/1", {"comment": "x"}),
    ]
    replies = [await wire(*call) for call in calls]
    assert [(reply.status, *reply.errors) for reply in replies] == [
        (502, 1800),
        (502, 1800),
        (500, -1),
        (500, -1),
        (403, 1),
        (500, 1000),
    ]
    ping = await wire("GET", "ping/")
    assert (ping.status, ping.json["pings"][0]["responding"]) == (200, False)


async def test_request_sent_in_an_outage_is_served_when_the_controller_returns(
    lab: Lab, wire: Wire
) -> None:
    lab.model.stop_controller()
    async with asyncio.TaskGroup() as tasks:
        sent = tasks.create_task(wire("POST", "job/submit", submission()))
        await asyncio.sleep(0)
        lab.model.start_controller()
    assert sent.result().status == 200


async def test_stopping_slurmrestd_leaves_the_controller_alone(lab: Lab) -> None:
    server = SlurmServer(lab.model)
    port = await server.start(port=0)
    idle, writer = await asyncio.open_connection("127.0.0.1", port)
    lab.submit()
    await server.stop()
    assert await idle.read() == b""
    writer.close()
    again = await server.start(port=port)
    assert (again, len(lab.model.cluster.jobs)) == (port, 1)
    await server.stop()
    lab.model.detach()


async def test_controller_schedules_by_itself_in_an_event_loop(lab: Lab, wire: Wire) -> None:
    lab.model.attach()
    await wire("POST", "job/submit", submission())
    async with asyncio.timeout(5):
        while (await wire("GET", "jobs/state/")).json["jobs"][0]["state"] != ["RUNNING"]:
            pass
    lab.model.detach()


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ((), ""),
        (("n1",), "n1"),
        (("n1", "n2", "n3"), "n[1-3]"),
        (("n8", "n9", "n10"), "n[8-10]"),
        (("e001", "e003", "e004"), "e[001,003-004]"),
        (("a1", "b1"), "a1,b1"),
        (("login", "n1"), "login,n1"),
        (("e-099", "e-100"), "e-[099-100]"),
    ],
)
def test_hostlists_are_folded(names: tuple[str, ...], folded: str) -> None:
    assert fold(names) == folded


def test_memory_is_written_in_the_largest_unit_that_half_divides() -> None:
    assert [memory(n) for n in (10, 1000, 2048, 64_000, 900_000)] == [
        "10M",
        "1000M",
        "2G",
        "62.50G",
        "900000M",
    ]


def test_tokens_name_their_user_until_they_expire() -> None:
    token = mint_token(b"key", "alice", lifespan=60)
    now = 0.0
    assert user_of_token(b"key", token, now=now) == "alice"
    assert user_of_token(b"other", token, now=now) is None
    assert user_of_token(b"key", token, now=4e9) is None
    assert user_of_token(b"key", "a.b.c", now=now) is None
    assert user_of_token(b"key", "ä", now=now) is None
