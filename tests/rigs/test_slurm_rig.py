"""The Slurm rigs do what the live tier rests on: start, run, end and survive restarts."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import COMPLETING_SECONDS
from tests.rigs.slurm import SlurmRig
from tests.rigs.slurm_build import ensure
from tests.support.slurm_rest import SlurmRest

pytestmark = pytest.mark.live

_RELEASES = ("26.05", "24.11")


@pytest.fixture(params=_RELEASES)
def rig(request: pytest.FixtureRequest) -> SlurmRig:
    found: SlurmRig = request.getfixturevalue(f"live_slurm_{request.param[:2]}")
    return found


def test_job_runs_and_is_cancelled(rig: SlurmRig) -> None:
    rest = rig.rest()
    job = _submit(rest, rig)
    running = _wait(rest, job, "RUNNING")
    assert running["nodes"] in rig.nodes
    _end(rig, job)


def test_unix_socket_serves_the_same(rig: SlurmRig) -> None:
    over_socket = SlurmRest(f"unix:{rig.socket}", major=rig.major, token=rig.token("alice"))
    assert over_socket.responding()


def test_ordinary_user_is_no_operator(rig: SlurmRig) -> None:
    answer = rig.rest("alice").request("POST", "job/submit", body=_body(rig, user_id="2002"))
    assert [error["error_number"] for error in answer.body["errors"]] == [2010]


@pytest.mark.parametrize("kill", [False, True], ids=["graceful", "kill -9"])
def test_restarted_controller_still_runs_a_saved_job(rig: SlurmRig, kill: bool) -> None:
    rest = rig.rest()
    job = _submit(rest, rig)
    _wait(rest, job, "RUNNING")
    if kill:
        # A graceful restart saves what a kill right after the start would lose.
        rig.stop("slurmctld")
        rig.start("slurmctld")
    rig.stop("slurmctld", kill=kill)
    assert not rest.responding()
    rig.start("slurmctld")
    _wait(rest, job, "RUNNING")
    _end(rig, job)


@pytest.mark.parametrize("kill", [False, True], ids=["graceful", "kill -9"])
def test_restarted_rest_server_serves_again(rig: SlurmRig, kill: bool) -> None:
    rig.stop("slurmrestd", kill=kill)
    rig.start("slurmrestd")
    assert rig.rest().responding()


def test_node_for_a_real_kubelet_has_its_own_partition(live_slurm_26: SlurmRig) -> None:
    rest = live_slurm_26.rest()
    job = _submit(rest, live_slurm_26, partition="real")
    assert _wait(rest, job, "RUNNING")["nodes"] == "real-0"
    _end(live_slurm_26, job)


@pytest.mark.parametrize("major", _RELEASES)
def test_second_rig_stands_beside_the_first_and_leaves_nothing(major: str) -> None:
    chroot = ensure(major)
    for _ in range(2):
        with SlurmRig(chroot) as first, SlurmRig(chroot) as second:
            rigs = (first, second)
            pids = [rig.pid(name) for rig in rigs for name in ("slurmctld", "slurmrestd")]
            jobs = [_submit(rig.rest(), rig) for rig in rigs]
            for rig, job in zip(rigs, jobs, strict=True):
                _wait(rig.rest(), job, "RUNNING")
        assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
        assert not [rig for rig in rigs if rig.log_directory.exists()]


def _submit(rest: SlurmRest, rig: SlurmRig, **more: Any) -> int:
    answer = rest.request("POST", "job/submit", body=_body(rig, **more))
    assert answer.ok, answer
    return int(answer.body["job_id"])


def _body(rig: SlurmRig, **more: Any) -> dict[str, Any]:
    job = {
        "name": "smoke",
        "partition": rig.partition,
        "current_working_directory": "/tmp",
        "environment": ["PATH=/usr/bin:/bin"],
        "nodes": "1",
        "tasks": 1,
        "cpus_per_task": 1,
        "memory_per_node": {"set": True, "number": 100},
    }
    if rig.major == "24.11":
        job["script"] = "#!/bin/sh\nexec sleep 600\n"
    else:
        job["flags"] = ["EXTERNAL_JOB"]
    return {"job": job | more}


def _end(rig: SlurmRig, job: int) -> None:
    if rig.major == "24.11":  # else its end would take KillWait
        _until(lambda: rig.script_runs(job), lambda: f"job {job} has no script")
    rest = rig.rest()
    assert rest.request("DELETE", f"job/{job}").ok
    _wait(rest, job, "CANCELLED")


def _wait(rest: SlurmRest, job: int, state: str) -> dict[str, Any]:
    record: dict[str, Any] = {}

    def reached() -> bool:
        record.update(rest.request("GET", f"job/{job}").body["jobs"][0])
        return bool(record["job_state"] == [state])

    _until(reached, lambda: f"job {job} is {record.get('job_state')}, not {state}: {record}")
    return record


def _until(ready: Callable[[], bool], explain: Callable[[], str]) -> None:
    until = time.monotonic() + COMPLETING_SECONDS
    while not ready():
        assert time.monotonic() < until, explain()
        time.sleep(0.05)
