"""What a tenant's pods cost the process, whatever is written into them (I13)."""

from __future__ import annotations

import asyncio

import pytest

from annotations import PREFIX, Problem
from scheduler.execute.tell import problems_text
from scheduler.kube.clip import MOST_TEXT_BYTES
from scheduler.kube.slim import MOST_POD_BYTES
from scheduler.observe.wake import WakeCause
from scheduler.state.units import Unit
from slurmapi import SlurmInvalid
from tests.support.costs import least_cpu_seconds, measured
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"
EDITS = 300
SIZE = 200_000


@pytest.mark.parametrize("key", ["someone.else/data", f"{PREFIX}comment"])
async def test_edits_without_end_leave_nothing_behind(
    service: Service, kube: TinyKube, key: str
) -> None:
    """1000 edits of a foreign annotation of 250 kB took 244 MiB."""
    kube.create(UID)
    service.start()
    await asyncio.sleep(5)
    kube.edit(UID, {key: "x" * SIZE})
    await asyncio.sleep(1)
    with measured() as cost:
        for number in range(EDITS):
            kube.edit(UID, {key: f"{number:04}" * (SIZE // 4)})
            await asyncio.sleep(0.1)
    # The Events that tell of it are the recorder's, which in this service are all kept.
    assert cost.kept_bytes < 2 * SIZE + MOST_POD_BYTES + EDITS * 2 * MOST_TEXT_BYTES


async def test_nodes_that_slurm_does_not_let_be_excluded_are_not_kept_by_name(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    """They may be 4096, and were kept of each pod whose update Slurm had refused."""
    kube.create(UID, annotations={f"{PREFIX}excluded-nodes": "node-[1-4096]"})
    service.start()
    await asyncio.sleep(5)
    unit = service.units.get(UID)
    assert unit is not None
    slurm.fail["update"].extend(SlurmInvalid("no", error_number=2014, status=422) for _ in range(9))
    with measured() as cost:
        unit.asked.exclusions.add("n1", "it is cordoned", now=asyncio.get_running_loop().time())
        service.queue.add(UID, WakeCause.WATCH)
        await asyncio.sleep(60)
    assert unit.refusals.readmit.count > 0
    # The Events that tell of it are the recorder's, which in this service are all kept.
    assert cost.kept_bytes < MOST_POD_BYTES


async def test_condition_of_a_pod_with_a_thousand_faults_is_short(
    service: Service, kube: TinyKube
) -> None:
    faults = {f"{PREFIX}no-such-{number}": "ä" * 200 for number in range(60)}
    kube.create(UID, annotations=faults)
    service.start()
    await asyncio.sleep(5)
    (told,) = [it for _, patch in kube.patches for it in patch]
    assert len(told.message.encode()) <= MOST_TEXT_BYTES
    assert "SchedulingFailed" in service.recorder.reasons(UID)


def test_eight_faults_are_told_and_the_others_counted() -> None:
    faults = [Problem("key", str(number), "less") for number in range(60)]
    text = problems_text(faults)
    assert [number for number in range(60) if f"'{number}'" in text] == list(range(8))
    assert "; and 52 more." in text


@pytest.mark.parametrize(
    ("fields", "tail"),
    [
        (["spec.hostPID"], ". Recreate the pod, because its spec cannot be corrected in place"),
        (["spec.hostPID", f"{PREFIX}qos"], ". Annotations can be corrected in place, for anything"),
    ],
)
def test_remedy_fits_the_fields_that_are_wrong(fields: list[str], tail: str) -> None:
    assert tail in problems_text([Problem(it, "true", "false") for it in fields])


async def test_oversized_pod_is_refused_in_words_and_gets_no_job(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    kube.create(UID, selector={f"key-{number}": "v" for number in range(400)})
    kube.create("calm", name="calm")
    service.start()
    await asyncio.sleep(5)
    assert [job.name for job in slurm.jobs.values()] == ["ns.calm.calm"]
    messages = [it.message for uid, patch in kube.patches if uid == UID for it in patch]
    assert messages
    assert "800 keys and values; expected at most 512" in messages[-1].replace("'", "")


async def test_faults_of_a_hostile_pod_are_found_in_little_time(
    service: Service, kube: TinyKube
) -> None:
    """Guessing what each of many unknown annotations means took a millisecond for each."""
    kube.create("calm", name="calm", annotations={f"{PREFIX}no-such": "x"})
    service.start()
    await asyncio.sleep(2)
    pod = kube.store.get("calm")
    unit = service.units.get("calm")
    assert pod is not None
    assert unit is not None
    kube.create(UID, annotations={f"{PREFIX}n-{number}": "x" for number in range(150)})
    await asyncio.sleep(0.02)
    hostile = service.newcomers.unit(UID)
    assert hostile is not None
    service.reader.use_kill_wait(30)

    def cost(of: Unit) -> float:
        def look() -> None:
            for _ in range(10):
                service.reader.use_kill_wait(30)
                service.gatherer.facts(of)

        return least_cpu_seconds(look)

    assert cost(hostile) < 30 * cost(unit)
