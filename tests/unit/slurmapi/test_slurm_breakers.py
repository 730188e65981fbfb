"""Everything slurmrestd was seen to do to its clients, and what this client makes of it.

Each test names one measured behaviour of Slurm 24.11.5 or 26.05.5.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from msgspec.structs import replace

from groundwork.retry import ATTEMPTS, retry_policy
from slurmapi import (
    BaseState,
    Call,
    Deadlines,
    JobSubmission,
    SlurmBusy,
    SlurmClient,
    SlurmDenied,
    SlurmError,
    SlurmGarbled,
    SlurmInterrupted,
    SlurmInvalid,
    SlurmNoSuchJob,
    SlurmRefused,
    SlurmUnreachable,
    SlurmUnreadable,
    Submitted,
    answers,
    is_word_of_slurm,
)
from tests.support.loop_time import pass_time
from tests.unit.slurmapi.server import (
    Reply,
    Server,
    cut,
    error,
    fail,
    hang,
    message,
    ok,
    raw,
)

SUBMIT = "POST job/submit"
STATES = "GET jobs/state/"
CANCEL = "DELETE jobs/"
MADE = {"job_id": 4711, "step_id": "batch", "errors": [], "warnings": []}


async def test_submit_succeeds_on_2xx_with_job_id_and_no_errors(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    server.on(SUBMIT, ok(MADE))
    assert await client.submit(placeholder) == Submitted(4711)


async def test_two_responses_for_one_failed_submit_are_one_refusal(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    server.on(SUBMIT, error(2000, status=422), ok(MADE))
    with pytest.raises(SlurmInvalid) as refused:
        await client.submit(placeholder)
    assert (refused.value.error_number, refused.value.status) == (2000, 422)
    assert await client.submit(placeholder) == Submitted(4711)


@pytest.mark.parametrize("status", [500, 422], ids=["24.11", "26.05"])
async def test_error_number_decides_whatever_the_status(
    server: Server, client: SlurmClient, placeholder: JobSubmission, status: int
) -> None:
    server.on(SUBMIT, error(2014, status=status))
    with pytest.raises(SlurmInvalid, match="2014"):
        await client.submit(placeholder)


async def test_ok_without_job_id_made_no_job_and_carries_the_warnings(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    remark = {"description": "Unable to convert minimum_cpus", "source": "#/job"}
    server.on(SUBMIT, ok({"errors": [], "warnings": [remark]}))
    with pytest.raises(SlurmInvalid, match="Unable to convert") as refused:
        await client.submit(placeholder)
    assert refused.value.warnings == ("Unable to convert minimum_cpus",)


async def test_error_with_job_id_cancels_that_job_and_is_invalid(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    server.on(SUBMIT, error(9207, job_id=77))
    server.on(CANCEL, ok({"status": [], "errors": []}))
    with pytest.raises(SlurmInvalid) as refused:
        await client.submit(placeholder)
    assert refused.value.error_number == 9207
    assert [seen.json for seen in server.calls(CANCEL)] == [{"jobs": ["77"]}]


@pytest.mark.parametrize("reply", [cut(), error(2002, status=500)], ids=["cut", "refused"])
async def test_error_with_job_id_that_cannot_be_cancelled_names_the_job(
    server: Server, client: SlurmClient, placeholder: JobSubmission, reply: Reply
) -> None:
    server.on(SUBMIT, error(9207, job_id=77))
    server.on(CANCEL, reply)
    with pytest.raises(SlurmInterrupted) as interrupted:
        await client.submit(placeholder)
    assert interrupted.value.job_id == 77


async def test_numberless_error_with_job_id_is_still_cancelled(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    server.on(SUBMIT, fail(500, {"job_id": 78, "errors": [{"error": "odd"}]}))
    server.on(CANCEL, ok({"status": []}))
    with pytest.raises(SlurmInvalid, match="odd"):
        await client.submit(placeholder)
    assert len(server.calls(CANCEL)) == 1


async def test_job_made_with_warnings_is_a_job(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    text = "Requested partition configuration not available now"
    server.on(SUBMIT, ok(MADE | {"warnings": [{"description": text}]}))
    assert await client.submit(placeholder) == Submitted(4711, (text,))


async def test_job_id_in_the_result_of_old_versions_is_found(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    server.versions = {40, 41}
    server.on(SUBMIT, ok({"result": {"job_id": "12"}, "job_id": 0, "job_submit_user_msg": "hi"}))
    batch = replace(placeholder, external=False, script="#!/bin/sh\nexec sleep infinity\n")
    assert await client.submit(batch) == Submitted(12, ("hi",))


@pytest.mark.parametrize(
    "reply",
    [
        cut(),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{", close=True),
        raw(b"garbage\r\n\r\n", close=True),
        ok([]),
        ok({"job_id": [1]}),
        raw(message(200, b"<html>")),
        raw(message(200, b'{"job_id": 4')),
        raw(message(304, b"")),
        fail(500, "Unspecified error"),
        fail(502, {"errors": [{"error_number": 1800, "error": "Unable to contact"}]}),
        fail(502, "Bad Gateway"),
        fail(503, "upstream reset"),
    ],
    ids=[
        "cut",
        "cut body",
        "no HTTP",
        "JSON list",
        "wrong shape",
        "HTML",
        "half JSON",
        "304",
        "text 500",
        "controller down",
        "proxy 502",
        "proxy 503",
    ],
)
async def test_submit_of_unknown_outcome_is_interrupted_and_sent_once(
    server: Server, client_of: Callable[..., SlurmClient], placeholder: JobSubmission, reply: Reply
) -> None:
    server.on(SUBMIT, reply, ok(MADE))
    client = client_of(server, retry=None)
    with pytest.raises(SlurmInterrupted):
        await client.submit(placeholder)
    assert len(server.calls(SUBMIT)) == 1


async def test_submit_is_not_written_to_a_kept_connection_that_is_at_its_end(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    server.on(SUBMIT, ok(MADE))
    await client.negotiate()
    await server.drop_idle()
    assert await client.submit(placeholder) == Submitted(4711)
    assert len(server.calls(SUBMIT)) == 1


async def test_submit_to_nobody_was_never_sent(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    await server.stop()
    with pytest.raises(SlurmUnreachable):
        await client.submit(placeholder)


async def test_negotiation_cut_off_before_a_submit_was_never_sent(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    server.on("GET ping/", cut())
    with pytest.raises(SlurmUnreachable):
        await client.submit(placeholder)
    assert server.calls(SUBMIT) == []


@pytest.mark.parametrize("number", [2007, 2027, 2105])
async def test_full_or_idle_controller_is_busy_and_definite(
    server: Server, client: SlurmClient, placeholder: JobSubmission, number: int
) -> None:
    server.on(SUBMIT, error(number, status=422))
    with pytest.raises(SlurmBusy) as busy:
        await client.submit(placeholder)
    assert busy.value.error_number == number


@pytest.mark.parametrize("number", [-1, 2016, 2050, 2101, 9999])
@pytest.mark.parametrize("status", [422, 500])
async def test_what_may_be_the_matter_of_one_job_is_a_definite_refusal(
    server: Server, client: SlurmClient, placeholder: JobSubmission, number: int, status: int
) -> None:
    server.on(SUBMIT, error(number, status=status))
    server.on("POST job/5", error(number, status=status))
    for call in (client.submit(placeholder), client.update_job(5, comment="x")):
        with pytest.raises(SlurmRefused, match="words") as refused:
            await call
        assert refused.value.error_number == number
    assert len(server.calls(SUBMIT)) == len(server.calls("POST job/5")) == 1


async def test_words_of_the_plugin_are_passed_on_where_slurmrestd_does(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    server.on(SUBMIT, error(-1, job_submit_user_msg="no jobs on a Sunday"))
    with pytest.raises(SlurmRefused, match="no jobs on a Sunday"):
        await client.submit(placeholder)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("7", 7),
        ("86400", 60),
        ("9" * 400, 60),
        ("-1", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
async def test_rate_limit_of_a_proxy_is_busy_with_its_pause_of_a_minute_at_most(
    server: Server, client: SlurmClient, placeholder: JobSubmission, said: str, meant: float | None
) -> None:
    head = f"HTTP/1.1 429 Slow\r\nRetry-After: {said}\r\nContent-Length: 0\r\n\r\n"
    server.on(SUBMIT, raw(head.encode(), close=True))
    with pytest.raises(SlurmBusy) as busy:
        await client.submit(placeholder)
    assert busy.value.retry_after == meant


@pytest.mark.parametrize(
    ("status", "text"), [(400, "Failure during parsing"), (415, "Unsupported"), (413, "Too large")]
)
async def test_plain_text_4xx_is_a_refusal(
    server: Server, client: SlurmClient, placeholder: JobSubmission, status: int, text: str
) -> None:
    server.on(SUBMIT, fail(status, text))
    with pytest.raises(SlurmRefused, match=text) as refused:
        await client.submit(placeholder)
    assert refused.value.status == status


async def test_511_with_an_empty_job_list_is_denied_and_not_empty(
    server: Server, client: SlurmClient
) -> None:
    entry = {"error_number": 1007, "error": "Protocol authentication error"}
    server.on(STATES, fail(511, {"jobs": [], "errors": [entry]}))
    with pytest.raises(SlurmDenied) as denied:
        await client.job_states()
    assert denied.value.authentication


async def test_errors_with_status_200_are_errors(server: Server, client: SlurmClient) -> None:
    server.on(STATES, ok({"jobs": [], "errors": [{"error_number": 1007}]}))
    with pytest.raises(SlurmDenied):
        await client.job_states([1])


async def test_401_in_plain_text_is_denied(server: Server, client: SlurmClient) -> None:
    await client.negotiate()
    server.on("GET job/1", fail(401, "Authentication failure"))
    with pytest.raises(SlurmDenied, match="Authentication failure"):
        await client.job(1)


async def test_user_unknown_to_the_controller_is_denied(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    server.on(SUBMIT, error(6010, status=500))
    with pytest.raises(SlurmDenied):
        await client.submit(placeholder)


async def test_right_that_is_missing_is_no_matter_of_the_token(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    server.on(SUBMIT, error(2010, status=422))
    with pytest.raises(SlurmDenied) as denied:
        await client.submit(placeholder)
    assert not denied.value.authentication


async def test_error_zero_without_what_was_asked_is_a_refusal(
    server: Server, client: SlurmClient
) -> None:
    server.on("GET nodes/", ok({"nodes": [], "errors": [{"error_number": 0, "error": "No error"}]}))
    with pytest.raises(SlurmRefused, match="No error"):
        await client.nodes()


@pytest.mark.parametrize(
    "count", [raw(message(304, b"")), ok({"nodes": [{"name": "n2"}]})], ids=["nothing", "a list"]
)
async def test_counted_node_is_read_after_the_count(
    server: Server, client: SlurmClient, count: Reply
) -> None:
    server.on("GET nodes/", count)
    server.on("GET node/n1", ok({"nodes": [{"name": "n1", "alloc_cpus": 4}]}))
    node = await client.counted_node("n1")
    assert node is not None
    assert node.allocated_cpus == 4


async def test_node_that_could_not_be_counted_is_none_at_all(
    server: Server, client: SlurmClient
) -> None:
    server.on("GET nodes/", fail(502, {"errors": [{"error_number": 1800}]}))
    with pytest.raises(SlurmError):
        await client.counted_node("n1")
    assert server.calls("GET node/n1") == []


@pytest.mark.parametrize("status", [404, 500, 200])
async def test_only_error_2017_means_no_such_job(
    server: Server, client: SlurmClient, status: int
) -> None:
    entry = {"error_number": 2017, "error": "Invalid job id specified"}
    server.on("GET job/5", fail(status, {"jobs": [], "errors": [entry]}))
    with pytest.raises(SlurmNoSuchJob):
        await client.job(5)


@pytest.mark.parametrize(
    "reply",
    [
        fail(404, "Unable find requested URL"),
        fail(404, "<html>not here</html>"),
        fail(404, {"errors": []}),
        fail(404, {"errors": [{"error_number": 9007}]}),
        ok({"jobs": [], "errors": []}),
        ok({"jobs": None}),
        ok({"jobs": [{"job_id": 6, "job_state": ["RUNNING"]}]}),
        ok({}),
        fail(502, {"errors": [{"error_number": 1800}]}),
        fail(500, {"errors": [{"error_number": 2017}, {"error_number": 1800}]}),
        fail(511, {"jobs": [], "errors": [{"error_number": 1007}]}),
        fail(500, "Unspecified error"),
        raw(message(304, b"")),
        raw(message(204, b"")),
        cut(),
    ],
)
async def test_nothing_else_is_read_as_no_such_job(
    server: Server, client: SlurmClient, reply: Reply
) -> None:
    server.on("GET job/5", reply)
    with pytest.raises(SlurmError) as raised:
        await client.job(5)
    assert not isinstance(raised.value, SlurmNoSuchJob)


LASTING = {
    "an array whose first task has gone": ok({"jobs": [{"job_id": 6}]}),
    "a field of another type": ok({"jobs": [{"job_id": 5, "name": [1]}]}),
    "no hostlist": ok({"jobs": [{"job_id": 5, "nodes": "n[1-"}]}),
    "too large": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n{", close=True),
    "Slurm's own number": error(2002),
}
SAYS_NOTHING = {
    "no list": ok({}),
    "null": ok({"jobs": None}),
    "an empty list": ok({"jobs": []}),
    "no records": ok({"jobs": ["x"]}),
    "a page of a gateway": fail(403, "<html>"),
    "a crash of slurmrestd": fail(500, "Unspecified error"),
    "a refused token": error(1007, status=511),
}


@pytest.mark.parametrize("reply", LASTING.values(), ids=LASTING)
async def test_word_of_slurm_about_one_job_lasts(
    server: Server, client: SlurmClient, reply: Reply
) -> None:
    server.on("GET job/5", reply)
    with pytest.raises(SlurmError) as raised:
        await client.job(5)
    assert is_word_of_slurm(raised.value)


async def test_answer_about_an_array_is_decoded_once(
    server: Server, client: SlurmClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has all tasks of the array, and anybody may have a pod name its id."""
    monkeypatch.delattr(answers, "RecordsAnswer")
    server.on("GET job/5", ok({"jobs": [{"job_id": number} for number in range(6, 1000)]}))
    with pytest.raises(SlurmUnreadable):
        await client.job(5)


async def test_answer_may_be_no_longer_than_the_caller_says(
    server: Server, client: SlurmClient
) -> None:
    server.on("GET job/5", ok({"jobs": [{"job_id": 5, "name": 3000 * "x"}]}))
    with pytest.raises(SlurmUnreadable):
        await client.job(5, longest=2000)
    assert (await client.job(5)).name == 3000 * "x"


@pytest.mark.parametrize("reply", SAYS_NOTHING.values(), ids=SAYS_NOTHING)
async def test_answer_without_a_word_of_slurm_says_nothing_of_a_job(
    server: Server, client: SlurmClient, reply: Reply
) -> None:
    server.on("GET job/5", reply)
    with pytest.raises(SlurmError) as raised:
        await client.job(5)
    assert not is_word_of_slurm(raised.value)


@pytest.mark.parametrize(
    "reply",
    [
        ok({}),
        ok({"jobs": None}),
        ok({"jobs": {}}),
        ok({"jobs": [{"job_id": "x", "state": ["RUNNING"]}]}),
        raw(message(200, b"")),
        raw(message(304, b"")),
        raw(message(200, b"\xff\xfe")),
    ],
)
async def test_answer_without_a_list_is_never_an_empty_one(
    server: Server, client: SlurmClient, reply: Reply
) -> None:
    server.on(STATES, reply)
    with pytest.raises(SlurmGarbled):
        await client.job_states([1])


async def test_ids_are_repeated_and_asked_for_in_chunks(
    server: Server, client: SlurmClient
) -> None:
    server.on(STATES, ok({"jobs": [{"job_id": "7", "state": ["PENDING"]}]}))
    states = await client.job_states(range(1, 2502))
    queries = [seen.query for seen in server.calls(STATES)]
    asked = [query.split("&") for query in queries]
    assert sorted(len(ids) for ids in asked) == [501, 1000, 1000]
    assert {part for ids in asked for part in ids} == {f"job_id={n}" for n in range(1, 2502)}
    assert not any("," in query or "%2C" in query for query in queries)
    assert states[7].base is BaseState.PENDING


async def test_no_ids_ask_nothing(server: Server, client: SlurmClient) -> None:
    assert await client.job_states([]) == {}
    assert await client.cancel([]) == {}
    assert server.seen == []


async def test_one_failing_chunk_fails_the_whole_look(server: Server, client: SlurmClient) -> None:
    good = ok({"jobs": []})
    server.on(STATES, good, fail(500, "Insane message length"), good)
    with pytest.raises(SlurmRefused, match="Insane message length"):
        await client.job_states(range(1, 2501))


async def test_ids_slurm_leaves_out_are_absent(server: Server, client: SlurmClient) -> None:
    server.on(STATES, ok({"jobs": [{"job_id": 2, "state": "RUNNING"}], "errors": []}))
    states = await client.job_states([1, 2])
    assert set(states) == {2}


async def test_state_without_a_slash_query_takes_every_job(
    server: Server, client: SlurmClient
) -> None:
    jobs = [{"job_id": "9", "state": ["CANCELLED", "COMPLETING"]}, {"job_id": "12_3", "state": []}]
    server.on(STATES, ok({"jobs": jobs}))
    states = await client.job_states()
    assert states[9].completing
    assert states[12].base is BaseState.UNKNOWN
    assert server.calls(STATES)[0].query == ""


async def test_cancel_tells_of_unknown_jobs_by_step_id_and_of_good_ones_not_at_all(
    server: Server, client: SlurmClient
) -> None:
    unset = {"set": False, "infinite": False, "number": 0}
    unknown = {"job_id": unset, "step_id": "2", "error": {"code": 2017}}
    refused = {"job_id": unset, "step_id": "3", "error": {"code": 2002, "message": "not yours"}}
    server.on(CANCEL, ok({"status": [unknown, refused], "errors": []}))
    failures = await client.cancel([1, 2, 3])
    assert set(failures) == {3}
    assert "not yours" in str(failures[3])


@pytest.mark.parametrize("status", [403, 500], ids=["26.05.5", "24.11.5"])
async def test_cancel_amid_which_the_controller_went_away_is_not_denied(
    server: Server, client: SlurmClient, status: int
) -> None:
    entry = {"error_number": 1, "error": "Operation not permitted", "source": "slurm_kill_jobs()"}
    server.on(CANCEL, fail(status, {"status": [], "errors": [entry]}))
    failures = await client.cancel([1])
    assert isinstance(failures[1], SlurmInterrupted)
    assert failures[1].retryable


async def test_cancel_of_ended_and_unknown_jobs_succeeds(
    server: Server, client: SlurmClient
) -> None:
    def entry(job_id: int, code: int) -> dict[str, object]:
        return {"job_id": {"set": True, "number": job_id}, "error": {"code": code, "string": "s"}}

    server.on(CANCEL, ok({"status": [entry(1, 0), entry(2, 2021), entry(3, 2017), entry(4, 2002)]}))
    failures = await client.cancel([1, 2, 3, 4, 5])
    assert set(failures) == {4}
    assert isinstance(failures[4], SlurmDenied)


async def test_cancel_asks_in_batches(server: Server, client: SlurmClient) -> None:
    server.on(CANCEL, ok({"status": []}))
    assert await client.cancel([*range(1, 1202), 1]) == {}
    sizes = sorted(len(seen.json["jobs"]) for seen in server.calls(CANCEL))
    assert sizes == [201, 500, 500]


async def test_cancel_that_gets_no_answer_leaves_every_job_open(
    server: Server, client: SlurmClient
) -> None:
    server.on(CANCEL, fail(502, {"errors": [{"error_number": 1800}]}))
    failures = await client.cancel([1, 2])
    assert {type(failure) for failure in failures.values()} == {SlurmInterrupted}
    assert set(failures) == {1, 2}


@pytest.mark.parametrize("failure", [cut(), fail(503, "overloaded")])
async def test_cancel_is_written_once_for_the_id_may_be_anothers_by_then(
    server: Server, client_of: Callable[..., SlurmClient], failure: Reply
) -> None:
    server.on(CANCEL, failure, ok({"status": []}))
    failures = await client_of(server, retry=None).cancel([1])
    assert isinstance(failures[1], SlurmInterrupted)
    assert len(server.calls(CANCEL)) == 1


async def test_write_that_is_late_is_not_sent(server: Server, client: SlurmClient) -> None:
    late = asyncio.get_running_loop().time() - 0.1
    failures = await client.cancel([5], send_by=late)
    assert isinstance(failures[5], SlurmUnreachable)
    with pytest.raises(SlurmUnreachable, match="too late"):
        await client.update_job(5, send_by=late, comment="x")
    assert not server.calls(CANCEL)
    assert not server.calls("POST job/5")


async def test_read_is_repeated_a_few_times(
    server: Server, client_of: Callable[..., SlurmClient]
) -> None:
    server.on("GET job/5", fail(503, "overloaded"))
    with pytest.raises(SlurmBusy):
        await client_of(server, retry=None).job(5)
    assert len(server.calls("GET job/5")) == 3


@pytest.mark.parametrize(("status", "number"), [(502, 1800), (504, 5004), (500, -1), (500, 1000)])
async def test_controller_that_is_down_or_hangs_makes_reads_busy(
    server: Server, client: SlurmClient, status: int, number: int
) -> None:
    server.on(STATES, fail(status, {"jobs": None, "errors": [{"error_number": number}]}))
    with pytest.raises(SlurmBusy):
        await client.job_states([1])


async def test_ping_of_a_dead_controller_is_200_and_does_not_respond(
    server: Server, client: SlurmClient
) -> None:
    text = "Protocol authentication error"
    server.on("GET ping/", ok({"pings": [{"responding": False, "status": text}]}))
    ping = await client.ping()
    assert (ping.responding, ping.status) == (False, text)


async def test_ping_responds_when_any_controller_does(server: Server, client: SlurmClient) -> None:
    pings = [{"responding": False, "pinged": "DOWN"}, {"responding": True, "pinged": "UP"}]
    server.on("GET ping/", ok({"pings": pings}))
    assert (await client.ping()).responding


async def test_update_failure_in_the_results_is_an_error(
    server: Server, client: SlurmClient
) -> None:
    server.on("POST job/5", ok({"results": [{"error_code": 2073, "error": "not pending"}]}))
    with pytest.raises(SlurmInvalid, match="not pending"):
        await client.update_job(5, comment="x")


async def test_update_sends_only_what_is_given(server: Server, client: SlurmClient) -> None:
    server.on("POST job/5", ok({"results": []}))
    await client.update_job(5, comment="", time_limit_minutes=10, held=False)
    (seen,) = server.calls("POST job/5")
    assert seen.json == {
        "comment": "",
        "time_limit": {"set": True, "number": 10},
        "hold": False,
    }


async def test_update_of_nodes_sends_them_as_slurm_takes_them(
    server: Server, client: SlurmClient
) -> None:
    server.on("POST job/5", ok({"results": []}))
    await client.update_job(5, nodes=2, tasks=4, total_cpus=8)
    await client.update_job(5, tasks=3, total_cpus=6)
    await client.update_job(5, required_nodes=("n1",))
    await client.update_job(5, required_nodes=(), excluded_nodes=())
    assert [seen.json for seen in server.calls("POST job/5")] == [
        {"nodes": "2", "tasks": 4, "minimum_cpus": 8},
        {"tasks": 3, "minimum_cpus": 6},
        {"required_nodes": ["n1"]},
        {"required_nodes": [""], "excluded_nodes": [""]},
    ]


@pytest.mark.parametrize("number", [4, 11])
async def test_update_answered_with_a_stale_errno_is_tried_again(
    server: Server, client: SlurmClient, number: int
) -> None:
    stale = fail(500, {"errors": [{"error_number": number, "error": "stale"}]})
    server.on("POST job/5", stale, stale, ok({"results": None}))
    await client.update_job(5, partition="high")
    assert len(server.calls("POST job/5")) == 3


async def test_update_that_stays_stale_is_busy(server: Server, client: SlurmClient) -> None:
    server.on("POST job/5", fail(500, {"errors": [{"error_number": 11, "error": "stale"}]}))
    with pytest.raises(SlurmBusy):
        await client.update_job(5, account="physics")


async def test_update_that_would_not_do_is_not_sent(server: Server, client: SlurmClient) -> None:
    with pytest.raises(SlurmInvalid) as refused:
        await client.update_job(5, partition="", nice=2**31, priority=-1, comment="x" * 1025)
    for name in ("partition", "nice", "priority", "comment"):
        assert f"{name} is " in str(refused.value)
    with pytest.raises(SlurmInvalid, match="priority_reset"):
        await client.update_job(5, priority=3, priority_reset=True)
    for nodes, tasks in ((2, None), (3, 2)):
        with pytest.raises(SlurmInvalid, match="tasks is "):
            await client.update_job(5, nodes=nodes, tasks=tasks, total_cpus=9)
    for tasks, cpus in ((2, None), (2, 1), (None, 4)):
        with pytest.raises(SlurmInvalid, match="total_cpus"):
            await client.update_job(5, tasks=tasks, total_cpus=cpus)
    assert not server.calls("POST job/5")


async def test_update_of_unknown_outcome_is_interrupted(
    server: Server, client: SlurmClient
) -> None:
    server.on("POST job/5", cut())
    with pytest.raises(SlurmInterrupted):
        await client.update_job(5, comment="x")


async def test_update_of_nothing_is_a_mistake_of_the_caller(client: SlurmClient) -> None:
    with pytest.raises(ValueError, match="nothing"):
        await client.update_job(5)


@pytest.mark.parametrize("job_id", [0, -1, True, "5"])
async def test_job_id_of_a_wrong_type_is_never_sent(
    server: Server, client: SlurmClient, job_id: int
) -> None:
    with pytest.raises(ValueError, match="job id"):
        await client.job(job_id)
    assert server.seen == []


async def test_observer_hears_of_each_request(
    server: Server, client_of: Callable[..., SlurmClient]
) -> None:
    heard: list[Call] = []
    client = client_of(server, observe=heard.append)
    server.on("GET job/5", fail(500, {"errors": [{"error_number": 2017}]}), hang())
    with pytest.raises(SlurmNoSuchJob):
        await client.job(5)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await client.job(5)
    assert [(call.operation, call.outcome) for call in heard] == [
        ("negotiate", "ok"),
        ("job", "no_such_job"),
        ("job", "cancelled"),
    ]
    assert all(call.seconds >= 0 for call in heard)


async def test_lists_that_cannot_be_msgspec_are_still_read(
    server: Server, client: SlurmClient
) -> None:
    job = b'{"job_id": 5, "job_state": ["RUNNING"], "comment": "\xff", "x": NaN}'
    body = b'{"errors": [], "jobs": [' + job + b"]}"
    server.on("GET job/5", raw(message(200, body)))
    assert (await client.job(5)).comment == "\ufffd"


@pytest.mark.parametrize(
    "deadlines", [Deadlines(silence=20, total=25), Deadlines(silence=30, total=25)]
)
async def test_request_that_is_cancelled_in_the_turn_of_its_deadline_is_cancelled(
    server: Server,
    client_of: Callable[..., SlurmClient],
    monkeypatch: pytest.MonkeyPatch,
    deadlines: Deadlines,
) -> None:
    """A process that stood still finds all its timers due at once when it goes on."""
    server.on(STATES, hang())
    client = client_of(server, deadlines=deadlines, retry=retry_policy(SlurmError))
    await client.ping()
    task = asyncio.ensure_future(client.job_states([1]))
    await server.until(lambda: len(server.calls(STATES)) == 1)
    asyncio.get_running_loop().call_later(15, task.cancel)
    pass_time(monkeypatch, 60)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_answer_about_all_jobs_gets_more_time_and_one_try(
    server: Server, client_of: Callable[..., SlurmClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 30 000 jobs it took 15 s on a busy machine; by their ids half a second."""

    def asked(count: int) -> bool:
        return len(server.calls(STATES)) == count

    server.on(STATES, hang())
    deadlines = Deadlines(connect=30, silence=30, total=30)
    client = client_of(server, deadlines=deadlines, retry=retry_policy(SlurmError))
    about_all = asyncio.ensure_future(client.job_states())
    await server.until(partial(asked, 1))
    pass_time(monkeypatch, 100)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not about_all.done(), "it has eight times as long"
    pass_time(monkeypatch, 200)
    with pytest.raises(SlurmInterrupted):
        await about_all
    assert len(server.calls(STATES)) == 1
    about_one = asyncio.ensure_future(client.job_states([1]))
    for count in range(2, 2 + ATTEMPTS):
        await server.until(partial(asked, count))
        pass_time(monkeypatch, 40)
    with pytest.raises(SlurmInterrupted):
        await about_one
    assert len(server.calls(STATES)) == 1 + ATTEMPTS
