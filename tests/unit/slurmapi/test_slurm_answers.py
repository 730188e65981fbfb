"""Answers are read whatever way a version spells them, and anything else is garbled."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmapi import BaseState, Job, JobState, Partition, Response, SlurmError, SlurmGarbled
from slurmapi.answers import (
    ConfAnswer,
    JobsAnswer,
    KillAnswer,
    NodesAnswer,
    PartitionsAnswer,
    PingAnswer,
    StateReader,
    StatesAnswer,
    SubmitAnswer,
    UpdateAnswer,
)
from slurmapi.wire import Answer, decode, settled

ALL = [
    ConfAnswer, JobsAnswer, KillAnswer, NodesAnswer, PartitionsAnswer, PingAnswer, StatesAnswer,
    SubmitAnswer, UpdateAnswer,
]  # fmt: skip


def response(body: Any, status: int = 200) -> Response:
    raw = body if isinstance(body, bytes) else json.dumps({"errors": []} | body).encode()
    return Response(status=status, headers={}, body=raw)


def job(**fields: Any) -> Job:
    answer = settled(response({"jobs": [{"job_id": 5} | fields]}), JobsAnswer)
    return answer.job(5)


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


UNSET = {"set": False, "infinite": False, "number": 0}
INFINITE = {"set": False, "infinite": True, "number": 0}


@pytest.mark.parametrize(
    ("words", "base", "flags"),
    [
        (["RUNNING"], BaseState.RUNNING, set()),
        ("RUNNING", BaseState.RUNNING, set()),
        (["RUNNING", "CONFIGURING"], BaseState.RUNNING, {"CONFIGURING"}),
        (["COMPLETING", "NODE_FAIL"], BaseState.NODE_FAIL, {"COMPLETING"}),
        ("CANCELLED,COMPLETING", BaseState.CANCELLED, {"COMPLETING"}),
        ("running+signaling", BaseState.RUNNING, {"SIGNALING"}),
        ([], BaseState.UNKNOWN, set()),
        ("", BaseState.UNKNOWN, set()),
        (["FROZEN"], BaseState.UNKNOWN, {"FROZEN"}),
        (["RUNNING", "CANCELLED"], BaseState.UNKNOWN, {"RUNNING", "CANCELLED"}),
        (["RUNNING", "RUNNING"], BaseState.RUNNING, set()),
    ],
)
def test_state_is_a_base_and_flags(words: Any, base: BaseState, flags: set[str]) -> None:
    assert JobState.parse(words) == JobState(base, frozenset(flags))


@given(st.one_of(st.text(), st.lists(st.text())))
def test_any_state_parses_and_unknown_ends_nothing(words: Any) -> None:
    state = JobState.parse(words)
    assert not (state.base is BaseState.UNKNOWN and state.ended)


def test_states_that_are_final_end() -> None:
    live = {BaseState.PENDING, BaseState.RUNNING, BaseState.SUSPENDED, BaseState.UNKNOWN}
    assert {base for base in BaseState if not JobState(base).ended} == live


def test_running_job_is_read() -> None:
    read = job(
        name="n",
        job_state=["RUNNING", "CONFIGURING"],
        state_reason="None",
        nodes="e[0003-0004],n1",
        admin_comment="{}",
        priority=number(100),
        restart_cnt=1,
        start_time=number(1_700_000_000),
        end_time=number(1_700_000_600),
        preempt_time=UNSET,
        time_limit=number(10),
        tres_per_node="gres/gpu:h100:1",
    )
    assert read.nodes == ("e0003", "e0004", "n1")
    assert read.state.configuring
    assert (read.priority, read.restart_count, read.time_limit_minutes) == (100, 1, 10)
    assert (read.start_time, read.end_time, read.preempt_time) == (1700000000, 1700000600, None)
    assert read.gres == "gres/gpu:h100:1"


@pytest.mark.parametrize(
    "spelling", [7, "7", 7.0, number(7), {"number": 7}, {"set": True, "number": 7.0}]
)
def test_number_is_read_in_every_spelling(spelling: Any) -> None:
    assert job(priority=spelling).priority == 7


@pytest.mark.parametrize(
    "spelling", [None, "", "INFINITE", UNSET, INFINITE, {"set": True, "number": None}]
)
def test_number_that_says_nothing_is_none(spelling: Any) -> None:
    assert job(time_limit=spelling).time_limit_minutes is None


def test_absent_and_null_fields_are_empty() -> None:
    fields = dict.fromkeys(("name", "nodes", "comment", "tres_per_node"))
    assert job(**fields) == job()
    assert (job().nodes, job().comment, job().gres) == ((), "", "")


@pytest.mark.parametrize("end", [6121712804, 1_800_000_000])
def test_end_of_a_pending_job_is_rubbish(end: int) -> None:
    pending = job(job_state=["PENDING"], end_time=number(end), time_limit=number(10))
    assert pending.end_time is None


def test_end_of_an_unlimited_running_job_is_fake_unless_it_is_preempted() -> None:
    fields = {"job_state": ["RUNNING"], "time_limit": INFINITE, "end_time": number(1_800_000_000)}
    assert job(**fields).end_time is None
    assert job(**fields, preempt_time=number(1_799_999_995)).end_time == 1_800_000_000
    assert job(**fields | {"job_state": ["CANCELLED"]}).end_time == 1_800_000_000


def test_year_that_backfill_writes_is_no_limit() -> None:
    fields = {"job_state": ["RUNNING"], "time_limit": number(525600)}
    started = job(**fields, start_time=number(1_800_000_000), end_time=number(1_831_536_000))
    assert (started.time_limit_minutes, started.end_time) == (None, None)


def test_held_job_shows_in_its_priority_too() -> None:
    assert job(job_state=["PENDING"], priority=number(0)).held
    assert job(hold=True).held
    assert not job(job_state=["RUNNING"], priority=number(0)).held


def allocated(**cpus: int) -> dict[str, Any]:
    nodes = [{"name": name, "cpus": {"count": count}} for name, count in cpus.items()]
    return {"nodes": {"count": len(nodes), "allocation": nodes}}


def test_tasks_of_each_node_follow_from_its_cpus() -> None:
    packed = job(
        nodes="n[1-2]",
        tasks=number(6),
        cpus_per_task=number(8),
        tasks_per_node=number(0),
        job_resources=allocated(n1=32, n2=16),
    )
    assert (packed.tasks, packed.cpus_per_task, packed.tasks_per_node) == (6, 8, 0)
    assert packed.cpus_by_node == {"n1": 32, "n2": 16}
    assert list(packed.tasks_by_node.items()) == [("n1", 4), ("n2", 2)]


def test_tasks_of_each_node_that_the_job_names_need_no_cpus() -> None:
    asked = {"tasks": number(6), "cpus_per_task": number(8), "tasks_per_node": number(2)}
    whole = job(nodes="n[1-3]", job_resources=allocated(n1=64, n2=64, n3=64), **asked)
    assert whole.tasks_by_node == {"n1": 2, "n2": 2, "n3": 2}
    # It has given the others back.
    assert job(nodes="n2", **asked).tasks_by_node == {"n2": 2}


def test_tasks_on_a_single_node_have_all_cpus() -> None:
    asked = {"tasks": number(6), "cpus_per_task": number(8), "cpus": number(16)}
    # It has lost the node with the others.
    packed = job(nodes="n1", **asked)
    assert (packed.cpus_by_node, packed.tasks_by_node) == ({"n1": 16}, {"n1": 2})
    assert not packed.dealt_out


def test_job_of_one_task_has_it_on_its_node() -> None:
    plain = job(nodes="n1", tasks=number(1), cpus_per_task=number(4))
    assert (plain.tasks_by_node, plain.cpus_per_task, plain.cpus_by_node) == ({"n1": 1}, 4, {})
    assert job().tasks_by_node == {}


@pytest.mark.parametrize(
    "resources", [None, {}, {"nodes": None}, {"nodes": "n1"}, {"nodes": ["n1"]}, {"nodes": {}}]
)
def test_tasks_of_nodes_whose_cpus_are_not_told_are_unknown(resources: Any) -> None:
    packed = job(nodes="n[1-2]", tasks=number(2), job_resources=resources)
    assert packed.tasks_by_node == {}
    assert packed.dealt_out


def test_node_list_that_is_no_hostlist_is_garbled() -> None:
    with pytest.raises(SlurmGarbled, match="hostlist"):
        job(nodes="n[1-")


def test_job_is_picked_by_its_id_among_several_records() -> None:
    records = [{"job_id": 6, "name": "other"}, {"job_id": "5", "name": "mine"}]
    assert settled(response({"jobs": records}), JobsAnswer).job(5).name == "mine"


def test_leading_job_of_an_array_is_not_hidden_by_its_tasks() -> None:
    jobs = [
        {"job_id": "12", "state": ["RUNNING"]},
        {"job_id": "12_1", "state": ["PENDING"]},
        {"job_id": "13+1", "job_state": "PENDING"},
    ]
    reader = StateReader()
    reader.read(settled(response({"jobs": jobs}), StatesAnswer).listed)
    assert reader.states() == {12: JobState(BaseState.RUNNING), 13: JobState(BaseState.PENDING)}


def test_nodes_and_partitions_are_read() -> None:
    node = {
        "name": "n1",
        "state": ["IDLE", "DRAIN"],
        "cpus": 64,
        "real_memory": number(1000),
        "partitions": ["main", "high"],
        "gres": "gpu:h100:8",
        "comment": None,
    }
    (read,) = settled(response({"nodes": [node]}), NodesAnswer).all()
    assert (read.states, read.cpus, read.memory_mib) == (frozenset({"IDLE", "DRAIN"}), 64, 1000)
    assert (read.partitions, read.gres, read.comment) == (("main", "high"), "gpu:h100:8", "")
    partition = {
        "name": "main",
        "flags": ["DEFAULT"],
    }
    (part,) = settled(response({"partitions": [partition]}), PartitionsAnswer).all()
    assert (part.name, part.is_default) == ("main", True)
    (part,) = settled(response({"partitions": [{"name": "main"}]}), PartitionsAnswer).all()
    assert not part.is_default


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["jobs", "job_id", "state", "errors", "error_number", "status", "error", "code",
             "nodes", "job_resources", "allocation", "cpus", "count", "tasks",
             "pings", "set", "number", "results", "name", "warnings", "slurm_conf"]
        ) | st.text(max_size=5),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON, st.sampled_from(ALL), st.sampled_from([200, 304, 404, 422, 500, 502, 511]))
def test_any_json_is_read_or_raises_an_error_of_ours(
    body: Any, kind: type[Answer], status: int
) -> None:
    try:
        answer = settled(response(json.dumps(body).encode(), status), kind)
        for reading in ("states", "numbers", "ping", "config", "all"):
            getattr(answer, reading, dict)()
        if isinstance(answer, JobsAnswer):
            answer.job(1)
    except SlurmError:
        return
    assert status == 200


@given(st.binary(max_size=40), st.sampled_from(ALL))
def test_any_bytes_are_read_or_raise_an_error_of_ours(body: bytes, kind: type[Answer]) -> None:
    try:
        decode(response(b"{" + body), kind)
    except SlurmError:
        return


# As slurmrestd tells the same limits (measured on 26.05.5, and on 24.11.5 with v0.0.42).
LIMITED: dict[str, Any] = {
    "name": "main",
    "accounts": {"allowed": "a,b", "deny": ""},
    "groups": {"allowed": "root"},
    "qos": {"allowed": "x,y", "deny": "", "assigned": "part"},
    "minimums": {"nodes": 2},
    "defaults": {"time": number(30)},
}
MOST: dict[str, Any] = {
    "cpus_per_node": number(4),
    "partition_memory_per_node": number(1000),
    "partition_memory_per_cpu": UNSET,
    "nodes": number(3),
    "time": number(60),
}


@pytest.mark.parametrize(
    ("own", "flags", "shares", "whole"),
    [
        ({"exclusive": "NODE"}, ["DEFAULT", "HIDDEN"], 0, True),
        ({"exclusive": "NO"}, [], 0, False),
        ({"exclusive": "USER"}, [], 0, False),
        ({}, None, 0, True),
        ({}, None, 1, False),
        ({}, None, 32772, False),
    ],
)
def test_limits_of_a_partition_are_read(
    own: dict[str, Any], flags: list[str] | None, shares: int, *, whole: bool
) -> None:
    body = LIMITED | {
        "flags": flags,
        "partition": own | {"state": ["UP"]},
        "maximums": MOST | {"shares": shares},
    }
    (read,) = settled(response({"partitions": [body]}), PartitionsAnswer).all()
    assert read == Partition(
        name="main",
        is_default="DEFAULT" in (flags or ()),
        flags=None if flags is None else frozenset(flags),
        states=("UP",),
        max_minutes=60,
        default_minutes=30,
        min_nodes=2,
        max_nodes=3,
        max_cpus_per_node=4,
        max_memory_per_node_mib=1000,
        whole_nodes=whole,
        accounts=("a", "b"),
        qos=("x", "y"),
        groups=("root",),
        own_qos="part",
    )


def test_partition_without_limits_has_none() -> None:
    most = {
        "cpus_per_node": INFINITE,
        "partition_memory_per_node": number(0),
        "nodes": INFINITE,
        "time": INFINITE,
        "shares": 1,
    }
    body = {"name": "main", "maximums": most, "minimums": {"nodes": 0}}
    (read,) = settled(response({"partitions": [body]}), PartitionsAnswer).all()
    assert read == Partition(name="main", flags=None)


def test_cpus_and_memory_that_no_job_may_have_are_told_apart() -> None:
    body = {
        "name": "n1",
        "cpus": 64,
        "effective_cpus": 62,
        "real_memory": 9,
        "specialized_memory": 4,
    }
    (read,) = settled(response({"nodes": [body]}), NodesAnswer).all()
    assert (read.cpus, read.job_cpus) == (64, 62)
    assert (read.memory_mib, read.specialized_memory_mib) == (9, 4)
    (read,) = settled(response({"nodes": [{"name": "n1", "cpus": 64}]}), NodesAnswer).all()
    assert read.job_cpus == 64
