"""What the demo says about a change of a pod, and that it repeats nothing."""

import io
from datetime import UTC, datetime

import msgspec
import pytest

from scheduler.core.naming import JOB_ID
from scheduler.demo.narrator import Narrator, pod_news
from scheduler.kube.wire import Pod, decode_pod
from slurmapi import BaseState, JobState

RUNNING = JobState(BaseState.RUNNING)


def pod(
    *, node: str = "", phase: str = "Pending", conditions: object = (), **metadata: object
) -> Pod:
    body = {
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "default", "uid": "u", **metadata},
        "spec": {"containers": [], **({"nodeName": node} if node else {})},
        "status": {"phase": phase, "conditions": conditions},
    }
    return decode_pod(msgspec.json.encode(body))


def condition(kind: str, status: str, reason: str, message: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": status, "reason": reason, "message": message}]


WAITS = condition("PodScheduled", "False", "SlurmPending", "Slurm job 1 is pending")
PREEMPTED = condition("DisruptionTarget", "True", "Preempted", "Slurm job 1 was preempted")
LEAVING = {"deletionTimestamp": "2026-11-21T10:00:00Z", "deletionGracePeriodSeconds": 5}
NODE = "node-00"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (None, pod(), ["train created"]),
        (pod(), pod(), []),
        (pod(), pod(conditions=WAITS), ["train waits: Slurm job 1 is pending"]),
        (pod(conditions=WAITS), pod(conditions=WAITS), []),
        (pod(conditions=WAITS), pod(node=NODE), ["train bound to node-00"]),
        (
            pod(),
            pod(node=NODE, annotations={JOB_ID: "1"}),
            ["train bound to node-00 (Slurm job 1)"],
        ),
        (pod(node=NODE), pod(node=NODE, phase="Running"), ["train Running"]),
        (
            pod(node=NODE, phase="Running"),
            pod(node=NODE, phase="Running", conditions=PREEMPTED),
            ["train Preempted: Slurm job 1 was preempted"],
        ),
        (
            pod(node=NODE, phase="Running"),
            pod(node=NODE, phase="Running", **LEAVING),
            ["train has 5 s to stop"],
        ),
        (
            pod(node=NODE, phase="Running", **LEAVING),
            pod(node=NODE, phase="Failed", **LEAVING),
            ["train has stopped"],
        ),
        (pod(node=NODE, phase="Running"), pod(node=NODE, phase="Failed"), ["train Failed"]),
        (pod(), None, ["train is gone"]),
        (None, None, []),
    ],
)
def test_change_of_a_pod_is_told_once_and_in_words(old, new, told):
    assert list(pod_news(old, new)) == told


@pytest.fixture
def out():
    return io.StringIO()


def narrator(out: io.StringIO, *, colour: bool = False) -> Narrator:
    return Narrator(out, now=lambda: datetime(2026, 11, 21, 10, 17, 9, tzinfo=UTC), colour=colour)


def test_job_is_told_of_again_only_when_its_state_changes(out):
    teller = narrator(out)
    for state in (RUNNING, RUNNING, JobState(BaseState.CANCELLED, frozenset({"COMPLETING"}))):
        teller.jobs({7: state}, names={7: "default.train.u"})
    assert out.getvalue().splitlines() == [
        "10:17:09 slurm job 7 default.train.u RUNNING",
        "10:17:09 slurm job 7 default.train.u CANCELLED+COMPLETING",
    ]


@pytest.mark.parametrize("colour", [True, False])
def test_escape_sequences_are_for_terminals(out, colour):
    teller = narrator(out, colour=colour)
    teller.heading("what comes")
    teller.pod(None, pod())
    teller.note("a note")
    assert ("\x1b" in out.getvalue()) is colour
    assert "what comes" in out.getvalue()
