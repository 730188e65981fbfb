"""A JobSet whose later Jobs are created when the first one is ready: its later pods find slots of
the size that their template says. The story plays the JobSet's controller.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.stories.test_gangs import one_job
from tests.support import pods
from tests.support.kube import Object
from tests.support.world import World

_PREFIX: Final = "jobset.sigs.k8s.io/"
pytestmark = [pytest.mark.flags("--gang-linger=2s"), pytest.mark.live_on("neither", models="both")]


async def _create_job(world: World, job: Object, *, part: str, number: int, uid: str) -> None:
    """Create the part's only Job, as the controller does."""
    job["metadata"]["name"] = f"train-{part}-0"
    job["spec"]["template"]["metadata"]["labels"] |= {
        f"{_PREFIX}jobset-name": "train",
        f"{_PREFIX}jobset-uid": uid,
        f"{_PREFIX}replicatedjob-name": part,
        f"{_PREFIX}job-index": "0",
        f"{_PREFIX}job-global-index": str(number),
    }
    await world.kube.create("jobs", job, namespace=world.namespace)


async def _pod_of(world: World, part: str) -> Object:
    """The part's pod, once it runs."""

    async def look() -> Object | None:
        found = await world.kube.items("pods", namespace=world.namespace)
        label = f"{_PREFIX}replicatedjob-name"
        mine = [it for it in found if it["metadata"]["labels"].get(label) == part]
        return next((it for it in mine if pods.phase(it) == "Running"), None)

    return await world.until(f"the pod of {part} runs", look)


async def test_later_job_of_another_size_finds_a_slot_of_its_size(world: World) -> None:
    driver, worker = (
        pods.batch_job(1, cpus=cpus, container=world.cluster.container) for cpus in ("1", "2")
    )
    parts = [
        {"name": "driver", "replicas": 1, "template": {"spec": driver["spec"]}},
        {"name": "worker", "replicas": 1, "template": {"spec": worker["spec"]}},
    ]
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train"},
        "spec": {"replicatedJobs": parts, "startupPolicy": {"startupPolicyOrder": "InOrder"}},
    }
    made = await world.kube.create("jobsets", body, namespace=world.namespace)
    uid = made["metadata"]["uid"]
    await _create_job(world, driver, part="driver", number=0, uid=uid)
    first = await _pod_of(world, "driver")
    job = await world.placeholder(first)
    assert [it["slots"] for it in job.tag["parts"]] == [1, 1]
    await _create_job(world, worker, part="worker", number=1, uid=uid)
    second = await _pod_of(world, "worker")
    assert (await one_job(world, {0: first, 1: second})).job_id == job.job_id
    assert pods.node_of(first) != pods.node_of(second)
    for part in ("driver", "worker"):
        await world.kube.delete("jobs", f"train-{part}-0", namespace=world.namespace)
    await world.kube.delete("jobsets", "train", namespace=world.namespace)
    await world.job_ended(job.job_id, state="CANCELLED")
    await world.nothing_left()
