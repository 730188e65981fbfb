"""A pod's row: what the pod shows, and nothing that would be a guess."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from scheduler.view.row import State
from tests.unit.view.pods import OURS, PENDING, SITE, SUNK, condition, pod, row, waiting

GOING = {"deletionTimestamp": "2026-11-24T05:30:00Z"}


def test_waiting_pod_has_what_slurm_says_and_what_it_asks_for() -> None:
    asks = {SUNK + "partition": "main", SUNK + "qos": "high", SITE + "account": " physics "}
    found = row(pod(annotations={OURS + "job-id": "7", **asks}, status=waiting()))
    assert (found.state, found.reason, found.message) == (State.PENDING, "Resources", PENDING)
    assert (found.job, found.priority) == (7, 100)
    assert (found.partition, found.qos, found.account) == ("gpu", "high", "physics")
    assert found.expected_start == datetime(2026, 11, 24, 6, 30, tzinfo=UTC)
    assert (found.cpus, found.memory_bytes, found.gpus) == (2, 2 << 30, 1)
    assert (found.node, found.ends_at) == ("", None)


def test_pod_that_shows_nothing_has_nothing() -> None:
    found = row(pod())
    assert found.state is State.PENDING
    assert (found.reason, found.partition, found.qos, found.account) == ("", "", "", "")
    assert (found.job, found.priority, found.expected_start) == (None, None, None)


@pytest.mark.parametrize(
    ("body", "state", "reason"),
    [
        (pod(status=waiting("gated", "SchedulingGated")), State.PENDING, "SchedulingGated"),
        (pod(status=waiting("no", "NoNodeFits")), State.PENDING, "NoNodeFits"),
        (pod(status=waiting(PENDING, "Unschedulable")), State.PENDING, "Resources"),
        (
            pod(
                nodeName="n",
                status={
                    "containerStatuses": [
                        {"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
                    ]
                },
            ),
            State.CONFIGURING,
            "ImagePullBackOff",
        ),
        (pod(nodeName="n", status={"phase": "Running"}), State.RUNNING, ""),
        (pod(nodeName="n", status={"phase": "Unknown"}), State.UNKNOWN, ""),
        (pod(nodeName="n", status={"phase": "Running"}, meta=GOING), State.COMPLETING, ""),
        (
            pod(
                nodeName="n",
                meta=GOING,
                status={
                    "phase": "Running",
                    "conditions": [condition("DisruptionTarget", "True", "TimeLimit", "over")],
                },
            ),
            State.COMPLETING,
            "TimeLimit",
        ),
        (pod(nodeName="n", status={"phase": "Succeeded"}), State.COMPLETED, ""),
        (
            pod(
                nodeName="n",
                status={
                    "phase": "Failed",
                    "containerStatuses": [
                        {
                            "name": "c",
                            "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                        }
                    ],
                },
            ),
            State.FAILED,
            "OOMKilled",
        ),
    ],
)
def test_state_and_reason(body: dict[str, Any], state: State, reason: str) -> None:
    found = row(body)
    assert (found.state, found.reason) == (state, reason)


def test_bound_pod_is_in_the_partition_in_which_slurm_started_its_job() -> None:
    says = {SUNK + "partition": "main,gpu", OURS + "job-partition": "gpu"}
    assert row(pod(annotations=says, nodeName="node-1")).partition == "gpu"
    assert row(pod(annotations=says)).partition == "main,gpu", "nobody has started its job"
    assert row(pod(annotations={SUNK + "partition": "main"}, nodeName="node-1")).partition == "main"


def test_annotation_with_two_values_is_not_known() -> None:
    asks = {SUNK + "partition": "main", SITE + "partition": "gpu"}
    assert row(pod(annotations=asks)).partition == ""
    same = {SUNK + "partition": "main", SITE + "partition": "main"}
    assert row(pod(annotations=same)).partition == "main"


@pytest.mark.parametrize("text", ["", "0", "-1", "٣", "x", "1 ", "9" * 11])
def test_job_id_that_is_none_is_not_known(text: str) -> None:
    assert row(pod(annotations={OURS + "job-id": text})).job is None


@pytest.mark.parametrize(
    "text",
    ["", "soon", "2026-11-24T05:30:00", "2026-99-24T05:30:00Z", "0001-01-01T00:00:00+01:00"],
)
def test_end_that_is_no_time_is_not_known(text: str) -> None:
    assert row(pod(annotations={OURS + "ends-at": text})).ends_at is None


def test_end_and_priority_are_those_of_the_annotations() -> None:
    asks = {OURS + "ends-at": "2026-11-24T05:30:00Z", SUNK + "priority": "1000"}
    found = row(pod(annotations=asks, nodeName="n", status={"phase": "Running"}))
    assert found.ends_at == datetime(2026, 11, 24, 5, 30, tzinfo=UTC)
    assert found.priority == 1000


def test_texts_of_a_pod_are_bounded() -> None:
    long = "x" * 100_000
    found = row(pod(annotations={SUNK + "qos": long}, status=waiting(long, long), nodeName=""))
    assert max(len(it.encode()) for it in (found.qos, found.reason)) <= 256
    assert len(found.message.encode()) <= 1024
