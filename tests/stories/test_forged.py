"""Story: claims of a pod's author or of an ordinary Slurm user are checked against Slurm first."""

from __future__ import annotations

import msgspec
import pytest

from tests.support import pods
from tests.support.kube import Object
from tests.support.slurm import Record
from tests.support.world import World

# An id that no job gets: none of these clusters makes as many jobs.
_NO_JOB = 900_000


async def _is_alive(world: World, job_id: int) -> None:
    record = await world.slurm.job(job_id)
    assert record is not None
    assert record.live, record


async def _is_on(world: World, job: Record, node: str | None) -> bool:
    record = await world.slurm.job(job.job_id)
    return record is not None and record.nodes == node


async def _runs_by_itself(world: World, name: str, *others: int) -> Record:
    """The pod's own job, once the pod runs. It must be none of `others`, which it claimed."""
    pod = await world.running(name)
    uid = pod["metadata"]["uid"]

    async def own() -> Record | None:
        live = await world.slurm.live_placeholders(world.namespace)
        return next((it for it in live if it.tag["uids"] == [uid]), None)

    record = await world.until(f"{name} has a job of its own", own)
    assert record.job_id not in others
    return record


async def test_pod_that_names_a_native_job_neither_runs_on_it_nor_ends_it(world: World) -> None:
    native = await world.native_job("native", partition=world.cluster.partition)
    await world.create("claims", annotations={pods.JOB_ID: str(native)})
    job = await _runs_by_itself(world, "claims", native)
    await world.delete("claims")
    await world.gone("claims")
    await world.job_ended(job.job_id)
    await _is_alive(world, native)


async def test_end_of_a_native_job_ends_no_pod_that_names_it(world: World) -> None:
    native = await world.native_job("native", partition=world.cluster.partition)
    before = await world.create("claims", annotations={pods.JOB_ID: str(native)})
    job = await _runs_by_itself(world, "claims", native)
    await world.end_native(native)
    await world.job_ended(native)
    await world.create("later")
    await world.running("later")
    world.unharmed(before)
    await _is_alive(world, job.job_id)


@pytest.mark.live_on("26.05")
async def test_pod_that_names_another_pods_job_harms_neither(world: World) -> None:
    await world.create("victim")
    victim = await world.running("victim")
    held = await world.placeholder(victim)
    await world.create("claims", annotations={pods.JOB_ID: str(held.job_id)})
    await _runs_by_itself(world, "claims", held.job_id)
    await world.delete("claims")
    await world.gone("claims")
    await _is_alive(world, held.job_id)
    world.unharmed(victim)


@pytest.mark.live_on("26.05")
async def test_manifest_copied_from_a_pod_that_runs_is_a_pod_of_its_own(world: World) -> None:
    """The copy has the node and all annotations, as in `kubectl get pod -o yaml`."""
    await world.create("victim")
    victim = await world.running("victim")
    node = pods.node_of(victim)
    held = await world.placeholder(victim)
    await world.kube.create("pods", _copy_of(victim, "copy"), namespace=world.namespace)
    own = await _runs_by_itself(world, "copy", held.job_id)
    await world.until("Slurm has its job where it runs", lambda: _is_on(world, own, node))
    await world.delete("copy")
    await world.gone("copy")
    await world.job_ended(own.job_id)
    await _is_alive(world, held.job_id)
    world.unharmed(victim)


@pytest.mark.live_on("26.05")
async def test_pod_that_says_where_it_belongs_goes_where_slurm_says(world: World) -> None:
    nowhere = {pods.NODES: "no-such-node", pods.JOB_ID: str(_NO_JOB)}
    await world.create("claims", annotations=nowhere)
    job = await _runs_by_itself(world, "claims", _NO_JOB)
    pod = await world.kube.get("pods", "claims", namespace=world.namespace)
    assert pods.annotation(pod, pods.NODES) == pods.node_of(pod) == job.nodes
    assert pods.annotation(pod, pods.JOB_ID) == str(job.job_id)


async def test_pod_cannot_outstay_a_requeue_by_what_it_says_of_former_ones(world: World) -> None:
    if world.slurm.external:
        pytest.skip("only batch jobs can be requeued (measured)")
    forged = {"slurm-pod-scheduler/restarts": "4000000000"}
    await world.create("claims", annotations=forged)
    job = await world.placeholder(await world.running("claims"))
    await world.cluster.requeue(job.job_id)
    await world.gone("claims")
    await world.job_ended(job.job_id, state="CANCELLED")


async def test_slurm_user_cannot_pass_off_a_job_as_a_pods(world: World) -> None:
    """The owner tag is in admin_comment, which only operators may write."""
    filler = await world.fill()
    await world.create("victim")
    held = await world.placeholder(await world.waiting("victim"))
    tag = msgspec.json.encode(held.tag).decode()
    where = {"partition": world.cluster.partition}
    with pytest.raises(AssertionError, match="'error_number': 2002"):
        await world.native_job(held.name, user="alice", admin_comment=tag, **where)
    lookalike = await world.native_job(held.name, user="alice", comment=tag, **where)
    answer = await world.slurm.ask(
        "POST", f"job/{lookalike}", body={"admin_comment": tag}, user="alice"
    )
    assert [it["error_number"] for it in answer.body["errors"]] == [2002]
    record = await world.slurm.job(lookalike)
    assert record is not None
    assert record.tag == {}
    await world.end_native(filler)
    await world.running("victim")
    await _is_alive(world, lookalike)


def _copy_of(pod: Object, name: str) -> Object:
    spec = {key: it for key, it in pod["spec"].items() if key != "serviceAccount"}
    annotations = pod["metadata"]["annotations"]
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
