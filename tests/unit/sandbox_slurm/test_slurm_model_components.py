"""Components of heterogeneous jobs, where a contract test cannot look."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.sandbox.slurm.errors import SlurmError
from scheduler.sandbox.slurm.records import Job, State
from tests.unit.sandbox_slurm.harness import SLEEP, Lab, Wire

PLAIN: dict[str, Any] = {
    "name": "job",
    "flags": ["EXTERNAL_JOB"],
    "nodes": "1",
    "tasks": 1,
    "cpus_per_task": 1,
    "memory_per_node": 1000,
    "environment": ["PATH=/bin"],
    "current_working_directory": "/tmp",
    "dependency": "singleton",
}


def together(lab: Lab, *parts: dict[str, Any]) -> list[Job]:
    first, _ = lab.model.submit_together([PLAIN | part for part in parts], None, user="root")
    return lab.model.cluster.components(first)


def test_components_are_found_again_after_a_restart(lab: Lab) -> None:
    first, second = together(lab, {}, {})
    lab.pass_time()
    lab.model.stop_controller()
    lab.model.start_controller()
    lab.model.cancel(first.id, user="root")
    assert lab.again(second).state is State.CANCELLED
    assert lab.model.cluster.nodes["n2"].jobs == set()


def test_components_are_purged_like_other_jobs(lab: Lab) -> None:
    first, _ = together(lab, {}, {})
    lab.pass_time()
    lab.model.cancel(first.id, user="root")
    lab.pass_time(301)
    assert not lab.model.cluster.jobs
    with pytest.raises(SlurmError, match="2017"):
        lab.model.cancel(first.id, user="root")


def test_components_before_a_refused_one_leave_a_cancelled_record(lab: Lab) -> None:
    with pytest.raises(SlurmError, match="2000"):
        together(lab, {}, {"partition": "nowhere"})
    assert [(job.id, job.state) for job in lab.model.jobs()] == [(1, State.CANCELLED)]
    assert lab.submit().id == 2


def test_component_that_fits_no_node_beside_the_others_holds_all_back(lab: Lab) -> None:
    parts = together(lab, {}, {}, {})
    lab.pass_time()
    assert {(part.state, part.reason) for part in parts} == {(State.PENDING, "Resources")}


@pytest.mark.parametrize(
    ("jobs", "number"), [([], 0), ([PLAIN | {"flags": []}], 2009), ([PLAIN | {"tasks": "x"}], None)]
)
async def test_submit_without_a_job_or_a_script_makes_none(
    wire: Wire, lab: Lab, jobs: list[dict[str, Any]], number: int | None
) -> None:
    reply = await wire("POST", "job/submit", {"jobs": jobs})
    assert reply.errors == ([] if number is None else [number])
    assert not reply.json.get("job_id")
    assert not list(lab.model.jobs())


async def test_one_script_serves_all_components(old_wire: Wire, old_lab: Lab) -> None:
    parts = [PLAIN | {"flags": []}] * 2
    reply = await old_wire("POST", "job/submit", {"jobs": parts, "script": SLEEP})
    model = old_lab.model
    first, second = model.cluster.components(model.job(reply.json["job_id"]))
    assert (first.asked.script, second.asked.script) == (SLEEP, None)
