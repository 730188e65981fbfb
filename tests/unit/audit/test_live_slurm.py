"""The recorder of a real Slurm tells jobs apart whose id is the same."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from tests.audit.history import NEVER
from tests.audit.job_lives import job_lives
from tests.audit.live_slurm import SlurmRecords
from tests.audit.records import Records

_SECONDS: Final = 120.0


class Rig:
    """Answers as slurmrestd does; `jobs` are the names of running jobs by id."""

    def __init__(self, folder: Path) -> None:
        self.log_directory = folder
        (folder / "slurmctld.log").touch()
        self.starts = Counter({"slurmctld": 1})
        self.jobs: dict[int, str] = {}
        self.fails = 0
        """So many looks at single jobs get no answer."""
        self.answers: Counter[str] = Counter()

    def rest(self) -> Rig:
        return self

    def request(self, _method: str, path: str) -> SimpleNamespace:
        kind = "states" if path == "jobs/state/" else "job"
        if kind == "job" and self.fails:
            self.fails -= 1
            return SimpleNamespace(ok=False, body=None)
        wanted = self.jobs if kind == "states" else [int(path.removeprefix("job/"))]
        body = {"jobs": [_raw(it, self.jobs[it]) for it in wanted]}
        if kind == "states":
            body = {"jobs": [{"job_id": it, "state": ["RUNNING"]} for it in wanted]}
        self.answers[kind] += 1
        return SimpleNamespace(ok=True, body=body)


def test_jobs_of_a_slurm_that_lost_its_state_are_other_jobs(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    records = SlurmRecords(rig)  # type: ignore[arg-type]
    records.open()
    rig.jobs = {1: "first", 2: "second"}
    _wait(lambda: rig.answers["job"] >= 2)
    # Nobody asked while it was away, and the first look at a job is lost.
    rig.fails = 1
    rig.jobs = {1: "third", 2: "fourth", 3: "fifth"}
    rig.starts["slurmctld"] += 1
    _wait(lambda: rig.answers["job"] >= 5)
    found = Records(opened=0.0, reported=True)
    records.read_into(found)
    lives = [(it.job_id, it.ended != NEVER) for it in job_lives(found)]
    assert lives == [(1, True), (1, False), (2, True), (2, False), (3, False)]


def _raw(job_id: int, name: str) -> dict[str, Any]:
    unset = {"set": False, "number": 0}
    began = {"set": True, "number": 1_795_419_095}
    return {
        "job_id": job_id,
        "name": name,
        "job_state": ["RUNNING"],
        "nodes": "n1",
        "admin_comment": "",
        "cpus_per_task": {"set": True, "number": 1},
        "restart_cnt": 0,
        "submit_time": began,
        "start_time": began,
        "end_time": unset,
        "preempt_time": unset,
    }


def _wait(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)
