"""What real servers write down, as they write it (recorded on 1.36.3, 26.05.5 and 24.11.5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.audit.history import By, When
from tests.audit.live_kube import observed
from tests.audit.records import PodAsked, PodSeen
from tests.audit.slurmctld_log import asked, expanded, noted

SLURMCTLD = """\
[2026-11-21T21:29:16.691] debug2: Processing RPC: REQUEST_KILL_JOBS from UID=0
[2026-11-21T21:29:16.691] REQUEST_KILL_JOBS filters: account=(null); flags=0x8; jobs=7
[2026-11-21T21:29:16.691] debug:  deallocate_nodes: JobId=7 is external, no need to wait
[2026-11-21T21:29:16.691] job_signal: 9 of running JobId=7 successful 0x8004
[2026-11-21T21:29:20.693] debug2: Processing RPC: REQUEST_KILL_JOBS from UID=64030
[2026-11-21T21:29:20.693] job_signal: 9 of pending JobId=8 successful
[2026-11-21T21:29:30.704] debug2: Processing RPC: REQUEST_KILL_JOB from UID=0
[2026-11-21T21:29:30.704] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=9 uid 0
[2026-11-21T21:29:30.704] debug2: _slurm_rpc_kill_job: uid=0 JobId=9 sig=9 returned: Job
[2026-11-21T21:29:34.903] _update_job: setting comment to hello for JobId=1
[2026-11-21T21:29:34.903] _slurm_rpc_update_job: complete JobId=1 uid=64030 usec=110
[2026-11-21T21:29:34.906] _slurm_rpc_update_job: complete JobId=1 uid=0 usec=62
"""


def test_slurmctlds_log_tells_who_ended_and_who_changed_a_job() -> None:
    found = [(it.verb, it.job_id, it.by) for it in asked(SLURMCTLD.splitlines())]
    assert found == [
        ("kill", 7, By.US),
        ("kill", 8, By.OTHER),
        ("update", 1, By.OTHER),
        ("update", 1, By.US),
    ]


def test_kills_of_two_users_at_once_are_nobodys() -> None:
    lines = """\
[2026-11-21T21:29:16.691] debug2: Processing RPC: REQUEST_KILL_JOBS from UID=0
[2026-11-21T21:29:16.791] debug2: Processing RPC: REQUEST_KILL_JOBS from UID=64030
[2026-11-21T21:29:16.791] job_signal: 9 of running JobId=7 successful 0x8004
"""
    assert [it.by for it in asked(lines.splitlines())] == [By.UNKNOWN]


def test_kill_of_a_job_whose_script_could_not_start_is_the_nodes_own() -> None:
    refused = "Requested operation is presently disabled"
    lines = f"""\
[2026-11-23T12:55:39.133] _slurm_rpc_requeue: Requeue of JobId=9 returned an error: {refused}
[2026-11-23T12:55:39.157] debug2: Processing RPC: REQUEST_KILL_JOB from UID=0
[2026-11-23T12:55:39.159] job_signal: 9 of running JobId=9 successful 0x8004
[2026-11-23T12:55:39.160] job_signal: 9 of running JobId=8 successful 0x8004
[2026-11-23T12:55:49.157] debug2: Processing RPC: REQUEST_KILL_JOB from UID=0
[2026-11-23T12:55:49.159] job_signal: 9 of running JobId=9 successful 0x8004
"""
    found = [(it.job_id, it.by) for it in asked(lines.splitlines())]
    assert found == [(9, By.OTHER), (8, By.US), (9, By.US)]


def test_a_kill_that_nobody_asked_for_is_slurms_own() -> None:
    line = "[2026-11-21T21:29:16.791] job_signal: 9 of running JobId=7 successful 0x8004"
    assert [it.by for it in asked([line])] == [By.UNKNOWN]


def test_slurmctlds_log_tells_when_jobs_began_and_ended_and_their_tags() -> None:
    lines = """\
[2026-11-21T23:29:13.014] sched: Allocate JobId=1 NodeList=e-[000-001] #CPUs=2 Partition=main
[2026-11-21T23:29:13.020] prolog_running_decr: Configuration for JobId=1 is complete
[2026-11-21T23:29:14.014] sched/backfill: _start_job: Started JobId=2 in main on t1
[2026-11-21T23:29:15.014] job_signal: 15 of running JobId=2 successful 0x8004
[2026-11-21T23:29:16.014] job_signal: 9 of running JobId=2 successful 0x8004
[2026-11-21T23:29:17.014] Time limit exhausted for JobId=3
[2026-11-21T23:29:18.014] Killing JobId=4 on failed node e-000
[2026-11-21T23:29:19.014] preempted JobId=5 has been killed to reclaim resources for JobId=14
[2026-11-21T23:29:20.014] _job_complete: JobId=6 WEXITSTATUS 0
[2026-11-21T23:29:20.015] _job_complete: JobId=6 done
[2026-11-21T23:29:21.014] _schedule: JobId=7 with time_min 1 exceeded deadline 2026-11-21T23:27:54
[2026-11-21T23:29:22.014] Requeuing JobId=8
[2026-11-21T23:29:23.014] _job_complete: requeue JobId=9 per user/system request
[2026-11-21T23:29:24.014] preempted JobId=10 has been requeued to reclaim resources for JobId=1
[2026-11-21T23:29:25.014] debug:  _job_suspend_op: Holding JobId=11, suspend operation
[2026-11-21T23:29:25.015] _slurm_rpc_suspend(suspend) for 11 usec=138
[2026-11-21T23:29:26.014] _slurm_rpc_suspend(resume) for 11 usec=96
[2026-11-21T23:29:27.014] _slurm_rpc_suspend(suspend) for 12 Job is not running
[2026-11-21T23:29:27.514] debug:  Aborting JobId=14 on nodes e-[002-003]
[2026-11-21T23:29:27.515] debug:  Aborting JobId=15+0(15) on nodes e-000
[2026-11-21T23:29:28.014] _update_job: setting admin_comment to {"v": 2} for JobId=13
[2026-11-21T23:29:28.015] _update_job: setting comment to {"v": 2} for JobId=13
"""
    found = list(noted(lines.splitlines()))
    assert [(it.what, it.job_id) for it in found] == [
        ("started", 1),
        ("ready", 1),
        ("started", 2),
        ("ended", 2),
        ("ended", 3),
        ("ended", 4),
        ("ended", 5),
        ("ended", 6),
        ("ended", 7),
        ("requeued", 8),
        ("requeued", 9),
        ("requeued", 10),
        ("suspended", 11),
        ("smaller", 14),
        ("smaller", 15),
        ("tagged", 13),
    ]
    assert [it.nodes for it in found if it.what == "smaller"] == [{"e-002", "e-003"}, {"e-000"}]
    assert found[-1].tag == '{"v": 2}'
    assert found[0].nodes == {"e-000", "e-001"}
    assert found[2].nodes == {"t1"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("s1", ["s1"]),
        ("s1,t2", ["s1", "t2"]),
        ("e-[000-002,007]", ["e-000", "e-001", "e-002", "e-007"]),
        ("e-[8-11],s1", ["e-8", "e-9", "e-10", "e-11", "s1"]),
    ],
)
def test_hostlists(text: str, names: list[str]) -> None:
    assert expanded(text) == names


# --- the API server's audit log

RUNS = {
    "kind": "Pod",
    "metadata": {"uid": "u1", "namespace": "space", "name": "train"},
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Running"},
}


def line(verb: str, *, below: str = "", code: int = 200, **more: Any) -> bytes:
    ref = {"resource": "pods", "namespace": "space", "name": "train", "apiVersion": "v1"}
    entry = {
        "kind": "Event",
        "level": "RequestResponse",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/space/pods/train",
        "verb": verb,
        "user": {"username": "admin", "groups": ["system:masters"]},
        "userAgent": "slurm-pod-scheduler/1.0",
        "objectRef": ref | ({"subresource": below} if below else {}),
        "responseStatus": {"metadata": {}, "code": code},
        "requestReceivedTimestamp": "2026-11-21T21:29:16.250000Z",
        "stageTimestamp": "2026-11-21T21:29:16.750000Z",
    }
    return json.dumps(entry | more, separators=(",", ":")).encode()


def requests(*lines: bytes) -> list[PodAsked]:
    return [it for it in observed(lines) if isinstance(it, PodAsked)]


def pods(*lines: bytes) -> list[PodSeen]:
    return [it for it in observed(lines) if isinstance(it, PodSeen)]


def test_a_bind_as_it_stands_in_the_audit_log() -> None:
    asked_for = {"metadata": {"name": "train", "uid": "u1"}, "target": {"name": "n1"}}
    entry = line("create", below="binding", code=201, requestObject=asked_for)
    (found,) = requests(entry)
    assert (found.verb, found.by, found.uid, found.node) == ("bind", By.US, "u1", "n1")
    assert (found.accepted, found.when) == (True, When(1795296556.25, 1795296556.75))


def test_a_refusal_leaves_nothing_behind() -> None:
    entry = line("create", below="binding", code=409, responseObject={"kind": "Status"})
    assert [it.accepted for it in requests(entry)] == [False]
    assert pods(entry) == []


def test_a_request_that_was_cut_off_is_not_taken_for_done() -> None:
    (found,) = requests(line("delete", responseStatus={"metadata": {}}))
    assert not found.accepted


def test_others_go_by_other_agents() -> None:
    assert [it.by for it in requests(line("delete", userAgent="kubectl/v1.36"))] == [By.OTHER]


@pytest.mark.parametrize(
    "entry",
    [
        line("delete", requestURI="/api/v1/namespaces/space/pods/train?dryRun=All"),
        line("delete", requestObject={"dryRun": ["All"]}),
        line("get", responseObject=RUNS).replace(b"pods", b"events"),
        line("watch", stage="ResponseStarted"),
    ],
)
def test_what_changes_nothing_is_not_read(entry: bytes) -> None:
    assert list(observed([entry])) == []


def test_a_pod_as_a_write_has_left_it() -> None:
    (found,) = pods(line("patch", below="status", responseObject=RUNS))
    assert (found.pod, found.gone) == (RUNS, False)


@pytest.mark.parametrize(
    ("metadata", "gone"),
    [
        ({"deletionTimestamp": "x", "deletionGracePeriodSeconds": 0}, True),
        ({"deletionTimestamp": "x", "deletionGracePeriodSeconds": 30}, False),
        ({"deletionTimestamp": "x", "deletionGracePeriodSeconds": 0, "finalizers": ["f"]}, False),
    ],
)
def test_a_pod_is_gone_when_nothing_holds_it(metadata: dict[str, Any], gone: bool) -> None:
    body = RUNS | {"metadata": {"uid": "u1", "namespace": "space", "name": "train"} | metadata}
    assert [it.gone for it in pods(line("delete", responseObject=body))] == [gone]


def test_many_pods_may_go_by_one_request() -> None:
    body = {"kind": "PodList", "items": [RUNS, RUNS]}
    assert len(pods(line("deletecollection", responseObject=body))) == 2
