"""From single observations to lives: what is known, and how surely."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from tests.audit.history import LOST, NEVER, By, JobLife, Owner, Sign, Span, Stray, When, at
from tests.audit.job_lives import job_lives, strays
from tests.audit.pod_lives import pod_lives
from tests.audit.records import JobAsked, JobMissing, JobNoted, JobSeen, PodAsked, PodSeen, Records

TAG = {"v": 1, "cluster": "c", "scheduler": "s", "namespace": "space", "uids": ["pod-1"]}


def seen(when: float | When, state: str, **more: Any) -> JobSeen:
    given: dict[str, Any] = {
        "job_id": 7,
        "key": "first",
        "flags": frozenset(),
        "nodes": frozenset() if state == "PENDING" else frozenset({"n1"}),
        "admin_comment": msgspec.json.encode(TAG).decode(),
        "restarts": 0,
        "submitted": at(1),
    }
    return JobSeen(when=when if isinstance(when, When) else at(when), state=state, **given | more)


def lives(
    *jobs: JobSeen | JobMissing,
    asked: tuple[JobAsked, ...] = (),
    noted: tuple[JobNoted, ...] = (),
) -> list[JobLife]:
    records = Records(0.0, jobs=list(jobs), jobs_asked=list(asked), jobs_noted=list(noted))
    return list(job_lives(records))


def began(when: float, *nodes: str) -> JobNoted:
    return JobNoted(at(when), 7, "started", frozenset(nodes or {"n1"}))


def note(when: float, what: Literal["ready", "ended", "requeued", "suspended"]) -> JobNoted:
    return JobNoted(at(when), 7, what)


# --- jobs


@pytest.mark.parametrize(
    ("tag", "packed"),
    [
        ({"per_node": 0}, {"n1": 2, "n2": 1}),
        ({"parts": [{"per_node": 2}, {"per_node": 0}]}, {"n1": 2, "n2": 1}),
        ({"per_node": 2}, {}),
        ({}, {}),
    ],
)
def test_what_slurm_has_packed_is_told_by_the_records(
    tag: dict[str, Any], packed: dict[str, int]
) -> None:
    comment = msgspec.json.encode(TAG | {"v": 2, "ranks": [0]} | tag).decode()
    nodes, tasks = frozenset({"n1", "n2"}), {"n1": 2, "n2": 1}
    (life,) = lives(
        seen(1, "RUNNING", nodes=nodes, tasks=tasks, admin_comment=comment),
        seen(9, "RUNNING", nodes=frozenset({"n1"}), tasks={"n1": 2}, admin_comment=comment),
    )
    assert life.packed == packed


def test_a_job_that_ran_and_was_cancelled() -> None:
    kill = JobAsked(at(30), By.US, "kill", 7)
    (life,) = lives(
        seen(1, "PENDING"),
        seen(10, "RUNNING", flags=frozenset({"CONFIGURING"})),
        seen(12, "RUNNING"),
        seen(30, "CANCELLED"),
        asked=(kill,),
    )
    (run,) = life.runs
    assert life.owner == Owner("c", "s")
    assert (life.namespace, set(life.uids)) == ("space", {"pod-1"})
    assert (run.span.start, run.ready, run.span.end) == (at(10), at(12), at(30))
    assert (life.ended, life.state) == (at(30), "CANCELLED")
    assert [touch.by for touch in life.kills] == [By.US]


def test_a_job_without_a_tag_has_no_owner() -> None:
    (life,) = lives(seen(1, "PENDING", admin_comment="{not json"))
    assert life.owner is None


def test_moments_between_two_looks_are_as_vague_as_those_and_the_record_narrows_them() -> None:
    (life,) = lives(
        seen(When(0, 1), "PENDING"),
        seen(When(9.8, 11.2), "RUNNING", start=When(10, 11)),
        seen(When(29.8, 30.1), "COMPLETED", start=When(10, 11), end=When(30, 31)),
    )
    (run,) = life.runs
    assert run.span.start == When(10, 11)
    assert run.span.end == When(30, 30.1)


def test_the_log_tells_when_it_was_that_the_looks_saw() -> None:
    (life,) = lives(
        seen(When(0, 1), "PENDING"),
        seen(When(9, 13), "RUNNING"),
        seen(When(29, 33), "CANCELLED"),
        noted=(began(11), note(12, "ready"), note(31, "ended")),
    )
    (run,) = life.runs
    assert (run.span.start, run.ready, run.span.end) == (at(11), at(12), at(31))
    assert life.ended == at(31)


def test_the_log_tells_of_pods_that_came_and_went_between_two_looks() -> None:
    def tag(uid: str, **more: str) -> str:
        named = TAG | {"v": 2, "uids": ["pod-1", uid], "ranks": [0, 1]} | more
        return msgspec.json.encode(named).decode()

    others = (tag("pod-9", scheduler="t"), tag("pod-9", cluster="d"), "", "{not json")
    (life,) = lives(
        seen(10, "RUNNING", admin_comment=tag("")),
        seen(30, "CANCELLED", admin_comment=tag("pod-3")),
        noted=tuple(
            JobNoted(at(when), 7, "tagged", tag=it)
            for when, it in enumerate((tag("pod-2"), *others, tag("pod-3")), start=15)
        ),
    )
    assert set(life.uids) == {"pod-1", "pod-2", "pod-3"}
    assert life.slots == 2


def test_the_log_tells_of_a_run_between_two_looks() -> None:
    (life,) = lives(
        seen(When(0, 1), "PENDING"),
        seen(When(9, 19), "RUNNING", restarts=1),
        noted=(began(11, "n2"), note(14, "requeued"), began(16)),
    )
    first, second = life.runs
    assert (first.span.start, first.span.end, first.nodes) == (at(11), at(14), frozenset({"n2"}))
    assert (second.span.start, second.span.end, second.nodes) == (at(16), NEVER, frozenset({"n1"}))
    assert at(14) in [it.when for it in life.evidence if it.sign is Sign.REQUEUED]


def test_a_job_that_gives_a_node_back_goes_on_as_another_run() -> None:
    both = frozenset({"n1", "n2"})
    (life,) = lives(seen(10, "RUNNING", nodes=both), seen(20, "RUNNING"), seen(30, "CANCELLED"))
    first, second = life.runs
    assert (first.span.start, first.span.end, first.nodes) == (at(10), at(20), both)
    assert (second.span.start, second.span.end, second.nodes) == (
        at(20),
        at(30),
        frozenset({"n1"}),
    )


def test_the_log_tells_of_nodes_that_a_job_gave_back_before_a_look() -> None:
    (life,) = lives(
        seen(When(0, 1), "PENDING"),
        seen(When(9, 19), "RUNNING"),
        seen(30, "CANCELLED"),
        noted=(began(11, "n1", "n2"), note(12, "ready")),
    )
    first, second = life.runs
    assert (first.nodes, second.nodes) == (frozenset({"n1", "n2"}), frozenset({"n1"}))
    assert (first.span.start, second.span.start) == (at(11), at(11))
    assert (first.span.end, second.span.end) == (When(11, 30), at(30))


def test_the_log_tells_of_nodes_that_a_job_without_a_start_line_gave_back() -> None:
    """sched/backfill of 26.05.5 writes no line for the start of a heterogeneous job."""
    smaller = JobNoted(at(15), 7, "smaller", frozenset({"n2"}))
    (life,) = lives(
        seen(When(0, 1), "PENDING"),
        seen(When(9, 19), "RUNNING", start=at(11)),
        seen(30, "CANCELLED"),
        noted=(smaller,),
    )
    assert [(it.nodes, it.span) for it in life.runs] == [
        (frozenset({"n1", "n2"}), Span(at(11), at(15))),
        (frozenset({"n1"}), Span(at(11), at(30))),
    ]


def test_the_log_tells_of_a_suspension_between_two_looks() -> None:
    (life,) = lives(
        seen(When(0, 1), "RUNNING"),
        seen(When(9, 12), "CANCELLED"),
        noted=(note(10, "suspended"), note(11, "ended")),
    )
    assert [(it.when, it.sign) for it in life.evidence] == [(at(10), Sign.SUSPENDED)]


def test_the_log_tells_of_a_run_after_the_last_look_that_saw_one() -> None:
    (life,) = lives(
        seen(When(0, 1), "PENDING"),
        seen(When(9, 12), "RUNNING"),
        seen(When(12, 20), "PENDING", restarts=1),
        seen(When(29, 33), "CANCELLED", restarts=1),
        noted=(began(11), note(14, "requeued"), began(22), note(31, "ended")),
    )
    assert [(it.span.start, it.span.end) for it in life.runs] == [
        (at(11), at(14)),
        (at(22), at(31)),
    ]


def test_a_start_without_a_line_that_a_crash_forgot_shows_when_the_job_was_ready() -> None:
    (life,) = lives(
        seen(When(0, 1), "PENDING"),
        seen(When(19, 20), "RUNNING"),
        noted=(note(12, "ready"), began(20), note(20, "ready")),
    )
    assert [it.span.start for it in life.runs] == [at(20)]
    assert life.unseen == (at(12),)


def test_a_line_that_may_be_about_another_job_of_that_id_says_nothing() -> None:
    first, second = lives(
        seen(When(0, 1), "PENDING"),
        JobMissing(When(10, 20), 7),
        seen(When(10, 20), "PENDING", key="second", submitted=When(10, 20)),
        noted=(began(15),),
    )
    assert first.runs == second.runs == ()


def test_a_start_of_a_job_that_nobody_saw_is_a_stray() -> None:
    looks: list[JobSeen | JobMissing] = [
        seen(When(0, 1), "PENDING"),
        JobMissing(When(8, 9), 7),
        seen(When(19, 20), "PENDING", key="second", submitted=When(19, 20)),
    ]
    notes = [began(5), began(15, "n2"), note(16, "ready"), note(17, "ended"), began(21, "n3")]
    records = Records(0.0, jobs=looks, jobs_noted=notes)
    assert list(strays(records, job_lives(records))) == [
        Stray(at(15), frozenset({"n2"})),
        Stray(at(16), frozenset()),
    ]


def test_a_run_that_nobody_saw_is_told_by_the_record_of_its_end() -> None:
    (life,) = lives(
        seen(1, "PENDING"),
        seen(When(5, 9), "COMPLETED", start=When(6, 7), end=When(8, 9)),
    )
    (run,) = life.runs
    assert (run.span.start, run.span.end) == (When(6, 7), When(8, 9))


def test_a_job_cancelled_in_the_queue_never_ran() -> None:
    (life,) = lives(seen(1, "PENDING"), seen(5, "CANCELLED", nodes=frozenset(), end=at(5)))
    assert life.runs == ()


def test_a_requeue_ends_a_run_and_is_evidence() -> None:
    (life,) = lives(
        seen(1, "PENDING"),
        seen(10, "RUNNING"),
        seen(20, "PENDING", restarts=1),
        seen(30, "RUNNING", restarts=1),
    )
    assert [(run.span.start, run.span.end) for run in life.runs] == [
        (at(10), at(20)),
        (at(30), NEVER),
    ]
    assert [(it.sign, it.when) for it in life.evidence] == [(Sign.REQUEUED, at(20))]


def test_a_requeue_between_two_looks_is_seen_by_its_count() -> None:
    (life,) = lives(seen(10, "RUNNING"), seen(20, "RUNNING", restarts=1))
    assert [run.span.end for run in life.runs] == [at(20), NEVER]


def test_a_start_that_a_crash_has_forgotten_is_no_evidence() -> None:
    (life,) = lives(seen(10, "RUNNING"), seen(20, "PENDING"))
    assert [run.span.end for run in life.runs] == [at(20)]
    assert life.evidence == ()


def test_an_end_that_a_crash_has_forgotten_was_evidence() -> None:
    (life,) = lives(seen(10, "RUNNING"), seen(20, "TIMEOUT"), seen(25, "RUNNING"))
    assert [run.span.end for run in life.runs] == [at(20), NEVER]
    assert life.ended == NEVER
    assert [it.sign for it in life.evidence] == [Sign.FORGOTTEN_END]


@pytest.mark.parametrize(
    ("sign", "look"),
    [
        (Sign.PREEMPTED, seen(20, "RUNNING", preempted=at(19))),
        (Sign.SUSPENDED, seen(19, "SUSPENDED")),
    ],
)
def test_signs_in_the_record(sign: Sign, look: JobSeen) -> None:
    (life,) = lives(seen(10, "RUNNING"), look)
    assert [(it.sign, it.when) for it in life.evidence] == [(sign, at(19))]
    assert len(life.runs) == 1, "it holds what it held"


def test_one_id_may_be_given_out_twice() -> None:
    former, later = lives(
        seen(10, "RUNNING"),
        JobMissing(When(15, 20), 7),
        seen(30, "PENDING", key="second", submitted=at(30)),
        asked=(JobAsked(at(40), By.US, "kill", 7),),
    )
    assert (former.state, former.ended, former.kills) == (LOST, When(15, 20), ())
    assert (later.state, len(later.kills)) == ("PENDING", 1)


def test_another_job_of_the_id_tells_that_the_former_is_lost() -> None:
    former, _ = lives(
        seen(10, "RUNNING"), seen(When(19, 20), "PENDING", key="second", submitted=at(20))
    )
    assert (former.state, former.ended) == (LOST, When(19, 20))


def test_a_request_that_may_be_about_either_job_of_an_id_is_nobodys() -> None:
    both = lives(
        seen(10, "RUNNING"),
        seen(When(15, 20), "PENDING", key="second", submitted=When(15, 16)),
        asked=(JobAsked(at(15.5), By.US, "kill", 7),),
    )
    assert [[touch.by for touch in life.kills] for life in both] == [[By.UNKNOWN], [By.UNKNOWN]]


def test_a_purged_job_is_not_lost() -> None:
    (life,) = lives(seen(10, "RUNNING"), seen(20, "COMPLETED"), JobMissing(When(300, 301), 7))
    assert (life.state, life.ended) == ("COMPLETED", at(20))


# --- pods


def pod(*, node: str = "", phase: str = "Pending", **more: Any) -> dict[str, Any]:
    metadata = {"uid": "pod-1", "namespace": "space", "name": "train"} | more.pop("metadata", {})
    spec = {"schedulerName": "s", **({"nodeName": node} if node else {})}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, **more}}


def terminated(finished: str) -> list[dict[str, Any]]:
    return [{"state": {"terminated": {"finishedAt": finished}}}]


def asked(when: float, verb: str, **more: Any) -> PodAsked:
    given: dict[str, Any] = {
        "by": By.US,
        "namespace": "space",
        "name": "train",
        "uid": "",
        "accepted": True,
    }
    return PodAsked(at(when), verb=verb, **given | more)


def records(*pods: PodSeen, reported: bool = False, **more: Any) -> Records:
    return Records(0.0, reported=reported, pods=list(pods), **more)


def test_a_pod_from_its_bind_to_its_end() -> None:
    states = (
        PodSeen(at(1), pod(), gone=False),
        PodSeen(at(10), pod(node="n1"), gone=False),
        PodSeen(at(20), pod(node="n1", phase="Running"), gone=False),
        PodSeen(at(30), pod(node="n1", phase="Succeeded"), gone=False),
        PodSeen(at(40), pod(node="n1", phase="Succeeded"), gone=True),
    )
    bind = asked(9.9, "bind", node="n1", uid="pod-1")
    (life,) = pod_lives(records(*states, pods_asked=[bind]))
    assert (life.node, life.scheduler) == ("n1", "s")
    assert (life.placed, life.stopped, life.over) == (at(9.9), at(30), at(30))
    assert [it.node for it in life.binds] == ["n1"]


def test_a_pod_that_is_still_there_has_not_stopped() -> None:
    (life,) = pod_lives(records(PodSeen(at(1), pod(node="n1"), gone=False)))
    assert (life.placed, life.stopped, life.over) == (at(1), NEVER, NEVER)


def test_a_report_of_the_end_comes_later_than_the_end() -> None:
    status = terminated("1970-01-01T00:00:25Z")
    last = pod(node="n1", phase="Failed", containerStatuses=status)
    (life,) = pod_lives(records(PodSeen(When(29, 30), last, gone=False), reported=True))
    assert life.stopped == When(25, 30)


def test_a_pod_that_goes_without_a_word_of_its_containers_may_have_stopped_early() -> None:
    leaving = {"deletionTimestamp": "1970-01-01T00:00:20Z"}
    states = (
        PodSeen(at(10), pod(node="n1"), gone=False),
        PodSeen(at(20), pod(node="n1", metadata=leaving), gone=False),
        PodSeen(at(30), pod(node="n1", metadata=leaving), gone=True),
    )
    (life,) = pod_lives(records(*states, reported=True))
    assert life.stopped == When(20, 30)


def test_a_request_without_a_uid_is_about_the_pod_of_that_time() -> None:
    first = [PodSeen(at(1), pod(), gone=False), PodSeen(at(10), pod(), gone=True)]
    again = pod(metadata={"uid": "pod-2"})
    found = pod_lives(
        records(
            *first,
            PodSeen(at(20), again, gone=False),
            pods_asked=[asked(5, "delete"), asked(25, "delete"), asked(26, "write")],
        )
    )
    assert [[it.when for it in life.deletions] for life in found] == [[at(5)], [at(25)]]


def test_a_refused_deletion_is_none() -> None:
    refused = asked(5, "delete", accepted=False)
    (life,) = pod_lives(records(PodSeen(at(1), pod(), gone=False), pods_asked=[refused]))
    assert (life.deletions, life.touches) == ((), ())
