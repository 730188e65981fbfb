"""Who starts, where, and why the others wait."""

from __future__ import annotations

import pytest

from scheduler.sandbox.slurm import AccountConfig, Release, ReservationConfig
from scheduler.sandbox.slurm.records import State
from tests.unit.sandbox_slurm.harness import SLEEP, Lab, config


def test_job_starts_on_the_first_node_with_room(lab: Lab) -> None:
    first = lab.submit(cpus_per_task=10)
    second = lab.submit(cpus_per_task=10)
    lab.pass_time()
    assert [share.node for share in (*first.shares, *second.shares)] == ["n1", "n2"]
    assert first.state is State.RUNNING
    assert first.start_time == lab.clock.now


def test_resources_of_a_node_are_never_given_twice(lab: Lab) -> None:
    jobs = [lab.submit(tres_per_node="gres/gpu:2") for _ in range(6)]
    lab.pass_time()
    running = [job for job in jobs if job.state is State.RUNNING]
    devices = [
        (share.node, bits) for job in running for share in job.shares for _, bits in share.devices
    ]
    assert len(running) == 4
    assert sorted(devices) == [("n1", 0b0011), ("n1", 0b1100), ("n2", 0b0011), ("n2", 0b1100)]


def test_ended_job_gives_everything_back(lab: Lab) -> None:
    job = lab.submit(cpus_per_task=16, tres_per_node="gres/gpu:h100:4", memory_per_node=64_000)
    lab.pass_time()
    lab.model.cancel(job.id, user="root")
    node = lab.model.cluster.nodes["n1"]
    assert (node.cores_used, node.memory_used, node.gres_used, node.jobs) == (0, 0, [0], set())


def test_memory_zero_takes_the_whole_node(lab: Lab) -> None:
    job = lab.submit(memory_per_node=0)
    lab.pass_time()
    assert job.shares[0].memory_mib == 64_000


def test_exclusive_job_takes_all_cpus_and_devices(lab: Lab) -> None:
    job = lab.submit(shared=["none"])
    lab.pass_time()
    assert job.shares[0].cpus == 16
    assert job.shares[0].devices == ((0, 0b1111),)


def test_cpus_without_a_node_count_spread_over_nodes(lab: Lab) -> None:
    job = lab.submit(nodes="", minimum_cpus=20)
    lab.pass_time()
    assert [(share.node, share.cpus) for share in job.shares] == [("n1", 16), ("n2", 4)]


def test_job_of_two_nodes_waits_until_both_have_room(lab: Lab) -> None:
    lab.submit(cpus_per_task=16)
    lab.pass_time()
    gang = lab.submit(nodes="2", tasks=2, cpus_per_task=8)
    lab.pass_time()
    assert (gang.state, gang.reason) == (State.PENDING, "Resources")


def test_nodes_of_a_job_are_in_the_order_of_their_names() -> None:
    lab = Lab(config(nodes=10))
    job = lab.submit(nodes="3", tasks=3, required_nodes=("n10", "n2", "n1"))
    lab.pass_time()
    assert [share.node for share in job.shares] == ["n1", "n2", "n10"]


def test_later_job_that_fits_overtakes_one_that_does_not(lab: Lab) -> None:
    lab.submit(cpus_per_task=12)
    lab.submit(cpus_per_task=12)
    waiting = [lab.submit(cpus_per_task=8) for _ in range(2)]
    small = lab.submit()
    lab.pass_time()
    assert [job.reason for job in waiting] == ["Resources", "Priority"]
    assert small.state is State.RUNNING


def test_higher_priority_goes_first(lab: Lab) -> None:
    lab.submit(cpus_per_task=16)
    lab.pass_time()
    low, high = lab.submit(cpus_per_task=16, priority=5), lab.submit(cpus_per_task=16, priority=9)
    lab.pass_time()
    assert (low.state, high.state) == (State.PENDING, State.RUNNING)


def test_nodes_features_and_exclusions_are_obeyed(lab: Lab) -> None:
    required = lab.submit(required_nodes=("n2",))
    excluded = lab.submit(excluded_nodes=("n1",))
    featured = lab.submit(constraints="slow")
    lab.pass_time()
    assert {job.shares[0].node for job in (required, excluded, featured)} == {"n2"}


def test_singleton_waits_for_its_namesake_of_the_same_user(lab: Lab) -> None:
    first = lab.submit(dependency="singleton", name="pod")
    twin = lab.submit(dependency="singleton", name="pod")
    stranger = lab.submit(dependency="singleton", name="pod", user_id="2001")
    lab.pass_time()
    assert (first.state, stranger.state) == (State.RUNNING, State.RUNNING)
    assert (twin.state, twin.reason) == (State.PENDING, "Dependency")
    lab.model.cancel(first.id, user="root")
    lab.pass_time()
    assert twin.state is State.RUNNING
    assert twin.dependency == ""


def test_after_dependencies_follow_the_other_job(lab: Lab) -> None:
    other = lab.submit()
    after = lab.submit(dependency=f"afterany:{other.id}")
    never = lab.submit(dependency=f"afterok:{other.id}")
    lab.pass_time()
    assert after.reason == "Dependency"
    lab.model.cancel(other.id, user="root")
    lab.pass_time()
    assert after.state is State.RUNNING
    assert never.reason == "DependencyNeverSatisfied"


def test_held_job_waits_for_its_release(lab: Lab) -> None:
    job = lab.submit(hold=True)
    lab.pass_time()
    assert (job.state, job.reason, job.priority) == (State.PENDING, "JobHeldUser", 0)
    lab.model.update(job.id, {"hold": False}, user="root")
    lab.pass_time()
    assert job.state is State.RUNNING


def test_begin_time_is_waited_for(lab: Lab) -> None:
    job = lab.submit(begin_time=int(lab.clock.now + 60))
    lab.pass_time()
    assert job.reason == "BeginTime"
    lab.pass_time(60)
    assert job.state is State.RUNNING


def test_time_limit_ends_an_external_job_at_once(lab: Lab) -> None:
    job = lab.submit(time_limit=1)
    lab.pass_time()
    lab.pass_time(61)
    assert (job.state, job.reason, job.completing) == (State.TIMEOUT, "TimeLimit", False)


def test_partition_gives_its_default_time_and_holds_back_longer_jobs(lab: Lab) -> None:
    default, long = lab.submit(partition="capped"), lab.submit(partition="capped", time_limit=61)
    lab.pass_time()
    assert (default.state, default.time_limit_minutes) == (State.RUNNING, 10)
    assert (long.state, long.reason) == (State.PENDING, "PartitionTimeLimit")


def test_more_than_a_partition_has_waits_on_26_05_and_fails_on_24_11(
    lab: Lab, old_lab: Lab
) -> None:
    job = lab.submit(minimum_cpus=100_000)
    lab.pass_time()
    assert (job.state, job.reason) == (State.PENDING, "PartitionConfig")
    assert old_lab.refusal(minimum_cpus=100_000, script=SLEEP) == 2014


def test_impossible_job_is_refused_and_leaves_a_failed_record(lab: Lab) -> None:
    assert lab.refusal(tres_per_node="gres/gpu:5") == 2014
    record = lab.model.job(1)
    assert (record.state, record.reason, record.exit.status) == (
        State.FAILED,
        "BadConstraints",
        "SIGNALED",
    )


def test_held_impossible_job_is_found_out_at_its_release(lab: Lab) -> None:
    job = lab.submit(tres_per_node="gres/gpu:5", hold=True)
    lab.model.update(job.id, {"hold": False}, user="root")
    lab.pass_time()
    assert (job.state, job.reason) == (State.PENDING, "BadConstraints")


def test_reserved_nodes_are_for_jobs_that_name_the_reservation() -> None:
    lab = Lab(config(reservations=(ReservationConfig(name="mine", nodes=("n1",)),)))
    plain, reserved = lab.submit(), lab.submit(reservation="mine")
    lab.pass_time()
    assert (plain.shares[0].node, reserved.shares[0].node) == ("n2", "n1")


def test_licenses_are_counted() -> None:
    lab = Lab(config(licenses={"matlab": 1}))
    first, second = lab.submit(licenses="matlab:1"), lab.submit(licenses="matlab")
    lab.pass_time()
    assert first.state is State.RUNNING
    assert second.reason == "Licenses"


def test_finished_jobs_are_purged_after_min_job_age(lab: Lab) -> None:
    job = lab.submit()
    lab.pass_time()
    lab.model.cancel(job.id, user="root")
    lab.pass_time(299)
    assert job.id in lab.model.cluster.jobs
    lab.pass_time(2)
    assert job.id not in lab.model.cluster.jobs


def test_min_job_age_of_zero_keeps_finished_jobs_for_ever() -> None:
    lab = Lab(config(min_job_age=0))
    job = lab.submit()
    lab.pass_time()
    lab.model.cancel(job.id, user="root")
    lab.pass_time(3600)
    assert job.id in lab.model.cluster.jobs


def test_max_job_count_refuses_further_jobs() -> None:
    lab = Lab(config(max_job_count=2))
    assert [lab.refusal() for _ in range(3)] == [0, 0, 2007]


def test_suspended_job_keeps_what_it_holds(lab: Lab) -> None:
    job = lab.submit(cpus_per_task=16)
    lab.pass_time()
    lab.model.suspend(job.id)
    lab.pass_time()
    assert (job.state, lab.model.cluster.nodes["n1"].cpus_used) == (State.SUSPENDED, 16)
    lab.model.resume(job.id)
    assert job.state is State.RUNNING


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"partition": "nope"}, 2000),
        ({"constraints": "nope"}, 2029),
        ({"prefer": "nope"}, 2133),
        ({"tres_per_node": "gres/fpga:1"}, 2072),
        ({"tres_per_node": "gpu:1"}, 2115),
        ({"tres_per_node": "gpu;;1"}, 0),
        ({"required_nodes": ("nope",)}, 2018),
        ({"reservation": "nope"}, 2053),
        ({"licenses": "nope:1"}, 2048),
        ({"dependency": "zzz"}, 2038),
        ({"dependency": "afterok:99"}, 2038),
        ({"name": "n" * 1025}, 2012),
        ({"admin_comment": "n" * 5000}, 0),
        ({"admin_comment": "n", "user": "alice"}, 2002),
        ({"user_id": "nobodyx"}, 2166),
        ({"user_id": "55555"}, 0),
        ({"user_id": "0", "user": "alice"}, 2010),
        ({"user": "stranger"}, 6010),
        ({"script": SLEEP, "flags": ["EXTERNAL_JOB"]}, 2189),
        ({"script": SLEEP, "environment": []}, 2127),
        ({"script": SLEEP, "current_working_directory": ""}, 2063),
        ({"array": "0-3"}, 2081),
        ({"nodes": "2", "tasks": 1}, 2025),
        ({"qos": "q", "account": "a"}, 0),
        ({"deadline": 5}, 2051),
    ],
)
def test_submits_are_refused_by_the_measured_numbers(
    lab: Lab, fields: dict[str, object], number: int
) -> None:
    assert lab.refusal(**fields) == number


def test_accounting_refuses_unknown_names_where_it_is_kept() -> None:
    team = AccountConfig(name="team", users=frozenset({"root"}))
    lab = Lab(config(accounts=(team,)))
    assert lab.refusal(account="team", qos="normal") == 0
    assert lab.refusal(qos="zzz") == 2066
    assert lab.refusal(account="zzz") == 2045


def test_batch_job_of_an_unknown_uid_is_held_on_24_11() -> None:
    lab = Lab(config(Release.V24_11))
    job = lab.submit(script=SLEEP, user_id="55555")
    lab.pass_time()
    assert (job.state, job.reason) == (State.PENDING, "JobHeldAdmin")
