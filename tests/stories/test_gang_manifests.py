"""Groups of pods as other projects' controllers and examples make them: one Slurm job stands for
each, its ranks are in the order that docs/gangs.md states, and nothing is left of it.

The files of `gang_manifests/` say from which source each comes. Those of slurm-bridge go through
the command `migrate` first, and the reader's part is done as docs/migration-from-slurm-bridge.md
says; those of SUNK are applied unchanged.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from scheduler.__main__ import main
from tests.stories.clusters import told_on
from tests.support import pod_group, pods
from tests.support.kube import Object
from tests.support.played_controllers import Applied, documents
from tests.support.slurm import Record
from tests.support.world import World

cluster = told_on("sandbox-26.05", "sandbox-24.11-wide", "live-26.05")

_FILES: Final = Path(__file__).parent / "gang_manifests"
_OWN: Final = "slurm-pod-scheduler/"
_OF_SUNK: Final = pytest.mark.flags(
    "--scheduler-name=tenant-slurm-slurm-scheduler", "--gpu-types=H100_NVLINK_80GB=h100"
)
Migrated = Callable[..., list[Object]]
pytestmark = [pytest.mark.flags("--gang-linger=1s"), pytest.mark.live_on("26.05", models="both")]


@pytest.fixture
async def applied(world: World) -> Applied:
    """What the story applies."""
    await pod_group.define(world)
    return Applied(world)


async def _pods_by_rank(world: World, names: Sequence[str]) -> list[Object]:
    """The pods of the gang whose pods have names that begin like these, once all run, by rank."""

    async def look() -> list[Object] | None:
        found = await world.kube.items("pods", namespace=world.namespace)
        mine = [it for it in found if it["metadata"]["name"].startswith(tuple(names))]
        run = [it for it in mine if pods.phase(it) == "Running"]
        return run if len(run) == len(names) else None

    run = await world.until(f"pods like {names} run", look)
    return sorted(run, key=lambda it: int(pods.annotation(it, f"{_OWN}gang-rank") or -1))


async def _gang(world: World, names: Sequence[str], *, group: str) -> Record:
    """The one job of a gang that runs. Its pods have names that begin like these, in the order of
    their ranks, and a node each.
    """
    ranked = await _pods_by_rank(world, names)
    found = [it["metadata"]["name"] for it in ranked]
    assert all(map(str.startswith, found, names)), found
    assert len({pods.node_of(it) for it in ranked}) == len(names)
    assert len({pods.annotation(it, pods.JOB_ID) for it in ranked}) == 1
    job = await world.placeholder(ranked[0])
    assert job.tag["group"] == group
    assert sorted(job.tag["ranks"]) == list(range(len(names)))
    for rank, pod in enumerate(ranked):
        assert pods.annotation(pod, f"{_OWN}gang-rank") == str(rank)
        assert pods.annotation(pod, f"{_OWN}gang-size") == str(len(names))
        assert pods.annotation(pod, f"{_OWN}gang-first-node") == pods.node_of(ranked[0])
    return job


async def _is_one_job(
    applied: Applied, found: Sequence[Object], names: Sequence[str], *, group: str
) -> Record:
    """These objects become one gang, and nothing is left of it when they are deleted."""
    await applied.apply(found)
    job = await _gang(applied.world, names, group=group)
    live = await applied.world.slurm.live_placeholders(applied.world.namespace)
    assert {it.tag["group"] for it in live} == {group}
    await _ends(applied, job)
    return job


async def _ends(applied: Applied, *jobs: Record) -> None:
    """All that was applied is deleted, and nothing is left."""
    await applied.delete()
    for job in jobs:
        await applied.world.job_ended(job.job_id, state="CANCELLED")
    await applied.world.nothing_left()


@pytest.mark.parametrize(
    ("file", "group", "names"),
    [
        pytest.param(
            "mpi_operator",
            "podgroup/pi",
            ["pi-worker-0", "pi-worker-1", "pi-launcher-"],
            id="mpi-operator",
        ),
        pytest.param(
            "mpi_operator_launcher_as_worker",
            "podgroup/ring",
            ["ring-launcher-", "ring-worker-0", "ring-worker-1"],
            id="mpi-operator-launcher-as-worker",
        ),
        pytest.param(
            "kuberay",
            "podgroup/ray",
            ["ray-head", "ray-worker-worker-", "ray-worker-worker-"],
            id="kuberay",
            marks=pytest.mark.flags("--scheduler-name=scheduler-plugins-scheduler"),
        ),
    ],
)
async def test_pods_that_a_controller_makes_with_a_pod_group_get_one_job(
    applied: Applied, file: str, group: str, names: list[str]
) -> None:
    await _is_one_job(applied, documents(_FILES / f"{file}.yaml"), names, group=group)


@pytest.mark.live_on("neither", models="both")
async def test_launcher_that_comes_when_the_workers_run_gets_a_job_of_its_own(
    applied: Applied,
) -> None:
    """As with launcherCreationPolicy: WaitForWorkersReady, and minAvailable without it."""
    world = applied.world
    group, first, second, launcher = documents(_FILES / "mpi_operator.yaml")
    group["spec"]["minMember"] = 2
    await applied.apply([group, first, second])
    gang = await _gang(world, ["pi-worker-0", "pi-worker-1"], group="podgroup/pi")
    await applied.apply([launcher])
    (pod,) = await _pods_by_rank(world, ["pi-launcher-"])
    single = await world.placeholder(pod)
    assert single.tag["uids"] == [pod["metadata"]["uid"]]
    await _ends(applied, gang, single)


@pytest.mark.live_on("neither", models="both")
async def test_pods_of_a_train_job_get_one_job(applied: Applied) -> None:
    found = documents(_FILES / "trainer_torch.yaml")
    await _is_one_job(applied, found, ["llm-node-0-0-", "llm-node-0-1-"], group="jobset/llm")


@pytest.mark.live_on("neither", models="both")
@_OF_SUNK
async def test_batch_job_written_for_sunk_gets_one_job(applied: Applied) -> None:
    found = documents(_FILES / "sunk_job.yaml")
    job = await _is_one_job(applied, found, ["train-0-", "train-1-"], group="job/train")
    assert job.raw["account"] == "root"
    assert job.raw["tres_per_node"] == "gres/gpu:8"


@pytest.mark.live_on("neither", models="both")
async def test_pods_that_wait_for_initializers_are_a_gang_without_them(applied: Applied) -> None:
    """Trainer counts the initializers in the PodGroup's minMember, though they never run beside the
    others.
    """
    world = applied.world
    await applied.apply(documents(_FILES / "trainer_torchtune.yaml"))

    async def complete() -> bool:
        found = await world.kube.items("jobs", namespace=world.namespace)
        return all(it.get("status", {}).get("succeeded") == 1 for it in found)

    await world.until("both initializers are complete", complete)
    await applied.create_jobs(applied.object("jobsets"), "node")
    names = ["tune-node-0-0-", "tune-node-0-1-"]
    job = await _gang(world, names, group="job/tune-node-0")
    await _ends(applied, job)


@pytest.mark.live_on("neither", models="both")
@pytest.mark.flags("--gangs=pod-group,scheduler-plugins,lws")
async def test_initializers_wait_for_all_pods_where_job_sets_form_no_gangs(
    applied: Applied,
) -> None:
    await applied.apply(documents(_FILES / "trainer_torchtune.yaml"))
    found = await applied.world.until(
        "both initializers exist",
        lambda: applied.world.kube.items("pods", namespace=applied.world.namespace),
    )
    name = found[0]["metadata"]["name"]
    await applied.world.message_with("Gang tune (2 of 4 pods exist)", name=name)
    await _ends(applied)


@pytest.mark.live_on("neither", models="both")
@_OF_SUNK
async def test_each_group_of_a_set_written_for_sunk_gets_a_job(applied: Applied) -> None:
    await applied.apply(documents(_FILES / "sunk_lws.yaml"))
    first, second = await _two_groups(applied, "serve", size=2)
    await _ends(applied, first, second)


async def _two_groups(applied: Applied, name: str, *, size: int) -> list[Record]:
    groups = [
        [f"{name}-{group}"] + [f"{name}-{group}-{index}" for index in range(1, size)]
        for group in range(2)
    ]
    jobs = [await _gang_of_lws(applied.world, names) for names in groups]
    assert jobs[0].job_id != jobs[1].job_id
    return jobs


async def _gang_of_lws(world: World, names: list[str]) -> Record:
    job = await _gang(world, names, group=f"lws/{names[0]}")
    assert job.number("node_count") == len(names)
    return job


# --- slurm-bridge ---------------------------------------------------------------------------------


@pytest.fixture
def migrated(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Migrated:
    """Changes a file by `migrate --write`; what it leaves to the reader must contain the words."""

    def change(file: str, *words: str) -> list[Object]:
        path = tmp_path / "manifest.yaml"
        shutil.copy(_FILES / f"{file}.yaml", path)
        assert main(["migrate", "--write", str(path)]) == 1
        told = capfd.readouterr().err
        assert f"files: 1; changed: 1; to decide: {len(words)}" in told
        assert [it for it in words if it not in told] == [], told
        return documents(path)

    return change


async def test_pod_group_written_for_slurm_bridge_gets_one_job(
    applied: Applied, migrated: Migrated
) -> None:
    found = migrated("bridge_podgroup", "job-name is 'podgroup-sleep'")
    names = ["sleep1", "sleep2"]
    job = await _is_one_job(applied, found, names, group="podgroup/podgroup-sleep")
    assert job.number("node_count") == 2
    whole_nodes = 2 * applied.world.cluster.cpus_per_node
    assert f"cpu={whole_nodes}," in job.raw["tres_alloc_str"]


@pytest.mark.live_on("neither", models="both")
async def test_workload_written_for_slurm_bridge_gets_one_job(
    applied: Applied, migrated: Migrated
) -> None:
    found = migrated(
        "bridge_workload",
        "job-name is 'training-job'",
        "timelimit] is '5'; expected it in the pod templates",
        "spec.parallelism is '2'",
    )
    # No API here has Workloads: slurm-bridge reads their annotations, and nothing else does.
    _, group, job = found
    own = job["spec"]["template"]["metadata"]["annotations"]
    own["sunk.coreweave.com/timeout"] = "300"
    names = ["training-job-", "training-job-"]
    placeholder = await _is_one_job(
        applied, [group, job], names, group="podgroup/training-job-workers"
    )
    assert placeholder.number("time_limit") == 5


@pytest.mark.live_on("neither", models="both")
async def test_each_group_of_a_set_written_for_slurm_bridge_gets_a_job(
    applied: Applied, migrated: Migrated
) -> None:
    missing = [
        f"[{container}].resources.requests.{resource} is not set"
        for container in ("leader", "worker")
        for resource in ("cpu", "memory")
    ]
    (found,) = migrated("bridge_lws", *missing)
    template = found["spec"]["leaderWorkerTemplate"]
    for part in ("leaderTemplate", "workerTemplate"):
        (container,) = template[part]["spec"]["containers"]
        container["resources"] = {"requests": {"cpu": "1", "memory": "100Mi"}}
    await applied.apply([found])
    await _ends(applied, *await _two_groups(applied, "vllm", size=3))


@pytest.mark.live_on("neither", models="both")
async def test_job_set_written_for_slurm_bridge_gets_one_job(
    applied: Applied, migrated: Migrated
) -> None:
    found = migrated("bridge_jobset", "spec.replicatedJobs is '5 pods'")
    names = [
        "jobset-coordinator-leader-0-0-",
        *(f"jobset-coordinator-workers-{job}-{pod}-" for job in range(2) for pod in range(2)),
    ]
    await _is_one_job(applied, found, names, group="jobset/jobset-coordinator")


@pytest.mark.live_on("neither", models="both")
async def test_work_queue_written_for_slurm_bridge_gets_a_job_for_each_pod(
    applied: Applied, migrated: Migrated
) -> None:
    world = applied.world
    await applied.apply(migrated("bridge_job", "job-name is 'job-sleep-large'"))

    async def complete() -> bool:
        job = await world.kube.get("jobs", "job-sleep-large", namespace=world.namespace)
        return bool(job.get("status", {}).get("succeeded") == 3)

    await world.until("three pods have succeeded", complete)
    found = await world.kube.items("pods", namespace=world.namespace)
    assert len({pods.annotation(it, pods.JOB_ID) for it in found}) == 3
    await world.nothing_left()
