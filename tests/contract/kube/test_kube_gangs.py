"""What pods and objects of groups look like: what membership and shape of a gang are read from."""

from __future__ import annotations

from typing import Any

from scheduler.core.gang_shape import GangShape, NoGang
from scheduler.core.gang_sources import GroupRef, Source
from tests.contract.kube.client import MERGE, NOBODY, Body, KubeClient, Namespace, eventually
from tests.contract.kube.gangs import gang_of, read_shape

BATCH = "/apis/batch/v1"


async def _job(kube: KubeClient, namespace: Namespace, **spec: Any) -> str:
    """Make a batch Job; its path."""
    container = {"name": "main", "image": "example.invalid/none:1"}
    pod = {"schedulerName": NOBODY, "restartPolicy": "Never", "containers": [container]}
    body = {
        "metadata": {"name": "train"},
        "spec": {"template": {"spec": pod}, **spec},
    }
    path = namespace.path("jobs", api=BATCH)
    answer = await kube.post(path, body)
    assert answer.status == 201, answer.body
    return f"{path}/train"


async def _living(kube: KubeClient, namespace: Namespace, count: int) -> list[Body]:
    """The pods that have not ended, once there are so many."""

    async def look() -> list[Body] | None:
        items = (await kube.get(namespace.path("pods"))).body["items"]
        living = [
            it
            for it in items
            if "deletionTimestamp" not in it["metadata"]
            and it["status"].get("phase") not in {"Succeeded", "Failed"}
        ]
        return living if len(living) == count else None

    found: list[Body] = await eventually(look, f"{count} pods live")
    return found


async def test_pods_of_an_indexed_job_are_one_gang_in_order(
    kube: KubeClient, namespace: Namespace
) -> None:
    path = await _job(kube, namespace, parallelism=3, completions=3, completionMode="Indexed")
    uid = (await kube.get(path)).uid
    gangs = [gang_of(it) for it in await _living(kube, namespace, 3)]
    assert {it.rank for it in gangs} == {0, 1, 2}
    assert {it.key for it in gangs} == {gangs[0].key}
    ref = GroupRef("batch/v1", "jobs", gangs[0].namespace, "train", uid)
    assert (gangs[0].source, gangs[0].identity, gangs[0].object) == (Source.JOB, uid, ref)
    assert await read_shape(kube, gangs[0]) == GangShape(size=3, minimum=3)


async def test_pod_that_replaces_another_has_its_rank(
    kube: KubeClient, namespace: Namespace
) -> None:
    await _job(
        kube,
        namespace,
        parallelism=2,
        completions=2,
        completionMode="Indexed",
        backoffLimit=6,
    )
    first = {gang_of(it).rank: it for it in await _living(kube, namespace, 2)}
    await namespace.set_status(first[0]["metadata"]["name"], phase="Failed")
    await kube.delete(namespace.path("pods", first[1]["metadata"]["name"]))
    old = {it["metadata"]["uid"] for it in first.values()}

    async def replaced() -> list[Body] | None:
        pods = await _living(kube, namespace, 2)
        return pods if not old & {it["metadata"]["uid"] for it in pods} else None

    pods: list[Body] = await eventually(replaced, "both pods are replaced")
    assert {gang_of(it).rank for it in pods} == {0, 1}
    assert {gang_of(it).key for it in pods} == {gang_of(first[0]).key}


async def test_pods_of_a_job_without_indexes_have_no_rank_of_its_own(
    kube: KubeClient, namespace: Namespace
) -> None:
    await _job(kube, namespace, parallelism=2)
    gangs = [gang_of(it) for it in await _living(kube, namespace, 2)]
    assert [it.rank for it in gangs] == [None, None]
    assert await read_shape(kube, gangs[0]) == GangShape(size=2, minimum=2)


async def test_job_with_more_completions_than_pods_is_no_gang(
    kube: KubeClient, namespace: Namespace
) -> None:
    await _job(kube, namespace, parallelism=2, completions=3)
    (pod, _) = await _living(kube, namespace, 2)
    assert isinstance(await read_shape(kube, gang_of(pod)), NoGang)


async def test_job_with_fewer_completions_makes_only_so_many_pods(
    kube: KubeClient, namespace: Namespace
) -> None:
    await _job(kube, namespace, parallelism=4, completions=2)
    (pod, _) = await _living(kube, namespace, 2)
    assert await read_shape(kube, gang_of(pod)) == GangShape(size=2, minimum=2)


async def test_suspended_job_expects_no_pods(kube: KubeClient, namespace: Namespace) -> None:
    path = await _job(kube, namespace, parallelism=2, completions=2)
    (pod, _) = await _living(kube, namespace, 2)
    assert (await kube.patch(path, {"spec": {"suspend": True}}, MERGE)).status == 200
    await _living(kube, namespace, 0)
    assert await read_shape(kube, gang_of(pod)) == GangShape(size=2, minimum=2, over=True)


async def test_job_that_has_ended_expects_no_pods(kube: KubeClient, namespace: Namespace) -> None:
    await _job(kube, namespace, parallelism=2, completions=2)
    pods = await _living(kube, namespace, 2)
    for pod in pods:
        await namespace.set_status(pod["metadata"]["name"], phase="Succeeded")

    async def over() -> bool:
        return bool((await read_shape(kube, gang_of(pods[0]))).over)

    await eventually(over, "the Job is complete")
