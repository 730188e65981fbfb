"""How jobs end: scripts and signals, preemption, failed nodes, restarts and crashes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.sandbox.slurm import SlurmConfig
from scheduler.sandbox.slurm.errors import SlurmError
from scheduler.sandbox.slurm.records import State
from tests.unit.sandbox_slurm.harness import SLEEP, Lab, config

STUBBORN = "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n"


def preempting(**main: Any) -> SlurmConfig:
    """A cluster whose partition main is preempted in this way."""
    plain = config(nodes=1)
    first, *others = plain.partitions
    return replace(plain, partitions=(replace(first, **main), *others))


def test_external_job_ends_the_moment_it_is_cancelled(lab: Lab) -> None:
    job = lab.submit()
    lab.pass_time()
    lab.model.cancel(job.id, user="root")
    assert (job.state, job.completing, job.end_time) == (State.CANCELLED, False, lab.clock.now)


def test_cancelled_batch_job_is_completing_until_its_script_is_gone(old_lab: Lab) -> None:
    job = old_lab.submit(script=SLEEP)
    old_lab.pass_time()
    old_lab.model.cancel(job.id, user="root")
    assert (job.state, job.completing) == (State.CANCELLED, True)
    assert old_lab.model.cluster.nodes["n1"].cpus_used == 1
    old_lab.pass_time()
    assert (job.completing, job.exit.signal) == (False, 15)
    assert old_lab.model.cluster.nodes["n1"].cpus_used == 0


@pytest.mark.parametrize(
    ("step", "held"), [("", ["n1"]), ("srun sleep infinity &\n", ["n1", "n2"])], ids=["", "srun"]
)
def test_ending_batch_job_holds_the_nodes_of_its_processes_also_after_a_restart(
    old_lab: Lab, step: str, held: list[str]
) -> None:
    script = f"#!/bin/sh\ntrap '' TERM\n{step}exec sleep infinity\n"
    job = old_lab.submit(script=script, nodes="2", tasks=2)
    old_lab.pass_time()
    old_lab.model.cancel(job.id, user="root")
    for _ in range(2):
        assert [it.config.name for it in old_lab.model.nodes() if it.jobs] == held
        old_lab.model.stop_controller()
        old_lab.model.start_controller()
    assert [share.node for share in old_lab.again(job).shares] == ["n1", "n2"]


def test_script_that_ignores_sigterm_is_killed_after_kill_wait(old_lab: Lab) -> None:
    job = old_lab.submit(script=STUBBORN)
    old_lab.pass_time()
    old_lab.model.cancel(job.id, user="root")
    old_lab.pass_time(29)
    assert job.completing
    old_lab.pass_time(1)
    assert (job.completing, job.exit.signal) == (False, 9)


@pytest.mark.parametrize(
    ("script", "state", "code"),
    [("#!/bin/sh\nexit 3\n", State.FAILED, 3), ("#!/bin/sh\nsleep 5\n", State.COMPLETED, 0)],
)
def test_script_that_ends_decides_the_state(
    old_lab: Lab, script: str, state: State, code: int
) -> None:
    job = old_lab.submit(script=script)
    old_lab.pass_time()
    old_lab.pass_time(6)
    assert (job.state, job.exit.return_code) == (state, code)


def test_signals_other_than_kill_leave_a_running_job_alone(lab: Lab) -> None:
    job = lab.submit()
    with pytest.raises(SlurmError, match="2020"):
        lab.model.cancel(job.id, user="root", signal=15)
    lab.pass_time()
    lab.model.cancel(job.id, user="root", signal=15)
    assert job.state is State.RUNNING


def test_only_owner_and_operators_may_cancel(lab: Lab) -> None:
    own, other = lab.submit(user="alice"), lab.submit()
    lab.model.cancel(own.id, user="alice")
    with pytest.raises(SlurmError, match="Operation not permitted"):
        lab.model.cancel(other.id, user="alice")
    assert (own.state, other.state) == (State.CANCELLED, State.PENDING)


def test_cancelled_twice_is_an_error(lab: Lab) -> None:
    job = lab.submit()
    lab.model.cancel(job.id, user="root")
    with pytest.raises(SlurmError, match="2021"):
        lab.model.cancel(job.id, user="root")


def test_higher_tier_takes_the_place_in_the_same_pass() -> None:
    lab = Lab(preempting())
    victim = lab.submit(cpus_per_task=16)
    lab.pass_time()
    winner = lab.submit(cpus_per_task=16, partition="high")
    lab.pass_time()
    assert (victim.state, victim.preempt_time, victim.end_time) == (
        State.PREEMPTED,
        lab.clock.now,
        lab.clock.now,
    )
    assert winner.state is State.RUNNING


def test_no_more_jobs_are_preempted_than_needed() -> None:
    lab = Lab(config(nodes=2))
    jobs = [lab.submit(cpus_per_task=8) for _ in range(4)]
    lab.pass_time()
    lab.submit(cpus_per_task=4, partition="high")
    lab.pass_time()
    assert [job.state for job in jobs].count(State.PREEMPTED) == 1


def test_equal_tier_does_not_preempt(lab: Lab) -> None:
    jobs = [lab.submit(cpus_per_task=16, partition="high") for _ in range(3)]
    lab.pass_time()
    assert [job.state for job in jobs] == [State.RUNNING, State.RUNNING, State.PENDING]


def test_partition_with_preempt_mode_off_keeps_its_jobs() -> None:
    lab = Lab(preempting(preempt_mode="OFF"))
    job = lab.submit(cpus_per_task=16)
    lab.pass_time()
    lab.submit(cpus_per_task=16, partition="high")
    lab.pass_time()
    assert job.state is State.RUNNING


def test_grace_time_shows_the_coming_end_on_a_running_job() -> None:
    lab = Lab(preempting(grace_time=5))
    victim = lab.submit(cpus_per_task=16)
    lab.pass_time()
    winner = lab.submit(cpus_per_task=16, partition="high")
    lab.pass_time()
    assert (victim.state, victim.preempt_time) == (State.RUNNING, lab.clock.now)
    assert victim.end_time == lab.clock.now + 5
    lab.pass_time(6)
    assert (victim.state, winner.state) == (State.PREEMPTED, State.RUNNING)


def test_preempted_batch_job_keeps_the_place_until_its_script_is_gone() -> None:
    plain = config(nodes=1)
    nodes = tuple(replace(node, external=False) for node in plain.nodes)
    lab = Lab(replace(plain, nodes=nodes))
    victim = lab.submit(cpus_per_task=16, script=STUBBORN)
    lab.pass_time()
    winner = lab.submit(cpus_per_task=16, partition="high")
    lab.pass_time()
    assert (victim.state, victim.completing, winner.state) == (
        State.PREEMPTED,
        True,
        State.PENDING,
    )
    lab.pass_time(30)
    assert winner.state is State.RUNNING


def test_requeue_mode_requeues_batch_jobs_and_kills_external_ones() -> None:
    plain = preempting(preempt_mode="REQUEUE")
    nodes = tuple(replace(node, external=False) for node in plain.nodes)
    lab = Lab(replace(plain, nodes=nodes))
    external, batch = lab.submit(cpus_per_task=8), lab.submit(cpus_per_task=8, script=SLEEP)
    lab.pass_time()
    lab.submit(cpus_per_task=16, partition="high")
    lab.pass_time()
    assert external.state is State.PREEMPTED
    assert (batch.state, batch.reason, batch.restart_count, batch.shares) == (
        State.PENDING,
        "BeginTime",
        1,
        (),
    )


def test_node_set_down_fails_its_jobs(lab: Lab) -> None:
    job = lab.submit()
    lab.pass_time()
    lab.model.update_node("n1", {"state": ["DOWN"], "reason": "dead"}, user="root")
    assert (job.state, job.reason, job.failed_node) == (State.NODE_FAIL, "NodeDown", "n1")
    assert (job.exit.status, job.exit.signal) == ("SIGNALED", 1)
    assert lab.model.cluster.nodes["n1"].states == ["DOWN", "EXTERNAL"]


def test_requeued_batch_job_waits_under_its_id_and_counts_it(old_lab: Lab) -> None:
    job = old_lab.submit(script=SLEEP)
    old_lab.pass_time()
    old_lab.model.requeue(job.id)
    assert (job.state, job.restart_count, job.reason) == (State.PENDING, 1, "BeginTime")


def test_external_job_cannot_be_requeued(lab: Lab) -> None:
    job = lab.submit()
    lab.pass_time()
    with pytest.raises(SlurmError) as refused:
        lab.model.requeue(job.id)
    assert refused.value.number == 2039
    assert job.state is State.RUNNING


def test_node_that_is_to_reboot_drains_and_keeps_its_jobs(lab: Lab) -> None:
    job = lab.submit()
    lab.pass_time()
    lab.model.reboot("n1")
    lab.pass_time(60)
    assert job.state is State.RUNNING
    node = lab.model.cluster.nodes["n1"]
    assert {"DRAIN", "REBOOT_REQUESTED"} <= set(node.states)


def test_job_that_can_no_longer_end_before_its_deadline_ends(lab: Lab) -> None:
    late = int(lab.clock.now) + 120
    job = lab.submit(deadline=late, time_limit=1, hold=True)
    unlimited = lab.submit(deadline=late, hold=True)
    lab.pass_time(59)
    assert job.state is State.PENDING
    lab.pass_time(62)
    assert unlimited.state is State.PENDING
    assert (job.state, job.reason) == (State.DEADLINE, "DeadLine")


def test_script_out_of_memory_gives_its_node_back(old_lab: Lab) -> None:
    job = old_lab.submit(script=SLEEP)
    old_lab.pass_time()
    old_lab.model.run_out_of_memory(job.id)
    assert job.state is State.OUT_OF_MEMORY
    assert old_lab.model.cluster.nodes["n1"].cpus_used == 0


def test_node_set_down_requeues_batch_jobs_that_allow_it(old_lab: Lab) -> None:
    again = old_lab.submit(script=SLEEP)
    gone = old_lab.submit(script=SLEEP, requeue=False)
    old_lab.pass_time()
    old_lab.model.update_node("n1", {"state": ["DOWN"], "reason": "dead"}, user="root")
    assert (again.state, gone.state) == (State.PENDING, State.NODE_FAIL)
    old_lab.pass_time(122)
    assert (again.state, again.shares[0].node) == (State.RUNNING, "n2")


def test_draining_node_keeps_its_jobs_and_takes_no_new_ones(lab: Lab) -> None:
    job = lab.submit()
    lab.pass_time()
    lab.model.update_node("n1", {"state": ["DRAIN"], "reason": "service"}, user="root")
    pinned = lab.submit(required_nodes=("n1",))
    lab.pass_time()
    assert job.state is State.RUNNING
    assert lab.model.cluster.nodes["n1"].states == ["MIXED", "EXTERNAL", "DRAIN"]
    assert (pinned.reason, pinned.reason_text) == (
        "ReqNodeNotAvail",
        "ReqNodeNotAvail, UnavailableNodes:n1",
    )
    lab.model.update_node("n1", {"state": ["RESUME"]}, user="root")
    lab.pass_time()
    assert pinned.state is State.RUNNING
    assert lab.model.cluster.nodes["n1"].reason == ""


def test_graceful_restart_loses_nothing(lab: Lab) -> None:
    running, waiting = lab.submit(cpus_per_task=16), lab.submit(hold=True)
    lab.pass_time()
    lab.model.stop_controller()
    lab.model.start_controller()
    assert lab.again(running).state is State.RUNNING
    assert lab.again(waiting).reason == "JobHeldUser"
    assert lab.model.cluster.nodes["n1"].cpus_used == 16


def test_crash_loses_the_last_seconds_and_gives_ids_again(lab: Lab) -> None:
    saved = lab.submit()
    lab.pass_time(10)
    lost = lab.submit()
    lab.model.crash()
    lab.model.start_controller()
    assert saved.id in lab.model.cluster.jobs
    assert lab.submit(name="another").id == lost.id


def test_crash_brings_back_a_job_that_had_started_as_pending(lab: Lab) -> None:
    lab.pass_time(10)
    job = lab.submit()
    lab.model.cluster.save()
    lab.pass_time(1)
    assert job.state is State.RUNNING
    lab.model.crash()
    lab.model.start_controller()
    assert lab.again(job).state is State.PENDING


def test_restart_keeps_what_operators_set(lab: Lab) -> None:
    lab.model.update_node("n1", {"state": ["DRAIN"], "reason": "service"}, user="root")
    lab.model.stop_controller()
    lab.model.start_controller()
    assert lab.model.cluster.nodes["n1"].drain
    assert lab.model.cluster.nodes["n1"].reason == "service"


def test_update_changes_a_pending_request_and_refuses_it_for_a_running_job(lab: Lab) -> None:
    job = lab.submit(hold=True)
    lab.model.update(job.id, {"cpus_per_task": 8, "minimum_cpus": 8}, user="root")
    lab.model.update(job.id, {"hold": False, "comment": "seen"}, user="root")
    lab.pass_time()
    assert (job.shares[0].cpus, job.comment) == (8, "seen")
    with pytest.raises(SlurmError, match="2073"):
        lab.model.update(job.id, {"minimum_cpus": 4}, user="root")


@pytest.mark.parametrize(
    ("fields", "user", "number"),
    [
        ({"priority": 5}, "root", 2042),
        ({"comment": "x"}, "alice", 2010),
    ],
)
def test_updates_are_refused_by_the_measured_numbers(
    lab: Lab, fields: dict[str, object], user: str, number: int
) -> None:
    job = lab.submit(hold=True)
    with pytest.raises(SlurmError, match=str(number)):
        lab.model.update(job.id, fields, user=user)


def test_ended_job_cannot_be_updated(lab: Lab) -> None:
    job = lab.submit()
    lab.model.cancel(job.id, user="root")
    with pytest.raises(SlurmError, match="2084"):
        lab.model.update(job.id, {"comment": "late"}, user="root")
