"""Pods of a PodGroup beyond those that start together, in the whole service: each gets a job of its
own once the gang runs, and keeps it.
"""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from scheduler.core.gang_objects import PluginsPodGroup, PluginsPodGroupSpec
from scheduler.core.naming import BESIDE_GANG, GANG, JOB_ID
from scheduler.core.owner_tag import OwnerTag, read_tag
from scheduler.kube.errors import KubeInterrupted
from slurmapi import BaseState
from tests.unit.service.test_gang_patience import (
    LABEL,
    META,
    OF_KUBERNETES,
    OF_PLUGINS,
    in_group,
    said,
)
from tests.unit.service.test_gangs import FAILED, runs
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
WAITS: Final = (
    "WaitsForGang: Gang ring has its 2 pods without this one, which gets a Slurm job of its own as "
    "soon as the gang runs"
)
BOTH: Final = pytest.mark.parametrize(
    ("own", "group"), [(False, OF_PLUGINS), (True, OF_KUBERNETES)]
)


def tag_of(slurm: TinySlurm, job_id: int) -> OwnerTag:
    tag = read_tag(slurm.submissions[job_id].admin_comment)
    assert tag is not None
    return tag


async def gang_runs(
    slurm: TinySlurm, kube: TinyKube, service: Service, *, own: bool = False
) -> int:
    """Two of three pods are the gang, and run; the third one has just got a job. Its id."""
    service.start()
    for number in (0, 1, 2):
        in_group(kube, number, own=own)
    await asyncio.sleep(5)
    await runs(slurm, 1)
    (job_id,) = set(slurm.submissions) - {1}
    return job_id


@BOTH
async def test_pod_beyond_gets_a_job_of_its_own_when_the_gang_runs(
    slurm, kube, service, own, group
):
    kube.groups["ring"] = group
    service.start()
    for number in (2, 0, 1):
        in_group(kube, number, own=own)
    await asyncio.sleep(5)
    assert tag_of(slurm, 1).uids == ("uid-0", "uid-1")
    assert slurm.calls["submit"] == 1
    assert said(kube, "uid-2") == WAITS
    assert JOB_ID not in kube.pods["uid-2"].metadata.annotations
    await runs(slurm, 1)
    assert dict(kube.bindings) == {"uid-0": "n1", "uid-1": "n2"}
    assert tag_of(slurm, 2).uids == ("uid-2",)
    assert tag_of(slurm, 2).key == "uid-2"
    await runs(slurm, 2, "n1")
    assert dict(kube.bindings)["uid-2"] == "n1"
    noted = kube.pods["uid-2"].metadata.annotations
    assert (noted[JOB_ID], noted[GANG]) == ("2", BESIDE_GANG)
    # The gang's end is none of its business, nor its own end the gang's.
    slurm.end(1, BaseState.PREEMPTED)
    await asyncio.sleep(10)
    assert sorted(kube.deleted) == ["uid-0", "uid-1"]
    assert slurm.live(2)


async def test_each_further_pod_of_a_gang_that_runs_gets_a_job(slurm, kube, service):
    kube.groups["ring"] = OF_PLUGINS
    await gang_runs(slurm, kube, service)
    for number in (3, 4):
        in_group(kube, number)
    await asyncio.sleep(5)
    assert sorted(tag_of(slurm, job_id).uids for job_id in slurm.submissions if job_id > 2) == [
        ("uid-3",),
        ("uid-4",),
    ]


async def test_next_process_knows_who_is_served_beside_the_gang(slurm, kube):
    kube.groups["ring"] = OF_PLUGINS
    first = Service(slurm, kube)
    job_id = await gang_runs(slurm, kube, first)
    await first.kill()
    kube.relist()
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(5)
    # A slot becomes free: it is none for the pod that has a job.
    kube.report("uid-1", FAILED)
    await asyncio.sleep(5)
    await runs(slurm, job_id, "n1")
    assert dict(kube.bindings)["uid-2"] == "n1"
    in_group(kube, 1, uid="anew")
    await asyncio.sleep(5)
    assert dict(kube.bindings)["anew"] == "n2"
    assert slurm.calls["submit"] == 2
    assert kube.deleted == []
    second.unharmed()
    await second.kill()


async def test_answer_to_the_note_is_lost_and_the_pod_is_served_all_the_same(slurm, kube, service):
    kube.groups["ring"] = OF_PLUGINS
    service.start()
    for number in (0, 1, 2):
        in_group(kube, number)
    await asyncio.sleep(5)
    kube.fail["patch"].append(KubeInterrupted("the answer was lost"))
    await runs(slurm, 1)
    await asyncio.sleep(5)
    assert [tag_of(slurm, it).uids for it in slurm.submissions] == [("uid-0", "uid-1"), ("uid-2",)]


async def test_note_that_is_refused_holds_up_no_pod_and_comes_with_the_binding(
    slurm, kube, service
):
    kube.groups["ring"] = OF_PLUGINS
    service.start()
    for number in (0, 1, 2):
        in_group(kube, number)
    await asyncio.sleep(5)
    kube.refuses["patch"] = "no"
    await runs(slurm, 1)
    await asyncio.sleep(5)
    await runs(slurm, 2, "n1")
    assert dict(kube.bindings)["uid-2"] == "n1"
    assert kube.pods["uid-2"].metadata.annotations[GANG] == BESIDE_GANG


async def test_pod_that_says_itself_that_it_is_beside_its_gang_harms_no_other(slurm, kube, service):
    """It gets a job for itself alone, and the gang is formed by the others."""
    kube.groups["ring"] = OF_PLUGINS
    service.start()
    forged = {GANG: BESIDE_GANG, JOB_ID: "4711"}
    kube.create("forger", name="ring-9", labels={LABEL: "ring"}, annotations=forged)
    for number in (0, 1):
        in_group(kube, number)
    await asyncio.sleep(5)
    tags = sorted(tag_of(slurm, it).uids for it in slurm.submissions)
    assert tags == [("forger",), ("uid-0", "uid-1")]


async def test_pod_takes_the_place_of_one_that_goes_before_the_gang_has_started(
    slurm, kube, service
):
    kube.groups["ring"] = OF_PLUGINS
    service.start()
    for number in (0, 1, 2):
        in_group(kube, number)
    await asyncio.sleep(5)
    kube.force_delete("uid-1")
    await asyncio.sleep(2)
    await runs(slurm, 1)
    assert dict(kube.bindings) == {"uid-0": "n1", "uid-2": "n2"}
    assert kube.pods["uid-2"].metadata.annotations[GANG] == tag_of(slurm, 1).key
    assert slurm.calls["submit"] == 1


async def test_pods_that_are_left_when_the_gang_has_gone_are_the_next_one(slurm, kube, service):
    """Before it has started, all its pods are deleted at once."""
    kube.groups["ring"] = OF_PLUGINS
    service.start()
    for number in range(5):
        in_group(kube, number)
    await asyncio.sleep(5)
    for number in (0, 1, 2):
        kube.force_delete(f"uid-{number}")
    await asyncio.sleep(2)
    await runs(slurm, 1)
    assert dict(kube.bindings) == {"uid-3": "n1", "uid-4": "n2"}


async def test_pod_beyond_may_ask_for_anything(slurm, kube, service):
    """It belongs to no gang, so it need not be like its pods."""
    kube.groups["ring"] = OF_PLUGINS
    service.start()
    for number in (0, 1):
        in_group(kube, number)
    other = {"sunk.coreweave.com/partition": "other", "sunk.coreweave.com/comment": "x"}
    kube.create("uid-2", name="ring-2", labels={LABEL: "ring"}, annotations=other)
    kube.create(
        "uid-3",
        name="ring-3",
        labels={LABEL: "ring"},
        annotations={"sunk.coreweave.com/timeout": "soon"},
    )
    await asyncio.sleep(5)
    assert said(kube, "uid-2") == said(kube, "uid-3") == WAITS
    await runs(slurm, 1)
    assert dict(kube.bindings) == {"uid-0": "n1", "uid-1": "n2"}
    assert [slurm.submissions[it].partition for it in slurm.submissions] == [None, "other"]
    assert said(kube, "uid-3").startswith("SchedulingFailed")


async def test_gang_starts_when_enough_pods_exist_whatever_numbers_they_have(slurm, kube, service):
    kube.groups["ring"] = PluginsPodGroup(META, PluginsPodGroupSpec(min_member=3))
    service.start()
    for number in (9998, 9999):
        in_group(kube, number)
    await asyncio.sleep(3)
    assert said(kube, "uid-9998").startswith(
        "GangIncomplete: Gang ring (2 of 3 pods exist): waiting for 1 more pod."
    )
    in_group(kube, 9997)
    await asyncio.sleep(3)
    assert set(tag_of(slurm, 1).uids) == {"uid-9997", "uid-9998", "uid-9999"}
