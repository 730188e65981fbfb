"""`queue --jobs`: the jobs of Slurm beside the pods, on the sandbox's API server and slurmrestd."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from scheduler.__main__ import main
from scheduler.sandbox.kube import KubeServer
from scheduler.sandbox.slurm import SlurmServer, mint_token
from scheduler.view import native_jobs
from scheduler.view.native_jobs import row_of_job
from scheduler.view.row import State
from slurmapi import BaseState, Job, JobState, ListedJob
from tests.unit.core.things import tag
from tests.unit.sandbox_slurm.harness import Lab
from tests.unit.view.conftest import Call
from tests.unit.view.pods import OURS, add, pod, waiting

FIELDS = {"partition": "main", "tres_per_node": "gres/gpu:2"}


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.clock.now = time.time()  # tokens are dated by the real clock
    return lab


@pytest.fixture
async def call(
    lab: Lab,
    kubeconfig: Path,
    command_line: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Call]:
    """Carries out `queue` with Slurm named by the environment."""
    slurm = SlurmServer(lab.model)
    port = await slurm.start(port=0)
    lab.model.detach()
    token = tmp_path / "slurm-token"
    token.write_text("SLURM_JWT=" + mint_token(lab.model.key, "root"))
    monkeypatch.setenv("SLURM_POD_SCHEDULER_SLURM_API_BASE", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("SLURM_POD_SCHEDULER_SLURM_AUTH_TOKEN_FILE", str(token))
    yield partial(command_line, "queue")
    await slurm.stop()


async def test_jobs_are_listed_beside_pods(server: KubeServer, lab: Lab, call: Call) -> None:
    add(server, pod("waits", status=waiting()))
    job = lab.submit(name="train", user="alice", **FIELDS)
    lab.pass_time()
    heading, *lines = (line.split() for line in (await call("--jobs"))[1].splitlines())
    assert heading[:3] == ["NAME", "USER", "STATE"]
    assert [it[:3] for it in lines] == [["waits", "-", "PENDING"], ["train", "alice", "RUNNING"]]
    of_pod, of_job = json.loads((await call("--jobs", "-o", "json"))[1])["items"]
    assert (of_pod["user"], of_pod["namespace"]) == (None, "default")
    assert (of_job["user"], of_job["namespace"], of_job["uid"]) == ("alice", None, None)
    assert (of_job["jobId"], of_job["node"], of_job["partition"]) == (job.id, "n1", "main")
    assert (of_job["cpus"], of_job["memoryBytes"], of_job["gpus"]) == (1, 1000 * 2**20, 2)
    assert (await call())[1].count("train") == 0


async def test_jobs_of_pods_are_left_out_and_no_pod_can_hide_a_job(
    server: KubeServer, lab: Lab, call: Call
) -> None:
    native = lab.submit(name="native", user="alice")
    lab.submit(name="default.web", admin_comment=tag())
    lab.submit(name="not-ours", admin_comment='{"v": 1, "scheduler": "x"}')
    add(server, pod("forged", annotations={f"{OURS}job-id": str(native.id)}))
    items = json.loads((await call("--jobs", "-o", "json"))[1])["items"]
    assert sorted(it["name"] for it in items) == ["forged", "native", "not-ours"]


async def test_what_one_call_asks_is_bounded(
    server: KubeServer, lab: Lab, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [lab.submit(name=f"job-{number}") for number in range(4)]
    add(server, pod("web", annotations={f"{OURS}job-id": str(jobs[0].id)}))
    monkeypatch.setattr(native_jobs, "MOST_JOBS", 3)
    status, out, err = await call("--jobs", "--sort=name")
    listed = [line.split()[0] for line in out.splitlines()[1:]]
    # Those that a pod names come last.
    assert (status, listed) == (0, ["job-1", "job-2", "job-3", "web"])
    assert err.startswith("slurm-pod-scheduler queue: 1 of Slurm's jobs could not be listed ")


async def test_states_and_partitions_choose_jobs_too(lab: Lab, call: Call) -> None:
    ended = lab.submit(name="ended")
    lab.submit(name="runs")
    lab.submit(name="waits", hold=True)
    lab.submit(name="elsewhere", partition="high")
    lab.pass_time()
    lab.model.cancel(ended.id, user="root")

    async def names(*words: str) -> list[str]:
        items = json.loads((await call("--jobs", "-o", "json", *words))[1])["items"]
        return sorted(it["name"] for it in items)

    assert await names() == ["elsewhere", "runs", "waits"]
    assert await names("-t", "PD") == ["waits"]
    assert (await call("--jobs", "-t", "S"))[2] == (
        "no pods with schedulerName slurm-scheduler in namespace default; of Slurm's jobs, none\n"
    )
    assert await names("-t", "F,R", "-p", "main") == ["ended", "runs"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--jobs", "-w"], "--jobs does not go with --watch: "),
        (["--jobs", "-l", "app=web"], "--jobs does not go with --selector: "),
        (["--jobs", "-o", "name"], "--jobs does not go with --output=name: "),
        (["--slurm-api-base=http://slurm:6820"], "--slurm-api-base is only for --jobs"),
    ],
)
def test_contradictions_are_named_in_one_line(
    words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["queue", *words])
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert named in err


async def test_slurm_that_is_away_and_tokens_that_are_wrong_are_told(
    call: Call, tmp_path: Path
) -> None:
    status, out, err = await call("--jobs", "--slurm-api-base=http://127.0.0.1:1")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "queue: --jobs: nothing listens at http://127.0.0.1:1: " in err
    status, _, err = await call("--jobs", "--slurm-auth-token-file=/nowhere")
    assert (status, err.count("\n")) == (1, 1)
    assert "name a file with your own token of Slurm by --slurm-auth-token-file" in err
    wrong = tmp_path / "wrong"
    wrong.write_text(mint_token(b"x" * 32, "alice"))
    status, _, err = await call("--jobs", f"--slurm-auth-token-file={wrong}")
    assert (status, err.count("\n")) == (1, 1)
    assert "`scontrol token`" in err


async def test_texts_of_jobs_cannot_write_on_the_terminal(lab: Lab, call: Call) -> None:
    lab.submit(name="\x1b]0;owned\x07" + "x" * 900, user="alice")
    _, out, _ = await call("--jobs")
    assert "\x1b" not in out
    assert "\\x1b]0;owned" in out
    assert max(map(len, out.splitlines())) < 500


RUNNING = Job(
    job_id=7,
    name="train",
    state=JobState(BaseState.RUNNING),
    state_reason="None",
    nodes=("n1", "n2"),
    start_time=1_800_000_000,
    time_limit_minutes=10,
    gres="gres/gpu:h100=2",
    tres_allocated="cpu=8,mem=1.50G,node=2,billing=8",
)


def test_row_tells_what_the_job_has() -> None:
    found = row_of_job(ListedJob(RUNNING, "alice", "cpu=1,mem=1G,node=1"))
    assert (found.cpus, found.memory_bytes, found.gpus) == (8, 1536 * 2**20, 4)
    assert (found.node, found.reason, found.expected_start) == ("n1,n2", "", None)
    assert found.ends_at is not None
    assert found.ends_at.timestamp() == 1_800_000_600


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (JobState(BaseState.RUNNING, frozenset({"CONFIGURING"})), State.CONFIGURING),
        (JobState(BaseState.SUSPENDED), State.SUSPENDED),
        (JobState(BaseState.CANCELLED, frozenset({"COMPLETING"})), State.COMPLETING),
        (JobState(BaseState.TIMEOUT), State.FAILED),
        (JobState(BaseState.COMPLETED), State.COMPLETED),
        (JobState(BaseState.UNKNOWN), State.UNKNOWN),
    ],
)
def test_state_is_the_one_of_pods_that_comes_next(state: JobState, shown: State) -> None:
    job = Job(job_id=7, name="train", state=state)
    assert row_of_job(ListedJob(job)).state is shown


def test_amounts_that_are_no_numbers_are_not_told() -> None:
    strange = Job(
        job_id=7,
        name="train",
        state=JobState(BaseState.PENDING),
        start_time=2**62,
        submit_time=-(2**62),
    )
    found = row_of_job(ListedJob(strange, "", "cpu=many,mem=1e400G,node=x,gres/gpu=nan"))
    assert (found.cpus, found.memory_bytes, found.gpus) == (0, 0, 0)
    assert (found.created, found.expected_start) == (None, None)
