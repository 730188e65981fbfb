"""PodGroups with more pods than start together: so many are a gang, the others get jobs of their
own when it runs.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support import pod_group, pods
from tests.support.world import World

_GANG: Final = "slurm-pod-scheduler/gang"
pytestmark = [pytest.mark.flags("--gang-linger=2s")]


@pytest.fixture
async def defined(world: World) -> None:
    """The API server has the PodGroups of scheduler-plugins."""
    await pod_group.define(world)


@pytest.mark.live_on("26.05")
@pytest.mark.usefixtures("defined")
async def test_pods_beyond_min_member_get_jobs_of_their_own(world: World) -> None:
    member = await pod_group.create(world, "trio", size=2)
    await three_pods_of_which_two_are_the_gang(world, member)


@pytest.mark.live_on("26.05")
@pytest.mark.usefixtures("defined")
async def test_phase_of_a_pod_group_follows_its_gang(world: World) -> None:
    member = await pod_group.create(world, "trio", size=2)
    await world.create("trio-0", cpus="1", memory="100Mi", **member)

    async def says(wanted: str) -> bool:
        found = await world.kube.get("podgroups", "trio", namespace=world.namespace)
        return pod_group.phase(found) == wanted

    await world.until("its PodGroup waits", lambda: says("Pending"))
    await world.create("trio-1", cpus="1", memory="100Mi", **member)
    for number in range(2):
        await world.running(f"trio-{number}")
    await world.until("its PodGroup runs", lambda: says("Running"))


async def three_pods_of_which_two_are_the_gang(world: World, member: dict[str, Any]) -> None:
    """Three pods of a PodGroup of two come, go and end."""
    for number in range(3):
        await world.create(f"trio-{number}", cpus="1", memory="100Mi", **member)
    first, second, third = [await world.running(f"trio-{it}") for it in range(3)]
    gang, single = await world.placeholder(first), await world.placeholder(third)
    assert pods.annotation(second, pods.JOB_ID) == str(gang.job_id)
    assert gang.tag["uids"] == [it["metadata"]["uid"] for it in (first, second)]
    assert single.tag["uids"] == [third["metadata"]["uid"]]
    assert pods.annotation(third, _GANG) == "none"

    world.scheduler.kill()
    world.scheduler.start()
    await world.delete("trio-1")
    await world.gone("trio-1")
    await world.create("trio-1", cpus="1", memory="100Mi", **member)
    again = await world.running("trio-1")
    assert pods.annotation(again, pods.JOB_ID) == str(gang.job_id)
    assert pods.node_of(again) == pods.node_of(second)

    await world.slurm.cancel(gang.job_id)
    await world.gone("trio-0")
    await world.gone("trio-1")
    world.unharmed(third)
    assert [it.job_id for it in await world.slurm.live_placeholders(world.namespace)] == [
        single.job_id
    ]
    await world.delete("trio-2")
    await world.job_ended(single.job_id, state="CANCELLED")
    await world.nothing_left()
